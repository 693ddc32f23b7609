"""The ruler above the lanes: round times, the selected range, and where the steps are.

Owns the choice of ticks and how they are written. Knows no terminal toolkit. Times are ps from the trace's origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.draw.colouring import BY_KIND, Colouring, of_steps
from tracehound.draw.glyphs import Glyphs
from tracehound.draw.lanes import Cells, Form, Names, code
from tracehound.draw.rows import Row
from tracehound.intervals import Ints
from tracehound.trace import KIND_CODES
from tracehound.units import PS, duration

MIN_SPACING = 16
"""Cells between two ticks, at least: room for a time and some air."""

_UNITS = ("ns", "us", "ms", "s")
_MOST_DIGITS = 6


class Ticks(Struct, frozen=True):
    """Round times: multiples of `every`, written in `unit` with `places` decimals."""

    every: int
    unit: str
    places: int

    def between(self, start: int, end: int) -> Iterator[int]:
        """The ticks in `[start, end)`."""
        yield from range(-(-start // self.every) * self.every, end, self.every)

    def words(self, time: int) -> str:
        """A tick's time, exact."""
        whole, rest = divmod(abs(time), PS[self.unit])
        digits = str(PS[self.unit] + rest)[1 : 1 + self.places]
        sign = "-" if time < 0 else ""
        return f"{sign}{whole:,}{'.' if digits else ''}{digits} {self.unit}"


def ticks(start: int, end: int, width: int) -> Ticks:
    """The densest ticks of 1, 2 or 5 times a power of ten that leave `MIN_SPACING` cells from one to the next.

    The unit is the step's own, or a larger one where the times would have too many digits before the point.
    """
    least = max(1, -(-(end - start) * MIN_SPACING // max(width, 1)))
    power = 10 ** (len(str(least)) - 1)
    every = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)
    largest = max(abs(start), abs(end))
    suited = (u for u in _UNITS if every < PS[u] * 1000 and largest < PS[u] * 10**_MOST_DIGITS)
    unit = next(suited, "s")
    places = 0
    while (every * 10**places) % PS[unit]:
        places += 1
    return Ticks(every, unit, places)


def ruler(bounds: Ints, focus: int | None, selection: tuple[int, int] | None, glyphs: Glyphs) -> Cells:
    """The ruler's line: a tick and its time at every round time, the selected range with its length, and the focus.

    Times that would be half hidden are left out; their ticks stay.
    """
    start, end, width = int(bounds[0]), int(bounds[-1]), len(bounds) - 1
    text, inks = np.full(width, " ", "<U1"), np.zeros(width, np.int32)
    taken = np.zeros(width, bool)
    cell = cell_at(bounds, focus) if focus is not None and start <= focus < end else None
    if selection is not None:
        _range(text, inks, bounds, selection, cell, glyphs)
        taken |= inks != 0
    if cell is not None:
        text[cell], inks[cell], taken[cell] = glyphs.focus, code(Form.CHOSEN, 0), True
    marks = ticks(start, end, width)
    for time in marks.between(start, end):
        at, words = cell_at(bounds, time), marks.words(time)
        if not taken[at]:
            text[at] = glyphs.tick
        after = slice(at + 1, at + 1 + len(words))
        if after.stop <= width and not taken[at : after.stop + 1].any():
            text[after] = list(words)
    return Cells(text, inks)


def _range(
    text: npt.NDArray[np.str_],
    inks: npt.NDArray[np.int32],
    bounds: Ints,
    selection: tuple[int, int],
    focus: int | None,
    glyphs: Glyphs,
) -> None:
    """Draw the selected range, and its length inside or beside it, off the cell of the focus."""
    cells = cells_of_range(bounds, *selection)
    if cells is None:
        return
    first, last = cells
    text[first:last] = glyphs.span
    text[last - 1] = glyphs.right
    text[first] = glyphs.left if last - first > 1 else glyphs.gutter
    words = f" {glyphs.words(duration(selection[1] - selection[0]))} "
    at = _place(first, last, len(words), focus)
    if at is None:
        at = last if last + len(words) <= len(text) else max(0, first - len(words))
    fits = words[: len(text) - at]
    text[at : at + len(fits)] = list(fits)
    inks[min(first, at) : max(last, at + len(fits))] = code(Form.BAR, KIND_CODES["step"])


def _place(first: int, last: int, length: int, focus: int | None) -> int | None:
    """Where `length` cells begin inside a range: in its middle, else beside the focus; None where neither has room."""
    beside = [] if focus is None else [focus + 1, focus - length]
    for at in (first + (last - first - length) // 2, *beside):
        if first < at and at + length < last and (focus is None or not at <= focus < at + length):
            return at
    return None


def cell_at(bounds: Ints, time: int) -> int:
    """The cell in which an instant lies; the first or the last where it is out of sight."""
    return int(np.clip(np.searchsorted(bounds, time, side="right") - 1, 0, len(bounds) - 2))


def cells_of_range(bounds: Ints, start: int, end: int) -> tuple[int, int] | None:
    """The cells `[first, last)` of a stretch of time, at least one; None where it is out of sight."""
    if end < bounds[0] or start >= bounds[-1]:
        return None
    first = cell_at(bounds, start)
    last = int(np.searchsorted(bounds, end, side="left"))
    return first, min(max(last, first + 1), len(bounds) - 1)


def steps_row(steps: pl.DataFrame, colouring: Colouring = BY_KIND) -> Row:
    """Steps that follow each other as a row of slices; neighbours differ in tint, or have the colours of steps."""
    ordered = _in_order(steps)
    start, end = ordered["start"].to_numpy(), ordered["end"].to_numpy()
    end = np.minimum(np.maximum(end, start + 1), np.append(start[1:], np.iinfo(np.int64).max))
    size = len(start)
    kind = of_steps(ordered["step"]) if colouring.by == "step" else np.full(size, KIND_CODES["step"], np.uint8)
    return Row(start, end, kind, np.arange(size, dtype=np.uint32) % 2)


def step_names(steps: pl.DataFrame, glyphs: Glyphs) -> Names:
    """What is written on each slice of `steps_row`: the mark's name, or its number where that says more."""
    names = [_step_name(step, glyphs) for step in _in_order(steps).iter_rows(named=True)]
    return lambda indices: [names[index] for index in indices]


def _in_order(steps: pl.DataFrame) -> pl.DataFrame:
    return steps.sort("start").unique("start", keep="first", maintain_order=True)


def _step_name(step: Mapping[str, Any], glyphs: Glyphs) -> str:
    if step["inferred"]:
        return f"{glyphs.about}step {step['step']}"
    name = step["name"] or ""
    return glyphs.words(name) if str(step["step"]) in name else f"step {step['step']}"
