"""A trace -> the one page that sums it up, as a list of results for any writer.

Owns which questions the page asks and how many rows of each it shows. Knows no form.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from types import MappingProxyType

import msgspec
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis import named, run_all
from tracehound.analysis.result import Column, Options, Result
from tracehound.analysis.spans import other_steps
from tracehound.analysis.spans.partial_steps import counted
from tracehound.analysis.topics import tells_memory_alone
from tracehound.draw.notes import with_sentences
from tracehound.notes import Note
from tracehound.report.about import About, about
from tracehound.store.preferred import TWINS
from tracehound.trace import Trace, Window

ROWS: Mapping[str, int] = MappingProxyType(
    {"overview": 16, "findings": 5, "breakdown": 16, "steps": 16, "ops": 10, "gaps": 5, "collectives": 5, "health": 10}
)
"""The questions of the page, in order, and how many rows of each it shows when nobody says."""

OF_MEMORY: Mapping[str, int] = MappingProxyType({"overview": 16, "memory": 16, "health": 10})
"""The same of memory timelines, which have nothing else."""

OPTIONAL = ("findings", "collectives", "health")
"""What the page leaves out where there is nothing to say."""

STEPS = (
    Column("rank", "count", "rank"),
    Column("steps", "count", "whole steps"),
    Column("median", "time", "median length"),
    Column("shortest", "time", "shortest step"),
    Column("longest", "time", "longest step"),
    Column("longest_step", "count", "number of the longest step"),
    Column("busy", "share", "device works", "these steps"),
    Column("inferred", "flag", "not marked by the profiler"),
)


_USUAL = (TWINS,)
"""What is so of every profile of its kind, and worth no line of the page: health has it."""


class Summary(Struct, frozen=True):
    """What the page holds. `lengths` has each whole step's number and its length on the slowest rank, in ps."""

    about: About
    results: tuple[Result, ...]
    lengths: tuple[tuple[int, int], ...] = ()


def summarise(trace: Trace, window: Window, top: int | None = None, executor: Executor | None = None) -> Summary:
    """The page of a trace, for a window; at most `top` rows of every table instead of the page's own measure."""
    page = OF_MEMORY if tells_memory_alone(trace) else ROWS
    limits = {name: rows if top is None else top for name, rows in page.items()}
    given = {"memory": (("by", "category"),)}
    asked = [
        (named(name), Options(None if name in _CUT else limit, given.get(name, ()))) for name, limit in limits.items()
    ]
    facts, results = about(trace, window), []
    lengths: tuple[tuple[int, int], ...] = ()
    for (name, limit), every in zip(limits.items(), run_all(asked, trace, window, executor), strict=True):
        result = every
        if name == "steps":
            lengths = tuple(counted(every.table).group_by("step").agg(pl.col("duration").max()).sort("step").rows())
            result = spread(every, limit)
        elif name == "health":
            result = _unusual(every, limit)
        elif name == "overview":
            result = other_steps.noted(every, trace, window)
        if result.total or name not in OPTIONAL:
            results.append(result)
    return Summary(facts, tuple(results), lengths)


_CUT = ("steps", "health")
"""The questions whose rows are cut here, after what is made of them."""


def _unusual(health: Result, top: int) -> Result:
    """The rows of health that the page has."""
    codes = [msgspec.json.decode(what, type=Note).code for what in health.table["what"].to_list()]
    table = health.table.filter(~pl.Series(codes, dtype=pl.String).is_in(_USUAL))
    return with_sentences(replace(health, table=table.head(top), total=table.height))


def spread(steps: Result, top: int) -> Result:
    """The whole steps of each rank in one row: how many, how long, how even; partial ones where it has no others."""
    longest = pl.col("step").sort_by("duration", "step", descending=[True, False]).first()
    # A rank without device activity has no busy time, which is not the same as none of it.
    busy = (pl.col("busy") * pl.col("duration")).sum() / pl.col("duration").filter(pl.col("busy").is_not_null()).sum()
    table = (
        steps.table.filter(~pl.col("partial") | pl.col("partial").all().over("rank"))
        .group_by("rank")
        .agg(
            pl.len().cast(pl.Int64).alias("steps"),
            pl.col("duration").median().round().cast(pl.Int64).alias("median"),
            pl.col("duration").min().alias("shortest"),
            pl.col("duration").max().alias("longest"),
            longest.alias("longest_step"),
            busy.fill_nan(None).alias("busy"),
            pl.col("inferred").any().alias("inferred"),
        )
        .sort("rank")
        .select(column.name for column in STEPS)
    )
    return replace(steps, columns=STEPS, table=table.head(top), total=table.height)
