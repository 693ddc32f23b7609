"""Nesting of a batch's events: parents, depths and self times, and the open events that a long lane carries on.

The clock that decides what contains what is the device's own where all events of a lane have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from tracehound.formats.assembly.event_batches import EventBatch, EventRows, RowRanges
from tracehound.formats.spill import MaskedColumn
from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.nesting import (
    lane_sort_order,
    nearest_chosen_ancestor,
    nest_intervals,
    outermost_rows,
    still_open_rows,
)
from tracehound.numeric.self_time import sibling_overlaps
from tracehound.numeric.trees import sum_groups

CONCURRENT_ROLES: Final = ("stream", "async")
"""Roles of lanes on which an event inside another is no part of it: both run at the same time."""

_CLOCK_COLUMNS: Final = ("start", "end", "device_start", "device_end")
_NO_VALUES: Final = np.empty(0, np.int64)
_LONG_AGO: Final = int(np.iinfo(np.int64).min) // 2


class ContainerRules(NamedTuple):
    """Rules for which events contain others, by the lanes' numbers.

    Nothing contains others on `concurrent` lanes, and only `holders` do on `mingled` ones. These are lanes of ops that
    several threads run together (CPU): there an op inside another is a part of it only where that has a computation of
    its own, as a loop. `holders` are by the number of the op; no other event on such a lane contains others.
    """

    concurrent: Mask
    mingled: Mask
    holders: Mask

    def container_mask(self, events: EventRows) -> Mask:
        """Mask of the events that may contain others, as far as `mingled` decides."""
        on = self.mingled[events.lane[events.lane_start_rows]] if len(events.lane) else np.empty(0, np.bool_)
        if not on.any():
            return np.ones(len(events.lane), np.bool_)
        among = np.repeat(on, np.diff(np.append(events.lane_start_rows, len(events.lane))))
        op = events.columns.get("op")
        known = events.has_value("op")
        holds = np.zeros(len(among), np.bool_)
        if op is not None and len(self.holders):
            holds[known] = self.holders[op.values[known]]
        return holds | ~among


class OpenEvents(NamedTuple):
    """Events of a long lane that may still be open where a batch begins, in the order in which they began.

    `end` and `depth` are by the clock for drawing; `id`, `inner_end`, `call` (the launch) and `holds` (whether it may
    contain others) by the clock that decides what contains what.
    """

    end: Ints = _NO_VALUES
    depth: Ints = _NO_VALUES
    id: Ints = _NO_VALUES
    inner_end: Ints = _NO_VALUES
    call: Ints = _NO_VALUES
    holds: Mask = np.empty(0, np.bool_)


class NestedEvents(Struct, frozen=True, eq=False):
    """The nesting of a batch's events. `parent` is a row of `ids`: those of `before`, then the batch's own; -1: none.

    `begun` is the start of the last one.
    """

    parent: Ints
    depth: Ints
    own: Ints
    ids: Ints
    before: OpenEvents
    begun: int
    until: Ints
    inner: _NestingClock
    holds: Mask

    @property
    def parent_row(self) -> Ints:
        """The row in the batch of each event's parent, -1 where that is not in it."""
        carried = len(self.before.id)
        return np.maximum(self.parent - carried, -1) if carried else self.parent

    @property
    def parent_id(self) -> MaskedColumn:
        """The id of each event's parent."""
        carried = len(self.before.id)
        values = self.ids[self.parent] if carried else self.parent + self.ids[:1]  # ids follow one another
        return MaskedColumn(values, self.parent >= 0)

    def open_events(self, call: Ints) -> OpenEvents:
        """Return the events that may be open where the lane's next batch begins; `call` has the launches."""
        old, own = np.flatnonzero(self.before.end > self.begun), np.flatnonzero(self.until > self.begun)
        ends = np.append(self.before.end[old], self.until[own])
        depth = np.append(self.before.depth[old], self.depth[own])
        if self.inner.order is not None:
            until = self.inner.until[self.inner.order]
            inner = still_open_rows(np.append(self.before.inner_end, until))
            carried = len(self.before.id)
            old, own = inner[inner < carried], self.inner.order[inner[inner >= carried] - carried]
        return OpenEvents(
            ends,
            depth,
            np.append(self.before.id[old], self.ids[own + len(self.before.id)]),
            np.append(self.before.inner_end[old], self.inner.until[own]),
            np.append(self.before.call[old], call[own]),
            np.append(self.before.holds[old], self.holds[own]),
        )


class _NestingClock(NamedTuple):
    """Start, end (never before the next instant) and length of events by the clock that decides what contains what.

    `order` is their order by that clock; None if they have it.
    """

    start: Ints
    until: Ints
    length: Ints
    order: npt.NDArray[np.intp] | None

    def in_order(self, values: Ints) -> Ints:
        """Return values of the events in the order of the clock."""
        return values if self.order is None else values[self.order]


