"""Critical paths that are known to the microsecond, and properties of every path."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import US, Building, Lane, stream, thread
from short import some
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.critical.dependencies import match_in_order
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, merge_file_frames, open_trace_files

MAIN = thread("python (1)")
BACKWARD = thread("autograd (2)")
SYNC = Lane("sync 7", 0, "sync")
SYNC_9 = Lane("sync 9", 0, "sync")


def run_critical_path(trace: Trace, window: Window | None = None, **chosen: str) -> Result:
    return run_analysis(get_analysis("critical_path"), trace, window, Options(given=tuple(sorted(chosen.items()))))


def path_rows(trace: Trace, window: Window | None = None, **chosen: str) -> list[tuple[int, int, str, str]]:
    """Start and length in microseconds, class and name, in order."""
    table = run_critical_path(trace, window, **{"by": "event", **chosen}).table
    return [(row["start"] // US, row["duration"] // US, row["class"], row["name"]) for row in table.to_dicts()]


def with_streams(trace: Trace) -> Trace:
    """With the streams that the names of the lanes tell."""
    number = pl.col("name").str.extract(r"(?:stream|sync) (\d+)").cast(pl.Int64)
    return replace(trace, lanes=trace.lanes.with_columns(number.alias("stream")))


def launch(b: Building, lane: Lane, start: float, correlation: int, name: str = "cudaLaunchKernel") -> None:
    b.event(lane, name, start, start + 5, "runtime", correlation=correlation)


def two_kernels() -> Building:
    """An operator launches two kernels, which run one after the other while the host waits for them."""
    b = Building()
    b.event(MAIN, "aten::mm", 0, 40, "op")
    launch(b, MAIN, 10, 1)
    launch(b, MAIN, 20, 2)
    b.event(MAIN, "cudaDeviceSynchronize", 50, 110, "sync")
    b.event(MAIN, "aten::item", 115, 120, "op")
    b.event(stream(), "first", 30, 60, correlation=1)
    b.event(stream(), "second", 63, 100, correlation=2)
    return b


def test_from_the_host_to_the_device_and_back() -> None:
    assert path_rows(two_kernels().trace()) == [
        (0, 10, "CPU", "aten::mm"),
        (10, 20, "launch", "cudaLaunchKernel"),
        (30, 30, "compute", "first"),
        (60, 3, "kernel-kernel delay", "second"),
        (63, 37, "compute", "second"),
        (100, 10, "sync", "cudaDeviceSynchronize"),
        (110, 5, "CPU", "nothing recorded"),
        (115, 5, "CPU", "aten::item"),
    ]


def test_a_window_clips_the_path_and_ends_in_what_runs_on_the_device_then() -> None:
    assert path_rows(two_kernels().trace(), Window(20 * US, 80 * US)) == [
        (20, 10, "launch", "cudaLaunchKernel"),
        (30, 30, "compute", "first"),
        (60, 3, "kernel-kernel delay", "second"),
        (63, 17, "compute", "second"),
    ]


def test_work_that_is_launched_late_waits_for_its_launch() -> None:
    b = two_kernels()
    b.event(MAIN, "aten::relu", 130, 160, "op")
    launch(b, MAIN, 140, 3)
    b.event(stream(), "third", 150, 200, "collective", correlation=3)
    assert path_rows(b.trace())[-4:] == [
        (120, 10, "CPU", "nothing recorded"),
        (130, 10, "CPU", "aten::relu"),
        (140, 10, "launch", "cudaLaunchKernel"),
        (150, 50, "communication", "third"),
    ]


def test_the_sums_by_class_and_by_name() -> None:
    trace = two_kernels().trace()
    by_class = run_critical_path(trace, by="class").table
    assert by_class.select("class", pl.col("duration") // US, "count").rows() == [
        ("compute", 67, 2), ("CPU", 20, 3), ("launch", 20, 1), ("sync", 10, 1), ("kernel-kernel delay", 3, 1),
    ]  # fmt: skip
    assert by_class["share"].sum() == pytest.approx(1)
    assert run_critical_path(trace).about == "", "no step is marked: they are of the whole run"
    by_name = {row["name"]: row for row in run_critical_path(trace).table.iter_rows(named=True)}
    assert by_name["second"]["class"] == "kernel-kernel delay"
    assert trace.event(by_name["aten::mm"]["event"])["name"] == "aten::mm"


def test_a_path_through_time_of_which_nothing_is_recorded_says_so() -> None:
    b = Building()
    b.event(thread(), "aten::mm", 0, 10, "op")
    b.event(thread(), "cudaLaunchKernel", 70, 80, "runtime", correlation=1)
    b.event(stream(), "gemm", 85, 105, correlation=1)
    notes = note_texts(run_analysis(get_analysis("critical_path"), b.trace()).notes)
    assert "rank 0: the host recorded nothing in 57.1 % of that time" in notes


def test_the_notes_tell_what_it_is_bound_by() -> None:
    notes = note_texts(run_critical_path(two_kernels().trace()).notes)
    assert notes[0] == (
        "critical path of rank 0: compute 55.8 %, CPU 16.7 %, launch 16.7 %, sync 8.33 %, kernel-kernel "
        "delay 2.50 % of 120 us (the whole run)"
    )
    assert notes[1].startswith("waits between streams are inferred (enable_cuda_sync_events records them)")


def test_a_copy_that_blocks_is_waited_for() -> None:
    b = Building()
    b.event(MAIN, "cudaMemcpyAsync", 0, 50, "runtime", correlation=1)
    b.event(MAIN, "aten::add", 50, 60, "op")
    b.event(stream(), "Memcpy DtoH", 10, 45, "copy", correlation=1)
    assert path_rows(b.trace()) == [
        (0, 10, "launch", "cudaMemcpyAsync"),
        (10, 35, "copy", "Memcpy DtoH"),
        (45, 5, "sync", "cudaMemcpyAsync"),
        (50, 10, "CPU", "aten::add"),
    ]


def test_a_wait_for_nothing_is_the_hosts_own_time() -> None:
    b = Building()
    launch(b, MAIN, 0, 1)
    b.event(stream(), "kernel", 10, 20, correlation=1)
    b.event(MAIN, "cudaStreamSynchronize", 30, 40, "sync")
    assert path_rows(b.trace()) == [
        (0, 5, "CPU", "cudaLaunchKernel"),
        (5, 25, "CPU", "nothing recorded"),
        (30, 10, "sync", "cudaStreamSynchronize"),
    ]


def test_below_a_loader_it_is_data_loading() -> None:
    b = Building()
    b.event(MAIN, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 30, "annotation")
    b.event(MAIN, "aten::stack", 10, 20, "op")
    b.event(MAIN, "aten::mm", 30, 40, "op")
    assert {row[:3] for row in path_rows(b.trace())} == {
        (0, 10, "data loading"),
        (10, 10, "data loading"),
        (20, 10, "data loading"),
        (30, 10, "CPU"),
    }


def two_streams(gap: float = 5) -> Building:
    """Work on stream 9 that begins some time after work on stream 7, longer than its own launch and stream ask for."""
    b = Building()
    launch(b, MAIN, 0, 1)
    b.event(MAIN, "cudaStreamWaitEvent", 10, 12, "runtime", correlation=3)
    launch(b, MAIN, 20, 2)
    b.event(stream(0, 7), "gemm", 10, 100, correlation=1)
    b.event(stream(0, 9), "nccl", 100 + gap, 200, "collective", correlation=2)
    return b


@pytest.mark.parametrize("gap", [5, 30, 31])
def test_without_recorded_waits_what_ended_just_before_was_waited_for(gap: int) -> None:
    found = path_rows(two_streams(gap).trace())
    if gap <= 30:
        assert found[-3:] == [
            (10, 90, "compute", "gemm"),
            (100, gap, "kernel-kernel delay", "nccl"),
            (100 + gap, 100 - gap, "communication", "nccl"),
        ]
    else:
        assert found[-2:] == [
            (20, 80 + gap, "launch", "cudaLaunchKernel"),
            (100 + gap, 100 - gap, "communication", "nccl"),
        ]
    assert path_rows(two_streams(gap).trace(), near="1us")[-2][2] == "launch"


def test_a_recorded_wait_is_for_work_that_was_launched_before_it() -> None:
    b = two_streams(50)
    launch(b, MAIN, 14, 4)
    b.event(stream(0, 8), "after the wait", 20, 145, correlation=4)
    b.event(SYNC_9, "Stream Wait Event", 11, 12, "sync", correlation=3)
    found = run_critical_path(with_streams(b.trace()), by="event")
    rows = [(row["class"], row["name"]) for row in found.table.to_dicts()]
    assert rows[-3:] == [("compute", "gemm"), ("kernel-kernel delay", "nccl"), ("communication", "nccl")]
    assert not [note for note in note_texts(found.notes) if "inferred" in note]


def with_waits(*waits: tuple[int | None, int | None], launched: float = 2) -> Building:
    """Work on stream 9 that begins at 150, put there after these waits: the stream, and the call that recorded it.

    Work on stream 7 is launched at 0 and ends at 100, that on stream 8 ends at 130. Call 5 records at 8, call 6 at 9.
    """
    b = two_streams(50)
    launch(b, MAIN, launched, 4)
    b.event(stream(0, 8), "other", 16, 130, correlation=4)
    for call in (5, 6):
        b.event(MAIN, "cudaEventRecord", call + 3, call + 4, "runtime", correlation=call)
    for number, (on, call) in enumerate(waits):
        b.event(SYNC_9, "Stream Wait Event", 12 + number, 13 + number, "sync", record=number)
        b.facets.setdefault("waited", []).append({"record": number, "stream": on, "recorded": call})
    return b


@pytest.mark.parametrize(
    ("waits", "launched", "name"),
    some(
        [
            ([(7, 5)], 2, "gemm"),
            ([(8, 5)], 2, "other"),
            ([(7, 5), (8, 6)], 2, "other"),
            ([(8, 6), (7, 5)], 2, "other"),
            ([(None, None)], 2, "other"),
            ([(None, None)], 15, "gemm"),
            ([(8, 5)], 15, None),  # recorded before that was launched
            ([(8, None)], 11, "other"),  # the call is not known: launched before the wait
            ([(8, 99)], 11, "other"),
            ([(30, 5)], 2, None),  # nothing was recorded on that stream
        ],
        [
            ([(7, 5)], 2, "gemm"),
            ([(7, 5), (8, 6)], 2, "other"),
            ([(None, None)], 15, "gemm"),
            ([(8, 5)], 15, None),
            ([(8, None)], 11, "other"),
            ([(30, 5)], 2, None),
        ],
    ),
)
def test_a_recorded_wait_is_for_what_its_event_was_recorded_after(
    waits: list[tuple[int | None, int | None]], launched: float, name: str | None
) -> None:
    rows = path_rows(with_streams(with_waits(*waits, launched=launched).trace()))
    delayed = [at for at, row in enumerate(rows) if row[2] == "kernel-kernel delay"]
    assert [rows[at - 1][3] for at in delayed] == ([] if name is None else [name])


def test_a_call_that_waits_for_an_event_waits_for_what_was_recorded() -> None:
    b = two_streams(50)
    b.event(MAIN, "cudaEventRecord", 15, 16, "runtime", correlation=6)
    b.event(MAIN, "cudaEventSynchronize", 40, 210, "sync", correlation=7)
    b.event(MAIN, "aten::add", 210, 220, "op")
    b.event(Lane("sync -1", 0, "sync"), "Event Sync", 40, 210, "sync", correlation=7, record=0)
    assert path_rows(with_streams(b.trace()))[-3:-1] == [
        (150, 50, "communication", "nccl"),
        (200, 10, "sync", "cudaEventSynchronize"),
    ]
    b.facets["waited"] = [{"record": 0, "stream": 7, "recorded": 6}]
    assert path_rows(with_streams(b.trace()))[-3:-1] == [
        (10, 90, "compute", "gemm"),
        (100, 110, "sync", "cudaEventSynchronize"),
    ]


@given(st.integers(0, 2**32))
def test_the_path_goes_to_what_kept_the_work_of_a_device_that_obeys(seed: int) -> None:
    """It begins work 30 us after that was launched, its stream is free, and the events waited for have come."""
    b, random = Building(), Random(seed)
    b.event(SYNC, "Context Sync", 0, 0, "sync")
    free: dict[int, tuple[int, str]] = {}
    awaited: dict[int, list[tuple[int, str]]] = {}
    events = list[tuple[int, int, tuple[int, str]]]()  # the call that recorded each, its stream, what was there
    reasons: dict[str, set[str]] = {}
    for number in range(40):
        command, on, length = random.choice(["launch", "record", "wait"]), random.randint(7, 9), random.randint(1, 60)
        now = 4 * number
        if command == "launch":
            name = f"work {number}"
            may = [(now, "launch"), *([free[on]] if on in free else []), *awaited.get(on, [])]
            last = max(end for end, _ in may)
            start = last + 30
            reasons[name] = {what for end, what in may if end == last}
            b.event(MAIN, "cudaLaunchKernel", now, now + 1, "runtime", correlation=number)
            b.event(stream(0, on), name, start, start + length, correlation=number)
            free[on], awaited[on] = (start + length, name), []
        elif command == "record":
            b.event(MAIN, "cudaEventRecord", now, now + 1, "runtime", correlation=number)
            events.append((number, on, free.get(on, (0, "launch"))))
        elif events:
            call, recorded, end = events[length % len(events)]
            awaited.setdefault(on, []).append(end)
            b.event(Lane(f"sync {on}", 0, "sync"), "Stream Wait Event", now, now + 1, "sync", record=number)
            b.facets.setdefault("waited", []).append({"record": number, "stream": recorded, "recorded": call})
    legs = [row for row in path_rows(with_streams(b.trace())) if row[2] not in ("CPU", "kernel-kernel delay")]
    assert all(row[2] in ("compute", "launch") for row in legs)
    for before, row in zip([None, *legs], legs, strict=False):
        if row[2] == "compute":
            came = "launch" if before is None or before[2] != "compute" else before[3]
            assert came in reasons[row[3]]


def test_where_waits_are_recorded_there_are_no_others() -> None:
    b = two_streams()
    b.event(SYNC, "Stream Wait Event", 11, 12, "sync", correlation=3)
    assert path_rows(with_streams(b.trace()))[-2] == (20, 85, "launch", "cudaLaunchKernel")


def test_a_recorded_synchronization_tells_which_stream_was_waited_for() -> None:
    b = two_streams()
    b.event(MAIN, "cudaStreamSynchronize", 40, 210, "sync", correlation=5)
    b.event(MAIN, "aten::add", 210, 220, "op")
    assert ("communication", "nccl") in {row[2:] for row in path_rows(with_streams(b.trace()))}
    b.event(SYNC, "Stream Sync", 40, 210, "sync", correlation=5)
    found = path_rows(with_streams(b.trace()))
    assert found[-3:] == [
        (10, 90, "compute", "gemm"),
        (100, 110, "sync", "cudaStreamSynchronize"),
        (210, 10, "CPU", "aten::add"),
    ]


def test_a_thread_takes_over_from_the_one_that_stopped() -> None:
    """The forward pass on one thread, the backward pass on another, then the optimizer on the first again."""
    b = Building()
    for start, lane, number in ((0, MAIN, 1), (40, BACKWARD, 2), (80, MAIN, 3)):
        b.event(lane, f"op {number}", start, start + 30, "op")
        launch(b, lane, start + 10, number)
        b.event(stream(), f"kernel {number}", start + 16, start + 18, correlation=number)
    assert [(row[0], row[3]) for row in path_rows(b.trace()) if row[3].startswith("op") or "nothing" in row[3]] == [
        (0, "op 1"), (15, "op 1"), (30, "nothing recorded"),
        (40, "op 2"), (55, "op 2"), (70, "nothing recorded"),
        (80, "op 3"), (95, "op 3"),
    ]  # fmt: skip


def test_a_pause_is_not_handed_to_a_thread_that_goes_on_or_launches_nothing() -> None:
    b = Building()
    for start in (0, 40):
        b.event(MAIN, "main", start, start + 30, "op")
    launch(b, MAIN, 10, 1)
    b.event(stream(), "kernel", 16, 18, correlation=1)
    b.event(thread("loader"), "read", 5, 35, "op")
    b.event(BACKWARD, "beside", 20, 39, "op")
    b.event(BACKWARD, "beside", 39.5, 60, "op")
    launch(b, BACKWARD, 22, 2)
    b.event(stream(), "kernel", 28, 29, correlation=2)
    trace = b.trace()
    table = run_critical_path(trace, Window(0, 70 * US), by="event").table
    assert set(table["where"].to_list()) == {"python (1)"}


GLOO = thread("pt_gloo_runloop (3)")


def with_gloo(pause: float = 40) -> Building:
    """Two buckets are reduced by a thread of gloo's; the second is asked for while the first is under way."""
    b = Building()
    b.event(MAIN, "ProfilerStep#1", 0, 200, "step", step=1)
    b.event(MAIN, "aten::mm", 5, 20, "op")
    b.event(MAIN, "c10d::allreduce_", 20, 26, "op")
    b.event(GLOO, "gloo:all_reduce", 28, 80, "collective")
    b.event(MAIN, "aten::mm", 26, 40, "op")
    b.event(MAIN, "c10d::allreduce_", 40, 150 - pause, "op")
    b.event(GLOO, "gloo:all_reduce", 81, 150, "collective")
    b.event(MAIN, "aten::add_", 160, 190, "op")
    return b


