"""The command ``check``: judge one run by conditions. Also the gate that `diff` shares: profiles and verdicts."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tracehound.cli import console
from tracehound.cli.commands.result_output import print_named_notes, print_page_notes
from tracehound.cli.commands.staged_output import staged_output
from tracehound.cli.commands.trace_input import (
    analysis_workers,
    existing_object,
    find_trace,
    named_file,
    open_read_context,
    read_trace_with_warning,
    shown_paths,
)
from tracehound.diff import (
    GateCondition,
    GateVerdict,
    RunProfile,
    incomplete_run_notes,
    judge_run,
    load_baseline,
    parse_condition,
    profile_run,
    refuse_non_baseline,
    save_baseline,
)
from tracehound.draw.notes import note_text, note_texts
from tracehound.errors import TracehoundError, printable
from tracehound.report import ReportFormat, find_writer, result_page
from tracehound.report.result_page import ResultPage, write_junit
from tracehound.store import ReadContext
from tracehound.store.trace_reader import is_url


def run(options: Namespace) -> int:
    """Print the verdicts on the conditions; returns 1 if one fails."""
    conditions = [parse_condition(text) for text in options.fail_on]
    if not conditions and not options.save_baseline:
        raise TracehoundError("no condition", remedy="tracehound check PATH... --fail-on 'idle > 20%'")
    form = page_writer(options)
    with open_read_context(options) as context:
        refuse_other_file(options.save_baseline, context)
        found = measure_or_load_profile(options.paths, options, context)
    warn_incomplete_runs({"run": found}, conditions)
    verdicts = judge_run(found, conditions)
    return print_verdicts(result_page.check_page(found, verdicts), found, verdicts, form, options)


EXIT_CONDITION_FAILED = 1
"""Exit status of a run that fails a condition."""


def measure_or_load_profile(
    paths: Sequence[str], options: Namespace, context: ReadContext, *, more: bool = False
) -> RunProfile:
    """The profile of a run: measured from a trace, or loaded from a baseline. `more` says that another run follows."""
    baseline = load_baseline(named_file(paths[0], context)) if len(paths) == 1 else None
    if baseline is not None:
        if options.rank or options.step or options.window:
            console.print_message(
                printable(
                    f"{shown_paths(paths)[0]} is a baseline: --rank, --step and --window narrow the candidate alone"
                )
            )
        return baseline
    try:
        trace, window = read_trace_with_warning(find_trace(paths, options, context), options)
    except TracehoundError as error:
        if error.path is not None or is_url(paths[0]):
            raise
        raise replace(error, path=Path(paths[0])) from error  # the user must know which of two runs it is
    return profile_run(trace, window, analysis_workers(trace, context, more=more))


def refuse_other_file(word: str | None, context: ReadContext) -> None:
    """Raise TracehoundError where a new baseline would replace something else."""
    if word and not is_url(word):
        refuse_non_baseline(Path(word))
    elif word and (there := existing_object(word, context)) is not None:
        refuse_non_baseline(there)


def warn_incomplete_runs(runs: Mapping[str, RunProfile], conditions: Sequence[GateCondition]) -> None:
    """Print a warning for each incomplete run: a condition that passes must not hide that half of it is missing."""
    for line in incomplete_run_notes(runs) if conditions else ():
        console.print_message(printable(note_text(line)))


def page_writer(options: Namespace) -> ReportFormat | None:
    """The writer of a page; None for JUnit, which has a place for conditions only."""
    if options.format != "junit":
        return find_writer(options.format)
    if not options.fail_on:
        raise TracehoundError("junit tells what came of conditions", remedy="add --fail-on 'step_time > +3%'")
    return None


def print_verdicts(
    page: ResultPage, run: RunProfile, verdicts: Sequence[GateVerdict], form: ReportFormat | None, options: Namespace
) -> int:
    """Print the page and the verdicts, save the baseline if asked to; returns 1 if a condition fails."""
    console.print_lines(
        form.write_page(page, console.text_report_style(options)) if form else write_junit(page.title, verdicts),
        options,
    )
    if form:
        headline = [("headline", text) for text in note_texts(page.headline)]
        print_page_notes(form, page.results, [*headline, *page.runs])
    else:
        print_named_notes(page.runs)
    if options.save_baseline:
        with staged_output(options.save_baseline, options, replacing=True) as path:
            save_baseline(run, Path(path))
    for verdict in verdicts:
        if verdict.failed:
            console.print_message(printable(f"failed: {verdict.condition.text}: {verdict.why}"))
        elif verdict.may_be_chance:
            console.print_message(printable(f"passed: {verdict.condition.text}: {verdict.why}; {_WITHIN_NOISE}"))
    return EXIT_CONDITION_FAILED if page.failed else 0


_WITHIN_NOISE: Final = (
    "beyond the limit, but it may be chance: record more steps, or give a limit without a sign, which averages decide"
)
"""The explanation of a condition that passes although its limit is exceeded."""
