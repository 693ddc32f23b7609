"""The rank map as lines of characters: a legend, an axis of steps, and a line for each rank or bin of ranks.

Each piece of a line has a style; the caller chooses the colors. The glyphs alone tell the levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from rich.cells import cell_len

from tracehound.analysis.ranks.rank_step_values import (
    BY_SETTING,
    SMALLEST_IS_WORST,
    MapValue,
    settings_of,
    shown_value,
)
from tracehound.analysis.result import Result
from tracehound.draw.charts.rank_matrix import (
    LEVELS,
    MapBins,
    MapView,
    RankMapData,
    RankMatrix,
    bin_map,
    join_equal_lines,
    worst_in_bins,
)
from tracehound.draw.name_shortening import shorten_and_pad
from tracehound.draw.rank_groups import MANY_RANKS
from tracehound.draw.text_wrapping import join_fitting_parts
from tracehound.model.short_names import cut_middle
from tracehound.model.units import count_noun, format_duration, format_growth, format_share, format_time_difference

MapStyle = Literal["title", "plain", "dim", "headline", "cursor", "level0", "level1", "level2", "level3", "level4"]
MapLine = list[tuple[str, MapStyle]]

LEVEL_GLYPHS: Final = "∙░▒▓█"
"""The glyph of each level, from the best to the worst; in ASCII ``.-+=#``."""

LEVEL_STYLES: Final[tuple[MapStyle, ...]] = ("level0", "level1", "level2", "level3", "level4")

VALUE_NAMES: Final = {"step_time": "step time", "busy": "busy", "late": "lateness", "kernel": "mean kernel"}
ORDER_NAMES: Final = {"rank": "by rank", "host": "by host", "group": "by process group", "value": "worst rank first"}

LABEL_WIDTHS: Final = (8, 24)
"""Least and most characters of the labels of ranks."""

_TICK_DISTANCE: Final = 8
_CHART_LINES: Final = 3
"""Lines of a chart that are not ranks: the axis and two lines of legend."""


def format_value(value: MapValue, amount: float) -> str:
    """A value of the map with its unit."""
    return format_share(amount) if value == "busy" else format_duration(round(amount))


def draw_legend(matrix: RankMatrix, width: int) -> MapLine:
    """The glyph of each level, with the values at which the levels begin; shorter if there is little room."""
    worse = "below" if matrix.value in SMALLEST_IS_WORST else "from"
    bounds = [format_value(matrix.value, bound) for bound in matrix.thresholds]
    better = "from" if matrix.value in SMALLEST_IS_WORST else "below"
    full = [f"{better} {bounds[0]}", *(f"{worse} {bound}" for bound in bounds)]
    short = [full[0], *[""] * (LEVELS - 2), full[-1]]
    name = f" {VALUE_NAMES[matrix.value]}: "
    gaps = "  blank: no value" if matrix.has_gaps else ""
    for texts, rest in ((full, gaps), (short, gaps), (short, "")):
        line: MapLine = [(name, "plain")]
        for glyph, style, text in zip(LEVEL_GLYPHS, LEVEL_STYLES, texts, strict=True):
            line += [(glyph, style), (f" {text} " if text else " ", "dim")]
        line.append((rest, "dim"))
        if line_width(line) <= width:
            return line
    return line


def describe_bins(bins: MapBins) -> str:
    """Meaning of a cell for several ranks or steps: ``cell: worst of 32 ranks x 2 steps``; else ""."""
    ranks, steps = bins.sizes
    parts = [count_noun(ranks, "rank")] * (ranks > 1) + [count_noun(steps, "step")] * (steps > 1)
    return f"cell: worst of {' x '.join(parts)}" if parts else ""


def row_label(matrix: RankMatrix, bins: MapBins, line: int) -> str:
    """The ranks of a line: ``rank 517``, ``32-63``, by host ``node4 32-63``, by group ``group 3: 8``.

    Where ranks are not in a row, the first one and how many more: ``rank 517 +31``.
    """
    rows = bins.rows_of(line)
    ranks, owners = matrix.ranks[rows], list(dict.fromkeys(matrix.owners[rows]))
    numbers = f"rank {ranks[0]}" if len(ranks) == 1 else f"{ranks[0]}-{ranks[-1]}"
    if len(ranks) > 1 and matrix.by == "group" and int(ranks[-1] - ranks[0]) != len(ranks) - 1:
        numbers = f"{ranks[0]} +{len(ranks) - 1}"
    if any(owners):
        name = owners[0] if len(owners) == 1 else f"{owners[0]} +{len(owners) - 1}"
        if matrix.by == "group":
            return name if len(owners) > 1 else f"{name}: {ranks[0] if len(ranks) == 1 else numbers}"
        return f"{name} {ranks[0]}" if len(ranks) == 1 else f"{name} {numbers}"
    if len(ranks) > 1 and (matrix.by == "value" or int(ranks[-1] - ranks[0]) >= len(ranks)):
        return f"rank {ranks[0]} +{len(ranks) - 1}"
    return numbers