def test_a_collective_of_a_thread_leads_back_to_the_call_that_asked_for_it() -> None:
    """The thread was busy when the second was asked for; from the first it goes back to its call, and to the start."""
    assert path_rows(with_gloo().trace()) == [
        (0, 5, "CPU", "ProfilerStep#1"),
        (5, 15, "CPU", "aten::mm"),
        (20, 8, "launch", "c10d::allreduce_"),
        (28, 52, "communication", "gloo:all_reduce"),
        (80, 1, "CPU", "nothing recorded"),
        (81, 69, "communication", "gloo:all_reduce"),
        (150, 10, "CPU", "ProfilerStep#1"),
        (160, 30, "CPU", "aten::add_"),
        (190, 10, "CPU", "ProfilerStep#1"),
    ]


def test_a_collective_that_ends_between_two_operators_was_not_waited_for() -> None:
    assert {row[2] for row in path_rows(with_gloo(pause=30).trace())} == {"CPU"}
    assert ("communication", "gloo:all_reduce") in {row[2:] for row in path_rows(with_gloo(pause=31).trace())}


def test_an_operator_that_waits_for_a_collective_is_a_pause() -> None:
    b = with_gloo()
    b.event(MAIN, "_c10d_functional::wait_tensor", 111, 155, "op")
    assert path_rows(b.trace())[-5:] == [
        (81, 69, "communication", "gloo:all_reduce"),
        (150, 5, "CPU", "_c10d_functional::wait_tensor"),
        (155, 5, "CPU", "ProfilerStep#1"),
        (160, 30, "CPU", "aten::add_"),
        (190, 10, "CPU", "ProfilerStep#1"),
    ]


