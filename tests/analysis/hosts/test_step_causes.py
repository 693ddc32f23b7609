"""Causes of the time of steps on hosts without devices: against a loop over instants, and cases of each kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from building import US, Building, thread
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
from tracehound.analysis.hosts.step_causes import find_step_causes
from tracehound.analysis.hosts.thread_activity import (
    ALLOCATING,
    ASLEEP,
    COLLECTING_GARBAGE,
    COMPILING,
    FILE_IO,
    IN_ANNOTATION,
    LAUNCHING,
    LOADER,
    NOTHING_RECORDED,
    OPERATORS,
    PYTHON,
    RUNTIME,
    VALUE,
    WAITING,
)
from tracehound.analysis.rank_trace import RankTrace, rank_traces
from tracehound.model.trace import Window

STEPS: Final = ((0, 20), (20, 45), (50, 60))
WORK: Final = (OPERATORS, LAUNCHING, RUNTIME)
BY_FRAME: Final = (PYTHON, ASLEEP, IN_ANNOTATION)
MAY_WAIT: Final = (ASLEEP, IN_ANNOTATION, NOTHING_RECORDED)

intervals = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 12)), max_size=3)


@given(nested(), intervals)
def test_causes_of_random_steps(events: list[tuple[int, int, int]], others: list[tuple[int, int]]) -> None:
    named = [(NAMES[at][0], start, end, NAMES[at][1]) for start, end, at in events if NAMES[at][1] != "step"]
    rank_trace = build_host(named, [(start, start + length) for start, length in others])
    threads = read_lane(rank_trace, "python (1)", US)
    assume(all(threads[each]["name"] not in names_above(threads, each) for each in range(len(threads))))
    found = find_step_causes(rank_trace, step_rows()).rows(named=True)
    times = slow_times(threads, [(start, start + length) for start, length in others])
    by_activity = defaultdict[str, list[dict[str, Any]]](list)
    for row in found:
        by_activity[row["doing"]].append(row)
    assert by_activity.keys() == times.keys()
    for doing, rows in by_activity.items():
        check_rows(doing, rows, times[doing], threads)


def check_rows(doing: str, rows: list[dict[str, Any]], times: Counter[tuple[int, int]], threads: list[Event]) -> None:
    """The rows of one activity have its time by name and step; `times` has it by step and innermost event."""
    expected = defaultdict[str, Counter[int]](Counter)
    calls = defaultdict[str, set[int]](set)
    for (step, event), time in times.items():
        if doing in BY_FRAME:
            (row,) = rows
            assert row["name"] in main_names(times, threads)
            name = row["name"]
        elif doing == NOTHING_RECORDED:
            name = ""
        else:
            outermost = outermost_event(threads, event)
            name = threads[outermost]["name"]
            calls[name].add(outermost)
        expected[name][step] += time
    assert {row["name"]: row["idle"] // US for row in rows} == {name: spent.total() for name, spent in expected.items()}
    for row in rows:
        by_step = expected[row["name"]]
        longest = sorted(by_step.items(), key=lambda each: (-each[1], each[0]))
        assert [(each["step"], each["time"] // US) for each in row["by_step"]] == longest
        of_name = count_events(threads, row["name"]) if doing in BY_FRAME else len(calls[row["name"]])
        assert (row["count"], row["calls"]) == (len(by_step), of_name)
        start, end = STEPS[longest[0][0]]
        assert (row["event"], row["duration"]) == (longest[0][0], (end - start) * US)


def count_events(threads: list[Event], name: str) -> int:
    """The events with a name that are in any step."""
    mine = [event for event in threads if event["name"] == name]
    return sum(any(event["start"] < end and event["end"] > start for start, end in STEPS) for event in mine)


def main_names(times: Counter[tuple[int, int]], threads: list[Event]) -> set[str]:
    """Names that have more than half of the time with what is nested in them, and the least of that; else any."""
    inclusive = Counter[str]()
    for (_, event), time in times.items():
        for each in events_around(threads, event):
            inclusive[threads[each]["name"]] += time
    main = {name: time for name, time in inclusive.items() if 2 * time > times.total()}
    if not main:
        return {threads[event]["name"] for _, event in times}
    return {name for name, time in main.items() if time == min(main.values())}


def slow_times(threads: list[Event], others: list[tuple[int, int]]) -> dict[str, Counter[tuple[int, int]]]:
    """The time in each activity that is no work, by step and innermost event."""
    times = defaultdict[str, Counter[tuple[int, int]]](Counter)
    for step, (start, end) in enumerate(STEPS):
        for instant in range(start, end):
            event = innermost_event(threads, instant)
            doing = activity_of(threads, event)
            elsewhere = any(low <= instant < high for low, high in others)
            if doing not in WORK and not (elsewhere and doing in MAY_WAIT):
                times[doing][step, event] += 1
    return times


def names_above(threads: list[Event], number: int) -> list[str]:
    return [threads[each]["name"] for each in events_around(threads, number)[1:]]


def step_rows() -> pl.DataFrame:
    """The steps; their marks are numbered alike."""
    start, end = ([step[side] * US for step in STEPS] for side in (0, 1))
    return pl.DataFrame({"step": range(len(STEPS)), "start": start, "end": end, "event": range(len(STEPS))})


def build_host(
    events: Sequence[tuple[str, float, float, str]], others: Sequence[tuple[float, float]] = ()
) -> RankTrace:
    """A host whose program has these events (name, start, end, kind), beside a thread with operators at these times."""
    b = Building()
    b.event(thread("python (1)"), "begin", 0, 0, "annotation")
    for name, start, end, kind in events:
        b.event(thread("python (1)"), name, start, end, kind)
    for start, end in others:
        b.event(thread("autograd (2)"), "aten::mm_backward", start, end, "op")
    (rank_trace,) = rank_traces(b.trace(), Window())
    return rank_trace


SLEEP: Final = "<built-in function sleep>"


@pytest.mark.parametrize(
    ("events", "doing", "name"),
    [
        ([("Python GC", 0, 20, "python")], COLLECTING_GARBAGE, "Python GC"),
        ([("enumerate(DataLoader)#X.__next__", 0, 20, "annotation")], LOADER, "enumerate(DataLoader)#X.__next__"),
        ([("compile f", 0, 20, "compile")], COMPILING, "compile f"),
        ([("aten::item", 0, 20, "op"), ("aten::_local_scalar_dense", 1, 19, "op")], VALUE, "aten::item"),
        ([("cudaStreamSynchronize", 0, 20, "sync")], WAITING, "cudaStreamSynchronize"),
        ([("cudaMalloc", 0, 20, "runtime")], ALLOCATING, "cudaMalloc"),
        ([("<built-in function write>", 0, 20, "python")], FILE_IO, "<built-in function write>"),
        ([("train.py(1): main", 0, 20, "python"), ("train.py(3): run", 1, 20, "python")], PYTHON, "train.py(3): run"),
        ([("train.py(1): main", 0, 20, "python"), (SLEEP, 1, 20, "python")], ASLEEP, SLEEP),
        ([("part 1", 0, 20, "annotation")], IN_ANNOTATION, "part 1"),
        ([], NOTHING_RECORDED, ""),
    ],
)
def test_each_kind_of_cause_of_a_step(events: list[tuple[str, float, float, str]], doing: str, name: str) -> None:
    rest = [("aten::mm", 20, 60, "op")]
    rows = find_step_causes(build_host([*events, *rest]), step_rows()).rows(named=True)
    assert [(row["doing"], row["name"]) for row in rows if row["idle"] > 2 * US] == [(doing, name)]
    assert find_time(rows, doing) >= 18 * US


def find_time(rows: list[dict[str, Any]], doing: str) -> int:
    """The time of one activity, ps."""
    return sum(row["idle"] for row in rows if row["doing"] == doing)


def test_work_is_no_cause() -> None:
    events = [("aten::mm", 0, 60, "op"), ("cudaLaunchKernel", 10, 20, "runtime")]
    assert find_step_causes(build_host(events), step_rows()).is_empty()


def test_a_thread_that_waits_for_the_backward_pass_loses_nothing() -> None:
    events = [("part 1", 0, 20, "annotation"), ("aten::mm", 20, 60, "op")]
    (row,) = find_step_causes(build_host(events, [(0, 15)]), step_rows()).rows(named=True)
    assert (row["doing"], row["idle"]) == (IN_ANNOTATION, 5 * US)
    assert find_step_causes(build_host(events, [(0, 20)]), step_rows()).is_empty()


def test_a_loader_in_a_step_has_the_frame_that_runs_in_it() -> None:
    events = [
        ("enumerate(DataLoader)#X.__next__", 0, 20, "annotation"),
        ("torch/utils/data/dataloader.py(729): __next__", 0, 20, "python"),
        ("train.py(40): __getitem__", 0, 20, "python"),
        ("aten::mm", 20, 60, "op"),
    ]
    (row,) = find_step_causes(build_host(events), step_rows()).rows(named=True)
    assert (row["doing"], row["name"], row["calls"]) == (LOADER, events[0][0], 1)


def test_a_loader_in_a_step_is_told_with_its_frame() -> None:
    events = [
        ("enumerate(DataLoader)#X.__next__", 0, 20, "annotation"),
        ("train.py(40): __getitem__", 0, 20, "python"),
        ("aten::mm", 20, 60, "op"),
    ]
    (row,) = find_step_causes(build_host(events), step_rows()).rows(named=True)
    assert row["frame"] == "train.py(40): __getitem__"


def test_a_run_without_steps_or_threads_has_no_causes_of_steps() -> None:
    rank_trace = build_host([("Python GC", 0, 20, "python")])
    assert find_step_causes(rank_trace, step_rows().clear()).is_empty()
