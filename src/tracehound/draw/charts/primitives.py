"""Bars, columns and curves made of characters. The only importer of plotext.

Lines have exactly the width asked for and no colors; `to_ascii` converts them. Has no results and no units: the caller
names the ticks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_EIGHTH_BLOCKS = " ▏▎▍▌▋▊▉"
_HEIGHT_BLOCKS = " ▁▂▃▄▅▆▇█"

NEAR_FRACTION = 0.3
"""Values are near each other if they differ by less than this fraction of the highest."""

ChartSize = tuple[int, int]
"""Width and height in characters."""

PlotValues = Sequence[float] | npt.NDArray[np.float64] | npt.NDArray[np.int64]


def draw_bar(fraction: float, width: int) -> str:
    """A bar that fills `fraction` of `width` characters to an eighth of one, padded to `width`.

    A fraction above zero shows at least an eighth, so that a small share differs from none.
    """
    fraction = min(max(fraction, 0.0), 1.0) if math.isfinite(fraction) else 0.0
    eighths = max(1, round(fraction * width * 8)) if fraction else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTH_BLOCKS[rest] if rest else "")).ljust(width)[:width]


def draw_stacked_bar(fractions: Sequence[float], glyphs: Sequence[str], width: int) -> str:
    """One bar of `width` characters made of parts: `fractions` sum up to at most 1, each with its own glyph.

    Edges are rounded, not lengths, so that the parts never exceed their sum.
    """
    edges = np.rint(np.clip(np.cumsum([0.0, *np.nan_to_num(fractions)]), 0, 1) * width).astype(int)
    parts = zip(glyphs, np.diff(edges), strict=True)
    return "".join(glyph * int(length) for glyph, length in parts).ljust(width)


def draw_columns(heights: PlotValues, height: int) -> list[str]:
    """Columns beside each other, each one character wide, as `height` lines; the highest fills them.

    Heights are exact to an eighth of a character. A value above zero shows at least an eighth.
    """
    values = np.nan_to_num(np.asarray(heights, np.float64))
    most = values.max(initial=0.0)
    if most <= 0 or height < 1:
        return [" " * len(values)] * max(height, 0)
    eighths = np.where(values > 0, np.maximum(1, np.rint(values / most * height * 8)), 0).astype(int)
    levels = [np.clip(eighths - 8 * row, 0, 8) for row in reversed(range(height))]
    return ["".join(_HEIGHT_BLOCKS[level] for level in row) for row in levels]


def draw_curve(
    x: PlotValues,
    y: PlotValues,
    width: int,
    height: int,
    *,
    ticks: Sequence[tuple[float, str]] = (),
    marks: Sequence[tuple[float, str]] = (),
    scale: tuple[float, float] | None = None,
) -> list[str]:
    """A curve through the points, as `height` lines of `width` characters, axes included.

    `ticks` are positions on the x axis with their labels, `marks` those on the y axis; without them plotext chooses.
    The y axis spans `scale`, else from the lowest point to the highest. Longer series are thinned to two points a
    column, the lowest and the highest, so that spikes stay.
    """
    if len(x) != len(y):
        raise ValueError(f"{len(x)} places for {len(y)} values")
    if not len(x) or width < 16 or height < 4:
        return []
    positions, values = thin_points(np.asarray(x, np.float64), np.asarray(y, np.float64), width)
    if not len(values):
        return []
    curve = _PlotSeries(positions.tolist(), values.tolist(), "hd", joined=True)
    return _draw_figure([curve], width, height, ticks, marks, scale)


def scale_floor(low: float, high: float) -> float:
    """The start of a scale: 0, unless values are so near each other that this would hide their differences."""
    return low if 0 < high - low < NEAR_FRACTION * high else min(low, 0)


def thin_points(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], columns: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The finite points; if there are more than two a column, the lowest and highest of each column.

    `x` ascends.
    """
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    if len(x) <= 2 * columns:
        return x, y
    edges = np.linspace(x[0], x[-1], columns + 1)[1:-1]
    column = np.searchsorted(edges, x, side="right")
    order = np.lexsort((y, column))
    first = np.flatnonzero(np.diff(column[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    chosen = np.unique(np.concatenate([order[first], order[last]]))
    return x[chosen], y[chosen]


def draw_points(
    points: Sequence[tuple[float, float, str]],
    lines: Sequence[Sequence[tuple[float, float]]],
    width: int,
    height: int,
    *,
    ticks: Sequence[tuple[float, str]] = (),
    marks: Sequence[tuple[float, str]] = (),
) -> list[str]:
    """Points, each drawn with its own character, in front of lines through other points; arguments as in `draw_curve`.

    If points fall on one character, the last is visible. Points and corners of lines are finite.
    """
    if width < 16 or height < 4 or not (points or lines):
        return []
    curves = [_PlotSeries([x for x, _ in corners], [y for _, y in corners], "dot", joined=True) for corners in lines]
    return _draw_figure(
        [*curves, *(_PlotSeries([x], [y], glyph) for x, y, glyph in points)], width, height, ticks, marks
    )


class _PlotSeries(NamedTuple):
    """Points, drawn with a marker of plotext or a character, and joined by a line or not."""

    x: list[float]
    y: list[float]
    marker: str
    joined: bool = False


def _draw_figure(
    signals: Sequence[_PlotSeries],
    width: int,
    height: int,
    ticks: Sequence[tuple[float, str]],
    marks: Sequence[tuple[float, str]],
    scale: tuple[float, float] | None = None,
) -> list[str]:
    """A figure with these axis labels, the series on top of one another."""
    import plotext  # noqa: PLC0415, its import takes longer than many a report

    plotext.terminal.limit(width=False, height=False)
    # plotext has one figure for the whole process; a new one of its type is independent of other charts.
    figure = type(plotext.figure)(plotext.terminal)
    figure.theme("colorless")
    figure.plot_size(width, height)
    figure.axes(active=False, side=1)
    for axis, labels in (("x", ticks), ("y", marks)):
        if labels:
            figure.ruler(axis).ticks([position for position, _ in labels], [word for _, word in labels])
    if scale is not None:
        low, high = scale
        figure.ruler("y").lim(low, high if high > low else low + 1)
    for signal in signals:
        plotted = figure.signal(signal.x, signal.y, marker=signal.marker)
        figure.draw(plotted.lines() if signal.joined else plotted)
    text: str = plotext.uncolorize(figure.build())
    return [row.ljust(width)[:width] for row in text.split("\n")[:height]]
