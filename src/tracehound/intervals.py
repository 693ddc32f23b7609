"""Sets of time intervals as pairs of numpy arrays, and how intervals nest.

Owns the arithmetic of starts and ends: union, intersection, subtraction, covered length, nesting. Knows no domain
words. All times are Int64 in one unit; an interval is half-open, `[start, end)`; a *set* is sorted, disjoint and
without touching neighbours, which is what `union` returns and the other functions expect.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Intervals(NamedTuple):
    """A set of intervals: `start` and `end`, equally long, sorted, disjoint."""

    start: Ints
    end: Ints

    @property
    def length(self) -> int:
        """Sum of the lengths."""
        return int((self.end - self.start).sum())


EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: Ints, end: Ints) -> Intervals:
    """The set covered by any of the given intervals, in any order; empty and reversed ones cover nothing."""
    keep = end > start
    start, end = start[keep], end[keep]
    if len(start) == 0:
        return EMPTY
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    fresh = np.empty(len(start), bool)
    fresh[0] = True
    np.greater(start[1:], reach[:-1], out=fresh[1:])
    first = np.flatnonzero(fresh)
    return Intervals(start[first], reach[np.append(first[1:] - 1, len(start) - 1)])


def merge(*sets: Intervals) -> Intervals:
    """The union of several sets."""
    return union(np.concatenate([s.start for s in sets]), np.concatenate([s.end for s in sets])) if sets else EMPTY


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """What both sets cover."""
    if len(a.start) == 0 or len(b.start) == 0:
        return EMPTY
    edges = np.concatenate([a.start, a.end, b.start, b.end])
    change = np.concatenate([
        np.ones(len(a.start), np.int8), -np.ones(len(a.start), np.int8),
        np.ones(len(b.start), np.int8), -np.ones(len(b.start), np.int8),
    ])  # fmt: skip
    order = np.argsort(edges, kind="stable")
    edges, depth = edges[order], np.cumsum(change[order])
    last = np.append(edges[1:] != edges[:-1], True)  # the state after all changes at one instant
    edges, depth = edges[last], depth[last]
    both = np.flatnonzero(depth == 2)
    return union(edges[both], edges[both + 1])


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """What `a` covers and `b` does not."""
    if len(a.start) == 0 or len(b.start) == 0:
        return a
    return intersect(a, complement(b, int(a.start[0]), int(a.end[-1])))


def complement(a: Intervals, start: int, end: int) -> Intervals:
    """What of `[start, end)` the set does not cover."""
    if end <= start:
        return EMPTY
    inside = clip(a, start, end)
    starts = np.concatenate([np.array([start], np.int64), inside.end])
    ends = np.concatenate([inside.start, np.array([end], np.int64)])
    keep = ends > starts
    return Intervals(starts[keep], ends[keep])


def clip(a: Intervals, start: int, end: int) -> Intervals:
    """The part of the set inside `[start, end)`."""
    starts, ends = np.maximum(a.start, start), np.minimum(a.end, end)
    keep = ends > starts
    return Intervals(starts[keep], ends[keep])


def covered(a: Intervals, start: Ints, end: Ints) -> Ints:
    """For each window `[start[i], end[i])`, the length of it that the set covers."""
    if len(a.start) == 0:
        return np.zeros(len(start), np.int64)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(a.end - a.start)])

    def until(t: Ints) -> Ints:
        k = np.searchsorted(a.start, t, side="right")
        i = np.maximum(k - 1, 0)
        return np.where(k == 0, 0, before[i] + np.minimum(t - a.start[i], a.end[i] - a.start[i]))

    return until(end) - until(np.minimum(start, end))


class Nesting(NamedTuple):
    """How the intervals of lanes nest.

    `parent` is the index of the innermost interval of its lane that wholly contains this one (-1: none), `depth` the
    row on which it can be drawn without touching another. They agree where intervals nest; where two overlap without
    either containing the other, the later is still pushed to a row of its own, below the last that is still open.
    """

    parent: Ints
    depth: Ints


_ONE_LANE: Final = np.zeros(1, np.int64)
_NOTHING: Final = np.empty(0, np.int64)
_FOREVER: Final = int(np.iinfo(np.int64).max)


def nesting(start: Ints, end: Ints, first: Ints = _ONE_LANE, known: Ints = _NOTHING) -> Nesting:
    """Nest intervals sorted by (lane, start, -end). Of equal intervals the first contains the others.

    An interval of no length belongs to what is open at its instant. `first` has the index at which each lane begins.
    The leading intervals of the first lane may be what is still open (`still_open`) of more that was nested before:
    then `known` has their depths.
    """
    until = np.append(np.maximum(end, start + 1), _FOREVER)  # the last, at index -1, surrounds every lane
    before = np.arange(-1, len(start))
    before[-1] = -1
    before[first[first < len(start)]] = -1
    parent = before.copy()
    _reach(parent, parent, until, until[:-1] - 1)
    above = before.copy()
    _reach(above, parent, until, start)
    return Nesting(parent[:-1], _depth(before, above, known))


_ROUNDS: Final = 64
"""After so many rounds over all intervals at once, the few that are left are settled one after the other."""


def _reach(at: Ints, along: Ints, until: Ints, bound: Ints) -> None:
    """Move every `at[i]`, which begins at the interval before, to the nearest earlier one that ends after `bound[i]`.

    `along` leads from an interval to one before it that ends no earlier than those between the two, so that they can
    be passed over. It may be `at` itself, whose steps then grow as they are used.
    """
    rest = np.flatnonzero(until[at[:-1]] <= bound)
    to, least = at[rest], bound[rest]
    for _ in range(_ROUNDS):
        if len(rest) == 0:
            return
        to = along[to]
        at[rest] = to
        on = until[to] <= least
        rest, to, least = rest[on], to[on], least[on]
    for i in rest:
        one = i - 1
        while until[one] <= bound[i]:
            one = along[one]
        at[i] = one


def _depth(before: Ints, above: Ints, known: Ints) -> Ints:
    """The rows of intervals, each below the one `above` it: one deeper than the one `before`, less those that ended."""
    count = len(above) - 1
    given = above[:-1] < len(known)
    given[: len(known)] = True
    ended = np.zeros(count, np.int64)
    rest = np.flatnonzero((before[:-1] != above[:-1]) & ~given)
    to, last = before[rest], above[rest]
    for _ in range(_ROUNDS):
        if len(rest) == 0:
            break
        to = above[to]
        ended[rest] += 1
        on = to != last
        rest, to, last = rest[on], to[on], last[on]
    for i, one, end in zip(rest.tolist(), to.tolist(), last.tolist(), strict=True):
        at = one
        while at != end:
            at = above[at]
            ended[i] += 1
    depth = np.cumsum(np.where(given, 0, 1 - ended))
    anchor = np.flatnonzero(given)
    fixed = np.append(known, -1)[above[anchor]] + 1
    fixed[: len(known)] = known
    shift: Ints = np.repeat(fixed - depth[anchor], np.diff(np.append(anchor, count)))
    return depth + shift


def outermost(until: Ints) -> npt.NDArray[np.intp]:
    """Of nested intervals of one lane, those that lie in no other: they end later than all before."""
    before = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(until)[:-1])[: len(until)]
    return np.flatnonzero(until > before)


def still_open(until: Ints) -> npt.NDArray[np.intp]:
    """Of nested intervals of one lane, those that may contain what comes next: they end no earlier than all later."""
    if len(until) == 0:
        return np.empty(0, np.intp)
    return np.flatnonzero(until >= np.maximum.accumulate(until[::-1])[::-1])


def lane_order(lane: Ints, start: Ints, end: Ints) -> npt.NDArray[np.intp] | None:
    """The order of intervals by (lane, start, -end), equal ones as they come; None where that is the order they have.

    Quick on runs that are sorted by lane or by start.
    """
    if _ordered(lane, start, end):
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


def _ordered(lane: Ints, start: Ints, end: Ints) -> bool:
    later = start[1:] > start[:-1]
    later |= (start[1:] == start[:-1]) & (end[1:] <= end[:-1])
    if later.all() and len(lane) and lane[0] == lane[-1]:
        return bool(np.all(lane == lane[0]))
    later &= lane[1:] == lane[:-1]
    later |= lane[1:] > lane[:-1]
    return bool(later.all())


def self_time(length: Ints, parent: Ints) -> Ints:
    """`length` less the lengths of the direct children; never below 0.

    `parent` indexes into the same arrays, -1 for none.
    """
    children = np.zeros(len(length), np.int64)
    inner = parent >= 0
    np.add.at(children, parent[inner], length[inner])
    own: Ints = np.maximum(length - children, 0)
    return own


class Latest:
    """Finds the last of some intervals that has begun at an instant, in each of many groups at once."""

    def __init__(self, group: Ints, start: Ints) -> None:
        """`group` and `start` of the intervals, sorted by both."""
        self._group = group
        self._starts = np.sort(start)
        self._keys = self._key(group, start)

    def at(self, group: Ints, instant: Ints) -> Ints:
        """For each group and instant the index of the interval, -1 where none has begun."""
        if len(self._keys) == 0:
            return np.full(len(group), -1, np.int64)
        found = np.searchsorted(self._keys, self._key(group, instant), side="right") - 1
        return np.where(self._group[found] == group, found, -1)  # index -1 is of the last group, which has begun later

    def _key(self, group: Ints, instant: Ints) -> Ints:
        """One number that sorts like (group, instant): instants are counted, which leaves room for any group."""
        key: Ints = group * (len(self._starts) + 1) + np.searchsorted(self._starts, instant, side="right")
        return key


class Owned(NamedTuple):
    """Stretches of time and the interval that owns each: `owner` is its index."""

    start: Ints
    end: Ints
    owner: Ints


def own_stretches(start: Ints, end: Ints, parent: Ints) -> Owned:
    """The stretches of each interval that none of its direct children covers, without empty ones, in no order.

    Intervals of one lane, sorted by (start, -end); `parent` indexes into the same arrays, -1 for none. What an interval
    owns is what `self_time` counts.
    """
    child = np.flatnonzero(parent >= 0)
    childless = np.ones(len(start), bool)
    childless[parent[child]] = False
    leaf = np.flatnonzero(childless)
    child = child[np.argsort(parent[child], kind="stable")]
    around = parent[child]
    first = np.append(True, around[1:] != around[:-1]) if len(child) else np.empty(0, bool)
    last = np.append(first[1:], True) if len(child) else first
    reach = _running_max(end[child], first)
    begin = np.where(first, start[around], np.append(0, reach[:-1]) if len(child) else reach)
    starts = np.concatenate([start[leaf], begin, reach[last]])
    ends = np.concatenate([end[leaf], start[child], end[around[last]]])
    owners = np.concatenate([leaf, around, around[last]])
    keep = ends > starts
    return Owned(starts[keep], ends[keep], owners[keep])


def _running_max(values: Ints, first: Mask) -> Ints:
    """The running maximum of `values`, begun anew where `first` is true."""
    if len(values) == 0:
        return values
    group = np.cumsum(first) - 1
    base = int(values.min())
    width = int(values.max()) - base + 1
    if width * (int(group[-1]) + 1) < np.iinfo(np.int64).max:
        lifted = np.maximum.accumulate(values - base + group * width)
        running: Ints = lifted - group * width + base
        return running
    pieces = np.split(values, np.flatnonzero(first)[1:])
    return np.concatenate([np.maximum.accumulate(piece) for piece in pieces])
