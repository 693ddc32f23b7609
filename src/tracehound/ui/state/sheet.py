"""A result as someone has arranged it: which rows, in which order, under which columns.

Owns the filter, the order and the choice of columns, and what is shown for them. Knows no widget and no width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis import where
from tracehound.analysis.result import Column, Result
from tracehound.analysis.trees import passing
from tracehound.draw.cells import cell, valued
from tracehound.errors import TracehoundError
from tracehound.notes import note
from tracehound.ui.state.folding import UNTOUCHED, Folds, Tree, ordered, tree

Order = tuple[str, bool]
"""A column, and whether its values fall from top to bottom."""

ASIDE = ("id", "host", "depth", "prose")
"""Units that are followed, listed beside the table, or drawn before a name, and have no column in it."""


class Choice(Struct, frozen=True):
    """Which columns are hidden, and which are shown even where there is little room."""

    hidden: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()

    def without(self, name: str) -> Choice:
        """The same without this column."""
        return Choice(self.hidden | {name}, self.wanted - {name})

    def with_(self, name: str) -> Choice:
        """The same with this column, whatever the room."""
        return Choice(self.hidden - {name}, self.wanted | {name})


class Sheet(Struct, frozen=True, dict=True):
    """A result, and how it is shown. `filter` is one that the result's columns allow; `aside` is told elsewhere."""

    result: Result
    filter: str = ""
    order: Order | None = None
    choice: Choice = Choice()
    aside: tuple[str, ...] = ()
    folds: Folds = UNTOUCHED

    @cached_property
    def _passing(self) -> tuple[pl.DataFrame, int]:
        table, columns = self.result.table, self.result.columns
        return passing(table, columns, where.condition(self.filter, columns)) if self.filter else (table, table.height)

    @property
    def kept(self) -> pl.DataFrame:
        """The rows that pass the filter, in the result's own order; in a tree also those above them."""
        return self._passing[0]

    @property
    def passed(self) -> int:
        """How many rows pass the filter."""
        return self._passing[1]

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The rows that pass the filter, in order; what is not known comes last."""
        return self.kept if self.order is None else ordered(self.kept, self.result.columns, self.order)

    @cached_property
    def tree(self) -> Tree | None:
        """The tree that the rows are; None where the result is none."""
        return tree(self.rows, self.result.columns, self.folds, searched=bool(self.filter))

    @cached_property
    def seen(self) -> pl.DataFrame:
        """The rows on lines of their own: all, in a tree those in no folded one."""
        return self.rows if self.tree is None else self.rows[self.tree.seen]

    @cached_property
    def offered(self) -> tuple[Column, ...]:
        """The columns that can be shown: those with words and with some value."""
        words = [column for column in self.result.columns if column.unit not in ASIDE and column.name not in self.aside]
        return valued(words, self.result.table)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are shown where there is room; those that someone wants are `brief`."""
        kept = [column for column in self.offered if column.name not in self.choice.hidden]
        return tuple(replace(each, brief=True) if each.name in self.choice.wanted else each for each in kept)

    @property
    def saved(self) -> Result:
        """What is shown as a result: its rows and columns, and in its notes how they came about."""
        hidden = [column.name for column in self.result.columns if column.name in self.choice.hidden]
        result = where.kept(self.result, self.filter) if self.filter else self.result
        columns = tuple(column for column in result.columns if column.name not in hidden)
        notes = [*result.notes, *([note("columns_hidden", columns=tuple(hidden))] if hidden else [])]
        if self.order is not None:
            notes.append(note("rows_sorted", column=self.order[0], falling=self.order[1]))
        table = self.rows.select(column.name for column in columns)
        return replace(result, columns=columns, table=table, notes=tuple(notes))

    def without(self, name: str, placed: Sequence[str]) -> Choice:
        """The choice that hides a column too, unless it is the only one of those that are `placed`."""
        return self.choice.without(name) if name in placed and len(placed) > 1 else self.choice

    def text(self, row: int, name: str) -> str:
        """The words of one cell, uncut, of a row that is seen."""
        return cell(self.result.column(name), self.seen[name][row])


def refusal(result: Result, text: str) -> str:
    """What is wrong with a filter of this result, in one line; empty when nothing is."""
    try:
        where.condition(text, result.columns)
    except TracehoundError as error:
        return f"{error.message}; {error.remedy}" if error.remedy else error.message
    return ""


def effective(result: Result, text: str, last: str) -> str:
    """The filter that holds while `text` is typed: itself, or where it is none (yet) the `last` comparison.

    What was text a moment ago is rather the beginning of a comparison, and filters no more.
    """
    if not refusal(result, text):
        return text
    return last if where.compares(last, result.columns) and not refusal(result, last) else ""
