"""The length and self time of events in a window.

Owns the one place where events are clipped and where a device's own clock is preferred.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracehound.analysis.busy import local_parent
from tracehound.nesting import self_time


def measured(events: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """`events` (sorted by id) with `length` and `own`, in ps, of what lies inside `[start, end)`.

    An event that lies inside as a whole is measured on its device's own clock where it has one (TPU: as XProf does
    for all op metrics); one that straddles an edge is clipped on the trace's clock, and its self time is what is left
    of the clipped event by its clipped children. The two clocks are never mixed within one subtraction.
    """
    clipped = events.select(
        pl.min_horizontal("end", pl.lit(end)) - pl.max_horizontal("start", pl.lit(start)),
    ).to_series()
    whole = events.select((pl.col("start") >= start) & (pl.col("end") <= end)).to_series()
    exact = events.select(
        pl.coalesce(pl.col("device_end") - pl.col("device_start"), pl.col("end") - pl.col("start"))
    ).to_series()
    if whole.all():
        return events.with_columns(exact.alias("length"), pl.col("self").alias("own"))
    own = self_time(np.maximum(clipped.to_numpy(), 0), local_parent(events))
    return events.with_columns(
        pl.select(pl.when(whole).then(exact).otherwise(clipped)).to_series().alias("length"),
        pl.select(pl.when(whole).then(events["self"]).otherwise(pl.Series(own))).to_series().alias("own"),
    )
