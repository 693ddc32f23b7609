"""The command line that prints what is on the screen.

Owns how a view of one run, or of two side by side, is said in options. Knows no widget.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

import polars as pl

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.row_filter import REGEX_SIGN
from tracehound.model.trace import Trace, Window
from tracehound.model.units import format_exact_time, format_rank_list
from tracehound.ui.state.view import View

_SEARCH_SELECT = (
    "SELECT name, kind, count(*) AS count, sum(coalesce(device_duration, duration)) AS total, "
    "avg(coalesce(device_duration, duration)) AS average FROM events WHERE name ~*"
)
_SEARCH_GROUPING = "GROUP BY name, kind ORDER BY total DESC, name, kind"


def report_command(
    said: Sequence[str],
    trace: Trace,
    view: View,
    window: tuple[int, int] | None,
    tab: str,
    given: ChosenSettings = (),
    where: str = "",
) -> str:
    """``tracehound report PATH... ANALYSIS --set NAME=VALUE --where FILTER --window A..B --rank LIST``, for a shell.

    The overview is the summary, any other tab an analysis. `given` is what is chosen of its settings, `where` the
    filter of its table, `said` what the explorer was started with: paths, and how to read them.
    """
    if tab == "overview":
        words = ["tracehound", "summary", *said]
        return _quote_words([*words, *_window_options(window, view.ranks)])
    words = ["tracehound", "report", *said, tab]
    ranks = view.ranks
    if tab == "slices" and view.lane is not None:
        lane = trace.lanes.row(by_predicate=pl.col("lane") == view.lane, named=True)
        ranks = ranks if lane["rank"] is None else (lane["rank"],)
        words += ["--set", f"lane=^{_literal_pattern(lane['name'])}$"]
    for name, value in given:
        words += ["--set", f"{name}={value}"]
    if where:
        words += [f"--where={where}"] if where.startswith("-") else ["--where", where]
    return _quote_words([*words, *_window_options(window, ranks)])


def _quote_words(words: Sequence[str]) -> str:
    """The words as a line for a shell: each is what it was, and no character of it is one that a terminal obeys.

    Names come from traces. A word with what does not print is in quotes of the kind ``$'...'``, which bash, zsh and ksh
    know.
    """
    return " ".join(
        shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escape_character, word))}'" for word in words
    )


def _escape_character(char: str) -> str:
    """As it is written between ``$'`` and ``'``."""
    if char.isprintable():
        return f"\\{char}" if char in "\\'" else char
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(char))


def query_command(said: Sequence[str], statement: str, window: Window) -> str:
    """``tracehound query PATH... --window A..B --rank LIST 'SELECT ...'``, quoted for a shell."""
    span = (window.start, window.end) if window.start is not None and window.end is not None else None
    return _quote_words(["tracehound", "query", *said, *_window_options(span, window.ranks), statement])


def search_command(said: Sequence[str], needle: str) -> str:
    """The query that finds what a search for `needle` does: the names of all events, in the whole trace."""
    text = needle.strip()
    pattern = text.removeprefix(REGEX_SIGN).strip() if text.startswith(REGEX_SIGN) else _literal_pattern(needle)
    quoted = "'" + pattern.replace("'", "''") + "'"
    statement = " ".join([_SEARCH_SELECT, quoted, _SEARCH_GROUPING])
    return query_command(said, statement, Window())


def diff_command(baseline: str, candidate: str, how: Sequence[str], step: int | None) -> str:
    """``tracehound diff BASELINE CANDIDATE --step N``, quoted for a shell; without a step it is about an average one.

    `how` are the options of reading that the comparison was started with.
    """
    narrowed = [] if step is None else ["--step", str(step)]
    return _quote_words(["tracehound", "diff", baseline, candidate, *how, *narrowed])


def _window_options(window: tuple[int, int] | None, ranks: Sequence[int] | None) -> list[str]:
    """The options for a window and for ranks."""
    words = [] if window is None else ["--window", f"{format_exact_time(window[0])}..{format_exact_time(window[1])}"]
    return words if ranks is None else [*words, "--rank", format_rank_list(ranks)]


def _literal_pattern(name: str) -> str:
    """A pattern for just this name; blanks mean nothing special in one."""
    return re.escape(name).replace(r"\ ", " ")


def shown_window(trace: Trace, view: View) -> tuple[int, int] | None:
    """The selected window, else what the timeline shows; None for the whole run."""
    low, high = trace.span
    if view.selection is not None:
        return view.selection
    return None if view.start <= low and high <= view.end else (view.start, view.end)
