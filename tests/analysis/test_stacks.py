"""Time by call path: a story of a call, its names, its threads and what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.result import COUNTED_EVENTS
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files

MAIN = thread("python (1)")


def training() -> Building:
    """main calls train twice, which calls a builtin and an operator that launches a kernel."""
    b = Building()
    b.event(MAIN, "train.py(9): main", 0, 100, "python")
    for start in (10, 60):
        b.event(MAIN, f"ProfilerStep#{start}", start, start + 30, "step")
        b.event(MAIN, "train.py(3): train", start, start + 30, "python")
        b.event(MAIN, f"<built-in method append of list object at 0x7f{start}>", start, start + 5, "python")
        b.event(MAIN, "aten::mm", start + 10, start + 20, "op")
        b.event(MAIN, "cudaLaunchKernel", start + 12, start + 14, "runtime", correlation=start)
        b.event(stream(), "gemm", start + 40, start + 60, correlation=start)
    return b


def run_stacks(trace: Trace, window: Window | None = None, top: int | None = None, **chosen: str) -> Result:
    return run_analysis(get_analysis("stacks"), trace, window, Options(top, tuple(sorted(chosen.items()))))


def lines(shown: Result) -> list[tuple[str, int, int, int]]:
    columns = ("call", "total", "self", "device_total", "depth")
    return [
        ("  " * depth + call, total // US, own // US, (device or 0) // US)
        for call, total, own, device, depth in shown.table.select(columns).iter_rows()
    ]


def test_calls_of_one_path_are_one_row_whatever_their_addresses_and_steps() -> None:
    shown = run_stacks(training().trace())
    assert lines(shown) == [
        ("train.py(9): main", 100, 40, 40),
        ("  ProfilerStep", 60, 0, 40),
        ("    train.py(3): train", 60, 30, 40),
        ("      aten::mm", 20, 16, 40),
        ("        cudaLaunchKernel", 4, 4, 40),
        ("      <built-in method append of list object>", 10, 10, 0),
    ]
    assert shown.table["count"].to_list() == [1, 2, 2, 2, 2, 2]
    assert shown.table["share"].to_list()[:2] == [1, 0.6]
    assert shown.table["device_share"].to_list()[:2] == [1, 1]
    assert shown.table["device_self"].to_list() == [0, 0, 0, 0, 40 * US, 0]
    assert shown.table["launched"].to_list() == [0, 0, 0, 0, 2, 0]
    assert note_texts(shown.notes) == ("100 us on host threads",)


def test_self_times_add_up_to_the_total() -> None:
    table = run_stacks(training().trace()).table
    assert table["self"].sum() == table["total"][0]


def test_frames_of_python_alone_keep_the_time_of_what_they_called() -> None:
    assert lines(run_stacks(training().trace(), frames="python")) == [
        ("train.py(9): main", 100, 40, 40),
        ("  train.py(3): train", 60, 50, 40),
        ("    <built-in method append of list object>", 10, 10, 0),
    ]


def test_in_a_window_calls_are_clipped_and_work_counts_by_when_it_ran() -> None:
    assert lines(run_stacks(training().trace(), Window(55 * US, 75 * US)))[:3] == [
        ("train.py(9): main", 20, 5, 15),
        ("  ProfilerStep", 15, 0, 15),
        ("    train.py(3): train", 15, 5, 15),
    ]
    late = run_stacks(training().trace(), Window(101 * US, 111 * US))
    assert [(row[0].strip(), *row[1:]) for row in lines(late)] == [
        ("train.py(9): main", 0, 0, 10),
        ("ProfilerStep", 0, 0, 10),
        ("train.py(3): train", 0, 0, 10),
        ("aten::mm", 0, 0, 10),
        ("cudaLaunchKernel", 0, 0, 10),
    ]


def test_a_cut_keeps_the_heaviest_and_what_is_above_them() -> None:
    shown = run_stacks(training().trace(), top=4)
    assert [line[0].strip() for line in lines(shown)] == [
        "train.py(9): main", "ProfilerStep", "train.py(3): train", "aten::mm",
    ]  # fmt: skip
    assert shown.shown_rows_text == "4 of 6 rows"


def test_threads_of_one_pool_are_added_up_unless_asked_for_each() -> None:
    b = Building()
    for number in (1, 2):
        b.event(thread(f"worker {number}"), "work", 0, 10 * number, "python")
    b.event(thread("other"), "work", 0, 5, "python")
    rows = run_stacks(b.trace()).table.select("call", "thread", "total").rows()
    assert rows == [("work", "worker", 30 * US), ("work", "other", 5 * US)]
    assert run_stacks(b.trace(), threads="each").table["thread"].to_list() == ["worker 2", "worker 1", "other"]


def test_what_overlaps_in_part_counts_its_shared_time_once() -> None:
    """Of 20 us of the thread f has the first 12: g, which began inside it, has the rest, and so has what g called."""
    b = Building()
    b.event(MAIN, "f", 0, 12, "python")
    b.event(MAIN, "g", 8, 20, "python")
    b.event(MAIN, "h", 10, 16, "python")
    shown = run_stacks(b.trace())
    assert lines(shown) == [("f", 12, 12, 0), ("g", 8, 4, 0), ("  h", 4, 4, 0)]
    assert shown.table["count"].to_list() == [1, 1, 1]
    assert lines(run_stacks(b.trace(), Window(9 * US, 14 * US))) == [("f", 3, 3, 0), ("g", 2, 0, 0), ("  h", 2, 2, 0)]


@pytest.mark.thorough
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from("fgh"), st.integers(0, 40), st.integers(1, 15)),
        min_size=1,
        max_size=15,
    )
)
def test_self_times_add_up_to_the_time_in_which_threads_did_something(calls: list[tuple[int, str, int, int]]) -> None:
    b = Building()
    for number, name, start, length in calls:
        b.event(thread(f"worker {number}"), name, start, start + length, "python")
    table = run_stacks(b.trace()).table
    busy = {(number, t) for number, _, start, length in calls for t in range(start, start + length)}
    assert table["self"].sum() == len(busy) * US
    assert table.filter(depth=0)["total"].sum() == len(busy) * US
    assert table["count"].sum() == len(calls)


def test_the_longest_call_is_the_one_that_a_row_leads_to() -> None:
    b = Building()
    b.event(MAIN, "f", 0, 10, "python")
    b.event(MAIN, "f", 20, 50, "python")
    trace = b.trace()
    (event,) = run_stacks(trace).table["event"].to_list()
    assert trace.event(event)["start"] == 20 * US


def test_ranks_of_one_host_share_its_calls_and_add_their_work() -> None:
    b = training()
    b.event(MAIN, "cudaLaunchKernel", 96, 97, "runtime", correlation=5)
    b.event(stream(1), "relu", 200, 210, correlation=5)
    shown = run_stacks(b.trace())
    assert lines(shown)[0] == ("train.py(9): main", 100, 39, 50)
    assert shown.table["ranks"].to_list()[0] == 2


def test_work_whose_launch_is_not_known_is_told() -> None:
    b = training()
    b.event(stream(), "graph node", 300, 340)
    shown = run_stacks(b.trace())
    assert shown.table["device_share"][0] == 0.5
    assert "50.0 % of device time has no known launch (40.0 us)" in note_texts(shown.notes)


@pytest.mark.parametrize(("form", "word"), [("kineto", "with_stack=True"), ("xplane", "python_tracer_level=1")])
def test_what_would_have_recorded_frames_is_told(form: str, word: str) -> None:
    b = Building(format=form)
    b.event(MAIN, "aten::mm", 0, 10, "op")
    shown = run_stacks(b.trace())
    assert shown.table["call"].to_list() == ["aten::mm"]
    assert word in note_texts(shown.notes)[-1]
    assert word in note_texts(run_stacks(b.trace(), frames="python").notes)[0]


def test_a_file_of_a_device_alone_has_no_paths() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 10)
    shown = run_stacks(b.trace())
    assert shown.table.is_empty()
    assert note_texts(shown.notes) == ("no events of host threads: profile with ProfilerActivity.CPU",)


def old_trace(tmp_path: Path) -> Trace:
    """A step of 2021: two calls of one operator from one line, another from a deeper one, one without a stack."""

    def x(name: str, start: int, end: int, stack: str = "", tid: int = 1) -> dict[str, object]:
        args = {"Call stack": stack, "External id": start}
        return {"ph": "X", "cat": "Operator", "name": name, "pid": 1, "tid": tid, "ts": start, "dur": end - start,
                "args": args}  # fmt: skip

    deep = "nn/linear.py(7): forward;model.py(3): forward;train.py(9): <module>"
    events = [
        x("ProfilerStep#1", 0, 100, "profiler.py(1): __enter__"),
        x("aten::linear", 10, 30, deep),
        x("aten::mm", 12, 22, deep),
        {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 14, "dur": 2,
         "args": {"correlation": 1, "External id": 12}},
        {"ph": "X", "cat": "Kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 60, "dur": 9,
         "args": {"correlation": 1, "External id": 12, "device": 0, "stream": 7}},
        x("aten::linear", 40, 45, deep),
        x("aten::add", 50, 51, "model.py(4): forward;train.py(9): <module>"),
        x("AddBackward", 70, 80, tid=2),
    ]  # fmt: skip
    path = tmp_path / "worker0.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return load_trace(open_trace_files([path]))


def test_stacks_that_operators_carry_as_text_are_frames_with_the_time_of_these(tmp_path: Path) -> None:
    shown = run_stacks(old_trace(tmp_path))
    assert lines(shown) == [
        ("train.py(9): <module>", 26, 0, 9),
        ("  model.py(3): forward", 25, 0, 9),
        ("    nn/linear.py(7): forward", 25, 0, 9),
        ("      aten::linear", 25, 15, 9),
        ("        aten::mm", 10, 8, 9),
        ("          cudaLaunchKernel", 2, 2, 9),
        ("  model.py(4): forward", 1, 0, 0),
        ("    aten::add", 1, 1, 0),
        ("AddBackward", 10, 10, 0),
    ]
    assert shown.table["count"].to_list() == [3, 2, 2, 2, 1, 1, 1, 1, 1]
    assert shown.table["kind"].to_list()[:4] == ["python", "python", "python", "op"]
    assert note_texts(shown.notes)[-1].startswith(
        "frames come from the stacks of operators, and have the time of these operators only"
    )


def test_of_such_stacks_the_frames_alone_have_what_their_operators_took(tmp_path: Path) -> None:
    shown = run_stacks(old_trace(tmp_path), frames="python")
    assert lines(shown) == [
        ("train.py(9): <module>", 26, 0, 9),
        ("  model.py(3): forward", 25, 0, 9),
        ("    nn/linear.py(7): forward", 25, 25, 9),
        ("  model.py(4): forward", 1, 1, 0),
    ]
    assert shown.table["device_self"].to_list() == [0, 0, 9 * US, 0]


@pytest.mark.parametrize("frames", ["all", "python"])
def test_frames_of_such_stacks_name_the_operators_called_in_them(tmp_path: Path, frames: str) -> None:
    options = Options(None, (("frames", frames),), members=True)
    rows = run_analysis(get_analysis("stacks"), old_trace(tmp_path), None, options).table.filter(
        pl.col("kind") == "python"
    )
    assert [(len(set(ids)), count) for ids, count in rows.select(COUNTED_EVENTS, "count").rows()] == [
        (3, 3), (2, 2), (2, 2), (1, 1),
    ]  # fmt: skip


def test_such_stacks_in_a_window(tmp_path: Path) -> None:
    assert lines(run_stacks(old_trace(tmp_path), Window(20 * US, 42 * US), frames="python"))[:3] == [
        ("train.py(9): <module>", 12, 0, 0),
        ("  model.py(3): forward", 12, 0, 0),
        ("    nn/linear.py(7): forward", 12, 12, 0),
    ]
