"""Lengths of many events -> how they are spread: on each rank, and of what launches cost.

Owns these charts. Knows no colours; lines are of exactly the width asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from tracehound.analysis.result import Result
from tracehound.draw import plots
from tracehound.draw.apart import filled
from tracehound.draw.chart import Size
from tracehound.intervals import Ints
from tracehound.units import count, duration

BESIDE: Final = 12
"""Cells beside a box: its median."""


def spread(lengths: Ints, ranks: Ints, apart: Collection[int], size: Size) -> list[str]:
    """A histogram of lengths (ps); of several ranks a box for each, those that stand `apart` marked."""
    if len(np.unique(ranks)) < 2:
        return plots.histogram(lengths, size)
    boxes = by_rank(lengths, ranks, apart, (size[0], size[1] - max(5, size[1] // 3)))
    return [*boxes, *plots.histogram(lengths, (size[0], size[1] - len(boxes)))]


def by_rank(lengths: Ints, ranks: Ints, apart: Collection[int], size: Size) -> list[str]:
    """For each rank a line from the shortest to p99, a box over the middle half, and the median beside it.

    Of more ranks than fit, those that stand apart come first, then those with the longest medians.
    """
    width, height = size
    label = max(len(f"rank {rank} !") for rank in ranks.tolist())
    inner = width - label - 2 - BESIDE
    if inner < 12 or height < 2:
        return []
    found = {rank: np.percentile(lengths[ranks == rank], (0, 25, 50, 75, 99)) for rank in np.unique(ranks).tolist()}
    order = sorted(found, key=lambda rank: (rank not in apart, -found[rank][2]))[: height - 1]
    low, high = min(box[0] for box in found.values()), max(box[4] for box in found.values())
    scale = (inner - 1) / max(1.0, high - low)
    lines = []
    for rank in sorted(order):
        at = [round((edge - low) * scale) for edge in found[rank]]
        cells = [" "] * inner
        cells[at[0] : at[4] + 1] = "─" * (at[4] + 1 - at[0])
        cells[at[1] : at[3] + 1] = "▒" * (at[3] + 1 - at[1])
        cells[at[2]] = "█"
        mark = "!" if rank in apart else " "
        lines.append(f"{f'rank {rank} {mark}':<{label}} {''.join(cells)} {duration(round(found[rank][2])):>{BESIDE}}")
    more = len(found) - len(lines)
    told = [f"{count(more)} more ranks"] if more else []
    told += ["! stands out by its sum"] if apart else []
    told += ["shortest ─ middle half ▒ median █ to p99", " to ".join(plots.apart((round(low), round(high))))]
    while len(", ".join(told)) > width and len(told) > 1:
        told.pop()
    return [*lines, filled(", ".join(told), width)]


_PARTS: Final = (("delay", "delays of work"), ("device_time", "lengths of work"), ("call_time", "calls"))
"""What of launches is spread, and what is counted."""


def launches(every: Result, row: Mapping[str, Any], size: Size) -> list[str]:
    """Of the calls of a row: how late their work began, how long it took, and how long the calls took.

    `every` has a row for each launch.
    """
    width, height = size
    table = every.table.filter(pl.col("rank").eq_missing(row.get("rank")) & pl.col("call").eq_missing(row.get("call")))
    fit = max(1, min(len(_PARTS), height // 5))
    parts, each = _PARTS[:fit], height // fit
    lines = []
    for name, words in parts:
        lengths = table[name].drop_nulls().to_numpy()
        drawn = plots.histogram(lengths, (width, each - 1), words)
        lines += [*drawn, " " * width] if drawn else []
    return lines[:-1]
