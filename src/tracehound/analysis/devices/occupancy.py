"""Occupancy of a rank's device over time: running kernels, multiprocessors in use, occupancy.

The base of `utilization` and `utilization_curve`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.timing.device_busy import COPY_KINDS, device_work, parent_rows, work_bounds
from tracehound.analysis.timing.device_clock import DEVICE_TIMES, DeviceClock, fit_device_clock, work_on_device_clock
from tracehound.analysis.timing.rank_steps import step_intervals
from tracehound.analysis.timing.time_series import TimeSeries
from tracehound.formats.device_occupancy import (
    Floats,
    PiecewiseCurve,
    bucket_edges,
    bucket_size,
    drawable_measures,
    index_launch_rows,
    integrate_curves,
    is_grid_in_threads,
    join_kernel_occupancy,
    mean_occupancy,
    occupancy_curves,
)
from tracehound.formats.export_metadata import UTILIZATION_LABELS
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import Intervals, Ints, union
from tracehound.numeric.self_time import self_intervals

OCCUPANCY_DEFINITION: Final = """\
utilization = time in which a kernel runs / span; collectives count, copies do not. SM efficiency = blocks per
multiprocessor of all running kernels, at most 1, averaged over the span; waves are not modeled, so a grid with one
block more than the device has multiprocessors counts as full. occupancy = the profiler's estimated achieved occupancy.
blocks per SM = blocks of the grid / multiprocessors. Both are averages over kernels, weighted with their time in the
span. occupancy limit = threads of the grid / threads that the multiprocessors hold, at most 1, averaged likewise: no
kernel has an achieved occupancy above it. These are the definitions of the PyTorch TensorBoard plugin, except for the
limit, which it does not have.

PyTorch's profiler for CUDA records blocks per SM and occupancy. XLA's records grids, and its occupancy is what
registers and shared memory of the kernel allow, whatever its grid. ROCm records neither: blocks per SM and the limit
are computed from grid, block and the multiprocessors of the device (hipExtModuleLaunchKernel has its grid in threads);
occupancy cannot be, since it needs registers. Kernels of replayed graphs have no grid in ROCm, so SM efficiency is a
lower bound. Implausible values are ignored, and a note counts them: an occupancy above 100 %, or one of 0 for a kernel
whose blocks hold 1 % of the threads or more, which PyTorch's profiler records for kernels with much shared memory
(most GEMMs on Hopper). Occupancy is then that of the other kernels, and may exceed the limit, which covers all; a note
has their share of kernel time. Times of a device with a clock of its own (TPU), and the bounds of steps and of a
window, are on that clock, as in breakdown. Kernels of length 0 have no weight in averages over time; a note counts
them."""


class DeviceOccupancy(Struct, frozen=True, eq=False):
    """One rank's kernels, and the curves of its occupancy.

    `events` is the device's work, and `span` the measured interval, both on the trace's clock; `own_span` is that
    interval on the device's own clock, if it has one (`clock`, else None: the trace's is used), and so is the rest.
    `kernels` has a row for each kernel: `id`, `start`, `end`, `name`, and the columns of `device_occupancy`; `instants`
    are the times of kernels of zero length; `busy` are the intervals with kernels.
    """

    events: pl.DataFrame
    span: tuple[int, int]
    clock: DeviceClock | None
    own_span: tuple[int, int]
    kernels: pl.DataFrame
    instants: pl.Series
    busy: Intervals
    curves: Mapping[str, PiecewiseCurve]

    def to_device_clock(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Intervals of the trace's time on the device's own clock."""
        return (start, end) if self.clock is None else self.clock.to_device_bounds(start, end)

    def mean_measures(self, start: Ints, end: Ints) -> pl.DataFrame:
        """The mean measures for each interval `[start, end)` of the device's own clock."""
        return mean_occupancy(integrate_curves(self.curves, self.busy, start, end), start, end)

    def kernel_counts(self, low: int, high: int) -> dict[str, pl.Expr]:
        """Columns with counts of the kernels in `[low, high)` of the device's own clock.

        The number of kernels, each once, how many of them are derived or strange, and how many more have zero length;
        their time (ps), and the part of it with a known occupancy.
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


def measure_occupancy(rank_trace: RankTrace) -> DeviceOccupancy:
    """Occupancy of the rank in the window; it is measured over its steps, or its work, or the window."""
    events = device_work(rank_trace, "lane", "launch", "name", "record", "step", *DEVICE_TIMES)
    worked, clock = work_on_device_clock(events, rank_trace), fit_device_clock(events)
    own = self_intervals(*_start_and_end(worked.events), parent_rows(worked.events))
    rows = worked.events[own.owner].with_columns(pl.Series("start", own.start), pl.Series("end", own.end))
    kernels = rows.filter(~pl.col("kind").is_in(COPY_KINDS)).sort("id", "start")
    kernels = pl.concat([kernels.drop("record"), _kernel_residency(rank_trace, kernels)], how="horizontal")
    span, own_span = work_bounds(events, rank_trace), (worked.start, worked.end)
    if not (rank_trace.windowed or rank_trace.steps.is_empty() or events.is_empty()):
        start, end = _start_and_end(step_intervals(rank_trace, events, "work"))
        span = own_span = int(start.min()), int(end.max())
        if clock is not None:
            opened, closed = clock.to_device_bounds(*(np.array([bound], np.int64) for bound in span))
            own_span = int(opened[0]), int(closed[0])
    instants = worked.events.filter(~pl.col("kind").is_in(COPY_KINDS) & (pl.col("start") == pl.col("end")))["start"]
    return DeviceOccupancy(
        events, span, clock, own_span, kernels, instants, union(*_start_and_end(kernels)), occupancy_curves(kernels)
    )


def measured_time_columns(rank_trace: RankTrace, device: DeviceOccupancy) -> dict[str, pl.Expr]:
    """The columns `spanned` and `whole`: the measured time, and the time of all work of the rank; ps."""
    low, high = work_bounds(device.events, rank_trace)
    return {
        "spanned": pl.lit(device.span[1] - device.span[0], pl.Int64),
        "whole": pl.lit(high - low, pl.Int64),
    }


def steps_only_notes(rows: pl.DataFrame) -> list[Note]:
    """A note that only the steps are measured, if there is work beside them.

    `rows` has the columns of `measured_time_columns`.
    """
    ranks = rows.unique("rank", keep="first")
    spanned, total = (int(ranks[name].sum()) for name in ("spanned", "whole"))
    return [note("steps_alone", time=spanned, of=total)] if spanned < _NEARLY_ALL * total else []


_NEARLY_ALL: Final = 0.999
"""Steps that fill this share of the work's time count as all of it."""