class LaneSurvey(NamedTuple):
    """Facts about a long lane that are needed before its batches are nested, one after the other.

    `first` is the id of its first event. `clocked`: all its events have the device's own clock. `later`: by the batch's
    first id, the time that children in later batches take of those of its events that may still be open after it
    (`still_open_rows`).
    """

    first: int
    clocked: bool
    later: Mapping[int, Ints]


def nest_events(
    events: EventRows, containers: ContainerRules, survey: LaneSurvey | None, before: OpenEvents
) -> NestedEvents:
    """Nest the events of a batch; `survey` and `before` are of a long lane, other batches have whole lanes."""
    start, end, begins, first = events.start, events.end, events.lane_start_rows, events.first
    until = np.maximum(end, start + 1)
    carried = len(before.end)
    drawn = nest_intervals(
        _append_if_any(before.end - 1, start), _append_if_any(before.end, until), begins, before.depth
    )
    inner = _nesting_clock(events, begins, None if survey is None else survey.clocked)
    parent, has_overlaps = drawn.parent[carried:], drawn.overlaps
    if inner.order is not None:
        parent, has_overlaps = _parents_by_clock(inner, begins, before)
    holds = containers.container_mask(events)
    if not (holds.all() and before.holds.all()):
        parents_before = drawn.parent[:carried] if inner.order is None else np.arange(len(before.id)) - 1
        all_parents = np.append(parents_before, parent)
        parent = np.append(nearest_chosen_ancestor(all_parents, np.append(before.holds, holds)), -1)[parent]
        has_overlaps = True
    is_concurrent = containers.concurrent[events.lane[begins]]
    if is_concurrent.any():
        parent = np.where(np.repeat(is_concurrent, np.diff(np.append(begins, len(start)))), -1, parent)
    ids = _append_if_any(before.id, events.ids)
    children = sum_groups(parent, inner.length, len(ids))
    if has_overlaps:
        own_parent = np.maximum(parent - len(before.id), -1)
        row, time = sibling_overlaps(inner.start, inner.until, own_parent)
        np.subtract.at(children, parent[row], np.minimum(time, inner.length[row]))
    if survey is not None and first in survey.later:
        rows = inner.in_order(np.arange(len(start)))[still_open_rows(inner.in_order(inner.until))]
        children[rows + len(before.id)] += np.where(holds[rows], survey.later[first], 0)
    self_time = np.maximum(inner.length - children[len(before.id) :], 0)
    return NestedEvents(parent, drawn.depth[carried:], self_time, ids, before, int(start[-1]), until, inner, holds)


def _append_if_any(before: Ints, values: Ints) -> Ints:
    """Concatenate both; most often `before` is empty."""
    return np.append(before, values) if len(before) else values


def _nesting_clock(events: EventRows, begins: npt.NDArray[np.intp], clocked: bool | None) -> _NestingClock:  # noqa: FBT001
    """Choose the clock of each lane: the device's own where all its events have it.

    The host's clock jumps inside ops. `clocked` decides this for a long lane, of which a batch has only some events.
    """
    start, end = events.start, events.end
    known = events.has_value("device_start")
    if not known.any():
        return _NestingClock(start, np.maximum(end, start + 1), end - start, None)
    device_start, device_end = events.columns["device_start"].values, events.columns["device_end"].values
    length = np.where(known & events.has_value("device_end"), device_end - device_start, end - start)
    by_lane = np.logical_and.reduceat(known, begins) if clocked is None else np.array([clocked])
    if not by_lane.any():
        return _NestingClock(start, np.maximum(end, start + 1), length, None)
    uses_device_clock = np.repeat(by_lane, np.diff(np.append(begins, len(known))))
    start, end = np.where(uses_device_clock, device_start, start), np.where(uses_device_clock, device_end, end)
    order = lane_sort_order(events.lane, start, end)
    order = np.arange(len(start)) if order is None else order
    return _NestingClock(start, np.maximum(end, start + 1), length, order)


def _parents_by_clock(inner: _NestingClock, begins: npt.NDArray[np.intp], before: OpenEvents) -> tuple[Ints, bool]:
    """Return parents by a clock whose order is not that of the rows, and whether any events overlap in part there."""
    carried = len(before.id)
    start = _append_if_any(before.inner_end - 1, inner.in_order(inner.start))
    until = _append_if_any(before.inner_end, inner.in_order(inner.until))
    rows = np.concatenate([np.arange(carried), inner.in_order(np.arange(len(inner.start))) + carried, [-1]])
    parent = np.empty(len(inner.start), np.int64)
    nested = nest_intervals(start, until, begins, np.arange(carried))
    parent[inner.order] = rows[nested.parent[carried:]]
    return parent, nested.overlaps


