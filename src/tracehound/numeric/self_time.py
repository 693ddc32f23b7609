"""Self time of nested intervals, and the intervals of self time, also with partial overlaps.

Parents come from `nesting`. All times are Int64 in one unit; an interval is half-open, `[start, end)`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.numeric.id_set import sorted_distinct
from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.native import interval_loops
from tracehound.numeric.nesting import lane_sort_order

_NO_ROWS: Final = np.empty(0, np.int64)

_MAX_CLIMBS: Final = 64
"""The largest number of steps up for all rows at once; the few rows left then count as candidates."""


def self_time(start: Ints, end: Ints, parent: Ints) -> Ints:
    """The time of each interval that none of its direct children covers; never below 0.

    `parent` indexes into the same arrays, -1 for none. Time that overlapping children share counts once. The time of a
    child outside of its parent counts as if it were inside.
    """
    if (found := interval_loops.self_times(start, end, parent)) is not None:
        return found
    length = end - start
    children = np.zeros(len(length) + 1, np.int64)  # the last sum is for rows without a parent
    np.add.at(children, parent, length)
    row, time = sibling_overlaps(start, end, parent)
    np.subtract.at(children, parent[row], time)
    own: Ints = np.maximum(length - children[:-1], 0)
    return own


def sibling_overlaps(start: Ints, end: Ints, parent: Ints) -> tuple[Ints, Ints]:
    """Children that overlap an earlier sibling, and the length of the overlap with all earlier siblings.

    `parent` indexes into the same arrays, -1 for none. Any order is allowed, but it is fast only for intervals that are
    sorted by (lane, start, -end) and nest.
    """
    torn = _overlap_candidates(start, end, parent)
    torn = torn[parent[torn] >= 0]
    if len(torn) == 0:
        return _NO_ROWS, _NO_ROWS
    several = np.zeros(len(parent) + 1, np.bool_)
    several[parent[torn]] = True
    row = np.flatnonzero(several[parent])
    row = row[np.lexsort((-end[row], start[row], parent[row]))]
    around = parent[row]
    first = np.append(True, around[1:] != around[:-1])
    reach = np.append(0, _running_max_by_run(end[row], first))[:-1]
    time = np.where(first, 0, np.minimum(reach, end[row]) - start[row])
    some = time > 0
    return row[some], time[some]


def _overlap_candidates(start: Ints, end: Ints, parent: Ints) -> npt.NDArray[np.intp]:
    """The rows that may begin before an earlier sibling has ended.

    For nesting intervals sorted by (start, -end) these are only the first rows of lanes. A row begins inside the
    previous one, its parent, or after its end: then the last row with the same parent is searched upward from the
    previous one.
    """
    if len(parent) == 0:
        return np.empty(0, np.intp)
    closed = end[:-1] <= start[1:]
    into = parent[1:] == np.arange(len(parent) - 1)
    found = [np.flatnonzero(~(closed | into)) + 1, np.zeros(int(parent[0] >= 0), np.intp)]
    row = np.flatnonzero(closed & ~into & (parent[1:] != parent[:-1]))
    at, row = parent[row], row + 1
    begin, around = start[row], parent[row]
    for _ in range(_MAX_CLIMBS):
        if len(row) == 0:
            break
        found.append(row[(at < 0) | (end[at] > begin)])
        above = parent[at]
        on = np.flatnonzero((above != around) & (at >= 0))
        at, row, begin, around = above[on], row[on], begin[on], around[on]
    return sorted_distinct(np.concatenate([*found, row]))


def exclusive_starts(start: Ints, end: Ints, parent: Ints, group: Ints) -> Ints:
    """The time from which each interval is not overlapped by an earlier one; at or after its end if there is none.

    That is its start, or later if an earlier interval that does not contain it ends inside it: time that two
    overlapping intervals share belongs to the earlier one. Children begin no earlier than their parents. Sorted by
    (group, start, -end), where `group` numbers lanes from 0; `parent` indexes into the same arrays, -1 for none.
    """
    if (found := interval_loops.exclusive_starts(start, end, parent, group)) is not None:
        return found
    torn = _overlap_candidates(start, end, parent)
    if np.all(group[torn] != group[torn - 1]):  # all are first rows of lanes
        return start
    around = np.where(parent >= 0, parent, -1 - group)
    order = np.argsort(around, kind="stable")
    around = around[order]
    first = np.append(True, around[1:] != around[:-1])[: len(order)]
    reach = _running_max_by_run(end[order], first)
    begin = start.copy()
    begin[order] = np.where(first, start[order], np.maximum(start[order], np.append(0, reach)[:-1]))
    rows = np.flatnonzero(parent >= 0)
    above = parent.copy()
    while len(rows):  # each round climbs twice as far
        at = above[rows]
        begin[rows] = np.maximum(begin[rows], begin[at])
        above[rows] = above[at]
        rows = rows[above[rows] >= 0]
    return begin


class OwnedIntervals(NamedTuple):
    """Intervals of time and the interval that each belongs to: `owner` is its index."""

    start: Ints
    end: Ints
    owner: Ints


def self_intervals(start: Ints, end: Ints, parent: Ints) -> OwnedIntervals:
    """The parts of each interval that no direct child covers, non-empty, in no order; `self_time` is their length.

    Intervals of any lanes; those of one parent are sorted by (start, -end). `parent` indexes into the same arrays, -1
    for none.
    """
    child = np.flatnonzero(parent >= 0)
    if len(child) == 0:
        leaf = np.flatnonzero(end > start)
        return OwnedIntervals(start[leaf], end[leaf], leaf)
    if (found := interval_loops.innermost_intervals(start, end, parent, separate_roots=True)) is not None:
        return OwnedIntervals(*found)
    childless = np.ones(len(start), bool)
    childless[parent[child]] = False
    leaf = np.flatnonzero(childless)
    child = child[np.argsort(parent[child], kind="stable")]
    around = parent[child]
    first = np.append(True, around[1:] != around[:-1])
    last = np.append(first[1:], True)
    reach = _running_max_by_run(end[child], first)
    begin = np.where(first, start[around], np.append(0, reach[:-1]))
    starts = np.concatenate([start[leaf], begin, reach[last]])
    ends = np.concatenate([end[leaf], start[child], end[around[last]]])
    owners = np.concatenate([leaf, around, around[last]])
    keep = ends > starts
    return OwnedIntervals(starts[keep], ends[keep], owners[keep])


def innermost_intervals(start: Ints, end: Ints, parent: Ints, group: Ints) -> OwnedIntervals:
    """The parts of each interval in which it is the innermost of its lane, non-empty, by lane and start.

    The parts of a lane are disjoint and cover the same time as its intervals: time that two overlapping intervals share
    belongs to the earlier one. The arguments are those of `exclusive_starts`.
    """
    if (found := _innermost_in_c(start, end, parent, group)) is not None:
        return OwnedIntervals(*found)
    begin = exclusive_starts(start, end, parent, group)
    owned = self_intervals(begin, end if begin is start else np.maximum(end, begin), parent)
    order = np.lexsort((owned.start, group[owned.owner]))
    return OwnedIntervals(*(values[order] for values in owned))


def _innermost_in_c(
    start: Ints, end: Ints, parent: Ints, group: Ints, label: npt.NDArray[np.int8] | None = None
) -> tuple[Ints, Ints, Ints] | None:
    """The parts in which each interval is the innermost, computed in C, also for overlaps; None without the library."""
    if (found := interval_loops.innermost_intervals(start, end, parent, group=group, label=label)) is not None:
        return found
    if (begin := interval_loops.exclusive_starts(start, end, parent, group)) is None:
        return None
    until = np.maximum(end, begin)
    order = lane_sort_order(group, begin, until)
    if order is None:
        return interval_loops.innermost_intervals(begin, until, parent, group=group, label=label)
    place = np.full(len(order) + 1, -1)
    place[order] = np.arange(len(order))
    begin, until, parent, group = (values.take(order) for values in (begin, until, place.take(parent), group))
    found = interval_loops.innermost_intervals(
        begin, until, parent, group=group, label=None if label is None else label.take(order)
    )
    return None if found is None else (*found[:2], order.take(found[2]))


class LabeledIntervals(NamedTuple):
    """Intervals of time, in order, with a label each."""

    start: Ints
    end: Ints
    label: npt.NDArray[np.int8]


def innermost_labels(start: Ints, end: Ints, parent: Ints, label: npt.NDArray[np.int8]) -> LabeledIntervals:
    """The label of the innermost interval at each time (see `innermost_intervals`); labels below 0 are left out.

    Intervals of one lane, sorted by (start, -end); `parent` indexes into the same arrays, -1 for none. Results with
    equal labels may touch.
    """
    lane = np.broadcast_to(np.int64(0), len(start))
    if (found := _innermost_in_c(start, end, parent, lane, label)) is not None:
        return LabeledIntervals(*found[:2], label[found[2]])
    start = exclusive_starts(start, end, parent, lane)
    # an interval with the label of its parent counts as part of it
    row = np.flatnonzero((end > start) & ((parent < 0) | (label != label[parent])))
    back = row[::-1][np.argsort(end[row[::-1]], kind="stable")]  # of equal ends the inner ones come first
    when = np.concatenate([end[back], start[row]])
    order = np.argsort(when, kind="stable")
    when, owner = when[order], np.concatenate([parent[back], row])[order]
    label_after = np.append(label, np.int8(-1))[owner]  # index -1 is that of no interval
    keep = np.flatnonzero((when[1:] > when[:-1]) & (label_after[:-1] >= 0))
    return LabeledIntervals(when[keep], when[keep + 1], label_after[keep])


def _running_max_by_run(values: Ints, first: Mask) -> Ints:
    """The running maximum of `values`, restarted where `first` is true."""
    if np.all(first[1:] | (values[1:] >= values[:-1])):
        return values
    known, rank = np.unique(values, return_inverse=True)
    lift = (np.cumsum(first) - 1) * len(known)
    running: Ints = known[np.maximum.accumulate(rank + lift) - lift]
    return running
