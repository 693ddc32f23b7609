"""Idle time of streams by cause: what the work after each gap waited for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import Setting, parse_time_length
from tracehound.analysis.hosts.gap_causes import CAUSE_SCHEMA, GapCauses, find_gap_causes
from tracehound.analysis.hosts.host_threads import lane_chunks, with_threads_in_memory
from tracehound.analysis.hosts.launch_calls import (
    ALLOCATION,
    LOADING,
    NAMED_WAITS,
    SYNCHRONIZATION,
    WorkLaunches,
    find_work_launches,
)
from tracehound.analysis.hosts.main_activities import EventRules, chosen_loader
from tracehound.analysis.hosts.thread_activity import (
    ALL_ACTIVITIES,
    ALLOCATING,
    ASLEEP,
    COLLECTING_GARBAGE,
    COMPILING,
    FILE_IO,
    LOADER,
    PROGRAM,
    PROGRAM_ACTIVITIES,
    VALUE,
    ThreadActivities,
    read_thread_activities,
    responsible_lanes,
)
from tracehound.analysis.hosts.thread_activity import LOADING as LOADING_ACTIVITY
from tracehound.analysis.rank_trace import RankTrace, RunContext, overlapping_events
from tracehound.analysis.result import Analysis, Column, Options, Result, concat_tables, empty_result, make_result
from tracehound.analysis.stream_gaps import LaunchedWork, StreamGaps, find_stream_gaps, measure_gap_groups
from tracehound.analysis.timing.device_busy import device_work
from tracehound.analysis.timing.row_groups import occurring_numbers, value_change_rows
from tracehound.model.notes import Note, note
from tracehound.model.trace import schema
from tracehound.numeric.intervals import (
    EMPTY_INTERVALS,
    Intervals,
    Ints,
    Mask,
    covered_lengths,
    overlapping_pairs,
    subtract,
    union,
)

DELAY_SETTING: Final = Setting(
    "delay",
    "30us",
    "shorter gaps are the cost of starting one kernel after another (HTA's consecutive kernel delay)",
    parse_time_length,
)

DEFINITION = """\
A gap here is an interval in which no work runs on a stream (in the rows of "device": on no stream of the rank),
between its first and its last work. An interval of 1 ns is no gap, since files round start and length to whole ns
separately. If a gap reaches beyond the window, the part inside counts. In a window, the time before the first and
after the last work is no gap; a note has it, since breakdown and gaps count it.

A gap has the cause for which the work at its end waited, wherever that is. Work without a recorded launch counts as
launched before all later work of its stream. host = the work was launched only after the stream had become idle, or
its launching call ran through all of a gap of 30 us or more (a first launch may load code; HIP sends the nodes of a
graph in parts). That call must also return (on a GPU stream) or begin (XLA, whose threads carry launches out later) no
more than half of the gap, and no more than 300 us, before its end; otherwise one of the later causes applies. Such
gaps are divided further, if the launching thread spends at least half of the time from the start of the gap to the
launch in one of these. synchronization = it waits for the device (cudaStreamSynchronize and the like, and blocking
copies: cudaMemcpy, hipMemcpyWithStream, and any copy call that returned only when the copy had ended, as with pageable
memory). allocation = cudaMalloc, cudaFree and the like. data loading = inside a DataLoader or an input iterator.
Before such a copy itself, that time lasts to the end of the gap, and a gap that would be other is synchronization.

kernel = launched in time, and the gap is shorter than 30 us: the cost of starting one kernel after another. other
stream = launched in time, or by a call that is not recorded, the gap is longer, and work on another stream of the rank
ended during its last 30 us: most likely the stream waited for an event. other = launched in time, and none of these:
what it waited for is not recorded. A gap of a stream that would be synchronization is other if the whole device idles
for that cause for at least half of it, since the host waited for something that waited itself. unknown = no recorded
launch explains the gap, and no other stream does. share is of all gaps of the stream. mean to p75 are of single gaps.
The setting delay replaces the 30 us, and ten times it the 300 us.