def has_kernels(rank_trace: RankTrace) -> bool:
    """True if any kernel runs on the rank, in the window or outside."""
    lanes = rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())["lane"].to_list()
    kernels = rank_trace.device_anytime.filter(pl.col("lane").is_in(lanes) & ~pl.col("kind").is_in(COPY_KINDS))
    return collect_frame(kernels.select("id").head(1)).height > 0


def _start_and_end(events: pl.DataFrame) -> tuple[Ints, Ints]:
    return events["start"].to_numpy(), events["end"].to_numpy()


def _kernel_residency(rank_trace: RankTrace, kernels: pl.DataFrame) -> pl.DataFrame:
    """The occupancy columns of each kernel."""
    return join_kernel_occupancy(
        kernels.with_columns(is_grid_in_threads(rank_trace.threads)),
        index_launch_rows(rank_trace.facet("launched")),
        rank_trace.capacity,
    )


MAX_SERIES_BUCKETS: Final = 1000
"""Most intervals of the curves beside a timeline."""


def occupancy_series(rank_trace: RankTrace) -> Sequence[TimeSeries]:
    """Utilization, SM efficiency and occupancy of a rank with kernels over time, in hundredths of a percent."""
    device = measure_occupancy(replace(rank_trace, device=rank_trace.device_anytime))
    low, high = work_bounds(device.events, rank_trace)
    start, end = bucket_edges(low, high, bucket_size(high - low, MAX_SERIES_BUCKETS))
    if not (device.kernels["kind"] == "kernel").any() or not len(start):
        return ()
    found = device.mean_measures(*device.to_device_clock(start, end))
    return [
        _to_time_series(
            UTILIZATION_LABELS[measure], start[over], end[over], found[measure].fill_null(0.0).to_numpy()[over]
        )
        for measure, over in drawable_measures(found, UTILIZATION_LABELS).items()
    ]


def _to_time_series(name: str, start: Ints, end: Ints, value: Floats) -> TimeSeries:
    """The means as a time series without repetitions, 0 at the end."""
    steps = np.append(np.rint(value * 10_000).astype(np.int64), 0)
    changes = np.append(True, steps[1:] != steps[:-1])
    return TimeSeries(name, None, np.append(start, end[-1])[changes], steps[changes])
