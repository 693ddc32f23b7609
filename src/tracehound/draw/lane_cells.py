"""The characters of one timeline row, and the critical path marked in it.

An event is a bar with its name if there is room; other cells show how full they are, in the color of the kind with the
most time. The style of a cell is a number, which `decode_style` decodes. Uses no terminal toolkit.

The cost of a line grows with its width and the logarithm of the number of events, not with the events shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.draw.event_colors import TINTS_PER_HUE
from tracehound.draw.glyphs import BOTH_ENDS_WIDTH, FILL_LEVELS, Glyphs, split_into_cells
from tracehound.draw.lane_rows import LaneRow
from tracehound.model.ids import file_index_of, row_of
from tracehound.model.trace import KINDS
from tracehound.numeric.intervals import Ints

MIN_BAR_CELLS = 3
"""An event at least this wide is drawn as a bar."""

MIN_LABEL_CELLS = 6
"""A bar at least this wide shows its name."""

EventNames = Callable[[list[int]], list[str]]
"""Returns the short names of events of a row, given by their indices."""


class CellForm(IntEnum):
    """The type of a cell's content."""

    EMPTY = 0
    FILL = 1  # events too short for bars
    BAR = 2
    CHOSEN = 3  # the selected event
    GRAPH = 4  # a counter's value


class CellStyle(NamedTuple):
    """The style of a cell: its form, the kind whose color it has, and changes to that color.

    `shaded` inside the selected range, `faded` while other events are highlighted.
    """

    form: CellForm
    kind: str
    tint: int
    shaded: bool
    faded: bool


FADED_STYLE = 2048
"""Added to the style of a faded cell."""

_SHADED_STYLE = 1024
_FORM_STEP = 64
_KIND_STEP = 4


def decode_style(code: int) -> CellStyle:
    """The style that a number encodes."""
    faded, code = divmod(code, FADED_STYLE)
    shaded, code = divmod(code, _SHADED_STYLE)
    form, code = divmod(code, _FORM_STEP)
    kind, tint = divmod(code, _KIND_STEP)
    return CellStyle(CellForm(form), KINDS[kind], tint, bool(shaded), bool(faded))


def encode_style(form: CellForm, kind: int, tint: int = 0) -> int:
    """The number of a style; `kind` is a code of `KINDS`."""
    return form * _FORM_STEP + kind * _KIND_STEP + tint


