"""The stretches of time of a run that are compared with those of another: its steps, or what stands in for them.

Owns which they are. Knows no op.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.busy import bounds
from tracehound.analysis.result import Share
from tracehound.diff.names import module_name
from tracehound.intervals import Ints
from tracehound.trace import collected


class Stretches(NamedTuple):
    """Stretches of one rank in order, that do not overlap: their numbers, bounds in ps, and what they are."""

    number: Ints
    start: Ints
    end: Ints
    what: str


def stretches(share: Share, work: pl.DataFrame) -> Stretches:
    """The steps of a rank that lie in its window; else the executions of its longest module; else its whole `work`."""
    steps = _inside(share.steps.select("step", "start", "end"), share)
    if steps.height:
        return _apart(steps, "steps")
    module, runs = _executions(share)
    if runs.height:
        return _apart(runs.with_row_index("step"), f"executions of {module}")
    low, high = bounds(work, share)
    number, start, end = (np.array([value], np.int64) for value in (0, low, high))
    return Stretches(number, start, end, "the whole run")


def _inside(found: pl.DataFrame, share: Share) -> pl.DataFrame:
    return found.filter(
        (pl.col("start") >= share.start) & (pl.col("end") <= share.end) & (pl.col("end") > pl.col("start"))
    )


def _executions(share: Share) -> tuple[str, pl.DataFrame]:
    """The module that takes most time on the device, and when it ran."""
    lanes = share.lanes.filter((pl.col("role") == "modules") & pl.col("rank").is_not_null())["lane"]
    if lanes.is_empty():
        return "", pl.DataFrame()
    runs = collected(share.device.filter(pl.col("lane").is_in(lanes.to_list())).select("name", "start", "end"))
    named = _inside(runs, share).with_columns(
        pl.col("name").cast(pl.String).map_elements(module_name, return_dtype=pl.String)
    )
    if named.is_empty():
        return "", pl.DataFrame()
    time = named.group_by("name").agg((pl.col("end") - pl.col("start")).sum().alias("time"))
    longest = str(time.sort("time", "name", descending=[True, False])["name"][0])
    return longest, named.filter(pl.col("name") == longest).select("start", "end").sort("start")


def _apart(found: pl.DataFrame, what: str) -> Stretches:
    """In order; of those that overlap the first stays."""
    rows = found.sort("start", "end")
    number, start, end = (rows[name].cast(pl.Int64).to_numpy() for name in ("step", "start", "end"))
    reach = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end)[:-1])
    keep = start >= reach
    return Stretches(number[keep], start[keep], end[keep], what)
