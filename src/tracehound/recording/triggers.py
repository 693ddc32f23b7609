"""Triggers of a recording in a job that already runs: a signal, or a file that is touched."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any


class TouchedFile:
    """A file whose time of modification is looked at once per step; it need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._read_mtime()

    def _read_mtime(self) -> int | None:
        """The time of modification, in ns since 1970; None without a file that can be looked at."""
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return None

    def was_touched(self) -> bool:
        """True once after the file was written, touched or created."""
        mtime = self._read_mtime()
        if mtime == self._seen:
            return False
        self._seen = mtime
        return mtime is not None


class SignalWatch:
    """A handler of one signal that calls a function, and then the handler that was there before.

    Raises ValueError outside of the main thread, where Python sets no handlers, and OSError for a signal that has none.
    """

    def __init__(self, number: int, on_arrival: Callable[[], None]) -> None:
        self._number = number
        self._on_arrival = on_arrival
        self._before: Any = signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._on_arrival()
        if callable(self._before):
            self._before(number, frame)

    def restore(self) -> None:
        """Set the earlier handler again, unless someone has set another one since; in the main thread only."""
        if signal.getsignal(self._number) == self._handle:
            with suppress(ValueError):
                signal.signal(self._number, signal.SIG_DFL if self._before is None else self._before)
