"""Numbers -> charts made of characters. The only importer of plotext.

Owns bars, columns and curves as lines of exactly the width asked for, without colours; `draw.plain` makes ASCII of
them. Knows nothing of results or units: whoever asks names the ticks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEVELS = " ▁▂▃▄▅▆▇█"

NEAR = 0.3
"""Values that differ by less than such a part of the highest are near each other."""

Size = tuple[int, int]
"""Width and height in characters."""

Values = Sequence[float] | npt.NDArray[np.float64] | npt.NDArray[np.int64]


def bar(fraction: float, width: int) -> str:
    """A bar that fills `fraction` of `width` characters to an eighth of one, padded to `width`.

    What is more than nothing shows at least a trace, so that a small share is not taken for none.
    """
    fraction = min(max(fraction, 0.0), 1.0) if math.isfinite(fraction) else 0.0
    eighths = max(1, round(fraction * width * 8)) if fraction else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)[:width]


def stacked(fractions: Sequence[float], glyphs: Sequence[str], width: int) -> str:
    """One bar of `width` characters made of parts: `fractions` add up to 1 at most, each drawn with its own glyph.

    Edges are rounded, not lengths, so the parts never add up to more than their sum.
    """
    edges = np.rint(np.clip(np.cumsum([0.0, *np.nan_to_num(fractions)]), 0, 1) * width).astype(int)
    parts = zip(glyphs, np.diff(edges), strict=True)
    return "".join(glyph * int(length) for glyph, length in parts).ljust(width)


def columns(heights: Values, height: int) -> list[str]:
    """Columns beside each other, one a character wide, as `height` lines; the highest fills them.

    To an eighth of a character; what is more than nothing shows at least a trace.
    """
    values = np.nan_to_num(np.asarray(heights, np.float64))
    most = values.max(initial=0.0)
    if most <= 0 or height < 1:
        return [" " * len(values)] * max(height, 0)
    eighths = np.where(values > 0, np.maximum(1, np.rint(values / most * height * 8)), 0).astype(int)
    levels = [np.clip(eighths - 8 * row, 0, 8) for row in reversed(range(height))]
    return ["".join(_LEVELS[level] for level in row) for row in levels]


def line(
    x: Values,
    y: Values,
    width: int,
    height: int,
    *,
    ticks: Sequence[tuple[float, str]] = (),
    marks: Sequence[tuple[float, str]] = (),
    scale: tuple[float, float] | None = None,
) -> list[str]:
    """A curve through the points, as `height` lines of `width` characters, axes included.

    `ticks` are places on the x axis with their words, `marks` the same on the y axis; without them plotext chooses. The
    y axis goes from one end of `scale` to the other, else from the lowest point to the highest.
    Longer series are thinned to two points a column, the lowest and the highest, so that spikes stay.
    """
    if len(x) != len(y):
        raise ValueError(f"{len(x)} places for {len(y)} values")
    if not len(x) or width < 16 or height < 4:
        return []
    places, values = thinned(np.asarray(x, np.float64), np.asarray(y, np.float64), width)
    if not len(values):
        return []
    curve = _Signal(places.tolist(), values.tolist(), "hd", joined=True)
    return _drawn([curve], width, height, ticks, marks, scale)


def floor_of(low: float, high: float) -> float:
    """Where a scale begins: at 0, unless values are so near each other that it would hide in what they differ."""
    return low if 0 < high - low < NEAR * high else min(low, 0)


def thinned(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], columns: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The finite points, or where there are more than two a column, the lowest and highest of each column.

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


def cloud(
    points: Sequence[tuple[float, float, str]],
    lines: Sequence[Sequence[tuple[float, float]]],
    width: int,
    height: int,
    *,
    ticks: Sequence[tuple[float, str]] = (),
    marks: Sequence[tuple[float, str]] = (),
) -> list[str]:
    """Points, each drawn with its own character, before lines through other points; as `line` draws a curve.

    Of points that fall on one character the last is seen. Points and corners of lines are finite.
    """
    if width < 16 or height < 4 or not (points or lines):
        return []
    curves = [_Signal([x for x, _ in corners], [y for _, y in corners], "dot", joined=True) for corners in lines]
    return _drawn([*curves, *(_Signal([x], [y], glyph) for x, y, glyph in points)], width, height, ticks, marks)


class _Signal(NamedTuple):
    """Points, drawn with a marker of plotext's or a character, and whether a line joins them."""

    x: list[float]
    y: list[float]
    marker: str
    joined: bool = False


def _drawn(
    signals: Sequence[_Signal],
    width: int,
    height: int,
    ticks: Sequence[tuple[float, str]],
    marks: Sequence[tuple[float, str]],
    scale: tuple[float, float] | None = None,
) -> list[str]:
    """A figure with these words on its axes, the signals one over the other."""
    import plotext  # noqa: PLC0415, its import takes longer than many a report

    plotext.terminal.limit(width=False, height=False)
    # plotext has one figure for the whole process; another of its type is independent of what others drew there.
    figure = type(plotext.figure)(plotext.terminal)
    figure.theme("colorless")
    figure.plot_size(width, height)
    figure.axes(active=False, side=1)
    for axis, named in (("x", ticks), ("y", marks)):
        if named:
            figure.ruler(axis).ticks([place for place, _ in named], [word for _, word in named])
    if scale is not None:
        low, high = scale
        figure.ruler("y").lim(low, high if high > low else low + 1)
    for signal in signals:
        drawn = figure.signal(signal.x, signal.y, marker=signal.marker)
        figure.draw(drawn.lines() if signal.joined else drawn)
    text: str = plotext.uncolorize(figure.build())
    return [row.ljust(width)[:width] for row in text.split("\n")[:height]]
