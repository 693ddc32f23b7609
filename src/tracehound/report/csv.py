"""Results as CSV, for spreadsheets: raw numbers, the unit in the name of the column.

A header, then a row per row; times in ps (``total_ps``), shares as fractions, bytes as such (``size_bytes``), flags as
true and false, nothing where a value is unknown. Notes have no place in it. The summary is one such table after the
other, each below a line ``# analysis`` and parted by an empty line.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator

from tracehound.analysis.result import Column, Result
from tracehound.draw.cells import cell, shown
from tracehound.draw.table import Line
from tracehound.report.about import About, Look
from tracehound.report.summary import Summary

_SUFFIXES = {"time": "_ps", "instant": "_ps", "bytes": "_bytes", "rate": "_bytes_per_s", "share": "_share"}


def result(facts: About, table: Result, look: Look) -> Iterator[Line]:
    """Header and rows; neither `facts` nor `look` has a place here."""
    del facts, look
    columns = shown(table)
    yield _line([header(column) for column in columns])
    values = (table.table[column.name].to_list() for column in columns)
    for row in zip(*values, strict=True):
        yield _line([_raw(column, value) for column, value in zip(columns, row, strict=True)])


def summary(page: Summary, look: Look) -> Iterator[Line]:
    """Every result of the page, one below the other."""
    for number, table in enumerate(page.results):
        if number:
            yield Line("")
        yield Line(f"# {table.analysis}")
        yield from result(page.about, table, look)


def header(column: Column) -> str:
    """The name of a column with its unit; a name that already says it stays."""
    suffix = _SUFFIXES.get(column.unit, "")
    return column.name if f"_{column.name}".endswith(suffix) else f"{column.name}{suffix}"


def _raw(column: Column, value: object) -> object:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if column.unit == "flag":
        return "true" if value else "false"
    if column.unit in ("text", "host"):
        words = cell(column, value)
        return "" if column.unit == "text" and value == "" else words
    return value


def _line(values: list[object] | list[str]) -> Line:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(values)
    return Line(out.getvalue())
