"""Heights over time, their means in stretches, and the stretches themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats.device_occupancy import bucket_edges, bucket_size, sum_interval_heights

US = 10**6


def test_a_length_is_cut_by_a_round_number() -> None:
    lengths = (0, 200, 201, 401, 1001, 1_000_000)
    assert [bucket_size(length * US) // US for length in lengths] == [1, 1, 2, 5, 10, 5000]
    assert bucket_size(100 * US, 10) == 10 * US


def test_the_last_stretch_takes_in_what_is_left() -> None:
    start, end = bucket_edges(5, 37, 10)
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == [(5, 15), (15, 25), (25, 37)]
    assert bucket_edges(5, 8, 10)[1].tolist() == [8]
    assert len(bucket_edges(5, 5, 10)[0]) == 0


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 8)), max_size=12),
    st.lists(st.tuples(st.integers(0, 25), st.integers(0, 10)), min_size=1, max_size=6),
    st.sampled_from([0.5, 1.0, 100.0]),
)
def test_integrals_against_a_loop(
    parts: list[tuple[int, int, int]], windows: list[tuple[int, int]], most: float
) -> None:
    start = np.array([at for at, _, _ in parts], np.int64)
    length, height = (np.array([part[n] for part in parts], np.int64) for n in (1, 2))
    curve = sum_interval_heights(start, start + length, {"": height / 4})[""].capped(most)
    low = np.array([at for at, _ in windows], np.int64)
    high = low + np.array([wide for _, wide in windows], np.int64)
    expected = [
        sum(min(most, sum(h / 4 for s, n, h in parts if s <= now < s + n)) for now in range(a, b))
        for a, b in zip(low.tolist(), high.tolist(), strict=True)
    ]
    assert curve.integral(low, high).tolist() == pytest.approx(expected, abs=1e-5)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=12), st.floats(0, 2.0**40))
def test_a_height_is_what_it_was_and_nothing_where_all_have_ended(parts: list[tuple[int, int]], height: float) -> None:
    start = np.array([at for at, _ in parts], np.int64)
    end = start + np.array([length for _, length in parts], np.int64)
    curve = sum_interval_heights(start, end, {"": np.full(len(parts), height)})[""]
    assert curve.height[-1] == 0
    now = start.max()
    running = int(((start <= now) & (end > now)).sum())
    at = np.searchsorted(curve.time, now, side="right") - 1
    assert curve.height[at] == pytest.approx(running * height, rel=1e-15, abs=1e-17)
