"""Measures of a step besides its ops: launches, idle causes, compiling, annotations, modules, and counters.

Owns the map over ranks that measures them. Annotations of two runs match by name, without the number that counts them,
modules by class. Times are ps in a step, averaged over the ranks that have the step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.devices.allocations import allocations_of_facet, bytes_held_throughout
from tracehound.analysis.hosts.host_compilations import find_compilations
from tracehound.analysis.hosts.launch_calls import find_enqueued_work
from tracehound.analysis.idle import CAUSES, device_gaps
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_table, make_result
from tracehound.analysis.stream_gaps import StreamGaps
from tracehound.diff.compared_intervals import ComparedIntervals, ComparedWork, compared_work, cut_at_intervals
from tracehound.diff.idle_reasons import COUNTER_SUFFIX, idle_reasons
from tracehound.diff.op_identity import DEVICE_WORK, op_name_without_number
from tracehound.formats.kineto.kineto_counters import HOST_MEMORY_COUNTER
from tracehound.formats.torch_names import MODULE_PREFIX, UTILIZATION_COUNTERS
from tracehound.model.ids import file_index_of
from tracehound.model.memory_devices import HOST_DEVICE
from tracehound.model.trace import Trace, collect_frame
from tracehound.numeric.intervals import Ints, Mask, covered_lengths, union

INSTANCE_SUFFIX: Final = r"_\d+$"
"""The number behind the class of a module: a model has many layers of a class, which are compared together."""

ON_HOST_THREADS, ON_THE_DEVICE = "host", "device"


class AnnotationIntervals(NamedTuple):
    """The times at which each annotation is open: of nested ones of one name and thread the outermost."""

    names: pl.DataFrame
    """Topic (annotations, modules) and name of each annotation."""
    mark: Ints
    lane: Ints
    start: Ints
    end: Ints


def measure_annotations(rank_trace: RankTrace, intervals: ComparedIntervals) -> pl.DataFrame:
    """The open time of each annotation on threads, and the time of the work that was launched in it.

    Both count in an interval as far as they overlap it; count is the number that begin there. Work belongs to an
    annotation that is open on the thread of the launching call when the call begins. There is a row for each interval
    and annotation in it: step, topic, name, count and value (ps).
    """
    found = _find_annotations(rank_trace)
    at, interval, start, end = cut_at_intervals(np.arange(len(found.mark)), found.start, found.end, intervals)
    on_host = pl.DataFrame(
        {
            "mark": found.mark[at],
            "step": intervals.number[interval],
            "count": start == found.start[at],
            "value": end - start,
        }
    )
    mark, low, high = _work_launched_in_annotations(rank_trace, found)
    at, interval, start, end = cut_at_intervals(np.arange(len(mark)), low, high, intervals)
    on_device = pl.DataFrame(
        {"mark": mark[at], "step": intervals.number[interval], "count": start == low[at], "value": end - start}
    )
    return pl.concat(
        [
            _annotation_sums(found.names, on_host, ON_HOST_THREADS),
            _annotation_sums(found.names, on_device, ON_THE_DEVICE),
        ]
    )


def _annotation_sums(names: pl.DataFrame, rows: pl.DataFrame, where: str) -> pl.DataFrame:
    """The sums of each annotation that has any time."""
    sums = rows.group_by("mark", "step").agg(pl.col("count").sum().cast(pl.Int64), pl.col("value").sum())
    timed = sums.filter(pl.col("value").sum().over("mark") > 0)
    name = pl.format("{}: {}", "name", pl.lit(where)).alias("name")
    return timed.join(names, on="mark").select("step", "topic", name, "count", "value")


def _find_annotations(rank_trace: RankTrace) -> AnnotationIntervals:
    """The annotations and modules of the rank's threads."""
    name = pl.col("name").cast(pl.String)
    module = (pl.col("kind") == "python") & name.str.starts_with(MODULE_PREFIX)
    events = collect_frame(
        rank_trace.threads.filter((pl.col("kind") == "annotation") | module).select(
            "lane",
            "start",
            "end",
            pl.when(module).then(pl.lit("modules")).otherwise(pl.lit("annotations")).alias("topic"),
            pl.when(module)
            .then(name.str.strip_prefix(MODULE_PREFIX).str.replace(INSTANCE_SUFFIX, ""))
            .otherwise(name.str.replace(COUNTER_SUFFIX, ""))
            .alias("name"),
        )
    )
    names = events.select("topic", "name").unique().sort("topic", "name").with_row_index("mark")
    names = names.with_columns(pl.col("mark").cast(pl.Int64))
    open_ = _merge_nested(events.join(names, on=("topic", "name")))
    return AnnotationIntervals(names, *(open_[column].to_numpy() for column in ("mark", "lane", "start", "end")))


