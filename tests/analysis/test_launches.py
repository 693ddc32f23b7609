"""Cost of launches: an example for each measure, and a comparison with a simple loop."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from short import first
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window

MAIN = thread("python (1)")


def launch(
    b: Building, called: float, returned: float, start: float, end: float,
    call: str = "cudaLaunchKernel", kernel: str = "gemm",
) -> None:  # fmt: skip
    """A call and its kernel."""
    number = len(b.rows)
    b.event(stream(), kernel, start, end, correlation=number)
    b.event(MAIN, call, called, returned, "runtime", correlation=number)


@pytest.mark.parametrize(
    ("call", "returned", "short"),
    [
        ("cudaMemcpy", 50, 0),
        ("cudaMemcpyAsync", 50, 0),
        ("cudaMemcpyAsync", 44, 1),
        ("cudaLaunchKernel", 50, 1),
    ],
)
def test_a_call_that_waits_for_its_copy_is_no_launch_that_costs_more_than_its_work(
    call: str, returned: float, short: int
) -> None:
    b = Building()
    launch(b, 0, returned, 15, 45, call, "Memcpy DtoH")
    (row,) = run_launches(b.trace()).table.rows(named=True)
    assert row["short"] == short


def run_launches(trace: Trace, window: Window | None = None, top: int | None = None, **settings: str) -> Result:
    return run_analysis(get_analysis("launches"), trace, window, Options(top, tuple(sorted(settings.items()))))


def single_launch(*times: float, **settings: str) -> dict[str, Any]:
    """The row of a single launch: start and end of the call, start and end of its kernel."""
    b = Building()
    launch(b, *times)
    (row,) = run_launches(b.trace(), **settings).table.rows(named=True)
    return row


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ((0, 10, 15, 40), {"call_time": 10, "device_time": 25, "delay": 5}),
        ((0, 10, 5, 40), {"call_time": 10, "device_time": 35, "delay": 0}),
        ((0, 10, 15, 24), {"short": 1, "long": 0}),
        ((0, 10, 15, 25), {"short": 0}),
        ((0, 50, 60, 70), {"short": 1, "long": 0}),
        ((0, 51, 60, 70), {"short": 0, "long": 1}),
        ((0, 10, 110, 200), {"late": 0}),
        ((0, 10, 111, 200), {"late": 1}),
        ((0, 40, 5, 40), {"blocking": 1}),
        ((0, 39, 5, 40), {"blocking": 0}),
    ],
)
def test_a_launch(times: tuple[float, ...], found: dict[str, int]) -> None:
    row = single_launch(*times)
    timed = ("call_time", "device_time", "delay")
    assert {name: row[name] // US if name in timed else row[name] for name in found} == found


@pytest.mark.parametrize(
    ("before", "late", "queued"), first(2, [((0, 10), 1, 0), ((0, 11), 1, 1), ((5, 200), 1, 1), ((0, 300), 1, 1)])
)
def test_late_work_that_waits_for_its_turn_is_queued(before: tuple[int, int], late: int, queued: int) -> None:
    """Whatever launched the work before it, and wherever a window begins."""
    b = Building()
    launch(b, 0, 10, 200, 210)
    b.event(stream(), "of before", *before)
    b.event(stream(0, 8), "of another stream", 0, 200)
    for window in (None, Window(205 * US, 300 * US)):
        (row,) = run_launches(b.trace(), window).table.rows(named=True)
        assert (row["late"], row["queued"]) == (late, queued)
    notes = note_texts(run_launches(b.trace()).notes)
    assert (notes[0] == "1 launch: 0 short, 0 long, 1 late (1 queued behind earlier work)") == bool(queued)


STREAMS = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 40), st.integers(0, 1), st.integers(0, 300), st.integers(0, 90)),
    min_size=1, max_size=8, unique_by=lambda each: each[3],
)  # fmt: skip


@given(STREAMS)
def test_what_is_queued_against_a_loop(work: list[tuple[int, int, int, int, int]]) -> None:
    b = Building()
    for number, (called, length, lane, start, long) in enumerate(work):
        b.event(MAIN, "cudaLaunchKernel", called, called + length, "runtime", correlation=number)
        b.event(stream(0, lane), "k", start, start + long, correlation=number)
    found = {row["correlation"]: row["queued"] for row in run_launches(b.trace(), by="launch").table.rows(named=True)}
    for number, (called, length, lane, start, _) in enumerate(work):
        ends = [s + n for *_, on, s, n in work if on == lane and s < start]
        assert found[number] == (start - called - length > 100 and max(ends, default=-1) > called + length)


def test_thresholds_are_settings() -> None:
    assert single_launch(0, 10, 30, 60, long="9us", delay="19us")["long"] == 1
    assert single_launch(0, 10, 30, 60, long="9us", delay="19us")["late"] == 1
    assert single_launch(0, 10, 30, 60)["late"] == 0


def several_launches() -> Building:
    """Three launches of two kernels by two calls; the last by a call that neither CUDA nor HIP has."""
    b = Building()
    launch(b, 0, 10, 20, 25)
    launch(b, 12, 16, 30, 90)
    launch(b, 100, 130, 250, 260, "cuLaunchKernel", "triton_mm")
    launch(b, 140, 142, 300, 310, "cudaLaunchKernel", "relu")
    return b


def test_calls_are_summed_and_spread() -> None:
    trace = several_launches().trace()
    found = {row["call"]: row for row in run_launches(trace).table.iter_rows(named=True)}
    assert list(found) == ["cuLaunchKernel", "cudaLaunchKernel"]
    row = found["cudaLaunchKernel"]
    assert (row["launches"], row["events"], row["short"], row["late"]) == (3, 3, 1, 1)
    assert (row["call_time"], row["call_p50"], row["call_max"]) == (16 * US, 4 * US, 10 * US)
    assert row["call_mean"] == round(16 * US / 3)
    assert row["call_p99"] == round(np.quantile([10, 4, 2], 0.99) * US)
    assert (row["device_time"], row["device_max"]) == (75 * US, 60 * US)
    assert (row["delay"], row["delay_p50"], row["delay_max"]) == (round(182 * US / 3), 14 * US, 158 * US)
    assert trace.event(row["call_event"])["start"] == 0
    assert trace.event(row["event"])["name"] == "relu"
    assert row["kernel"] is None


def test_the_note_counts_all() -> None:
    assert note_texts(run_launches(several_launches().trace()).notes) == (
        "4 launches: 2 short, 0 long, 2 late (1 queued behind earlier work)",
    )


def test_by_kernel_every_kernel_of_a_call_has_a_row() -> None:
    table = run_launches(several_launches().trace(), by="kernel").table
    rows = table.select("call", "kernel", "launches").rows()
    assert rows == [
        ("cudaLaunchKernel", "gemm", 2), ("cuLaunchKernel", "triton_mm", 1), ("cudaLaunchKernel", "relu", 1),
    ]  # fmt: skip


def test_by_launch_every_launch_has_a_row_the_latest_first() -> None:
    trace = several_launches().trace()
    whole = run_launches(trace, by="launch")
    assert whole.table["delay"].to_list() == [158 * US, 120 * US, 14 * US, 10 * US]
    assert whole.table["stream"].to_list() == ["stream 7"] * 4
    assert whole.table["at"].to_list() == [140 * US, 100 * US, 12 * US, 0]
    assert [trace.event(event)["start"] for event in whole.table["call_event"]] == whole.table["at"].to_list()
    assert whole.table["correlation"].to_list() == [6, 4, 2, 0]
    cut = run_launches(trace, top=2, by="launch")
    assert cut.table.equals(whole.table.head(2))
    assert (cut.total, cut.notes) == (4, whole.notes)


def graph() -> Building:
    """A graph of four nodes of two names on two streams, and a kernel."""
    b = Building()
    b.event(MAIN, "cudaGraphLaunch", 0, 20, "runtime", correlation=1)
    for start, name in ((30, "a"), (40, "b"), (60, "a")):
        b.event(stream(), name, start, start + 5, correlation=1)
    b.event(stream(0, 8), "b", 25, 45, correlation=1)
    b.event(MAIN, "cudaLaunchKernel", 30, 35, "runtime", correlation=2)
    b.event(stream(), "c", 70, 80, correlation=2)
    return b


def test_a_graph_is_one_launch_of_all_its_nodes() -> None:
    row = next(
        row for row in run_launches(graph().trace()).table.iter_rows(named=True) if row["call"] == "cudaGraphLaunch"
    )
    assert (row["launches"], row["events"]) == (1, 4)
    assert (row["call_time"], row["device_time"], row["delay"]) == (20 * US, 35 * US, 5 * US)
    trace = graph().trace()
    (first, *_) = [row for row in run_launches(trace, by="launch").table.iter_rows(named=True) if row["events"] == 4]
    assert (first["kernel"], first["stream"], first["launches"]) == ("b", "stream 8", 1)


def test_by_kernel_each_name_of_a_graph_counts_once_a_launch() -> None:
    table = run_launches(graph().trace(), by="kernel").table
    found = {row["kernel"]: row for row in table.iter_rows(named=True) if row["call"] == "cudaGraphLaunch"}
    assert {name: (row["launches"], row["events"]) for name, row in found.items()} == {"a": (1, 2), "b": (1, 2)}
    assert {name: row["device_time"] // US for name, row in found.items()} == {"a": 10, "b": 25}
    assert {name: row["delay"] // US for name, row in found.items()} == {"a": 10, "b": 5}
    assert run_launches(graph().trace(), by="kernel").notes[:1] == run_launches(graph().trace()).notes


def test_work_without_a_call_is_told() -> None:
    b = several_launches()
    b.event(stream(), "k", 400, 410)
    assert any("1 device events without a known launch" in note for note in note_texts(run_launches(b.trace()).notes))


def test_with_a_window_launches_count_whose_work_overlaps_it() -> None:
    trace = several_launches().trace()
    table = run_launches(trace, Window(80 * US, 255 * US), by="launch").table
    assert table.select("at", "device_time").rows() == [(100 * US, 10 * US), (12 * US, 60 * US)]
    assert run_launches(trace, Window(91 * US, 249 * US)).table.is_empty()


def test_where_a_device_has_no_streams_programs_are_launched() -> None:
    b = Building()
    b.event(MAIN, "Execute", 0, 1, "runtime", run=1)
    b.event(Lane("XLA Modules", 0, "modules"), "jit_step", 10, 50, "module", run=1)
    b.event(Lane("XLA Ops", 0, "ops", work=True), "fusion", 10, 20)
    (row,) = run_launches(b.trace(), by="kernel").table.rows(named=True)
    assert (row["call"], row["kernel"], row["launches"], row["delay"]) == ("Execute", "jit_step", 1, 9 * US)


def test_ids_of_several_calls_make_the_launch_a_guess() -> None:
    """As where the files of two processes were put into one, and nothing tells which is whose."""
    b = Building()
    for at, process in ((0, "python (1)"), (4, "python (2)")):
        b.event(thread(process), "cudaLaunchKernel", at, at + 2, "runtime", correlation=7)
        b.event(stream(rank=at // 4), "gemm", at + 5, at + 9, correlation=7)
    for name in ("launches", "queue"):
        notes = note_texts(run_analysis(get_analysis(name), b.trace()).notes)
        said = (
            "1 correlation id used by several calls: the latest call before the work is taken (it may be "
            "another process's)"
        )
        assert said in notes


def test_how_long_work_took_is_by_the_clock_of_the_device() -> None:
    """That of the trace is put to the host's piece by piece: here it has the second op, and so its program, longer."""
    b = Building()
    b.event(MAIN, "Execute", 0, 1, "runtime", run=1)
    b.event(Lane("XLA Modules", 0, "modules"), "jit_step", 10, 60, "module", run=1)
    ops = Lane("XLA Ops", 0, "ops", work=True)
    for start, end, begun, ended in ((10, 20, 0, 10), (20, 60, 10, 30)):
        b.event(ops, "fusion", start, end, device_start=begun * US, device_end=ended * US)
    (row,) = run_launches(b.trace()).table.rows(named=True)
    assert (row["device_time"], row["device_max"], row["delay"]) == (30 * US, 30 * US, 9 * US)


