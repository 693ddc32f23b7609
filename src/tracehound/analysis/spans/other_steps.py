"""Whether a device works on the steps of a window while these last, or on those before, and comes to them later.

Owns when that is worth a word. The marks of steps are the host's: one that runs ahead of its device marks a step long
before the device comes to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.result import Result
from tracehound.analysis.spans.windows import of_ranks
from tracehound.trace import Trace, Window, collected
from tracehound.units import runs
from tracehound.units import share as percent

LITTLE: Final = 0.25
"""Of hosts that are ahead by a little nothing is said while one goes from step to step."""

_NOTED: Final = 0.01
"""A smaller part of the work is not worth a note."""

_FOLLOWING: Final = ("steps", "step_parts", "critical_path", "arrivals", "collective_calls", "stragglers")
"""What keeps to no marks."""


class Apart(NamedTuple):
    """Of the devices' work in a window of steps what `others` launched, of these steps' work what ran `outside`."""

    others: float
    outside: float


def told(trace: Trace, window: Window) -> str:
    """How much of the devices' work in a window of steps is not theirs, and how much of theirs not in it; "" if none.

    Both are shares of summed lengths of work that is known to be of a step.
    """
    if window.steps is None:
        return ""
    found = _apart(trace, window, window.steps)
    which = f"step{'s' * (len(window.steps) > 1)} {runs(window.steps)}"
    parts = [
        f"{percent(found.others)} of the devices' work in this time was launched in other steps",
        f"{percent(found.outside)} of the work that {which} launched ran outside of this time",
    ]
    said = ", and ".join(words for words, part in zip(parts, found, strict=True) if part > _NOTED)
    if not said:
        return ""
    return (
        f"{said}: the host runs ahead, and --step keeps to its marks; steps, step_parts and critical_path follow a step"
        " until its own work is done"
    )


def noted(result: Result, trace: Trace, window: Window) -> Result:
    """The result of a window with a note of that, where it does not follow the steps itself."""
    why = "" if result.analysis in _FOLLOWING else told(trace, window)
    return replace(result, notes=(*result.notes, why)) if why else result


def share(trace: Trace, window: Window) -> float:
    """Of the devices' work in a window of steps what was launched in other steps; 0 where that is `LITTLE`."""
    others = _apart(trace, window, window.steps).others if window.steps else 0.0
    return others if others > LITTLE else 0.0


def _apart(trace: Trace, window: Window, steps: Sequence[int]) -> Apart:
    here = others = own = outside = 0
    for rank, (start, end) in of_ranks(trace, window).items():
        lanes = trace.lanes.filter((pl.col("rank") == rank) & pl.col("work"))["lane"].to_list()
        mine = pl.col("step").is_in(list(steps))
        inside = (pl.col("start") < end) & (pl.col("end") > start) & pl.col("step").is_not_null()
        rows = collected(trace.events(lanes).filter(inside | mine).select("start", "end", mine.alias("mine")))
        first, last, owned = (rows[name].to_numpy() for name in ("start", "end", "mine"))
        time = np.maximum(np.minimum(last, end) - np.maximum(first, start), 0)
        here += int(time.sum())
        others += int(time[~owned].sum())
        own += int((last - first)[owned].sum())
        outside += int((last - first - time)[owned].sum())
    return Apart(others / here if here else 0.0, outside / own if own else 0.0)
