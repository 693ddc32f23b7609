"""The terminal's driver, left without waiting, and what it writes.

Owns that: Textual waits for the thread that reads keys, which looks up every tenth of a second and then once more; it
ends with bytes that are no text; and it sends what the terminal shows already.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import termios
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import TextIOWrapper
from typing import TextIO, cast

from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size
from textual.message import Message

from tracehound.ui.terminal.screen_contents import COLOR_SYSTEMS, ScreenContents

POLL_SECONDS = 0.1
"""Seconds between two looks at whether keys are still wanted."""


class ClosableTerminal:
    """A terminal as a file, written to in vain when it has gone away.

    The thread that writes must not end before the program, which waits for it.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write what can be written."""
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        """Send it."""
        with suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        """The file's."""
        return self._file.fileno()


class QuickDriver(LinuxDriver):
    """Textual's driver, but for the end of the program and for what is drawn."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        if sys.__stdout__ is not None:
            # Textual draws on stderr, which may go to a file
            self._file = cast("TextIOWrapper", ClosableTerminal(sys.__stdout__))
        self.paper = ScreenContents()

    def start_application_mode(self) -> None:
        """A screen of its own, with nothing on it.

        Who is stopped from outside (SIGSTOP, as a scheduler's) and goes on was told of neither: what was begun ends
        first, or two threads would read the keys, and the terminal as the program set it would be left to the shell.
        In the background it is stopped again until the shell gives it the terminal, unless it has been told to end.
        """
        if not self._foreground:
            os.kill(os.getpid(), signal.SIGTTOU)
            return
        if self._writer_thread is not None:
            self.suspend_application_mode()
            self._must_signal_resume = True
        self.paper.forget()
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual declares no types here

    def stop_application_mode(self) -> None:
        """Give the terminal back as it was, if it was not given back; its modes only while no shell has set its own."""
        if self._writer_thread is None:
            return
        if not self._foreground:
            self.attrs_before = None
        super().stop_application_mode()

    def close(self) -> None:
        """Write no more until the application is started again: whoever has the terminal now, it is not this one."""
        super().close()
        self._writer_thread = None

    def write(self, data: str) -> None:
        """Write to the terminal, in vain while it is not ours."""
        writer = self._writer_thread
        if writer is not None:
            writer.write(data)

    @property
    def _foreground(self) -> bool:
        """True if a shell, if one controls jobs here, has given this process the terminal."""
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError:
            return True

    def _run_input_thread(self) -> None:
        """Read keys; a fault in that is one of the program."""
        try:
            self.run_input_thread()
        except Exception as error:  # noqa: BLE001, whatever it is, the program has ended
            if self._app.return_code is None:
                self._app.call_later(self._app._handle_exception, error)  # noqa: SLF001

    def run_input_thread(self) -> None:
        """Read keys for as long as they are wanted."""
        keyboard = KeyParser()
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(POLL_SECONDS):
                    data = os.read(self.fileno, 1 << 12)
                    if not data:
                        self.exit_event.wait(POLL_SECONDS)  # the terminal has gone away, and is always ready to say so
                    for message in keyboard.feed(data):
                        self.process_message(message)
                for message in keyboard.tick():
                    self.process_message(message)

    def disable_input(self) -> None:
        """Read no more keys; when the program ends, the thread that reads them ends by itself."""
        if self._app.return_code is None:
            super().disable_input()
        elif not self.exit_event.is_set():
            self.exit_event.set()
            self._disable_mouse_support()
            if self._foreground:
                with suppress(termios.error):
                    termios.tcflush(self.fileno, termios.TCIFLUSH)


@dataclass(frozen=True)
class ScreenUpdate(CompositorUpdate):
    """An update of the screen, sent as what it changes: `words`, by `difference`."""

    words: str

    def render_segments(self, console: Console) -> str:
        """Text to write to the terminal."""
        del console
        return self.words


def minimal_update(
    update: LayoutUpdate | ChopsUpdate, paper: ScreenContents, size: Size, console: Console
) -> ScreenUpdate:
    """Changes of the terminal's contents by an update; the contents are updated, too."""
    system = COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
    pieces = _region_lines(update) if isinstance(update, LayoutUpdate) else _line_spans(update)
    return ScreenUpdate(paper.write(pieces, size.width, system))


LinePiece = tuple[int, int, Iterable[Segment]]
"""Line, column, and what stands there."""


def _region_lines(update: LayoutUpdate) -> Iterator[LinePiece]:
    """Whole lines of a region."""
    for y, strips in enumerate(update.strips, update.region.y):
        yield y, update.region.x, [segment for strip in strips for segment in strip]


def _line_spans(update: ChopsUpdate) -> Iterator[LinePiece]:
    """Parts of lines, each of which Textual has cut where widgets meet."""
    for y, low, high in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= high and end > low:
                yield y, x, strip if x >= low and end <= high else strip.crop(0, min(end, high) - x)


_MAX_SEQUENCE = len(BRACKETED_PASTE_START)
"""Characters of the sequence around a paste, at its start as at its end."""


class KeyParser:
    """Reads what is typed, piece by piece."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._parser = XTermParser()
        self._last = ""
        self._pasted: list[str] | None = None

    def feed(self, data: bytes) -> Iterator[Message]:
        """Messages that these bytes, after all bytes before them, amount to."""
        for character in self._decoder.decode(data):
            self._last = (self._last + character)[-_MAX_SEQUENCE:]
            if self._pasted is None:
                yield from self._read(character)
                self._pasted = [] if self._last == BRACKETED_PASTE_START else None
            else:
                self._pasted.append(character)
                if self._last == BRACKETED_PASTE_END:
                    yield from self._paste("".join(self._pasted[:-_MAX_SEQUENCE]))
                    self._pasted = None

    def tick(self) -> Iterator[Message]:
        """Messages after a pause: an escape character followed by nothing is the key itself."""
        for message in self._parser.tick():
            self._last = ""  # nor does it begin a paste any more
            yield message

    def _read(self, character: str) -> list[Message]:
        try:
            return list(self._parser.feed(character))
        except (ValueError, ArithmeticError):  # numbers that are none, or none of a character
            self._parser = XTermParser()  # one that has failed reads nothing any more
            return []

    def _paste(self, text: str) -> Iterator[Message]:
        """A paste, when it is there to its end."""
        for character in text:
            if character.isprintable() or character in "\t\r\n":
                yield from self._read(character)
        for character in BRACKETED_PASTE_END:
            yield from self._read(character)