def survey_lane(
    group: Sequence[EventBatch], containers: ContainerRules
) -> tuple[Sequence[EventBatch], LaneSurvey | None]:
    """Survey the batches of a group; those of a long lane are merged where its clocks disagree on their order."""
    if len(group) == 1:
        return group, None
    if containers.concurrent[group[0].runs.lane[0]]:
        return group, LaneSurvey(group[0].first, clocked=False, later={})
    has_device_clock = any("device_start" in source.spilled.dtypes for source in group[0].sources)
    start_ranges = [_device_start_range(batch) for batch in group] if has_device_clock else [None]
    clocked = None not in start_ranges
    if clocked:
        group = _merge_disordered_batches(
            group, [start_range for start_range in start_ranges if start_range is not None]
        )
    before = _OpenEnds()
    settled: list[_OpenEnds] = []
    counts: list[int] = []
    for batch in group:
        inner = (
            _nesting_clock(batch.read(_CLOCK_COLUMNS), np.zeros(1, np.intp), clocked)
            if has_device_clock
            else _outline_clock(batch)
        )
        before, ended = before.split_open_and_closed(inner, sum(counts))
        settled.append(ended)
        counts.append(len(still_open_rows(inner.in_order(inner.until))))
    times = np.zeros(sum(counts), np.int64)
    for ends in (*settled, before):
        times[ends.number] = ends.time
    later = np.split(times, np.cumsum(counts)[:-1])
    return group, LaneSurvey(
        group[0].first, clocked, {batch.first: time for batch, time in zip(group, later, strict=True)}
    )


def _outline_clock(batch: EventBatch) -> _NestingClock:
    """Return the events of a batch that matter to others, where no event has a device clock."""
    rows = batch.read_outermost_and_open()
    return _NestingClock(rows.start, np.maximum(rows.end, rows.start + 1), rows.end - rows.start, None)


def _device_start_range(batch: EventBatch) -> tuple[int, int] | None:
    """Return the first and the last start by the device's own clock; None where some events lack it."""
    start = batch.column("device_start")
    if start is None or (start.valid is not None and not start.valid.all()):
        return None
    return int(start.values.min()), int(start.values.max())


def _merge_disordered_batches(group: Sequence[EventBatch], start_ranges: Sequence[tuple[int, int]]) -> list[EventBatch]:
    """Merge batches until each begins, by the device's clock too, after all events of those before it.

    `start_ranges` has the first and the last start of each by that clock.
    """
    merged: list[tuple[EventBatch, int, int]] = []
    for batch, start_range in zip(group, start_ranges, strict=True):
        current, (low, high) = batch, start_range
        while merged and low <= merged[-1][2]:
            last, last_low, last_high = merged.pop()
            low, high = min(low, last_low), max(high, last_high)
            runs = RowRanges(*(np.append(a, b) for a, b in zip(last.runs, current.runs, strict=True)))
            current = replace(last, runs=runs)
        merged.append((current, low, high))
    return [batch for batch, _, _ in merged]


class _OpenEnds(NamedTuple):
    """Ends of events that may be open, the outermost first, with numbers and the times of their later children.

    Each lies in the one before, as the last to end of its children. A child is later if it lies in a later batch.
    """

    end: Ints = _NO_VALUES
    number: Ints = _NO_VALUES
    time: Ints = _NO_VALUES

    def split_open_and_closed(self, inner: _NestingClock, number: int) -> tuple[_OpenEnds, _OpenEnds]:
        """Return the events that may be open after a batch, new ones numbered from `number`, and those now closed."""
        start, until, length = (inner.in_order(values) for values in (inner.start, inner.until, inner.length))
        outer = outermost_rows(until)
        enclosing = len(self.end) - 1 - np.searchsorted(self.end[::-1], until[outer])
        inside = enclosing >= 0
        outer, enclosing = outer[inside], enclosing[inside]
        covered_until = np.maximum(
            np.append(_LONG_AGO, until[outer])[: len(outer)], np.append(self.end, _LONG_AGO)[enclosing + 1]
        )
        time = self.time.copy()
        np.add.at(time, enclosing, length[outer] - np.clip(covered_until - start[outer], 0, length[outer]))
        still_open = self.end >= until.max()
        new_ends = until[still_open_rows(until)]
        return _OpenEnds(
            np.append(self.end[still_open], new_ends),
            np.append(self.number[still_open], np.arange(number, number + len(new_ends))),
            np.append(time[still_open], np.zeros(len(new_ends), np.int64)),
        ), _OpenEnds(self.end[~still_open], self.number[~still_open], time[~still_open])
