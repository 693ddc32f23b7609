"""The heap of an XLA program -> how much it holds, instruction by instruction.

Owns this chart and what stands at its axes. Knows no colours.
"""

from __future__ import annotations

import polars as pl

from tracehound.analysis.result import Result
from tracehound.draw import chart
from tracehound.draw.apart import filled
from tracehound.draw.wrap import joined
from tracehound.units import bytes_

FEWEST = 3
"""Points from which there is a curve."""


def hlo_heap(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """What the program under the cursor holds in the memory space there, over the events of its heap; from 0."""
    table, (width, height) = result.table, size
    if table.is_empty():
        return []
    here = table.select("program", "space").row(min(max(cursor, 0), table.height - 1))
    rows = table.filter(pl.col("program").eq_missing(here[0]) & pl.col("space").eq_missing(here[1])).sort("position")
    if rows.height < FEWEST:
        return []
    positions, held = rows["position"].to_list(), rows["held"].fill_null(0).to_list()
    most = max(held)
    stairs = sorted([*enumerate(positions), *enumerate(positions[1:])])
    ticks = [(at, f"{at:,}") for at in dict.fromkeys((positions[0], positions[held.index(most)], positions[-1]))]
    marks = [(0, bytes_(0)), (most, bytes_(most))]
    drawn = chart.line(
        [place for _, place in stairs],
        [held[row] for row, _ in stairs],
        width,
        height - 1,
        ticks=ticks,
        marks=marks,
        scale=(0, most),
    )
    told = [" ".join(filter(None, here)), "bytes held by event of the heap", f"{bytes_(most)} at most"]
    return [*drawn, filled(joined(told, width), width)] if drawn else []
