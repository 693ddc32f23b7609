"""Time of steps on the program's own thread, in a run without device work, by activity and recorded name."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.hosts.gap_causes import CAUSE_SCHEMA
from tracehound.analysis.hosts.host_threads import (
    THREAD_COLUMNS,
    host_lane_events,
    main_thread_lane,
    overlaps_any_window,
)
from tracehound.analysis.hosts.main_activities import EventRules, classify_events, describe_rows, outermost_of_activity
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
from tracehound.model.trace import collect_frame, schema
from tracehound.numeric.intervals import (
    EMPTY_INTERVALS,
    Intervals,
    Ints,
    covered_lengths,
    merge,
    overlapping_pairs,
    subtract,
    union,
)
from tracehound.numeric.self_time import innermost_intervals

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
    known = np.flatnonzero(code[owned.owner] >= 0)
    silent = subtract(windows, merge(Intervals(owned.start[known], owned.end[known]), elsewhere))
    outermost, rows = outermost_of_activity(parent, code), list[dict[str, object]]()
    for number, doing in enumerate(ACTIVITIES):
        mine = np.flatnonzero(code[owned.owner] == number)
        if doing in _WORK or not len(mine):
            continue
        of_thread = Intervals(owned.start[mine], owned.end[mine])
        piece, window, time = _time_in_windows(of_thread, windows, elsewhere if doing in _MAY_WAIT else EMPTY_INTERVALS)
        row = owned.owner[mine[piece]]
        if doing in _BY_FRAME and len(row):
            named = np.full(len(row), _main_event(events, parent, row, time))
        else:
            named = outermost[row]
        rows += _rows_by_name(events, parent, doing, (named, row), window, time, steps)
    _, window, time = _time_in_windows(silent, windows, EMPTY_INTERVALS)
    nothing = np.full(len(time), -1)
    rows += _rows_by_name(events, parent, NOTHING_RECORDED, (nothing, nothing), window, time, steps)
    found = pl.DataFrame(rows, schema={name: dtype for name, dtype in STEP_CAUSE_SCHEMA.items() if name != "rank"})
    return found.with_columns(rank=pl.lit(rank_trace.rank, pl.Int64)).select(STEP_CAUSE_SCHEMA.keys())


def _work_of_other_threads(rank_trace: RankTrace, lane: int, windows: Intervals) -> Intervals:
    """Times in which another thread runs operators or communicates, as that of the backward pass does."""
    others = rank_trace.threads.filter((pl.col("lane") != lane) & pl.col("kind").is_in(["op", "collective"]))
    rows = collect_frame(others.filter(overlaps_any_window(windows)).select("start", "end"))
    return union(rows["start"].to_numpy(), rows["end"].to_numpy())


def _time_in_windows(pieces: Intervals, windows: Intervals, without: Intervals) -> tuple[Ints, Ints, Ints]:
    """Each piece and window that overlap, and the length of that, without the times `without`; ps."""
    piece, window = overlapping_pairs(pieces.start, pieces.end, windows)
    start = np.maximum(pieces.start[piece], windows.start[window])
    end = np.minimum(pieces.end[piece], windows.end[window])
    return piece, window, end - start - covered_lengths(without, start, end)


def _main_event(events: pl.DataFrame, parent: Ints, row: Ints, time: Ints) -> int:
    """An event whose name, with what is nested in it, has more than half of this time, the innermost such name."""
    inclusive = np.zeros(len(parent), np.int64)
    np.add.at(inclusive, row, time)
    at, passed = row, time
    while len(at):
        above = parent[at]
        some = above >= 0
        at, passed = above[some], passed[some]
        np.add.at(inclusive, at, passed)
    frames = events.with_columns(inclusive=inclusive, row=np.arange(len(parent)))
    frames = frames.filter((pl.col("inclusive") > 0) & (pl.col("kind") != "step"))
    names = frames.group_by("name").agg(
        pl.col("inclusive").sum(), pl.col("row").sort_by("inclusive", "row", descending=[True, False]).first()
    )
    main = names.filter(2 * pl.col("inclusive") > int(time.sum())).sort("inclusive", "row", descending=[False, True])
    return int(main["row"][0]) if main.height else int(row[time.argmax()])


def _rows_by_name(
    events: pl.DataFrame,
    parent: Ints,
    doing: str,
    rows: tuple[Ints, Ints],
    window: Ints,
    time: Ints,
    steps: pl.DataFrame,
) -> list[dict[str, object]]:
    """A row for each name of one activity.

    `rows` are the events that pieces of time are named after, and the innermost ones (-1: none).
    """
    kind = events["kind"].cast(pl.String)
    named, innermost = rows
    parts = pl.DataFrame({"row": named, "innermost": innermost, "window": window, "time": time})
    parts = parts.filter(pl.col("time") > 0)
    names = events["name"].cast(pl.String)
    parts = parts.with_columns(
        pl.when(pl.col("row") >= 0).then(names.gather(parts["row"].clip(0)) if len(names) else None).alias("name")
    ).with_columns(pl.col("name").fill_null(""))
    result = []
    for (name,), part in parts.partition_by("name", as_dict=True, maintain_order=True).items():
        by_step = part.group_by("window").agg(pl.col("time").sum()).sort("time", "window", descending=[True, False])
        calls = int((names == name).sum()) if doing in _BY_FRAME else part["row"].n_unique()
        longest, deepest = (_row_with_most_time(part, column) for column in ("row", "innermost"))
        described = describe_rows(events, parent, kind, longest, deepest).row(0, named=True)
        worst = steps.row(int(by_step["window"][0]), named=True)
        total = int(part["time"].sum())
        result.append(
            {
                **described,
                "doing": doing,
                "names": [{"name": name, "count": calls, "time": total}] if name else [],
                "calls": calls if name else 0,
                "idle": total,
                "count": by_step.height,
                "by_step": [{"step": steps["step"][at], "time": spent} for at, spent in by_step.iter_rows()],
                "start": worst["start"],
                "duration": worst["end"] - worst["start"],
                "event": worst["event"],
            }
        )
    return result


def _row_with_most_time(parts: pl.DataFrame, column: str) -> Ints:
    """The event in this column with the most time, in an array of one."""
    times = parts.group_by(column).agg(pl.col("time").sum()).sort("time", column, descending=[True, False])
    return times[column].head(1).to_numpy()
