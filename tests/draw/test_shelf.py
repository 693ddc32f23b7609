"""When rows are made, and which stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from building import US, Building, stream, thread
from tracehound.draw.rows import NO_WORDS, Row, Slices
from tracehound.draw.shelf import NotReadError, Rows, Shelf, Wish
from tracehound.store import place
from tracehound.trace import Part


def sliced(count: int) -> Slices:
    times = np.arange(count, dtype=np.int64)
    row = Row(2 * times, 2 * times + 1, np.zeros(count, np.uint8), np.zeros(count, np.uint32))
    return Slices((row,), NO_WORDS)


def part(name: str, at: int = 0) -> Part:
    b = Building(path=Path(f"{name}.json"), wall_ns=1_000_000_000 + at * 1000)
    for number in range(5):
        b.event(stream(), f"k{number}", 10 * number, 10 * number + 4)
    b.event(thread(), "outer", 0, 50, "op")
    b.event(thread(), "inner", 5, 20, "op")
    return b.part()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trace counts as one that is not read at once."""
    monkeypatch.setattr("tracehound.draw.shelf.FEW_EVENTS", 0)


def served(rows: Rows, *wishes: Wish) -> Rows:
    for wish in wishes:
        rows.put(wish, rows.make(wish))
    return rows


def test_what_was_not_asked_for_longest_goes_first() -> None:
    shelf = Shelf(room=3 * sliced(100).size)
    for key in "abc":
        shelf.put(key, sliced(100))
    assert shelf.take("a") is not None
    shelf.put("d", sliced(100))
    assert [key for key in "abcd" if shelf.take(key) is not None] == ["a", "c", "d"]


def test_what_is_in_sight_stays_and_what_is_too_large_for_the_shelf_is_kept_alone() -> None:
    shelf = Shelf(room=2 * sliced(100).size, needed=frozenset("a"))
    for key in "ab":
        shelf.put(key, sliced(100))
    shelf.put("c", sliced(1000))
    assert [key for key in "abc" if shelf.take(key) is not None] == ["a", "c"]


def test_putting_a_thing_again_takes_no_more_room() -> None:
    shelf = Shelf(room=2 * sliced(100).size)
    for _ in range(5):
        shelf.put("a", sliced(100))
    shelf.put("b", sliced(100))
    assert shelf.take("a") is not None


@pytest.mark.usefixtures("large")
def test_a_large_trace_says_what_has_to_be_read() -> None:
    rows = Rows(place("job", [part("one")]))
    for ask, wish in (
        (lambda: rows.row(0, 0), Wish("lane", 0)),
        (lambda: rows.slice_of(0), Wish("lane", 0)),
        (lambda: rows.event(1, 0, 0), Wish("lane", 1)),
        (lambda: rows.busy_time(0, 0, 9), Wish("rank", 0)),
    ):
        with pytest.raises(NotReadError) as error:
            ask()
        assert error.value.wish == wish
        assert not rows.here(wish)
    assert rows.order(1, 0, 10) == ()


@pytest.mark.usefixtures("large")
def test_rows_read_in_the_background_are_those_of_a_small_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = place("job", [part("one"), part("two", at=7)])
    wishes = [*(Wish("lane", lane) for lane in trace.lanes["lane"]), Wish("rank", 0), Wish("rank", 1)]
    read = served(Rows(trace), *wishes)
    monkeypatch.setattr("tracehound.draw.shelf.FEW_EVENTS", 1000)
    small = Rows(trace)
    for lane in trace.lanes["lane"]:
        for one, other in zip(read.lane(lane).rows, small.lane(lane).rows, strict=True):
            assert np.array_equal(one.start, other.start)
            assert np.array_equal(one.name, other.name)
            words = [read.lane(lane).names.word(code) for code in one.name.tolist()]
            assert words == [small.lane(lane).names.word(code) for code in other.name.tolist()]
    for event in trace.events().collect()["id"]:
        slot = read.slice_of(event)
        assert slot == small.slice_of(event)
        assert read.event(*slot) == small.event(*slot) == event
    for rank in (0, 1):
        assert np.array_equal(read.busy(rank).start, small.busy(rank).start)
        assert read.busy_time(rank, 0, 30 * US) == small.busy_time(rank, 0, 30 * US) > 0


@pytest.mark.usefixtures("large")
def test_rows_stay_while_the_trace_grows_and_its_times_stay() -> None:
    first, later, earlier = part("b"), part("c", at=5), part("a", at=-5)
    shelf = Shelf()
    wishes = (Wish("lane", 0), Wish("lane", 1), Wish("rank", 0))
    before = served(Rows(place("job", [first]), shelf), *wishes)
    grown = Rows(place("job", [first, later]), shelf)
    assert all(map(grown.here, wishes))
    assert not grown.here(Wish("lane", 1 << 32))
    assert grown.lane(0) is before.lane(0)

    moved = Rows(place("job", [earlier, first]), shelf)
    assert not moved.here(Wish("lane", 1 << 32)), "its times are others now"
    renumbered = Rows(place("job", [later, first]), shelf)
    assert renumbered.lane((1 << 32) + 1) is before.lane(1), "the same part at another place"
    assert renumbered.event((1 << 32) + 1, 0, 2) == (1 << 32) + 4
