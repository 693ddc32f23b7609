"""Work for a screen that may take long or fail: done in a thread, and what comes of it in the screen's own.

Knows the screen only as somewhere to come back to.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.screen import Screen

from tracehound.errors import TracehoundError, printable
from tracehound.ui.background import Background
from tracehound.ui.outside import warn

Errand = Callable[[], Callable[[], None]]
"""Done in the thread; it gives what the screen's thread is to do then. A TracehoundError is said on the screen."""


class Errands(Background):
    """One errand after the other; of those that wait only the newest is run."""

    def __init__(self, screen: Screen[None], failed: str) -> None:
        """`failed` introduces what went wrong where nobody foresaw it."""
        super().__init__()
        self._screen = screen
        self._failed = failed

    def run(self, errand: Errand) -> None:
        """Go on it."""

        def safely() -> None:
            try:
                then = errand()
            except TracehoundError as error:
                then = self._saying(str(error))
            except Exception as error:  # noqa: BLE001 - one damaged event must not end the explorer
                then = self._saying(printable(f"{self._failed}: {type(error).__name__}: {error}"))
            self._screen.call_later(then)

        self.submit("errand", safely)

    def _saying(self, words: str) -> Callable[[], None]:
        return lambda: warn(self._screen.app, words)
