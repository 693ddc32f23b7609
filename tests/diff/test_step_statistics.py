"""Quantities of which only what is not 0 is held: as numpy says of all cells, and small however many these are."""

from __future__ import annotations

import tracemalloc

import numpy as np
import polars as pl
import pytest

from short import first
from tracehound.diff import RunProfile, compare_runs
from tracehound.diff.op_identity import DEVICE_WORK, IDENTITY_COLUMNS
from tracehound.diff.run_profile import STEP_PARTS
from tracehound.diff.step_statistics import (
    CHANGE_PROBABILITY,
    MAX_TESTED_STEPS,
    MIN_STEPS,
    _first_proportional_column,
    change_probabilities,
    join_quantities,
    quantities_of_array,
    stack_steps,
    sum_quantities,
)

MB = 1_000_000


@pytest.mark.parametrize("seed", first(10, range(30)))
def test_they_are_as_numpy_says_of_all_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 12, 2)
    cells = np.round(rng.normal(rng.choice([0, 5]), 3, shape)) * (rng.random(shape) < rng.random())
    found = quantities_of_array(cells)
    assert np.array_equal(found.dense_columns(0, shape[1]), cells.T)
    assert np.allclose(found.means, cells.mean(axis=0), rtol=1e-15)
    assert np.array_equal(found.medians, np.median(cells, axis=0))
    assert np.allclose(found.spreads, cells.std(axis=0), rtol=1e-14)
    several = len(cells) > 1
    sample = cells.std(axis=0, ddof=1) if several else np.full(cells.shape[1], np.nan)
    assert np.allclose(found.sample_spreads, sample, rtol=1e-14, equal_nan=True)
    assert np.allclose(found.means_minus(found.medians), (cells - np.median(cells, axis=0)).mean(axis=0), atol=1e-14)
    order = rng.permutation(shape[1])[: shape[1] // 2]
    assert np.array_equal(found.select_columns(order).dense_columns(0, len(order)), cells[:, order].T)
    more = quantities_of_array(cells[::-1])
    assert np.array_equal(stack_steps(found, more).dense_columns(0, shape[1]), np.vstack([cells, cells[::-1]]).T)
    assert np.array_equal(
        join_quantities([found, more]).dense_columns(0, 2 * shape[1]), np.hstack([cells, cells[::-1]]).T
    )


def test_what_lies_in_one_cell_is_added_up() -> None:
    found = sum_quantities(np.array([1, 0, 1]), np.array([2, 0, 2]), np.array([3.0, 4.0, 5.0]), (2, 3))
    assert found.dense_columns(0, 3).tolist() == [[4, 0], [0, 0], [0, 8]]


def test_without_steps_all_is_0() -> None:
    none = quantities_of_array(np.empty((0, 2)))
    assert [each.tolist() for each in (none.means, none.medians, none.spreads)] == [[0, 0]] * 3


def test_folded_are_the_averages_of_neighbors() -> None:
    found = quantities_of_array(np.array([[1.0], [3.0], [10.0], [0.0], [5.0]]))
    assert found.average_neighbors(2).dense_columns(0, 1).tolist() == [[4.666666666666667, 2.5]]
    assert found.average_neighbors(1) is found


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [(3 * MAX_TESTED_STEPS, 2 * MAX_TESTED_STEPS), (MAX_TESTED_STEPS + 1, MIN_STEPS), (3 * MAX_TESTED_STEPS, 50)],
)
def test_a_change_of_one_among_many_steps_is_found(baseline: int, candidate: int) -> None:
    rng = np.random.default_rng(baseline)
    sides = [rng.normal(100, 1, (height, 20)) for height in (baseline, candidate)]
    sides[1][:, 3] += 5
    found = change_probabilities(*map(quantities_of_array, sides))
    assert found is not None
    assert np.flatnonzero(found <= CHANGE_PROBABILITY).tolist() == [3]


@pytest.mark.parametrize(("runs", "apart"), first(1, ((8, 1000), (8, 5000), (20, 5000))))
def test_neighbors_that_resemble_each_other_are_no_more_than_one(runs: int, apart: int) -> None:
    """Of many steps five in a row are the same: there is less to tell from than it seems."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(runs):
        sides = [np.repeat(rng.normal(100, 1, (apart, 1)), 5, axis=0) for _ in range(2)]
        found = change_probabilities(*map(quantities_of_array, sides))
        assert found is not None
        wrong += bool(found[0] <= CHANGE_PROBABILITY)
    assert wrong <= 1


def test_multiples_of_a_column_are_looked_at_once() -> None:
    rng = np.random.default_rng(0)
    cells = np.zeros((40, 3000))
    cells[rng.integers(0, 40, 3000), np.arange(3000)] = rng.integers(1, 1000, 3000)
    assert len(np.unique(_first_proportional_column(quantities_of_array(cells)))) == 40
    cells[:, 1] = 7 * cells[:, 0]
    cells[0, 1] += 1
    assert _first_proportional_column(quantities_of_array(cells[:, :2])).tolist() == [0, 1]


def rare(steps: int, names: int, seed: int) -> RunProfile:
    """A run of many steps and ops, of which each step has two: nowhere is there a number for each step and op."""
    rng = np.random.default_rng(seed)
    step = np.repeat(np.arange(steps), 2)
    op = (2 * step + np.tile([0, 1], steps)) % names
    time = rng.normal(1e6, 1e4, len(step)).round()
    named = {column: pl.repeat("", len(step), eager=True) for column in IDENTITY_COLUMNS}
    named["name"] = pl.Series(op).cast(pl.String)
    ops = {"step": step, **named, "count": np.ones(len(step)), "time": time, "exposed": time}
    length = time.reshape(steps, 2).sum(axis=1)
    parts = {name: length if name == "compute" else np.zeros(steps) for name in STEP_PARTS}
    of_steps = {"step": np.arange(steps), "ranks": np.ones(steps, np.int64), "duration": length, **parts}
    of_steps["phase"] = [""] * steps
    return RunProfile("rare", 1, "steps", DEVICE_WORK, pl.DataFrame(of_steps), pl.DataFrame(ops))


@pytest.mark.thorough
def test_many_steps_of_many_ops_take_little_memory() -> None:
    baseline, candidate = rare(5000, 500, 0), rare(5000, 500, 1)
    tracemalloc.start()
    try:
        found = compare_runs(baseline, candidate)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 120 * MB, "a matrix of all steps and ops is 40 MB for each side and quantity"
    assert found.ops.table.height == 500
    assert set(found.ops.table["verdict"]) == {"unclear", "noise"}, "next to none of them by less than anyone prints"
