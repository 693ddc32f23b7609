"""Steps of a file: the profiler's marks, or the executions of the module that repeats.

Owns what a step is. Knows no bytes.
"""

from __future__ import annotations

import polars as pl

from tracehound.trace import STEPS

MIN_EXECUTIONS = 3
"""A module that ran fewer times is not taken for the step of a loop."""


def mark(raw: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """The steps that the profiler marked: events whose `step` is set. Schema `STEPS`, sorted by (rank, start).

    Marks on a host count for all ranks it drives; where the host has marks, those on devices are its shadows and are
    left out. One mark per (host, step): of several threads' marks the longest.
    """
    marks = raw.with_row_index("event").filter(pl.col("step").is_not_null()).join(
        lanes.select("lane", "host", "rank"), on="lane", maintain_order="left"
    )  # fmt: skip
    on_host = marks.filter(pl.col("rank").is_null())
    chosen = on_host if on_host.height else marks
    longest = chosen.sort(pl.col("end") - pl.col("start"), descending=True, maintain_order=True)
    return _steps(longest.unique(["host", "rank", "step"], keep="first", maintain_order=True), inferred=False)


def infer(raw: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Steps from the module that takes the most device time among those that repeat: one per execution, per rank.

    A step lasts from one start to the next; the last one until its own end. Numbered from 0. Empty where nothing
    repeats at least `MIN_EXECUTIONS` times.
    """
    modules = lanes.filter((pl.col("role") == "modules") & pl.col("rank").is_not_null())
    runs = raw.with_row_index("event").join(
        modules.select("lane", "host", "rank"), on="lane", maintain_order="left"
    )  # fmt: skip
    by_name = runs.group_by("name").agg(
        (pl.col("end") - pl.col("start")).sum().alias("time"),
        (pl.len() / pl.col("rank").n_unique()).alias("executions"),
    )
    leading = by_name.filter(pl.col("executions") >= MIN_EXECUTIONS).sort("time", descending=True)
    if leading.is_empty():
        return pl.DataFrame(schema=STEPS)
    chosen = runs.filter(pl.col("name") == leading["name"][0]).sort("rank", "start")
    spaced = chosen.with_columns(
        pl.col("start").shift(-1).over("rank").fill_null(pl.col("end")).alias("end"),
        (pl.col("start").cum_count().over("rank") - 1).alias("step"),
    )
    return _steps(spaced, inferred=True)


def _steps(rows: pl.DataFrame, *, inferred: bool) -> pl.DataFrame:
    return (
        rows.with_columns(pl.lit(inferred).alias("inferred"), pl.col("name").cast(pl.String))
        .select(*STEPS)
        .cast(STEPS)
        .sort("rank", "start")
    )
