"""Queries, answered in a thread of their own.

Owns which query runs, and that it can be stopped. Knows no widget but the pane that asked.
"""

from __future__ import annotations

from functools import partial
from threading import Event

from tracehound.analysis import Result
from tracehound.query import answer, prepare
from tracehound.trace import Trace, Window, interruptible
from tracehound.ui.background.threads import Background
from tracehound.ui.panes.query import QueryPane

MOST = 1_000_000
"""Rows of an answer; the table says of how many."""


class Asker(Background):
    """Answers one query after the other; a new one stops the one before."""

    def __init__(self) -> None:
        super().__init__()
        self._stop = Event()

    def ask(self, asked: QueryPane.Asked, trace: Trace, window: Window, so_far: str) -> None:
        """Have `QueryPane.Answered` sent to the pane."""
        self.stop()
        self._stop = stop = Event()
        span = (window.start, window.end) if window.start is not None and window.end is not None else None

        def tell(result: Result | None, failure: str = "") -> None:
            asked.pane.post_message(QueryPane.Answered(asked.statement, result, span, so_far, failure))

        def work() -> None:
            collect = partial(interruptible, stopped=stop.is_set)
            try:
                tell(answer(prepare(asked.statement), trace, window, MOST, collect=collect))
            except InterruptedError:
                tell(None, "Query: stopped")

        self.submit("the query", work, lambda why: tell(None, why))

    def stop(self) -> None:
        """Give up the query that runs."""
        self._stop.set()

    def close(self) -> None:
        """Give up the query that runs, and end."""
        self.stop()
        super().close()
