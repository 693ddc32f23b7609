"""Choice and widths of the columns of a result that fit in a line.

Knows no widgets and no colors: `draw` has the words of the cells.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from tracehound.analysis.result import TEXT_UNITS, Column, indented_column, row_depths
from tracehound.draw.cell_text import (
    MOST_COMPARED_ROWS,
    column_alignment,
    column_heading,
    columns_with_values,
    format_cell,
    is_all_zero,
    mark_distinguishing_column_brief,
    mark_large_times_brief,
    naming_column,
)
from tracehound.draw.name_shortening import MOST_COMPARED_NAMES, shorten_name, shorten_names_distinctly
from tracehound.draw.text_table import INDENT_STEP, NAME_WIDTH, fit_tree_indents, is_comparison_column
from tracehound.ui.state.table_view import UNLISTED_UNITS

SAMPLE_ROWS = 200
"""Number of rows whose width is measured, besides those with extreme values."""

COLUMN_GAP = 2

MAX_TREE_INDENT = 24
"""Most cells by which the deepest names of a tree are indented, as far as the width of their column allows."""

FOLD_MARK_WIDTH = 2
"""Width of the fold mark before a name in a tree."""

READABLE_WIDTH, MIN_TEXT_WIDTH = 20, 8
"""Widths of a text column: below the first other columns are dropped instead, below the second it is not cut."""

MIN_HEADING_WIDTH = 12
"""Width below which the heading of a column of numbers is not cut."""


class PlacedColumn(Struct, frozen=True):
    """A column and its position in the line; one of them `names` the rows.

    `short` has a short form for each text that does not fit, distinct from those of the other texts.
    """

    column: Column
    left: int
    width: int
    names: bool = False
    short: Mapping[str, str] = MappingProxyType({})

    def fit_text(self, text: str, lead: str = "") -> str:
        """`text` in exactly the column's width, after the prefix `lead`; its short form if there is one."""
        text = text if lead else self.short.get(text, text)
        text = shorten_name(lead + shorten_name(text, max(1, self.width - cell_len(lead))), self.width)
        pad = " " * (self.width - cell_len(text))
        return pad + text if column_alignment(self.column) == "right" else text + pad


class ColumnNeeds(Struct, frozen=True):
    """Width that a column needs for its heading and its words, and the number of distinct values of its rows.

    `words` is the width of its words alone, `deepest` the level of its deepest row in a tree, -1 where its words are
    not indented. It is `void` if it is empty in all rows, or has the same word in all, and the user did not ask for it.
    """

    column: Column
    width: int
    distinct: int
    words: int
    deepest: int = -1
    void: bool = False

    def lead(self, line: int) -> int:
        """Width of indentation and fold mark, at most, in a line of this width."""
        return (
            len(fit_tree_indents(self.deepest, line).indent_at_depth(self.deepest)) + FOLD_MARK_WIDTH
            if self.deepest >= 0
            else 0
        )


def measure_columns(
    columns: Sequence[Column], rows: pl.DataFrame, wanted: Collection[str] = ()
) -> tuple[ColumnNeeds, ...]:
    """Needs of the columns that have values, whatever the width of a line; `wanted` columns are never void."""
    shown = columns_with_values([column for column in columns if column.unit not in UNLISTED_UNITS], rows)
    return tuple(
        _measure_column(column, rows[column.name], wanted)
        for column in mark_distinguishing_column_brief(mark_large_times_brief(shown, rows), rows)
    )


def _measure_column(column: Column, values: pl.Series, wanted: Collection[str]) -> ColumnNeeds:
    words, tells = (
        _text_width(column, values),
        column.name in wanted or not (is_all_zero(column, values) or _is_constant_text(column, values)),
    )
    width = max(words, cell_len(column_heading(column)))
    return ColumnNeeds(column, width, values.head(SAMPLE_ROWS).n_unique(), words, void=not tells)


def _is_constant_text(column: Column, values: pl.Series) -> bool:
    """True if a text is equal in all rows, and so tells nothing.

    Findings on rows are excluded: they may hold for all.
    """
    return column.unit == "text" and not column.non_key and len(values) > 1 and values.n_unique() == 1


def indent_tree_names(
    columns: Sequence[ColumnNeeds], rows: pl.DataFrame, every: Sequence[Column]
) -> tuple[ColumnNeeds, ...]:
    """Needs with room for the indentation of names in a tree; `every` column of the result gives the levels."""
    deep, name = row_depths(rows, every), indented_column(every)
    if deep is None or name is None or not deep.any():
        return tuple(columns)
    leads = np.minimum(deep * INDENT_STEP, MAX_TREE_INDENT) + FOLD_MARK_WIDTH
    farthest = int(np.argmax(leads + rows[name.name].str.len_chars().fill_null(0).to_numpy()))
    deepest, words = int(deep.max()), int(leads[farthest]) + cell_len(format_cell(name, rows[name.name][farthest]))
    return tuple(
        replace(needs, width=max(needs.width, words), deepest=deepest) if needs.column.name == name.name else needs
        for needs in columns
    )


