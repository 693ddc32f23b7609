"""Results as text, markdown, csv and json. `WRITERS` lists these formats.

Writers yield lines; the caller prints them and chooses the colors.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct

from tracehound.analysis.result import Result
from tracehound.draw.notes import render_note_columns
from tracehound.draw.text_table import TextLine
from tracehound.errors import TracehoundError
from tracehound.report.report_header import ReportHeader, ReportStyle, build_header
from tracehound.report.summary_page import Summary, summarize_trace

if TYPE_CHECKING:
    from tracehound.report.result_page import ResultPage

READABLE_ROWS = 1_000
"""Rows of a query shown to people by default."""

PAGE_ROWS = 24
"""Rows shown to people by default of a table that has many rows for each of many ranks."""


class ReportFormat(Struct, frozen=True):
    """One format of a report. `notes`: the format shows the notes of a result.

    `module` has its functions and is imported on demand. `readable` is the default number of rows: limited for people,
    unlimited (None) for data. If `of_trace`, a single table also has the facts of the trace and the ids of events.
    """

    name: str
    purpose: str
    module: str
    notes: bool = True
    readable: int | None = None
    of_trace: bool = False

    @property
    def write_result(self) -> Callable[[ReportHeader, Result, ReportStyle], Iterator[TextLine]]:
        """The function that writes a table."""
        module = import_module(self.module)
        write: Callable[[ReportHeader, Result, ReportStyle], Iterator[TextLine]] = module.write_result
        return lambda header, result, style: write(header, render_note_columns(result), style)

    @property
    def write_summary(self) -> Callable[[Summary, ReportStyle], Iterator[TextLine]]:
        """The function that writes a summary."""
        write: Callable[[Summary, ReportStyle], Iterator[TextLine]] = import_module(self.module).write_summary
        return write

    @property
    def write_page(self) -> Callable[[ResultPage, ReportStyle], Iterator[TextLine]]:
        """The function that writes a page of several results."""
        write: Callable[[ResultPage, ReportStyle], Iterator[TextLine]] = import_module(self.module).write_page
        return write


WRITERS: tuple[ReportFormat, ...] = (
    ReportFormat("text", "aligned tables for a terminal", "tracehound.report.text_report", readable=READABLE_ROWS),
    ReportFormat(
        "markdown", "tables for issues and notes", "tracehound.report.markdown_report", readable=READABLE_ROWS
    ),
    ReportFormat("csv", "raw numbers for spreadsheets", "tracehound.report.csv_report", notes=False),
    ReportFormat("json", "raw numbers for programs", "tracehound.report.json_report", of_trace=True),
)


def find_writer(name: str) -> ReportFormat:
    """The writer of that name. Raises TracehoundError, with the nearest name, if there is none."""
    for candidate in WRITERS:
        if candidate.name == name:
            return candidate
    names = [candidate.name for candidate in WRITERS]
    near = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    raise TracehoundError(f"no form {name!r}", remedy=hint)


__all__ = [
    "PAGE_ROWS",
    "READABLE_ROWS",
    "WRITERS",
    "ReportFormat",
    "ReportHeader",
    "ReportStyle",
    "Summary",
    "build_header",
    "find_writer",
    "summarize_trace",
]
