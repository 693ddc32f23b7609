"""Occupancy of a device: blocks per multiprocessor and warps of each kernel, and mean utilization over time.

The occupancy of a kernel is taken from the file, or computed from its grid, its block and the device's properties;
values that cannot be true are ignored. Kernels that run at the same time add up to step curves, and these are averaged
over intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from math import prod
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.spill import frame_to_columns
from tracehound.model.file_facts import DeviceProperties, FileFacts
from tracehound.model.trace import collect_frame
from tracehound.numeric.id_set import look_up_rows
from tracehound.numeric.intervals import Intervals, Ints, covered_lengths

Floats = npt.NDArray[np.float64]

LAUNCH_COLUMNS: Final = ("grid", "block", "blocks_per_sm", "occupancy")
"""The columns of the facet `launched` that `kernel_occupancy` needs; it also needs `in_threads`, the unit of the
grid.
"""

THREAD_GRID_CALLS: Final = ("hipExtModuleLaunchKernel",)
"""Calls whose grid is given in threads (HIP's global work size), not in blocks."""

_MAX_BLOCKS_PER_SM: Final = 1 << 40
"""No grid has more blocks per multiprocessor."""

_MAX_THREADS_PER_SM: Final = 2048
"""No multiprocessor holds more threads."""

_MIN_SHOWN_OCCUPANCY: Final = 0.01
"""An occupancy of this much is never written as 0: files have whole percent."""


class DeviceCapacity(NamedTuple):
    """Multiprocessors, threads per multiprocessor and bytes of memory of a device, as recorded; 0 is unknown."""

    multiprocessors: int
    threads: int
    memory: int


UNKNOWN_CAPACITY: Final = DeviceCapacity(0, 0, 0)


def device_capacity(facts: FileFacts, ordinal: int | None) -> DeviceCapacity:
    """Return the capacity of a device, by its ordinal.

    ROCm numbers devices in another way than it lists them: where no device has the number, and all are equal, it is one
    of them.
    """
    found = {
        DeviceCapacity(each.multiprocessors, each.threads, each.memory) for each in matching_devices(facts, ordinal)
    }
    return found.pop() if len(found) == 1 else UNKNOWN_CAPACITY


def matching_devices(facts: FileFacts, ordinal: int | None) -> Sequence[DeviceProperties]:
    """Return the properties of the device with this ordinal, or of all devices where none has it."""
    return [each for each in facts.devices if each.id == ordinal][:1] or facts.devices


def kernel_occupancy(kernels: pl.DataFrame, of: DeviceCapacity) -> pl.DataFrame:
    """Return the occupancy of each kernel, in the given order; null where it is not known.

    `blocks` = blocks of the grid / multiprocessors, as recorded, else (`derived`) by this definition of Kineto's;
    `occupancy` = estimated achieved occupancy as recorded; `limit` = the highest occupancy that the number of threads
    allows: threads of the grid / threads that all multiprocessors hold, at most 1; `strange` marks a recorded value
    that cannot be true (below 0, an occupancy above 1, or of 0 where the blocks hold 1 % of the threads or more, as
    Kineto writes for kernels with more shared memory than 48 KiB): it is ignored.
    """
    launched, threads = _launch_sizes(kernels)
    recorded, occupancy = kernels["blocks_per_sm"].to_numpy(), kernels["occupancy"].to_numpy()
    plausible = np.isfinite(recorded) & (recorded >= 0) & (recorded <= _MAX_BLOCKS_PER_SM)
    thread_share = np.nan_to_num(np.where(plausible, recorded, np.nan) * threads / _MAX_THREADS_PER_SM)
    is_possible = (occupancy >= 0) & (occupancy <= 1) & ((occupancy > 0) | (thread_share < _MIN_SHOWN_OCCUPANCY))
    unknown, capacity = np.full(len(launched), np.nan), of.multiprocessors * of.threads
    per_sm = launched / of.multiprocessors if of.multiprocessors else unknown
    return pl.DataFrame(
        {
            "blocks": np.where(plausible, recorded, per_sm),
            "derived": ~plausible & ~np.isnan(per_sm),
            "occupancy": np.where(is_possible, occupancy, np.nan),
            "limit": np.clip(launched * threads / capacity, 0, 1) if capacity else unknown,
            "strange": (np.isfinite(recorded) & ~plausible) | (np.isfinite(occupancy) & ~is_possible),
        },
        nan_to_null=True,
    )


def _launch_sizes(kernels: pl.DataFrame) -> tuple[Floats, Floats]:
    """Return each kernel's blocks and its threads per block; NaN where they are not recorded.

    Each distinct text of grid and block is parsed once.
    """
    texts = pl.DataFrame([kernels[name].cast(pl.Categorical) for name in ("grid", "block")])
    grids, blocks = (
        values.astype(np.int64) + 1 if valid is None else np.where(valid, values.astype(np.int64) + 1, 0)
        for values, valid in frame_to_columns(texts).values()
    )
    in_threads = kernels["in_threads"].to_numpy()
    keys = (grids * (blocks.max(initial=0) + 1) + blocks) * 2 + in_threads
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    distinct = [series.to_list() for series in texts.select_seq(pl.all().gather(first))]
    sizes = list(map(_launch_size, *distinct, in_threads[first].tolist()))
    launched, threads_per_block = np.array(sizes, np.float64).reshape(-1, 2).T.take(number, axis=1)
    return launched, threads_per_block


@lru_cache(1 << 14)
def _launch_size(grid: str | None, block: str | None, in_threads: bool) -> tuple[float, float]:  # noqa: FBT001
    """Return the blocks of a grid, and the threads of a block; NaN where they are not recorded."""
    sides, threads = _parse_dimensions(grid), _parse_dimensions(block)
    if sides and threads and in_threads:
        sides = [-(-side // thread) for side, thread in zip_longest(sides, threads, fillvalue=1)]
    return (prod(sides) if sides else math.nan), (prod(threads) if threads else math.nan)


def _parse_dimensions(text: str | None) -> Sequence[int]:
    """Return the numbers of ``x,y,z``; empty where one is invalid or not above 0."""
    words = [] if text is None else [side.strip() for side in text.strip("[] ").split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 12 for word in words):
        return ()
    sides = tuple(int(word) for word in words)
    return sides if all(sides) else ()


_FIXED_POINT_BITS: Final = 62
"""The bits of heights in fixed point: so an interval's end subtracts exactly the height that its start added."""


class PiecewiseCurve(NamedTuple):
    """A piecewise constant curve: from ``time[i]`` (ps, ascending) the height is ``height[i]``; 0 before the first."""

    time: Ints
    height: Floats

    def capped(self, most: float) -> PiecewiseCurve:
        """Return the curve cut off at a height."""
        return PiecewiseCurve(self.time, np.minimum(self.height, most))

    def integral(self, start: Ints, end: Ints) -> Floats:
        """Return height times time (ps) in each of the intervals `[start, end)`."""
        if len(self.time) == 0:
            return np.zeros(len(start), np.float64)
        until = np.concatenate([[0.0], np.cumsum(self.height[:-1] * np.diff(self.time))])

        def before(instant: Ints) -> Floats:
            at = np.searchsorted(self.time, instant, side="right") - 1
            known = np.maximum(at, 0)
            return np.where(at < 0, 0.0, until[known] + self.height[known] * (instant - self.time[known]))

        return np.maximum(before(end) - before(start), 0.0)


def sum_interval_heights(start: Ints, end: Ints, heights: Mapping[str, Floats]) -> dict[str, PiecewiseCurve]:
    """Sum the heights of the intervals `[start, end)` at each instant, for each kind of height."""
    time = np.concatenate([start, end])
    order = np.argsort(time, kind="stable")
    time = time[order]

    at_once = int(np.cumsum(np.where(order < len(start), 1, -1)).max(initial=1))

    def curve(height: Floats) -> PiecewiseCurve:
        unit = _fixed_point_unit(float(height.max(initial=0.0)) * at_once)
        units = np.rint(height * unit).astype(np.int64)
        total = np.cumsum(np.concatenate([units, -units])[order])
        return PiecewiseCurve(time, np.maximum(total, 0) / unit)

    return {name: curve(height) for name, height in heights.items()}


def _fixed_point_unit(most: float) -> float:
    """Return the number of fixed-point units per 1 where no sum exceeds `most`.

    It is the largest power of two for which `_FIXED_POINT_BITS` suffice, so that only fractions of a unit are lost.
    """
    return math.ldexp(1.0, _FIXED_POINT_BITS - max(math.frexp(most)[1], 0))


_MICROSECOND_PS: Final = 10**6
_MAX_BUCKETS: Final = 200


def bucket_size(length: int, most: int = _MAX_BUCKETS) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, ... us (in ps) that divides a length into at most `most` buckets."""
    size = _MICROSECOND_PS
    while True:
        for round_size in (size, 2 * size, 5 * size):
            if length <= most * round_size:
                return round_size
        size *= 10


def bucket_edges(start: int, end: int, size: int) -> tuple[Ints, Ints]:
    """Return starts and ends of buckets of that size from `start` on; the last one includes the rest."""
    count = max((end - start) // size, 1) if end > start else 0
    edges = start + size * np.arange(count + 1, dtype=np.int64)
    if count:
        edges[-1] = end
    return edges[:-1], edges[1:]


OCCUPANCY_MEASURES: Final = ("utilization", "sm_efficiency", "occupancy", "blocks_per_sm", "occupancy_limit")


GRID_IN_BLOCKS: Final = pl.lit(value=False).alias("in_threads")
"""Expression for a grid that is not in threads."""


def is_grid_in_threads(calls: pl.LazyFrame) -> pl.Expr:
    """Expression for whether a kernel's grid is in threads, by its launch; `calls` are the host's."""
    by_threads = collect_frame(calls.filter(pl.col("name").is_in(THREAD_GRID_CALLS)).select("id")).to_series()
    if by_threads.is_empty():
        return GRID_IN_BLOCKS
    return pl.col("launch").is_in(by_threads.implode()).fill_null(value=False).alias("in_threads")


class LaunchRows(NamedTuple):
    """The rows of the facet `launched` for `join_kernel_occupancy`, in the order of records.

    Rows on disk are read on demand; `marks` has the record of every `_STRIDE`-th row, and the last.
    """

    rows: pl.DataFrame | pl.LazyFrame
    marks: Ints

    def around(self, records: Ints) -> pl.DataFrame:
        """Return the rows with these records, and some more."""
        if not len(records):
            return collect_frame(self.rows.lazy().slice(0, 0))
        low, high = int(records.min()), int(records.max())
        first = max(int(np.searchsorted(self.marks, low)) - 1, 0) * _STRIDE
        last = int(np.searchsorted(self.marks, high, side="right")) * _STRIDE
        some = self.rows.slice(first, max(last - first, 0))
        return some if isinstance(some, pl.DataFrame) else collect_frame(some)


def index_launch_rows(launched: pl.LazyFrame) -> LaunchRows:
    """Index the rows of the facet `launched`; few rows, and those not in the order of records, are read into memory."""
    rows, step = launched.select("record", *LAUNCH_COLUMNS), _STRIDE * _STRIDES_AT_ONCE
    few = collect_frame(rows.slice(0, _STRIDE))
    if few.height < _STRIDE:
        return index_launches_in_memory(few)
    marks, last, low = [np.empty(0, np.int64)], np.iinfo(np.int64).min, 0
    while True:
        record = collect_frame(rows.slice(low, step).select("record")).to_series().to_numpy()
        if len(record) and (record[0] < last or (record[1:] < record[:-1]).any()):
            return index_launches_in_memory(collect_frame(rows))
        marks.append(record[::_STRIDE])
        last, low = int(record[-1]) if len(record) else last, low + step
        if len(record) < step:
            return LaunchRows(rows, np.append(np.concatenate(marks), last))


def index_launches_in_memory(launched: pl.DataFrame) -> LaunchRows:
    """Index the rows of the facet `launched`, which are in memory."""
    rows = launched[["record", *LAUNCH_COLUMNS]]
    rows = rows if rows["record"].is_sorted() else rows.sort("record", maintain_order=True)
    record = rows["record"].to_numpy()
    return LaunchRows(rows, np.append(record[::_STRIDE], record[-1:]))


_STRIDE: Final = 1 << 10
_STRIDES_AT_ONCE: Final = 1 << 6
"""The strides of a facet that are read together."""


def join_kernel_occupancy(kernels: pl.DataFrame, launched: LaunchRows, of: DeviceCapacity) -> pl.DataFrame:
    """Return the occupancy of each kernel (`kernel_occupancy`), in the given order.

    `kernels` need `record` and `in_threads`; `launched` has the rows of these and other kernels.
    """
    wanted = kernels["record"]
    around = launched.around((wanted.drop_nulls() if wanted.null_count() else wanted).to_numpy())
    return kernel_occupancy(look_up_rows(around, "record", wanted).hstack([kernels["in_threads"]]), of)


def occupancy_curves(kernels: pl.DataFrame) -> dict[str, PiecewiseCurve]:
    """Sum blocks, occupancy and limit of the kernels that run at each instant.

    `kernels` have `start`, `end` and the columns of `kernel_occupancy`.
    """
    start, end = kernels["start"].to_numpy(), kernels["end"].to_numpy()
    heights = {"runs": np.ones(kernels.height)}
    for name in ("blocks", "occupancy", "limit"):
        values = kernels[name].to_numpy()  # NaN for null
        heights[name] = np.nan_to_num(values)
        heights[f"has {name}"] = (~np.isnan(values)).astype(np.float64)
    found = sum_interval_heights(start, end, heights)
    return {**found, "taken": found["blocks"].capped(1.0)}


def integrate_curves(of: Mapping[str, PiecewiseCurve], works: Intervals, start: Ints, end: Ints) -> dict[str, Floats]:
    """Integrate each curve (height times time, ps) over each interval `[start, end)`.

    `works` is the time with kernels in each interval.
    """
    found = {name: curve.integral(start, end) for name, curve in of.items()}
    return {**found, "works": covered_lengths(works, start, end).astype(np.float64)}


def mean_occupancy(of: Mapping[str, Floats], start: Ints, end: Ints) -> pl.DataFrame:
    """Return the `OCCUPANCY_MEASURES` of each interval `[start, end)`, and the share of kernel time with known blocks.

    That share is `known`. `of` is the result of `integrate_curves`. Null where a measure is not known; while no kernel
    runs, no multiprocessor is taken, if blocks are known of any.
    """
    length = (end - start).astype(np.float64)
    known = of["has blocks"] > 0
    if known.any():
        known |= of["runs"] == 0
    return pl.DataFrame(
        {
            "utilization": _divide(of["works"], length),
            "sm_efficiency": np.where(known, _divide(of["taken"], length), np.nan),
            "occupancy": _divide(of["occupancy"], of["has occupancy"]),
            "blocks_per_sm": _divide(of["blocks"], of["has blocks"]),
            "occupancy_limit": _divide(of["limit"], of["has limit"]),
            "known": _divide(of["has blocks"], of["runs"]),
        },
        nan_to_null=True,
    )


def drawable_measures(found: pl.DataFrame, measures: Iterable[str]) -> dict[str, slice]:
    """Return the measures that make a curve, and the intervals it covers; `found` is the result of `mean_occupancy`.

    A curve has no gaps, and 0 would be wrong where kernels without known values run: it begins behind those at the
    start and ends before those at the end. Where more than one in `_MISSING_ONE_IN` is left between, there is no curve.
    """
    busy = found["utilization"].to_numpy() > 0
    curves = dict[str, slice]()
    for name in measures:
        lacking = busy & np.isnan(found[name].to_numpy())
        known = np.flatnonzero(busy & ~lacking)
        if not len(known):
            continue
        first, last = int(known[0]), int(known[-1]) + 1
        over = slice(first if lacking[:first].any() else 0, last if lacking[last:].any() else len(busy))
        if np.count_nonzero(lacking[over]) * _MISSING_ONE_IN <= np.count_nonzero(busy[over]):
            curves[name] = over
    return curves


_MISSING_ONE_IN: Final = 50
"""One interval in so many may lack a measure: in a chart that is not visible."""


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    ratio: Floats = np.divide(numerator, denominator, out=np.full(len(numerator), np.nan), where=denominator > 0)
    return ratio
