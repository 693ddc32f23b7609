"""The command ``report``: the table of one analysis."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from tracehound.analysis import ANALYSES, LIST_COMMAND, NAMES, Analysis, Options, get_analysis, row_filter, run_analysis
from tracehound.cli import console
from tracehound.cli.arguments import COMMANDS
from tracehound.cli.commands.result_output import print_result, refuse_format
from tracehound.cli.commands.trace_input import analysis_workers, open_read_context, read_trace
from tracehound.config import configured_settings
from tracehound.draw.notes import render_note_columns
from tracehound.draw.rank_groups import MANY_RANKS
from tracehound.draw.text_table import UNLIMITED_WIDTH
from tracehound.errors import TracehoundError, printable
from tracehound.model.old_names import current_name
from tracehound.model.trace import Trace
from tracehound.report import PAGE_ROWS, ReportFormat, find_writer, listings


def run(options: Namespace) -> int:
    """Print the table, its explanation, or the list of analyses."""
    if options.list:
        refuse_format(options, "--list")
        # scripts read it line by line
        width = console.text_report_style(options).width if sys.stdout.isatty() else UNLIMITED_WIDTH
        console.print_lines(listings.list_analyses(ANALYSES, width), options)
        return 0
    form = find_writer(options.format)
    analysis = _pop_analysis(options)
    given = configured_settings(analysis, options.set)
    if options.explain:
        refuse_format(options, "--explain")
        console.print_lines(listings.explain_analysis(analysis, console.text_report_style(options).width), options)
        return 0
    if not options.paths:
        raise TracehoundError(f"{analysis.name} of which trace?", remedy=f"tracehound report PATH... {analysis.name}")
    columns = analysis.with_shown_columns(given).columns
    row_filter.filter_condition(options.where, columns)  # report errors before the trace is read
    with open_read_context(options) as context:
        trace, window = read_trace(options, context, devices=analysis.device_ops_only and not form.of_trace)
        top = options.top or _default_rows(form, analysis, trace)
        result = run_analysis(
            analysis, trace, window, Options(None if options.where else top, given), analysis_workers(trace, context)
        )
    result = render_note_columns(result)
    result = row_filter.filter_result(result, options.where, top) if options.where else result
    return print_result(result, trace, window, form, options)


def _default_rows(form: ReportFormat, analysis: Analysis, trace: Trace) -> int | None:
    """The rows that are shown unless `--top` asks for more: a page of what every one of many ranks has many of."""
    many = analysis.limits_rows and trace.ranks.height > MANY_RANKS
    return PAGE_ROWS if many and form.readable else form.readable


def _pop_analysis(options: Namespace) -> Analysis:
    """Remove and return the analysis, which the last argument names."""
    if not options.paths:
        remedy = f"tracehound report PATH ANALYSIS; {LIST_COMMAND} names them all"
        raise TracehoundError("which analysis, of which trace?", remedy=remedy)
    *options.paths, last = options.paths
    if last in COMMANDS and options.paths:
        raise TracehoundError(f"{last} is a command, not an analysis", remedy=f"tracehound {last} PATH...")
    if current_name(last) not in NAMES and os.path.lexists(last):
        early = next((word for word in options.paths if current_name(word) in NAMES), None)
        after = f"name {early} after it" if early else f"name an analysis after it; {LIST_COMMAND} names them all"
        raise TracehoundError(f"{printable(last)} is a path", remedy=after)
    return get_analysis(last)
