"""From one time to another, change by change: a chart of steps that hang one below the other.

Owns its scale, its rows and its words. Knows no colours: more and less differ by their filling and their sign.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import polars as pl
from rich.cells import cell_len

from tracehound.draw import chart
from tracehound.draw.apart import apart, filled
from tracehound.units import difference, duration

TOTAL, MORE, LESS = "█", "▒", "░"
"""What they are filled with: in ASCII #, + and -."""

LABEL: Final = 3
"""A name takes at most one part in so many of the width."""

NARROWEST: Final = 40


class _Row(NamedTuple):
    name: str
    start: int | None  # None for a step itself
    end: int
    change: int | None
    verdict: str


def waterfall(table: pl.DataFrame, size: tuple[int, int]) -> list[str]:
    """The chart of a table with part, from (null in the first and last row), to, change and verdict.

    What there is no room for is one row before the last. Empty where there is no room for anything.
    """
    width, height = size
    rows = _fitting(
        [_Row(*row) for row in table.select("part", "from", "to", "change", "verdict").iter_rows()], height - 1
    )
    if len(rows) < 2 or width < NARROWEST:
        return []
    low, high = _scale(rows)
    names = [row.name for row in rows]
    told = [duration(row.end) if row.start is None else difference(row.change or 0) for row in rows]
    room = min(max(map(cell_len, names)), width // LABEL)
    cut = apart(names, room)
    short, beside = [cut[name] for name in names], max(map(len, told))
    verdicts = max(len(row.verdict) for row in rows) if width >= 2 * NARROWEST else 0
    bar = width - room - beside - verdicts - 4
    lines = [
        f"{filled(name, room)} {words:>{beside}} {_bar(row, low, high, bar)} {row.verdict[:verdicts]:<{verdicts}}"
        for row, name, words in zip(rows, short, told, strict=True)
    ]
    changes = f"{MORE} more  {LESS} less"
    scale = f"{TOTAL} step  {changes}; from 0 s to {duration(high)}"
    if low:
        scale = f"from {duration(low)}, not 0, to {duration(high)}; {TOTAL} step's end  {changes}"
    return [*(filled(line, width) for line in lines), filled(scale, width)]


def _fitting(rows: list[_Row], room: int) -> list[_Row]:
    """As many rows as there is room for: both ends, the first ones, and the rest as one."""
    if len(rows) <= room:
        return rows
    if room < 4:
        return []
    left = rows[room - 2 : -1]
    change = sum(row.change or 0 for row in left)
    others = _Row(f"{len(left):,} others", left[0].start, left[-1].end, change, "")
    return [*rows[: room - 2], others, rows[-1]]


def _scale(rows: list[_Row]) -> tuple[int, int]:
    """The times at the left and right end of the bars: the left is 0 unless all times are near each other."""
    reached = [row.end for row in rows]
    low, high = min(reached), max(reached)
    near = chart.floor_of(low, high) > 0
    return (max(0, low - (high - low) // 4 - 1) if near else 0), max(high, 1)


def _bar(row: _Row, low: int, high: int, width: int) -> str:
    """The row's bar, at least one character long where it stands for anything.

    On a scale that does not begin at 0 a step has no length, and a mark is where it ends.
    """
    if row.start is None and low:
        at = round((row.end - low) / (high - low) * width)
        return f"{' ' * (at - 1)}{TOTAL}".ljust(width)
    begin, end = sorted((0 if row.start is None else row.start, row.end))
    first, last = (round((min(max(time, low), high) - low) / (high - low) * width) for time in (begin, end))
    first = min(first, width - 1)
    last = max(last, first + (end > begin))
    fill = TOTAL if row.start is None else MORE if (row.change or 0) > 0 else LESS
    return f"{' ' * first}{fill * (last - first)}"[:width].ljust(width)
