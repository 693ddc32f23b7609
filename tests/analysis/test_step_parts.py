"""Parts of steps: examples for each part and for the bounds, and a comparison with a simple loop."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import US, Building, Lane, listing, stream, thread
from short import first
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.hosts.rank_time_parts import TIME_PARTS
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window
from tracehound.report.summary_page import summarize_trace

MAIN = thread("python (1)")
OTHER = thread("loader (2)")


def run_step_parts(trace: Trace, window: Window | None = None, **settings: str) -> Result:
    return run_analysis(get_analysis("step_parts"), trace, window, Options(given=tuple(sorted(settings.items()))))


def lengths(row: dict[str, Any]) -> dict[str, int]:
    """The parts of a step that take any time, in us."""
    return {part: row[part] // US for part in TIME_PARTS if row[part]}


def step(b: Building, number: int, start: float, end: float) -> None:
    b.event(MAIN, f"ProfilerStep#{number}", start, end, "step", step=number)


def launch(
    b: Building, name: str, called: float, start: float, end: float, kind: str = "kernel", lane: int = 7
) -> None:
    """A call that takes 2 us, and the work that it put on a stream."""
    number = len(b.rows)
    b.event(MAIN, "cudaLaunchKernel", called, called + 2, "runtime", correlation=number)
    b.event(stream(0, lane), name, start, end, kind, correlation=number)


def test_every_instant_goes_to_the_first_part_that_holds_there() -> None:
    b = Building()
    step(b, 1, 0, 100)
    b.event(MAIN, "aten::mm", 0, 40, "op")
    launch(b, "gemm", 10, 20, 30)
    launch(b, "ncclDevKernel_AllReduce", 14, 25, 50, "collective", 8)
    launch(b, "Memcpy HtoD", 18, 28, 45, "copy", 9)
    launch(b, "Memset", 22, 60, 61, "memset")
    b.event(MAIN, "cudaDeviceSynchronize", 55, 70, "sync")
    b.event(MAIN, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 70, 80, "annotation")
    b.event(MAIN, "forward", 80, 85, "annotation")
    b.event(MAIN, "train.py(3): main", 0, 100, "python")
    (row,) = run_step_parts(b.trace()).table.rows(named=True)
    assert row["duration"] == 100 * US
    assert lengths(row) == {
        "kernel": 10, "copy": 15, "memset": 1, "communication": 5, "runtime": 6 + 14, "data_loader": 10, "cpu": 19,
        "other": 20,
    }  # fmt: skip


def test_only_threads_of_the_program_wait_for_data() -> None:
    """Another reads ahead; calls that load are no calls of the runtime, whatever their names look like."""
    b = Building()
    step(b, 1, 0, 100)
    b.event(OTHER, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 60, "annotation")
    b.event(MAIN, "aten::sort", 10, 30, "op")
    launch(b, "gemm", 60, 70, 80)
    b.event(MAIN, "IteratorGetNext", 82, 92, "runtime")
    b.event(OTHER, "Iterator::Prefetch", 94, 97, "runtime")
    (row,) = run_step_parts(b.trace()).table.rows(named=True)
    assert lengths(row) == {"kernel": 10, "runtime": 2, "data_loader": 10, "cpu": 63, "other": 15}


def test_gloo_communicates_on_the_host_and_nccl_only_launches_there() -> None:
    b = Building()
    step(b, 1, 0, 100)
    b.event(MAIN, "nccl:all_reduce", 0, 10, "annotation")
    b.event(OTHER, "gloo:all_reduce", 20, 50, "annotation")
    launch(b, "gemm", 60, 70, 80)
    (row,) = run_step_parts(b.trace()).table.rows(named=True)
    assert lengths(row) == {"kernel": 10, "communication": 30, "runtime": 2, "cpu": 10, "other": 48}


def test_a_step_lasts_until_its_work_is_done_and_the_next_begins_then() -> None:
    b = Building()
    step(b, 1, 0, 10)
    step(b, 2, 10, 20)
    launch(b, "k", 2, 5, 15)
    launch(b, "k", 12, 15, 40)
    rows = run_step_parts(b.trace()).table.rows(named=True)
    assert [(row["start"] // US, row["duration"] // US, lengths(row)) for row in rows] == [
        (0, 15, {"kernel": 10, "runtime": 2, "other": 3}),
        (15, 25, {"kernel": 25}),
    ]
    marked = run_step_parts(b.trace(), bounds="mark").table.rows(named=True)
    assert [(row["start"] // US, row["duration"] // US) for row in marked] == [(0, 10), (10, 10)]


def test_work_from_before_the_first_step_is_not_of_it() -> None:
    b = Building()
    step(b, 1, 10, 20)
    b.event(stream(), "launched before the recording", 12, 30)
    launch(b, "k", 15, 30, 50)
    (row,) = run_step_parts(b.trace()).table.rows(named=True)
    assert row["duration"] == 20 * US
    assert lengths(row) == {"kernel": 20}


def test_what_began_on_a_cpu_in_the_first_step_and_has_no_known_launch_is_not_from_before_it() -> None:
    """JAX leaves no link from a call to what it executes on one device of a CPU."""
    b = Building(format="xplane")
    step(b, 1, 10, 60)
    for name, start, end in (("dot.0", 5, 12), ("dot.1", 15, 30)):
        b.event(stream(), name, start, end, "op")
    launch(b, "psum.1", 35, 40, 55, "collective")
    trace = b.trace()
    on_cpu = replace(trace, ranks=trace.ranks.with_columns(label=pl.lit("CPU:0")))
    bounds = [run_step_parts(one).table.select("start", "duration").row(0) for one in (trace, on_cpu)]
    assert bounds == [(25 * US, 30 * US), (7 * US, 48 * US)]


def test_a_last_step_whose_work_is_missing_is_partial_and_not_in_the_average() -> None:
    b = Building()
    for number in (1, 2, 3):
        step(b, number, 100 * number, 100 * number + 100)
        for place in range(5 if number < 3 else 3):
            launch(b, "k", 100 * number + 10 * place, 100 * number + 10 * place + 3, 100 * number + 10 * place + 10)
    result = run_step_parts(b.trace())
    assert result.table["partial"].to_list() == [False, False, True]
    assert note_texts(result.notes)[0].startswith("mean step time 100 us: kernel 35.0 %, runtime 10.0 %, other 55.0 %")
    assert (
        "1 partial step left out of the mean: the recording began or ended inside, or work ran outside of it"
    ) in note_texts(result.notes)[1]
    of_steps = run_analysis(get_analysis("steps"), b.trace())
    assert of_steps.table["step"].to_list() == [1, 2, 3]
    lengths, partial = note_texts(of_steps.notes)[:2]
    assert lengths == "2 whole steps on 1 rank: each 100 us"
    assert partial.startswith("1 partial step left out of these lengths: ")


def test_steps_at_both_edges_are_partial_whoever_launched_their_work() -> None:
    """A TPU's line of steps, as `step_time`, `steps` and the page have it: nothing says what launched the ops."""
    b = Building(format="xplane")
    start = 0
    for number, length in enumerate((40, 200, 200, 200, 60)):
        b.event(Lane("Steps", 0, "steps"), str(number), start, start + length, "step", step=number)
        for op in range(0, length, 20):
            b.event(Lane("XLA Ops", 0, "ops", work=True), "dot", start + op, start + op + 10, "op")
        start += length
    trace = b.trace()
    tables = {name: run_analysis(get_analysis(name), trace).table for name in ("step_parts", "step_time", "steps")}
    for table in tables.values():
        assert table["partial"].to_list() == [True, False, False, False, True]
    assert note_texts(run_step_parts(trace).notes)[0].startswith("mean step time 200 us: kernel 50.0 %, other 50.0 %")
    page = {result.analysis: result for result in summarize_trace(trace, Window()).results}
    assert page["steps"].table.select("steps", "median", "shortest").rows() == [(3, 200 * US, 200 * US)]
    assert any(note.startswith("mean step time 200 us (") for note in note_texts(page["findings"].notes))


