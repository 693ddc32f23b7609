"""Sequences side by side: nothing is lost or turned round, and no other way matches more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.diff import aligned_steps
from tracehound.diff.aligned_steps import UNALIGNED, SequenceAlignment, align_sequences

SEQUENCES = st.lists(st.integers(0, 4), max_size=40)


def longest(baseline: list[int], candidate: list[int]) -> int:
    """The length of a longest common subsequence, cell by cell."""
    row = [0] * (len(candidate) + 1)
    for one in baseline:
        above = row[:]
        for at, another in enumerate(candidate):
            row[at + 1] = above[at] + 1 if one == another else max(above[at + 1], row[at])
    return row[-1]


def slots(baseline: list[int], candidate: list[int]) -> SequenceAlignment:
    return align_sequences(np.array(baseline, np.int64), np.array(candidate, np.int64))


def check(baseline: list[int], candidate: list[int]) -> int:
    """That it is an alignment of both; how many elements match."""
    found = slots(baseline, candidate)
    assert found.baseline[found.baseline != UNALIGNED].tolist() == list(range(len(baseline)))
    assert found.candidate[found.candidate != UNALIGNED].tolist() == list(range(len(candidate)))
    both = (found.baseline != UNALIGNED) & (found.candidate != UNALIGNED)
    assert all(baseline[x] == candidate[y] for x, y in zip(found.baseline[both], found.candidate[both], strict=True))
    assert not ((found.baseline == UNALIGNED) & (found.candidate == UNALIGNED)).any()
    return int(both.sum())


@given(SEQUENCES, SEQUENCES)
def test_it_matches_as_many_as_a_longest_common_subsequence(baseline: list[int], candidate: list[int]) -> None:
    assert check(baseline, candidate) == longest(baseline, candidate)


@given(SEQUENCES, st.data())
def test_what_was_taken_out_and_put_in_is_all_that_is_alone(baseline: list[int], data: st.DataObject) -> None:
    keep = data.draw(st.lists(st.booleans(), min_size=len(baseline), max_size=len(baseline)))
    candidate = [each for each, kept in zip(baseline, keep, strict=True) if kept]
    assert check(baseline, candidate) == len(candidate)
    assert check(candidate, baseline) == len(candidate)


@given(SEQUENCES, SEQUENCES, st.integers(0, 3))
def test_in_pieces_it_is_an_alignment_still(baseline: list[int], candidate: list[int], most: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(aligned_steps, "MAX_EDITS", most)
        assert check(baseline, candidate) <= longest(baseline, candidate)


def test_of_what_does_not_match_the_base_comes_first() -> None:
    found = slots([1, 2, 3, 9], [1, 7, 8, 3, 9, 5])
    assert found.baseline.tolist() == [0, 1, UNALIGNED, UNALIGNED, 2, 3, UNALIGNED]
    assert found.candidate.tolist() == [0, UNALIGNED, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"), [([], [], 0), ([1], [], 1), ([], [1, 2], 2), ([1], [2], 2)]
)
def test_with_nothing_in_common_every_element_has_its_own_slot(
    baseline: list[int], candidate: list[int], expected: int
) -> None:
    assert len(slots(baseline, candidate).baseline) == expected


def test_a_layer_that_repeats_and_one_that_is_new_in_each() -> None:
    layer, rng = list(range(12)), np.random.default_rng(0)
    baseline = layer * 800
    candidate = [each for number in range(800) for each in (*layer, *([99] if number % 3 == 0 else []))]
    assert check(baseline, candidate) == len(baseline)
    swapped = np.array(baseline)
    swapped[rng.choice(len(baseline), 300, replace=False)] = 77
    assert check(baseline, swapped.tolist()) == len(baseline) - 300
