"""Whose an instant is, against a walk through every instant."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracehound.diff.compared_intervals import ComparedIntervals, exposed_times_by_interval, self_times_by_interval
from tracehound.numeric.self_time import OwnedIntervals

PIECES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.integers(0, 2)), max_size=12)
EDGES = st.lists(st.integers(-3, 50), min_size=2, max_size=8, unique=True).map(sorted)


def laid(pieces: list[tuple[int, int, int]], edges: list[int]) -> tuple[OwnedIntervals, np.ndarray, ComparedIntervals]:
    start = np.array([at for at, _, _ in pieces], np.int64)
    end = start + np.array([length for _, length, _ in pieces], np.int64)
    owned = OwnedIntervals(start, end, np.arange(len(pieces)))
    kinds = np.array([kind for _, _, kind in pieces], np.int64)
    low, high = np.array(edges[:-1:2], np.int64), np.array(edges[1::2], np.int64)
    low = low[: len(high)]
    return owned, kinds, ComparedIntervals(np.arange(len(low)), low, high, "steps")


def summed(event: np.ndarray, stretch: np.ndarray, time: np.ndarray) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for key, length in zip(zip(event.tolist(), stretch.tolist(), strict=True), time.tolist(), strict=True):
        found[key] = found.get(key, 0) + length
    return {key: length for key, length in found.items() if length}


@given(PIECES, EDGES)
def test_own_times(pieces: list[tuple[int, int, int]], edges: list[int]) -> None:
    owned, _, when = laid(pieces, edges)
    expected: dict[tuple[int, int], int] = {}
    for event, (at, length, _) in enumerate(pieces):
        for stretch, (low, high) in enumerate(zip(when.start.tolist(), when.end.tolist(), strict=True)):
            inside = min(at + length, high) - max(at, low)
            if inside > 0:
                expected[event, stretch] = inside
    assert summed(*self_times_by_interval(owned, when)) == expected


@given(PIECES, EDGES)
def test_exposed_times(pieces: list[tuple[int, int, int]], edges: list[int]) -> None:
    owned, kinds, when = laid(pieces, edges)
    expected: dict[tuple[int, int], int] = {}
    for stretch, (low, high) in enumerate(zip(when.start.tolist(), when.end.tolist(), strict=True)):
        for instant in range(low, high):
            here = [(kind, at, event) for event, (at, length, kind) in enumerate(pieces) if at <= instant < at + length]
            if here:
                owner = min(here)[2]
                expected[owner, stretch] = expected.get((owner, stretch), 0) + 1
    assert summed(*exposed_times_by_interval(owned, kinds, when)) == expected
