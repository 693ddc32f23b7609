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
    GRID_IN_BLOCKS,
    Floats,
    LaunchRows,
    bucket_edges,
    bucket_size,
    device_capacity,
    drawable_measures,
    index_launch_rows,
    index_launches_in_memory,
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
from tracehound.model.trace import COUNTERS, KIND_CODES, LANES, FileFrames, collect_frame, collect_streaming
from tracehound.numeric.intervals import Ints, Mask, union

MIN_KERNELS: Final = 16
"""Number of kernels of a device from which a curve shows more than the kernels themselves."""

MAX_INTERVALS: Final = 1000
"""Number of intervals of a curve, at most."""

_FIRST_LANE_ORDER: Final = -len(UTILIZATION_COUNTERS)
"""Order of the first curve's lane: the curves come before the other counters of their rank."""


_UTILIZATION_COUNTER: Final = re.compile("utili[sz]ation", re.IGNORECASE)


class _Curve(NamedTuple):
    """A curve of one device: its `value` from each `time` on."""

    rank: int
    host: int
    measure: str
    name: str
    order: int
    time: Ints
    value: Floats


def add_device_curves(frames: FileFrames, *, has_thread_grids: bool = True) -> FileFrames:
    """The frames, with a counter for each curve of each device that runs kernels.

    Without `has_thread_grids` no call gives the grid of a kernel in threads.

    A file with utilization counters of its own, such as those of the PyTorch TensorBoard plugin, gets no curves.
    Counters of an export are replaced: they were computed from the kernels of the exported trace in this way.
    """
    names = [name for _, _, name in _counter_lanes(frames)]
    if any(_UTILIZATION_COUNTER.search(name) and not is_exported_counter(name) for name in names):
        return frames
    curves = list(_device_curves(frames, has_thread_grids))
    if not curves:
        return frames
    first_lane = (
        int(frames.lanes["lane"].to_numpy().max(initial=-1)) + 1
    )  # counters without valid times have numbers, but no lanes
    frames = _without_exported_curves(frames, curves)
    lanes = pl.DataFrame([_lane_row(number, curve) for number, curve in enumerate(curves, first_lane)], LANES)
    samples = {
        "lane": np.repeat(np.arange(len(curves)) + first_lane, [len(curve.time) for curve in curves]),
        "time": np.concatenate([curve.time for curve in curves]),
        "value": np.concatenate([curve.value for curve in curves]),
    }
    all_samples = frames.counters.vstack(pl.DataFrame(samples, COUNTERS))
    return replace(frames.with_frames(lanes=frames.lanes.vstack(lanes)), make_counters=all_samples.clone)


def _counter_lanes(frames: FileFrames) -> list[tuple[int, int | None, str]]:
    """Number, rank and name of the lane of each counter."""
    columns = (frames.lanes[name].to_list() for name in ("lane", "rank", "name", "role"))
    return [(lane, rank, name) for lane, rank, name, role in zip(*columns, strict=True) if role == "counter"]


def _without_exported_curves(frames: FileFrames, curves: Sequence[_Curve]) -> FileFrames:
    """The frames without the counters that an export wrote for these curves."""
    exported_names = {
        (curve.rank, counter_name(UTILIZATION_TITLE, UTILIZATION_LABELS[curve.measure])) for curve in curves
    }
    lanes = [
        lane for lane, rank, name in _counter_lanes(frames) if (rank, current_counter_name(name)) in exported_names
    ]
    if not lanes:
        return frames
    is_other_lane = ~pl.col("lane").is_in(lanes)
    kept = frames.with_frames(lanes=frames.lanes.filter(is_other_lane))
    return replace(kept, make_counters=frames.counters.filter(is_other_lane).clone)


def _lane_row(number: int, curve: _Curve) -> dict[str, object]:
    return {
        "lane": number, "host": curve.host, "rank": curve.rank, "role": "counter", "work": False, "name": curve.name,
        "process": "", "order": curve.order, "rows": 1, "events": 0, "first": int(curve.time[0]),
        "last": int(curve.time[-1]), "unit": "%",
    }  # fmt: skip


