"""Interval arithmetic against sets of instants."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.intervals import (
    EMPTY,
    Intervals,
    clip,
    complement,
    covered,
    intersect,
    merge,
    nesting,
    own_stretches,
    self_time,
    subtract,
    union,
)

PAIRS = st.lists(st.tuples(st.integers(-5, 25), st.integers(0, 9)).map(lambda p: (p[0], p[0] + p[1])), max_size=14)


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p[0] for p in pairs], np.int64), np.array([p[1] for p in pairs], np.int64)


def instants(pairs: list[tuple[int, int]]) -> set[int]:
    return {x for a, b in pairs for x in range(a, b)}


def points(intervals: Intervals) -> set[int]:
    pairs = list(zip(intervals.start.tolist(), intervals.end.tolist(), strict=True))
    assert pairs == sorted(pairs)
    assert all(b > a for a, b in pairs)
    assert all(later[0] > earlier[1] for earlier, later in pairwise(pairs)), "touching or overlapping"
    return instants(pairs)


@given(PAIRS, PAIRS)
def test_set_arithmetic(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    a, b = union(*arrays(first)), union(*arrays(second))
    x, y = instants(first), instants(second)
    assert points(a) == x
    assert a.length == len(x)
    assert points(intersect(a, b)) == x & y
    assert points(subtract(a, b)) == x - y
    assert points(merge(a, b)) == x | y
    assert points(complement(a, 0, 17)) == set(range(17)) - x
    assert points(clip(a, 3, 12)) == x & set(range(3, 12))


@given(PAIRS, PAIRS)
def test_covered(pairs: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    a = union(*arrays(pairs))
    start, end = arrays(windows)
    expected = [len(instants(pairs) & set(range(s, e))) for s, e in windows]
    assert covered(a, start, end).tolist() == expected


def test_nothing() -> None:
    assert union(*arrays([])) == EMPTY
    assert merge() == EMPTY
    assert EMPTY.length == 0
    assert complement(EMPTY, 5, 5).length == 0


@given(PAIRS)
def test_nesting(pairs: list[tuple[int, int]]) -> None:
    pairs = sorted(pairs, key=lambda p: (p[0], -p[1]))
    start, end = arrays(pairs)
    parent, depth = nesting(start, end)
    reach = [max(e, s + 1) for s, e in pairs]
    for i, (s, _) in enumerate(pairs):
        around = [j for j in range(i) if reach[j] >= reach[i] and s < reach[j]]
        assert parent[i] == -1 if not around else parent[i] in around
        shares_row = [j for j in range(i) if depth[j] == depth[i] and s < reach[j]]
        assert not shares_row, "two events drawn on top of each other"


@given(PAIRS)
def test_what_an_interval_owns(pairs: list[tuple[int, int]]) -> None:
    pairs = sorted(pairs, key=lambda p: (p[0], -p[1]))
    start, end = arrays(pairs)
    parent = nesting(start, end).parent
    owned = own_stretches(start, end, parent)
    for i, (s, e) in enumerate(pairs):
        mine = set(range(s, e))
        for j, (a, b) in enumerate(pairs):
            if parent[j] == i:
                mine -= set(range(a, b))
        rows = owned.owner == i
        assert instants(list(zip(owned.start[rows].tolist(), owned.end[rows].tolist(), strict=True))) == mine


@pytest.mark.parametrize("far", [1, 10**12])
def test_own_stretches_of_long_spans(far: int) -> None:
    """Lifting groups apart must not overflow: 9e18 ps is all that fits."""
    n = 3000
    start = np.repeat(np.arange(n, dtype=np.int64), 2) * 4 * far
    end = start + np.tile(np.array([3, 1], np.int64), n) * far
    owned = own_stretches(start, end, nesting(start, end).parent)
    assert int((owned.end - owned.start).sum()) == n * 3 * far


def test_self_time() -> None:
    length, parent = np.array([100, 30, 10, 20], np.int64), np.array([-1, 0, 1, 0], np.int64)
    assert self_time(length, parent).tolist() == [50, 20, 10, 20]
