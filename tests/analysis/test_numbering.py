"""Numbers of what is alike, against a dictionary."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis.numbering import alike, codes, one_of_each

KEYS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2) | st.integers(10**6, 10**6 + 2)), max_size=30)


@given(KEYS)
def test_combinations_of_keys(rows: list[tuple[int, int]]) -> None:
    """Whether or not the numbers that occur are close to one another."""
    number, first = alike(*np.array(rows, np.int64).reshape(-1, 2).T)
    combinations = sorted(set(rows))
    assert number.tolist() == [combinations.index(row) for row in rows]
    assert first.tolist() == [rows.index(row) for row in combinations]


@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=20))
def test_categories(values: list[str | None]) -> None:
    found = codes(pl.Series(values, dtype=pl.Categorical)).tolist()
    pairs = set(zip(found, values, strict=True))
    assert len(pairs) == len({number for number, _ in pairs}) == len(set(values))
    assert all(number == 0 for number, value in zip(found, values, strict=True) if value is None)
    of_each = one_of_each(np.array(found, np.int64))
    assert sorted(found[row] for row in of_each) == sorted(set(found))
