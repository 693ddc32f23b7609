"""Which kernels, HLO ops or operators take the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.events.core_time import core_time, rest_time
from tracehound.analysis.events.measured import measured
from tracehound.analysis.events.own_clock import CLOCKED, has_clock
from tracehound.analysis.members import JOINED, gathered
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    Scene,
    Share,
    answer,
    share_of,
    stacked,
    without,
)
from tracehound.analysis.share import overlapping
from tracehound.intervals import union
from tracehound.notes import Note, note
from tracehound.trace import collected

DEFINITION = """\
What is counted: the HLO ops of each device (TPU, GPU, CPU) of an XLA profile; the kernels, copies and memsets on the
device's streams of a PyTorch trace; and where no device was recorded, the operators on the host's threads. total =
sum of lengths, self = total less the time in ops nested inside (for kernels the same), mean = total / count. "of ops"
is self / sum of self over all rows; "of time" is self / sum over ranks of the time from the first to the last work of
the rank, idle included (or of the window): XProf's "Total self time (%)" of hlo_stats. On TPUs lengths are those of
the device's own clock, as in XProf. On CPUs an HLO op lasts until its end mark, where there is one, but no longer
than until the first op of the same run begins that needs its result. On GPUs every kernel that carries an op's name
counts as one execution of it, as in XProf's occurrences. Kernels that overlap on different streams each count in
full, so "of time" can add up to more than the busy time. Ops of a TPU's SparseCores are in no row and keep no device
busy, as in XProf."""

COLUMNS = (
    Column("name", "text", "kernel, HLO op or operator"),
    Column("category", "text", "kind of kernel, or HLO category"),
    Column("module", "text", "XLA module that the op belongs to", brief=False),
    Column("program", "text", "id of the module's program", brief=False),
    Column("count", "count", "executions; of an HLO op on a GPU its kernels"),
    Column("self", "time", "length less the time of ops nested inside"),
    Column("share", "share", "self time", "the self time of all ops"),
    Column("time_share", "share", "self time", "device time, idle included", brief=False),
    Column("total", "time", "sum of lengths", brief=False),
    Column("mean", "time", "total / count"),
    Column("min", "time", "shortest", brief=False),
    Column("max", "time", "longest", brief=False),
    Column("ranks", "count", "ranks on which it ran", brief=False),
    Column("event", "id", "the longest execution"),
)

HLO_OPS: Final = "hlo_ops"
KERNELS: Final = "kernels"
OPERATORS: Final = "operators"
"""What is counted: HLO ops, else what runs on streams (kernels, copies and memsets), else operators of the host."""

_KEY = ("name", "category", "module", "program")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row per op: counts and ps, and on every row the rank's device time and busy time.

    Of a device that does nothing in the window there is one row without an op, since its time counts as idle.
    """
    events, what = counted(share)
    low, high = share.start, share.end
    rows = measured(events, low, high)
    span, used = _span(events, share)
    longest = pl.col("length").arg_max()  # of several the first
    executions = rows.group_by("name", "kind", "op").agg(
        pl.len().alias("count"),
        pl.col("own").sum().alias("self"),
        pl.col("length").sum().alias("total"),
        pl.col("length").min().alias("min"),
        pl.col("length").max().alias("max"),
        pl.col("id").get(longest).alias("event"),
        *gathered(options),
    )
    described = executions.join(
        share.ops.select("op", pl.col("category").alias("hlo"), "module", "program"), on="op", how="left"
    ).with_columns(
        pl.coalesce(pl.col("hlo"), pl.col("kind").cast(pl.String)).alias("category"),
        pl.col("name").cast(pl.String),
    )
    found = described.group_by(_KEY).agg(
        pl.col("count", "self", "total").sum(),
        pl.col("min").min(),
        pl.col("event").sort_by("max", "event", descending=[True, False]).first(),
        pl.col("max").max(),
        JOINED,
    )
    rests = found.is_empty() and rest_time(share) > 0
    return (found.clear(1) if rests else found).with_columns(
        pl.lit(span, pl.Int64).alias("span"),
        pl.lit(used, pl.Int64).alias("used"),
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(what).alias("what"),
    )


_COUNTED = ("id", "lane", "start", "end", "name", "kind", "op", "parent", "self", "device_start", "device_end")


def counted(share: Share) -> tuple[pl.DataFrame, str]:
    """The events that are counted, sorted by id, and what they are."""
    device = share.lanes.filter(pl.col("rank").is_not_null())
    ops = device.filter(pl.col("role") == "ops")
    streams = device.filter(pl.col("work"))
    if ops.height:
        events, what = share.device.filter(pl.col("lane").is_in(ops["lane"].to_list())), HLO_OPS
    elif streams.height:
        events, what = share.device.filter(pl.col("lane").is_in(streams["lane"].to_list())), KERNELS
    else:
        threads = overlapping(share.threads, share.start, share.end) if share.windowed else share.threads
        events, what = threads.filter(pl.col("kind").is_in(["op", "collective"])), OPERATORS
    return collected(events.select(*_COUNTED)), what


def _span(events: pl.DataFrame, share: Share) -> tuple[int, int]:
    """Device time of the rank, idle included, and the part of it in which it works; ps.

    On streams copies and kernels without an op are work, too.
    """
    streams = share.lanes.filter(pl.col("work") & (pl.col("role") == "stream"))["lane"]
    if len(streams) and not events["lane"].is_in(streams.implode()).any():
        events = collected(share.device.filter(pl.col("lane").is_in(streams.to_list())).select(*_COUNTED))
    low, high = core_time(events, share)
    sides = CLOCKED if has_clock(events) else ("start", "end")
    start, end = (events[side].clip(low, high).to_numpy() for side in sides)
    return high - low, union(start, end).length


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per op over all ranks, the largest self time first."""
    ranks = stacked(tables)
    if ranks.is_empty():
        return without(ANALYSIS, scene, options, note("no_ops", level="missing"))
    rows = ranks.filter(pl.col("count").is_not_null())
    per_rank_time = ranks.group_by("rank").agg(pl.col("span").first(), pl.col("used").first())
    span, used = int(per_rank_time["span"].sum()), int(per_rank_time["used"].sum())
    if rows.is_empty():
        return without(ANALYSIS, scene, options, note("no_ops_in_window"), _idle(span, used))
    whole, what = int(rows["self"].sum()), rows["what"].unique().sort().to_list()
    table = (
        rows.group_by(_KEY)
        .agg(
            pl.col("count", "self", "total").sum(),
            pl.col("min").min(),
            pl.col("event").sort_by("max", "rank", descending=[True, False]).first(),
            pl.col("max").max(),
            pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"),
            JOINED,
        )
        .with_columns(
            share_of("self", whole).alias("share"),
            share_of("self", 0 if what == [OPERATORS] else span).alias("time_share"),
            (pl.col("total") / pl.col("count")).round().cast(pl.Int64).alias("mean"),
            pl.col("program").reinterpret(signed=False).cast(pl.String),
        )
        .sort("self", *_KEY, descending=[True, *[False] * len(_KEY)])
    )
    notes = [note("ops_counted", what=tuple(what), ranks=per_rank_time.height)]
    if span and what != [OPERATORS]:
        notes.append(_idle(span, used))
    return answer(ANALYSIS, table, scene, options, notes)


def _idle(span: int, used: int) -> Note:
    return note("device_idle", idle=span - used, of=span)


ANALYSIS = Analysis(
    name="ops",
    title="Ops",
    question="Which kernels or HLO ops take the time?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    of_devices=True,
)
