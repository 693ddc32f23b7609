"""Launches whose device work was not recorded: counted, told, and not confused with those that have none."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from tracehound.analysis import NAMES, get_analysis, run_analysis
from tracehound.analysis.devices.missing_data import (
    UnrecordedLaunches,
    unrecorded_launches,
    unrecorded_launches_per_step,
)
from tracehound.analysis.hosts.launch_calls import find_enqueued_work
from tracehound.analysis.rank_trace import RankTrace, rank_traces
from tracehound.draw.notes import note_texts, render_note_columns
from tracehound.model.file_facts import ExportedWindow, FileFacts
from tracehound.model.trace import Trace, Window

MAIN, BACKWARD = thread("python (1)"), thread("autograd (2)")
KERNEL = "cudaLaunchKernel"
RESTING = (
    "findings", "gaps", "idle", "breakdown", "duty_cycle", "steps", "step_parts", "critical_path", "graphs",
    "utilization", "utilization_curve", "launches", "queue", "rank_map",
)  # fmt: skip


def call(b: Building, at: float, number: int, name: str = KERNEL, lane: Lane = MAIN, *, works: bool = True) -> None:
    """A call of 2 us; its kernel runs 3 us later, for 5 us."""
    b.event(lane, name, at, at + 2, "runtime", correlation=number)
    if works:
        b.event(stream(), "gemm", at + 5, at + 10, correlation=number)


def many(missing: Iterable[int], count: int = 50, name: str = KERNEL) -> Building:
    """Calls every 20 us, ten in each step; those in `missing` have no work."""
    b, lost = Building(), set(missing)
    for number in range(count):
        call(b, 20 * number, number + 1, name, works=number not in lost)
    for step in range(count // 10):
        b.event(MAIN, f"ProfilerStep#{step}", 200 * step, 200 * step + 199, "step", step=step)
    return b


def of_rank(trace: Trace, rank: int = 0, window: Window | None = None) -> RankTrace:
    return next(each for each in rank_traces(trace, window or Window()) if each.rank == rank)


def counted(b: Building, window: Window | None = None) -> UnrecordedLaunches:
    return unrecorded_launches(of_rank(b.trace(), window=window))


def health(trace: Trace) -> list[tuple[str, int, str]]:
    table = render_note_columns(run_analysis(get_analysis("health"), trace)).table
    return table.select("level", "count", "what").rows()


def test_kernels_that_were_dropped_at_the_start_are_counted() -> None:
    found = counted(many(range(20)))
    assert found == UnrecordedLaunches(50, 20, 0, 0, 0, 0)
    assert found.share == 0.4
    assert found.is_notable
    assert counted(many([])) == UnrecordedLaunches()


def test_each_step_has_its_number() -> None:
    trace = many([*range(5, 10), 22, 49]).trace()
    rows = unrecorded_launches_per_step(of_rank(trace))
    assert rows.rows() == [(0, 10, 5), (1, 10, 0), (2, 10, 1), (3, 10, 0), (4, 10, 1)]
    assert unrecorded_launches_per_step(of_rank(many([]).trace())).is_empty()


def test_a_window_counts_the_calls_that_begin_in_it() -> None:
    assert counted(many([3, 12, 30]), Window(200 * US, 400 * US)) == UnrecordedLaunches(10, 1, 0, 0, 240 * US, 1)
    assert counted(many([3, 12, 30]), Window(steps=(3,))) == UnrecordedLaunches(10, 1, 0, 0, 600 * US, 3)


def test_a_window_of_some_lanes_loses_no_work() -> None:
    """Work on a stream that is not looked at was recorded all the same."""
    b = many([7])
    b.event(MAIN, KERNEL, 2000, 2002, "runtime", correlation=999)
    b.event(stream(0, 8), "side", 2003, 2005, correlation=999)
    trace = b.trace()
    lanes = trace.lanes.filter(pl.col("name") != "stream 8")["lane"].to_list()
    assert unrecorded_launches(of_rank(trace, window=Window(lanes=tuple(lanes)))) == unrecorded_launches(of_rank(trace))


@pytest.mark.parametrize("name", ["cudaMemsetAsync", "cudaGraphAddMemcpyNode", "cudaLaunchHostFunc", "cudaFree"])
def test_calls_without_work_by_nature_are_not_counted(name: str) -> None:
    b = many([4])
    for number in range(20):
        call(b, 1000 + 20 * number, 500 + number, name, works=False)
    assert counted(b) == UnrecordedLaunches(50, 1, 0, 0, 80 * US, 0)


@pytest.mark.parametrize(
    "name",
    ["cudaGraphLaunch", "hipGraphLaunch", "hipLaunchKernel", "hipExtModuleLaunchKernel", "cuLaunchKernelEx",
     "cudaMemcpyAsync", "cudaLaunchKernelExC_v11060", "musaLaunchKernel", "urEnqueueKernelLaunch"],
)  # fmt: skip
def test_launches_of_any_sort_are_counted(name: str) -> None:
    assert counted(many(range(20, 50), name=name)).missing == 30


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("cudaStreamBeginCapture", "cudaStreamEndCapture"),
        ("hipStreamBeginCapture_v2", "hipStreamEndCapture"),
        ("torch/cuda/graphs.py(72): capture_begin", "torch/cuda/graphs.py(80): capture_end"),
    ],
)
def test_launches_of_a_capture_have_no_work_on_any_thread(begin: str, end: str) -> None:
    b, kind = many([5]), "python" if begin.startswith("torch") else "runtime"
    b.event(MAIN, begin, 1000, 1002, kind)
    for number in range(100):
        call(b, 1010 + 20 * number, 200 + number, lane=(MAIN, BACKWARD)[number % 2], works=False)
    b.event(MAIN, end, 3020, 3022, kind)
    call(b, 3030, 400)
    call(b, 3050, 401, works=False)
    call(b, 3080, 402)
    assert counted(b) == UnrecordedLaunches(53, 2, 100, 0, 100 * US, 0)
    assert ("info", 100, "launches captured into graphs, which have no device work of their own") in health(b.trace())


def test_captures_that_the_recording_cuts_off_reach_to_its_ends() -> None:
    b = Building()
    call(b, 0, 1, works=False)
    b.event(MAIN, "cudaStreamEndCapture", 10, 12, "runtime")
    call(b, 20, 2)
    call(b, 40, 3, works=False)
    call(b, 60, 4)
    b.event(MAIN, "cudaStreamBeginCapture", 80, 82, "runtime")
    call(b, 90, 5, works=False)
    assert counted(b) == UnrecordedLaunches(3, 1, 2, 0, 40 * US, None)


def test_a_call_inside_another_is_the_same_launch() -> None:
    """Level Zero's call inside SYCL's, the driver's inside the runtime's: one of them has the kernel's id."""
    b = Building()
    for number in range(10):
        at, ids = 20 * number, (number, 100 + number)
        b.event(MAIN, "urEnqueueKernelLaunch", at, at + 8, "runtime", correlation=ids[1])
        b.event(MAIN, "zeCommandListAppendLaunchKernel", at + 2, at + 6, "runtime", correlation=ids[0])
        if number != 3:
            b.event(stream(), "gemm", at + 9, at + 12, correlation=ids[number % 2])
    b.event(MAIN, KERNEL, 300, 302, "runtime", correlation=999)
    b.event(stream(), "gemm", 303, 305, correlation=999)
    assert counted(b) == UnrecordedLaunches(11, 1, 0, 0, 60 * US, None)


