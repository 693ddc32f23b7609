"""A rank's events in a window -> the graph of dependencies that the critical path is walked on, from its end back.

Owns which call may wait for what, and when one thread takes over from another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.asked import asked
from tracehound.analysis.busy import COMMUNICATION as COLLECTIVES
from tracehound.analysis.busy import COPY as COPIES
from tracehound.analysis.busy import rounding, work
from tracehound.analysis.critical_walk import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    LONG_AGO,
    Call,
    Errand,
    Handover,
    Place,
    Thread,
    Walk,
    Work,
)  # fmt: skip
from tracehound.analysis.launched import UNKNOWN as NEVER
from tracehound.analysis.launched import at_the_latest, calls_of
from tracehound.analysis.result import Share
from tracehound.analysis.share import overlapping
from tracehound.analysis.threads import beside, told_by_name
from tracehound.intervals import Intervals, Ints, union
from tracehound.trace import collected

SILENT: Final = ("python", "annotation", "step", "module")
"""Kinds of host events that say where a thread is, not that it works."""

_COPIES: Final = re.compile(r"Memcpy")
_WAITS: Final = "::wait_tensor"
"""How the name of the operator ends in which a thread waits for a collective."""

SHORT: Final = 30_000_000
"""A pause of so many ps is one between two operators: a collective that ended in it was not waited for."""


class Edges(NamedTuple):
    """The walk, where it begins (None: nowhere), and the host's events in the window, sorted by id."""

    walk: Walk
    place: Place | None
    host: pl.DataFrame


def edges(share: Share, near: int) -> Edges:
    """All that the walk through the share's window needs; `near` is that of `Walk`."""
    host = collected(
        overlapping(share.threads, share.start, share.end)
        .select("id", "lane", "start", "end", "name", "kind", "parent", "correlation")
        .sort("id")
    )
    ran = _work(pl.concat([work(share, "lane", "launch"), _to_come(share)]).sort("lane", "start"), share)
    active = _active(host)
    acting = set(ran.thread) & set(active) or set(active)
    walk = Walk(ran, _threads(host, active, acting, ran, share), _waits(share), near)
    main = [lane for lane in share.lanes["lane"].to_list() if lane in acting]
    if not ran.ends and main:
        return Edges(walk, Place(share.end, main[0]), host)
    return Edges(walk, _last(ran, active, acting, share.end), host)


def _to_come(share: Share) -> pl.DataFrame:
    """Of each lane the first work that begins at the end of the window or later, in the columns of the work in it.

    What is asked of all that comes later is its id alone.
    """
    lanes = share.lanes.filter(pl.col("work") & (pl.col("last") > share.end))["lane"].to_list()
    later = share.anytime.filter(pl.col("lane").is_in(lanes) & (pl.col("start") >= share.end))
    first = collected(later.group_by("lane").agg(pl.col("id").min()))["id"]
    return work(replace(share, device=share.anytime.filter(pl.col("id").is_in(first.implode()))), "lane", "launch")


def _work(device: pl.DataFrame, share: Share) -> Work:
    calls = calls_of(beside(share, device["launch"]), device["launch"])
    launched = pl.min_horizontal(calls["called"].fill_null(LONG_AGO), "start")  # the device's clock may run ahead
    start, end = (device[name].to_numpy() for name in ("start", "end"))
    before = _before(device["lane"].to_numpy(), end)
    latest = at_the_latest(device["lane"].to_numpy(), calls["called"].fill_null(NEVER).to_numpy())
    by_end = np.argsort(end, kind="stable")
    what = pl.when(pl.col("kind").is_in(COLLECTIVES)).then(COMMUNICATION)
    return Work(
        event=device["id"].to_list(),
        lane=device["lane"].to_list(),
        start=_touching(start, end, before).tolist(),
        end=end.tolist(),
        what=device.select(what.when(pl.col("kind").is_in(COPIES)).then(COPY).otherwise(COMPUTE)).to_series().to_list(),
        launched=device.select(launched).to_series().to_list(),
        returned=calls["returned"].fill_null(LONG_AGO).to_list(),
        latest=latest.tolist(),
        call=device["launch"].fill_null(-1).to_list(),
        thread=calls["caller"].fill_null(-1).to_list(),
        before=before.tolist(),
        by_end=by_end.tolist(),
        ends=end[by_end].tolist(),
    )


def _before(lane: Ints, end: Ints) -> Ints:
    """For each row, of those before it on its lane, the one that ends last; of several the latest; -1 for the first."""
    found = np.full(len(lane), -1, np.int64)
    for rows in np.split(np.arange(len(lane)), np.flatnonzero(lane[1:] != lane[:-1]) + 1):
        ends = end[rows]
        latest = np.maximum.accumulate(np.where(ends >= np.maximum.accumulate(ends), rows, -1))
        found[rows[1:]] = latest[:-1]
    return found


def _touching(start: Ints, end: Ints, before: Ints) -> Ints:
    """The starts, where only `rounding` parts work from that before it the end of that."""
    free = np.where(before < 0, start, end[before])
    touching: Ints = np.where((start > free) & (start - free <= rounding(start, end)), free, start)
    return touching


def _active(host: pl.DataFrame) -> dict[int, Intervals]:
    """When each thread was in an operator or a call; not those that never were."""
    waiting = pl.col("name").cat.ends_with(_WAITS)
    working = host.filter(~pl.col("kind").is_in(SILENT) & ~waiting & (pl.col("end") > pl.col("start")))
    return {
        int(lane): union(rows["start"].to_numpy(), rows["end"].to_numpy())
        for (lane,), rows in working.partition_by("lane", as_dict=True, maintain_order=True).items()
    }


