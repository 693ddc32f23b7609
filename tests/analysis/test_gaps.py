"""Gaps: bounds, neighbors, launch and what the host did."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.hosts.host_threads import innermost_per_window
from tracehound.analysis.rank_trace import rank_traces
from tracehound.analysis.timing.device_busy import busy_intervals, union_of_work
from tracehound.draw.notes import note_texts
from tracehound.model.trace import KIND, Trace, Window
from tracehound.numeric.intervals import Intervals


def trace_with_gaps() -> Trace:
    """A gap of 70 us in which the main thread loads data and then launches; another thread sleeps."""
    b = Building()
    b.event(stream(), "gemm", 100, 130, correlation=1)
    b.event(stream(0, 20), "nccl", 110, 140, "collective", correlation=2)
    b.event(stream(), "relu", 210, 220, correlation=3)
    b.event(stream(), "add", 225, 230, correlation=4)
    b.event(thread("python (1)"), "step", 0, 300, "step")
    b.event(thread("python (1)"), "launch gemm", 90, 95, "runtime", correlation=1)
    b.event(thread("python (1)"), "DataLoader.__next__", 141, 190, "annotation")
    b.event(thread("python (1)"), "aten::relu", 195, 206, "op")
    b.event(thread("python (1)"), "cudaLaunchKernel", 200, 205, "runtime", correlation=3)
    b.event(thread("autograd (2)"), "wait", 120, 215, "other")
    return b.trace()


def test_work_without_a_length_parts_two_gaps() -> None:
    b = Building()
    for name, start, end in (("gemm", 0, 10), ("fill", 40, 40), ("fill", 40, 40), ("relu", 60, 70), ("add", 70, 70)):
        b.event(stream(), name, start, end)
    table = run_analysis(get_analysis("gaps"), b.trace()).table
    assert table.select("start", "duration", "before", "after").rows() == [
        (10 * US, 30 * US, "gemm", "fill"),
        (40 * US, 20 * US, "fill", "relu"),
    ]
    idle = run_analysis(get_analysis("idle"), b.trace()).table.filter(pl.col("stream") == "device")
    assert idle["count"].sum() == 2


def test_the_longest_gap() -> None:
    trace = trace_with_gaps()
    result = run_analysis(get_analysis("gaps"), trace)
    assert result.total == 2
    row = result.table.row(0, named=True)
    assert (row["start"], row["duration"]) == (140 * US, 70 * US)
    assert (row["before"], row["after"]) == ("nccl", "relu")
    assert (row["launch"], row["thread"], row["launched"]) == ("cudaLaunchKernel", "python (1)", 10 * US)
    assert trace.event(row["event"])["name"] == "relu"
    host = {(c["thread"], c["event"]): c["time"] // US for c in row["host"]}
    assert host == {("autograd (2)", "wait"): 70, ("python (1)", "DataLoader.__next__"): 49, ("python (1)", "step"): 10}
    assert row["host"][1]["share"] == 0.7


@pytest.mark.parametrize(("returned", "why"), [(60, "blocked on a copy"), (54, "launching work")])
def test_a_gap_behind_a_call_that_waits_for_its_copy(returned: float, why: str) -> None:
    """From pageable memory: the call returns when the copy has ended, or where it need not wait, before."""
    b = Building()
    b.event(thread(), "cudaLaunchKernel", 0, 2, "runtime", correlation=1)
    b.event(stream(), "gemm", 4, 10, correlation=1)
    b.event(thread(), "cudaMemcpyAsync", 8, returned, "runtime", correlation=2)
    b.event(stream(), "Memcpy HtoD (Pageable -> Device)", 50, 58, "copy", correlation=2)
    trace = b.trace()
    (gap,) = run_analysis(get_analysis("gaps"), trace).table.rows(named=True)
    assert (gap["why"], gap["duration"]) == (why, 40 * US)
    assert set(run_analysis(get_analysis("idle"), trace).table["why"]) == {why}
    assert why in run_analysis(get_analysis("host"), trace).table.filter(event="cudaMemcpyAsync")["doing"].to_list()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8), st.integers(-1, 9)), max_size=10))
def test_the_device_works_when_work_of_any_class_runs(rows: list[tuple[int, int, int]]) -> None:
    """Also where an op is said to lie in one that begins after it: a profiler's own nesting may do that by rounding."""
    events = pl.DataFrame(
        [
            (number, start, start + length, ("kernel", "copy", "collective")[number % 3], parent)
            for number, (start, length, parent) in enumerate(sorted(rows))
            if parent != number
        ],
        {"id": pl.Int64, "start": pl.Int64, "end": pl.Int64, "kind": KIND, "parent": pl.Int64},
        orient="row",
    )
    (share,) = rank_traces(trace_with_gaps(), Window())
    for found, wanted in zip(union_of_work(events), busy_intervals(events, share).busy, strict=True):
        assert found.tolist() == wanted.tolist()


