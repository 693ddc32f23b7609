"""A roofline result -> its plot: ops under the roof of their device, both axes logarithmic.

Owns which ops have a place there and how they are marked. Knows no colours and no peaks but those in the rows;
`draw.chart` draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import polars as pl

from tracehound.analysis.result import Result
from tracehound.draw import chart
from tracehound.draw.apart import filled
from tracehound.draw.chart import Size
from tracehound.errors import printable
from tracehound.units import flops, number, rate, share

GLYPHS: Final = "123456789"
"""The ops that take most, in their order; other ops are `OTHER`, the one under the cursor is `HERE`."""

OTHER, HERE = "+", "X"
FEWEST_LINES: Final = 8
NARROWEST: Final = 40
_DECADES: Final = 6
"""At most so many decades have a tick."""


class _Point(NamedTuple):
    """An op: where it lies (logarithms to base 10), its row, and what is said of it."""

    x: float
    y: float
    row: int
    words: str


def roofline(result: Result, cursor: int, size: Size) -> list[str]:
    """The plot, with a legend of the ops that take most; empty where nothing has a place, or there is no room.

    Ops without operations, or bytes, lie on no logarithmic axis: they are only in the table.
    """
    width, height = size
    roofs = _roofs(result)
    points = _points(result)
    if not roofs or not points or width < NARROWEST or height < FEWEST_LINES:
        return []
    order = sorted(points, key=lambda point: -(result.table["self"][point.row] or 0))
    marked = dict(zip((point.row for point in order), GLYPHS, strict=False))
    told = [f"{marked[point.row]} {point.words}" for point in order[: min(len(GLYPHS), max(1, height // 4))]]
    caption = "FLOP/s over FLOP/byte of memory; roof: " + "; ".join(
        f"{flops(peak)} and {rate(memory)}, ridge {number(round(peak / memory, 1))}" for peak, memory in roofs
    )
    xs, ys = [point.x for point in points], [point.y for point in points]
    ridges = [math.log10(peak / memory) for peak, memory in roofs]
    tops = [math.log10(peak) for peak, _ in roofs]
    low, high = math.floor(min(*xs, *ridges)), math.ceil(max(*xs, *ridges) + 0.3)
    lines = [_line(peak, memory, low, high) for peak, memory in roofs]
    bottom = math.floor(min(*ys, *(line[0][1] for line in lines)))
    drawn = chart.cloud(
        [(point.x, point.y, _glyph(point, marked, cursor)) for point in reversed(order)],
        lines,
        width,
        height - len(told) - 1,
        ticks=[(place, _power(place)) for place in _decades(low, high)],
        marks=[(place, flops(10.0**place)) for place in _decades(bottom, math.floor(max(*ys, *tops)))],
    )
    return [*drawn, *(filled(text, width) for text in (*told, caption))] if drawn else []


def missing(result: Result) -> str:
    """Why there is no plot, in one line."""
    if not _roofs(result):
        return "no roofline: no peak is known of the device; set one"
    if not _points(result):
        return "no roofline: no op has both operations and bytes"
    return f"too little room for the roofline ({FEWEST_LINES} lines of {NARROWEST} cells): z gives it the screen"


def _roofs(result: Result) -> list[tuple[float, float]]:
    """The peaks of the rows: operations and bytes per second, the highest first."""
    pairs = result.table.select("peak", "memory_peak").drop_nulls().unique().sort("peak", descending=True)
    return [(peak, memory) for peak, memory in pairs.iter_rows() if peak > 0 and memory > 0]


def _points(result: Result) -> list[_Point]:
    """The ops that have a place under the roof."""
    placed = (pl.col("intensity") > 0) & (pl.col("rate") > 0) & pl.col("efficiency").is_not_null()
    rows = result.table.with_row_index("row").filter(placed)
    return [
        _Point(
            math.log10(x), math.log10(y), row, f"{printable(name)}: {share(part or 0.0)} of time, {flops(y)}, {bound}"
        )
        for row, name, x, y, part, bound in rows.select(
            "row", "name", "intensity", "rate", "share", "bound_by"
        ).iter_rows()
        if math.isfinite(x) and math.isfinite(y)
    ]


def _glyph(point: _Point, marked: dict[int, str], cursor: int) -> str:
    return HERE if point.row == cursor else marked.get(point.row, OTHER)


def _line(peak: float, memory: float, low: float, high: float) -> Sequence[tuple[float, float]]:
    """The corners of a roof between two intensities."""
    ridge = math.log10(peak / memory)
    return [(low, low + math.log10(memory)), (ridge, math.log10(peak)), (high, math.log10(peak))]


def _decades(low: int, high: int) -> range:
    """Whole decades that get a tick."""
    return range(low, high + 1, max(1, math.ceil((high - low) / _DECADES)))


def _power(place: int) -> str:
    """A power of ten in few characters."""
    return f"{10**place:,}" if 0 <= place <= 4 else f"{10.0**place:g}"
