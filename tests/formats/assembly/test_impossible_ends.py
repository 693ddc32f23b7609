"""Kernels that contain later ones of their stream end where the next event begins."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.formats.assembly.file_assembly import KERNEL_ENDS_CUT
from tracehound.model.trace import FileFrames
from tracehound.ui.wording.event_facts import event_facts

KERNELS = ("kernel", "collective")
Event = tuple[float, float, str, int | None]
"""Start and end in us, kind, and correlation id."""


def built(events: Sequence[Event], lane: Lane | None = None, batch_size: int = 1000) -> FileFrames:
    b = Building(has_queues=True)
    for start, end, kind, correlation in events:
        b.event(lane or stream(), "k", start, end, kind, correlation=correlation)
    return b.part(batch_size)


def times(part: FileFrames) -> list[tuple[float, float]]:
    return [(start / US, end / US) for start, end in part.events.select("start", "end").rows()]


def cut_count(part: FileFrames) -> int:
    return sum(note.count for note in part.notes if note.code == KERNEL_ENDS_CUT)


def in_turn(count: int, length: float = 80) -> list[Event]:
    return [(100 * n, 100 * n + length, "kernel", n) for n in range(count)]


def test_a_kernel_that_contains_later_ones_ends_at_the_next_start() -> None:
    events = in_turn(8)
    events[2] = (200, 1_600_000, "kernel", 2)
    part = built(events)
    assert times(part) == [(100 * n, 100 * n + (100 if n == 2 else 80)) for n in range(8)]
    (note,) = [note for note in part.notes if note.code == KERNEL_ENDS_CUT]
    assert (note.level, note.count, note.where) == ("repaired", 1, "event 2")
    assert part.facets["cut"].collect().rows() == [(2, 1_599_800 * US)]
    assert part.lanes["last"].max() == 780 * US
    assert part.lanes["rows"].to_list() == [1]


@pytest.mark.parametrize(
    "events",
    [
        in_turn(5),
        [(0, 80, "kernel", 0), (70, 150, "kernel", 1), (140, 220, "kernel", 2)],  # programmatic dependent launch
        [(0, 100, "kernel", 0), (0, 50, "kernel", 1)],  # rounded to one start
        [(0, 100, "kernel", 0), (50, 99.5, "kernel", 1)],  # may end together, but for rounding
        [(0, 500, "kernel", 0), (10, 50, "copy", 1), (100, 140, "memset", 2)],  # other engines
        [(0, 500, "copy", 0), (10, 50, "kernel", 1)],
        [(0, 500, "kernel", 0), (50, 50, "kernel", 1)],  # of no length
        [(0, 500, "kernel", 0), (10, 50, "kernel", 0), (100, 400, "kernel", 0)],  # branches of one graph
    ],
)
def test_possible_times_stay(events: list[Event]) -> None:
    part = built(events)
    assert times(part) == [event[:2] for event in events]
    assert cut_count(part) == 0
    assert "cut" not in part.facets


@pytest.mark.parametrize(
    "lane", [Lane("annotations 7", 0, "annotations"), Lane("stray stream 7", 0, "stream"), thread()]
)
def test_only_streams_of_the_device_are_queues(lane: Lane) -> None:
    b = Building(has_queues=True)
    b.event(stream(0, 8), "k", 0, 1)
    for start, end in ((0, 500), (10, 50), (100, 140)):
        b.event(lane, "k", start, end)
    assert cut_count(b.part()) == 0


@pytest.mark.parametrize(
    ("end", "size", "cut"),
    [
        (3_000_000, 9_700_000, True),  # 3 MB/s
        (100_000, 9_700_000, True),  # 97 MB/s
        (90_000, 9_700_000, False),  # 108 MB/s: on an engine of its own
        (900, 8, False),  # short
        (3_000_000, None, False),
    ],
)
def test_of_copies_those_that_are_too_slow_to_be_true_are_cut(end: float, size: int | None, *, cut: bool) -> None:
    b = Building(has_queues=True)
    b.event(stream(), "Memcpy DtoH", 0, end, "copy", bytes=size)
    for number in range(1, 8):
        b.event(stream(), "k", 100 * number, 100 * number + 80)
    part = b.part(3)
    assert times(part)[0] == (0, 100 if cut else end)
    assert cut_count(part) == int(cut)


def test_a_lane_whose_kernels_run_at_the_same_time_is_no_queue() -> None:
    events = [(10 * n, 10 * n + 200 + 50 * (n % 3), "kernel", n) for n in range(30)]
    assert cut_count(built(events)) == 0
    assert cut_count(built(events, batch_size=4)) == 0


def test_a_graph_that_contains_kernels_of_the_next_launch_is_cut() -> None:
    events = [(0, 5000, "kernel", 1), (100, 180, "kernel", 1), (200, 280, "kernel", 2), (300, 380, "kernel", 2)]
    assert times(built(events))[0] == (0, 100)


@pytest.mark.parametrize(("count", "cut"), [(1, True), (3, True), (6, False)])
def test_in_a_graph_a_kernel_is_cut_that_seldom_runs_beside_the_next(count: int, *, cut: bool) -> None:
    """Branches of a graph run at the same time in each layer; an impossible end is an exception."""
    events = [(100 * number, 100 * number + 80, "kernel", 1) for number in range(40)]
    for number in range(count):
        events[6 * number] = (600 * number, 600 * number + 350, "kernel", 1)
    assert cut_count(built(events)) == (count if cut else 0)


def slow(events: Sequence[Event]) -> list[tuple[float, float]]:
    """The times after the repair, by looking at every pair."""
    rows = sorted(events, key=lambda event: (event[0], -event[1]))
    last = {event[3]: number for number, event in enumerate(rows) if event[3] is not None}
    ends, cut = [event[1] for event in rows], []
    kernels = [number for number, row in enumerate(rows) if row[2] in KERNELS]
    beside_next = [
        number for number in kernels if any(rows[number][0] < row[0] < rows[number][1] - 1 for row in rows[number:])
    ]
    for number, (start, end, kind, launch) in enumerate(rows):
        rare = 10 * len(beside_next) < len(kernels)
        behind = number if launch is None or rare else last[launch]
        inside = [
            later
            for place, later in enumerate(rows)
            if place > behind and later[0] > start and later[0] < later[1] < end - 1 and later[2] in KERNELS
        ]
        if kind in KERNELS and inside:
            cut.append(number)
            ends[number] = min(later[0] for later in rows if later[0] > start)
    for number in reversed(cut):
        if number + 1 < len(rows) and rows[number + 1][0] == rows[number][0]:
            ends[number] = max(ends[number], ends[number + 1])
    cut_kernels = [
        (row[0], end, number if row[3] is None else ("launch", row[3]))
        for number, (row, end) in enumerate(zip(rows, ends, strict=True))
        if row[2] in KERNELS
    ]
    beside = 0
    for number, (start, end, launch) in enumerate(cut_kernels[1:], 1):
        overlap = min(max(each[1] for each in cut_kernels[:number]), end) - start
        beside += overlap > 1 and 2 * overlap > end - start and launch != cut_kernels[number - 1][2]
    changed = sum(row[1] != end for row, end in zip(rows, ends, strict=True))
    return [(row[0], row[1] if beside > changed else end) for row, end in zip(rows, ends, strict=True)]


@st.composite
def lanes_of_events(draw: st.DrawFn) -> list[Event]:
    """Kernels in turn, some of which last too long or begin early, among copies; some have the launch of another."""
    events, start = list[Event](), 0
    for number in range(draw(st.integers(1, 24))):
        start += draw(st.sampled_from([0, 3, 10, 40]))
        length = draw(st.sampled_from([0, 1, 5, 9, 30, 200, 1000]))
        kind = draw(st.sampled_from(["kernel", "kernel", "kernel", "collective", "copy"]))
        launch = draw(st.sampled_from([number, number, number, max(0, number - 1), None]))
        events.append((start, start + length, kind, launch))
    return events


@given(lanes_of_events(), st.sampled_from([3, 7, 1000]))
def test_random_lanes_are_repaired_as_by_looking_at_every_pair(events: list[Event], batch_size: int) -> None:
    if batch_size < 1000:  # launches that are spread over several batches are looked at less closely
        events = [(start, end, kind, number) for number, (start, end, kind, _) in enumerate(events)]
    assert sorted(times(built(events, batch_size=batch_size))) == sorted(slow(events))


def test_steps_busy_time_and_ops_are_those_of_the_cut_kernels() -> None:
    b = Building(has_queues=True)
    for step in range(4):
        b.event(thread(), f"ProfilerStep#{step}", 1000 * step, 1000 * step + 999, "step", step=step)
    for number in range(32):
        start = 1000 * (number // 8) + 100 * (number % 8) + 20
        b.event(thread(), "hipLaunchKernel", start - 10, start - 8, "runtime", correlation=number)
        length = 1_600_000 if number == 3 else 90
        b.event(stream(), "gemm", start, start + length, correlation=number, record=100 + number)
    trace = b.trace()
    steps = run_analysis(get_analysis("steps"), trace).table
    assert steps["duration"].unique().to_list() == [999 * US]
    assert [round(busy, 3) for busy in steps["busy"]] == [0.731, 0.721, 0.721, 0.721]
    (op,) = run_analysis(get_analysis("ops"), trace).table.to_dicts()
    assert (op["self"], op["max"]) == ((31 * 90 + 100) * US, 100 * US)
    kernel = trace.events().filter(pl.col("record") == 103).collect()["id"][0]
    facts = {fact.label: fact.words for section in event_facts(trace, kernel) for fact in section.facts}
    assert facts["duration"] == "100.0 us"
    assert facts["recorded duration"] == "1.60 s, impossible: cut at the next start"
    usual = {fact.label for section in event_facts(trace, kernel + 1) for fact in section.facts}
    assert "recorded duration" not in usual


def test_shares_above_all_are_marked() -> None:
    """One kernel on two streams at once has more self time than the device has time."""
    b = Building()
    for number in (7, 8):
        b.event(stream(0, number), "gemm", 0, 100)
    result = run_analysis(get_analysis("ops"), b.trace())
    assert result.table["time_share"].to_list() == [2.0]
    (text,) = [text for text in note_texts(result.notes) if text.startswith("above 100 %")]
    assert text.startswith("above 100 %, up to 200 %, in 1 row: time share;")
