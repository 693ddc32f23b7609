"""Why the devices of a run idle, as far as findings speak of it: within its steps, where it has any.

Owns which pauses those are. What a pause is and why there is one says `idle`, what a step is `step_parts`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from tracehound.analysis import idle, step_parts
from tracehound.analysis.busy import work
from tracehound.analysis.result import Options, Share
from tracehound.analysis.stretches import BOUNDS
from tracehound.intervals import union


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The rows of `idle` for the parts of pauses in whole steps; of a rank without any for all pauses."""
    if share.steps.is_empty():
        return idle.per_rank(share, options)
    events = work(replace(share, device=share.anytime), "step", "launch")
    whole = step_parts.stretched(share, events, BOUNDS.of(options.given)).filter(~pl.col("partial"))
    if whole.is_empty():
        return idle.per_rank(share, options)
    return idle.within(share, options, union(whole["start"].to_numpy(), whole["end"].to_numpy()))


ANALYSIS: Final = replace(idle.ANALYSIS, name="pauses", per_rank=per_rank)
"""That of `idle`, of these pauses; under a name of its own, by which its tables are remembered."""