CALLS = st.lists(
    st.tuples(st.sampled_from(["cudaGraphLaunch", "hipGraphLaunch"]), st.integers(0, 300), st.integers(0, 80)),
    min_size=1, max_size=5,
)  # fmt: skip
WORK = st.lists(
    st.tuples(
        st.integers(0, 6), st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 300), st.integers(0, 80)
    ),
    min_size=1, max_size=10,
)  # fmt: skip


@given(
    CALLS,
    WORK,
    st.sampled_from(["call", "kernel", "launch"]),
    st.none() | st.tuples(st.integers(0, 300), st.integers(1, 90)),
)
def test_against_a_loop(
    calls: list[tuple[str, int, int]],
    work: list[tuple[int, str, int, int, int]],
    by: str,
    window: tuple[int, int] | None,
) -> None:
    """With a window of the launches of which any work lies there, whole."""
    b = Building()
    first = min([called for _, called, _ in calls] + [start for *_, start, _ in work])
    low, high = (first + window[0], first + sum(window)) if window else (0, 10_000)
    inside = {
        of for of, _, _, start, n in work if (start < high and start + n > low) or (n == 0 and low <= start <= high)
    }
    for number, (name, called, length) in enumerate(calls):
        b.event(MAIN, name, called, called + length, "runtime", correlation=number)
    for number, kernel, lane, start, length in work:
        b.event(stream(0, lane), kernel, start, start + length, correlation=number)
    expected = defaultdict(list)
    for number, (name, called, length) in enumerate(calls):
        mine = [(start, start + n, kernel) for of, kernel, _, start, n in work if of == number and of in inside]
        for kernel in sorted({kernel for *_, kernel in mine}) if by == "kernel" else [None] if mine else []:
            rows = [row for row in mine if kernel in (None, row[2])]
            device, delay = sum(end - start for start, end, _ in rows), max(0, min(rows)[0] - called - length)
            key = {"call": (name,), "kernel": (name, kernel), "launch": (number,)}[by]
            expected[key].append((length, device, delay, len(rows), called + length >= max(row[1] for row in rows)))
    table = run_launches(b.trace(), window and Window((low - first) * US, (high - first) * US), by=by).table
    found = {
        {"call": (row["call"],), "kernel": (row["call"], row["kernel"]), "launch": (row["correlation"],)}[by]: row
        for row in table.iter_rows(named=True)
    }
    assert set(found) == set(expected)
    for key, units in expected.items():
        row, (length, device, delay, events, blocking) = found[key], zip(*units, strict=True)
        assert (row["launches"], row["events"]) == (len(units), sum(events))
        assert (row["call_time"] // US, row["device_time"] // US) == (sum(length), sum(device))
        assert row["delay"] == round(float(np.mean(delay)) * US)
        assert row["short"] == sum(d < c <= 50 for c, d in zip(length, device, strict=True))
        assert (row["long"], row["late"]) == (sum(c > 50 for c in length), sum(d > 100 for d in delay))
        assert row["blocking"] == sum(blocking)
        if by != "launch":
            assert row["call_p50"] == pytest.approx(np.median(length) * US, abs=1)
            assert row["device_p99"] == pytest.approx(np.quantile(device, 0.99) * US, abs=1)
            assert row["delay_max"] == max(delay) * US
