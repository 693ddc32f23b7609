"""Events on every lane: exact on small traces, and compared with a slow search on random ones."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window


def trace_with_slices() -> Trace:
    b = Building()
    b.event(stream(), "gemm", 100, 200)
    b.event(stream(), "gemm", 300, 330)
    b.event(stream(), "relu", 400, 410)
    b.event(stream(1), "gemm", 0, 50)
    b.event(thread(), "step", 0, 500, "annotation")
    b.event(thread(), "aten::mm", 100, 300, "op")
    b.event(thread(), "aten::mm", 310, 320, "op")
    return b.trace()


TRACE = trace_with_slices()


def rows(result: Result, *columns: str) -> list[tuple[object, ...]]:
    return result.table.select(columns).rows()


def in_us(result: Result) -> list[tuple[object, ...]]:
    return [
        (rank, lane, name, number, own // US, total // US, busy // US)
        for rank, lane, name, number, own, total, busy in rows(
            result, "rank", "lane", "name", "count", "self", "total", "busy"
        )
    ]


def test_every_lane_by_name() -> None:
    assert in_us(run_analysis(get_analysis("slices"), TRACE)) == [
        (0, "stream 7", "gemm", 2, 130, 130, 140),
        (0, "stream 7", "relu", 1, 10, 10, 140),
        (None, "python", "step", 1, 290, 500, 500),
        (None, "python", "aten::mm", 2, 210, 210, 500),
        (1, "stream 7", "gemm", 1, 50, 50, 50),
    ]


def test_a_window_clips() -> None:
    result = run_analysis(get_analysis("slices"), TRACE, Window(150 * US, 305 * US))
    assert in_us(result) == [
        (0, "stream 7", "gemm", 2, 55, 55, 55),
        (None, "python", "aten::mm", 1, 150, 150, 155),
        (None, "python", "step", 1, 5, 155, 155),
    ]
    assert note_texts(result.notes) == ("2 lanes",)


@pytest.mark.parametrize("asked", ["window", "setting"])
def test_one_lane_is_summed_up_in_a_note(asked: str) -> None:
    lane = TRACE.lanes.filter((pl.col("name") == "stream 7") & (pl.col("rank") == 0))["lane"].to_list()
    if asked == "window":
        result = run_analysis(get_analysis("slices"), TRACE, Window(150 * US, 350 * US, ranks=(0,), lanes=tuple(lane)))
    else:
        window = Window(150 * US, 350 * US, ranks=(0,))
        result = run_analysis(get_analysis("slices"), TRACE, window, Options(given=(("lane", "^STREAM"),)))
    assert note_texts(result.notes)[0] == "2 events, busy 80.0 us of 200 us"
    assert rows(result, "name", "count", "share") == [("gemm", 2, 1.0)]


def test_a_row_leads_to_the_longest_of_its_events() -> None:
    event = run_analysis(get_analysis("slices"), TRACE).table["event"][0]
    assert TRACE.event(event)["start"] == 100 * US


def test_lanes_on_which_nothing_ran_say_so() -> None:
    result = run_analysis(
        get_analysis("slices"), TRACE, Window(420 * US, 430 * US, ranks=(0,)), Options(given=(("lane", "stream"),))
    )
    assert result.table.is_empty()
    assert note_texts(result.notes)[0] == "nothing ran on these lanes in this window"


def test_a_lane_that_there_is_not_is_told_of() -> None:
    result = run_analysis(get_analysis("slices"), TRACE, Window(), Options(given=(("lane", "nosuch"),)))
    assert note_texts(result.notes)[0] == "no lane is named 'nosuch'"


SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.sampled_from("abc")), min_size=1, max_size=15)


@given(SPANS, st.integers(0, 30), st.integers(1, 30))
def test_counts_and_totals_are_those_of_a_slow_search(spans: list[tuple[int, int, str]], low: int, length: int) -> None:
    b = Building(unit=1)
    for start, long, name in spans:
        b.event(thread(), name, start, start + long, "op")
    trace = b.trace()
    first = min(start for start, _, _ in spans)
    table = run_analysis(get_analysis("slices"), trace, Window(low, low + length)).table
    low, high = Window(low, low + length).clip_bounds(*trace.span)
    expected: dict[str, list[int]] = {}
    covered = set[int]()
    for begin, long, name in spans:
        start, end = begin - first, begin - first + long
        if (start < high and end > low) or (start == end and low <= start <= high):
            inside = range(max(start, low), min(end, high))
            expected.setdefault(name, []).append(len(inside))
            covered |= set(inside)
    found = {name: (number, total) for name, number, total in table.select("name", "count", "total").rows()}
    assert found == {name: (len(lengths), sum(lengths)) for name, lengths in expected.items()}
    assert set(table["busy"]) <= {len(covered)}


@given(SPANS, st.integers(0, 30), st.integers(1, 60))
def test_self_time_is_what_no_event_inside_covers(spans: list[tuple[int, int, str]], low: int, length: int) -> None:
    b = Building(unit=1)
    for start, long, name in spans:
        b.event(thread(), name, start, start + long, "op")
    trace = b.trace()
    low, high = Window(low, low + length).clip_bounds(*trace.span)
    events = trace.events().collect().to_dicts()
    expected: dict[str, int] = {}
    for event in events:
        own = set(range(event["start"], event["end"]))
        for other in events:
            if other["parent"] == event["id"]:
                own -= set(range(other["start"], other["end"]))
        assert event["self"] == len(own)
        expected[event["name"]] = expected.get(event["name"], 0) + len(own & set(range(low, high)))
    table = run_analysis(get_analysis("slices"), trace, Window(low, high)).table
    assert {name: own for name, own in table.select("name", "self").rows() if own} == {
        name: own for name, own in expected.items() if own
    }


def test_children_that_overlap_in_part_are_taken_off_once() -> None:
    b = Building()
    for name, start, end in (("P", 1, 99), ("A", 10, 65), ("B", 20, 95)):
        b.event(thread(), name, start, end, "op")
    trace = b.trace()
    for analysis, column in (("slices", "self"), ("operators", "host_self"), ("stacks", "self")):
        table = run_analysis(get_analysis(analysis), trace).table
        table = table.rename({"call": "name"}, strict=False)
        assert dict(table.select("name", column).iter_rows())["P"] == 13 * US, analysis