def label_width(matrix: RankMatrix, width: int) -> int:
    """Characters for the labels of ranks, in any zoom, so that zooming does not move the columns."""
    digits = len(str(matrix.ranks.max(initial=0)))
    longest = max(map(cell_len, set(matrix.owners)), default=0) + (matrix.by == "group")
    wanted = longest + 2 * digits + 2 if any(matrix.owners) else 2 * digits + 6
    least, most = LABEL_WIDTHS
    return min(max(wanted, least), most, max(width // 3, least))


def draw_axis(matrix: RankMatrix, bins: MapBins, labels: int, cursor: int | None, mark: str) -> MapLine:
    """The numbers of steps above the cells; `mark` stands above the cursor's cell (None: no cursor)."""
    cells = bins.counts[1]
    text = [" "] * (cells * bins.cell)
    for cell in range(0, cells, max(1, -(-_TICK_DISTANCE // bins.cell))):
        number = str(matrix.steps[bins.column_edges[cell]])
        at = cell * bins.cell
        if at + len(number) <= len(text):
            text[at : at + len(number)] = number
    head = f"{'step':>{labels}} "
    if cursor is None:
        return [(head + "".join(text), "dim")]
    at = bins.column_bin(cursor) * bins.cell
    blank = next((place for place in range(at, len(text)) if text[place] == " "), None)
    if blank is not None:
        text.insert(at, text.pop(blank))  # a number that begins here stands behind the mark
    return [(head + "".join(text[:at]), "dim"), (mark, "cursor"), ("".join(text[at + 1 :]), "dim")]


def draw_cells(levels: Sequence[int] | npt.NDArray[np.int8], cell: int) -> MapLine:
    """The cells of one line, neighbors of one level together."""
    numbers = np.asarray(levels)
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
    line: MapLine = []
    for start, end in zip(starts, np.append(starts[1:], len(numbers)), strict=True):
        level, length = int(numbers[start]), int(end - start) * cell
        line.append((LEVEL_GLYPHS[level] * length, LEVEL_STYLES[level]) if level >= 0 else (" " * length, "plain"))
    return line


def describe_cell(matrix: RankMatrix, view: MapView, bins: MapBins) -> list[str]:
    """Facts on the cell under the cursor, the most important first: rank, step, value, and difference from the median.

    Of a cell for several ranks or steps the worst counts.
    """
    rows, columns = (bins.rows_of(bins.row_bin(view.row)), bins.columns_of(bins.column_bin(view.column)))
    found = matrix.worst_cell(rows, columns)
    row, column = found or (view.row, view.column)
    many = (rows.stop - rows.start) * (columns.stop - columns.start) > 1
    facts = [f"rank {matrix.ranks[row]}", f"step {matrix.steps[column]}"]
    if found is None:
        return [*facts, f"no {VALUE_NAMES[matrix.value]}"]
    value, typical = float(matrix.values[row, column]), float(matrix.typical[column])
    facts.append(f"{VALUE_NAMES[matrix.value]} {format_value(matrix.value, value)}")
    facts.append(_describe_difference(matrix.value, value, typical))
    group = f"group {matrix.groups[row]}" if matrix.by == "group" and matrix.groups[row] else ""
    return [*facts, *filter(None, (group, matrix.hosts[row], "worst of the cell" if many else ""))]


def _describe_difference(value: MapValue, amount: float, typical: float) -> str:
    """``+25.6 % of the median 1.21 s``: the difference from the median of the ranks in that step."""
    middle = format_value(value, typical)
    if value == "busy":
        points = 100 * (amount - typical)
        return f"{points:+.3g} points from the median {middle}"
    if value == "late" or not typical:
        return f"{format_time_difference(round(amount - typical))} from the median {middle}"
    return f"{format_growth(amount / typical - 1)} from the median {middle}"


def line_width(line: MapLine) -> int:
    """Cells of a line."""
    return sum(cell_len(text) for text, _ in line)


def map_line(matrix: RankMatrix, bins: MapBins, levels: npt.NDArray[np.int8], line: int, labels: int) -> MapLine:
    """A line of the map: its label, then its cells; `levels` are those of all lines."""
    label = cut_middle(row_label(matrix, bins, line), labels)
    return [(f"{label:>{labels}} ", "plain"), *draw_cells(levels[line], bins.cell)]


def draw_rank_map(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """The whole map as lines without style, in at most this size; fewer lines if there are fewer ranks.

    Neighbors of many ranks share a line if their cells are equal.
    """
    del cursor
    width, height = size
    table = result.uncut_table
    if table.is_empty() or height <= _CHART_LINES or width < _NARROWEST_MAP:
        return []
    given = settings_of(result)
    matrix = RankMapData(table).matrix(shown_value(given), BY_SETTING.value_in(given))
    if not np.isfinite(matrix.values).any():
        return []
    labels = label_width(matrix, width)
    lines = height - _CHART_LINES
    cells = bins = bin_map(matrix, MapView(), lines, width - labels - 1)
    if many := len(matrix.ranks) > MANY_RANKS:
        single = replace(bins, row_edges=np.arange(len(matrix.ranks) + 1))
        by_rank = join_equal_lines(matrix, single)
        cells, bins = (single, by_rank) if by_rank.counts[0] <= lines else (bins, join_equal_lines(matrix, bins))
    levels = matrix.levels(worst_in_bins(matrix, bins))
    axis = draw_axis(matrix, bins, labels, None, "")
    ranks = [map_line(matrix, bins, levels, line, labels) for line in range(bins.counts[0])]
    facts = [describe_bins(cells), "neighbors that look alike share a line" if many else "", ORDER_NAMES[matrix.by],
             f"{count_noun(len(matrix.ranks), 'rank')} in {count_noun(len(matrix.steps), 'step')}"]  # fmt: skip
    caption = join_fitting_parts(list(filter(None, facts)), width - 1)
    drawn: list[MapLine] = [axis, *ranks, draw_legend(matrix, width), [(f" {caption}", "dim")]]
    return [shorten_and_pad("".join(text for text, _ in line), width) for line in drawn]


_NARROWEST_MAP: Final = 24
"""Characters below which there is no map."""
