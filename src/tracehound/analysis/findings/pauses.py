"""Why the devices of a run idle, as far as findings speak of it: within its steps, where it has any.

Owns which pauses those are. What a pause is and why there is one says `idle`, what a step is `step_parts`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis import idle, step_parts
from tracehound.analysis.busy import bounds, work
from tracehound.analysis.result import Options, Share
from tracehound.analysis.stretches import BOUNDS
from tracehound.intervals import union


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The rows of `idle` for what is idle in whole steps; of a rank without any in the window, or between its work."""
    events = work(replace(share, device=share.anytime), "step", "launch")
    whole = _steps(share, events, options)
    if whole.height:
        return idle.within(share, options, union(whole["start"].to_numpy(), whole["end"].to_numpy()))
    low, high = bounds(events, share)
    return idle.within(share, options, union(np.array([low]), np.array([high])))


def _steps(share: Share, events: pl.DataFrame, options: Options) -> pl.DataFrame:
    """The whole steps, of a window those whose marks lie in it whole: start and end."""
    if share.steps.is_empty():
        return pl.DataFrame()
    found = step_parts.stretched(share, events, BOUNDS.of(options.given)).filter(~pl.col("partial"))
    inside = (pl.col("start") >= share.start) & (pl.col("end") <= share.end)
    return found.filter(pl.col("event").is_in(share.steps.filter(inside)["event"].implode()))


ANALYSIS: Final = replace(idle.ANALYSIS, name="pauses", per_rank=per_rank)
"""That of `idle`, of these pauses; under a name of its own, by which its tables are remembered."""