def _merge_nested(events: pl.DataFrame) -> pl.DataFrame:
    """The union of the events of each annotation and lane."""
    rows = events.filter(pl.col("end") > pl.col("start")).sort("mark", "lane", "start")
    reach = pl.col("end").cum_max().shift(1).over("mark", "lane")
    fresh = reach.is_null() | (pl.col("start") > reach)
    numbered = rows.with_columns(fresh.cum_sum().alias("number"))
    return numbered.group_by("number").agg(pl.col("mark", "lane", "start").first(), pl.col("end").max())


def _work_launched_in_annotations(rank_trace: RankTrace, found: AnnotationIntervals) -> tuple[Ints, Ints, Ints]:
    """Pairs of an annotation and work that was launched in it: the annotation, and start and end of the work."""
    work = find_enqueued_work(rank_trace, rank_trace.device).work.sort("caller", "called")
    lane, called, start, end = (work[name].to_numpy() for name in ("caller", "called", "start", "end"))
    mark, row = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for thread in np.unique(found.lane).tolist():
        selected = np.flatnonzero(found.lane == thread)
        first, last = (int(np.searchsorted(lane, thread, side)) for side in ("left", "right"))
        low, high = (np.searchsorted(called[first:last], times[selected]) for times in (found.start, found.end))
        many = high - low
        inside = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
        mark.append(np.repeat(found.mark[selected], many))
        row.append(np.repeat(low, many) + inside + first)
    rows = np.concatenate(row)
    return np.concatenate(mark), start[rows], end[rows]


MEASURE_SCHEMA: Final = {
    "step": pl.Int64,
    "topic": pl.String,
    "name": pl.String,
    "count": pl.Float64,
    "value": pl.Float64,
}
"""A row for each step and measure: `value` is ps for the topics launches, idle, reasons (of idle time), compiling,
annotations and modules, bytes for memory and for before (the bytes by which memory is less than recorded), and a plain
value for counters and for work (FLOPs and bytes of HLO ops). Of the topic shapes there is a row for each op and its
shapes in one step: its name, `SHAPE_SEPARATOR`, and the shapes in JSON; `value` is its place in their order."""

REASONS: Final = "reasons"
"""Topic of the idle time by its reasons."""

WORK: Final = "work"
"""Topic of the work of a step that the ops say themselves."""

SHAPES: Final = "shapes"
"""Topic of the shapes that ops of one step have."""

SHAPE_SEPARATOR: Final = "\t"
"""Between the name of an op and its shapes."""

EDGE_IDLE: Final = "before or after all work"

_MEASURE_COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("step", "count", "step"),
    Column("topic", "text", "what is measured"),
    Column("name", "text", "of it"),
    Column("count", "count", "how often in the step"),
    Column("value", "time", "time in the step"),
)


