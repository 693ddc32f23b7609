"""Modules of a model: where they stand, what they take, their gradients, and what is computed twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from building import US, Building, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files

MAIN, AUTOGRAD = 1, 2


def complete_event(name: str, start: float, end: float, cat: str, tid: int = MAIN, **args: object) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": end - start, "args": args}


def gpu(name: str, start: float, end: float, correlation: int) -> dict[str, Any]:
    return {**complete_event(name, start, end, "kernel", 7, correlation=correlation, stream=7, device=0), "pid": 0}


def step() -> list[dict[str, Any]]:
    """Model_0 calls Linear_0 and Linear_1, each an operator with a kernel; backward() follows on its own thread."""
    events = [complete_event("nn.Module: Model_0", 0, 100, "python_function")]
    for number, start in ((0, 10), (1, 50)):
        events += [
            complete_event(f"nn.Module: Linear_{number}", start, start + 30, "python_function"),
            complete_event("linear.py(7): forward", start + 1, start + 29, "python_function"),
            complete_event(
                "aten::t", start + 2, start + 4, "cpu_op", **{"Sequence number": 40 + number, "Fwd thread id": 0}
            ),
            complete_event(
                "aten::mm", start + 5, start + 25, "cpu_op", **{"Sequence number": 40 + number, "Fwd thread id": 0}
            ),
            complete_event("cudaLaunchKernel", start + 6, start + 8, "cuda_runtime", correlation=number + 1),
            gpu("gemm", start + 60, start + 70, number + 1),
        ]
    for number, start in ((1, 200), (0, 240)):
        own = {"Sequence number": 40 + number, "Fwd thread id": 1}
        events += [
            complete_event(
                "autograd::engine::evaluate_function: MmBackward0", start, start + 30, "cpu_op", AUTOGRAD, **own
            ),
            complete_event("MmBackward0", start + 2, start + 28, "cpu_op", AUTOGRAD, **own),
            complete_event("cudaLaunchKernel", start + 6, start + 8, "cuda_runtime", AUTOGRAD, correlation=number + 11),
            gpu("gemm_grad", start + 60, start + 80, number + 11),
        ]
    return events


def open_events(tmp_path: Path, events: list[dict[str, Any]]) -> Trace:
    path = tmp_path / "worker0.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return load_trace(open_trace_files([path]))


def run_modules(trace: Trace, window: Window | None = None, **chosen: str) -> Result:
    return run_analysis(get_analysis("modules"), trace, window, Options(given=tuple(sorted(chosen.items()))))


def lines(shown: Result, *columns: str) -> list[tuple[Any, ...]]:
    return [
        ("  " * depth + name, *(value // US if isinstance(value, int) else value for value in values))
        for name, depth, *values in shown.table.select("module", "depth", *columns).iter_rows()
    ]


def test_modules_stand_in_those_that_called_them(tmp_path: Path) -> None:
    shown = run_modules(open_events(tmp_path, step()))
    assert lines(shown, "host_total", "host_self", "device_total", "device_self") == [
        ("Model_0", 100, 40, 20, 0),
        ("  Linear_0", 30, 30, 10, 10),
        ("  Linear_1", 30, 30, 10, 10),
    ]
    assert shown.table["operators"].to_list() == [0, 2, 2]
    assert shown.table["share"].to_list()[0] == 20 / 60
    assert shown.table["host_share"].to_list() == [1, 0.3, 0.3]


def test_a_gradient_belongs_to_the_module_of_the_last_operator_with_its_number(tmp_path: Path) -> None:
    shown = run_modules(open_events(tmp_path, step()))
    assert lines(shown, "backward_host", "backward_device") == [
        ("Model_0", 60, 40), ("  Linear_0", 30, 20), ("  Linear_1", 30, 20),
    ]  # fmt: skip
    assert shown.notes == ()


def test_modules_whose_gradients_alone_are_in_a_window_have_rows_in_it(tmp_path: Path) -> None:
    trace = open_events(tmp_path, step())
    whole = lines(run_modules(trace), "backward_host", "backward_device")
    low, high = trace.span
    cut = low + 225 * US  # in the gradient of Linear_1, after all that the modules did themselves
    parts = [
        lines(run_modules(trace, Window(*bounds)), "backward_host", "backward_device")
        for bounds in ((low, cut), (cut, high))
    ]
    assert parts[1] == [("Model_0", 35, 40), ("  Linear_0", 30, 20), ("  Linear_1", 5, 20)]
    sums = [(name, *(sum(values) for values in zip(*(part[1:] for part in both), strict=True)))
            for name, *both in zip([row[0] for row in whole], *parts, strict=True)]  # fmt: skip
    assert sums == whole


def test_numbers_are_those_of_a_thread(tmp_path: Path) -> None:
    events = step()
    events += [  # another thread has the same numbers, but fewer of them lead to gradients
        complete_event("nn.Module: Other_0", 0, 9, "python_function", 3),
        complete_event("aten::mul", 1, 2, "cpu_op", 3, **{"Sequence number": 41, "Fwd thread id": 0}),
    ]
    shown = run_modules(open_events(tmp_path, events))
    assert dict(shown.table.select("module", "backward_host").iter_rows())["Other_0"] == 0


def replicas(threads: list[list[int]], devices: bool) -> list[dict[str, Any]]:  # noqa: FBT001
    """Forward threads that begin one after the other, with as many operators and gradients as lengths of gradients.

    All number from 0. Their gradients, on a thread each, have their own lengths, last ones first.
    """
    events = []
    for place, lengths in enumerate(threads):
        device = place if devices else 0
        for number, length in enumerate(lengths):
            start, begin = 10 * number + place, 1000 - 20 * number + place
            launch = (100 * place + number) * 2
            events += [
                complete_event(f"nn.Module: Linear_{place}_{number}", start, start + 6, "python_function", 10 + place),
                complete_event("aten::mm", start + 1, start + 5, "cpu_op", 10 + place, **{"Sequence number": number}),
                complete_event(
                    "cudaLaunchKernel", start + 2, start + 3, "cuda_runtime", 10 + place, correlation=launch
                ),
                on_device(device, gpu("gemm", start + 5, start + 6, launch), 7 + place),
                complete_event(
                    "MmBackward0",
                    begin,
                    begin + length,
                    "cpu_op",
                    20 + place,
                    **{"Sequence number": number, "Fwd thread id": 3 + place},
                ),
                complete_event(
                    "cudaLaunchKernel", begin, begin + 1, "cuda_runtime", 20 + place, correlation=launch + 1
                ),
                on_device(device, gpu("gemm_grad", begin + 2, begin + 2 + length, launch + 1), 7 + place),
            ]
    return events


def on_device(device: int, event: dict[str, Any], stream: int) -> dict[str, Any]:
    args = {**event["args"], "device": device, "stream": stream}
    return {**event, "pid": device, "tid": stream, "args": args}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(2, 9), min_size=1, max_size=3), min_size=1, max_size=4), st.booleans())
def test_each_forward_thread_has_gradients_of_its_own(tmp_path: Path, threads: list[list[int]], devices: bool) -> None:  # noqa: FBT001
    shown = run_modules(open_events(tmp_path, replicas(threads, devices)))
    found = {
        name: (host // US, device // US)
        for name, host, device in shown.table.select("module", "backward_host", "backward_device").iter_rows()
    }
    assert found == {
        f"Linear_{place}_{number}": (length, length)
        for place, lengths in enumerate(threads)
        for number, length in enumerate(lengths)
    }


def test_threads_that_nothing_tells_apart_are_told(tmp_path: Path) -> None:
    said = (
        "2 forward threads with autograd sequence numbers of other threads: gradients are matched by "
        "the order in which the threads began"
    )
    alike = [[3, 4], [5, 6]]
    (note,) = note_texts(run_modules(open_events(tmp_path, replicas(alike, devices=False))).notes)
    assert note.startswith(said)
    assert run_modules(open_events(tmp_path, replicas(alike, devices=True))).notes == ()
    assert run_modules(open_events(tmp_path, step())).notes == ()


def test_the_device_tells_threads_apart_that_were_there_before(tmp_path: Path) -> None:
    """Their order in the recording is another than that in which PyTorch counted them."""
    events = replicas([[3, 4], [5, 6]], devices=True)
    for event in events:
        if "Fwd thread id" in event["args"]:
            event["args"]["Fwd thread id"] = 7 - event["args"]["Fwd thread id"]
    shown = run_modules(open_events(tmp_path, events))
    assert dict(shown.table.select("module", pl.col("backward_device") // US).iter_rows()) == {
        "Linear_0_0": 3, "Linear_0_1": 4, "Linear_1_0": 5, "Linear_1_1": 6,
    }  # fmt: skip


def test_a_thread_of_which_no_lane_is_left_leads_nowhere(tmp_path: Path) -> None:
    events = replicas([[3, 4], [5]], devices=False)
    events = [event for event in events if event["tid"] != 11]  # the second forward thread was not recorded
    shown = run_modules(open_events(tmp_path, events))
    assert shown.table["backward_host"].to_list() == [3 * US, 4 * US]


def test_what_backward_calls_again_stands_beside_its_first_call(tmp_path: Path) -> None:
    events = step()
    events += [
        complete_event("nn.Module: Linear_1", 209, 227, "python_function", AUTOGRAD),
        complete_event("aten::mm", 209, 225, "cpu_op", AUTOGRAD),
        complete_event("cudaLaunchKernel", 210, 211, "cuda_runtime", AUTOGRAD, correlation=21),
        gpu("gemm", 300, 305, 21),
    ]
    shown = run_modules(open_events(tmp_path, events))
    assert lines(shown, "host_total", "device_total", "backward_host") == [
        ("Model_0", 100, 25, 30 + 30 - 18),
        ("  Linear_0", 30, 10, 30),
        ("  Linear_1", 30, 10, 12),
        ("  recomputed Linear_1", 18, 5, 0),
    ]
    assert shown.table["host_share"].to_list() == pytest.approx([100 / 118, 30 / 118, 30 / 118, 18 / 118])
    assert shown.table["host_self"][0] == 40 * US, "what is computed again is no part of the first call"
    assert note_texts(shown.notes) == ("recomputation in backward(): 18.0 us on the host, 5.00 us on the device",)


def test_modules_of_one_class_in_one_place_can_be_one_row(tmp_path: Path) -> None:
    shown = run_modules(open_events(tmp_path, step()), by="class")
    assert lines(shown, "host_total", "mean") == [("Model", 100, 100), ("  Linear", 60, 30)]
    assert shown.table["count"].to_list() == [1, 2]


def test_work_of_no_module_is_told(tmp_path: Path) -> None:
    events = [
        *step(),
        complete_event("cudaLaunchKernel", 400, 402, "cuda_runtime", correlation=31),
        gpu("adam", 410, 450, 31),
    ]
    shown = run_modules(open_events(tmp_path, events))
    assert note_texts(shown.notes) == (
        (
            "40.0 % of device time was launched outside of known modules (40.0 us): by the optimizer, "
            "communication, graph replays, or code outside of the model"
        ),
    )


def test_work_whose_launch_was_not_recorded_is_no_optimizers(tmp_path: Path) -> None:
    early = [*step(), gpu("early", 410, 450, 31)]
    shown = run_modules(open_events(tmp_path, early))
    part = "40.0 % of device time was launched outside of known modules (40.0 us): "
    assert note_texts(shown.notes) == (f"{part}all of it without a recorded launch (it may be before the recording)",)
    both = [
        *early,
        complete_event("cudaLaunchKernel", 460, 462, "cuda_runtime", correlation=32),
        gpu("adam", 470, 480, 32),
    ]
    (note,) = note_texts(run_modules(open_events(tmp_path, both)).notes)
    assert "(50.0 us): 40.0 us without a recorded launch (it may be before the recording); the rest by the" in note


def test_gradients_without_numbers_are_told(tmp_path: Path) -> None:
    events = step()
    for event in events:
        event["args"].pop("Sequence number", None)
    shown = run_modules(open_events(tmp_path, events))
    assert set(shown.table["backward_host"].to_list()) == {0}
    assert note_texts(shown.notes)[0].startswith(
        "66.7 % of device time was launched outside of known modules (40.0 us): by the optimizer, "
        "communication, graph replays, or code outside of the model"
    )
    assert note_texts(shown.notes)[1] == "backward() ran, but autograd sequence numbers do not tell for which module"


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("kineto", "with_stack=True"),
        ("xplane", "no modules in an XLA profile; for scopes of HLO ops see hlo_ops --set by=scope"),
    ],
)
def test_without_modules_the_option_that_records_them_is_named(form: str, word: str) -> None:
    b = Building(format=form)
    b.event(thread(), "aten::mm", 0, 10, "op")
    shown = run_modules(b.trace())
    assert shown.table.is_empty()
    assert word in note_texts(shown.notes)[0]
