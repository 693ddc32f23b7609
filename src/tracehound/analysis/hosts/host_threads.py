"""Events of host threads: reading them by lane or id, in chunks, and their time in given intervals.

Time on a thread belongs to the innermost event. Also finds the threads that run the program. The base of `host` and
`gaps`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.rank_trace import RankTrace, SharedHostResult, SharedRankResult, lane_events
from tracehound.analysis.result import Options, counted_events_per_group
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.analysis.timing.row_groups import (
    NameKindPairs,
    category_codes,
    equal_value_group_numbers,
    group_rows,
    largest_row_per_group,
    occurring_numbers,
)
from tracehound.formats.name_filter import NameFilter
from tracehound.formats.xla.xla_names import is_program_thread
from tracehound.model.trace import collect_contiguous, collect_frame
from tracehound.numeric.intervals import Intervals, Ints, Mask, count_instants_reached, merge, overlapping_pairs
from tracehound.numeric.nesting import nearest_chosen_ancestor
from tracehound.numeric.self_time import OwnedIntervals, innermost_intervals
from tracehound.numeric.trees import sum_groups

THREAD_COLUMNS = ("id", "lane", "start", "end", "name", "kind", "parent")
"""Columns of events that `innermost_per_window` needs."""


def host_lane_events(rank_trace: RankTrace, lanes: Collection[int]) -> pl.LazyFrame:
    """The events of these lanes of the host, sorted by id: no others are read."""
    return lane_events(rank_trace.threads, rank_trace.lanes, lanes)


def with_threads_in_memory(rank_trace: RankTrace) -> RankTrace:
    """The rank trace with `THREAD_COLUMNS` of its host in memory, unless there are very many; for repeated reading.

    It has no other columns of them.
    """
    return replace(rank_trace, threads=_threads_in_memory(rank_trace))


def share_threads_in_memory(rank_trace: RankTrace) -> RankTrace:
    """The rank trace with `THREADS_IN_MEMORY` among its host results: all computations of its map read them once."""
    threads = _threads_in_memory(rank_trace)
    return replace(rank_trace, host_results={**rank_trace.host_results, (THREADS_IN_MEMORY, ()): threads})


def with_shared_threads(rank_trace: RankTrace) -> RankTrace:
    """The rank trace that reads `THREADS_IN_MEMORY` if they are shared: it has only `THREAD_COLUMNS` of them then."""
    shared = THREADS_IN_MEMORY.known_result(rank_trace)
    return rank_trace if shared is None else replace(rank_trace, threads=shared)


def _load_threads(rank_trace: RankTrace, given: ChosenSettings) -> pl.LazyFrame:
    del given
    of_host = rank_trace.lanes.filter(pl.col("rank").is_null())
    if int(of_host["events"].sum()) > _MAX_EVENTS_IN_MEMORY:
        return rank_trace.threads
    return collect_contiguous(rank_trace.threads, *_COLUMN_GROUPS).select(THREAD_COLUMNS).lazy()


THREADS_IN_MEMORY: Final = SharedHostResult(_load_threads, sendable=False)
"""`THREAD_COLUMNS` of a host in memory."""

_THREADS_OF_MAP: Final = SharedRankResult(THREADS_IN_MEMORY.result_for)
"""`THREADS_IN_MEMORY`, read once for all analyses of a map."""


def _threads_in_memory(rank_trace: RankTrace) -> pl.LazyFrame:
    known = THREADS_IN_MEMORY.known_result(rank_trace)
    return _THREADS_OF_MAP.result_for(rank_trace) if known is None else known


_COLUMN_GROUPS: Final = (("id", "parent"), ("start", "end"), ("lane", "name", "kind"))
"""`THREAD_COLUMNS` in the groups in which they are read together."""

_MAX_EVENTS_IN_MEMORY: Final = 1 << 23
"""Most events of a host that are held in memory: some 380 MB."""


def lanes_of_events(rank_trace: RankTrace, ids: pl.Series) -> list[int]:
    """The lanes of the host with these events (null: no event)."""
    of_host = _host_lanes(rank_trace)
    place, _ = _lane_and_row(of_host, ids)
    return of_host["lane"].gather(np.flatnonzero(occurring_numbers(place[place >= 0]))).to_list()


class HostEventLookup(NamedTuple):
    """Ranges of the host's events, sorted by id, and for each sought event its row there, and its lane.

    Both are -1 if it is no event of the host. `event_count` is the number of events.
    """

    events: pl.LazyFrame
    event_count: int
    row: Ints
    lane: Ints

    def read_columns(self, *columns: str) -> pl.DataFrame:
        """These columns of each sought event, in rows of the same order; null if it is none of the host."""
        events = self.events.select(columns)
        if self.event_count <= _MAX_EVENTS_IN_MEMORY:
            found, place = collect_frame(events).rechunk(), self.row
        else:
            parts, place = [collect_frame(events.clear())], np.full(len(self.row), -1)
            for low in range(0, self.event_count, CHUNK_EVENTS):
                mine = np.flatnonzero((self.row >= low) & (self.row < low + CHUNK_EVENTS))
                place[mine] = np.arange(len(mine)) + sum(part.height for part in parts)
                parts.append(
                    collect_frame(events.slice(low, CHUNK_EVENTS))[self.row[mine] - low] if len(mine) else parts[0]
                )
            found = pl.concat(parts, rechunk=True)
        at = pl.Series(place).set(pl.Series(place < 0), None)
        return found.select(pl.all().gather(at))


def host_events_between(rank_trace: RankTrace, ids: pl.Series) -> HostEventLookup:
    """The events from the first to the last of these (null: none) on each of their lanes, and few others."""
    of_host = _host_lanes(rank_trace)
    place, row = _lane_and_row(of_host, ids)
    low, high = np.full(of_host.height + 1, np.iinfo(np.int64).max), np.full(of_host.height + 1, -1)
    np.minimum.at(low, place, row)
    np.maximum.at(high, place, row)
    low, high = (bounds[:-1][high[:-1] >= 0] for bounds in (low, high))
    if len(low) == 0:
        return HostEventLookup(rank_trace.threads.clear(), 0, row, place)
    breaks = np.flatnonzero(low[1:] - high[:-1] > _MAX_READ_GAP)
    low, high = low[np.append(0, breaks + 1)], high[np.append(breaks, len(high) - 1)] + 1
    left_out = low - np.append(0, np.cumsum(high - low)[:-1])
    here = row - left_out[np.searchsorted(low, row, side="right") - 1] if len(low) > 1 else row - low[0]
    events = pl.concat([rank_trace.threads.slice(begin, end - begin) for begin, end in zip(low, high, strict=True)])
    lane = np.append(of_host["lane"].to_numpy(), -1)[place]
    return HostEventLookup(events, int((high - low).sum()), np.where(row < 0, -1, here), lane)


_MAX_READ_GAP: Final = 1 << 16
"""Ranges of events with fewer between them are read as one: as many are read at once in any case."""


def _host_lanes(rank_trace: RankTrace) -> pl.DataFrame:
    """The lanes of the host, in the order of their events among `RankTrace.threads`."""
    return rank_trace.lanes.filter(pl.col("rank").is_null()).sort("lane")


def _lane_and_row(of_host: pl.DataFrame, ids: pl.Series) -> tuple[Ints, Ints]:
    """For each event the index of its lane among those of the host, and its row; -1 if it is not there."""
    wanted = ids.fill_null(-1).to_numpy()
    begin, low, events = (np.append(of_host[name].to_numpy(), 0) for name in ("begin", "low", "events"))
    place = np.searchsorted(begin[:-1], wanted, side="right") - 1
    row = wanted - begin[place]
    there = row < events[place]
    if there.all() and place.min(initial=0) >= 0:
        return place, row + low[place]
    there &= place >= 0
    return np.where(there, place, -1), np.where(there, row + low[place], -1)


def host_events_by_id(rank_trace: RankTrace, ids: pl.Series) -> pl.LazyFrame:
    """These events of the host (null: none), sorted by id."""
    wanted = ids.drop_nulls().unique()
    return host_events_between(rank_trace, wanted).events.filter(pl.col("id").is_in(wanted.implode()))


def enclosing_events(rank_trace: RankTrace, event: int | None) -> Iterator[tuple[str, str]]:
    """Name and kind of this event of the host (None: no event), and of all around it, from the inside out."""
    rank_trace = with_shared_threads(rank_trace)
    ids = pl.Series([event], dtype=pl.Int64)
    while ids[0] is not None:
        row = host_events_between(rank_trace, ids).read_columns("name", "kind", "parent")
        if row["kind"][0] is None:
            return
        yield str(row["name"].cast(pl.String)[0] or ""), str(row["kind"].cast(pl.String)[0])
        ids = row["parent"]


def lane_batches(rank_trace: RankTrace, lanes: Collection[int] | None = None) -> Iterator[pl.LazyFrame]:
    """The events of these lanes of the host (None: of all), in batches of as many lanes as fit, at least one."""
    for some, _ in _batch_lanes(rank_trace, lanes):
        yield host_lane_events(rank_trace, some)


def lane_chunks(rank_trace: RankTrace, lanes: Collection[int] | None = None) -> Iterator[pl.LazyFrame]:
    """The events in chunks of a bounded size, at least one: the parent of an event may be in an earlier chunk."""
    for some, many in _batch_lanes(rank_trace, lanes):
        events = host_lane_events(rank_trace, some)
        for first in range(0, max(many, 1), CHUNK_EVENTS):
            yield events.slice(first, CHUNK_EVENTS) if many > CHUNK_EVENTS else events


def _batch_lanes(rank_trace: RankTrace, lanes: Collection[int] | None) -> Iterator[tuple[list[int], int]]:
    """Batches of these lanes of the host, and their number of events."""
    of_host = _host_lanes(rank_trace)
    mine = of_host if lanes is None else of_host.filter(pl.col("lane").is_in(list(lanes)))
    batch = ((mine["events"].cum_sum() - mine["events"]) // _BATCH_EVENTS).alias("batch")
    for some in mine.select("lane", "events", batch).partition_by("batch", maintain_order=True):
        yield some["lane"].to_list(), int(some["events"].sum())


_BATCH_EVENTS: Final = 1 << 18
"""Events of host lanes that are processed together."""

CHUNK_EVENTS: Final = 1 << 21
"""Most events of one lane that are processed together."""


def merge_over_chunks(
    rank_trace: RankTrace, when: Callable[[pl.LazyFrame], Mapping[str, Intervals]]
) -> dict[str, Intervals]:
    """The intervals that `when` finds in the events of the host, chunk by chunk, merged.

    `when` must look at each event alone, not at its parents.
    """
    found: dict[str, list[Intervals]] = {}
    for threads in lane_chunks(rank_trace):
        for name, intervals in when(threads).items():
            found.setdefault(name, []).append(intervals)
    return {name: merge(*sets) for name, sets in found.items()}


def overlaps_any_window(windows: Intervals) -> pl.Expr:
    """Condition: the event overlaps one of these windows, a set of intervals; so do the events around it."""
    begins = np.append(windows.start, np.iinfo(np.int64).max)

    def overlap(times: pl.Series) -> pl.Series:
        """True if the first window that ends after an event starts begins before the event ends."""
        start, end = (times.struct.field(name).to_numpy() for name in ("start", "end"))
        return pl.Series(begins[count_instants_reached(windows.end, start)] < end)

    return pl.struct("start", "end").map_batches(overlap, return_dtype=pl.Boolean, is_elementwise=True)


def event_names(threads: pl.LazyFrame, name_filter: NameFilter) -> list[str]:
    """The distinct names of events of host lanes, without those that match no pattern of the filter."""
    names = collect_frame(threads.select("name")).to_series().drop_nulls()
    physical = names.to_physical().to_numpy()
    found = np.flatnonzero(occurring_numbers(physical)).astype(physical.dtype)
    distinct = pl.Series(found).cat.to(names.dtype)
    return distinct.filter(name_filter.may_match(distinct)).cast(pl.String).to_list()


def innermost_per_window(threads: pl.DataFrame, windows: Intervals, options: Options | None = None) -> pl.DataFrame:
    """For every window and host lane, the events that ran there as the innermost, and their times.

    `threads` are events of host lanes, sorted by id; `windows` a set of intervals. Returns `window` (its index),
    `lane`, `name`, `inside` (the nearest annotation around, null without one: it tells what a frame of a library was
    called for), `time` (ps inside the window), `count` (events) and `event` (id of the one with the most time), sorted
    by (window, time descending). Time without any event on a thread is not listed; of time with two that overlap in
    part the earlier has all.
    """
    if len(windows.start):
        low, high = int(windows.start[0]), int(windows.end[-1])
        threads = threads.filter((pl.col("start") < high) & (pl.col("end") > low))
    start, end = threads["start"].to_numpy(), threads["end"].to_numpy()
    parent = parent_rows(threads)
    owned = innermost_intervals(start, end, parent, threads["lane"].to_numpy())
    window, row, time = _time_per_window(owned, windows, len(start))
    kinds, number = _number_distinct_rows(threads.select("lane", "name", _annotation_names(threads, parent)))
    place = window * kinds.height + number[row]
    group, first = group_rows(place)
    most_of = largest_row_per_group(
        group, time, np.zeros_like(time), len(first)
    )  # of equal ones the first: rows are ordered by id
    total = sum_groups(group, time, len(first))
    window, kind = np.divmod(place[first], max(1, kinds.height))
    order = np.lexsort((-total, window))
    members = counted_events_per_group(options or Options(), group, threads["id"].gather(row), len(first))
    return kinds[kind[order]].select(
        pl.Series("window", window[order]),
        "lane",
        "name",
        "inside",
        threads["id"].gather(row[most_of[order]]).alias("event"),
        pl.Series("count", np.bincount(group, minlength=len(first))[order]),
        pl.Series("time", total[order]),
        **{name: each.gather(order) for name, each in members.items()},
    )


def _number_distinct_rows(events: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """The distinct rows of lane, name and annotation, as text and in order, and the row of each event."""
    number, first = group_rows(
        equal_value_group_numbers(events["lane"].to_numpy()),
        category_codes(events["name"]),
        category_codes(events["inside"]),
    )
    every = events[first].with_columns(pl.col(pl.Categorical).cast(pl.String)).with_row_index("number")
    every = every.sort(events.columns)
    place = np.empty(every.height, np.int64)
    place[every["number"].to_numpy()] = np.arange(every.height)
    return every.drop("number"), place[number]


def _annotation_names(threads: pl.DataFrame, parent: Ints) -> pl.Series:
    """For each event the name of the nearest annotation that contains it."""
    around = nearest_marked_ancestor(parent, (threads["kind"] == "annotation").to_numpy())
    names = threads["name"].gather(np.maximum(around, 0))
    return pl.select(pl.when(pl.Series(around >= 0)).then(names).alias("inside")).to_series()


def nearest_marked_ancestor(parent: Ints, marks: Mask, rows: npt.NDArray[np.integer] | None = None) -> Ints:
    """For every event (or for these rows) the row of the nearest marked event around it, -1 without one.

    `parent` is the row of the event that directly contains it, -1 for none.
    """
    if rows is None:
        found: Ints = np.append(nearest_chosen_ancestor(parent, marks), -1)[parent]  # index -1: none
        return found
    around: Ints = parent[rows]
    while len(climbing := np.flatnonzero((around >= 0) & ~marks[around])):
        around[climbing] = parent[around[climbing]]
    return around


def classify_by_name(
    events: pl.DataFrame, classify: Callable[[str, str], int | None], name_filter: NameFilter | None = None
) -> npt.NDArray[np.int8]:
    """A small number for each event by its `name` and `kind`, -1 if they say nothing.

    `classify` is called once for each distinct pair; a missing name is "". So is a name that matches no pattern of the
    filter: it has all patterns that `classify` tries, and none of them matches "".
    """
    pairs = NameKindPairs(events["name"], events["kind"])
    names, kinds = (events[column].gather(pairs.rows) for column in ("name", "kind"))
    matching = names.is_not_null().to_numpy() if name_filter is None else name_filter.may_match(names)
    answers, kind_codes = np.empty(len(names), np.int8), category_codes(kinds)
    for row in np.flatnonzero(~matching)[np.unique(kind_codes[~matching], return_index=True)[1]].tolist():
        code = classify("", kinds.gather(row).cast(pl.String)[0] or "")
        answers[kind_codes == kind_codes[row]] = -1 if code is None else code
    rows = np.flatnonzero(matching)
    found = zip(*(values.gather(rows).cast(pl.String).to_list() for values in (names, kinds)), strict=True)
    answers[rows] = [-1 if (code := classify(name, kind or "")) is None else code for name, kind in found]
    return pairs.expand_to_rows(answers)


def match_names(events: pl.DataFrame, pattern: re.Pattern[str]) -> Mask:
    """Mask of the events whose names match the pattern, at any position."""
    matches: Mask = (
        classify_by_name(events, lambda name, _: 1 if pattern.search(name) else None, NameFilter(pattern)) > 0
    )
    return matches


def overlap_times(owned: OwnedIntervals, windows: Intervals) -> tuple[Ints, Ints, Ints]:
    """Every pair of a window and an interval that overlap: window index, owner of the interval, common length.

    The windows are a set of intervals, the intervals may be any.
    """
    interval, window = overlapping_pairs(owned.start, owned.end, windows)
    start = np.maximum(owned.start[interval], windows.start[window])
    end = np.minimum(owned.end[interval], windows.end[window])
    return window, owned.owner[interval], end - start


def _time_per_window(owned: OwnedIntervals, windows: Intervals, count: int) -> tuple[Ints, Ints, Ints]:
    """Window, row and time of each of `count` events in each window, in this order, if there is any time."""
    if len(windows.start) == 1:  # as for a whole run with many events
        inside = np.minimum(owned.end, windows.end[0]) - np.maximum(owned.start, windows.start[0])
        time = sum_groups(owned.owner, np.maximum(inside, 0), count)
        row = np.flatnonzero(time)
        return np.zeros(len(row), np.int64), row, time[row]
    return _sum_pairs(*overlap_times(owned, windows), count)


def _sum_pairs(window: Ints, row: Ints, time: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """The sums of the times of each pair of a window and a row (below `count`) that occurs, in this order."""
    place = window * count + row
    order = np.argsort(place, kind="stable")
    place = place[order]
    first = np.flatnonzero(np.diff(place, prepend=-1))
    window, row = np.divmod(place[first], max(1, count))
    return window, row, np.add.reduceat(time[order], first) if len(first) else time


_MARK_KINDS: Final = ("step", "annotation", "python")
_JITTED_PREFIX: Final = "PjitFunction("
_JITTED_CALLS: Final = NameFilter(re.compile(rf"^{re.escape(_JITTED_PREFIX)}"))


def program_lanes(rank_trace: RankTrace) -> frozenset[int]:
    """The lanes of the program's threads on a host; none if no thread is known."""
    marked = collect_frame(
        rank_trace.threads.filter(pl.col("kind") == "step").select(pl.col("lane").unique())
    ).to_series()
    return frozenset(marked.to_list() or {main_thread_lane(rank_trace)} - {-1})


