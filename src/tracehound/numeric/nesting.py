"""Nesting of intervals: parents and depths, the sort order that they need, and lookups along parents.

All times are Int64 in one unit; an interval is half-open, `[start, end)`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.native import row_loops
from tracehound.numeric.native.interval_loops import is_sorted_by_lane, nest_in_c


class Nesting(NamedTuple):
    """Parents and depths of the intervals of lanes.

    `parent` is the index of the innermost interval of its lane that wholly contains this one (-1: none). `depth` is the
    row on which it can be drawn without touching another: the first row below its parent's that is free when it begins.
    Where intervals nest that is the next row; of two that overlap without one containing the other, the later has a row
    of its own. Intervals beyond row `MAX_LANE_ROWS` share the last one. `overlaps` says that there are such partial
    overlaps.
    """

    parent: Ints
    depth: Ints
    overlaps: bool


MAX_LANE_ROWS: Final = 1 << 16
"""The largest number of rows of a lane: `EVENTS` holds the row in 16 bits."""

_ONE_LANE: Final = np.zeros(1, np.int64)
_NO_DEPTHS: Final = np.empty(0, np.int64)
_MAX_TIME: Final = int(np.iinfo(np.int64).max)
_MIN_TIME: Final = int(np.iinfo(np.int64).min)


def nest_intervals(start: Ints, end: Ints, first: Ints = _ONE_LANE, known: Ints = _NO_DEPTHS) -> Nesting:
    """Nest intervals sorted by (lane, start, -end). Of equal intervals the first contains the others.

    An interval of no length belongs to the interval that is open at its time. `first` has the index at which each lane
    begins. The leading intervals of the first lane may be the open ones of an earlier call: then `known` has their
    depths.
    """
    until = np.maximum(end, start + 1)
    if (found := nest_in_c(start, until, first, known)) is not None:
        return Nesting(*found)
    return _nest_in_numpy(start, until, first, known)


def _nest_in_numpy(start: Ints, until: Ints, first: Ints, known: Ints) -> Nesting:
    """Nest non-empty intervals without the C library."""
    times = _place_lanes_in_sequence(start, until, first, len(known))
    if times is None:
        return _nest_overlapping(start, until, first, known)
    found, torn = _nest_laminar(*times, known)
    if len(torn):
        begins = np.flatnonzero(found.depth[torn] == 0)
        some = _nest_overlapping(start[torn], until[torn], begins, known if torn[0] < len(known) else _NO_DEPTHS)
        found.parent[torn] = np.append(torn, -1)[some.parent]
        found.depth[torn] = some.depth
    return found._replace(depth=np.minimum(found.depth, MAX_LANE_ROWS - 1), overlaps=len(torn) > 0)


def _nest_laminar(start: Ints, until: Ints, known: Ints) -> tuple[Nesting, npt.NDArray[np.intp]]:
    """Nest intervals without partial overlaps, in a few passes over whole arrays; also returns the rows with some.

    The depth of an interval is the number of intervals that are open when it begins, and its parent is the last one
    before it with a depth one less. That is right only if each interval is inside its parent. Returned are also the
    rows of all top-level groups in which one is not; each such group begins with a depth of 0.
    """
    count = len(start)
    rows = np.arange(count)
    ends_at = rows + 1  # the first row that begins after the end: mostly the next one
    long = np.flatnonzero(until[:-1] > start[1:])
    ends_at[long] = np.searchsorted(start, until[long])
    depth = rows - np.cumsum(np.bincount(ends_at, minlength=count + 1))[:count]
    deeper = np.append(True, depth[1:] > depth[:-1])[
        :count
    ]  # than the previous row, its parent; others have a sibling there
    order = np.argsort(_to_smallest_dtype(depth), kind="stable")
    latest = np.maximum.accumulate(np.where(deeper[order], rows, 0))
    parent = np.empty(count, np.int64)
    parent[order] = order[latest] - 1
    parent[depth == 0] = -1
    outside = until > np.append(until, _MAX_TIME)[parent]
    outside[: len(known)] |= known != rows[: len(known)]
    if not outside.any():
        return Nesting(parent, depth, overlaps=False), np.empty(0, np.intp)
    root_group = np.cumsum(depth == 0)
    bad = np.zeros(count + 1, np.bool_)
    bad[root_group[outside]] = True
    return Nesting(parent, depth, overlaps=True), np.flatnonzero(bad[root_group])


def _place_lanes_in_sequence(start: Ints, until: Ints, first: Ints, known: int) -> tuple[Ints, Ints] | None:
    """The times shifted so that each lane comes after the lane before; None if that exceeds Int64.

    The first `known` intervals begin before everything else.
    """
    if known:
        start = start.copy()
        start[:known] = min(int(until[:known].min()) - 1, int(start[known:].min(initial=_MAX_TIME)))
    if len(first) < 2:
        return start, until
    size = np.diff(np.append(first, len(start)))
    low, high = start[first], np.maximum.reduceat(until, first)
    if float((high.astype(np.float64) - low).sum()) > _MAX_TIME / 2:
        return None
    shift = np.repeat(np.cumsum(high - low) - high, size)
    return start + shift, until + shift


def _to_smallest_dtype(depth: Ints) -> npt.NDArray[Any]:
    """Small numbers in the smallest dtype, which sorts many times faster."""
    deepest = int(depth.max(initial=0))
    return depth.astype(np.uint8 if deepest < 1 << 8 else np.uint16 if deepest < 1 << 16 else np.int64)


def _nest_overlapping(start: Ints, until: Ints, first: Ints, known: Ints) -> Nesting:
    """Nest any intervals: search the enclosing interval of each, then a row for it."""
    parent = np.arange(-1, len(start))
    parent[-1] = -1
    parent[first[first < len(start)]] = -1
    _climb_to_enclosing(parent, np.append(until, _MAX_TIME), until - 1)  # the last, at index -1, surrounds every lane
    return Nesting(parent[:-1], _assign_rows(start, until, parent[:-1], first, known), overlaps=True)


_MAX_ROUNDS: Final = 64
"""After this many rounds over whole arrays, the few remaining intervals are handled one by one."""


def _climb_to_enclosing(at: Ints, until: Ints, bound: Ints) -> None:
    """Move each `at[i]`, at first the previous interval, to the nearest earlier one that ends after `bound[i]`.

    A pointer that was moved skips only intervals that end earlier, so others can follow it: the steps grow as they are
    used.
    """
    rest = np.flatnonzero(until[at[:-1]] <= bound)
    to, least = at[rest], bound[rest]
    for _ in range(_MAX_ROUNDS):
        if len(rest) == 0:
            return
        to = at[to]
        at[rest] = to
        on = until[to] <= least
        rest, to, least = rest[on], to[on], least[on]
    for i in rest:
        one = i - 1
        while until[one] <= bound[i]:
            one = at[one]
        at[i] = one


def _assign_rows(start: Ints, until: Ints, parent: Ints, first: Ints, known: Ints) -> Ints:
    """The rows of intervals, one after the other: the first free row below the parent's."""
    depth = np.empty(len(start), np.int64)
    begins = set(first.tolist())
    taken = np.full(MAX_LANE_ROWS, _MIN_TIME)  # end of the last interval on each row
    used = 0
    for i, (begin, end, around) in enumerate(zip(start.tolist(), until.tolist(), parent.tolist(), strict=True)):
        if i in begins:
            used = 0
        row = int(known[i]) if i < len(known) else int(depth[around]) + 1 if around >= 0 else 0
        if i >= len(known) and row < used and taken[row] > begin:
            free = taken[row:used] <= begin
            row += int(free.argmax()) if free.any() else used - row
        row = min(row, MAX_LANE_ROWS - 1)
        if row >= used:
            taken[used : row + 1] = _MIN_TIME
            used = row + 1
        taken[row] = max(int(taken[row]), end)
        depth[i] = row
    return depth


