"""Hidden, pinned, moved, filtered and regrouped lanes."""

from __future__ import annotations

import json

import pytest

from building import Building, Lane, stream, thread
from tracehound.draw.lane_cache import TimelineRows
from tracehound.draw.lane_layout import PINNED_GROUP, LaneLayout, Viewport, arrange_groups, parse_lane_layout
from tracehound.draw.timeline_outline import LaneGroup, TimelineOutline, build_lane_groups


def base(ranks: tuple[int, ...] | None = None) -> tuple[LaneGroup, ...]:
    b = Building()
    for rank in (0, 1):
        for number in (7, 20):
            b.event(stream(rank, number), "k", 0, 10)
        b.event(Lane("nccl", rank, "other"), "k", 0, 10)
    b.event(thread("python"), "op", 0, 10, "op")
    b.event(thread("loader"), "op", 0, 10, "op")
    trace = b.trace()
    return build_lane_groups(trace, ranks, lambda lane: TimelineRows(trace).order(lane, *trace.span))


BASE = base()


def shape(seats: LaneLayout) -> list[str]:
    return [
        f"{group.title[0]}: {', '.join(track.name for track in group.entries)}" for group in arrange_groups(BASE, seats)
    ]


USUAL = ["rank 0: stream 7, stream 20, nccl", "rank 1: stream 7, stream 20, nccl", "host: python, loader"]


def test_as_usual() -> None:
    assert shape(LaneLayout()) == USUAL


def test_keys_name_lanes_whatever_is_read() -> None:
    assert [track.key for group in BASE for track in group.entries][:2] == ["rank 0/stream 7", "rank 0/stream 20"]
    assert [group.key for group in base((1,))] == ["rank 1", "host 0"]
    assert base((1,))[0].entries[0].key == "rank 1/stream 7"


def test_a_hidden_lane_is_told_of() -> None:
    seats = LaneLayout().hide("rank 0/stream 7")
    assert shape(seats)[0] == "rank 0: stream 20, nccl"
    assert arrange_groups(BASE, seats)[0].title[-1] == "1 hidden"
    assert arrange_groups(BASE, seats, "X")[0].title[-1] == "1 hidden (X shows)"
    assert shape(seats.show_all()) == USUAL


def test_a_group_without_lanes_in_sight_keeps_its_header_and_is_not_taken_for_unread() -> None:
    seats = LaneLayout().hide("host 0/python").hide("host 0/loader")
    host = arrange_groups(BASE, seats)[2]
    assert (host.entries, host.title[-1], host.is_unread) == ((), "2 hidden", False)
    assert LaneGroup("rank 9", ("rank 9",), ()).is_unread


def test_pinned_lanes_are_the_first_and_named_by_their_ranks() -> None:
    seats = LaneLayout().toggle_pin("rank 1/nccl").toggle_pin("host 0/python")
    assert shape(seats)[0] == "pinned: rank 1 nccl, host 0 python"
    assert shape(seats)[2] == "rank 1: stream 7, stream 20"
    assert shape(LaneLayout().toggle_pin("rank 1/nccl"))[0] == "pinned: rank 1 nccl"
    assert shape(seats.toggle_pin("rank 1/nccl").toggle_pin("host 0/python")) == USUAL
    assert shape(LaneLayout().toggle_pin("rank 7/gone")) == USUAL
    assert shape(seats.hide("rank 1/nccl"))[0] == "pinned: host 0 python"


def test_lanes_move_within_their_group() -> None:
    seats = LaneLayout().move(BASE, "rank 0/stream 7", 1)
    assert shape(seats)[:2] == ["rank 0: stream 20, stream 7, nccl", USUAL[1]]
    assert shape(seats.move(arrange_groups(BASE, seats), "rank 0/stream 7", -1)) == USUAL
    assert LaneLayout().move(BASE, "rank 0/stream 7", -1) == LaneLayout()
    assert LaneLayout().move(BASE, "host 0/loader", 1) == LaneLayout()
    assert LaneLayout().move(BASE, "gone", 1) == LaneLayout()


