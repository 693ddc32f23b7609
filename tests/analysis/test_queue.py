"""Queue lengths: examples, the time series, and a comparison with a simple loop."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.queue import queue_series
from tracehound.analysis.rank_trace import rank_traces
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window

MAIN = thread("python (1)")
MODULES = Lane("XLA Modules", 0, "modules")
OPS = Lane("XLA Ops", 0, "ops", work=True)


def pairs(*times: tuple[float, float], lane: Lane | None = None) -> Building:
    """Launches at the first and kernels that begin at the second time of each pair; a call takes 1 us, a kernel 2."""
    b = Building()
    for number, (called, start) in enumerate(times):
        b.event(lane or stream(), f"k{number}", start, start + 2, correlation=number)
        b.event(MAIN, "cudaLaunchKernel", called, called + 1, "runtime", correlation=number)
    return b


def queue_row_of(trace: Trace, window: Window | None = None, **settings: str) -> dict[str, Any]:
    result = run_analysis(get_analysis("queue"), trace, window, Options(given=tuple(sorted(settings.items()))))
    (only,) = result.table.rows(named=True)
    return only


def lengths(trace: Trace, window: Window | None = None) -> dict[str, list[tuple[int, int]]]:
    """The series of all streams: instants in us, and lengths."""
    return {
        found.name: list(zip((found.time // US).tolist(), found.value.tolist(), strict=True))
        for share in rank_traces(trace, window or Window())
        for found in queue_series(share)
    }


def test_a_queue_grows_at_the_call_and_shrinks_when_the_work_begins() -> None:
    trace = pairs((0, 10), (4, 30), (5, 40)).trace()
    assert lengths(trace) == {"stream 7": [(0, 1), (4, 2), (5, 3), (10, 2), (30, 1), (40, 0)]}
    found = queue_row_of(trace)
    assert (found["launches"], found["span"], found["max"], found["at"]) == (3, 40 * US, 3, 5 * US)
    assert found["mean"] == pytest.approx((1 * 4 + 2 * 1 + 3 * 5 + 2 * 20 + 1 * 10) / 40)
    assert (found["p50"], found["p99"]) == (2, 3)
    assert trace.event(found["event"])["start"] == 5 * US


def test_the_summary_of_the_changes_counts_each_once_however_long_it_lasts() -> None:
    found = queue_row_of(pairs((0, 10), (4, 30), (5, 40)).trace())
    seen = [1, 2, 3, 2, 1, 0]
    assert found["points"] == 6
    assert found["point_mean"] == pytest.approx(statistics.mean(seen))
    assert found["point_std"] == pytest.approx(statistics.stdev(seen))
    assert [found[f"point_p{part}"] for part in (25, 50, 75)] == np.quantile(seen, (0.25, 0.5, 0.75)).tolist()


def test_a_full_queue_blocks() -> None:
    trace = pairs((0, 10), (4, 30), (5, 40)).trace()
    assert queue_row_of(trace, limit="2")["blocked"] == 26 * US
    assert queue_row_of(trace, limit="2")["blocked_share"] == pytest.approx(26 / 40)
    assert queue_row_of(trace, limit="4")["blocked"] == 0


def test_a_queue_that_is_nearly_full_is_told() -> None:
    trace = pairs(*((number, 1000 + number) for number in range(100))).trace()
    nearly = run_analysis(get_analysis("queue"), trace, options=Options(given=(("limit", "101"),)))
    assert note_texts(nearly.notes)[0].startswith("the queue is nearly full")
    assert not any("nearly" in note for note in note_texts(run_analysis(get_analysis("queue"), trace).notes))


def test_a_queue_beyond_the_limit_of_cuda_has_none() -> None:
    trace = pairs(*((number, 3000 + number) for number in range(1100))).trace()
    assert note_texts(run_analysis(get_analysis("queue"), trace).notes) == (
        "the queue holds up to 1,100 launches: 1,024 is no limit here (HIP has none)",
    )


def test_a_graph_is_one_entry_on_each_stream_until_its_first_node_begins() -> None:
    b = Building()
    b.event(MAIN, "cudaGraphLaunch", 0, 5, "runtime", correlation=1)
    for start in (10, 20, 30):
        b.event(stream(), "node", start, start + 5, correlation=1)
    b.event(stream(0, 8), "node", 15, 18, correlation=1)
    assert lengths(b.trace()) == {"stream 7": [(0, 1), (10, 0)], "stream 8": [(0, 1), (15, 0)]}
    table = run_analysis(get_analysis("queue"), b.trace()).table
    assert table.select("stream", pl.col("span") // US, "mean").rows() == [("stream 7", 30, 1 / 3), ("stream 8", 15, 1)]


def test_work_without_a_call_is_counted_apart() -> None:
    b = pairs((0, 10))
    b.event(stream(), "k", 20, 30)
    result = run_analysis(get_analysis("queue"), b.trace())
    assert result.table["launches"].to_list() == [1]
    assert any("1 device events without a known launch" in note for note in note_texts(result.notes))


def test_in_a_window_work_without_a_call_is_that_of_the_window() -> None:
    b = pairs((0, 10), (40, 50))
    b.event(stream(), "k", 20, 30)
    b.event(stream(), "k", 60, 70)
    for window, unknown in (((5, 55), 1), ((5, 15), 0)):
        notes = note_texts(run_analysis(get_analysis("queue"), b.trace(), Window(window[0] * US, window[1] * US)).notes)
        assert [note for note in notes if "known launch" in note] == (
            [f"not counted: {unknown} device events without a known launch"] if unknown else []
        )


def test_an_op_of_the_host_is_no_call() -> None:
    b = Building()
    b.event(stream(), "k", 20, 30, correlation=1)
    b.event(MAIN, "aten::mm", 0, 1, "op", correlation=1)
    assert run_analysis(get_analysis("queue"), b.trace()).table.is_empty()


def test_work_that_begins_before_its_call_does_not_wait() -> None:
    trace = pairs((10, 8)).trace()
    assert lengths(trace) == {"stream 7": [(2, 0)]}
    assert queue_row_of(trace)["max"] == 0
    assert any("clocks" in note for note in note_texts(run_analysis(get_analysis("queue"), trace).notes))


def test_in_a_window_counts_what_waits_there_wherever_it_was_launched_and_begins() -> None:
    trace = pairs((0, 100), (10, 200), (60, 300)).trace()
    window = Window(50 * US, 150 * US)
    assert lengths(trace, window) == {"stream 7": [(50, 2), (60, 3), (100, 2)]}
    found = queue_row_of(trace, window)
    assert (found["span"], found["max"], found["at"], found["points"]) == (100 * US, 3, 60 * US, 2)
    assert found["mean"] == pytest.approx((2 * 10 + 3 * 40 + 2 * 50) / 100)
    assert found["launches"] == 1
    assert queue_row_of(trace, Window(20 * US, 50 * US))["mean"] == 2
    assert run_analysis(get_analysis("queue"), trace, Window(301 * US, 302 * US)).table.is_empty()


def test_where_a_device_has_no_streams_executions_of_programs_wait() -> None:
    b = Building()
    b.event(MAIN, "Execute", 0, 1, "runtime", run=1)
    b.event(MODULES, "jit_step", 10, 50, "module", run=1)
    b.event(OPS, "fusion", 10, 20)
    b.event(OPS, "fusion", 20, 50)
    assert lengths(b.trace()) == {"XLA Modules": [(0, 1), (10, 0)]}


def test_every_rank_has_rows_of_its_own() -> None:
    b = pairs((0, 10))
    b.event(stream(1), "k", 50, 60, correlation=9)
    b.event(MAIN, "hipModuleLaunchKernel", 20, 21, "runtime", correlation=9)
    table = run_analysis(get_analysis("queue"), b.trace()).table
    assert table["rank"].to_list() == [0, 1]
    assert table["mean"].to_list() == [1, 1]


TIMES = st.lists(
    st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(0, 40)), st.integers(0, 40)), min_size=1, max_size=12
)
BOUNDS = st.one_of(st.none(), st.tuples(st.integers(0, 25), st.integers(1, 20)))


@given(TIMES, BOUNDS, st.integers(0, 4))
def test_against_a_loop(times: list[tuple[int, int | None, int]], bounds: tuple[int, int] | None, limit: int) -> None:
    """Nanosecond by nanosecond: how many were called by then and have not begun."""
    b = Building()
    for number, (lane, called, start) in enumerate(times):
        b.event(stream(0, lane), "k", start, start + 3, correlation=number)
        if called is not None:
            b.event(MAIN, "cudaLaunchKernel", called, called, "runtime", correlation=number)
    trace = b.trace()
    origin = min(min(start, start if called is None else called) for _, called, start in times)
    window = Window() if bounds is None else Window(bounds[0] * US, (bounds[0] + bounds[1]) * US)
    table = run_analysis(get_analysis("queue"), trace, window, Options(given=(("limit", str(limit)),))).table
    found = {line["stream"]: line for line in table.iter_rows(named=True)}
    told = lengths(trace, window)
    for lane in range(3):
        entries = [(c - origin, max(c, s) - origin) for number, c, s in times if number == lane and c is not None]
        changes = [instant for entry in entries for instant in entry]
        low, high = (min(changes, default=0), max(changes, default=0))
        if bounds is not None:
            low, high = bounds[0], min(bounds[0] + bounds[1], trace.span[1] // US)
            low = min(low, trace.span[1] // US)
        length = [sum(c <= now < s for c, s in entries) for now in range(low, high)]
        name = f"stream {lane}"
        if not entries or (bounds is not None and not any(low <= at < high for at in changes) and not any(length)):
            assert name not in found
            continue
        line = found[name]
        assert (line["span"] // US, line["max"]) == (high - low, max(length, default=0))
        assert line["blocked"] // US == sum(value >= limit for value in length)
        if length:
            assert line["mean"] == pytest.approx(statistics.mean(length))
            assert line["p50"] == sorted(length)[-(-len(length) // 2) - 1]
        assert line["points"] == sum(bounds is None or low <= at < high for at in changes)
        assert [queue_length_at(told[name], now) for now in range(low, high)] == length


def queue_length_at(told: list[tuple[int, int]], now: int) -> int:
    return ([0] + [value for instant, value in told if instant <= now])[-1]
