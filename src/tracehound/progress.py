"""How far the reading, or the writing, has come, on one line of a terminal that goes away when it is done.

Owns that line. For stderr, and only where it is a terminal.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from shutil import get_terminal_size
from types import TracebackType
from typing import Self, TextIO

from msgspec import Struct

from tracehound.errors import printable
from tracehound.store import Reading
from tracehound.units import middle, plural

INTERVAL = 0.1
"""Seconds between two states of the line."""

SLOW = 0.4
"""Seconds of a search that nobody needs to be told of."""

SETTLED = 0.25
"""Seconds before a speed is told."""

CLEAR = "\r\x1b[K"


class Progress(Struct):
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
        if self._due():
            self._say(sentence(reading))

    def writing(self, name: str, share: float) -> None:
        """Say which share of a file is written, not more often than every `INTERVAL`."""
        if self._due():
            self._say(f"writing {name}, {100 * share:.0f} %")

    def looking(self, where: str, files: int) -> None:
        """Say how many files were looked at, not more often than every `INTERVAL`."""
        if self._due():
            self._say(f"looking for traces in {printable(where)}, {plural(files, 'file')} so far")

    def _due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + INTERVAL
        return True

    def _say(self, text: str) -> None:
        self.stream.write(f"{CLEAR}{middle(text, columns(self.stream) - 1)}")
        self.stream.flush()


def columns(stream: TextIO) -> int:
    """The columns of the terminal behind a stream, as it says itself; where there is none ``COLUMNS``, else 80."""
    with suppress(OSError, ValueError):
        if known := os.get_terminal_size(stream.fileno()).columns:
            return known
    return get_terminal_size((80, 24)).columns


def sentence(reading: Reading) -> str:
    """How far the reading is, in words: ``reading rank3.json, 4 of 64 files, 37 %, 1.2 M events/s, 12 s left``."""
    return ", ".join(part for part in said(reading) if part)


def brief(reading: Reading, room: int) -> str:
    """The same in at most `room` characters: without the name, without the speed, without the count where need be."""
    files, share, speed, left = said(reading)[1:]
    shorter = ((files, share, speed, left), (files, share, left), (share, left), (share,))
    written = (f"reading {', '.join(part for part in parts if part)}" for parts in shorter)
    return next((text for text in (sentence(reading), *written) if len(text) <= room), share)


def said(reading: Reading) -> tuple[str, str, str, str, str]:
    """What there is to say: what is read, files, share, speed and time left; empty where that is not known."""
    return (
        f"reading {printable(reading.path.name)}",
        f"{reading.done + 1:,} of {reading.files:,} files" if reading.files > 1 else "",
        f"{min(100, 100 * reading.read // reading.size)} %" if reading.size else "",
        f"{_short(reading.events / reading.seconds)} events/s" if reading.events and reading.seconds > SETTLED else "",
        f"{_clock(reading.left)} left" if reading.left is not None else "",
    )


def _short(number: float) -> str:
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 100 else f"{whole // 60} min {whole % 60:02} s"
