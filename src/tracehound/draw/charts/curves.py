"""Curves of utilization and memory over time, and of the heap of an XLA program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from rich.cells import cell_len

from tracehound.analysis.result import Result
from tracehound.draw.charts import primitives
from tracehound.draw.name_shortening import shorten_and_pad, shorten_name
from tracehound.draw.text_wrapping import join_fitting_parts
from tracehound.model.units import format_bytes, format_instant, format_share

_UTILIZATION_MEASURES: Final = {"utilisation": "kernels run", "sm_efficiency": "multiprocessors taken"}


def draw_utilization_curve(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """Utilization of the rank under the cursor over time; below, if there is room, SM efficiency."""
    rows = rows_of_cursor_rank(result.table, cursor)
    known = [name for name in _UTILIZATION_MEASURES if rows[name].null_count() < rows.height]
    width, height = size
    drawn: list[str] = []
    room = height // 2 if len(known) > 1 and height >= _TWO_CURVES_HEIGHT else height
    for name in known if room < height else known[:1]:
        values = rows[name].fill_null(0.0)
        mean = format_share(_time_weighted_mean(rows, name))
        caption = f"rank {rows['rank'][0]}: {_UTILIZATION_MEASURES[name]}, {mean} on average"
        drawn += draw_curve_over_time(
            rows, values, (width, room), ((0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")), caption
        )
    return drawn


def draw_memory_curve(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """Allocated memory of the device under the cursor over time; below, if there is room, reserved memory."""
    rows = rows_of_cursor_rank(result.table, cursor)
    if rows.is_empty():
        return []
    rows = rows.filter(pl.col("device") == result.table["device"][min(max(cursor, 0), result.table.height - 1)])
    width, height = size
    known = [name for name in ("allocated", "reserved") if (rows[name].fill_null(0) > 0).any()]
    drawn: list[str] = []
    room = height // 2 if len(known) > 1 and height >= _TWO_CURVES_HEIGHT else height
    for name in known if room < height else known[:1]:
        values = rows[name].fill_null(strategy="forward").fill_null(0)
        low, high = (int(edge) for edge in (values.to_numpy().min(), values.to_numpy().max()))
        floor = primitives.scale_floor(low, high)
        marks = [(float(edge), format_bytes(round(edge))) for edge in dict.fromkeys((floor, high))]
        caption = [f"rank {rows['rank'][0]}, {rows['device'][0]}: memory {name}"]
        caption += [f"scale from {format_bytes(round(floor))}, not 0"] if floor > 0 else []
        drawn += draw_curve_over_time(
            rows, values, (width, room), marks, join_fitting_parts([*caption, f"{format_bytes(high)} at most"], width)
        )
    return drawn


_TWO_CURVES_HEIGHT: Final = 14
"""Lines from which there are two curves, one below the other."""


def rows_of_cursor_rank(table: pl.DataFrame, cursor: int) -> pl.DataFrame:
    """The rows of the rank under the cursor, in order of time."""
    if table.is_empty():
        return table
    return table.filter(pl.col("rank") == table["rank"][min(max(cursor, 0), table.height - 1)]).sort("start")


def draw_curve_over_time(
    rows: pl.DataFrame, values: pl.Series, size: tuple[int, int], marks: Sequence[tuple[float, str]], caption: str
) -> list[str]:
    """The values over `start` (ps), each until the next, with times below and a line of text.

    `marks` has the lowest value of the scale first and the highest last.
    """
    width, height = size
    times = rows["start"].to_list()
    if len(times) < _FEWEST_SAMPLES:
        return []
    last = times[-1] + (rows["duration"][-1] if "duration" in rows.columns else 0)
    samples = pl.DataFrame({"time": [*times, last], "value": [*values.to_list(), values[-1]]})
    points = pl.concat([samples.with_columns(pl.col("value").shift(1)), samples]).drop_nulls()
    points = points.sort("time", maintain_order=True)
    ticks = [(at, format_instant(at)) for at in dict.fromkeys((times[0], (times[0] + last) // 2, last))]
    lines = primitives.draw_curve(
        points["time"].to_list(),
        points["value"].to_list(),
        width,
        height - 1,
        ticks=ticks,
        marks=marks,
        scale=(marks[0][0], marks[-1][0]),
    )
    words = shorten_name(caption, width)
    return [*lines, words + " " * (width - cell_len(words))] if lines else []


_FEWEST_SAMPLES: Final = 3
"""Points from which there is a curve."""


def _time_weighted_mean(rows: pl.DataFrame, name: str) -> float:
    """The average over time; unknown values count as 0."""
    length = rows["duration"].cast(pl.Float64)
    total = float(length.sum())
    return float((rows[name].fill_null(0.0) * length).sum()) / total if total else 0.0


def draw_heap_curve(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """Bytes held by the program under the cursor in its memory space, over the events of its heap.

    The scale begins at 0.
    """
    table, (width, height) = result.table, size
    if table.is_empty():
        return []
    program_and_space = table.select("program", "space").row(min(max(cursor, 0), table.height - 1))
    rows = table.filter(
        pl.col("program").eq_missing(program_and_space[0]) & pl.col("space").eq_missing(program_and_space[1])
    ).sort("position")
    if rows.height < _FEWEST_SAMPLES:
        return []
    positions, held = rows["position"].to_list(), rows["held"].fill_null(0).to_list()
    most = max(held)
    points = sorted([*enumerate(positions), *enumerate(positions[1:])])
    ticks = [(at, f"{at:,}") for at in dict.fromkeys((positions[0], positions[held.index(most)], positions[-1]))]
    marks = [(0, format_bytes(0)), (most, format_bytes(most))]
    lines = primitives.draw_curve(
        [position for _, position in points],
        [held[row] for row, _ in points],
        width,
        height - 1,
        ticks=ticks,
        marks=marks,
        scale=(0, most),
    )
    caption = [
        " ".join(filter(None, program_and_space)),
        "bytes held by event of the heap",
        f"{format_bytes(most)} at most",
    ]
    return [*lines, shorten_and_pad(join_fitting_parts(caption, width), width)] if lines else []
