"""Evidence of one rank for the rules: traits, kernel times in its steps, and times of single events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.devices.allocations import with_levels_at_start
from tracehound.analysis.devices.missing_data import unrecorded_launches
from tracehound.analysis.findings.evidence import FindingLocation
from tracehound.analysis.hosts.host_compilations import (
    LOADED_PROGRAMS,
    UNKNOWN_FUNCTION,
    compiled_function_column,
    count_compilations,
    find_compilations,
)
from tracehound.analysis.hosts.host_threads import enclosing_events, host_events_by_id, with_shared_threads
from tracehound.analysis.hosts.thread_activity import LAZY_TENSOR_NAMES
from tracehound.analysis.rank_trace import RankTrace, SharedHostResult
from tracehound.analysis.ranks.rank_collectives import SEND_AND_RECV, intervals_without_compute, rank_calls
from tracehound.analysis.timing.row_groups import NameKindPairs, category_codes, group_rows, largest_row_per_group
from tracehound.model.memory_devices import is_memory_like
from tracehound.model.trace import collect_frame, schema
from tracehound.numeric.intervals import Intervals, covered_lengths, union
from tracehound.numeric.trees import sum_groups

TRAIT_TYPES: Final = {
    "rank": pl.Int64,
    "window": pl.Int64,  # length of the host's window, ps
    "launches_known": pl.Float64,  # share of the work of streams with a recorded launch; null without any
    "work_missing": pl.Boolean,  # so many launches have no recorded work that idle time cannot be trusted
    "data_parallel": pl.Int64,  # calls of DataParallel's forward
    "data_parallel_event": pl.Int64,  # the longest of them
    "distributed_data_parallel": pl.Int64,
    "distributed_data_parallel_event": pl.Int64,
    "nccl": pl.Int64,  # operators and ranges of NCCL's collectives
    "lazy": pl.Int64,  # calls that only PyTorch/XLA makes
    "softmax": pl.Int64,  # calls of softmax, without log_softmax
    "batched": pl.Int64,  # batched matrix products
    "fallback": pl.Int64,  # attention without a fused kernel
    "pageable": pl.Int64,  # ps of copies from and to pageable memory of the host, in whole steps or the window
    "pageable_to_device": pl.Int64,  # the part of it of copies to the device
    "pageable_event": pl.Int64,  # the longest of them
    "pageable_operator": pl.String,  # the outermost operator that launched it
    "backward": pl.Int64,  # operators of a backward pass
    "operators": pl.Int64,  # of ATen
    "frames": pl.Int64,  # Python frames with a source line
    "compiling": pl.Int64,  # ps in which any thread compiles
    "compiling_in_steps": pl.Int64,  # the part of it in whole steps; null without any
    "compilations": pl.Int64,  # number, as the analysis compiles counts
    "compile_event": pl.Int64,  # the longest
    "compiled": pl.String,  # the function of the longest compilation
    "recompiled": pl.String,  # the function that was compiled most often
    "recompilations": pl.Int64,  # number of times
    "handing": pl.Int64,  # ps of exposed sends and receives, in whole steps or the window
    "meeting": pl.Int64,  # ps of other exposed communication, where there are any of these
    "peak": pl.Int64,  # peak of the device's allocator, bytes
    "peak_time": pl.Int64,
}
"""The columns of the traits, a row for each rank."""

_NAME_PATTERNS: Final = {
    "data_parallel": r"^DataParallel\.forward$",
    "distributed_data_parallel": r"^DistributedDataParallel\.forward$",
    "nccl": r"^(?:nccl:|c10d::)",
    "lazy": LAZY_TENSOR_NAMES.pattern,
    "softmax": r"^aten::_softmax$",
    "batched": r"^aten::(?:bmm|baddbmm)$",
    "operators": r"^aten::",
    "frames": r"^\$?[^<\s]\S*(?:\(\d+\): |:\d+ )\S",
    "backward": r"^autograd::engine|Backward\d*$",
    "fallback": r"^aten::_scaled_dot_product_attention_math$",
}
_TRAITS_WITH_EVENT: Final = ("data_parallel", "distributed_data_parallel")
_TO_DEVICE_PATTERN: Final = r"(?i)HtoD|Pageable\s*->"
_PAGEABLE_PATTERN: Final = r"(?i)memcpy.*pageable"


def rank_traits(rank_trace: RankTrace, step_intervals: Callable[[], Intervals | None]) -> pl.DataFrame:
    """The traits of a rank, in its window; `step_intervals` gives its whole steps, None where it has none."""
    return pl.concat(
        [
            pl.DataFrame(
                {
                    "rank": [rank_trace.rank],
                    "window": [rank_trace.with_host_window.end - rank_trace.with_host_window.start],
                    "launches_known": [_share_of_known_launches(rank_trace)],
                    "work_missing": [unrecorded_launches(rank_trace).is_notable],
                }
            ),
            HOST_CALL_COUNTS.result_for(rank_trace),
            _measure_pageable_copies(rank_trace, step_intervals),
            _measure_compiling(rank_trace, step_intervals),
            _measure_exposed_communication(rank_trace, step_intervals),
            _memory_peak(rank_trace),
        ],
        how="horizontal",
    ).select(pl.col(column).cast(dtype) for column, dtype in TRAIT_TYPES.items())


def _share_of_known_launches(rank_trace: RankTrace) -> float | None:
    """The share of the work of streams whose launch was recorded; None without any."""
    streams = rank_trace.lanes.filter(pl.col("work") & (pl.col("role") == "stream"))["lane"].to_list()
    work = rank_trace.device_anytime.filter(pl.col("lane").is_in(streams))
    return collect_frame(work.select(pl.col("launch").is_not_null().mean())).item() if streams else None


def _count_host_calls(rank_trace: RankTrace, given: ChosenSettings) -> pl.DataFrame:
    del given
    events = collect_frame(with_shared_threads(rank_trace).threads.select("id", "start", "end", "name", "kind"))
    totals, longest = dict.fromkeys(_NAME_PATTERNS, 0), {trait: list[pl.DataFrame]() for trait in _TRAITS_WITH_EVENT}
    for rows in events.iter_slices(_EVENTS_AT_ONCE):
        pairs = NameKindPairs(rows["name"], rows["kind"])
        inside = ((rows["start"] < rank_trace.end) & (rows["end"] > rank_trace.start)).to_numpy()
        number = pairs.pair_numbers
        counts = np.bincount(number if inside.all() else number[inside], minlength=len(pairs.rows))
        distinct = rows.select(pl.col("name", "kind").gather(pairs.rows).cast(pl.String))
        is_call = distinct["kind"].is_in(_CALL_KINDS)
        for trait, pattern in _NAME_PATTERNS.items():
            matching = (is_call & distinct["name"].str.contains(pattern)).fill_null(value=False).to_numpy()
            totals[trait] += int(counts[matching].sum())
            if trait in _TRAITS_WITH_EVENT:
                longest[trait].append(_longest_event(rows.filter(pl.Series(matching[number] & inside))))
    events_of_traits = {
        f"{trait}_event": _longest_event(pl.concat(found))["id"].to_list() if totals[trait] else [None]
        for trait, found in longest.items()
    }
    counted = {trait: [total] for trait, total in totals.items()}
    return pl.DataFrame(counted | events_of_traits, schema_overrides=dict.fromkeys(events_of_traits, pl.Int64()))


_CALL_KINDS: Final = ("op", "annotation", "runtime", "python")

_EVENTS_AT_ONCE: Final = 1 << 19
"""Events whose names are matched at once: each may have a name of its own."""


def _longest_event(events: pl.DataFrame) -> pl.DataFrame:
    """The row of the longest event, of equal ones of the first; no row if there is none."""
    return events.bottom_k(1, by=[pl.col("start") - pl.col("end"), "id"])


HOST_CALL_COUNTS: Final = SharedHostResult(_count_host_calls)
"""Number of operators, annotations, calls and frames of a host that match `_NAME_PATTERNS`, in the window: one row.

