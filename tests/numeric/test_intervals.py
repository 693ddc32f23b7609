"""Interval arithmetic against sets of instants."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracehound.numeric.intervals import (
    EMPTY_INTERVALS,
    CoverageIndex,
    Intervals,
    LatestBegun,
    add_overlap_times,
    clip,
    combination_lengths,
    complement,
    count_instants_reached,
    covered_lengths,
    intersect,
    merge,
    split_at_instants,
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
    assert covered_lengths(a, start, end).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9))), st.integers(-5, 200), st.integers(0, 200))
def test_cover_against_counting_every_unit(pairs: list[tuple[int, int]], start: int, length: int) -> None:
    at, spans = 0, []
    for gap, size in pairs:
        spans.append((at + gap, at + gap + size))
        at += gap + size
    cover = CoverageIndex.from_intervals(
        np.array([s for s, _ in spans], np.int64), np.array([e for _, e in spans], np.int64)
    )
    inside = sum(any(s <= t < e for s, e in spans) for t in range(start, start + length))
    assert cover.covered_between(start, start + length) == inside


@given(PAIRS, st.lists(st.integers(-6, 40), unique=True, max_size=9))
def test_parts(pairs: list[tuple[int, int]], cuts: list[int]) -> None:
    a = union(*arrays(pairs))
    found = split_at_instants(a, np.array(sorted(cuts), np.int64))
    expected = []
    for low, high in zip(a.start.tolist(), a.end.tolist(), strict=True):
        expected += pairwise([low, *(each for each in sorted(cuts) if low < each < high), high])
    assert list(zip(found.start.tolist(), found.end.tolist(), strict=True)) == expected


@given(PAIRS, PAIRS, st.lists(st.integers(0, 3), min_size=28, max_size=28))
def test_time_that_is_shared(pairs: list[tuple[int, int]], stretches: list[tuple[int, int]], places: list[int]) -> None:
    """Of stretches in any order."""
    a = union(*arrays(pairs))
    start, end = arrays(stretches)
    place, further = np.array(places[: len(start)], np.int64), np.array(places[14 : 14 + len(a.start)], np.int64)
    sums = np.zeros(7, np.int64)
    add_overlap_times(start, end, place, a, further, sums)
    expected = [0] * 7
    for one, (low, high) in zip(place.tolist(), stretches, strict=True):
        for other, begin, until in zip(further.tolist(), a.start.tolist(), a.end.tolist(), strict=True):
            expected[one + other] += len(range(max(low, begin), min(high, until)))
    assert sums.tolist() == expected


@given(st.lists(PAIRS, min_size=1, max_size=4))
def test_together(several: list[list[tuple[int, int]]]) -> None:
    sets = [instants(pairs) for pairs in several]
    whole = set().union(*sets)
    expected = [0] * (1 << len(sets))
    for x in range(min(whole, default=0), max(whole, default=-1) + 1):
        expected[sum((x in each) << bit for bit, each in enumerate(sets))] += 1
    assert combination_lengths(*(union(*arrays(pairs)) for pairs in several)).tolist() == expected


def test_nothing() -> None:
    assert union(*arrays([])) == EMPTY_INTERVALS
    assert merge() == EMPTY_INTERVALS
    assert EMPTY_INTERVALS.length == 0
    assert complement(EMPTY_INTERVALS, 5, 5).length == 0


LANES = st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 25), st.integers(0, 9)), max_size=40)


def in_lanes(found: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lanes, starts and ends, sorted."""
    rows = sorted(((lane, start, start + length) for lane, start, length in found), key=lambda r: (r[0], r[1], -r[2]))
    lane, start, end = (np.array([row[k] for row in rows], np.int64) for k in range(3))
    return lane, start, end


@given(LANES, LANES)
def test_latest(known: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]) -> None:
    group, start, _ = in_lanes(known)
    whom, instant, _ = in_lanes(asked)
    expected = [
        max((i for i in range(len(group)) if group[i] == g and start[i] <= t), default=-1)
        for g, t in zip(whom, instant, strict=True)
    ]
    assert LatestBegun(group, start).latest_index_at(whom, instant).tolist() == expected


@given(st.lists(st.integers(-5, 25), max_size=6), st.lists(st.integers(-6, 26), max_size=40), st.integers(1, 40))
def test_how_many_cuts_have_passed(instants: list[int], now: list[int], run: int) -> None:
    """Whether or not there are long sorted runs among those that are asked for."""
    known = np.sort(np.array(instants, np.int64))
    asked = np.concatenate([np.empty(0, np.int64), *(np.sort(now[at : at + run]) for at in range(0, len(now), run))])
    assert count_instants_reached(known, asked).tolist() == [
        sum(instant <= t for instant in instants) for t in asked.tolist()
    ]


@given(st.lists(PAIRS, min_size=2, max_size=4))
def test_sets_are_merged_as_if_they_were_one(several: list[list[tuple[int, int]]]) -> None:
    sets = [union(*arrays(pairs)) for pairs in several]
    both = union(*arrays([pair for pairs in several for pair in pairs]))
    assert [part.tolist() for part in merge(*sets)] == [part.tolist() for part in both]