@pytest.mark.parametrize(
    ("form", "lane", "start", "cut"),
    first(3, [
        ("kineto", OTHER, 440, True), ("kineto", OTHER, 452, False), ("kineto", OTHER, -52, True),
        ("kineto", stream(), 480, False), ("xplane", OTHER, 452, True), ("xplane", stream(), 480, False),
    ]),
)  # fmt: skip
def test_a_step_with_little_work_is_whole_where_the_recording_goes_on(
    form: str, lane: Lane, start: int, *, cut: bool
) -> None:
    """Every other step has 3 kernels in place of 5, and so the last has; each lasts for 100 us.

    The threads of XLA may be recorded for longer than its devices, also than a GPU that knows no op of its kernels.
    """
    b = Building(format=form)
    for number in range(4):
        step(b, number, 100 * number, 100 * number + 100)
        for place in range(0, 50, 10) if number % 2 == 0 else range(0, 30, 10):
            launch(b, "k", 100 * number + place, 100 * number + place + 3, 100 * number + place + 10)
    b.event(lane, "aten::save" if lane == OTHER else "copy", start, start + 1, "op" if lane == OTHER else "copy")
    assert run_step_parts(b.trace()).table["partial"].to_list() == [False, False, False, cut]


@pytest.mark.parametrize(("start", "whole"), [(-40, False), (-60, True)])
def test_a_first_step_with_little_work_is_whole_where_the_recording_began_before(start: int, *, whole: bool) -> None:
    b = Building()
    for number in range(4):
        step(b, number, 100 * number, 100 * number + 100)
        for place in range(0, 50 if number else 20, 10):
            launch(b, "k", 100 * number + place, 100 * number + place + 3, 100 * number + place + 10)
    b.event(MAIN, "aten::load", start, start + 1, "op")
    assert run_step_parts(b.trace()).table["partial"].to_list() == [not whole, False, False, False]


