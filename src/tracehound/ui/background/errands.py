"""Work for a screen that may take long or fail: done in a thread, and what comes of it in the screen's own.

Knows the screen only as somewhere to come back to.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.screen import Screen

from tracehound.ui.background.threads import Background
from tracehound.ui.terminal.outside import warn

Errand = Callable[[], Callable[[], None]]
"""Done in the thread; it gives what the screen's thread is to do then. What it raises is said on the screen."""


class Errands(Background):
    """One errand after the other; of those that wait only the newest is run."""

    def __init__(self, screen: Screen[None], sort: str) -> None:
        """`sort` says what they are for."""
        super().__init__()
        self._screen = screen
        self._sort = sort

    def run(self, errand: Errand) -> None:
        """Go on it."""

        def work() -> None:
            self._screen.call_later(errand())

        self.submit(self._sort, work, lambda why: self._screen.call_later(warn, self._screen.app, why))
