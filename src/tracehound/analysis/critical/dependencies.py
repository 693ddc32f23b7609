"""Dependencies for the critical path: a rank's events in a window, as the inputs of the walk back from its end.

Decides which call may wait for which work, when one thread takes over from another, and which thread asked for a
collective that another carries out (gloo, MPI).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.critical.critical_walk import (
    BEFORE_ALL_TIMES,
    COMMUNICATION,
    COMPUTE,
    COPY,
    CriticalWalk,
    DeviceWait,
    PathPosition,
    RequestedTask,
    StreamWork,
    ThreadHandover,
    ThreadWaits,
    WaitingCall,
)
from tracehound.analysis.hosts.host_threads import host_lane_events, match_names
from tracehound.analysis.hosts.launch_calls import UNKNOWN_TIME as NEVER
from tracehound.analysis.hosts.launch_calls import latest_launch_times, launching_calls
from tracehound.analysis.rank_trace import RankTrace, overlapping_events
from tracehound.analysis.ranks.rank_collectives import collective_kind
from tracehound.analysis.timing.device_busy import COMMUNICATION_KINDS as COLLECTIVES
from tracehound.analysis.timing.device_busy import COPY_KINDS as COPIES
from tracehound.analysis.timing.device_busy import device_work, rounding_gap
from tracehound.analysis.timing.row_groups import value_change_rows
from tracehound.formats.runtime_names import COPY_CALL as COPYING
from tracehound.model.trace import collect_frame
from tracehound.numeric.id_set import membership_mask
from tracehound.numeric.intervals import Intervals, Ints, union

PASSIVE_KINDS: Final = ("python", "annotation", "step", "module")
"""Kinds of host events that do not count as work of a thread."""

_COPY_NAMES: Final = re.compile(COPYING.pattern + r"|Memcpy")
_WAIT_SUFFIX: Final = "::wait_tensor"
"""Suffix of the operator in which a thread waits for a collective."""

_IS_BUSY: Final = (
    ~pl.col("kind").is_in(PASSIVE_KINDS)
    & ~pl.col("name").cat.ends_with(_WAIT_SUFFIX)
    & (pl.col("end") > pl.col("start"))
)
"""Events in which a thread is busy."""

SHORT_GAP: Final = 30_000_000
"""Gap between two operators, ps: a collective that ended in it was not waited for."""


class CriticalWalkStart(NamedTuple):
    """The walk, its first position (None: nowhere), and the host's events in the window, sorted by id."""

    walk: CriticalWalk
    place: PathPosition | None
    host: pl.DataFrame


def read_critical_walk_inputs(rank_trace: RankTrace, near: int) -> CriticalWalkStart:
    """All inputs of the walk through the rank's window; `near` is that of `CriticalWalk`."""
    host = collect_frame(
        overlapping_events(rank_trace.threads, rank_trace.start, rank_trace.end)
        .select("id", "lane", "start", "end", "name", "kind", "parent", "correlation")
        .sort("id")
    )
    ran = _stream_work(
        pl.concat([device_work(rank_trace, "lane", "launch"), _first_later_work(rank_trace)]).sort("lane", "start"),
        rank_trace,
    )
    active = _busy_intervals_per_thread(host)
    acting = set(ran.thread) & set(active) or set(active)
    errands = _requested_tasks(rank_trace, active)
    walk = CriticalWalk(
        ran, _thread_waits(host, active, acting, errands, ran, rank_trace), _event_waits(rank_trace), near
    )
    main = [lane for lane in rank_trace.lanes["lane"].to_list() if lane in acting and lane not in errands]
    if not ran.ends and main:
        return CriticalWalkStart(walk, PathPosition(rank_trace.end, main[0]), host)
    return CriticalWalkStart(walk, _end_position(ran, active, acting, rank_trace.end), host)


def _first_later_work(rank_trace: RankTrace) -> pl.DataFrame:
    """For each lane the first work that begins at the end of the window or later, in the columns of the work in it.

    Of the other later work only the id is read.
    """
    lanes = rank_trace.lanes.filter(pl.col("work") & (pl.col("last") > rank_trace.end))["lane"].to_list()
    later = rank_trace.device_anytime.filter(pl.col("lane").is_in(lanes) & (pl.col("start") >= rank_trace.end))
    first = collect_frame(later.group_by("lane").agg(pl.col("id").min()))["id"]
    return device_work(
        replace(rank_trace, device=rank_trace.device_anytime.filter(pl.col("id").is_in(first.implode()))),
        "lane",
        "launch",
    )


