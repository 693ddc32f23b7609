"""Which collectives ran, how long they took and how much they moved."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.measured import measured
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank
from tracehound.analysis.share import overlapping
from tracehound.trace import collected

DEFINITION = """\
Collectives are the communication kernels of NCCL, RCCL and their like (by the collective's name that the profiler
recorded, else by the kernel's name), the HLO ops of collective opcodes, and on CPU-only PyTorch runs gloo's ranges on
its threads. The lengths include the wait for the last participant. bytes is the size of one rank's message: of
collectives that gather or scatter, the larger side. exposed time is in the breakdown: summing lengths counts what
other work hides."""

COLUMNS = (
    Column("name", "text", "kernel, HLO op or range"),
    Column("count", "count", "executions over all ranks"),
    Column("total", "time", "sum of lengths, waiting included"),
    Column("average", "time", "total / count"),
    Column("min", "time", "shortest: nearest to the transfer alone"),
    Column("max", "time", "longest", brief=False),
    Column("bytes", "bytes", "messages of all executions together"),
    Column("sized", "count", "executions whose size is known", brief=False),
    Column("ranks", "count", "ranks on which it ran"),
    Column("event", "id", "the longest"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row per lane and name."""
    del options
    device = share.lanes.filter(pl.col("rank").is_not_null())
    ops = device.filter(pl.col("role") == "ops")
    lanes = (ops if ops.height else device.filter(pl.col("work")))["lane"].to_list()
    events = share.device.filter(pl.col("lane").is_in(lanes))
    if not lanes:
        events = overlapping(share.threads, share.start, share.end)
    mine = pl.col("kind") == "collective"
    events = events if share.windowed else events.filter(mine)  # what is cut needs its children to be measured
    return (
        measured(collected(events), share.start, share.end)
        .filter(mine)
        .group_by("lane", pl.col("name").cast(pl.String))
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("length").sum().alias("total"),
            pl.col("length").min().alias("min"),
            pl.col("length").max().alias("max"),
            pl.col("bytes").sum(),
            pl.col("bytes").count().cast(pl.Int64).alias("sized"),
            pl.col("id").sort_by("length", "id", descending=[True, False]).first().alias("event"),
        )
        .with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per name, the largest total first."""
    if not any(table.height for table in tables):
        return answer(ANALYSIS, blank(COLUMNS), scene, options, ["no collective ran here"])
    table = (
        pl.concat(tables)
        .unique(["lane", "name"], keep="first", maintain_order=True)
        .group_by("name")
        .agg(
            pl.col("count", "total", "bytes", "sized").sum(),
            pl.col("min").min(),
            pl.col("event").sort_by("max", "rank", descending=[True, False]).first(),
            pl.col("max").max(),
            pl.col("rank").n_unique().alias("ranks"),
        )
        .with_columns(
            (pl.col("total") / pl.col("count")).round().cast(pl.Int64).alias("average"),
            pl.when(pl.col("sized") > 0).then("bytes").alias("bytes"),
        )
        .sort("total", "name", descending=[True, False])
    )
    unsized = int(table["count"].sum()) - int(table["sized"].sum())
    notes = [f"the size of {unsized:,} executions was not recorded"] if unsized else []
    return answer(ANALYSIS, table, scene, options, notes)


ANALYSIS = Analysis(
    name="collectives",
    title="Collectives",
    question="Which collectives ran, how long did they take and how much did they move?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
