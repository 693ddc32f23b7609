"""Sums of groups, against a loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracehound.numeric.trees import sum_groups


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-(2**40), 2**40)), max_size=20))
def test_sums_of_groups(rows: list[tuple[int, int]]) -> None:
    group, value = np.array(rows, np.int64).reshape(-1, 2).T
    expected = [sum(value for number, value in rows if number == each) for each in range(4)]
    assert sum_groups(group, value, 4).tolist() == expected