def _stream_work(device: pl.DataFrame, rank_trace: RankTrace) -> StreamWork:
    calls = launching_calls(rank_trace, device["launch"])
    launched = pl.min_horizontal(
        calls["called"].fill_null(BEFORE_ALL_TIMES), "start"
    )  # the device's clock may run ahead
    start, end = (device[name].to_numpy() for name in ("start", "end"))
    before = _previous_rows(device["lane"].to_numpy(), end)
    latest = latest_launch_times(device["lane"].to_numpy(), calls["called"].fill_null(NEVER).to_numpy())
    by_end = np.argsort(end, kind="stable")
    what = pl.when(pl.col("kind").is_in(COLLECTIVES)).then(COMMUNICATION)
    return StreamWork(
        event=device["id"].to_list(),
        lane=device["lane"].to_list(),
        start=_close_rounding_gaps(start, end, before).tolist(),
        end=end.tolist(),
        path_class=device.select(what.when(pl.col("kind").is_in(COPIES)).then(COPY).otherwise(COMPUTE))
        .to_series()
        .to_list(),
        launched=device.select(launched).to_series().to_list(),
        returned=calls["returned"].fill_null(BEFORE_ALL_TIMES).to_list(),
        latest=latest.tolist(),
        call=device["launch"].fill_null(-1).to_list(),
        thread=calls["caller"].fill_null(-1).to_list(),
        before=before.tolist(),
        by_end=by_end.tolist(),
        ends=end[by_end].tolist(),
    )


def _previous_rows(lane: Ints, end: Ints) -> Ints:
    """For each row the earlier row on its lane that ends last; of several the latest; -1 for the first."""
    found = np.full(len(lane), -1, np.int64)
    for rows in np.split(np.arange(len(lane)), value_change_rows(lane)):
        ends = end[rows]
        latest = np.maximum.accumulate(np.where(ends >= np.maximum.accumulate(ends), rows, -1))
        found[rows[1:]] = latest[:-1]
    return found


def _close_rounding_gaps(start: Ints, end: Ints, before: Ints) -> Ints:
    """The starts, moved to the end of the previous work if only `rounding_gap` separates them."""
    free = np.where(before < 0, start, end[before])
    touching: Ints = np.where((start > free) & (start - free <= rounding_gap(start, end)), free, start)
    return touching


def _busy_intervals_per_thread(host: pl.DataFrame) -> dict[int, Intervals]:
    """Intervals in which each thread is in an operator or a call; without threads that never are."""
    return {
        int(lane): union(rows["start"].to_numpy(), rows["end"].to_numpy())
        for (lane,), rows in host.filter(_IS_BUSY).partition_by("lane", as_dict=True, maintain_order=True).items()
    }


def _thread_waits(
    host: pl.DataFrame,
    active: Mapping[int, Intervals],
    acting: set[int],
    errands: Mapping[int, list[RequestedTask]],
    ran: StreamWork,
    rank_trace: RankTrace,
) -> dict[int, ThreadWaits]:
    """The threads with the events that may have made them wait; only the acting ones take over from one another."""
    calls = _waiting_calls(host, ran, rank_trace)
    found = {}
    for lane, first in host.group_by("lane").agg(pl.col("start").min()).iter_rows():
        mine = calls.get(lane, [])
        others = {other: active[other] for other in acting if other != lane}
        taken = _find_handovers(active[lane], others, set(errands)) if lane in acting else []
        if lane in acting and lane not in errands:
            taken += _handovers_at_end(
                lane, active[lane], {sent: others[sent] for sent in errands if sent in others}, rank_trace
            )
        sent = errands.get(lane, [])
        found[lane] = ThreadWaits(
            first, mine, [each.end for each in mine], taken, [each.end for each in taken],
            sent, [each.start for each in sent],
        )  # fmt: skip
    return found


def _requested_tasks(rank_trace: RankTrace, active: Mapping[int, Intervals]) -> dict[int, list[RequestedTask]]:
    """By thread its tasks for calls on other threads, ordered by start."""
    found = {}
    for (lane,), rows in match_requested_collectives(rank_trace).partition_by("lane", as_dict=True).items():
        start, when = rows["start"].to_numpy(), active.get(lane)
        if when is not None:
            at = np.maximum(np.searchsorted(when.start, start, side="right") - 1, 0)
            before = np.append(BEFORE_ALL_TIMES, when.end[:-1])[at]
            free = np.where(when.start[at] < start, start, before)
            found[lane] = [
                RequestedTask(*each)
                for each in zip(start.tolist(), free.tolist(), *rows.select("asked", "caller", "call"), strict=True)
            ]
    return found


