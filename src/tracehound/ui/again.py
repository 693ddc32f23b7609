"""The command line that prints what is on the screen.

Owns how a view of one run, or of two side by side, is said in options. Knows no widget.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import polars as pl

from tracehound.analysis import ANALYSES
from tracehound.analysis.settings import Given
from tracehound.trace import Trace
from tracehound.ui.view import View
from tracehound.units import exact

INSTEAD = "ops"
"""The report of a tab that shows no analysis."""


def command(
    said: Sequence[str], trace: Trace, view: View, window: tuple[int, int] | None, tab: str, given: Given = ()
) -> str:
    """``tracehound report PATH... ANALYSIS --set NAME=VALUE --window A..B --rank LIST``, quoted for a shell.

    The overview is the summary. `given` is what is chosen of the tab's settings, `said` what the explorer was started
    with: paths, and how to read them.
    """
    if tab == "overview":
        words = ["tracehound", "summary", *said]
        return shlex.join([*words, *_narrowed(window, view.ranks)])
    analysis = tab if tab in {analysis.name for analysis in ANALYSES} else INSTEAD
    words = ["tracehound", "report", *said, analysis]
    ranks = view.ranks
    if analysis == "slices" and view.lane is not None:
        lane = trace.lanes.row(by_predicate=pl.col("lane") == view.lane, named=True)
        ranks = ranks if lane["rank"] is None else (lane["rank"],)
        words += ["--set", f"lane=^{_literal(lane['name'])}$"]
    for name, value in given:
        words += ["--set", f"{name}={value}"]
    return shlex.join([*words, *_narrowed(window, ranks)])


def comparison(base: str, other: str, how: Sequence[str], step: int | None) -> str:
    """``tracehound diff BASE OTHER --step N``, quoted for a shell; without a step it is about an average one.

    `how` are the options of reading that the comparison was started with.
    """
    narrowed = [] if step is None else ["--step", str(step)]
    return shlex.join(["tracehound", "diff", base, other, *how, *narrowed])


def _narrowed(window: tuple[int, int] | None, ranks: Sequence[int] | None) -> list[str]:
    """The options for a window and for ranks."""
    words = [] if window is None else ["--window", f"{exact(window[0])}..{exact(window[1])}"]
    return words if ranks is None else [*words, "--rank", ",".join(map(str, ranks))]


def _literal(name: str) -> str:
    """A pattern for just this name; blanks mean nothing special in one."""
    return re.escape(name).replace(r"\ ", " ")


def shown(trace: Trace, view: View) -> tuple[int, int] | None:
    """The selected window, else what the timeline shows; None for the whole run."""
    low, high = trace.span
    if view.selection is not None:
        return view.selection
    return None if view.start <= low and high <= view.end else (view.start, view.end)
