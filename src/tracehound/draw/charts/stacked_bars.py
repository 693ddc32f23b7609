"""Bars divided into parts: the times of steps, devices and idle causes, and lengths of queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from rich.cells import cell_len

from tracehound.analysis.result import Column, Result
from tracehound.draw.cell_text import format_cell
from tracehound.draw.charts import primitives
from tracehound.draw.charts.bar_charts import LABEL_FRACTION, NARROWEST_CHART, first_visible_row, row_labels
from tracehound.draw.charts.primitives import ChartSize
from tracehound.draw.name_shortening import shorten_and_pad
from tracehound.draw.text_wrapping import flow_words
from tracehound.model.units import format_share

STEP_PART_GLYPHS = MappingProxyType(
    {
        "kernel": "█",
        "copy": "░",
        "memset": "m",
        "communication": "▓",
        "runtime": "r",
        "data_loader": "d",
        "cpu": "c",
        "other": "∙",
    }
)
"""The parts of a step's time and their characters, in the order of a bar."""

ROW_PART_GLYPHS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "overlap": {"exposed": "█", "both": "░"},
        "async_overlap": {"exposed": "█", "hidden": "░"},
        "transfers": {"exposed": "█", "hidden": "░"},
        "distributed": {"computation": "█", "overlap": "▒", "communication": "▓", "other": "∙"},
    }
)
"""Analyses with a divided bar for each row: the columns of the parts, and their characters."""

_PART_NAMES = MappingProxyType({"both": "hidden", "communication": "exposed communication"})

QUEUE_GLYPHS = MappingProxyType({"p50": "█", "to p99": "▒", "to max": "░"})
"""Queue length: the maximum in half of the time, in 99 % of it, and over all."""

NARROWEST_BAR = 20
"""Characters of a bar at least."""

_TIME_COLUMN = Column("duration", "time", "")


STEP_TIME_GLYPHS = MappingProxyType(
    {
        "compute": "█",
        "collectives": "▓",
        "input": "i",
        "output": "o",
        "device_to_device": "░",
        "compile": "c",
        "host": "h",
        "other": "∙",
    }
)
"""The parts of a step and their characters, in the order of a bar."""

DEVICE_TIME_GLYPHS = MappingProxyType(
    {name: STEP_TIME_GLYPHS[name] for name in ("compute", "collectives", "input", "output", "device_to_device")}
)

DIVISION_GLYPHS: Final = "█▓▒░:"
"""Characters of parts, the largest first; the last one is for all others."""