@pytest.mark.parametrize(
    ("start", "end"), some([(0, 130), (0, 150), (0, 155), (0, 160), (120, 130)], [(0, 150), (120, 130)])
)
def test_a_window_that_ends_in_the_wait_for_a_collective_ends_in_that(start: int, end: int) -> None:
    """The path is that of the whole, cut to the window."""
    whole = [(max(at, start), min(at + length, end), *row) for at, length, *row in path_rows(with_gloo().trace())]
    found = path_rows(with_gloo().trace(), Window(start * US, end * US))
    assert [(at, at + length, *row) for at, length, *row in found] == [row for row in whole if row[0] < row[1]]


def test_a_window_that_ends_in_a_pause_does_not_wait_for_what_runs_on_behind_it() -> None:
    b = with_gloo()
    b.event(MAIN, "aten::mul", 140, 145, "op")
    assert {row[2] for row in path_rows(b.trace(), Window(82 * US, 130 * US))} == {"CPU"}


def test_where_every_thread_waits_the_path_ends_in_the_collective_that_ends_last() -> None:
    """No operator runs in the window."""
    b = with_gloo()
    b.event(thread("pt_gloo_runloop (4)"), "gloo:all_reduce", 79, 170, "collective")
    assert path_rows(b.trace(), Window(145 * US, 159 * US)) == [(145, 14, "communication", "gloo:all_reduce")]


