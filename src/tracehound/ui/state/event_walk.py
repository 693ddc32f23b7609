"""Going from one event to the next of the same sort: matches of a search, instances of an op.

Owns the order and the place in it. Knows no widget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.model.trace import Trace, collect_frame


class EventWalk(Struct, frozen=True, eq=False):
    """Events in the order of their starts, over the whole trace, and which one is the present.

    `what` is what they have in common, for people; `rows` are those of `events` that are meant, in order (None: all).
    `place` counts in these, and is -1 before the first step.
    """

    what: str
    events: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    place: int = -1
    rows: npt.NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.events if self.rows is None else self.rows)

    @property
    def event(self) -> int | None:
        """The id of the present event."""
        if not 0 <= self.place < len(self):
            return None
        return int(self.events[self.place if self.rows is None else self.rows[self.place]])

    @property
    def words(self) -> str:
        """``17 of 2,304``."""
        if not len(self):
            return "no match"
        return f"{self.place + 1:,} of {len(self):,}" if self.place >= 0 else f"{len(self):,}"

    def step(self, by: int) -> EventWalk:
        """The next (1) or previous (-1) one; after the last comes the first."""
        if not len(self):
            return self
        start = self.place if self.place >= 0 else (-1 if by > 0 else 0)
        return replace(self, place=(start + by) % len(self))

    def at(self, event: int) -> EventWalk:
        """The walk with this event as the current one, if it is among the events."""
        found = replace(self, place=self._first(int(np.argmax(self.events == event)))) if len(self) else self
        return found if found.event == event else self

    def after(self, time: int) -> EventWalk:
        """The walk at the first event that starts at `time` or later, else at the first of all."""
        if not len(self):
            return self
        return replace(self, place=self._first(int(np.searchsorted(self.starts, time))))

    def before(self, time: int) -> EventWalk:
        """The walk at the last event that starts at `time` or earlier; at none if all start later."""
        starts = self.starts if self.rows is None else self.starts[self.rows]
        return replace(self, place=int(np.searchsorted(starts, time, side="right")) - 1)

    def _first(self, row: int) -> int:
        """The place of the first that is this row or a later one; after the last comes the first."""
        return (row if self.rows is None else int(np.searchsorted(self.rows, row))) % len(self)


def walk_events(trace: Trace, what: str, condition: pl.Expr) -> EventWalk:
    """All events of the trace for which `condition` holds."""
    found = collect_frame(trace.events().filter(condition).select("id", "start").sort("start", "id"))
    return EventWalk(what, found["id"].to_numpy(), found["start"].to_numpy())


def walk_op_executions(trace: Trace, event: int) -> EventWalk:
    """All executions of the op that this event is one of, over all ranks; the event is the present one."""
    found = trace.event(event)
    return walk_events(trace, str(found["name"]), same_op_condition(trace, found)).at(event)


def same_op_condition(trace: Trace, event: Mapping[str, Any]) -> pl.Expr:
    """Condition that all executions of this event's op meet.

    An HLO op is identified by its name in its module; anything else by name, kind and side (device or host).
    """
    if event["op"] is not None:
        return pl.col("op").is_in(_same_op_rows(trace, event))
    device = pl.col("rank").is_not_null() if event["rank"] is not None else pl.col("rank").is_null()
    same = pl.col("name").eq(str(event["name"])) & pl.col("kind").eq(str(event["kind"]))
    return same & pl.col("op").is_null() & device


def _same_op_rows(trace: Trace, event: Mapping[str, Any]) -> list[int]:
    """The rows of `ops` with the name, module and program of this event's op: one for each file."""
    row = trace.ops.row(by_predicate=pl.col("op") == event["op"], named=True)
    same = pl.all_horizontal(pl.col(column).eq_missing(pl.lit(row[column])) for column in ("name", "module", "program"))
    return trace.ops.filter(same)["op"].to_list()
