"""From when to when a window lasts: on each rank, on each host, on each lane.

Owns that a window of steps lasts otherwise on every rank. Knows no events.
"""

from __future__ import annotations

import polars as pl

from tracehound.trace import Trace, Window

Span = tuple[int, int]
"""Start and end, ps."""


def of_ranks(trace: Trace, window: Window) -> dict[int, Span]:
    """The window on each of its ranks, in the order of ranks; a rank that has none of its steps is not in it.

    With steps it goes on every rank from the first start to the last end of those that it has: its own, or those of
    the host that drives it.
    """
    ranks = trace.ranks if window.ranks is None else trace.ranks.filter(pl.col("rank").is_in(list(window.ranks)))
    whole = window.within(*trace.span)
    if window.steps is None:
        return dict.fromkeys(ranks["rank"].to_list(), whole)
    steps = of_their_ranks(trace, ranks).filter(pl.col("step").is_in(list(window.steps)))
    bounds = steps.group_by("rank").agg(pl.col("start").min(), pl.col("end").max())
    found = ranks.select("rank").join(bounds, on="rank", maintain_order="left")
    return {rank: window.within(start, end) for rank, start, end in found.iter_rows()}


def of_their_ranks(trace: Trace, ranks: pl.DataFrame) -> pl.DataFrame:
    """The steps of these ranks, each for every rank that has it: rank, step, start, end."""
    columns = ("rank", "step", "start", "end")
    driven = ranks.select("rank", "host")
    own = trace.steps.join(driven.select("rank"), on="rank").select(columns)
    of_host = trace.steps.filter(pl.col("rank").is_null()).drop("rank").join(driven, on="host").select(columns)
    return pl.concat([own, of_host])


def of_hosts(trace: Trace, ranks: dict[int, Span]) -> dict[int, Span]:
    """The window on each host, by the windows of the ranks that it drives: from the first start to the last end."""
    found = dict[int, Span]()
    for rank, host in trace.ranks.select("rank", "host").iter_rows():
        if rank in ranks:
            (start, end), (low, high) = ranks[rank], found.get(host, ranks[rank])
            found[host] = (min(start, low), max(end, high))
    return found


def of_lanes(trace: Trace, window: Window) -> dict[int, Span]:
    """The window on each lane of its ranks and of the hosts that drive them."""
    if window.steps is None:
        return dict.fromkeys(trace.lanes_of(window.ranks)["lane"].to_list(), window.within(*trace.span))
    ranks = of_ranks(trace, window)
    hosts = of_hosts(trace, ranks)
    found = dict[int, Span]()
    for lane, host, rank in trace.lanes_of(window.ranks).select("lane", "host", "rank").iter_rows():
        span = hosts.get(host) if rank is None else ranks.get(rank)
        if span is not None:
            found[lane] = span
    return found