def _device_curves(frames: FileFrames, has_thread_grids: bool) -> Iterator[_Curve]:  # noqa: FBT001
    if not frames.lanes["work"].any():
        return
    calls = frames.scan.filter(pl.col("rank").is_null() & (pl.col("kind") == "runtime"))
    by_threads = is_grid_in_threads(calls) if has_thread_grids else GRID_IN_BLOCKS
    launch_rows = _index_launches(frames)
    for row, (host, device) in enumerate(zip(frames.ranks["host"], frames.ranks["device"], strict=True)):
        kernels = _read_kernels(frames, by_threads, _busy_lanes(frames, row))
        if kernels.number < MIN_KERNELS:
            continue
        occupancy_of = partial(join_kernel_occupancy, launched=launch_rows, of=device_capacity(frames.facts, device))
        curves = _mean_curves(kernels, occupancy_of)
        for order, (measure, name) in enumerate(UTILIZATION_COUNTERS.items(), start=_FIRST_LANE_ORDER):
            if measure in curves:
                time, value = curves[measure]
                changes = _value_changes(value)
                yield _Curve(row, host, measure, name, order, time[changes], value[changes])


def _index_launches(frames: FileFrames) -> LaunchRows:
    """The launch args of all kernels, without a query where they are in memory."""
    if "launched" not in frames.facets:
        return index_launch_rows(empty_facet("launched"))
    if frames.in_memory:
        return index_launches_in_memory(frames.collect_facet("launched"))
    return index_launch_rows(frames.facets["launched"])


_KERNEL_KINDS: Final = ("kernel", "collective")
_HAS_KERNEL_TIME: Final = pl.col("kind").is_in(_KERNEL_KINDS) & (pl.col("end") > pl.col("start"))
"""Kernels with a duration."""


_EVENT_COLUMNS: Final = ("lane", "start", "end", "kind", "record")


class _KernelsInOrder(NamedTuple):
    """The kernels of a device by start, in frames; their number, first start and last end."""

    frames: Iterable[pl.DataFrame]
    number: int
    low: int
    high: int


def _read_kernels(frames: FileFrames, by_threads: pl.Expr, lanes: Sequence[LaneRowRange]) -> _KernelsInOrder:
    """The kernels with a duration on these lanes: of few events at once, else as they are needed."""
    if sum(lane.many for lane in lanes) <= _EVENTS_IN_MEMORY:
        return _read_few_kernels(frames, by_threads, lanes)
    events = frames.scan.select(*_EVENT_COLUMNS, by_threads)
    aggregates = (pl.len(), pl.col("start").min().fill_null(0), pl.col("end").max().fill_null(0))
    in_lanes = scan_lanes(events.select("lane", "start", "end", "kind"), lanes)
    number, low, high = collect_streaming(in_lanes.filter(_HAS_KERNEL_TIME).select(*aggregates)).row(0)
    in_order = iterate_in_time_order(events, lanes, _HAS_KERNEL_TIME, _EVENTS_IN_MEMORY)
    return _KernelsInOrder(in_order, number, low, high)


def _read_few_kernels(frames: FileFrames, by_threads: pl.Expr, lanes: Sequence[LaneRowRange]) -> _KernelsInOrder:
    """The kernels with a duration on these lanes, without a query where the events are in memory."""
    if frames.in_memory:
        events = frames.events[[*_EVENT_COLUMNS, "launch"]]
        rows = np.concatenate([np.arange(lane.low, lane.low + lane.many) for lane in lanes] or [_NO_ROWS])
    else:
        events = collect_frame(scan_lanes(frames.scan, lanes).select(*_EVENT_COLUMNS, "launch"))
        rows = np.arange(events.height)
    start, end, kind = (
        series.to_numpy()[rows] for series in (events["start"], events["end"], events["kind"].to_physical())
    )
    chosen = np.flatnonzero(np.isin(kind, [KIND_CODES[name] for name in _KERNEL_KINDS]) & (end > start))
    chosen = chosen[np.argsort(start[chosen], kind="stable")]
    low, high = (int(start[chosen[0]]), int(end[chosen].max())) if len(chosen) else (0, 0)
    kernels = events.select_seq(pl.all().gather(rows[chosen])).with_columns(by_threads)
    return _KernelsInOrder([kernels], len(chosen), low, high)


