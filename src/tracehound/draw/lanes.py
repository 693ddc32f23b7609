"""A row of slices -> the characters of one line.

Owns how slices look: a bar with its name where there is room, else how full each cell is, in the colour of the kind
that has most of it. Knows no terminal toolkit: a cell's looks are a number, its *ink*, which `Ink` takes apart.

The cost of a line grows with its width and the logarithm of the number of events, not with the events shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.draw.glyphs import LEVELS, Glyphs, columns
from tracehound.draw.palette import TINTS
from tracehound.draw.rows import Row
from tracehound.intervals import Ints
from tracehound.trace import KINDS

MIN_BAR = 3
"""A slice of at least so many cells is drawn as a bar."""

MIN_LABEL = 6
"""A bar of at least so many cells carries a name: fewer letters would not be one."""

Names = Callable[[list[int]], list[str]]
"""The short names of slices of a row, given by their indices."""


class Form(IntEnum):
    """What a cell is part of."""

    EMPTY = 0
    FILL = 1  # slices too short for bars
    BAR = 2
    CHOSEN = 3  # the selected slice
    GRAPH = 4  # a counter's value


class Ink(NamedTuple):
    """The looks of a cell: what it is part of, whose colour it has, and what is done to that.

    `shaded` where the selected range lies under it, `faded` where it steps back so that others stand out.
    """

    form: Form
    kind: str
    tint: int
    shaded: bool
    faded: bool


FADED = 2048
"""Added to the ink of a cell that steps back."""

_SHADED = 1024
_FORM = 64
_KIND = 4


def ink(code: int) -> Ink:
    """The looks that a number stands for."""
    faded, code = divmod(code, FADED)
    shaded, code = divmod(code, _SHADED)
    form, code = divmod(code, _FORM)
    kind, tint = divmod(code, _KIND)
    return Ink(Form(form), KINDS[kind], tint, bool(shaded), bool(faded))


def code(form: Form, kind: int, tint: int = 0) -> int:
    """The number of these looks; `kind` is a code of `KINDS`."""
    return form * _FORM + kind * _KIND + tint


def form_of(inks: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """What each cell is part of: the numbers of `Form`."""
    return inks % _SHADED // _FORM


class Bar(NamedTuple):
    """A slice drawn in cells `[first, last)`; `slice` is its index in the row."""

    first: int
    last: int
    slice: int


class Cells(Struct, frozen=True):
    """A drawn line: a string per cell (empty behind a wide character), an ink per cell, and the bars among them."""

    text: npt.NDArray[np.str_]
    ink: npt.NDArray[np.int32]
    bars: tuple[Bar, ...] = ()

    def runs(self) -> Iterator[tuple[str, int]]:
        """Neighbouring cells of equal ink, as (text, ink)."""
        text, inks = self.text.tolist(), self.ink.tolist()
        bounds = [0, *(np.flatnonzero(np.diff(self.ink)) + 1).tolist(), len(inks)]
        for low, high in pairwise(bounds):
            yield "".join(text[low:high]), inks[low]


def edges(start: int, end: int, width: int) -> Ints:
    """The bounds of `width` cells that divide `[start, end)` as evenly as whole ps allow: `width + 1` times."""
    return np.array([start + (end - start) * i // width for i in range(width + 1)], np.int64)


def paint(row: Row, bounds: Ints, glyphs: Glyphs, names: Names) -> Cells:
    """Draw a row into the cells between `bounds`.

    A slice of `MIN_BAR` cells or more is a bar, rounded to whole cells. In all other cells the height (or letter) says
    how much of the cell is covered, and any slice at all, however short, shows.
    """
    width = len(bounds) - 1
    cover = _cover(row, bounds)
    wide = _wide(row, bounds)
    first, last = _rounded(bounds, row.start[wide]), _rounded(bounds, row.end[wide])
    _uncover(cover, row, wide, bounds)
    first, last = _give_way(first, last, cover.sum(axis=0))
    text, inks = _fill(cover, np.diff(bounds), glyphs)
    bars = tuple(Bar(*bar) for bar in zip(first.tolist(), last.tolist(), wide.tolist(), strict=True))
    labelled = [bar.slice for bar in bars if bar.last - bar.first >= MIN_LABEL]
    labels = dict(zip(labelled, names(labelled), strict=True))
    for bar in bars:
        label = labels.get(bar.slice, "")
        clipped = row.start[bar.slice] < bounds[0]
        text[bar.first] = glyphs.before if clipped else glyphs.edge
        text[bar.first + 1 : bar.last] = _bar_text(label, bar.last - bar.first - 1, glyphs)
        kind = int(row.kind[bar.slice])
        if glyphs.fill == "letter" and not label:
            text[bar.first + 1 : bar.last] = glyphs.cells_of(KINDS[kind])[-1]
        inks[bar.first : bar.last] = code(Form.BAR, kind, int(row.name[bar.slice]) % TINTS)
    return Cells(text[:width], inks, bars)


def _bar_text(label: str, room: int, glyphs: Glyphs) -> list[str]:
    """A name in `room` cells; where it does not fit, without the file, module or namespace before it."""
    if len(label) > room:
        label = glyphs.label(label.rsplit(": ", 1)[-1].rsplit("::", 1)[-1], room)
    return columns(label, room)


def _cover(row: Row, bounds: Ints) -> Ints:
    """Time covered, by kind and cell: shape (kinds, cells)."""
    cover = np.zeros((len(KINDS), len(bounds) - 1), np.int64)
    for kind, of_kind in row.by_kind:
        cover[kind] = np.diff(of_kind.until(bounds))
    return cover


def _wide(row: Row, bounds: Ints) -> Ints:
    """The slices that would be bars; each covers the bounds of some cell, which is how they are found."""
    if len(row.start) == 0:
        return np.empty(0, np.int64)
    at = np.unique(np.maximum(np.searchsorted(row.start, bounds, side="right") - 1, 0))
    at = at[(row.end[at] > bounds[0]) & (row.start[at] < bounds[-1])]
    size = _rounded(bounds, row.end[at]) - _rounded(bounds, row.start[at])
    wide: Ints = at[size >= MIN_BAR]
    return wide


def _rounded(bounds: Ints, times: Ints) -> Ints:
    """The bound nearest to each time."""
    upper = np.clip(np.searchsorted(bounds, times, side="right"), 1, len(bounds) - 1)
    closer = times - bounds[upper - 1] < bounds[upper] - times
    return np.where(closer, upper - 1, upper)


def _uncover(cover: Ints, row: Row, wide: Ints, bounds: Ints) -> None:
    """Take the time of bars out of the cells at their ends, so that what is left there is other slices'."""
    width = len(bounds) - 1
    start, end = row.start[wide], row.end[wide]
    low = np.clip(np.searchsorted(bounds, start, side="right") - 1, 0, width - 1)
    high = np.clip(np.searchsorted(bounds, end, side="left") - 1, 0, width - 1)
    for cell in (low, high):
        inside = np.minimum(end, bounds[cell + 1]) - np.maximum(start, bounds[cell])
        np.subtract.at(cover, (row.kind[wide], cell), inside)
    for kind, first, last in zip(row.kind[wide].tolist(), low.tolist(), high.tolist(), strict=True):
        cover[kind, first + 1 : last] = 0