def _waiting_calls(host: pl.DataFrame, ran: StreamWork, rank_trace: RankTrace) -> dict[int, list[WaitingCall]]:
    """By thread the calls that wait for the device, ordered by end."""
    copies = match_names(host, _COPY_NAMES) & (host["kind"] == "runtime").to_numpy()
    waiting = host.filter((pl.col("kind") == "sync") | pl.Series(copies)).sort("end", "start")
    own: dict[int, list[int]] = {}
    for row in np.flatnonzero(membership_mask(np.array(ran.call, np.int64), host["id"].to_numpy()[copies])).tolist():
        own.setdefault(ran.call[row], []).append(row)
    synchronized = _synchronized_work(rank_trace)
    found: dict[int, list[WaitingCall]] = {}
    for event, lane, start, end, kind, correlation in waiting.select(
        "id", "lane", "start", "end", pl.col("kind").cast(pl.String), "correlation"
    ).iter_rows():
        copied = None if kind == "sync" else tuple(own.get(event, ()))
        wait = DeviceWait(start, *synchronized.get(correlation, (None, start)))
        found.setdefault(lane, []).append(WaitingCall(event, end, wait, copied))
    return found


def _synchronized_work(rank_trace: RankTrace) -> dict[int, tuple[int, int]]:
    """For calls (by correlation id) the lane of the awaited work, and the time by which it was launched."""
    rows = _sync_events(rank_trace.device, rank_trace, ("Stream Sync", "Event Sync"))
    by_name = pl.when(pl.col("name") == "Stream Sync")
    known = rows.select(
        "correlation",
        by_name.then("lane").otherwise("awaited").alias("awaited"),
        by_name.then("start").otherwise("by").alias("by"),
    ).drop_nulls()
    return {correlation: (lane, by) for correlation, lane, by in known.iter_rows()}


def _event_waits(rank_trace: RankTrace) -> dict[int, list[DeviceWait]] | None:
    """By lane of the work the waits for events put there; None if the profiler recorded none of its kind."""
    if not rank_trace.lanes.filter((pl.col("role") == "sync") & pl.col("rank").is_not_null())["events"].sum():
        return None
    rows = _sync_events(
        rank_trace.device_anytime.filter(pl.col("start") < rank_trace.end), rank_trace, ("Stream Wait Event",)
    )
    found: dict[int, list[DeviceWait]] = {}
    for lane, *wait in rows.drop_nulls("lane").sort("start").select("lane", "start", "awaited", "by").iter_rows():
        found.setdefault(lane, []).append(DeviceWait(*wait))
    return found


def _sync_events(device: pl.LazyFrame, rank_trace: RankTrace, names: Collection[str]) -> pl.DataFrame:
    """Synchronization events, with the lane of the work on their stream (null: none), and the awaited lane.

    `awaited` is the lane on which the CUDA event was recorded, null if unknown, and -1 if nothing ran there; `by` is
    the time at which it was recorded, else the start of the row.
    """
    lanes = rank_trace.lanes.filter((pl.col("role") == "sync") & pl.col("rank").is_not_null()).select("lane", "stream")
    rows = collect_frame(
        device.filter(pl.col("lane").is_in(lanes["lane"].to_list()) & pl.col("name").is_in(list(names)))
        .select("record", "lane", "start", "correlation", pl.col("name").cast(pl.String))
        .join(rank_trace.facet("waited").rename({"stream": "on"}), on="record", how="left")
    ).join(lanes, on="lane")
    recorded = rows["recorded"].drop_nulls().unique()
    calls = rank_trace.threads.filter(pl.col("correlation").is_in(recorded.implode()))
    by = collect_frame(calls.group_by(recorded="correlation").agg(by=pl.col("start").min()))
    work = rank_trace.lanes.filter(pl.col("work")).select("stream", pl.col("lane").alias("awaited"))
    return (
        rows.join(by, on="recorded", how="left")
        .join(work.rename({"stream": "on"}), on="on", how="left")
        .drop("lane")
        .join(work.rename({"awaited": "lane"}), on="stream", how="left")
        .with_columns(
            pl.when(pl.col("on").is_not_null()).then(pl.col("awaited").fill_null(-1)),
            pl.col("by").fill_null(pl.col("start")),
        )
    )


def _find_handovers(mine: Intervals, others: Mapping[int, Intervals], sent: set[int]) -> list[ThreadHandover]:
    """The gaps of a thread in which another stopped, and did not continue before the end of the gap.

    The lanes in `sent` carry out requests of others meanwhile: one of them counts only in a gap longer than
    `SHORT_GAP`.
    """
    ends = mine.start
    begins = np.append(BEFORE_ALL_TIMES, mine.end[:-1])
    stopped, lane = begins.copy(), np.full(len(ends), -1)
    for other, active in others.items():
        last = np.searchsorted(active.end, ends, side="right") - 1
        until = np.append(active.end, BEFORE_ALL_TIMES)[last]  # index -1: none before
        next_start = np.append(active.start, -BEFORE_ALL_TIMES)[last + 1]
        patience = SHORT_GAP if other in sent else 0
        taken = (until > stopped) & (next_start >= ends) & (until - begins > patience)
        stopped[taken], lane[taken] = until[taken], other
    return [ThreadHandover(*each) for each in zip(*(a[lane >= 0].tolist() for a in (ends, stopped, lane)), strict=True)]


