"""The chart of each analysis, as lines of characters of exactly the size asked for, and curves over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final

import polars as pl
from rich.cells import cell_len

from tracehound.analysis.result import Result
from tracehound.draw.charts import bar_charts, primitives
from tracehound.draw.charts.primitives import ChartSize
from tracehound.draw.charts.rank_heat_map import draw_rank_map
from tracehound.draw.charts.roofline_chart import draw_roofline, why_no_roofline
from tracehound.draw.charts.stacked_bars import (
    DIVISIONS,
    ROW_PART_GLYPHS,
    draw_duty_cycle,
    draw_queue_lengths,
    draw_row_parts,
    draw_step_parts,
    draw_step_time,
    draw_time_divisions,
)
from tracehound.draw.name_shortening import shorten_and_pad, shorten_name
from tracehound.draw.rank_groups import RANKS_COLUMN, label_ranks
from tracehound.draw.result_details import draw_row_sentences, sentence_columns
from tracehound.draw.text_wrapping import join_fitting_parts
from tracehound.model.units import format_bytes, format_duration, format_instant, format_share

_UTILIZATION_MEASURES: Final = {"utilization": "kernels run", "sm_efficiency": "multiprocessors taken"}


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


BREAKDOWN_GLYPHS = MappingProxyType({"compute": "█", "communication": "▓", "copy": "░", "idle": "∙"})
"""The parts of a rank's time and their characters."""

BREAKDOWN_NAMES = MappingProxyType({"communication": "exposed communication", "copy": "exposed copy"})
"""Names of those parts that say more than the column names."""

FEWEST_STEPS = 3
"""Number of steps from which their lengths are drawn as a curve."""


def draw_chart(result: Result, column: str, cursor: int, size: ChartSize) -> list[str]:
    """The chart of a result whose rows are in display order; `column` is the chosen one, `cursor` a row.

    Empty if there are no rows, or no room.
    """
    if sentence_columns(result):
        return draw_row_sentences(result, cursor, size)
    draw = _CHARTS.get(result.analysis)
    if draw is None or (result.analysis in ROW_PART_GLYPHS and bar_charts.has_amounts(result, column)):
        return bar_charts.draw_row_bars(result, column, cursor, size)
    return draw(result, cursor, size) or _draw_bars_instead(result, column, cursor, size)


def _draw_bars_instead(result: Result, column: str, cursor: int, size: ChartSize) -> list[str]:
    """Bars instead of the chart; for a roofline also the reason why there is none."""
    why = why_no_roofline(result) if result.analysis == "roofline" else ""
    lines = bar_charts.draw_row_bars(result, column, cursor, (size[0], size[1] - bool(why)))
    return [*lines, shorten_and_pad(why, size[0])] if lines and why else lines


def depends_on_cursor(result: Result) -> bool:
    """True if the chart depends on the row under the cursor."""
    return result.analysis != "steps" or result.table["step"].n_unique() < FEWEST_STEPS


def draw_step_lengths(result: Result, cursor: int, size: ChartSize) -> list[str]:
    """The length of every step on its slowest rank, by step number.

    The scale begins above 0 if the lengths differ little.
    """
    del cursor
    longest = result.table.group_by("step").agg(pl.col("duration").max()).drop_nulls().sort("step")
    if longest.height < FEWEST_STEPS:
        return []
    numbers, times = longest["step"].to_list(), longest["duration"].to_list()
    ticks = [(number, str(number)) for number in dict.fromkeys((numbers[0], numbers[len(numbers) // 2], numbers[-1]))]
    floor = primitives.scale_floor(min(times), max(times))
    scale = (floor, max(times))
    marks = [(value, format_duration(round(value))) for value in dict.fromkeys(scale)]
    lines = primitives.draw_curve(numbers, times, size[0], size[1] - 1, ticks=ticks, marks=marks, scale=scale)
    caption = [f"scale from {format_duration(round(floor))}, not 0"] if floor else []
    caption += ["slowest rank's length of each step", "by number of the step"]
    return [*lines, shorten_and_pad(join_fitting_parts(caption, size[0]), size[0])] if lines else []


def draw_breakdown(result: Result, cursor: int, size: ChartSize) -> list[str]:
    """A bar for each rank, divided by its time; the ranks around the cursor if not all fit."""
    width, height = size
    shares = [f"{name}_share" for name in BREAKDOWN_GLYPHS]
    ranks = result.table[RANKS_COLUMN.name if RANKS_COLUMN.name in result.table.columns else "rank"].to_list()
    labels = [label_ranks(str(rank)) for rank in ranks]
    room = max(map(len, labels), default=0)
    if not labels or width < room + 20 or height < 2:
        return []
    rows = zip(labels, result.table.select(shares).rows(), strict=True)
    lines = [
        f"{label:<{room}} "
        + primitives.draw_stacked_bar([part or 0.0 for part in parts], [*BREAKDOWN_GLYPHS.values()], width - room - 1)
        for label, parts in rows
    ]
    more = len(lines) - (height - 1)
    legend = "  ".join(f"{glyph} {BREAKDOWN_NAMES.get(name, name)}" for name, glyph in BREAKDOWN_GLYPHS.items())
    first = bar_charts.first_visible_row(cursor, len(lines), height - 1)
    shown = lines[first : first + height - 1]
    return [*shown, shorten_and_pad(f"{legend}  {more:,} more ranks" if more > 0 else legend, width)]


_CHARTS: MappingProxyType[str, Callable[[Result, int, ChartSize], list[str]]] = MappingProxyType(
    {
        "steps": draw_step_lengths,
        "rank_map": draw_rank_map,
        "breakdown": draw_breakdown,
        "step_parts": draw_step_parts,
        "step_time": draw_step_time,
        "duty_cycle": draw_duty_cycle,
        "utilization_curve": draw_utilization_curve,
        "roofline": draw_roofline,
        "hlo_heap": draw_heap_curve,
        "queue": draw_queue_lengths,
        **dict.fromkeys(ROW_PART_GLYPHS, draw_row_parts),
        **dict.fromkeys(DIVISIONS, draw_time_divisions),
        "operators": bar_charts.draw_operator_pairs,
        "diff-waterfall": lambda result, _, size: bar_charts.draw_waterfall(result.table, size),
        "memory_curve": draw_memory_curve,
    }
)
"""The analyses with a chart of their own; others have bars."""
