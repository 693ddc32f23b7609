"""Findings on the steps of XLA programs: input, output, the host, and time that is not recorded."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from building import US, Building, Lane
from finding_runs import (
    MAIN,
    Row,
    find_row,
    find_rows,
    has_share,
    has_time,
    location,
    only_row,
    read_rows,
    rows_with,
)
from tracehound.analysis.findings.advice import _PYTORCH_XLA, _XLA, COPIES_IN_DEVICE

OPS = Lane("XLA Ops", 0, "ops", work=True)
POOL = Lane("tf_pool")
MAY_BE_INPUT = "the run may be input-bound"
WAITS_FOR_HOST = "the device waits for the host"
BETWEEN_STEPS = "time passes between steps"


def make_xla_steps(busy: float, pause: float = 0) -> Building:
    """Four marked steps of 100 us of an XLA program, whose device works for the first part of each."""
    b = Building(format="xplane")
    for number in range(4):
        start = number * (100 + pause)
        b.event(MAIN, "train", start, start + 100, "step", step=number)
        b.event(OPS, "fusion.1", start, start + busy, "op", step=number)
    return b


def step_starts(b: Building) -> list[float]:
    return [float(str(row["start"])) / US for row in b.rows if row["kind"] == "step"]


def fill_steps(busy: float, lane: Lane, name: str, kind: str) -> Building:
    """Steps like these, and for the rest of each an event."""
    b = make_xla_steps(busy)
    for start in step_starts(b):
        b.event(lane, name, start + busy, start + 100, kind)
    return b


def total_cost(rows: list[Row]) -> int:
    return sum(row["cost"] or 0 for row in rows)


@pytest.mark.parametrize(("length", "degree"), [(4, None), (6, "moderately"), (30, "highly")])
def test_input_of_an_xla_step_is_judged_by_xprof_s_thresholds(length: float, degree: str | None) -> None:
    rows = find_rows(fill_steps(100 - length, POOL, "PjRtComputationClient::TransferToDevice", "transfer").trace())
    if degree is None:
        assert rows_with(rows, "input-bound") == []
        return
    row = only_row(rows, degree, "input-bound")
    assert (row["cost"], row["share"]) == (length * US, pytest.approx(length / 100))
    assert has_time(row["evidence"], length * US)
    assert location(row) == (0, 0, 100)


@pytest.mark.thorough
def test_what_loads_data_for_an_xla_step_is_told_once() -> None:
    rows = find_rows(fill_steps(70, POOL, "IteratorGetNext", "runtime").trace())
    assert only_row(rows, "highly input-bound")["cost"] == 30 * US


def test_a_value_that_the_program_reads_is_named_and_no_output_besides() -> None:
    b = fill_steps(75, MAIN, "PjRtComputationClient::TransferFromDevice", "transfer")
    row = only_row(find_rows(b.trace()), "reading a value", "TransferFromDevice")
    assert (row["cost"], row["certainty"]) == (25 * US, "recorded")


@pytest.mark.thorough
def test_output_on_another_thread_is_judged_like_input() -> None:
    row = only_row(find_rows(fill_steps(75, POOL, "TransferFromDevice", "transfer").trace()), "highly output-bound")
    assert row["cost"] == 25 * US


def test_a_host_that_traces_is_told_where_launches_are_not_recorded() -> None:
    row = only_row(find_rows(fill_steps(50, MAIN, "StepMarker", "runtime").trace()), WAITS_FOR_HOST)
    assert row["cost"] == 50 * US
    assert "tracing the next step" in row["evidence"]
    assert has_share(row["evidence"], 0.5)


OF_JAX = re.compile(r"jax|\blax\b|\bjit\b|block_until_ready|NumPy|copy_to_host|flax|static arguments")
OF_TORCH = re.compile(r"torch|xm\.|xp\.|\.item\(\)|MpDeviceLoader")


@pytest.mark.thorough
def test_advice_for_jax_and_for_pytorch_xla_is_in_their_own_words() -> None:
    assert [topic for topic, words in _PYTORCH_XLA.items() if OF_JAX.search(words)] == []
    of_xla = _XLA.keys() - {COPIES_IN_DEVICE}  # which it calls HLO copies
    assert [topic for topic in of_xla if OF_TORCH.search(_XLA[topic])] == []


@pytest.mark.thorough
def test_users_of_jax_and_of_pytorch_xla_read_their_own_words(samples: Path) -> None:
    for name, others in (("torch_xla_spmd4", OF_JAX), ("torch_xla_remote", OF_JAX), ("jax_cpu8_b128", OF_TORCH)):
        rows = read_rows(samples / name)
        assert rows
        assert [row["advice"] for row in rows if others.search(row["advice"])] == []
    b = fill_steps(100 - 30, POOL, "TransferFromDevice", "transfer")
    assert "copy_to_host_async" in find_row(find_rows(b.trace()), "output-bound")["advice"]
    b.event(MAIN, "StepMarker", 10, 12, "runtime")
    assert "xm.add_step_closure" in find_row(find_rows(b.trace()), "output-bound")["advice"]


def test_time_between_steps_may_be_input() -> None:
    assert find_rows(make_xla_steps(100, pause=3).trace()) == []
    row = only_row(find_rows(make_xla_steps(100, pause=25).trace()), BETWEEN_STEPS)
    assert (row["cost"], row["share"], row["share_of"]) == (25 * US, pytest.approx(0.2), "step to step")
    assert location(row) == (0, 100, 25)


@pytest.mark.thorough
def test_time_between_steps_is_told_once() -> None:
    rows = find_rows(make_xla_steps(100, pause=900).trace())
    only_row(rows, BETWEEN_STEPS)


@pytest.mark.thorough
def test_idle_time_without_a_record_of_the_host_may_be_input() -> None:
    assert rows_with(find_rows(make_xla_steps(98).trace()), "input-bound") == []
    b = make_xla_steps(90)
    assert find_row(find_rows(b.trace()), MAY_BE_INPUT)["cost"] == 10 * US
    for start in step_starts(b):
        b.event(MAIN, "$time sleep", start + 91, start + 99, "python")
    rows = find_rows(b.trace())
    assert rows_with(rows, "input-bound") == []
    assert find_row(rows, "sleeping", "$time sleep")["cost"] == 10 * US


def test_idle_time_without_a_record_of_the_host_is_told_once() -> None:
    assert total_cost(find_rows(make_xla_steps(90).trace())) == 10 * US


def test_a_program_that_sleeps_is_told_once() -> None:
    b = make_xla_steps(90)
    for start in step_starts(b):
        b.event(MAIN, "$time sleep", start + 91, start + 99, "python")
    assert total_cost(find_rows(b.trace())) == 10 * US


@pytest.mark.thorough
@pytest.mark.parametrize("busy", [90, 100])
def test_a_guess_on_unrecorded_time_is_not_said_to_be_recorded(busy: float) -> None:
    rows = rows_with(find_rows(make_xla_steps(busy, pause=25).trace()), "may be input-bound")
    assert len(rows) == (1 if busy == 100 else 2)
    assert {row["certainty"] for row in rows} == {"not recorded"}


def make_late_steps(name: str, kind: str, until: float, *, launched: bool = True) -> Building:
    """Four steps of 100 us whose work begins after half of each; until some time the host does something."""
    b = Building(format="xplane")
    for number in range(4):
        start = number * 100
        b.event(MAIN, "train", start, start + 100, "step", step=number)
        if until:
            b.event(MAIN, name, start, start + until, kind)
        if launched:
            b.event(MAIN, "Execute", start + 49, start + 50, "runtime", correlation=number)
        b.event(OPS, "fusion.1", start + 50, start + 100, "op", step=number, correlation=number if launched else None)
    return b


@pytest.mark.thorough
def test_the_first_work_is_no_finding_of_its_own_where_the_host_keeps_the_device_waiting_in_every_step() -> None:
    rows = find_rows(make_late_steps("StepMarker", "runtime", 49, launched=False).trace())
    assert only_row(rows, WAITS_FOR_HOST)["cost"] == 49 * US


@pytest.mark.parametrize(("name", "kind", "words"), [("backend_compile", "compile", "compiling: backend_compile"),
                                                     ("$time sleep", "python", "$time sleep")])  # fmt: skip
def test_a_cause_with_a_name_is_told_once(name: str, kind: str, words: str) -> None:
    row = only_row(find_rows(make_late_steps(name, kind, 49).trace()), words)
    assert (row["cost"], row["certainty"]) == (50 * US, "recorded")


def test_compiling_counts_the_compilations_and_names_the_function() -> None:
    b = make_xla_steps(90)
    for start in step_starts(b):
        b.event(MAIN, "PjitFunction(ragged)", start + 10, start + 60, "runtime")
        b.event(MAIN, "lower_sharding_computation", start + 10, start + 20, "compile")
        b.event(MAIN, "backend_compile", start + 20, start + 60, "compile")
    trace = b.trace()
    row = find_row(find_rows(trace), "compiled", "ragged")
    assert "4 compilations" in row["evidence"], "lowering and compiling are two stages of one"
    assert has_time(row["evidence"], 200 * US)
    assert "ragged 4 times" in row["evidence"]
    assert trace.event(row["event"])["name"] == "backend_compile"


@pytest.mark.thorough
def test_the_longest_gap_is_of_those_of_the_cause() -> None:
    """The host compiles before the second step, and traces before the others."""
    b = Building(format="xplane")
    starts = (0, 100, 1000, 1100, 1200)
    for number, (start, until) in enumerate(pairwise((*starts, 1300))):
        b.event(MAIN, "train", start, until, "step", step=number)
        if number != 1:
            b.event(MAIN, "StepMarker", start, until - 52, "runtime")
        b.event(MAIN, "Execute", until - 51, until - 50, "runtime", correlation=number)
        b.event(OPS, "fusion.1", until - 50, until, "op", step=number, correlation=number)
    b.event(MAIN, "backend_compile", 100, 948, "compile")
    rows = find_rows(b.trace())
    assert location(find_row(rows, "backend_compile")) == (0, 100, 850)
    assert location(find_row(rows, "tracing the next step")) == (0, 1000, 50)


@pytest.mark.thorough
def test_a_gap_over_two_steps_is_one() -> None:
    b = Building(format="xplane")
    for number in range(4):
        start = number * 100
        b.event(MAIN, "train", start, start + 99, "step", step=number)
        b.event(MAIN, "Execute", start + 40, start + 41, "runtime", correlation=number)
        b.event(MAIN, "StepMarker", start + 2, start + 30, "runtime")
        b.event(OPS, "fusion.1", start + 42, start + 80, "op", step=number, correlation=number)
    row = find_row(find_rows(b.trace()), "tracing the next step")
    assert re.search(r"\b[45] gaps", row["evidence"]), "3 between the work of steps, and those at the ends"


@pytest.mark.thorough
def test_a_host_that_traces_is_told_though_the_first_work_came_late() -> None:
    b = Building(format="xplane")
    for number, start in enumerate((0, 300, 400, 500)):
        b.event(MAIN, "train", start, start + (300 if number == 0 else 100), "step", step=number)
        b.event(MAIN, "StepMarker", start + 10, start + (290 if number == 0 else 40), "runtime")
        b.event(OPS, "fusion.1", start + (290 if number == 0 else 40), start + (300 if number == 0 else 100), "op")
    find_row(find_rows(b.trace()), WAITS_FOR_HOST)


@pytest.mark.thorough
def test_copies_of_hlo_ops_within_the_device_are_not_advised_as_offloading() -> None:
    row = only_row(find_rows(fill_steps(90, OPS, "copy.1", "copy").trace()), "copies within the")
    assert row["cost"] == 10 * US
    assert "layout" in row["advice"]
    assert "offload" not in row["advice"]


def test_a_run_whose_copies_are_all_from_device_to_device_is_not_input_bound(shared: Path) -> None:
    rows = read_rows(shared / "traces" / "xla" / "jax_rocm_conv_legacy")
    assert rows_with(rows, "input-bound") == []
    find_row(rows, "a call that blocks", "PjRtStreamExecutorLoadedExecutable::Execute")
