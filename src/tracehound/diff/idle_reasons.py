"""Reasons of the idle time of each step: the cause of each gap, and what the host did meanwhile.

Owns the split of a step's idle time into reasons that add up to it. A gap that the host did not cause (a pause between
kernels, another stream) has its cause as the reason; of others each instant has the activity of the thread that
launched the next work, with the name of the innermost event there where the activity alone says little: so that garbage
collection, a function or an operator is called by its name.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.hosts import thread_activity
from tracehound.analysis.hosts.host_threads import (
    THREAD_COLUMNS,
    host_lane_events,
    main_thread_lane,
    overlaps_any_window,
)
from tracehound.analysis.hosts.launch_calls import ALLOCATION, LOADING, SYNCHRONIZATION, blocking_copy_calls
from tracehound.analysis.hosts.thread_activity import NOTHING_RECORDED, innermost_activities
from tracehound.analysis.idle import CAUSES, device_gaps
from tracehound.analysis.result import Options
from tracehound.analysis.stream_gaps import StreamGaps
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.diff.compared_intervals import ComparedIntervals, ComparedWork, cut_at_intervals
from tracehound.diff.op_identity import DEVICE_WORK
from tracehound.formats.torch_names import MODULE_PREFIX
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import Intervals, Ints, Mask, complement, overlapping_pairs, union
from tracehound.numeric.self_time import innermost_intervals

BETWEEN_KERNELS: Final = "pauses between kernels"
OTHER_STREAM: Final = "waiting for another stream"
STARTED_LATE: Final = "queued work that started late"
LAUNCH_UNKNOWN: Final = "launch not recorded"
UNRECORDED: Final = "unrecorded host time"
COLLECTING_GARBAGE: Final = "Python GC"

_GARBAGE_COLLECTION: Final = r"^Python GC\b|^\$gc\W+collect$|^<built-in function collect>"
"""Events of garbage collection: PyTorch's own, and the frame as JAX and as PyTorch spell it."""

_REASONS_OF_CAUSES: Final = {
    SYNCHRONIZATION: SYNCHRONIZATION,
    ALLOCATION: ALLOCATION,
    LOADING: LOADING,
    "kernel": BETWEEN_KERNELS,
    "other stream": OTHER_STREAM,
    "other": STARTED_LATE,
    "unknown": LAUNCH_UNKNOWN,
}
"""Reasons of the gaps of which the cause says enough: of all but those that wait for a launch by the host."""

_REASONS_OF_ACTIVITIES: Final = {
    thread_activity.LOADER: LOADING,
    thread_activity.LOADING: LOADING,
    thread_activity.WAITING: SYNCHRONIZATION,
    thread_activity.COPYING: SYNCHRONIZATION,
    thread_activity.ALLOCATING: ALLOCATION,
    thread_activity.COMMUNICATING: "calling collectives",
    NOTHING_RECORDED: UNRECORDED,
}
"""Reasons that are spelled otherwise than the activity: those that causes of gaps have, too."""

_NAMED_ACTIVITIES: Final = (
    thread_activity.OPERATORS,
    thread_activity.PYTHON,
    thread_activity.ASLEEP,
    thread_activity.RUNTIME,
)
"""Activities whose innermost event is named, since they say little themselves."""

MAX_NAMES: Final = 50
"""At most so many events of a rank are named; the others have their reason alone."""

_ADDRESS: Final = r"(?: object)? at 0x[0-9a-f]+"
"""The address of an object in the name of a frame of Python: ``<built-in method astype of ndarray object at 0x7f>``."""

COUNTER_SUFFIX: Final = r"(?:#\s*|\s+)\d+$"
"""The number behind a name that counts repetitions: ``iteration 12``, ``batch#3``."""

NAME_SEPARATOR: Final = ": "
"""Between a reason and the name of an event: ``running Python: Python GC``."""


class _IdlePieces(NamedTuple):
    """Parts of the idle time of a rank, by start: the row of the step, bounds, cause (-1: none), lane of the host."""

    interval: Ints
    start: Ints
    end: Ints
    cause: Ints
    lane: Ints


