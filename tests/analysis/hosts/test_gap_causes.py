"""Causes of idle gaps on the host: against a loop over instants and events, and one case of each kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, stream, thread
from host_activities import (
    NAMES,
    Event,
    activity_of,
    events_around,
    innermost_event,
    nested,
    outermost_event,
    read_lane,
)
from tracehound.analysis.hosts import gap_causes
from tracehound.analysis.hosts.gap_causes import JOINED, GapCauses, find_gap_causes
from tracehound.analysis.hosts.main_activities import (
    BLOCKED_CALL,
    FIRST_USE,
    LAUNCHES,
    LONG_OPERATOR,
    EventRules,
)
from tracehound.analysis.hosts.thread_activity import (
    ACTIVITIES,
    ALLOCATING,
    ASLEEP,
    COLLECTING_GARBAGE,
    COMPILING,
    COPYING,
    IN_ANNOTATION,
    LAUNCHING,
    LOADER,
    NOTHING_RECORDED,
    OPERATORS,
    PROGRAM,
    PYTHON,
    RUNTIME,
    VALUE,
    WAITING,
    ActivityIntervals,
    ThreadActivities,
)
from tracehound.analysis.rank_trace import RankTrace, rank_traces
from tracehound.model.trace import Window
from tracehound.numeric.intervals import Intervals

UNIT: Final = 250 * US
"""Times of these tests are in quarters of a millisecond: what is as long as four of them is long."""
LONG: Final = 4

WAITS: Final = (VALUE, WAITING, COPYING)
MIN_REPEATS: Final = 3
"""Long gaps in which the host does something else are put down to waits of a name if there are as many."""
EXPLAINABLE: Final = (LAUNCHES, LONG_OPERATOR, PYTHON, IN_ANNOTATION, NOTHING_RECORDED)

Span = tuple[int, int]


class Cause(NamedTuple):
    """The cause of one gap; `event` is the number of the event that it is named after, -1 without one."""

    doing: str
    event: int


cuts = st.lists(st.integers(0, 62), min_size=2, max_size=12, unique=True).map(
    lambda times: [(low, high) for low, high in zip(sorted(times)[::2], sorted(times)[1::2], strict=False)]
)
calls = st.lists(st.integers(-5, 70), min_size=6, max_size=6)


@given(nested(), cuts, calls)
def test_causes_of_random_gaps(events: list[tuple[int, int, int]], gaps: list[Span], asked: list[int]) -> None:
    rank_trace, lane = build_thread([(NAMES[at][0], start, end, NAMES[at][1]) for start, end, at in events])
    threads = read_thread(rank_trace)
    found = find_causes(rank_trace, lane, gaps, asked, activity_intervals(threads))
    causes = slow_causes(threads, gaps, asked)
    names = [row["name"] for row in threads]
    by_key: dict[tuple[str, str], list[int]] = {}
    for number, (row, cause) in enumerate(zip(found.row, causes, strict=False)):
        got = found.table.row(int(row), named=True)
        if cause is None:
            return  # two calls took as long
        assert got["doing"] == cause.doing, (number, got)
        name = names[cause.event] if cause.event >= 0 else ""
        by_key.setdefault((cause.doing, name_key(cause.doing, name)), []).append(number)
        assert name_key(cause.doing, got["name"]) == name_key(cause.doing, name)
    assert found.table.height == 1 + len(by_key), "and the row of gaps without a cause"
    for numbers in by_key.values():
        check_cause(found.table.row(int(found.row[numbers[0]]), named=True), numbers, causes, threads, gaps)


def name_key(doing: str, name: str) -> str:
    """Equal for names that are one cause: numbers do not count, of Python functions the file does."""
    if doing in JOINED:
        return ""
    return name.split("(")[0] if doing == PYTHON else re.sub(r"\d+", "#", name)


def check_cause(
    row: dict[str, Any], numbers: list[int], causes: Sequence[Cause | None], threads: list[Event], gaps: list[Span]
) -> None:
    """A cause has the names of its gaps by their time, and the event of the longest of these gaps."""
    times, counts = Counter[str](), Counter[str]()
    for number in numbers:
        cause = causes[number]
        assert cause is not None
        if cause.event >= 0:
            times[threads[cause.event]["name"]] += gaps[number][1] - gaps[number][0]
            counts[threads[cause.event]["name"]] += 1
    named = sorted(times, key=lambda name: (-times[name], name))
    if row["doing"] not in JOINED:  # of those the second calls in a gap count, too
        assert [(each["name"], each["count"], each["time"] // UNIT) for each in row["names"] or []] == [
            (name, counts[name], times[name]) for name in named[:3]
        ]
    most = [number for number in numbers if not named or name_of(causes[number], threads) == named[0]]
    longest = causes[max(most, key=lambda number: gaps[number][1] - gaps[number][0])]
    assert longest is not None
    if row["doing"] == LAUNCHES:
        assert (row["name"], row["host_event"]) == ("", None), "of gaps whose launch is not recorded"
        return
    if row["doing"] in JOINED:
        return
    event = threads[longest.event] if longest.event >= 0 else None
    assert row["host_event"] == (event and event["id"])
    assert row["host_time"] == (event and (event["end"] - event["start"]) * UNIT)
    assert row["inside"] == (event and nearest_name(threads, event["parent"], ("op", "annotation")))
    if row["name"]:
        called = [each for each in threads if each["name"] == row["name"]]
        inside = [each for each in called if each["start"] < gaps[-1][1] and each["end"] > gaps[0][0]]
        assert row["calls"] == (len(inside) or None)


def name_of(cause: Cause | None, threads: list[Event]) -> str:
    """The name of the event that a cause is named after; "" without one."""
    return threads[cause.event]["name"] if cause is not None and cause.event >= 0 else ""


def build_thread(events: Sequence[tuple[str, float, float, str]]) -> tuple[RankTrace, int]:
    """A trace whose host has one thread with these events (name, start, end, kind), and the thread's lane."""
    b = Building(unit=UNIT)
    b.event(stream(), "kernel", 0, 1)
    b.event(thread(), "begin", -9, -9, "other")
    for name, start, end, kind in events:
        b.event(thread(), name, start, end, kind)
    (rank_trace,) = rank_traces(b.trace(), Window())
    return rank_trace, int(rank_trace.lanes.filter(pl.col("role") == "thread")["lane"][0])


