"""Work that must not hold up the screen.

Owns one thread, what waits for it, and the words for work that fails: of each sort of work only the newest request
counts, and none ends the thread. Knows no widget. The thread does not keep the program alive, so that leaving never
waits for an analysis to end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress

from tracehound.errors import TracehoundError, printable

NICE = 5
"""How much a thread that works gives way to the one that draws, where the system knows that of threads."""


def give_way() -> None:
    """Let this thread, and those that it starts, have the processor when the one that draws does not need it."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


Work = Callable[[], None]

Failed = Callable[[str], object]
"""Is told, in the thread of the work, the one line that says why it failed."""


class Background:
    """One thread that does the newest request of each sort, in the order in which the sorts were asked for."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Work, Failed]] = {}
        self._changed = threading.Condition()
        self._running = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="tracehound background", daemon=True)

    @property
    def busy(self) -> bool:
        """Whether something is running or waiting."""
        with self._changed:
            return self._running or bool(self._waiting)

    def submit(self, sort: str, work: Work, failed: Failed) -> None:
        """Do `work` in the thread; what of its sort has not begun yet is forgotten.

        Whatever it raises, `failed` is told: a TracehoundError in its own words, anything else as ``SORT failed``.
        """
        with self._changed:
            if self._closed:
                return
            self._waiting[sort] = (work, failed)
            if self._thread.ident is None:
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Forget what waits, and end after what runs."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        give_way()
        while True:
            with self._changed:
                self._running = False
                self._changed.wait_for(lambda: self._closed or bool(self._waiting))
                if self._closed:
                    return
                sort = next(iter(self._waiting))
                work, failed = self._waiting.pop(sort)
                self._running = True
            try:
                work()
            except BaseException as error:  # noqa: BLE001, polars' panics are no Exception
                with suppress(Exception):  # who asked may have left the screen
                    failed(_why(sort, error))


def _why(sort: str, error: BaseException) -> str:
    if isinstance(error, TracehoundError):
        return str(error)
    return printable(f"{sort} failed: {type(error).__name__}: {error}")
