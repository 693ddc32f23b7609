"""Printing of results: tables on stdout, and notes that have no place there on stderr."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Iterable, Sequence

import polars as pl
from msgspec.structs import replace

from tracehound.analysis import Result
from tracehound.analysis.timing import other_step_work
from tracehound.cli import console
from tracehound.cli.commands.trace_input import shown_paths
from tracehound.draw.notes import note_texts
from tracehound.errors import TracehoundError, printable
from tracehound.model.trace import Trace, Window
from tracehound.report import WRITERS, ReportFormat, build_header, find_writer
from tracehound.report.report_header import add_doubt_note


def print_result(result: Result, trace: Trace, window: Window, form: ReportFormat, options: Namespace) -> int:
    """Print a result in its format, with notes about the window; notes that the format cannot hold go to stderr."""
    facts = build_header(trace, window)
    result = complete_commands(result, options)
    result = add_doubt_note(other_step_work.with_other_steps_note(result, trace, window), facts)
    console.print_lines(form.write_result(facts, result, console.text_report_style(options)), options)
    if not form.notes:
        for note in _remark_lines(result):
            console.print_message(printable(note))
    return 0


def complete_commands(result: Result, options: Namespace) -> Result:
    """The result; commands of findings are complete, with the paths of the trace as they were given."""
    if result.analysis != "findings" or result.table.is_empty():
        return result
    command = pl.lit(f"tracehound report {printable(shlex.join(shown_paths(options.paths)))} ")
    complete = pl.when(pl.col("next") != "").then(command + pl.col("next")).otherwise("next").alias("next")
    return replace(result, table=result.table.with_columns(complete))


def print_page_notes(form: ReportFormat, results: Sequence[Result], runs: Sequence[tuple[str, str]] = ()) -> None:
    """Print the facts and notes of a page to stderr, under the names of their results, if its format has no notes."""
    if not form.notes:
        told = [(result.analysis, note) for result in results for note in _remark_lines(result)]
        print_named_notes([*runs, *told])


def print_named_notes(notes: Iterable[tuple[str, str]]) -> None:
    """Print notes to stderr, each after a name."""
    for name, note in notes:
        console.print_message(printable(f"{name}: {note}"))


def _remark_lines(result: Result) -> list[str]:
    """The remarks on a result: the number of rows shown, and its notes."""
    return [*([result.shown_rows_text] if result.shown_rows_text else []), *note_texts(result.notes)]


def refuse_format(options: Namespace, option: str) -> None:
    """Raise TracehoundError if a format is given for an option that prints text only."""
    if find_writer(options.format) is not WRITERS[0]:
        raise TracehoundError(f"{option} prints text alone, no {options.format}", remedy="leave --format out")
