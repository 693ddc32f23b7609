"""A result as someone has arranged it: which rows, in which order, under which columns.

Owns the filter, the order and the choice of columns, and what is shown for them. Knows no widget and no width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis import row_filter
from tracehound.analysis.result import Column, Result, filter_tree_rows
from tracehound.draw.cell_text import columns_with_values, format_cell
from tracehound.draw.folded_rows import fold_rows
from tracehound.draw.rank_groups import RANKS_COLUMN
from tracehound.errors import TracehoundError
from tracehound.model.notes import note
from tracehound.ui.state.tree_folding import DEFAULT_FOLDS, FoldedTree, FoldState, fold_tree, sort_rows

SortOrder = tuple[str, bool]
"""A column, and whether its values fall from top to bottom."""

UNLISTED_UNITS = ("id", "host", "depth", "prose")
"""Units that are followed, listed beside the table, or drawn before a name, and have no column in it."""


class ColumnChoice(Struct, frozen=True):
    """Columns that the user hides, and columns that the user shows even if there is little room."""

    hidden: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()

    def without(self, name: str) -> ColumnChoice:
        """The choice with this column hidden."""
        return ColumnChoice(self.hidden | {name}, self.wanted - {name})

    def with_(self, name: str) -> ColumnChoice:
        """The choice with this column always shown."""
        return ColumnChoice(self.hidden - {name}, self.wanted | {name})


class TableView(Struct, frozen=True, dict=True):
    """A result, and how it is shown. `filter` is one that the result's columns allow; `aside` is told elsewhere.

    The filter is for rows of single ranks; what several ranks have in common becomes one row after it.
    """

    result: Result
    filter: str = ""
    order: SortOrder | None = None
    choice: ColumnChoice = ColumnChoice()
    aside: tuple[str, ...] = ()
    folds: FoldState = DEFAULT_FOLDS

    @property
    def filtered_rows(self) -> pl.DataFrame:
        """The rows that pass the filter, in the result's own order; in a tree also those above them."""
        return _filter_rows(self.result, self.filter)[0]

    @property
    def passing_row_count(self) -> int:
        """Number of rows that pass the filter."""
        return _filter_rows(self.result, self.filter)[1]

    @property
    def folded(self) -> Result:
        """The rows that pass the filter as a result: what several ranks have in common is one row."""
        return _filter_and_fold(self.result, self.filter)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The rows that pass the filter, in order; what is not known comes last."""
        return self._sort(self.folded.table)

    def _sort(self, rows: pl.DataFrame) -> pl.DataFrame:
        if self.order is None:
            return rows
        name, falls = self.order
        return sort_rows(rows, self.result.columns, ("rank" if name == RANKS_COLUMN.name else name, falls))

    @cached_property
    def tree(self) -> FoldedTree | None:
        """The tree that the rows are; None where the result is none."""
        return fold_tree(self.rows, self.result.columns, self.folds, searched=bool(self.filter))

    @cached_property
    def visible_rows(self) -> pl.DataFrame:
        """The rows on lines of their own: all, in a tree those in no folded one."""
        return self.rows if self.tree is None else self.rows[self.tree.visible_row_indexes]

    @cached_property
    def available_columns(self) -> tuple[Column, ...]:
        """The columns that can be shown: those with words and with some value."""
        words = [
            column
            for column in self.folded.columns
            if column.unit not in UNLISTED_UNITS and column.name not in self.aside
        ]
        is_folded = self.folded.columns != self.result.columns
        return columns_with_values(words, self.folded.table if is_folded else self.result.table)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are shown where there is room; those that someone wants are `brief`."""
        kept = [column for column in self.available_columns if column.name not in self.choice.hidden]
        return tuple(replace(each, brief=True) if each.name in self.choice.wanted else each for each in kept)

    @property
    def result_to_save(self) -> Result:
        """The rows of single ranks, with the visible columns; notes say how they were filtered and sorted."""
        hidden = [column.name for column in self.result.columns if column.name in self.choice.hidden]
        result = row_filter.filter_result(self.result, self.filter) if self.filter else self.result
        columns = tuple(column for column in result.columns if column.name not in hidden)
        notes = [*result.notes, *([note("columns_hidden", columns=tuple(hidden))] if hidden else [])]
        if self.order is not None:
            notes.append(note("rows_sorted", column=self.order[0], falling=self.order[1]))
        table = self._sort(self.filtered_rows).select(column.name for column in columns)
        return replace(result, columns=columns, table=table, notes=tuple(notes))

    def without(self, name: str, placed: Sequence[str]) -> ColumnChoice:
        """The choice that hides a column too, unless it is the only one of those that are `placed`."""
        return self.choice.without(name) if name in placed and len(placed) > 1 else self.choice

    def text(self, row: int, name: str) -> str:
        """The words of one cell, uncut, of a row that is seen."""
        return format_cell(self.folded.column(name), self.visible_rows[name][row])


@lru_cache(maxsize=8)
def _filter_rows(result: Result, text: str) -> tuple[pl.DataFrame, int]:
    """The rows of a result that pass a filter, and their number without those above them in a tree."""
    rows = result.uncut_table
    if not text:
        return rows, rows.height
    return filter_tree_rows(rows, result.columns, row_filter.filter_condition(text, result.columns))


@lru_cache(maxsize=8)
def _filter_and_fold(result: Result, text: str) -> Result:
    """At most as many rows as the result has."""
    rows, _ = _filter_rows(result, text)
    return fold_rows(replace(result, table=rows.head(result.table.height), all_rows=rows))


def filter_error(result: Result, text: str) -> str:
    """The error of a filter of this result, in one line; empty if it is valid."""
    try:
        row_filter.filter_condition(text, result.columns)
    except TracehoundError as error:
        return f"{error.message}; {error.remedy}" if error.remedy else error.message
    return ""


def effective_filter(result: Result, text: str, last: str) -> str:
    """The filter that holds while `text` is typed: itself, or where it is none (yet) the `last` comparison.

    What was text a moment ago is rather the beginning of a comparison, and filters no more.
    """
    if not filter_error(result, text):
        return text
    return last if row_filter.is_comparison(last, result.columns) and not filter_error(result, last) else ""
