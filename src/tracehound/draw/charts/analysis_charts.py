"""The chart of each analysis, as lines of characters of exactly the size asked for."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import polars as pl

from tracehound.analysis.result import Result
from tracehound.draw.charts import bar_charts, primitives
from tracehound.draw.charts.curves import draw_heap_curve, draw_memory_curve, draw_utilization_curve
from tracehound.draw.charts.primitives import ChartSize
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
from tracehound.draw.name_shortening import shorten_and_pad
from tracehound.draw.result_details import draw_row_sentences, sentence_columns
from tracehound.draw.text_wrapping import join_fitting_parts
from tracehound.model.units import format_duration

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
    labels = [f"rank {rank}" for rank in result.table["rank"].to_list()]
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
        "breakdown": draw_breakdown,
        "step_parts": draw_step_parts,
        "step_time": draw_step_time,
        "duty_cycle": draw_duty_cycle,
        "utilisation_curve": draw_utilization_curve,
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
