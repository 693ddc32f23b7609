"""Searching and walking, worked out in the background.

Owns the names of the trace, once they are needed, and what was asked last. Knows no widget but the one that is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import polars as pl
from msgspec import Struct
from textual.cache import LRUCache
from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.analysis import Result, get_analysis
from tracehound.analysis.result import COUNTED_EVENTS, TEXT_UNITS, Unit
from tracehound.model.trace import Trace
from tracehound.ui.background.analysis_runner import AnalysisRequest, run_request
from tracehound.ui.background.background_thread import BackgroundThread
from tracehound.ui.state import name_search
from tracehound.ui.state.event_walk import EventWalk, walk_events, walk_op_executions
from tracehound.ui.state.name_search import NameIndex, name_row_condition
from tracehound.ui.state.row_target import event_of_row


class EventFinder:
    """Finds events by their names, as executions of one op, or as those that a row counts."""

    @dataclass
    class Searched(Message):
        """Matches of a search, or the reason why it failed."""

        found: name_search.SearchMatches

    @dataclass
    class Walked(Message):
        """The events to walk through are known; or why they cannot be."""

        walk: EventWalk | None
        failure: str = ""

    def __init__(self, target: MessagePump, background: BackgroundThread) -> None:
        self._target = target
        self._background = background
        self._names: NameIndex | None = None

    def prepare(self, trace: Trace) -> None:
        """Someone is about to type: have what every needle is held against."""

        def work() -> None:
            self._name_index(trace)

        self._background.submit("reading the names", work, partial(self._fail, ""))

    def search(self, trace: Trace, needle: str) -> None:
        """Have `Searched` sent to the target, unless another needle follows at once."""
        self._background.submit(
            "search",
            lambda: self._tell(self.Searched(name_search.match_names(self._name_index(trace), needle))),
            partial(self._fail, needle),
        )

    def walk(self, trace: Trace, event: int) -> None:
        """Have `Walked` sent to the target, with the instances of the event's op."""
        self._work_out(lambda: walk_op_executions(trace, event))

    def walk_row(self, counted: RowEventFinder, row: AggregateRow) -> None:
        """Have `Walked` sent to the target, with the events that a row counts."""
        self._work_out(lambda: counted.walk(row))

    def _work_out(self, walk: Callable[[], EventWalk]) -> None:
        self._background.submit(
            "walk", lambda: self._tell(self.Walked(walk())), lambda why: self._tell(self.Walked(None, why))
        )

    def _name_index(self, trace: Trace) -> NameIndex:
        if self._names is None or self._names.trace is not trace:
            self._names = name_search.index_names(trace)
        return self._names

    def _fail(self, needle: str, why: str) -> None:
        self._tell(self.Searched(name_search.failed_search(needle, why)))

    def _tell(self, message: Message) -> None:
        self._target.post_message(message)


_CACHED_TABLES: Final = 2
"""So many tables with all the events of their rows are kept: each has an id for every event."""

_NAME_COLUMNS: Final = ("name", "event")
"""Columns that name what a row counts, where it has them: the first text of others says it."""

_KEY_UNITS: Final[tuple[Unit, ...]] = (*TEXT_UNITS, "id", "count", "number", "time", "instant", "depth")
"""Units of values that are the same each time."""


class AggregateRow(Struct, frozen=True, eq=False):
    """A row of a table that says how many events it stands for, and what it is an answer to: None for a search."""

    trace: Trace
    values: Mapping[str, Any]
    question: AnalysisRequest | None

    @property
    def name(self) -> str:
        """Name of what the row counts."""
        texts = {name: value for name, value in self.values.items() if value and isinstance(value, str)}
        named = next((texts[column] for column in _NAME_COLUMNS if column in texts), None)
        return named if named is not None else next(iter(texts.values()), "")


def counting_row(trace: Trace, values: Mapping[str, Any], question: AnalysisRequest | None) -> AggregateRow | None:
    """The row; None where the rows of its table count no events."""
    counts = "count" if question is None else get_analysis(question.analysis).count_column
    return AggregateRow(trace, values, question) if counts and counts in values else None


class RowEventFinder:
    """Asks analyses for the events of rows; for one thread."""

    def __init__(self) -> None:
        self._known: LRUCache[AnalysisRequest, Result] = LRUCache(_CACHED_TABLES)

    def walk(self, row: AggregateRow) -> EventWalk:
        """Through the events of the row, the one that it leads to being the present one.

        A row may lead to what is none of them, as to the longer of a copy's beginning and end: then it is the last that
        began by then.
        """
        found, event = walk_events(row.trace, row.name, self.event_condition(row)), event_of_row(row.trace, row.values)
        if event is None:
            return found
        there = found.at(event)
        return there if there.event is not None else found.before(row.trace.event(event)["start"])

    def event_condition(self, row: AggregateRow) -> pl.Expr:
        """Condition that the events counted by the row meet, and no others."""
        if row.question is None:
            return name_row_condition(row.values)
        return pl.col("id").is_in(self._event_ids(row.question, row).implode())

    def _event_ids(self, question: AnalysisRequest, row: AggregateRow) -> pl.Series:
        """Their ids; none where the analysis has no such row any more."""
        result = self._known.get(question)
        if result is None:
            result = self._known[question] = run_request(row.trace, question, members=True)
        told = [column.name for column in result.columns if column.unit in _KEY_UNITS and column.name in row.values]
        same = pl.all_horizontal(pl.col(name).eq_missing(pl.lit(row.values[name])) for name in told)
        if COUNTED_EVENTS not in result.table.columns:
            return pl.Series(COUNTED_EVENTS, [], pl.Int64)
        return result.table.filter(same)[COUNTED_EVENTS].head(1).explode().drop_nulls()
