"""The clock of a device, for files that have it beside the trace's (TPU), and event lengths measured on it.

Profilers align a device's times to its host's clock in pieces, so that the trace's clock may jump in the middle of an
op; lengths are those of the device's own clock. All conversions from the trace's clock to the device's, and all
clipping of events, happen here. The time that a device had (`device_time_bounds`) is the base of shares of idle time,
waits and duty cycles.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.rank_trace import RankTrace, RunContext, SharedRankResult, device_lane_events
from tracehound.analysis.timing.device_busy import parent_rows, work_bounds
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.numeric.id_set import membership_mask
from tracehound.numeric.intervals import Intervals, Ints, union
from tracehound.numeric.self_time import self_time

DEVICE_TIMES: Final = ("device_start", "device_end")
"""Columns of events with their times on the device's own clock."""

CLOCK_TOLERANCE: Final = 0.01
"""If the clocks differ by more than this fraction of a length, a note says which clock is shown."""


class DeviceClock(NamedTuple):
    """Instants with both times known, in order: `trace` and `own`, ps; neither ever decreases."""

    trace: Ints
    own: Ints

    def to_device_start(self, instants: Ints) -> Ints:
        """Device times at which these instants of the trace begin.

        Times are interpolated between known instants; before the first and after the last both clocks run at the same
        rate.
        """
        return self._interpolate(instants, np.searchsorted(self.trace, instants, side="left"))

    def to_device_end(self, instants: Ints) -> Ints:
        """Device times at which these instants of the trace end.

        Different only if device time passed at one instant.
        """
        return self._interpolate(instants, np.searchsorted(self.trace, instants, side="right") - 1)

    def to_device_bounds(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Device starts and ends of these intervals; adjacent intervals stay adjacent."""
        begin = self.to_device_start(start)
        follows = membership_mask(end, start)
        return begin, np.maximum(begin, np.where(follows, self.to_device_start(end), self.to_device_end(end)))

    def to_device_intervals(self, intervals: Intervals) -> Intervals:
        """Intervals of the trace's time on the device's clock."""
        start, end = self.to_device_start(intervals.start), self.to_device_end(intervals.end)
        return union(start, np.maximum(start, end))

    @property
    def inverse(self) -> DeviceClock:
        """Conversion from the device's clock to the trace's."""
        return DeviceClock(self.own, self.trace)

    def _interpolate(self, instants: Ints, near: Ints) -> Ints:
        """Device times; `near` is the index of an equal known instant, or of a neighbor."""
        last = len(self.trace) - 1
        near = np.clip(near, 0, last)
        before = np.where(self.trace[near] <= instants, near, np.maximum(near - 1, 0))
        after = np.where(self.trace[near] >= instants, near, np.minimum(near + 1, last))
        since = instants - self.trace[before]
        width = self.trace[after] - self.trace[before]
        pace = (self.own[after] - self.own[before]) / np.maximum(width, 1)
        inside = np.rint(since * np.where(width > 0, pace, 1.0)).astype(np.int64)
        return np.asarray(self.own[before] + np.where(pace == 1.0, since, inside))


def has_device_clock(events: pl.DataFrame) -> bool:
    """True if all of this work has times on the device's own clock."""
    return events.height > 0 and not events["device_start"].null_count() and not events["device_end"].null_count()


def fit_device_clock(events: pl.DataFrame) -> DeviceClock | None:
    """The clock defined by these events (start, end and `DEVICE_TIMES`).

    None if one lacks device times, or without events. Starts and ends are the known instants. Where the clocks disagree
    on the order of two, the later time holds.
    """
    if not has_device_clock(events):
        return None
    trace, own = (
        np.column_stack([events[first].to_numpy(), events[last].to_numpy()]).ravel() for first, last in _CLOCK_PAIRS
    )
    if np.any(trace[1:] < trace[:-1]) or np.any(own[1:] < own[:-1]):  # false if ops follow one another
        order = np.lexsort((own, trace))
        trace, own = trace[order], np.maximum.accumulate(own[order])
    return DeviceClock(trace, own)


_CLOCK_PAIRS: Final = (("start", "end"), DEVICE_TIMES)


def device_clock_windows(events: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """`[start, end)` on the device clock of each lane whose events (`lane`, start, end, `DEVICE_TIMES`) all have it.

    One row per such lane: `lane`, `from` and `until`, ps.
    """
    found = list[tuple[int, int, int]]()
    if events["device_start"].null_count() < events.height:
        bounds = np.array([start, end], np.int64)
        for (lane,), rows in (
            events.select("lane", *_CLOCK_PAIRS[0], *DEVICE_TIMES).partition_by("lane", as_dict=True).items()
        ):
            if clock := fit_device_clock(rows):
                found.append((lane, int(clock.to_device_start(bounds)[0]), int(clock.to_device_end(bounds)[1])))
    return pl.DataFrame(found, schema=dict.fromkeys(("lane", "from", "until"), pl.Int64), orient="row")


def device_clock(rank_trace: RankTrace) -> DeviceClock | None:
    """The clock of a rank's device, from all its events at any time; None if it has none."""
    return _RANK_CLOCK.result_for(rank_trace)


def _fit_rank_clock(rank_trace: RankTrace) -> DeviceClock | None:
    lanes = rank_trace.lanes.filter(pl.col("rank").is_not_null() & pl.col("work") & (pl.col("role") != "stream"))
    ran = device_lane_events(rank_trace, lanes["lane"].to_list())
    unknown, rows = collect_frame(ran.select(pl.col("device_start").null_count(), pl.len().alias("rows"))).row(0)
    return None if unknown or not rows else fit_device_clock(collect_frame(ran.select("start", "end", *DEVICE_TIMES)))


_RANK_CLOCK: Final = SharedRankResult(_fit_rank_clock)


def steps_in_window(rank_trace: RankTrace, clock: DeviceClock | None) -> pl.DataFrame:
    """The steps of a rank (step, start, end, inferred, event), clipped to the window; ps.

    `from` and `until` are their bounds on this clock, without one those on the trace's.
    """
    steps = rank_trace.steps.filter(rank_trace.is_chosen_step)
    low, high = pl.col("start").clip(lower_bound=rank_trace.start), pl.col("end").clip(upper_bound=rank_trace.end)
    parts = steps.select(pl.col("step").cast(pl.Int64), low, high, "inferred", "event")
    start, end = parts["start"].to_numpy(), parts["end"].to_numpy()
    begin, until = (start, end) if clock is None else clock.to_device_bounds(start, end)
    return parts.with_columns(pl.Series("from", begin, pl.Int64), pl.Series("until", until, pl.Int64))


def clock_difference_notes(what: str, own: pl.Series, traced: pl.Series) -> list[Note]:
    """A note if the clocks give `what` (lengths, ps) lengths that differ by more than `CLOCK_TOLERANCE`."""
    lengths = pl.DataFrame({"own": own, "traced": traced}).filter(pl.col("traced") > 0)
    far = lengths.filter((pl.col("own") - pl.col("traced")).abs() > CLOCK_TOLERANCE * pl.col("traced"))
    if far.is_empty():
        return []
    low, high = (int(far["traced"].sort()[place]) for place in (0, -1))
    return [note("lengths_by_device_clock", what=what, other=far.height, of=lengths.height, shortest=low, longest=high)]


def window_length_notes(lengths: pl.Series, context: RunContext) -> list[Note]:
    """A note if the window's length on the ranks' device clocks (`lengths`, ps) differs.

    It is made if one differs by more than `CLOCK_TOLERANCE`.
    """
    traced = [end - start for start, end in context.rank_windows] or [context.end - context.start]
    least, most = min(traced), max(traced)
    far = (lengths < (1 - CLOCK_TOLERANCE) * least) | (lengths > (1 + CLOCK_TOLERANCE) * most)
    if not context.windowed or not far.any():
        return []
    low, high = (int(lengths.sort()[place]) for place in (0, -1))
    return [note("window_by_device_clock", shortest=low, longest=high, window=most)]


class ClockedWork(NamedTuple):
    """Work of a device, and the bounds of the time that it had for it, all on one clock; ps."""

    events: pl.DataFrame
    start: int
    end: int

    @property
    def device_time(self) -> int:
        """From the first to the last of the work, or the length of the window."""
        return self.end - self.start

    @property
    def busy_time(self) -> int:
        """Time with work; the rest is XProf's idle time."""
        start, end = (self.events[name].clip(self.start, self.end).to_numpy() for name in ("start", "end"))
        return union(start, end).length


def work_on_device_clock(events: pl.DataFrame, rank_trace: RankTrace) -> ClockedWork:
    """The work of a device with `start` and `end` on its own clock, if all of it has one (TPU), else unchanged.

    The bounds of a window are moved to that clock, too. `events` has lane, parent and `DEVICE_TIMES`. The two clocks
    may differ by jumps in the middle of an op: an event that no longer lies inside its parent has no parent.
    """
    if not has_device_clock(events):
        return ClockedWork(events, *device_time_bounds(events, rank_trace))
    moved = events.with_columns(start="device_start", end="device_end")
    if moved["parent"].null_count() < moved.height:
        around, start, end = parent_rows(moved), moved["start"].to_numpy(), moved["end"].to_numpy()
        inside = pl.Series((around >= 0) & (start >= start[around]) & (end <= end[around]))
        moved = moved.with_columns(pl.when(inside).then("parent").alias("parent"))
    return ClockedWork(moved, *device_time_bounds(events, rank_trace))


def device_time_bounds(events: pl.DataFrame, rank_trace: RankTrace) -> tuple[int, int]:
    """Bounds of the time that a device had for this work.

    They are `ClockedWork.start` and `ClockedWork.end`, on the same clock.
    """
    if not has_device_clock(events):
        return work_bounds(events, rank_trace)
    if rank_trace.windowed:
        windows = _lane_windows(events, rank_trace)
        return int(windows["from"].to_numpy().min()), int(windows["until"].to_numpy().max())
    return int(events["device_start"].to_numpy().min()), int(events["device_end"].to_numpy().max())


def steps_lines(rank_trace: RankTrace) -> pl.DataFrame:
    """The lanes with the steps that the device itself recorded, such as a TPU's line Steps."""
    return rank_trace.lanes.filter((pl.col("role") == "steps") & pl.col("rank").is_not_null())


def time_outside_work(events: pl.DataFrame, rank_trace: RankTrace) -> int:
    """The part of the device's Steps line before the first and after the last of this work, ps; 0 in a window.

    XProf counts it as idle device time.
    """
    lines = steps_lines(rank_trace).drop_nulls("first")
    if rank_trace.windowed or lines.is_empty() or events.is_empty():
        return 0
    first, last = int(lines["first"].to_numpy().min()), int(lines["last"].to_numpy().max())
    start, end = int(events["start"].to_numpy().min()), int(events["end"].to_numpy().max())
    return max(0, start - first) + max(0, last - end)


def xprof_idle_notes(idle: int, device_time: int, outside: int) -> list[Note]:
    """A note with XProf's idle share if the Steps lines make device time longer (by `outside`)."""
    if outside <= CLOCK_TOLERANCE / 10 * device_time:
        return []
    return [note("xprof_device_time", idle=idle + outside, of=device_time + outside)]


def _lane_windows(events: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """The window on the device clocks of the lanes of this work, from all events of these lanes.

    With the events of the window alone, its end would differ from the start of the next window.
    """
    ran = collect_frame(
        device_lane_events(rank_trace, events["lane"].unique().to_list()).select("lane", "start", "end", *DEVICE_TIMES)
    )
    found = device_clock_windows(ran, rank_trace.start, rank_trace.end)
    return found if found.height else device_clock_windows(events, rank_trace.start, rank_trace.end)


def idle_window_length(rank_trace: RankTrace) -> int:
    """Length of the window, for a device that idles in all of it; 0 without a window or any work lanes; ps."""
    works = rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null()).height > 0
    return rank_trace.end - rank_trace.start if rank_trace.windowed and works else 0


EVENT_LENGTH: Final = pl.coalesce(pl.col("device_end") - pl.col("device_start"), pl.col("end") - pl.col("start"))
"""Length of a whole event, on the device's own clock if it has one; ps."""


def measure_events(events: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """`events` (sorted by id) with `length` and `own` (self time), in ps, of their part inside `[start, end)`.

    Events of lanes with a device clock (TPU) are measured on that, as XProf does for all op metrics; the bounds of the
    window are moved to it, too, so that a part of an event is never longer than the window. Self time is the length of
    the clipped event without its clipped children.
    """
    if events.select(((pl.col("start") >= start) & (pl.col("end") <= end)).all()).item():
        return events.with_columns(EVENT_LENGTH.alias("length"), pl.col("self").alias("own"))
    placed = events.join(device_clock_windows(events, start, end), on="lane", how="left", maintain_order="left")
    clocked = pl.col("from").is_not_null()
    low, high = pl.col("from").fill_null(start), pl.col("until").fill_null(end)
    begin, finish = (
        pl.max_horizontal(low, pl.min_horizontal(high, pl.when(clocked).then(f"device_{side}").otherwise(side))).alias(
            side
        )
        for side in ("start", "end")
    )
    begins, ends = (times.to_numpy() for times in placed.select(begin, finish))
    ends = np.maximum(ends, begins)
    own = self_time(begins, ends, parent_rows(events))
    return events.with_columns(pl.Series("length", ends - begins), pl.Series("own", own))
