"""The cause of each idle gap of a device, as the host recorded it: an event with a name, or a wait before the gap.

`idle` puts gaps into classes; here a gap gets what the responsible thread did from its start to the launch that ended
it. A gap is named after the deepest event that covers more than half of that time, or after the activity that does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.hosts.host_threads import enclosing_events, host_events_between
from tracehound.analysis.hosts.main_activities import (
    ACTIVITY_SCHEMA,
    LAUNCHES,
    LONG_OPERATOR,
    ORDINARY,
    EventRules,
    codes_of,
    find_main_activities,
)
from tracehound.analysis.hosts.thread_activity import (
    ALLOCATING,
    COLLECTING_GARBAGE,
    COPYING,
    NOTHING_RECORDED,
    PROGRAM,
    PYTHON,
    VALUE,
    WAITING,
    ActivityIntervals,
    ThreadActivities,
)
from tracehound.analysis.rank_trace import RankTrace
from tracehound.model.trace import collect_frame, schema
from tracehound.numeric.intervals import Intervals, Ints, covered_lengths

CAUSE_SCHEMA: Final = schema(
    {
        **{name: dtype for name, dtype in ACTIVITY_SCHEMA.items() if name != "other"},  # `doing` is "" without a cause
        "names": pl.List(pl.Struct({"name": pl.String(), "count": pl.Int64(), "time": pl.Int64()})),  # most time first
        "calls": pl.Int64(),  # number of events with this name from the first gap to the last
    }
)

_WAITS: Final = (VALUE, WAITING, COPYING)
"""Activities in which the host waits for the device."""

MAX_EXAMINED_GAPS: Final = 1 << 11
"""The longest gaps of a rank, of which the events of the host are read; the others only have the launching operator."""

MAX_EXAMINED_WAITS: Final = 1 << 9
"""The longest waits that explain gaps, whose events are read; gaps after others stay what they are."""

_MAX_CAUSES: Final = 64
"""Causes of a rank that are told apart."""

JOINED: Final = (ALLOCATING, PROGRAM, COLLECTING_GARBAGE, LAUNCHES)
"""Activities whose calls are one cause together, whatever their names."""

_AFTER_WAITS: Final = (LAUNCHES, LONG_OPERATOR, *ORDINARY)
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
    rules: EventRules,
    threads: ThreadActivities,
) -> GapCauses:
    """The causes of gaps (in order) for which `lane`, a thread of the host, is responsible; -1: none is.

    `launch` and `asked` are id and end of the call that launched the work after each gap: what the thread did until
    then is examined; all of the gap, if that is not in it, or not known. `threads` are the activities of the
    host's threads: they say when one waits for the device, and which is the program's own. Where nothing is recorded of
    the responsible thread, what that one does is the cause.
    """
    if not len(lane):
        return GapCauses(np.zeros(0, np.int64), pl.DataFrame({"doing": [""]}, schema_overrides=CAUSE_SCHEMA))
    until = np.where((asked > gaps.start) & (asked < gaps.end), asked, gaps.end)
    length = np.where(lane >= 0, until - gaps.start, 0)
    examined = np.sort(np.argsort(-length, kind="stable")[:MAX_EXAMINED_GAPS])
    examined = examined[length[examined] > 0]
    windows = Intervals(gaps.start[examined], until[examined])
    found = find_main_activities(rank_trace, lane[examined], windows, rules)
    found = _ask_main_thread(rank_trace, found, lane[examined], threads.main, windows, rules)
    found = found.with_columns(gap=examined).filter(pl.col("doing") != LAUNCHES)
    has_cause = np.zeros(len(lane), np.bool_)
    has_cause[found["gap"].to_numpy()] = True
    others = np.flatnonzero((lane >= 0) & ~has_cause)
    found = pl.concat([found, _launching_operators(rank_trace, launch.gather(others)).with_columns(gap=others)])
    found = found.sort("gap")
    found = found.with_columns(time=(gaps.end - gaps.start)[found["gap"].to_numpy()])
    causes = _join_causes(_blame_waits(rank_trace, found, gaps, lane, until, rules, threads.by_lane), len(lane))
    table = _count_calls(rank_trace, causes.table, int(gaps.start[0]), int(gaps.end[-1]))
    return causes._replace(table=_add_annotation(rank_trace, table))


def _ask_main_thread(
    rank_trace: RankTrace, found: pl.DataFrame, lane: Ints, main: int, windows: Intervals, rules: EventRules
) -> pl.DataFrame:
    """The activities, with those of the program's own thread where nothing is recorded of another one."""
    silent = np.flatnonzero((found["doing"] == NOTHING_RECORDED).to_numpy() & (lane != main))
    if main < 0 or not len(silent):
        return found
    there = Intervals(windows.start[silent], windows.end[silent])
    told = find_main_activities(rank_trace, np.full(len(silent), main), there, rules)
    said = told.with_columns(at=silent).filter(~pl.col("doing").is_in([LAUNCHES, NOTHING_RECORDED]))
    kept = found.with_columns(at=np.arange(found.height)).join(said, on="at", how="anti")
    return pl.concat([kept, said]).sort("at").drop("at")


