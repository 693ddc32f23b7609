"""How far the reading has come, on one line of a terminal that goes away when it is done.

Owns that line. For stderr, and only where it is a terminal.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from shutil import get_terminal_size
from types import TracebackType
from typing import Self, TextIO

from tracehound.errors import printable
from tracehound.store import Reading
from tracehound.units import middle

INTERVAL = 0.1
"""Seconds between two states of the line."""

CLEAR = "\r\x1b[K"


@dataclass
class Progress:
    """A context in which `show` keeps one line of `stream` up to date."""

    stream: TextIO
    _next: float = 0.0

    def __enter__(self) -> Self:
        """Nothing is shown before there is something to say."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """The line goes away, whatever happened."""
        if self._next:
            self.stream.write(CLEAR)
            self.stream.flush()

    def show(self, reading: Reading) -> None:
        """Say how far the reading is, not more often than every `INTERVAL`."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + INTERVAL
        self.stream.write(f"{CLEAR}{middle(sentence(reading), get_terminal_size().columns - 1)}")
        self.stream.flush()


def sentence(reading: Reading) -> str:
    """How far the reading is, in words."""
    percent = f" {100 * reading.read // reading.size} %" if reading.size else ""
    events = f", {reading.events:,} events" if reading.events else ""
    return f"reading {reading.file + 1} of {reading.files}: {printable(reading.path.name)}{percent}{events}"
