"""Time of steps on the program's own thread, in a run without device work, by activity and recorded name."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.hosts.gap_causes import CAUSE_SCHEMA
from tracehound.analysis.hosts.host_threads import (
    THREAD_COLUMNS,
    host_lane_events,
    main_thread_lane,
    overlaps_any_window,
    with_shared_threads,
)
from tracehound.analysis.hosts.main_activities import (
    EventRules,
    classify_events,
    codes_of,
    describe_rows,
    outermost_of_activity,
)
from tracehound.analysis.hosts.thread_activity import (
    ACTIVITIES,
    ASLEEP,
    IN_ANNOTATION,
    LAUNCHING,
    NOTHING_RECORDED,
    OPERATORS,
    PYTHON,
    RUNTIME,
)
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.analysis.timing.row_groups import category_codes, largest_row_per_group, value_change_rows
from tracehound.model.trace import collect_frame, schema
from tracehound.numeric.intervals import Intervals, Ints, covered_lengths, merge, overlapping_pairs, union
from tracehound.numeric.self_time import OwnedIntervals, innermost_intervals
from tracehound.numeric.trees import Trees, sum_groups

STEP_CAUSE_SCHEMA: Final = schema(
    {
        "rank": pl.Int64(),
        **CAUSE_SCHEMA,
        "idle": pl.Int64(),  # ps of the steps in which the thread does this
        "count": pl.Int64(),  # number of steps with any
        "by_step": pl.List(pl.Struct({"step": pl.Int64(), "time": pl.Int64()})),  # time by step, longest first
        "start": pl.Int64(),  # start and length of the step with most of it
        "duration": pl.Int64(),
        "event": pl.Int64(),  # its mark
    }
)

_WORK: Final = (OPERATORS, LAUNCHING, RUNTIME)
"""Activities that are what a step is for."""

_MAY_WAIT: Final = (ASLEEP, IN_ANNOTATION)
"""Activities of a thread that may wait for another one: while that works, no time is lost to them."""

_BY_FRAME: Final = (PYTHON, ASLEEP, IN_ANNOTATION)
"""Activities named after a frame, or annotation, in which more than half of their time is spent."""


def find_step_causes(rank_trace: RankTrace, steps: pl.DataFrame, loader: re.Pattern[str] | None = None) -> pl.DataFrame:
    """The time of `steps` (step, start, end, event; in order, disjoint) by cause: `STEP_CAUSE_SCHEMA`.

    A row for each activity and name, but for operators and calls of the runtime. Events that match `loader` load data.
    """
    rank_trace = with_shared_threads(rank_trace)
    lane = main_thread_lane(rank_trace)
    if lane < 0 or steps.is_empty():
        return pl.DataFrame(schema=STEP_CAUSE_SCHEMA)
    windows = Intervals(steps["start"].to_numpy(), steps["end"].to_numpy())
    events = collect_frame(
        host_lane_events(rank_trace, [lane]).filter(overlaps_any_window(windows)).select(THREAD_COLUMNS)
    )
    start, end, parent = events["start"].to_numpy(), events["end"].to_numpy(), parent_rows(events)
    code = classify_events(events, parent, EventRules(loader=loader))
    owned = innermost_intervals(start, end, parent, np.zeros(len(start), np.int64))
    elsewhere = _work_of_other_threads(rank_trace, lane, windows)
    window, row, time = _time_of_events(owned, windows, code, elsewhere)
    activity, outermost, causes = code[row], outermost_of_activity(parent, code), list[_StepCause]()
    name_codes = category_codes(events["name"])
    for number, doing in enumerate(ACTIVITIES):
        mine = np.flatnonzero((activity == number) & (time > 0))
        if not len(mine):
            continue
        if doing in _BY_FRAME:
            named = np.full(len(mine), _main_event(name_codes, events["kind"], parent, row[mine], time[mine]))
        else:
            named = outermost[row[mine]]
        causes += _causes_by_name(events["name"], name_codes, doing, (named, row[mine]), window[mine], time[mine])
    known = np.flatnonzero(code[owned.owner] >= 0)
    recorded = merge(Intervals(owned.start[known], owned.end[known]), elsewhere)
    silent = windows.end - windows.start - covered_lengths(recorded, windows.start, windows.end)
    if silent.any():
        causes.append(_StepCause(NOTHING_RECORDED, "", -1, -1, 0, silent))
    described = describe_rows(
        events,
        parent,
        events["kind"],
        np.array([cause.row for cause in causes], np.int64),
        np.array([cause.innermost for cause in causes], np.int64),
    )
    rows_of_causes = [
        {**row, **_step_columns(cause, steps)}
        for row, cause in zip(described.iter_rows(named=True), causes, strict=True)
    ]
    found = pl.DataFrame(
        rows_of_causes, schema={name: dtype for name, dtype in STEP_CAUSE_SCHEMA.items() if name != "rank"}
    )
    return found.with_columns(rank=pl.lit(rank_trace.rank, pl.Int64)).select(STEP_CAUSE_SCHEMA.keys())


class _StepCause(NamedTuple):
    """One activity and name of a thread: the rows of its longest event and of the innermost with most of the time.

    `calls` is the number of events, `times` has the time in each step.
    """

    doing: str
    name: str
    row: int
    innermost: int
    calls: int
    times: Ints


def _work_of_other_threads(rank_trace: RankTrace, lane: int, windows: Intervals) -> Intervals:
    """Times in which another thread runs operators or communicates, as that of the backward pass does."""
    others = rank_trace.threads.filter((pl.col("lane") != lane) & pl.col("kind").is_in(["op", "collective"]))
    rows = collect_frame(others.filter(overlaps_any_window(windows)).select("start", "end"))
    return union(rows["start"].to_numpy(), rows["end"].to_numpy())


def _time_of_events(
    owned: OwnedIntervals, windows: Intervals, code: npt.NDArray[np.int8], elsewhere: Intervals
) -> tuple[Ints, Ints, Ints]:
    """Windows, events that are the innermost there for some time, and these times, ps; work is left out.

    What may wait for another thread has no time while that works, at the times `elsewhere`.
    """
    is_left_out = np.zeros(len(ACTIVITIES) + 1, np.bool_)
    is_left_out[[-1, *codes_of(_WORK)]] = True
    pieces = np.flatnonzero(~is_left_out[code[owned.owner]])
    owned = OwnedIntervals(*(values[pieces] for values in owned))
    piece, window = overlapping_pairs(owned.start, owned.end, windows)
    start = np.maximum(owned.start[piece], windows.start[window])
    end = np.minimum(owned.end[piece], windows.end[window])
    row, time = owned.owner[piece], end - start
    if len(elsewhere.start):
        waits = np.flatnonzero(np.isin(code, codes_of(_MAY_WAIT))[row])
        time[waits] -= covered_lengths(elsewhere, start[waits], end[waits])
    return window, row, time


def _main_event(names: Ints, kind: pl.Series, parent: Ints, row: Ints, time: Ints) -> int:
    """An event whose name, with what is nested in it, has more than half of this time, the innermost such name.

    `names` numbers the names of all events.
    """
    inclusive = Trees(parent).subtree_sums(sum_groups(row, time, len(parent)))
    counted = np.where((inclusive > 0) & (kind != "step").fill_null(value=False).to_numpy(), names, -1)
    total = sum_groups(counted, inclusive, int(names.max()) + 1)
    main = np.flatnonzero(2 * total > time.sum())
    if not len(main):
        return int(row[time.argmax()])
    longest = largest_row_per_group(counted, inclusive, np.zeros_like(inclusive), len(total))[main]
    return int(longest[np.lexsort((-longest, total[main]))[0]])


def _causes_by_name(
    names: pl.Series, name_codes: Ints, doing: str, rows: tuple[Ints, Ints], window: Ints, time: Ints
) -> list[_StepCause]:
    """A cause for each name of one activity.

    `rows` are the events that the times are named after, and the innermost ones.
    """
    named, innermost = rows
    time_of_named, time_of_innermost = (sum_groups(each, time, len(names)) for each in rows)
    order = np.argsort(name_codes[named], kind="stable")
    found = []
    for members in sorted(np.split(order, value_change_rows(name_codes[named[order]])), key=lambda some: int(some[0])):
        code = name_codes[named[members[0]]]
        calls = np.count_nonzero(name_codes == code) if doing in _BY_FRAME else len(np.unique(named[members]))
        longest = _row_with_most_time(named[members], time_of_named)
        deepest = _row_with_most_time(innermost[members], time_of_innermost)
        name = str(names.gather([longest]).cast(pl.String)[0] or "")
        times = sum_groups(window[members], time[members], int(window.max()) + 1)
        found.append(_StepCause(doing, name, longest, deepest, int(calls) if name else 0, times))
    return found


def _row_with_most_time(rows: Ints, time_of_row: Ints) -> int:
    """The one of these events with the most time; of equal ones the first."""
    time = time_of_row[rows]
    return int(rows[time == time.max()].min())


def _step_columns(cause: _StepCause, steps: pl.DataFrame) -> dict[str, object]:
    """The columns of a cause that `describe_rows` does not give."""
    total = int(cause.times.sum())
    with_any = np.flatnonzero(cause.times)
    ordered = with_any[np.argsort(-cause.times[with_any], kind="stable")]
    worst = steps.row(int(ordered[0]), named=True)
    return {
        "doing": cause.doing,
        "names": [{"name": cause.name, "count": cause.calls, "time": total}] if cause.name else [],
        "calls": cause.calls,
        "idle": total,
        "count": len(ordered),
        "by_step": [{"step": steps["step"][int(at)], "time": int(cause.times[at])} for at in ordered],
        "start": worst["start"],
        "duration": worst["end"] - worst["start"],
        "event": worst["event"],
    }