def _threads(
    host: pl.DataFrame, active: Mapping[int, Intervals], acting: set[int], ran: Work, share: Share
) -> dict[int, Thread]:
    """The threads with what may have made them wait; only those that act take over from one another."""
    calls = _calls(host, ran, share)
    errands = _errands(share, active)
    found = {}
    for lane, first in host.group_by("lane").agg(pl.col("start").min()).iter_rows():
        mine = calls.get(lane, [])
        others = {other: active[other] for other in acting if other != lane}
        taken = _handovers(active[lane], others, set(errands)) if lane in acting else []
        sent = errands.get(lane, [])
        found[lane] = Thread(
            first, mine, [each.end for each in mine], taken, [each.end for each in taken],
            sent, [each.start for each in sent],
        )  # fmt: skip
    return found


def _errands(share: Share, active: Mapping[int, Intervals]) -> dict[int, list[Errand]]:
    """By thread what it did for a call on another thread, in the order of starts."""
    found = {}
    for (lane,), rows in asked(share).partition_by("lane", as_dict=True).items():
        start, when = rows["start"].to_numpy(), active.get(lane)
        if when is not None:
            at = np.maximum(np.searchsorted(when.start, start, side="right") - 1, 0)
            before = np.append(LONG_AGO, when.end[:-1])[at]
            free = np.where(when.start[at] < start, start, before)
            found[lane] = [
                Errand(*each)
                for each in zip(start.tolist(), free.tolist(), *rows.select("asked", "caller", "call"), strict=True)
            ]
    return found


def _calls(host: pl.DataFrame, ran: Work, share: Share) -> dict[int, list[Call]]:
    """By thread the calls that wait for the device, in the order of their ends."""
    copies = told_by_name(host, lambda name, kind: 1 if kind == "runtime" and _COPIES.search(name) else None) > 0
    waiting = host.filter((pl.col("kind") == "sync") | pl.Series(copies)).sort("end", "start")
    own: dict[int, list[int]] = {}
    for row, call in enumerate(ran.call):
        own.setdefault(call, []).append(row)
    streams = _synchronised(share)
    found: dict[int, list[Call]] = {}
    for event, lane, start, end, kind, correlation in waiting.select(
        "id", "lane", "start", "end", pl.col("kind").cast(pl.String), "correlation"
    ).iter_rows():
        copied = None if kind == "sync" else tuple(own.get(event, ()))
        found.setdefault(lane, []).append(Call(event, start, end, streams.get(correlation), copied))
    return found


def _synchronised(share: Share) -> dict[int, int]:
    """By the id of the call the lane of the work that it waited for, as the profiler recorded it."""
    rows = _sync_rows(share, "Stream Sync").select("correlation", "stream")
    lanes = share.lanes.filter(pl.col("work")).select("stream", pl.col("lane").alias("waited"))
    return dict(rows.drop_nulls().join(lanes, on="stream").select("correlation", "waited").iter_rows())


def _waits(share: Share) -> dict[int, Sequence[int]] | None:
    """By lane of the work when waits for events were put there; None where the profiler recorded none of its kind."""
    if not share.lanes.filter((pl.col("role") == "sync") & pl.col("rank").is_not_null())["events"].sum():
        return None
    rows = _sync_rows(share, "Stream Wait Event").select("start", "stream")
    lanes = share.lanes.filter(pl.col("work")).select("stream", "lane")
    by_lane = rows.join(lanes, on="stream").sort("start").group_by("lane", maintain_order=True).agg("start")
    return dict(by_lane.iter_rows())


def _sync_rows(share: Share, name: str) -> pl.DataFrame:
    lanes = share.lanes.filter((pl.col("role") == "sync") & pl.col("rank").is_not_null()).select("lane", "stream")
    rows = collected(share.device.filter(pl.col("lane").is_in(lanes["lane"].to_list()) & (pl.col("name") == name)))
    return rows.select("lane", "start", "correlation").join(lanes, on="lane")


def _handovers(mine: Intervals, others: Mapping[int, Intervals], sent: set[int]) -> list[Handover]:
    """The pauses of a thread in which one of the others stopped, and did not go on before the end of the pause.

    Those that are `sent` carry out what others ask for meanwhile: one of them counts after more than `SHORT` of pause.
    """
    ends = mine.start
    begins = np.append(LONG_AGO, mine.end[:-1])
    stopped, lane = begins.copy(), np.full(len(ends), -1)
    for other, active in others.items():
        last = np.searchsorted(active.end, ends, side="right") - 1
        until = np.append(active.end, LONG_AGO)[last]  # of none before, at -1
        next_start = np.append(active.start, -LONG_AGO)[last + 1]
        patience = SHORT if other in sent else 0
        taken = (until > stopped) & (next_start >= ends) & (until - begins > patience)
        stopped[taken], lane[taken] = until[taken], other
    return [Handover(*each) for each in zip(*(a[lane >= 0].tolist() for a in (ends, stopped, lane)), strict=True)]


def _last(ran: Work, active: Mapping[int, Intervals], acting: set[int], end: int) -> Place | None:
    """Where the window ends: in the work that runs then, else before what was launched by then, else on a thread.

    Of several that run the one that runs longest, of those to come the one that begins first.
    """
    running = [row for row in ran.by_end if ran.start[row] < end]
    last = Place(min(ran.end[running[-1]], end), ran.lane[running[-1]], running[-1]) if running else None
    if last is not None and last.time == end:
        return last
    queued = [row for row in ran.by_end if ran.start[row] >= end and LONG_AGO < ran.launched[row] < end]
    if queued:
        row = min(queued, key=lambda each: ran.start[each])
        return Place(end, ran.lane[row], row)
    if not active:
        return last
    return Place(end, max(sorted(acting), key=lambda lane: int(active[lane].end[-1])))