why = what the host thread that launched the work after the gap (in XLA: the program's own thread) did for most of the
time of the row's gaps, in words; see gaps.

HolisticTraceAnalysis' idle time breakdown has host wait (everything launched after the stream had become idle), kernel
wait (our kernel) and other (the rest). It measures from the end of the previous row, so overlapping kernels give
negative gaps; here gaps begin at the latest end so far. It leaves out the last step, and has no rows for the device."""

CAUSES = (
    "host", SYNCHRONIZATION, ALLOCATION, LOADING, "kernel", "other stream", "other", "unknown",
)  # fmt: skip
_HOST, _SYNCHRONIZATION, _, _, _KERNEL, _STREAM, _OTHER, _UNKNOWN = range(len(CAUSES))

BEFORE_FIRST_WORK: Final = "before the first work"
FIRST_WORK_QUEUED: Final = "before the first work, though it was launched"
AFTER_LAST_WORK: Final = "after the last work"
EDGES: Final = (BEFORE_FIRST_WORK, FIRST_WORK_QUEUED, AFTER_LAST_WORK)
"""Idle time that is no gap: before the first work of a device and after its last, where an interval reaches there."""

_IS_EDGE: Final = pl.col("cause").is_in(EDGES)
_CAUSES_AND_EDGES: Final = (*CAUSES, *EDGES)

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("stream", "text", "stream or line of the device; device: all of them together"),
    Column("cause", "text", "what the work after the gap waited for"),
    Column("why", "text", "what the host did for most of it"),
    Column("why_share", "share", "what the host did", "these gaps", brief=False),
    Column("count", "count", "gaps"),
    Column("idle", "time", "sum of the gaps"),
    Column("share", "share", "these gaps", "all gaps of the stream"),
    Column("mean", "time", "average gap", brief=False),
    Column("std", "time", "sample standard deviation; empty for a single gap", brief=False),
    Column("min", "time", "shortest", brief=False),
    Column("p25", "time", "a quarter is not longer", brief=False),
    Column("p50", "time", "median", brief=False),
    Column("p75", "time", "three quarters are not longer", brief=False),
    Column("duration", "time", "longest"),
    Column("start", "instant", "start of the longest", brief=False),
    Column("event", "id", "the work after the longest"),
)

_LONG_DELAYS: Final = 10
"""Work that starts more than this many kernel delays after its launch returned was not delayed by its launch."""

DEVICE_STREAM = "device"
"""Name of the stream that stands for all streams of a rank together."""


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each stream and cause, in ps; in a window also for `EDGES`. The whole run goes from work to work."""
    rows = idle_within(rank_trace, options, union(np.array([rank_trace.start]), np.array([rank_trace.end])))
    return rows if rows.is_empty() or rank_trace.windowed else rows.filter(~_IS_EDGE)


def idle_within(
    rank_trace: RankTrace,
    options: Options,
    intervals: Intervals,
    conditions: Mapping[str, Intervals] = MappingProxyType({}),
    separate: Sequence[str] = (),
    steps: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Rows by stream and cause for the parts of gaps inside these intervals.

    A gap in two intervals counts once, with two lengths. The device has rows for `EDGES`, too: the parts of the
    intervals before its first work (by whether that had been launched for most of it, and nothing shows what it waited
    for) and after its last. Each name in `conditions` becomes a column: the time in gaps in which the condition holds.
    Each of `ALL_ACTIVITIES` is a column: the time of the host in it, on the thread that `why` describes. Gaps of which
    one of `separate` (names of `conditions`) takes more than half have rows of their own: `mainly` is its name, "" for
    the others.

    With `steps` (`start` and `step`, in order; maybe none) there are rows of the device alone, and causes on the host
    have rows of their own, with the columns `HOST_CAUSE_SCHEMA`.
    """
    with_host_causes = steps is not None
    delay = DELAY_SETTING.value_in(options.given)
    events = device_work(replace(rank_trace, device=rank_trace.device_anytime), "lane", "launch")
    if events.is_empty():
        return pl.DataFrame()
    if PROGRAM_ACTIVITIES.known_result(rank_trace) is None:  # else the threads are hardly needed
        rank_trace = with_threads_in_memory(rank_trace)
    work, stream_gaps = _find_gaps(rank_trace, events, intervals, delay, device_only=with_host_causes)
    rules = EventRules(work.blocking_copies, chosen_loader(options.given))
    result_rows = list[dict[str, object]]()
    for name, whole_gaps, whole_cause in stream_gaps:
        gaps, cause = whole_gaps, whole_cause
        if with_host_causes:
            gaps, cause = _split_at_activities(gaps, cause, work.leading_lanes[gaps.after], work.activities)
        never = np.zeros(len(gaps.start), np.int64)  # one for all conditions that never hold
        times = {
            part: covered_lengths(holds, gaps.start, gaps.end) if len(holds.start) else never
            for part, holds in conditions.items()
        }
        kinds = (*separate, "")
        mainly = _main_part(gaps, cause, [times[part] for part in separate])
        groups, host_causes = cause * len(kinds) + mainly, pl.DataFrame()
        if with_host_causes:
            found = _host_causes(rank_trace, gaps, cause, work, rules)
            groups, host_causes = groups * found.table.height + found.row, found.table
        occurs = occurring_numbers(groups)
        numbers, group = np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[groups]
        statistics = measure_gap_groups(gaps, group, len(numbers), work, times, steps)
        for number, of_group in zip(numbers.tolist(), statistics, strict=True):
            of_cause, host_cause = divmod(number, max(host_causes.height, 1))
            cause_number, kind = divmod(of_cause, len(kinds))
            result_rows.append(
                {
                    "stream": name,
                    "whole": name == DEVICE_STREAM,
                    "cause": _CAUSES_AND_EDGES[cause_number],
                    "mainly": kinds[kind],
                    **of_group,
                    **(host_causes.row(host_cause, named=True) if with_host_causes else {}),
                }
            )
    return _idle_table(result_rows, conditions, rank_trace.rank, HOST_CAUSE_SCHEMA if with_host_causes else None)


GapsByStream = Sequence[tuple[str, StreamGaps, Ints]]
"""The gaps of each stream, and their causes."""


def _find_gaps(
    rank_trace: RankTrace, events: pl.DataFrame, intervals: Intervals, delay: int, *, device_only: bool
) -> tuple[LaunchedWork, GapsByStream]:
    """The work, and its gaps in these intervals."""
    calls = find_work_launches(rank_trace, events)
    blocking_copies = events.filter(pl.Series(calls.waits) & (pl.col("kind") == "copy"))["launch"].unique().to_list()
    with ThreadPoolExecutor(1, "tracehound doings") as thread:  # reads all threads of a run while gaps are searched
        reading = (
            None if rank_trace.windowed else thread.submit(_host_activity, rank_trace, calls.lane, blocking_copies)
        )
        stream_gaps = _gaps_by_stream(rank_trace, events, calls, intervals, delay, device_only=device_only)
        if reading is None:
            gaps = [gaps for _, gaps, _ in stream_gaps]
            activities = _host_activity_during(rank_trace, calls.lane, blocking_copies, gaps)
        else:
            activities = reading.result()
    leading_lanes = responsible_lanes(rank_trace, activities, calls.lane)
    return LaunchedWork(events, calls, blocking_copies, activities, leading_lanes), stream_gaps


def _gaps_by_stream(
    rank_trace: RankTrace,
    events: pl.DataFrame,
    calls: WorkLaunches,
    intervals: Intervals,
    delay: int,
    *,
    device_only: bool,
) -> GapsByStream:
    """The gaps in these intervals, and their causes: of the device, and of each stream if there are several."""
    names = dict(rank_trace.lanes.select("lane", "name").iter_rows())
    lane = events["lane"].to_numpy()
    stream_gaps, unexplained_intervals = list[tuple[str, StreamGaps, Ints]](), EMPTY_INTERVALS
    by_lane = np.argsort(lane, kind="stable")
    streams = [(names[int(lane[rows[0]])], rows) for rows in np.split(by_lane, value_change_rows(lane[by_lane]))]
    all_rows = np.argsort(events["start"].to_numpy(), kind="stable")
    end = events["end"].to_numpy()
    all_ends = np.sort(end) if len(streams) > 1 else end[:0]
    for name, rows in ((DEVICE_STREAM, all_rows), *(streams if len(streams) > 1 and not device_only else ())):
        gaps = find_stream_gaps(events, rows)
        other_ended = None if name == DEVICE_STREAM else _other_stream_ended(gaps, all_ends, np.sort(end[rows]), delay)
        cause = _gap_causes(gaps, calls.select_rows(gaps.after), delay, other_ended)
        if name == DEVICE_STREAM:
            unexplained_intervals = Intervals(gaps.start[cause == _OTHER], gaps.end[cause == _OTHER])
        cause[_waits_for_idle_device(gaps, cause, unexplained_intervals)] = _OTHER
        with_edges = (
            _add_edges(intervals, gaps, cause, events, calls, delay) if name == DEVICE_STREAM else (gaps, cause)
        )
        stream_gaps.append((name, *_clip_gaps(intervals, *with_edges)))
    if len(streams) == 1 and not device_only:
        stream_gaps.append((streams[0][0], *stream_gaps[0][1:]))
    return stream_gaps


def _idle_table(
    rows: list[dict[str, object]],
    conditions: Collection[str],
    rank: int,
    more: pl.Schema | None,
) -> pl.DataFrame:
    """The rows as a table, with the columns `conditions` and `more`."""
    types = {**_ROW_TYPES, **dict.fromkeys(conditions, pl.Int64()), **(more or {})}
    return pl.DataFrame(rows, types, infer_schema_length=None).with_columns(
        pl.col(_FRACTION_COLUMNS).round().cast(pl.Int64),
        pl.when(pl.col("why").is_not_null()).then(pl.col("while") / pl.col("idle")).alias("why_share"),
        pl.lit(rank, pl.Int64).alias("rank"),
    )


def _split_at_activities(
    gaps: StreamGaps, cause: Ints, lane: Ints, activities: ThreadActivities
) -> tuple[StreamGaps, Ints]:
    """The gaps, with parts of their own for what the host does in some of their time, and not in most of it.

    Parts are at least a tenth of a gap; they have the cause of the gap.
    """
    starts, ends, cut_gaps = list[Ints](), list[Ints](), list[Ints]()
    for number, doing in activities.by_lane.items():
        mine = np.flatnonzero(lane == number)
        pieces = doing.of_activities(_SEPARATE_ACTIVITIES)
        if not len(mine) or not len(pieces.start):
            continue
        gap, piece = overlapping_pairs(gaps.start[mine], gaps.end[mine], pieces)
        gap = mine[gap]
        start = np.maximum(gaps.start[gap], pieces.start[piece])
        end = np.minimum(gaps.end[gap], pieces.end[piece])
        length = gaps.end[gap] - gaps.start[gap]
        separate = (10 * (end - start) >= length) & (2 * (end - start) <= length)
        starts.append(start[separate])
        ends.append(end[separate])
        cut_gaps.append(gap[separate])
    if not sum(map(len, starts)):
        return gaps, cause
    is_cut = np.zeros(len(cause), np.bool_)
    is_cut[np.concatenate(cut_gaps)] = True
    cut = union(np.concatenate(starts), np.concatenate(ends))
    left = subtract(Intervals(gaps.start[is_cut], gaps.end[is_cut]), cut)
    whole = np.flatnonzero(~is_cut)
    part_start = np.concatenate([cut.start, left.start])
    of_part = np.searchsorted(gaps.start, part_start, side="right") - 1
    start = np.concatenate([gaps.start[whole], part_start])
    end = np.concatenate([gaps.end[whole], cut.end, left.end])
    order = np.argsort(start, kind="stable")
    of_gap = np.concatenate([whole, of_part])[order]
    return StreamGaps(start[order], end[order], gaps.after[of_gap]), cause[of_gap]


_SEPARATE_ACTIVITIES: Final = (LOADER, LOADING_ACTIVITY, COMPILING, PROGRAM, COLLECTING_GARBAGE, FILE_IO, ALLOCATING)
"""Activities that are causes by themselves, also in a part of a gap."""


def _host_causes(
    rank_trace: RankTrace,
    gaps: StreamGaps,
    cause: Ints,
    work: LaunchedWork,
    rules: EventRules,
) -> GapCauses:
    """The causes on the host of the device's gaps, where it is the host that keeps the device waiting."""
    calls, activities = work.calls, work.activities
    just_in_time = (cause == _KERNEL) & (gaps.end - calls.start[gaps.after] <= LAUNCH_LATENCY)
    is_xla = rank_trace.profiler == "XLA"
    causes = (*_HOST_CAUSES, "unknown", "other") if is_xla else _HOST_CAUSES
    by_host = np.array([name in causes for name in _CAUSES_AND_EDGES])[cause] | (
        just_in_time & (calls.lane[gaps.after] >= 0)
    )
    lane = np.where(by_host, work.leading_lanes[gaps.after], -1)
    after_last = cause == _CAUSES_AND_EDGES.index(AFTER_LAST_WORK)
    lane[after_last] = activities.main
    waits = calls.waits[gaps.after] | after_last
    asked = np.where(waits, np.iinfo(np.int64).min, calls.returned[gaps.after])
    found = find_gap_causes(
        rank_trace,
        Intervals(gaps.start, gaps.end),
        lane,
        work.events["launch"].gather(gaps.after),
        asked,
        rules,
        activities,
    )
    if not is_xla:
        return found
    explains = found.table["doing"].is_in(_EXPLAINS_QUEUED).to_numpy()
    return found._replace(row=np.where((cause == _OTHER) & ~explains[found.row], 0, found.row))


_EXPLAINS_QUEUED: Final = (COMPILING, PROGRAM, LOADER, VALUE, COLLECTING_GARBAGE, FILE_IO, ASLEEP)
"""Activities that keep XLA's devices waiting though work seems to be launched in time: other threads carry it out."""


HOST_CAUSE_SCHEMA: Final = schema(
    {
        **CAUSE_SCHEMA,
        "by_step": pl.List(pl.Struct({"step": pl.Int64(), "time": pl.Int64()})),  # idle time by step, longest first
        "short_work": pl.Int64(),  # ps of the kernels after the gaps that are shorter than `SHORT_WORK`
    }
)

LAUNCH_LATENCY: Final = 10_000_000
"""Work that starts this soon (ps) after its launch began starts as soon as it can: the launch is what is late."""

_HOST_CAUSES: Final = ("host", SYNCHRONIZATION, ALLOCATION, LOADING, BEFORE_FIRST_WORK)
"""Causes of gaps that the host makes, and that its events may name."""


def _host_activity(rank_trace: RankTrace, launching_lanes: Ints, blocking_copies: Collection[int]) -> ThreadActivities:
    """Activities of the responsible threads at any time."""
    return read_thread_activities(
        rank_trace, launching_lanes, blocking_copies, lambda lane: lane_chunks(rank_trace, [lane])
    )


def _host_activity_during(
    rank_trace: RankTrace, launching_lanes: Ints, blocking_copies: Collection[int], stream_gaps: Sequence[StreamGaps]
) -> ThreadActivities:
    """Activities of the responsible threads from the first to the last gap, which leave out much of a run."""
    low = min((int(gaps.start[0]) for gaps in stream_gaps if len(gaps.start)), default=0)
    high = max((int(gaps.end[-1]) for gaps in stream_gaps if len(gaps.end)), default=0)
    return read_thread_activities(
        rank_trace,
        launching_lanes[np.concatenate([gaps.after for gaps in stream_gaps])],
        blocking_copies,
        lambda lane: [overlapping_events(some, low, high) for some in lane_chunks(rank_trace, [lane])],
    )


def _add_edges(
    intervals: Intervals, gaps: StreamGaps, cause: Ints, events: pl.DataFrame, calls: WorkLaunches, delay: int
) -> tuple[StreamGaps, Ints]:
    """Add the parts of the intervals before the device's first work and after its last to its gaps."""
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    first, last = int(start.argmin()), int(end.argmax())
    low, high = intervals.start[:1].clip(max=start[first]), intervals.end[-1:].clip(min=end[last])
    edge_count = len(low)
    before, after = (
        _drop_empty_gaps(StreamGaps(gap_start, gap_end, np.array([work] * edge_count, np.intp)))
        for gap_start, gap_end, work in (
            (low, start[[first] * edge_count], first),
            (end[[last] * edge_count], high, last),
        )
    )
    started_late = _started_long_after_launch(before, calls.select_rows(before.after), delay).any()
    causes = [
        np.full(len(edge.start), _CAUSES_AND_EDGES.index(name))
        for edge, name in ((before, FIRST_WORK_QUEUED if started_late else BEFORE_FIRST_WORK), (after, AFTER_LAST_WORK))
    ]
    with_edges = StreamGaps(*(np.concatenate(parts) for parts in zip(before, gaps, after, strict=True)))
    return with_edges, np.concatenate([causes[0], cause, causes[1]])


def _drop_empty_gaps(gaps: StreamGaps) -> StreamGaps:
    """The gaps that have a length."""
    not_empty = gaps.end > gaps.start
    return StreamGaps(*(values[not_empty] for values in gaps))


def _clip_gaps(intervals: Intervals, gaps: StreamGaps, cause: Ints) -> tuple[StreamGaps, Ints]:
    """The parts of gaps inside the intervals, and their causes. Both are sorted, and neither overlaps itself."""
    if (
        len(intervals.start) == 1
        and (intervals.start <= gaps.start[:1]).all()
        and (gaps.end[-1:] <= intervals.end).all()
    ):
        return gaps, cause
    gap, interval = overlapping_pairs(gaps.start, gaps.end, intervals)
    start, end = (
        np.maximum(gaps.start[gap], intervals.start[interval]),
        np.minimum(gaps.end[gap], intervals.end[interval]),
    )
    return StreamGaps(start, end, gaps.after[gap]), cause[gap]


class DeviceGaps(NamedTuple):
    """Gaps of a whole device at any time: the cause of each as a position in `CAUSES`, and the lane of the next launch.

    `launch_lane` is that of the call that launched the work after the gap, `first_lane` that of the first work; -1
    where that is unknown.
    """

    gaps: StreamGaps
    cause: Ints
    launch_lane: Ints
    first_lane: int


def device_gaps(rank_trace: RankTrace, options: Options) -> DeviceGaps:
    """The gaps of the whole device at any time, with their causes."""
    events = device_work(replace(rank_trace, device=rank_trace.device_anytime), "lane", "launch")
    rows = np.argsort(events["start"].to_numpy(), kind="stable")
    gaps = find_stream_gaps(events, rows)
    launches = find_work_launches(rank_trace, events)
    calls = launches.select_rows(gaps.after)
    first_lane = int(launches.lane[rows[0]]) if len(rows) else -1
    return DeviceGaps(gaps, _gap_causes(gaps, calls, DELAY_SETTING.value_in(options.given)), calls.lane, first_lane)


def _gap_causes(gaps: StreamGaps, calls: WorkLaunches, delay: int, other_ended: Mask | None = None) -> Ints:
    """The cause of each gap, as a position in `CAUSES`.

    `calls` are the launches of the work after the gaps; for one stream of several, `other_ended` marks the gaps at
    whose end work on another stream ended.
    """
    cause = np.full(len(gaps.start), _OTHER)
    if other_ended is not None:
        cause[other_ended] = _STREAM
    cause[gaps.end - gaps.start < delay] = _KERNEL
    launched_before = calls.start <= gaps.start
    launched_during = calls.queued & ~calls.waits & (cause == _OTHER) & (calls.returned >= gaps.end)
    launched_late = ~(launched_before | _started_long_after_launch(gaps, calls, delay)) | launched_during
    host_asked = launched_late | (calls.waits & (cause == _OTHER))
    cause[launched_late] = _HOST
    launch_or_end = np.where(calls.waits | launched_before, gaps.end, np.minimum(calls.start, gaps.end))
    for (cause_name, thread), busy in sorted(
        calls.busy.items(), key=lambda each: CAUSES.index(each[0][0]), reverse=True
    ):
        gap_rows = np.flatnonzero(host_asked & (calls.lane == thread))
        if not len(gap_rows):
            continue
        busy_time = covered_lengths(busy, gaps.start[gap_rows], launch_or_end[gap_rows])
        cause[gap_rows[2 * busy_time >= launch_or_end[gap_rows] - gaps.start[gap_rows]]] = CAUSES.index(cause_name)
    cause[(calls.lane < 0) & (cause != _STREAM) & (calls.latest > gaps.start)] = _UNKNOWN
    return cause


def _main_part(gaps: StreamGaps, cause: Ints, times: Sequence[Ints]) -> Ints:
    """For each gap the position of the time that takes more than half of it; `len(times)` where none does.

    Parts of one gap count as one.
    """
    if not any(time.any() for time in times):
        return np.full(len(cause), len(times))
    is_new_gap = np.append(True, (np.diff(gaps.after) != 0) | (np.diff(cause) != 0))[: len(cause)]
    gap = np.cumsum(is_new_gap) - 1
    gap_lengths = np.bincount(gap, gaps.end - gaps.start)
    main_part = np.full(len(gap_lengths), len(times))
    for number, time in enumerate(times):
        main_part[2 * np.bincount(gap, time) > gap_lengths] = number
    return np.asarray(main_part[gap])


def _waits_for_idle_device(gaps: StreamGaps, cause: Ints, unexplained: Intervals) -> npt.NDArray[np.bool_]:
    """Mask of gaps in which the host waited for a device that was itself idle for at least half of the time."""
    unexplained_time = covered_lengths(unexplained, gaps.start, gaps.end)
    return np.asarray((cause == _SYNCHRONIZATION) & (2 * unexplained_time >= gaps.end - gaps.start))


def _started_long_after_launch(gaps: StreamGaps, calls: WorkLaunches, delay: int) -> npt.NDArray[np.bool_]:
    """Mask of gaps that end with work launched for most of the gap: too long for its launch to delay it."""
    launch_time = np.where(calls.queued, np.maximum(calls.returned, calls.start), calls.start)
    time_to_start = gaps.end - launch_time
    return (
        (calls.lane >= 0)
        & ~calls.waits
        & (time_to_start > _LONG_DELAYS * delay)
        & (2 * time_to_start > gaps.end - gaps.start)
    )


def _other_stream_ended(gaps: StreamGaps, all_ends: Ints, own_ends: Ints, delay: int) -> Mask:
    """Mask of gaps near whose end work on another stream ended; `all_ends` and `own_ends` are sorted."""
    last, first = gaps.end, np.maximum(gaps.start + 1, gaps.end - delay)
    all_count, own_count = (
        np.searchsorted(ends, last, side="right") - np.searchsorted(ends, first) for ends in (all_ends, own_ends)
    )
    return all_count > own_count


_FRACTION_COLUMNS: Final = ("mean", "std", "p25", "p50", "p75")

_ROW_TYPES: Final = MappingProxyType(
    {
        **dict.fromkeys(("stream", "cause", "mainly", "why"), pl.String()),
        "whole": pl.Boolean(),
        **dict.fromkeys(("while", "count", "idle", "min", "duration", "start", "event", *ALL_ACTIVITIES), pl.Int64()),
        **dict.fromkeys(_FRACTION_COLUMNS, pl.Float64()),
    }
)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The rows of all ranks in the order of ranks; within a stream the largest cause first."""
    rows = concat_tables(tables)
    if rows.is_empty():
        return combine_with_columns_of(ANALYSIS, tables, context, options)
    result = combine_with_columns_of(ANALYSIS, [rows.filter(~_IS_EDGE)], context, options)
    return replace(result, notes=(*result.notes, *_edge_notes(rows.filter(_IS_EDGE & pl.col("whole")))))


def _edge_notes(rows: pl.DataFrame) -> list[Note]:
    """A note with the idle time in the window before the first work of devices and after their last."""
    last = pl.col("cause") == AFTER_LAST_WORK
    idle = {
        BEFORE_FIRST_WORK: int(rows.filter(~last)["idle"].sum()),
        AFTER_LAST_WORK: int(rows.filter(last)["idle"].sum()),
    }
    noted = {cause: time for cause, time in idle.items() if time}
    return [note("idle_at_window_edges", causes=tuple(noted), times=tuple(noted.values()))] if noted else []


def combine_with_columns_of(
    analysis: Analysis, tables: Sequence[pl.DataFrame], context: RunContext, options: Options
) -> Result:
    """The combined rows with the columns of the analysis `analysis`."""
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(analysis, context, options, note("no_pauses"))
    return make_result(analysis, order_rows(rows), context, options, _notes(rows))


def order_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of each stream together, the largest cause first, with the `share` of each in the gaps of its stream."""
    stream_key = pl.struct("rank", "stream", "whole")
    shares = rows.with_columns((pl.col("idle") / pl.col("idle").sum().over(stream_key)).alias("share"))
    return shares.sort(stream_key.rle_id(), "idle", descending=[False, True])


def _notes(rows: pl.DataFrame) -> list[Note]:
    """A note with the idle time of devices by cause, over all ranks."""
    device_causes = (
        rows.filter("whole").group_by("cause").agg(pl.col("idle").sum()).sort("idle", "cause", descending=True)
    )
    if device_causes.is_empty():
        return []
    causes, times = (tuple(device_causes[name].to_list()) for name in ("cause", "idle"))
    return [note("idle_by_cause", causes=causes, times=times)]


ANALYSIS = Analysis(
    name="idle",
    title="Idle",
    question="Why do the streams idle: host, synchronization, data loading, other streams?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    settings=(DELAY_SETTING,),
    host_computations=(PROGRAM_ACTIVITIES, NAMED_WAITS),
)
