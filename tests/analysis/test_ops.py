"""Ops: sums, self times, bases, and windows, against a slow count."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window

OPS = Lane("XLA Ops", 0, "ops", work=True)


def ops(trace: Trace, window: Window | None = None, top: int | None = None) -> Result:
    return run_analysis(get_analysis("ops"), trace, window, Options(top))


def test_kernels_of_two_ranks() -> None:
    b = Building()
    b.event(stream(0), "gemm", 0, 30)
    b.event(stream(0), "gemm", 50, 60)
    b.event(stream(1), "gemm", 0, 20)
    b.event(stream(1), "relu", 20, 80)
    b.event(thread(), "aten::mm", 0, 900, "op")
    rows = {row["name"]: row for row in ops(b.trace()).table.rows(named=True)}
    gemm = rows["gemm"]
    assert (gemm["count"], gemm["self"], gemm["total"], gemm["ranks"]) == (3, 60 * US, 60 * US, 2)
    assert (gemm["mean"], gemm["min"], gemm["max"]) == (20 * US, 10 * US, 30 * US)
    assert gemm["share"] == 0.5
    assert gemm["time_share"] == pytest.approx(60 / 140)
    assert list(rows) == ["gemm", "relu"]


def test_ops_that_tie_come_in_the_order_of_their_programs() -> None:
    programs = [104, 101, 103, 105, 102, 100]
    b = Building(format="xplane")
    for number, program in enumerate(programs):
        b.ops.append({"op": number, "name": "dot", "category": "dot", "module": "jit_f", "program": program})
        b.event(OPS, "dot", 10 * number, 10 * number + 5, "op", op=number)
    assert ops(b.trace()).table["program"].to_list() == [str(program) for program in sorted(programs)]


def test_a_device_that_does_nothing_in_the_window_is_idle_in_it() -> None:
    b = Building()
    b.event(stream(0), "gemm", 0, 100)
    b.event(stream(1), "gemm", 0, 20)
    b.event(stream(1), "gemm", 60, 100)
    result = ops(b.trace(), Window(20 * US, 60 * US))
    (gemm,) = result.table.rows(named=True)
    assert (gemm["count"], gemm["ranks"], gemm["time_share"]) == (1, 1, 0.5)
    what = "rows are kernels, memcpy and memset on 2 ranks"
    assert note_texts(result.notes)[:2] == (what, "idle 50.0 % of 80.0 us device time")
    alone = ops(b.trace(), Window(20 * US, 60 * US, ranks=(1,)))
    assert alone.table.is_empty()
    assert note_texts(alone.notes) == (
        "no kernel, HLO op or operator in the window",
        "idle 100 % of 40.0 us device time",
    )


def test_the_longest_execution_is_linked() -> None:
    b = Building()
    b.event(stream(0), "gemm", 0, 30)
    b.event(stream(0), "gemm", 50, 90)
    trace = b.trace()
    assert trace.event(ops(trace).table["event"][0])["start"] == 50 * US


def test_a_device_clock_measures_ops() -> None:
    b = Building()
    b.event(OPS, "while", 0, 100, "op", device_start=0, device_end=90 * US)
    b.event(OPS, "dot", 10, 50, "op", device_start=5 * US, device_end=44 * US)
    result = ops(b.trace())
    assert {r["name"]: r["self"] // US for r in result.table.rows(named=True)} == {"while": 51, "dot": 39}
    assert note_texts(result.notes)[1] == "idle 0 % of 90.0 us device time"


def test_a_window_clips_on_the_device_s_own_clock() -> None:
    b = Building()
    b.event(OPS, "while", 0, 100, "op", device_start=0, device_end=90 * US)
    b.event(OPS, "dot", 10, 50, "op", device_start=5 * US, device_end=44 * US)
    rows = ops(b.trace(), Window(0, 60 * US)).table.rows(named=True)
    assert {r["name"]: (r["self"] // US, r["total"] // US) for r in rows} == {"while": (14, 53), "dot": (39, 39)}


def test_the_time_of_a_gpu_with_hlo_ops_is_that_of_all_its_streams() -> None:
    b = Building(format="xplane")
    for lane in (stream(), Lane("XLA Ops", 0, "ops")):
        b.event(lane, "gemm", 0, 50)
    b.event(stream(number=8), "Memcpy DtoD", 60, 100, "copy")
    result = run_analysis(get_analysis("ops"), b.trace())
    assert result.table["time_share"].to_list() == [0.5], "as in XProf"
    assert "idle 10.0 % of 100 us device time" in note_texts(result.notes)


def test_operators_where_there_is_no_device() -> None:
    b = Building()
    b.event(thread(), "aten::linear", 0, 100, "op")
    b.event(thread(), "aten::mm", 20, 80, "op")
    b.event(thread(), "step", 0, 200, "annotation")
    result = ops(b.trace())
    assert {r["name"]: r["self"] // US for r in result.table.rows(named=True)} == {"aten::linear": 40, "aten::mm": 60}
    assert "rows are host operators on 1 rank" in note_texts(result.notes)[0]


def test_nothing_to_count() -> None:
    result = ops(
        Building(lanes=[thread()], rows=[{"lane": 0, "name": "x", "kind": "other", "start": 0, "end": 1}]).trace()
    )
    assert result.table.is_empty()
    assert result.total == 0


NESTED = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=3), max_leaves=8)


@given(NESTED, st.tuples(st.integers(0, 40), st.integers(1, 40)), st.sampled_from([OPS, thread()]))
def test_nested_ops_in_a_window(tree: list, bounds: tuple[int, int], lane: Lane) -> None:
    """A random tree of ops: each takes a unit before, between and after its children."""
    b, spans = Building(unit=1), []

    def lay(node: list, start: int, depth: int) -> int:
        at, index = start + 1, len(spans)
        spans.append((start, 0, depth))
        for child in node:
            at = lay(child, at, depth + 1) + 1
        spans[index] = (start, at, depth)
        return at

    lay(tree, 0, 0)
    for start, end, depth in spans:
        b.event(lane, f"op{depth}", start, end, "op")
    trace = b.trace()
    low, high = Window(bounds[0], sum(bounds)).clip_bounds(*trace.span)
    expected: dict[str, int] = defaultdict(int)
    for t in range(low, high):
        inside = [depth for start, end, depth in spans if start <= t < end]
        if inside:
            expected[f"op{max(inside)}"] += 1
    counts = Counter(f"op{depth}" for start, end, depth in spans if start < high and end > low)
    rows = ops(trace, Window(bounds[0], sum(bounds))).table.rows(named=True)
    assert {row["name"]: row["count"] for row in rows} == counts
    assert {row["name"]: row["self"] for row in rows if row["self"]} == dict(expected)
