"""Kernels by name, rank and class: stories, and all of it against plain lists."""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files


def run_kernels(trace: Trace, window: Window | None = None, **given: str) -> Result:
    return run_analysis(get_analysis("kernels"), trace, window, Options(None, tuple(given.items())))


def kernel_rows(trace: Trace, window: Window | None = None, **given: str) -> list[dict]:
    return run_kernels(trace, window, **given).table.rows(named=True)


def sums(*of_ranks: float) -> Trace:
    """One kernel on each rank, of that length."""
    b = Building()
    for rank, length in enumerate(of_ranks):
        b.event(stream(rank), "gemm", 0, length)
    return b.trace()


def test_a_row_says_what_a_kernel_is_and_took() -> None:
    b = Building()
    for start, length in ((0, 10), (20, 20), (50, 60)):
        b.event(stream(), "s16816gemm", start, start + length)
    b.event(stream(0, 20), "ncclDevKernel_AllReduce", 0, 10, "collective")
    b.event(thread(), "cudaLaunchKernel", 0, 500, "runtime")
    first, second = kernel_rows(b.trace())
    assert {name: first[name] for name in ("name", "class", "type", "tensor_cores", "count")} == {
        "name": "s16816gemm", "class": "gemm", "type": "computation", "tensor_cores": True, "count": 3,
    }  # fmt: skip
    expected = {"total": 90, "mean": 30, "min": 10, "p50": 20, "max": 60, "std": 26.457513, "p99": 59.2}
    assert {name: first[name] / US for name in expected} == pytest.approx(expected, abs=1e-6)
    assert (first["share"], second["share"], second["type"]) == (0.9, 0.1, "communication")
    assert (first["ranks"], first["slowest"], first["excess"], first["outliers"]) == (1, None, None, None)
    assert b.trace().event(first["event"])["start"] == 50 * US


def test_a_fused_kernel_has_its_operators_and_the_function_that_launched_its_longest_execution() -> None:
    b = Building()
    for number, (function, length) in enumerate((("model.py(12): forward", 10), ("model.py(90): head", 20), (None, 5))):
        start = 100 * number
        if function:
            b.event(thread(), function, start, start + 50, "python")
            b.event(thread(), "torch/_inductor/output_code.py(590): __call__", start + 1, start + 49, "python")
            b.event(thread(), "/scratch/torchinductor_me/dn/cdn.py(40): call", start + 2, start + 48, "python")
        b.event(thread(), "cuLaunchKernel", start + 3, start + 4, "runtime", correlation=number)
        b.event(stream(), "triton_poi_fused__to_copy_add_0", start + 5, start + 5 + length, correlation=number)
    b.event(thread(), "cuLaunchKernel", 400, 401, "runtime", correlation=9)
    b.event(stream(), "triton_poi_fused_0", 402, 403, correlation=9)
    b.event(stream(), "gemm", 500, 501)
    rows = kernel_rows(b.trace())
    assert [(row["name"], row["operators"], row["source"]) for row in rows] == [
        ("triton_poi_fused__to_copy_add_0", "_to_copy, add", "model.py(90): head"),
        ("gemm", None, None),
        ("triton_poi_fused_0", None, None),
    ]


def test_recorded_fused_kernels_were_launched_in_the_forward_pass_of_the_model(shared: Path) -> None:
    """Flux in xDiT: all are in a HIP graph, which the compiled forward() of the transformer launches."""
    trace = load_trace(open_trace_files([shared / "traces" / "kineto" / "big_xdit_flux"]))
    fused = [row for row in kernel_rows(trace) if row["operators"]]
    assert len(fused) == 40
    assert fused[0]["operators"].startswith("_to_copy, add, addmm, div, empty_like, mean")
    assert {row["source"].rsplit("/", 1)[1] for row in fused} == {"transformer_flux.py(264): forward"}


def test_kernels_that_lie_inside_another_on_their_stream_count_in_full() -> None:
    b = Building()
    b.event(stream(), "long", 0, 100)
    b.event(stream(), "short", 20, 30)
    assert {row["name"]: row["total"] for row in kernel_rows(b.trace())} == {"long": 100 * US, "short": 10 * US}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.sampled_from("ab"), st.sampled_from([None, "1,1,1", "8,1,1"]), st.integers(1, 30)
        ),
        min_size=1,
        max_size=10,
    )
)
def test_by_grid_each_name_has_a_row_for_each_grid_and_block(work: list[tuple[int, str, str | None, int]]) -> None:
    b, expected = Building(), defaultdict(list)
    for number, (rank, name, grid, length) in enumerate(work):
        b.event(stream(rank), name, number * 50, number * 50 + length, record=number)
        if grid:
            b.facets.setdefault("launched", []).append({"record": number, "grid": grid, "block": "256,1,1"})
        expected[name, grid, grid and "256,1,1"].append((length, rank))
    found = {(row["name"], row["grid"], row["block"]): row for row in kernel_rows(b.trace(), by="grid")}
    assert set(found) == set(expected)
    for key, lengths in expected.items():
        assert (found[key]["count"], found[key]["total"]) == (len(lengths), sum(length for length, _ in lengths) * US)
        assert found[key]["max"] == max(lengths)[0] * US
        assert found[key]["ranks"] == len({rank for _, rank in lengths})


