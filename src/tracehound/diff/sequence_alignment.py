"""Alignment of two sequences: pairs of equal elements, in order.

Owns the search for a longest common subsequence: Myers' greedy algorithm ("An O(ND) difference algorithm and its
variations", 1986), in which all diagonals of a round are one array. Sequences that differ in almost everything are
aligned as patience diff does, by the longest chain of elements that occur for the same time. Knows no trace.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

import numpy as np

from tracehound.numeric.intervals import Ints

MAX_EDITS: Final = 1_000
"""Up to so many differences, an optimal alignment is found in one search. Longer alignments are made of several
searches, each ending at the farthest point that so many differences reach: still a common subsequence, perhaps not a
longest one."""

MAX_PIECES: Final = 3
"""So many searches at most; the rest of the sequences is aligned by chains."""

UNALIGNED: Final = -1


class SequenceAlignment(NamedTuple):
    """Slots in order: the element of either sequence in each, `UNALIGNED` where only the other has one."""

    baseline: Ints
    candidate: Ints


def align_sequences(baseline: Ints, candidate: Ints) -> SequenceAlignment:
    """The alignment: equal elements share a slot, as many as possible; of others those of the baseline come first.

    Keys are less than 2**31. Up to `MAX_EDITS` differences no alignment matches more.
    """
    ours, theirs = (
        np.flatnonzero(np.isin(one, another)) for one, another in ((baseline, candidate), (candidate, baseline))
    )
    x, y = _common_subsequence(baseline[ours], candidate[theirs])
    return _slots_of_matches(ours[x], theirs[y], len(baseline), len(candidate))


def _slots_of_matches(x: Ints, y: Ints, baseline: int, candidate: int) -> SequenceAlignment:
    """The slots of matches (rising in both), and of all elements between them."""
    x, y = np.append(x, baseline), np.append(y, candidate)
    before_x, before_y = np.diff(x, prepend=-1) - 1, np.diff(y, prepend=-1) - 1
    at = np.cumsum(before_x + before_y + 1) - 1  # the slot of each match
    ours, theirs = np.full(int(at[-1]), UNALIGNED), np.full(int(at[-1]), UNALIGNED)
    ours[at[:-1]], theirs[at[:-1]] = x[:-1], y[:-1]
    alone = np.setdiff1d(np.arange(baseline), x)
    follows = np.searchsorted(x, alone)
    ours[at[follows] - before_y[follows] - (x[follows] - alone)] = alone
    alone = np.setdiff1d(np.arange(candidate), y)
    follows = np.searchsorted(y, alone)
    theirs[at[follows] - (y[follows] - alone)] = alone
    return SequenceAlignment(ours, theirs)


def _common_subsequence(baseline: Ints, candidate: Ints) -> tuple[Ints, Ints]:
    """Positions of a common subsequence in both."""
    found: list[_MatchRun] = []
    x, y = 0, 0
    for _ in range(MAX_PIECES):
        found += [
            _MatchRun(x + run.x, y + run.y, run.length) for run in _shortest_edit_runs(baseline[x:], candidate[y:])
        ]
        x, y = found[-1].x + found[-1].length, found[-1].y + found[-1].length
    start, along, length = np.array(found, np.int64).T
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    ours, theirs = _longest_chain(baseline[x:], candidate[y:])
    return (
        np.concatenate([np.repeat(start, length) + within, x + ours]),
        np.concatenate([np.repeat(along, length) + within, y + theirs]),
    )


def _longest_chain(baseline: Ints, candidate: Ints) -> tuple[Ints, Ints]:
    """The longest chain, rising in both, of elements that occur for the same time."""
    one, another = (baseline << 32) + _occurrence_numbers(baseline), (candidate << 32) + _occurrence_numbers(candidate)
    _, ours, theirs = np.intersect1d(one, another, assume_unique=True, return_indices=True)
    order = np.argsort(ours)
    ours, theirs = ours[order], theirs[order]
    ends: list[int] = []  # the least end of a chain of each length, and what it ends with
    last, before = list[int](), np.full(len(theirs), UNALIGNED)
    for at, place in enumerate(theirs.tolist()):
        length = bisect_left(ends, place)
        before[at] = last[length - 1] if length else UNALIGNED
        ends[length : length + 1], last[length : length + 1] = [place], [at]
    chain = np.zeros(len(last), np.int64)
    at = last[-1] if last else UNALIGNED
    for number in range(len(last) - 1, -1, -1):
        chain[number], at = at, int(before[at])
    return ours[chain], theirs[chain]


def _occurrence_numbers(keys: Ints) -> Ints:
    """The number of earlier occurrences of each element."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    times = np.empty(len(keys), np.int64)
    times[order] = np.arange(len(keys)) - np.repeat(first, np.diff(np.append(first, len(keys))))
    return times


