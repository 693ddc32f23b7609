"""A result -> a bar for each of its rows, as long as the amount that answers its question.

Owns which amount that is, and what a full bar stands for: all of what a share is of, else the largest amount. Knows no
colours; lines are of exactly the width asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import polars as pl
from rich.cells import cell_len

from tracehound.analysis.result import Column, Result, Unit
from tracehound.draw import chart
from tracehound.draw.apart import filled
from tracehound.draw.cells import WHICH, cell, heading, measures, void
from tracehound.draw.chart import Size
from tracehound.draw.labels import labels

MORE, LESS = "▒", "░"
"""What differences are filled with: in ASCII + and -."""

NARROWEST: Final = 24

SHORTEST: Final = 4
"""No bar has less room than so many characters."""

SIGNED: Final[tuple[Unit, ...]] = ("difference", "growth")
"""Units of amounts that may be below 0."""

ANSWERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "overview": ("events", "host_events"),
        "utilisation": ("utilisation",),
        "memory": ("peak",),
        "memory_operators": ("self_allocation_size", "allocation_size"),
        "memory_blocks": ("size",),
        "operator_roofline": ("efficiency", "rate"),
        "queue": ("max",),
        "bandwidth": ("mean", "bytes"),
        "transfers": ("rate",),
        "collective_calls": ("late", "skew"),
        "clocks": ("shift",),
        "hlo_memory": ("peak",),
        "hlo_buffers": ("bytes",),
        "hlo_heap": ("held",),
        "diff": ("change",),
        "diff-ops": ("exposed_change", "change"),
        "diff-categories": ("exposed_change", "change"),
        "diff-causes": ("change",),
        "diff-marks": ("change",),
        "diff-memory": ("relative",),
        "diff-counters": ("relative",),
    }
)
"""The columns that answer the question of an analysis, the first that has any amounts; of others it is the first with
times, else the first amount."""


def bars(result: Result, column: str, cursor: int, size: Size) -> list[str]:
    """A bar for each row, as long as its value of `column` or of what answers; those about the cursor, if not all."""
    width, height = size
    table = result.table
    if table.is_empty() or width < NARROWEST or height < 2:
        return []
    value = drawn(result, column)
    if value is None or void(value, table[value.name]):
        what = "no column holds amounts" if value is None else f"{heading(value)} is 0 in every row"
        return [filled(f"nothing to draw: {what}", width)]
    first = in_sight(cursor, table.height, height - 1)
    rows = table.slice(first, height - 1)
    numbers = rows[value.name].to_list()
    names, words = labels(result, rows, width), [cell(value, number) for number in numbers]
    beside = max(map(cell_len, words))
    space, most = width - cell_len(names[0]) - beside - 2, _full(value, table[value.name])
    if space < SHORTEST:
        return []
    draw = _both_ways if value.unit in SIGNED else chart.bar
    lines = [
        f"{name} {draw((number or 0) / most if most else 0.0, space)} {word:>{beside}}"
        for name, number, word in zip(names, numbers, words, strict=True)
    ]
    base = f", of {value.base}" if value.base else ""
    scale = f" (full bar {cell(value, most)})" if value.unit == "share" else ""
    said = f": {value.meaning}{base}" if value.meaning else ""
    return [*lines, filled(f"{heading(value)}{scale}{said}", width)]


def drawn(result: Result, column: str) -> Column | None:
    """The column that is drawn: `column` if it holds amounts, else what answers; None where nothing is an amount."""
    if holds(result, column):
        return result.column(column)
    amounts = [each for each in result.columns if holds(result, each.name)]
    answers = [each for name in ANSWERS.get(result.analysis, ()) for each in amounts if each.name == name]
    some = [each for each in answers if not void(each, result.table[each.name])]
    times = [each for each in amounts if each.unit == "time"]
    known = [each for each in amounts if measures(each)]
    return next(iter([*some, *answers, *times, *known, *amounts]), None)


def holds(result: Result, column: str) -> bool:
    """Whether a result has a column of that name with numbers that may say how much."""
    found = [each for each in result.columns if each.name == column]
    return any(measures(each) or (each.unit == "number" and each.name not in WHICH) for each in found)


def in_sight(cursor: int, rows: int, room: int) -> int:
    """The first row of those that are shown, so that the cursor's is among them."""
    return max(0, min(cursor - room // 2, rows - room))


def _full(value: Column, values: pl.Series) -> float:
    """What a full bar stands for: 100 % of shares, or the largest of them where one is above that."""
    return max(1.0, _most(values)) if value.unit == "share" else _most(values)


def _most(values: pl.Series) -> float:
    numbers = np.abs(np.nan_to_num(values.drop_nulls().cast(pl.Float64).to_numpy(), posinf=0.0, neginf=0.0))
    return float(numbers.max(initial=0.0))


def _both_ways(fraction: float, width: int) -> str:
    """A bar from the middle of `width` characters: to the right for more, to the left for less."""
    half = (width - 1) // 2
    length = max(1, round(min(1.0, abs(fraction)) * half)) if fraction else 0
    less, more = (length, 0) if fraction < 0 else (0, length)
    return f"{LESS * less:>{half}}│{MORE * more:<{half}}".ljust(width)