def _measures_of_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each step and measure with a count or a value."""
    work = compared_work(rank_trace)
    rank_trace, intervals = work.rank_trace, work.intervals
    found = [
        _compile_measures(rank_trace, intervals),
        measure_annotations(rank_trace, intervals),
        *_work_measures(work),
    ]
    idle = _idle_measures(work.on_own_clock(), options) if work.of == DEVICE_WORK else []
    if work.of == DEVICE_WORK:
        found += [_launch_measures(rank_trace, intervals), *idle]
    found.append(_reason_measures(work, idle, options))
    rows = pl.concat(found, how="vertical_relaxed")
    return rows.filter((pl.col("count") > 0) | (pl.col("value") > 0)).with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank")
    )


def _interval_rows(intervals: ComparedIntervals, topic: str, name: str, count: Ints, value: Ints) -> pl.DataFrame:
    """A row for each interval."""
    return pl.DataFrame({"step": intervals.number, "count": count, "value": value}).select(
        "step", pl.lit(topic).alias("topic"), pl.lit(name).alias("name"), pl.col("count", "value").cast(pl.Int64)
    )


def _launch_measures(rank_trace: RankTrace, intervals: ComparedIntervals) -> pl.DataFrame:
    """Calls whose work begins in an interval, and their time on the host."""
    calls = (
        find_enqueued_work(rank_trace, rank_trace.device)
        .work.sort("start")
        .unique("launch", keep="first", maintain_order=True)
    )
    at, inside = _interval_of_times(calls["start"].to_numpy(), intervals)
    length = (calls["returned"] - calls["called"]).to_numpy()
    return _interval_rows(
        intervals, "launches", "launches", *_count_and_sum(at[inside], length[inside], len(intervals.start))
    )


def _idle_measures(work: ComparedWork, options: Options) -> list[pl.DataFrame]:
    """The gaps of the whole device by their causes, and the idle time at the edges."""
    found_gaps, intervals = device_gaps(work.rank_trace, options), work.intervals
    gaps, cause = found_gaps.gaps, found_gaps.cause
    if work.clock is not None:
        begin, until = work.clock.to_device_bounds(gaps.start, gaps.end)
        gaps = gaps._replace(start=begin, end=until)
    owner, interval, start, end = cut_at_intervals(np.arange(len(cause)), gaps.start, gaps.end, intervals)
    at, inside = _interval_of_times(gaps.start, intervals)
    found, size = [], len(intervals.start)
    for number, name in enumerate(CAUSES):
        selected = cause[owner] == number
        _, time = _count_and_sum(interval[selected], (end - start)[selected], size)
        count, _ = _count_and_sum(at[inside & (cause == number)], np.zeros(0, np.int64), size)
        found.append(_interval_rows(intervals, "idle", name, count, time))
    return [
        *found,
        _interval_rows(
            intervals, "idle", EDGE_IDLE, np.zeros(size, np.int64), _idle_at_edges(work.events, gaps, intervals)
        ),
    ]


def _reason_measures(work: ComparedWork, idle: Sequence[pl.DataFrame], options: Options) -> pl.DataFrame:
    """The idle time by its reasons; on a clock of the device's own it is scaled to the `idle` time by that."""
    rows = idle_reasons(work, options).with_columns(pl.lit(REASONS).alias("topic"))
    if work.clock is not None and idle:
        own = pl.concat(idle).group_by("step").agg(pl.col("value").sum().alias("own"))
        scale = (pl.col("own") / pl.col("value").sum().over("step")).fill_nan(1.0).fill_null(1.0)
        scaled = (pl.col("value") * scale).round().cast(pl.Int64).alias("value")
        rows = rows.join(own, on="step", how="left").with_columns(scaled)
    return rows.select("step", "topic", "name", "count", "value")


def _work_measures(work: ComparedWork) -> list[pl.DataFrame]:
    """FLOPs and bytes of the HLO ops of each step, and the shapes of ops in one step from the middle of the run."""
    intervals, events = work.intervals, work.events
    at, inside = _interval_of_times(events["start"].to_numpy(), intervals)
    executed = events.filter(pl.Series(inside)).select(
        "op", pl.Series("interval", at[inside]), (pl.col("end") - pl.col("start")).alias("length")
    )
    known = work.rank_trace.ops.select(
        "op", "name", "category", "text", flops=pl.coalesce("flops", "estimated_flops"),
        bytes=pl.coalesce("bytes_accessed", "estimated_bytes"),
    )  # fmt: skip
    rows = executed.drop_nulls("op").join(known, on="op", how="left", maintain_order="left")
    found = []
    for column, name in (("flops", "FLOPs"), ("bytes", "bytes accessed")):
        at, size = rows["interval"].to_numpy(), len(intervals.number)
        total = np.bincount(at, rows[column].fill_null(0).to_numpy(), size) if len(at) else np.zeros(size)
        amount = np.where(_is_known_work(rows, column, size), total.clip(0, MAX_WORK), 0).astype(np.int64)
        found.append(_interval_rows(intervals, WORK, name, np.zeros(len(amount), np.int64), amount))
    if not len(intervals.number):
        return found
    middle = len(intervals.number) // 2
    shaped = _hlo_shapes(rows.filter(interval=middle)) if rows.height else _operator_shapes(work, middle)
    names = shaped.unique(maintain_order=True).head(MAX_SHAPES).to_series()
    shapes = {"step": int(intervals.number[middle]), "topic": SHAPES, "name": names, "count": 1}
    place = pl.int_range(1, len(names) + 1, eager=True)
    return [*found, pl.DataFrame({**shapes, "value": place}).select("step", "topic", "name", "count", "value")]


def _is_known_work(rows: pl.DataFrame, column: str, size: int) -> Mask:
    """A mask of the intervals in which custom calls, of whose work nothing is known, take little time of the ops."""
    is_unknown = (pl.col("category") == "custom-call") & (pl.col(column).fill_null(0) == 0)
    unknown = pl.when(is_unknown.fill_null(value=False)).then("length").otherwise(0)
    times = rows.select("interval", "length", unknown.alias("unknown"))
    of_all, of_unknown = (
        _count_and_sum(times["interval"].to_numpy(), times[name].to_numpy(), size)[1] for name in ("length", "unknown")
    )
    found: Mask = of_unknown <= MAX_UNKNOWN_WORK * of_all
    return found


