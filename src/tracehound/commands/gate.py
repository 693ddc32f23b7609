"""What `diff` and `check` share: the profiles of runs, and what conditions say of them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tracehound import console
from tracehound.commands.shown import tell, tell_named
from tracehound.commands.traces import helpers, opened, ready
from tracehound.diff import Condition, Profile, Verdict, loaded, not_whole, profile, saved
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError, printable
from tracehound.report import Writer, writer
from tracehound.report.junit import junit
from tracehound.report.page import Page
from tracehound.store import Workshop

FAILED = 1
"""Exit status of a run that fails a condition."""


def profiled(paths: Sequence[str], asked: Namespace, shop: Workshop, *, more: bool = False) -> Profile:
    """What is known of a run: measured, or kept in a file. There may be `more` runs after it."""
    kept = loaded(Path(paths[0])) if len(paths) == 1 else None
    if kept is not None:
        if asked.rank or asked.step or asked.window:
            console.say(printable(f"{paths[0]} is a baseline: --rank, --step and --window narrow the other run alone"))
        return kept
    try:
        trace, window = ready(opened(paths, asked, shop), asked)
    except TracehoundError as error:
        raise replace(error, path=error.path or Path(paths[0])) from error  # of two runs it must be said which
    return profile(trace, window, helpers(trace, shop, more=more))


def warn(runs: Mapping[str, Profile], conditions: Sequence[Condition]) -> None:
    """A gate that is open must not hide that half of a run is missing."""
    for line in not_whole(runs) if conditions else ():
        console.say(printable(note_text(line)))


def page_form(asked: Namespace) -> Writer | None:
    """The form of a page; None is JUnit's, which has a place for conditions alone."""
    if asked.format != "junit":
        return writer(asked.format)
    if not asked.fail_on:
        raise TracehoundError("junit tells what came of conditions", remedy="add --fail-on 'step_time > +3%'")
    return None


def judge(page: Page, run: Profile, verdicts: Sequence[Verdict], form: Writer | None, asked: Namespace) -> int:
    """Print a page, keep what it is about where that was asked for; 1 when a condition fails."""
    console.show(form.page(page, console.look(asked)) if form else junit(page.title, verdicts), asked)
    if form:
        tell(form, page.results, page.runs)
    else:
        tell_named(page.runs)
    if asked.save_baseline:
        saved(run, asked.save_baseline)
    for verdict in verdicts:
        if verdict.failed:
            console.say(printable(f"failed: {verdict.condition.text}: {verdict.why}"))
        elif verdict.spared:
            console.say(printable(f"passed: {verdict.condition.text}: {verdict.why}; {_SPARED}"))
    return FAILED if page.failed else 0


_SPARED: Final = (
    "beyond the limit, but it may be chance: record more steps, or give a limit without a sign, which averages decide"
)
"""Why a condition passes that seems to be broken, and what is stricter."""
