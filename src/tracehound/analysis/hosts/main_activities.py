"""The main activity of host threads in given windows, and the event that it is named after."""

from __future__ import annotations

import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.hosts.host_threads import (
    THREAD_COLUMNS,
    host_lane_events,
    nearest_marked_ancestor,
    overlap_times,
    overlaps_any_window,
)
from tracehound.analysis.hosts.host_time_parts import LOADER_SETTING
from tracehound.analysis.hosts.source_frames import nearest_source_frames
from tracehound.analysis.hosts.thread_activity import (
    ACTIVITIES,
    ASLEEP,
    COPYING,
    IN_ANNOTATION,
    LAUNCHING,
    LOADER,
    LOADING,
    NOTHING_RECORDED,
    OPERATORS,
    PYTHON,
    RUNTIME,
    THREADS_AT_ONCE,
    TRACING,
    activity_codes,
)
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.analysis.timing.row_groups import category_codes, group_rows, largest_row_per_group
from tracehound.model.trace import collect_frame, schema
from tracehound.numeric.intervals import Intervals, Ints, Mask, overlapping_pairs
from tracehound.numeric.nesting import nearest_chosen_ancestor
from tracehound.numeric.self_time import innermost_intervals
from tracehound.numeric.trees import sum_groups

LAUNCHES: Final = "launching kernels"
"""Activity of a thread that runs operators and launches their kernels, none of them for long."""

FIRST_USE: Final = "first use of a kernel"
"""Activity of a thread in a launch of a kernel that takes very long: code is loaded when it is first used."""

BLOCKED_CALL: Final = "blocked in a call of the runtime"
LONG_OPERATOR: Final = "running an operator on the CPU"

KERNEL_LAUNCH: Final = r"^(?:cuda|cu|hip)\w*LaunchKernel"
"""Calls that launch one kernel."""

_LONG: Final = 1_000_000_000
"""A call, an operator, or a gap of this length (ps) is more than the ordinary cost of Python and launches."""

_UNSPECIFIC: Final = (PYTHON, ASLEEP, IN_ANNOTATION, TRACING)
"""Activities that say less than any that fills most of a gap."""

_FRAME_ACTIVITIES: Final = (PYTHON, ASLEEP, IN_ANNOTATION)
"""Activities of which the deepest event says most; of others the outermost event with the activity does."""

ORDINARY: Final = (PYTHON, IN_ANNOTATION, NOTHING_RECORDED)
"""Activities that are part of launching where they are short; so are copies: the device is idle, none waits for it."""


class EventRules(NamedTuple):
    """Meanings of events that their own names do not tell.

    `blocking` are ids of calls that wait for their copies, events whose names match `loader` load data.
    """

    blocking: Collection[int] = ()
    loader: re.Pattern[str] | None = None


def chosen_loader(given: ChosenSettings) -> re.Pattern[str] | None:
    """The pattern that the user chose for events that load data; None without one."""
    return LOADER_SETTING.value_in(given) if LOADER_SETTING.name in dict(given) else None


ACTIVITY_SCHEMA: Final = schema(
    {
        "doing": pl.String(),  # one of `ALL_ACTIVITIES`, or of the activities above
        "name": pl.String(),  # the event that it is named after; "" if none stands for most of it
        "inside": pl.String(),  # the nearest operator or annotation around it
        "frame": pl.String(),  # the deepest Python frame around it, or in it, that has a source line
        "host_event": pl.Int64(),  # the event
        "host_time": pl.Int64(),  # its length, ps
        "other": pl.String(),  # the name of the calls with the most time after `name`, among those of the same activity
    }
)


