"""Whether a device works on the steps of a window while these last, or on those before, and comes to them later.

Owns when that is worth a word. The marks of steps are the host's: one that runs ahead of its device marks a step long
before the device comes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.result import Result, Share
from tracehound.analysis.share import overlapping
from tracehound.analysis.spans.windows import of_ranks
from tracehound.notes import Note, note
from tracehound.trace import ON_CPU, Trace, Window, collected

LITTLE: Final = 0.25
"""Of hosts that are ahead by a little nothing is said while one goes from step to step."""

_NOTED: Final = 0.01
"""A smaller part of the work is not worth a note."""

_FOLLOWING: Final = ("steps", "step_parts", "critical_path", "arrivals", "collective_calls", "stragglers")
"""What keeps to no marks."""


class Apart(NamedTuple):
    """Shares of the devices' work in a window of steps, and of these steps' work.

    Of the former what `others` launched, and what nothing is known to have launched; of the latter what ran `outside`,
    and from when to when all of it lasts on any rank, the window included (`reach`, ps).
    """

    others: float
    outside: float
    unknown: float
    reach: tuple[int, int]


def work_of_other_steps(trace: Trace, window: Window) -> Note | None:
    """How much of the devices' work in a window of steps is not or may not be theirs, and of theirs not in it.

    None where that is next to nothing. All are shares of summed lengths. Work without a known launch may be anyone's,
    but what began in a step is that step's on a CPU, where hardly anything waits, and on devices of which no launch is
    recorded at all.
    """
    if window.steps is None:
        return None
    found = _apart(trace, window, window.steps)
    others, outside, unknown = (part if part > _NOTED else None for part in found[:3])
    if others is None and outside is None and unknown is None:
        return None
    start, end = found.reach
    return note(
        "work_of_other_steps",
        steps=tuple(window.steps),
        others=others,
        outside=outside,
        unknown=unknown,
        start=start,
        end=end,
    )


def noted(result: Result, trace: Trace, window: Window) -> Result:
    """The result of a window with a note of that, where it does not follow the steps itself."""
    why = None if result.analysis in _FOLLOWING else work_of_other_steps(trace, window)
    return replace(result, notes=(*result.notes, why)) if why else result


def share(trace: Trace, window: Window) -> float:
    """Of the devices' work in a window of steps what was launched in other steps; 0 where that is `LITTLE`."""
    others = _apart(trace, window, window.steps).others if window.steps else 0.0
    return others if others > LITTLE else 0.0


def unknown(trace: Trace, window: Window, collect: Callable[[pl.LazyFrame], pl.DataFrame]) -> Note | None:
    """How much of the devices' work in a window is of a step only by when it ran; None where next to none is.

    `collect` says how the events are read.
    """
    lanes = trace.lanes_of(window.ranks).filter(pl.col("rank").is_not_null() & pl.col("work"))
    if trace.steps.is_empty() or lanes.is_empty():
        return None
    low, high = window.within(*trace.span)
    events = overlapping(trace.events(lanes["lane"].to_list()), low, high)
    time = pl.col("end").clip(upper_bound=high) - pl.col("start").clip(lower_bound=low)
    launched = pl.col("launch").is_not_null()
    sums = collect(events.group_by("lane").agg(time.sum().alias("time"), time.filter(launched).sum().alias("known")))
    of_ranks = sums.join(lanes.select("lane", "rank"), on="lane").group_by("rank").agg(pl.col("time", "known").sum())
    told_of = of_ranks.filter((pl.col("known") > 0) & ~pl.col("rank").is_in(_cpus(trace)))
    part = int((told_of["time"] - told_of["known"]).sum()) / max(1, int(of_ranks["time"].sum()))
    return note("work_of_unknown_steps", level="inferred", part=part) if part > _NOTED else None


def _cpus(trace: Trace) -> list[int]:
    """The ranks that are CPUs."""
    return trace.ranks.filter(pl.col("label").str.starts_with(ON_CPU))["rank"].to_list()


def _apart(trace: Trace, window: Window, steps: Sequence[int]) -> Apart:
    here = others = own = outside = unknown = 0
    reach = list[tuple[int, int]]()
    cpus = _cpus(trace)
    for rank, (start, end) in of_ranks(trace, window).items():
        rows = _work(trace, rank, (start, end), steps)
        first, last, step, launch = (rows[name].to_numpy() for name in ("start", "end", "mine", "launched"))
        launched = launch | (rank in cpus or not launch.any())
        mine, theirs = launched & step, launched & ~step & rows["placed"].to_numpy()
        time = np.maximum(np.minimum(last, end) - np.maximum(first, start), 0)
        here += int(time.sum())
        others += int(time[theirs].sum())
        unknown += int(time[~launched].sum())
        own += int((last - first)[mine].sum())
        outside += int((last - first - time)[mine].sum())
        reach.append((int(first[mine].min(initial=start)), int(last[mine].max(initial=end))))
    parts = others / here if here else 0.0, outside / own if own else 0.0, unknown / here if here else 0.0
    begins, ends = zip(*reach, strict=True) if reach else ((0,), (0,))
    return Apart(*parts, (min(begins), max(ends)))


class Beyond(NamedTuple):
    """Of the work that the steps of a rank launched how long it lasts, and how long outside of their marks; ps."""

    work: int
    outside: int


FOLLOWED: Final = Beyond(0, 0)
"""What is said where nothing keeps to marks."""

OF_STEPS: Final = ("step", "launch")
"""Columns of events that say which step launched them."""


def beyond(share: Share, events: pl.DataFrame) -> Beyond:
    """The work among the device's `events`, which have the columns `OF_STEPS`; nothing is said of a window."""
    if share.windowed:
        return FOLLOWED
    marks = share.steps.select("step", low="start", high="end")
    mine = events.filter(pl.col("launch").is_not_null()).join(marks, on="step")
    within = pl.min_horizontal("end", "high") - pl.max_horizontal("start", "low")
    length = pl.col("end") - pl.col("start")
    sums = mine.select(length.sum().alias("length"), (length - within.clip(lower_bound=0)).sum().alias("outside"))
    return Beyond(*sums.row(0))


def ahead(rows: pl.DataFrame) -> list[Note]:
    """That rows of steps by their marks have not all of the work that these launched, where that is so.

    `rows` have their `rank`, and as `stepped` and `outside` what `beyond` says of it.
    """
    ranks = rows.unique("rank")
    work, outside = int(ranks["stepped"].sum()), int(ranks["outside"].sum())
    return [note("work_outside_marks", part=outside / work)] if outside > _NOTED * work else []


def _work(trace: Trace, rank: int, bounds: tuple[int, int], steps: Sequence[int]) -> pl.DataFrame:
    """A rank's work that is in the window or of its steps: when, whether it is theirs or of any step, and launched."""
    lanes = trace.lanes.filter((pl.col("rank") == rank) & pl.col("work"))["lane"].to_list()
    inside = (pl.col("start") < bounds[1]) & (pl.col("end") > bounds[0])
    return collected(
        trace.events(lanes)
        .with_columns(
            pl.col("step").is_in(list(steps)).fill_null(value=False).alias("mine"),
            pl.col("step").is_not_null().alias("placed"),
            pl.col("launch").is_not_null().alias("launched"),
        )
        .filter(inside | pl.col("mine"))
        .select("start", "end", "mine", "placed", "launched")
    )