Those in `_TRAITS_WITH_EVENT` also have their longest event.
"""


def _measure_pageable_copies(rank_trace: RankTrace, step_intervals: Callable[[], Intervals | None]) -> pl.DataFrame:
    """Time of copies from and to unpinned memory: in whole steps, without any in the window."""
    copies = _select_pageable_copies(rank_trace.device_anytime)
    steps = step_intervals() if copies.height else None
    base_intervals = _window_interval(rank_trace) if steps is None else steps
    inside = covered_lengths(base_intervals, copies["start"].to_numpy(), copies["end"].to_numpy())
    copies = copies.with_columns(pl.Series("length", inside)).filter(pl.col("length") > 0)
    longest = copies.sort("length", "id", descending=[True, False]).head(1)
    to_device = pl.col("name").cast(pl.String).str.contains(_TO_DEVICE_PATTERN)
    launch: int | None = longest["launch"].first()  # type: ignore[assignment]  # of a column of ids
    operator = outermost_operator(rank_trace, launch)
    return pl.DataFrame(
        {
            "pageable": [copies["length"].sum()],
            "pageable_to_device": [copies.filter(to_device)["length"].sum()],
            "pageable_event": [longest["id"].first()],
            "pageable_operator": [operator],
        },
        schema_overrides={"pageable_operator": pl.String},
    )


def outermost_operator(rank_trace: RankTrace, call: int | None) -> str | None:
    """The name of the outermost of the operators directly around this call; None without one."""
    around = enclosing_events(rank_trace, call)
    operators = takewhile(lambda each: each[1] == "op", dropwhile(lambda each: each[1] != "op", around))
    return next(iter(list(operators)[-1:]), (None, ""))[0]


def _select_pageable_copies(events: pl.LazyFrame) -> pl.DataFrame:
    copies = collect_frame(events.filter(pl.col("kind") == "copy").select("id", "name", "start", "end", "launch"))
    names = copies["name"].unique().drop_nulls()
    return copies.filter(
        pl.col("name").is_in(names.filter(names.cast(pl.String).str.contains(_PAGEABLE_PATTERN)).implode())
    )


def _measure_compiling(rank_trace: RankTrace, step_intervals: Callable[[], Intervals | None]) -> pl.DataFrame:
    """Compilations on the threads of the host, and the time in which any thread compiles."""
    compile_events = find_compilations(rank_trace).with_columns(_length_in_window(rank_trace.with_host_window))
    longest = compile_events.sort("length", "event", descending=[True, False]).head(1)
    start, end = (
        compile_events[side].clip(rank_trace.with_host_window.start, rank_trace.with_host_window.end).to_numpy()
        for side in ("start", "end")
    )
    compiling, steps = union(start, end), step_intervals() if compile_events.height else None
    time_in_steps = None if steps is None else int(covered_lengths(steps, compiling.start, compiling.end).sum())
    times = count_compilations(compile_events.with_columns(compiled_function_column()), "function")
    most_often = times.filter(~pl.col("function").is_in([UNKNOWN_FUNCTION, LOADED_PROGRAMS]))
    most_often = most_often.sort("count", "function", descending=[True, False]).head(1)
    return pl.DataFrame(
        {
            "compiling": [compiling.length],
            "compiling_in_steps": [time_in_steps],
            "compilations": [int(times["count"].sum())],
            "compile_event": [longest["event"].first()],
            "compiled": [longest["function"].first()],
            "recompiled": [most_often["function"].first()],
            "recompilations": [most_often["count"].first()],
        },
        schema={name: TRAIT_TYPES[name] for name in _COMPILE_TRAITS},
    )


_COMPILE_TRAITS: Final = (
    "compiling", "compiling_in_steps", "compilations", "compile_event", "compiled", "recompiled", "recompilations",
)  # fmt: skip


def _window_interval(rank_trace: RankTrace) -> Intervals:
    return union(np.array([rank_trace.start]), np.array([rank_trace.end]))


def _length_in_window(rank_trace: RankTrace) -> pl.Expr:
    """The length of an event in the window."""
    return (
        pl.col("end").clip(rank_trace.start, rank_trace.end) - pl.col("start").clip(rank_trace.start, rank_trace.end)
    ).alias("length")


def _measure_exposed_communication(
    rank_trace: RankTrace, step_intervals: Callable[[], Intervals | None]
) -> pl.DataFrame:
    """Exposed time of sends and receives, and of all other communication; 0 without sends and receives."""
    sends_and_receives = rank_trace.facet("communicated").filter(
        pl.col("collective").cast(pl.String).is_in(SEND_AND_RECV)
    )
    if collect_frame(sends_and_receives.select("record").head(1)).is_empty():
        return pl.DataFrame({"handing": [0], "meeting": [0]})
    steps = step_intervals()
    base_intervals = _window_interval(rank_trace) if steps is None else steps
    communication_calls = rank_calls(rank_trace)
    exposed = (
        intervals_without_compute(rank_trace, communication_calls).explode("exposed").unnest("exposed")
        if communication_calls.height
        else pl.DataFrame()
    )
    exposed_times = {"handing": 0, "meeting": 0}
    if exposed.height:
        exposed_calls = exposed.join(
            communication_calls.select("event", "start", pl.col("collective").cast(pl.String)), on="event"
        )
        is_send_or_receive = pl.col("collective").is_in(SEND_AND_RECV).fill_null(value=False)
        for name, condition in (("handing", is_send_or_receive), ("meeting", ~is_send_or_receive)):
            rows = exposed_calls.filter(condition).with_columns(
                pl.col("start") + pl.col("after"), end=pl.col("start") + pl.col("until")
            )
            intervals = union(*(rows.sort("start")[each].to_numpy() for each in ("start", "end")))
            exposed_times[name] = int(covered_lengths(intervals, base_intervals.start, base_intervals.end).sum())
    return pl.DataFrame(exposed_times, schema=dict.fromkeys(exposed_times, pl.Int64))


COLLECTIVE_SCHEMA: Final = schema(
    {
        "rank": pl.Int64(),
        "collective": pl.String(),
        "group_size": pl.Int64(),
        "message": pl.Int64(),  # bytes of one call; null where they are not known
        "count": pl.Int64(),
        "total": pl.Int64(),  # ps
        "exposed": pl.Int64(),  # ps without computation
        "fastest": pl.Int64(),  # the shortest call, ps
    }
)


def collective_calls_by_size(rank_trace: RankTrace, step_intervals: Callable[[], Intervals | None]) -> pl.DataFrame:
    """Collective calls of a rank in its whole steps (without any, in the window) by kind and size of their messages."""
    calls = rank_calls(rank_trace)
    steps = step_intervals() if calls.height else None
    if steps is None:
        calls = calls.filter("in_window")
    else:
        inside = covered_lengths(steps, calls["start"].to_numpy(), calls["end"].to_numpy())
        calls = calls.filter(pl.Series(inside > 0))
    if calls.height:
        calls = calls.join(_exposed_time_of_calls(rank_trace, calls), on="event", how="left", maintain_order="left")
    else:
        calls = calls.with_columns(pl.lit(0, pl.Int64).alias("exposed"))
    length = pl.col("end") - pl.col("start")
    kind = pl.col("collective").cast(pl.String).fill_null("communication")
    sizes = calls.group_by(
        kind.alias("collective"), pl.col("size").alias("group_size"), pl.col("bytes").alias("message")
    )
    rows = sizes.agg(
        pl.len().cast(pl.Int64).alias("count"),
        length.sum().alias("total"),
        pl.col("exposed").sum(),
        length.min().alias("fastest"),
    )
    own = pl.lit(rank_trace.rank, pl.Int64).alias("rank")
    return rows.with_columns(own).select(pl.col(name).cast(dtype) for name, dtype in COLLECTIVE_SCHEMA.items())


def _exposed_time_of_calls(rank_trace: RankTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """For each call (event) the time in which its rank computes nothing, `exposed`."""
    pieces = intervals_without_compute(rank_trace, calls).explode("exposed").unnest("exposed")
    return pieces.group_by("event").agg((pl.col("until") - pl.col("after")).sum().alias("exposed"))


def _memory_peak(rank_trace: RankTrace) -> pl.DataFrame:
    """The peak of the allocator of the rank's device, as it recorded it."""
    own_memory = is_memory_like(pl.col("device"), rank_trace.label)
    allocations = collect_frame(rank_trace.facet("allocated").filter(own_memory).drop_nulls("allocated"))
    if rank_trace.windowed:
        allocations = with_levels_at_start(allocations.sort("time", "record"), rank_trace)
    highest = allocations.filter(pl.col("allocated") == pl.col("allocated").max())
    peak = {"peak": [highest["allocated"].max()], "peak_time": [highest["time"].min()]}
    return pl.DataFrame(peak, schema={"peak": pl.Int64, "peak_time": pl.Int64})


