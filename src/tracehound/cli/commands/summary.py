"""The command ``summary``: one page about a trace."""

from __future__ import annotations

from argparse import Namespace

from msgspec.structs import replace

from tracehound.cli import console
from tracehound.cli.commands.result_output import complete_commands, print_page_notes
from tracehound.cli.commands.trace_input import analysis_workers, open_read_context, read_trace
from tracehound.report import find_writer, summarize_trace


def run(options: Namespace) -> int:
    """Print the summary in its format."""
    form = find_writer(options.format)
    with open_read_context(options) as context:
        trace, window = read_trace(options, context)
        page = summarize_trace(trace, window, options.top, analysis_workers(trace, context))
    page = replace(page, results=tuple(complete_commands(result, options) for result in page.results))
    console.print_lines(form.write_summary(page, console.text_report_style(options)), options)
    print_page_notes(form, page.results)
    return 0
