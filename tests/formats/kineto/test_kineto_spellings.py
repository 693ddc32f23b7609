"""Files that other programs have written anew, with numbers as floats or as text: they say what they said before."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from test_kineto import decoded, told, write

from short import some
from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_text
from tracehound.formats.kineto.kineto_facts import claims_in_text
from tracehound.model.notes import Note
from tracehound.model.trace import FileFrames
from tracehound.store import load_trace, open_trace_files

KEPT = ("schemaVersion", "baseTimeNanoseconds")

WAYS = {
    "floats": lambda number: float(number) if abs(number) < 1 << 53 else number,
    "text": str,
    "floats in text": lambda number: f"{number}.0",
}

KERNELS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 10, "tid": 10, "ts": 0, "dur": 50,
     "args": {"External id": 3, "Input Dims": [[4, 2], [2, 4], []], "Input type": ["float", "float", ""],
              "Sequence number": 2, "Fwd thread id": 0, "Input Strides": [[2, 1], [4, 1], []]}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 10, "tid": 10, "ts": 10, "dur": 5,
     "args": {"External id": 3, "correlation": 12}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 1, "tid": 7, "ts": 60, "dur": 20,
     "args": {"External id": 3, "correlation": 12, "device": 1, "stream": 7, "grid": [8, 1, 1], "block": [128, 1, 1],
              "registers per thread": 32, "shared memory": 4096, "blocks per SM": 1, "warps per SM": 4}},
    {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 1, "tid": -1, "ts": 90, "dur": 1,
     "args": {"device": 1, "stream": -1, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 12}},
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 10, "tid": 10, "ts": 20, "s": "t",
     "args": {"Bytes": 512, "Addr": 4096, "Device Type": 1, "Device Id": 1, "Total Allocated": 512,
              "Total Reserved": 1024}},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "pid": 10, "tid": 10, "ts": 0, "dur": 95},
    {"ph": "M", "name": "process_name", "pid": 10, "args": {"name": "python"}},
    *({"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 10, "tid": 11, "ts": 100 + n, "dur": 1}
      for n in range(50)),
]  # fmt: skip
"""Most of what a file can say with numbers; those of the second thread keep the others from the end of the file."""

AROUND = {
    "distributedInfo": {"rank": 3, "world_size": 8, "backend": "nccl"},
    "deviceProperties": [{"id": number, "name": "NVIDIA H100", "numSms": 132, "maxThreadsPerMultiprocessor": 2048,
                          "totalGlobalMem": 1 << 36} for number in range(2)],
    "with_stack": 1,
}  # fmt: skip


def rewritten(value: Any, way: Callable[[int], object]) -> Any:
    """A value of JSON with every whole number in it written that way."""
    if isinstance(value, dict):
        return {key: each if key in KEPT else rewritten(each, way) for key, each in value.items()}
    if isinstance(value, list):
        return [rewritten(each, way) for each in value]
    return way(value) if isinstance(value, int) and not isinstance(value, bool) else value


def said(part: FileFrames) -> list[object]:
    """All of it but where the events are, and that times are text."""
    notes = tuple(Note(note.level, note.code, note.count) for note in part.notes if note.code != "time_as_text")
    return told(replace(part, notes=notes, places=np.empty((0, 4))))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_number(tmp_path: Path, way: Callable[[int], object]) -> None:
    before = decoded(write(tmp_path / "before.json", KERNELS, **AROUND))
    after = decoded(write(tmp_path / "after.json", rewritten(KERNELS, way), **rewritten(AROUND, way)))
    assert said(after) == said(before)
    assert before.facts.world_size == 8
    assert before.facets["called"].collect().height == 1


@pytest.mark.parametrize("way", some(WAYS, ("floats in text",)))
def test_real_files(samples: Path, tmp_path: Path, way: str) -> None:
    small = [path for path in sorted(samples.glob("torch_*/*.json*")) if path.stat().st_size < 200_000]
    assert len(small) > 1
    for path in small:
        text = path.read_bytes()
        document = json.loads(gzip.decompress(text) if path.suffix == ".gz" else text)
        for name, one in (("before", document), ("after", rewritten(document, WAYS[way]))):
            (tmp_path / f"{name}.json").write_text(json.dumps(one))
        assert said(decoded(tmp_path / "after.json")) == said(decoded(tmp_path / "before.json")), path.name


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_is_told_at_a_glance(way: Callable[[int], object]) -> None:
    assert claims_in_text(json.dumps(rewritten(AROUND, way))) == claims_in_text(json.dumps(AROUND))
    assert claims_in_text(json.dumps(AROUND)).world_size == 8


def memory(time: int, **args: object) -> dict[str, Any]:
    said = {"Bytes": 512, "Addr": time, "Device Type": 1, "Device Id": 0, **args}
    return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": time, "args": said}


@pytest.mark.parametrize("columns", [True, False])
def test_memory_events_that_do_not_say_all_are_told_of(tmp_path: Path, *, columns: bool) -> None:
    """Where they are read as columns, and where as objects, which text among them takes."""
    lacking = [
        memory(10, Bytes=None),
        memory(20, **{"Device Type": None if columns else "CUDA"}),
        memory(30, Addr=None),
    ]
    part = decoded(write(tmp_path / "t.json", [*(memory(n) for n in range(40, 80)), *lacking, *KERNELS]))
    notes = {note_text(note).partition(",")[0]: note.count for note in part.notes if note.level == "missing"}
    assert notes["memory events without a size"] == 2
    assert notes["memory events without an address"] == 1


def test_that_no_memory_event_has_an_address_is_no_loss(tmp_path: Path) -> None:
    """As PyTorch wrote them before it wrote addresses."""
    part = decoded(write(tmp_path / "t.json", [memory(n, Addr=None) for n in range(9)]))
    assert not [note for note in part.notes if "address" in note_text(note)]


def test_a_file_of_memory_events_alone(tmp_path: Path) -> None:
    """As a filter leaves them: they are near each other in time, though no event is near them."""
    path = write(tmp_path / "t.json", [memory(10**13 + n) for n in range(5)])
    trace = load_trace(open_trace_files([path]))
    assert run_analysis(get_analysis("memory"), trace).table["peak"].to_list() == [5 * 512]
    assert not [note for note in trace.parts[0].notes if note.level == "dropped"]
