"""Steps of work that one host thread handed to another.

XLA's producers and consumers are followed: an event that consumes what another produces, and a region of a thread pool,
belong to the producer's step, wherever and whenever they run. XProf groups events in this way.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.formats.assembly.event_batches import BATCH_SIZE, EventRows
from tracehound.numeric.id_set import find_rows
from tracehound.numeric.intervals import Ints, LatestBegun, Mask
from tracehound.numeric.nesting import lane_sort_order, nest_intervals
from tracehound.numeric.self_time import innermost_intervals

REGION_START: Final = "ThreadpoolListener::StartRegion"
REGION_STOP: Final = "ThreadpoolListener::StopRegion"
"""The instants that begin and end a region of a thread pool; the first consumes what its task was produced with."""

STEP_UNKNOWN: Final = -2
"""The step of work for which only time decides: an execution may begin as soon as the previous one has ended."""


class HandoffIntervals(NamedTuple):
    """Intervals of threads without overlaps: `latest` finds them by lane and start, `end` is the end of each.

    `label` is a value for each, finally the step in which it was handed over (-1: none, `STEP_UNKNOWN`: not known).
    Both have one more value, the last: for -1, where there is no interval.
    """

    latest: LatestBegun
    end: Ints
    label: npt.NDArray[np.signedinteger[Any]]

    def labels_at(self, lane: Ints, instant: Ints) -> npt.NDArray[np.signedinteger[Any]]:
        """Return the label of the interval at each lane and instant, the last label where there is none."""
        found = self.latest.latest_index_at(lane, instant)
        found[instant >= self.end.take(found)] = -1
        return self.label.take(found)


def find_handoff_steps(events: EventRows, marked_lanes: Ints) -> HandoffIntervals:
    """Find the intervals of handed work and their steps from `events` of hosts.

    The events produce or consume anything or stop a region; they are sorted. Columns `begins`, `stops` and `op` say
    which of them begin or stop a region, and which are ops; `step` has the step of each by time. On `marked_lanes`
    events belong to the steps marked there, whatever they consume.
    """
    may_be_handed = np.ones(int(max(events.lane.max(initial=0), marked_lanes.max(initial=0))) + 1, np.bool_)
    may_be_handed[marked_lanes] = False
    work, maker = _match_producers(events, may_be_handed.take(events.lane))
    until = _work_ends(events).take(work)
    has_length = until > events.start.take(work)
    if not has_length.all():
        work, maker, until = work[has_length], maker[has_length], until[has_length]
    lane, start = events.lane.take(work), events.start.take(work)
    order = lane_sort_order(lane, start, until)
    if order is not None:
        maker, until, lane, start = (values.take(order) for values in (maker, until, lane, start))
    begins = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])[: len(lane)])
    pieces = innermost_intervals(start, until, nest_intervals(start, until, begins).parent, lane)
    intervals = HandoffIntervals(
        LatestBegun(lane.take(pieces.owner), pieces.start),
        np.append(pieces.end, np.iinfo(np.int64).min),
        np.append(pieces.owner, -1),
    )
    enclosing = np.empty(len(events.lane), np.int32)
    for low in range(0, len(enclosing), BATCH_SIZE):
        rows = slice(low, low + BATCH_SIZE)
        enclosing[rows] = intervals.labels_at(events.lane[rows], events.start[rows])
    parent = enclosing.take(maker)
    parent[np.append(start, 0).take(parent) >= start] = -1
    executing = np.zeros(len(start) + 1, np.bool_)
    executing[enclosing[events.columns["op"].values]] = True
    by_time = np.append(events.columns["step"].values.take(maker), np.int32(STEP_UNKNOWN))
    step = by_time.take(_topmost_ancestors(np.where(executing[:-1], len(start), parent)))
    return intervals._replace(label=np.append(step.take(pieces.owner), STEP_UNKNOWN))


def _match_producers(events: EventRows, allowed: Mask) -> tuple[Ints, Ints]:
    """Return the allowed events that consume something produced before, and its producers."""
    makers = np.flatnonzero(events.has_value("produces"))
    work = np.flatnonzero(events.has_value("consumes") & allowed)
    ids = events.columns["produces"].values.take(makers)
    order = np.argsort(ids, kind="stable")
    ids = ids.take(order)
    is_first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
    makers, ids = makers.take(order)[is_first], ids[is_first]
    row = find_rows(ids, events.columns["consumes"].values.take(work))
    work, maker = work[row >= 0], makers.take(row[row >= 0])
    before = events.start.take(maker) <= events.start.take(work)
    return work[before], maker[before]


def _work_ends(events: EventRows) -> Ints:
    """Return the end of each event's work: its own or that of its region; at the latest the end of all events."""
    regions, stops = (np.flatnonzero(events.columns[name].values) for name in ("begins", "stops"))
    until = events.end.copy()
    stop_lane, stop_time = events.lane[stops], events.start[stops]
    region_lane, region_start = events.lane[regions], events.start[regions]
    following = LatestBegun(stop_lane, stop_time).latest_index_at(region_lane, region_start - 1) + 1
    following = np.where(following > 0, following, np.searchsorted(stop_lane, region_lane))
    last = int(until.max()) + 1 if len(until) else 0
    until[regions] = np.where(
        np.append(stop_lane, -1)[following] == region_lane, np.append(stop_time, last)[following], last
    )
    return until


def _topmost_ancestors(above: Ints) -> Ints:
    """Return the last ancestor of each, itself without one; for an ancestor that is not there, its index."""
    top = np.append(np.where(above >= 0, above, np.arange(len(above))), len(above))
    while True:
        further = top[top]
        if np.array_equal(further, top):
            return top[:-1]
        top = further
