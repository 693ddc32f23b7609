"""The memory of programs against XProf's memory viewer (xprof 2.24.2), program by program.

Equal: the peak, the event at which it is reached, what lasts (parameters and results), the whole curve, and the buffers
at the peak with their sizes. Different, on purpose: XProf's unpadded peak counts lasting buffers with their padding,
ours without (on TPU a scalar parameter is 512 bytes with it, 4 without); its curve tells what is there before an event,
ours what is there after it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tracehound.analysis import Result, get_analysis, run_analysis
from tracehound.model.trace import Trace
from tracehound.store import load_trace, make_read_context, open_trace_files

MIB = 1 << 20
TRACES = {"tpu_v6e_x4_offload": 4, "jax_rocm_conv_legacy": 8}


@cache
def opened(path: Path) -> Trace:
    with make_read_context(1, None) as shop:
        return load_trace(open_trace_files([path], None, shop))


@cache
def told(path: Path, analysis: str) -> Result:
    return run_analysis(get_analysis(analysis), opened(path))


def viewers(shared: Path, trace: str) -> dict[str, dict[str, Any]]:
    """What XProf tells of each program."""
    found = (shared / "golden" / "xprof" / trace).glob("memory_viewer.*.json")
    return {
        path.name.removeprefix("memory_viewer.").removesuffix(".json"): json.loads(path.read_text()) for path in found
    }


def rows(shared: Path, trace: str, analysis: str, program: str) -> pl.DataFrame:
    table = told(shared / "traces" / "xla" / trace, analysis).table
    return table.filter((pl.col("program") == program) & (pl.col("space") == "device"))


@pytest.mark.parametrize("trace", TRACES)
def test_peaks_and_their_positions(shared: Path, trace: str) -> None:
    theirs = viewers(shared, trace)
    assert len(theirs) == TRACES[trace]
    for program, viewer in theirs.items():
        (ours,) = rows(shared, trace, "hlo_memory", program).to_dicts()
        assert ours["peak"] / MIB == pytest.approx(viewer["peakHeapMib"], rel=1e-12), program
        assert (ours["position"] or 0) == viewer.get("peakHeapSizePosition", 0), program
        lasting = ours["parameters"] + ours["outputs"] + ours["constants"]
        assert lasting / MIB == pytest.approx(viewer.get("indefiniteBufferAllocationMib", 0), rel=1e-12), program
        assert ours["parameters"] / MIB == pytest.approx(viewer.get("entryComputationParametersMib", 0), rel=1e-12)
        assert ours["unpadded"] / MIB <= viewer["peakUnpaddedHeapMib"]


def test_the_peak_of_the_offloading_program(shared: Path) -> None:
    (ours,) = rows(shared, "tpu_v6e_x4_offload", "hlo_memory", "jit_f(12190760917235803885)").to_dicts()
    assert ours["peak"] / MIB == pytest.approx(20480.00003, abs=1e-5)
    assert (ours["position"], ours["at"]) == (3, "broadcast_add_fusion.2")


@pytest.mark.parametrize("trace", TRACES)
def test_curves(shared: Path, trace: str) -> None:
    compared = 0
    for program, viewer in viewers(shared, trace).items():
        heights = viewer.get("heapSizes", [])
        ours = rows(shared, trace, "hlo_heap", program)
        for position, held in ours.select("position", "held").iter_rows():
            assert held / MIB == pytest.approx(heights[position + 1], rel=1e-12), (program, position)
            compared += 1
        (peak,) = rows(shared, trace, "hlo_memory", program)["peak"].to_list()
        assert max(heights, default=peak / MIB) == pytest.approx(peak / MIB, rel=1e-12)
    assert compared >= 8


@pytest.mark.parametrize("trace", TRACES)
def test_buffers_at_the_peak(shared: Path, trace: str) -> None:
    """XProf lumps together what is smaller than 16 KiB; the others have the same names and sizes."""
    for program, viewer in viewers(shared, trace).items():
        blocks = [block for block in viewer.get("maxHeap", []) if block.get("logicalBufferId", -1) >= 0]
        theirs = sorted((block["instructionName"], round(block["logicalBufferSizeMib"] * MIB)) for block in blocks)
        large = pl.col("bytes") >= min((size for _, size in theirs), default=1 << 62)
        ours = rows(shared, trace, "hlo_buffers", program).filter(large)
        assert sorted(ours.select("buffer", "bytes").rows()) == theirs, program


@pytest.mark.parametrize(("trace", "number"), [("tpu_v6e_x4_offload", 4), ("jax_rocm_conv_legacy", 8)])
def test_allocators(shared: Path, trace: str, number: int) -> None:
    """Of several events with the same peak XProf takes the last, here it is the first."""
    profile = json.loads((shared / "golden" / "xprof" / trace / "memory_profile.json").read_text())
    theirs = profile["memoryProfilePerAllocator"]
    ours = {row["allocator"].removeprefix("device "): row for row in
            told(shared / "traces" / "xla" / trace, "allocator").table.to_dicts()}  # fmt: skip
    assert ours.keys() == theirs.keys()
    assert len(ours) == number
    for name, viewer in theirs.items():
        row, summary = ours[name], viewer["profileSummary"]
        stats = summary["peakStats"]
        assert row["peak"] == int(stats["peakBytesInUse"])
        assert row["lifetime"] == int(summary["peakBytesUsageLifetime"])
        assert row["peak"] + row["free"] == int(summary["memoryCapacity"])
        assert (row["stack"], row["allocated"]) == (int(stats["stackReservedBytes"]), int(stats["heapAllocatedBytes"]))
        if stats["fragmentation"]:
            assert row["fragmentation"] == pytest.approx(stats["fragmentation"], abs=1e-6)
