"""The ruler above the lanes: round times, the selected range, and the steps. Times are ps from the trace's origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.draw.event_colors import COLORING_BY_KIND, EventColoring, color_classes_of_steps
from tracehound.draw.glyphs import Glyphs
from tracehound.draw.lane_cells import CellForm, EventNames, LaneCells, encode_style
from tracehound.draw.lane_rows import LaneRow
from tracehound.model.trace import KIND_CODES
from tracehound.model.units import CELL_DIGITS, PS_PER_UNIT, format_duration
from tracehound.numeric.intervals import Ints

MIN_TICK_SPACING = 16
"""Cells between two ticks, at least: room for a time and some space."""

_TICK_UNITS = ("ns", "us", "ms", "s")
_MOST_WHOLE_DIGITS = 6


class RulerTicks(Struct, frozen=True):
    """Round times: multiples of `every`, written in `unit` with `places` decimals."""

    every: int
    unit: str
    places: int

    def between(self, start: int, end: int) -> Iterator[int]:
        """The ticks in `[start, end)`."""
        yield from range(-(-start // self.every) * self.every, end, self.every)

    def tick_time_text(self, time: int) -> str:
        """The exact time of a tick."""
        whole, rest = divmod(abs(time), PS_PER_UNIT[self.unit])
        digits = str(PS_PER_UNIT[self.unit] + rest)[1 : 1 + self.places]
        sign = "-" if time < 0 else ""
        return f"{sign}{whole:,}{'.' if digits else ''}{digits} {self.unit}"


def choose_ticks(start: int, end: int, width: int) -> RulerTicks:
    """The densest ticks of 1, 2 or 5 times a power of ten that are `MIN_TICK_SPACING` cells apart.

    The unit fits the tick spacing, or is a larger one if times had too many digits before the point.
    """
    least = max(1, -(-(end - start) * MIN_TICK_SPACING // max(width, 1)))
    power = 10 ** (len(str(least)) - 1)
    every = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)
    largest = max(abs(start), abs(end))
    suited = (
        u for u in _TICK_UNITS if every < PS_PER_UNIT[u] * 1000 and largest < PS_PER_UNIT[u] * 10**_MOST_WHOLE_DIGITS
    )
    unit = next(suited, "s")
    places = 0
    while (every * 10**places) % PS_PER_UNIT[unit]:
        places += 1
    return RulerTicks(every, unit, places)


def draw_ruler(bounds: Ints, focus: int | None, selection: tuple[int, int] | None, glyphs: Glyphs) -> LaneCells:
    """The line of the ruler: ticks at round times, the selected range with its length, and the focus.

    Times that would be partly hidden are left out; their ticks stay.
    """
    start, end, width = int(bounds[0]), int(bounds[-1]), len(bounds) - 1
    text, styles = np.full(width, " ", "<U1"), np.zeros(width, np.int32)
    taken = np.zeros(width, bool)
    cell = cell_of_time(bounds, focus) if focus is not None and start <= focus < end else None
    if selection is not None:
        _draw_selected_range(text, styles, bounds, selection, cell, glyphs)
        taken |= styles != 0
    if cell is not None:
        text[cell], styles[cell], taken[cell] = glyphs.focus, encode_style(CellForm.CHOSEN, 0), True
    ticks = choose_ticks(start, end, width)
    for time in ticks.between(start, end):
        at, words = cell_of_time(bounds, time), ticks.tick_time_text(time)
        if not taken[at]:
            text[at] = glyphs.tick
        after = slice(at + 1, at + 1 + len(words))
        if after.stop <= width and not taken[at : after.stop + 1].any():
            text[after] = list(words)
    return LaneCells(text, styles)


def _draw_selected_range(
    text: npt.NDArray[np.str_],
    styles: npt.NDArray[np.int32],
    bounds: Ints,
    selection: tuple[int, int],
    focus: int | None,
    glyphs: Glyphs,
) -> None:
    """Draw the selected range, with its length inside or beside it, away from the cell of the focus."""
    cells = cells_of_range(bounds, *selection)
    if cells is None:
        return
    first, last = cells
    text[first:last] = glyphs.span
    text[last - 1] = glyphs.right
    text[first] = glyphs.left if last - first > 1 else glyphs.gutter
    words = f" {glyphs.to_alphabet(format_duration(selection[1] - selection[0], digits=CELL_DIGITS))} "
    at = _place_range_label(first, last, len(words), focus)
    if at is None:
        at = last if last + len(words) <= len(text) else max(0, first - len(words))
    fits = words[: len(text) - at]
    text[at : at + len(fits)] = list(fits)
    styles[min(first, at) : max(last, at + len(fits))] = encode_style(CellForm.BAR, KIND_CODES["step"])


def _place_range_label(first: int, last: int, length: int, focus: int | None) -> int | None:
    """The first of `length` cells inside a range: in its middle, else beside the focus; None if neither has room."""
    beside_focus = [] if focus is None else [focus + 1, focus - length]
    for at in (first + (last - first - length) // 2, *beside_focus):
        if first < at and at + length < last and (focus is None or not at <= focus < at + length):
            return at
    return None


def cell_of_time(bounds: Ints, time: int) -> int:
    """The cell of an instant; the first or the last one if it is not visible."""
    return int(np.clip(np.searchsorted(bounds, time, side="right") - 1, 0, len(bounds) - 2))


def cells_of_range(bounds: Ints, start: int, end: int) -> tuple[int, int] | None:
    """The cells `[first, last)` of a time range, at least one; None if it is not visible."""
    if end < bounds[0] or start >= bounds[-1]:
        return None
    first = cell_of_time(bounds, start)
    last = int(np.searchsorted(bounds, end, side="left"))
    return first, min(max(last, first + 1), len(bounds) - 1)


def build_steps_row(steps: pl.DataFrame, coloring: EventColoring = COLORING_BY_KIND) -> LaneRow:
    """Consecutive steps as a row of events. Neighbors differ in tint, or have the colors of steps."""
    ordered = _sort_steps(steps)
    start, end = ordered["start"].to_numpy(), ordered["end"].to_numpy()
    end = np.minimum(np.maximum(end, start + 1), np.append(start[1:], np.iinfo(np.int64).max))
    size = len(start)
    kind = (
        color_classes_of_steps(ordered["step"])
        if coloring.by == "step"
        else np.full(size, KIND_CODES["step"], np.uint8)
    )
    return LaneRow(start, end, kind, np.arange(size, dtype=np.uint32) % 2)


def step_names(steps: pl.DataFrame, glyphs: Glyphs) -> EventNames:
    """The text of each event of `build_steps_row`: the name of the mark, or its number if the name lacks it."""
    names = [_step_name(step, glyphs) for step in _sort_steps(steps).iter_rows(named=True)]
    return lambda indices: [names[index] for index in indices]


def _sort_steps(steps: pl.DataFrame) -> pl.DataFrame:
    return steps.sort("start").unique("start", keep="first", maintain_order=True)


def _step_name(step: Mapping[str, Any], glyphs: Glyphs) -> str:
    if step["inferred"]:
        return f"{glyphs.about}step {step['step']}"
    name = step["name"] or ""
    return glyphs.to_alphabet(name) if str(step["step"]) in name else f"step {step['step']}"
