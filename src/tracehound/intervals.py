"""Sets of time intervals as pairs of numpy arrays.

Owns the arithmetic of starts and ends: union, intersection, subtraction, covered length, the latest to have begun.
Knows no domain words. All times are Int64 in one unit; an interval is half-open, `[start, end)`; a *set* is sorted,
disjoint and without touching neighbours, which is what `union` returns and the other functions expect.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.native import sweep

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
    if (found := sweep.union(start, end)) is not None:
        return Intervals(*found) if len(found[0]) else EMPTY
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
    filled = [each for each in sets if len(each.start)]
    if len(filled) < 2:
        return filled[0] if filled else EMPTY
    if len(filled) == 2 and (found := sweep.merge(*filled[0], *filled[1])) is not None:
        return Intervals(*found)
    return union(np.concatenate([each.start for each in filled]), np.concatenate([each.end for each in filled]))


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """What both sets cover."""
    if (found := sweep.intersect(*a, *b)) is not None:
        return Intervals(*found)
    few, many = (a, b) if len(a.start) <= len(b.start) else (b, a)
    one, other = pairs_of(few.start, few.end, many)
    return Intervals(np.maximum(few.start[one], many.start[other]), np.minimum(few.end[one], many.end[other]))


def pairs_of(start: Ints, end: Ints, a: Intervals) -> tuple[Ints, Ints]:
    """Every pair of a stretch `[start[i], end[i])` and an interval of the set that overlap: the positions of both.

    The stretches may be any, the intervals may touch; the pairs are in the order of the stretches.
    """
    first = passed(a.end, start)
    many = np.maximum(passed(a.start, end - 1) - first, 0)
    stretch = np.repeat(np.arange(len(many)), many)
    return stretch, np.arange(len(stretch)) + np.repeat(first - (np.cumsum(many) - many), many)


def together(*sets: Intervals) -> Ints:
    """How long just these of the sets cover an instant at once: at index 5 the first and the third and no other.

    There is at least one set. At index 0 is what none covers between the first start and the last end.
    """
    sizes = [len(each.start) for each in sets]
    edges = np.concatenate([part for each in sets for part in each])
    state = np.repeat([sign << bit for bit in range(len(sets)) for sign in (1, -1)], np.repeat(sizes, 2))
    if len(edges) == 0:
        return np.zeros(1 << len(sets), np.int64)
    order = np.argsort(edges, kind="stable")  # what is between edges at one instant has no length
    edges, state = edges[order], np.cumsum(state[order])
    lengths = np.zeros(1 << len(sets), np.int64)
    for number in range(1 << len(sets)):
        lengths[number] = np.diff(edges)[state[:-1] == number].sum()
    return lengths


def shared_time(
    start: Ints, end: Ints, place: Ints, a: Intervals, further: npt.NDArray[np.integer], sums: Ints
) -> None:
    """Add what each stretch `[start[i], end[i])` has in common with each interval of the set to one of these sums.

    That is the sum at `place[i] + further[j]`, of the stretch and of the interval.
    """
    if sweep.shared_time(start, end, place, a, further, sums):
        return
    stretch, one = pairs_of(start, end, a)
    time = np.minimum(end[stretch], a.end[one]) - np.maximum(start[stretch], a.start[one])
    np.add.at(sums, place[stretch] + further[one], time)


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """What `a` covers and `b` does not."""
    if len(a.start) == 0 or len(b.start) == 0:
        return a
    return intersect(a, complement(b, int(a.start[0]), int(a.end[-1])))


def parted(a: Intervals, instants: Ints) -> Intervals:
    """The same intervals, cut where one of these instants, which are sorted, lies inside: then some of them touch."""
    at = np.searchsorted(a.end, instants, side="right")
    inside = at < len(a.start)
    inside[inside] = a.start[at[inside]] < instants[inside]
    cuts = instants[inside]
    return Intervals(np.insert(a.start, at[inside] + 1, cuts), np.insert(a.end, at[inside], cuts)) if len(cuts) else a


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


class Cover(NamedTuple):
    """Disjoint intervals in order, which may touch, and in `before[i]` the length of the first `i` of them.

    Made once, it tells in logarithmic time how much of any stretch they cover.
    """

    start: Ints
    end: Ints
    before: Ints

    @classmethod
    def of(cls, start: Ints, end: Ints) -> Cover:
        """That of these intervals."""
        return cls(start, end, np.concatenate([np.zeros(1, np.int64), np.cumsum(end - start)]))

    def until(self, times: Ints) -> Ints:
        """For each time, the length covered before it."""
        if len(self.start) == 0:
            return np.zeros(len(times), np.int64)
        last = np.searchsorted(self.start, times, side="right") - 1
        at = np.maximum(last, 0)
        inside = np.minimum(times - self.start[at], self.end[at] - self.start[at])
        return np.where(last < 0, 0, self.before[at] + inside)

    def between(self, start: int, end: int) -> int:
        """The length covered in `[start, end)`."""
        low, high = self.until(np.array([start, max(start, end)], np.int64))
        return int(high - low)


def covered(a: Intervals, start: Ints, end: Ints) -> Ints:
    """For each window `[start[i], end[i])`, the length of it that the set covers."""
    if len(a.start) == 0:
        return np.zeros(len(start), np.int64)
    cover = Cover.of(*a)
    if (found := sweep.covered(*cover, start, end)) is not None:
        return found
    return cover.until(end) - cover.until(np.minimum(start, end))


def passed(instants: Ints, now: Ints) -> Ints:
    """How many of these instants, which are sorted, each of the others has reached.

    Of others that lie in few sorted runs, as starts of events do lane by lane, each run is looked up at once: the fewer
    of the two among the more.
    """
    if (found := sweep.passed(instants, now)) is not None:
        return found
    turns = np.flatnonzero(now[1:] < now[:-1]) + 1
    if len(turns) * _RUN > len(now):
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


_RUN: Final = 256
"""Shorter runs are not worth a look of their own."""


class Latest:
    """Finds the last of some intervals that has begun at an instant, in each of many groups at once."""

    def __init__(self, group: Ints, start: Ints) -> None:
        """`group` and `start` of the intervals, sorted by both."""
        self._group = group
        self._start = start

    def at(self, group: Ints, instant: Ints) -> Ints:
        """For each group and instant the index of the interval, -1 where none has begun."""
        if (found := sweep.latest(self._group, self._start, group, instant)) is not None:
            return found
        if len(self._group) == 0:
            return np.full(len(group), -1, np.int64)
        instants = np.sort(self._start)
        keys = [whose * (len(instants) + 1) + passed(instants, when)  # sorts like both: counts of instants are small
                for whose, when in ((self._group, self._start), (group, instant))]  # fmt: skip
        last = passed(*keys) - 1
        return np.where(self._group[last] == group, last, -1)  # index -1 is of the last group, which has begun later
