"""How full a rank's device is over time: kernels at work, multiprocessors taken, warps held.

Owns the curves of these quantities for one rank. The base of `utilisation` and `utilisation_curve`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.events.busy import COPY, bounds, local_parent, work
from tracehound.analysis.events.core_time import on_own_clock
from tracehound.analysis.events.own_clock import CLOCKED, OwnClock, own_clock
from tracehound.analysis.events.series import Series
from tracehound.analysis.result import Share
from tracehound.analysis.spans.stretches import stretches
from tracehound.formats.assembly.curves import Curve, Floats, bucket, buckets
from tracehound.formats.assembly.fill import curves, drawn, in_threads, means, resident, sums, told
from tracehound.formats.exported import FILLS
from tracehound.intervals import Intervals, Ints, union
from tracehound.notes import Note, note
from tracehound.own_time import own_stretches
from tracehound.trace import collected

DEFINITION: Final = """\
utilisation = time in which a kernel runs, collectives included and copies not, / span. SM efficiency = blocks per
multiprocessor of all kernels that run, at most 1, on average over the span: waves are not modelled, a grid of one block
more than the device has multiprocessors counts as full. occupancy = the profiler's estimated achieved occupancy, and
blocks per SM = blocks of the grid / multiprocessors, both averaged over kernels, weighted with their time in the span.
occupancy limit = threads of the grid / threads that the multiprocessors hold, at most 1, likewise: no kernel
has an achieved occupancy above it. These are the definitions of the PyTorch TensorBoard plugin, but for the limit,
which is ours.

PyTorch's profiler of CUDA records blocks per SM and occupancy; XLA's records grids, and as occupancy what registers and
shared memory of the kernel allow, whatever its grid. ROCm records neither: blocks per SM and the limit are then derived
from grid, block and the multiprocessors of the device (hipExtModuleLaunchKernel tells its grid in threads), occupancy
cannot be, since it takes registers. Kernels of replayed graphs have no grid there: SM efficiency is "at least" then.
What cannot be true is not counted, and noted: an occupancy above 100 %, or one of 0 of a kernel whose blocks hold 1 %
of the threads or more, which is what PyTorch's profiler says of kernels with much shared memory (most products on
Hopper). Occupancy is that of the other kernels then, and may be above the limit, which is of all; a note says how much
of the kernels' time they take. All times of a device with a clock of its own (TPU), and the bounds of steps and of a
window, are on that, as in breakdown. Kernels without a length weigh nothing in averages over time: other analyses count
them, this one says in a note how many they are."""


class Filled(Struct, frozen=True, eq=False):
    """One rank's kernels, and what they fill over time.

    `events` is the device's work, and `span` the stretch that the whole is measured in, both on the trace's clock;
    `own_span` is the same on the device's own clock, where it has one (`clock`, else None: the trace's holds), and so
    is the rest. `kernels` has a row for each: `id`, `start`, `end`, `name`, and what `residency` tells; `instants` is
    when those without a length are; `works` is when kernels run.
    """

    events: pl.DataFrame
    span: tuple[int, int]
    clock: OwnClock | None
    own_span: tuple[int, int]
    kernels: pl.DataFrame
    instants: pl.Series
    works: Intervals
    curves: Mapping[str, Curve]

    def own(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Stretches of the trace's time on the device's own clock."""
        return (start, end) if self.clock is None else self.clock.bounds(start, end)

    def measures(self, start: Ints, end: Ints) -> pl.DataFrame:
        """For each stretch `[start, end)` of the device's own clock the measures of `fill.means`."""
        return means(sums(self.curves, self.works, start, end), start, end)

    def counts(self, low: int, high: int) -> dict[str, pl.Expr]:
        """Columns of what runs in `[low, high)` of the device's own clock.

        How many kernels, each once, how many of them are derived or strange, and how many more have no length; their
        time (ps), and how much of it has an occupancy.
        """
        here = self.kernels.filter((pl.col("end") > low) & (pl.col("start") < high))
        each = here.unique("id")
        times = here["end"].clip(upper_bound=high) - here["start"].clip(lower_bound=low)
        found = {
            "all kernels": each.height,
            "derived kernels": each["derived"].sum(),
            "strange kernels": each["strange"].sum(),
            "instant kernels": self.instants.is_between(low, high).sum(),
            "kernel time": times.sum(),
            "occupied time": times.filter(here["occupancy"].is_not_null()).sum(),
        }
        return {name: pl.lit(int(value), pl.Int64) for name, value in found.items()}