MAX_WORK: Final = 2.0**62
"""No step does more work: what a damaged file says beyond that is cut."""

MAX_UNKNOWN_WORK: Final = 0.1
"""The work of a step is unknown if custom calls take a larger share of its ops' time."""

MAX_SHAPES: Final = 1_000
"""At most so many ops with different shapes are held."""

_SHAPE_IN_TEXT: Final = r"\b[a-z]+[0-9]*[a-z0-9]*\[[0-9,]*\]"
"""A shape in the text of an HLO instruction: ``f32[16,128]``."""


def _hlo_shapes(rows: pl.DataFrame) -> pl.DataFrame:
    """The names of executed HLO ops with the shapes of their results and operands, in the order of execution."""
    dims = (
        pl.col("text").fill_null("").str.extract_all(_SHAPE_IN_TEXT).list.eval(pl.element().str.extract(r"(\[.*\])", 1))
    )
    name = pl.col("name").fill_null("").map_elements(op_name_without_number, return_dtype=pl.String)
    shapes = pl.format("[{}]", dims.list.join(","))
    return rows.select(pl.concat_str(name, pl.lit(SHAPE_SEPARATOR), shapes))


def _operator_shapes(work: ComparedWork, middle: int) -> pl.DataFrame:
    """The operators of PyTorch in a step of the host, with the shapes of their inputs, in their order."""
    rank_trace, intervals = work.rank_trace, work.intervals
    if "called" not in rank_trace.facets:
        return pl.DataFrame({"name": []}, schema={"name": pl.String})
    number = int(intervals.number[middle])
    begin, until = int(intervals.start[middle]), int(intervals.end[middle])
    there = (
        pl.col("step") == number
        if intervals.what == "steps"
        else pl.col("start").is_between(begin, until, closed="left")
    )
    calls = rank_trace.threads.filter((pl.col("kind") == "op") & there).select("name", "record")
    shaped = rank_trace.facet("called").select("record", "dims").drop_nulls("dims")
    rows = collect_frame(calls.join(shaped, on="record", maintain_order="left"))
    return rows.select(pl.concat_str(pl.col("name", "dims").cast(pl.String), separator=SHAPE_SEPARATOR))


def _idle_at_edges(events: pl.DataFrame, gaps: StreamGaps, intervals: ComparedIntervals) -> Ints:
    """Time of each interval before the first work or after the last; `events` are those that run in any interval."""
    edges = events.select(pl.col("start").min(), pl.col("end").max()).drop_nulls()
    worked = union(*(np.append(one, edges[name]) for one, name in ((gaps.start, "start"), (gaps.end, "end"))))
    outside: Ints = intervals.end - intervals.start - covered_lengths(worked, intervals.start, intervals.end)
    return outside


def _compile_measures(rank_trace: RankTrace, intervals: ComparedIntervals) -> pl.DataFrame:
    """Compilations that begin in an interval, and the time in which any runs on the host."""
    start, end = find_compilations(rank_trace).select("start", "end").to_numpy().T
    at, inside = _interval_of_times(start, intervals)
    count, _ = _count_and_sum(at[inside], np.zeros(0, np.int64), len(intervals.start))
    return _interval_rows(
        intervals, "compiling", "compiling", count, covered_lengths(union(start, end), intervals.start, intervals.end)
    )


