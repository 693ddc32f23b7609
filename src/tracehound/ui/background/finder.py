"""Searching and walking, worked out in the background.

Owns the names of the trace, once they are needed, and what was asked last. Knows no widget but the one that is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.trace import Trace
from tracehound.ui.background.counted import Counted, CountingRow
from tracehound.ui.background.threads import Background
from tracehound.ui.state import search
from tracehound.ui.state.search import Names
from tracehound.ui.state.walk import Walk, instances


class Finder:
    """Finds events by their names, as executions of one op, or as those that a row counts."""

    @dataclass
    class Searched(Message):
        """What a needle matches is known, or why that cannot be."""

        found: search.Found

    @dataclass
    class Walked(Message):
        """The events to walk through are known; or why they cannot be."""

        walk: Walk | None
        failure: str = ""

    def __init__(self, target: MessagePump, background: Background) -> None:
        self._target = target
        self._background = background
        self._names: Names | None = None

    def prepare(self, trace: Trace) -> None:
        """Someone is about to type: have what every needle is held against."""

        def work() -> None:
            self._known(trace)

        self._background.submit("reading the names", work, partial(self._fail, ""))

    def search(self, trace: Trace, needle: str) -> None:
        """Have `Searched` sent to the target, unless another needle follows at once."""
        self._background.submit(
            "search",
            lambda: self._tell(self.Searched(search.find(self._known(trace), needle))),
            partial(self._fail, needle),
        )

    def walk(self, trace: Trace, event: int) -> None:
        """Have `Walked` sent to the target, with the instances of the event's op."""
        self._work_out(lambda: instances(trace, event))

    def walk_row(self, counted: Counted, row: CountingRow) -> None:
        """Have `Walked` sent to the target, with the events that a row counts."""
        self._work_out(lambda: counted.walk(row))

    def _work_out(self, walk: Callable[[], Walk]) -> None:
        self._background.submit(
            "walk", lambda: self._tell(self.Walked(walk())), lambda why: self._tell(self.Walked(None, why))
        )

    def _known(self, trace: Trace) -> Names:
        if self._names is None or self._names.trace is not trace:
            self._names = search.names(trace)
        return self._names

    def _fail(self, needle: str, why: str) -> None:
        self._tell(self.Searched(search.failed(needle, why)))

    def _tell(self, message: Message) -> None:
        self._target.post_message(message)