def idle_reasons(work: ComparedWork, options: Options) -> pl.DataFrame:
    """A row for each step and reason: step, name (the reason, maybe with an event behind it), count 0 and value (ps).

    The values are on the trace's clock. They add up to the idle time there, less pauses of 1 ns.
    """
    pieces = _device_pieces(work, options) if work.of == DEVICE_WORK else _host_pieces(work)
    fixed = [_REASONS_OF_CAUSES.get(cause) for cause in CAUSES]
    by_cause = np.array([reason is not None for reason in (*fixed, None)])[pieces.cause]
    caused = pl.DataFrame(
        {
            "interval": pieces.interval[by_cause],
            "name": pl.Series([fixed[cause] for cause in pieces.cause[by_cause].tolist()], dtype=pl.String),
            "value": (pieces.end - pieces.start)[by_cause],
        }
    )
    by_host = _IdlePieces(*(values[~by_cause] for values in pieces))
    rows = pl.concat([caused, _host_activity_rows(work, by_host)], how="vertical_relaxed")
    numbers = pl.DataFrame({"interval": np.arange(len(work.intervals.number)), "step": work.intervals.number})
    return (
        rows.group_by("interval", "name")
        .agg(pl.col("value").sum())
        .join(numbers, on="interval")
        .select("step", "name", pl.lit(0, pl.Int64).alias("count"), pl.col("value").cast(pl.Int64))
    )


def _device_pieces(work: ComparedWork, options: Options) -> _IdlePieces:
    """The gaps of the device in the steps, and the time of steps before its first work and after its last."""
    rank_trace, intervals = work.rank_trace, work.intervals
    gaps, cause, lane, first = device_gaps(rank_trace, options)
    main = main_thread_lane(rank_trace)
    if rank_trace.profiler == "XLA":
        lane, first = np.full(len(lane), main), main
    lane, first = np.where(lane < 0, main, lane), main if first < 0 else first
    owner, interval, start, end = cut_at_intervals(np.arange(len(cause)), gaps.start, gaps.end, intervals)
    edges = _edge_pieces(work.events, gaps, intervals)
    return _sort_pieces(
        _IdlePieces(
            *(
                np.concatenate(both)
                for both in (
                    (interval, edges[0]),
                    (start, edges[1]),
                    (end, edges[2]),
                    (cause[owner], np.full(len(edges[0]), -1)),
                    (lane[owner], np.where(edges[3], first, main)),
                )
            )
        )
    )


def _edge_pieces(events: pl.DataFrame, gaps: StreamGaps, intervals: ComparedIntervals) -> tuple[Ints, Ints, Ints, Mask]:
    """The parts of steps before the device's first work and after its last: step, start, end, and True if before."""
    starts, ends = (
        np.append(times, events[name].to_numpy()) for times, name in ((gaps.start, "start"), (gaps.end, "end"))
    )
    first, last = (int(starts.min()), int(ends.max())) if len(starts) else (intervals.end[-1:].max(initial=0),) * 2
    begin = np.concatenate([intervals.start, np.maximum(intervals.start, last)])
    until = np.concatenate([np.minimum(intervals.end, first), intervals.end])
    row = np.tile(np.arange(len(intervals.start)), 2)
    there = until > begin
    is_before = np.arange(len(row)) < len(intervals.start)
    return row[there], begin[there], until[there], is_before[there]


def _host_pieces(work: ComparedWork) -> _IdlePieces:
    """The time of steps in which no operator of the host runs, on the program's own thread."""
    intervals = work.intervals
    low, high = int(intervals.start.min(initial=0)), int(intervals.end.max(initial=0))
    busy = union(work.events["start"].to_numpy(), work.events["end"].to_numpy())
    idle = complement(busy, low, high)
    _, interval, start, end = cut_at_intervals(np.arange(len(idle.start)), idle.start, idle.end, intervals)
    lane = np.full(len(start), main_thread_lane(work.rank_trace))
    return _IdlePieces(interval, start, end, np.full(len(start), -1), lane)


