"""Files of other programs in Chrome's form: read, or refused in one line that names the writer."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.result import Result
from tracehound.cli.main import main
from tracehound.errors import TracehoundError
from tracehound.formats import detect_format
from tracehound.formats.file_signatures import CompanionFileError
from tracehound.model.trace import Trace, collect_frame
from tracehound.store import load_trace, open_trace_files


def read(path: Path) -> Trace:
    return load_trace(open_trace_files([path]))


def analyze(trace: Trace, analysis: str, **given: str) -> Result:
    return run_analysis(get_analysis(analysis), trace, None, Options(None, tuple(given.items())))


def kinds(trace: Trace) -> dict[str, int]:
    """The number of events on the lanes of devices, by kind."""
    lanes = trace.lanes.filter("work")["lane"].to_list()
    counts = collect_frame(trace.events(lanes).select("kind"))["kind"].cast(str).value_counts()
    return dict(counts.iter_rows())


def process(pid: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}


def thread(pid: int, tid: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def event(name: str, pid: int, tid: int, start: float, length: float, **more: object) -> dict[str, object]:
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": f"{start}", "dur": length, **more}


NPU = [
    event("ProfilerStep#7", 1, 1, 0, 990, cat="cpu_op"),
    event("aten::mm", 1, 1, 10, 20, cat="cpu_op"),
    event("Enqueue@aclnnMm", 1, 1, 12, 5, cat="enqueue"),
    event("Node@launch", 2, 3, 20, 5),
    event("MatMulV3", 9, 5, 50, 100),
    event("EVENT_WAIT", 9, 5, 150, 20),
    event("MEMCPY_ASYNC", 9, 6, 160, 30),
    event("hcom_broadcast__12_0", 8, 2, 200, 40, args={"count": 3}),
    event("Notify_Wait", 8, 4, 200, 10),
    event("Computing", 7, 0, 50, 100),
    {"ph": "s", "name": "torch_to_npu", "cat": "async_npu", "id": "17", "pid": 1, "tid": 1, "ts": "10"},
    {"ph": "f", "bp": "e", "name": "torch_to_npu", "cat": "async_npu", "id": "17", "pid": 9, "tid": 5, "ts": "50"},
]
NPU_NAMES = [
    process(1, "Python"), process(2, "CANN"), process(9, "Ascend Hardware"), process(8, "HCCL"),
    process(7, "Overlap Analysis"), thread(9, 5, "Stream 5"), thread(8, 2, "Group 1 Communication"),
    thread(8, 4, "Plane 0"),
]  # fmt: skip


@pytest.mark.parametrize("names_first", [True, False], ids=["names first", "names last"])
def test_rows_of_an_npu_are_those_of_a_device(names_first: bool, tmp_path: Path) -> None:  # noqa: FBT001, a parameter
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps([*NPU_NAMES, *NPU] if names_first else [*NPU, *NPU_NAMES]))
    trace = read(path)
    assert trace.ranks["label"].to_list() == ["NPU 0"]
    assert kinds(trace) == {"kernel": 1, "copy": 1, "collective": 1, "sync": 1}
    assert sorted(trace.lanes.filter(~trace.lanes["work"] & trace.lanes["rank"].is_not_null())["name"]) == [
        "Overlap Analysis 0", "Plane 0",
    ]  # fmt: skip
    kernels = collect_frame(
        trace.events(trace.lanes.filter("work")["lane"].to_list()).filter(pl.col("kind") == "kernel")
    )
    assert kernels["launch"].null_count() == 0
    assert analyze(trace, "steps").table.height == 1
    assert "ProfilerActivity.CUDA" not in str(analyze(trace, "breakdown").notes)


def test_a_whole_file_of_torch_npu(shared: Path) -> None:
    trace = read(shared / "cases" / "04-ascend-trace_view.json")
    assert kinds(trace) == {"kernel": 12, "collective": 3}


def engine(name: str, hardware: str, stream: int, start: float) -> dict[str, object]:
    args = {"HW event name": hardware, "device": 0, "stream": stream}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": 5.0, "args": args}


@pytest.mark.parametrize("others", [0, 100])
def test_engines_of_gaudi_tell_what_their_work_is(others: int, tmp_path: Path) -> None:
    engines = [
        engine("GEMM", "MMEH_WB", 1, 0), engine("relu", "TPC_SPU_START_TO_SPU_HALT", 2, 10), engine("up", "PDMA_0_WR", 3, 20),  # noqa: E501
        engine("x", "STM_1_TX", 4, 30), engine("y", "NIC_3_RX", 5, 40), engine("z", "DBG_DMA_TRC_WR_DATA_LAST", 6, 50),
    ]  # fmt: skip
    plain = [engine("k", "", 9, 100 + 10 * number) for number in range(others)]
    for each in plain:
        each["args"] = {"device": 0, "stream": 9}
    path = tmp_path / "hpu.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*plain, *engines]}))
    trace = read(path)
    assert kinds(trace) == {"kernel": 2 + others, "copy": 2, "collective": 2}
    assert trace.ranks["label"].to_list() == ["HPU 0"]


def test_a_profile_of_onnx_runtime_has_operators_streams_and_steps(tmp_path: Path) -> None:
    runs = range(3)
    rows = [
        *({"cat": "Session", "name": "model_run", "ts": 100 * run, "dur": 90} for run in reversed(runs)),
        *({"cat": "Node", "name": f"Conv_{run}_kernel_time", "ts": 100 * run + 5, "dur": 20} for run in runs),
        *({"cat": "Kernel", "name": "gemm", "ts": 100 * run + 10, "dur": 30, "args": {"stream": "7"}} for run in runs),
        {"cat": "Api", "name": "cudaLaunchKernel", "ts": 6, "dur": 1},
    ]
    path = tmp_path / "onnxruntime_profile.json"
    path.write_text(json.dumps([{"ph": "X", "pid": 4242, "tid": 4243, **row} for row in rows]))
    trace = read(path)
    assert trace.ranks["label"].to_list() == ["GPU 0"]
    assert analyze(trace, "steps").table.sort("step").select("step", "duration").rows() == [
        (number, 90_000_000) for number in range(3)
    ]
    assert sorted(analyze(trace, "operators").table["name"]) == [f"Conv_{run}_kernel_time" for run in range(3)]
    assert trace.lanes.filter("work")["stream"].to_list() == [7]
    assert any(note.code == "written_by" for note in trace.notes)


def test_cases_of_onnx_runtime_and_gaudi(shared: Path) -> None:
    onnx = read(shared / "cases" / "25-onnxruntime_profile__2026-05-01.json")
    assert (onnx.ranks["label"].to_list(), onnx.steps.height) == (["GPU 0"], 3)
    gaudi = read(shared / "cases" / "28-gaudi.json")
    assert kinds(gaudi) == {"kernel": 18, "copy": 3, "collective": 3}


DOCUMENT = {
    "schemaVersion": 1,
    "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}],
}
FOREIGN: Mapping[str, tuple[Any, str]] = {
    "list of traces": ([DOCUMENT, DOCUMENT], "a list of whole traces.*split it"),
    "list of one trace": ([DOCUMENT], "a list of whole traces"),
    "paddle": ({**DOCUMENT, "schemaVersion": "1.0.0", "span_indx": "0"}, "Paddle"),
    "rocprof": ({"traceEvents": [{}, {"ph": "X", "name": "k", "ts": "1", "args": {"BeginNs": "1"}}]}, "rocprof"),
    "nsys2json": ([{"ph": "X", "name": "k", "cat": "cuda", "pid": "Device 1", "ts": 1.0}], "nsys2json"),
    "viztracer": ({"traceEvents": [{"ph": "X", "cat": "FEE", "name": "f", "ts": 1, "dur": 1}]}, "VizTracer"),
    "begin and end": ([{"ph": "B", "name": "a", "ts": 1}, {"ph": "E", "ts": 2}], "begin and end events"),
}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(("document", "words"), FOREIGN.values(), ids=FOREIGN)
def test_another_writer_is_named_in_one_line(document: object, words: str, indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document, indent=indent))
    with pytest.raises(TracehoundError, match=words) as refused:
        read(path)
    assert "\n" not in str(refused.value)
    assert refused.value.code == 2


def test_a_file_of_which_nothing_is_an_event_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps({"schemaVersion": 1, "distributedInfo": {}, "traceEvents": [{"name": "a"}, {"ph": "?"}]})
    )
    assert main(["--no-cache", "summary", str(path)]) == 2
    assert "no event can be read from it: all 2 were dropped" in capsys.readouterr().err


SNAPSHOT = {
    "segments": [{"device": 0, "address": 1, "total_size": 2, "segment_type": "small", "blocks": []}],
    "device_traces": [[]],
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("snapshot", [SNAPSHOT, {"segments": [], "device_traces": []}, SNAPSHOT["segments"]])
def test_a_memory_snapshot_of_every_protocol_is_named_and_never_loaded(
    snapshot: object, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot, protocol))
    monkeypatch.setattr(pickle, "loads", None)
    monkeypatch.setattr(pickle, "load", None)
    with pytest.raises(CompanionFileError, match="memory snapshot") as refused:
        detect_format(path)
    assert "memory_viz" in refused.value.remedy


@pytest.mark.parametrize(
    ("table", "words"),
    [("CUPTI_ACTIVITY_KIND_KERNEL", "Nsight Systems"), ("rocpd_kernel_dispatch", "rocprof"), ("x", "SQLite database")],
)
def test_databases_of_other_profilers_are_named(table: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE {table} (a)")
    database.close()
    with pytest.raises(CompanionFileError, match=words) as refused:
        detect_format(path)
    assert "torch.profiler" in refused.value.remedy


def test_companions_in_a_folder_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "rank0.pt.trace.json").write_text(json.dumps(DOCUMENT))
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(SNAPSHOT, 5))
    (tmp_path / "report.nsys-rep").write_bytes(b"\x01\x00\x02binary")
    (tmp_path / "t.pftrace").write_bytes(b"\n\x0b\x40\x80\x01\x50\x01\x5a\x04\x48\x01\x58\x07" * 2)
    trace = read(tmp_path)
    assert [note.level for note in trace.notes if note.code == "companion_file"] == ["info"] * 3
    with pytest.raises(CompanionFileError, match="Nsight Systems"):
        detect_format(tmp_path / "report.nsys-rep")


def test_settings_beside_a_profile_of_torch_npu_are_passed_over(shared: Path) -> None:
    trace = read(shared / "cases" / "05-ascend-dir")
    assert trace.ranks.height == 2
    assert not [note for note in trace.notes if note.code in ("companion_file", "path_refused")]


def test_viztracer_beside_torch_is_read(shared: Path) -> None:
    assert kinds(read(shared / "cases" / "27-viztracer-log_torch.json"))["kernel"] > 0