def read_thread(rank_trace: RankTrace) -> list[Event]:
    """The events of the thread, from the origin of these tests, which is 9 units behind that of the trace."""
    times = ("start", "end")
    return [{**row, **{each: row[each] - 9 for each in times}} for row in read_lane(rank_trace, "python", UNIT)]


def find_causes(
    rank_trace: RankTrace,
    lane: int,
    gaps: Sequence[Span],
    asked: Sequence[int] = (),
    activities: ActivityIntervals | None = None,
    launches: Sequence[int | None] = (),
    blocking: Sequence[int] = (),
) -> GapCauses:
    """The causes of gaps for which the thread is responsible; times are those of the events."""
    origin = 9 * UNIT
    start, end = (np.array([gap[side] for gap in gaps], np.int64) * UNIT + origin for side in (0, 1))
    until = np.array([*asked, *[-1000] * len(gaps)][: len(gaps)], np.int64) * UNIT + origin
    launch = pl.Series([*launches, *[None] * len(gaps)][: len(gaps)], dtype=pl.Int64)
    doing = {}
    if activities is not None:
        shifted = Intervals(*(times * UNIT + origin for times in activities.intervals))
        doing = {lane: ActivityIntervals(shifted, activities.codes)}
    windows, lanes = Intervals(start, end), np.full(len(gaps), lane)
    return find_gap_causes(
        rank_trace, windows, lanes, launch, until, EventRules(blocking), ThreadActivities(doing, lane)
    )


