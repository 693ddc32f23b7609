"""What host threads did in given stretches of time.

Owns the attribution of time on a thread to the innermost event that runs there. The base of `host` and `gaps`.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracehound.analysis.busy import local_parent
from tracehound.intervals import Intervals, Ints
from tracehound.nesting import Owned, own_stretches

THREADS = ("id", "lane", "start", "end", "name", "kind", "parent")
"""The columns of events that `during` needs."""


def during(threads: pl.DataFrame, windows: Intervals) -> pl.DataFrame:
    """For every window and host lane, which events ran there as the innermost, and for how long.

    `threads` are events of host lanes, sorted by id; `windows` a set of intervals. Returns `window` (its index),
    `lane`, `name`, `inside` (the nearest annotation around, null without one: it says what a frame of a library was
    called for), `time` (ps inside the window), `count` (events) and `event` (id of the one with the most time), sorted
    by (window, time descending). Time in which a thread has no event at all is not listed.
    """
    if len(windows.start):
        low, high = int(windows.start[0]), int(windows.end[-1])
        threads = threads.filter((pl.col("start") < high) & (pl.col("end") > low))
    start, end = threads["start"].to_numpy(), threads["end"].to_numpy()
    parent = local_parent(threads)
    owned = own_stretches(start, end, parent)
    window, row, time = _summed(*_overlaps(owned, windows), len(start))
    events = threads.select("lane", "name", _annotation(threads, parent), pl.col("id").alias("event"))[row]
    return (
        events.with_columns(pl.Series("window", window), pl.Series("time", time))
        .group_by("window", "lane", "name", "inside")
        .agg(
            pl.col("event").get(pl.col("time").arg_max()),  # of several the first: they come in the order of ids
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("time").sum(),
        )
        .with_columns(pl.col("name", "inside").cast(pl.String))
        .sort("window", "time", "lane", "name", "inside", descending=[False, True, False, False, False])
    )


def _annotation(threads: pl.DataFrame, parent: np.ndarray) -> pl.Series:
    """For every event the name of the nearest annotation that contains it."""
    around = nearest(parent, (threads["kind"] == "annotation").to_numpy())
    names = threads["name"].gather(np.maximum(around, 0))
    return pl.select(pl.when(pl.Series(around >= 0)).then(names).alias("inside")).to_series()


def nearest(parent: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """For every event the row of the nearest event around it that is marked, -1 without one.

    `parent` is the row of the event that directly contains it, -1 for none.
    """
    around = parent.copy()
    while True:
        climbing = np.flatnonzero((around >= 0) & ~marks[around])
        if not len(climbing):
            return around
        around[climbing] = parent[around[climbing]]


def _overlaps(owned: Owned, windows: Intervals) -> tuple[Ints, Ints, Ints]:
    """Every pair of a window and a stretch that overlap: window index, owner of the stretch, common length."""
    low = np.searchsorted(windows.end, owned.start, side="right")
    high = np.searchsorted(windows.start, owned.end, side="left")
    pairs = np.maximum(high - low, 0)
    stretch = np.repeat(np.arange(len(pairs)), pairs)
    first = np.repeat(np.cumsum(pairs) - pairs, pairs)
    window = low[stretch] + np.arange(len(stretch)) - first
    start = np.maximum(owned.start[stretch], windows.start[window])
    end = np.minimum(owned.end[stretch], windows.end[window])
    return window, owned.owner[stretch], end - start


def _summed(window: Ints, row: Ints, time: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """The time of each of `count` events in each window, in the order of windows and events, where there is any."""
    place = window * count + row
    order = np.argsort(place, kind="stable")
    place = place[order]
    first = np.flatnonzero(np.diff(place, prepend=-1))
    window, row = np.divmod(place[first], max(1, count))
    return window, row, np.add.reduceat(time[order], first) if len(first) else time
