"""Annotations and modules in the steps of a run: exact numbers of a small one, and a slow loop over any."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import measured
from test_run_comparison import compared

from building import Building, Lane, stream, thread
from tracehound.diff import RunProfile, compare_runs
from tracehound.model.trace import Trace

US = 1_000_000
MARKED = ["annotations", "modules"]


def story(forward: float = 500, again: str = "iteration") -> Trace:
    """Five steps: an annotation around a module that launches a kernel, which runs after the annotation has ended."""
    built = Building()
    for step in range(5):
        begin = step * 2000
        built.event(thread(), "forward", begin + 100, begin + 100 + forward, "annotation")
        built.event(thread(), "forward", begin + 110, begin + 120, "annotation")
        built.event(thread(), "nn.Module: Linear_0", begin + 200, begin + 300, "python")
        built.event(thread(), "helper.py(3): work", begin + 210, begin + 290, "python")
        built.event(thread(), "cudaLaunchKernel", begin + 220, begin + 223, "runtime", correlation=step + 1)
        built.event(stream(), "gemm", begin + 900, begin + 1200, correlation=step + 1)
        built.event(thread("loader"), f"{again} {step}", begin + 1500, begin + 1600, "annotation")
        built.event(Lane("marks"), "s", begin, begin + 2000, "step", step=step)
    return built.trace()


def told(found: RunProfile, step: int) -> dict[str, tuple[str, float, float]]:
    rows = found.measures.filter(pl.col("topic").is_in(MARKED) & (pl.col("step") == step))
    return {name: (topic, count, time) for topic, name, count, time in rows.drop("step").rows()}


@pytest.mark.parametrize("step", range(5))
def test_a_mark_has_its_time_and_that_of_what_it_launched(step: int) -> None:
    assert told(measured(story()), step) == {
        "forward: host": ("annotations", 1, 500 * US),
        "forward: device": ("annotations", 1, 300 * US),
        "iteration: host": ("annotations", 1, 100 * US),
        "Linear: host": ("modules", 1, 100 * US),
        "Linear: device": ("modules", 1, 300 * US),
    }, "a nested one of the same name is the same, and a number tells only one round or layer from the next"


def test_what_changed_is_the_mark_that_was_planted() -> None:
    found = compared(story(), story(forward=700))
    (section,) = (each for each in found.sections if each.analysis == "diff-marks")
    changed = {row["mark"]: row["change"] for row in section.table.to_dicts() if row["change"]}
    assert changed == {"forward: host": 200 * US}


def test_what_one_run_alone_marks_is_added_or_removed() -> None:
    found = compared(story(), story(again="round"))
    (section,) = (each for each in found.sections if each.analysis == "diff-marks")
    verdicts = dict(section.table.select("mark", "verdict").iter_rows())
    assert (verdicts.pop("iteration: host"), verdicts.pop("round: host")) == ("removed", "added")
    assert set(verdicts.values()) == {"the same"}


def test_marks_of_a_run_without_a_device_are_compared() -> None:
    built = Building()
    for step in range(4):
        built.event(thread(), "forward", step * 100 + 10, step * 100 + 60, "annotation")
        built.event(thread(), "aten::mm", step * 100 + 20, step * 100 + 50, "op")
        built.event(Lane("marks"), "s", step * 100, step * 100 + 100, "step", step=step)
    assert told(measured(built.trace()), 2) == {"forward: host": ("annotations", 1, 50 * US)}


spans = st.lists(st.tuples(st.integers(0, 700), st.integers(1, 400), st.sampled_from("ab"), st.integers(0, 1)))
kernels = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 300), st.integers(1, 200), st.integers(0, 1)))


@given(spans, kernels)
def test_any_marks_against_a_slow_loop(marked, launched) -> None:
    built = Building()
    built.event(stream(), "first", 0, 1)
    for start, length, name, lane in marked:
        built.event(thread(str(lane)), name, start, start + length, "annotation")
    for number, (called, later, length, lane) in enumerate(launched, start=1):
        built.event(thread(str(lane)), "cudaLaunchKernel", called, called, "runtime", correlation=number)
        built.event(stream(), "k", called + later, called + later + length, correlation=number)
    for step in range(3):
        built.event(Lane("marks"), "s", step * 300, step * 300 + 300, "step", step=step)
    found = measured(built.trace())

    def is_open(name: str, lane: int, at: int) -> bool:
        return any(own == lane and n == name and start <= at < start + length for start, length, n, own in marked)

    for step, low, high in found.step_intervals.select("step", pl.col("start", "end") // US).rows():
        expected = Counter[str]()
        for at in range(low, high):
            for name in "ab":
                expected[f"{name}: host"] += sum(is_open(name, lane, at) for lane in (0, 1)) * US
                running = [call for call in launched if call[0] + call[1] <= at < call[0] + call[1] + call[2]]
                expected[f"{name}: device"] += sum(is_open(name, lane, call) for call, _, _, lane in running) * US
        assert {name: time for name, (_, _, time) in told(found, step).items()} == dict(+expected)


@pytest.mark.thorough
def test_many_names_take_no_memory_for_the_steps_that_they_are_not_in() -> None:
    steps, names = 1000, 5000
    built = Building()
    for number in range(names):
        begin = number * 10
        built.event(thread(), f"request-{number}-", begin + 1, begin + 6, "annotation")
    for step in range(steps):
        built.event(stream(), "gemm", step * 50 + 10, step * 50 + 40)
        built.event(Lane("marks"), "s", step * 50, step * 50 + 50, "step", step=step)
    trace = built.trace()
    tracemalloc.start()
    try:
        found = measured(trace)
        compare_runs(found, found)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.measures.filter(topic="annotations").height == names
    assert most < 20_000_000, "a number for each name and step is 40 MB"
