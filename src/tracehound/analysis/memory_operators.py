"""Which operators allocate memory, and what stays of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.allocations import (
    HOST,
    allocations,
    callers,
    chains,
    inside,
    named,
    nowhere,
    of_ranks,
    unrecorded,
)
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank

DEFINITION = """\
A memory event belongs to the innermost operator that runs on its thread at its time. self size increase = what was
given less what was taken back in the operator itself; self allocation size and self allocations = what was given there,
and how often. size increase, allocation size and allocations are those of the operator with all that it calls; of an
operator inside another of its name each event counts once. count = executions in which there was such an event. A row
for each device, whose memory it is.

These are the definitions of the PyTorch TensorBoard plugin, but that it counts what is inside two operators of one name
twice, and gives sizes in KB."""

COLUMNS: Final = (
    Column("operator", "text", "operator; – for what no operator allocated"),
    Column("rank", "count", "rank"),
    Column("device", "text", "whose memory"),
    Column("count", "count", "executions with memory events"),
    Column("size_increase", "bytes", "what was given less what was taken back, with all that it calls", brief=False),
    Column("self_size_increase", "bytes", "the same, in the operator itself", brief=False),
    Column("allocations", "count", "times that memory was given, with all that it calls"),
    Column("self_allocations", "count", "the same, in the operator itself", brief=False),
    Column("allocation_size", "bytes", "what was given, with all that it calls"),
    Column("self_allocation_size", "bytes", "the same, in the operator itself"),
    Column("event", "id", "the execution that was given most"),
)

_SUMS: Final = ("size_increase", "allocations", "allocation_size")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each operator and device; bytes."""
    del options
    everything = allocations(share)
    rows = inside(everything, share)
    if rows.is_empty():
        return nowhere(everything)
    calls, innermost = callers(share, rows)
    names = calls.events.select(pl.col("name").cast(pl.String).alias("name"), "id").with_row_index("operator")
    names = names.with_columns(pl.col("operator").cast(pl.Int64))
    held = rows.select(
        pl.col("device").cast(pl.Int64).alias("number"),
        pl.col("change").alias("size_increase"),
        (pl.col("change") > 0).cast(pl.Int64).alias("allocations"),
        pl.col("change").clip(lower_bound=0).alias("allocation_size"),
        pl.Series("innermost", innermost),
    ).with_row_index("row")
    held = held.with_columns(pl.col("row").cast(pl.Int64))
    around = (
        pl.concat([chains(calls, innermost), _alone(held)]).join(names, on="operator", how="left").join(held, on="row")
    )
    sums = (pl.col(name).sum() for name in _SUMS)
    total = (
        around.unique(["row", "name"], maintain_order=True).group_by("name", "number", maintain_order=True).agg(*sums)
    )
    executions = around.group_by("name", "number", "operator", maintain_order=True).agg(
        pl.col("allocation_size").sum(), pl.col("id").first()
    )
    counted = executions.group_by("name", "number").agg(
        (pl.col("operator") >= 0).sum().cast(pl.Int64).alias("count"),
        pl.col("id").get(pl.col("allocation_size").arg_max()).alias("event"),
    )
    own = around.filter(pl.col("operator") == pl.col("innermost")).group_by("name", "number")
    selves = own.agg(*(pl.col(name).sum().alias(f"self_{name}") for name in _SUMS))
    on = ["name", "number"]
    joined = total.join(counted, on=on, how="left", nulls_equal=True).join(selves, on=on, how="left", nulls_equal=True)
    return joined.with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"), *(pl.col(f"self_{name}").fill_null(0) for name in _SUMS)
    ).rename({"name": "operator"})


def _alone(held: pl.DataFrame) -> pl.DataFrame:
    """The events that no operator is around."""
    return held.filter(pl.col("innermost") < 0).select("row", pl.col("innermost").alias("operator"))


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The operators of all ranks, of devices first, those that were given most first."""
    rows = of_ranks(tables, scene)
    if rows.is_empty():
        return answer(ANALYSIS, blank(COLUMNS), scene, options, [unrecorded(scene, tables)])
    table = rows.with_columns(named(pl.col("number"))).sort(
        pl.col("number") == HOST,
        "self_allocation_size",
        "allocation_size",
        "operator",
        "rank",
        "number",
        descending=[False, True, True, False, False, False],
    )
    return answer(ANALYSIS, table, scene, options)


ANALYSIS = Analysis(
    name="memory_operators",
    title="Memory operators",
    question="Which operators allocate memory, how much, and what stays of it?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