def find_main_activities(rank_trace: RankTrace, lane: Ints, windows: Intervals, rules: EventRules) -> pl.DataFrame:
    """The main thing that the thread `lane` did in each of these windows (in order, disjoint): `ACTIVITY_SCHEMA`."""
    rows_of_lanes = [np.flatnonzero(lane == number) for number in pl.Series(lane).unique().sort()]

    def examine_lane(rows: Ints) -> pl.DataFrame:
        """The main things in these windows, which are of one lane."""
        mine = Intervals(windows.start[rows], windows.end[rows])
        events = host_lane_events(rank_trace, [int(lane[rows[0]])]).filter(overlaps_any_window(mine))
        return _examine_events(collect_frame(events.select(THREAD_COLUMNS)), mine, rules)

    with ThreadPoolExecutor(THREADS_AT_ONCE, "tracehound main activities") as threads:
        parts = list(threads.map(examine_lane, rows_of_lanes))
    found = pl.concat([pl.DataFrame(schema=ACTIVITY_SCHEMA), *parts])
    return found[np.argsort(np.concatenate([np.empty(0, np.intp), *rows_of_lanes]))]


def _examine_events(events: pl.DataFrame, windows: Intervals, rules: EventRules) -> pl.DataFrame:
    """The main thing that one thread did in each window; `events` are all of its events that overlap any, by id."""
    length = windows.end - windows.start
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    parent, kind = parent_rows(events), events["kind"]
    code = classify_events(events, parent, rules)
    pairs = overlap_times(innermost_intervals(start, end, parent, np.zeros(len(start), np.int64)), windows)
    deepest = _deepest_covering(events, kind, windows)
    activity, is_main = _main_activities(pairs, code, length)
    of_deepest = np.append(code, -1)[deepest]
    says_more = ~np.isin(of_deepest, [-1, *codes_of((*_UNSPECIFIC, OPERATORS, LAUNCHING, RUNTIME))])
    activity, is_main = np.where(says_more, of_deepest, activity), is_main | says_more
    named = np.where(np.isin(activity, codes_of(_FRAME_ACTIVITIES)), deepest, -1)
    outermost = outermost_of_activity(parent, code)
    by_activity = np.flatnonzero(~np.isin(activity, codes_of(_FRAME_ACTIVITIES)) & is_main & (activity >= 0))
    own = _pairs_with_activity(pairs, code, activity, by_activity)
    longest = _longest_event(own, len(length))
    named[by_activity] = outermost[np.where(of_deepest == activity, deepest, longest)[by_activity]]
    works = np.isin(activity, codes_of((LAUNCHING, RUNTIME, OPERATORS)))
    named[works] = deepest[works]
    doing = np.array([*ACTIVITIES, NOTHING_RECORDED], object)[activity]
    doing[works] = _kinds_of_work(events["name"], pairs, activity, deepest, length)[works]
    doing[np.isin(doing, (*ORDINARY, COPYING)) & (length < _LONG)] = LAUNCHES
    doing[~is_main] = LAUNCHES
    described = describe_rows(events, parent, kind, named, deepest)
    other = _second_names(events["name"], own, outermost, length)
    return described.insert_column(0, pl.Series("doing", doing.astype(str))).with_columns(other)


def _kinds_of_work(
    names: pl.Series, pairs: tuple[Ints, Ints, Ints], activity: Ints, deepest: Ints, length: Ints
) -> npt.NDArray[np.object_]:
    """For each window `LAUNCHES`, or what one long call or operator is that takes most of it by itself."""
    window, row, time = pairs
    of_deepest = np.flatnonzero((length >= _LONG)[window] & (row == deepest[window]))
    by_itself = np.bincount(window[of_deepest], time[of_deepest], len(length))
    is_long = (length >= _LONG) & (2 * by_itself > length)
    found = np.full(len(length), LAUNCHES, object)
    runs_operator = np.isin(activity, codes_of((OPERATORS,)))
    found[is_long & runs_operator] = LONG_OPERATOR
    for at in np.flatnonzero(is_long & ~runs_operator):
        found[at] = FIRST_USE if re.search(KERNEL_LAUNCH, names[int(deepest[at])] or "") else BLOCKED_CALL
    return found


