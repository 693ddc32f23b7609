"""Sets of intervals as pairs of numpy arrays: union, intersection, subtraction, covered length.

All times are Int64 in one unit; an interval is half-open, `[start, end)`. A *set* is sorted, disjoint and without
touching neighbors: `union` returns such sets and the other functions expect them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.numeric.native import interval_loops

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


EMPTY_INTERVALS = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: Ints, end: Ints) -> Intervals:
    """The set covered by any of the given intervals, in any order; empty and reversed ones cover nothing."""
    if (found := interval_loops.union_sorted(start, end)) is not None:
        return Intervals(*found) if len(found[0]) else EMPTY_INTERVALS
    keep = end > start
    start, end = start[keep], end[keep]
    if len(start) == 0:
        return EMPTY_INTERVALS
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
    filled = [each for each in sets if len(each.start)]
    if len(filled) < 2:
        return filled[0] if filled else EMPTY_INTERVALS
    if len(filled) == 2 and (found := interval_loops.merge_sets(*filled[0], *filled[1])) is not None:
        return Intervals(*found)
    return union(np.concatenate([each.start for each in filled]), np.concatenate([each.end for each in filled]))


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """The set covered by both sets."""
    if (found := interval_loops.intersect_sets(*a, *b)) is not None:
        return Intervals(*found)
    few, many = (a, b) if len(a.start) <= len(b.start) else (b, a)
    one, other = overlapping_pairs(few.start, few.end, many)
    return Intervals(np.maximum(few.start[one], many.start[other]), np.minimum(few.end[one], many.end[other]))


def overlapping_pairs(start: Ints, end: Ints, a: Intervals) -> tuple[Ints, Ints]:
    """All pairs of an interval `[start[i], end[i])` and an interval of the set that overlap: the positions of both.

    The given intervals may be any, those of the set may touch. The pairs are in the order of the given intervals.
    """
    first = count_instants_reached(a.end, start)
    many = np.maximum(count_instants_reached(a.start, end - 1) - first, 0)
    row = np.repeat(np.arange(len(many)), many)
    return row, np.arange(len(row)) + np.repeat(first - (np.cumsum(many) - many), many)


def combination_lengths(*sets: Intervals) -> Ints:
    """The length covered by exactly each combination of the sets: at index 5 by the first and the third and no other.

    There is at least one set. Index 0 is the length that none covers between the first start and the last end.
    """
    sizes = [len(each.start) for each in sets]
    edges = np.concatenate([part for each in sets for part in each])
    state = np.repeat([sign << bit for bit in range(len(sets)) for sign in (1, -1)], np.repeat(sizes, 2))
    if len(edges) == 0:
        return np.zeros(1 << len(sets), np.int64)
    order = np.argsort(edges, kind="stable")  # the order of edges at one instant does not matter
    edges, state = edges[order], np.cumsum(state[order])
    lengths = np.zeros(1 << len(sets), np.int64)
    for number in range(1 << len(sets)):
        lengths[number] = np.diff(edges)[state[:-1] == number].sum()
    return lengths


def add_overlap_times(
    start: Ints, end: Ints, place: Ints, a: Intervals, further: npt.NDArray[np.integer], sums: Ints
) -> None:
    """Add the overlap of each interval `[start[i], end[i])` with each interval of the set to `sums`.

    The overlap of interval i with interval j of the set is added to `sums[place[i] + further[j]]`.
    """
    if interval_loops.add_overlap_times(start, end, place, a, further, sums):
        return
    row, one = overlapping_pairs(start, end, a)
    time = np.minimum(end[row], a.end[one]) - np.maximum(start[row], a.start[one])
    np.add.at(sums, place[row] + further[one], time)


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """The set covered by `a` and not by `b`."""
    if len(a.start) == 0 or len(b.start) == 0:
        return a
    return intersect(a, complement(b, int(a.start[0]), int(a.end[-1])))


def split_at_instants(a: Intervals, instants: Ints) -> Intervals:
    """The intervals, split at each of the sorted instants that lies inside one; the results may touch."""
    at = np.searchsorted(a.end, instants, side="right")
    inside = at < len(a.start)
    inside[inside] = a.start[at[inside]] < instants[inside]
    cuts = instants[inside]
    return Intervals(np.insert(a.start, at[inside] + 1, cuts), np.insert(a.end, at[inside], cuts)) if len(cuts) else a


def complement(a: Intervals, start: int, end: int) -> Intervals:
    """The part of `[start, end)` that the set does not cover."""
    if end <= start:
        return EMPTY_INTERVALS
    inside = clip(a, start, end)
    starts = np.concatenate([np.array([start], np.int64), inside.end])
    ends = np.concatenate([inside.start, np.array([end], np.int64)])
    keep = ends > starts
    return Intervals(starts[keep], ends[keep])


def clip(a: Intervals, start: int, end: int) -> Intervals:
    """The part of the set inside `[start, end)`."""
    if len(a.start) and start <= a.start[0] and a.end[-1] <= end:
        return a
    starts, ends = np.maximum(a.start, start), np.minimum(a.end, end)
    keep = ends > starts
    return Intervals(starts[keep], ends[keep])


class CoverageIndex(NamedTuple):
    """Sorted, disjoint intervals, which may touch, with the total length of the first `i` of them in `before[i]`.

    Gives the covered length of any interval in logarithmic time.
    """

    start: Ints
    end: Ints
    before: Ints

    @classmethod
    def from_intervals(cls, start: Ints, end: Ints) -> CoverageIndex:
        """The index of these intervals."""
        return cls(start, end, np.concatenate([np.zeros(1, np.int64), np.cumsum(end - start)]))

    def covered_before(self, times: Ints) -> Ints:
        """The length covered before each time."""
        if len(self.start) == 0:
            return np.zeros(len(times), np.int64)
        last = np.searchsorted(self.start, times, side="right") - 1
        at = np.maximum(last, 0)
        inside = np.minimum(times - self.start[at], self.end[at] - self.start[at])
        return np.where(last < 0, 0, self.before[at] + inside)

    def covered_between(self, start: int, end: int) -> int:
        """The length covered in `[start, end)`."""
        low, high = self.covered_before(np.array([start, max(start, end)], np.int64))
        return int(high - low)


def covered_lengths(a: Intervals, start: Ints, end: Ints) -> Ints:
    """The length that the set covers of each interval `[start[i], end[i])`."""
    if len(a.start) == 0:
        return np.zeros(len(start), np.int64)
    cover = CoverageIndex.from_intervals(*a)
    if (found := interval_loops.covered_lengths(*cover, start, end)) is not None:
        return found
    return cover.covered_before(end) - cover.covered_before(np.minimum(start, end))


def count_instants_reached(instants: Ints, now: Ints) -> Ints:
    """For each time of `now`, the number of sorted `instants` at or before it.

    If `now` consists of few sorted runs, as the starts of events lane by lane do, each run is searched at once: the
    smaller array in the larger one.
    """
    if (found := interval_loops.count_instants_reached(instants, now)) is not None:
        return found
    turns = np.flatnonzero(now[1:] < now[:-1]) + 1
    if len(turns) * _MIN_RUN_LENGTH > len(now):
        return np.searchsorted(instants, now, side="right")
    found = np.empty(len(now), np.int64)
    for low, high in pairwise([0, *turns.tolist(), len(now)]):
        run = now[low:high]
        first, last = np.searchsorted(instants, run[[0, -1]], side="right").tolist() if len(run) else (0, 0)
        here = instants[first:last]
        if len(here) < len(run):
            many = np.diff(np.searchsorted(run, here), prepend=0, append=len(run))
            found[low:high] = np.repeat(np.arange(first, last + 1), many)
        else:
            found[low:high] = first + np.searchsorted(here, run, side="right")
    return found


_MIN_RUN_LENGTH: Final = 256
"""Shorter runs are not searched separately."""


class LatestBegun:
    """Finds the last interval that has begun at an instant, in each of many groups at once."""

    def __init__(self, group: Ints, start: Ints) -> None:
        """Takes `group` and `start` of the intervals, sorted by both."""
        self._group = group
        self._start = start

    def latest_index_at(self, group: Ints, instant: Ints) -> Ints:
        """The index of the interval for each group and instant; -1 if none has begun."""
        if (found := interval_loops.find_latest_begun(self._group, self._start, group, instant)) is not None:
            return found
        if len(self._group) == 0:
            return np.full(len(group), -1, np.int64)
        instants = np.sort(self._start)
        most = len(instants) + 1  # counts are small and sort as the instants do
        known = self._group * most + count_instants_reached(instants, self._start)
        wanted = group * most + count_instants_reached(instants, instant)
        last = count_instants_reached(known, wanted) - 1
        return np.where(self._group[last] == group, last, -1)  # index -1 is of the last group, which has begun later
