"""Sizes that cannot be true are none, in every format, and `health` tells of them: sums of them would overflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_texts, render_note_columns
from tracehound.formats.spill import MaskedColumn
from tracehound.formats.value_bounds import MAX_BYTES, drop_impossible_sizes
from tracehound.formats.xla.op_kinds import parse_copy
from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files
from xspaces import Event, Line, Plane, Stat, space

HUGE = 1 << 62


def kineto(folder: Path, *events: dict[str, Any]) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)}))
    return load_trace(open_trace_files([path]))


def on_stream(cat: str, name: str, ts: float, dur: float = 1, **args: object) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur,
            "args": {"device": 0, "stream": 7, **args}}  # fmt: skip


def memory(ts: float, size: int, **more: object) -> dict[str, Any]:
    args = {"Bytes": size, "Device Type": 1, "Device Id": 0, "Addr": ts, **more}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}


def told(trace: Trace) -> list[tuple[str, int, str]]:
    health = render_note_columns(run_analysis(get_analysis("health"), trace)).table
    return health.filter(pl.col("what").str.contains("16 TiB")).select("level", "count", "where").rows()


def test_copies(tmp_path: Path) -> None:
    copies = [on_stream("gpu_memcpy", "Memcpy HtoD", 10 * n, bytes=HUGE) for n in range(1, 4)]
    sound = on_stream("gpu_memcpy", "Memcpy HtoD", 50, bytes=MAX_BYTES)
    trace = kineto(tmp_path, on_stream("kernel", "k", 0), *copies, sound)
    (row,) = run_analysis(get_analysis("transfers"), trace).table.rows(named=True)
    assert (row["copies"], row["bytes"]) == (4, MAX_BYTES)
    assert told(trace) == [("repaired", 3, "trace.json, event 1")]


def test_copies_without_a_size_have_no_rate(tmp_path: Path) -> None:
    trace = kineto(tmp_path, *(on_stream("gpu_memcpy", "Memcpy HtoD", 10 * n, bytes=HUGE) for n in range(3)))
    result = run_analysis(get_analysis("transfers"), trace)
    assert result.table.select("bytes", "rate").rows() == [(None, None)]
    assert not any("PB" in note or "PiB" in note for note in note_texts(result.notes))


def test_collectives(tmp_path: Path) -> None:
    comms = {"Collective name": "allreduce", "dtype": "Float", "Out msg nelems": 1}
    odd = [on_stream("kernel", "nccl", 10 * n, **comms, **{"In msg nelems": HUGE // 8}) for n in range(4)]
    sound = on_stream("kernel", "nccl", 90, **comms, **{"In msg nelems": 10})
    trace = kineto(tmp_path, *odd, sound)
    table = run_analysis(get_analysis("collectives"), trace).table
    assert sorted(table.select("count", "sized", "bytes").rows(), key=str) == [(1, 1, 40), (4, 0, None)]
    assert told(trace) == [("repaired", 4, "trace.json, event 0")]


@pytest.mark.parametrize("totals", [{}, {"Total Allocated": 70, "Total Reserved": 90}])
def test_memory_of_pytorch(tmp_path: Path, totals: dict[str, int]) -> None:
    events = [memory(n, HUGE) for n in range(1, 5)] + [memory(5, 70, **totals), memory(6, -HUGE, **totals)]
    trace = kineto(tmp_path, on_stream("kernel", "k", 0), *events)
    (row,) = run_analysis(get_analysis("memory"), trace).table.rows(named=True)
    assert (row["peak"], row["allocations"]) == (70, 1)
    assert trace.counters["value"].max() <= 90
    assert told(trace) == [("repaired", 5, "trace.json, event 1")]


def test_totals_of_pytorch(tmp_path: Path) -> None:
    events = [memory(n, 10, **{"Total Allocated": total, "Total Reserved": 1 << 50})
              for n, total in ((1, 10), (2, HUGE), (3, 20))]  # fmt: skip
    trace = kineto(tmp_path, on_stream("kernel", "k", 0), *events)
    assert run_analysis(get_analysis("memory"), trace).table.select("peak", "reserved").rows() == [(20, None)]
    assert trace.counters["value"].to_list() == [10, 20]
    assert told(trace) == [("repaired", 3, "trace.json, event 1")]


@pytest.mark.parametrize("size", [-512e30, 1e40, 10**30, -(10**30), HUGE])
def test_sizes_of_any_spelling_in_pytorch(tmp_path: Path, size: float) -> None:
    """Those that Int64 cannot hold, too."""
    events = [memory(1, 10), memory(2, size), memory(3, 20)]  # type: ignore[arg-type]
    trace = kineto(tmp_path, on_stream("kernel", "k", 0), *events)
    assert trace.counters["value"].to_list() == [10, 30]
    assert told(trace) == [("repaired", 1, "trace.json, event 2")]


def test_totals_below_zero_in_pytorch(tmp_path: Path) -> None:
    events = [memory(n, 10, **{"Total Allocated": total}) for n, total in ((1, 10), (2, -20), (3, 20))]
    trace = kineto(tmp_path, on_stream("kernel", "k", 0), *events)
    assert trace.counters["value"].to_list() == [10, 20]
    assert told(trace) == [("repaired", 1, "trace.json, event 2")]


@pytest.mark.parametrize("before", [0, 40])
def test_totals_that_are_written_as_floats_in_pytorch(tmp_path: Path, before: int) -> None:
    """At the end of a file, where events are read leniently, and before it."""
    events = [memory(n, 10, **{"Total Allocated": float(n)}) for n in (1, 2, 3)]
    kernels = [on_stream("kernel", "k", 100 + n) for n in range(before)]
    trace = kineto(tmp_path, on_stream("kernel", "k", 0), *events, *kernels)
    (lane,) = trace.lanes.filter(name="memory allocated")["lane"]
    assert trace.counters.filter(lane=lane)["value"].to_list() == [1, 2, 3]
    assert not told(trace)


def test_a_memory_timeline(tmp_path: Path) -> None:
    start = 1_696_966_047_000_000_000
    rows = [[start, 2, 100, 0], *([start + n, 2, 1 << 60, 0] for n in range(1, 11)), [start + 20, 4, -(1 << 60), 0]]
    path = tmp_path / "memory.raw.json"
    path.write_text(json.dumps([rows[0], ["odd"], *rows[1:]]))
    trace = load_trace(open_trace_files([path]))
    assert run_analysis(get_analysis("memory"), trace).table["peak"].to_list() == [100]
    assert trace.counters["value"].to_list() == [100, 100]
    assert told(trace) == [("dropped", 11, "memory.raw.json, row 2")]


def test_an_xplane(tmp_path: Path) -> None:
    copies = [
        Event("MemcpyH2D", 10 * n, 5, [Stat("memcpy_details", 7, f"kind:HtoD num_bytes:{size} dest:0")])
        for n, size in enumerate((4096, 10**17, 9 * 10**17))
    ]
    stats = [Stat("device_vendor", 5, "Nvidia"), Stat("compute_cap_major", 4, 9)]
    held = [
        Event("MemoryAllocation", 100 + n, 0, [Stat("bytes_allocated", 4, size), Stat("allocation_bytes", 4, size),
                                               Stat("bytes_reserved", 4, size), Stat("bytes_available", 4, 7)])
        for n, size in enumerate((64, HUGE, HUGE))
    ]  # fmt: skip
    device = Plane("/device:GPU:0", [Line("Stream #8(MemcpyH2D)", copies, 8)], stats)
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(space(device, Plane("/host:CPU", [Line("python", [*held, Event("a", 200, 1)])])))
    trace = load_trace(open_trace_files([path]))
    events = trace.events().filter(kind="copy").collect()
    assert events["bytes"].to_list() == [4096, None, None]
    first = f"vm.xplane.pb, byte {events['record'][1]:,}"
    notes = told(trace)
    assert [note[:2] for note in notes] == [("repaired", 2)] * 2
    assert first in [where for *_, where in notes]
    assert run_analysis(get_analysis("allocator"), trace).table.select("peak", "largest").rows() == [(128, 64)]


def test_ops_of_a_tpu() -> None:
    for size, known in ((1 << 42, 1 << 44), (1 << 43, None)):
        text = f"%c = (f32[{size}]{{0}}, f32[{size}]{{0:S(5)}}, u32[]) copy-start(f32[{size}]{{0:S(5)}} %p)"
        found = parse_copy("c", "copy-start", text)
        assert found is not None
        assert found.bytes == known


SIZES = st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from([-10, -9, -1, 0, MAX_BYTES, MAX_BYTES + 1])


@given(rows=st.lists(st.tuples(SIZES, st.booleans())), nullable=st.booleans(), least=st.sampled_from([0, -9]))
def test_what_is_possible(rows: list[tuple[int, bool]], *, nullable: bool, least: int) -> None:
    values = np.array([value for value, _ in rows], np.int64)
    valid = np.array([true for _, true in rows], np.bool_) if nullable else None
    sizes, beyond = drop_impossible_sizes(MaskedColumn(values, valid), least)
    there = [true or not nullable for _, true in rows]
    sound = [least <= value <= MAX_BYTES for value, _ in rows]
    assert beyond.tolist() == [here and not good for here, good in zip(there, sound, strict=True)]
    known = np.ones(len(rows), np.bool_) if sizes.valid is None else sizes.valid
    assert known.tolist() == [here and good for here, good in zip(there, sound, strict=True)]