def is_on_program_lane(lane: pl.Series, program: Collection[int]) -> Mask:
    """Mask of the events on threads of the program, by their lanes; all, if no such thread is known."""
    return np.isin(lane.to_numpy(), list(program)) if program else np.ones(len(lane), np.bool_)


def main_thread_lane(rank_trace: RankTrace) -> int:
    """The lane of the thread that runs the program: it has the marks of steps, else annotations and Python.

    A thread named like a program's own comes before others with more of these, if it has any, or calls jitted
    functions: a process may have a thread ``main`` that only waits for the one at work.
    """
    marked = (
        rank_trace.threads.filter(pl.col("kind").is_in(_MARK_KINDS))
        .group_by("lane")
        .agg((pl.col("kind") == "step").sum().alias("steps"), pl.len().alias("marks"))
    )
    of_host = rank_trace.lanes.filter(pl.col("rank").is_null()).select(
        "lane", "events", pl.col("name").map_elements(is_program_thread, return_dtype=pl.Boolean).alias("leads")
    )
    known = of_host.join(collect_frame(marked), on="lane", how="left").with_columns(
        pl.col("steps", "marks").fill_null(0)
    )
    named = host_lane_events(rank_trace, known.filter(pl.col("leads") & (pl.col("marks") == 0))["lane"].to_list())
    calls = [name for name in event_names(named, _JITTED_CALLS) if name.startswith(_JITTED_PREFIX)]
    calling = collect_frame(named.filter(pl.col("name").is_in(calls)).select(pl.col("lane").unique()))
    at_work = pl.col("leads") & ((pl.col("marks") > 0) | pl.col("lane").is_in(calling["lane"].implode()))
    order = ["steps", "acts", "marks", "leads", "events", "lane"]
    found = known.with_columns(at_work.alias("acts")).sort(order, descending=[True] * 5 + [False])
    return int(found["lane"][0]) if found.height else -1
