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
from tracehound.progress import sentence
from tracehound.store import CancelledError, Opening, Reading, place
from tracehound.trace import Part, Trace

PAUSE = 0.25
"""Seconds between two reports of progress: a line that changes more often costs bytes and tells nothing more."""

RATIO = 4
"""Placing the parts anew takes at most one part in this many of the reading's time."""


class Loading:
    """Reads an opening in a thread of its own, which does not keep the program alive."""

    @dataclass
    class Progressed(Message):
        """How far the reading is, in words for the header."""

        words: str

        def can_replace(self, message: Message) -> bool:
            """Only the newest counts."""
            return isinstance(message, Loading.Progressed)

    @dataclass
    class Loaded(Message):
        """The trace as far as it is read; `done` when that is all of it."""

        trace: Trace
        done: bool

    @dataclass
    class Failed(Message):
        """Nothing could be read, and why."""

        error: TracehoundError

        @property
        def words(self) -> str:
            """The reason, for the header."""
            return str(self.error)

    def __init__(self, target: MessagePump, opening: Opening) -> None:
        self._target = target
        self._opening = opening
        self._cancelled = threading.Event()
        self._told = 0.0
        self._thread = threading.Thread(target=self._read, name="tracehound reader", daemon=True)

    @property
    def busy(self) -> bool:
        """Whether the reading goes on."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def cancel(self) -> None:
        """Stop soon; nothing more is told."""
        self._cancelled.set()

    def _read(self) -> None:
        opening, parts = self._opening, dict[int, Part]()
        placed_at = placing = 0.0
        shown = 0
        try:
            for number, part in opening.parts(self._tell, self._cancelled.is_set):
                parts[number] = part
                now = time.monotonic()
                if now - placed_at >= max(PAUSE, RATIO * placing) and len(parts) < len(opening.files):
                    self._show(parts, done=False)
                    placed_at, shown = time.monotonic(), len(parts)
                    placing = placed_at - now
            self._show(parts, done=True)
        except CancelledError:
            return
        except TracehoundError as error:
            self._send(self.Failed(error))
        except Exception as error:  # noqa: BLE001 - the screen must say why it stays empty
            self._send(self.Failed(TracehoundError(f"reading failed: {type(error).__name__}: {error}")))
            if shown < len(parts):
                self._show(parts, done=True)

    def _show(self, parts: Mapping[int, Part], *, done: bool) -> None:
        ordered = [parts[number] for number in sorted(parts)]
        self._send(self.Loaded(place(self._opening.name, ordered, self._opening.notes), done))

    def _tell(self, reading: Reading) -> None:
        now = time.monotonic()
        if now - self._told >= PAUSE:
            self._told = now
            self._send(self.Progressed(sentence(reading)))

    def _send(self, message: Message) -> None:
        if not self._cancelled.is_set():
            self._target.post_message(message)
