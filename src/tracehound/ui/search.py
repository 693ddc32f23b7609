"""Searching the names of all events.

Owns what a needle matches and what is said of the matches. Knows no widget.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.result import Column, Result
from tracehound.trace import Trace, collected
from tracehound.ui.walk import Walk

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
    """Every distinct (name, kind) of a trace with count, total and longest event: what a needle is held against.

    `events` are all events in the order of their `starts`, each with the `code` of its name, and `codes` has the code
    of every name: from names to events it is one look at each event, and no sorting.
    """

    trace: Trace
    table: pl.DataFrame
    codes: pl.DataFrame
    events: npt.NDArray[np.int64] = field(compare=False)
    starts: npt.NDArray[np.int64] = field(compare=False)
    code: npt.NDArray[np.uint32] = field(compare=False)

    def walk(self, what: str, words: pl.Series) -> Walk:
        """All events with these names."""
        chosen = np.zeros(int(self.code.max(initial=0)) + 1, np.bool_)
        chosen[self.codes.filter(pl.col("name").is_in(words.to_list()))["code"].to_numpy()] = True
        found = np.flatnonzero(chosen[self.code])
        return Walk(what, self.events[found], self.starts[found])


@dataclass(frozen=True)
class Found:
    """The matches of a needle: by name, and one by one."""

    needle: str
    result: Result
    walk: Walk


def names(trace: Trace) -> Names:
    """The names of the trace, and its events in order; all that searching needs to read."""
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
    found = collected(trace.events().select("id", "start", "name"))
    words, code = found["name"].unique(), found["name"].to_physical().to_numpy()
    codes = pl.DataFrame({"name": words.cast(pl.String), "code": words.to_physical()})
    start = found["start"].to_numpy()
    order = np.argsort(start, kind="stable")  # lane after lane they are in order: runs, which only need merging
    return Names(trace, collected(query), codes, found["id"].to_numpy()[order], start[order], code[order])


def find(known: Names, needle: str) -> Found:
    """What matches: a piece of a name in any case, or ``/regular expression/``."""
    table = known.table.filter(_matches(needle)) if needle else known.table.clear()
    notes = (f"/{_pattern(needle)}/ is not a regular expression: taken as text",) if _broken(needle) else ()
    result = Result("search", f"Events named {needle}" if needle else "Search", COLUMNS, table, table.height, notes)
    return Found(needle, result, known.walk(needle, table["name"].unique()))


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