def kernel_times_in_steps(rank_trace: RankTrace, step_intervals: Callable[[], Intervals | None]) -> pl.DataFrame:
    """Time of each name on the streams in whole steps, else in the window: rank, name, total (ps), count, event.

    Names are categories. `total` sums the parts of its executions inside, `event` is the one with the largest part.
    """
    streams = rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null() & (pl.col("role") == "stream"))
    steps = step_intervals() if streams.height else None
    events = rank_trace.device if steps is None else rank_trace.device_anytime
    rows = collect_frame(
        events.filter(pl.col("lane").is_in(streams["lane"].to_list())).select("id", "name", "start", "end")
    )
    base_intervals = _window_interval(rank_trace) if steps is None else steps
    inside = covered_lengths(base_intervals, rows["start"].to_numpy(), rows["end"].to_numpy())
    name, first = group_rows(category_codes(rows["name"]))
    longest = largest_row_per_group(name, inside, -rows["id"].to_numpy(), len(first))
    times = pl.DataFrame(
        {
            "name": rows["name"].gather(first),
            "total": sum_groups(name, inside, len(first)),
            "count": np.bincount(name[inside > 0], minlength=len(first)),
            "event": rows["id"].gather(longest),
        }
    )
    rank = pl.lit(rank_trace.rank, pl.Int64).alias("rank")
    return times.filter(pl.col("count") > 0).select(rank, pl.all()).sort("event")


