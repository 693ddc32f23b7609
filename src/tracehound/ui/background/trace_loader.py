"""Reading the files of a trace while the explorer is already on the screen.

Owns the reading thread: what it tells the screen, how often, and how it is stopped. Knows no widget but the one that
is told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.errors import TracehoundError
from tracehound.model.trace import FileFrames, Trace
from tracehound.store import CancelledError, ReadingProgress, TraceReader
from tracehound.ui.background.background_thread import lower_thread_priority

MIN_PAUSE = 0.25
"""Seconds between two reports of progress: a line that changes more often costs bytes and tells nothing more."""

PAUSE_RATIO = 4
"""Placing the parts anew takes at most one part in this many of the reading's time."""


class TraceLoader:
    """Reads an opening in a thread of its own, which does not keep the program alive."""

    @dataclass
    class Progressed(Message):
        """Progress of the reading."""

        reading: ReadingProgress

        def can_replace(self, message: Message) -> bool:
            """Only the newest counts."""
            return isinstance(message, TraceLoader.Progressed)

    @dataclass
    class Loaded(Message):
        """The trace as far as it is read; of its `unread` parts no more is known than their heads tell."""

        trace: Trace
        unread: frozenset[int]

        @property
        def done(self) -> bool:
            """True if everything is read."""
            return not self.unread

    @dataclass
    class Failed(Message):
        """Nothing could be read, and why."""

        error: TracehoundError

        @property
        def words(self) -> str:
            """The reason, for the header."""
            return str(self.error)

    @dataclass
    class Stopped(Message):
        """The user wanted no more files; so many are read."""

        read: int

    def __init__(self, target: MessagePump, opening: TraceReader) -> None:
        self._target = target
        self._opening = opening
        self._cancelled = threading.Event()
        self._stopped = threading.Event()
        self._told = 0.0
        self._thread = threading.Thread(target=self._read, name="tracehound reader", daemon=True)

    @property
    def busy(self) -> bool:
        """True while the reading goes on."""
        return self._thread.is_alive()

    @property
    def is_not_started(self) -> bool:
        """True if the reading has not begun yet."""
        return self._thread.ident is None

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def cancel(self) -> None:
        """Stop soon; nothing more is told."""
        self._cancelled.set()

    def stop(self) -> None:
        """Read no further; what is read stays."""
        self._stopped.set()

    def join(self, seconds: float) -> None:
        """Wait for the end of a reading that was cancelled, but not longer than this."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _read(self) -> None:
        parts, blanks = dict[int, FileFrames](), dict[int, FileFrames]()
        lower_thread_priority()
        try:
            if self._read_files(parts, blanks):
                self._send(self.Loaded(self._opening.merge_on_final_clock(_sort_parts(parts)), frozenset()))
            else:
                self._end_early(parts, blanks)
        except BaseException as error:  # noqa: BLE001 - the screen must say why, of polars' panics too
            words = f"reading failed: {type(error).__name__}: {error}"
            why = error if isinstance(error, TracehoundError) else TracehoundError(words)
            try:
                if parts:
                    self._send(self.Loaded(self._merge_files(parts, {}), frozenset()))
            finally:  # the last word
                self._send(self.Failed(why))

    def _read_files(self, parts: dict[int, FileFrames], blanks: dict[int, FileFrames]) -> bool:
        """Read files into `parts`; False where that was stopped, and `blanks` stand for those that are not read."""
        try:
            self._fill(parts, blanks)
        except CancelledError:
            return False
        return True

    def _end_early(self, parts: Mapping[int, FileFrames], blanks: Mapping[int, FileFrames]) -> None:
        """Show what is read, and say that this is all; once more where its clock is another one, which takes longer."""
        if parts and not self._cancelled.is_set():
            trace, unread = self._merge_files(parts, blanks), frozenset(blanks)
            self._send(self.Loaded(trace, unread))
            self._send(self.Stopped(len(parts)))
            moved = self._opening.move_to_final_clock(trace)
            if moved is None:
                return
            self._send(self.Loaded(moved, unread))
        self._send(self.Stopped(len(parts)))

    def _fill(self, parts: dict[int, FileFrames], blanks: dict[int, FileFrames]) -> None:
        """Read all files, and tell now and then what is there; a file that is not read yet has a place already.

        The first one that is there of what has come into sight is told at once, however long that takes.
        """
        self._add_placeholders(blanks)
        served = set[int]()
        began = time.monotonic()
        if blanks:
            self._send(self.Loaded(self._merge_files(parts, blanks), frozenset(blanks)))
        ended = time.monotonic()
        placing = ended - began
        for number, part in self._opening.read_files(self._tell, self._unwanted):
            parts[number] = part
            blanks.pop(number, None)
            began = time.monotonic()
            wanted = self._opening.wanted_files
            sighted = not parts.keys().isdisjoint(wanted - served)
            first = sighted or (len(parts) == 1 and placing < MIN_PAUSE)
            if blanks and (first or began - ended >= max(MIN_PAUSE, PAUSE_RATIO * placing)):
                self._send(self.Loaded(self._merge_files(parts, blanks), frozenset(blanks)))
                served |= parts.keys() | (wanted if sighted else frozenset())
                ended = time.monotonic()
                placing = ended - began

    def _add_placeholders(self, blanks: dict[int, FileFrames]) -> None:
        """Have something stand for the files, where there are several."""
        for number in range(len(self._opening.files) if len(self._opening.files) > 1 else 0):
            if self._unwanted():
                raise CancelledError
            blanks[number] = self._opening.placeholder(number)

    def _merge_files(self, parts: Mapping[int, FileFrames], blanks: Mapping[int, FileFrames]) -> Trace:
        return self._opening.merge_frames(_sort_parts({**blanks, **parts}))

    def _unwanted(self) -> bool:
        return self._cancelled.is_set() or self._stopped.is_set()

    def _tell(self, reading: ReadingProgress) -> None:
        now = time.monotonic()
        if now - self._told >= MIN_PAUSE:
            self._told = now
            self._send(self.Progressed(reading))

    def _send(self, message: Message) -> None:
        if not self._cancelled.is_set():
            self._target.post_message(message)


def _sort_parts(parts: Mapping[int, FileFrames]) -> list[FileFrames]:
    return [parts[number] for number in sorted(parts)]
