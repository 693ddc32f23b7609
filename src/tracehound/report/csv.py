"""Results as CSV, for spreadsheets: raw numbers, the unit in the name of the column.

A header, then a row per row; times in ps (``total_ps``), shares as fractions, bytes as such (``size_bytes``), flags as
true and false, events as their ids, nothing where a value is unknown. Notes have no place in it. The summary and other
pages are one such table after the other, each below a line ``# analysis`` and parted by an empty line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from tracehound.analysis.result import TEXTS, Column, Result
from tracehound.draw.cells import cell
from tracehound.draw.table import Line
from tracehound.errors import printable
from tracehound.report.about import About, Look
from tracehound.report.summary import Summary

if TYPE_CHECKING:
    from tracehound.report.page import Page

ROWS = 1 << 14
"""So many rows are turned into text at once."""

_SUFFIXES = {
    **dict.fromkeys(("time", "instant", "difference"), "_ps"),
    "bytes": "_bytes",
    "rate": "_bytes_per_s",
    "flops": "_flop_per_s",
    "share": "_share",
}


def result(facts: About, table: Result, look: Look) -> Iterator[Line]:
    """Header and rows; neither `facts` nor `look` has a place here."""
    del facts, look
    return _table(table)


def _table(table: Result) -> Iterator[Line]:
    yield _lines([[header(column) for column in table.columns]])
    for rows in table.table.iter_slices(ROWS):
        yield _lines(zip(*(_raw(column, rows[column.name]) for column in table.columns), strict=True))


def summary(page: Summary, look: Look) -> Iterator[Line]:
    """Every result of the page, one below the other."""
    del look
    return _tables(page.results)


def page(shown: Page, look: Look) -> Iterator[Line]:
    """Every result of the page, one below the other; what has notes alone is none."""
    del look
    return _tables([each for each in shown.results if each.total or not each.notes])


def _tables(results: Sequence[Result]) -> Iterator[Line]:
    for number, table in enumerate(results):
        if number:
            yield Line("")
        yield Line(f"# {table.analysis}")
        yield from _table(table)


def header(column: Column) -> str:
    """The name of a column with its unit; a name that already says it stays."""
    suffix = _SUFFIXES.get(column.unit, "")
    return printable(column.name if f"_{column.name}".endswith(suffix) else f"{column.name}{suffix}")


def _raw(column: Column, values: pl.Series) -> Sequence[object]:
    """What stands in the cells of a column; the writer of csv leaves those of None empty."""
    if values.dtype.is_float():
        return values.set(~values.is_finite(), None).to_list()
    if column.unit == "flag":
        return [None if value is None else "true" if value else "false" for value in values.to_list()]
    if column.unit in TEXTS:
        safe = {value: value and printable(value) for value in values.unique().to_list()}
        return [safe[value] for value in values.to_list()]
    if column.unit == "host":
        return [None if value is None else cell(column, value) for value in values.to_list()]
    return values.to_list()


def _lines(rows: Iterable[Iterable[object]]) -> Line:
    """Some rows, a line for each."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return Line(out.getvalue().removesuffix("\n"))
