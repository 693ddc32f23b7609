"""What of an outline is on the screen."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from building import Building, stream, thread
from tracehound.draw.lane_cache import RowsRequest
from tracehound.draw.lane_layout import Viewport
from tracehound.draw.timeline_outline import TimelineOutline, build_lane_groups
from tracehound.model.trace import EVENTS, LANES, FileFrames, Trace
from tracehound.store import merge_file_frames


def part(name: str) -> FileFrames:
    b = Building(path=Path(f"{name}.json"))
    b.event(stream(), "k", 0, 10)
    b.event(thread(), "op", 0, 10, "op")
    return b.part()


def blank(name: str) -> FileFrames:
    whole = part(name)
    return replace(whole, make_scan=EVENTS.to_frame().lazy, wall_ns=None).with_frames(lanes=LANES.to_frame())


def outline(trace: Trace, unread: frozenset[int] = frozenset()) -> TimelineOutline:
    return TimelineOutline().with_groups(build_lane_groups(trace, None, lambda _: (), unread)).fitted_to(0)


def test_lanes_are_read_before_ranks_are_added_up_and_nothing_out_of_sight() -> None:
    sheet = outline(merge_file_frames("job", [part("a"), part("b")]))
    assert [line.group.title[0] for line in sheet.lines if line.entry is None] == ["rank 0", "host", "rank 1", "host"]
    assert Viewport(sheet, 0, 3).requests == [RowsRequest("lane", 1), RowsRequest("rank", 0)]
    assert Viewport(sheet, 0, 5).requests == [
        RowsRequest("lane", 1),
        RowsRequest("lane", 0),
        RowsRequest("rank", 0),
        RowsRequest("rank", 1),
    ]
    assert Viewport(sheet, 5, 1).requests == [RowsRequest("lane", (1 << 32) + 1), RowsRequest("rank", 1)], (
        "the first line shows its header"
    )


def test_ranks_that_are_not_read_stand_in_their_place() -> None:
    trace = merge_file_frames("job", [part("a"), blank("b"), part("c")])
    sheet = outline(trace, frozenset({1}))
    shape = [(line.group.title[0], line.entry is None) for line in sheet.lines]
    assert shape == [
        ("rank 0", True), ("rank 0", False), ("host", True), ("host", False),
        ("rank 1", True),
        ("rank 2", True), ("rank 2", False), ("host", True), ("host", False),
    ]  # fmt: skip
    assert Viewport(sheet, 0, 4).unread_files == frozenset()
    assert Viewport(sheet, 0, 5).unread_files == {1}
    assert RowsRequest("rank", 1) not in Viewport(sheet, 0, 9).requests
    assert len(sheet.cursor_stops()) == 4, "a cursor has nothing to be on there"


def test_scrolling_shows_a_lane_and_a_line_above_it() -> None:
    sheet = outline(merge_file_frames("job", [part("a"), part("b")]))
    assert Viewport(sheet, 0, 3).top_to_show(1, None) == 0
    assert Viewport(sheet, 0, 3).top_to_show(1 << 32, None) == 5
    assert Viewport(sheet, 5, 3).top_to_show(1, None) == 0
    assert Viewport(sheet, 2, 3).top_to_show(99, None) == 2