def _sort_pieces(pieces: _IdlePieces) -> _IdlePieces:
    """The pieces by start; they do not overlap."""
    order = np.argsort(pieces.start, kind="stable")
    return _IdlePieces(*(values[order] for values in pieces))


def _host_activity_rows(work: ComparedWork, pieces: _IdlePieces) -> pl.DataFrame:
    """The time of each step in each activity of the host during these pieces: interval, name, value."""
    windows, rank_trace = Intervals(pieces.start, pieces.end), work.rank_trace
    length = pieces.end - pieces.start
    lanes = [lane for lane in np.unique(pieces.lane).tolist() if lane >= 0]
    found = [pl.DataFrame(schema=_ACTIVITY_SCHEMA)]
    covered = np.zeros(len(length), np.int64)
    blocking = blocking_copy_calls(rank_trace) if len(length) else []
    for lane in lanes if len(length) else ():
        threads = collect_frame(
            host_lane_events(rank_trace, [lane]).filter(overlaps_any_window(windows)).select(*THREAD_COLUMNS)
        )
        parent = parent_rows(threads)
        start, end = threads["start"].to_numpy(), threads["end"].to_numpy()
        owned = innermost_intervals(start, end, parent, threads["lane"].to_numpy())
        part, window = overlapping_pairs(owned.start, owned.end, windows)
        mine = pieces.lane[window] == lane
        part, window = part[mine], window[mine]
        time = np.minimum(owned.end[part], windows.end[window]) - np.maximum(owned.start[part], windows.start[window])
        activity = innermost_activities(threads, blocking).fill_null(NOTHING_RECORDED)
        event = owned.owner[part]
        found.append(
            pl.DataFrame(
                {
                    "interval": pieces.interval[window],
                    "activity": activity.gather(event),
                    "event": threads["name"].gather(event).cast(pl.String).fill_null(""),
                    "kind": threads["kind"].gather(event).cast(pl.String),
                    "value": time,
                },
                schema=_ACTIVITY_SCHEMA,
            )
            .group_by("interval", "activity", "event", "kind")
            .agg(pl.col("value").sum())
        )
        covered += np.bincount(window, time, len(length)).astype(np.int64)
    rest = length - covered
    found.append(
        pl.DataFrame(
            {
                "interval": pieces.interval,
                "activity": NOTHING_RECORDED,
                "event": "",
                "kind": "",
                "value": rest,
            },
            schema=_ACTIVITY_SCHEMA,
        ).filter(pl.col("value") > 0)
    )
    return _named_rows(pl.concat(found).filter(pl.col("value") > 0))


_ACTIVITY_SCHEMA: Final = {
    "interval": pl.Int64,
    "activity": pl.String,
    "event": pl.String,
    "kind": pl.String,
    "value": pl.Int64,
}


def _named_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with reasons as names: interval, name, value."""
    activity, kind, event = pl.col("activity"), pl.col("kind"), pl.col("event")
    collecting = event.str.contains(_GARBAGE_COLLECTION)
    marked = (activity == thread_activity.PYTHON) & kind.is_in(["annotation", "step"])
    reason = (
        pl.when(collecting)
        .then(pl.lit(COLLECTING_GARBAGE))
        .when(marked)
        .then(pl.lit(UNRECORDED))
        .otherwise(activity.replace(_REASONS_OF_ACTIVITIES))
    )
    is_named = activity.is_in(_NAMED_ACTIVITIES) & ~collecting & (kind != "step")
    shown = event.str.strip_prefix(MODULE_PREFIX).str.replace(COUNTER_SUFFIX, "").str.replace_all(_ADDRESS, "")
    named = rows.select(
        "interval", reason.alias("reason"), pl.when(is_named).then(shown).otherwise(pl.lit("")).alias("event"), "value"
    )
    time = pl.col("value").sum().over("reason", "event")
    return named.select(
        "interval",
        pl.when((time.rank("dense", descending=True) <= MAX_NAMES) & (pl.col("event") != ""))
        .then(pl.concat_str("reason", pl.lit(NAME_SEPARATOR), "event"))
        .otherwise("reason")
        .alias("name"),
        "value",
    )
