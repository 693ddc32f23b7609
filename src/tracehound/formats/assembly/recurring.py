"""Steps of a file that marks none and runs no modules: what recurs on its hosts.

Owns which annotations and calls tell where a step begins and ends, and in what order they are asked. Such steps are
inferred. Knows no bytes.
"""

from __future__ import annotations

from typing import Final, Literal

import polars as pl

from tracehound.formats.assembly.steps import MIN_EXECUTIONS
from tracehound.trace import STEPS, collected

GRAPHS: Final = ("cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch")
"""The calls that replay a graph; inference engines decode one token with each."""

OPTIMIZER: Final = "Optimizer.step#"
"""PyTorch annotates the step of an optimizer by itself; it ends a step of training."""

_ENGINE: Final = r"^(?:execute_(?:\w*_)?context_\d+.*_generation_\d+|step\[\w+)"
"""Annotations with which vLLM, SGLang and engines like them mark each step."""

_PART: Final = r"^(?:enumerate\(|nccl:|gloo:|mpi:|ucc:|Optimizer\.|## Call CompiledFxGraph)"
"""Annotations of PyTorch itself, which recur inside a step."""

_COVERED: Final = 0.5
"""Annotations of one name are iterations where they cover at least this part of the time from the first to the last."""


def recurring(found: pl.DataFrame) -> pl.DataFrame:
    """The steps that annotations and calls of hosts tell; schema `STEPS`, without ids of events; empty where none do.

    `found` has events of hosts (`host`, `lane`, `start`, `end`, `name`, `kind`) in the order of their starts. Asked
    are, one after the other: the annotations of an inference engine (of nested ones the outer); annotations of one name
    but for its digits that follow one another at least `MIN_EXECUTIONS` times on a thread and cover half of the time
    (of several the ones that take the most time, on the thread that runs most of them, or else annotates first); the
    ends of an optimizer's steps; replays of graphs, each of which lasts until the next.
    """
    annotations = found.filter(pl.col("kind") == "annotation")
    for told in (
        _outer(annotations.filter(pl.col("name").str.contains(_ENGINE))),
        _iterations(annotations.filter(~pl.col("name").str.contains(_PART))),
        _ended(annotations.filter(pl.col("name").str.starts_with(OPTIMIZER))),
        _replayed(found.filter(pl.col("name").is_in(GRAPHS))),
    ):
        if told.height:
            return _numbered(told)
    return pl.DataFrame(schema=STEPS)


def elsewhere(steps: pl.DataFrame, found: pl.DataFrame) -> int:
    """How many annotations, of those that were `found`, are as the iterations that told the steps, on other threads."""
    named = ~pl.col("name").str.contains(_ENGINE) & ~pl.col("name").str.contains(_PART) & ~pl.col("name").is_in(GRAPHS)
    told = steps.filter(named).select(_alike()).unique()
    alike = found.filter(pl.col("kind") == "annotation").select(_alike()).join(told, on="name", how="semi")
    return alike.height - steps.height if told.height else 0


def with_events(steps: pl.DataFrame, scan: pl.LazyFrame) -> pl.DataFrame:
    """The same steps with the ids of the events that told them, of a part's events."""
    marks = collected(
        scan.filter(pl.col("name").is_in(steps["name"].unique().to_list()) & pl.col("rank").is_null()).select(
            "id", "start", "end", pl.col("name").cast(pl.String)
        )
    )
    edge = "end" if _by_optimizer(steps) else "start"
    first = marks.sort("end", descending=True, maintain_order=True).unique([edge, "name"], keep="first")
    ids = steps.join(first.select(edge, "name", "id"), on=[edge, "name"], how="left", maintain_order="left")["id"]
    return steps.with_columns(ids.alias("event"))


def source_of(steps: pl.DataFrame) -> Literal["optimizer", "graph", "annotation"]:
    """What the steps were inferred from: ends of the optimizer, replays of graphs, or annotations."""
    if _by_optimizer(steps):
        return "optimizer"
    return "graph" if steps["name"][0] in GRAPHS else "annotation"


def _by_optimizer(steps: pl.DataFrame) -> bool:
    return bool(steps["name"].str.starts_with(OPTIMIZER).any())


def _outer(rows: pl.DataFrame) -> pl.DataFrame:
    """Those that no other one of the same host contains."""
    reach = pl.col("end").cum_max().shift(1).over("host", order_by="start")
    ordered = rows.sort("start", pl.col("end") - pl.col("start"), descending=[False, True], maintain_order=True)
    return ordered.filter((reach <= pl.col("start")).fill_null(value=True))


def _iterations(rows: pl.DataFrame) -> pl.DataFrame:
    """The annotations of one name on one thread that look like the iterations of a loop."""
    alike = rows.with_columns(_alike().alias("alike"), pl.col("start").min().over("host", "lane").alias("begun"))
    length = pl.col("end") - pl.col("start")
    groups = alike.group_by("host", "lane", "alike", maintain_order=True).agg(
        pl.len().alias("count"),
        pl.col("begun").first(),
        length.sum().alias("time"),
        (pl.col("end").max() - pl.col("start").min()).alias("span"),
        (pl.col("start").shift(-1) >= pl.col("end")).fill_null(value=True).all().alias("apart"),
    )
    loops = groups.filter(
        (pl.col("count") >= MIN_EXECUTIONS) & pl.col("apart") & (pl.col("time") >= _COVERED * pl.col("span"))
    )
    longest = loops.sort("time", descending=True, maintain_order=True).head(1)
    same = loops.join(longest.select("alike"), on="alike", how="semi", maintain_order="left")
    leading = same.sort("count", "begun", descending=[True, False], maintain_order=True).head(1)
    return alike.join(leading.select("host", "lane", "alike"), on=["host", "lane", "alike"], maintain_order="left")


def _alike() -> pl.Expr:
    """Names but for their digits."""
    return pl.col("name").str.replace_all(r"\d+", "#")


def _ended(rows: pl.DataFrame) -> pl.DataFrame:
    """From the end of one to the end of the next; of several optimizers by the one that steps most often."""
    leading = _most(rows).sort("end", maintain_order=True)  # they may nest
    begun = leading.with_columns(pl.col("end").shift(1).alias("start"))
    return begun.slice(1) if leading.height >= MIN_EXECUTIONS else begun.clear()


def _replayed(rows: pl.DataFrame) -> pl.DataFrame:
    """From the start of one to the start of the next, the last until its own end."""
    leading = _most(rows)
    if leading.height < MIN_EXECUTIONS:
        return leading.clear()
    return leading.with_columns(pl.col("start").shift(-1).fill_null(pl.col("end")).alias("end"))


def _most(rows: pl.DataFrame) -> pl.DataFrame:
    """Those of the thread and name that are most often there."""
    counts = rows.group_by("host", "lane", "name", maintain_order=True).agg(pl.len().alias("count"))
    leading = counts.sort("count", descending=True, maintain_order=True).head(1).drop("count")
    return rows.join(leading, on=["host", "lane", "name"], maintain_order="left")


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        pl.int_range(pl.len(), dtype=pl.Int32).over("host").alias("step"),
        "host",
        pl.lit(None, pl.Int32).alias("rank"),
        "name",
        "start",
        "end",
        pl.lit(value=True).alias("inferred"),
        pl.lit(None, pl.Int64).alias("event"),
        pl.lit(None, pl.Int64).alias("run"),
    ).cast(STEPS)
