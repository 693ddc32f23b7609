"""Whether a device works on the steps of a window while these last, or on those before.

Owns when that is worth a word. The marks of steps are the host's: one that runs ahead of its device marks a step long
before the device comes to it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.windows import of_ranks
from tracehound.trace import Trace, Window, collected
from tracehound.units import share as percent

LITTLE: Final = 0.25
"""Of hosts that are ahead by a little nothing is said."""


def told(trace: Trace, window: Window) -> str:
    """How much of the devices' work in a window of steps was launched in other steps; "" where that is `LITTLE`."""
    others = share(trace, window)
    if not others:
        return ""
    return (
        f"{percent(others)} of the devices' work in this time was launched in other steps: the host runs ahead,"
        " and --step keeps to its marks; step_parts and critical_path follow a step until its own work is done"
    )


def share(trace: Trace, window: Window) -> float:
    """Of the devices' work in a window of steps what was launched in other steps; 0 where that is `LITTLE`."""
    if window.steps is None:
        return 0.0
    every = others = 0
    for rank, (start, end) in of_ranks(trace, window).items():
        lanes = trace.lanes.filter((pl.col("rank") == rank) & pl.col("work"))["lane"].to_list()
        inside = (pl.col("start") < end) & (pl.col("end") > start) & pl.col("step").is_not_null()
        rows = collected(trace.events(lanes).filter(inside).select("start", "end", "step"))
        time = np.minimum(rows["end"].to_numpy(), end) - np.maximum(rows["start"].to_numpy(), start)
        every += int(time.sum())
        others += int(time[~np.isin(rows["step"].to_numpy(), window.steps)].sum())
    return others / every if others > LITTLE * every else 0.0
