"""A result -> the chart that people would rather look at than read: lines of characters, of exactly the size asked for.

Owns which chart an analysis has, and its words. Knows no colours; `draw.chart` draws, `draw.plain` makes ASCII of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.result import Result
from tracehound.draw import bars, chart
from tracehound.draw.apart import filled
from tracehound.draw.chart import Size
from tracehound.draw.device_time import duty_cycle, step_time
from tracehound.draw.divided import WHOLES, queue, step_parts, whole
from tracehound.draw.heap import hlo_heap
from tracehound.draw.over_time import memory_curve, utilisation_curve
from tracehound.draw.parts import DIVISIONS, divided, paired
from tracehound.draw.roof import missing, roofline
from tracehound.draw.sentences import prose, sentences
from tracehound.draw.waterfall import waterfall
from tracehound.draw.wrap import joined
from tracehound.units import count, duration, plural

PARTS = MappingProxyType({"compute": "█", "communication": "▓", "copy": "░", "idle": "∙"})
"""The parts of a rank's time and what they are drawn with."""

WORDS = MappingProxyType({"communication": "exposed communication", "copy": "exposed copy"})
"""What those parts are called where their names say too little."""

FEWEST = 3
"""Steps from which their lengths are drawn as a curve."""

SPREAD = 30
"""How many times the shortest the longest must be for a histogram to have a logarithmic scale."""

FEWEST_BINS = 8
"""Columns of a histogram, at least."""


def plot(result: Result, column: str, cursor: int, size: Size) -> list[str]:
    """The chart of a result whose rows are in the order shown; `column` is the one that was chosen, `cursor` a row.

    Empty where there are no rows, or no room.
    """
    if prose(result):
        return sentences(result, cursor, size)
    draw = _PLOTS.get(result.analysis)
    if draw is None or (result.analysis in WHOLES and bars.holds(result, column)):
        return bars.bars(result, column, cursor, size)
    return draw(result, cursor, size) or _instead(result, column, cursor, size)


def _instead(result: Result, column: str, cursor: int, size: Size) -> list[str]:
    """Bars, and where a roofline was asked for, below them why there is none."""
    why = missing(result) if result.analysis == "roofline" else ""
    drawn = bars.bars(result, column, cursor, (size[0], size[1] - bool(why)))
    return [*drawn, filled(why, size[0])] if drawn and why else drawn


def follows(result: Result) -> bool:
    """Whether the chart depends on the row under the cursor."""
    return result.analysis != "steps" or result.table["step"].n_unique() < FEWEST


