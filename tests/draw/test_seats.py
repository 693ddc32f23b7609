"""Hidden, pinned, moved, filtered and regrouped lanes."""

from __future__ import annotations

import json

import pytest

from building import Building, Lane, stream, thread
from tracehound.draw.outline import Group, Outline, groups
from tracehound.draw.seats import PINNED, Seats, seated, seats_of
from tracehound.draw.shelf import Rows
from tracehound.draw.sight import Sight


def base(ranks: tuple[int, ...] | None = None) -> tuple[Group, ...]:
    b = Building()
    for rank in (0, 1):
        for number in (7, 20):
            b.event(stream(rank, number), "k", 0, 10)
        b.event(Lane("nccl", rank, "other"), "k", 0, 10)
    b.event(thread("python"), "op", 0, 10, "op")
    b.event(thread("loader"), "op", 0, 10, "op")
    trace = b.trace()
    return groups(trace, ranks, lambda lane: Rows(trace).order(lane, *trace.span))


BASE = base()


def shape(seats: Seats) -> list[str]:
    return [f"{group.title[0]}: {', '.join(track.name for track in group.tracks)}" for group in seated(BASE, seats)]


USUAL = ["rank 0: stream 7, stream 20, nccl", "rank 1: stream 7, stream 20, nccl", "host: python, loader"]


def test_as_usual() -> None:
    assert shape(Seats()) == USUAL


def test_keys_name_lanes_whatever_is_read() -> None:
    assert [track.key for group in BASE for track in group.tracks][:2] == ["rank 0/stream 7", "rank 0/stream 20"]
    assert [group.key for group in base((1,))] == ["rank 1", "host 0"]
    assert base((1,))[0].tracks[0].key == "rank 1/stream 7"


def test_a_hidden_lane_is_told_of() -> None:
    seats = Seats().hide("rank 0/stream 7")
    assert shape(seats)[0] == "rank 0: stream 20, nccl"
    assert seated(BASE, seats)[0].title[-1] == "1 hidden"
    assert seated(BASE, seats, "X")[0].title[-1] == "1 hidden (X shows)"
    assert shape(seats.all()) == USUAL


def test_a_group_without_lanes_in_sight_keeps_its_header_and_is_not_taken_for_unread() -> None:
    seats = Seats().hide("host 0/python").hide("host 0/loader")
    host = seated(BASE, seats)[2]
    assert (host.tracks, host.title[-1], host.unread) == ((), "2 hidden", False)
    assert Group("rank 9", ("rank 9",), ()).unread


def test_pinned_lanes_are_the_first_and_named_by_their_ranks() -> None:
    seats = Seats().pin("rank 1/nccl").pin("host 0/python")
    assert shape(seats)[0] == "pinned: rank 1 nccl, host 0 python"
    assert shape(seats)[2] == "rank 1: stream 7, stream 20"
    assert shape(Seats().pin("rank 1/nccl"))[0] == "pinned: rank 1 nccl"
    assert shape(seats.pin("rank 1/nccl").pin("host 0/python")) == USUAL
    assert shape(Seats().pin("rank 7/gone")) == USUAL
    assert shape(seats.hide("rank 1/nccl"))[0] == "pinned: host 0 python"


def test_lanes_move_within_their_group() -> None:
    seats = Seats().move(BASE, "rank 0/stream 7", 1)
    assert shape(seats)[:2] == ["rank 0: stream 20, stream 7, nccl", USUAL[1]]
    assert shape(seats.move(seated(BASE, seats), "rank 0/stream 7", -1)) == USUAL
    assert Seats().move(BASE, "rank 0/stream 7", -1) == Seats()
    assert Seats().move(BASE, "host 0/loader", 1) == Seats()
    assert Seats().move(BASE, "gone", 1) == Seats()


def test_pinned_lanes_move_among_themselves() -> None:
    seats = Seats().pin("rank 1/nccl").pin("host 0/python")
    assert seats.move(seated(BASE, seats), "host 0/python", -1).pinned == ("host 0/python", "rank 1/nccl")


def test_what_was_not_there_when_lanes_were_moved_follows_them() -> None:
    assert shape(Seats(order={"rank 0": ("rank 0/nccl",)}))[0] == "rank 0: nccl, stream 7, stream 20"


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
    assert shape(Seats(needle=needle)) == expected


def test_the_same_stream_of_all_ranks_together() -> None:
    seats = Seats().regroup()
    assert shape(seats) == ["stream 7: rank 0, rank 1", "stream 20: rank 0, rank 1", "nccl: rank 0, rank 1", USUAL[2]]
    assert seated(BASE, seats)[0].title == ("stream 7", "2 ranks")
    assert shape(seats.regroup()) == USUAL
    assert shape(seats.hide("rank 1/nccl"))[2] == "nccl: rank 0"
    moved = seats.move(seated(BASE, seats), "rank 1/stream 7", -1)
    assert shape(moved)[0] == "stream 7: rank 1, rank 0"


def test_plain_values_come_back() -> None:
    seats = Seats(frozenset({"a", "b"}), ("c",), {"rank 0": ("d", "e")}, "f", "lane")
    assert seats_of(json.loads(json.dumps(seats.plain()))) == seats
    assert Seats().plain() == {}
    assert seats_of({}) == Seats()


@pytest.mark.parametrize("plain", [{"hidden": 3, "pinned": [1, None], "order": [], "needle": [], "grouping": {}}])
def test_strange_values_are_as_usual(plain: dict[str, object]) -> None:
    assert seats_of(plain) == Seats()


def test_what_is_pinned_stays_in_sight() -> None:
    sheet = Outline().of(seated(BASE, Seats().pin("rank 1/nccl"))).laid(6)
    sight = Sight(sheet, 3, 6, 2, PINNED)
    assert [line.track.name if line.track else line.group.title[0] for line in sight.lines] == [
        "pinned", "rank 1 nccl", "nccl", "rank 1", "stream 7", "stream 20",
    ]  # fmt: skip
    assert [sight.index(at) for at in range(4)] == [0, 1, 5, 6]
    assert [y for y, _ in sight.placed] == [2, 3, 4, 5, 6, 7]
    assert sight.scrolled == sight.lines[2:]


def test_scrolling_keeps_a_lane_below_what_stays() -> None:
    sheet = Outline().of(seated(BASE, Seats().pin("rank 1/nccl"))).laid(6)
    for group in sheet.groups:
        for track in group.tracks:
            for top in range(len(sheet.lines) - 5):
                shown = Sight(sheet, Sight(sheet, top, 6, 2, PINNED).showing(track.lane, None), 6, 2, PINNED)
                assert track.lane in [line.lane for line in shown.lines]