def test_a_path_that_cannot_be_followed_to_the_beginning_says_so() -> None:
    b = with_gloo()
    b.rows = [row for row in b.rows if row["name"] != "c10d::allreduce_"]
    found = run_critical_path(b.trace(), by="event")
    assert found.table["start"][0] == 28 * US
    assert note_texts(found.notes)[1] == (
        "rank 0: the path begins 28.0 us late, since the trace does not show what gloo:all_reduce waited for"
    )
    assert not [note for note in note_texts(run_critical_path(with_gloo().trace()).notes) if "begins" in note]


TIMES = st.lists(st.integers(0, 30), max_size=12).map(sorted)


@given(TIMES, TIMES)
def test_calls_are_taken_up_in_their_order(asked: list[int], begun: list[int]) -> None:
    waiting, expected = deque[int](), []
    left = deque(enumerate(asked))
    for start in begun:
        while left and left[0][1] <= start:
            waiting.append(left.popleft()[0])
        expected.append(waiting.popleft() if waiting else -1)
    assert match_in_order(np.array(asked, np.int64), np.array(begun, np.int64)).tolist() == expected


def test_the_paths_of_a_gloo_run_cover_their_steps(samples: Path) -> None:
    trace = load_trace(open_trace_files([samples / "torch_ddp_gloo"]))
    longest = (
        trace.steps.with_columns(length=pl.col("end") - pl.col("start"))
        .group_by("rank", "host")
        .agg(pl.col("length").max())
    )
    found = run_critical_path(trace, by="class").table.group_by("rank").agg(pl.col("duration").sum()).sort("rank")
    assert found["duration"].to_list() == longest.sort("host")["length"].to_list()