def draw_step_parts(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """A bar for each step, as long as the step, or a bar for each rank, divided like an average step."""
    table = result.table
    if "part" in table.columns:
        table = table.pivot("part", index=["rank", "phase"], values="mean", maintain_order=True)
        names = [f"rank {rank} {phase or ''}".rstrip() for rank, phase in table.select("rank", "phase").iter_rows()]
        cursor //= max(1, len(STEP_PART_GLYPHS))
    else:
        several = table["rank"].n_unique() > 1
        names = [
            f"step {step} rank {rank}" if several else f"step {step}"
            for step, rank in table.select("step", "rank").iter_rows()
        ]
    return draw_stacked_bars(names, table.select([*STEP_PART_GLYPHS]).to_numpy(), STEP_PART_GLYPHS, cursor, size)


def draw_row_parts(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """A bar for each row, as long as the sum of its parts."""
    glyphs = ROW_PART_GLYPHS[result.analysis]
    parts = result.table.select(pl.col(name).fill_null(0) for name in glyphs).to_numpy()
    legend = {_PART_NAMES.get(name, name): glyph for name, glyph in glyphs.items()}
    return draw_stacked_bars(row_labels(result, result.table, size[0]), parts, legend, cursor, size)


def draw_queue_lengths(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """A bar for each stream, as long as its longest queue, divided at the median and at p99."""
    lengths = result.table.select(pl.col("p50", "p99", "max").fill_null(0)).to_numpy()
    mean, most = result.column("mean"), result.column("max")
    words = [
        f"mean {format_cell(mean, row['mean'])}, max {format_cell(most, row['max'])}"
        for row in result.table.iter_rows(named=True)
    ]
    parts = np.diff(lengths, axis=1, prepend=0)
    return draw_stacked_bars(row_labels(result, result.table, size[0]), parts, QUEUE_GLYPHS, cursor, size, words)


def draw_stacked_bars(
    names: Sequence[str],
    parts: npt.NDArray[np.int64],
    glyphs: Mapping[str, str],
    cursor: int,
    size: tuple[int, int],
    sum_texts: Sequence[str] = (),
) -> list[str]:
    """A bar for each name, with its length in words; the longest fills the width.

    If not all fit, those around the cursor. `parts` has a row for each name and a column for each glyph: times in ps,
    unless `sum_texts` has the text of their sums. Empty if there is no room.
    """
    width, height = size
    lengths = parts.sum(axis=1)
    words = sum_texts or [format_cell(_TIME_COLUMN, int(length)) for length in lengths]
    room, text_width = max(map(cell_len, names), default=0), max(map(cell_len, words), default=0)
    space = width - room - text_width - 2
    most = int(lengths.max(initial=0))
    if space < NARROWEST_BAR or height < 2 or most <= 0:
        return []
    has_time = parts.sum(axis=0) > 0
    legend = [
        f"{glyph} {name.replace('_', ' ')}"
        for (name, glyph), present in zip(glyphs.items(), has_time, strict=True)
        if present
    ]
    legend_lines = _fit_legend(legend, [], width, max(1, height // 3))
    shown = min(height - len(legend_lines), len(names))
    if shown < len(names):
        legend_lines = _fit_legend(legend, [f"{len(names) - shown:,} more"], width, len(legend_lines))
    first = first_visible_row(cursor, len(names), shown)
    lines = []
    for row in range(first, min(len(names), first + shown)):
        bar = primitives.draw_stacked_bar((parts[row] / most).tolist(), [*glyphs.values()], space)
        lines.append(f"{names[row]:<{room}} {bar} {words[row]:>{text_width}}")
    return [*lines, *(shorten_and_pad(line, width) for line in legend_lines)]


def _fit_legend(words: list[str], last: list[str], width: int, most: int) -> list[str]:
    """The legend on at most `most` lines. Words that do not fit are left out, but not the `last` ones."""
    left, shown = len(words), [*words, *last]
    while left and len(flow_words(shown, width)) > most:
        left -= 1
        shown = [*words[:left], "…", *last]
    return flow_words(shown, width)[:most]


def draw_step_time(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """A bar for each step, as long as the step; or for each rank, divided like an average whole step."""
    table = result.table
    if "step" not in table.columns:
        return _draw_time_parts(table, [f"rank {rank}" for rank in table["rank"]], STEP_TIME_GLYPHS, cursor, size)
    several = table["rank"].n_unique() > 1
    labels = [
        f"step {step} rank {rank}" if several else f"step {step}"
        for step, rank in table.select("step", "rank").iter_rows()
    ]
    return _draw_time_parts(table, labels, STEP_TIME_GLYPHS, cursor, size)


def draw_duty_cycle(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """A bar for each rank, as long as its device time."""
    labels = [f"rank {rank}" for rank in result.table["rank"]]
    return _draw_time_parts(result.table, labels, {**DEVICE_TIME_GLYPHS, "idle": "∙"}, cursor, size)


def _draw_time_parts(
    table: pl.DataFrame, labels: list[str], glyphs: Mapping[str, str], cursor: int, size: tuple[int, int]
) -> list[str]:
    parts = table.select(pl.col(name).fill_null(0) for name in glyphs).to_numpy().astype(np.int64)
    return draw_stacked_bars(labels, parts, glyphs, cursor, size)


class StackedBarColumns(NamedTuple):
    """The columns that identify a bar (`of`), that name its parts (`by`), and that hold their amounts."""

    of: tuple[str, ...]
    by: str
    amount: str


DIVISIONS: Final[Mapping[str, StackedBarColumns]] = MappingProxyType(
    {
        "idle": StackedBarColumns(("rank", "stream"), "cause", "idle"),
        "kernel_types": StackedBarColumns(("rank",), "type", "time"),
        "critical_path": StackedBarColumns(("rank",), "class", "duration"),
    }
)
"""The analyses whose rows are parts of a bar."""


def draw_time_divisions(result: Result, cursor: int, size: ChartSize) -> list[str]:
    """A divided bar for each rank or stream, and a legend with the shares of the bar at the cursor's row."""
    width, height = size
    division = DIVISIONS[result.analysis]
    table = result.table.filter(pl.col(division.amount).is_not_null())
    if table.is_empty() or width < NARROWEST_CHART or height < 3:
        return []
    amount = pl.col(division.amount).cast(pl.Float64)
    sums = table.group_by(*division.of, division.by, maintain_order=True).agg(amount.sum().alias("sum"))
    order = sums.group_by(division.by).agg(pl.col("sum").sum()).sort("sum", division.by, descending=[True, False])
    parts = order[division.by].to_list()
    named_parts = parts if len(parts) <= len(DIVISION_GLYPHS) else parts[: len(DIVISION_GLYPHS) - 1]
    glyphs = DIVISION_GLYPHS[: len(named_parts)]
    bars = list(sums.partition_by(*division.of, as_dict=True, maintain_order=True).items())
    cursor_key = tuple(result.table.select(division.of).row(min(cursor, result.table.height - 1)))
    at = next((index for index, (key, _) in enumerate(bars) if key == cursor_key), 0)
    rows = [
        (_division_label(key, division.of), _part_fractions(frame, division.by, named_parts)) for key, frame in bars
    ]
    if len(parts) > len(named_parts):
        glyphs += DIVISION_GLYPHS[-1]
        rows = [(label, [*fractions, max(0.0, 1 - sum(fractions))]) for label, fractions in rows]
    legend = _division_legend(glyphs, named_parts, rows[at][1], size)
    room = max(1, height - len(legend) - 1)
    first = max(0, min(at - room // 2, len(rows) - room))
    label_width = min(max(cell_len(label) for label, _ in rows), width // LABEL_FRACTION)
    lines = [
        f"{shorten_and_pad(label, label_width)} "
        + primitives.draw_stacked_bar(fractions, glyphs, width - label_width - 1)
        for label, fractions in rows[first : first + room]
    ]
    more = f", {len(rows) - room:,} more" if len(rows) > room else ""
    words = f"{division.amount} by {division.by}; shares of {rows[at][0]}{more}"
    return [*lines, *(shorten_and_pad(line, width) for line in (*legend, words))]


def _part_fractions(frame: pl.DataFrame, by: str, named_parts: Sequence[object]) -> list[float]:
    """The fraction of each named part."""
    amounts = dict(frame.select(by, "sum").rows())
    total = sum(amounts.values()) or 1.0
    return [amounts.get(name, 0.0) / total for name in named_parts]


def _division_legend(
    glyphs: str, named_parts: Sequence[object], fractions: Sequence[float], size: ChartSize
) -> list[str]:
    """Glyph, name and share of each part, on at most half of the height."""
    words = [*(str(name) for name in named_parts), "other"]
    entries = [
        f"{glyph} {word} {format_share(part)}" for glyph, word, part in zip(glyphs, words, fractions, strict=False)
    ]
    return flow_words(entries, size[0])[: max(1, size[1] // 2)]


def _division_label(key: Sequence[object], names: Sequence[str]) -> str:
    """``rank 0 stream 7``; ``all ranks`` if the rank is null."""
    words = []
    for name, value in zip(names, key, strict=True):
        if name == "rank":
            words.append("all ranks" if value is None else f"rank {value}")
        else:
            words.append(str(value))
    return " ".join(words)
