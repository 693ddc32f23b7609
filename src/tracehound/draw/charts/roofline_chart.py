"""The plot of a roofline: ops under the roof of their device, on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import polars as pl

from tracehound.analysis.result import Result
from tracehound.draw.charts import primitives
from tracehound.draw.charts.primitives import ChartSize
from tracehound.draw.name_shortening import shorten_and_pad
from tracehound.errors import printable
from tracehound.model.units import SENTENCE_DIGITS, format_bandwidth, format_flops, format_number, format_share

OP_GLYPHS: Final = "123456789"
"""The ops with most time, in order; other ops are `OTHER_GLYPH`, the one under the cursor is `CURSOR_GLYPH`."""

OTHER_GLYPH, CURSOR_GLYPH = "+", "X"
FEWEST_LINES: Final = 8
NARROWEST_ROOFLINE: Final = 40
_MOST_DECADES: Final = 6
"""Decades with a tick, at most."""


class _RooflinePoint(NamedTuple):
    """An op: its position (logarithms to base 10), its row, and its description."""

    x: float
    y: float
    row: int
    words: str


def draw_roofline(result: Result, cursor: int, size: ChartSize) -> list[str]:
    """The plot, with a legend of the ops with most time; empty if no op can be drawn, or there is no room.

    Ops without operations or bytes have no position on logarithmic axes: they are only in the table.
    """
    width, height = size
    roofs = _find_peaks(result)
    points = _find_points(result)
    if not roofs or not points or width < NARROWEST_ROOFLINE or height < FEWEST_LINES:
        return []
    order = sorted(points, key=lambda point: -(result.table["self"][point.row] or 0))
    marked = dict(zip((point.row for point in order), OP_GLYPHS, strict=False))
    legend = [f"{marked[point.row]} {point.words}" for point in order[: min(len(OP_GLYPHS), max(1, height // 4))]]
    caption = "FLOP/s over FLOP/byte of memory; roof: " + "; ".join(
        f"{format_flops(peak)} and {format_bandwidth(memory)}, ridge {format_number(peak / memory, SENTENCE_DIGITS)}"
        for peak, memory in roofs
    )
    xs, ys = [point.x for point in points], [point.y for point in points]
    ridges = [math.log10(peak / memory) for peak, memory in roofs]
    tops = [math.log10(peak) for peak, _ in roofs]
    low, high = math.floor(min(*xs, *ridges)), math.ceil(max(*xs, *ridges) + 0.3)
    lines = [_roof_corners(peak, memory, low, high) for peak, memory in roofs]
    bottom = math.floor(min(*ys, *(line[0][1] for line in lines)))
    lines_of_plot = primitives.draw_points(
        [(point.x, point.y, _point_glyph(point, marked, cursor)) for point in reversed(order)],
        lines,
        width,
        height - len(legend) - 1,
        ticks=[(decade, _format_power(decade)) for decade in _tick_decades(low, high)],
        marks=[(decade, format_flops(10.0**decade)) for decade in _tick_decades(bottom, math.floor(max(*ys, *tops)))],
    )
    return [*lines_of_plot, *(shorten_and_pad(text, width) for text in (*legend, caption))] if lines_of_plot else []


def why_no_roofline(result: Result) -> str:
    """The reason why there is no plot, in one line."""
    if not _find_peaks(result):
        return "no roofline: no peak is known of the device; set one"
    if not _find_points(result):
        return "no roofline: no op has both operations and bytes"
    return (
        f"too little room for the roofline ({FEWEST_LINES} lines of {NARROWEST_ROOFLINE} cells): z gives it the screen"
    )


def _find_peaks(result: Result) -> list[tuple[float, float]]:
    """The peaks in the rows: operations and bytes per second, the highest first."""
    pairs = result.table.select("peak", "memory_peak").drop_nulls().unique().sort("peak", descending=True)
    return [(peak, memory) for peak, memory in pairs.iter_rows() if peak > 0 and memory > 0]


def _find_points(result: Result) -> list[_RooflinePoint]:
    """The ops with a position under the roof."""
    placed = (pl.col("intensity") > 0) & (pl.col("rate") > 0) & pl.col("efficiency").is_not_null()
    rows = result.table.with_row_index("row").filter(placed)
    return [
        _RooflinePoint(
            math.log10(x),
            math.log10(y),
            row,
            f"{printable(name)}: {format_share(part or 0.0)} of time, {format_flops(y)}, {bound}",
        )
        for row, name, x, y, part, bound in rows.select(
            "row", "name", "intensity", "rate", "share", "bound_by"
        ).iter_rows()
        if math.isfinite(x) and math.isfinite(y)
    ]


def _point_glyph(point: _RooflinePoint, marked: dict[int, str], cursor: int) -> str:
    return CURSOR_GLYPH if point.row == cursor else marked.get(point.row, OTHER_GLYPH)


def _roof_corners(peak: float, memory: float, low: float, high: float) -> Sequence[tuple[float, float]]:
    """The corners of a roof between two intensities."""
    ridge = math.log10(peak / memory)
    return [(low, low + math.log10(memory)), (ridge, math.log10(peak)), (high, math.log10(peak))]


def _tick_decades(low: int, high: int) -> range:
    """Whole decades that get a tick."""
    return range(low, high + 1, max(1, math.ceil((high - low) / _MOST_DECADES)))


def _format_power(exponent: int) -> str:
    """A power of ten in few characters."""
    return f"{10**exponent:,}" if 0 <= exponent <= 4 else f"{10.0**exponent:g}"
