"""Bounds of a window on each rank, host and lane, and bounds of the window that a file is an export of.

A window of steps has other bounds on each rank. Knows no events.
"""

from __future__ import annotations

import polars as pl

from tracehound.model.ids import is_in_file
from tracehound.model.trace import Trace, Window, lanes_with_times

Interval = tuple[int, int]
"""Start and end, ps."""


def rank_windows(trace: Trace, window: Window) -> dict[int, Interval]:
    """The window on each of its ranks, in the order of ranks; ranks that have none of its steps are left out.

    With steps it goes on each rank from the first start to the last end of the rank's steps: its own, or those of the
    host that drives it.
    """
    ranks = trace.ranks if window.ranks is None else trace.ranks.filter(pl.col("rank").is_in(list(window.ranks)))
    bounds_of_run = window.clip_bounds(*trace.span)
    if window.steps is None:
        return dict.fromkeys(ranks["rank"].to_list(), bounds_of_run)
    steps = steps_per_rank(trace, ranks).filter(pl.col("step").is_in(list(window.steps)))
    bounds = steps.group_by("rank").agg(pl.col("start").min(), pl.col("end").max())
    found = ranks.select("rank").join(bounds, on="rank", maintain_order="left")
    return {rank: window.clip_bounds(start, end) for rank, start, end in found.iter_rows()}


def steps_per_rank(trace: Trace, ranks: pl.DataFrame) -> pl.DataFrame:
    """The steps of these ranks, each for every rank that has it: rank, step, start, end."""
    columns = ("rank", "step", "start", "end")
    driven = ranks.select("rank", "host")
    own = trace.steps.join(driven.select("rank"), on="rank").select(columns)
    of_host = trace.steps.filter(pl.col("rank").is_null()).drop("rank").join(driven, on="host").select(columns)
    return pl.concat([own, of_host])


def host_windows(trace: Trace, ranks: dict[int, Interval]) -> dict[int, Interval]:
    """The window on each host, from the first start to the last end of the windows of its ranks."""
    found = dict[int, Interval]()
    for rank, host in trace.ranks.select("rank", "host").iter_rows():
        if rank in ranks:
            (start, end), (low, high) = ranks[rank], found.get(host, ranks[rank])
            found[host] = (min(start, low), max(end, high))
    return found


def lane_windows(trace: Trace, window: Window) -> dict[int, Interval]:
    """The window on each lane of its ranks and of the hosts that drive them."""
    if window.steps is None:
        return dict.fromkeys(trace.lanes_of(window.ranks)["lane"].to_list(), window.clip_bounds(*trace.span))
    ranks = rank_windows(trace, window)
    hosts = host_windows(trace, ranks)
    found = dict[int, Interval]()
    for lane, host, rank in trace.lanes_of(window.ranks).select("lane", "host", "rank").iter_rows():
        span = hosts.get(host) if rank is None else ranks.get(rank)
        if span is not None:
            found[lane] = span
    return found


TimeBounds = tuple[int | None, int | None]
"""Start and end, ps of the trace; None without one."""

UNBOUNDED: TimeBounds = (None, None)


def exported_bounds(trace: Trace, number: int) -> TimeBounds:
    """Bounds of the window that a file is an export of, on the trace's clock.

    The file's first event or sample tells the offset of that clock.
    """
    part = trace.parts[number]
    window = part.facts.exported_window
    if window is None or (recorded := part.time_range) is None:
        return UNBOUNDED
    first = lanes_with_times(trace.lanes.filter(is_in_file("lane", number)))["first"].to_numpy().min()
    start, end = (None if time is None else time + int(first) - recorded[0] for time in (window.start, window.end))
    return start, end


def intersect_bounds(*every: TimeBounds) -> TimeBounds:
    """The intersection of these bounds."""
    starts, ends = ([time for time in times if time is not None] for times in zip(*every, strict=True))
    return max(starts, default=None), min(ends, default=None)
