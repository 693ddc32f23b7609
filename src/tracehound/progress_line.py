"""The progress of reading or writing, on one line of a terminal that is cleared at the end.

Written to stderr, and only if stderr is a terminal.
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
from tracehound.model.short_names import cut_middle
from tracehound.model.units import count_noun, format_bandwidth, format_bytes
from tracehound.store import ReadingProgress

UPDATE_SECONDS = 0.1
"""Seconds between two updates of the line."""

MIN_SEARCH_SECONDS = 0.4
"""A search that takes less than these seconds shows nothing."""

MIN_SPEED_SECONDS = 0.25
"""Seconds before the first speed is shown."""

CLEAR_LINE = "\r\x1b[K"


class ProgressLine(Struct):
    """A context in which the `show_...` methods keep one line of `stream` up to date."""

    stream: TextIO
    _next: float = 0.0

    def __enter__(self) -> Self:
        """Writes nothing yet."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Clear the line, also after an error."""
        if self._next:
            self.stream.write(CLEAR_LINE)
            self.stream.flush()

    def show_reading(self, reading: ReadingProgress) -> None:
        """Show the progress of reading, at most once every `UPDATE_SECONDS`."""
        if self._is_due():
            self._write_line(progress_sentence(reading))

    def show_writing(self, name: str, share: float) -> None:
        """Show the fraction of a file that is written, at most once every `UPDATE_SECONDS`."""
        if self._is_due():
            self._write_line(f"writing {name}, {100 * share:.0f} %")

    def show_sentence(self, sentence: str) -> None:
        """Show any sentence, at most once every `UPDATE_SECONDS`."""
        if self._is_due():
            self._write_line(sentence)

    def show_search(self, where: str, files: int) -> None:
        """Show how many files a search has looked at, at most once every `UPDATE_SECONDS`."""
        if self._is_due():
            self._write_line(f"looking for traces in {printable(where)}, {count_noun(files, 'file')} so far")

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + UPDATE_SECONDS
        return True

    def _write_line(self, text: str) -> None:
        self.stream.write(f"{CLEAR_LINE}{cut_middle(text, terminal_width(self.stream) - 1)}")
        self.stream.flush()


def terminal_width(stream: TextIO) -> int:
    """The columns of the terminal behind a stream; without a terminal those of ``COLUMNS``, else 80."""
    with suppress(OSError, ValueError):
        if known := os.get_terminal_size(stream.fileno()).columns:
            return known
    return get_terminal_size((80, 24)).columns


def progress_sentence(reading: ReadingProgress) -> str:
    """The progress of reading in words: ``reading rank3.json, 4 of 64 files, 37 %, 1.2 M events/s, 12 s left``.

    Of a download: ``downloading rank3.json, 4 of 64 files, 37 % of 2.1 GB, 80 MB/s, 12 s left``.
    """
    return ", ".join(part for part in progress_parts(reading) if part)


def short_progress_sentence(reading: ReadingProgress, room: int) -> str:
    """The longest form of the progress that fits in `room` characters: the name is left out first, then other parts."""
    name, files, share, speed, left = progress_parts(reading)
    shorter = ((files, share, speed, left), (files, share, left), (share, left), (share,))
    verb = name.partition(" ")[0]
    written = (f"{verb} {', '.join(part for part in parts if part)}" for parts in shorter)
    return next((text for text in (progress_sentence(reading), *written) if len(text) <= room), share)


def progress_parts(reading: ReadingProgress) -> tuple[str, str, str, str, str]:
    """Parts of the progress sentence: file, number of files, percentage, speed and time left; empty where unknown."""
    name, download = printable(reading.path.name), reading.download
    files = f"{reading.done + 1:,} of {reading.files:,} files" if reading.files > 1 else ""
    left = f"{_format_seconds(reading.seconds_left)} left" if reading.seconds_left is not None else ""
    if download is not None:
        share = f"{100 * download.downloaded // max(1, download.size)} % of {format_bytes(download.size)}"
        speed = format_bandwidth(download.speed) if download.speed and reading.seconds > MIN_SPEED_SECONDS else ""
        return f"downloading {name}", files, share, speed, left
    share = f"{min(100, 100 * reading.read // reading.size)} %" if reading.size else ""
    known = reading.events and reading.seconds > MIN_SPEED_SECONDS
    speed = f"{_abbreviate_number(reading.events / reading.seconds)} events/s" if known else ""
    return f"reading {name}", files, share, speed, left


def _abbreviate_number(number: float) -> str:
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def _format_seconds(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 100 else f"{whole // 60} min {whole % 60:02} s"
