"""Whose time it is where intervals nest: what each has for itself.

Owns own time and own stretches, also where intervals overlap in part. Knows no domain words, and takes the parents that
`nesting` finds. All times are Int64 in one unit; an interval is half-open, `[start, end)`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.intervals import Ints, Mask
from tracehound.lookup import distinct
from tracehound.native import sweep
from tracehound.nesting import lane_order

_NOTHING: Final = np.empty(0, np.int64)

_ROUNDS: Final = 64
"""So many steps up are taken from all rows at once; the few that are left then are not followed."""


def self_time(start: Ints, end: Ints, parent: Ints) -> Ints:
    """The time of each interval that none of its direct children covers; never below 0.

    `parent` indexes into the same arrays, -1 for none. Children may overlap in part: what they share counts once. What
    of them lies outside of their parent is counted as if it did not.
    """
    if (found := sweep.self_time(start, end, parent)) is not None:
        return found
    length = end - start
    children = np.zeros(len(length) + 1, np.int64)  # the last is of those without a parent
    np.add.at(children, parent, length)
    row, time = shared(start, end, parent)
    np.subtract.at(children, parent[row], time)
    own: Ints = np.maximum(length - children[:-1], 0)
    return own


def shared(start: Ints, end: Ints, parent: Ints) -> tuple[Ints, Ints]:
    """The children that begin before another of their parent has ended which began no later, and how long they do both.

    `parent` indexes into the same arrays, -1 for none. In any order, but quick only where intervals sorted by (lane,
    start, -end) nest.
    """
    torn = _torn(start, end, parent)
    torn = torn[parent[torn] >= 0]
    if len(torn) == 0:
        return _NOTHING, _NOTHING
    several = np.zeros(len(parent) + 1, np.bool_)
    several[parent[torn]] = True
    row = np.flatnonzero(several[parent])
    row = row[np.lexsort((-end[row], start[row], parent[row]))]
    around = parent[row]
    first = np.append(True, around[1:] != around[:-1])
    reach = np.append(0, _running_max(end[row], first))[:-1]
    time = np.where(first, 0, np.minimum(reach, end[row]) - start[row])
    some = time > 0
    return row[some], time[some]


def _torn(start: Ints, end: Ints, parent: Ints) -> npt.NDArray[np.intp]:
    """The rows that are not known to begin at the end, or after the end, of all before them that have their parent.

    None where intervals sorted by (start, -end) nest, but for the first rows of lanes. A row begins in the one before
    it, its parent, or after that has ended: then from that goes a search up for the last that has the same parent.
    """
    if len(parent) == 0:
        return np.empty(0, np.intp)
    closed = end[:-1] <= start[1:]
    into = parent[1:] == np.arange(len(parent) - 1)
    found = [np.flatnonzero(~(closed | into)) + 1, np.zeros(int(parent[0] >= 0), np.intp)]
    row = np.flatnonzero(closed & ~into & (parent[1:] != parent[:-1]))
    at, row = parent[row], row + 1
    begin, around = start[row], parent[row]
    for _ in range(_ROUNDS):
        if len(row) == 0:
            break
        found.append(row[(at < 0) | (end[at] > begin)])
        above = parent[at]
        on = np.flatnonzero((above != around) & (at >= 0))
        at, row, begin, around = above[on], row[on], begin[on], around[on]
    return distinct(np.concatenate([*found, row]))


def unshared(start: Ints, end: Ints, parent: Ints, group: Ints) -> Ints:
    """From when each interval has its time for itself; at or after its end where it never has.

    That is its start, or later where another interval that began before it, and is not around it, ends inside it: what
    two share that overlap in part is the earlier one's. What lies in an interval begins no earlier than that does.
    Sorted by (group, start, -end), of which `group` numbers lanes from 0; `parent` indexes into the same arrays, -1 for
    none.
    """
    if (found := sweep.unshared(start, end, parent, group)) is not None:
        return found
    torn = _torn(start, end, parent)
    if np.all(group[torn] != group[torn - 1]):  # the first of their lanes
        return start
    around = np.where(parent >= 0, parent, -1 - group)
    order = np.argsort(around, kind="stable")
    around = around[order]
    first = np.append(True, around[1:] != around[:-1])[: len(order)]
    reach = _running_max(end[order], first)
    begin = start.copy()
    begin[order] = np.where(first, start[order], np.maximum(start[order], np.append(0, reach)[:-1]))
    rows = np.flatnonzero(parent >= 0)
    above = parent.copy()
    while len(rows):  # each time twice as far up
        at = above[rows]
        begin[rows] = np.maximum(begin[rows], begin[at])
        above[rows] = above[at]
        rows = rows[above[rows] >= 0]
    return begin


class Owned(NamedTuple):
    """Stretches of time and the interval that owns each: `owner` is its index."""

    start: Ints
    end: Ints
    owner: Ints


def own_stretches(start: Ints, end: Ints, parent: Ints) -> Owned:
    """The stretches of each interval that none of its direct children covers, without empty ones, in no order.

    Intervals of any lanes, of one parent sorted by (start, -end); `parent` indexes into the same arrays, -1 for none.
    What an interval owns is what `self_time` counts.
    """
    child = np.flatnonzero(parent >= 0)
    if len(child) == 0:
        leaf = np.flatnonzero(end > start)
        return Owned(start[leaf], end[leaf], leaf)
    if (found := sweep.innermost(start, end, parent, apart=True)) is not None:
        return Owned(*found)
    childless = np.ones(len(start), bool)
    childless[parent[child]] = False
    leaf = np.flatnonzero(childless)
    child = child[np.argsort(parent[child], kind="stable")]
    around = parent[child]
    first = np.append(True, around[1:] != around[:-1])
    last = np.append(first[1:], True)
    reach = _running_max(end[child], first)
    begin = np.where(first, start[around], np.append(0, reach[:-1]))
    starts = np.concatenate([start[leaf], begin, reach[last]])
    ends = np.concatenate([end[leaf], start[child], end[around[last]]])
    owners = np.concatenate([leaf, around, around[last]])
    keep = ends > starts
    return Owned(starts[keep], ends[keep], owners[keep])


def one_at_a_time(start: Ints, end: Ints, parent: Ints, group: Ints) -> Owned:
    """The stretches in which each interval is the innermost of its lane, without empty ones, by lane and start.

    Of a lane no two overlap, and together they are when any of its intervals is: what two share that overlap in part is
    the earlier one's. Arguments are those of `unshared`.
    """
    if (found := _swept(start, end, parent, group)) is not None:
        return Owned(*found)
    begin = unshared(start, end, parent, group)
    owned = own_stretches(begin, end if begin is start else np.maximum(end, begin), parent)
    order = np.lexsort((owned.start, group[owned.owner]))
    return Owned(*(values[order] for values in owned))


def _swept(
    start: Ints, end: Ints, parent: Ints, group: Ints, label: npt.NDArray[np.int8] | None = None
) -> tuple[Ints, Ints, Ints] | None:
    """The stretches in which each interval is the innermost, of intervals that may overlap in part; see `sweep`."""
    if (found := sweep.innermost(start, end, parent, group=group, label=label)) is not None:
        return found
    if (begin := sweep.unshared(start, end, parent, group)) is None:
        return None
    until = np.maximum(end, begin)
    order = lane_order(group, begin, until)
    if order is None:
        return sweep.innermost(begin, until, parent, group=group, label=label)
    place = np.full(len(order) + 1, -1)
    place[order] = np.arange(len(order))
    begin, until, parent, group = (values.take(order) for values in (begin, until, place.take(parent), group))
    found = sweep.innermost(begin, until, parent, group=group, label=None if label is None else label.take(order))
    return None if found is None else (*found[:2], order.take(found[2]))


class Labelled(NamedTuple):
    """Stretches of time, in order, and what holds in each."""

    start: Ints
    end: Ints
    label: npt.NDArray[np.int8]


def innermost(start: Ints, end: Ints, parent: Ints, label: npt.NDArray[np.int8]) -> Labelled:
    """When which label is that of the interval that owns the time (`one_at_a_time`); one below 0 is none.

    Intervals of one lane, sorted by (start, -end); `parent` indexes into the same arrays, -1 for none. Stretches of one
    label may touch.
    """
    lane = np.broadcast_to(np.int64(0), len(start))
    if (found := _swept(start, end, parent, lane, label)) is not None:
        return Labelled(*found[:2], label[found[2]])
    start = unshared(start, end, parent, lane)
    # an interval with the label of the one around it is a part of that
    row = np.flatnonzero((end > start) & ((parent < 0) | (label != label[parent])))
    back = row[::-1][np.argsort(end[row[::-1]], kind="stable")]  # of those that end at once the inner come first
    when = np.concatenate([end[back], start[row]])
    order = np.argsort(when, kind="stable")
    when, owner = when[order], np.concatenate([parent[back], row])[order]
    held = np.append(label, np.int8(-1))[owner]  # of none, at -1
    keep = np.flatnonzero((when[1:] > when[:-1]) & (held[:-1] >= 0))
    return Labelled(when[keep], when[keep + 1], held[keep])


def _running_max(values: Ints, first: Mask) -> Ints:
    """The running maximum of `values`, begun anew where `first` is true."""
    if np.all(first[1:] | (values[1:] >= values[:-1])):
        return values
    known, rank = np.unique(values, return_inverse=True)
    lift = (np.cumsum(first) - 1) * len(known)
    running: Ints = known[np.maximum.accumulate(rank + lift) - lift]
    return running