FACTOR_SCHEMA: Final = schema({"factor": pl.Float64(), "agreement": pl.Float64(), "kernels": pl.Int64()})


def step_kernel_factors(rank_trace: RankTrace) -> pl.DataFrame:
    """The factor by which kernels are longer in each step of a rank: rank, step, and `FACTOR_SCHEMA`."""
    rows = collect_frame(
        rank_trace.device_anytime.filter((pl.col("kind") == "kernel") & (pl.col("step") >= 0)).select(
            "step", "name", length=pl.col("end") - pl.col("start")
        )
    )
    group, first = group_rows(rows["step"].cast(pl.Int64).to_numpy(), category_codes(rows["name"]))
    times = rows[first].select(
        "step",
        "name",
        total=sum_groups(group, rows["length"].to_numpy(), len(first)),
        count=np.bincount(group, minlength=len(first)).astype(np.uint32),
    )
    factors = length_factors(times, "step")
    return factors.select(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"), pl.col("step").cast(pl.Int64), *FACTOR_SCHEMA
    )


def length_factors(times: pl.DataFrame, group: str) -> pl.DataFrame:
    """The factor by which kernels are longer in each group (a step, a rank) than in the usual one.

    `times` has total and count of each group and name. `factor` is the median, weighted by time, of the mean length of
    a name in the group to the lower median of its means in all groups; `agreement` is the share of the time of kernels
    whose own ratio is near it: within a quarter of its distance from 1, and 2 %; `kernels` is their total time, ps.
    """
    mean = pl.col("total") / pl.col("count")
    usual = mean.quantile(0.5, "lower").over("name")
    several = pl.col("name").is_not_null() & pl.col("name").is_duplicated()
    ratios = times.filter(several & (pl.col("total") > 0)).with_columns((mean / usual).alias("ratio"))
    ratios = ratios.sort(group, "ratio").with_columns(pl.col("total").cum_sum().over(group).alias("passed"))
    half = pl.col("passed") * 2 >= pl.col("total").sum().over(group)
    factor = pl.col("ratio").filter(half).first().over(group).alias("factor")
    near = (pl.col("ratio") - pl.col("factor")).abs() <= 0.25 * (pl.col("factor") - 1).abs() + 0.02
    return (
        ratios.with_columns(factor)
        .group_by(group, maintain_order=True)
        .agg(
            pl.col("factor").first(),
            (pl.col("total").filter(near).sum() / pl.col("total").sum()).alias("agreement"),
            pl.col("total").sum().cast(pl.Int64).alias("kernels"),
        )
        .cast(FACTOR_SCHEMA)
    )


