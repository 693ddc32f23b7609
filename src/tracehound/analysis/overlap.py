"""Overlap of two groups of work: communication hidden behind computation, or any two groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.analysis_settings import Setting
from tracehound.analysis.devices.kernel_classes import CUSTOM_CLASSES, intervals_per_group, parse_work_group
from tracehound.analysis.devices.missing_data import count_concurrent_executions, merged_devices_notes
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, concat_tables, empty_result, make_result
from tracehound.model.notes import note
from tracehound.numeric.intervals import intersect

DEFINITION = """\
Per rank: first = time in which work of the first group runs on any stream, second = the same for the second group,
both = time in which both run at once. All are lengths of unions of intervals, on TPUs on the device's own clock.
hidden = both / first, exposed = first - both. By default the first group is communication and the second is
computation. The row of rank "all" (null in json) has the sums over all ranks: leave it out of sums of your own.

A group is a type of work (computation, communication, memory), a class of kernels as in the analysis kernels (gemm,
attention, collective, ...), an HLO category, or a regular expression that is searched in the names of kernels or HLO
ops, ignoring case. Work in both groups counts only for the first: with first=gemm, computation is everything but
GEMMs. HLO ops of a TPU follow one another on one line, on which nothing overlaps: an asynchronous collective counts
there with its start and its done, and the timeline has the time between them on the line of asynchronous ops.

HolisticTraceAnalysis' communication computation overlap is hidden, for the run without its last profiler step.
TraceLens has the same as 1 - exposed_comm_time / total_comm_time."""

FIRST_SETTING: Final = Setting(
    "first", "communication", "the group of which we ask how much is hidden", parse_work_group
)
SECOND_SETTING: Final = Setting("second", "computation", "the group that hides it", parse_work_group)

COLUMNS = (
    Column("rank", "count", "rank; all: the sum of all ranks", null_text="all"),
    Column("first", "time", "work of the first group runs"),
    Column("second", "time", "work of the second group runs"),
    Column("both", "time", "work of both runs at once"),
    Column("hidden", "share", "both run at once", "the time of the first group"),
    Column("exposed", "time", "work of the first group runs, and none of the second"),
    Column("covered", "share", "both run at once", "the time of the second group", brief=False),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """One row, in ps; none without work of either group."""
    first, second = intervals_per_group(
        rank_trace,
        [FIRST_SETTING.value_in(options.given), SECOND_SETTING.value_in(options.given)],
        CUSTOM_CLASSES.value_in(options.given),
    )
    lengths = {"first": first.length, "second": second.length, "both": intersect(first, second).length}
    lengths["beside"] = count_concurrent_executions(rank_trace)
    table = pl.DataFrame([{"rank": rank_trace.rank, **lengths}], schema=dict.fromkeys(("rank", *lengths), pl.Int64))
    return table.filter((pl.col("first") > 0) | (pl.col("second") > 0))


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """All ranks together, then a row per rank."""
    first, second = (setting.value_in(options.given).text for setting in (FIRST_SETTING, SECOND_SETTING))
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, note("no_work_of_groups", first=first, second=second))
    rows = rows.sort("rank")
    summed = rows.select(pl.lit(None, pl.Int64).alias("rank"), pl.col("first", "second", "both", "beside").sum())
    table = (pl.concat([summed, rows]) if len(tables) > 1 else rows).with_columns(
        (pl.col("both") / pl.col("first")).fill_nan(None).alias("hidden"),
        (pl.col("both") / pl.col("second")).fill_nan(None).alias("covered"),
        (pl.col("first") - pl.col("both")).alias("exposed"),
    )
    totals = summed.row(0, named=True)
    if not totals["first"]:
        return make_result(ANALYSIS, table, context, options, [note("no_work_of_group", group=first)])
    overlap_note = note("group_overlapped", share=totals["both"] / totals["first"], group=first, by=second)
    on_tpus = context.ranks["label"].str.starts_with("TPU").any()
    merged_device_notes = merged_devices_notes(rows, "hidden")
    return make_result(
        ANALYSIS,
        table,
        context,
        options,
        [*(merged_device_notes or [overlap_note]), *([note("tpu_ops_in_sequence")] if on_tpus else [])],
    )


ANALYSIS = Analysis(
    name="overlap",
    title="Overlap",
    question="How much communication is hidden behind computation, or of one group of kernels behind another?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    device_ops_only=True,
    settings=(FIRST_SETTING, SECOND_SETTING, CUSTOM_CLASSES),
)
