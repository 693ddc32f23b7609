"""Kernels, HLO ops or operators by time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import polars as pl

from tracehound.analysis.devices.sparse_cores import MAIN_CORE, core_type_column, sparse_core_ops
from tracehound.analysis.rank_trace import RankTrace, RunContext, overlapping_events
from tracehound.analysis.result import (
    JOINED_EVENTS,
    Analysis,
    Column,
    Options,
    Result,
    collect_counted_events,
    empty_result,
    fraction_of,
    make_result,
    merge_in_turn,
)
from tracehound.analysis.timing.device_clock import (
    DEVICE_TIMES,
    device_time_bounds,
    has_device_clock,
    idle_window_length,
    measure_events,
    time_outside_work,
    xprof_idle_notes,
)
from tracehound.model.notes import Note, note
from tracehound.model.stacked_frames import stacks_of
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import union

DEFINITION = """\
Rows are the HLO ops of each device (TPU, GPU, CPU) in an XLA profile, or the kernels, copies and memsets on the
streams in a PyTorch trace. If no device was recorded, they are the operators on host threads. total = sum of lengths,
self = total - time of nested ops (equal to total for kernels), mean = total / count. share is self / sum of self over
all rows. time share is self / device time, summed over ranks; device time is from the first to the last work of a
rank, idle included, or the window. This is XProf's "Total self time (%)" of hlo_stats, except that XProf also counts
the time of a device's line Steps outside of all ops; a note has what is idle then.

On TPUs lengths are on the device's own clock, as in XProf. On CPUs an HLO op lasts until its end mark, if there is
one, but no longer than until the first op of the same run begins that needs its result. On GPUs every kernel with an
op's name counts as one execution of it, as in XProf's occurrences. Kernels that overlap on different streams each
count in full, so time shares can add up to more than the busy time. Ops of a TPU's SparseCores (embeddings,
collectives that are offloaded to them) have rows of their own, with SparseCore in the column core. They run beside the
ops of the TensorCore, and make no device busy."""

COLUMNS = (
    Column("name", "text", "kernel, HLO op or operator"),
    Column("category", "text", "kind of kernel, or HLO category"),
    Column("module", "text", "XLA module that the op belongs to", brief=False),
    Column("program", "text", "id of the module's program", brief=False),
    Column("core", "text", "SparseCore for ops that run on one, beside those of the TensorCore"),
    Column("count", "count", "executions; for an HLO op on a GPU its kernels"),
    Column("self", "time", "total - time of nested ops"),
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
"""Kinds of counted events: HLO ops, else work on streams (kernels, copies, memsets), else operators of the host."""

_OP_KEY = ("name", "category", "module", "program", "core")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row per op: counts and ps; every row also has the rank's device time and busy time.

    A device without work in the window has one row without an op, since its time counts as idle.
    """
    events, op_kind = select_ops(rank_trace)
    beside = sparse_core_ops(rank_trace, *_EVENT_COLUMNS)
    if beside.height and op_kind == OPERATORS:
        events, op_kind = events.clear(), HLO_OPS
    device_time, busy_time = _device_time(events, rank_trace)
    outside = time_outside_work(events, rank_trace)
    table = _sum_ops(pl.concat([events, beside]).sort("id") if beside.height else events, rank_trace, options)
    is_idle = table.is_empty() and idle_window_length(rank_trace) > 0
    return (table.clear(1) if is_idle else table).with_columns(
        pl.lit(device_time, pl.Int64).alias("span"),
        pl.lit(busy_time, pl.Int64).alias("used"),
        pl.lit(outside, pl.Int64).alias("outside"),
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.lit(op_kind).alias("what"),
    )


