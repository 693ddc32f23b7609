"""How the events of a batch nest: parents, rows and self times, and what a long lane carries from batch to batch.

Owns which clock tells what contains what. Knows no bytes and no launches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from tracehound.formats.assembly.batches import Batch, Rows, Runs
from tracehound.formats.spill import Column
from tracehound.intervals import Ints, Mask
from tracehound.nesting import lane_order, nearest, nesting, outermost, still_open
from tracehound.own_time import shared
from tracehound.sums import summed

CONCURRENT: Final = ("stream", "async")
"""Roles of lanes on which an event that lies inside another is no part of it: both run at once."""

_CLOCKS: Final = ("start", "end", "device_start", "device_end")
_NONE: Final = np.empty(0, np.int64)
_LONG_AGO: Final = int(np.iinfo(np.int64).min) // 2


class Containers(NamedTuple):
    """What may contain what, by the lanes' numbers: nothing on `concurrent` ones, `holders` alone on `mingled` ones.

    On lanes of ops that several threads run together (CPU) what lies in an op is a part of it only where that has a
    computation of its own, as a loop. `holders` are by the number of the op; all else on such a lane is none.
    """

    concurrent: Mask
    mingled: Mask
    holders: Mask

    def holding(self, events: Rows) -> Mask:
        """Which events may contain others, as far as `mingled` tells."""
        on = self.mingled[events.lane[events.lanes]] if len(events.lane) else np.empty(0, np.bool_)
        if not on.any():
            return np.ones(len(events.lane), np.bool_)
        among = np.repeat(on, np.diff(np.append(events.lanes, len(events.lane))))
        op = events.columns.get("op")
        known = events.valid("op")
        holds = np.zeros(len(among), np.bool_)
        if op is not None and len(self.holders):
            holds[known] = self.holders[op.values[known]]
        return holds | ~among


class Open(NamedTuple):
    """What of a long lane may still be open where a batch begins, in the order in which it began.

    `end` and `depth` by the clock by which it is drawn; `id`, `inner_end`, `call` (the launch) and `holds` (whether it
    may contain others) by the clock that tells what contains what.
    """

    end: Ints = _NONE
    depth: Ints = _NONE
    id: Ints = _NONE
    inner_end: Ints = _NONE
    call: Ints = _NONE
    holds: Mask = np.empty(0, np.bool_)


class Nested(Struct, frozen=True, eq=False):
    """How the events of a batch nest. `parent` is a row of `ids`: those of `before`, then the batch's own; -1: none.

    `begun` is when the last of them begins.
    """

    parent: Ints
    depth: Ints
    own: Ints
    ids: Ints
    before: Open
    begun: int
    until: Ints
    inner: _Inner
    holds: Mask

    @property
    def inside(self) -> Ints:
        """The row in the batch of each event's parent, -1 where that is not in it."""
        carried = len(self.before.id)
        return np.maximum(self.parent - carried, -1) if carried else self.parent

    @property
    def parent_id(self) -> Column:
        """The id of each event's parent."""
        carried = len(self.before.id)
        values = self.ids[self.parent] if carried else self.parent + self.ids[:1]  # ids follow one another
        return Column(values, self.parent >= 0)

    def after(self, call: Ints) -> Open:
        """What may be open where the lane's next batch begins; `call` has the launch of each event."""
        old, own = np.flatnonzero(self.before.end > self.begun), np.flatnonzero(self.until > self.begun)
        ends = np.append(self.before.end[old], self.until[own])
        depth = np.append(self.before.depth[old], self.depth[own])
        if self.inner.order is not None:
            until = self.inner.until[self.inner.order]
            inner = still_open(np.append(self.before.inner_end, until))
            carried = len(self.before.id)
            old, own = inner[inner < carried], self.inner.order[inner[inner >= carried] - carried]
        return Open(
            ends,
            depth,
            np.append(self.before.id[old], self.ids[own + len(self.before.id)]),
            np.append(self.before.inner_end[old], self.inner.until[own]),
            np.append(self.before.call[old], call[own]),
            np.append(self.before.holds[old], self.holds[own]),
        )


