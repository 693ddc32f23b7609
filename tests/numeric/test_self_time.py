"""Whose time it is where intervals nest, against loops that look at all pairs."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_intervals import LANES, PAIRS, arrays, in_lanes, instants
from test_nesting import LABELS, firsts

from tracehound.numeric.nesting import nest_intervals
from tracehound.numeric.self_time import (
    LabeledIntervals,
    exclusive_starts,
    innermost_intervals,
    innermost_labels,
    self_intervals,
    self_time,
)


@given(PAIRS)
def test_what_an_interval_owns(pairs: list[tuple[int, int]]) -> None:
    pairs = sorted(pairs, key=lambda p: (p[0], -p[1]))
    start, end = arrays(pairs)
    parent = nest_intervals(start, end).parent
    owned = self_intervals(start, end, parent)
    for i, (s, e) in enumerate(pairs):
        mine = set(range(s, e))
        for j, (a, b) in enumerate(pairs):
            if parent[j] == i:
                mine -= set(range(a, b))
        rows = owned.owner == i
        assert (owned.end > owned.start).all()
        assert instants(list(zip(owned.start[rows].tolist(), owned.end[rows].tolist(), strict=True))) == mine


@st.composite
def nested(draw: st.DrawFn, low: int = 0, high: int = 30) -> list[tuple[int, int]]:
    """Intervals of which none overlaps another in part, some without length."""
    if high - low < 1 or not draw(st.booleans()):
        return []
    start = draw(st.integers(low, high))
    end = draw(st.integers(start, high))
    return [(start, end), *draw(nested(start, end)), *draw(nested(end, high))]


@given(nested(), LABELS)
def test_the_label_of_the_innermost(pairs: list[tuple[int, int]], labels: list[int]) -> None:
    pairs = sorted(pairs, key=lambda p: (p[0], -p[1]))
    start, end = arrays(pairs)
    label = np.array(labels[: len(pairs)], np.int8)
    at = {t: label[i] for i, (low, high) in enumerate(pairs) for t in range(low, high)}  # the last to begin is inside
    holds(innermost_labels(start, end, nest_intervals(start, end).parent, label), at)


@given(PAIRS, LABELS)
def test_labels_of_what_overlaps_in_part(pairs: list[tuple[int, int]], labels: list[int]) -> None:
    pairs = sorted(pairs, key=lambda p: (p[0], -p[1]))
    start, end = arrays(pairs)
    label = np.array(labels[: len(pairs)], np.int8)
    parent = nest_intervals(start, end).parent
    at = {instant: label[i] for (_, instant), i in running(np.zeros(len(start), np.int64), start, end, parent).items()}
    holds(innermost_labels(start, end, parent, label), at)


def holds(found: LabeledIntervals, at: dict[int, int]) -> None:
    """What was found is what holds at each instant, in order, and no stretch is without length."""
    stretches = list(zip(*(values.tolist() for values in found), strict=True))
    known = {instant: what for instant, what in at.items() if what >= 0}
    assert {instant: what for low, high, what in stretches for instant in range(low, high)} == known
    assert all(low < high for low, high, _ in stretches)
    assert all(before[1] <= after[0] for before, after in pairwise(stretches))


def running(lane: np.ndarray, start: np.ndarray, end: np.ndarray, parent: np.ndarray) -> dict[tuple[int, int], int]:
    """The interval that runs at each instant of each lane: from the top, the first child that is there, and so on."""
    at: dict[tuple[int, int], int] = {}
    for number in range(len(lane)):
        for instant in range(start[number], end[number]):
            around = at.get((lane[number], instant), -1)
            if around == parent[number]:
                at[lane[number], instant] = number
    return at


@given(LANES)
def test_of_what_overlaps_in_part_one_runs_at_a_time(found: list[tuple[int, int, int]]) -> None:
    lane, start, end = in_lanes(found)
    parent = nest_intervals(start, end, firsts(lane)).parent
    owned = innermost_intervals(start, end, parent, lane)
    at = [
        ((lane[owner], instant), owner)
        for low, high, owner in zip(*(column.tolist() for column in owned), strict=True)
        for instant in range(low, high)
    ]
    assert [place for place, _ in at] == sorted(place for place, _ in at)
    assert len(dict(at)) == len(at)
    assert dict(at) == running(lane, start, end, parent)


@pytest.mark.parametrize("far", [1, 10**12])
def test_own_stretches_of_long_spans(far: int) -> None:
    """Lifting groups apart must not overflow: 9e18 ps is all that fits."""
    n = 3000
    start = np.repeat(np.arange(n, dtype=np.int64), 2) * 4 * far
    end = start + np.tile(np.array([3, 1], np.int64), n) * far
    owned = self_intervals(start, end, nest_intervals(start, end).parent)
    assert int((owned.end - owned.start).sum()) == n * 3 * far


def test_self_time() -> None:
    start, end = np.array([0, 10, 20, 50], np.int64), np.array([100, 40, 30, 70], np.int64)
    assert self_time(start, end, np.array([-1, 0, 1, 0], np.int64)).tolist() == [50, 20, 10, 20]


def test_self_time_of_what_two_children_share() -> None:
    start, end = np.array([1, 10, 20, 30], np.int64), np.array([99, 65, 95, 40], np.int64)
    assert nest_intervals(start, end).parent.tolist() == [-1, 0, 0, 2]
    assert self_time(start, end, np.array([-1, 0, 0, 2], np.int64)).tolist() == [13, 55, 65, 10]


@given(LANES, st.integers(-5, 30), st.integers(0, 40), st.sets(st.integers(0, 40)), st.randoms())
def test_self_time_is_what_no_child_covers(
    found: list[tuple[int, int, int]], low: int, length: int, passed: set[int], mixed: Random
) -> None:
    """Of clipped intervals, in any order, some of which are looked through."""
    lane, start, end = in_lanes(found)
    parent = nest_intervals(start, end, firsts(lane)).parent
    start, end = np.clip(start, low, low + length), np.clip(end, low, low + length)
    for i in range(len(lane)):
        if parent[i] in passed:
            parent[i] = parent[parent[i]]
    end = np.where(np.isin(np.arange(len(lane)), list(passed)), start, end)
    wanted = []
    for i in range(len(lane)):
        mine = set(range(start[i], end[i]))
        for k in np.flatnonzero(parent == i):
            mine -= set(range(start[k], end[k]))
        wanted.append(len(mine))
    assert self_time(start, end, parent).tolist() == wanted
    order = mixed.sample(range(len(lane)), len(lane))
    place = np.append(np.argsort(order), -1).astype(np.int64)
    moved = self_time(start[order], end[order], place[parent[order]])
    assert moved.tolist() == [wanted[i] for i in order]


def test_self_time_of_a_deep_nest_whose_children_share() -> None:
    """From where the last begins a search would go up through all of them."""
    depth = 300
    at = np.arange(depth)
    start = np.concatenate([[0], at + 1, [3 * depth]])
    end = np.concatenate([[9 * depth, 4 * depth], 2 * depth - at[1:], [6 * depth]])
    parent = nest_intervals(start, end).parent
    assert parent.tolist() == [-1, *range(depth), 0]
    assert self_time(start, end, parent)[0] == 9 * depth - (6 * depth - 1)


@given(LANES)
def test_what_overlaps_in_part_shares_no_time(found: list[tuple[int, int, int]]) -> None:
    lane, start, end = in_lanes(found)
    parent = nest_intervals(start, end, firsts(lane)).parent
    begin = exclusive_starts(start, end, parent, np.cumsum(np.append(False, lane[1:] != lane[:-1])[: len(lane)]))
    has: list[set[int]] = []
    for i in range(len(lane)):
        mine = set(range(start[i], end[i]))
        for k in range(i):
            if lane[k] == lane[i] and parent[k] == parent[i]:
                mine -= set(range(start[k], end[k]))
        has.append(mine & has[parent[i]] if parent[i] >= 0 else mine)
        assert set(range(begin[i], end[i])) == has[i]
    assert np.all(begin >= start)


def test_what_a_deep_nest_overlaps_in_part() -> None:
    """Each is in the one before, beside a short one that ends after it has begun."""
    depth = 50_000
    at = np.arange(depth)
    start, end = np.column_stack([2 * at, 2 * at + 1]).ravel(), np.column_stack([9 * depth - at, 2 * at + 3]).ravel()
    parent = np.column_stack([2 * at - 2, 2 * at]).ravel()
    parent[0] = -1
    order = np.lexsort((-end, start))
    assert np.array_equal(order, np.arange(2 * depth))
    group = np.zeros(2 * depth, np.int64)
    begin = exclusive_starts(start, end, parent, group)
    above, reach = begin[parent].tolist(), [0] * (2 * depth)
    for i in range(1, 2 * depth):
        assert begin[i] == max(start[i], above[i], reach[parent[i]])
        reach[parent[i]] = max(reach[parent[i]], int(end[i]))