def slow_causes(threads: list[Event], gaps: list[Span], asked: Sequence[int]) -> list[Cause | None]:
    """The causes by a ledger of waits: what the host would have been ahead; None where two calls took as long."""
    waits = [
        (low, high)
        for low, high in wait_times(threads)
        if 2 * sum(max(min(high, end) - max(low, start), 0) for start, end in gaps) <= high - low
    ]
    causes, blamed = list[Cause | None](), dict[int, Cause | None]()
    ahead, before = 0, -1000
    for number, ((start, end), call) in enumerate(zip(gaps, asked, strict=False)):
        until, length = call if start < call < end else end, end - start
        cause = slow_cause(threads, start, until)
        ahead += sum(high - low for low, high in waits if before < high <= until)
        long_waits = [wait for wait in waits if wait[1] <= until and wait[0] < start and wait[1] - wait[0] >= length]
        if cause is not None and cause.doing in EXPLAINABLE and ahead >= length and long_waits:
            blamed[number] = slow_cause(threads, *long_waits[-1])
        causes.append(cause)
        ahead, before = max(ahead - length, 0), until
    if None in blamed.values():
        return [None]
    known = {number: wait for number, wait in blamed.items() if wait is not None and wait.doing in WAITS}
    times = Counter(name_of(wait, threads) for wait in known.values())
    for number, wait in known.items():
        cause = causes[number]
        if cause is not None and (cause.doing == LAUNCHES or times[name_of(wait, threads)] >= MIN_REPEATS):
            causes[number] = wait
    return causes


def slow_cause(threads: list[Event], low: int, high: int) -> Cause | None:
    """What the thread did for most of an interval, by the definition; None where two calls took as long.

    Nor is a call judged here that has its own time in pieces, of which none is long enough alone.
    """
    length = high - low
    covering = [
        number
        for number, event in enumerate(threads)
        if event["kind"] != "step" and 2 * (min(event["end"], high) - max(event["start"], low)) > length
    ]
    deepest = covering[-1] if covering else -1
    innermost = Counter(innermost_event(threads, instant) for instant in range(low, high))
    times = Counter[str]()
    for number, time in innermost.items():
        times[activity_of(threads, number)] += time
    order = [*ACTIVITIES, NOTHING_RECORDED]
    activity = max(order, key=lambda each: times[each])
    is_main = 2 * times[activity] >= length
    of_deepest = activity_of(threads, deepest)
    general = (PYTHON, ASLEEP, IN_ANNOTATION, OPERATORS, LAUNCHING, RUNTIME, NOTHING_RECORDED)
    if of_deepest not in general:
        activity, is_main = of_deepest, True
    pieces = Counter[int]()
    for number, time in piece_times(threads, low, high):
        pieces[number] = max(pieces[number], time)
    alone = deepest >= 0 and 2 * innermost[deepest] > length >= LONG
    if alone and 2 * pieces[deepest] <= length:
        return None
    ordinary = (PYTHON, IN_ANNOTATION, NOTHING_RECORDED, COPYING)
    doing, event = activity, deepest
    if (
        not is_main
        or (activity in (LAUNCHING, RUNTIME, OPERATORS) and not alone)
        or (activity in ordinary and length < LONG)
    ):
        doing, event = LAUNCHES, -1
    elif activity in (LAUNCHING, RUNTIME):
        doing = FIRST_USE if threads[deepest]["name"] == "cudaLaunchKernel" else BLOCKED_CALL
    elif activity == OPERATORS:
        doing = LONG_OPERATOR
    elif activity == NOTHING_RECORDED:
        event = -1
    elif activity not in (PYTHON, ASLEEP, IN_ANNOTATION):
        mine = [number for number in innermost if activity_of(threads, number) == activity]
        longest = [each for spent in (innermost, pieces) for each in mine if spent[each] == max(spent[n] for n in mine)]
        chosen = [deepest] if of_deepest == activity else longest
        outermost = {outermost_event(threads, each) for each in chosen}
        return Cause(doing, outermost.pop()) if len(outermost) == 1 else None
    return Cause(doing, event)


