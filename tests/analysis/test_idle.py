"""Idle time of streams: an example for each cause, and a comparison with a simple loop."""

from __future__ import annotations

import statistics
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from short import first
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.idle import AFTER_LAST_WORK, BEFORE_FIRST_WORK, CAUSES, DEVICE_STREAM, idle_within
from tracehound.analysis.rank_trace import rank_traces
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window
from tracehound.numeric.intervals import union
from tracehound.store import load_trace, open_trace_files

MAIN = thread("python (1)")
WORK = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 120), st.integers(1, 25)), min_size=1, max_size=12)


def after_a_pause(
    launched: float, host: tuple[str, float, float] | None = None, pause: float = 100, returned: float | None = None
) -> Building:
    """A kernel that ends at 100 us, and one at the end of a pause that was launched at an instant."""
    b = Building()
    b.event(stream(), "first", 0, 100, correlation=1)
    b.event(stream(), "second", 100 + pause, 300 + pause, correlation=2)
    b.event(MAIN, "cudaLaunchKernel", launched, returned or launched + 1, "runtime", correlation=2)
    if host:
        b.event(MAIN, host[0], *host[1:], "runtime")
    return b


def after_a_copy(call: str, called: float, returned: float) -> Building:
    """A kernel that ends at 100 us, and a copy from 200 to 210 us that a call asked for."""
    b = Building()
    b.event(stream(), "first", 0, 100)
    b.event(stream(), "Memcpy DtoH", 200, 210, "copy", correlation=2)
    b.event(MAIN, call, called, returned, "runtime", correlation=2)
    return b


@pytest.mark.parametrize(
    ("built", "cause"),
    [
        (after_a_copy("hipMemcpyWithStream", 101, 220), "synchronization"),
        (after_a_copy("cudaMemcpy", 150, 220), "synchronization"),
        (after_a_copy("cuMemcpyDtoH_v2", 150, 205), "synchronization"),
        (after_a_copy("cudaMemcpy", 151, 220), "host"),
        (after_a_copy("cudaMemcpyAsync", 101, 210), "synchronization"),
        (after_a_copy("cudaMemcpyAsync", 101, 209), "host"),
        (after_a_copy("cudaMemcpyAsync", 90, 210), "synchronization"),
        (after_a_copy("cudaMemcpyAsync", 90, 209), "host"),
        (after_a_copy("cudaMemcpyAsync", 90, 199), "other"),
        (after_a_copy("cudaLaunchKernel", 150, 220), "host"),
    ],
)
def test_before_a_copy_that_its_call_waits_for(built: Building, cause: str) -> None:
    assert idle_by_cause(built.trace()) == {
        (0, DEVICE_STREAM, cause): (1, 100 * US),
        (0, "stream 7", cause): (1, 100 * US),
    }


@pytest.mark.parametrize(
    ("name", "cause"),
    first(
        3,
        [
            ("urEventWait", "synchronization"),
            ("urQueueFinish", "synchronization"),
            ("zeEventHostSynchronize", "synchronization"),
            ("aclrtSynchronizeStream", "synchronization"),
            ("musaMemcpy", "synchronization"),
            ("urUSMDeviceAlloc", "allocation"),
            ("zeMemFree", "allocation"),
            ("musaMalloc", "allocation"),
            ("aclrtFree", "allocation"),
            ("urUSMGetMemAllocInfo", "host"),
        ],
    ),
)
def test_the_calls_of_every_runtime_are_known(name: str, cause: str) -> None:
    built = after_a_pause(190, (name, 90, 180))
    assert idle_by_cause(built.trace()) == {
        (0, DEVICE_STREAM, cause): (1, 100 * US),
        (0, "stream 7", cause): (1, 100 * US),
    }


