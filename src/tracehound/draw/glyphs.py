"""Which characters things are drawn with.

Owns the alphabets: Unicode, ASCII, and one for terminals without colour, where letters say what colour would.
Knows nothing of traces or colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size

from tracehound.draw.palette import LETTERS
from tracehound.errors import printable
from tracehound.units import middle

Fill = Literal["height", "letter"]

LEVELS = 8
"""How many degrees of fullness a cell can show, besides empty."""


class Glyphs(Struct, frozen=True):
    """An alphabet. Every character is one cell wide, so that swapping alphabets moves nothing.

    `fill` says how a cell shows that it is partly covered: by the height of a block, or by the letter of the kind
    (a point where there is little, small where less than half is covered, else capital).
    """

    name: str
    fill: Fill
    edge: str  # first cell of a slice that is drawn as a bar
    before: str  # the same, where the slice began before what is shown
    chosen: str  # first cell of the selected slice
    chosen_end: str
    mark: str  # the selected slice, where it is too short for a bar
    path: str  # where something begins that is on a path
    unfolded: str
    folded: str
    cursor: str  # in the gutter, at the lane under the cursor
    gutter: str  # between gutter and lanes
    tick: str
    focus: str  # on the ruler
    left: str  # bounds of a range on the ruler, and what fills it
    right: str
    span: str
    rule: str
    dot: str  # between the parts of a line of words
    ellipsis: str
    about: str  # in front of what is inferred
    levels: str  # how high a graph is: `LEVELS + 1` characters, the first for nothing
    base: str  # a graph at the bottom of its scale
    letters: Mapping[str, str] = field(default_factory=lambda: LETTERS)  # of kinds, or of what else colours slices

    def cells_of(self, kind: str) -> str:
        """The characters of a cell in which `kind` dominates, by how full it is: `LEVELS + 1` of them."""
        if self.fill == "height":
            return self.levels
        letter = self.letters[kind]
        return f" .{letter.lower() * 3}{letter * 4}"

    def words(self, text: str) -> str:
        """`text` on one line, in characters that this alphabet has."""
        clean = printable(text)
        if clean.isascii() or self.name != "ascii":
            return clean
        swaps = str.maketrans("…·µμ–×›", f"{self.ellipsis}{self.dot}uu-x>")
        return clean.translate(swaps).encode("ascii", "replace").decode("ascii")

    def cut(self, text: str, width: int) -> str:
        """`text` in this alphabet and in `width` cells at most, with a sign where something is left out.

        Both ends stay: what tells names apart is as often at the end (`python (25738)`) as at the beginning.
        """
        clean = printable(text)
        if cell_len(clean) <= width or width < 1:
            return self.words(clean) if width > 0 else ""
        if cell_len(clean) == len(clean):
            return self.words(middle(clean, width))
        return self.words(f"{set_cell_size(clean, width - 1).rstrip()}…")

    def label(self, text: str, width: int) -> str:
        """The same for what stands in a bar: of a few cells its beginning says more than both ends would."""
        return self.cut(text, width) if width >= BOTH_ENDS else self.words(text)[: max(width, 0)]


BOTH_ENDS = 12
"""Cells from which a name in a bar keeps both ends."""

UNICODE = Glyphs(
    name="unicode", fill="height", edge="▏", before="‹", chosen="▐", chosen_end="▌", mark="◆", path="●", unfolded="▾",
    folded="▸", cursor="▌", gutter="│", tick="╵", focus="▼", left="├", right="┤", span="─", rule="─", dot="·",
    ellipsis="…", about="≈", levels=" ▁▂▃▄▅▆▇█", base="_",
)  # fmt: skip

MONO = replace(UNICODE, name="mono", fill="letter", chosen="[", chosen_end="]", mark="◆")
"""For terminals that show no colour."""

ASCII = Glyphs(
    name="ascii", fill="letter", edge="|", before="<", chosen="[", chosen_end="]", mark="@", path="!", unfolded="-",
    folded="+", cursor=">", gutter="|", tick="|", focus="v", left="[", right="]", span="-", rule="-", dot="-",
    ellipsis="~", about="~", levels=" .:-=+*#@", base="_",
)  # fmt: skip


def columns(text: str, width: int) -> list[str]:
    """`text` as exactly `width` cells: a wide character takes one cell and leaves the next one empty (``""``)."""
    if text.isascii():
        return list(text[:width].ljust(width))
    cells = list(_columns(text))[:width]
    if cells and cell_len(cells[-1]) == 2:
        cells[-1] = " "
    return cells + [" "] * (width - len(cells))


def _columns(text: str) -> Iterator[str]:
    for char in text:
        size = cell_len(char)
        if size:
            yield char
        if size == 2:
            yield ""