_NO_ROWS: Final = np.empty(0, np.int64)


def _busy_lanes(frames: FileFrames, rank: int) -> list[LaneRowRange]:
    """Rows of each lane with the work of a rank."""
    columns = (frames.lanes[name].to_list() for name in ("lane", "events", "work", "rank"))
    low, found = 0, list[LaneRowRange]()
    for lane, events, work, owner in sorted(zip(*columns, strict=True)):
        if work and owner == rank:
            found.append(LaneRowRange(lane, low, events))
        low += events
    return found


def _mean_curves(
    kernels: _KernelsInOrder, occupancy_of: Callable[[pl.DataFrame], pl.DataFrame]
) -> dict[str, tuple[Ints, Floats]]:
    """Mean of each known measure in each interval, with 0 at the end: times, and values in percent.

    `occupancy_of` computes the occupancy of kernels.
    """
    low, high = kernels.low, kernels.high
    start, end = bucket_edges(low, high, bucket_size(high - low, MAX_INTERVALS))
    sums_by_interval = list(_sum_curves_stepwise(kernels.frames, occupancy_of, start, end))
    mean_values = mean_occupancy(
        {name: np.concatenate([sums[name] for sums in sums_by_interval]) for name in sums_by_interval[0]}, start, end
    )
    percent = mean_values.select_seq((pl.col(*UTILIZATION_COUNTERS).fill_null(0.0) * 100).round(_PERCENT_DIGITS))
    return {
        name: (
            np.append(start[intervals], end[intervals][-1]),
            np.append(percent[name].to_numpy()[intervals], 0.0),
        )
        for name, intervals in drawable_measures(mean_values, UTILIZATION_COUNTERS).items()
    }


_PERCENT_DIGITS: Final = 9
"""Digits of a percentage: smaller differences come from the order of summation and are no change of a curve."""


def _sum_curves_stepwise(
    kernels: Iterable[pl.DataFrame], occupancy_of: Callable[[pl.DataFrame], pl.DataFrame], start: Ints, end: Ints
) -> Iterator[dict[str, Floats]]:
    """Sums of the kernels' curves in consecutive intervals, some intervals at a time.

    Intervals that are complete are summed when more kernels come: all at once for few kernels.
    """
    done, chunks = 0, list[pl.DataFrame]()
    for kernels_chunk in (each for frame in kernels for each in frame.iter_slices(_KERNELS_AT_ONCE)):
        complete = int(np.searchsorted(end, chunks[-1]["start"][-1], side="right")) if chunks else 0
        if complete > done:
            intervals = slice(done, complete)
            pending, done = pl.concat(chunks), complete
            yield _sum_curves(pending, occupancy_of, start[intervals], end[intervals])
            chunks = [pending.filter(pl.col("end") > int(start[done]))]
        chunks.append(kernels_chunk)
    if done < len(start):
        yield _sum_curves(pl.concat(chunks), occupancy_of, start[done:], end[done:])


def _sum_curves(
    kernels: pl.DataFrame, occupancy_of: Callable[[pl.DataFrame], pl.DataFrame], start: Ints, end: Ints
) -> dict[str, Floats]:
    """Sums of these kernels' curves in some intervals."""
    low, high = int(start[0]), int(end[-1])
    started = kernels if kernels["start"][-1] < high else kernels.filter(pl.col("start") < high)
    inside = {name: np.clip(started[name].to_numpy(), low, high) for name in ("start", "end")}
    filled = occupancy_of(started).hstack([pl.Series(name, times) for name, times in inside.items()])
    return integrate_curves(occupancy_curves(filled), union(inside["start"], inside["end"]), start, end)


_EVENTS_IN_MEMORY: Final = 1 << 17
"""Approximate number of events of all lanes of a device that are in memory at once."""

_KERNELS_AT_ONCE: Final = 1 << 16
"""Approximate number of kernels whose curves are computed together, at a kilobyte of memory each."""


def _value_changes(value: Floats) -> Mask:
    """Mask of the values that differ from the one before; the first and the last are always included."""
    is_change = np.append(True, value[1:] != value[:-1])
    is_change[-1] = True
    return is_change
