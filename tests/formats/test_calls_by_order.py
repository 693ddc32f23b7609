"""Executions of which no id tells the call: which it is, by the order of both."""

from __future__ import annotations

import numpy as np
import pytest

from tracehound.formats.assembly.event_batches import EventRows
from tracehound.formats.assembly.launch_links import (
    UNNAMED_FUNCTION,
    FunctionNumbers,
    are_consecutive_runs,
    lacks_call_ids,
    pair_executions_with_calls,
)
from tracehound.formats.spill import MaskedColumn


@pytest.mark.parametrize(
    ("called", "begun", "calls"),
    [
        ([0, 10, 20], [5, 15, 25], [0, 1, 2]),
        ([0, 1, 2], [5, 15, 25], [0, 1, 2]),  # the host runs ahead
        ([10, 20], [5, 15, 25], [-1, 0, 1]),  # the first was called for before the profile began
        ([10, 20, 30], [5, 15, 25], [-1, 0, 1]),  # and the last call's execution lies behind its end
        ([100], [5, 15], [-1, -1]),
        (list(range(20)), [25, 26], [-1, -1]),  # most calls execute elsewhere
        ([], [5], [-1]),
    ],
)
def test_executions_are_called_for_in_turn(called: list[int], begun: list[int], calls: list[int]) -> None:
    assert pair_executions_with_calls(np.array(begun, np.int64), np.array(called, np.int64)).tolist() == calls


def test_calls_of_which_no_function_is_told_may_be_of_any() -> None:
    called, begun = np.array([0, 10]), np.array([5, 15, 20, 30, 40])
    assert pair_executions_with_calls(begun, called).tolist() == [-1, 0, 1, -1, -1], (
        "three more than calls: one was before the profile"
    )
    assert pair_executions_with_calls(begun, called, 3).tolist() == [0, 1, -1, -1, -1]


def test_a_program_is_known_by_the_function_that_was_called() -> None:
    functions = FunctionNumbers()
    f, none, unnamed, partial = functions.of_calls(
        ["PjitFunction(f)", "PjRtCpuExecutable::Execute", "PjitFunction(<lambda>)", "PjitFunction(a b)"]
    )
    assert none == UNNAMED_FUNCTION
    assert functions.of_calls(["PjitFunction(f)", "PjitFunction(jit(f))"]).tolist() == [f, f]
    programs = ["jit_f(12)", "jit_f", "jit__lambda_(3)", "jit__lambda(3)", "jit_a_b(4)", "jit_g(5)", "SyncTensors", ""]
    assert functions.of_programs(programs).tolist() == [
        f,
        f,
        unnamed,
        unnamed,
        partial,
        UNNAMED_FUNCTION,
        UNNAMED_FUNCTION,
        UNNAMED_FUNCTION,
    ]


def test_only_runs_of_one_program_tell_the_order_in_which_it_was_called() -> None:
    assert [are_consecutive_runs(np.array(runs, np.int64)) for runs in ([7, 8, 10], [-3], [7, 2**40], [])] == [
        True, True, False, False,
    ]  # fmt: skip


def test_executions_with_ids_of_calls_or_on_several_devices_do_not_go_by_turns() -> None:
    none, two = np.empty(0, np.int64), np.zeros(2, np.int64)
    plain = {"start": MaskedColumn(np.array([0, 1])), "end": MaskedColumn(np.array([1, 2]))}
    assert lacks_call_ids(EventRows(two, plain, 0), two)
    assert not lacks_call_ids(EventRows(two, plain, 0), np.array([0, 1]))
    assert not lacks_call_ids(EventRows(none, {"start": MaskedColumn(none), "end": MaskedColumn(none)}, 0), none)
    id_ = MaskedColumn(np.array([0, 7]), np.array([False, True]))
    told = [lacks_call_ids(EventRows(two, {**plain, name: id_}, 0), two) for name in ("run", "consumes", "correlation")]
    assert told == [True, False, False]
