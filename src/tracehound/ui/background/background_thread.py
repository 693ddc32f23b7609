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

from textual.screen import Screen

from tracehound.errors import TracehoundError, printable
from tracehound.ui.terminal.outside_programs import notify_warning

NICENESS = 5
"""How much a thread that works gives way to the one that draws, where the system knows that of threads."""


def lower_thread_priority() -> None:
    """Let this thread, and those that it starts, have the processor when the one that draws does not need it."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


Job = Callable[[], None]

JobFailed = Callable[[str], object]
"""Is told, in the thread of the work, the one line that says why it failed."""


class BackgroundThread:
    """One thread that does the newest request of each sort, in the order in which the sorts were asked for."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Job, JobFailed]] = {}
        self._changed = threading.Condition()
        self._running = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="tracehound background", daemon=True)

    @property
    def busy(self) -> bool:
        """True while something is running or waiting."""
        with self._changed:
            return self._running or bool(self._waiting)

    def submit(self, sort: str, work: Job, failed: JobFailed) -> None:
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
        lower_thread_priority()
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
                    failed(_failure_text(sort, error))


def _failure_text(sort: str, error: BaseException) -> str:
    if isinstance(error, TracehoundError):
        return str(error)
    return printable(f"{sort} failed: {type(error).__name__}: {error}")


Task = Callable[[], Callable[[], None]]
"""Done in the thread; it gives what the screen's thread is to do then. What it raises is said on the screen."""


class ScreenTasks(BackgroundThread):
    """One errand after the other; of those that wait only the newest is run."""

    def __init__(self, screen: Screen[None], sort: str) -> None:
        """`sort` says what they are for."""
        super().__init__()
        self._screen = screen
        self._sort = sort

    def run(self, errand: Task) -> None:
        """Go on it."""

        def work() -> None:
            self._screen.call_later(errand())

        self.submit(self._sort, work, lambda why: self._screen.call_later(notify_warning, self._screen.app, why))
