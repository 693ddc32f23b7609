"""Busy time of devices by type: computation, communication, memory, and their overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.kernel_classes import CUSTOM_CLASSES, WORK_TYPES, intervals_per_group, parse_work_group
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, concat_tables, empty_result, make_result
from tracehound.model.notes import note
from tracehound.numeric.intervals import combination_lengths

DEFINITION = """\
At each instant at which a device is busy, only computation runs, only communication, only memory (copies, memsets,
transfers), or two or all three of them at once. time is the length of all such instants (of unions of intervals over
the streams of the rank), so the rows of a rank add up to its busy time, which is the base of share. On TPUs times are
on the device's own clock. The rows of rank "all" (null in json, left out in csv) are sums over all ranks: leave them
out of sums of your own.

HolisticTraceAnalysis' kernel type breakdown has these numbers summed over ranks, for the run without its last profiler
step. It tells types by name only: ROCm's copies that run as kernels count as computation, as do RCCL and the
collectives of inference engines, and kernels with "Sync" in their names count as none of the three. Here the category
of the event comes first, then the collective that the profiler recorded, then the name. The setting classes moves
kernels to another type: classes=communication:my_exchange."""

COLUMNS = (
    Column("rank", "count", "rank; all: the sum of all ranks", null_text="all"),
    Column("type", "text", "what runs at once"),
    Column("time", "time", "length of the instants at which just that runs"),
    Column("share", "share", "these instants", "the busy time of the rank"),
)

_TYPE_MIXES: Final = [
    " and ".join(name for bit, name in enumerate(WORK_TYPES) if mix >> bit & 1)
    for mix in range(1, 1 << len(WORK_TYPES))
]
"""Types that can run at once, in the order of `together`."""


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each mix of types that occurs; ps."""
    mix_lengths = combination_lengths(
        *intervals_per_group(
            rank_trace, [parse_work_group(name) for name in WORK_TYPES], CUSTOM_CLASSES.value_in(options.given)
        )
    )
    table = pl.DataFrame({"type": _TYPE_MIXES, "time": mix_lengths[1:]}, schema={"type": pl.String, "time": pl.Int64})
    return table.filter(pl.col("time") > 0).select(pl.lit(rank_trace.rank, pl.Int64).alias("rank"), "type", "time")


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The rows of all ranks together, then those of each rank; the longest first."""
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, note("no_device_work", level="missing"))
    summed = (
        rows.group_by("type").agg(pl.col("time").sum()).select(pl.lit(None, pl.Int64).alias("rank"), "type", "time")
    )
    table = pl.concat([summed, rows]) if len(tables) > 1 else rows
    with_share = table.with_columns((pl.col("time") / pl.col("time").sum().over("rank")).alias("share"))
    sorted_rows = with_share.sort("rank", "time", "type", descending=[False, True, False], nulls_last=False)
    return make_result(ANALYSIS, sorted_rows, context, options)


ANALYSIS = Analysis(
    name="kernel_types",
    title="Kernel types",
    question="What is the busy time made of: computation, communication, copies, and which of them at once?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    device_ops_only=True,
    settings=(CUSTOM_CLASSES,),
)