def place_columns(columns: Sequence[ColumnNeeds], width: int) -> tuple[PlacedColumn, ...]:
    """Columns that a line of `width` cells shows.

    Void columns are dropped first, then those that are not brief, the last ones first. Text is cut before a column is
    dropped, first where few rows differ. The column that names the row is cut last, and not below `NAMED` cells or a
    third of the line; a brief column that distinguishes rows of one name and the verdict of a comparison share this
    minimum with it, two thirds for each. Headings of numbers are cut if all columns fit then. What still does not fit
    reaches beyond the edge; texts before it use the cells that it leaves blank.
    """
    widths = {needs.column.name: needs.width for needs in columns}
    leads = {needs.column.name: needs.lead(width) for needs in columns}
    shown = [needs.column for needs in columns]
    names = naming_column(shown, {needs.column.name: needs.distinct for needs in columns})
    floors = _minimum_widths(columns, names, width)
    least = {c.name: max(READABLE_WIDTH, floors[c.name]) + leads[c.name] for c in shown}
    empty = sorted((needs.column for needs in reversed(columns) if needs.void), key=lambda column: column.brief)
    others = [column for column in shown if not column.brief and column.name != names and column not in empty]
    for column in (*empty, *reversed(others)):
        if (
            _line_width(shown, {c.name: _cut_width(c, widths[c.name], least[c.name]) for c in shown}) > width
            and len(shown) > 1
        ):
            shown = [other for other in shown if other is not column]
    texts = [needs for needs in columns if needs.column in shown and needs.column.unit in TEXT_UNITS]
    for words in (READABLE_WIDTH, MIN_TEXT_WIDTH):
        for needs in sorted(texts, key=lambda needs: (needs.column.name == names, needs.distinct)):
            name, spare = needs.column.name, width - _line_width(shown, widths)
            widths[name] = max(min(widths[name], max(words, floors[name]) + leads[name]), widths[name] + min(0, spare))
    kept = [needs for needs in columns if needs.column in shown]
    widths |= _cut_headings(kept, widths, width)
    widths |= _widen_cut_texts(kept, widths, names, width)
    result, left = [], 0
    for column in shown:
        result.append(PlacedColumn(column, left, widths[column.name], column.name == names))
        left += widths[column.name] + COLUMN_GAP
    return tuple(result)


