"""Which sequences of kernels an operator launches, again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.events.busy import work
from tracehound.analysis.hosts.operator_tree import Tree, launchers, tree
from tracehound.analysis.hosts.threads import told_by_name
from tracehound.analysis.members import JOINED, gathered
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Setting, pattern, whole
from tracehound.intervals import Ints, Mask
from tracehound.notes import Note, note
from tracehound.units import short_name

OPERATOR: Final = Setting(
    "operator",
    ".",
    "the operators whose kernels are taken together: a regular expression; all: those at the top",
    pattern,
)
LENGTH: Final = Setting("length", "3", "shorter sequences are left out", whole)

DEFINITION = """\
The operators whose name the setting operator finds, but not those inside another such one, are the instances; by
default every operator that is in no other. A sequence is the kernels, copies and memsets launched from inside an
instance, in the order in which they began, over all streams, told by their short names; "x 3" stands for the same one
three times in a row. Rows are instances of one operator with one sequence; count says how many. kernels is the time of
the work, host that of the instances from call to return, span from the first start to the last end on the device, all
summed over them. share is kernels of all device time. With a window the work that runs in it counts, with the
instances that launched it; lengths are not clipped.

HolisticTraceAnalysis' frequent CUDA kernel sequences are these, for names that contain a text, at the least depth at
which such a name occurs on any thread; it needs the text, and one rank. Its GPU kernel duration is our kernels, its CPU
op duration our host."""

COLUMNS = (
    Column("operator", "text", "operator that launched it"),
    Column("sequence", "text", "kernels in their order"),
    Column("length", "count", "kernels in the sequence"),
    Column("count", "count", "how often"),
    Column("kernels", "time", "of the work on the device, over all instances"),
    Column("share", "share", "kernels", "the time of all work on the devices"),
    Column("span", "time", "from the first start to the last end on the device", brief=False),
    Column("host", "time", "of the operator, from call to return", brief=False),
    Column("ranks", "count", "ranks on which it ran", brief=False),
    Column("event", "id", "the instance with the most time of work"),
)

_KEY: Final = ("operator", "sequence", "length")
_SUMS: Final = ("count", "kernels", "span", "host")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each operator and sequence, in ps."""
    calls = tree(share)
    device = work(share, "launch", "external", "name").sort("start", "id")
    if not calls.operator.any() or device.is_empty():
        return pl.DataFrame()
    whole_time = int((device["end"] - device["start"]).sum())
    by = _instances(calls, _named(calls, options), launchers(calls, device))
    length = pl.col("end") - pl.col("start")
    instances = (
        device.with_columns(pl.Series("by", by), pl.col("name").to_physical().alias("code"))
        .filter(pl.col("by") >= 0)
        .group_by("by")
        .agg(
            pl.col("code", "name"),
            pl.len().cast(pl.Int64).alias("length"),
            length.sum().alias("kernels"),
            (pl.col("end").max() - pl.col("start").min()).alias("span"),
        )
        .filter(pl.col("length") >= LENGTH.of(options.given))
    )
    ops = calls.events[instances["by"].to_numpy()]
    return (
        instances.with_columns(
            ops["name"].cast(pl.String).alias("operator"), ops["id"], (ops["end"] - ops["start"]).alias("host")
        )
        .group_by("operator", "code", "length")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("kernels", "span", "host").sum(),
            pl.col("id").sort_by("kernels", "id", descending=[True, False]).first().alias("event"),
            pl.col("kernels").max().alias("most"),
            pl.col("name").first(),
            *gathered(options),
        )
        .with_columns(
            pl.col("name").cast(pl.List(pl.String)).map_elements(_told, pl.String).alias("sequence"),
            pl.lit(share.rank, pl.Int64).alias("rank"),
            pl.lit(whole_time, pl.Int64).alias("work"),
        )
        .drop("code", "name")
    )


def _named(calls: Tree, options: Options) -> Mask:
    """The operators that the caller means."""
    wanted = OPERATOR.of(options.given)
    chosen: Mask = calls.operator & (told_by_name(calls.events, lambda name, _: 1 if wanted.search(name) else None) > 0)
    return chosen


def _instances(calls: Tree, wanted: Mask, by: Ints) -> Ints:
    """For each launching operator the outermost wanted one at or around it, -1 where there is none."""
    caller = calls.caller
    found, at = np.full(len(by), -1, np.int64), by.copy()
    rest = np.flatnonzero(at >= 0)
    while len(rest):
        here = at[rest]
        found[rest] = np.where(wanted[here], here, found[rest])
        at[rest] = caller[here]
        rest = rest[at[rest] >= 0]
    return found


def _told(names: Sequence[str]) -> str:
    """Names in words, repetitions together."""
    told, count = [], 0
    names = [short_name(name) for name in names]
    for name, after in zip(names, [*names[1:], None], strict=True):
        count += 1
        if name != after:
            told.append(name if count == 1 else f"{name} x {count}")
            count = 0
    return " | ".join(told)


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per operator and sequence over all ranks, the most frequent first, then the longest on the device."""
    rows = stacked(tables)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, _why_empty(scene, options))
    whole_time = int(rows.group_by("rank").agg(pl.col("work").first())["work"].sum())
    table = (
        rows.group_by(_KEY)
        .agg(
            pl.col(_SUMS).sum(),
            pl.col("event").sort_by("most", "rank", descending=[True, False]).first(),
            pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"),
            JOINED,
        )
        .with_columns((pl.col("kernels") / whole_time if whole_time else pl.lit(None, pl.Float64)).alias("share"))
        .sort("count", "kernels", *_KEY, descending=[True, True, False, False, False])
    )
    return answer(ANALYSIS, table, scene, options)


def _why_empty(scene: Scene, options: Options) -> Note:
    if scene.xla:
        return note("no_sequences_in_xla_profile", level="missing")
    return note("no_sequences", length=LENGTH.of(options.given))


ANALYSIS = Analysis(
    name="sequences",
    title="Sequences",
    question="Which sequences of kernels does an operator launch again and again?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    settings=(LENGTH, OPERATOR),
)
