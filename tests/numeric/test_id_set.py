"""Rows of numbers, against a dictionary and a join."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tracehound.numeric.id_set import (
    find_rows,
    look_up_rows,
    make_id_set,
    membership_mask,
    sorted_distinct,
    union_id_sets,
)
from tracehound.numeric.native import row_loops

FAR = 2**62


@pytest.mark.parametrize("compiled", [True, False])
@given(
    first=st.sampled_from([0, 7, FAR]),
    gaps=st.lists(st.sampled_from([1, 1, 1, 3, 1000]), max_size=12),
    wanted=st.lists(st.integers(-3, 30) | st.sampled_from([1006, FAR, FAR + 2, 2**63 - 1, -(2**63)]), max_size=20),
)
def test_rows_of_ids(*, compiled: bool, first: int, gaps: list[int], wanted: list[int]) -> None:
    """Of ids that follow one another, that have gaps between them, and that are far apart."""
    ids = (first + np.cumsum([0, *gaps])).tolist()
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(row_loops, "library", lambda: None)
        found = find_rows(np.array(ids, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [ids.index(each) if each in ids else -1 for each in wanted]


def test_no_rows_have_no_ids() -> None:
    assert find_rows(np.empty(0, np.int64), np.array([0, -1])).tolist() == [-1, -1]


@given(numbers=st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)))
def test_each_number_once_in_order(numbers: list[int]) -> None:
    assert sorted_distinct(np.array(numbers, np.int64)).tolist() == sorted(set(numbers))


@given(*[st.lists(st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]))] * 2)
def test_which_numbers_are_among_others(numbers: list[int], others: list[int]) -> None:
    found = membership_mask(np.array(numbers, np.int64), np.array(others, np.int64))
    assert found.tolist() == [number in others for number in numbers]


@given(
    parts=st.lists(st.lists(st.integers(-9, 40)), max_size=4),
    far=st.lists(st.sampled_from([10**6, -(2**63), 2**63 - 1]), max_size=1),
    wanted=st.lists(st.integers(-20, 60) | st.sampled_from([10**6, -(2**63), 2**63 - 1])),
)
def test_members_come_in_several_parts(parts: list[list[int]], far: list[int], wanted: list[int]) -> None:
    """Those that lie close together, and with one that is far from the others."""
    every = [*parts, far]
    found = union_id_sets([make_id_set(np.array(part, np.int64)) for part in every])
    assert sorted({each for part in every for each in part}) == found.to_array().tolist()
    found = found.has(np.array(wanted, np.int64))
    assert found.tolist() == [number in {each for part in every for each in part} for number in wanted]


NUMBERS = st.lists(st.none() | st.integers(0, 12) | st.sampled_from([1000, FAR, -FAR]), max_size=20)


@given(numbers=NUMBERS, wanted=NUMBERS, ordered=st.booleans())
def test_rows_are_looked_up_as_a_join_finds_them(
    numbers: list[int | None], wanted: list[int | None], *, ordered: bool
) -> None:
    """Of several rows with a number the first, and nothing for null."""
    words = pl.Series([f"word {row % 3}" for row in range(len(numbers))], dtype=pl.Categorical())
    told = pl.DataFrame({"number": pl.Series(numbers, dtype=pl.Int64), "word": words, "row": range(len(numbers))})
    told = told.sort("number", maintain_order=True) if ordered else told
    asked = pl.DataFrame({"number": pl.Series(wanted, dtype=pl.Int64)})
    once = told.unique("number", keep="first", maintain_order=True)
    joined = asked.join(once, on="number", how="left", maintain_order="left").drop("number")
    assert_frame_equal(look_up_rows(told, "number", asked["number"]), joined)