def test_what_bounds_every_rank_is_told_before_what_is_not_known_of_one() -> None:
    parts = []
    for rank in (0, 1):
        b = Building(claim=rank, path=Path(f"{rank}.json"))
        b.event(thread(), "aten::mm", 0, 10, "op")
        launch(b, thread(), 70, 1)
        b.event(stream(), "gemm", 85, 105, correlation=1)
        parts.append(b.part())
    told = note_texts(run_critical_path(merge_file_frames("job", parts)).notes)
    assert [note.split(":")[0] for note in told[:2]] == [f"critical path of rank {rank}" for rank in (0, 1)]
    assert all("the host recorded nothing" in note for note in told[2:4])


def test_what_hardly_bounds_it_is_not_told() -> None:
    b = two_kernels()
    b.event(MAIN, "aten::long", 120, 40_000, "op")
    (bound,) = [note for note in note_texts(run_critical_path(b.trace()).notes) if note.startswith("critical path")]
    assert "sync" not in bound
    assert bound.startswith("critical path of rank 0: CPU 99.8 %, compute 0.17 % of 40.0 ms (the whole run)")


def test_the_default_is_the_longest_step_of_each_rank() -> None:
    b = two_kernels()
    b.event(MAIN, "ProfilerStep#1", 0, 45, "step", step=1)
    b.event(MAIN, "ProfilerStep#2", 45, 130, "step", step=2)
    trace = b.trace()
    assert trace.steps.height == 2
    found = run_critical_path(trace, by="event")
    assert found.table["start"].to_list()[0] == 0
    assert found.table["duration"].sum() == 100 * US
    assert note_texts(found.notes)[0].startswith(
        "critical path of rank 0: compute 67.0 %, launch 20.0 %, CPU 10.0 %, kernel-kernel delay 3.00 % "
        "of 100 us (ProfilerStep#1, the longest step)"
    )
    assert note_texts(found.notes)[0].endswith(
        "critical path of rank 0: compute 67.0 %, launch 20.0 %, CPU 10.0 %, kernel-kernel delay 3.00 % "
        "of 100 us (ProfilerStep#1, the longest step)"
    )
    of_step = run_critical_path(trace, Window(0, 45 * US, steps=(1,)))
    assert note_texts(of_step.notes)[0].endswith("of 100 us (step 1)")
    assert of_step.window == (0, 100 * US)  # the work of the step is done after its mark
    assert found.window is None
    assert (found.about, of_step.about) == ("the longest step", "")


