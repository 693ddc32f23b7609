"""What a person asked for on the command line -> the window of a report.

Owns the notations of ranks, steps and times (``0,2-5``, ``12-14``, ``first,last``, ``10ms..20ms``) and what to say when
a trace has no such thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.spans.windows import of_ranks, of_their_ranks
from tracehound.errors import TracehoundError, printable
from tracehound.trace import Trace, Window
from tracehound.units import duration, parse_duration, parse_numbers, runs, which_ranks


def times(text: str) -> tuple[int | None, int | None]:
    """The two ends of ``10ms..20ms``, ps; a side that is left empty has no limit."""
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


def chosen(trace: Trace, ranks: str = "", steps: str = "", between: str = "") -> Window:
    """The window that the three notations name in this trace; an empty one sets no limit.

    Steps last on every rank as long as they do there, within their first start and last end over the chosen ranks;
    ranks that have none of them are not in the window. Raises TracehoundError when the trace has no such rank or step,
    when there are others between the steps, or when nothing happens in that time.
    """
    window = Window(ranks=among(trace.ranks["rank"].to_list(), ranks) if ranks else None)
    if steps:
        return _stepped(trace, steps, window)
    if between:
        start, end = times(between)
        _overlaps(trace, start, end)
        return window.at(start, end)
    return window


def beyond(trace: Trace, window: Window) -> str:
    """That the window is cut, where it begins before the trace or ends after it; "" where it does not."""
    first, last = trace.span
    inside = (window.start is None or window.start >= first) and (window.end is None or window.end <= last)
    return "" if inside else f"the window is cut: {_extent(trace)}"


def among(there: Sequence[int], text: str) -> tuple[int, ...]:
    """The ranks of a list such as ``0,2-5``, all of which are there. Raises TracehoundError for others."""
    asked = parse_numbers(text, "rank")
    missing = [rank for rank in asked if rank not in there]
    if missing:
        raise TracehoundError(f"no {which_ranks(missing)} in this trace", remedy=_there(there))
    return asked


FIRST, LAST, LONGEST = STEPS = ("first", "last", "longest")
"""Words for a step of the chosen ranks; the longest is that of any of them."""


def _stepped(trace: Trace, said: str, window: Window) -> Window:
    ranks = trace.ranks if window.ranks is None else trace.ranks.filter(pl.col("rank").is_in(list(window.ranks)))
    steps = of_their_ranks(trace, ranks)
    there = steps["step"].unique().sort().to_list()
    asked = _named(said, steps)
    missing = [step for step in asked if step not in there]
    if missing:
        remedy = _there(there) if there else _NO_STEPS
        raise TracehoundError(f"no step{'s' * (len(missing) != 1)} {runs(missing)} here", remedy=remedy)
    if between := [step for step in there if asked[0] < step < asked[-1] and step not in asked]:
        lying = f"step {between[0]} lies" if len(between) == 1 else f"steps {runs(between)} lie"
        why = f"steps {runs(asked)} are no stretch of time: {lying} between"
        raise TracehoundError(why, remedy=f"take all, {asked[0]}-{asked[-1]}, or ask once for each stretch")
    spans = of_ranks(trace, replace(window, steps=asked))
    chosen = window.ranks if len(spans) == ranks.height else tuple(spans)
    first, last = min(start for start, _ in spans.values()), max(end for _, end in spans.values())
    return Window(first, last, chosen, steps=asked)


def _named(said: str, steps: pl.DataFrame) -> tuple[int, ...]:
    """The steps in a list such as ``first,12-14``, sorted, each once; those of its numbers need not be there."""
    items = [item.strip() for item in said.split(",")]
    words = [item for item in items if item in STEPS]
    if words and steps.is_empty():
        raise TracehoundError(f"no {words[0]} step here", remedy=_NO_STEPS)
    numbers = ",".join(item for item in items if item not in STEPS)
    counted = parse_numbers(numbers, "step") if len(words) < len(items) else ()
    return tuple(sorted({*counted, *(_step_called(word, steps) for word in words)}))


def _step_called(word: str, steps: pl.DataFrame) -> int:
    by = {FIRST: pl.col("step"), LAST: -pl.col("step"), LONGEST: pl.col("start") - pl.col("end")}[word]
    return int(steps.sort(by, "step")["step"][0])


_NO_STEPS: Final = "the profiler marked none, and none could be inferred"


def _there(numbers: Sequence[int]) -> str:
    """``there is 3``, ``there are 4-6``."""
    return f"there {'is' if len(numbers) == 1 else 'are'} {runs(numbers) or 'none'}"


def _overlaps(trace: Trace, start: int | None, end: int | None) -> None:
    first, last = trace.span
    if (start is not None and start > last) or (end is not None and end < first):
        raise TracehoundError("nothing happens in that window", remedy=_extent(trace))


def _extent(trace: Trace) -> str:
    first, last = trace.span
    return f"the trace goes from {duration(first)} to {duration(last)}"
