"""The time that a device had: what idle, waits and duty cycles are shares of.

Owns the choice of the clock for it.
"""

from __future__ import annotations

import polars as pl

from tracehound.analysis.busy import bounds
from tracehound.analysis.result import Share
from tracehound.intervals import union

CLOCKED = ("device_start", "device_end")
"""The columns of events that are needed besides those of work."""


def on_own_clock(events: pl.DataFrame, share: Share) -> pl.DataFrame:
    """The work of a device, with `start` and `end` on its own clock where it has one (TPU), else as it is.

    Not in a window, whose bounds are on the trace's clock. The two may differ by jumps in the middle of an op: what
    lies no longer inside its parent has none.
    """
    if share.windowed or events.is_empty() or events["device_start"].null_count():
        return events
    moved = events.with_columns(pl.col("device_start").alias("start"), pl.col("device_end").alias("end"))
    around = moved.select(pl.col("id").alias("parent"), pl.col("start").alias("from"), pl.col("end").alias("until"))
    known = moved.join(around, on="parent", how="left", maintain_order="left")
    inside = (pl.col("start") >= pl.col("from")) & (pl.col("end") <= pl.col("until"))
    return known.with_columns(pl.when(inside).then("parent").alias("parent")).drop("from", "until")


def core_time(events: pl.DataFrame, share: Share) -> tuple[int, int]:
    """Time from the first to the last of the rank's work (or of the window), and the part of it in which work runs; ps.

    `events` are `on_own_clock`: so idle time is XProf's.
    """
    low, high = bounds(events, share)
    start, end = (events[name].clip(low, high).to_numpy() for name in ("start", "end"))
    return high - low, union(start, end).length