def _launching_operators(rank_trace: RankTrace, launch: pl.Series) -> pl.DataFrame:
    """The operator that each of these launches is in, else the launch itself, as `ACTIVITY_SCHEMA`."""
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
    rules: EventRules,
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
    keys = pl.DataFrame({"lane": lane[gap[blamed]], "begin": begin[blamed], "end": end[blamed]}).unique()
    keys = keys.sort(pl.col("begin") - pl.col("end"), "lane", "begin").head(MAX_EXAMINED_WAITS).sort("lane", "begin")
    windows = Intervals(keys["begin"].to_numpy(), keys["end"].to_numpy())
    named = find_main_activities(rank_trace, keys["lane"].to_numpy(), windows, rules)
    blamed_waits = named.with_columns(keys["lane"], keys["begin"]).filter(pl.col("doing").is_in(_WAITS))
    explained = found[blamed].select(
        "gap", "doing", "time", lane=pl.Series(lane[gap[blamed]]), begin=pl.Series(begin[blamed])
    )
    rare = explained.join(blamed_waits.select("lane", "begin", "name"), on=["lane", "begin"])
    often = rare.filter(pl.len().over("name") >= _MIN_REPEATS)["gap"]
    explained = explained.filter((pl.col("doing") == LAUNCHES) | pl.col("gap").is_in(often.implode()))
    joined = explained.drop("doing").join(blamed_waits, on=["lane", "begin"], how="inner").select(found.columns)
    return pl.concat([found.join(joined, on="gap", how="anti"), joined]).sort("gap")


_MIN_REPEATS: Final = 3
"""Long gaps in which the host does something else are put down to waits of a name only if there are as many."""


def _waits_for_busy_device(waits: Intervals, gaps: Intervals) -> Intervals:
    """The waits in which the device works for at least half of the time: else they wait for something else."""
    kept = 2 * covered_lengths(gaps, waits.start, waits.end) <= waits.end - waits.start
    return Intervals(waits.start[kept], waits.end[kept])


def _last_long_wait(waits: Intervals, last: Ints, start: Ints, length: Ints) -> Ints:
    """For each gap the last wait, from `last` back, that began before the gap and is as long; -1 without one near."""
    found, wait_length = last.copy(), waits.end - waits.start
    rows = np.flatnonzero(found >= 0)
    for _ in range(_MAX_WAITS_BACK):
        wait = found[rows]
        rows = rows[(waits.start[wait] >= start[rows]) | (wait_length[wait] < length[rows])]
        found[rows] -= 1
        rows = rows[found[rows] >= 0]
    found[rows] = -1
    return found


_MAX_WAITS_BACK: Final = 64
"""Waits before a gap among which its cause is searched."""