@pytest.mark.parametrize(("operators", "cut"), [(5, False), (4, False), (3, True), (0, True)])
def test_without_a_device_a_short_first_mark_of_pytorch_is_whole_and_a_last_one_with_its_operators(
    operators: int, *, cut: bool
) -> None:
    """Other steps wait for data. One that is left after the last call of step() has no operators."""
    b = Building()
    for number, took in enumerate((20, 90, 80, 95, 20)):
        step(b, number, 100 * number, 100 * number + took)
        for place in range(5 if number < 4 else operators):
            b.event(MAIN, "aten::mm", 100 * number + 3 * place, 100 * number + 3 * place + 2, "op")
    assert run_step_parts(b.trace()).table["partial"].to_list() == [False, False, False, False, cut]


def test_threads_of_an_xla_program_that_go_on_say_nothing_of_its_device() -> None:
    b = Building(format="xplane")
    for number in range(4):
        b.event(MAIN, "train", 100 * number, 100 * number + 100, "step", step=number)
        for op in range(2 if number == 3 else 5):
            b.event(
                Lane("XLA Ops", 0, "ops", work=True),
                "dot",
                100 * number + 20 * op,
                100 * number + 20 * op + 10,
                "op",
                step=number,
            )
    b.event(OTHER, "stop", 900, 990, "other")
    assert run_step_parts(b.trace()).table["partial"].to_list() == [False, False, False, True]


def test_of_two_steps_the_last_is_partial_that_lacks_work() -> None:
    b = Building()
    step(b, 1, 0, 100)
    step(b, 2, 100, 200)
    launch(b, "k", 10, 20, 30)
    assert run_step_parts(b.trace()).table["partial"].to_list() == [False, True]


def test_shadows_of_steps_on_the_device_are_no_steps() -> None:
    b = Building()
    step(b, 1, 0, 100)
    launch(b, "k", 10, 20, 30)
    b.event(Lane("stream 7 annotations", 0, "annotations"), "ProfilerStep#1", 20, 30, "annotation")
    assert run_step_parts(b.trace()).table["duration"].to_list() == [100 * US]


