"""All that is said of a result, at any length: its notes, a row of it, and what its columns mean.

Owns what that is and in which order. Knows no width and no face.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracehound.analysis.result import Column, Result
from tracehound.draw.cells import cell, heading, readable, valued
from tracehound.draw.notes import note_texts
from tracehound.draw.sentences import prose
from tracehound.draw.sheet import Fact, Section
from tracehound.errors import printable

SILENT = "nothing but what its rows say"
"""What stands in place of notes where there are none."""


def notes(head: Sequence[str], said: Sequence[str]) -> Section:
    """What is said of a result that is headed so."""
    return Section(" · ".join(map(printable, head)), tuple(Fact("", printable(each)) for each in said or (SILENT,)))


def row(result: Result, number: int) -> list[Section]:
    """What a row says, uncut; nothing where there is no such row."""
    if not 0 <= number < result.table.height:
        return []
    values = result.table.row(number, named=True)
    told = [(heading(column), cell(column, values[column.name])) for column in _told(result)]
    facts = tuple(Fact(label, printable(words)) for label, words in told if words)
    return [Section(f"Row {number + 1:,} of {result.table.height:,}", facts)]


def columns(result: Result) -> Section:
    """What the columns mean, and of what their shares are shares."""
    facts = tuple(Fact(heading(column), _meaning(column)) for column in _told(result))
    return Section("What its columns mean", facts)


def in_full(result: Result, head: Sequence[str], shown: Result, number: int) -> list[Section]:
    """All of it. `shown` has the rows as they are seen; what is read row by row begins with the row."""
    said, about = notes(head, note_texts(result.notes)), row(shown, number)
    first = [*about, said] if prose(result) else [said, *about]
    return [*first, columns(result)]


def _told(result: Result) -> list[Column]:
    """The columns that are read, as far as the rows have something in them."""
    return [column for column in valued(readable(result), result.table) if column.unit != "host"]


def _meaning(column: Column) -> str:
    return f"{column.meaning}, of {column.base}" if column.unit == "share" and column.base else column.meaning
