"""The time that a device had: the base of the shares of idle time, waits and duty cycles.

Owns the choice of the clock for it.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from tracehound.analysis.events.busy import bounds, local_parent
from tracehound.analysis.events.lane_rows import of_device
from tracehound.analysis.events.own_clock import CLOCKED, has_clock, own_windows
from tracehound.analysis.result import Share
from tracehound.intervals import union
from tracehound.trace import collected


class Worked(NamedTuple):
    """Work of a device, and from when to when it had time for it: all on one clock; ps."""

    events: pl.DataFrame
    start: int
    end: int

    @property
    def time(self) -> int:
        """From the first to the last of the work, or as long as the window."""
        return self.end - self.start

    @property
    def used(self) -> int:
        """The part of the time in which work runs: so idle time is XProf's."""
        start, end = (self.events[name].clip(self.start, self.end).to_numpy() for name in ("start", "end"))
        return union(start, end).length


def on_own_clock(events: pl.DataFrame, share: Share) -> Worked:
    """The work of a device with `start` and `end` on its own clock, where all of it has one (TPU), else as it is.

    The bounds of a window are put on that clock too. `events` has lane, parent and `CLOCKED`. The two clocks may differ
    by jumps in the middle of an op: what lies no longer inside its parent has none.
    """
    if not has_clock(events):
        return Worked(events, *core_time(events, share))
    moved = events.with_columns(start="device_start", end="device_end")
    if moved["parent"].null_count() < moved.height:
        around, start, end = local_parent(moved), moved["start"].to_numpy(), moved["end"].to_numpy()
        inside = pl.Series((around >= 0) & (start >= start[around]) & (end <= end[around]))
        moved = moved.with_columns(pl.when(inside).then("parent").alias("parent"))
    return Worked(moved, *core_time(events, share))


def core_time(events: pl.DataFrame, share: Share) -> tuple[int, int]:
    """From when to when a device had time for this work: `Worked.start` and `Worked.end`, on the same clock."""
    if not has_clock(events):
        return bounds(events, share)
    if share.windowed:
        windows = _windows(events, share)
        return int(windows["from"].to_numpy().min()), int(windows["until"].to_numpy().max())
    return int(events["device_start"].to_numpy().min()), int(events["device_end"].to_numpy().max())


def _windows(events: pl.DataFrame, share: Share) -> pl.DataFrame:
    """The window on the own clocks of the lanes of this work, by all that ever ran there.

    By what lies in the window alone an end would be elsewhere than the start of the window that follows.
    """
    ran = collected(of_device(share, events["lane"].unique().to_list()).select("lane", "start", "end", *CLOCKED))
    found = own_windows(ran, share.start, share.end)
    return found if found.height else own_windows(events, share.start, share.end)


def rest_time(share: Share) -> int:
    """The time of a device that rests for all of a window: as long as that, and 0 without a window or any work; ps."""
    works = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null()).height > 0
    return share.end - share.start if share.windowed and works else 0