def test_what_begins_long_after_its_launch_waited_for_what_is_not_recorded() -> None:
    b = Building()
    launch(b, MAIN, 10, 1)
    b.event(MAIN, "aten::mm", 0, 20, "op")
    b.event(stream(), "late", 500, 600, correlation=1)
    assert path_rows(b.trace()) == [
        (0, 10, "CPU", "aten::mm"),
        (10, 5, "launch", "cudaLaunchKernel"),
        (15, 485, "unknown", "late"),
        (500, 100, "compute", "late"),
    ]
    assert "rank 0, unknown: late waited 485 us; the trace does not show for what" in note_texts(
        run_critical_path(b.trace()).notes
    )


def test_a_window_that_ends_in_a_pause_between_queued_kernels_is_the_devices() -> None:
    """An instant earlier or later, in a kernel, it is."""
    found = path_rows(two_kernels().trace(), Window(0, 61 * US))
    assert found[-2:] == [(30, 30, "compute", "first"), (60, 1, "kernel-kernel delay", "second")]


def test_a_window_that_ends_in_a_pause_ends_there_without_a_host_too() -> None:
    found = path_rows(two_kernels().trace(), Window(45 * US, 61 * US))
    assert found[-2:] == [(45, 15, "compute", "first"), (60, 1, "kernel-kernel delay", "second")]
    b = Building()
    for number, start, launched in ((1, 60, 0), (2, 150, 20)):
        launch(b, MAIN, launched, number)
        b.event(stream(), f"k{number}", start, start + 40, correlation=number)
    assert path_rows(b.trace(), Window(60 * US, 130 * US)) == [
        (60, 40, "compute", "k1"), (100, 30, "kernel-kernel delay", "k2"),
    ]  # fmt: skip