def event_times(rank_trace: RankTrace, on_device: Sequence[pl.Series], on_host: Sequence[pl.Series]) -> pl.DataFrame:
    """Times of the events with these ids, at any time: event, rank, start and duration (ps)."""
    device, host = (_join_event_ids(each) for each in (on_device, on_host))
    device_events = (
        rank_trace.device_anytime.filter(pl.col("id").is_in(device.implode()))
        if len(device)
        else rank_trace.device_anytime.clear()
    )
    times = pl.col("start"), pl.col("id").alias("event"), (pl.col("end") - pl.col("start")).alias("duration")
    host_events = host_events_by_id(with_shared_threads(rank_trace), host)
    tables = [collect_frame(events.select(times)) for events in (device_events, host_events)]
    return pl.concat(tables).with_columns(pl.lit(rank_trace.rank, pl.Int64).alias("rank"))


def _join_event_ids(columns: Sequence[pl.Series]) -> pl.Series:
    return pl.concat([pl.Series(dtype=pl.Int64()), *(ids.cast(pl.Int64) for ids in columns)]).drop_nulls()


def complete_location(location: FindingLocation, times: Mapping[int, Mapping[str, int]]) -> FindingLocation:
    """The location with time and rank, where only the event is known; `times` has rows of `event_times`."""
    row = None if location.start is not None or location.event is None else times.get(location.event)
    return replace(location, start=row["start"], duration=row["duration"], rank=row["rank"]) if row else location
