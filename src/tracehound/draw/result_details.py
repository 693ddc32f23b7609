"""A result in full: its notes, one row of it, and the meanings of its columns.

Some columns hold sentences; a row of such a result is laid out as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tracehound.analysis.result import Column, Result
from tracehound.draw.cell_text import column_heading, columns_with_values, format_cell, readable_columns
from tracehound.draw.fact_layout import Fact, FactSection
from tracehound.draw.notes import note_texts
from tracehound.draw.text_wrapping import wrap_text
from tracehound.errors import printable

NO_NOTES = "nothing but what its rows say"
"""Shown if there are no notes."""


def notes_section(head: Sequence[str], texts: Sequence[str]) -> FactSection:
    """The notes of a result below its heading."""
    return FactSection(
        " · ".join(map(printable, head)), tuple(Fact("", printable(each)) for each in texts or (NO_NOTES,))
    )


def row_sections(result: Result, number: int) -> list[FactSection]:
    """One row, uncut; empty if there is no such row."""
    if not 0 <= number < result.table.height:
        return []
    values = result.table.row(number, named=True)
    cells = [(column_heading(column), format_cell(column, values[column.name])) for column in _columns_to_show(result)]
    facts = tuple(Fact(label, printable(words)) for label, words in cells if words)
    return [FactSection(f"Row {number + 1:,} of {result.table.height:,}", facts)]


def columns_section(result: Result) -> FactSection:
    """The meanings of the columns, with the bases of shares."""
    facts = tuple(Fact(column_heading(column), _column_meaning(column)) for column in _columns_to_show(result))
    return FactSection("What its columns mean", facts)


def result_sections(result: Result, head: Sequence[str], shown: Result, number: int) -> list[FactSection]:
    """All details. `shown` has the rows in display order. A result of sentences begins with the row."""
    notes, row = notes_section(head, note_texts(result.notes)), row_sections(shown, number)
    first = [*row, notes] if sentence_columns(result) else [notes, *row]
    return [*first, columns_section(result)]


def _columns_to_show(result: Result) -> list[Column]:
    """The readable columns with values."""
    return [column for column in columns_with_values(readable_columns(result), result.table) if column.unit != "host"]


def _column_meaning(column: Column) -> str:
    return f"{column.meaning}, of {column.base}" if column.unit == "share" and column.base else column.meaning


LONG_TEXT_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"health": ("what", "where")})
"""Text columns of an analysis that are mostly too long for its table, and are shown in full here."""


def sentence_columns(result: Result) -> list[Column]:
    """The columns that hold sentences."""
    long = LONG_TEXT_COLUMNS.get(result.analysis, ())
    return [column for column in result.columns if column.unit == "prose" or column.name in long]


def draw_row_sentences(result: Result, cursor: int, size: tuple[int, int], more: str = "") -> list[str]:
    """One row as lines of a width. What exceeds the height is left out and marked.

    `more` is the key that shows all of it.
    """
    columns, (width, height) = sentence_columns(result), size
    if not 0 <= cursor < result.table.height:
        return []
    row = result.table.row(cursor, named=True)
    first = next((column for column in result.columns if column.unit == "text"), None)
    room = max(len(column_heading(column)) for column in columns) + 2
    lines = wrap_text(printable(str(row[first.name])), width) if first is not None else []
    for column in columns:
        broken = wrap_text(printable(row[column.name] or ""), max(width - room, 8))
        heads = [column_heading(column), *("" for _ in broken[1:])]
        lines += [f"{head:<{room}}{text}" for head, text in zip(heads, broken, strict=False)]
    ellipsis = f"… {more} shows all" if more else "…"
    return lines if len(lines) <= height else [*lines[: max(height - 1, 0)], ellipsis][:height]
