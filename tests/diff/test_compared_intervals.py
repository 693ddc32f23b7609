"""The steps that are compared last until what they launched is done: small stories, and random runs by a slow loop."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from runs import measured, run

from building import Building, Lane, stream, thread
from samples import sample
from short import first
from tracehound.analysis import step_parts
from tracehound.analysis.analysis_run import run_analysis
from tracehound.analysis.rank_trace import rank_traces
from tracehound.diff import compare_runs, load_baseline, profile_run, save_baseline
from tracehound.diff.compared_intervals import ComparedWork, compared_work
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window
from tracehound.store import merge_file_frames

US = 1_000_000

Work = tuple[float, float, float]
"""When a kernel is launched, begins and ends (us)."""


def story(marks: list[tuple[float, float]], work: list[Work], gone: list[tuple[float, float]] | None = None) -> Trace:
    """Steps on the host, kernels on a stream, and others that no recorded call launched."""
    built = Building()
    built.event(thread("first"), "begin", 0, 0, "other")
    for step, (start, end) in enumerate(marks):
        built.event(Lane("marks"), f"ProfilerStep#{step}", start, end, "step", step=step)
    for number, (called, start, end) in enumerate(work, 1):
        built.event(thread(), "cudaLaunchKernel", called, called + 1, "runtime", correlation=number)
        built.event(stream(), "gemm", start, end, correlation=number)
    for start, end in gone or []:
        built.event(stream(), "warm up", start, end)
    return built.trace()


def of(trace: Trace, window: Window | None = None) -> ComparedWork:
    (share,) = rank_traces(trace, window or Window())
    return compared_work(share)


def bounds(found: ComparedWork) -> list[tuple[int, float, float]]:
    when = found.intervals
    return [
        (number, start / US, end / US)
        for number, start, end in zip(when.number.tolist(), when.start.tolist(), when.end.tolist(), strict=True)
    ]


def test_a_step_lasts_until_its_work_is_done() -> None:
    found = measured(story([(0, 100)], [(10, 20, 60), (80, 90, 150)]))
    assert found.steps.select("duration", "compute", "idle").row(0) == (150 * US, 100 * US, 50 * US)
    assert found.outside == 0


def test_a_step_begins_when_the_one_before_is_done() -> None:
    found = of(story([(0, 100), (100, 200)], [(10, 50, 180), (110, 180, 260)]))
    assert bounds(found) == [(0, 0, 180), (1, 180, 260)]


def test_work_of_no_step_is_told_of() -> None:
    trace = story([(100, 200)], [(110, 120, 180)], gone=[(0, 20)])
    assert measured(trace).outside == 0.25
    notes = note_texts(compare_runs(measured(trace), measured(story([(100, 200)], [(110, 120, 180)]))).step.notes)
    assert "in no step, and not compared: 25.00 % of the baseline's and 0.00 % of the candidate's time of work" in notes


def test_of_a_window_the_whole_of_its_steps_is_compared() -> None:
    trace = story([(0, 100), (100, 200)], [(10, 20, 60), (110, 120, 250)], gone=[(400, 500)])
    window = Window(100 * US, 200 * US)
    found = profile_run(trace, window)
    assert found.steps.select("step", "duration", "compute").row(0) == (1, 150 * US, 130 * US)
    assert found.ops.select("name", "count", "time").rows() == [("gemm", 1, 130 * US)]
    assert found.outside == 0
    idle = found.measures.filter(topic="idle")["value"].sum()
    assert idle == found.steps["idle"][0] == 20 * US


def test_operators_of_the_host_are_compared_in_the_marks() -> None:
    built = Building()
    for step in range(2):
        built.event(Lane("marks"), "s", step * 100, step * 100 + 80, "step", step=step)
        built.event(thread(), "aten::mm", step * 100 + 10, step * 100 + 95, "op")
    found = of(built.trace())
    assert bounds(found) == [(0, 0, 80), (1, 100, 180)]
    assert found.time_outside_intervals == (30 * US, 170 * US)


times = st.integers(0, 60)
works = st.tuples(times, times, times).map(lambda each: tuple(sorted(each)))


@given(
    st.lists(times, min_size=2, max_size=7, unique=True).map(sorted),
    st.lists(works, min_size=1, max_size=8),
    st.lists(st.tuples(times, times).map(sorted), max_size=3),
)
def test_time_of_work_is_that_of_steps_and_of_none(edges: list[int], work: list[Work], gone: list[list[int]]) -> None:
    marks = list(zip(edges[::2], edges[1::2], strict=False))
    trace = story(marks, [each for each in work if each[2] > each[1]], [(a, b) for a, b in gone if b > a])
    assume(trace.lanes["work"].any())
    found = of(trace)
    pairs = found.events.select("start", "end").rows()
    instants = range(0, 61 * US, US)
    busy = [at for at in instants if any(start <= at < end for start, end in pairs)]
    steps = list(zip(found.intervals.start.tolist(), found.intervals.end.tolist(), strict=True))
    inside = [at for at in busy if any(start <= at < end for start, end in steps)]
    assert found.time_outside_intervals == ((len(busy) - len(inside)) * US, len(busy) * US)
    assert all(before[1] <= after[0] for before, after in pairwise(steps))
    launched = [(called, end) for called, start, end in work if end > start]
    for (begin, until), (_, last) in zip(marks, steps, strict=False):
        mine = [end for called, end in launched if begin <= called < until]
        assert last >= max([until, *mine]) * US


@settings(max_examples=settings.default.max_examples // 2)
@given(st.lists(times, min_size=2, max_size=7, unique=True).map(sorted), st.lists(works, min_size=1, max_size=8))
def test_a_step_that_is_asked_for_is_that_of_the_run(edges: list[int], work: list[Work]) -> None:
    marks = list(zip(edges[::2], edges[1::2], strict=False))
    trace = story(marks, [each for each in work if each[2] > each[1]])
    whole = profile_run(trace, Window())
    assume(whole.what == "steps" and not whole.partial)
    for step in whole.steps["step"].to_list():
        asked = profile_run(trace, Window(steps=(step,)))
        assert asked.steps.rows() == whole.steps.filter(step=step).rows()
        assert asked.ops.rows() == whole.ops.filter(step=step).rows()
        assert asked.measures.rows() == whole.measures.filter(step=step).rows()


def test_a_last_step_that_lacks_work_is_left_out_unless_it_is_all_that_is_asked_for() -> None:
    trace = story([(0, 100), (100, 200), (200, 210)], [(5, 10, 60), (20, 60, 90), (105, 110, 190), (120, 190, 195)])
    found = profile_run(trace, Window())
    assert (found.steps["step"].to_list(), found.partial) == ([0, 1], (2,))
    assert found.extent_text.endswith("2 steps on 1 rank, work on the device, 1 partial step left out")
    last = profile_run(trace, Window(steps=(2,)))
    assert (last.steps["step"].to_list(), last.partial) == ([2], (2,))
    assert last.extent_text.endswith("work on the device, partial")


def test_a_step_that_lacks_work_on_one_rank_is_left_out_on_all() -> None:
    built = Building()
    for step in range(3):
        built.event(Lane("marks"), f"ProfilerStep#{step}", step * 100, step * 100 + 100, "step", step=step)
        for rank in range(2):
            for at in range(1 if (step, rank) == (2, 0) else 4):
                number = step * 100 + rank * 10 + at
                built.event(thread(), "cudaLaunchKernel", number, number + 1, "runtime", correlation=number)
                start = step * 100 + 20 + at * 15
                built.event(stream(rank), "gemm", start, start + 10, correlation=number)
    found = profile_run(built.trace(), Window())
    assert (found.steps.select("step", "ranks").rows(), found.partial) == ([(0, 2), (1, 2)], (2,))
    assert set(found.ops["step"]) == set(found.measures["step"]) == set(found.step_intervals["step"]) == {0, 1}


def test_ranks_without_a_step_are_no_step_of_their_own(tmp_path: Path) -> None:
    without = Building()
    without.event(stream(), "gemm", 0, 5000)
    trace = merge_file_frames("two", [story([(0, 100)], [(10, 20, 60)]).parts[0], without.part()])
    found = profile_run(trace, Window())
    assert (found.what, found.steps["duration"].to_list()) == ("steps", [100 * US])
    assert found.extent_text == "1 step on 1 of 2 ranks, work on the device"
    assert set(found.ops["name"]) == {"gemm"}
    assert found.ops["time"].to_list() == [40 * US]
    save_baseline(found, tmp_path / "base.json")
    again = load_baseline(tmp_path / "base.json")
    assert again is not None
    assert again.extent_text == found.extent_text


def test_the_clock_of_a_device_measures_its_steps_ops_and_pauses() -> None:
    built = Building(format="xplane")
    built.event(Lane("Steps", 0, "steps"), "0", 0, 100, "step", step=0)
    built.event(Lane("Steps", 0, "steps"), "1", 100, 260, "step", step=1)
    steps = [(0, 0), (100, 100)]
    for at, own in steps:
        stretch = 1 if at == 0 else 2  # in the second step the trace's clock runs at half the pace
        for begin, end in ((0, 30), (50, 80)):
            on_device = {"device_start": (own + begin) * US, "device_end": (own + end) * US}
            start, until = at + begin * stretch, at + end * stretch
            built.event(Lane("XLA Ops", 0, "ops", work=True), "dot", start, until, "op", step=at // 100, **on_device)
    found = profile_run(built.trace(), Window())
    assert found.ops["time"].to_list() == [60 * US, 60 * US]
    assert found.steps["duration"].to_list() == [100 * US, 80 * US]
    idle = found.measures.filter(topic="idle").group_by("step").agg(pl.col("value").sum()).sort("step")
    assert idle["value"].to_list() == found.steps["idle"].to_list() == [40 * US, 20 * US]
    assert found.step_intervals.rows() == [(0, 0, 0, 100 * US, 100 * US), (0, 1, 100 * US, 260 * US, 80 * US)]


def test_what_lies_outside_is_in_the_baseline(tmp_path: Path) -> None:
    found, path = measured(story([(100, 200)], [(110, 120, 180)], gone=[(0, 20)])), tmp_path / "base.json"
    save_baseline(found, path)
    again = load_baseline(path)
    assert again is not None
    assert again.outside == 0.25


@pytest.mark.parametrize("lag", [0, 30, 400])
def test_how_far_the_device_runs_behind_takes_no_work_away(lag: float) -> None:
    trace = story(
        [(step * 100, step * 100 + 100) for step in range(4)],
        [
            (step * 100 + at, step * 100 + at + lag + 10, step * 100 + at + lag + 40)
            for step in range(4)
            for at in (5, 50)
        ],
    )
    found = measured(trace)
    assert found.ops["time"].to_list() == [60 * US] * 4
    assert found.outside == 0


def test_a_run_whose_steps_hold_all_work_has_none_outside() -> None:
    assert measured(run()).outside == 0


@pytest.mark.parametrize("name", first(1, ("torch_xla_spmd4", "jax_cpu8_b128")))
def test_steps_are_those_of_the_step_parts(name: str) -> None:
    trace = sample(name)
    parts = (
        run_analysis(step_parts.ANALYSIS, trace).table.select("rank", "step", "start", "duration").sort("rank", "step")
    )
    found = measured(trace).step_intervals.select(parts.columns)
    assert parts.height
    assert found.sort("rank", "step").rows() == parts.sort("rank", "step").rows()
