"""The terminal driver: exits without waiting, tolerates bytes that are no text, and sends only changed cells.

Textual waits for the thread that reads keys, which looks up every tenth of a second and then once more; it ends with
bytes that are no text; and it sends every line of a region again, each run with its complete style.
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

from msgspec import Struct, field
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size
from textual.message import Message

Cell = tuple[str, Style | None]
"""What is written there and how. What takes more cells than it has letters stands in the first and leaves the others
empty."""

NEAR_CELLS = 6
"""So many equal cells between two that differ are sent again: to jump over them would take as much."""

COLOR_SYSTEMS = {system.name.lower(): system for system in ColorSystem} | {"256": ColorSystem.EIGHT_BIT}
"""How rich calls what a terminal can show."""

STYLE_ATTRIBUTES = (
    ("bold", "1"), ("dim", "2"), ("italic", "3"), ("underline", "4"), ("blink", "5"), ("blink2", "6"),
    ("reverse", "7"), ("conceal", "8"), ("strike", "9"), ("underline2", "21"), ("frame", "51"), ("encircle", "52"),
    ("overline", "53"),
)  # fmt: skip


class TerminalStyle(Struct, frozen=True):
    """A style as escape codes: attributes, foreground color and background color."""

    attributes: tuple[str, ...] = ()
    color: tuple[str, ...] = ("39",)
    ground: tuple[str, ...] = ("49",)

    @classmethod
    def of(cls, style: Style | None, system: ColorSystem) -> TerminalStyle:
        """The pen of a style on a terminal with such colors."""
        if style is None:
            return PLAIN_STYLE
        color, ground = style.color, style.bgcolor
        return cls(
            tuple(code for name, code in STYLE_ATTRIBUTES if getattr(style, name)),
            color.downgrade(system).get_ansi_codes() if color is not None else PLAIN_STYLE.color,
            ground.downgrade(system).get_ansi_codes(foreground=False) if ground is not None else PLAIN_STYLE.ground,
        )

    def codes_to_switch_from(self, other: TerminalStyle) -> str:
        """Escape codes that change the terminal from the other style to this one."""
        if self == other:
            return ""
        anew = self.attributes != other.attributes
        before = PLAIN_STYLE if anew else other
        codes = ("0", *self.attributes) if anew else ()
        codes += self.color if self.color != before.color else ()
        codes += self.ground if self.ground != before.ground else ()
        return f"\x1b[{';'.join(codes)}m"


PLAIN_STYLE = TerminalStyle()


class ScreenContents(Struct):
    """The lines that a terminal shows; None where nobody knows."""

    lines: list[list[Cell] | None] = field(default_factory=list)
    pens: dict[tuple[Style | None, ColorSystem], TerminalStyle] = field(default_factory=dict)

    def forget(self) -> None:
        """The terminal may show anything."""
        self.lines.clear()

    def encode_changes(
        self, pieces: Iterable[tuple[int, int, Iterable[Segment]]], width: int, system: ColorSystem
    ) -> str:
        """Text that puts every piece at its line and column, on a terminal `width` cells wide."""
        words, pen = list[str](), PLAIN_STYLE
        for y, x, segments in pieces:
            new = list(segment_cells(segments))[: max(0, width - x)]
            line = self._line(y, width)
            old = line[x : x + len(new)]
            line[x : x + len(new)] = new
            for first, last in changed_intervals(old, new):
                words.append(f"\x1b[{y + 1};{x + first + 1}H")
                for text, style in new[first:last]:
                    key = (style, system)
                    if key not in self.pens:
                        self.pens[key] = TerminalStyle.of(style, system)
                    other, pen = pen, self.pens[key]
                    words += (pen.codes_to_switch_from(other), text) if pen is not other else (text,)
        return "".join([*words, PLAIN_STYLE.codes_to_switch_from(pen)])

    def _line(self, y: int, width: int) -> list[Cell]:
        """The cells of a line; those that nobody knows are like no other."""
        self.lines += [None] * (y + 1 - len(self.lines))
        line = self.lines[y]
        if line is None or len(line) != width:
            line = self.lines[y] = [UNKNOWN_CELL] * width
        return line


UNKNOWN_CELL: Cell = ("\x00", None)


def segment_cells(segments: Iterable[Segment]) -> Iterator[Cell]:
    """The cells that segments take."""
    for text, style, control in segments:
        if control:
            continue
        if text.isascii() or (wide := cell_len(text)) == len(text):
            for char in text:
                yield char, style
        elif wide:
            yield text, style
            yield from [("", style)] * (wide - 1)


def changed_intervals(old: list[Cell], new: list[Cell]) -> Iterator[tuple[int, int]]:
    """The stretches of cells that have to be sent; what is wide is sent whole, and what it was drawn over."""
    different = [at for at, (was, cell) in enumerate(zip(old, new, strict=True)) if was is not cell and was != cell]
    first = last = -1
    for at in different:
        if at < last:
            continue
        begins, ends = at, at + 1
        while begins and not new[begins][0]:
            begins -= 1
        while ends < len(new) and not (new[ends][0] and old[ends][0]):
            ends += 1
        if last >= 0 and begins - last <= NEAR_CELLS:
            last = ends
            continue
        if last >= 0:
            yield first, last
        first, last = begins, ends
    if last >= 0:
        yield first, last


POLL_SECONDS = 0.1
"""Seconds between two looks at whether keys are still wanted."""


class TerminalFile:
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
            self._file = cast("TextIOWrapper", TerminalFile(sys.__stdout__))
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
    return ScreenUpdate(paper.encode_changes(pieces, size.width, system))


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
