"""CUDA and HIP graphs: launches, kernels in each, and the time between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.rank_trace import RankTrace, RunContext, overlapping_events
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    collect_counted_events,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_busy import device_work
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import covered_lengths, union

DEFINITION = """\
A launch is a call of cudaGraphLaunch, cuGraphLaunch or hipGraphLaunch, with the kernels, copies and memsets that have
its correlation id. The profiler seldom tells which graph was launched, so launches on one rank with the same kernels
in the same order count as one graph, and have one row. nodes = those of one launch that ran on the device. device =
lengths of the nodes, summed over all launches. span = time from the first start to the last end of each launch,
summed. gaps = the part of the spans in which no node of any graph ran. call = time of the launching calls on the host.
share is device / all device time. A window takes launches whose span reaches into it: device, span and gaps are of the
part inside, nodes and call are of the whole launch. The captured operators are not recorded when a graph is launched:
nodes have only their kernels' names.

HolisticTraceAnalysis and torch_tb_profiler have no such table; TraceLens lists a graph's kernels under its launch."""

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("first", "text", "first kernel of the graph"),
    Column("nodes", "count", "kernels, copies and memsets of one launch"),
    Column("launches", "count", "launches"),
    Column("device", "time", "of the nodes, over all launches"),
    Column("share", "share", "device", "the time of all work on the rank's device"),
    Column("span", "time", "from first start to last end, over all launches"),
    Column("gaps", "time", "of the spans, without a node of any graph"),
    Column("mean", "time", "average span of a launch", brief=False),
    Column("max", "time", "longest span of a launch", brief=False),
    Column("call", "time", "of the launching calls on the host", brief=False),
    Column("event", "id", "the call of the longest launch"),
)

LAUNCH_PATTERN: Final = r"^(?:cuda|cu|hip)GraphLaunch"
"""Matches names of calls that launch a graph."""


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each graph, in ps; `work` and `all` are the time and number of all work on the device."""
    calls = collect_frame(
        rank_trace.threads.filter(pl.col("kind") == "runtime")
        .select(pl.col("id").alias("launch"), pl.col("name").cast(pl.String).alias("called"), "start", "end")
        .filter(pl.col("called").str.contains(LAUNCH_PATTERN))
        .select("launch", (pl.col("end") - pl.col("start")).alias("call"))
    )
    device = device_work(rank_trace, "launch", "name").with_columns(
        pl.col("start").clip(lower_bound=rank_trace.start), pl.col("end").clip(upper_bound=rank_trace.end)
    )
    length = pl.col("end") - pl.col("start")
    totals = device.select(length.sum().alias("work"), pl.len().cast(pl.Int64).alias("all"))
    inside = device.join(calls, on="launch", maintain_order="left")
    nodes = _work_of_launches(rank_trace, calls["launch"]) if rank_trace.windowed else inside
    launches = _launches_in_window(_describe_launches(nodes), rank_trace).join(
        calls, on="launch", maintain_order="left"
    )
    if launches.is_empty():
        return totals.with_columns(pl.lit(None, pl.Int64).alias("launches")) if device.height else pl.DataFrame()
    node_intervals = union(*(inside.sort("start")[name].to_numpy() for name in ("start", "end")))
    work_by_launch = inside.group_by("launch").agg(
        length.sum().alias("device"), pl.len().cast(pl.Int64).alias("inside")
    )
    launches = launches.join(work_by_launch, on="launch", how="left", maintain_order="left").with_columns(
        pl.col("device", "inside").fill_null(0)
    )
    start, end = launches["start"].to_numpy(), launches["end"].to_numpy()
    return (
        launches.with_columns(
            pl.Series("span", end - start), pl.Series("gaps", end - start - covered_lengths(node_intervals, start, end))
        )
        .group_by("codes", "first", "nodes")
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            pl.col("device", "inside", "span", "gaps", "call").sum(),
            pl.col("launch").sort_by("span", "launch", descending=[True, False]).first().alias("event"),
            pl.col("span").mean().round().cast(pl.Int64).alias("mean"),
            pl.col("span").max().alias("max"),
            *collect_counted_events(options, "launch"),
        )
        .drop("codes")
        .join(totals, how="cross")
        .with_columns(pl.lit(rank_trace.rank, pl.Int64).alias("rank"))
    )


def _work_of_launches(rank_trace: RankTrace, launches: pl.Series) -> pl.DataFrame:
    """All work of these launches, whenever it ran."""
    device = rank_trace.device_anytime.filter(pl.col("launch").is_in(launches.implode()))
    return device_work(replace(rank_trace, device=device), "launch", "name")


def _describe_launches(nodes: pl.DataFrame) -> pl.DataFrame:
    """For each launch the names of its nodes in order, the first name, their number, and its start and end."""
    return (
        nodes.sort("start", "id")
        .group_by("launch", maintain_order=True)
        .agg(
            pl.col("name").to_physical().alias("codes"),
            pl.col("name").first().cast(pl.String).alias("first"),
            pl.len().cast(pl.Int64).alias("nodes"),
            pl.col("start").min(),
            pl.col("end").max(),
        )
    )


def _launches_in_window(launches: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """The launches that overlap the window, with their times clipped to it."""
    if not rank_trace.windowed:
        return launches
    within = overlapping_events(launches.lazy(), rank_trace.start, rank_trace.end)
    bounds = pl.col("start").clip(lower_bound=rank_trace.start), pl.col("end").clip(upper_bound=rank_trace.end)
    return collect_frame(within.with_columns(bounds))


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per rank and graph, by rank, the graph with the most device time first."""
    rank_tables = [table for table in tables if table.height]
    graph_tables = [table for table in rank_tables if table["launches"].null_count() == 0]
    if not graph_tables:
        return empty_result(ANALYSIS, context, options, note("no_graph_launches", level="missing"))
    rows = pl.concat(graph_tables, how="vertical_relaxed")
    table = rows.with_columns(pl.when(pl.col("work") > 0).then(pl.col("device") / pl.col("work")).alias("share")).sort(
        "rank", "device", "nodes", "first", "event", descending=[False, True, False, False, False]
    )
    return make_result(ANALYSIS, table, context, options, [_coverage_note(rank_tables, rows)])


def _coverage_note(rank_tables: Sequence[pl.DataFrame], rows: pl.DataFrame) -> Note:
    """A note with the share of all work that runs in graphs."""
    time, number = (sum(int(table[name][0]) for table in rank_tables) for name in ("work", "all"))
    inside, nodes = int(rows["device"].sum()), int(rows["inside"].sum())
    return note("work_in_graphs", nodes=nodes, of=number, time=inside, device_time=time)


ANALYSIS = Analysis(
    name="graphs",
    title="Graphs",
    question="What do CUDA and HIP graphs do, and how much of the work runs in them?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    count_column="launches",
)