def test_the_host_in_that_window_adds_up() -> None:
    trace = trace_with_gaps()
    result = run_analysis(get_analysis("host"), trace, Window(140 * US, 210 * US))
    by_thread = result.table.group_by("thread").agg(pl.col("time").sum())
    assert sorted(by_thread["time"].to_list()) == [70 * US, 70 * US]
    main = {r["event"]: r["time"] // US for r in result.table.iter_rows(named=True) if r["thread"] == "python (1)"}
    assert main == {"DataLoader.__next__": 49, "step": 10, "aten::relu": 6, "cudaLaunchKernel": 5}


def test_a_thread_without_events_says_so() -> None:
    result = run_analysis(get_analysis("host"), trace_with_gaps(), Window(216 * US, 236 * US))
    rows = {(r["thread"], r["event"]): r["time"] // US for r in result.table.iter_rows(named=True)}
    assert rows == {("python (1)", "step"): 20, ("autograd (2)", "(nothing recorded)"): 20}


def test_a_cut_keeps_the_longest_and_counts_all() -> None:
    result = run_analysis(get_analysis("gaps"), trace_with_gaps(), options=Options(top=1))
    assert result.table.height == 1
    assert result.shown_rows_text == "1 of 2 rows"
    assert "2 gaps on one rank: 75.0 us idle" in note_texts(result.notes)[0]


def test_a_launch_before_the_window_is_still_named() -> None:
    result = run_analysis(get_analysis("gaps"), trace_with_gaps(), Window(207 * US, 212 * US))
    row = result.table.row(0, named=True)
    assert (row["duration"], row["launch"]) == (3 * US, "cudaLaunchKernel")


NS = 1_000


def test_what_a_window_is_of_a_gap_keeps_what_is_around_the_gap() -> None:
    trace = trace_with_gaps()
    (whole,) = run_analysis(get_analysis("gaps"), trace).table.filter(duration=70 * US).rows(named=True)
    same = ("before", "after", "launch", "thread", "launched", "event")
    for low, high in ((150, 200), (120, 150), (205, 215), (120, 215)):
        result = run_analysis(get_analysis("gaps"), trace, Window(low * US, high * US))
        (row,) = result.table.rows(named=True)
        assert (row["start"], row["start"] + row["duration"]) == (max(low, 140) * US, min(high, 210) * US)
        assert {name: row[name] for name in same} == {name: whole[name] for name in same}


def test_a_launch_that_seems_to_begin_after_its_op_is_told_of() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 10)
    b.event(stream(), "relu", 50, 60, correlation=1)
    b.event(thread(), "cudaLaunchKernel", 55, 57, "runtime", correlation=1)
    result = run_analysis(get_analysis("gaps"), b.trace())
    assert result.table.select("launch", "launched").row(0) == ("cudaLaunchKernel", None)
    assert "1 of the ops after these gaps begin before their launch: host and device clocks disagree" in note_texts(
        result.notes
    )


WORK = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(1, 6)), min_size=1, max_size=12)
HOST = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.integers(0, 40), st.integers(0, 20)), max_size=10
)


