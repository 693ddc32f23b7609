"""The samples of a counter -> the characters of a graph.

Owns how a curve of steps looks: in each cell as high as the counter was at most, on a scale that all of the run shares.
Knows no terminal toolkit. Times are ps.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound import units
from tracehound.draw.glyphs import LEVELS, Glyphs
from tracehound.draw.lanes import Cells, Form, code
from tracehound.ids import in_part, part_of
from tracehound.intervals import Ints
from tracehound.trace import Trace

Floats = npt.NDArray[np.float64]


class Graph(Struct, frozen=True, eq=False, dict=True):
    """A counter: from `time[i]` on it is `value[i]`, until the next sample; the last holds to the end of its recording.

    That is at `until`; None: for ever.
    """

    time: Ints
    value: Floats
    unit: str = ""
    until: int | None = None

    @cached_property
    def scale(self) -> tuple[float, float]:
        """What the bottom and the top stand for: the least and the most of the whole run, and 0 between or below."""
        if not len(self.value):
            return (0.0, 0.0)
        return (min(0.0, float(self.value.min())), max(0.0, float(self.value.max())))

    def at(self, time: int) -> float | None:
        """The value at an instant; None before the first sample and after the recording."""
        if self.until is not None and time > self.until:
            return None
        index = int(np.searchsorted(self.time, time, side="right")) - 1
        return float(self.value[index]) if index >= 0 else None

    def between(self, start: int, end: int) -> tuple[float, float] | None:
        """The least and the most in `[start, end)`; None where all of that is before the first sample."""
        low, high = self.extremes(np.array([start, max(end, start + 1)], np.int64))
        return None if np.isnan(low[0]) else (float(low[0]), float(high[0]))

    def change(self, time: int, direction: int) -> int | None:
        """When the value next changes after an instant (1), or last changed before it (-1)."""
        changes = self._changes
        at = int(np.searchsorted(changes, time, side="right" if direction > 0 else "left"))
        at = at if direction > 0 else at - 1
        return int(changes[at]) if 0 <= at < len(changes) else None

    def words(self, value: float) -> str:
        """A value with its unit."""
        if self.unit == "bytes":
            return units.bytes_(value)
        if self.unit == "%":
            return units.share(value / 100)
        return f"{units.number(value)} {self.unit}".rstrip()

    def extremes(self, bounds: Ints) -> tuple[Floats, Floats]:
        """The least and the most of every cell between `bounds`; NaN in those before the first sample or after all."""
        inside = np.searchsorted(self.time, bounds, side="left")
        held = np.searchsorted(self.time, bounds[:-1], side="right") == inside[:-1]  # from a sample before the cell
        first, last = np.maximum(inside[:-1] - held, 0), inside[1:]
        known = first < last
        if self.until is not None:
            known &= (bounds[:-1] <= self.until) | (inside[:-1] < inside[1:])
        pairs = np.column_stack([np.where(known, first, 0), np.where(known, last, 1)]).ravel()
        seen = self._padded[: int(pairs.max(initial=0)) + 1]
        low, high = (np.where(known, reduce.reduceat(seen, pairs)[::2], np.nan) for reduce in (np.fmin, np.fmax))
        return low, high

    @cached_property
    def _padded(self) -> Floats:
        """The values and two that are none: an index may be that of the end."""
        return np.append(self.value, [np.nan, np.nan])

    @cached_property
    def _changes(self) -> Ints:
        """When the value becomes another one."""
        changed = np.append(True, self.value[1:] != self.value[:-1]) if len(self.value) else np.empty(0, np.bool_)
        times: Ints = self.time[changed]
        return times


def graph_of(trace: Trace, lane: int) -> Graph:
    """The graph of a counter."""
    samples, lanes = trace.samples(lane), trace.lanes.filter(in_part("lane", part_of(lane)))
    unit = lanes.filter(pl.col("lane") == lane)["unit"].to_list()
    until = lanes["last"].max()
    return Graph(
        samples["time"].to_numpy(),
        samples["value"].to_numpy(),
        (unit and unit[0]) or "",
        until if isinstance(until, int) else None,
    )


def plot(graph: Graph, bounds: Ints, glyphs: Glyphs, row: int, rows: int) -> Cells:
    """Line `row` (0 is the top) of a graph `rows` lines high, in the cells between `bounds`.

    A cell is as high as the counter's most in it, and of another tint where it was lower, too. What is at the bottom of
    the scale is a line; before the first sample there is nothing.
    """
    low, high = graph.extremes(bounds)
    least, most = (_levels(values, graph.scale, rows * LEVELS) for values in (low, high))
    below = (rows - 1 - row) * LEVELS
    level = np.clip(most - below, 0, LEVELS)
    alphabet = np.array([*glyphs.levels, glyphs.base])
    known = ~np.isnan(high)
    at_bottom = known & (most == 0) & (row == rows - 1)
    text = alphabet[np.where(at_bottom, LEVELS + 1, level)]
    inks = np.where(least < most, code(Form.GRAPH, 0, 1), code(Form.GRAPH, 0, 0))
    return Cells(text, np.where(known & ((level > 0) | at_bottom), inks, 0).astype(np.int32))


def _levels(values: Floats, scale: tuple[float, float], levels: int) -> Ints:
    """How many of `levels` a value is high: none only at the bottom of the scale, and where there is no value."""
    bottom, top = scale
    part = (np.nan_to_num(values, nan=bottom) / 2 - bottom / 2) / ((top / 2 - bottom / 2) or 1.0)
    return np.minimum(np.ceil(part * levels - 1e-9), levels).astype(np.int64)
