"""Random events of a host's thread, and its activity at each instant, by the definition of activities."""

from __future__ import annotations

from typing import Any, Final

import polars as pl
from hypothesis import strategies as st

from tracehound.analysis.hosts.host_threads import THREAD_COLUMNS
from tracehound.analysis.hosts.thread_activity import (
    ALLOCATING,
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
)
from tracehound.analysis.rank_trace import RankTrace

Event = dict[str, Any]

NAMES: Final[tuple[tuple[str, str, str], ...]] = (
    ("Python GC", "python", COLLECTING_GARBAGE),
    ("enumerate(DataLoader)#X.__next__", "annotation", LOADER),
    ("aten::item", "op", VALUE),
    ("cudaStreamSynchronize", "sync", WAITING),
    ("cudaMalloc", "runtime", ALLOCATING),
    ("cudaFree", "runtime", ALLOCATING),
    ("cudaMemcpy", "runtime", COPYING),
    ("cudaLaunchKernel", "runtime", LAUNCHING),
    ("cudaStreamIsCapturing", "runtime", RUNTIME),
    ("compile f", "compile", COMPILING),
    ("cuModuleLoadData", "runtime", PROGRAM),
    ("aten::conv2d", "op", OPERATORS),
    ("aten::conv3d", "op", OPERATORS),
    ("train.py(3): run", "python", ""),
    ("torch/nn/modules/module.py(1): _call_impl", "python", ""),
    ("part 1", "annotation", ""),
    ("ProfilerStep#1", "step", ""),
)
OWN_ACTIVITY: Final = {name: activity for name, _, activity in NAMES}
ENCLOSING: Final = (COMPILING, PROGRAM, LOADER, VALUE)
"""Anything inside of these is part of them."""


@st.composite
def nested(draw: st.DrawFn, low: int = 0, high: int = 60) -> list[tuple[int, int, int]]:
    """Events of a thread that nest: start, end, and position in `NAMES`."""
    if high - low < 2 or not draw(st.integers(0, 3)):
        return []
    start = draw(st.integers(low, min(high - 1, low + 12)))
    end = draw(st.integers(start + 1, min(high, start + 40)))
    own = (start, end, draw(st.integers(0, len(NAMES) - 1)))
    return [own, *draw(nested(start, end)), *draw(nested(end, high))]


def read_lane(rank_trace: RankTrace, lane: str, unit: int) -> list[Event]:
    """The events of a thread in order, in these units from the trace's origin; `parent` is a number, or -1."""
    number = rank_trace.lanes.filter(name=lane)["lane"][0]
    rows = rank_trace.threads.filter(pl.col("lane") == number).select(THREAD_COLUMNS).sort("id").collect().to_dicts()
    numbers = {row["id"]: at for at, row in enumerate(rows)}
    return [
        {
            "id": row["id"],
            "name": str(row["name"]),
            "kind": str(row["kind"]),
            "start": row["start"] // unit,
            "end": row["end"] // unit,
            "parent": numbers.get(row["parent"], -1),
        }
        for row in rows
    ]


def innermost_event(threads: list[Event], instant: int) -> int:
    """The event that began last of those that run; -1 without one."""
    running = [number for number, event in enumerate(threads) if event["start"] <= instant < event["end"]]
    return running[-1] if running else -1


def events_around(threads: list[Event], number: int) -> list[int]:
    """The event and those around it, from the inside to the outside."""
    found = []
    while number >= 0:
        found.append(number)
        number = threads[number]["parent"]
    return found


def activity_of(threads: list[Event], number: int) -> str:
    """The activity of the thread while an event is the innermost."""
    around = events_around(threads, number)
    own = [OWN_ACTIVITY.get(threads[each]["name"], "") for each in around]
    for activities in ([each for each in own if each in ENCLOSING], [each for each in own if each]):
        if activities:
            return activities[0]
    kinds = [threads[each]["kind"] for each in around]
    marked = kinds and kinds[0] in ("annotation", "step")
    if kinds and (kinds[0] == "python" or (marked and "python" in kinds)):
        return PYTHON
    return IN_ANNOTATION if marked and "annotation" in kinds else NOTHING_RECORDED


def outermost_event(threads: list[Event], number: int) -> int:
    """The outermost of the events around one that all have its activity."""
    for each in events_around(threads, number):
        if activity_of(threads, each) != activity_of(threads, number):
            break
        found = each
    return found
