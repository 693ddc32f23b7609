"""Bars for the rows of a result, with labels that tell rows apart; waterfall charts; bars of operator times.

A bar is as long as the amount that answers the question of the analysis. A full bar is the whole base of a share, else
the largest amount.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from rich.cells import cell_len, set_cell_size

from tracehound.analysis.result import Column, Result, Unit, row_depths
from tracehound.draw.cell_text import (
    IDENTIFYING_COLUMNS,
    NO_VALUE,
    column_heading,
    columns_with_values,
    format_cell,
    is_all_zero,
    is_amount,
    readable_columns,
)
from tracehound.draw.charts import primitives
from tracehound.draw.charts.primitives import ChartSize
from tracehound.draw.name_shortening import shorten_and_pad, shorten_names_distinctly
from tracehound.model.units import CELL_DIGITS, format_duration, format_time_difference

MORE_GLYPH, LESS_GLYPH = "▒", "░"
"""Characters of positive and negative differences: in ASCII + and -."""

NARROWEST_CHART: Final = 24

SHORTEST_BAR: Final = 4
"""Characters of a bar at least."""

SIGNED_UNITS: Final[tuple[Unit, ...]] = ("difference", "growth")
"""Units of amounts that may be below 0."""

ANSWER_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "overview": ("events", "host_events"),
        "utilization": ("utilization",),
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
"""The columns that answer the question of an analysis; the first with any amounts counts. For other analyses it is the
first column of times, else the first amount.
"""


KEY_COLUMNS: Final = ("rank", "step")
"""Numbers before a name if they are not equal in all rows."""

LABEL_FRACTION: Final = 3
"""A label takes at most one part in so many of the width; with two texts, or three columns, half of it."""

MOST_EXTRA_COLUMNS: Final = 2
"""Columns added to the name at most if rows look alike; each must resolve more than half of the duplicates."""

MOST_COMPARED_LABEL_ROWS: Final = 10_000
"""Rows compared at most: comparing more would delay each key press."""

LEAST_LABEL_CELLS: Final = 8
"""Cells of texts at least, whatever stands beside them."""

_UNIT_ORDER: Final[Mapping[Unit, int]] = MappingProxyType({"text": 1, "instant": 2})
"""The order of columns in a label, by unit; numbers come first."""

TOTAL_GLYPH: Final = "█"
"""Character of the steps themselves in a waterfall: in ASCII #."""

NARROWEST_WATERFALL: Final = 40


def draw_row_bars(result: Result, column: str, cursor: int, size: ChartSize) -> list[str]:
    """A bar for each row: its value of `column`, or of the answer column.

    If not all rows fit, those around the cursor.
    """
    width, height = size
    table = result.table
    if table.is_empty() or width < NARROWEST_CHART or height < 2:
        return []
    value = column_to_draw(result, column)
    if value is None or is_all_zero(value, table[value.name]):
        what = "no column holds amounts" if value is None else f"{column_heading(value)} is 0 in every row"
        return [shorten_and_pad(f"nothing to draw: {what}", width)]
    first = first_visible_row(cursor, table.height, height - 1)
    rows = table.slice(first, height - 1)
    numbers = rows[value.name].to_list()
    names, words = row_labels(result, rows, width), [format_cell(value, number) for number in numbers]
    number_width = max(map(cell_len, words))
    space, most = width - cell_len(names[0]) - number_width - 2, _full_bar_value(value, table[value.name])
    if space < SHORTEST_BAR:
        return []
    draw = _draw_signed_bar if value.unit in SIGNED_UNITS else primitives.draw_bar
    lines = [
        f"{name} {draw((number or 0) / most if most else 0.0, space)} {word:>{number_width}}"
        for name, number, word in zip(names, numbers, words, strict=True)
    ]
    base = f", of {value.base}" if value.base else ""
    scale = f" (full bar {format_cell(value, most)})" if value.unit == "share" else ""
    meaning = f": {value.meaning}{base}" if value.meaning else ""
    return [*lines, shorten_and_pad(f"{column_heading(value)}{scale}{meaning}", width)]


