"""What CUDA and HIP graphs do: launches, kernels in each, and the time between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.events.busy import work
from tracehound.analysis.members import gathered
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.analysis.share import overlapping
from tracehound.intervals import covered, union
from tracehound.notes import Note, note
from tracehound.trace import collected

DEFINITION = """\
A launch is a call of cudaGraphLaunch, cuGraphLaunch or hipGraphLaunch with the kernels, copies and memsets that carry
its correlation id. The profiler seldom says which graph a launch is of: launches on one rank with the same kernels in
the same order are taken for one graph, a row each. nodes = those of one launch that ran on the device. device =
lengths of the nodes, summed over all launches; span = from the first start to the last end of each launch, summed; gaps
= the part of the spans in which no node of any graph ran. call = time of the launching calls on the host. share is
device of all device time. A window takes launches whose span reaches into it: of that part are device, span and gaps,
nodes and call are of the whole. The operators that were captured are not recorded when a graph is launched: nodes keep
only their kernels' names.

HolisticTraceAnalysis and torch_tb_profiler have no such table; TraceLens files a graph's kernels under its launch."""

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

LAUNCH: Final = r"^(?:cuda|cu|hip)GraphLaunch"
"""What the calls are named that launch a graph."""


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each graph, in ps; `work` and `all` are the time and number of all work on the device."""
    calls = collected(
        share.threads.filter(pl.col("kind") == "runtime")
        .select(pl.col("id").alias("launch"), pl.col("name").cast(pl.String).alias("called"), "start", "end")
        .filter(pl.col("called").str.contains(LAUNCH))
        .select("launch", (pl.col("end") - pl.col("start")).alias("call"))
    )
    device = work(share, "launch", "name").with_columns(
        pl.col("start").clip(lower_bound=share.start), pl.col("end").clip(upper_bound=share.end)
    )
    length = pl.col("end") - pl.col("start")
    totals = device.select(length.sum().alias("work"), pl.len().cast(pl.Int64).alias("all"))
    inside = device.join(calls, on="launch", maintain_order="left")
    nodes = _whole(share, calls["launch"]) if share.windowed else inside
    launches = _here(_graphs(nodes), share).join(calls, on="launch", maintain_order="left")
    if launches.is_empty():
        return totals.with_columns(pl.lit(None, pl.Int64).alias("launches")) if device.height else pl.DataFrame()
    ran = union(*(inside.sort("start")[name].to_numpy() for name in ("start", "end")))
    ran_of = inside.group_by("launch").agg(length.sum().alias("device"), pl.len().cast(pl.Int64).alias("inside"))
    launches = launches.join(ran_of, on="launch", how="left", maintain_order="left").with_columns(
        pl.col("device", "inside").fill_null(0)
    )
    start, end = launches["start"].to_numpy(), launches["end"].to_numpy()
    return (
        launches.with_columns(pl.Series("span", end - start), pl.Series("gaps", end - start - covered(ran, start, end)))
        .group_by("codes", "first", "nodes")
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            pl.col("device", "inside", "span", "gaps", "call").sum(),
            pl.col("launch").sort_by("span", "launch", descending=[True, False]).first().alias("event"),
            pl.col("span").mean().round().cast(pl.Int64).alias("mean"),
            pl.col("span").max().alias("max"),
            *gathered(options, "launch"),
        )
        .drop("codes")
        .join(totals, how="cross")
        .with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))
    )


def _whole(share: Share, launches: pl.Series) -> pl.DataFrame:
    """All work of these launches, whenever it ran."""
    device = share.anytime.filter(pl.col("launch").is_in(launches.implode()))
    return work(replace(share, device=device), "launch", "name")


def _graphs(nodes: pl.DataFrame) -> pl.DataFrame:
    """Of each launch the names of all its nodes in order, the first of them, how many they are, and when they run."""
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


def _here(launches: pl.DataFrame, share: Share) -> pl.DataFrame:
    """Those of which a part lies in the window, and from when to when it does."""
    if not share.windowed:
        return launches
    within = overlapping(launches.lazy(), share.start, share.end)
    bounds = pl.col("start").clip(lower_bound=share.start), pl.col("end").clip(upper_bound=share.end)
    return collected(within.with_columns(bounds))


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per rank and graph, by rank, the graph with the most device time first."""
    seen = [table for table in tables if table.height]
    filled = [table for table in seen if table["launches"].null_count() == 0]
    if not filled:
        return without(ANALYSIS, scene, options, note("no_graph_launches", level="missing"))
    rows = pl.concat(filled, how="vertical_relaxed")
    table = rows.with_columns(pl.when(pl.col("work") > 0).then(pl.col("device") / pl.col("work")).alias("share")).sort(
        "rank", "device", "nodes", "first", "event", descending=[False, True, False, False, False]
    )
    return answer(ANALYSIS, table, scene, options, [_coverage(seen, rows)])


def _coverage(seen: Sequence[pl.DataFrame], rows: pl.DataFrame) -> Note:
    """How much of all work runs in graphs."""
    time, number = (sum(int(table[name][0]) for table in seen) for name in ("work", "all"))
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
    counts="launches",
)
