"""Memory of devices of every type: each under its own name, and never added together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.result import Result
from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files

MIB = 1 << 20


def memory_trace(folder: Path, *devices: tuple[int, int], category: str = "cpu_op") -> Path:
    """Two allocations on each device (type and ordinal), and one event of this category."""
    work = {
        "ph": "X",
        "cat": category,
        "name": "mm",
        "pid": 7,
        "tid": 7,
        "ts": 1,
        "dur": 9,
        "args": {"device": 0, "stream": 0},
    }
    memory = [
        {
            "ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 7, "tid": 7,
            "ts": 2 + at + 2 * number,
            "args": {"Device Type": kind, "Device Id": ordinal, "Addr": 64 * (at + 1), "Bytes": MIB,
                     "Total Allocated": (at + 1) * MIB, "Total Reserved": 8 * MIB},
        }
        for number, (kind, ordinal) in enumerate(devices)
        for at in range(2)
    ]  # fmt: skip
    path = folder / "t.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [work, *memory]}))
    return path


def memory_of(trace: Trace) -> Result:
    return run_analysis(get_analysis("memory"), trace, None, Options(None, ()))


@pytest.mark.parametrize(
    ("device", "name"),
    [((0, -1), "CPU"), ((1, 3), "GPU 3"), ((6, 0), "GPU 0"), ((12, 1), "XPU 1"), ((13, 0), "MPS 0"), ((15, 2), "HPU 2"),
     ((19, 0), "MTIA 0"), ((20, 5), "PrivateUse1 5"), ((77, 0), "device type 77, 0")],
)  # fmt: skip
def test_memory_is_named_after_its_device(device: tuple[int, int], name: str, tmp_path: Path) -> None:
    trace = load_trace(open_trace_files([memory_trace(tmp_path, device)]))
    assert memory_of(trace).table.select("device", "peak").rows() == [(name, 2 * MIB)]
    assert f"{name} memory allocated" in trace.lanes["name"].to_list()


def test_devices_of_several_types_are_not_added_together(tmp_path: Path) -> None:
    trace = load_trace(open_trace_files([memory_trace(tmp_path, (1, 0), (12, 0), (13, 0), (20, 0))]))
    table = memory_of(trace).table
    assert dict(table.select("device", "peak").iter_rows()) == dict.fromkeys(
        ("GPU 0", "XPU 0", "MPS 0", "PrivateUse1 0"), 2 * MIB
    )


@pytest.mark.parametrize(
    ("kind", "category", "label"), [(12, "xpu_kernel", "CPU"), (15, "hpu_op", "HPU 0"), (1, "kernel", "GPU 0")]
)
def test_memory_of_the_device_that_runs_kernels_is_that_of_its_rank(
    kind: int, category: str, label: str, tmp_path: Path
) -> None:
    trace = load_trace(open_trace_files([memory_trace(tmp_path, (kind, 0), category=category)]))
    assert trace.ranks["label"].to_list() == [label]
    counter = trace.lanes.filter(role="counter", name="memory allocated")
    assert counter["rank"].to_list() == ([0] if label != "CPU" else [])


def test_a_file_of_four_other_types(shared: Path) -> None:
    for name, devices in (("30-memory-other-devices", ["XPU 0", "MPS 0", "HPU 0", "PrivateUse1 0"]),
                          ("30b-memory-mps", ["MPS 0"]), ("30c-memory-xpu", ["XPU 0"])):  # fmt: skip
        trace = load_trace(open_trace_files([shared / "cases" / f"{name}.json"]))
        table = memory_of(trace).table
        assert table["device"].to_list() == devices
        assert table["capacity"].null_count() == len(devices)
