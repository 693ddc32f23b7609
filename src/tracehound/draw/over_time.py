"""Curves over time: a value for each instant or stretch of a rank.

Owns the charts of utilisation and of memory, and what stands at their axes. Knows no colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from rich.cells import cell_len

from tracehound.analysis.result import Result
from tracehound.draw import chart
from tracehound.draw.apart import fitted
from tracehound.draw.wrap import joined
from tracehound.units import bytes_, instant, share

_MEASURES: Final = {"utilisation": "kernels run", "sm_efficiency": "multiprocessors taken"}


def utilisation_curve(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """How busy the rank under the cursor is over time; and below, where there is room, how full."""
    rows = of_rank(result.table, cursor)
    known = [name for name in _MEASURES if rows[name].null_count() < rows.height]
    width, height = size
    drawn: list[str] = []
    room = height // 2 if len(known) > 1 and height >= _TWO else height
    for name in known if room < height else known[:1]:
        values = rows[name].fill_null(0.0)
        told = f"rank {rows['rank'][0]}: {_MEASURES[name]}, {share(_mean(rows, name))} on average"
        drawn += curve(rows, values, (width, room), ((0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")), told)
    return drawn


def memory_curve(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """How much of the memory under the cursor is allocated over time, and below, where there is room, reserved."""
    rows = of_rank(result.table, cursor)
    if rows.is_empty():
        return []
    rows = rows.filter(pl.col("device") == result.table["device"][min(max(cursor, 0), result.table.height - 1)])
    width, height = size
    known = [name for name in ("allocated", "reserved") if (rows[name].fill_null(0) > 0).any()]
    drawn: list[str] = []
    room = height // 2 if len(known) > 1 and height >= _TWO else height
    for name in known if room < height else known[:1]:
        values = rows[name].fill_null(strategy="forward").fill_null(0)
        low, high = (int(edge) for edge in (values.to_numpy().min(), values.to_numpy().max()))
        floor = chart.floor_of(low, high)
        marks = [(float(edge), bytes_(round(edge))) for edge in dict.fromkeys((floor, high))]
        told = [f"rank {rows['rank'][0]}, {rows['device'][0]}: memory {name}"]
        told += [f"scale from {bytes_(round(floor))}, not 0"] if floor > 0 else []
        drawn += curve(rows, values, (width, room), marks, joined([*told, f"{bytes_(high)} at most"], width))
    return drawn


_TWO: Final = 14
"""Lines from which two curves stand below each other."""


def of_rank(table: pl.DataFrame, cursor: int) -> pl.DataFrame:
    """The rows of the rank that the cursor's row is of, in the order of time."""
    if table.is_empty():
        return table
    return table.filter(pl.col("rank") == table["rank"][min(max(cursor, 0), table.height - 1)]).sort("start")


def curve(
    rows: pl.DataFrame, values: pl.Series, size: tuple[int, int], marks: Sequence[tuple[float, str]], told: str
) -> list[str]:
    """The values over `start` (ps), each until the next, with times below and words under them.

    `marks` has the lowest and the highest value of the scale first and last.
    """
    width, height = size
    times = rows["start"].to_list()
    if len(times) < _FEWEST:
        return []
    last = times[-1] + (rows["duration"][-1] if "duration" in rows.columns else 0)
    stairs = pl.DataFrame({"time": [*times, last], "value": [*values.to_list(), values[-1]]})
    steps = pl.concat([stairs.with_columns(pl.col("value").shift(1)), stairs]).drop_nulls()
    steps = steps.sort("time", maintain_order=True)
    ticks = [(at, instant(at)) for at in dict.fromkeys((times[0], (times[0] + last) // 2, last))]
    drawn = chart.line(
        steps["time"].to_list(),
        steps["value"].to_list(),
        width,
        height - 1,
        ticks=ticks,
        marks=marks,
        scale=(marks[0][0], marks[-1][0]),
    )
    words = fitted(told, width)
    return [*drawn, words + " " * (width - cell_len(words))] if drawn else []


_FEWEST: Final = 3
"""Points from which there is a curve."""


def _mean(rows: pl.DataFrame, name: str) -> float:
    """The average, weighted with time, over the stretches of which it is known or nothing runs."""
    length = rows["duration"].cast(pl.Float64)
    total = float(length.sum())
    return float((rows[name].fill_null(0.0) * length).sum()) / total if total else 0.0