class _Inner(NamedTuple):
    """Start, end (never before the next instant) and length of events by the clock that tells what contains what.

    `order` is their order by that clock; None: it is the one that they have.
    """

    start: Ints
    until: Ints
    length: Ints
    order: npt.NDArray[np.intp] | None

    def in_order(self, values: Ints) -> Ints:
        """Values of the events in the order of the clock."""
        return values if self.order is None else values[self.order]


class Course(NamedTuple):
    """What there is to know of a long lane before its batches are nested, one after the other.

    `first` is the id of its first event. `clocked`: all its events have the device's own clock. `later`: by the batch's
    first id, the time that children in later batches take of those of its events that may still be open after it
    (`still_open`).
    """

    first: int
    clocked: bool
    later: Mapping[int, Ints]


def nest(events: Rows, containers: Containers, course: Course | None, before: Open) -> Nested:
    """Nest the events of a batch; `course` and `before` are a long lane's, others have all events of their lanes."""
    start, end, begins, first = events.start, events.end, events.lanes, events.first
    until = np.maximum(end, start + 1)
    carried = len(before.end)
    drawn = nesting(_behind(before.end - 1, start), _behind(before.end, until), begins, before.depth)
    inner = _inner(events, begins, None if course is None else course.clocked)
    parent, torn = drawn.parent[carried:], drawn.torn
    if inner.order is not None:
        parent, torn = _inner_parents(inner, begins, before)
    holds = containers.holding(events)
    if not (holds.all() and before.holds.all()):
        above = drawn.parent[:carried] if inner.order is None else np.arange(len(before.id)) - 1
        every = np.append(above, parent)
        parent = np.append(nearest(every, np.append(before.holds, holds)), -1)[parent]
        torn = True
    apart = containers.concurrent[events.lane[begins]]
    if apart.any():
        parent = np.where(np.repeat(apart, np.diff(np.append(begins, len(start)))), -1, parent)
    ids = _behind(before.id, events.ids)
    children = summed(parent, inner.length, len(ids))
    if torn:
        inside = np.maximum(parent - len(before.id), -1)
        row, time = shared(inner.start, inner.until, inside)
        np.subtract.at(children, parent[row], np.minimum(time, inner.length[row]))
    if course is not None and first in course.later:
        rows = inner.in_order(np.arange(len(start)))[still_open(inner.in_order(inner.until))]
        children[rows + len(before.id)] += np.where(holds[rows], course.later[first], 0)
    own = np.maximum(inner.length - children[len(before.id) :], 0)
    return Nested(parent, drawn.depth[carried:], own, ids, before, int(start[-1]), until, inner, holds)


def _behind(before: Ints, values: Ints) -> Ints:
    """Both, one after the other; most often there is nothing before."""
    return np.append(before, values) if len(before) else values


def _inner(events: Rows, begins: npt.NDArray[np.intp], clocked: bool | None) -> _Inner:  # noqa: FBT001
    """The clock of each lane: the device's own where all its events have it, for the host's clock jumps inside ops.

    `clocked` says so of a long lane, of which a batch has only some events.
    """
    start, end = events.start, events.end
    known = events.valid("device_start")
    if not known.any():
        return _Inner(start, np.maximum(end, start + 1), end - start, None)
    own_start, own_end = events.columns["device_start"].values, events.columns["device_end"].values
    length = np.where(known & events.valid("device_end"), own_end - own_start, end - start)
    by_lane = np.logical_and.reduceat(known, begins) if clocked is None else np.array([clocked])
    if not by_lane.any():
        return _Inner(start, np.maximum(end, start + 1), length, None)
    own = np.repeat(by_lane, np.diff(np.append(begins, len(known))))
    start, end = np.where(own, own_start, start), np.where(own, own_end, end)
    order = lane_order(events.lane, start, end)
    order = np.arange(len(start)) if order is None else order
    return _Inner(start, np.maximum(end, start + 1), length, order)


def _inner_parents(inner: _Inner, begins: npt.NDArray[np.intp], before: Open) -> tuple[Ints, bool]:
    """Parents by a clock of their own, which has another order than the rows, and whether any overlap in part there."""
    carried = len(before.id)
    start = _behind(before.inner_end - 1, inner.in_order(inner.start))
    until = _behind(before.inner_end, inner.in_order(inner.until))
    rows = np.concatenate([np.arange(carried), inner.in_order(np.arange(len(inner.start))) + carried, [-1]])
    parent = np.empty(len(inner.start), np.int64)
    nested = nesting(start, until, begins, np.arange(carried))
    parent[inner.order] = rows[nested.parent[carried:]]
    return parent, nested.torn


