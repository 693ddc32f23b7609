"""Searching the names of all events.

Owns what a needle matches and what is said of the matches. Knows no widget.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from tracehound.analysis.result import Column, Result
from tracehound.trace import Trace, collected
from tracehound.ui.walk import Walk, walk

COLUMNS = (
    Column("name", "text", "name of the events"),
    Column("kind", "text", "what they are"),
    Column("count", "count", "how many there are in the whole trace"),
    Column("total", "time", "sum of their lengths"),
    Column("average", "time", "total / count", brief=False),
    Column("event", "id", "the longest"),
)


@dataclass(frozen=True)
class Names:
    """Every distinct (name, kind) of a trace with count, total and longest event: what a needle is held against."""

    trace: Trace
    table: pl.DataFrame


@dataclass(frozen=True)
class Found:
    """The matches of a needle: by name, and one by one."""

    needle: str
    result: Result
    walk: Walk


def names(trace: Trace) -> Names:
    """The names of the trace; the one pass over all events that searching needs."""
    length = pl.col("end") - pl.col("start")
    query = (
        trace.events()
        .group_by("name", "kind")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            length.sum().alias("total"),
            pl.col("id").sort_by(length, "id", descending=[True, False]).first().alias("event"),
        )
        .with_columns(pl.col("name").cast(pl.String), (pl.col("total") / pl.col("count")).alias("average"))
        .sort("total", "name", "kind", descending=[True, False, False])
        .select(column.name for column in COLUMNS)
    )
    return Names(trace, collected(query))


def find(known: Names, needle: str) -> Found:
    """What matches: a piece of a name in any case, or ``/regular expression/``."""
    table = known.table.filter(_matches(needle)) if needle else known.table.clear()
    matched = pl.col("name").cast(pl.String).is_in(table["name"].unique().to_list())
    notes = (f"/{_pattern(needle)}/ is not a regular expression: taken as text",) if _broken(needle) else ()
    result = Result("search", f"Events named {needle}" if needle else "Search", COLUMNS, table, table.height, notes)
    return Found(needle, result, walk(known.trace, needle, matched))


def _matches(needle: str) -> pl.Expr:
    pattern = _pattern(needle)
    if pattern is not None and not _broken(needle):
        return pl.col("name").str.contains(f"(?i){pattern}")
    return pl.col("name").str.to_lowercase().str.contains(needle.lower(), literal=True)


def _pattern(needle: str) -> str | None:
    """What stands between the slashes, if the needle is written as a regular expression."""
    match = re.fullmatch(r"/(.+)/", needle)
    return match[1] if match else None


def _broken(needle: str) -> bool:
    """Whether the needle is written as a regular expression and is none for polars, whose dialect is Rust's."""
    pattern = _pattern(needle)
    if pattern is None:
        return False
    try:
        pl.select(pl.lit("").str.contains(f"(?i){pattern}"))
    except pl.exceptions.ComputeError:
        return True
    return False
