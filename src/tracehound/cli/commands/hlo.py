"""The command ``hlo``: programs of an XLA profile, and their instructions with operands and users."""

from __future__ import annotations

from argparse import Namespace

from tracehound.analysis import Result
from tracehound.cli import console
from tracehound.cli.commands.result_output import print_page_notes, print_result
from tracehound.cli.commands.trace_input import find_trace, is_path, load_and_print_failures, open_read_context
from tracehound.model.trace import Window
from tracehound.report import find_writer, hlo_report
from tracehound.report.result_page import ResultPage


def run(options: Namespace) -> int:
    """Print a page, a table or the text of a program."""
    form = find_writer(options.format)
    paths, words = hlo_report.split_hlo_arguments(options.words, is_path)
    with open_read_context(options) as context:
        trace = load_and_print_failures(find_trace(paths, options, context))
        found = hlo_report.answer_hlo_command(trace, words, options.depth, options.top)
    if isinstance(found, ResultPage):
        console.print_lines(form.write_page(found, console.text_report_style(options)), options)
        print_page_notes(form, found.results, found.runs)
        return 0
    if isinstance(found, Result):
        return print_result(found, trace, Window(), form, options)
    if options.format in hlo_report.MODULE_WRITERS:
        console.print_lines(hlo_report.MODULE_WRITERS[options.format](found), options)
        return 0
    return print_result(hlo_report.instruction_rows(found, options.top), trace, Window(), form, options)