def test_pinned_lanes_move_among_themselves() -> None:
    seats = LaneLayout().toggle_pin("rank 1/nccl").toggle_pin("host 0/python")
    assert seats.move(arrange_groups(BASE, seats), "host 0/python", -1).pinned == ("host 0/python", "rank 1/nccl")


def test_what_was_not_there_when_lanes_were_moved_follows_them() -> None:
    assert shape(LaneLayout(order={"rank 0": ("rank 0/nccl",)}))[0] == "rank 0: nccl, stream 7, stream 20"


@pytest.mark.parametrize(
    ("needle", "expected"),
    [
        ("STREAM 7", ["rank 0: stream 7", "rank 1: stream 7"]),
        ("rank 1/", ["rank 1: stream 7, stream 20, nccl"]),
        ("/^nccl|load/", ["rank 0: nccl", "rank 1: nccl", "host: loader"]),
        ("/[/", []),
        ("", USUAL),
    ],
)
def test_a_filter(needle: str, expected: list[str]) -> None:
    assert shape(LaneLayout(needle=needle)) == expected


def test_the_same_stream_of_all_ranks_together() -> None:
    seats = LaneLayout().switch_grouping()
    assert shape(seats) == ["stream 7: rank 0, rank 1", "stream 20: rank 0, rank 1", "nccl: rank 0, rank 1", USUAL[2]]
    assert arrange_groups(BASE, seats)[0].title == ("stream 7", "2 ranks")
    assert shape(seats.switch_grouping()) == USUAL
    assert shape(seats.hide("rank 1/nccl"))[2] == "nccl: rank 0"
    moved = seats.move(arrange_groups(BASE, seats), "rank 1/stream 7", -1)
    assert shape(moved)[0] == "stream 7: rank 1, rank 0"


def test_plain_values_come_back() -> None:
    seats = LaneLayout(frozenset({"a", "b"}), ("c",), {"rank 0": ("d", "e")}, "f", "lane")
    assert parse_lane_layout(json.loads(json.dumps(seats.to_plain_values()))) == seats
    assert LaneLayout().to_plain_values() == {}
    assert parse_lane_layout({}) == LaneLayout()


@pytest.mark.parametrize("plain", [{"hidden": 3, "pinned": [1, None], "order": [], "needle": [], "grouping": {}}])
def test_strange_values_are_as_usual(plain: dict[str, object]) -> None:
    assert parse_lane_layout(plain) == LaneLayout()


def test_what_is_pinned_stays_in_sight() -> None:
    sheet = TimelineOutline().with_groups(arrange_groups(BASE, LaneLayout().toggle_pin("rank 1/nccl"))).fitted_to(6)
    sight = Viewport(sheet, 3, 6, 2, PINNED_GROUP)
    assert [line.entry.name if line.entry else line.group.title[0] for line in sight.lines] == [
        "pinned", "rank 1 nccl", "nccl", "rank 1", "stream 7", "stream 20",
    ]  # fmt: skip
    assert [sight.outline_index(at) for at in range(4)] == [0, 1, 5, 6]
    assert [y for y, _ in sight.numbered_lines] == [2, 3, 4, 5, 6, 7]
    assert sight.scrolling_lines == sight.lines[2:]


def test_scrolling_keeps_a_lane_below_what_stays() -> None:
    sheet = TimelineOutline().with_groups(arrange_groups(BASE, LaneLayout().toggle_pin("rank 1/nccl"))).fitted_to(6)
    for group in sheet.groups:
        for track in group.entries:
            for top in range(len(sheet.lines) - 5):
                shown = Viewport(
                    sheet, Viewport(sheet, top, 6, 2, PINNED_GROUP).top_to_show(track.lane, None), 6, 2, PINNED_GROUP
                )
                assert track.lane in [line.lane for line in shown.lines]
