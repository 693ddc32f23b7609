"""What of an outline is on the screen."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from building import Building, stream, thread
from tracehound.draw.outline import Outline, groups
from tracehound.draw.shelf import Wish
from tracehound.draw.sight import Sight
from tracehound.store import place
from tracehound.trace import EVENTS, LANES, Part, Trace


def part(name: str) -> Part:
    b = Building(path=Path(f"{name}.json"))
    b.event(stream(), "k", 0, 10)
    b.event(thread(), "op", 0, 10, "op")
    return b.part()


def blank(name: str) -> Part:
    whole = part(name)
    return replace(whole, scan=EVENTS.to_frame().lazy(), lanes=LANES.to_frame(), wall_ns=None)


def outline(trace: Trace, unread: frozenset[int] = frozenset()) -> Outline:
    return Outline().of(groups(trace, None, lambda _: (), unread)).laid(0)


def test_lanes_are_read_before_ranks_are_added_up_and_nothing_out_of_sight() -> None:
    sheet = outline(place("job", [part("a"), part("b")]))
    assert [line.group.title[0] for line in sheet.lines if line.track is None] == ["rank 0", "host", "rank 1", "host"]
    assert Sight(sheet, 0, 3).wishes == [Wish("lane", 1), Wish("rank", 0)]
    assert Sight(sheet, 0, 5).wishes == [Wish("lane", 1), Wish("lane", 0), Wish("rank", 0), Wish("rank", 1)]
    assert Sight(sheet, 5, 1).wishes == [Wish("lane", (1 << 32) + 1), Wish("rank", 1)], (
        "the first line shows its header"
    )


def test_ranks_that_are_not_read_stand_in_their_place() -> None:
    trace = place("job", [part("a"), blank("b"), part("c")])
    sheet = outline(trace, frozenset({1}))
    shape = [(line.group.title[0], line.track is None) for line in sheet.lines]
    assert shape == [
        ("rank 0", True), ("rank 0", False), ("host", True), ("host", False),
        ("rank 1", True),
        ("rank 2", True), ("rank 2", False), ("host", True), ("host", False),
    ]  # fmt: skip
    assert Sight(sheet, 0, 4).unread == frozenset()
    assert Sight(sheet, 0, 5).unread == {1}
    assert Wish("rank", 1) not in Sight(sheet, 0, 9).wishes
    assert len(sheet.stops()) == 4, "a cursor has nothing to be on there"


def test_scrolling_shows_a_lane_and_a_line_above_it() -> None:
    sheet = outline(place("job", [part("a"), part("b")]))
    assert Sight(sheet, 0, 3).showing(1, None) == 0
    assert Sight(sheet, 0, 3).showing(1 << 32, None) == 5
    assert Sight(sheet, 5, 3).showing(1, None) == 0
    assert Sight(sheet, 2, 3).showing(99, None) == 2