def test_an_op_that_contains_others_counts_with_what_they_leave() -> None:
    b = Building()
    ops = Lane("XLA Ops", 0, "ops", work=True)
    b.event(ops, "while", 0, 100, "op")
    b.event(ops, "all-reduce", 20, 60, "collective")
    assert {row["name"]: row["total"] for row in kernel_rows(b.trace())} == {"while": 60 * US, "all-reduce": 40 * US}


def test_a_window_clips() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 100)
    b.event(stream(), "gemm", 200, 300)
    (row,) = kernel_rows(b.trace(), Window(50 * US, 210 * US))
    assert [row["count"], row["total"] / US, row["min"] / US, row["max"] / US] == [2, 60, 10, 50]


@pytest.mark.parametrize(
    ("lengths", "slowest", "excess", "outliers"),
    [
        ((10, 30), 1, 10, None),
        ((10, 10, 30), 2, 20, "2"),
        ((10, 10, 10.4), 2, 0.4, None),
        ((10, 11, 12, 13, 30, 9, 2), 4, 19, "4"),
        ((10, 10, 10, 1), 0, 0, "3"),
        ((10, 20, 30, 40), 3, 15, None),
    ],
)
def test_ranks_that_stand_out(lengths: tuple[float, ...], slowest: int, excess: float, outliers: str | None) -> None:
    trace = sums(*lengths)
    (row,) = kernel_rows(trace)
    assert (row["slowest"], row["excess"] / US, row["outliers"]) == (slowest, excess, outliers)
    marked = [row["rank"] for row in kernel_rows(trace, by="rank") if row["outlier"]]
    assert ", ".join(map(str, marked)) == (outliers or "")


def test_ranks_beside_each_other() -> None:
    b = Building()
    for rank in (0, 1, 2):
        b.event(stream(rank), "gemm", 0, 10 + rank)
        b.event(stream(rank), "relu", 20, 30)
    b.event(stream(2), "only here", 40, 41)
    found = [(row["name"], row["rank"], (row["excess"] or 0) / US) for row in kernel_rows(b.trace(), by="rank")]
    assert found == [
        ("gemm", 0, -1), ("gemm", 1, 0), ("gemm", 2, 1),
        ("relu", 0, 0), ("relu", 1, 0), ("relu", 2, 0),
        ("only here", 2, 0),
    ]  # fmt: skip
    whole = defaultdict(float)
    for row in kernel_rows(b.trace(), by="rank"):
        whole[row["rank"]] += row["share"]
    assert list(whole.values()) == pytest.approx([1, 1, 1])


def test_classes_together() -> None:
    b = Building()
    b.event(stream(), "s16816gemm", 0, 30)
    b.event(stream(), "sgemm", 40, 50)
    b.event(stream(), "softmax", 60, 65)
    first, second = kernel_rows(b.trace(), by="class")
    assert [first[name] for name in ("class", "names", "count", "on_tensor_cores")] == ["gemm", 2, 2, 0.75]
    assert [first[name] / US for name in ("total", "mean", "p50", "min", "max")] == [40, 20, 20, 10, 30]
    assert second["class"] == "softmax"
    mine = kernel_rows(b.trace(), by="class", classes="mine:gemm|softmax")
    assert [(row["class"], row["names"]) for row in mine] == [("mine", 3)]


def test_tensor_cores_are_summed_up() -> None:
    b = Building()
    b.event(stream(), "s16816gemm", 0, 30)
    b.event(stream(), "sgemm", 40, 100)
    b.event(stream(), "_matmul_ogs", 100, 110)
    b.event(stream(), "nccl", 200, 900, "collective")
    assert note_texts(run_kernels(b.trace()).notes) == (
        "30.0 % of computation time runs on tensor cores; unknown for 10.0 % (kernel names do not tell)",
    )


def test_no_device_is_said() -> None:
    b = Building()
    b.event(thread(), "aten::mm", 0, 10, "op")
    for by in ("name", "rank", "class"):
        assert note_texts(run_kernels(b.trace(), by=by).notes)[0] == "no device work was recorded"


NAMES = ("a_gemm", "b_gemm", "relu", "nccl")
EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(NAMES), st.integers(0, 60), st.integers(0, 3000)),
    min_size=1,
    max_size=30,
)


@given(EVENTS, st.sampled_from(["name", "class", "rank"]))
def test_against_plain_lists(events: list[tuple[int, str, int, int]], by: str) -> None:
    b = Building(unit=1000)
    found = defaultdict(list)
    on_each = [(rank, "relu", 0, 7) for rank in range(4)]  # every rank exists, whatever is drawn
    for rank, name, start, length in [*on_each, *events]:
        b.event(stream(rank), name, start, start + length, "collective" if name == "nccl" else "kernel")
        known = "gemm" if "gemm" in name else "elementwise" if name == "relu" else "collective"
        found[{"name": name, "class": known, "rank": (name, rank)}[by]].append(length * 1000)
    table = kernel_rows(b.trace(), by=by)
    assert len(table) == len(found)
    for row in table:
        lengths = found[(row["name"], row["rank"]) if by == "rank" else row[by]]
        exact = [len(lengths), sum(lengths), round(sum(lengths) / len(lengths)), min(lengths), max(lengths)]
        assert [row[name] for name in ("count", "total", "mean", "min", "max")] == exact
        assert row["std"] == (pytest.approx(statistics.stdev(lengths), abs=1) if len(lengths) > 1 else None)
        for name, part in (("p50", 0.5), ("p99", 0.99)):
            within = 0 if by == "rank" else 0.011
            assert row[name] == pytest.approx(np.quantile(lengths, part), rel=within, abs=1)