def classify_events(events: pl.DataFrame, parent: Ints, rules: EventRules) -> npt.NDArray[np.int8]:
    """The activity of each event as in `activity_codes`; waiting for a loader is loading data, too."""
    names = events["name"].unique().cast(pl.String).drop_nulls().to_list()
    code = activity_codes(events, parent, names, rules.blocking)
    code[code == ACTIVITIES.index(LOADING)] = ACTIVITIES.index(LOADER)
    if rules.loader is not None:
        loaders = [name for name in names if rules.loader.search(name)]
        loads = events["name"].is_in(loaders).to_numpy()
        code[loads | (nearest_marked_ancestor(parent, loads) >= 0)] = ACTIVITIES.index(LOADER)
    return code


def codes_of(activities: Collection[str]) -> list[int]:
    """The positions of these activities in `ACTIVITIES`."""
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
    is_outermost = parent < 0
    inner = np.flatnonzero(parent >= 0)
    is_outermost[inner] = code[parent[inner]] != code[inner]
    return nearest_chosen_ancestor(parent, is_outermost)


def _pairs_with_activity(
    pairs: tuple[Ints, Ints, Ints], code: npt.NDArray[np.int8], activity: Ints, windows: Ints
) -> tuple[Ints, Ints, Ints]:
    """The pairs in these windows whose event has the window's activity."""
    window, row, time = pairs
    chosen = np.zeros(len(activity), np.bool_)
    chosen[windows] = True
    mine = np.flatnonzero(chosen[window] & (code[row] == activity[window]))
    return window[mine], row[mine], time[mine]


def _longest_event(pairs: tuple[Ints, Ints, Ints], count: int) -> Ints:
    """For each of `count` windows the event of its pairs with the most time, of equal ones the last; -1 without one."""
    window, row, time = pairs
    if not len(row):
        return np.full(count, -1)
    last = largest_row_per_group(window, time, np.arange(len(row)), count)
    return np.where(last >= 0, row[last], -1)


def _second_names(names: pl.Series, pairs: tuple[Ints, Ints, Ints], outermost: Ints, length: Ints) -> pl.Series:
    """For each window the second name among the calls of its pairs, by their time; null for less than a tenth."""
    window, row, time = pairs
    call_names = names.gather(outermost[row])
    group, first = group_rows(window, category_codes(call_names))
    totals = pl.DataFrame({"window": window[first], "name": call_names.gather(first).cast(pl.String)})
    totals = totals.with_columns(time=sum_groups(group, time, len(first))).sort(
        "time", "name", descending=[True, False]
    )
    seconds = totals.filter(pl.int_range(pl.len()).over("window") == 1)
    seconds = seconds.filter(10 * pl.col("time") >= pl.Series(length).gather(seconds["window"]))
    every = pl.DataFrame({"window": np.arange(len(length))}).join(seconds, on="window", how="left")
    return every.sort("window")["name"].alias("other")


def describe_rows(events: pl.DataFrame, parent: Ints, kind: pl.Series, row: Ints, deepest: Ints) -> pl.DataFrame:
    """Names, surroundings and lengths of these events (-1: none); `deepest` are the innermost ones of the windows."""
    names = events["name"]
    known = pl.Series(row).set(pl.Series(row < 0), None)
    around = np.full(len(row), -1)
    there = np.flatnonzero(row >= 0)
    around[there] = nearest_marked_ancestor(parent, kind.is_in(["op", "annotation"]).to_numpy(), row[there])
    frame = nearest_source_frames(events, parent, np.where(deepest >= 0, deepest, row))
    texts = {
        column: names.gather(pl.Series(rows).set(pl.Series(rows < 0), None)).cast(pl.String).alias(column)
        for column, rows in (("inside", around), ("frame", frame))
    }
    return pl.DataFrame(
        {
            "name": names.gather(known).cast(pl.String).fill_null(""),
            **texts,
            "host_event": events["id"].gather(known),
            "host_time": (events["end"] - events["start"]).gather(known),
        }
    ).cast({name: ACTIVITY_SCHEMA[name] for name in ("host_event", "host_time")})
