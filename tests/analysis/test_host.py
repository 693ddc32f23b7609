"""Activity of host threads, counted once for all ranks that a host drives."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from tracehound.analysis import get_analysis, host, run_analysis
from tracehound.analysis.hosts.host_threads import innermost_per_window
from tracehound.model.trace import Window

MAIN = thread("python")


def test_the_threads_of_a_host_are_read_once_for_all_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Building(format="xplane")
    for rank in range(4):
        b.event(Lane("XLA Ops", rank, "ops", work=True), "dot", rank, 10 + rank, "op")
    b.event(MAIN, "train", 0, 20, "step")
    b.event(MAIN, "StepMarker", 5, 15, "runtime")
    seen = []

    def counted(*asked: object) -> object:
        seen.append(asked)
        return innermost_per_window(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(host, "innermost_per_window", counted)
    rows = run_analysis(get_analysis("host"), b.trace()).table
    assert rows.select("event", "doing", "time").rows() == [
        ("StepMarker", "tracing the next step", 10 * US),
        ("train", "tracing the next step", 10 * US),
    ]
    assert len(seen) == 1


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(1, 15)), min_size=1, max_size=12),
    st.integers(0, 20),
    st.integers(1, 30),
)
def test_the_rows_of_a_thread_add_up_to_the_window(events: list[tuple[int, int, int]], low: int, length: int) -> None:
    b = Building()
    for number, start, long in events:
        b.event(thread(f"worker {number}"), f"f{start % 3}", start, start + long, "op")
    trace = b.trace()
    start, end = Window(low * US, (low + length) * US).clip_bounds(*trace.span)
    rows = run_analysis(get_analysis("host"), trace, Window(start, end)).table
    assert {whole for (whole,) in rows.group_by("thread").agg(pl.col("time").sum()).select("time").rows()} <= {
        end - start
    }
    assert all(time >= 0 for time in rows["time"])


def test_of_two_events_that_overlap_in_part_the_earlier_has_the_shared_time() -> None:
    b = Building()
    for name, start, end, kind in (
        ("step", 0, 200, "step"), ("A", 10, 60, "op"), ("B", 40, 90, "op"), ("C", 45, 50, "op"), ("D", 58, 70, "op")
    ):  # fmt: skip
        b.event(MAIN, name, start, end, kind)
    rows = run_analysis(get_analysis("host"), b.trace()).table
    found = dict(rows.select("event", pl.col("time") // US).iter_rows())
    assert found == {"step": 120, "A": 50, "D": 10, "B": 20}, "C is of B, and so has none of A's time"


def test_a_call_that_waits_for_its_copy_is_told_of_the_rank_whose_copy_it_is() -> None:
    b = Building()
    b.event(stream(), "Memcpy DtoH (Device -> Pageable)", 0, 20, "copy", correlation=1)
    b.event(MAIN, "cudaMemcpyAsync", 0, 21, "runtime", correlation=1)
    assert run_analysis(get_analysis("host"), b.trace()).table["doing"].to_list() == ["blocked on a copy"]


def test_a_thread_on_which_nothing_is_recorded_says_so_last() -> None:
    b = Building()
    b.event(thread("loader"), "read", 50, 60, "op")
    b.event(MAIN, "train", 0, 20, "op")
    b.event(stream(), "gemm", 0, 60)
    rows = run_analysis(get_analysis("host"), b.trace(), Window(10 * US, 30 * US)).table
    assert rows.select("thread", "event", "share", "count", "longest").rows() == [
        ("python", "train", 0.5, 1, 1),
        ("python", host.NOTHING_RECORDED, 0.5, 0, None),
        ("loader", host.NOTHING_RECORDED, 1.0, 0, None),
    ]
    between = run_analysis(get_analysis("host"), b.trace(), Window(30 * US, 40 * US))
    assert between.table.is_empty(), "where all are silent, one line says it"