def test_mean_and_spread_of_every_part() -> None:
    b = Building()
    for number, took in ((1, 10), (2, 20), (3, 60)):
        step(b, number, 100 * number, 100 * number + 100)
        launch(b, "k", 100 * number, 100 * number + 5, 100 * number + 5 + took)
    rows = run_step_parts(b.trace(), by="part").table.rows(named=True)
    assert [row["part"] for row in rows] == list(TIME_PARTS)
    kernel = rows[0]
    assert [kernel[name] // US for name in ("mean", "std", "min", "p50", "max")] == [30, 26, 10, 20, 60]
    assert (kernel["share"], kernel["step"]) == (pytest.approx(0.3), 3)
    assert sum(row["mean"] for row in rows) == 100 * US


def test_a_window_keeps_the_steps_that_overlap_it_whole() -> None:
    b = Building()
    for number in (0, 1, 2):
        step(b, number, 100 * number, 100 * number + 100)
        launch(b, "k", 100 * number, 100 * number + 5, 100 * number + 15)
    found = run_step_parts(b.trace(), Window(150 * US, 160 * US)).table
    assert (found["step"].to_list(), found["kernel"].to_list()) == ([1], [10 * US])


def test_what_was_not_recorded_is_told() -> None:
    b = Building()
    step(b, 1, 0, 10)
    b.event(MAIN, "aten::mm", 0, 4, "op")
    result = run_step_parts(b.trace())
    assert lengths(result.table.row(0, named=True)) == {"cpu": 4, "other": 6}
    said = "no device activity was recorded on rank 0: {}profile with ProfilerActivity.CUDA (or XPU)"
    assert said.format("if it has a GPU, ") in note_texts(result.notes)
    b.facts = listing({"id": 0})
    assert said.format("") in note_texts(run_step_parts(b.trace()).notes)
    nothing = Building()
    nothing.event(stream(), "k", 0, 1)
    assert "profiler.step()" in note_texts(run_step_parts(nothing.trace()).notes)[0]


KINDS = {"kernel": "kernel", "copy": "copy", "memset": "memset", "collective": "communication"}
HOST = {"runtime": "runtime", "sync": "runtime", "op": "cpu", "annotation": "cpu", "python": "other"}
WORK = st.lists(st.tuples(st.sampled_from([*KINDS]), st.integers(0, 3), st.integers(0, 30), st.integers(0, 9)))
CALLS = st.lists(st.tuples(st.sampled_from([*HOST]), st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)))
MARKS = st.lists(st.integers(1, 8), min_size=1, max_size=4)


@given(WORK, CALLS, MARKS)
def test_parts_against_a_loop(
    work: list[tuple[str, int, int, int]], calls: list[tuple[str, int, int, int]], marks: list[int]
) -> None:
    b, at, steps = Building(), 0, []
    for number, length in enumerate(marks):
        b.event(MAIN, f"ProfilerStep#{number}", at, at + length, "step", step=number)
        steps.append((at, at + length))
        at += length
    for kind, lane, start, length in work:
        b.event(stream(0, lane), kind, start, start + length, kind)
    for kind, lane, start, length in calls:
        b.event(thread(f"thread {lane}"), kind, start, start + length, kind)
    events = [(KINDS[k], s, s + n) for k, _, s, n in work] + [(HOST[k], s, s + n) for k, _, s, n in calls]
    table = run_step_parts(b.trace(), bounds="mark").table
    for row, (start, end) in zip(table.rows(named=True), steps, strict=True):
        found = dict.fromkeys(TIME_PARTS, 0)
        for now in range(start, end):
            found[
                next((p for p in TIME_PARTS[:-1] if any(q == p and s <= now < e for q, s, e in events)), "other")
            ] += 1
        assert {part: row[part] // US for part in TIME_PARTS} == found


@given(MARKS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 9)), max_size=8))
def test_bounds_against_a_loop(marks: list[int], work: list[tuple[int, int, int]]) -> None:
    """The bounds one after the other: no later than the mark, the work, or the step before allow."""
    b, at, steps = Building(), 0, []
    for number, length in enumerate(marks):
        b.event(MAIN, f"ProfilerStep#{number}", at, at + length, "step", step=number)
        steps.append((at, at + length))
        at += length
    spans: dict[int, list[int]] = {}
    for number, (which, delay, length) in enumerate(work):
        if which >= len(steps):
            continue
        called = steps[which][0]
        b.event(thread("caller"), "cudaLaunchKernel", called, called, "runtime", correlation=number)
        b.event(stream(0, number), "k", called + delay, called + delay + length, correlation=number)
        spans.setdefault(which, []).append(called + delay + length)
    ready, expected = 0, []
    for number, (start, end) in enumerate(steps):
        begin = max(start, ready)
        ready = max([begin, end, *spans.get(number, [])])
        expected.append((begin, ready - begin))
    rows = run_step_parts(b.trace()).table.rows(named=True)
    assert [(row["start"] // US, row["duration"] // US) for row in rows] == expected