def cell_forms(styles: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The form of each cell, as numbers of `CellForm`."""
    return styles % _SHADED_STYLE // _FORM_STEP


class EventBar(NamedTuple):
    """An event drawn in cells `[first, last)`; `event_index` is its index in the row."""

    first: int
    last: int
    event_index: int


class LaneCells(Struct, frozen=True):
    """A drawn line: a string per cell (empty behind a wide character), a style per cell, and the bars."""

    text: npt.NDArray[np.str_]
    styles: npt.NDArray[np.int32]
    bars: tuple[EventBar, ...] = ()

    def runs(self) -> Iterator[tuple[str, int]]:
        """Neighboring cells of equal style, as (text, style)."""
        text, styles = self.text.tolist(), self.styles.tolist()
        bounds = [0, *(np.flatnonzero(np.diff(self.styles)) + 1).tolist(), len(styles)]
        for low, high in pairwise(bounds):
            yield "".join(text[low:high]), styles[low]


def cell_bounds(start: int, end: int, width: int) -> Ints:
    """The `width + 1` bounds of cells that divide `[start, end)` as evenly as whole ps allow."""
    return np.array([start + (end - start) * i // width for i in range(width + 1)], np.int64)


def draw_lane_row(row: LaneRow, bounds: Ints, glyphs: Glyphs, names: EventNames) -> LaneCells:
    """Draw a row into the cells between `bounds`.

    An event of `MIN_BAR_CELLS` or more is a bar, rounded to whole cells. In all other cells the height (or letter) is
    the covered part of the cell; any event, however short, is visible.
    """
    width = len(bounds) - 1
    cover = _covered_time(row, bounds)
    bars_at = _find_bars(row, bounds)
    first, last = _nearest_bounds(bounds, row.start[bars_at]), _nearest_bounds(bounds, row.end[bars_at])
    _subtract_bars(cover, row, bars_at, bounds)
    first, last = _shorten_bars(first, last, cover.sum(axis=0))
    text, styles = _fill_cells(cover, np.diff(bounds), glyphs)
    bars = tuple(EventBar(*bar) for bar in zip(first.tolist(), last.tolist(), bars_at.tolist(), strict=True))
    labeled = [bar.event_index for bar in bars if bar.last - bar.first >= MIN_LABEL_CELLS]
    labels = dict(zip(labeled, names(labeled), strict=True))
    for bar in bars:
        label = labels.get(bar.event_index, "")
        clipped = row.start[bar.event_index] < bounds[0]
        text[bar.first] = glyphs.before if clipped else glyphs.edge
        text[bar.first + 1 : bar.last] = _bar_text(label, bar.last - bar.first - 1, glyphs)
        kind = int(row.kind[bar.event_index])
        if glyphs.fill == "letter" and not label:
            text[bar.first + 1 : bar.last] = glyphs.fill_characters(KINDS[kind])[-1]
        styles[bar.first : bar.last] = encode_style(CellForm.BAR, kind, int(row.name[bar.event_index]) % TINTS_PER_HUE)
    return LaneCells(text[:width], styles, bars)


def _bar_text(label: str, room: int, glyphs: Glyphs) -> list[str]:
    """A name in `room` cells; if it does not fit, without the file, module or namespace before it.

    Of numbered names, as steps have, the number says most: in few cells it stands alone, or nothing if it does not fit.
    """
    if len(label) > room:
        numbered = _NUMBER_AT_END.search(label)
        if numbered is not None and room < BOTH_ENDS_WIDTH:
            return split_into_cells(numbered[0] if len(numbered[0]) <= room else "", room)
        label = glyphs.label(label.rsplit(": ", 1)[-1].rsplit("::", 1)[-1], room)
    return split_into_cells(label, room)


_NUMBER_AT_END: Final = re.compile(r"#\d+$")


def _covered_time(row: LaneRow, bounds: Ints) -> Ints:
    """Covered time by kind and cell: shape (kinds, cells)."""
    cover = np.zeros((len(KINDS), len(bounds) - 1), np.int64)
    for kind, of_kind in row.cover_by_kind:
        cover[kind] = np.diff(of_kind.covered_before(bounds))
    return cover


def _find_bars(row: LaneRow, bounds: Ints) -> Ints:
    """The indices of events drawn as bars. Each covers the bounds of a cell, by which it is found."""
    if len(row.start) == 0:
        return np.empty(0, np.int64)
    at = np.unique(np.maximum(np.searchsorted(row.start, bounds, side="right") - 1, 0))
    at = at[(row.end[at] > bounds[0]) & (row.start[at] < bounds[-1])]
    size = _nearest_bounds(bounds, row.end[at]) - _nearest_bounds(bounds, row.start[at])
    bars: Ints = at[size >= MIN_BAR_CELLS]
    return bars


def _nearest_bounds(bounds: Ints, times: Ints) -> Ints:
    """The index of the bound nearest to each time."""
    upper = np.clip(np.searchsorted(bounds, times, side="right"), 1, len(bounds) - 1)
    closer = times - bounds[upper - 1] < bounds[upper] - times
    return np.where(closer, upper - 1, upper)


def _subtract_bars(cover: Ints, row: LaneRow, bars: Ints, bounds: Ints) -> None:
    """Subtract the time of bars from the cells at their ends; the rest there belongs to other events."""
    width = len(bounds) - 1
    start, end = row.start[bars], row.end[bars]
    low = np.clip(np.searchsorted(bounds, start, side="right") - 1, 0, width - 1)
    high = np.clip(np.searchsorted(bounds, end, side="left") - 1, 0, width - 1)
    for cell in (low, high):
        inside = np.minimum(end, bounds[cell + 1]) - np.maximum(start, bounds[cell])
        np.subtract.at(cover, (row.kind[bars], cell), inside)
    for kind, first, last in zip(row.kind[bars].tolist(), low.tolist(), high.tolist(), strict=True):
        cover[kind, first + 1 : last] = 0


def _shorten_bars(first: Ints, last: Ints, left: Ints) -> tuple[Ints, Ints]:
    """Shorten bars by end cells in which other events have time."""
    inner = len(left) - 1
    return first + (left[np.minimum(first, inner)] > 0), last - (left[np.maximum(last - 1, 0)] > 0)


def _fill_cells(cover: Ints, size: Ints, glyphs: Glyphs) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.int32]]:
    """Characters and styles of cells by how full they are."""
    total = cover.sum(axis=0)
    leading = cover.argmax(axis=0)
    level = np.minimum(-(-total * FILL_LEVELS // np.maximum(size, 1)), FILL_LEVELS)
    table = np.array([list(glyphs.fill_characters(kind)) for kind in KINDS])
    text = table[leading, level]
    styles = np.where(level > 0, CellForm.FILL * _FORM_STEP + leading * _KIND_STEP, 0).astype(np.int32)
    return text, styles


def mark_selected_event(cells: LaneCells, row: LaneRow, index: int, bounds: Ints, glyphs: Glyphs) -> LaneCells:
    """The line with one of its events selected; unchanged if that is not visible."""
    if row.end[index] <= bounds[0] or row.start[index] >= bounds[-1]:
        return cells
    text, styles = cells.text.copy(), cells.styles.copy()
    kind = int(row.kind[index])
    bar = next((bar for bar in cells.bars if bar.event_index == index), None)
    if bar is None:
        middle = (max(int(row.start[index]), int(bounds[0])) + min(int(row.end[index]), int(bounds[-1]))) // 2
        cell = min(int(np.searchsorted(bounds, middle, side="right")) - 1, len(text) - 1)
        text[cell], styles[cell] = glyphs.mark, encode_style(CellForm.CHOSEN, kind)
        return LaneCells(text, styles, cells.bars)
    styles[bar.first : bar.last] = encode_style(CellForm.CHOSEN, kind)
    text[bar.first] = glyphs.chosen
    if bar.last - bar.first > 1:
        text[bar.last - 1] = glyphs.chosen_end
    return LaneCells(text, styles, cells.bars)


def shade_range(cells: LaneCells, first: int, last: int) -> LaneCells:
    """The line with the selected range under cells `[first, last)`; bars keep their background."""
    styles = cells.styles.copy()
    part = styles[first:last]
    form = cell_forms(part)
    part[(form != CellForm.BAR) & (form != CellForm.CHOSEN)] += _SHADED_STYLE
    return LaneCells(cells.text, styles, cells.bars)


class CriticalPathIntervals(Struct, frozen=True, eq=False):
    """Intervals of events (ps), in order of time; `event` has their ids. An event can have several."""

    event: Ints
    start: Ints
    end: Ints

    @property
    def span(self) -> tuple[int, int]:
        """Its first and last instant."""
        return int(self.start.min()), int(self.end.max())

    def intervals_on_row(self, lane: int, row: LaneRow, first: int) -> tuple[Ints, Ints]:
        """The intervals on a row of a lane; `first` is the row of the lane's first event in its file."""
        if not len(row.start):
            return self.start[:0], self.end[:0]
        position = row_of(self.event) - first
        on_row = (file_index_of(self.event) == file_index_of(lane)) & (position >= 0)
        index = position if row.position is None else np.searchsorted(row.position, np.maximum(position, 0))
        index = np.clip(index, 0, len(row.start) - 1)
        found = index if row.position is None else row.position[index]
        on_row &= found == position
        start = np.maximum(self.start, row.start[index])[on_row]
        end = np.minimum(self.end, row.end[index])[on_row]
        inside = end > start
        return start[inside], end[inside]


def mark_event_path(cells: LaneCells, intervals: tuple[Ints, Ints], bounds: Ints, glyphs: Glyphs) -> LaneCells:
    """The line with all events faded except in these intervals, whose beginnings are marked."""
    start, end = intervals
    inside = (end > bounds[0]) & (start < bounds[-1])
    low = np.searchsorted(bounds, np.maximum(start[inside], bounds[0]), side="right") - 1
    high = np.searchsorted(bounds, np.minimum(end[inside], bounds[-1]), side="left")
    edges = np.zeros(len(bounds), np.int64)
    np.add.at(edges, low, 1)
    np.add.at(edges, np.maximum(high, low + 1), -1)
    on = np.cumsum(edges)[:-1] > 0
    text, styles = cells.text.copy(), cells.styles.copy()
    form = cell_forms(styles)
    styles[~on & (form != CellForm.EMPTY)] += FADED_STYLE
    begins = np.unique(low)
    begins = begins[form[begins] != CellForm.EMPTY]
    firsts = {bar.first for bar in cells.bars}
    for cell in begins.tolist():
        if cell in firsts or glyphs.fill == "letter" or form[cell] == CellForm.FILL:
            text[cell] = glyphs.path
    return LaneCells(text, styles, cells.bars)
