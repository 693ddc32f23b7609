"""Gaps of the streams of a device, and statistics of groups of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.hosts.launch_calls import WorkLaunches
from tracehound.analysis.hosts.thread_activity import (
    ALL_ACTIVITIES,
    THREADS_AT_ONCE,
    ThreadActivities,
    longest_activity,
)
from tracehound.analysis.timing.device_busy import rounding_gap
from tracehound.analysis.timing.row_groups import value_change_rows
from tracehound.numeric.intervals import Ints
from tracehound.numeric.trees import sum_groups


class StreamGaps(NamedTuple):
    """Gaps of one stream: their bounds, and the row of the work at the end of each."""

    start: Ints
    end: Ints
    after: npt.NDArray[np.intp]


class LaunchedWork(NamedTuple):
    """The work of a device, its launches, and what the threads of the host did.

    `leading_lanes` has the lane of the thread that is responsible for each event, `blocking_copies` the calls that wait
    for a copy.
    """

    events: pl.DataFrame
    calls: WorkLaunches
    blocking_copies: Collection[int]
    activities: ThreadActivities
    leading_lanes: Ints


SHORT_WORK: Final = 5_000_000
"""Work that is shorter than this (ps) is mostly what it costs to start and end a kernel."""


def find_stream_gaps(events: pl.DataFrame, rows: npt.NDArray[np.intp]) -> StreamGaps:
    """The gaps between these rows of events, which are sorted by start."""
    start, end = (events[name].to_numpy()[rows] for name in ("start", "end"))
    latest_end = np.maximum.accumulate(end)
    next_rows = np.flatnonzero(start[1:] - latest_end[:-1] > rounding_gap(start, end)) + 1
    return StreamGaps(latest_end[next_rows - 1], start[next_rows], rows[next_rows])


def measure_gap_groups(
    gaps: StreamGaps,
    group: Ints,
    groups: int,
    work: LaunchedWork,
    times: Mapping[str, Ints],
    steps: pl.DataFrame | None,
) -> list[dict[str, object]]:
    """Statistics of the gaps of each group of one stream, and what the host did in them; with `steps` also by step."""
    members = _rows_by_group(group, groups)
    lane, activities = work.leading_lanes[gaps.after], work.activities
    with ThreadPoolExecutor(THREADS_AT_ONCE, "tracehound gaps") as threads:
        doing = threads.submit(activities.time_per_group, lane, gaps.start, gaps.end, group, groups)
        by_step = None if steps is None else threads.submit(_step_statistics, gaps, members, work.events, steps)
        found = _gap_statistics(gaps, group, members, work.events, times)
        activity_times = doing.result()
        more: Sequence[dict[str, object]] = [{}] * groups if by_step is None else by_step.result()
    return [
        {"why": activity, "while": time, **dict(zip(ALL_ACTIVITIES, times_of_activities, strict=True)), **own, **step}
        for activity, time, times_of_activities, own, step in zip(
            *longest_activity(activity_times), activity_times.tolist(), found, more, strict=True
        )
    ]


Members = Sequence[npt.NDArray[np.intp]]
"""The rows of the gaps of each group, in order; every group has at least one."""


def _rows_by_group(group: Ints, groups: int) -> Members:
    narrow = group.astype(np.uint16) if groups <= 1 << 16 else group  # sorted by radix, which is many times as fast
    by_group = np.argsort(narrow, kind="stable")
    return np.split(by_group, value_change_rows(group[by_group])) if len(group) else []


def _gap_statistics(
    gaps: StreamGaps, group: Ints, members: Members, events: pl.DataFrame, times: Mapping[str, Ints]
) -> list[dict[str, object]]:
    """Statistics of the gaps of each group of one stream: count, lengths, `times`, and the longest."""
    length, ids = gaps.end - gaps.start, events["id"]
    times_of_groups = {part: sum_groups(group, time, len(members)).tolist() for part, time in times.items()}
    found = list[dict[str, object]]()
    for number, rows in enumerate(members):
        lengths = pl.Series(length[rows])
        in_order = lengths.sort()
        longest = int(rows[length[rows].argmax()])
        found.append(
            {
                "count": len(_first_parts(gaps, rows)),
                "idle": lengths.sum(),
                **{part: sums[number] for part, sums in times_of_groups.items()},
                "mean": lengths.mean(),
                "std": lengths.std(),
                "min": in_order[0],
                **{f"p{part}": in_order.quantile(part / 100, "linear") for part in (25, 50, 75)},
                "duration": in_order[-1],
                "start": int(gaps.start[longest]),
                "event": ids[int(gaps.after[longest])],
            }
        )
    return found


def _step_statistics(
    gaps: StreamGaps, members: Members, events: pl.DataFrame, steps: pl.DataFrame
) -> list[dict[str, object]]:
    """For each group its idle time by step, longest first, and the length of `SHORT_WORK` after its gaps."""
    work = (events["end"] - events["start"]).to_numpy()
    is_short = (events["kind"] == "kernel").to_numpy() & (work < SHORT_WORK)
    short_work = np.where(is_short, work, 0)[gaps.after]
    starts = steps["start"].to_numpy() if steps.height else np.empty(0, np.int64)
    step = np.searchsorted(starts, gaps.start, side="right") - 1
    return [
        {
            "by_step": _idle_by_step(step[rows].clip(min=0), (gaps.end - gaps.start)[rows], steps),
            "short_work": int(short_work[_first_parts(gaps, rows)].sum()),
        }
        for rows in members
    ]


def _idle_by_step(step: Ints, length: Ints, steps: pl.DataFrame) -> list[dict[str, int]]:
    """The number of each step with gaps of this length, in these rows of `steps`, and their sum, longest first."""
    if steps.is_empty():
        return []
    time = np.bincount(step, length)
    most = np.argsort(-time, kind="stable")[: np.count_nonzero(time)]
    numbers = steps["step"].gather(most).to_list()
    return [{"step": number, "time": int(idle)} for number, idle in zip(numbers, time[most].tolist(), strict=True)]


def _first_parts(gaps: StreamGaps, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Those of the rows that are the first part of a gap: parts of one gap follow one another."""
    after = gaps.after[rows]
    first: npt.NDArray[np.intp] = rows[np.append(True, after[1:] != after[:-1])]
    return first
