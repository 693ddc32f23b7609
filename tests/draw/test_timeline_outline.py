"""Which lines a timeline has."""

from __future__ import annotations

from building import Building, Lane, stream, thread
from tracehound.draw.lane_cache import TimelineRows
from tracehound.draw.timeline_outline import TimelineOutline, build_lane_groups
from tracehound.model.trace import Trace


def trace() -> Trace:
    b = Building()
    b.event(stream(0), "k", 0, 10)
    b.event(stream(1), "k", 0, 10)
    for depth in range(12):
        b.event(thread("deep"), f"f{depth}", depth, 100 - depth, "python")
    b.event(thread("deep"), "late", 95.2, 95.4, "python")
    b.event(thread("flat"), "op", 0, 10, "op")
    return b.trace()


def outline(
    room: int = 0, deepest: tuple[int, int] | None = None, sheet: TimelineOutline | None = None
) -> TimelineOutline:
    built = trace()
    laid = (
        (sheet or TimelineOutline())
        .with_groups(build_lane_groups(built, None, lambda lane: TimelineRows(built).order(lane, *built.span)))
        .fitted_to(room)
    )
    return laid if deepest is None else laid.with_row_shown(*deepest)


def shape(sheet: TimelineOutline) -> list[str]:
    return [
        f"{line.entry.name}{line.depth}" + (f"+{line.hidden}" if line.hidden else "")
        if line.entry
        else line.group.title[0]
        for line in sheet.lines
    ]


def lane(name: str) -> int:
    lanes = trace().lanes
    return dict(zip(lanes["name"].to_list(), lanes["lane"].to_list(), strict=True))[name]


SHORT = ["rank 0", "stream 70", "rank 1", "stream 70", "host", "deep5", "deep6", "deep7", "deep8+8", "flat0"]


def test_ranks_then_their_host_and_deep_lanes_cut() -> None:
    """Of the deep lane the five outermost rows, of one event each, are left out first."""
    assert shape(outline()) == SHORT


def test_a_higher_screen_shows_more_rows() -> None:
    assert shape(outline(room=11))[5:] == ["deep5", "deep6", "deep7", "deep8", "deep9+7", "flat0"]
    assert shape(outline(room=18)) == [*SHORT[:5], *(f"deep{depth}" for depth in range(12)), "flat0"]


def test_only_the_ranks_asked_for() -> None:
    assert [group.title[0] for group in build_lane_groups(trace(), (1,), lambda _: ())] == ["rank 1", "host"]


def test_what_is_selected_is_shown_wherever_it_is() -> None:
    assert shape(outline(deepest=(lane("deep"), 10)))[5:] == [*(f"deep{d}" for d in range(5, 10)), "deep10+6", "flat0"]
    assert shape(outline(deepest=(lane("deep"), 3)))[5:] == [*(f"deep{d}" for d in range(3, 8)), "deep8+6", "flat0"]


def test_rows_in_an_order_of_their_own() -> None:
    """Those that come last have no line, wherever they are, and none of them comes with what is selected."""
    order = (5, 6, 7, 8, 9, 3, 2, 1, 0, 4, 10, 11)
    sheet = outline().with_row_order(lambda _: order, {lane("deep")})
    assert shape(sheet)[5:] == ["deep5", "deep6", "deep7", "deep8+8", "flat0"]
    late = outline().with_row_order(lambda _: (6, 9, *(set(order) - {6, 9})), {lane("deep")})
    assert shape(late)[5:] == ["deep0", "deep1", "deep6", "deep9+8", "flat0"]
    assert shape(sheet.with_row_shown(lane("deep"), 2))[5:7] == ["deep2", "deep3"]
    assert "deep4" not in shape(sheet.with_row_shown(lane("deep"), 2))
    assert len(late.lines) == len(sheet.lines)
    assert sheet.with_row_order(lambda _: order, {lane("deep")}) is sheet
    assert sheet.with_row_order(lambda _: (), {lane("deep")}) is sheet


def test_what_was_selected_is_left_out_again() -> None:
    assert shape(outline(deepest=(lane("deep"), 10)).with_usual_lines()) == SHORT
    assert shape(outline(deepest=(lane("deep"), 6))) == SHORT


def test_expanding_a_lane_and_back() -> None:
    expanded = TimelineOutline().toggle_expansion(lane("deep"))
    assert [name for name in shape(outline(sheet=expanded)) if "deep" in name] == [f"deep{d}" for d in range(12)]
    assert shape(outline(sheet=expanded.toggle_expansion(lane("deep")))) == SHORT


def test_a_folded_group_is_one_line_and_one_stop() -> None:
    host = outline().groups[2].key
    folded = outline(sheet=TimelineOutline().toggle_fold(host))
    assert shape(folded) == SHORT[:5]
    assert [rows for _, rows in folded.cursor_stops()] == [1, 1, 1]
    assert folded.lines_of_lane(lane("flat"), None) == [4]


def test_where_a_lane_is() -> None:
    assert outline().lines_of_lane(lane("deep"), None) == [5, 6, 7, 8]
    assert outline().lines_of_lane(lane("deep"), 6) == [6]
    assert [line.first for line in outline().lines[5:9]] == [True, False, False, False]


def test_a_lane_does_not_repeat_the_device_of_the_title() -> None:
    b = Building()
    for name in ("GPU 0 Utilization", "GPU 01", "stream 7"):
        b.event(Lane(name, 0, "stream", work=True), "work", 0, 10)
    (group,) = build_lane_groups(b.trace(), None, lambda _: ())
    assert [track.name for track in group.entries] == ["Utilization", "GPU 01", "stream 7"]
    assert group.entries[0].key == "rank 0/GPU 0 Utilization", "it is found by its whole name, too"
