"""The compared intervals of a run, its steps or their substitutes, and the work of the device in them.

Owns the choice of intervals and the rule that gives each instant of a device's time to one op, or to none: so the times
of ops and the idle time add up to the time that passed. Knows no names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.rank_trace import RankTrace, overlapping_events
from tracehound.analysis.timing.device_busy import work_bounds
from tracehound.analysis.timing.device_clock import DeviceClock, device_clock, has_device_clock, work_on_device_clock
from tracehound.analysis.timing.rank_steps import inference_phases, partial_steps
from tracehound.analysis.timing.rank_steps import step_intervals as lasting_work
from tracehound.diff.op_identity import DEVICE_WORK, compared_events, module_name_without_id
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import (
    EMPTY_INTERVALS,
    Intervals,
    Ints,
    Mask,
    clip,
    covered_lengths,
    merge,
    overlapping_pairs,
    union,
)
from tracehound.numeric.self_time import OwnedIntervals


class ComparedIntervals(NamedTuple):
    """Intervals of one rank in order, without overlap: their numbers, bounds in ps, and their kind.

    `phase` has the phase of inference (prefill, decode, mixed) of each, "" where there is none; None: nobody has one.
    """

    number: Ints
    start: Ints
    end: Ints
    what: str
    phase: pl.Series | None = None


class ComparedWork(Struct, frozen=True, eq=False):
    """The compared work of a rank: `events` (`of` is their kind, see `compared_events`) in these `intervals`.

    `rank_trace` is the rank's; with a window it includes everything that its steps overlap. `partial` is a mask of the
    partial steps. Times are the trace's; `clock` is the device's own, where that measures the intervals.
    """

    rank_trace: RankTrace
    events: pl.DataFrame
    of: str
    intervals: ComparedIntervals
    partial: Mask | None = None
    clock: DeviceClock | None = None

    def on_own_clock(self) -> ComparedWork:
        """The work with the times of events and intervals on the clock that measures them."""
        if self.clock is None:
            return self
        start, end = self.clock.to_device_bounds(self.intervals.start, self.intervals.end)
        events = work_on_device_clock(self.events, self.rank_trace).events
        return replace(self, events=events, intervals=self.intervals._replace(start=start, end=end))

    @property
    def time_outside_intervals(self) -> tuple[int, int]:
        """The time in which events run in no interval, and the time in which any run at all; ps in the window."""
        start, end = work_bounds(self.events, self.rank_trace)
        busy = clip(union(self.events["start"].to_numpy(), self.events["end"].to_numpy()), start, end)
        return busy.length - int(covered_lengths(busy, self.intervals.start, self.intervals.end).sum()), busy.length


def compared_work(rank_trace: RankTrace) -> ComparedWork:
    """The marked steps of a rank in its window; else the executions of its longest module; else its whole work.

    A step lasts until the work that it launched has ended, and begins when the step before has (the bounds of
    `step_parts`): so work that runs behind the host belongs to the step that launched it, and none of it is lost at the
    last one. Where the operators of the host are compared it has the length of its mark.
    """
    every = _drop_overlapping(rank_trace.steps.filter(pl.col("end") > pl.col("start")))
    marked = every.select(rank_trace.is_chosen_step & _lies_in_window(rank_trace)).to_series()
    if marked.any():
        return _work_of_steps(rank_trace, every, marked)
    events, of = compared_events(rank_trace)
    module, runs = _longest_module_executions(rank_trace)
    clock = device_clock(rank_trace) if has_device_clock(events) else None
    if runs.height:
        intervals = _compared_intervals(_drop_overlapping(runs.with_row_index("step")), f"executions of {module}")
        return ComparedWork(rank_trace, events, of, intervals, clock=clock)
    low, high = work_bounds(events, rank_trace)
    whole = pl.DataFrame({"step": [0], "start": [low], "end": [high]})
    return ComparedWork(
        rank_trace, events, of, _compared_intervals(whole, IN_WINDOW if rank_trace.windowed else WHOLE_RUN), clock=clock
    )


WHOLE_RUN: Final = "the whole run"
IN_WINDOW: Final = "the window"
"""Compared where there are no steps and no executions."""


def _work_of_steps(rank_trace: RankTrace, every: pl.DataFrame, marked: pl.Series) -> ComparedWork:
    """The work of the marked ones of all steps of the rank."""
    events, of = compared_events(replace(rank_trace, device=rank_trace.device_anytime))
    lasting = lasting_work(replace(rank_trace, steps=every), events, "work") if of == DEVICE_WORK else every
    cut = rank_trace.steps["event"].filter(partial_steps(rank_trace, events if of == DEVICE_WORK else events.clear()))
    lacking = every["event"].filter(marked).is_in(cut.implode()).to_numpy()
    intervals = _compared_intervals(lasting.filter(marked), "steps")
    clock = device_clock(rank_trace) if has_device_clock(events) and not every["rank"].null_count() else None
    if not rank_trace.windowed:
        return ComparedWork(rank_trace, events, of, intervals, lacking, clock)
    low, high = min(rank_trace.start, int(intervals.start[0])), max(rank_trace.end, int(intervals.end[-1]))
    reached = replace(rank_trace, start=low, end=high, device=overlapping_events(rank_trace.device_anytime, low, high))
    seen = collect_frame(overlapping_events(events.lazy(), low, high))
    return ComparedWork(reached, seen, of, intervals, lacking, clock)


def _lies_in_window(rank_trace: RankTrace) -> pl.Expr:
    """An expression: the row is inside the window."""
    return (pl.col("start") >= rank_trace.start) & (pl.col("end") <= rank_trace.end)


def _longest_module_executions(rank_trace: RankTrace) -> tuple[str, pl.DataFrame]:
    """The module that takes most time on the device, and its executions."""
    lanes = rank_trace.lanes.filter((pl.col("role") == "modules") & pl.col("rank").is_not_null())["lane"]
    if lanes.is_empty():
        return "", pl.DataFrame()
    runs = collect_frame(rank_trace.device.filter(pl.col("lane").is_in(lanes.to_list())).select("name", "start", "end"))
    named = runs.filter(_lies_in_window(rank_trace) & (pl.col("end") > pl.col("start"))).with_columns(
        pl.col("name").cast(pl.String).map_elements(module_name_without_id, return_dtype=pl.String)
    )
    if named.is_empty():
        return "", pl.DataFrame()
    time = named.group_by("name").agg((pl.col("end") - pl.col("start")).sum().alias("time"))
    longest = str(time.sort("time", "name", descending=[True, False])["name"][0])
    return longest, named.filter(pl.col("name") == longest).select("start", "end").sort("start")


def _drop_overlapping(found: pl.DataFrame) -> pl.DataFrame:
    """The rows in order; of overlapping ones the first stays."""
    rows = found.sort("start", "end")
    reach = pl.col("end").cum_max().shift(1)
    return rows.filter(reach.is_null() | (pl.col("start") >= reach))


def _compared_intervals(found: pl.DataFrame, what: str) -> ComparedIntervals:
    """The intervals of a frame with step, start and end."""
    number, start, end = (found[name].cast(pl.Int64).to_numpy() for name in ("step", "start", "end"))
    phase = inference_phases(found["name"]).fill_null("") if "name" in found.columns else None
    return ComparedIntervals(number, start, end, what, phase)


COMPUTE_CLASS, COMMUNICATION_CLASS, COPY_CLASS = range(3)
"""Classes of work in the order in which they claim an instant; hidden communication costs nothing."""

WORK_CLASSES: Final = ("compute", "communication", "copy")


class EventTimes(NamedTuple):
    """Times of events in intervals, a row for each overlapping pair: the event's row, the interval's row, and ps."""

    event: Ints
    interval: Ints
    time: Ints


def self_times_by_interval(owned: OwnedIntervals, intervals: ComparedIntervals) -> EventTimes:
    """The self time of each event in each interval: overlapping events of several streams count in full."""
    event, interval, start, end = cut_at_intervals(owned.owner, owned.start, owned.end, intervals)
    return EventTimes(event, interval, end - start)


def exposed_times_by_interval(owned: OwnedIntervals, classes: Ints, intervals: ComparedIntervals) -> EventTimes:
    """The time of each event that no other event claims.

    Of the classes that run at an instant the first of `WORK_CLASSES` has it, and in a class the event that began first.
    These times of an interval add up to the time in which its device works. `classes` is of the events.
    """
    found: list[tuple[Ints, ...]] = []
    higher: Intervals = EMPTY_INTERVALS
    for number in range(len(WORK_CLASSES)):
        mine = classes[owned.owner] == number
        owner, start, end = _without_overlap(owned.owner[mine], owned.start[mine], owned.end[mine])
        event, interval, low, high = cut_at_intervals(owner, start, end, intervals)
        found.append((event, interval, high - low - covered_lengths(higher, low, high)))
        higher = merge(higher, union(start, end))
    return EventTimes(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _without_overlap(owner: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """The pieces of time without overlap: each begins where all before it have ended."""
    order = np.lexsort((owner, start))
    owner, start, end = owner[order], start[order], end[order]
    if len(start):
        start = np.maximum(start, np.append(start[0], np.maximum.accumulate(end)[:-1]))
    keep = end > start
    return owner[keep], start[keep], end[keep]


def cut_at_intervals(
    owner: Ints, start: Ints, end: Ints, intervals: ComparedIntervals
) -> tuple[Ints, Ints, Ints, Ints]:
    """Time ranges cut at the edges of intervals: owner, interval, start and end of each part inside one."""
    piece, interval = overlapping_pairs(start, end, Intervals(intervals.start, intervals.end))
    starts, ends = np.maximum(start[piece], intervals.start[interval]), np.minimum(end[piece], intervals.end[interval])
    return owner[piece], interval, starts, ends


def work_classes(kinds: Sequence[Mask]) -> Ints:
    """The class of each event, from the masks of communication and of copies, in that order."""
    communication, copies = kinds
    return np.where(communication, COMMUNICATION_CLASS, np.where(copies, COPY_CLASS, COMPUTE_CLASS))
