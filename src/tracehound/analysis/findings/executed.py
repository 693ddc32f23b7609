"""What streams of a rank carried out, as far as findings speak of it: within its steps, where it has any.

Owns how long each kernel, copy or memset ran then. What they are, and which rule minds, is not its.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from tracehound.analysis.result import Share
from tracehound.intervals import Intervals, covered, union
from tracehound.trace import collected


def executed(share: Share, in_steps: Callable[[], Intervals | None]) -> pl.DataFrame:
    """For each name how long it ran in whole steps, without any in the window: rank, name, total (ps), event.

    `total` is the sum of what of its executions lies there, `event` the one of which most does.
    """
    streams = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null() & (pl.col("role") == "stream"))
    steps = in_steps() if streams.height else None
    events = share.device if steps is None else share.anytime
    rows = collected(
        events.filter(pl.col("lane").is_in(streams["lane"].to_list())).select("id", "name", "start", "end")
    )
    when = union(np.array([share.start]), np.array([share.end])) if steps is None else steps
    inside = covered(when, rows["start"].to_numpy(), rows["end"].to_numpy())
    length = pl.col("length")
    ran = rows.select("id", "name", pl.Series("length", inside)).filter(length > 0)
    return (
        ran.group_by("name")
        .agg(length.sum().alias("total"), pl.col("id").sort_by(length, "id", descending=[True, False]).first())
        .select(pl.lit(share.rank, pl.Int64).alias("rank"), pl.col("name").cast(pl.String), "total", event="id")
        .sort("name")
    )