def outermost_rows(until: Ints) -> npt.NDArray[np.intp]:
    """The rows of nested intervals of one lane that lie in no other: they end later than all before."""
    before = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(until)[:-1])[: len(until)]
    return np.flatnonzero(until > before)


def still_open_rows(until: Ints) -> npt.NDArray[np.intp]:
    """The rows of nested intervals of one lane that may contain the next: they end no earlier than all later ones."""
    if len(until) == 0:
        return np.empty(0, np.intp)
    some = np.flatnonzero(until >= until[-1])  # few candidates; no other row can qualify
    ends = until[some]
    return some[ends >= np.maximum.accumulate(ends[::-1])[::-1]]


def lane_sort_order(lane: Ints, start: Ints, end: Ints) -> npt.NDArray[np.intp] | None:
    """The stable order by (lane, start, -end); None if the intervals are in that order already.

    Fast on data that is sorted by lane or by start.
    """
    if _is_sorted_by_lane(lane, start, end):
        return None
    order = np.argsort(start, kind="stable")
    several = lane[0] != lane[-1] or np.any(lane != lane[0])
    lanes = lane[order] if several else lane
    if several and np.any(lanes[1:] < lanes[:-1]):
        narrow = lanes.astype(np.uint16) if lanes.min() >= 0 and lanes.max() < 1 << 16 else lanes
        order = order[np.argsort(narrow, kind="stable")]
        lanes = lane[order]
    starts, ends = start[order], end[order]
    equal = (lanes[1:] == lanes[:-1]) & (starts[1:] == starts[:-1])
    if np.any(equal & (ends[1:] > ends[:-1])):
        member = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
        group = np.cumsum(np.append(True, ~equal))[member]
        order[member] = order[member[np.lexsort((-ends[member], group))]]
    return order