def test_work_that_begins_long_after_its_launch_was_not_late(shared: Path) -> None:
    """A kernel waits 463 ms for what was not recorded, while the host waits in one hipMemcpyWithStream."""
    trace = load_trace(open_trace_files([shared / "traces" / "kineto" / "graphs_sglang_decode"]))
    rows = run_analysis(get_analysis("idle"), trace).table.filter(stream=DEVICE_STREAM, cause="other").rows(named=True)
    assert [(row["count"], row["duration"] // US, row["why"]) for row in rows] == [(1, 463_295, "blocked on a copy")]


def test_while_the_call_that_launches_it_runs_the_host_is_late(shared: Path) -> None:
    """hipGraphLaunch runs for 1.6 ms, and sends the last node 274 us after the one before has ended."""
    trace = load_trace(open_trace_files([shared / "traces" / "kineto" / "graphs_sglang_decode"]))
    row = run_analysis(get_analysis("idle"), trace).table.row(
        by_predicate=(pl.col("stream") == "stream 3") & (pl.col("cause") == "host"), named=True
    )
    assert (row["count"], row["duration"] // US) == (6, 273)


def test_a_stream_that_waits_with_the_whole_device_has_its_cause(shared: Path) -> None:
    """The host waits in that hipMemcpyWithStream, and so launches nothing on stream 2 until the device goes on."""
    trace = load_trace(open_trace_files([shared / "traces" / "kineto" / "graphs_sglang_decode"]))
    rows = run_analysis(get_analysis("idle"), trace).table.filter(stream="stream 2").rows(named=True)
    assert [(row["cause"], row["count"], row["duration"] // US) for row in rows] == [("other", 1, 465_581)]


@pytest.mark.parametrize(("begun", "cause"), [(149, "synchronization"), (150, "other"), (190, "other")])
def test_a_host_that_waits_for_a_device_that_stands_still(begun: float, cause: str) -> None:
    """Stream 7 has no work while the host waits for stream 20, whose work begins long after its launch."""
    b = after_a_pause(195, ("cudaDeviceSynchronize", 90, 194))
    b.event(stream(0, 20), "nccl", begun, 195, "collective", correlation=3)
    b.event(MAIN, "cudaLaunchKernel", 80, 85, "runtime", correlation=3)
    assert idle_by_cause(b.trace())[0, "stream 7", cause] == (1, 100 * US)


def idle_by_cause(trace: Trace, window: Window | None = None) -> dict[tuple[int, str, str], tuple[int, int]]:
    table = run_analysis(get_analysis("idle"), trace, window).table
    return {
        (row["rank"], row["stream"], row["cause"]): (row["count"], row["idle"]) for row in table.iter_rows(named=True)
    }


@pytest.mark.parametrize(
    ("built", "cause"),
    [
        (after_a_pause(150), "host"),
        (after_a_pause(150, ("cudaDeviceSynchronize", 120, 149)), "synchronization"),
        (after_a_pause(150, ("cudaDeviceSynchronize", 126, 149)), "host"),
        (after_a_pause(150, ("hipMalloc", 90, 140)), "allocation"),
        (after_a_pause(150, ("enumerate(DataLoader)#_Iter.__next__", 10, 149)), "data loading"),
        (after_a_pause(99), "other"),
        (after_a_pause(100), "other"),
        (after_a_pause(99, pause=29), "kernel"),
        (after_a_pause(99, pause=30), "other"),
        (after_a_pause(110, pause=20), "host"),
        (after_a_pause(101, pause=301), "host"),
        (after_a_pause(101, pause=303), "other"),
        (after_a_pause(101, pause=1000, returned=599), "other"),
        (after_a_pause(101, pause=1000, returned=600), "host"),
        (after_a_pause(101, pause=1000, returned=1200), "host"),
        (after_a_pause(500, pause=800), "host"),
        (after_a_pause(498, pause=800), "other"),
        (after_a_pause(90, returned=200), "host"),
        (after_a_pause(90, returned=199), "other"),
        (after_a_pause(90, pause=29, returned=400), "kernel"),
        (after_a_pause(90, ("hipMalloc", 100, 150), returned=400), "allocation"),
    ],
)
def test_what_the_work_after_a_pause_waited_for(built: Building, cause: str) -> None:
    found = idle_by_cause(built.trace())
    assert {key[2] for key in found} == {cause}
    assert set(found) == {(0, DEVICE_STREAM, cause), (0, "stream 7", cause)}


def test_a_pause_without_a_launch_is_unknown() -> None:
    b = Building()
    b.event(stream(), "first", 0, 100)
    b.event(stream(), "second", 200, 300)
    assert idle_by_cause(b.trace()) == {
        (0, DEVICE_STREAM, "unknown"): (1, 100 * US),
        (0, "stream 7", "unknown"): (1, 100 * US),
    }


def test_a_pause_of_a_nanosecond_is_the_rounding_of_times() -> None:
    b = Building(unit=1_000)
    b.event(stream(), "first", 0, 10)
    b.event(stream(), "second", 11, 20)
    b.event(stream(), "third", 22, 30)
    assert idle_by_cause(b.trace()) == {(0, name, "unknown"): (1, 2_000) for name in (DEVICE_STREAM, "stream 7")}


def test_where_times_are_of_picoseconds_a_short_pause_is_one() -> None:
    b = Building(unit=1)
    b.event(stream(), "first", 0, 1_500)
    b.event(stream(), "second", 2_000, 3_000)
    assert idle_by_cause(b.trace()) == {(0, name, "unknown"): (1, 500) for name in (DEVICE_STREAM, "stream 7")}


@pytest.mark.parametrize(
    ("called", "second", "cause"),
    [(100, 120, "kernel"), (101, 120, "unknown"), (100, 130, "other"), (101, 130, "unknown")],
)
def test_what_runs_later_on_the_stream_was_launched_later(called: int, second: int, cause: str) -> None:
    b = Building()
    b.event(stream(), "first", 0, 100)
    b.event(stream(), "second", second, 300)
    b.event(stream(), "third", 300, 400, correlation=3)
    b.event(MAIN, "cudaLaunchKernel", called, called + 1, "runtime", correlation=3)
    assert idle_by_cause(b.trace()) == {
        (0, name, cause): (1, (second - 100) * US) for name in (DEVICE_STREAM, "stream 7")
    }


@pytest.mark.parametrize(("ended", "cause"), [(175, "other stream"), (169, "other"), (170, "other stream")])
def test_so_it_is_without_a_launch(ended: float, cause: str) -> None:
    b = Building()
    b.event(stream(), "first", 0, 100)
    b.event(stream(), "second", 200, 300)
    b.event(stream(0, 20), "nccl", 50, ended, "collective")
    found = idle_by_cause(b.trace())
    assert found[0, "stream 7", cause if cause == "other stream" else "unknown"] == (1, 100 * US)
    assert (0, DEVICE_STREAM, "unknown") in found


@pytest.mark.parametrize(("ended", "cause"), [(175, "other stream"), (169, "other"), (170, "other stream")])
def test_another_stream_that_just_ended_was_waited_for(ended: float, cause: str) -> None:
    b = after_a_pause(90)
    b.event(stream(0, 20), "nccl", 50, ended, "collective")
    assert idle_by_cause(b.trace())[0, "stream 7", cause] == (1, 100 * US)


@pytest.mark.parametrize(
    ("start", "end", "inside"), first(3, [(90, 210, 100), (90, 190, 90), (120, 160, 40), (120, 400, 80), (0, 100, 0)])
)
def test_of_a_pause_the_part_in_the_window_counts(start: int, end: int, inside: int) -> None:
    """Its cause is that of the whole: until the launch at 150 us the host loaded data for most of the time."""
    trace = after_a_pause(150, ("DataLoader", 100, 126)).trace()
    window = Window(start * US, end * US)
    expected = {(0, name, "data loading"): (1, inside * US) for name in (DEVICE_STREAM, "stream 7") if inside}
    assert idle_by_cause(trace, window) == expected
    found = run_analysis(get_analysis("idle"), trace, window).table.rows(named=True)
    assert all(row["start"] == max(start, 100) * US and row["duration"] == inside * US for row in found)


@pytest.mark.thorough
@given(WORK, st.integers(0, 130), st.integers(0, 60))
def test_windows_that_share_out_the_run_share_out_its_pauses(
    work: list[tuple[int, int, int]], first: int, length: int
) -> None:
    b = Building()
    for i, (number, start, long) in enumerate(work):
        b.event(stream(0, number), f"k{i}", start, start + long, correlation=i)
        b.event(MAIN, "cudaLaunchKernel", start - i, start - i, "runtime", correlation=i)
    trace = b.trace()
    edges = [None, first * US, (first + length) * US, None]
    summed: dict[tuple[int, str, str], int] = defaultdict(int)
    for low, high in pairwise(edges):
        for key, (_, idle) in idle_by_cause(trace, Window(low, high)).items():
            summed[key] += idle
    assert dict(summed) == {key: idle for key, (_, idle) in idle_by_cause(trace).items()}


@given(WORK, st.lists(st.tuples(st.integers(-20, 160), st.integers(1, 60)), min_size=1, max_size=4))
def test_pauses_and_what_is_before_and_after_them_are_all_that_is_idle(
    work: list[tuple[int, int, int]], stretches: list[tuple[int, int]]
) -> None:
    b = Building()
    b.event(MAIN, "from here", -20, 300)
    for i, (number, start, long) in enumerate(work):
        b.event(stream(0, number), f"k{i}", start, start + long)
    trace = b.trace()
    origin = min(int(str(row["start"])) for row in b.rows)
    seen = {t for start, length in stretches for t in range(start, start + length)}
    busy = {t for _, start, long in work for t in range(start, start + long)}
    first, last = min(busy), max(busy) + 1
    bounds = np.array(stretches, np.int64).T * US
    when = union(bounds[0] - origin, bounds.sum(axis=0) - origin)
    (share,) = rank_traces(trace, Window())
    table = idle_within(share, Options(), when)
    found = dict(table.filter(pl.col("whole")).select("cause", "idle").iter_rows())
    slow = {
        BEFORE_FIRST_WORK: len({t for t in seen if t < first}),
        AFTER_LAST_WORK: len({t for t in seen if t >= last}),
        "unknown": len({t for t in seen - busy if first <= t < last}),
    }
    assert found == {cause: idle * US for cause, idle in slow.items() if idle}


@pytest.mark.parametrize(
    ("start", "end", "told"),
    first(
        4,
        [
            (0, 330, "30.0 us before the first work"),
            (120, 400, "30.0 us after the last work"),
            (0, 400, "30.0 us before the first work and 30.0 us after the last work"),
            (0, 20, "20.0 us before the first work"),
            (40, 330, ""),
            (None, None, ""),
        ],
    ),
)
def test_what_of_a_window_is_before_and_after_all_work_is_told_of(
    start: int | None, end: int | None, told: str
) -> None:
    b = Building()
    b.event(stream(), "first", 30, 100)
    b.event(stream(), "second", 250, 370)
    b.event(MAIN, "aten::mm", 0, 400, "op")
    trace, window = b.trace(), Window(*(bound and bound * US for bound in (start, end)))
    found = run_analysis(get_analysis("idle"), trace, window)
    note = f"also idle: {told} (no row here; gaps and breakdown count it in a window)"
    assert [words for words in note_texts(found.notes) if words.startswith("also idle")] == ([note] if told else [])
    assert set(found.table["cause"]) <= set(CAUSES)
    paused = int(found.table.filter(pl.col("stream") == DEVICE_STREAM)["idle"].sum())
    assert paused + 30 * US * told.count("30.0 us") + 20 * US * told.count("20.0 us") == sum(
        run_analysis(get_analysis("breakdown"), trace, window).table["idle"]
    )


def test_the_longest_pause_leads_to_the_work_after_it() -> None:
    b = after_a_pause(150)
    b.event(stream(), "third", 350 + 150, 600, correlation=3)
    b.event(MAIN, "cudaLaunchKernel", 450, 455, "runtime", correlation=3)
    trace = b.trace()
    row = next(
        row
        for row in run_analysis(get_analysis("idle"), trace).table.iter_rows(named=True)
        if row["stream"] == DEVICE_STREAM
    )
    assert trace.event(row["event"])["name"] == "third" if row["duration"] > 100 * US else "second"
    assert (row["count"], row["mean"], row["duration"]) == (2, 100 * US, 100 * US)


NAMES = ("cudaLaunchKernel", "cudaMemcpyAsync", "hipMemcpyWithStream")
CALL = st.tuples(st.sampled_from(NAMES), st.integers(-5, 125), st.integers(0, 60))
CALLS = st.lists(st.none() | CALL, min_size=12, max_size=12)
HOST = st.lists(
    st.tuples(st.sampled_from(["cudaStreamSynchronize", "cudaFree", "DataLoader", "relu"]), st.integers(0, 120),
              st.integers(1, 40)),
    max_size=6,
)  # fmt: skip


def slow(
    work: list[tuple[int, int, int]],
    calls: list[tuple[str, int, int] | None],
    host: list[tuple[str, int, int]],
    delay: int,
) -> dict:
    """Instant by instant."""
    kinds = {"cudaStreamSynchronize": "synchronization", "cudaFree": "allocation", "DataLoader": "data loading"}
    busy = {
        cause: {t for name, start, length in host if kinds.get(name) == cause for t in range(start, start + length)}
        for cause in kinds.values()
    }
    copies = set()
    for i, ((_, start, length), call) in enumerate(zip(work, calls, strict=False)):
        if call and (call[0] == NAMES[2] or (call[0] == NAMES[1] and call[1] + call[2] >= start + length)):
            copies.add(i)
            busy["synchronization"] |= set(range(call[1], call[1] + call[2]))
    pauses = []
    lanes = list(dict.fromkeys(number for number, *_ in work))
    for name in (DEVICE_STREAM, *sorted({f"stream {number}" for number, *_ in work})):
        rows = [i for i, one in enumerate(work) if name in (DEVICE_STREAM, f"stream {one[0]}")]
        rows.sort(key=lambda i: (work[i][1], lanes.index(work[i][0]), -work[i][2], i))  # of work that starts at once
        reach = work[rows[0]][1] + work[rows[0]][2]
        for i in rows[1:]:
            start, end = work[i][1], work[i][1] + work[i][2]
            if start > reach:
                ended = [
                    s + n
                    for k, (_, s, n) in enumerate(work)
                    if k not in rows and max(reach + 1, start - delay) <= s + n <= start
                ]
                call = calls[i]
                rest = start - sum(call[1:]) if call else 0
                early = call is not None and i not in copies and rest > max(10 * delay, (start - reach) / 2)
                through = call is not None and i not in copies and sum(call[1:]) >= start >= reach + delay and not ended
                late = call is not None and ((call[1] > reach and not early) or through)
                if call is None and not in_time(work, calls, i, reach):
                    cause = "other stream" if ended and start - reach >= delay else "unknown"
                elif late or (i in copies and start - reach >= delay and not ended):
                    waited = set(range(reach, start if i in copies or call[1] <= reach else min(call[1], start)))
                    cause = next(
                        (each for each in kinds.values() if 2 * len(waited & busy[each]) >= len(waited)),
                        "host" if late else "other",
                    )
                elif start - reach < delay:
                    cause = "kernel"
                else:
                    cause = "other stream" if ended else "other"
                pauses.append((name, cause, set(range(reach, start))))
            reach = max(reach, end)
    return with_the_device(pauses)


def in_time(work: list[tuple[int, int, int]], calls: list[tuple[str, int, int] | None], one: int, when: int) -> bool:
    """True if anything that runs later on the stream was launched by then."""
    order = sorted(range(len(work)), key=lambda i: (work[i][1], -work[i][2], i))
    later = order[order.index(one) + 1 :]
    return any(work[i][0] == work[one][0] and (call := calls[i]) and call[1] <= when for i in later)


def with_the_device(pauses: list[tuple[str, str, set[int]]]) -> dict:
    """The lengths of the pauses (stream, cause, instants), some with the device's cause in place of their own."""
    still = {t for name, cause, when in pauses if (name, cause) == (DEVICE_STREAM, "other") for t in when}
    found = defaultdict(list)
    for name, cause, when in pauses:
        vain = cause == "synchronization" and 2 * len(still & when) >= len(when)
        found[0, name, "other" if vain else cause].append(len(when))
    return dict(found)


@given(WORK, CALLS, HOST, st.sampled_from([3, 30]))
def test_against_a_loop(
    work: list[tuple[int, int, int]],
    calls: list[tuple[str, int, int] | None],
    host: list[tuple[str, int, int]],
    delay: int,
) -> None:
    b = Building()
    for i, (number, start, length) in enumerate(work):
        b.event(stream(0, number), f"k{i}", start, start + length, correlation=i)
        if (call := calls[i]) is not None:
            b.event(MAIN, call[0], call[1], call[1] + call[2], "runtime", correlation=i)
    for name, start, length in host:
        b.event(Lane("python (1)"), name, start, start + length, "annotation")
    expected = slow(work, calls, host, delay)
    table = run_analysis(get_analysis("idle"), b.trace(), options=Options(given=(("delay", f"{delay}us"),))).table
    found = {(row["rank"], row["stream"], row["cause"]): row for row in table.iter_rows(named=True)}
    assert set(found) == set(expected)
    for key, pauses in expected.items():
        row = found[key]
        every = sum(sum(other) for (_, name, _), other in expected.items() if name == key[1])
        assert (row["count"], row["idle"] // US, row["min"] // US) == (len(pauses), sum(pauses), min(pauses))
        assert row["duration"] // US == max(pauses)
        assert row["mean"] == round(statistics.mean(pauses) * US)
        assert row["p50"] == round(statistics.median(pauses) * US)
        assert row["std"] == (round(statistics.stdev(pauses) * US) if len(pauses) > 1 else None)
        assert row["share"] == pytest.approx(sum(pauses) / every)
    assert {row["cause"] for row in found.values()} <= set(CAUSES)
