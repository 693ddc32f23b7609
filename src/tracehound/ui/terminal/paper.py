"""What the terminal shows, cell by cell, and the shortest words that change it.

Owns that. Textual sends every line of a region again, each run with all of its style; over a slow line that is what one
waits for. Here only cells go that differ from what is there, and of a style only what differs from the cell before.
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

NEAR = 6
"""So many equal cells between two that differ are sent again: to jump over them would take as much."""

SYSTEMS = {system.name.lower(): system for system in ColorSystem} | {"256": ColorSystem.EIGHT_BIT}
"""How rich calls what a terminal can show."""

ATTRIBUTES = (
    ("bold", "1"), ("dim", "2"), ("italic", "3"), ("underline", "4"), ("blink", "5"), ("blink2", "6"),
    ("reverse", "7"), ("conceal", "8"), ("strike", "9"), ("underline2", "21"), ("frame", "51"), ("encircle", "52"),
    ("overline", "53"),
)  # fmt: skip


class Pen(Struct, frozen=True):
    """How a terminal is told of a style: attributes, the colour of letters and that of the ground."""

    attributes: tuple[str, ...] = ()
    colour: tuple[str, ...] = ("39",)
    ground: tuple[str, ...] = ("49",)

    @classmethod
    def of(cls, style: Style | None, system: ColorSystem) -> Pen:
        """The pen of a style on a terminal with such colours."""
        if style is None:
            return PLAIN
        colour, ground = style.color, style.bgcolor
        return cls(
            tuple(code for name, code in ATTRIBUTES if getattr(style, name)),
            colour.downgrade(system).get_ansi_codes() if colour is not None else PLAIN.colour,
            ground.downgrade(system).get_ansi_codes(foreground=False) if ground is not None else PLAIN.ground,
        )

    def after(self, other: Pen) -> str:
        """What is sent where this pen follows another."""
        if self == other:
            return ""
        anew = self.attributes != other.attributes
        before = PLAIN if anew else other
        codes = ("0", *self.attributes) if anew else ()
        codes += self.colour if self.colour != before.colour else ()
        codes += self.ground if self.ground != before.ground else ()
        return f"\x1b[{';'.join(codes)}m"


PLAIN = Pen()


class Paper(Struct):
    """The lines that a terminal shows; None where nobody knows."""

    lines: list[list[Cell] | None] = field(default_factory=list)
    pens: dict[tuple[Style | None, ColorSystem], Pen] = field(default_factory=dict)

    def forget(self) -> None:
        """The terminal may show anything."""
        self.lines.clear()

    def write(self, pieces: Iterable[tuple[int, int, Iterable[Segment]]], width: int, system: ColorSystem) -> str:
        """What is sent so that every piece stands at its line and column, on a terminal `width` cells wide."""
        words, pen = list[str](), PLAIN
        for y, x, segments in pieces:
            new = list(cells(segments))[: max(0, width - x)]
            line = self._line(y, width)
            old = line[x : x + len(new)]
            line[x : x + len(new)] = new
            for first, last in changes(old, new):
                words.append(f"\x1b[{y + 1};{x + first + 1}H")
                for text, style in new[first:last]:
                    key = (style, system)
                    if key not in self.pens:
                        self.pens[key] = Pen.of(style, system)
                    other, pen = pen, self.pens[key]
                    words += (pen.after(other), text) if pen is not other else (text,)
        return "".join([*words, PLAIN.after(pen)])

    def _line(self, y: int, width: int) -> list[Cell]:
        """The cells of a line; those that nobody knows are like no other."""
        self.lines += [None] * (y + 1 - len(self.lines))
        line = self.lines[y]
        if line is None or len(line) != width:
            line = self.lines[y] = [UNKNOWN] * width
        return line


UNKNOWN: Cell = ("\x00", None)


def cells(segments: Iterable[Segment]) -> Iterator[Cell]:
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


def changes(old: list[Cell], new: list[Cell]) -> Iterator[tuple[int, int]]:
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
        if last >= 0 and begins - last <= NEAR:
            last = ends
            continue
        if last >= 0:
            yield first, last
        first, last = begins, ends
    if last >= 0:
        yield first, last