def test_what_ends_after_the_window_is_not_waited_for_in_it() -> None:
    b = Building()
    b.event(MAIN, "aten::mm", 0, 600, "op")
    launch(b, MAIN, 10, 1)
    launch(b, MAIN, 20, 2)
    b.event(stream(0, 7), "first", 30, 100, correlation=1)
    b.event(stream(0, 7), "second", 580, 600, correlation=2)
    b.event(stream(0, 8), "other", 530, 570)
    found = path_rows(b.trace(), Window(20 * US, 520 * US))
    assert (found[0][0], sum(row[1] for row in found)) == (20, 500)


def graph() -> Building:
    """A graph of three nodes, the second on another stream, and a row of synchronization that says nothing of it."""
    b = Building()
    launch(b, MAIN, 0, 1, "cudaGraphLaunch")
    for number, name, start, end in ((7, "first", 10, 20), (8, "forked", 22, 100), (7, "last", 103, 110)):
        b.event(stream(0, number), name, start, end, correlation=1)
    b.event(SYNC, "Context Sync", 0, 1, "sync")
    return b


def test_nodes_of_a_graph_wait_for_one_another_whatever_was_recorded() -> None:
    assert [row[2:] for row in path_rows(with_streams(graph().trace()))] == [
        ("launch", "cudaGraphLaunch"), ("compute", "first"), ("kernel-kernel delay", "forked"), ("compute", "forked"),
        ("kernel-kernel delay", "last"), ("compute", "last"),
    ]  # fmt: skip


def test_a_graph_that_is_put_on_the_device_piece_by_piece_is_bound_by_its_launch() -> None:
    b = Building()
    b.event(MAIN, "cudaGraphLaunch", 0, 300, "runtime", correlation=1)
    for name, start in (("first", 10), ("second", 22), ("third", 200)):
        b.event(stream(), name, start, start + 10, correlation=1)
    assert [row[1:] for row in path_rows(b.trace(), Window(0, 210 * US))] == [
        (10, "launch", "cudaGraphLaunch"), (10, "compute", "first"), (2, "kernel-kernel delay", "second"),
        (10, "compute", "second"), (168, "launch", "cudaGraphLaunch"), (10, "compute", "third"),
    ]  # fmt: skip


def test_a_pause_before_work_without_a_known_launch_is_unknown() -> None:
    b = Building()
    b.event(stream(), "first", 0, 10)
    b.event(stream(), "second", 20, 30)
    assert [row[2] for row in path_rows(b.trace())] == ["compute", "unknown", "compute"]