def steps(result: Result, cursor: int, size: Size) -> list[str]:
    """The length of every step on its slowest rank, by its number; not from 0 where they differ little."""
    del cursor
    longest = result.table.group_by("step").agg(pl.col("duration").max()).drop_nulls().sort("step")
    if longest.height < FEWEST:
        return []
    numbers, times = longest["step"].to_list(), longest["duration"].to_list()
    ticks = [(number, str(number)) for number in dict.fromkeys((numbers[0], numbers[len(numbers) // 2], numbers[-1]))]
    floor = chart.floor_of(min(times), max(times))
    scale = (floor, max(times))
    marks = [(value, duration(round(value))) for value in dict.fromkeys(scale)]
    drawn = chart.line(numbers, times, size[0], size[1] - 1, ticks=ticks, marks=marks, scale=scale)
    told = [f"scale from {duration(round(floor))}, not 0"] if floor else []
    told += ["slowest rank's length of each step", "by number of the step"]
    return [*drawn, filled(joined(told, size[0]), size[0])] if drawn else []


def breakdown(result: Result, cursor: int, size: Size) -> list[str]:
    """A bar for each rank, divided as its time was; the ranks about the cursor, where not all fit."""
    width, height = size
    shares = [f"{name}_share" for name in PARTS]
    labels = [f"rank {rank}" for rank in result.table["rank"].to_list()]
    room = max(map(len, labels), default=0)
    if not labels or width < room + 20 or height < 2:
        return []
    rows = zip(labels, result.table.select(shares).rows(), strict=True)
    lines = [
        f"{label:<{room}} {chart.stacked([part or 0.0 for part in parts], [*PARTS.values()], width - room - 1)}"
        for label, parts in rows
    ]
    more = len(lines) - (height - 1)
    legend = "  ".join(f"{glyph} {WORDS.get(name, name)}" for name, glyph in PARTS.items())
    first = bars.in_sight(cursor, len(lines), height - 1)
    shown = lines[first : first + height - 1]
    return [*shown, filled(f"{legend}  {more:,} more ranks" if more > 0 else legend, width)]


def histogram(lengths: npt.NDArray[np.int64], size: Size, what: str = "executions") -> list[str]:
    """How many of these lengths (ps) are how long; where they differ much, on a logarithmic scale.

    They are the lengths of `what`. Where all are alike, the axis says that length once; of one there is no more to say.
    """
    width, height = size
    if not len(lengths) or width < 24 or height < 4:
        return []
    low, high = int(lengths.min()), int(lengths.max())
    logarithmic = low > 0 and high > SPREAD * low
    scale: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]] = np.log if logarithmic else np.asarray
    ends = scale(np.array([low, max(high, low + 1)], np.float64))
    wide = max(1, width // max(FEWEST_BINS, round(2 * len(lengths) ** 0.5)))
    numbers, _ = np.histogram(scale(lengths.astype(np.float64)), width // wide, (float(ends[0]), float(ends[1])))
    drawn = chart.columns(np.repeat(numbers, wide), height - 2)
    middle, late = (duration(round(float(np.percentile(lengths, part)))) for part in (50, 99))
    center = float(np.exp(ends.mean())) if logarithmic else float(ends.mean())
    told = [f"median {middle}", f"p99 {late}"]
    told += ["log scale"] if logarithmic else []
    told.append(f"highest {count(int(numbers.max()))}")
    axis = _spread(apart((low, round(center), high)), len(drawn[0])).ljust(width)
    told = told if len(lengths) > 1 else []
    axis = axis if low < high else duration(low).center(width)
    one, space, rest = what.partition(" ")
    told.insert(0, plural(len(lengths), f"{one.removesuffix('s')}{space}{rest}", what))
    return [*(line.ljust(width) for line in drawn), axis, filled(joined(told, width), width)]


def apart(lengths: Sequence[int]) -> list[str]:
    """Lengths (ps) in words that differ as they do: where four digits are too few, by how much more than the first."""
    words = [duration(length) for length in lengths]
    if len(set(words)) == len(set(lengths)):
        return words
    return [words[0], *(f"+{duration(length - lengths[0])}" for length in lengths[1:])]


_PLOTS: MappingProxyType[str, Callable[[Result, int, Size], list[str]]] = MappingProxyType(
    {
        "steps": steps,
        "breakdown": breakdown,
        "step_parts": step_parts,
        "step_time": step_time,
        "duty_cycle": duty_cycle,
        "utilisation_curve": utilisation_curve,
        "roofline": roofline,
        "hlo_heap": hlo_heap,
        "queue": queue,
        **dict.fromkeys(WHOLES, whole),
        **dict.fromkeys(DIVISIONS, divided),
        "operators": paired,
        "diff-waterfall": lambda result, _, size: waterfall(result.table, size),
        "memory_curve": memory_curve,
    }
)
"""The analyses that have a chart of their own; others have bars."""


def _spread(words: list[str], width: int) -> str:
    """Three words at the left, in the middle and at the right of a line."""
    left, middle, right = words
    line = left + middle.center(max(0, width - 2 * max(len(left), len(right)))).rjust(
        max(0, width - max(len(left), len(right)) - len(left))
    )
    return line[: width - len(right)].ljust(width - len(right)) + right
