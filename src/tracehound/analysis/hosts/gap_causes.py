"""The cause of each idle gap of a device, as the host recorded it: an event with a name, or a wait before the gap.

`idle` puts gaps into classes; here a gap gets what the responsible thread did from its start to the launch that ended
it. A gap is named after the deepest event that covers more than half of that time, or after the activity that does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.hosts.host_threads import (
    THREAD_COLUMNS,
    host_events_between,
    host_lane_events,
    nearest_marked_ancestor,
    overlap_times,
    overlaps_any_window,
)
from tracehound.analysis.hosts.thread_activity import (
    ACTIVITIES,
    ALLOCATING,
    ASLEEP,
    COLLECTING_GARBAGE,
    COPYING,
    IN_ANNOTATION,
    LAUNCHING,
    LOADER,
    LOADING,
    NOTHING_RECORDED,
    OPERATORS,
    PROGRAM,
    PYTHON,
    RUNTIME,
    TRACING,
    VALUE,
    WAITING,
    ActivityIntervals,
    activity_codes,
)
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.model.trace import collect_frame, schema
from tracehound.numeric.intervals import Intervals, Ints, Mask, covered_lengths, overlapping_pairs
from tracehound.numeric.self_time import innermost_intervals

LAUNCHES: Final = "launching kernels"
"""Cause of gaps in which the host runs operators and launches their kernels, and is not fast enough."""

FIRST_USE: Final = "first use of a kernel"
"""Cause of gaps in which the launch of a kernel takes very long: its code is loaded when it is first used."""

BLOCKED_CALL: Final = "blocked in a call of the runtime"
LONG_OPERATOR: Final = "running an operator on the CPU"

CAUSE_SCHEMA: Final = schema(
    {
        "doing": pl.String(),  # an activity of the host, or one of the causes above; "" without a cause on the host
        "name": pl.String(),  # the event that the cause is named after; "" if none stands for most of it
        "names": pl.List(
            pl.Struct({"name": pl.String(), "count": pl.Int64(), "time": pl.Int64()})
        ),  # the main ones, by gap time
        "inside": pl.String(),  # the nearest operator or annotation around it
        "frame": pl.String(),  # the deepest Python frame around it, or in it, that has a source line
        "host_event": pl.Int64(),  # the longest of these events
        "host_time": pl.Int64(),  # its length, ps
        "calls": pl.Int64(),  # number of events with this name from the first gap to the last
    }
)

MAX_EXAMINED_GAPS: Final = 1 << 12
"""The longest gaps of a rank, of which the events of the host are read; the others only have the launching operator."""

KERNEL_LAUNCH: Final = r"^(?:cuda|cu|hip)\w*LaunchKernel"
"""Calls that launch one kernel."""

_MAX_CAUSES: Final = 64
"""Causes of a rank that are told apart."""

_LONG: Final = 1_000_000_000
"""A call, an operator, or a gap of this length (ps) is more than the ordinary cost of Python and launches."""

JOINED: Final = (ALLOCATING, PROGRAM, COLLECTING_GARBAGE, LAUNCHES)
"""Activities whose calls are one cause together, whatever their names."""

_WAITS: Final = (VALUE, WAITING, COPYING)
"""Activities in which the host waits for the device."""

_UNSPECIFIC: Final = (PYTHON, ASLEEP, IN_ANNOTATION, TRACING)
"""Activities that say less than any that fills most of a gap."""

_FRAME_ACTIVITIES: Final = (PYTHON, ASLEEP, IN_ANNOTATION)
"""Activities of which the deepest event says most; of others the outermost event with the activity does."""

_ORDINARY: Final = (PYTHON, IN_ANNOTATION, NOTHING_RECORDED)
"""Activities that are part of launching where they are short; so are copies: the device is idle, none waits for it."""

_AFTER_WAITS: Final = (LAUNCHES, LONG_OPERATOR, *_ORDINARY)
"""Causes that a wait before them may explain: without it the host would have been that far by then."""


class GapCauses(NamedTuple):
    """For each gap the row of its cause in `table` (`CAUSE_SCHEMA`); row 0 is of gaps without a cause on the host."""

    row: Ints
    table: pl.DataFrame


def find_gap_causes(
    rank_trace: RankTrace,
    gaps: Intervals,
    lane: Ints,
    launch: pl.Series,
    asked: Ints,
    blocking: Collection[int],
    activities: Mapping[int, ActivityIntervals],
) -> GapCauses:
    """The causes of gaps (in order) for which `lane`, a thread of the host, is responsible; -1: none is.

    `launch` and `asked` are id and end of the call that launched the work after each gap: what the thread did until
    then is examined; all of the gap, if that is not in it, or not known. `blocking` are calls that wait for
    their copies. `activities` of the threads say when they wait for the device.
    """
    if not len(lane):
        return GapCauses(np.zeros(0, np.int64), pl.DataFrame({"doing": [""]}, schema_overrides=CAUSE_SCHEMA))
    until = np.where((asked > gaps.start) & (asked < gaps.end), asked, gaps.end)
    length = np.where(lane >= 0, until - gaps.start, 0)
    examined = np.sort(np.argsort(-length, kind="stable")[:MAX_EXAMINED_GAPS])
    examined = examined[length[examined] > 0]
    found = _examine_windows(rank_trace, lane[examined], Intervals(gaps.start[examined], until[examined]), blocking)
    found = found.with_columns(gap=examined).filter(pl.col("doing") != LAUNCHES)
    others = np.setdiff1d(np.flatnonzero(lane >= 0), found["gap"].to_numpy())
    found = pl.concat([found, _launching_operators(rank_trace, launch.gather(others)).with_columns(gap=others)])
    found = found.sort("gap")
    found = found.with_columns(time=(gaps.end - gaps.start)[found["gap"].to_numpy()])
    causes = _join_causes(_blame_waits(rank_trace, found, gaps, lane, until, blocking, activities), len(lane))
    return causes._replace(table=_count_calls(rank_trace, causes.table, int(gaps.start[0]), int(gaps.end[-1])))


_EVENT_SCHEMA: Final = schema(
    {
        **{name: CAUSE_SCHEMA[name] for name in ("doing", "name", "inside", "frame", "host_event", "host_time")},
        "other": pl.String(),  # the name of the calls with the most time after `name`, among those of the same activity
    }
)


def _examine_windows(rank_trace: RankTrace, lane: Ints, windows: Intervals, blocking: Collection[int]) -> pl.DataFrame:
    """The main thing that the thread `lane` did in each of these windows (in order, disjoint): `_EVENT_SCHEMA`."""
    parts, rows = [pl.DataFrame(schema=_EVENT_SCHEMA)], [np.empty(0, np.intp)]
    for number in np.unique(lane):
        here = np.flatnonzero(lane == number)
        mine = Intervals(windows.start[here], windows.end[here])
        events = host_lane_events(rank_trace, [int(number)]).filter(overlaps_any_window(mine))
        parts.append(_examine_events(collect_frame(events.select(THREAD_COLUMNS)), mine, blocking))
        rows.append(here)
    return pl.concat(parts)[np.argsort(np.concatenate(rows))]


def _examine_events(events: pl.DataFrame, windows: Intervals, blocking: Collection[int]) -> pl.DataFrame:
    """The main thing that one thread did in each window; `events` are all of its events that overlap any, sorted by id."""
    length = windows.end - windows.start
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    parent, kind = parent_rows(events), events["kind"].cast(pl.String)
    code = activity_codes(events, parent, events["name"].unique().cast(pl.String).drop_nulls().to_list(), blocking)
    code[code == ACTIVITIES.index(LOADING)] = ACTIVITIES.index(LOADER)  # waiting for a loader is loading, too
    pairs = overlap_times(innermost_intervals(start, end, parent, np.zeros(len(start), np.int64)), windows)
    deepest = _deepest_covering(events, kind, windows)
    activity, is_main = _main_activities(pairs, code, length)
    of_deepest = np.append(code, -1)[deepest]
    says_more = ~np.isin(of_deepest, [-1, *_codes_of((*_UNSPECIFIC, OPERATORS, LAUNCHING, RUNTIME))])
    activity, is_main = np.where(says_more, of_deepest, activity), is_main | says_more
    named = np.where(np.isin(activity, _codes_of(_FRAME_ACTIVITIES)), deepest, -1)
    outermost = outermost_of_activity(parent, code)
    by_activity = np.flatnonzero(~np.isin(activity, _codes_of(_FRAME_ACTIVITIES)) & is_main & (activity >= 0))
    longest = _longest_with_activity(pairs, code, activity)
    named[by_activity] = outermost[np.where(of_deepest == activity, deepest, longest)[by_activity]]
    launching, running = (np.isin(activity, _codes_of(these)) for these in ((LAUNCHING, RUNTIME), (OPERATORS,)))
    named[launching | running] = deepest[launching | running]
    doing = np.array([*ACTIVITIES, NOTHING_RECORDED], object)[activity]
    is_one_call = np.zeros(len(length), np.bool_)
    alone = 2 * pairs[2] > length[pairs[0]]
    is_one_call[pairs[0][alone]] = pairs[1][alone] == deepest[pairs[0][alone]]
    for of_activity, long_call in ((launching, BLOCKED_CALL), (running, LONG_OPERATOR)):
        doing[of_activity] = np.where((is_one_call & (length >= _LONG))[of_activity], long_call, LAUNCHES)
    if len(start):
        names = events["name"].cast(pl.String).gather(np.maximum(named, 0))
        launches_kernel = names.str.contains(KERNEL_LAUNCH).fill_null(value=False).to_numpy()
        doing[(doing == BLOCKED_CALL) & launches_kernel & (deepest >= 0)] = FIRST_USE
    doing[np.isin(doing, (*_ORDINARY, COPYING)) & (length < _LONG)] = LAUNCHES
    doing[~is_main] = LAUNCHES
    described = describe_rows(events, parent, kind, named, deepest)
    other = _second_names(events["name"].cast(pl.String), pairs, outermost, code, activity, length)
    return described.insert_column(0, pl.Series("doing", doing.astype(str))).with_columns(other)


def _codes_of(activities: Collection[str]) -> list[int]:
    return [ACTIVITIES.index(each) for each in activities]


def _main_activities(pairs: tuple[Ints, Ints, Ints], code: npt.NDArray[np.int8], length: Ints) -> tuple[Ints, Mask]:
    """The activity with the most time in each window (-1: nothing recorded), and whether it takes half of it."""
    window, row, time = pairs
    times = np.zeros((len(length), len(ACTIVITIES) + 1), np.int64)
    np.add.at(times, (window, code[row]), time)
    times[:, -1] += length - times.sum(axis=1)
    most = times.argmax(axis=1)
    is_main = 2 * times[np.arange(len(length)), most] >= length
    return np.where(most == len(ACTIVITIES), -1, most), is_main


def _deepest_covering(events: pl.DataFrame, kind: pl.Series, windows: Intervals) -> Ints:
    """For each window the event that began last among those that cover more than half of it; -1 without one.

    Marks of steps do not count.
    """
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    row, window = overlapping_pairs(start, end, windows)
    time = np.minimum(end[row], windows.end[window]) - np.maximum(start[row], windows.start[window])
    covers = (2 * time > (windows.end - windows.start)[window]) & (kind != "step").to_numpy()[row]
    deepest = np.full(len(windows.start), -1)
    deepest[window[covers]] = row[covers]  # the last one counts: rows are in the order of starts
    return deepest


def outermost_of_activity(parent: Ints, code: npt.NDArray[np.int8]) -> Ints:
    """For each event the outermost one around it such that all in between have its activity; itself without any."""
    rows = np.arange(len(parent))
    above = np.where((parent >= 0) & (code[parent] == code), parent, rows) if len(parent) else rows
    while not np.array_equal(above, above[above]):
        above = above[above]
    return above


def _longest_with_activity(pairs: tuple[Ints, Ints, Ints], code: npt.NDArray[np.int8], activity: Ints) -> Ints:
    """For each window the event with the most time as the innermost among those with its activity; -1 without one."""
    window, row, time = pairs
    found = np.full(len(activity), -1)
    mine = np.flatnonzero(code[row] == activity[window])
    by_time = mine[np.argsort(time[mine], kind="stable")]
    found[window[by_time]] = row[by_time]
    return found


def _second_names(
    names: pl.Series,
    pairs: tuple[Ints, Ints, Ints],
    outermost: Ints,
    code: npt.NDArray[np.int8],
    activity: Ints,
    length: Ints,
) -> pl.Series:
    """For each window the second name among the calls with its activity, by their time; null for less than a tenth."""
    window, row, time = pairs
    mine = np.flatnonzero(code[row] == activity[window])
    calls = pl.DataFrame({"window": window[mine], "name": names.gather(outermost[row[mine]]), "time": time[mine]})
    totals = calls.group_by("window", "name").agg(pl.col("time").sum()).sort("time", "name", descending=[True, False])
    seconds = totals.filter(pl.int_range(pl.len()).over("window") == 1)
    seconds = seconds.filter(10 * pl.col("time") >= pl.Series(length).gather(seconds["window"]))
    every = pl.DataFrame({"window": np.arange(len(length))}).join(seconds, on="window", how="left")
    return every.sort("window")["name"].alias("other")


_SOURCE_LINE: Final = re.compile(r"^\$?(?!<)(?P<file>\S+?)(?:\((?P<line>\d+)\): |:\d+ )\S")
_LIBRARY_FILE: Final = re.compile(
    r"(?:^|/)(?:torch|jax|jaxlib|site-packages|dist-packages|lib/python[\d.]+|threading|multiprocessing|concurrent|asyncio"
    r"|contextlib|selectors|queue|runpy|nn/modules)(?:/|\.py|$)"
)


def describe_rows(events: pl.DataFrame, parent: Ints, kind: pl.Series, row: Ints, deepest: Ints) -> pl.DataFrame:
    """Names, surroundings and lengths of these events (-1: none); `deepest` are the innermost ones of the windows."""
    names = events["name"].cast(pl.String)
    known = pl.Series(row).set(pl.Series(row < 0), None)
    around = np.full(len(row), -1)
    there = np.flatnonzero(row >= 0)
    around[there] = nearest_marked_ancestor(parent, kind.is_in(["op", "annotation"]).to_numpy(), row[there])
    python = names.unique().to_list() if (kind == "python").any() else []
    source = [name for name in python if name and _SOURCE_LINE.match(name)]
    own = [name for name in source if not _LIBRARY_FILE.search(_SOURCE_LINE.match(name)["file"])]  # type: ignore[index]
    frame = np.full(len(row), -1)
    innermost = np.where(deepest >= 0, deepest, row)
    for chosen in (own, source):
        is_frame = ((kind == "python") & names.is_in(chosen)).to_numpy()
        left = np.flatnonzero((frame < 0) & (innermost >= 0))
        at = innermost[left]
        frame[left] = np.where(is_frame[at], at, nearest_marked_ancestor(parent, is_frame, at)) if len(left) else -1
    texts = {
        column: names.gather(pl.Series(rows).set(pl.Series(rows < 0), None)).alias(column)
        for column, rows in (("inside", around), ("frame", frame))
    }
    return pl.DataFrame(
        {
            "name": names.gather(known).fill_null(""),
            **texts,
            "host_event": events["id"].gather(known),
            "host_time": (events["end"] - events["start"]).gather(known),
        }
    ).cast({name: _EVENT_SCHEMA[name] for name in ("host_event", "host_time")})


def _launching_operators(rank_trace: RankTrace, launch: pl.Series) -> pl.DataFrame:
    """The operator that each of these launches is in, else the launch itself, as `_EVENT_SCHEMA`."""
    columns = ("id", "name", "kind", "start", "end", "parent")
    calls = host_events_between(rank_trace, launch).read_columns(*columns)
    operators = host_events_between(rank_trace, calls["parent"]).read_columns(*columns)
    is_operator = (operators["kind"].cast(pl.String) == "op").fill_null(value=False)
    rows = pl.DataFrame(
        {
            name: pl.select(pl.when(is_operator).then(operators[name]).otherwise(calls[name])).to_series()
            for name in ("id", "start", "end")
        }
    )
    name = pl.select(
        pl.when(is_operator).then(operators["name"].cast(pl.String)).otherwise(calls["name"].cast(pl.String))
    ).to_series()
    return pl.DataFrame(
        {
            "doing": pl.Series([LAUNCHES]).new_from_index(0, len(launch)),
            "name": name.fill_null(""),
            "inside": pl.Series([None] * len(launch), dtype=pl.String),
            "frame": pl.Series([None] * len(launch), dtype=pl.String),
            "host_event": rows["id"],
            "host_time": rows["end"] - rows["start"],
            "other": pl.Series([None] * len(launch), dtype=pl.String),
        }
    )


def _blame_waits(
    rank_trace: RankTrace,
    found: pl.DataFrame,
    gaps: Intervals,
    lane: Ints,
    until: Ints,
    blocking: Collection[int],
    activities: Mapping[int, ActivityIntervals],
) -> pl.DataFrame:
    """The causes, with the last wait for the device in place of those that it explains.

    Without its waits a thread would have been ahead by their lengths, less the gaps since: a gap no longer than that
    would not be there. It is put down to the last wait before it that is as long.
    """
    gap = found["gap"].to_numpy()
    time, explainable = found["time"].to_numpy(), found["doing"].is_in(_AFTER_WAITS).to_numpy()
    begin, end = np.full(len(gap), -1), np.full(len(gap), -1)
    for number, doing in activities.items():
        mine = np.flatnonzero(lane[gap] == number)
        waits = _waits_for_busy_device(_joined_waits(doing), gaps)
        if not len(mine) or not len(waits.start):
            continue
        last = np.searchsorted(waits.end, until[gap[mine]], side="right") - 1
        waited = np.append(0, np.cumsum(waits.end - waits.start))[last + 1]
        lead = waited - np.append(0, np.cumsum(time[mine])[:-1])  # before each gap, were it not for those without one
        lead += np.append(0, np.maximum.accumulate(np.maximum(time[mine] - lead, 0))[:-1])
        wait = _last_long_wait(waits, last, gaps.start[gap[mine]], time[mine])
        blamed = explainable[mine] & (wait >= 0) & (lead >= time[mine])
        rows = mine[blamed]
        begin[rows], end[rows] = waits.start[wait[blamed]], waits.end[wait[blamed]]
    blamed = np.flatnonzero(end >= 0)
    if not len(blamed):
        return found
    keys = np.unique(np.stack([lane[gap[blamed]], begin[blamed], end[blamed]]), axis=1)
    longest = np.argsort(keys[1] - keys[2], kind="stable")[:MAX_EXAMINED_GAPS]
    keys = keys[:, np.sort(longest)]
    named = _examine_windows(rank_trace, keys[0], Intervals(keys[1], keys[2]), blocking)
    blamed_waits = named.with_columns(lane=keys[0], begin=keys[1]).filter(pl.col("doing").is_in(_WAITS))
    joined = (
        found[blamed]
        .select("gap", "time", lane=pl.Series(lane[gap[blamed]]), begin=pl.Series(begin[blamed]))
        .join(blamed_waits, on=["lane", "begin"], how="inner")
        .select(found.columns)
    )
    return pl.concat([found.join(joined, on="gap", how="anti"), joined]).sort("gap")


def _waits_for_busy_device(waits: Intervals, gaps: Intervals) -> Intervals:
    """The waits in which the device works for at least half of the time: else they wait for something else."""
    kept = 2 * covered_lengths(gaps, waits.start, waits.end) <= waits.end - waits.start
    return Intervals(waits.start[kept], waits.end[kept])


def _last_long_wait(waits: Intervals, last: Ints, start: Ints, length: Ints) -> Ints:
    """For each gap the last wait, from `last` back, that began before the gap and is as long; -1 without one near."""
    found = last.copy()
    for _ in range(_MAX_WAITS_BACK):
        at = np.maximum(found, 0)
        too_short = (found >= 0) & ((waits.start[at] >= start) | (waits.end[at] - waits.start[at] < length))
        if not too_short.any():
            return found
        found[too_short] -= 1
    return np.where(too_short, -1, found)


_MAX_WAITS_BACK: Final = 64
"""Waits before a gap among which its cause is searched."""


def _joined_waits(doing: ActivityIntervals) -> Intervals:
    """The intervals in which a thread waits for the device; those that touch are one."""
    mine = np.isin(doing.codes, _codes_of(_WAITS))
    start, end = doing.intervals.start[mine], doing.intervals.end[mine]
    begins = np.append(True, start[1:] > end[:-1])[: len(start)]
    return Intervals(start[begins], end[np.append(np.flatnonzero(begins)[1:] - 1, len(end) - 1)] if len(end) else end)


def _join_causes(found: pl.DataFrame, count: int) -> GapCauses:
    """The causes of `count` gaps with equal ones as one, those of most idle time first."""
    key = pl.when(pl.col("doing").is_in(JOINED)).then(pl.lit("")).otherwise(pl.col("name").str.replace_all(r"\d+", "#"))
    keyed = found.with_columns(key.alias("key"))
    by_name = keyed.group_by("doing", "key", "name").agg(pl.len().alias("count"), pl.col("time").sum())
    names = (
        by_name.filter(pl.col("name") != "")
        .sort("time", "name", descending=[True, False])
        .group_by("doing", "key", maintain_order=True)
        .agg(pl.struct("name", pl.col("count").cast(pl.Int64), "time").head(_MAX_NAMES).alias("names"))
    )
    longest = keyed.sort("time", "gap", descending=[True, False]).group_by("doing", "key", maintain_order=True)
    causes = (
        longest.agg(
            pl.col("time").sum().alias("idle"),
            pl.col("name", "inside", "frame", "host_event", "host_time").first(),
        )
        .join(names, on=["doing", "key"], how="left", maintain_order="left")
        .sort("idle", "doing", "key", descending=[True, False, False])
        .head(_MAX_CAUSES)
    )
    main = pl.col("names").list.first()
    stands = 2 * main.struct.field("time") >= pl.col("idle")
    joined_name = pl.when(stands).then(main.struct.field("name")).otherwise(pl.lit("")).fill_null("")
    causes = causes.with_columns(
        pl.when(pl.col("doing").is_in(JOINED)).then(joined_name).otherwise("name").alias("name")
    )
    none = pl.DataFrame({"doing": [""], "name": [""], "key": ["-"]})
    table = pl.concat([none, causes], how="diagonal").with_row_index("row")
    rows = keyed.select("gap", "doing", "key").join(
        table.select("row", "doing", "key"), on=["doing", "key"], how="left"
    )
    row = np.zeros(count, np.int64)
    row[rows["gap"].to_numpy()] = rows["row"].fill_null(0).to_numpy()
    table = table.with_columns(calls=pl.lit(None, pl.Int64))
    return GapCauses(row, table.select(pl.col(name).cast(dtype) for name, dtype in CAUSE_SCHEMA.items()))


_MAX_NAMES: Final = 3


def _count_calls(rank_trace: RankTrace, causes: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """The causes with `calls`, the number of events of the host with their names that begin in `[low, high)`."""
    names = causes["name"].filter(causes["name"] != "").unique().to_list()
    inside = rank_trace.threads.filter(pl.col("name").is_in(names) & pl.col("start").is_between(low, high, "left"))
    counts = collect_frame(inside.group_by("name").agg(pl.len().cast(pl.Int64).alias("calls"))) if names else None
    if counts is None:
        return causes
    counts = counts.with_columns(pl.col("name").cast(pl.String))
    return causes.drop("calls").join(counts, on="name", how="left", maintain_order="left").select(causes.columns)
