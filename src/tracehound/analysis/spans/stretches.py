"""From when to when a step lasts: as marked, or until the work that it launched is done.

Owns how the marks of steps are stretched over device work that outlasts them. Knows no tables.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.result import Share
from tracehound.analysis.settings import Setting, one_of
from tracehound.intervals import Ints
from tracehound.trace import ON_CPU

BOUNDS: Final = Setting(
    "bounds",
    "work",
    "a step lasts until the work that it launched has ended (work), or as long as its mark (mark)",
    one_of("work", "mark"),
)


def stretches(share: Share, events: pl.DataFrame, bounds: str) -> pl.DataFrame:
    """A rank's steps, which come in the order of their starts, with the times that the bounds say; ps.

    `events` is the device's work, with the columns `step` and `launch`; only work whose launch is known is of a step.
    By work no two steps share an instant: each begins when the one before has ended, and the first when other work has,
    as far as that ended before any of its own work began. These are the bounds of the PyTorch TensorBoard plugin; but
    on the devices of a CPU what nothing is known to have launched counts only where it began before the first mark.
    """
    steps = share.steps
    if bounds == "mark" or steps.is_empty():
        return steps
    work = events.select("start", "end", "launch", pl.when(pl.col("launch").is_not_null()).then("step").alias("step"))
    last = work.group_by("step").agg(pl.col("end").max().alias("last"), pl.col("start").min().alias("begun"))
    found = steps.join(last, on="step", how="left", maintain_order="left")
    start, end = found["start"].to_numpy(), found["end"].to_numpy()
    end = np.maximum.accumulate(np.maximum(end, found["last"].fill_null(int(start[0])).to_numpy()))
    before = np.append(_cleared(share, found, work), end[:-1])
    start = np.maximum(start, before)
    return found.drop("last", "begun").with_columns(pl.Series("start", start), pl.Series("end", np.maximum(end, start)))


def _cleared(share: Share, found: pl.DataFrame, work: pl.DataFrame) -> Ints:
    """When the work of no step that ended before the first step's own began has ended; else when that step starts.

    Much that runs on a CPU has no known launch, and hardly any of it waits: what began in the step was launched there.
    """
    start, begun = int(found["start"][0]), found["begun"][0]
    early = work.filter(pl.col("step").is_null() & (pl.col("start") < (start if begun is None else begun)))
    if share.label.startswith(ON_CPU):
        early = early.filter(pl.col("launch").is_not_null() | (pl.col("start") < start))
    if begun is not None:
        early = early.filter(pl.col("end") <= begun)
    latest = early["end"].max() if begun is not None else start
    return np.array([latest if isinstance(latest, int) else start], np.int64)