def survey(group: Sequence[Batch], containers: Containers) -> tuple[Sequence[Batch], Course | None]:
    """Look over batches that come together; those of a long lane become fewer where its clocks do not agree on them."""
    if len(group) == 1:
        return group, None
    if containers.concurrent[group[0].runs.lane[0]]:
        return group, Course(group[0].first, clocked=False, later={})
    some_clock = any("device_start" in source.kept.dtypes for source in group[0].sources)
    reaches = [_reach(batch) for batch in group] if some_clock else [None]
    clocked = None not in reaches
    if clocked:
        group = _agreeing(group, [reach for reach in reaches if reach is not None])
    before = _Ends()
    settled: list[_Ends] = []
    counts: list[int] = []
    for batch in group:
        inner = _inner(batch.read(_CLOCKS), np.zeros(1, np.intp), clocked) if some_clock else _outline(batch)
        before, done = before.after(inner, sum(counts))
        settled.append(done)
        counts.append(len(still_open(inner.in_order(inner.until))))
    times = np.zeros(sum(counts), np.int64)
    for ends in (*settled, before):
        times[ends.number] = ends.time
    later = np.split(times, np.cumsum(counts)[:-1])
    return group, Course(group[0].first, clocked, {batch.first: time for batch, time in zip(group, later, strict=True)})


def _outline(batch: Batch) -> _Inner:
    """What of a batch matters to others, where no event has a clock of the device's own."""
    rows = batch.outline()
    return _Inner(rows.start, np.maximum(rows.end, rows.start + 1), rows.end - rows.start, None)


def _reach(batch: Batch) -> tuple[int, int] | None:
    """The first and the last start by the device's own clock; None where not all of the events have one."""
    start = batch.column("device_start")
    if start is None or (start.valid is not None and not start.valid.all()):
        return None
    return int(start.values.min()), int(start.values.max())


def _agreeing(group: Sequence[Batch], reaches: Sequence[tuple[int, int]]) -> list[Batch]:
    """The batches, joined until each begins, by the device's clock too, after all events of those before it.

    `reaches` has the first and the last start of each by that clock.
    """
    agreeing: list[tuple[Batch, int, int]] = []
    for batch, reach in zip(group, reaches, strict=True):
        joined, (low, high) = batch, reach
        while agreeing and low <= agreeing[-1][2]:
            last, last_low, last_high = agreeing.pop()
            low, high = min(low, last_low), max(high, last_high)
            runs = Runs(*(np.append(a, b) for a, b in zip(last.runs, joined.runs, strict=True)))
            joined = replace(last, runs=runs)
        agreeing.append((joined, low, high))
    return [batch for batch, _, _ in agreeing]


class _Ends(NamedTuple):
    """Ends of what may be open, the outermost first, its number, and the time its children took in later batches.

    Each lies in the one before, as the last to end of its children.
    """

    end: Ints = _NONE
    number: Ints = _NONE
    time: Ints = _NONE

    def after(self, inner: _Inner, number: int) -> tuple[_Ends, _Ends]:
        """What may be open after a batch, new ones numbered from `number`; and what no longer is."""
        start, until, length = (inner.in_order(values) for values in (inner.start, inner.until, inner.length))
        outer = outermost(until)
        around = len(self.end) - 1 - np.searchsorted(self.end[::-1], until[outer])
        inside = around >= 0
        outer, around = outer[inside], around[inside]
        reach = np.maximum(np.append(_LONG_AGO, until[outer])[: len(outer)], np.append(self.end, _LONG_AGO)[around + 1])
        time = self.time.copy()
        np.add.at(time, around, length[outer] - np.clip(reach - start[outer], 0, length[outer]))
        held = self.end >= until.max()
        fresh = until[still_open(until)]
        return _Ends(
            np.append(self.end[held], fresh),
            np.append(self.number[held], np.arange(number, number + len(fresh))),
            np.append(time[held], np.zeros(len(fresh), np.int64)),
        ), _Ends(self.end[~held], self.number[~held], time[~held])
