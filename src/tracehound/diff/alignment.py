"""Two sequences side by side: which elements of one are which of the other, in order.

Owns the search for a longest common subsequence: Myers' greedy algorithm ("An O(ND) difference algorithm and its
variations", 1986), in which all diagonals of a round are one array. Sequences that differ in almost everything are
aligned as patience diff does, by the longest chain of elements that are the same for the same time. Knows no trace.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

import numpy as np

from tracehound.intervals import Ints

MOST: Final = 1_000
"""Differences up to which a stretch is aligned in one piece, and so best. A longer way is taken in pieces of so many,
each the best one that leads as far as any: the whole is a common subsequence, but perhaps not a longest one."""

PIECES: Final = 3
"""So many pieces; what is left then is aligned by chains."""

ALONE: Final = -1


class Alignment(NamedTuple):
    """Slots in order: the element of either sequence in each, `ALONE` where only the other has one."""

    base: Ints
    other: Ints


def aligned(base: Ints, other: Ints) -> Alignment:
    """The sequences side by side: equal elements share a slot, as many as can; of others those of the base come first.

    Keys are less than 2**31. Up to `MOST` differences no alignment matches more.
    """
    ours, theirs = (np.flatnonzero(np.isin(one, another)) for one, another in ((base, other), (other, base)))
    x, y = _matched(base[ours], other[theirs])
    return _slots(ours[x], theirs[y], len(base), len(other))


def _slots(x: Ints, y: Ints, base: int, other: int) -> Alignment:
    """The slots of matches (rising in both), and of all elements between them."""
    x, y = np.append(x, base), np.append(y, other)
    before_x, before_y = np.diff(x, prepend=-1) - 1, np.diff(y, prepend=-1) - 1
    at = np.cumsum(before_x + before_y + 1) - 1  # the slot of each match
    ours, theirs = np.full(int(at[-1]), ALONE), np.full(int(at[-1]), ALONE)
    ours[at[:-1]], theirs[at[:-1]] = x[:-1], y[:-1]
    alone = np.setdiff1d(np.arange(base), x)
    follows = np.searchsorted(x, alone)
    ours[at[follows] - before_y[follows] - (x[follows] - alone)] = alone
    alone = np.setdiff1d(np.arange(other), y)
    follows = np.searchsorted(y, alone)
    theirs[at[follows] - (y[follows] - alone)] = alone
    return Alignment(ours, theirs)


def _matched(base: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Positions of a common subsequence in both."""
    found: list[_Run] = []
    x, y = 0, 0
    for _ in range(PIECES):
        found += [_Run(x + run.x, y + run.y, run.length) for run in _piece(base[x:], other[y:])]
        x, y = found[-1].x + found[-1].length, found[-1].y + found[-1].length
    start, along, length = np.array(found, np.int64).T
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    ours, theirs = _chain(base[x:], other[y:])
    return (
        np.concatenate([np.repeat(start, length) + within, x + ours]),
        np.concatenate([np.repeat(along, length) + within, y + theirs]),
    )


def _chain(base: Ints, other: Ints) -> tuple[Ints, Ints]:
    """The longest chain, rising in both, of elements that are the same for the same time."""
    one, another = (base << 32) + _times(base), (other << 32) + _times(other)
    _, ours, theirs = np.intersect1d(one, another, assume_unique=True, return_indices=True)
    order = np.argsort(ours)
    ours, theirs = ours[order], theirs[order]
    ends: list[int] = []  # the least end of a chain of each length, and what it ends with
    last, before = list[int](), np.full(len(theirs), ALONE)
    for at, place in enumerate(theirs.tolist()):
        length = bisect_left(ends, place)
        before[at] = last[length - 1] if length else ALONE
        ends[length : length + 1], last[length : length + 1] = [place], [at]
    chain = np.zeros(len(last), np.int64)
    at = last[-1] if last else ALONE
    for number in range(len(last) - 1, -1, -1):
        chain[number], at = at, int(before[at])
    return ours[chain], theirs[chain]


