"""A rank's events in a window -> the graph of dependencies that the critical path is walked on, from its end back.

Owns which call may wait for what, and when one thread takes over from another.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.critical.walk import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    LONG_AGO,
    Call,
    Errand,
    Handover,
    Place,
    Thread,
    Wait,
    Walk,
    Work,
)  # fmt: skip
from tracehound.analysis.events.busy import COMMUNICATION as COLLECTIVES
from tracehound.analysis.events.busy import COPY as COPIES
from tracehound.analysis.events.busy import rounding, work
from tracehound.analysis.events.numbering import turns
from tracehound.analysis.hosts.launched import UNKNOWN as NEVER
from tracehound.analysis.hosts.launched import at_the_latest, calls_of
from tracehound.analysis.hosts.threads import on_lanes, told_by_name
from tracehound.analysis.ranks.asked import asked
from tracehound.analysis.result import Share
from tracehound.analysis.share import overlapping
from tracehound.formats.runtime_calls import COPY as COPYING
from tracehound.intervals import Intervals, Ints, union
from tracehound.lookup import among
from tracehound.trace import collected

SILENT: Final = ("python", "annotation", "step", "module")
"""Kinds of host events that say where a thread is, not that it works."""

_COPIES: Final = re.compile(COPYING.pattern + r"|Memcpy")
_WAITS: Final = "::wait_tensor"
"""How the name of the operator ends in which a thread waits for a collective."""

_WORKS: Final = (
    ~pl.col("kind").is_in(SILENT) & ~pl.col("name").cat.ends_with(_WAITS) & (pl.col("end") > pl.col("start"))
)
"""What a thread is busy with."""

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
    errands = _errands(share, active)
    walk = Walk(ran, _threads(host, active, acting, errands, ran, share), _waits(share), near)
    main = [lane for lane in share.lanes["lane"].to_list() if lane in acting and lane not in errands]
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
    calls = calls_of(share, device["launch"])
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
    for rows in np.split(np.arange(len(lane)), turns(lane)):
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
    return {
        int(lane): union(rows["start"].to_numpy(), rows["end"].to_numpy())
        for (lane,), rows in host.filter(_WORKS).partition_by("lane", as_dict=True, maintain_order=True).items()
    }


def _threads(
    host: pl.DataFrame,
    active: Mapping[int, Intervals],
    acting: set[int],
    errands: Mapping[int, list[Errand]],
    ran: Work,
    share: Share,
) -> dict[int, Thread]:
    """The threads with what may have made them wait; only those that act take over from one another."""
    calls = _calls(host, ran, share)
    found = {}
    for lane, first in host.group_by("lane").agg(pl.col("start").min()).iter_rows():
        mine = calls.get(lane, [])
        others = {other: active[other] for other in acting if other != lane}
        taken = _handovers(active[lane], others, set(errands)) if lane in acting else []
        if lane in acting and lane not in errands:
            taken += _at_the_end(lane, active[lane], {sent: others[sent] for sent in errands if sent in others}, share)
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
    for row in np.flatnonzero(among(np.array(ran.call, np.int64), host["id"].to_numpy()[copies])).tolist():
        own.setdefault(ran.call[row], []).append(row)
    synchronised = _synchronised(share)
    found: dict[int, list[Call]] = {}
    for event, lane, start, end, kind, correlation in waiting.select(
        "id", "lane", "start", "end", pl.col("kind").cast(pl.String), "correlation"
    ).iter_rows():
        copied = None if kind == "sync" else tuple(own.get(event, ()))
        wait = Wait(start, *synchronised.get(correlation, (None, start)))
        found.setdefault(lane, []).append(Call(event, end, wait, copied))
    return found


def _synchronised(share: Share) -> dict[int, tuple[int, int]]:
    """Of calls (by correlation id) the lane of the work that they waited for, and by when that had been launched."""
    rows = _sync_rows(share.device, share, ("Stream Sync", "Event Sync"))
    by_name = pl.when(pl.col("name") == "Stream Sync")
    known = rows.select(
        "correlation",
        by_name.then("lane").otherwise("awaited").alias("awaited"),
        by_name.then("start").otherwise("by").alias("by"),
    ).drop_nulls()
    return {correlation: (lane, by) for correlation, lane, by in known.iter_rows()}


def _waits(share: Share) -> dict[int, list[Wait]] | None:
    """By lane of the work what was put there to wait for events; None where the profiler recorded none of its kind."""
    if not share.lanes.filter((pl.col("role") == "sync") & pl.col("rank").is_not_null())["events"].sum():
        return None
    rows = _sync_rows(share.anytime.filter(pl.col("start") < share.end), share, ("Stream Wait Event",))
    found: dict[int, list[Wait]] = {}
    for lane, *wait in rows.drop_nulls("lane").sort("start").select("lane", "start", "awaited", "by").iter_rows():
        found.setdefault(lane, []).append(Wait(*wait))
    return found


def _sync_rows(device: pl.LazyFrame, share: Share, names: Collection[str]) -> pl.DataFrame:
    """Rows of synchronisation, with the lane of the work on their stream (null: they have none), and what they awaited.

    `awaited` is the lane on which the CUDA event had been recorded, null where that is not known, and -1 where nothing
    ran there; `by` is when it was recorded, else the start of the row.
    """
    lanes = share.lanes.filter((pl.col("role") == "sync") & pl.col("rank").is_not_null()).select("lane", "stream")
    rows = collected(
        device.filter(pl.col("lane").is_in(lanes["lane"].to_list()) & pl.col("name").is_in(list(names)))
        .select("record", "lane", "start", "correlation", pl.col("name").cast(pl.String))
        .join(share.facet("waited").rename({"stream": "on"}), on="record", how="left")
    ).join(lanes, on="lane")
    recorded = rows["recorded"].drop_nulls().unique()
    calls = share.threads.filter(pl.col("correlation").is_in(recorded.implode()))
    by = collected(calls.group_by(recorded="correlation").agg(by=pl.col("start").min()))
    work = share.lanes.filter(pl.col("work")).select("stream", pl.col("lane").alias("awaited"))
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


def _at_the_end(lane: int, mine: Intervals, sent: Mapping[int, Intervals], share: Share) -> list[Handover]:
    """The pause of a thread in which the window ends, where it waits for one of those that are `sent`, up to that end.

    Only these: of what they do the end is known, whereas another thread may be in the midst of something.
    """
    if not sent or mine.end[-1] >= share.end:
        return []
    later = on_lanes(share, [lane]).filter(_WORKS & (pl.col("start") >= share.end))
    goes_on = collected(later.select(pl.col("start").min().fill_null(-LONG_AGO))).item()
    pause = Intervals(np.append(mine.start[-1:], goes_on), np.append(mine.end[-1:], goes_on))
    taken = [each for each in _handovers(pause, sent, set(sent)) if each.end == goes_on]
    return [Handover(share.end, min(each.stopped, share.end), each.lane) for each in taken]


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