def _give_way(first: Ints, last: Ints, left: Ints) -> tuple[Ints, Ints]:
    """Shorten bars by the end cells in which other slices have time."""
    inner = len(left) - 1
    return first + (left[np.minimum(first, inner)] > 0), last - (left[np.maximum(last - 1, 0)] > 0)


def _fill(cover: Ints, size: Ints, glyphs: Glyphs) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.int32]]:
    """Characters and inks of cells by how full they are."""
    total = cover.sum(axis=0)
    leading = cover.argmax(axis=0)
    level = np.minimum(-(-total * LEVELS // np.maximum(size, 1)), LEVELS)
    table = np.array([list(glyphs.cells_of(kind)) for kind in KINDS])
    text = table[leading, level]
    inks = np.where(level > 0, Form.FILL * _FORM + leading * _KIND, 0).astype(np.int32)
    return text, inks


def choose(cells: Cells, row: Row, index: int, bounds: Ints, glyphs: Glyphs) -> Cells:
    """The same line with one of its slices selected; unchanged where that is out of sight."""
    if row.end[index] <= bounds[0] or row.start[index] >= bounds[-1]:
        return cells
    text, inks = cells.text.copy(), cells.ink.copy()
    kind = int(row.kind[index])
    bar = next((bar for bar in cells.bars if bar.slice == index), None)
    if bar is None:
        middle = (max(int(row.start[index]), int(bounds[0])) + min(int(row.end[index]), int(bounds[-1]))) // 2
        cell = min(int(np.searchsorted(bounds, middle, side="right")) - 1, len(text) - 1)
        text[cell], inks[cell] = glyphs.mark, code(Form.CHOSEN, kind)
        return Cells(text, inks, cells.bars)
    inks[bar.first : bar.last] = code(Form.CHOSEN, kind)
    text[bar.first] = glyphs.chosen
    if bar.last - bar.first > 1:
        text[bar.last - 1] = glyphs.chosen_end
    return Cells(text, inks, cells.bars)


def shade(cells: Cells, first: int, last: int) -> Cells:
    """The same line with the selected range under cells `[first, last)`; bars keep their ground."""
    inks = cells.ink.copy()
    part = inks[first:last]
    form = form_of(part)
    part[(form != Form.BAR) & (form != Form.CHOSEN)] += _SHADED
    return Cells(cells.text, inks, cells.bars)