def filled(share: Share) -> Filled:
    """What the rank's kernels in the window fill; the span is that of its steps, or of its work, or the window."""
    events = work(share, "lane", "launch", "name", "record", "step", *CLOCKED)
    worked, clock = on_own_clock(events, share), own_clock(events)
    own = own_stretches(*_times(worked.events), local_parent(worked.events))
    rows = worked.events[own.owner].with_columns(pl.Series("start", own.start), pl.Series("end", own.end))
    kernels = rows.filter(~pl.col("kind").is_in(COPY)).sort("id", "start")
    kernels = pl.concat([kernels.drop("record"), _resident(share, kernels)], how="horizontal")
    span, own_span = bounds(events, share), (worked.start, worked.end)
    if not (share.windowed or share.steps.is_empty() or events.is_empty()):
        start, end = _times(stretches(share, events, "work"))
        span = own_span = int(start.min()), int(end.max())
        if clock is not None:
            opened, closed = clock.bounds(*(np.array([bound], np.int64) for bound in span))
            own_span = int(opened[0]), int(closed[0])
    instants = worked.events.filter(~pl.col("kind").is_in(COPY) & (pl.col("start") == pl.col("end")))["start"]
    return Filled(events, span, clock, own_span, kernels, instants, union(*_times(kernels)), curves(kernels))


def spans(share: Share, device: Filled) -> dict[str, pl.Expr]:
    """The columns `spanned` and `whole`: the time that is looked at, and that of all work of the rank; ps."""
    low, high = bounds(device.events, share)
    return {
        "spanned": pl.lit(device.span[1] - device.span[0], pl.Int64),
        "whole": pl.lit(high - low, pl.Int64),
    }


def of_steps(rows: pl.DataFrame) -> list[Note]:
    """That only the steps are looked at, where there is work beside them; `rows` has the columns of `spans`."""
    ranks = rows.unique("rank", keep="first")
    spanned, whole = (int(ranks[name].sum()) for name in ("spanned", "whole"))
    return [note("steps_alone", time=spanned, of=whole)] if spanned < _NEARLY * whole else []


_NEARLY: Final = 0.999
"""Steps that fill so much of the work's time are all of it."""


def runs_kernels(share: Share) -> bool:
    """Whether a kernel ever runs on the rank, in the window or out of it."""
    lanes = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())["lane"].to_list()
    kernels = share.anytime.filter(pl.col("lane").is_in(lanes) & ~pl.col("kind").is_in(COPY))
    return collected(kernels.select("id").head(1)).height > 0


def _times(events: pl.DataFrame) -> tuple[Ints, Ints]:
    return events["start"].to_numpy(), events["end"].to_numpy()


def _resident(share: Share, kernels: pl.DataFrame) -> pl.DataFrame:
    """What each of the kernels fills."""
    return resident(kernels.with_columns(in_threads(share.threads)), told(share.facet("launched")), share.properties)


SERIES_BUCKETS: Final = 1000
"""Stretches of the curves beside a timeline, at most."""


def series(share: Share) -> Sequence[Series]:
    """Utilisation, SM efficiency and occupancy of a rank that runs kernels, over time, in hundredths of a percent."""
    device = filled(replace(share, device=share.anytime))
    low, high = bounds(device.events, share)
    start, end = buckets(low, high, bucket(high - low, SERIES_BUCKETS))
    if not (device.kernels["kind"] == "kernel").any() or not len(start):
        return ()
    found = device.measures(*device.own(start, end))
    return [
        _series(FILLS[measure], start[over], end[over], found[measure].fill_null(0.0).to_numpy()[over])
        for measure, over in drawn(found, FILLS).items()
    ]


def _series(name: str, start: Ints, end: Ints, value: Floats) -> Series:
    """The means as a series without repetitions, 0 in the end."""
    steps = np.append(np.rint(value * 10_000).astype(np.int64), 0)
    changes = np.append(True, steps[1:] != steps[:-1])
    return Series(name, None, np.append(start, end[-1])[changes], steps[changes])
