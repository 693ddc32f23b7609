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

from tracehound.analysis import row_filter
from tracehound.analysis.result import Column, Result, empty_table
from tracehound.analysis.timing.device_clock import EVENT_LENGTH
from tracehound.errors import TracehoundError
from tracehound.model.notes import Note, note
from tracehound.model.trace import Trace, collect_frame
from tracehound.ui.state.event_walk import EventWalk

MATCH_COLUMNS = (
    Column("name", "text", "name of the events"),
    Column("kind", "text", "what they are"),
    Column("on", "text", "host, or device: a profiler may draw an annotation of the host there, too"),
    Column("count", "count", "how many there are in the whole trace"),
    Column("total", "time", "sum of their lengths, on the device's own clock where it has one"),
    Column("mean", "time", "total / count", brief=False),
    Column("event", "id", "the longest"),
)

_NAME_CONDITION = pl.when(pl.col("rank").is_null()).then(pl.lit("host")).otherwise(pl.lit("device"))


class NameIndex(Struct, frozen=True, eq=False):
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

    def walk(self, what: str, words: pl.Series) -> EventWalk:
        """All events with these names."""
        chosen = np.zeros(int(self.code.max(initial=0)) + 1, np.bool_)
        chosen[self.codes.filter(pl.col("name").is_in(words.to_list()))["code"].to_numpy()] = True
        return EventWalk(what, self.events, self.starts, rows=np.flatnonzero(chosen[self.code]))


class SearchMatches(Struct, frozen=True):
    """The matches of a needle: by name, and one by one; `failure` says in one line why it can match nothing."""

    needle: str
    result: Result
    walk: EventWalk
    failure: str = ""


def index_names(trace: Trace) -> NameIndex:
    """The names of the trace, and its events in order; all that searching needs to read."""
    query = (
        trace.events()
        .group_by("name", "kind", _NAME_CONDITION.alias("on"))
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            EVENT_LENGTH.sum().alias("total"),
            pl.col("id").sort_by(EVENT_LENGTH, "id", descending=[True, False]).first().alias("event"),
        )
        .with_columns(pl.col("name").cast(pl.String), (pl.col("total") / pl.col("count")).alias("mean"))
        .sort("total", "name", "kind", "on", descending=[True, False, False, False])
        .select(column.name for column in MATCH_COLUMNS)
    )
    found = collect_frame(trace.events().select("id", "start", "name"))
    words, code = found["name"].unique(), found["name"].to_physical().to_numpy()
    codes = pl.DataFrame({"name": words.cast(pl.String), "code": words.to_physical()})
    start = found["start"].to_numpy()
    order = np.argsort(start, kind="stable")  # lane after lane they are in order: runs, which only need merging
    return NameIndex(trace, collect_frame(query), codes, found["id"].to_numpy()[order], start[order], code[order])


def match_names(known: NameIndex, text: str) -> SearchMatches:
    """Names that match: a part of a name in any case, or after ``~`` a regular expression."""
    try:
        table = known.table.filter(row_filter.text_matches(pl.col("name"), text)) if text else known.table.clear()
    except TracehoundError as error:
        return failed_search(text, error.message)
    return SearchMatches(text, _matches_result(text, table), known.walk(text, table["name"].unique()))


def name_row_condition(row: Mapping[str, Any]) -> pl.Expr:
    """Condition that the events of a row of names meet."""
    told = pl.col("name").eq(str(row["name"])) & pl.col("kind").eq(str(row["kind"]))
    return told & _NAME_CONDITION.eq(str(row["on"]))


def failed_search(text: str, why: str) -> SearchMatches:
    """Nothing, and why."""
    nothing = np.empty(0, np.int64)
    return SearchMatches(
        text,
        _matches_result(text, empty_table(MATCH_COLUMNS), note("search_refused", why=why)),
        EventWalk(text, nothing, nothing),
        why,
    )


def _matches_result(text: str, table: pl.DataFrame, *notes: Note) -> Result:
    return Result("search", f"Events named {text}" if text else "Search", MATCH_COLUMNS, table, table.height, notes)
