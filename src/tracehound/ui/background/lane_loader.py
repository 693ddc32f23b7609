"""The rows of a timeline, read in the background, and the moves that wait for them.

Owns one thread, and what it reads next: what a key waits for, then what is in sight. Knows no widget but the one that
is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.draw.event_colors import ColorBy
from tracehound.draw.lane_cache import LaneCache, RowsNotReadError, RowsRequest, TimelineRows
from tracehound.draw.lane_layout import Viewport
from tracehound.draw.lane_rows import EMPTY_ROW, NO_NAMES, LaneRows
from tracehound.model.trace import Trace
from tracehound.ui.background.background_thread import BackgroundThread
from tracehound.ui.state.view import View

ViewMove = Callable[[TimelineRows, View], View]
"""From one view to the next; raises NotReadError where rows that it needs are not there yet."""

EventSlot = tuple[int, int, int]
"""A slice: lane, depth, and index on that row."""

UNKNOWN_INDEX = -1
"""In place of the index of a slice whose lane has to be read."""

NO_SLOT = LaneRows((EMPTY_ROW,), NO_NAMES)
"""In place of what cannot be read."""


class LaneLoader:
    """Has rows made for one timeline, one after the other; `by` says what colors those of the next trace."""

    @dataclass
    class Arrived(Message):
        """The lanes that were requested, or the one line that says why they cannot be read."""

        rows: TimelineRows
        wish: RowsRequest
        made: LaneRows
        failure: str = ""

    @dataclass
    class Sighted(Message):
        """Other parts that are not read yet came into sight."""

        parts: frozenset[int]

    def __init__(self, target: MessagePump) -> None:
        self.by: ColorBy = "kind"
        self._target = target
        self._background = BackgroundThread()
        self._shelf = LaneCache()
        self._asked: tuple[TimelineRows, RowsRequest] | None = None
        self._due: list[tuple[RowsRequest, ViewMove]] = []
        self._sighted = frozenset[int]()

    @property
    def busy(self) -> bool:
        """True while something is being read."""
        return self._asked is not None

    def close(self) -> None:
        """Nobody waits any more."""
        self._asked = None
        self._background.close()

    def rows(self, trace: Trace) -> TimelineRows:
        """The rows of a trace; those of the one before that are the same are there already."""
        return TimelineRows(trace, self._shelf, self.by)

    def apply_move(self, rows: TimelineRows, view: View, move: ViewMove) -> View:
        """The view after a move; the same view where the move waits for rows."""
        try:
            return move(rows, view)
        except RowsNotReadError as error:
            self._due.append((error.request, move))
            return view

    def request_rows(self, rows: TimelineRows, sight: Viewport) -> None:
        """Read what moves wait for, then what is in sight; what was wanted before is forgotten."""
        seen = sight.requests
        self._shelf.needed = frozenset(map(rows.key, seen))
        if sight.unread_files != self._sighted:
            self._sighted = sight.unread_files
            self._target.post_message(self.Sighted(self._sighted))
        wishes = [*(wish for wish, _ in self._due), *seen]
        missing = next((wish for wish in wishes if not rows.is_read(wish)), None)
        if missing is not None and self._asked != (rows, missing):
            self._asked = (rows, missing)
            self._background.submit(
                "reading a lane",
                lambda: self._tell(self.Arrived(rows, missing, rows.read_rows(missing))),
                lambda why: self._tell(self.Arrived(rows, missing, NO_SLOT, why)),
            )

    def store_loaded_rows(self, message: Arrived) -> list[ViewMove]:
        """Keep what has come; the moves that waited are due now, in the order in which they were made."""
        message.rows.put(message.wish, message.made)
        if self._asked == (message.rows, message.wish):
            self._asked = None
        due = [move for _, move in self._due]
        self._due.clear()
        return due

    def locate_event(self, rows: TimelineRows, event: int) -> EventSlot:
        """Position where an event is drawn; its index is `UNKNOWN_INDEX` until its lane is read."""
        try:
            return rows.locate_event(event)
        except RowsNotReadError:
            found = rows.trace.event(event)
            return int(found["lane"]), int(found["depth"]), UNKNOWN_INDEX

    def cancel_moves(self) -> None:
        """The moves that wait are not wanted any more."""
        self._due.clear()

    def _tell(self, arrived: Arrived) -> None:
        self._target.post_message(arrived)
