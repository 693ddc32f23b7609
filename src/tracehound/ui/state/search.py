"""Searching the names of all events.

Owns what a needle matches and what is said of the matches. Knows no widget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.analysis import needle
from tracehound.analysis.events.measured import LENGTH
from tracehound.analysis.result import Column, Result, blank
from tracehound.errors import TracehoundError
from tracehound.notes import Note, note
from tracehound.trace import Trace, collected
from tracehound.ui.state.walk import Walk

COLUMNS = (
    Column("name", "text", "name of the events"),
    Column("kind", "text", "what they are"),
    Column("on", "text", "host, or device: a profiler may draw an annotation of the host there, too"),
    Column("count", "count", "how many there are in the whole trace"),
    Column("total", "time", "sum of their lengths, on the device's own clock where it has one"),
    Column("mean", "time", "total / count", brief=False),
    Column("event", "id", "the longest"),
)

_WHERE = pl.when(pl.col("rank").is_null()).then(pl.lit("host")).otherwise(pl.lit("device"))


class Names(Struct, frozen=True, eq=False):
    """Every distinct (name, kind, on) of a trace with count, total and longest event: what a needle is held against.

    `events` are all events in the order of their `starts`, each with the `code` of its name, and `codes` has the code
    of every name: from names to events it is one look at each event, and no sorting.
    """

    trace: Trace
    table: pl.DataFrame
    codes: pl.DataFrame
    events: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    code: npt.NDArray[np.uint32]

    def walk(self, what: str, words: pl.Series) -> Walk:
        """All events with these names."""
        chosen = np.zeros(int(self.code.max(initial=0)) + 1, np.bool_)
        chosen[self.codes.filter(pl.col("name").is_in(words.to_list()))["code"].to_numpy()] = True
        return Walk(what, self.events, self.starts, rows=np.flatnonzero(chosen[self.code]))


class Found(Struct, frozen=True):
    """The matches of a needle: by name, and one by one; `failure` says in one line why it can match nothing."""

    needle: str
    result: Result
    walk: Walk
    failure: str = ""


def names(trace: Trace) -> Names:
    """The names of the trace, and its events in order; all that searching needs to read."""
    query = (
        trace.events()
        .group_by("name", "kind", _WHERE.alias("on"))
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            LENGTH.sum().alias("total"),
            pl.col("id").sort_by(LENGTH, "id", descending=[True, False]).first().alias("event"),
        )
        .with_columns(pl.col("name").cast(pl.String), (pl.col("total") / pl.col("count")).alias("mean"))
        .sort("total", "name", "kind", "on", descending=[True, False, False, False])
        .select(column.name for column in COLUMNS)
    )
    found = collected(trace.events().select("id", "start", "name"))
    words, code = found["name"].unique(), found["name"].to_physical().to_numpy()
    codes = pl.DataFrame({"name": words.cast(pl.String), "code": words.to_physical()})
    start = found["start"].to_numpy()
    order = np.argsort(start, kind="stable")  # lane after lane they are in order: runs, which only need merging
    return Names(trace, collected(query), codes, found["id"].to_numpy()[order], start[order], code[order])


def find(known: Names, text: str) -> Found:
    """What matches: a piece of a name in any case, or what stands after ``~`` as a regular expression."""
    try:
        table = known.table.filter(needle.found(pl.col("name"), text)) if text else known.table.clear()
    except TracehoundError as error:
        return failed(text, error.message)
    return Found(text, _result(text, table), known.walk(text, table["name"].unique()))


def namesakes(row: Mapping[str, Any]) -> pl.Expr:
    """What holds for the events that a row of names stands for."""
    told = pl.col("name").eq(str(row["name"])) & pl.col("kind").eq(str(row["kind"]))
    return told & _WHERE.eq(str(row["on"]))


def failed(text: str, why: str) -> Found:
    """Nothing, and why."""
    nothing = np.empty(0, np.int64)
    return Found(
        text, _result(text, blank(COLUMNS), note("search_refused", why=why)), Walk(text, nothing, nothing), why
    )


def _result(text: str, table: pl.DataFrame, *notes: Note) -> Result:
    return Result("search", f"Events named {text}" if text else "Search", COLUMNS, table, table.height, notes)
