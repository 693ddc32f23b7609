"""Places of a trace that can be named: steps, and times as people write them.

Owns what a name means and where it leads. Knows no keys and no widgets. Times are ps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl
from msgspec.structs import replace

from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace
from tracehound.model.units import format_instant, format_rank_list, parse_duration
from tracehound.report.window_arguments import parse_rank_list
from tracehound.ui.state import view_moves
from tracehound.ui.state.view import View

TIME_NOTATIONS = "12.5ms   +300us   40%   step 12"
"""How a place is written, by example."""

_STEP_PATTERN = re.compile(r"\s*step\s*#?\s*([0-9]{1,9})\s*", re.IGNORECASE)
_PERCENT_PATTERN = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{0,9})?)\s*%\s*")


def steps_of_rank(trace: Trace, rank: int | None) -> pl.DataFrame:
    """The steps of a rank; those of its host, or else of anyone, where it has none."""
    own = trace.steps.filter(pl.col("rank").eq_missing(pl.lit(rank, pl.Int32)))
    host = trace.ranks.filter(pl.col("rank").eq_missing(pl.lit(rank, pl.Int32)))["host"].to_list()
    hosts = trace.steps.filter(pl.col("rank").is_null() & pl.col("host").is_in(host))
    return next((steps for steps in (own, hosts) if steps.height), trace.steps)


def selected_step_numbers(trace: Trace, view: View) -> tuple[int, ...]:
    """The numbers of the rank's steps that last just as long as the selected window."""
    if view.selection is None:
        return ()
    steps, (low, high) = steps_of_rank(trace, view_moves.rank_of_view(trace, view)), view.selection
    return tuple(steps.filter((pl.col("start") == low) & (pl.col("end") == high))["step"].drop_nulls().unique())


def go_to_next_step(trace: Trace, view: View, direction: int) -> View:
    """Select and show the next (1) or previous (-1) step of the rank.

    Counted from the selected window where that is a step, else from the focus: the step around that comes first.
    """
    steps = steps_of_rank(trace, view_moves.rank_of_view(trace, view)).sort("start", "end")
    bounds = list(steps.select("start", "end").unique(maintain_order=True).iter_rows())
    at = view_moves.focus_time(view)
    if view.selection in bounds:
        index = bounds.index(view.selection) + direction
    elif direction > 0:
        index = next((index for index, (_, end) in enumerate(bounds) if end > at), len(bounds))
    else:
        index = next((index for index in reversed(range(len(bounds))) if bounds[index][0] <= at), -1)
    return view_moves.select_window(trace, view, bounds[index]) if 0 <= index < len(bounds) else view


def view_at_text(trace: Trace, view: View, text: str) -> View:
    """The view at the place that `text` names: a time, one from the focus on, a share of the run, or a step.

    Raises TracehoundError when it names none, or none of this trace.
    """
    step = _STEP_PATTERN.fullmatch(text)
    if step:
        return _go_to_step(trace, view, int(step[1]))
    low, high = view_moves.run_bounds(trace, view)
    time = _parse_time(text, view, (low, high))
    if not low <= time <= high:
        raise TracehoundError(f"the run goes from {format_instant(low)} to {format_instant(high)}")
    length = view.end - view.start
    chosen = replace(view, event=None, focus=min(time, high - 1))
    return view_moves.clamp_view(trace, chosen, time - length // 2, length)


def _parse_time(text: str, view: View, run: tuple[int, int]) -> int:
    share = _PERCENT_PATTERN.fullmatch(text)
    if share:
        return run[0] + round((run[1] - run[0]) * float(share[1]) / 100)
    word = text.strip()
    try:
        time = parse_duration(word)
    except TracehoundError as error:
        raise TracehoundError("not a place", remedy=f"write {TIME_NOTATIONS}") from error  # it is said beside the text
    return view_moves.focus_time(view) + time if word[0] in "+-" else time


def _go_to_step(trace: Trace, view: View, number: int) -> View:
    steps = steps_of_rank(trace, view_moves.rank_of_view(trace, view))
    found = steps.filter(pl.col("step") == number)
    if found.is_empty():
        there = steps["step"].drop_nulls().sort().to_list()
        raise TracehoundError(f"there is no step {number}", remedy=f"{there[0]} to {there[-1]}" if there else "")
    return view_moves.select_window(trace, view, found.select("start", "end").row(0))


def parse_ranks(text: str, known: Sequence[int]) -> tuple[int, ...] | None:
    """The ranks that are meant; None for all, which nothing means, too.

    Raises TracehoundError for what is no list, and where the trace has not all of them.
    """
    if not text.strip():
        return None
    asked = parse_rank_list(known, text.strip())
    return None if len(asked) == len(known) else asked


def format_ranks(ranks: tuple[int, ...] | None) -> str:
    """Ranks as `parse_ranks` reads them: ``0-3,7``."""
    return "" if ranks is None else format_rank_list(ranks)