def test_a_pause_of_a_nanosecond_is_the_rounding_of_times() -> None:
    b = Building(unit=1_000)
    b.event(MAIN, "aten::mm", 0, 20, "op")
    b.event(MAIN, "cudaLaunchKernel", 2, 4, "runtime", correlation=2)
    b.event(stream(), "first", 0, 10)
    b.event(stream(), "second", 11, 20, correlation=2)
    b.event(stream(), "third", 21, 30)
    b.event(stream(), "fourth", 32, 40)
    rows = run_critical_path(b.trace(), by="event").table.select("class", pl.col("duration") // 1_000).rows()
    assert rows == [("compute", 10), ("compute", 10), ("compute", 10), ("unknown", 2), ("compute", 8)]


def test_what_runs_later_on_the_stream_was_launched_later() -> None:
    b = Building()
    b.event(stream(), "first", 0, 10)
    b.event(stream(), "second", 20, 30)
    b.event(stream(), "third", 30, 50, correlation=3)
    b.event(MAIN, "cudaLaunchKernel", 5, 8, "runtime", correlation=3)
    assert [row[2] for row in path_rows(b.trace())] == ["compute", "kernel-kernel delay", "compute", "compute"]


def test_hlo_ops_have_no_path() -> None:
    b = Building(format="xplane")
    b.event(Lane("XLA Ops", 0, "ops", work=True), "dot.1", 0, 10)
    found = run_critical_path(b.trace())
    assert found.table.is_empty()
    assert "HLO op" in note_texts(found.notes)[0]


KINDS = {
    "cudaLaunchKernel": "runtime", "cudaMemcpyAsync": "runtime", "aten::mm": "op", "cudaDeviceSynchronize": "sync",
    "c10d::allreduce_": "op", "gloo:all_reduce": "collective",
}  # fmt: skip
HOST = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(sorted(KINDS)), st.integers(0, 60), st.integers(0, 25)),
    min_size=1,
    max_size=14,
)
WORK = st.just([]) | st.lists(
    st.tuples(st.integers(7, 9), st.integers(0, 15), st.integers(0, 80), st.integers(0, 25)), max_size=12
)


@given(HOST, WORK, st.lists(st.integers(0, 60), max_size=2), st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_a_path_is_continuous_and_each_row_is_what_ran_then(
    host: list[tuple[int, str, int, int]],
    work: list[tuple[int, int, int, int]],
    waits: list[int],
    span: tuple[int, int],
) -> None:
    b = Building()
    for i, (number, name, start, length) in enumerate(host):
        b.event(Lane(f"thread {number}"), name, start, start + length, KINDS[name], correlation=i)
    for number, call, start, length in work:
        b.event(stream(0, number), f"kernel {call}", start, start + length, correlation=call)
    for start in waits:
        b.event(SYNC_9, "Stream Wait Event", start, start + 1, "sync")
    trace = with_streams(b.trace())
    for window in (None, Window(span[0] * US, (span[0] + span[1]) * US)):
        found = run_critical_path(trace, window, by="event").table
        low, high = (window or Window()).clip_bounds(*trace.span)
        ends = (found["start"] + found["duration"]).to_list()
        assert found["start"].to_list()[1:] == ends[:-1]
        assert all(low <= row["start"] and row["duration"] > 0 for row in found.iter_rows(named=True))
        assert not ends or ends[-1] <= high
        for row, end in zip(found.iter_rows(named=True), ends, strict=True):
            assert row["event"] is None or _ran(trace.event(row["event"]), row, end), row


def _ran(event: dict, row: dict, end: int) -> bool:
    """True if the event of a row ran in the time of the row."""
    if row["class"] in ("kernel-kernel delay", "unknown"):
        return end <= event["start"]
    return event["start"] <= row["start"] and (end <= event["end"] or row["class"] == "launch")


def test_a_profile_of_xla_has_no_path_where_a_device_has_streams_alone() -> None:
    b = two_kernels()
    b.format = "xplane"
    found = run_critical_path(b.trace())
    assert found.table.is_empty()
    assert note_texts(found.notes) == ("no critical path: an XLA profile does not record what each HLO op waited for",)