@given(WORK, HOST)
def test_against_every_instant(work: list[tuple[int, int, int]], host: list[tuple[int, str, int, int]]) -> None:
    """Nanosecond by nanosecond; where only one is without work, that is the rounding of times."""
    b = Building(unit=NS)
    for number, start, length in work:
        b.event(stream(0, number), "k", start, start + length)
    for number, name, start, length in host:
        b.event(thread(f"t{number}"), name, start, start + length, "op")
    trace = b.trace()
    found = run_analysis(get_analysis("gaps"), trace).table.sort("start").rows(named=True)
    rows = [{name: row[name] // NS for name in ("start", "duration")} for row in found]
    shift = min([s for _, s, _ in work] + [s for _, _, s, _ in host])
    running = {t - shift for _, s, n in work for t in range(s, s + n)}
    free = [t for t in range(min(running), max(running)) if t not in running]
    idle = [t for t in free if {t - 1, t + 1} - running]
    assert [t for r in rows for t in range(r["start"], r["start"] + r["duration"])] == idle
    for row in rows:
        window = range(row["start"], row["start"] + row["duration"])
        for number in (0, 1):
            mine = [(n, s - shift, s - shift + d) for t, n, s, d in host if t == number]
            covered = sum(any(s <= t < e for _, s, e in mine) for t in window)
            listed = run_analysis(get_analysis("host"), trace, Window(window.start * NS, window.stop * NS)).table
            of_thread = [
                r["time"] // NS
                for r in listed.rows(named=True)
                if r["thread"] == f"t{number}" and r["event"] != "(nothing recorded)"
            ]
            if not _improper(mine):
                assert sum(of_thread) == covered


def _improper(events: list[tuple[str, int, int]]) -> bool:
    """True if two events overlap without one containing the other: then both own the common part."""
    return any(a[1] < b[1] < a[2] < b[2] for a in events for b in events)


def test_of_each_thread_the_two_events_with_most_of_the_gap_are_told() -> None:
    b = Building()
    b.event(stream(), "first", 0, 10)
    b.event(stream(), "second", 110, 120)
    for number in (1, 2):
        for at, name in enumerate("abc"):
            b.event(thread(f"t{number}"), name, 10 + 20 * at, 20 + 20 * at + at * number, "op")
    (gap,) = run_analysis(get_analysis("gaps"), b.trace()).table.rows(named=True)
    told = [(each["thread"], each["event"], each["time"] // US) for each in gap["host"]]
    assert told == [("t2", "c", 14), ("t1", "c", 12), ("t2", "b", 12), ("t1", "b", 11)]


def gap_reasons(b: Building) -> list[tuple[str | None, float | None]]:
    table = run_analysis(get_analysis("gaps"), b.trace()).table.sort("start")
    return [
        (words, None if part is None else round(part, 3)) for words, part in table.select("why", "why_share").rows()
    ]


def test_what_the_host_did_is_the_same_however_many_gaps_are_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Building()
    b.event(thread("python (1)"), "step", 0, 5000, "annotation")
    for number in range(50):
        at = 100 * number
        b.event(stream(), "k", at, at + 10)
        b.event(thread("python (1)"), f"op {number % 3}", at + 5, at + 40, "op")
        b.event(thread("loader (2)"), "read", at + 20, at + 140 + number % 7, "op")
        b.event(thread("python (1)"), "aten::add", at + 50, at + 80, "op")
    trace = b.trace()
    whole = run_analysis(get_analysis("gaps"), trace).table
    looked: list[int] = []

    def noted(threads: pl.DataFrame, windows: Intervals) -> pl.DataFrame:
        looked.append(len(windows.start))
        return innermost_per_window(threads, windows)

    monkeypatch.setattr("tracehound.analysis.gaps.GAPS_AT_ONCE", 7)
    monkeypatch.setattr("tracehound.analysis.gaps.innermost_per_window", noted)
    assert run_analysis(get_analysis("gaps"), trace).table.equals(whole)
    assert looked == [7] * 7


def test_the_thread_that_launched_says_why_there_is_a_gap_in_a_pytorch_trace() -> None:
    b, main, backward = Building(), thread("python (1)"), thread("autograd (2)")
    gpu = stream()
    b.event(gpu, "a", 0, 10)
    b.event(main, "aten::item", 0, 100, "op")
    b.event(backward, "cudaMalloc", 10, 16, "runtime")
    b.event(backward, "cudaLaunchKernel", 18, 19, "runtime", correlation=1)
    b.event(gpu, "b", 20, 30, correlation=1)
    b.event(gpu, "c", 40, 50)
    assert gap_reasons(b) == [("allocating memory", 0.6), ("blocked on a value", 1.0)]


def test_the_program_s_own_thread_speaks_for_a_gpu_that_only_copies_too() -> None:
    """Arrays are copied from it to the GPUs that compute, by a pool of threads that says nothing of the reason."""
    b = Building(format="xplane", ops=[{"op": 0, "name": "gemm", "category": "dot", "module": "jit_f", "program": 1}])
    b.event(stream(rank=1), "gemm", 0, 90)
    b.event(Lane("XLA Ops", 1, "ops"), "gemm", 0, 90, op=0)
    b.event(stream(), "CopyDeviceToDevice", 0, 10, "copy")
    b.event(stream(), "CopyDeviceToDevice", 90, 100, "copy", correlation=1)
    b.event(thread("python"), "train", 0, 100, "step")
    b.event(thread("python"), "block_until_ready", 10, 88, "python")
    b.event(thread("tf_pjrt_thread_pool"), "hipMemcpyDtoDAsync", 88, 89, "runtime", correlation=1)
    row = run_analysis(get_analysis("gaps"), b.trace()).table.row(0, named=True)
    assert (row["rank"], row["thread"], row["why"]) == (0, "tf_pjrt_thread_pool", "waiting for the device")


def test_the_program_s_own_thread_says_why_there_is_a_gap_in_an_xla_profile() -> None:
    b, main, pool = Building(format="xplane"), thread("python"), thread("tf_pool")
    tpu = Lane("XLA Ops", 0, "ops", work=True)
    b.event(main, "train", 0, 40, "step", step=0)
    b.event(main, "StepMarker", 10, 13, "runtime")
    b.event(main, "XLAGraphExecutor::Compile", 13, 19, "compile")
    b.event(pool, "Execute", 19, 20, "runtime", correlation=1)
    b.event(tpu, "dot.1", 0, 10, "op")
    b.event(tpu, "dot.2", 20, 40, "op", correlation=1)
    b.event(tpu, "dot.3", 60, 70, "op")
    assert gap_reasons(b) == [("compiling", 0.6), ("nothing recorded", 1.0)]


@pytest.mark.parametrize(
    ("marked", "called", "why"),
    [
        ("worker", "worker", "blocked on a value"),
        ("worker", "main/1", "launching work"),
        (None, None, "calling the runtime"),
    ],
)
def test_a_thread_main_is_the_program_s_own_where_it_is_at_work(
    marked: str | None, called: str | None, why: str
) -> None:
    """An engine runs its program on a thread of its own: there the one called main has neither Python nor calls."""
    b, main = Building(format="xplane"), thread("main/1")
    tpu = Lane("XLA Ops", 0, "ops", work=True)
    b.event(main, "WaitForDonation", 0, 40, "runtime")
    for start in (0, 10, 20, 30):
        b.event(thread("pool"), "Execute", start, start + 9, "runtime")
    if marked:
        b.event(thread(marked), "$array.py:635 _value", 0, 40, "python")
    if called:
        b.event(thread(called), "PjitFunction(f)", 8, 36, "runtime")
    b.event(tpu, "dot.1", 0, 10, "op")
    b.event(tpu, "dot.2", 30, 40, "op")
    assert gap_reasons(b) == [(why, 1.0)]


def test_without_threads_nobody_knows_why() -> None:
    b = Building()
    b.event(stream(), "a", 0, 10)
    b.event(stream(), "b", 20, 30)
    assert gap_reasons(b) == [(None, None)]


def test_the_gaps_add_up_to_what_is_said_of_all() -> None:
    b = Building(unit=NS)
    for at in range(0, 1000, 10):
        b.event(stream(), "k", at, at + 9)
    b.event(stream(), "last", 1100, 1200)
    result = run_analysis(get_analysis("gaps"), b.trace())
    assert result.table["duration"].to_list() == [101 * NS]
    told = "1 gap on one rank: 101 ns idle, 8.42 % of 1.20 us (first to last work, or the window)"
    short = "99.0 ns more in intervals of 1 ns, which do not count as gaps"
    assert note_texts(result.notes)[0] == f"{told}; {short}"


def test_one_gap_is_no_gaps() -> None:
    b = Building()
    b.event(stream(0), "a", 0, 10)
    b.event(stream(0), "b", 20, 30)
    trace = b.trace()
    assert note_texts(run_analysis(get_analysis("gaps"), trace, Window()).notes)[0].startswith(
        "1 gap on one rank: 10.0 us idle"
    )


def test_what_of_a_recording_is_before_and_after_the_work_is_in_no_gap_and_told() -> None:
    b = Building()
    for start in (30, 50):
        b.event(stream(), "k", start, start + 10)
    b.event(thread(), "$serve.py:1 loop", 0, 100, "python")
    told = "not counted as gaps: 30.0 us before the first work and 40.0 us after the last"
    assert note_texts(run_analysis(get_analysis("gaps"), b.trace()).notes)[1:] == (told,)
    assert told not in note_texts(run_analysis(get_analysis("gaps"), b.trace(), Window(0, 90 * US)).notes)
    b.event(stream(), "k", 5, 30)
    b.event(stream(), "k", 60, 95)
    assert len(run_analysis(get_analysis("gaps"), b.trace()).notes) == 1
