"""Queries, answered in a thread of their own.

Owns which query runs, and that it can be stopped. Knows no widget but the pane that asked.
"""

from __future__ import annotations

from functools import partial
from threading import Event

from tracehound.errors import TracehoundError, printable
from tracehound.query import answer, prepare
from tracehound.trace import Trace, Window, interruptible
from tracehound.ui.background import Background
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

        def work() -> None:
            reply = partial(QueryPane.Answered, asked.statement, window=span, so_far=so_far)
            try:
                query = prepare(asked.statement)
                collect = partial(interruptible, stopped=stop.is_set)
                asked.pane.post_message(reply(answer(query, trace, window, MOST, collect=collect)))
            except InterruptedError:
                asked.pane.post_message(reply(None, failure="Query: stopped"))
            except TracehoundError as error:
                asked.pane.post_message(reply(None, failure=str(error)))
            except Exception as error:  # noqa: BLE001 - a fault in a query must not end the explorer
                failure = printable(f"the query failed: {type(error).__name__}: {error}")
                asked.pane.post_message(reply(None, failure=failure))

        self.submit("query", work)

    def stop(self) -> None:
        """Give up the query that runs."""
        self._stop.set()

    def close(self) -> None:
        """Give up the query that runs, and end."""
        self.stop()
        super().close()
