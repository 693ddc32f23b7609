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
from tracehound.analysis.timing.row_groups import (
    NameKindPairs,
    category_codes,
    group_rows,
    largest_row_per_group,
    largest_rows,
    occurring_numbers,
)
from tracehound.model.trace import collect_frame, schema
from tracehound.numeric.intervals import Intervals, Ints, covered_lengths
from tracehound.numeric.trees import sum_groups

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
    by_host = np.flatnonzero(length > 0)
    examined = np.sort(by_host[largest_rows(length[by_host], MAX_EXAMINED_GAPS)])
    windows = Intervals(gaps.start[examined], until[examined])
    found = find_main_activities(rank_trace, lane[examined], windows, rules)
    found = _ask_main_thread(rank_trace, found, lane[examined], threads.main, windows, rules)
    found = found.with_columns(gap=examined).filter(pl.col("doing") != LAUNCHES).cast(_CODED)
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


_CODED: Final = schema(dict.fromkeys(("doing", "name", "inside", "frame", "other"), pl.Categorical()))
"""Types of columns of `ACTIVITY_SCHEMA` that hold few different texts, or none, for many gaps."""


def _launching_operators(rank_trace: RankTrace, launch: pl.Series) -> pl.DataFrame:
    """The operator that each of these launches is in, else the launch itself, as `ACTIVITY_SCHEMA` with `_CODED`."""
    around = host_events_between(rank_trace, launch).read_columns("parent")["parent"]
    kind = host_events_between(rank_trace, around).read_columns("kind")["kind"]
    event = pl.select(pl.when((kind == "op").fill_null(value=False)).then(around).otherwise(launch)).to_series()
    rows = host_events_between(rank_trace, event).read_columns("id", "name", "start", "end")
    nothing = pl.Series([None], dtype=pl.Categorical).new_from_index(0, len(launch))
    return pl.DataFrame(
        {
            "doing": pl.Series([LAUNCHES], dtype=pl.Categorical).new_from_index(0, len(launch)),
            "name": rows["name"].cast(pl.Categorical).fill_null(""),
            "inside": nothing,
            "frame": nothing,
            "host_event": rows["id"],
            "host_time": rows["end"] - rows["start"],
            "other": nothing,
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
    """The causes (in the order of gaps), with the last wait for the device in place of those that it explains.

    Without its waits a thread would have been ahead by their lengths, less the gaps since: a gap no longer than that
    would not be there. It is put down to the last wait before it that is as long.
    """
    waits, wait = _explaining_waits(found, gaps, lane, until, activities)
    explained = np.flatnonzero(wait >= 0)
    if not len(explained):
        return found
    longest = waits.longest(np.flatnonzero(occurring_numbers(wait[explained])))
    windows = Intervals(waits.start[longest], waits.end[longest])
    named = find_main_activities(rank_trace, waits.lane[longest], windows, rules).cast(_CODED)
    is_wait = named["doing"].is_in(_WAITS).to_numpy()
    named_row = np.full(len(waits.lane), -1)
    named_row[longest[is_wait]] = np.flatnonzero(is_wait)
    row = named_row[wait[explained]]
    explained, row = explained[row >= 0], row[row >= 0]
    name, _ = group_rows(category_codes(named["name"]))
    repeats = np.bincount(name[row], minlength=named.height)[name[row]]
    kept = (found["doing"] == LAUNCHES).to_numpy()[explained] | (repeats >= _MIN_REPEATS)
    source = np.arange(found.height)
    source[explained[kept]] = found.height + row[kept]
    blamed = pl.concat([found.select(named.columns), named]).select(pl.all().gather(source))
    return blamed.with_columns(found["gap"], found["time"])


class _Waits(NamedTuple):
    """Waits of threads for the device: lane, start and end of each."""

    lane: Ints
    start: Ints
    end: Ints

    def longest(self, numbers: Ints) -> Ints:
        """The longest `MAX_EXAMINED_WAITS` of these, by lane and start."""
        lane, start, end = (values[numbers] for values in self)
        first = np.lexsort((start, lane, start - end))[:MAX_EXAMINED_WAITS]
        return numbers[first[np.lexsort((start[first], lane[first]))]]


def _explaining_waits(
    found: pl.DataFrame, gaps: Intervals, lane: Ints, until: Ints, activities: Mapping[int, ActivityIntervals]
) -> tuple[_Waits, Ints]:
    """The waits of all threads, and for each cause the number of the wait that explains it; -1: none does."""
    gap, time = found["gap"].to_numpy(), found["time"].to_numpy()
    explainable, lane_of_gap = found["doing"].is_in(_AFTER_WAITS).to_numpy(), lane[gap]
    explaining, known = np.full(len(gap), -1), [_Waits(*np.empty((3, 0), np.int64))]
    for number, doing in activities.items():
        mine = np.flatnonzero(lane_of_gap == number)
        waits = _waits_for_busy_device(_joined_waits(doing), gaps)
        if not len(mine) or not len(waits.start):
            continue
        last = np.searchsorted(waits.end, until[gap[mine]], side="right") - 1
        waited = np.append(0, np.cumsum(waits.end - waits.start))[last + 1]
        lead = waited - np.append(0, np.cumsum(time[mine])[:-1])  # before each gap, were it not for those without one
        lead += np.append(0, np.maximum.accumulate(np.maximum(time[mine] - lead, 0))[:-1])
        wait = _last_long_wait(waits, last, gaps.start[gap[mine]], time[mine])
        explains = explainable[mine] & (wait >= 0) & (lead >= time[mine])
        explaining[mine[explains]] = sum(len(each.lane) for each in known) + wait[explains]
        known.append(_Waits(np.full(len(waits.start), number), *waits))
    return _Waits(*(np.concatenate(parts) for parts in zip(*known, strict=True))), explaining


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
    start, end = doing.of_activities(_WAITS)
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
    """The causes of `count` gaps with equal ones as one, those of most idle time first; `found` is in their order."""
    time = found["time"].to_numpy()
    distinct = NameKindPairs(found["name"], found["doing"])
    pair, many = distinct.pair_numbers, len(distinct.rows)
    pairs = found.select("doing", "name")[distinct.rows].with_columns(
        count=np.bincount(pair, minlength=many), time=sum_groups(pair, time, many)
    )
    key = _cause_keys(pairs)
    number, one = group_rows(category_codes(pairs["doing"]), category_codes(key))
    keys = pairs[one].select(pl.int_range(pl.len()).alias("number"), pl.col("doing").cast(pl.String))
    keys = keys.with_columns(key.gather(one).cast(pl.String))
    seconds = found.filter(_IS_JOINED & pl.col("other").is_not_null())
    names = _names_of_causes(pairs.with_columns(number=number), keys, seconds)
    keys = keys.join(names, on="number", how="left", maintain_order="left")
    main = pl.col("names").list.first()
    main_name = category_codes(keys.select(main.struct.field("name").cast(pl.Categorical)).to_series())[number]
    is_main = (main_name == 0) | (main_name == category_codes(pairs["name"]))
    cause = number[pair]
    longest = largest_row_per_group(cause, is_main.astype(np.int64)[pair], time, keys.height)
    shown = found[longest].select(pl.col("name", "inside", "frame").cast(pl.String), "host_event", "host_time")
    causes = (
        pl.concat([keys, shown], how="horizontal")
        .with_columns(idle=sum_groups(cause, time, keys.height))
        .sort("idle", "doing", "key", descending=[True, False, False])
        .head(_MAX_CAUSES)
    )
    stands = 2 * main.struct.field("time") >= pl.col("idle")
    joined_name = pl.when(stands).then(main.struct.field("name")).otherwise(pl.lit("")).fill_null("")
    causes = causes.with_columns(pl.when(_IS_JOINED).then(joined_name).otherwise("name").alias("name"))
    row_of_cause, row = np.zeros(keys.height, np.int64), np.zeros(count, np.int64)
    row_of_cause[causes["number"].to_numpy()] = np.arange(causes.height) + 1
    row[found["gap"].to_numpy()] = row_of_cause[cause]
    none = pl.DataFrame({"doing": [""], "name": [""]})
    table = pl.concat([none, causes], how="diagonal").with_columns(calls=pl.lit(None, pl.Int64))
    return GapCauses(row, table.select(pl.col(name).cast(dtype) for name, dtype in CAUSE_SCHEMA.items()))


_IS_JOINED: Final = pl.col("doing").is_in(JOINED)


def _cause_keys(pairs: pl.DataFrame) -> pl.Series:
    """The key of each pair of activity and name, as a category; that of `JOINED` is ""."""
    only_others = pl.when(~_IS_JOINED).then("name").cast(pl.String).alias("name")  # no texts of millions of names
    keys = pairs.select("doing", only_others).select(key=name_key().fill_null("").cast(pl.Categorical))
    return keys.to_series()


def _names_of_causes(pairs: pl.DataFrame, keys: pl.DataFrame, with_second_name: pl.DataFrame) -> pl.DataFrame:
    """The `names` of each cause (its `number` in `keys`) that have most of its time, the first of all first.

    `pairs` has count and time of each cause and name. Causes `with_second_name` give half of their time to it, too.
    """
    joined = keys.filter(_IS_JOINED)
    seconds = with_second_name.group_by(pl.col("doing").cast(pl.String), name="other").agg(
        pl.len().cast(pl.Int64).alias("count"), (pl.col("time") // 2).sum()
    )
    seconds = seconds.join(joined, on="doing").select("number", "name", "count", "time")
    has_name, is_second = pl.col("name") != "", pl.col("name").is_in(seconds["name"].implode())
    is_long = ~is_second & pl.col("number").is_in(joined["number"].implode())  # of a cause with maybe millions of names
    parts = [seconds.filter(has_name), pairs.filter(has_name & ~is_long).select(seconds.columns)]
    for rows in pairs.iter_slices(_NAMES_AT_ONCE):
        named = rows.filter(has_name & is_long).select(seconds.columns)
        by_number = named.partition_by("number")
        parts += (some.bottom_k(_MAX_NAMES, by=[-pl.col("time"), "name"]) for some in by_number)
    return (
        pl.concat(parts)
        .group_by("number", pl.col("name").cast(pl.String))
        .agg(pl.col("count", "time").sum())
        .sort("time", "name", descending=[True, False])
        .group_by("number", maintain_order=True)
        .agg(pl.struct("name", "count", "time").head(_MAX_NAMES).alias("names"))
    )


_MAX_NAMES: Final = 3

_NAMES_AT_ONCE: Final = 1 << 16
"""Names that are compared at once."""


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
