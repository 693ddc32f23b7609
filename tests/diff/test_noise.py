"""The test of chance: exact on few steps, and no more often wrong than it says."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from short import first
from tracehound.diff.step_statistics import (
    CHANGE_PROBABILITY,
    LITTLE_CHANGE,
    is_little_change,
    quantities_of_array,
    significance_level,
)
from tracehound.diff.step_statistics import change_probabilities as of_quantities


def chances(baseline: np.ndarray, candidate: np.ndarray) -> np.ndarray | None:
    return of_quantities(quantities_of_array(baseline), quantities_of_array(candidate))


def slow(baseline: np.ndarray, candidate: np.ndarray) -> list[float]:
    """Every way to deal the labels, one after the other."""
    values = np.concatenate([baseline, candidate])
    spread = values.std(axis=0)
    spread[spread == 0] = 1
    values = values / spread
    size, seen = len(baseline), np.abs((baseline / spread).mean(axis=0) - (candidate / spread).mean(axis=0))
    dealt = []
    for chosen in combinations(range(len(values)), size):
        mine = np.isin(np.arange(len(values)), chosen)
        dealt.append(np.abs(values[mine].mean(axis=0) - values[~mine].mean(axis=0)))
    found = {}
    for column in sorted(range(len(seen)), key=lambda one: -seen[one]):
        rest = [one for one in range(len(seen)) if seen[one] <= seen[column]]
        largest = np.array([differences[rest].max() for differences in dealt])
        chance = float(np.mean(largest >= seen[column] * (1 - 1e-9)))
        found[column] = max([chance, *found.values()])
    return [found[column] for column in range(len(seen))]


@pytest.mark.parametrize("seed", range(10))
def test_few_steps_are_dealt_in_every_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    baseline, candidate = rng.normal(100, 5, (5, 3)), rng.normal(103, 5, (4, 3))
    found = chances(baseline, candidate)
    assert found is not None
    assert np.allclose(found, slow(baseline, candidate))


def test_little_is_told_only_where_chance_has_no_room_for_more() -> None:
    rng = np.random.default_rng(3)
    told = {}
    for steps, spread, change in ((400, 10, 1), (4, 10, 1), (400, 10, 9), (4, 0.1, 1)):
        baseline, candidate = rng.normal(100, spread, (steps, 1)), rng.normal(100 + change, spread, (steps, 1))
        told[steps, spread, change] = bool(
            is_little_change(quantities_of_array(baseline), quantities_of_array(candidate))[0]
        )
    assert LITTLE_CHANGE == 0.05
    assert list(told.values()) == [True, False, False, True]


def test_columns_that_do_not_vary_are_the_same() -> None:
    found = chances(np.full((6, 2), 7.0), np.full((5, 2), 7.0))
    assert found is not None
    assert found.tolist() == [1.0, 1.0]


def test_too_few_steps_tell_nothing() -> None:
    assert chances(np.ones((3, 1)), np.ones((50, 1))) is None


@pytest.mark.parametrize("columns", first(1, (40, 1)))
def test_chance_is_called_change_no_more_often_than_stated(columns: int) -> None:
    rng, runs, rare = np.random.default_rng(1), 400, 2 / 70
    wrong = 0
    for _ in range(runs):
        found = chances(rng.exponential(100, (4, columns)), rng.exponential(100, (4, columns)))
        assert found is not None
        wrong += bool((found <= rare).any())
    assert wrong / runs < rare + 3 * (rare * (1 - rare) / runs) ** 0.5


def test_few_steps_must_differ_as_much_as_they_can() -> None:
    assert significance_level(4, 4) == 2 / 70
    assert significance_level(5, 5) == significance_level(400, 300) == CHANGE_PROBABILITY
    apart = chances(np.arange(4.0)[:, None], np.arange(4.0)[:, None] + 10)
    assert apart is not None
    assert apart[0] == significance_level(4, 4)


def test_a_change_in_one_of_a_thousand_is_found() -> None:
    rng = np.random.default_rng(2)
    baseline, candidate = rng.normal(100, 1, (10, 1000)), rng.normal(100, 1, (10, 1000))
    candidate[:, 7] += 20
    found = chances(baseline, candidate)
    assert found is not None
    assert np.flatnonzero(found <= CHANGE_PROBABILITY).tolist() == [7]
