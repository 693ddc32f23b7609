"""Executions without ids: which call each is of, by the order of both."""

from __future__ import annotations

import numpy as np
import pytest

from tracehound.formats.assembly.batches import Rows
from tracehound.formats.assembly.links import Launches, untold
from tracehound.formats.spill import Column

NONE = np.empty(0, np.int64)


def in_turn(called: list[int], begun: list[int]) -> list[int]:
    """The place of the call of each execution, -1 for none."""
    ids, steps = np.arange(len(called)), np.zeros(len(called), np.int32)
    executes, none = np.array(called, np.int64), (None, None, None)
    launches = Launches((NONE, NONE, NONE), (0, 0, 0, 0), ids, steps, none, executes, np.zeros(1, np.int64))
    start = Column(np.array(begun, np.int64))
    found: list[int] = launches.in_turn(Rows(np.zeros(len(begun), np.int64), {"start": start}, 0)).tolist()
    return found


@pytest.mark.parametrize(
    ("called", "begun", "calls"),
    [
        ([0, 10, 20], [5, 15, 25], [0, 1, 2]),
        ([0, 1, 2], [5, 15, 25], [0, 1, 2]),  # the host runs ahead
        ([10, 20], [5, 15, 25], [-1, 0, 1]),  # the first was called for before the profile began
        ([10, 20, 30], [5, 15, 25], [-1, 0, 1]),  # and the last call's execution lies behind its end
        ([0, 10, 20], [25, 5, 15], [2, 0, 1]),
        ([100], [5, 15], [-1, -1]),
        (list(range(20)), [25, 26], [-1, -1]),  # most calls execute elsewhere
        ([], [5], [-1]),
    ],
)
def test_executions_are_called_for_in_turn(called: list[int], begun: list[int], calls: list[int]) -> None:
    assert in_turn(called, begun) == calls


def test_executions_with_ids_or_on_several_devices_do_not_go_by_turns() -> None:
    two = np.zeros(2, np.int64)
    plain = {"start": Column(np.array([0, 1])), "end": Column(np.array([1, 2]))}
    assert untold(Rows(two, plain, 0), two)
    assert not untold(Rows(two, plain, 0), np.array([0, 1]))
    assert not untold(Rows(NONE, {"start": Column(NONE), "end": Column(NONE)}, 0), NONE)
    run = Column(np.array([0, 7]), np.array([False, True]))
    assert not untold(Rows(two, {**plain, "run": run}, 0), two)