def _joined_waits(doing: ActivityIntervals) -> Intervals:
    """The intervals in which a thread waits for the device; those that touch are one."""
    mine = np.isin(doing.codes, codes_of(_WAITS))
    start, end = doing.intervals.start[mine], doing.intervals.end[mine]
    begins = np.append(True, start[1:] > end[:-1])[: len(start)]
    return Intervals(start[begins], end[np.append(np.flatnonzero(begins)[1:] - 1, len(end) - 1)] if len(end) else end)


def name_key() -> pl.Expr:
    """The key of causes that are one: the name without numbers, of Python functions their file.

    Functions of one file often do one thing together.
    """
    file = pl.col("name").str.extract(r"^\$?([^<\s]\S*?)(?:\(\d+\): |:\d+ )")
    function = pl.when(pl.col("doing") == PYTHON).then(file)
    return pl.coalesce(function, pl.col("name").str.replace_all(r"\d+", "#"))


def _join_causes(found: pl.DataFrame, count: int) -> GapCauses:
    """The causes of `count` gaps with equal ones as one, those of most idle time first."""
    is_joined = pl.col("doing").is_in(JOINED)
    key = pl.when(is_joined).then(pl.lit("")).otherwise(name_key())
    distinct = found.select("doing", "name").unique().with_columns(key.alias("key"))
    keyed = found.join(distinct, on=["doing", "name"], how="left")
    calls = keyed.select("doing", "key", "name", "time")
    seconds = keyed.filter(is_joined).drop_nulls("other")
    calls = pl.concat([calls, seconds.select("doing", "key", name="other", time=pl.col("time") // 2)])
    by_name = calls.group_by("doing", "key", "name").agg(pl.len().alias("count"), pl.col("time").sum())
    names = (
        by_name.filter(pl.col("name") != "")
        .sort("time", "name", descending=[True, False])
        .group_by("doing", "key", maintain_order=True)
        .agg(pl.struct("name", pl.col("count").cast(pl.Int64), "time").head(_MAX_NAMES).alias("names"))
    )
    most = by_name.filter(pl.col("name") != "").sort("time", "name", descending=[True, False])
    most = most.unique(["doing", "key"], keep="first").select("doing", "key", most="name")
    keyed = keyed.join(most, on=["doing", "key"], how="left", maintain_order="left")
    is_main = (pl.col("name") == pl.col("most")).fill_null(value=True)
    longest = keyed.sort(is_main, "time", "gap", descending=[True, True, False])
    causes = (
        longest.group_by("doing", "key", maintain_order=True)
        .agg(
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
    causes = causes.with_columns(pl.when(is_joined).then(joined_name).otherwise("name").alias("name"))
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


def _add_annotation(rank_trace: RankTrace, causes: pl.DataFrame) -> pl.DataFrame:
    """The causes; those of launches are `inside` the nearest annotation around the operator that launches most."""
    found = causes.filter(doing=LAUNCHES)
    event: int | None = found["host_event"].first()  # type: ignore[assignment]  # of a column of ids
    around = (name for name, kind in enclosing_events(rank_trace, event) if kind == "annotation")
    annotation = pl.lit(next(around, None), pl.String)
    return causes.with_columns(
        pl.when(pl.col("doing") == LAUNCHES).then(annotation).otherwise("inside").alias("inside")
    )


def _count_calls(rank_trace: RankTrace, causes: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """The causes with `calls`, the number of events of the host with their names in `[low, high)`."""
    names = causes["name"].filter(causes["name"] != "").unique().to_list()
    inside = rank_trace.threads.filter(pl.col("name").is_in(names) & (pl.col("start") < high) & (pl.col("end") > low))
    counts = collect_frame(inside.group_by("name").agg(pl.len().cast(pl.Int64).alias("calls"))) if names else None
    if counts is None:
        return causes
    counts = counts.with_columns(pl.col("name").cast(pl.String))
    return causes.drop("calls").join(counts, on="name", how="left", maintain_order="left").select(causes.columns)
