"""In which step the work of a host is that one thread handed to another.

Owns how XLA's producers and consumers are followed: an event that consumes what another produces, and a region of a
thread pool, are work of whoever produced it, wherever and whenever they run. XProf groups events so. Knows no bytes.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.formats.assembly.batches import SIZE, Rows
from tracehound.intervals import Ints, Latest, Mask
from tracehound.lookup import rows_with
from tracehound.nesting import lane_order, nesting
from tracehound.own_time import one_at_a_time

BEGIN: Final = "ThreadpoolListener::StartRegion"
STOP: Final = "ThreadpoolListener::StopRegion"
"""The instants that begin and end a region of a thread pool; the first consumes what its task was produced with."""

OPEN: Final = -2
"""The step of work of which only the time tells: an execution may begin wherever the one before has ended."""


class Handed(NamedTuple):
    """Stretches of threads, none of which overlap: `latest` finds them by lane and start, `end` is when each ends.

    `label` is what each is called, in the end the step in which it was handed over (-1: in none, `OPEN`: not told).
    Both have one more, the last: what is at -1, where there is no stretch.
    """

    latest: Latest
    end: Ints
    label: npt.NDArray[np.signedinteger[Any]]

    def at(self, lane: Ints, instant: Ints) -> npt.NDArray[np.signedinteger[Any]]:
        """What the stretch at each lane and instant is called, where there is none as the last."""
        found = self.latest.at(lane, instant)
        found[instant >= self.end.take(found)] = -1
        return self.label.take(found)


def handed(events: Rows, own: Ints) -> Handed:
    """The stretches that `events` tell of: those of hosts that produce or consume anything or stop a region, sorted.

    Columns `begins`, `stops` and `op` say which of them begin or stop a region, and which are ops; `step` has the step
    of each by when it is. `own` are the lanes whose events are of the steps that are marked there, whatever they
    consume.
    """
    elsewhere = np.ones(int(max(events.lane.max(initial=0), own.max(initial=0))) + 1, np.bool_)
    elsewhere[own] = False
    work, maker = _made(events, elsewhere.take(events.lane))
    until = _until(events).take(work)
    lasting = until > events.start.take(work)
    if not lasting.all():
        work, maker, until = work[lasting], maker[lasting], until[lasting]
    lane, start = events.lane.take(work), events.start.take(work)
    order = lane_order(lane, start, until)
    if order is not None:
        maker, until, lane, start = (values.take(order) for values in (maker, until, lane, start))
    begins = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])[: len(lane)])
    owned = one_at_a_time(start, until, nesting(start, until, begins).parent, lane)
    stretches = Handed(
        Latest(lane.take(owned.owner), owned.start),
        np.append(owned.end, np.iinfo(np.int64).min),
        np.append(owned.owner, -1),
    )
    around = np.empty(len(events.lane), np.int32)
    for low in range(0, len(around), SIZE):
        some = slice(low, low + SIZE)
        around[some] = stretches.at(events.lane[some], events.start[some])
    above = around.take(maker)
    above[np.append(start, 0).take(above) >= start] = -1
    executing = np.zeros(len(start) + 1, np.bool_)
    executing[around[events.columns["op"].values]] = True
    by_time = np.append(events.columns["step"].values.take(maker), np.int32(OPEN))
    step = by_time.take(_top(np.where(executing[:-1], len(start), above)))
    return stretches._replace(label=np.append(step.take(owned.owner), OPEN))


def _made(events: Rows, allowed: Mask) -> tuple[Ints, Ints]:
    """The allowed events that consume what is known to have been produced before, and what produced it."""
    makers = np.flatnonzero(events.valid("produces"))
    work = np.flatnonzero(events.valid("consumes") & allowed)
    ids = events.columns["produces"].values.take(makers)
    order = np.argsort(ids, kind="stable")
    ids = ids.take(order)
    first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
    makers, ids = makers.take(order)[first], ids[first]
    row = rows_with(ids, events.columns["consumes"].values.take(work))
    work, maker = work[row >= 0], makers.take(row[row >= 0])
    before = events.start.take(maker) <= events.start.take(work)
    return work[before], maker[before]


def _until(events: Rows) -> Ints:
    """When the work of each event ends: it does, or the region that it begins; at the latest when all events have."""
    regions, stops = (np.flatnonzero(events.columns[name].values) for name in ("begins", "stops"))
    until = events.end.copy()
    lane, when = events.lane[stops], events.start[stops]
    begun, since = events.lane[regions], events.start[regions]
    following = Latest(lane, when).at(begun, since - 1) + 1
    following = np.where(following > 0, following, np.searchsorted(lane, begun))
    last = int(until.max()) + 1 if len(until) else 0
    until[regions] = np.where(np.append(lane, -1)[following] == begun, np.append(when, last)[following], last)
    return until


def _top(above: Ints) -> Ints:
    """The last that is above each, itself where nothing is; what is above all that is not there is that itself."""
    top = np.append(np.where(above >= 0, above, np.arange(len(above))), len(above))
    while True:
        further = top[top]
        if np.array_equal(further, top):
            return top[:-1]
        top = further
