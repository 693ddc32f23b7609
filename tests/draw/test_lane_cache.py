"""When rows are made, and which stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from building import US, Building, stream, thread
from tracehound.draw.lane_cache import LaneCache, RowsNotReadError, RowsRequest, TimelineRows
from tracehound.draw.lane_rows import NO_NAMES, LaneRow, LaneRows
from tracehound.model.trace import FileFrames
from tracehound.store import merge_file_frames


def sliced(count: int) -> LaneRows:
    times = np.arange(count, dtype=np.int64)
    row = LaneRow(2 * times, 2 * times + 1, np.zeros(count, np.uint8), np.zeros(count, np.uint32))
    return LaneRows((row,), NO_NAMES)


def part(name: str, at: int = 0) -> FileFrames:
    b = Building(path=Path(f"{name}.json"), wall_ns=1_000_000_000 + at * 1000)
    for number in range(5):
        b.event(stream(), f"k{number}", 10 * number, 10 * number + 4)
    b.event(thread(), "outer", 0, 50, "op")
    b.event(thread(), "inner", 5, 20, "op")
    return b.part()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trace counts as one that is not read at once."""
    monkeypatch.setattr("tracehound.draw.lane_cache.FEW_EVENTS", 0)


def served(rows: TimelineRows, *wishes: RowsRequest) -> TimelineRows:
    for wish in wishes:
        rows.put(wish, rows.read_rows(wish))
    return rows


def test_what_was_not_asked_for_longest_goes_first() -> None:
    shelf = LaneCache(capacity=3 * sliced(100).size)
    for key in "abc":
        shelf.put(key, sliced(100))
    assert shelf.get("a") is not None
    shelf.put("d", sliced(100))
    assert [key for key in "abcd" if shelf.get(key) is not None] == ["a", "c", "d"]


def test_what_is_in_sight_stays_and_what_is_too_large_for_the_shelf_is_kept_alone() -> None:
    shelf = LaneCache(capacity=2 * sliced(100).size, needed=frozenset("a"))
    for key in "ab":
        shelf.put(key, sliced(100))
    shelf.put("c", sliced(1000))
    assert [key for key in "abc" if shelf.get(key) is not None] == ["a", "c"]


def test_putting_a_thing_again_takes_no_more_room() -> None:
    shelf = LaneCache(capacity=2 * sliced(100).size)
    for _ in range(5):
        shelf.put("a", sliced(100))
    shelf.put("b", sliced(100))
    assert shelf.get("a") is not None


@pytest.mark.usefixtures("large")
def test_a_large_trace_says_what_has_to_be_read() -> None:
    rows = TimelineRows(merge_file_frames("job", [part("one")]))
    for ask, wish in (
        (lambda: rows.row(0, 0), RowsRequest("lane", 0)),
        (lambda: rows.locate_event(0), RowsRequest("lane", 0)),
        (lambda: rows.event_id(1, 0, 0), RowsRequest("lane", 1)),
        (lambda: rows.busy_time(0, 0, 9), RowsRequest("rank", 0)),
    ):
        with pytest.raises(RowsNotReadError) as error:
            ask()
        assert error.value.request == wish
        assert not rows.is_read(wish)
    assert rows.order(1, 0, 10) == ()


@pytest.mark.usefixtures("large")
def test_rows_read_in_the_background_are_those_of_a_small_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = merge_file_frames("job", [part("one"), part("two", at=7)])
    wishes = [
        *(RowsRequest("lane", lane) for lane in trace.lanes["lane"]),
        RowsRequest("rank", 0),
        RowsRequest("rank", 1),
    ]
    read = served(TimelineRows(trace), *wishes)
    monkeypatch.setattr("tracehound.draw.lane_cache.FEW_EVENTS", 1000)
    small = TimelineRows(trace)
    for lane in trace.lanes["lane"]:
        for one, other in zip(read.lane(lane).rows, small.lane(lane).rows, strict=True):
            assert np.array_equal(one.start, other.start)
            assert np.array_equal(one.name, other.name)
            words = [read.lane(lane).names.name_of_code(code) for code in one.name.tolist()]
            assert words == [small.lane(lane).names.name_of_code(code) for code in other.name.tolist()]
    for event in trace.events().collect()["id"]:
        slot = read.locate_event(event)
        assert slot == small.locate_event(event)
        assert read.event_id(*slot) == small.event_id(*slot) == event
    for rank in (0, 1):
        assert np.array_equal(read.busy_row(rank).start, small.busy_row(rank).start)
        assert read.busy_time(rank, 0, 30 * US) == small.busy_time(rank, 0, 30 * US) > 0


@pytest.mark.usefixtures("large")
def test_rows_stay_while_the_trace_grows_and_its_times_stay() -> None:
    first, later, earlier = part("b"), part("c", at=5), part("a", at=-5)
    shelf = LaneCache()
    wishes = (RowsRequest("lane", 0), RowsRequest("lane", 1), RowsRequest("rank", 0))
    before = served(TimelineRows(merge_file_frames("job", [first]), shelf), *wishes)
    grown = TimelineRows(merge_file_frames("job", [first, later]), shelf)
    assert all(map(grown.is_read, wishes))
    assert not grown.is_read(RowsRequest("lane", 1 << 32))
    assert grown.lane(0) is before.lane(0)

    moved = TimelineRows(merge_file_frames("job", [earlier, first]), shelf)
    assert not moved.is_read(RowsRequest("lane", 1 << 32)), "its times are others now"
    renumbered = TimelineRows(merge_file_frames("job", [later, first]), shelf)
    assert renumbered.lane((1 << 32) + 1) is before.lane(1), "the same part at another place"
    assert renumbered.event_id((1 << 32) + 1, 0, 2) == (1 << 32) + 4
