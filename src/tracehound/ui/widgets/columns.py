"""Which columns of a result fit on a line of a pane, and how wide each is.

Owns the widths. Knows nothing of widgets or colours: words come from `draw.cells`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from rich.cells import cell_len

from tracehound.analysis.result import Column
from tracehound.draw.cells import alignment, cell, heading
from tracehound.draw.table import fitted

SAMPLE = 200
"""Rows that are looked at to find how wide a column is."""

GAP = 2

READABLE, NARROWEST = 20, 10
"""Widths of a text column below which rather other columns go, and below which it is not cut."""

ASIDE = ("id", "host")
"""Units that are followed, or listed beside the table, and have no column in it."""


@dataclass(frozen=True)
class Placed:
    """A column, and where on the line it stands."""

    column: Column
    left: int
    width: int

    def fits(self, text: str) -> str:
        """`text` in exactly the column's width."""
        text = fitted(text, self.width)
        pad = " " * (self.width - cell_len(text))
        return pad + text if alignment(self.column) == "right" else text + pad


def place(columns: Sequence[Column], rows: pl.DataFrame, width: int) -> tuple[Placed, ...]:
    """The columns that a line of `width` cells shows: all, or the brief ones where all do not fit.

    Text is cut before a column goes; what still does not fit reaches beyond the right edge.
    """
    shown = [column for column in columns if column.unit not in ASIDE]
    sample = rows.head(SAMPLE)
    widths = {column.name: _width(column, sample) for column in shown}
    if _line(shown, widths, READABLE) > width:
        shown = [column for column in shown if column.brief] or shown
    low, high = NARROWEST, max(NARROWEST, *widths.values()) if widths else NARROWEST
    while low < high:
        between = (low + high + 1) // 2
        low, high = (between, high) if _line(shown, widths, between) <= width else (low, between - 1)
    result, left = [], 0
    for column in shown:
        placed = Placed(column, left, _cut(column, widths[column.name], low))
        result.append(placed)
        left += placed.width + GAP
    return tuple(result)


def _width(column: Column, rows: pl.DataFrame) -> int:
    """Cells that the heading, with room for its arrow, and the words of the rows need."""
    return max([cell_len(heading(column)) + 2, *(cell_len(cell(column, value)) for value in rows[column.name])])


def _cut(column: Column, width: int, most: int) -> int:
    return min(width, most) if column.unit == "text" else width


def _line(columns: Sequence[Column], widths: dict[str, int], most: int) -> int:
    return sum(_cut(column, widths[column.name], most) for column in columns) + GAP * (len(columns) - 1)