def test_work_that_would_end_after_the_recording_is_not_missing() -> None:
    """The kernels end 10 us after their calls: of the calls at the end, those of the last 10 us can have none."""
    b = many([])
    call(b, 1000, 100, works=False)
    b.event(MAIN, "aten::add", 1000, 1009, "op")
    assert counted(b).missing == 0
    b.event(MAIN, "aten::add", 1010, 1100, "op")
    assert counted(b).missing == 1


def test_the_queue_at_the_end_of_the_recording_is_not_missing() -> None:
    """The host is far ahead of the device, which works until the recording ends, after half of the calls."""
    b = Building()
    for number in range(40):
        b.event(MAIN, KERNEL, 10 * number, 10 * number + 2, "runtime", correlation=number + 1)
        if number < 20:
            b.event(stream(), "gemm", 20 * number + 5, 20 * number + 24, correlation=number + 1)
    assert counted(b).missing == 0
    b.event(MAIN, "cudaDeviceSynchronize", 402, 800, "sync")
    assert counted(b).missing == 20
    b.facts = FileFacts(exported_window=ExportedWindow(0, 400 * US))
    assert counted(b).missing == 0


def test_work_with_an_unknown_or_a_wrong_launch_is_not_missing() -> None:
    b = many(range(20, 40))
    for number in range(12):  # no id
        b.event(stream(), "gemm", 20 * (20 + number) + 5, 20 * (20 + number) + 10)
    for number in range(3):  # the id of another
        b.event(stream(), "gemm", 20 * (32 + number) + 5, 20 * (32 + number) + 10, correlation=13)
    for number in range(30):  # of calls before the recording
        b.event(stream(0, 10), "gemm", 20 * number, 20 * number + 1, correlation=9000 + number)
    for number in range(5):  # before any of these calls
        b.event(stream(0, 9), "gemm", number, number + 0.5)
    assert counted(b) == UnrecordedLaunches(50, 5, 0, 3, 20 * 35 * US, 3)
    rows = health(b.trace())
    assert [row[:2] for row in rows if "correlation id of another" in row[2]] == [("missing", 3)]
    work = find_enqueued_work(of_rank(b.trace()), of_rank(b.trace()).device)
    assert not work.has_shared_launches
    assert work.count_unlaunched == 50


