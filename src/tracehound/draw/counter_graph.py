"""The samples of a counter as the characters of a graph. Times are ps.

A cell is as high as the maximum of the counter in it, on one scale for the whole run. Uses no terminal toolkit.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.draw.glyphs import FILL_LEVELS, Glyphs
from tracehound.draw.lane_cells import CellForm, LaneCells, encode_style
from tracehound.model import units
from tracehound.model.ids import file_index_of, is_in_file
from tracehound.model.trace import Trace
from tracehound.numeric.intervals import Ints

Floats = npt.NDArray[np.float64]


class CounterSeries(Struct, frozen=True, eq=False, dict=True):
    """Samples of a counter: from `time[i]` on its value is `value[i]`, until the next sample.

    The last value holds until `until`, the end of the recording; None: forever.
    """

    time: Ints
    value: Floats
    unit: str = ""
    until: int | None = None

    @cached_property
    def scale(self) -> tuple[float, float]:
        """The values at the bottom and the top of the graph.

        They are the minimum and maximum of the whole run, extended to include 0.
        """
        if not len(self.value):
            return (0.0, 0.0)
        return (min(0.0, float(self.value.min())), max(0.0, float(self.value.max())))

    def value_at(self, time: int) -> float | None:
        """The value at an instant; None before the first sample and after the recording."""
        if self.until is not None and time > self.until:
            return None
        index = int(np.searchsorted(self.time, time, side="right")) - 1
        return float(self.value[index]) if index >= 0 else None

    def range_between(self, start: int, end: int) -> tuple[float, float] | None:
        """Minimum and maximum in `[start, end)`; None if all of that is before the first sample."""
        low, high = self.extremes_per_cell(np.array([start, max(end, start + 1)], np.int64))
        return None if np.isnan(low[0]) else (float(low[0]), float(high[0]))

    def next_change(self, time: int, direction: int) -> int | None:
        """The time of the next change after an instant (direction 1), or of the last one before it (-1)."""
        changes = self._changes
        at = int(np.searchsorted(changes, time, side="right" if direction > 0 else "left"))
        at = at if direction > 0 else at - 1
        return int(changes[at]) if 0 <= at < len(changes) else None

    def format_value(self, value: float) -> str:
        """A value with its unit."""
        if self.unit == "bytes":
            return units.format_bytes(value)
        if self.unit == "%":
            return units.format_share(value / 100)
        return f"{units.format_number(value)} {self.unit}".rstrip()

    def extremes_per_cell(self, bounds: Ints) -> tuple[Floats, Floats]:
        """Minimum and maximum of every cell between `bounds`; NaN before the first sample and after the recording."""
        inside = np.searchsorted(self.time, bounds, side="left")
        starts_before = (
            np.searchsorted(self.time, bounds[:-1], side="right") == inside[:-1]
        )  # the value comes from a sample before the cell
        first, last = np.maximum(inside[:-1] - starts_before, 0), inside[1:]
        known = first < last
        if self.until is not None:
            known &= (bounds[:-1] <= self.until) | (inside[:-1] < inside[1:])
        pairs = np.column_stack([np.where(known, first, 0), np.where(known, last, 1)]).ravel()
        seen = self._padded[: int(pairs.max(initial=0)) + 1]
        low, high = (np.where(known, reduce.reduceat(seen, pairs)[::2], np.nan) for reduce in (np.fmin, np.fmax))
        return low, high

    @cached_property
    def _padded(self) -> Floats:
        """The values and two NaN, so that an index can be the end of the array."""
        return np.append(self.value, [np.nan, np.nan])

    @cached_property
    def _changes(self) -> Ints:
        """The times at which the value changes."""
        changed = np.append(True, self.value[1:] != self.value[:-1]) if len(self.value) else np.empty(0, np.bool_)
        times: Ints = self.time[changed]
        return times


def load_counter_graph(trace: Trace, lane: int) -> CounterSeries:
    """The graph of the counter on a lane."""
    samples, lanes = trace.samples(lane), trace.lanes.filter(is_in_file("lane", file_index_of(lane)))
    unit = lanes.filter(pl.col("lane") == lane)["unit"].to_list()
    until = lanes["last"].max()
    return CounterSeries(
        samples["time"].to_numpy(),
        samples["value"].to_numpy(),
        (unit and unit[0]) or "",
        until if isinstance(until, int) else None,
    )


def draw_graph_line(graph: CounterSeries, bounds: Ints, glyphs: Glyphs, row: int, rows: int) -> LaneCells:
    """Line `row` (0 is the top) of a graph `rows` lines high, in the cells between `bounds`.

    A cell is as high as the maximum of the counter in it; its tint differs if the minimum is lower. The bottom of the
    scale is a line. Before the first sample there is nothing.
    """
    low, high = graph.extremes_per_cell(bounds)
    least, most = (_fill_levels(values, graph.scale, rows * FILL_LEVELS) for values in (low, high))
    below = (rows - 1 - row) * FILL_LEVELS
    level = np.clip(most - below, 0, FILL_LEVELS)
    alphabet = np.array([*glyphs.levels, glyphs.base])
    known = ~np.isnan(high)
    at_bottom = known & (most == 0) & (row == rows - 1)
    text = alphabet[np.where(at_bottom, FILL_LEVELS + 1, level)]
    styles = np.where(least < most, encode_style(CellForm.GRAPH, 0, 1), encode_style(CellForm.GRAPH, 0, 0))
    return LaneCells(text, np.where(known & ((level > 0) | at_bottom), styles, 0).astype(np.int32))


def _fill_levels(values: Floats, scale: tuple[float, float], levels: int) -> Ints:
    """The height of each value in `levels` steps: 0 only at the bottom of the scale and for NaN."""
    bottom, top = scale
    part = (np.nan_to_num(values, nan=bottom) / 2 - bottom / 2) / ((top / 2 - bottom / 2) or 1.0)
    return np.minimum(np.ceil(part * levels - 1e-9), levels).astype(np.int64)
