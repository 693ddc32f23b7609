"""Results as CSV, for spreadsheets: raw numbers, the unit in the name of the column.

A header, then one line per row; times in ps (``total_ps``), shares as fractions, bytes as such (``size_bytes``), flags
as true and false, events as their ids, nothing for unknown values. Rows of all ranks are left out, so that they are not
summed by accident. There are no notes. The summary and other pages are such tables one after another, each below a line
``# analysis`` and separated by an empty line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from tracehound.analysis.result import TEXT_UNITS, Column, Result
from tracehound.draw.cell_text import format_cell
from tracehound.draw.text_table import TextLine
from tracehound.errors import printable
from tracehound.report.report_header import ReportHeader, ReportStyle
from tracehound.report.summary_page import Summary

if TYPE_CHECKING:
    from tracehound.report.result_page import ResultPage

ROWS_PER_CHUNK = 1 << 14
"""Rows converted to text at once."""

_UNIT_SUFFIXES = {
    **dict.fromkeys(("time", "instant", "difference"), "_ps"),
    "bytes": "_bytes",
    "rate": "_bytes_per_s",
    "flops": "_flop_per_s",
    "share": "_share",
}


def write_result(header: ReportHeader, table: Result, style: ReportStyle) -> Iterator[TextLine]:
    """Header and rows; `header` and `style` are not used."""
    del header, style
    return _table_lines(table)


def _table_lines(table: Result) -> Iterator[TextLine]:
    yield _format_csv([[column_header(column) for column in table.columns]])
    for rows in _without_rows_of_all_ranks(table).iter_slices(ROWS_PER_CHUNK):
        yield _format_csv(zip(*(_raw_values(column, rows[column.name]) for column in table.columns), strict=True))


def _without_rows_of_all_ranks(table: Result) -> pl.DataFrame:
    """The rows, without those that are sums of others: whoever adds up a column would count twice."""
    ranks = [pl.col(column.name).is_not_null() for column in table.columns if column.null_text]
    return table.table.filter(ranks) if ranks else table.table


def write_summary(page: Summary, style: ReportStyle) -> Iterator[TextLine]:
    """Every result of the page, one below the other."""
    del style
    return _tables_lines(page.results)


def write_page(page: ResultPage, style: ReportStyle) -> Iterator[TextLine]:
    """Every result of the page, one below the other; a result with only notes is left out."""
    del style
    return _tables_lines([each for each in page.results if each.total or not each.notes])


def _tables_lines(results: Sequence[Result]) -> Iterator[TextLine]:
    for number, table in enumerate(results):
        if number:
            yield TextLine("")
        yield TextLine(f"# {table.analysis}")
        yield from _table_lines(table)


def column_header(column: Column) -> str:
    """The name of a column with its unit, unless the name already ends with it."""
    suffix = _UNIT_SUFFIXES.get(column.unit, "")
    return printable(column.name if f"_{column.name}".endswith(suffix) else f"{column.name}{suffix}")


def _raw_values(column: Column, values: pl.Series) -> Sequence[object]:
    """The values of a column's cells; the csv writer leaves None empty."""
    if values.dtype.is_float():
        return values.set(~values.is_finite(), None).to_list()
    if column.unit == "flag":
        return [None if value is None else "true" if value else "false" for value in values.to_list()]
    if column.unit in TEXT_UNITS:
        safe = {value: value and printable(value) for value in values.unique().to_list()}
        return [safe[value] for value in values.to_list()]
    if column.unit == "host":
        return [None if value is None else format_cell(column, value) for value in values.to_list()]
    return values.to_list()


def _format_csv(rows: Iterable[Iterable[object]]) -> TextLine:
    """Some rows, a line for each."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return TextLine(out.getvalue().removesuffix("\n"))
