"""Utilization and occupancy curves of devices: counters that a Kineto file does not hold itself.

The definitions of the curves are in `device_occupancy`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.formats.assembly.arrow_storage import LaneRowRange, iterate_in_time_order, scan_lanes
from tracehound.formats.device_occupancy import (
    Floats,
    bucket_edges,
    bucket_size,
    device_capacity,
    drawable_measures,
    index_launch_rows,
    integrate_curves,
    is_grid_in_threads,
    join_kernel_occupancy,
    mean_occupancy,
    occupancy_curves,
)
from tracehound.formats.export_metadata import (
    UTILIZATION_LABELS,
    UTILIZATION_TITLE,
    counter_name,
    current_counter_name,
    is_exported_counter,
)
from tracehound.formats.torch_names import UTILIZATION_COUNTERS
from tracehound.model.facet_schemas import empty_facet
from tracehound.model.trace import COUNTERS, LANES, FileFrames, collect_streaming
from tracehound.numeric.intervals import Ints, union

MIN_KERNELS: Final = 16
"""Number of kernels of a device from which a curve shows more than the kernels themselves."""

MAX_INTERVALS: Final = 1000
"""Number of intervals of a curve, at most."""

_FIRST_LANE_ORDER: Final = -len(UTILIZATION_COUNTERS)
"""Order of the first curve's lane: the curves come before the other counters of their rank."""


_UTILIZATION_COUNTER: Final = re.compile("utili[sz]ation", re.IGNORECASE)


class _Curve(NamedTuple):
    rank: int
    host: int
    measure: str
    name: str
    order: int
    samples: pl.DataFrame


def add_device_curves(frames: FileFrames) -> FileFrames:
    """The frames, with a counter for each curve of each device that runs kernels.

    A file with utilization counters of its own, such as those of the PyTorch TensorBoard plugin, gets no curves.
    Counters of an export are replaced: they were computed from the kernels of the exported trace in this way.
    """
    counters = frames.lanes.filter(role="counter")["name"].to_list()
    if any(_UTILIZATION_COUNTER.search(name) and not is_exported_counter(name) for name in counters):
        return frames
    curves = list(_device_curves(frames))
    if not curves:
        return frames
    first_lane = (
        int(frames.lanes["lane"].to_numpy().max(initial=-1)) + 1
    )  # counters without valid times have numbers, but no lanes
    frames = _without_exported_curves(frames, curves)
    lanes, samples = [frames.lanes], [frames.counters]
    for lane_number, curve in enumerate(curves, start=first_lane):
        lanes.append(_curve_lane(lane_number, curve))
        samples.append(
            curve.samples.select(pl.lit(lane_number, pl.Int64).alias("lane"), "time", "value").cast(COUNTERS)
        )
    return replace(frames.with_frames(lanes=pl.concat(lanes)), make_counters=pl.concat(samples).clone)


def _without_exported_curves(frames: FileFrames, curves: Sequence[_Curve]) -> FileFrames:
    """The frames without the counters that an export wrote for these curves."""
    exported_names = {
        (curve.rank, counter_name(UTILIZATION_TITLE, UTILIZATION_LABELS[curve.measure])) for curve in curves
    }
    rows = frames.lanes.filter(role="counter").select("lane", "rank", "name").iter_rows()
    lanes = [lane for lane, rank, name in rows if (rank, current_counter_name(name)) in exported_names]
    is_other_lane = ~pl.col("lane").is_in(lanes)
    kept = frames.with_frames(lanes=frames.lanes.filter(is_other_lane))
    return replace(kept, make_counters=frames.counters.filter(is_other_lane).clone)


def _curve_lane(number: int, curve: _Curve) -> pl.DataFrame:
    row = {
        "lane": number, "host": curve.host, "rank": curve.rank, "role": "counter", "work": False, "name": curve.name,
        "process": "", "order": curve.order, "rows": 1, "events": 0, "first": curve.samples["time"][0],
        "last": curve.samples["time"][-1], "unit": "%",
    }  # fmt: skip
    return pl.DataFrame([row], schema=LANES)


def _device_curves(frames: FileFrames) -> Iterator[_Curve]:
    if not frames.lanes["work"].any():
        return
    by_threads = is_grid_in_threads(frames.scan.filter(pl.col("rank").is_null() & (pl.col("kind") == "runtime")))
    launch_rows = index_launch_rows(frames.facets.get("launched", empty_facet("launched")))
    for row, (host, device) in enumerate(frames.ranks.select("host", "device").iter_rows()):
        lanes = _busy_lanes(frames, row)
        kernel_count, low, high = _count_and_bounds(frames.scan, lanes)
        if kernel_count < MIN_KERNELS:
            continue
        kernels = iterate_in_time_order(
            frames.scan.select(*_EVENT_COLUMNS, "record", by_threads), lanes, _HAS_KERNEL_TIME, _EVENTS_IN_MEMORY
        )
        occupancy_of = partial(join_kernel_occupancy, launched=launch_rows, of=device_capacity(frames.facts, device))
        curves = _mean_curves(kernels, (low, high), occupancy_of)
        for order, (measure, name) in enumerate(UTILIZATION_COUNTERS.items(), start=_FIRST_LANE_ORDER):
            if (samples := curves.get(measure)) is not None:
                yield _Curve(row, host, measure, name, order, samples.filter(_value_changes(samples["value"])))