def _times(keys: Ints) -> Ints:
    """How often each element has occurred before."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    times = np.empty(len(keys), np.int64)
    times[order] = np.arange(len(keys)) - np.repeat(first, np.diff(np.append(first, len(keys))))
    return times


class _Run(NamedTuple):
    """Matches one after the other, from a position in both."""

    x: int
    y: int
    length: int


class _Round(NamedTuple):
    """How far the ways with so many differences lead on each diagonal ``x - y``, from the lowest, by twos.

    `begin` is x behind the last difference, `reach` x behind the matches that follow it; `_OUT` where no way leads.
    """

    begin: Ints
    reach: Ints

    @property
    def diagonal(self) -> Ints:
        """``x - y`` of each."""
        return np.arange(-len(self.reach) + 1, len(self.reach), 2)


_OUT: Final = -(1 << 40)


def _piece(base: Ints, other: Ints) -> list[_Run]:
    """Runs from the beginning of both to their ends, or as far as `MOST` differences lead: there the last one ends."""
    start = np.zeros(1, np.int64)
    rounds = [_Round(start, _run(base, other, start, start))]
    while True:
        reach, diagonal = rounds[-1].reach, rounds[-1].diagonal
        done = (reach >= len(base)) & (reach - diagonal >= len(other))
        if done.any():
            return _way(rounds, int(done.argmax()))
        if len(rounds) > MOST:
            return _way(rounds, int((2 * reach - diagonal).argmax()))
        rounds.append(_next(base, other, rounds[-1]))


def _next(base: Ints, other: Ints, before: _Round) -> _Round:
    """One more difference: an element of the base (to the right) or of the other (down), and the matches behind it."""
    reach = before.reach
    right = np.concatenate([[_OUT], np.where(reach < len(base), reach + 1, _OUT)])
    down = np.concatenate([np.where(reach - before.diagonal < len(other), reach, _OUT), [_OUT]])
    begin = np.maximum(right, down)
    diagonal = np.arange(-len(reach), len(reach) + 1, 2)
    inside = np.flatnonzero(begin >= 0)
    end = begin.copy()
    end[inside] += _run(base, other, begin[inside], begin[inside] - diagonal[inside])
    return _Round(begin, end)


def _way(rounds: list[_Round], at: int) -> list[_Run]:
    """The runs on the way to place `at` of the last round, the first one first."""
    runs = list[_Run]()
    for edits in range(len(rounds) - 1, -1, -1):
        begin, end = int(rounds[edits].begin[at]), int(rounds[edits].reach[at])
        runs.append(_Run(begin, begin - (2 * at - edits), end - begin))
        came_down = edits > at and rounds[edits - 1].reach[at] == begin
        at = at if came_down else at - 1
    return runs[::-1]


def _run(base: Ints, other: Ints, x: Ints, y: Ints) -> Ints:
    """How many elements are equal from each of these pairs of positions on."""
    length = np.zeros(len(x), np.int64)
    left = np.flatnonzero((x < len(base)) & (y < len(other)))
    for _ in range(_LONG):
        if not len(left):
            return length
        left = left[base[x[left] + length[left]] == other[y[left] + length[left]]]
        length[left] += 1
        left = left[(x[left] + length[left] < len(base)) & (y[left] + length[left] < len(other))]
    for at in left.tolist():
        length[at] += _long_run(base[x[at] + length[at] :], other[y[at] + length[at] :])
    return length


_LONG: Final = 8
"""Runs that go on for longer are measured one by one, in a few looks each."""


def _long_run(base: Ints, other: Ints) -> int:
    """How many elements are equal from the beginning on."""
    size, done = 64, 0
    while True:
        one, another = base[done : done + size], other[done : done + size]
        both = min(len(one), len(another))
        unlike = np.flatnonzero(one[:both] != another[:both])
        if len(unlike):
            return done + int(unlike[0])
        done += both
        if both < size:
            return done
        size *= 4
