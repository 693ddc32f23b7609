"""Numbers of what is alike, against a dictionary."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis.timing import row_groups
from tracehound.analysis.timing.row_groups import (
    NameKindPairs,
    category_codes,
    group_rows,
    largest_row_per_group,
    largest_rows,
    match_ends_to_starts,
    occurring_numbers,
    value_change_rows,
)

KEYS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2) | st.integers(10**6, 10**6 + 2)), max_size=30)


@given(KEYS)
def test_combinations_of_keys(rows: list[tuple[int, int]]) -> None:
    """Whether or not the numbers that occur are close to one another."""
    number, first = group_rows(*np.array(rows, np.int64).reshape(-1, 2).T)
    combinations = sorted(set(rows))
    assert number.tolist() == [combinations.index(row) for row in rows]
    assert first.tolist() == [rows.index(row) for row in combinations]


@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=20))
def test_categories(values: list[str | None]) -> None:
    found = category_codes(pl.Series(values, dtype=pl.Categorical)).tolist()
    pairs = set(zip(found, values, strict=True))
    assert len(pairs) == len({number for number, _ in pairs}) == len(set(values))
    assert all(number == 0 for number, value in zip(found, values, strict=True) if value is None)


NAMED = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from(["x", "y", None])), max_size=20)


@given(NAMED, st.sampled_from([4, 0]))
def test_pairs_of_categories(rows: list[tuple[str | None, str | None]], dense: int) -> None:
    """Of few categories, and of so many that no table of all pairs is made."""
    schema = {"name": pl.Categorical(), "kind": pl.Enum(["x", "y"])}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_groups, "_MAX_TABLE_FACTOR", dense)
        pairs = NameKindPairs(*pl.DataFrame(rows, schema, orient="row"))
    chosen = [rows[row] for row in pairs.rows]
    assert len(chosen) == len(set(rows))
    assert set(chosen) == set(rows)
    assert [chosen[number] for number in pairs.expand_to_rows(np.arange(len(chosen), dtype=np.int8))] == rows
    assert [chosen[number] for number in pairs.pair_numbers] == rows


VALUES = st.lists(st.tuples(st.integers(-1, 3), st.integers(-9, 9), st.integers(0, 2)), max_size=20)


@given(VALUES)
def test_the_largest_of_groups(rows: list[tuple[int, int, int]]) -> None:
    group, value, other = np.array(rows, np.int64).reshape(-1, 3).T
    of_group = [[row for row, (number, _, _) in enumerate(rows) if number == each] for each in range(4)]
    largest = [max(mine, key=lambda row: rows[row][1:], default=-1) for mine in of_group]
    assert largest_row_per_group(group, value, other, 4).tolist() == largest


@given(st.lists(st.integers(-3, 3), max_size=12), st.none() | st.integers(0, 14))
def test_the_largest_of_all(values: list[int], many: int | None) -> None:
    found = largest_rows(np.array(values, np.int64), many).tolist()
    assert found == sorted(range(len(values)), key=lambda row: (-values[row], row))[:many]


@given(st.lists(st.integers(0, 5), max_size=12), st.sampled_from([np.uint8, np.uint32, np.int64]))
def test_which_numbers_occur_and_where_they_change(numbers: list[int], kind: type) -> None:
    values = np.array(numbers, kind)
    assert np.flatnonzero(occurring_numbers(values)).tolist() == sorted(set(numbers))
    assert value_change_rows(values).tolist() == [i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1]]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=25), st.randoms())
def test_ends_take_the_earliest_starts(rows: list[tuple[bool, int]], random: Random) -> None:
    """Against a queue for each group."""
    rows.sort()
    starts = sum(not is_end for is_end, _ in rows)
    order = random.sample(range(len(rows)), len(rows))
    waiting: dict[int, list[int]] = {}
    expected = [-1] * (len(rows) - starts)
    for row in order:
        queue = waiting.setdefault(rows[row][1], [])
        if row < starts:
            queue.append(row)
        elif queue:
            expected[row - starts] = queue.pop(0)
    group = np.array([number for _, number in rows], np.int64)
    assert match_ends_to_starts(group, np.array(order, np.intp), starts).tolist() == expected
