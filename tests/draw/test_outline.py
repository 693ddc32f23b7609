"""Which lines a timeline has."""

from __future__ import annotations

from building import Building, stream, thread
from tracehound.draw.outline import Outline, groups
from tracehound.trace import Trace


def trace() -> Trace:
    b = Building()
    b.event(stream(0), "k", 0, 10)
    b.event(stream(1), "k", 0, 10)
    for depth in range(12):
        b.event(thread("deep"), f"f{depth}", depth, 100 - depth, "python")
    b.event(thread("flat"), "op", 0, 10, "op")
    return b.trace()


def outline(most: int = 3, deepest: tuple[int, int] | None = None, sheet: Outline | None = None) -> Outline:
    return (sheet or Outline()).laid(groups(trace(), None), most, deepest)


def shape(sheet: Outline) -> list[str]:
    return [
        line.track.name + (f"+{line.hidden}" if line.hidden else "") if line.track else line.group.title[0]
        for line in sheet.lines
    ]


def lane(name: str) -> int:
    lanes = trace().lanes
    return dict(zip(lanes["name"].to_list(), lanes["lane"].to_list(), strict=True))[name]


def test_ranks_then_their_host_and_deep_lanes_cut() -> None:
    assert shape(outline()) == [
        "rank 0", "stream 7", "rank 1", "stream 7", "host", "deep", "deep", "deep+9", "flat",
    ]  # fmt: skip


def test_only_the_ranks_asked_for() -> None:
    assert [group.title[0] for group in groups(trace(), (1,))] == ["rank 1", "host"]


def test_what_is_selected_deep_down_is_shown() -> None:
    assert shape(outline(deepest=(lane("deep"), 4)))[5:] == ["deep", "deep", "deep", "deep", "deep+7", "flat"]


def test_expanding_a_lane_and_back() -> None:
    expanded = Outline().expand(lane("deep"))
    assert shape(outline(sheet=expanded)).count("deep") == 12
    assert shape(outline(sheet=expanded.expand(lane("deep")))) == shape(outline())


def test_a_folded_group_is_one_line_and_one_stop() -> None:
    host = outline().groups[2].key
    folded = outline(sheet=Outline().fold(host))
    assert shape(folded) == ["rank 0", "stream 7", "rank 1", "stream 7", "host"]
    assert [rows for _, rows in folded.stops()] == [1, 1, 1]
    assert folded.places(lane("flat"), None) == [4]


def test_where_a_lane_is() -> None:
    assert outline().places(lane("deep"), None) == [5, 6, 7]
    assert outline().places(lane("deep"), 1) == [6]