_HAS_KERNEL_TIME: Final = pl.col("kind").is_in(["kernel", "collective"]) & (pl.col("end") > pl.col("start"))
"""Kernels with a duration."""


_EVENT_COLUMNS: Final = ("lane", "start", "end", "kind")


def _count_and_bounds(scan: pl.LazyFrame, lanes: Sequence[LaneRowRange]) -> tuple[int, int, int]:
    """Number of kernels on these lanes, their first start and their last end."""
    aggregates = (pl.len(), pl.col("start").min().fill_null(0), pl.col("end").max().fill_null(0))
    count, low, high = collect_streaming(
        scan_lanes(scan.select(_EVENT_COLUMNS), lanes).filter(_HAS_KERNEL_TIME).select(*aggregates)
    ).row(0)
    return count, low, high


def _busy_lanes(frames: FileFrames, rank: int) -> list[LaneRowRange]:
    """Rows of each lane with the work of a rank."""
    lanes = frames.lanes.sort("lane").with_columns((pl.col("events").cum_sum() - pl.col("events")).alias("low"))
    busy = lanes.filter(pl.col("work") & (pl.col("rank") == rank))
    return [LaneRowRange(*row) for row in busy.select("lane", "low", "events").iter_rows()]


def _mean_curves(
    kernels: Iterable[pl.DataFrame], bounds: tuple[int, int], occupancy_of: Callable[[pl.DataFrame], pl.DataFrame]
) -> dict[str, pl.DataFrame]:
    """Mean of each known measure in each interval, with 0 at the end: `time`, and `value` in percent.

    `kernels` are sorted by start and lie within `bounds`; `occupancy_of` computes the occupancy of kernels.
    """
    low, high = bounds
    start, end = bucket_edges(low, high, bucket_size(high - low, MAX_INTERVALS))
    sums_by_interval = list(_sum_curves_stepwise(kernels, occupancy_of, start, end))
    mean_values = mean_occupancy(
        {name: np.concatenate([sums[name] for sums in sums_by_interval]) for name in sums_by_interval[0]}, start, end
    )
    percent = {
        name: (mean_values[name].fill_null(0.0) * 100).round(_PERCENT_DIGITS).to_numpy()
        for name in UTILIZATION_COUNTERS
    }
    return {
        name: pl.DataFrame(
            {"time": np.append(start[intervals], end[intervals][-1]), "value": np.append(percent[name][intervals], 0.0)}
        )
        for name, intervals in drawable_measures(mean_values, UTILIZATION_COUNTERS).items()
    }


_PERCENT_DIGITS: Final = 9
"""Digits of a percentage: smaller differences come from the order of summation and are no change of a curve."""


def _sum_curves_stepwise(
    kernels: Iterable[pl.DataFrame], occupancy_of: Callable[[pl.DataFrame], pl.DataFrame], start: Ints, end: Ints
) -> Iterator[dict[str, Floats]]:
    """Sums of the kernels' curves in consecutive intervals, some intervals at a time."""
    done, chunks = 0, list[pl.DataFrame]()
    for kernels_chunk in (each for frame in kernels for each in frame.iter_slices(_KERNELS_AT_ONCE)):
        chunks.append(kernels_chunk)
        complete = int(np.searchsorted(end, kernels_chunk["start"][-1], side="right"))
        if complete > done:
            intervals = slice(done, complete)
            pending, done = pl.concat(chunks), complete
            yield _sum_curves(pending, occupancy_of, start[intervals], end[intervals])
            chunks = [pending.filter(pl.col("end") > int(start[done]))]
    if done < len(start):
        yield _sum_curves(pl.concat(chunks), occupancy_of, start[done:], end[done:])


def _sum_curves(
    kernels: pl.DataFrame, occupancy_of: Callable[[pl.DataFrame], pl.DataFrame], start: Ints, end: Ints
) -> dict[str, Floats]:
    """Sums of these kernels' curves in some intervals."""
    low, high = int(start[0]), int(end[-1])
    started = kernels.filter(pl.col("start") < high)
    inside = started.select(pl.col("start", "end").clip(low, high))
    busy = union(inside["start"].to_numpy(), inside["end"].to_numpy())
    return integrate_curves(
        occupancy_curves(pl.concat([inside, occupancy_of(started)], how="horizontal")), busy, start, end
    )


_EVENTS_IN_MEMORY: Final = 1 << 17
"""Approximate number of events of all lanes of a device that are in memory at once."""

_KERNELS_AT_ONCE: Final = 1 << 16
"""Approximate number of kernels whose curves are computed together, at a kilobyte of memory each."""


def _value_changes(value: pl.Series) -> pl.Series:
    """Mask of the values that differ from the one before; the first and the last are always included."""
    changed = value.to_numpy()[1:] != value.to_numpy()[:-1]
    is_change = np.append(True, changed)
    is_change[-1] = True
    return pl.Series(is_change)
