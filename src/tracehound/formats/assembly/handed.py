"""In which step the work of a host is that one thread handed to another.

Owns how XLA's producers and consumers are followed: an event that consumes what another produces, and a region of a
thread pool, are work of whoever produced it, wherever and whenever they run. XProf groups events so. Knows no bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from tracehound.formats.assembly.batches import Rows
from tracehound.intervals import Ints, Latest, Mask
from tracehound.nesting import lane_order, nesting
from tracehound.own_time import one_at_a_time

BEGIN: Final = "ThreadpoolListener::StartRegion"
STOP: Final = "ThreadpoolListener::StopRegion"
"""The instants that begin and end a region of a thread pool; the first consumes what its task was produced with."""

OPEN: Final = -2
"""The step of work of which only the time tells: an execution may begin wherever the one before has ended."""


class Handed(NamedTuple):
    """Stretches of threads, none of which overlap: `latest` finds them by lane and start, `end` is when each ends.

    `step` is that in which they were handed over, -1 for none, `OPEN` where that is not told.
    """

    latest: Latest
    end: Ints
    step: Ints

    def at(self, lane: Ints, instant: Ints) -> Ints:
        """The stretch of each lane and instant, -1 for none."""
        found = self.latest.at(lane, instant)
        return np.where(instant < np.append(self.end, np.iinfo(np.int64).min)[found], found, -1)


def handed(events: Rows, begin: Mask, stop: Mask, own: Ints, ops: Mask, step_at: Callable[[Rows], Ints]) -> Handed:
    """The stretches that `events` tell of: those of hosts that produce or consume anything or `stop` a region, sorted.

    `begin` and `ops` say which of them begin regions and which are ops, `own` has the lanes whose events are of the
    steps that are marked there, whatever they consume; `step_at` gives the steps of events by when they are.
    """
    work, maker = _made(events, ~np.isin(events.lane, own))
    until = _until(events, begin, stop)[work]
    lasting = until > events.start[work]
    work, maker, until = work[lasting], maker[lasting], until[lasting]
    lane, start = events.lane[work], events.start[work]
    order = lane_order(lane, start, until)
    if order is not None:
        work, maker, until, lane, start = (values[order] for values in (work, maker, until, lane, start))
    begins = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])[: len(lane)])
    owned = one_at_a_time(start, until, nesting(start, until, begins).parent, lane)
    found = Handed(Latest(lane[owned.owner], owned.start), owned.end, owned.owner)

    def around(rows: Ints) -> Ints:
        at = found.at(events.lane[rows], events.start[rows])
        return np.where(at >= 0, np.append(owned.owner, -1)[at], -1)

    above = around(maker)
    above = np.where((above >= 0) & (np.append(start, 0)[above] < start), above, -1)
    executing = np.zeros(len(work) + 1, np.bool_)
    executing[around(np.flatnonzero(ops))] = True
    by_time = np.append(step_at(events.at(maker)), OPEN)
    step = by_time[_top(np.where(executing[:-1], len(work), above))]
    return found._replace(step=step[owned.owner])


def _made(events: Rows, allowed: Mask) -> tuple[Ints, Ints]:
    """The allowed events that consume what is known to have been produced before, and what produced it."""
    makers = np.flatnonzero(events.valid("produces"))
    ids = events.columns["produces"].values[makers]
    order = np.argsort(ids, kind="stable")
    makers, ids = makers[order], ids[order]
    work = np.flatnonzero(events.valid("consumes") & allowed)
    if not len(makers) or not len(work):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    wanted = events.columns["consumes"].values[work]
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    known = (ids[at] == wanted) & (events.start[makers[at]] <= events.start[work])
    return work[known], makers[at[known]]


def _until(events: Rows, begin: Mask, stop: Mask) -> Ints:
    """When the work of each event ends: it does, or the region that it begins; at the latest when all events have."""
    stops = np.flatnonzero(stop)
    lane, when = events.lane[stops], events.start[stops]
    following = Latest(lane, when).at(events.lane, events.start - 1) + 1
    first = np.searchsorted(lane, events.lane)
    following = np.where(following > 0, following, first)
    same = np.append(lane, -1)[following] == events.lane
    last = int(events.end.max()) + 1 if len(events.end) else 0
    stopped = np.where(same, np.append(when, last)[following], last)
    return np.where(begin, stopped, events.end)


def _top(above: Ints) -> Ints:
    """The last that is above each, itself where nothing is; what is above all that is not there is that itself."""
    top = np.append(np.where(above >= 0, above, np.arange(len(above))), len(above))
    while True:
        further = top[top]
        if np.array_equal(further, top):
            return top[:-1]
        top = further
