"""The rows of a timeline, read in the background, and the moves that wait for them.

Owns one thread, and what it reads next: what a key waits for, then what is in sight. Knows no widget but the one that
is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.draw.colouring import By
from tracehound.draw.rows import NO_ROW, NO_WORDS, Slices
from tracehound.draw.shelf import NotReadError, Rows, Shelf, Wish
from tracehound.draw.sight import Sight
from tracehound.trace import Trace
from tracehound.ui.background.threads import Background
from tracehound.ui.state.view import View

Move = Callable[[Rows, View], View]
"""From one view to the next; raises NotReadError where rows that it needs are not there yet."""

Slot = tuple[int, int, int]
"""A slice: lane, depth, and index on that row."""

UNKNOWN = -1
"""In place of the index of a slice whose lane has to be read."""

NOTHING = Slices((NO_ROW,), NO_WORDS)
"""In place of what cannot be read."""


class Supply:
    """Has rows made for one timeline, one after the other; `by` says what colours those of the next trace."""

    @dataclass
    class Arrived(Message):
        """What was wished for is there, or the one line that says why it cannot be."""

        rows: Rows
        wish: Wish
        made: Slices
        failure: str = ""

    @dataclass
    class Sighted(Message):
        """Other parts that are not read yet came into sight."""

        parts: frozenset[int]

    def __init__(self, target: MessagePump) -> None:
        self.by: By = "kind"
        self._target = target
        self._background = Background()
        self._shelf = Shelf()
        self._asked: tuple[Rows, Wish] | None = None
        self._due: list[tuple[Wish, Move]] = []
        self._sighted = frozenset[int]()

    @property
    def busy(self) -> bool:
        """Whether something is being read."""
        return self._asked is not None

    def close(self) -> None:
        """Nobody waits any more."""
        self._asked = None
        self._background.close()

    def rows(self, trace: Trace) -> Rows:
        """The rows of a trace; those of the one before that are the same are there already."""
        return Rows(trace, self._shelf, self.by)

    def moved(self, rows: Rows, view: View, move: Move) -> View:
        """The view after a move; the same view where the move waits for rows."""
        try:
            return move(rows, view)
        except NotReadError as error:
            self._due.append((error.wish, move))
            return view

    def want(self, rows: Rows, sight: Sight) -> None:
        """Read what moves wait for, then what is in sight; what was wanted before is forgotten."""
        seen = sight.wishes
        self._shelf.needed = frozenset(map(rows.key, seen))
        if sight.unread != self._sighted:
            self._sighted = sight.unread
            self._target.post_message(self.Sighted(self._sighted))
        wishes = [*(wish for wish, _ in self._due), *seen]
        missing = next((wish for wish in wishes if not rows.here(wish)), None)
        if missing is not None and self._asked != (rows, missing):
            self._asked = (rows, missing)
            self._background.submit(
                "reading a lane",
                lambda: self._tell(self.Arrived(rows, missing, rows.make(missing))),
                lambda why: self._tell(self.Arrived(rows, missing, NOTHING, why)),
            )

    def take(self, message: Arrived) -> list[Move]:
        """Keep what has come; the moves that waited are due now, in the order in which they were made."""
        message.rows.put(message.wish, message.made)
        if self._asked == (message.rows, message.wish):
            self._asked = None
        due = [move for _, move in self._due]
        self._due.clear()
        return due

    def slot(self, rows: Rows, event: int) -> Slot:
        """Where an event is drawn; its index is `UNKNOWN` as long as its lane has to be read."""
        try:
            return rows.slice_of(event)
        except NotReadError:
            found = rows.trace.event(event)
            return int(found["lane"]), int(found["depth"]), UNKNOWN

    def forget(self) -> None:
        """The moves that wait are not wanted any more."""
        self._due.clear()

    def _tell(self, arrived: Arrived) -> None:
        self._target.post_message(arrived)
