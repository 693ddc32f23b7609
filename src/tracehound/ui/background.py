"""Work that must not hold up the screen.

Owns one thread and what waits for it: of each sort of work only the newest request counts. Knows no widget. The thread
does not keep the program alive, so that leaving never waits for an analysis to end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress

NICE = 5
"""How much a thread that works gives way to the one that draws, where the system knows that of threads."""


def give_way() -> None:
    """Let this thread, and those that it starts, have the processor when the one that draws does not need it."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


class Background:
    """One thread that does the newest request of each sort, in the order in which the sorts were asked for."""

    def __init__(self) -> None:
        self._waiting: dict[str, Callable[[], None]] = {}
        self._changed = threading.Condition()
        self._running = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="tracehound background", daemon=True)

    @property
    def busy(self) -> bool:
        """Whether something is running or waiting."""
        with self._changed:
            return self._running or bool(self._waiting)

    def submit(self, sort: str, work: Callable[[], None]) -> None:
        """Do `work` in the thread; what of its sort has not begun yet is forgotten. `work` raises nothing."""
        with self._changed:
            if self._closed:
                return
            self._waiting[sort] = work
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
                work = self._waiting.pop(sort)
                self._running = True
            work()