def _minimum_widths(columns: Sequence[ColumnNeeds], names: str, width: int) -> dict[str, int]:
    """Minimum width of each column."""
    many = max((needs.distinct for needs in columns if needs.column.name == names), default=0)
    brief = (needs for needs in columns if needs.column.brief and needs.column.unit == "text")
    tells = {needs.column.name for needs in brief if names == "name" and needs.distinct > many}
    tells |= {
        needs.column.name for needs in columns if is_comparison_column(needs.column) and needs.column.unit in TEXT_UNITS
    }
    least = min(NAME_WIDTH, width // 3) * 2 // 3 if tells else min(NAME_WIDTH, width // 3)
    return {needs.column.name: least if needs.column.name in {names, *tells} else 0 for needs in columns}


def _cut_headings(columns: Sequence[ColumnNeeds], widths: Mapping[str, int], width: int) -> dict[str, int]:
    """Widths of columns of numbers whose headings are cut so that all columns fit; empty if they do not fit even so."""
    over = _line_width([needs.column for needs in columns], widths) - width
    numbers = [needs for needs in columns if needs.column.unit not in TEXT_UNITS]
    gains = {needs.column.name: max(0, needs.width - max(needs.words, MIN_HEADING_WIDTH)) for needs in numbers}
    found: dict[str, int] = {}
    for name in sorted(gains, key=lambda name: -gains[name]) if 0 < over <= sum(gains.values()) else ():
        gain = min(gains[name], over)
        found[name], over = widths[name] - gain, over - gain
    return found


def _widen_cut_texts(
    columns: Sequence[ColumnNeeds], widths: Mapping[str, int], names: str, width: int
) -> dict[str, int]:
    """Widths of cut texts, widened by the blank cells of the line.

    The name is widened first, as far as it does not start to scroll.
    """
    ends = list(accumulate(widths[needs.column.name] + COLUMN_GAP for needs in columns))
    seen = [needs for needs, end in zip(columns, ends, strict=True) if end - COLUMN_GAP <= width]
    order = [needs.column.name for needs in seen]
    spare = width + COLUMN_GAP - (ends[len(seen) - 1] if seen else width + COLUMN_GAP)
    end = ends[order.index(names)] - COLUMN_GAP if names in order else 0
    stays = width * 2 // 3 - end if 0 < end * 3 <= width * 2 else spare
    found: dict[str, int] = {}
    texts = [needs for needs in seen if needs.column.unit in TEXT_UNITS]
    for needs in sorted(texts, key=lambda needs: (needs.column.name != names, -needs.distinct)):
        name = needs.column.name
        before = names in order and order.index(name) <= order.index(names)
        gain = max(0, min(needs.width - widths[name], spare, stays if before else spare))
        found[name], spare, stays = widths[name] + gain, spare - gain, stays - (gain if before else 0)
    return found


def shorten_distinctly(places: Sequence[PlacedColumn], rows: pl.DataFrame) -> tuple[PlacedColumn, ...]:
    """Columns with short forms for their cut names, so that names of different rows stay different."""
    return tuple(_shorten_column(placed, rows[placed.column.name]) for placed in places)


def _shorten_column(placed: PlacedColumn, values: pl.Series) -> PlacedColumn:
    if placed.column.unit != "text" or len(values) > MOST_COMPARED_ROWS:
        return placed
    different = values.unique().drop_nulls()
    if len(different) > MOST_COMPARED_NAMES:
        return placed
    texts = [format_cell(placed.column, value) for value in different]
    if all(cell_len(text) <= placed.width for text in texts):
        return placed
    return replace(placed, short=shorten_names_distinctly(texts, placed.width))


def arrange_columns(columns: Sequence[ColumnNeeds], rows: pl.DataFrame, width: int) -> tuple[PlacedColumn, ...]:
    """Columns of these rows that a line shows, with short forms of names.

    A column of names takes no more cells than its short forms need: a kernel without its template leaves some.
    """
    places = shorten_distinctly(place_columns(columns, width), rows)
    trees = {needs.column.name for needs in columns if needs.deepest >= 0}
    cut = {placed.column.name: placed for placed in places if placed.short and placed.column.name not in trees}
    taken = {name: cells for name, placed in cut.items() if (cells := _short_names_width(placed)) < placed.width}
    if not taken:
        return places
    modest = [replace(needs, width=taken.get(needs.column.name, needs.width)) for needs in columns]
    again = shorten_distinctly(place_columns(modest, width), rows)
    same = [placed.width == taken.get(placed.column.name) for placed in again]
    return tuple(
        replace(placed, short=cut[placed.column.name].short) if kept else placed
        for placed, kept in zip(again, same, strict=True)
    )


def _short_names_width(placed: PlacedColumn) -> int:
    """Width that the heading of a column and its short names need."""
    return max(map(cell_len, (column_heading(placed.column), *placed.short.values())))


def visible_columns(places: Sequence[PlacedColumn], left: int, width: int) -> tuple[PlacedColumn, ...]:
    """Columns that are completely visible in a line of `width` cells, scrolled by `left` cells, and their positions.

    The column that names the row and those before it do not scroll, unless little space would be left.
    """
    end = fixed_width(places, width)
    stay = [placed for placed in places if placed.left + placed.width <= end]
    low = end + COLUMN_GAP if stay else 0
    others = [replace(placed, left=placed.left - left) for placed in places[len(stay) :] if placed.left - left >= low]
    whole = [placed for placed in others if placed.left + placed.width <= width]
    return (*stay, *(whole or others[:1]))  # a column wider than the line is cut


def scroll_offset_to_column(places: Sequence[PlacedColumn], name: str, left: int, width: int) -> int:
    """Scroll offset, starting from `left`, at which the column of that name is visible."""
    end = fixed_width(places, width)
    for placed in places:
        if placed.column.name == name and placed.left >= end:
            return min(placed.left - (end + COLUMN_GAP if end else 0), max(left, placed.left + placed.width - width))
    return left


def fixed_width(places: Sequence[PlacedColumn], width: int) -> int:
    """Width of the part of a line that does not scroll: up to the end of the names, 0 if that is too far."""
    end = next((placed.left + placed.width for placed in places if placed.names), 0)
    return end if end * 3 <= width * 2 else 0


def _text_width(column: Column, values: pl.Series) -> int:
    """Width that the words of the first rows and of the extreme values need."""
    sample = [*values.head(SAMPLE_ROWS).to_list(), *_extreme_values(values)]
    return max((cell_len(format_cell(column, value)) for value in sample), default=0)


def _extreme_values(values: pl.Series) -> list[object]:
    """Smallest and largest number, or the longest text."""
    if values.dtype.is_numeric():
        return [values.min(), values.max()]
    if values.dtype == pl.String:
        longest = values.str.len_bytes().arg_max()
        return [] if longest is None else [values[longest]]
    return []


def _cut_width(column: Column, width: int, most: int) -> int:
    return min(width, most) if column.unit in TEXT_UNITS else width


def _line_width(columns: Sequence[Column], widths: Mapping[str, int]) -> int:
    return sum(widths[column.name] for column in columns) + COLUMN_GAP * (len(columns) - 1)