def _interval_of_times(
    times: Ints, intervals: ComparedIntervals
) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The interval around each instant, and whether there is one."""
    at = np.searchsorted(intervals.start, times, side="right") - 1
    return at, (at >= 0) & (times < np.append(intervals.end, 0)[at])


def _count_and_sum(at: Ints, values: Ints, size: int) -> tuple[Ints, Ints]:
    """The number of values in each interval, and their sums."""
    count = np.bincount(at, minlength=size)
    total = np.bincount(at, values, minlength=size) if len(values) else np.zeros(size)
    return count, np.rint(total).astype(np.int64)


def average_over_ranks(rows: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """Measures of a step, averaged over the `ranks` that have it (step, ranks)."""
    summed = rows.group_by("step", "topic", "name").agg(pl.col("count", "value").sum().cast(pl.Float64))
    mean = pl.col("count", "value") / pl.col("ranks")
    return summed.join(ranks, on="step").with_columns(mean).select(list(MEASURE_SCHEMA)).sort("step", "topic", "name")


def counter_measures(trace: Trace, stretches: pl.DataFrame) -> pl.DataFrame:
    """Values of counters in each step: the peak of bytes, of others the average over time; averaged over ranks.

    `stretches` has rank, step, start and end. A counter of a host counts for the first rank that it drives. The value
    of a counter before its first sample is unknown, except for utilization: no kernel had run. PyTorch's allocator of
    the host counts while a profiler records: its memory from earlier recordings of the process is left out.
    """
    first = trace.ranks.sort("rank").unique("host", keep="first").select("host", pl.col("rank").alias("driven"))
    lanes = trace.lanes.filter(role="counter").join(first, on="host", how="left")
    lanes = lanes.with_columns(pl.coalesce("rank", "driven").cast(pl.Int64).alias("rank"))
    found = [pl.DataFrame(schema=MEASURE_SCHEMA)]
    for lane, rank, name, unit in lanes.select("lane", "rank", "name", "unit").iter_rows():
        selected, samples = stretches.filter(rank=rank), trace.samples(lane)
        if samples.is_empty() or selected.is_empty():
            continue
        if name in UTILIZATION_COUNTERS.values():
            samples = pl.concat([_SAMPLE_BEFORE_ALL, samples])
        time, value = samples["time"].to_numpy(), samples["value"].to_numpy()
        sums = _interval_peaks if unit == "bytes" else _interval_averages
        values = sums(time, value, selected["start"].to_numpy(), selected["end"].to_numpy())
        topic = "memory" if unit == "bytes" else "counters"
        before = _memory_before_recording(trace, lane) if name == HOST_MEMORY_COUNTER else 0
        rows = {
            "step": selected["step"],
            "topic": topic,
            "name": _DEVICE_PREFIX.sub("", name or ""),
            "count": 0.0,
            "value": values - before,
        }
        found.append(pl.DataFrame(rows, schema=MEASURE_SCHEMA).filter(pl.col("value").is_finite()))
        if before:
            found.append(pl.DataFrame({**rows, "topic": "before", "value": float(before)}, schema=MEASURE_SCHEMA))
    return pl.concat(found).group_by("step", "topic", "name").agg(pl.col("count", "value").mean())


def _memory_before_recording(trace: Trace, lane: int) -> int:
    """Bytes of the host's allocator from before the recording of this lane's file that are never freed in it."""
    facets = trace.facets[file_index_of(lane)]
    return (
        bytes_held_throughout(allocations_of_facet(facets["allocated"].filter(device=HOST_DEVICE)))
        if "allocated" in facets
        else 0
    )


_SAMPLE_BEFORE_ALL: Final = pl.DataFrame({"time": [-(1 << 62)], "value": [0.0]})
"""A sample before all others."""

_DEVICE_PREFIX: Final = re.compile(r"^[A-Z]+[ :]\d+ ")
"""The device of a counter: runs are compared over all devices."""

_Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


def _interval_peaks(time: Ints, value: _Floats, start: Ints, end: Ints) -> _Floats:
    """The highest value in each `[start, end)`; NaN before the first sample."""
    low = np.maximum(np.searchsorted(time, start, side="right") - 1, 0)
    high = np.searchsorted(time, end, side="left")
    known = high > low
    bounds = np.stack([low, np.maximum(high, low + 1)], axis=1).ravel()
    most = np.maximum.reduceat(np.append(value, -np.inf), bounds)[::2]
    return np.where(known, most, np.nan)


def _interval_averages(time: Ints, value: _Floats, start: Ints, end: Ints) -> _Floats:
    """The average of each `[start, end)` over its time, from the first sample on; NaN before that."""
    with np.errstate(over="ignore", invalid="ignore"):  # of a damaged file: what is not finite is left out
        before = np.concatenate([[0.0], np.cumsum(value[:-1] * np.diff(time))])

    def until(times: Ints) -> _Floats:
        last = np.searchsorted(time, times, side="right") - 1
        work: _Floats = before[last] + value[last] * (times - time[last])
        return work

    low, known = np.maximum(start, time[0]), end > time[0]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(known, (until(np.maximum(end, low)) - until(low)) / (end - low), np.nan)


def _join_rank_measures(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The measures of all ranks in one table."""
    filled = [table for table in tables if table.height]
    return make_result(
        MEASURES_ANALYSIS, pl.concat(filled) if filled else empty_table(_MEASURE_COLUMNS), context, options
    )


MEASURES_ANALYSIS: Final = Analysis(
    name="measures",
    title="Measures",
    question="What does a step do besides its ops?",
    definition="Launches, pauses by cause, compilations, annotations and modules of each step.",
    columns=_MEASURE_COLUMNS,
    per_rank=_measures_of_rank,
    combine=_join_rank_measures,
)
