"""Device work in a window of steps that belongs to other steps, and notes about it.

The marks of steps are the host's: a host that runs ahead of its device marks a step long before the device works on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.rank_trace import RankTrace, overlapping_events
from tracehound.analysis.result import Result
from tracehound.analysis.window_bounds import rank_windows
from tracehound.model.notes import Note, note
from tracehound.model.trace import CPU_LABEL, Trace, Window, collect_frame

SMALL_SHARE: Final = 0.25
"""A host that is ahead by less gets no note while the user goes from step to step."""

_NOTABLE_SHARE: Final = 0.01
"""A smaller part of the work gets no note."""

_ANALYSES_FOLLOWING_STEPS: Final = (
    "steps",
    "step_parts",
    "critical_path",
    "arrivals",
    "collective_calls",
    "stragglers",
)
"""Analyses that follow the work of steps, not their marks."""


class WindowWorkShares(NamedTuple):
    """Shares of the devices' work in a window of steps, and of the work of these steps.

    Of the work in the window: launched by `others`, and of `unknown` launch. Of the steps' work: run `outside` the
    window. `reach` bounds all work of the steps on any rank, the window included; ps.
    """

    others: float
    outside: float
    unknown: float
    reach: tuple[int, int]


def other_steps_note(trace: Trace, window: Window) -> Note | None:
    """A note with the share of the devices' work in a window of steps that is, or may be, of other steps.

    It also has the share of the steps' work that runs outside; None if all shares are small. All are shares of summed
    lengths. Work without a known launch may be of any step, but on a CPU, where hardly anything waits, and on devices
    without any recorded launch, work that began in a step is that step's.
    """
    if window.steps is None:
        return None
    found = _window_work_shares(trace, window, window.steps)
    others, outside, unknown = (part if part > _NOTABLE_SHARE else None for part in found[:3])
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


def with_other_steps_note(result: Result, trace: Trace, window: Window) -> Result:
    """The result of a window with that note, unless its analysis follows the steps itself."""
    why = None if result.analysis in _ANALYSES_FOLLOWING_STEPS else other_steps_note(trace, window)
    return replace(result, notes=(*result.notes, why)) if why else result


def other_steps_share(trace: Trace, window: Window) -> float:
    """Share of the devices' work in a window of steps that other steps launched; 0 if at most `SMALL_SHARE`."""
    others = _window_work_shares(trace, window, window.steps).others if window.steps else 0.0
    return others if others > SMALL_SHARE else 0.0


def unknown_steps_note(trace: Trace, window: Window, collect: Callable[[pl.LazyFrame], pl.DataFrame]) -> Note | None:
    """A note with the share of work in a window whose step is known only by its time; None if it is small.

    `collect` collects the events.
    """
    lanes = trace.lanes_of(window.ranks).filter(pl.col("rank").is_not_null() & pl.col("work"))
    if trace.steps.is_empty() or lanes.is_empty():
        return None
    low, high = window.clip_bounds(*trace.span)
    events = overlapping_events(trace.events(lanes["lane"].to_list()), low, high)
    time = pl.col("end").clip(upper_bound=high) - pl.col("start").clip(lower_bound=low)
    launched = pl.col("launch").is_not_null()
    sums = collect(events.group_by("lane").agg(time.sum().alias("time"), time.filter(launched).sum().alias("known")))
    of_ranks = sums.join(lanes.select("lane", "rank"), on="lane").group_by("rank").agg(pl.col("time", "known").sum())
    told_of = of_ranks.filter((pl.col("known") > 0) & ~pl.col("rank").is_in(_cpu_ranks(trace)))
    part = int((told_of["time"] - told_of["known"]).sum()) / max(1, int(of_ranks["time"].sum()))
    return note("work_of_unknown_steps", level="inferred", part=part) if part > _NOTABLE_SHARE else None


def _cpu_ranks(trace: Trace) -> list[int]:
    """The ranks that are CPUs."""
    return trace.ranks.filter(pl.col("label").str.starts_with(CPU_LABEL))["rank"].to_list()


def _window_work_shares(trace: Trace, window: Window, steps: Sequence[int]) -> WindowWorkShares:
    here = others = own = outside = unknown = 0
    reach = list[tuple[int, int]]()
    cpus = _cpu_ranks(trace)
    for rank, (start, end) in rank_windows(trace, window).items():
        rows = _rank_work(trace, rank, (start, end), steps)
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
    return WindowWorkShares(*parts, (min(begins), max(ends)))


class WorkOutsideMarks(NamedTuple):
    """Length of the work that the steps of a rank launched, and of its part outside their marks; ps."""

    work: int
    outside: int


NO_WORK_OUTSIDE: Final = WorkOutsideMarks(0, 0)
"""Value for analyses that do not use marks."""

STEP_COLUMNS: Final = ("step", "launch")
"""Columns of events with the step that launched them."""


def work_outside_marks(rank_trace: RankTrace, events: pl.DataFrame) -> WorkOutsideMarks:
    """Work outside the marks of steps among the device's `events` (with `STEP_COLUMNS`); nothing in a window."""
    if rank_trace.windowed:
        return NO_WORK_OUTSIDE
    marks = rank_trace.steps.select("step", low="start", high="end")
    mine = events.filter(pl.col("launch").is_not_null()).join(marks, on="step")
    within = pl.min_horizontal("end", "high") - pl.max_horizontal("start", "low")
    length = pl.col("end") - pl.col("start")
    sums = mine.select(length.sum().alias("length"), (length - within.clip(lower_bound=0)).sum().alias("outside"))
    return WorkOutsideMarks(*sums.row(0))


def outside_marks_notes(rows: pl.DataFrame) -> list[Note]:
    """A note if rows of steps, by their marks, lack a notable part of the work that the steps launched.

    `rows` have their `rank`, and `stepped` and `outside` from `work_outside_marks`.
    """
    ranks = rows.unique("rank")
    work, outside = int(ranks["stepped"].sum()), int(ranks["outside"].sum())
    return [note("work_outside_marks", part=outside / work)] if outside > _NOTABLE_SHARE * work else []


def _rank_work(trace: Trace, rank: int, bounds: tuple[int, int], steps: Sequence[int]) -> pl.DataFrame:
    """A rank's work in the window or of its steps: times, whether it is of these or of any step, and launched."""
    lanes = trace.lanes.filter((pl.col("rank") == rank) & pl.col("work"))["lane"].to_list()
    inside = (pl.col("start") < bounds[1]) & (pl.col("end") > bounds[0])
    return collect_frame(
        trace.events(lanes)
        .with_columns(
            pl.col("step").is_in(list(steps)).fill_null(value=False).alias("mine"),
            pl.col("step").is_not_null().alias("placed"),
            pl.col("launch").is_not_null().alias("launched"),
        )
        .filter(inside | pl.col("mine"))
        .select("start", "end", "mine", "placed", "launched")
    )
