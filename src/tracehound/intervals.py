"""Sets of time intervals as pairs of numpy arrays, and how intervals nest.

Owns the arithmetic of starts and ends: union, intersection, subtraction, covered length, nesting. Knows no domain
words. All times are Int64 in one unit; an interval is half-open, `[start, end)`; a *set* is sorted, disjoint and
without touching neighbours, which is what `union` returns and the other functions expect.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


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
    """How the intervals of one lane nest.

    `parent` is the index of the innermost interval that wholly contains this one (-1: none), `depth` the row on which
    it can be drawn without touching another. They agree where intervals nest; where two overlap without either
    containing the other, the later is still pushed to a row of its own.
    """

    parent: Ints
    depth: Ints


def nesting(start: Ints, end: Ints) -> Nesting:
    """Nest intervals sorted by (start, -end). Of equal intervals the first contains the others.

    An interval of no length belongs to what is open at its instant.
    """
    n = len(start)
    until = np.maximum(end, start + 1)
    if n == 0 or not np.any(start[1:] < np.maximum.accumulate(until)[:-1]):
        return Nesting(np.full(n, -1, np.int64), np.zeros(n, np.int64))
    proper = _nest_proper(start, until)
    return proper if proper is not None else _nest_any(start.tolist(), until.tolist())


def _nest_proper(start: Ints, end: Ints) -> Nesting | None:
    """Nesting level by level, one pass of numpy each; None where some intervals overlap without nesting."""
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    parent = np.full(len(start), -1, np.int64)
    order = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[order], np.arange(depth.max() + 2))
    for level in range(1, len(levels) - 1):
        inner, outer = order[levels[level] : levels[level + 1]], order[levels[level - 1] : levels[level]]
        parent[inner] = outer[np.maximum(np.searchsorted(outer, inner) - 1, 0)]
    nested = np.flatnonzero(parent >= 0)
    around = parent[nested]
    sound = (around < nested) & (end[around] >= end[nested]) & (start[nested] < end[around])
    return Nesting(parent, depth.astype(np.int64)) if sound.all() else None


def _nest_any(start: list[int], end: list[int]) -> Nesting:
    """Nesting one interval after the other, for lanes where some overlap without nesting."""
    parent = np.full(len(start), -1, np.int64)
    depth = np.zeros(len(start), np.int64)
    rows: list[int] = []  # rows[d]: the interval drawn last on row d; -1 once it has ended
    for i, (s, e) in enumerate(zip(start, end, strict=True)):
        while rows and (rows[-1] < 0 or end[rows[-1]] <= s):
            rows.pop()
        depth[i] = len(rows)
        for d in range(len(rows) - 1, -1, -1):
            j = rows[d]
            if j >= 0 and end[j] <= s:
                rows[d] = -1
            elif j >= 0 and end[j] >= e:
                parent[i] = j
                break
        rows.append(i)
    return Nesting(parent, depth)


def self_time(length: Ints, parent: Ints) -> Ints:
    """`length` less the lengths of the direct children; never below 0.

    `parent` indexes into the same arrays, -1 for none.
    """
    children = np.zeros(len(length), np.int64)
    inner = parent >= 0
    np.add.at(children, parent[inner], length[inner])
    own: Ints = np.maximum(length - children, 0)
    return own


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


def _running_max(values: Ints, first: npt.NDArray[np.bool_]) -> Ints:
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
