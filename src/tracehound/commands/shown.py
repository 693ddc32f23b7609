"""What a command found, printed: data on stdout, and what has no place there on stderr.

Owns which notes go where. Knows no command.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence

from tracehound import console
from tracehound.analysis import Result
from tracehound.analysis.spans import other_steps
from tracehound.draw.notes import note_texts
from tracehound.errors import TracehoundError, printable
from tracehound.report import WRITERS, Writer, about, writer
from tracehound.report.about import noted
from tracehound.trace import Trace, Window


def show(result: Result, trace: Trace, window: Window, form: Writer, asked: Namespace) -> int:
    """Print a result in its form, with what is to be known of the window; notes without a place there go to stderr."""
    facts = about(trace, window)
    result = noted(other_steps.noted(result, trace, window), facts)
    console.show(form.result(facts, result, console.look(asked)), asked)
    if not form.notes:
        for note in _remarks(result):
            console.say(printable(note))
    return 0


def tell(form: Writer, results: Sequence[Result], runs: Sequence[tuple[str, str]] = ()) -> None:
    """Facts and notes of a page to stderr, the notes under the names of their results, where its form has none."""
    if not form.notes:
        told = [(result.analysis, note) for result in results for note in _remarks(result)]
        tell_named([*runs, *told])


def tell_named(notes: Iterable[tuple[str, str]]) -> None:
    """Notes to stderr, each under a name."""
    for name, note in notes:
        console.say(printable(f"{name}: {note}"))


def _remarks(result: Result) -> list[str]:
    """What is to be known of the rows: how many there are of how many, and the notes."""
    return [*([result.cut] if result.cut else []), *note_texts(result.notes)]


def refuse_forms(asked: Namespace, option: str) -> None:
    """What an option prints is for people: text, and no form for programs."""
    if writer(asked.format) is not WRITERS[0]:
        raise TracehoundError(f"{option} prints text alone, no {asked.format}", remedy="leave --format out")
