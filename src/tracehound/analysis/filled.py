"""How full a rank's device is over time: kernels at work, multiprocessors taken, warps held.

Owns the curves of these quantities for one rank. The base of `utilisation` and `utilisation_curve`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.busy import COPY, bounds, local_parent, work
from tracehound.analysis.result import Share
from tracehound.analysis.series import Series
from tracehound.analysis.stretches import stretches
from tracehound.analysis.threads import having
from tracehound.formats.curves import Curve, Floats, bucket, buckets
from tracehound.formats.fill import curves, means, resident
from tracehound.intervals import Intervals, Ints, union
from tracehound.nesting import own_stretches
from tracehound.trace import collected

DEFINITION: Final = """\
utilisation = time in which a kernel runs, collectives included and copies not, / span. SM efficiency = blocks per
multiprocessor of all kernels that run, at most 1, on average over the span: waves are not modelled, a grid of one block
more than the device has multiprocessors counts as full. occupancy = the profiler's estimated achieved occupancy, and
blocks per SM = blocks of the grid / multiprocessors, both averaged over kernels, weighted with their time in the span.
occupancy limit = threads of the grid / threads that the multiprocessors hold, at most 1, likewise: no achieved
occupancy is above it. These are the definitions of the PyTorch TensorBoard plugin, but for the limit, which is ours.

PyTorch's profiler of CUDA records blocks per SM and occupancy; XLA's records grids, and as occupancy what registers and
shared memory of the kernel allow, whatever its grid. ROCm records neither: blocks per SM and the limit are then derived
from grid, block and the multiprocessors of the device (hipExtModuleLaunchKernel tells its grid in threads), occupancy
cannot be, since it takes registers. Kernels of replayed graphs have no grid there: SM efficiency is "at least" then.
What cannot be true (an occupancy above 100 %) is not counted, and noted. All times are on the trace's clock, also where
a device has its own (TPU). Kernels without a length there weigh nothing in averages over time: other analyses count
them, this one says in a note how many they are."""


@dataclass(frozen=True, eq=False)
class Filled:
    """One rank's kernels, and what they fill over time.

    `kernels` has a row for each: `id`, `start`, `end`, `name`, and what `residency` tells; `instant` is how many more
    in the span have no length. `span` is the stretch that the whole is measured in, `extent` that in which the device
    works or which the window has, `works` when kernels run.
    """

    kernels: pl.DataFrame
    span: tuple[int, int]
    extent: tuple[int, int]
    works: Intervals
    curves: Mapping[str, Curve]
    instant: int = 0

    def measures(self, start: Ints, end: Ints) -> pl.DataFrame:
        """For each stretch `[start, end)` the measures of `fill.means`."""
        return means(self.works, self.curves, start, end)


def filled(share: Share) -> Filled:
    """What the rank's kernels fill, whenever they ran; the span is that of its steps, or of its work, or the window."""
    everything = work(replace(share, device=share.anytime), "lane", "launch", "name", "record", "step")
    own = own_stretches(everything["start"].to_numpy(), everything["end"].to_numpy(), local_parent(everything))
    rows = everything[own.owner].with_columns(pl.Series("start", own.start), pl.Series("end", own.end))
    kernels = rows.filter(~pl.col("kind").is_in(COPY)).sort("id", "start")
    kernels = pl.concat([kernels.drop("record"), _resident(share, kernels)], how="horizontal")
    span = _span(share, everything)
    return Filled(
        kernels,
        span,
        bounds(everything, share),
        union(kernels["start"].to_numpy(), kernels["end"].to_numpy()),
        curves(kernels),
        _instant(everything, span),
    )


def _instant(events: pl.DataFrame, span: tuple[int, int]) -> int:
    """How many kernels in the span have no length."""
    start = pl.col("start")
    return events.filter(~pl.col("kind").is_in(COPY) & (start == pl.col("end")) & start.is_between(*span)).height


def _resident(share: Share, kernels: pl.DataFrame) -> pl.DataFrame:
    """What each of the kernels fills."""
    calls = collected(having(share, kernels["launch"]).select("id", "name"))
    return resident(kernels, collected(share.facet("launched")), calls, share.properties)


def _span(share: Share, events: pl.DataFrame) -> tuple[int, int]:
    if share.windowed or share.steps.is_empty() or events.is_empty():
        return bounds(events, share)
    found = stretches(share.steps, events, "work")
    start, end = found["start"].to_numpy(), found["end"].to_numpy()
    return int(start.min()), int(end.max())


SERIES_BUCKETS: Final = 1000
"""Stretches of the curves beside a timeline, at most."""


def series(share: Share) -> Sequence[Series]:
    """Utilisation, SM efficiency and occupancy of a rank that runs kernels, over time, in hundredths of a percent."""
    device = filled(share)
    low, high = device.extent
    start, end = buckets(low, high, bucket(high - low, SERIES_BUCKETS))
    if not (device.kernels["kind"] == "kernel").any() or not len(start):
        return ()
    found = device.measures(start, end)
    named = {"utilisation": "GPU", "sm_efficiency": "SM", "occupancy": "occupancy"}
    return [
        _series(title, start, end, found[measure].fill_null(0.0).to_numpy())
        for measure, title in named.items()
        if found[measure].null_count() < found.height
    ]


def _series(name: str, start: Ints, end: Ints, value: Floats) -> Series:
    """The means as a series without repetitions, 0 in the end."""
    steps = np.append(np.rint(value * 10_000).astype(np.int64), 0)
    changes = np.append(True, steps[1:] != steps[:-1])
    return Series(name, None, np.append(start, end[-1])[changes], steps[changes])