def _sum_ops(events: pl.DataFrame, rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row per op of these events, which are sorted by id."""
    rows = measure_events(events, rank_trace.start, rank_trace.end)
    rows = rows.select("id", "lane", "name", "kind", "op", "length", "own")
    longest = pl.col("length").arg_max()  # the first of several
    executions = rows.group_by("name", "kind", "op", core_type_column(rank_trace)).agg(
        pl.len().alias("count"),
        pl.col("own").sum().alias("self"),
        pl.col("length").sum().alias("total"),
        pl.col("length").min().alias("min"),
        pl.col("length").max().alias("max"),
        pl.col("id").get(longest).alias("event"),
        *collect_counted_events(options),
    )
    described = executions.join(
        rank_trace.ops.select("op", pl.col("category").alias("hlo"), "module", "program"), on="op", how="left"
    ).select(
        pl.col("name").cast(pl.String),
        pl.coalesce(pl.col("hlo"), pl.col("kind").cast(pl.String)).alias("category"),
        "module",
        "program",
        pl.col("core").replace(MAIN_CORE, None),
        pl.exclude("name", "kind", "op", "hlo", "module", "program", "core"),
    )
    if rank_trace.ops.is_empty():  # the kind is the category
        return described
    return described.group_by(_OP_KEY).agg(
        pl.col("count", "self", "total").sum(),
        pl.col("min").min(),
        pl.col("event").sort_by("max", "event", descending=[True, False]).first(),
        pl.col("max").max(),
        JOINED_EVENTS,
    )


_EVENT_COLUMNS = ("id", "lane", "start", "end", "name", "kind", "op", "parent", "self", "device_start", "device_end")


def select_ops(rank_trace: RankTrace) -> tuple[pl.DataFrame, str]:
    """The counted events, sorted by id, and their kind."""
    device = rank_trace.lanes.filter(pl.col("rank").is_not_null())
    ops = device.filter(pl.col("role") == "ops")
    streams = device.filter(pl.col("work"))
    if ops.height:
        events, op_kind = rank_trace.device.filter(pl.col("lane").is_in(ops["lane"].to_list())), HLO_OPS
    elif streams.height:
        events, op_kind = rank_trace.device.filter(pl.col("lane").is_in(streams["lane"].to_list())), KERNELS
    else:
        threads = (
            overlapping_events(rank_trace.threads, rank_trace.start, rank_trace.end)
            if rank_trace.windowed
            else rank_trace.threads
        )
        events, op_kind = threads.filter(pl.col("kind").is_in(["op", "collective"])), OPERATORS
    return collect_frame(events.select(*_EVENT_COLUMNS)), op_kind


def _device_time(events: pl.DataFrame, rank_trace: RankTrace) -> tuple[int, int]:
    """Device time of the rank, idle included, and its busy time; ps.

    On streams copies and kernels without an op count as work, too.
    """
    streams = rank_trace.lanes.filter(pl.col("work") & (pl.col("role") == "stream"))["lane"]
    if len(streams) and not events["lane"].is_in(streams.implode()).any():
        events = collect_frame(
            rank_trace.device.filter(pl.col("lane").is_in(streams.to_list())).select(*_EVENT_COLUMNS)
        )
    low, high = device_time_bounds(events, rank_trace)
    sides = DEVICE_TIMES if has_device_clock(events) else ("start", "end")
    start, end = (events[side].clip(low, high).to_numpy() for side in sides)
    return high - low, union(start, end).length


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per op over all ranks, the largest self time first."""
    counted, kind = pl.col("count").is_not_null(), pl.col("what")
    times_of_ranks = [
        table.group_by("rank").agg(pl.col("span", "used", "outside").first(), kind.filter(counted).first())
        for table in stacks_of(tables)
        if table.height
    ]
    if not times_of_ranks:
        return empty_result(ANALYSIS, context, options, note("no_ops", level="missing"))
    times = pl.concat(times_of_ranks)
    device_time, busy_time = int(times["span"].sum()), int(times["used"].sum())
    op_kinds = times["what"].drop_nulls().unique().sort().to_list()
    if not op_kinds:
        return empty_result(ANALYSIS, context, options, note("no_ops_in_window"), _idle_note(device_time, busy_time))
    of_ranks = (
        _sum_ranks(table.filter(counted), pl.col("rank").n_unique()) for table in stacks_of(tables) if table.height
    )
    rows = merge_in_turn(of_ranks, partial(_sum_ranks, ranks=pl.col("ranks").sum()))
    total_self = int(rows["self"].sum())
    table = rows.with_columns(
        fraction_of("self", total_self).alias("share"),
        fraction_of("self", 0 if op_kinds == [OPERATORS] else device_time).alias("time_share"),
        (pl.col("total") / pl.col("count")).round().cast(pl.Int64).alias("mean"),
        pl.col("program").reinterpret(signed=False).cast(pl.String),
    ).sort("self", *_OP_KEY, descending=[True, *[False] * len(_OP_KEY)])
    notes = [note("ops_counted", what=tuple(op_kinds), ranks=times.height)]
    if device_time and op_kinds != [OPERATORS]:
        notes.append(_idle_note(device_time, busy_time))
        notes += xprof_idle_notes(device_time - busy_time, device_time, int(times["outside"].sum()))
    return make_result(ANALYSIS, table, context, options, notes)


def _sum_ranks(rows: pl.DataFrame, ranks: pl.Expr) -> pl.DataFrame:
    """A row per op of several ranks, with the number of `ranks`, and the first rank with the longest execution."""
    longest = pl.struct("event", "rank").sort_by("max", "rank", descending=[True, False]).first()
    return (
        rows.group_by(_OP_KEY)
        .agg(
            pl.col("count", "self", "total").sum(),
            pl.col("min").min(),
            pl.col("max").max(),
            longest.alias("longest"),
            ranks.cast(pl.Int64).alias("ranks"),
            JOINED_EVENTS,
        )
        .unnest("longest")
    )


def _idle_note(device_time: int, busy_time: int) -> Note:
    return note("device_idle", idle=device_time - busy_time, of=device_time)


ANALYSIS = Analysis(
    name="ops",
    title="Ops",
    question="Which kernels or HLO ops take the time?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    device_ops_only=True,
)
