"""Characters of the interface: Unicode, ASCII, and an alphabet with letters for terminals without color."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size

from tracehound.draw.event_colors import KIND_LETTERS
from tracehound.errors import printable
from tracehound.model.short_names import cut_middle

CellFill = Literal["height", "letter"]

FILL_LEVELS = 8
"""Fill levels of a cell, besides empty."""


class Glyphs(Struct, frozen=True):
    """An alphabet. Every character is one cell wide, so that all alphabets give the same layout.

    `fill` is how a partly covered cell looks: a block of some height, or the letter of the kind (a point for little,
    lower case below half, else upper case).
    """

    name: str
    fill: CellFill
    edge: str  # first cell of a bar
    before: str  # first cell of a bar whose event begins before the view
    chosen: str  # first cell of the selected event
    chosen_end: str
    mark: str  # the selected event, if too short for a bar
    path: str  # beginning of an event on the critical path
    unfolded: str
    folded: str
    cursor: str  # in the gutter, at the lane under the cursor
    gutter: str  # between gutter and lanes
    tick: str
    focus: str  # on the ruler
    left: str  # left, right and inside of a range on the ruler
    right: str
    span: str
    rule: str
    dot: str  # between the parts of a line of text
    ellipsis: str
    about: str  # before inferred values
    levels: str  # heights of a graph: `FILL_LEVELS + 1` characters, the first is empty
    base: str  # a graph at the bottom of its scale
    letters: Mapping[str, str] = field(default_factory=lambda: KIND_LETTERS)  # of kinds or of other color classes

    def fill_characters(self, kind: str) -> str:
        """The characters of a cell that `kind` dominates, by fill level: `FILL_LEVELS + 1` of them."""
        if self.fill == "height":
            return self.levels
        letter = self.letters[kind]
        return f" .{letter.lower() * 3}{letter * 4}"

    def to_alphabet(self, text: str) -> str:
        """`text` on one line, in characters of this alphabet."""
        clean = printable(text)
        if clean.isascii() or self.name != "ascii":
            return clean
        swaps = str.maketrans("…·µμ–×›", f"{self.ellipsis}{self.dot}uu-x>")
        return clean.translate(swaps).encode("ascii", "replace").decode("ascii")

    def cut(self, text: str, width: int) -> str:
        """`text` in this alphabet and in at most `width` cells, with a mark where something is left out.

        Both ends stay: names differ as often at the end (`python (25738)`) as at the beginning.
        """
        clean = printable(text)
        if cell_len(clean) <= width or width < 1:
            return self.to_alphabet(clean) if width > 0 else ""
        if cell_len(clean) == len(clean):
            return self.to_alphabet(cut_middle(clean, width))
        return self.to_alphabet(f"{set_cell_size(clean, width - 1).rstrip()}…")

    def label(self, text: str, width: int) -> str:
        """The text of a bar, cut to `width`: in few cells the beginning says more than both ends."""
        return self.cut(text, width) if width >= BOTH_ENDS_WIDTH else self.to_alphabet(text)[: max(width, 0)]


BOTH_ENDS_WIDTH = 12
"""Width in cells from which a name in a bar keeps both ends."""

UNICODE = Glyphs(
    name="unicode", fill="height", edge="▏", before="‹", chosen="▐", chosen_end="▌", mark="◆", path="●", unfolded="▾",
    folded="▸", cursor="▌", gutter="│", tick="╵", focus="▼", left="├", right="┤", span="─", rule="─", dot="·",
    ellipsis="…", about="≈", levels=" ▁▂▃▄▅▆▇█", base="_",
)  # fmt: skip

MONO = replace(UNICODE, name="mono", fill="letter", chosen="[", chosen_end="]", mark="◆")
"""For terminals without color."""

ASCII = Glyphs(
    name="ascii", fill="letter", edge="|", before="<", chosen="[", chosen_end="]", mark="@", path="!", unfolded="-",
    folded="+", cursor=">", gutter="|", tick="|", focus="v", left="[", right="]", span="-", rule="-", dot="-",
    ellipsis="~", about="~", levels=" .:-=+*#@", base="_",
)  # fmt: skip


def split_into_cells(text: str, width: int) -> list[str]:
    """`text` as exactly `width` cells: a wide character takes one cell and leaves the next one empty (``""``)."""
    if text.isascii():
        return list(text[:width].ljust(width))
    cells = list(_iterate_cells(text))[:width]
    if cells and cell_len(cells[-1]) == 2:
        cells[-1] = " "
    return cells + [" "] * (width - len(cells))


def _iterate_cells(text: str) -> Iterator[str]:
    for char in text:
        size = cell_len(char)
        if size:
            yield char
        if size == 2:
            yield ""


_ASCII_REPLACEMENTS = str.maketrans("–…·∙•µμ×›█▓▒░▉▊▋▌▍▎▏▁▂▃▄▅▆▇┤├┬┴┼┌┐└┘│─", "-~-..uux>#=+-####......:::#+++++++++|-")
_QUADRANT_BLOCKS = re.compile("[▀▄▐▖▗▘▙▚▛▜▝▞▟]")
_NON_ASCII = re.compile(r"[^\x00-\x7f]")


def to_ascii(text: str) -> str:
    """`text` in ASCII, of the same width. Characters without a similar one become ``?``."""
    if text.isascii():
        return text
    return _NON_ASCII.sub(
        lambda found: "?" * cell_len(found[0]), _QUADRANT_BLOCKS.sub("*", text.translate(_ASCII_REPLACEMENTS))
    )