def column_to_draw(result: Result, column: str) -> Column | None:
    """The column to draw: `column` if it holds amounts, else the answer column; None if there are no amounts."""
    if has_amounts(result, column):
        return result.column(column)
    amounts = [each for each in result.columns if has_amounts(result, each.name)]
    answers = [each for name in ANSWER_COLUMNS.get(result.analysis, ()) for each in amounts if each.name == name]
    with_amounts = [each for each in answers if not is_all_zero(each, result.table[each.name])]
    times = [each for each in amounts if each.unit == "time"]
    measured = [each for each in amounts if is_amount(each)]
    return next(iter([*with_amounts, *answers, *times, *measured, *amounts]), None)


def has_amounts(result: Result, column: str) -> bool:
    """True if the result has a column of that name with numbers that can be amounts."""
    found = [each for each in result.columns if each.name == column]
    return any(is_amount(each) or (each.unit == "number" and each.name not in IDENTIFYING_COLUMNS) for each in found)


def first_visible_row(cursor: int, rows: int, room: int) -> int:
    """The first of the rows shown, so that the cursor's row is visible."""
    return max(0, min(cursor - room // 2, rows - room))


def _full_bar_value(value: Column, values: pl.Series) -> float:
    """The value of a full bar: 100 % for shares (or the largest if one is above), else the largest amount."""
    return max(1.0, _largest_magnitude(values)) if value.unit == "share" else _largest_magnitude(values)


def _largest_magnitude(values: pl.Series) -> float:
    numbers = np.abs(np.nan_to_num(values.drop_nulls().cast(pl.Float64).to_numpy(), posinf=0.0, neginf=0.0))
    return float(numbers.max(initial=0.0))


def _draw_signed_bar(fraction: float, width: int) -> str:
    """A bar from the middle of `width` characters: to the right for more, to the left for less."""
    half = (width - 1) // 2
    length = max(1, round(min(1.0, abs(fraction)) * half)) if fraction else 0
    less, more = (length, 0) if fraction < 0 else (0, length)
    return f"{LESS_GLYPH * less:>{half}}│{MORE_GLYPH * more:<{half}}".ljust(width)


def row_labels(result: Result, rows: pl.DataFrame, width: int) -> list[str]:
    """Labels of some rows of a result, all of one width, for a chart of this `width`."""
    columns = label_columns(result)
    if not columns:
        return [NO_VALUE] * rows.height
    texts = [column for column in columns if column.unit == "text"]
    most = width // (2 if len(texts) > 1 or len(columns) > 2 else LABEL_FRACTION)
    words = {column.name: [_label_text(column, value) for value in rows[column.name].to_list()] for column in columns}
    taken = sum(max(map(cell_len, words[column.name]), default=0) + 1 for column in columns if column not in texts)
    words |= _shorten_side_by_side(
        {column.name: words[column.name] for column in texts}, max(LEAST_LABEL_CELLS, most - taken)
    )
    full_labels = [" ".join(filter(None, parts)) or NO_VALUE for parts in zip(*words.values(), strict=True)]
    room = min(max(map(cell_len, full_labels), default=0), most)
    return [set_cell_size(label, room) for label in full_labels]


def label_columns(result: Result) -> list[Column]:
    """The columns that identify a row: rank and step if they differ, its name, and more if necessary.

    The name is the column of that name, else the first text in which rows differ. A name that is not brief is left out
    if rank and step suffice. In a tree the branches tell rows apart.
    """
    columns, rows = (
        columns_with_values(readable_columns(result), result.table),
        result.table.head(MOST_COMPARED_LABEL_ROWS),
    )
    keys = [column for column in columns if column.name in KEY_COLUMNS and column.brief]
    chosen = [column for column in keys if rows[column.name].n_unique() > 1]
    texts = sorted((column for column in columns if column.unit == "text"), key=lambda column: not column.brief)
    differing = [column for column in texts if rows[column.name].n_unique() > 1 or column.name == "name"]
    names = sorted(differing or texts, key=lambda column: column.name != "name")[:1]
    chosen += [name for name in names if name.brief or _count_duplicate_rows(rows, chosen)]
    deep = row_depths(rows, result.columns)
    for _ in range(MOST_EXTRA_COLUMNS if deep is None or not deep.any() else 0):
        duplicates, candidates = (
            _count_duplicate_rows(rows, chosen),
            [[*chosen, other] for other in _extra_label_columns(columns) if other not in chosen],
        )
        best = min(candidates, key=lambda candidate: _count_duplicate_rows(rows, candidate), default=chosen)
        chosen = best if _count_duplicate_rows(rows, best) * 2 < duplicates else chosen
    return sorted(chosen or keys, key=lambda column: (_UNIT_ORDER.get(column.unit, 0), columns.index(column)))


def _extra_label_columns(columns: Sequence[Column]) -> list[Column]:
    """Columns that can tell rows apart beside their names, the most readable first."""
    kinds = {
        unit: [column for column in columns if column.unit == unit] for unit in ("text", "number", "instant", "count")
    }
    keys = [column for column in kinds["count"] if column.name in KEY_COLUMNS]
    short, long = ([column for column in kinds["text"] if column.brief is brief] for brief in (True, False))
    return [*short, *keys, *kinds["number"], *kinds["instant"], *long, *kinds["count"]]


def _count_duplicate_rows(rows: pl.DataFrame, columns: Sequence[Column]) -> int:
    """Number of rows that equal an earlier one in all of these columns."""
    names = [column.name for column in columns]
    return rows.height - (rows.select(pl.struct(names).n_unique()).item() if names else min(1, rows.height))


def _label_text(column: Column, value: object) -> str:
    if value is None:
        return "all ranks" if column.name == "rank" else ""
    if column.unit == "text":
        return format_cell(column, value)
    return f"{'at' if column.unit == 'instant' else column_heading(column)} {format_cell(column, value)}"


def _shorten_side_by_side(texts: dict[str, list[str]], room: int) -> dict[str, list[str]]:
    """Texts side by side in so many cells, each cut so that different rows stay distinct."""
    shortened, left = dict(texts), room - (len(texts) - 1)
    needs = {name: max(map(cell_len, cells), default=0) for name, cells in texts.items()}
    for index, name in enumerate(sorted(needs, key=lambda name: needs[name])):
        share = min(needs[name], left // (len(needs) - index))
        left -= share
        short = shorten_names_distinctly(texts[name], max(1, share))
        shortened[name] = [short[text] for text in texts[name]]
    return shortened


class _WaterfallRow(NamedTuple):
    name: str
    start: int | None  # None for a step, not a change
    end: int
    change: int | None
    verdict: str


def draw_waterfall(table: pl.DataFrame, size: tuple[int, int]) -> list[str]:
    """The chart of a table with the columns part, from (null in the first and last row), to, change and verdict.

    Rows that do not fit are summed up in one row before the last. Empty if there is no room for anything.
    """
    width, height = size
    rows = _rows_that_fit(
        [_WaterfallRow(*row) for row in table.select("part", "from", "to", "change", "verdict").iter_rows()], height - 1
    )
    if len(rows) < 2 or width < NARROWEST_WATERFALL:
        return []
    low, high = _waterfall_scale(rows)
    names = [row.name for row in rows]
    amounts = [
        format_duration(row.end, digits=CELL_DIGITS)
        if row.start is None
        else format_time_difference(row.change or 0, digits=CELL_DIGITS)
        for row in rows
    ]
    room = min(max(map(cell_len, names)), width // LABEL_FRACTION)
    cut = shorten_names_distinctly(names, room)
    short, amount_width = [cut[name] for name in names], max(map(len, amounts))
    verdicts = max(len(row.verdict) for row in rows) if width >= 2 * NARROWEST_WATERFALL else 0
    bar = width - room - amount_width - verdicts - 4
    lines = [
        f"{shorten_and_pad(name, room)} {words:>{amount_width}} {_draw_change_bar(row, low, high, bar)}"
        f" {row.verdict[:verdicts]:<{verdicts}}"
        for row, name, words in zip(rows, short, amounts, strict=True)
    ]
    changes = f"{MORE_GLYPH} more  {LESS_GLYPH} less"
    scale = f"{TOTAL_GLYPH} step  {changes}; from 0 s to {format_duration(high)}"
    if low:
        scale = f"from {format_duration(low)}, not 0, to {format_duration(high)}; {TOTAL_GLYPH} step's end  {changes}"
    return [*(shorten_and_pad(line, width) for line in lines), shorten_and_pad(scale, width)]


def _rows_that_fit(rows: list[_WaterfallRow], room: int) -> list[_WaterfallRow]:
    """The rows that fit: the first ones, one for the rest, and the last one."""
    if len(rows) <= room:
        return rows
    if room < 4:
        return []
    left = rows[room - 2 : -1]
    change = sum(row.change or 0 for row in left)
    others = _WaterfallRow(f"{len(left):,} others", left[0].start, left[-1].end, change, "")
    return [*rows[: room - 2], others, rows[-1]]


def _waterfall_scale(rows: list[_WaterfallRow]) -> tuple[int, int]:
    """The times at both ends of the bars. The left end is 0 unless all times are near each other."""
    reached = [row.end for row in rows]
    low, high = min(reached), max(reached)
    near = primitives.scale_floor(low, high) > 0
    return (max(0, low - (high - low) // 4 - 1) if near else 0), max(high, 1)


def _draw_change_bar(row: _WaterfallRow, low: int, high: int, width: int) -> str:
    """The row's bar, at least one character long if it stands for anything.

    On a scale that does not begin at 0 a step has no length; a mark shows its end.
    """
    if row.start is None and low:
        at = round((row.end - low) / (high - low) * width)
        return f"{' ' * (at - 1)}{TOTAL_GLYPH}".ljust(width)
    begin, end = sorted((0 if row.start is None else row.start, row.end))
    first, last = (round((min(max(time, low), high) - low) / (high - low) * width) for time in (begin, end))
    first = min(first, width - 1)
    last = max(last, first + (end > begin))
    fill = TOTAL_GLYPH if row.start is None else MORE_GLYPH if (row.change or 0) > 0 else LESS_GLYPH
    return f"{' ' * first}{fill * (last - first)}"[:width].ljust(width)


def draw_operator_pairs(result: Result, cursor: int, size: ChartSize) -> list[str]:
    """For operators around the cursor, self time on the host (left) and on the device (right), on one scale."""
    width, height = size
    table = result.table
    if table.is_empty() or width < NARROWEST_CHART + 8 or height < 3:
        return []
    room = height - 2
    first = first_visible_row(cursor, table.height, room)
    rows = table.slice(first, room)
    names = row_labels(result, rows, width)
    most = max(1, *(amount or 0 for row in table.select("host_self", "device_self").rows() for amount in row))
    wide = cell_len(names[0])
    side = (width - wide - 3) // 2
    lines = []
    for name, amounts in zip(names, rows.select("host_self", "device_self").iter_rows(), strict=True):
        left, right = (_draw_bar_with_duration(amount or 0, most, side) for amount in amounts)
        lines.append(f"{name} {left} {right}")
    head = f"{'':{wide}} {shorten_and_pad('self on the host', side)} {shorten_and_pad('on the device', side)}"
    words = f"self time of operators; the longest bar is {format_duration(int(most))}"
    return [*(shorten_and_pad(line, width) for line in (head, *lines)), shorten_and_pad(words, width)]


def _draw_bar_with_duration(amount: int, most: int, side: int) -> str:
    """A bar with its length in words, if that is not zero."""
    word = format_duration(amount, digits=CELL_DIGITS) if amount else ""
    room = max(0, side - 10)
    return f"{word:>9} {primitives.draw_bar(amount / most, room)}"[:side].ljust(side)
