"""The reasons to fetch a snapshot: Enter, SIGUSR1, the clock, and the age of the events."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Final, Literal, Self, TextIO

Trigger = Literal["take", "drop", "end"]
"""The reason to fetch a snapshot: to save it, to forget old events, or to end."""

_POLL_SECONDS: Final = 0.2
"""Seconds between two looks at the keyboard and the clock."""


class SnapshotTriggers:
    """Waits for a reason to fetch a snapshot: a line on stdin, SIGUSR1, or the clock.

    One is taken `every` so many seconds; events that are `max_age` seconds old are dropped. A context in which the
    signal is caught.
    """

    def __init__(self, every: float | None, max_age: float | None) -> None:
        self._every, self._max_age = every, max_age
        self._signaled = False
        self.has_keyboard = _has_descriptor(sys.stdin)
        self._fetched = self._taken = time.monotonic()

    def __enter__(self) -> Self:
        """Catch SIGUSR1."""
        self._before = signal.signal(signal.SIGUSR1, self._note_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Handle SIGUSR1 as before."""
        signal.signal(signal.SIGUSR1, self._before)

    def poll(self) -> Trigger | None:
        """The next trigger; None if there is none within `_POLL_SECONDS`."""
        trigger = self._typed() or self._due()
        if trigger is not None:
            self._fetched = time.monotonic()
        if trigger == "take":
            self._taken = self._fetched
        return trigger

    def restart_age(self) -> None:
        """Note that a snapshot is fetched now, for another reason."""
        self._fetched = time.monotonic()

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._signaled = True

    def _due(self) -> Trigger | None:
        now = time.monotonic()
        if self._signaled or (self._every and now - self._taken >= self._every):
            self._signaled = False
            return "take"
        return "drop" if self._max_age and now - self._fetched >= self._max_age else None

    def _typed(self) -> Trigger | None:
        """The trigger of a line on stdin; waits for one for `_POLL_SECONDS`."""
        if not self.has_keyboard or not select.select([sys.stdin], [], [], _POLL_SECONDS)[0]:
            if not self.has_keyboard:
                time.sleep(_POLL_SECONDS)
            return None
        if sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
            self.has_keyboard = False  # a background job that reads from the terminal would be stopped
            return None
        line = os.read(sys.stdin.fileno(), 1 << 10)
        if not line:
            self.has_keyboard = False
            return None
        return "end" if b"q" in line.lower() else "take"


def _has_descriptor(stream: TextIO | None) -> bool:
    """True if a stream is an open file, which can be waited for."""
    with suppress(AttributeError, OSError, ValueError):
        return stream is not None and stream.fileno() >= 0
    return False