def _handovers_at_end(
    lane: int, mine: Intervals, sent: Mapping[int, Intervals], rank_trace: RankTrace
) -> list[ThreadHandover]:
    """The gap of a thread at the end of the window, if it waits for one of the lanes in `sent`, up to that end.

    Only these count, because the end of their tasks is known, whereas another thread may be in the middle of something.
    """
    if not sent or mine.end[-1] >= rank_trace.end:
        return []
    later = host_lane_events(rank_trace, [lane]).filter(_IS_BUSY & (pl.col("start") >= rank_trace.end))
    goes_on = collect_frame(later.select(pl.col("start").min().fill_null(-BEFORE_ALL_TIMES))).item()
    pause = Intervals(np.append(mine.start[-1:], goes_on), np.append(mine.end[-1:], goes_on))
    taken = [each for each in _find_handovers(pause, sent, set(sent)) if each.end == goes_on]
    return [ThreadHandover(rank_trace.end, min(each.stopped, rank_trace.end), each.lane) for each in taken]


def _end_position(ran: StreamWork, active: Mapping[int, Intervals], acting: set[int], end: int) -> PathPosition | None:
    """The position at the end of the window: the running work, else work launched by then, else a thread.

    Of several running the one that runs longest, of several to come the one that begins first.
    """
    running = [row for row in ran.by_end if ran.start[row] < end]
    last = PathPosition(min(ran.end[running[-1]], end), ran.lane[running[-1]], running[-1]) if running else None
    if last is not None and last.time == end:
        return last
    queued = [row for row in ran.by_end if ran.start[row] >= end and BEFORE_ALL_TIMES < ran.launched[row] < end]
    if queued:
        row = min(queued, key=lambda each: ran.start[each])
        return PathPosition(end, ran.lane[row], row)
    if not active:
        return last
    return PathPosition(end, max(sorted(acting), key=lambda lane: int(active[lane].end[-1])))


_CALL_PREFIX: Final = "c10d::"
"""Prefix of PyTorch's calls for collectives."""


def match_requested_collectives(rank_trace: RankTrace) -> pl.DataFrame:
    """The collectives on threads whose call ran on another one, at any time, sorted by (lane, start).

    Columns: `lane` and `start` of the collective; `call`, `caller` and `asked`: the event of the call, its lane and its
    start. The file does not link the two, but calls are carried out in their order: each collective, ordered by start,
    is of the earliest call of its kind that began before it and is not yet taken.
    """
    ours = (pl.col("kind") == "collective") | pl.col("name").cat.starts_with(_CALL_PREFIX)
    rows = collect_frame(rank_trace.threads.filter(ours).select("id", "lane", "start", "kind", "parent", name="name"))
    names = rows["name"].unique().cast(pl.String).drop_nulls().to_list()
    what = pl.col("name").cast(pl.String).replace_strict({name: collective_kind(name) for name in names}, default=None)
    rows = rows.with_columns(what.cast(pl.String).alias("what")).drop_nulls("what").sort("start", "id")
    done = rows.filter(pl.col("kind") == "collective")
    calls = rows.filter((pl.col("kind") != "collective") & ~pl.col("parent").is_in(rows["id"].implode()))
    pairs = [
        _pair_with_calls(mine, calls.filter(pl.col("what") == kind))
        for (kind,), mine in done.partition_by("what", as_dict=True).items()
    ]
    found = pl.concat(pairs) if pairs else _pair_with_calls(done, calls)
    return found.filter(pl.col("lane") != pl.col("caller")).sort("lane", "start")


def _pair_with_calls(done: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Collectives of one kind with their calls, both ordered by start; collectives without a call are left out."""
    call = match_in_order(calls["start"].to_numpy(), done["start"].to_numpy())
    known = call >= 0
    its = calls.select(call="id", caller="lane", asked="start")[call[known]]
    return pl.concat([done.select("lane", "start").filter(pl.Series(known, dtype=pl.Boolean)), its], how="horizontal")


def match_in_order(asked: Ints, begun: Ints) -> Ints:
    """For each item that began, in order, the earliest request by then that is not yet taken; else -1.

    Both are sorted times; returns positions in `asked`.
    """
    there = np.searchsorted(asked, begun, side="right")
    count = np.arange(1, len(begun) + 1)
    taken = count + np.minimum(np.minimum.accumulate(there - count), 0)
    return np.where(np.diff(taken, prepend=0) > 0, taken - 1, -1)
