"""The window of a report, from command-line arguments for ranks, steps and times.

Arguments are ``0,2-5``, ``12-14``, ``first,last``, ``10ms..20ms``; errors name what the trace has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.window_bounds import rank_windows, steps_per_rank
from tracehound.errors import TracehoundError, printable
from tracehound.model.trace import Trace, Window
from tracehound.model.units import (
    CELL_DIGITS,
    format_duration,
    format_ranges,
    format_ranks,
    parse_duration,
    parse_number_list,
)


def parse_times(text: str) -> tuple[int | None, int | None]:
    """The two ends of ``10ms..20ms``, ps; an empty side has no limit."""
    start, dots, end = text.partition("..")
    if not dots:
        raise TracehoundError(
            f"{printable(text)!r} is not a window", remedy="write two times: 10ms..20ms, ..1s, 500us.."
        )
    low = parse_duration(start) if start.strip() else None
    high = parse_duration(end) if end.strip() else None
    if low is not None and low == high:
        raise TracehoundError(f"the window {printable(text)!r} is empty: it ends where it starts")
    if low is not None and high is not None and high < low:
        raise TracehoundError(f"the window {printable(text)!r} ends before it starts")
    return low, high


def parse_window(trace: Trace, ranks: str = "", steps: str = "", between: str = "") -> Window:
    """The window given by the three arguments; an empty one sets no limit.

    Steps last on every rank as long as they do there, within their first start and last end over the chosen ranks;
    ranks without these steps are not in the window. Raises TracehoundError if the trace has no such rank or step, if
    other steps lie between them, or if nothing happens in that time.
    """
    window = Window(ranks=parse_rank_list(trace.ranks["rank"].to_list(), ranks) if ranks else None)
    if steps:
        return _window_of_steps(trace, steps, window)
    if between:
        start, end = parse_times(between)
        _check_overlap(trace, start, end)
        return window.with_times(start, end)
    return window


def window_cut_warning(trace: Trace, window: Window) -> str:
    """A warning if the window exceeds the trace; "" if not."""
    first, last = trace.span
    inside = (window.start is None or window.start >= first) and (window.end is None or window.end <= last)
    return "" if inside else f"the window is cut: {_describe_extent(trace)}"


def parse_rank_list(existing: Sequence[int], text: str) -> tuple[int, ...]:
    """The ranks of a list such as ``0,2-5``. Raises TracehoundError for ranks that are not `existing`."""
    ranks = parse_number_list(text, "rank")
    missing = [rank for rank in ranks if rank not in existing]
    if missing:
        raise TracehoundError(f"no {format_ranks(missing)} in this trace", remedy=_describe_existing(existing))
    return ranks


FIRST, LAST, LONGEST = STEP_WORDS = ("first", "last", "longest")
"""Words for a step of the chosen ranks; the longest is that of any of them."""


def _window_of_steps(trace: Trace, steps_argument: str, window: Window) -> Window:
    ranks = trace.ranks if window.ranks is None else trace.ranks.filter(pl.col("rank").is_in(list(window.ranks)))
    steps = steps_per_rank(trace, ranks)
    existing = steps["step"].unique().sort().to_list()
    wanted = _parse_steps(steps_argument, steps)
    missing = [step for step in wanted if step not in existing]
    if missing:
        remedy = _describe_existing(existing) if existing else _NO_STEPS_REMEDY
        raise TracehoundError(f"no step{'s' * (len(missing) != 1)} {format_ranges(missing)} here", remedy=remedy)
    if between := [step for step in existing if wanted[0] < step < wanted[-1] and step not in wanted]:
        lying = f"step {between[0]} lies" if len(between) == 1 else f"steps {format_ranges(between)} lie"
        why = f"steps {format_ranges(wanted)} are no stretch of time: {lying} between"
        raise TracehoundError(why, remedy=f"take all, {wanted[0]}-{wanted[-1]}, or ask once for each stretch")
    spans = rank_windows(trace, replace(window, steps=wanted))
    chosen = window.ranks if len(spans) == ranks.height else tuple(spans)
    first, last = min(start for start, _ in spans.values()), max(end for _, end in spans.values())
    return Window(first, last, chosen, steps=wanted)


def _parse_steps(argument: str, steps: pl.DataFrame) -> tuple[int, ...]:
    """The steps in a list such as ``first,12-14``, sorted and unique; numbers need not exist."""
    items = [item.strip() for item in argument.split(",")]
    words = [item for item in items if item in STEP_WORDS]
    if words and steps.is_empty():
        raise TracehoundError(f"no {words[0]} step here", remedy=_NO_STEPS_REMEDY)
    numbers = ",".join(item for item in items if item not in STEP_WORDS)
    counted = parse_number_list(numbers, "step") if len(words) < len(items) else ()
    return tuple(sorted({*counted, *(_step_by_word(word, steps) for word in words)}))


def _step_by_word(word: str, steps: pl.DataFrame) -> int:
    by = {FIRST: pl.col("step"), LAST: -pl.col("step"), LONGEST: pl.col("start") - pl.col("end")}[word]
    return int(steps.sort(by, "step")["step"][0])


_NO_STEPS_REMEDY: Final = "the profiler marked none, and none could be inferred"


def _describe_existing(numbers: Sequence[int]) -> str:
    """``there is 3``, ``there are 4-6``."""
    return f"there {'is' if len(numbers) == 1 else 'are'} {format_ranges(numbers) or 'none'}"


def _check_overlap(trace: Trace, start: int | None, end: int | None) -> None:
    first, last = trace.span
    if (start is not None and start > last) or (end is not None and end < first):
        raise TracehoundError("nothing happens in that window", remedy=_describe_extent(trace))


def _describe_extent(trace: Trace) -> str:
    first, last = trace.span
    start, end = (format_duration(time, digits=CELL_DIGITS) for time in (first, last))
    return f"the trace goes from {start} to {end}"
