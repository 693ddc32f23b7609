"""Contents of the terminal, cell by cell, and the shortest text that changes them.

Textual sends every line of a region again, each run with its complete style; over a slow line that takes long. This
module sends only cells that differ from the terminal's contents, and of a style only what differs from the cell before.
Knows no widget. Links in styles are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

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
    colour: tuple[str, ...] = ("39",)
    ground: tuple[str, ...] = ("49",)

    @classmethod
    def of(cls, style: Style | None, system: ColorSystem) -> TerminalStyle:
        """The pen of a style on a terminal with such colours."""
        if style is None:
            return PLAIN_STYLE
        colour, ground = style.color, style.bgcolor
        return cls(
            tuple(code for name, code in STYLE_ATTRIBUTES if getattr(style, name)),
            colour.downgrade(system).get_ansi_codes() if colour is not None else PLAIN_STYLE.colour,
            ground.downgrade(system).get_ansi_codes(foreground=False) if ground is not None else PLAIN_STYLE.ground,
        )

    def after(self, other: TerminalStyle) -> str:
        """Escape codes that change the terminal from the other style to this one."""
        if self == other:
            return ""
        anew = self.attributes != other.attributes
        before = PLAIN_STYLE if anew else other
        codes = ("0", *self.attributes) if anew else ()
        codes += self.colour if self.colour != before.colour else ()
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

    def write(self, pieces: Iterable[tuple[int, int, Iterable[Segment]]], width: int, system: ColorSystem) -> str:
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
                    words += (pen.after(other), text) if pen is not other else (text,)
        return "".join([*words, PLAIN_STYLE.after(pen)])

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