def _is_sorted_by_lane(lane: Ints, start: Ints, end: Ints) -> bool:
    if (found := is_sorted_by_lane(lane, start, end)) is not None:
        return found
    later = start[1:] > start[:-1]
    later |= (start[1:] == start[:-1]) & (end[1:] <= end[:-1])
    if later.all() and len(lane) and lane[0] == lane[-1]:
        return bool(np.all(lane == lane[0]))
    later &= lane[1:] == lane[:-1]
    later |= lane[1:] > lane[:-1]
    return bool(later.all())


def nearest_chosen_ancestor(parent: Ints, chosen: Mask) -> Ints:
    """For each row the nearest chosen row at or above it; -1 if there is none. `parent` has rows, -1 for none.

    All rows climb at once, each by the steps that the rows above it have climbed before.
    """
    if (found := row_loops.nearest_chosen(parent, chosen)) is not None:
        return found
    at: Ints = np.where(chosen, np.arange(len(parent)), parent)
    rest = np.flatnonzero(~chosen & (parent >= 0))
    while len(rest := rest[(at[rest] >= 0) & ~chosen[at[rest]]]):
        at[rest] = at[at[rest]]
    return at


def inherit_values(parent: Ints, own: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """The row's own value if it is 0 or more, else the nearest such value above it; -1 without one."""
    if (found := row_loops.inherit_values(parent, own)) is not None:
        return found
    return np.append(own, np.int8(-1))[nearest_chosen_ancestor(parent, own >= 0)]  # index -1 is that of no row


def has_equal_ancestor(parent: Ints, chosen: Mask, number: Ints) -> Mask:
    """True for chosen rows with an ancestor of the same number; all ancestors of a chosen row are chosen.

    `parent` has rows, -1 for none; numbers are not negative.
    """
    if (found := row_loops.mark_repeated(parent, chosen, number, int(number.max(initial=-1)) + 1)) is not None:
        return found
    found = np.zeros(len(parent), np.bool_)
    row = np.flatnonzero(chosen)
    at, mine = parent[row], number[row]
    while len(row):
        same = (at >= 0) & (number[at] == mine)
        found[row[same]] = True
        on = (at >= 0) & ~same
        row, at, mine = row[on], parent[at[on]], mine[on]
    return found