def test_nothing_is_missing_without_ids_or_without_links() -> None:
    b = Building()
    for number in range(10):
        b.event(MAIN, KERNEL, 20 * number, 20 * number + 2, "runtime")
        b.event(stream(), "gemm", 20 * number + 5, 20 * number + 10, correlation=number)
    assert counted(b) == UnrecordedLaunches()
    b = many(range(50))
    b.event(stream(), "gemm", 5, 10, correlation=5000)
    assert counted(b) == UnrecordedLaunches()


def test_of_several_devices_a_call_belongs_to_that_of_its_thread() -> None:
    b = Building()
    for rank, lane in enumerate((MAIN, BACKWARD)):
        for number in range(10):
            b.event(lane, KERNEL, 20 * number, 20 * number + 2, "runtime", correlation=100 * rank + number + 1)
            if number >= 4 * rank:
                at = 20 * number + 5
                b.event(stream(rank), "gemm", at, at + 5, correlation=100 * rank + number + 1)
    trace = b.trace()
    assert unrecorded_launches(of_rank(trace, 0)) == UnrecordedLaunches(10, 0, 0, 0)
    assert unrecorded_launches(of_rank(trace, 1)) == UnrecordedLaunches(10, 4, 0, 0, 0)
    note = run_analysis(get_analysis("breakdown"), trace).notes[0]
    assert dict(note.values) == {"missing": 4, "launches": 10, "ranks": (1,), "rank": 1, "step": None, "at": 0}


def test_health_and_the_tables_that_rest_on_idle_time_say_it_first() -> None:
    trace = many(range(3, 9)).trace()
    (first,) = render_note_columns(run_analysis(get_analysis("health"), trace)).table.head(1).rows()
    what = "launches whose device work was not recorded, of 50 on rank 0: idle time there may be work"
    assert first == ("missing", 6, what, "first in step 0 on rank 0, at 60.000 us")
    assert tuple(name for name in NAMES if get_analysis(name).rests_on_recorded_work) == tuple(
        name for name in NAMES if name in RESTING
    )
    for name in RESTING:
        first = note_texts(run_analysis(get_analysis(name), trace).notes)[0]
        assert first == (
            "12.0 % of the launches on rank 0 have no recorded device work (6 of 50): idle time here may be work that"
            " was not recorded; first in step 0, at 60.000 us on rank 0"
        ), name


def test_a_few_are_no_warning() -> None:
    trace = many([7, 30], 200).trace()
    assert [row[:2] for row in health(trace) if "not recorded" in row[2]] == [("info", 2)]
    for name in RESTING:
        codes = [note.code for note in run_analysis(get_analysis(name), trace).notes]
        assert "launched_work_missing" not in codes


@given(st.lists(st.tuples(st.sampled_from(["linked", "lost", "loose", "captured"]), st.integers(1, 30)), max_size=40))
def test_random_recordings_are_counted_as_one_by_one(found: list[tuple[str, int]]) -> None:
    b, at, lost, captured = Building(), 10, list[int](), 0
    call(b, 0, 1)
    for number, (sort, distance) in enumerate(found, 2):
        at += distance
        if sort == "captured":
            b.event(MAIN, "cudaStreamBeginCapture", at, at + 1, "runtime")
            call(b, at + 2, number, works=False)
            b.event(MAIN, "cudaStreamEndCapture", at + 5, at + 6, "runtime")
            at, captured = at + 6, captured + 1
        elif sort == "loose":  # work without a launch: that of the earliest call that has none
            b.event(stream(0, 9), "gemm", at, at + 1)
            lost = lost[1:]
        else:
            call(b, at, number, works=sort == "linked")
            at += 2
            lost += [at - 2] if sort == "lost" else []
    call(b, at + 100, 1000)
    calls = 2 + sum(sort in ("linked", "lost") for sort, _ in found)
    told = counted(b)
    if not any(sort in ("lost", "captured") for sort, _ in found):
        assert told == UnrecordedLaunches()
        return
    assert (told.launches, told.missing, told.captured) == (calls, len(lost), captured)
    assert told.first == (lost[0] * US if lost else None)
