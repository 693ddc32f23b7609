"""The length and self time of events in a window.

Owns the one place where events are clipped and where a device's own clock is preferred.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.events.busy import local_parent
from tracehound.analysis.events.own_clock import own_windows
from tracehound.own_time import self_time

LENGTH: Final = pl.coalesce(pl.col("device_end") - pl.col("device_start"), pl.col("end") - pl.col("start"))
"""How long a whole event took: by the device's own clock where it has one; ps."""


def measured(events: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """`events` (sorted by id) with `length` and `own`, in ps, of what lies inside `[start, end)`.

    Events of lanes that have the device's own clock (TPU) are measured on that, as XProf does for all op metrics: the
    bounds of the window are put on it too, so that a part of an event is never longer than the window is there. Self
    time is what the clipped event has for itself, without its children there.
    """
    if events.select(((pl.col("start") >= start) & (pl.col("end") <= end)).all()).item():
        return events.with_columns(LENGTH.alias("length"), pl.col("self").alias("own"))
    placed = events.join(own_windows(events, start, end), on="lane", how="left", maintain_order="left")
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
    own = self_time(begins, ends, local_parent(events))
    return events.with_columns(pl.Series("length", ends - begins), pl.Series("own", own))
