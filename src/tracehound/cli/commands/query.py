"""The command ``query``: SQL on a trace."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from tracehound.cli import console
from tracehound.cli.commands.result_output import print_result, refuse_format
from tracehound.cli.commands.trace_input import analysis_workers, is_path, open_read_context, read_trace
from tracehound.errors import TracehoundError, printable
from tracehound.query import (
    ALL_TABLES,
    answer_query,
    find_table,
    prepare_query,
    refuse_unused_settings,
    table_with_settings,
)
from tracehound.report import find_writer, listings


def run(options: Namespace) -> int:
    """Print the result of the query, or the tables that it can use."""
    if options.tables:
        refuse_format(options, "--tables")
        tables = [find_table(word) for word in options.words if not is_path(word)] or ALL_TABLES
        chosen = [table_with_settings(table, options.set) for table in tables]
        refuse_unused_settings(tables, options.set)
        console.print_lines(listings.list_query_tables(chosen, console.text_report_style(options).width), options)
        return 0
    form = find_writer(options.format)
    options.paths, text = _split_statement(options.words)
    query = prepare_query(text, options.set)  # report errors before the trace is read
    with open_read_context(options) as context:
        trace, window = read_trace(options, context)
        result = answer_query(query, trace, window, options.top or form.readable, analysis_workers(trace, context))
    return print_result(result, trace, window, form, options)


def _split_statement(words: Sequence[str]) -> tuple[Sequence[str], str]:
    """The paths and the statement, which is the last word; ``-`` reads it from stdin."""
    if not words or is_path(words[-1]):
        what = f"{printable(words[-1])} is a path" if words else "which query, of which trace?"
        raise TracehoundError(what, remedy="tracehound query PATH... 'SELECT ...'")
    *paths, text = words
    if not paths:
        prepare_query(text)
        raise TracehoundError("a query of which trace?", remedy="tracehound query PATH... 'SELECT ...'")
    return paths, _read_stdin_statement() if text == "-" else text


def _read_stdin_statement() -> str:
    """The statement on stdin, in UTF-8 whatever the locale."""
    if sys.stdin is None:
        raise TracehoundError("stdin is closed", remedy="tracehound query PATH... 'SELECT ...'")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise TracehoundError("the query is not UTF-8", where=f"stdin, byte {error.start:,}") from error
