"""The events that the rows of tables count, worked out in the background.

Owns which events these are: those that the analysis itself tells of a row, in the window and with the settings of its
table; of a row of the search those of its name. Keeps what it was told last, so that the next row of a table costs
nothing. Knows no widget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl
from msgspec import Struct
from textual.cache import LRUCache

from tracehound.analysis import Result, named
from tracehound.analysis.result import MEMBERS, TEXTS, Unit
from tracehound.trace import Trace
from tracehound.ui.background.answers import Question, answered
from tracehound.ui.state.follow import event_of
from tracehound.ui.state.search import namesakes
from tracehound.ui.state.walk import Walk, walk

_KEPT: Final = 2
"""So many tables with all the events of their rows are kept: each has an id for every event."""

_NAMES: Final = ("name", "event")
"""Columns that name what a row counts, where it has them: the first text of others says it."""

_TELLING: Final[tuple[Unit, ...]] = (*TEXTS, "id", "count", "number", "time", "instant", "depth")
"""Units of values that are the same each time."""


class CountingRow(Struct, frozen=True, eq=False):
    """A row of a table that says how many events it stands for, and what it is an answer to: None for a search."""

    trace: Trace
    values: Mapping[str, Any]
    question: Question | None

    @property
    def name(self) -> str:
        """What it counts, in its own words."""
        texts = {name: value for name, value in self.values.items() if value and isinstance(value, str)}
        named = next((texts[column] for column in _NAMES if column in texts), None)
        return named if named is not None else next(iter(texts.values()), "")


def counting(trace: Trace, values: Mapping[str, Any], question: Question | None) -> CountingRow | None:
    """The row; None where the rows of its table count no events."""
    counts = "count" if question is None else named(question.analysis).counts
    return CountingRow(trace, values, question) if counts and counts in values else None


class Counted:
    """Asks analyses for the events of rows; for one thread."""

    def __init__(self) -> None:
        self._known: LRUCache[Question, Result] = LRUCache(_KEPT)

    def walk(self, row: CountingRow) -> Walk:
        """Through the events of the row, the one that it leads to being the present one.

        A row may lead to what is none of them, as to the longer of a copy's beginning and end: then it is the last that
        began by then.
        """
        found, event = walk(row.trace, row.name, self.events(row)), event_of(row.trace, row.values)
        if event is None:
            return found
        there = found.at(event)
        return there if there.event is not None else found.before(row.trace.event(event)["start"])

    def events(self, row: CountingRow) -> pl.Expr:
        """What holds for the events that the row counts, and for no others."""
        if row.question is None:
            return namesakes(row.values)
        return pl.col("id").is_in(self._told(row.question, row).implode())

    def _told(self, question: Question, row: CountingRow) -> pl.Series:
        """Their ids; none where the analysis has no such row any more."""
        result = self._known.get(question)
        if result is None:
            result = self._known[question] = answered(row.trace, question, members=True)
        told = [column.name for column in result.columns if column.unit in _TELLING and column.name in row.values]
        same = pl.all_horizontal(pl.col(name).eq_missing(pl.lit(row.values[name])) for name in told)
        if MEMBERS not in result.table.columns:
            return pl.Series(MEMBERS, [], pl.Int64)
        return result.table.filter(same)[MEMBERS].head(1).explode().drop_nulls()
