"""The time that a device had: what idle, waits and duty cycles are shares of.

Owns the choice of the clock for it.
"""

from __future__ import annotations

import polars as pl

from tracehound.analysis.busy import bounds
from tracehound.analysis.result import Share
from tracehound.intervals import union

CLOCKED = ("start", "end", "device_start", "device_end")
"""The columns of events that are needed."""


def core_time(events: pl.DataFrame, share: Share) -> tuple[int, int]:
    """Time from the first to the last of the rank's work, and the part of it in which work runs; ps.

    On the device's own clock where all events have it and nothing is cut by a window (TPU, as XProf's idle time), else
    on the trace's.
    """
    if share.windowed or events.is_empty() or events["device_start"].null_count():
        low, high = bounds(events, share)
        start, end = (events[name].clip(low, high).to_numpy() for name in ("start", "end"))
        return high - low, union(start, end).length
    start, end = (events[name].to_numpy() for name in ("device_start", "device_end"))
    return int(end.max() - start.min()), union(start, end).length