class _MatchRun(NamedTuple):
    """Consecutive matches, from a position in both."""

    x: int
    y: int
    length: int


class _EditRound(NamedTuple):
    """The farthest points with a given number of differences, on each diagonal ``x - y``, from the lowest, by twos.

    `begin` is x behind the last difference, `end` x behind the matches that follow it; `_UNREACHABLE` where no path
    leads.
    """

    begin: Ints
    end: Ints

    @property
    def diagonal(self) -> Ints:
        """``x - y`` of each point."""
        return np.arange(-len(self.end) + 1, len(self.end), 2)


_UNREACHABLE: Final = -(1 << 40)


def _shortest_edit_runs(baseline: Ints, candidate: Ints) -> list[_MatchRun]:
    """Runs of matches from the beginning of both to their ends, or as far as `MAX_EDITS` differences lead."""
    start = np.zeros(1, np.int64)
    rounds = [_EditRound(start, _match_lengths(baseline, candidate, start, start))]
    while True:
        reach, diagonal = rounds[-1].end, rounds[-1].diagonal
        done = (reach >= len(baseline)) & (reach - diagonal >= len(candidate))
        if done.any():
            return _trace_runs_back(rounds, int(done.argmax()))
        if len(rounds) > MAX_EDITS:
            return _trace_runs_back(rounds, int((2 * reach - diagonal).argmax()))
        rounds.append(_next_edit_round(baseline, candidate, rounds[-1]))


def _next_edit_round(baseline: Ints, candidate: Ints, before: _EditRound) -> _EditRound:
    """One more difference, an element of the baseline (right) or of the candidate (down), and the matches behind it."""
    reach = before.end
    right = np.concatenate([[_UNREACHABLE], np.where(reach < len(baseline), reach + 1, _UNREACHABLE)])
    down = np.concatenate([np.where(reach - before.diagonal < len(candidate), reach, _UNREACHABLE), [_UNREACHABLE]])
    begin = np.maximum(right, down)
    diagonal = np.arange(-len(reach), len(reach) + 1, 2)
    inside = np.flatnonzero(begin >= 0)
    end = begin.copy()
    end[inside] += _match_lengths(baseline, candidate, begin[inside], begin[inside] - diagonal[inside])
    return _EditRound(begin, end)


def _trace_runs_back(rounds: list[_EditRound], at: int) -> list[_MatchRun]:
    """The runs on the path to index `at` of the last round, the first one first."""
    runs = list[_MatchRun]()
    for edits in range(len(rounds) - 1, -1, -1):
        begin, end = int(rounds[edits].begin[at]), int(rounds[edits].end[at])
        runs.append(_MatchRun(begin, begin - (2 * at - edits), end - begin))
        came_down = edits > at and rounds[edits - 1].end[at] == begin
        at = at if came_down else at - 1
    return runs[::-1]


def _match_lengths(baseline: Ints, candidate: Ints, x: Ints, y: Ints) -> Ints:
    """The number of equal elements from each of these pairs of positions on."""
    length = np.zeros(len(x), np.int64)
    left = np.flatnonzero((x < len(baseline)) & (y < len(candidate)))
    for _ in range(_VECTOR_ROUNDS):
        if not len(left):
            return length
        left = left[baseline[x[left] + length[left]] == candidate[y[left] + length[left]]]
        length[left] += 1
        left = left[(x[left] + length[left] < len(baseline)) & (y[left] + length[left] < len(candidate))]
    for at in left.tolist():
        length[at] += _match_length(baseline[x[at] + length[at] :], candidate[y[at] + length[at] :])
    return length


_VECTOR_ROUNDS: Final = 8
"""Longer runs are measured one by one, in growing blocks."""


def _match_length(baseline: Ints, candidate: Ints) -> int:
    """The number of equal elements from the beginning on."""
    size, done = 64, 0
    while True:
        one, another = baseline[done : done + size], candidate[done : done + size]
        both = min(len(one), len(another))
        unlike = np.flatnonzero(one[:both] != another[:both])
        if len(unlike):
            return done + int(unlike[0])
        done += both
        if both < size:
            return done
        size *= 4
