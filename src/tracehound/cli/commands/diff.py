"""The command ``diff``: compare two runs, and judge the change by conditions."""

from __future__ import annotations

from argparse import Namespace

from tracehound.analysis.analysis_settings import parse_settings
from tracehound.cli.commands.check import (
    measure_or_load_profile,
    page_writer,
    print_verdicts,
    refuse_other_file,
    warn_incomplete_runs,
)
from tracehound.cli.commands.trace_input import open_read_context
from tracehound.diff import COMPARISON_SETTINGS, compare_runs, judge_comparison, parse_condition
from tracehound.report import result_page


def run(options: Namespace) -> int:
    """Print the comparison; returns 1 if a condition fails."""
    # report errors before a trace is read
    conditions = [parse_condition(text) for text in options.fail_on]
    given = parse_settings(COMPARISON_SETTINGS, options.set)
    form = page_writer(options)
    with open_read_context(options) as context:
        refuse_other_file(options.save_baseline, context)
        first, second = options.paths
        baseline, candidate = (
            measure_or_load_profile([first], options, context, more=True),
            measure_or_load_profile([second], options, context),
        )
    warn_incomplete_runs({"baseline": baseline, "candidate": candidate}, conditions)
    verdicts = judge_comparison(baseline, candidate, conditions)
    page = result_page.comparison_page(compare_runs(baseline, candidate, options.top, given), verdicts)
    return print_verdicts(page, candidate, verdicts, form, options)
