"""Sequences side by side: nothing is lost or turned round, and no other way matches more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.diff import aligned_steps
from tracehound.diff.aligned_steps import UNALIGNED, SequenceAlignment, align_sequences

SEQUENCES = st.lists(st.integers(0, 4), max_size=40)


def longest(base: list[int], other: list[int]) -> int:
    """The length of a longest common subsequence, cell by cell."""
    row = [0] * (len(other) + 1)
    for one in base:
        above = row[:]
        for at, another in enumerate(other):
            row[at + 1] = above[at] + 1 if one == another else max(above[at + 1], row[at])
    return row[-1]


def slots(base: list[int], other: list[int]) -> SequenceAlignment:
    return align_sequences(np.array(base, np.int64), np.array(other, np.int64))


def check(base: list[int], other: list[int]) -> int:
    """That it is an alignment of both; how many elements match."""
    found = slots(base, other)
    assert found.baseline[found.baseline != UNALIGNED].tolist() == list(range(len(base)))
    assert found.candidate[found.candidate != UNALIGNED].tolist() == list(range(len(other)))
    both = (found.baseline != UNALIGNED) & (found.candidate != UNALIGNED)
    assert all(base[x] == other[y] for x, y in zip(found.baseline[both], found.candidate[both], strict=True))
    assert not ((found.baseline == UNALIGNED) & (found.candidate == UNALIGNED)).any()
    return int(both.sum())


@given(SEQUENCES, SEQUENCES)
def test_it_matches_as_many_as_a_longest_common_subsequence(base: list[int], other: list[int]) -> None:
    assert check(base, other) == longest(base, other)


@given(SEQUENCES, st.data())
def test_what_was_taken_out_and_put_in_is_all_that_is_alone(base: list[int], data: st.DataObject) -> None:
    keep = data.draw(st.lists(st.booleans(), min_size=len(base), max_size=len(base)))
    other = [each for each, kept in zip(base, keep, strict=True) if kept]
    assert check(base, other) == len(other)
    assert check(other, base) == len(other)


@given(SEQUENCES, SEQUENCES, st.integers(0, 3))
def test_in_pieces_it_is_an_alignment_still(base: list[int], other: list[int], most: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(aligned_steps, "MAX_EDITS", most)
        assert check(base, other) <= longest(base, other)


def test_of_what_does_not_match_the_base_comes_first() -> None:
    found = slots([1, 2, 3, 9], [1, 7, 8, 3, 9, 5])
    assert found.baseline.tolist() == [0, 1, UNALIGNED, UNALIGNED, 2, 3, UNALIGNED]
    assert found.candidate.tolist() == [0, UNALIGNED, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("base", "other", "expected"), [([], [], 0), ([1], [], 1), ([], [1, 2], 2), ([1], [2], 2)])
def test_with_nothing_in_common_every_element_has_its_own_slot(
    base: list[int], other: list[int], expected: int
) -> None:
    assert len(slots(base, other).baseline) == expected


def test_a_layer_that_repeats_and_one_that_is_new_in_each() -> None:
    layer, rng = list(range(12)), np.random.default_rng(0)
    base = layer * 800
    other = [each for number in range(800) for each in (*layer, *([99] if number % 3 == 0 else []))]
    assert check(base, other) == len(base)
    swapped = np.array(base)
    swapped[rng.choice(len(base), 300, replace=False)] = 77
    assert check(base, swapped.tolist()) == len(base) - 300
