"""Device occupancy: examples for every measure, the intervals, and a comparison with a simple loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, listing, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.devices.occupancy import occupancy_series
from tracehound.analysis.rank_trace import rank_traces
from tracehound.draw.notes import note_texts
from tracehound.model.notes import note
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files

MAIN = thread("python (1)")
A100 = {"id": 0, "numSms": 100, "maxThreadsPerMultiprocessor": 2000, "totalGlobalMem": 5}


def run_utilization(trace: Trace, window: Window | None = None, name: str = "utilization", **settings: str) -> Result:
    return run_analysis(get_analysis(name), trace, window, Options(given=tuple(sorted(settings.items()))))


def row(trace: Trace, window: Window | None = None) -> dict[str, Any]:
    (only,) = run_utilization(trace, window).table.rows(named=True)
    return only


def kernel(
    b: Building, start: float, end: float, lane: int = 7, name: str = "gemm", call: str = "", **launched: object
) -> None:
    """A kernel that was launched so."""
    number = len(b.rows)
    kind = "collective" if name.startswith("nccl") else "kernel"
    if call:
        b.event(MAIN, call, start, start, "runtime", correlation=number)
    b.event(stream(0, lane), name, start, end, kind, record=number, correlation=number if call else None)
    if launched:
        b.facets.setdefault("launched", []).append({"record": number, **launched})


def test_kernels_use_a_device_and_copies_do_not() -> None:
    b = Building()
    kernel(b, 0, 20)
    kernel(b, 10, 30, 8, "ncclDevKernel_AllReduce")
    b.event(stream(0, 9), "Memcpy", 30, 40, "copy")
    found = row(b.trace())
    assert (found["utilization"], found["span"], found["kernels"]) == (0.75, 40 * US, 2)
    assert found["sm_efficiency"] is None
    assert found["occupancy"] is None


def test_kernels_without_a_length_are_told_of_and_weigh_nothing() -> None:
    b = Building()
    kernel(b, 0, 20, occupancy=0.5)
    kernel(b, 20, 20, occupancy=0.25)
    kernel(b, 30, 30)
    b.event(stream(0, 9), "Memcpy", 30, 30, "copy")
    kernel(b, 30, 40, occupancy=0.5)
    found = row(b.trace())
    assert (found["kernels"], found["occupancy"]) == (2, 0.5)
    note = "2 kernels of length 0 left out of averages over time"
    for name in ("utilization", "utilization_curve"):
        assert note in note_texts(run_utilization(b.trace(), name=name).notes)
    assert "1 kernel of length 0 left out" in " ".join(
        note_texts(run_utilization(b.trace(), Window(25 * US, 40 * US)).notes)
    )


@pytest.mark.thorough
def test_measures_of_gpus_are_missed_on_gpus_alone(samples: Path) -> None:
    cpus = load_trace(open_trace_files([samples / "jax_cpu8_b128"]))
    b = Building()
    kernel(b, 0, 20)
    for name in ("utilization", "utilization_curve"):
        found = run_utilization(cpus, name=name).notes
        assert note("no_gpus") in found
        assert not [text for text in note_texts(found) if "CUDA" in text or "SMs" in text]
        assert "CUDA" in " ".join(note_texts(run_utilization(b.trace(), name=name).notes))
        assert note("no_gpus") not in run_utilization(b.trace(), name=name).notes


def test_multiprocessors_are_taken_once() -> None:
    b = Building()
    kernel(b, 0, 20, blocks_per_sm=0.5, occupancy=0.25)
    kernel(b, 10, 30, 8, blocks_per_sm=0.75, occupancy=0.75)
    kernel(b, 30, 40, 8, blocks_per_sm=3.0, occupancy=0.25)
    found = row(b.trace())
    assert found["sm_efficiency"] == pytest.approx((10 * 0.5 + 10 * 1 + 10 * 0.75 + 10 * 1) / 40)
    assert found["occupancy"] == pytest.approx((20 * 0.25 + 20 * 0.75 + 10 * 0.25) / 50)
    assert found["blocks_per_sm"] == pytest.approx((20 * 0.5 + 20 * 0.75 + 10 * 3) / 50)


def test_a_window_clips_kernels_and_span() -> None:
    b = Building()
    kernel(b, 0, 20, blocks_per_sm=0.5, occupancy=0.25)
    kernel(b, 20, 40, blocks_per_sm=0.25, occupancy=0.75)
    found = row(b.trace(), Window(10 * US, 30 * US))
    assert (found["utilization"], found["sm_efficiency"], found["occupancy"]) == (1.0, 0.375, 0.5)


def test_the_span_is_that_of_the_steps_and_their_work() -> None:
    b = Building()
    kernel(b, 0, 10)
    for number in (1, 2):
        b.event(MAIN, f"ProfilerStep#{number}", 20 * number, 20 * number + 20, "step", step=number)
    kernel(b, 30, 40, call="cudaLaunchKernel")
    kernel(b, 50, 80, call="cudaLaunchKernel")
    assert (row(b.trace())["span"], row(b.trace())["utilization"]) == (60 * US, pytest.approx(40 / 60))
    alone = "rows cover the steps only: 60.0 us of 80.0 us"
    assert alone in note_texts(run_utilization(b.trace()).notes)
    assert alone in note_texts(run_utilization(b.trace(), name="utilization_curve").notes)
    assert not any("alone" in note for note in note_texts(run_utilization(b.trace(), by="step").notes))
    steps = run_utilization(b.trace(), by="step").table.rows(named=True)
    assert [(s["step"], s["duration"] // US, s["utilization"]) for s in steps] == [(1, 20, 0.5), (2, 40, 0.75)]


def test_what_rocm_does_not_record_is_derived_as_far_as_it_can_be() -> None:
    b = Building(facts=listing(A100))
    kernel(b, 0, 10, call="hipLaunchKernel", grid="50,1,1", block="500,1,1")
    kernel(b, 10, 20, call="hipExtModuleLaunchKernel", grid="50000,1,1", block="500,1,1")
    kernel(b, 20, 40, name="node of a graph")
    result = run_utilization(b.trace())
    (found,) = result.table.rows(named=True)
    assert (found["blocks_per_sm"], found["occupancy"], found["derived"]) == (0.75, None, True)
    assert found["occupancy_limit"] == pytest.approx((0.125 + 0.25) / 2)
    assert (found["sm_efficiency"], found["known"]) == (pytest.approx(15 / 40), 0.5)
    notes = "\n".join(note_texts(result.notes))
    assert "occupancy was not recorded" in notes
    assert "blocks per SM of 2 of 3 kernels are computed from their grids and 100 multiprocessors" in notes
    assert (
        "SM efficiency is a lower bound: 50.0 % of kernel time has no grid (kernels of replayed graphs have none)"
    ) in notes


def test_notes_count_the_kernels_of_the_window_and_of_the_steps() -> None:
    b = Building(facts=listing(A100))
    b.event(MAIN, "ProfilerStep#1", 0, 15, "step", step=1)
    for start in (0, 10, 20):
        kernel(b, start, start + 8, call="hipLaunchKernel", grid="50,1,1", block="500,1,1")
    derived = "blocks per SM of {0} of {0} kernels are computed from their grids and 100 multiprocessors"
    assert derived.format(2) in note_texts(run_utilization(b.trace()).notes), "the span is that of the steps"
    assert derived.format(1) in note_texts(run_utilization(b.trace(), Window(9 * US, 19 * US)).notes)
    assert derived.format(2) in note_texts(run_utilization(b.trace(), by="step").notes)


def test_what_cannot_be_true_is_noted() -> None:
    b = Building()
    kernel(b, 0, 10, occupancy=4.0, blocks_per_sm=0.5)
    kernel(b, 10, 20, occupancy=0.5, blocks_per_sm=0.5)
    result = run_utilization(b.trace())
    assert result.table["occupancy"].to_list() == [0.5]
    assert any(
        "1 implausible value ignored (such as an occupancy above 100 %, or of 0 % with many threads)" in note
        for note in note_texts(result.notes)
    )
    assert not any(note.startswith("no plausible occupancy") for note in note_texts(result.notes))
    alone = Building()
    kernel(alone, 0, 10, occupancy=4.0, blocks_per_sm=0.5)
    assert "no plausible occupancy was recorded" in note_texts(run_utilization(alone.trace()).notes)


def test_notes_count_the_kernels_that_the_rows_are_of() -> None:
    b = Building()
    kernel(b, 0, 10, occupancy=4.0, blocks_per_sm=0.5)
    kernel(b, 5, 5)
    b.event(MAIN, "ProfilerStep#1", 10, 19, "step", step=1)
    kernel(b, 10, 13, occupancy=0.5, blocks_per_sm=0.5)
    kernel(b, 13, 19, occupancy=4.0, blocks_per_sm=0.5)

    def strange(number: int) -> str:
        return f"{number} implausible value{'s' * (number > 1)} ignored (such as"

    for name, settings, counted, part in (
        ("utilization", {}, strange(1), "33.3 %"),
        ("utilization", {"by": "step"}, strange(1), "33.3 %"),
        ("utilization_curve", {}, strange(1), "33.3 %"),
        ("utilization", {"by": "kernel"}, strange(2), "15.8 %"),
    ):
        notes = note_texts(run_utilization(b.trace(), name=name, **settings).notes)
        assert any(note.startswith(counted) for note in notes)
        assert any(note.startswith(f"occupancy is known for {part} of kernel time; it may exceed") for note in notes)
        assert any("1 kernel of length 0" in note for note in notes) == (settings == {"by": "kernel"})


def test_by_kernel() -> None:
    b = Building()
    kernel(b, 0, 10, blocks_per_sm=0.5, occupancy=0.5)
    kernel(b, 10, 40, blocks_per_sm=2.0, occupancy=0.1)
    kernel(b, 40, 50, name="relu", blocks_per_sm=0.25)
    rows = run_utilization(b.trace(), by="kernel").table.rows(named=True)
    assert [(r["name"], r["count"], r["total"] // US, r["share"]) for r in rows] == [
        ("gemm", 2, 40, 0.8),
        ("relu", 1, 10, 0.2),
    ]
    assert (rows[0]["sm_efficiency"], rows[0]["blocks_per_sm"]) == (pytest.approx(0.875), pytest.approx(1.625))
    assert rows[0]["occupancy"] == pytest.approx(0.2)
    assert rows[1]["occupancy"] is None
    assert b.trace().event(rows[0]["event"])["start"] == 10 * US


def test_the_curve_has_a_row_for_each_stretch() -> None:
    b = Building()
    kernel(b, 0, 15, blocks_per_sm=0.5)
    kernel(b, 30, 45, blocks_per_sm=1.0)
    rows = run_utilization(b.trace(), name="utilization_curve", bucket="10us").table.rows(named=True)
    assert [(r["start"] // US, r["duration"] // US) for r in rows] == [(0, 10), (10, 10), (20, 10), (30, 15)]
    assert [r["utilization"] for r in rows] == [1.0, 0.5, 0.0, 1.0]
    assert [r["sm_efficiency"] for r in rows] == [0.5, 0.25, 0.0, 1.0]


def test_where_no_kernel_runs_nothing_is_said_of_the_trace() -> None:
    b = Building()
    kernel(b, 0, 15, blocks_per_sm=0.5, occupancy=0.5)
    kernel(b, 30, 45, blocks_per_sm=1.0, occupancy=0.5)
    for name in ("utilization", "utilization_curve"):
        notes = note_texts(run_utilization(b.trace(), Window(16 * US, 29 * US), name=name).notes)
        assert notes[-1] == "no kernel runs in the window"
        assert not any("recorded" in note or "GPU" in note for note in notes)


def test_stretches_are_never_more_than_can_be_read() -> None:
    b = Building()
    kernel(b, 0, 15_000_000)
    result = run_utilization(b.trace(), name="utilization_curve", bucket="1ns")
    assert result.table.height == 7500
    assert note_texts(result.notes)[0] == "one row per 2.00 ms"


def test_curves_beside_the_timeline_hold_until_they_change() -> None:
    b = Building()
    kernel(b, 0, 3, blocks_per_sm=0.5)
    kernel(b, 5, 6, blocks_per_sm=0.25)
    (share,) = rank_traces(b.trace(), Window())
    found = {
        each.name: list(zip((each.time // US).tolist(), each.value.tolist(), strict=True))
        for each in occupancy_series(share)
    }
    assert found == {
        "GPU": [(0, 10_000), (3, 0), (5, 10_000), (6, 0)],
        "SM": [(0, 5_000), (3, 0), (5, 2_500), (6, 0)],
    }


def test_without_kernels_it_says_what_would_record_them() -> None:
    b = Building()
    b.event(MAIN, "aten::mm", 0, 1, "op")
    for name in ("utilization", "utilization_curve"):
        assert "ProfilerActivity.CUDA" in note_texts(run_utilization(b.trace(), name=name).notes)[0]
    assert "no steps" in note_texts(run_utilization(b.trace(), by="step").notes)[0]


KERNELS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 20),
        st.integers(1, 9),
        st.none() | st.integers(0, 8),
        st.none() | st.integers(0, 4),
    ),
    min_size=1,
    max_size=10,
)  # fmt: skip


@given(KERNELS, st.none() | st.tuples(st.integers(0, 15), st.integers(1, 15)))
def test_against_a_loop(
    kernels: list[tuple[int, int, int, int | None, int | None]], bounds: tuple[int, int] | None
) -> None:
    b = Building()
    for lane, start, length, blocks, occupancy in kernels:
        filled = {"blocks_per_sm": None if blocks is None else blocks / 4}
        kernel(b, start, start + length, lane, **filled, occupancy=None if occupancy is None else occupancy / 4)
    trace = b.trace()
    origin = min(start for _, start, *_ in kernels)
    low, high = origin, max(start + length for _, start, length, *_ in kernels)
    window = None
    if bounds is not None:
        window = Window(bounds[0] * US, (bounds[0] + bounds[1]) * US)
        low, high = origin + bounds[0], min(high, origin + bounds[0] + bounds[1])
    if low >= high:
        return
    running = [[k for k in kernels if k[1] <= now < k[1] + k[2]] for now in range(low, high)]
    found = row(trace, window)
    assert found["utilization"] == pytest.approx(sum(map(bool, running)) / (high - low))
    together = [k for here in running for k in here]
    blocks = [k[3] / 4 for k in together if k[3] is not None]
    occupied = [k[4] / 4 for k in together if k[4] is not None]
    taken = sum(min(1, sum((k[3] or 0) / 4 for k in here)) for here in running)
    assert found["sm_efficiency"] == (pytest.approx(taken / (high - low)) if blocks else None)
    assert found["blocks_per_sm"] == (pytest.approx(sum(blocks) / len(blocks)) if blocks else None)
    assert found["occupancy"] == (pytest.approx(sum(occupied) / len(occupied)) if occupied else None)