def piece_times(threads: list[Event], low: int, high: int) -> list[tuple[int, int]]:
    """The innermost events of an interval in order, each with the time until the next."""
    found = list[tuple[int, int]]()
    for instant in range(low, high):
        number = innermost_event(threads, instant)
        if found and found[-1][0] == number:
            found[-1] = (number, found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found


def nearest_name(threads: list[Event], number: int, kinds: tuple[str, ...]) -> str | None:
    """The name of the innermost of an event and those around it that is of these kinds."""
    names = [threads[each]["name"] for each in events_around(threads, number) if threads[each]["kind"] in kinds]
    return names[0] if names else None


def wait_times(threads: list[Event]) -> list[Span]:
    """The times in which the thread waits for the device."""
    times = [time for time in range(-9, 70) if activity_of(threads, innermost_event(threads, time)) in WAITS]
    spans = list[Span]()
    for time in times:
        if spans and spans[-1][1] == time:
            spans[-1] = (spans[-1][0], time + 1)
        else:
            spans.append((time, time + 1))
    return spans


def activity_intervals(threads: list[Event]) -> ActivityIntervals:
    """The activity of the thread at each instant, in units."""
    doing = [(time, activity_of(threads, innermost_event(threads, time))) for time in range(-9, 70)]
    known = [(time, ACTIVITIES.index(activity)) for time, activity in doing if activity != NOTHING_RECORDED]
    when, codes = (np.array([each[side] for each in known], np.int64) for side in (0, 1))
    return ActivityIntervals(Intervals(when, when + 1), codes)


SOURCE: Final = "train.py(3): run"
SLEEP: Final = "<built-in function sleep>"


@pytest.mark.parametrize(
    ("events", "doing", "name"),
    [
        ([("Python GC", 0, 9, "python")], COLLECTING_GARBAGE, "Python GC"),
        ([("compile f", 0, 9, "compile"), ("inside f", 1, 8, "compile")], COMPILING, "compile f"),
        ([("aten::conv2d", 0, 9, "op"), ("cuModuleLoadData", 1, 9, "runtime")], PROGRAM, "cuModuleLoadData"),
        ([("cudaLaunchKernel", 1, 9, "runtime")], FIRST_USE, "cudaLaunchKernel"),
        ([("cudaStreamIsCapturing", 1, 9, "runtime")], BLOCKED_CALL, "cudaStreamIsCapturing"),
        ([("aten::conv2d", 1, 9, "op")], LONG_OPERATOR, "aten::conv2d"),
        ([(SOURCE, 1, 9, "python")], PYTHON, SOURCE),
        ([(SOURCE, 0, 9, "python"), (SLEEP, 1, 9, "python")], ASLEEP, SLEEP),
        ([("part 1", 1, 9, "annotation")], IN_ANNOTATION, "part 1"),
        ([], NOTHING_RECORDED, ""),
        ([("ProfilerStep#1", 0, 9, "step")], NOTHING_RECORDED, ""),
        ([("aten::item", 1, 9, "op"), ("cudaStreamSynchronize", 2, 9, "sync")], VALUE, "aten::item"),
        ([("cudaStreamSynchronize", 2, 9, "sync")], WAITING, "cudaStreamSynchronize"),
        ([("cudaMemcpy", 2, 9, "runtime")], COPYING, "cudaMemcpy"),
        ([("aten::conv2d", 0, 9, "op"), *(("cudaLaunchKernel", at, at + 0.5, "runtime") for at in range(9))], LAUNCHES,
         ""),
    ],
)  # fmt: skip
def test_each_kind_of_cause(events: list[tuple[str, float, float, str]], doing: str, name: str) -> None:
    rank_trace, lane = build_thread(events)
    found = find_causes(rank_trace, lane, [(0, 10)])
    row = found.table.row(int(found.row[0]), named=True)
    assert (row["doing"], row["name"]) == (doing, name)


def test_a_loader_has_the_frame_that_runs_in_it() -> None:
    events = [
        ("enumerate(DataLoader)#X.__next__", 0, 9, "annotation"),
        ("torch/utils/data/dataloader.py(729): __next__", 0, 9, "python"),
        ("train.py(40): __getitem__", 1, 9, "python"),
        ("torch/tensor.py(1): load", 2, 9, "python"),
    ]
    rank_trace, lane = build_thread(events)
    row = find_causes(rank_trace, lane, [(0, 10)]).table.row(1, named=True)
    assert (row["doing"], row["name"], row["frame"]) == (LOADER, events[0][0], "train.py(40): __getitem__")


def test_several_calls_that_allocate_are_one_cause() -> None:
    """Two gaps are of cudaMalloc, one of cudaFree; each is inside an operator."""
    events = []
    for call, start in (("cudaMalloc", 0), ("cudaFree", 20), ("cudaMalloc", 40)):
        events += [("aten::empty", start, start + 9, "op"), (call, start, start + 9, "runtime")]
    rank_trace, lane = build_thread(events)
    found = find_causes(rank_trace, lane, [(0, 10), (20, 30), (40, 50)])
    row = found.table.row(1, named=True)
    assert found.row.tolist() == [1, 1, 1]
    assert (row["doing"], row["name"], row["inside"]) == (ALLOCATING, "cudaMalloc", "aten::empty")
    assert [(each["name"], each["count"]) for each in row["names"]] == [("cudaMalloc", 2), ("cudaFree", 1)]


def test_a_long_operator_with_short_ones_in_it_is_named() -> None:
    """It runs for 40 units, of which four others take one each."""
    inside = [("aten::empty", 8 * number + 4, 8 * number + 5, "op") for number in range(4)]
    rank_trace, lane = build_thread([("aten::conv2d", 0, 40, "op"), *inside])
    row = find_causes(rank_trace, lane, [(0, 41)]).table.row(1, named=True)
    assert (row["doing"], row["name"]) == (LONG_OPERATOR, "aten::conv2d")


def test_two_calls_that_allocate_in_one_gap_are_both_named() -> None:
    rank_trace, lane = build_thread([("cudaFree", 0, 6, "runtime"), ("cudaMalloc", 6, 10, "runtime")])
    row = find_causes(rank_trace, lane, [(0, 10)]).table.row(1, named=True)
    assert {each["name"] for each in row["names"]} == {"cudaFree", "cudaMalloc"}


@pytest.mark.parametrize("at_once", [1, 1 << 16])
def test_launches_that_cannot_keep_up_have_the_operators_that_launch(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gaps of which one, two, and one are of an operator; the last launch is in none."""
    monkeypatch.setattr(gap_causes, "_NAMES_AT_ONCE", at_once)
    events = [
        (name, start, start + 1, kind)
        for at, operator in enumerate(("aten::mul", "aten::add_", "aten::add_", ""))
        for name, start, kind in ((operator, 2 * at, "op"), ("cudaLaunchKernel", 2 * at, "runtime"))
        if name
    ]
    rank_trace, lane = build_thread(events)
    launches = [row["id"] for row in read_thread(rank_trace) if row["name"] == "cudaLaunchKernel"]
    found = find_causes(rank_trace, lane, [(0, 1), (2, 3), (4, 5), (6, 7)], launches=launches)
    row = found.table.row(1, named=True)
    assert found.row.tolist() == [1, 1, 1, 1]
    assert (row["doing"], row["name"], row["calls"]) == (LAUNCHES, "aten::add_", 2)
    assert [(each["name"], each["count"]) for each in row["names"]] == [
        ("aten::add_", 2), ("aten::mul", 1), ("cudaLaunchKernel", 1),
    ]  # fmt: skip


def test_a_value_that_the_host_read_is_the_cause_of_later_gaps() -> None:
    """It waited for 8 units: gaps of 1 and 3 behind it would not be there; one of 5 would, since 4 are left by then."""
    rank_trace, lane = build_thread([("aten::item", 0, 8, "op"), ("cudaStreamSynchronize", 0, 8, "sync")])
    gaps = [(9, 10), (12, 15), (20, 25)]
    found = find_causes(rank_trace, lane, gaps, activities=activity_intervals(read_thread(rank_trace)))
    rows = [found.table.row(int(row), named=True) for row in found.row]
    assert [(row["doing"], row["name"]) for row in rows] == [
        (VALUE, "aten::item"), (VALUE, "aten::item"), (NOTHING_RECORDED, ""),
    ]  # fmt: skip


@pytest.mark.parametrize(("count", "doing"), [(2, NOTHING_RECORDED), (3, WAITING)])
def test_long_gaps_are_put_down_to_waits_only_if_there_are_several(count: int, doing: str) -> None:
    """Each wait of 8 units is followed by a gap of 6, in which nothing is recorded."""
    waits = [("cudaStreamSynchronize", 20 * number, 20 * number + 8, "sync") for number in range(count)]
    rank_trace, lane = build_thread(waits)
    gaps = [(20 * number + 9, 20 * number + 15) for number in range(count)]
    found = find_causes(rank_trace, lane, gaps, activities=activity_intervals(read_thread(rank_trace)))
    assert {found.table["doing"][int(row)] for row in found.row} == {doing}


def test_a_wait_for_an_idle_device_is_no_cause_of_later_gaps() -> None:
    rank_trace, lane = build_thread([("cudaStreamSynchronize", 0, 8, "sync")])
    found = find_causes(rank_trace, lane, [(1, 7), (9, 10)], activities=activity_intervals(read_thread(rank_trace)))
    rows = [found.table.row(int(row), named=True)["doing"] for row in found.row]
    assert rows == [WAITING, LAUNCHES], "in the first gap it is what the host does"


def test_a_call_that_waits_for_its_copy_is_no_launch() -> None:
    rank_trace, lane = build_thread([("cudaMemcpyAsync", 1, 9, "runtime")])
    call = next(row["id"] for row in read_thread(rank_trace) if row["name"] == "cudaMemcpyAsync")
    doing = [find_causes(rank_trace, lane, [(0, 10)], blocking=blocking).table["doing"][1] for blocking in ([], [call])]
    assert doing == [BLOCKED_CALL, COPYING]


def test_gaps_without_a_thread_have_no_cause() -> None:
    rank_trace, _ = build_thread([("Python GC", 0, 9, "python")])
    assert find_causes(rank_trace, -1, [(0, 10)]).row.tolist() == [0]
    none = find_causes(rank_trace, -1, [])
    assert (none.row.tolist(), none.table["doing"].to_list()) == ([], [""])


def test_of_very_many_gaps_the_longest_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    rank_trace, lane = build_thread([("Python GC", 0, 9, "python"), ("Python GC", 20, 25, "python")])
    gaps = [(0, 9), (20, 25)]
    assert find_causes(rank_trace, lane, gaps).row.tolist() == [1, 1]
    monkeypatch.setattr(gap_causes, "MAX_EXAMINED_GAPS", 1)
    found = find_causes(rank_trace, lane, gaps)
    assert [found.table["doing"][int(row)] for row in found.row] == [COLLECTING_GARBAGE, LAUNCHES]


def test_a_call_that_began_before_the_first_gap_is_counted() -> None:
    rank_trace, lane = build_thread([("Python GC", 0, 9, "python")])
    assert find_causes(rank_trace, lane, [(1, 9)]).table["calls"][1] == 1
