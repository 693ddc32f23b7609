"""Moves through a trace, alone: a view in, a view out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import US, Building, stream, thread
from tracehound.draw.lane_cache import TimelineRows
from tracehound.ui.state import view_moves
from tracehound.ui.state.view import View


def built() -> TimelineRows:
    b = Building()
    b.event(thread(), "outer", 0, 1000, "op")
    b.event(thread(), "inner", 100, 400, "op")
    b.event(thread(), "leaf", 150, 250, "runtime")
    b.event(thread("other"), "task", 0, 900, "op")
    b.event(stream(0), "k1", 100, 200)
    b.event(stream(0), "k2", 201, 400)
    b.event(stream(0), "k3", 600, 1000)
    b.event(stream(1), "k4", 0, 500)
    b.event(stream(1), "k5", 900, 1000)
    return TimelineRows(b.trace())


ROWS = built()
TRACE = ROWS.trace
WHOLE = view_moves.show_whole_run(TRACE, View())


def lane(name: str, rank: int | None = None) -> int:
    for row in TRACE.lanes.iter_rows(named=True):
        if row["name"] == name and row["rank"] == rank:
            return int(row["lane"])
    raise KeyError(name)


def event(name: str) -> int:
    return int(TRACE.events().collect().filter(name=name)["id"][0])


def name(view: View) -> str | None:
    return None if view.event is None else str(TRACE.event(view.event)["name"])


def shown(view: View) -> tuple[float, float]:
    return (view.start / US, view.end / US)


STOPS = [(lane("stream 7", 0), 1), (lane("stream 7", 1), 1), (lane("python"), 3), (lane("other"), 1)]


def test_fit() -> None:
    assert shown(WHOLE) == (0, 1000)


def test_zoom_keeps_the_focus_in_place() -> None:
    assert shown(view_moves.zoom_view(TRACE, WHOLE, (1, 2))) == (250, 750)
    assert shown(view_moves.zoom_view(TRACE, replace(WHOLE, focus=100 * US), (1, 2))) == (50, 550)
    assert shown(view_moves.zoom_view(TRACE, WHOLE, (1, 2), at=1000 * US)) == (500, 1000)


def test_zoom_stops_at_the_run_and_at_a_nanosecond() -> None:
    assert view_moves.zoom_view(TRACE, WHOLE, (2, 1)) == WHOLE
    close = WHOLE
    for _ in range(60):
        close = view_moves.zoom_view(TRACE, close, (1, 2))
    assert close.end - close.start == view_moves.SHORTEST_VIEW


def test_pan_stops_at_the_ends() -> None:
    half = WHOLE.with_bounds(0, 500 * US)
    assert view_moves.pan_view(TRACE, half, (-1, 4)) == half
    assert shown(view_moves.pan_view(TRACE, half, (1, 4))) == (125, 625)
    assert shown(view_moves.pan_view(TRACE, half, (3, 1))) == (500, 1000)


@given(st.lists(st.sampled_from(["in", "out", "left", "right"]), max_size=30), st.integers(0, 1000 * US))
def test_no_move_leaves_the_run(moves: list[str], focus: int) -> None:
    view = replace(WHOLE, focus=focus)
    for move in moves:
        if move in ("in", "out"):
            view = view_moves.zoom_view(TRACE, view, (1, 2) if move == "in" else (2, 1))
        else:
            view = view_moves.pan_view(TRACE, view, (1 if move == "right" else -1, 4))
        assert 0 <= view.start < view.end <= 1000 * US
        assert view.end - view.start >= view_moves.SHORTEST_VIEW


def test_jumping_to_an_event_brings_it_into_sight() -> None:
    near = view_moves.go_to_event(TRACE, WHOLE, event("k2"))
    assert shown(near) == (0, 1000)
    assert (near.event, near.lane, near.focus) == (event("k2"), lane("stream 7", 0), 300 * US + US // 2)
    away = view_moves.go_to_event(TRACE, WHOLE.with_bounds(0, 300 * US), event("k5"))
    assert shown(away) == (700, 1000)
    far = view_moves.go_to_event(TRACE, WHOLE.with_bounds(700 * US, 710 * US), event("k1"))
    assert shown(far) == (0, 800)


def test_walking_along_a_lane() -> None:
    view = replace(WHOLE, lane=lane("stream 7", 0))
    seen = []
    for _ in range(3):
        view = view_moves.go_to_next_event(ROWS, view, -1)
        seen.append(name(view))
    assert seen == ["k2", "k1", "k1"]
    assert name(view_moves.go_to_next_event(ROWS, view, 1)) == "k2"
    assert name(view_moves.go_to_next_event(ROWS, replace(WHOLE, lane=lane("stream 7", 0)), 1)) == "k3"


def test_walking_stays_on_the_row() -> None:
    view = view_moves.select_event(TRACE, WHOLE, event("leaf"))
    assert view_moves.go_to_next_event(ROWS, view, 1) == view


def test_walking_without_a_lane_leads_nowhere() -> None:
    assert view_moves.go_to_next_event(ROWS, WHOLE, 1) == WHOLE


def test_down_goes_inside_then_to_the_next_lane_and_up_comes_back() -> None:
    view = replace(WHOLE, lane=lane("stream 7", 1), focus=200 * US)
    seen = []
    for _ in range(5):
        view = view_moves.move_vertically(ROWS, view, STOPS, 1)
        seen.append(name(view))
    assert seen == ["outer", "inner", "leaf", "task", "task"]
    for _ in range(4):
        view = view_moves.move_vertically(ROWS, view, STOPS, -1)
        seen.append(name(view))
    assert seen[5:] == ["leaf", "inner", "outer", "k4"]
    assert view.focus == 200 * US


def test_without_a_focus_only_the_lane_moves() -> None:
    view = view_moves.move_vertically(ROWS, WHOLE, STOPS, 1)
    assert (view.lane, view.event) == (STOPS[0][0], None)
    assert view_moves.move_lanes(ROWS, view, STOPS, 99).lane == STOPS[-1][0]


def test_enter_picks_what_is_at_the_focus_or_nearest() -> None:
    on_stream = replace(WHOLE, lane=lane("stream 7", 1))
    assert name(view_moves.select_at_focus(ROWS, replace(on_stream, focus=300 * US))) == "k4"
    assert name(view_moves.select_at_focus(ROWS, replace(on_stream, focus=800 * US))) == "k5"
    assert view_moves.select_at_focus(ROWS, WHOLE) == WHOLE


def test_a_click_takes_what_has_most_of_the_cell() -> None:
    on = lane("stream 7", 0)
    assert name(view_moves.select_at_point(ROWS, WHOLE, on, 0, (190 * US, 230 * US))) == "k2"
    nothing = view_moves.select_at_point(ROWS, WHOLE, on, 0, (450 * US, 460 * US))
    assert (nothing.event, nothing.lane, nothing.focus) == (None, on, 455 * US)


def test_gaps_of_the_rank_under_the_cursor() -> None:
    """The gap of 1 us after k1 is too small to be seen, so walking passes it."""
    view = view_moves.select_next_gap(ROWS, replace(WHOLE, lane=lane("stream 7", 0), focus=0), 1)
    assert view.selection == (400 * US, 600 * US)
    assert view_moves.select_next_gap(ROWS, view, 1) == view
    assert view_moves.select_next_gap(ROWS, view, -1) == view
    close = replace(view.with_bounds(150 * US, 240 * US), selection=None)
    assert view_moves.select_next_gap(ROWS, replace(close, focus=160 * US), 1).selection == (200 * US, 201 * US)


def test_gaps_of_a_host_thread_are_those_of_its_first_rank() -> None:
    assert view_moves.rank_of_view(TRACE, replace(WHOLE, lane=lane("python"))) == 0
    assert view_moves.rank_of_view(TRACE, replace(WHOLE, lane=lane("stream 7", 1))) == 1
    assert view_moves.rank_of_view(TRACE, replace(WHOLE, ranks=(1,))) == 1


def test_a_gap_out_of_sight_is_brought_into_sight() -> None:
    view = replace(WHOLE.with_bounds(0, 100 * US), lane=lane("stream 7", 1))
    gap = view_moves.select_next_gap(ROWS, view, 1)
    assert gap.selection == (500 * US, 900 * US)
    assert gap.start <= 500 * US < 900 * US <= gap.end


def test_zooming_to_what_is_selected() -> None:
    chosen = view_moves.zoom_to_selection(ROWS, view_moves.select_event(TRACE, WHOLE, event("inner")))
    assert shown(chosen) == (75, 425)
    ranged = view_moves.zoom_to_selection(ROWS, view_moves.select_range(WHOLE, 240 * US, 120 * US))
    assert shown(ranged) == (110, 250)
    assert view_moves.zoom_to_selection(ROWS, WHOLE) == WHOLE


def test_clear() -> None:
    view = view_moves.select_range(view_moves.select_event(TRACE, WHOLE, event("k1")), 0, 5)
    assert view_moves.clear_selection(view) == replace(WHOLE, lane=lane("stream 7", 0))


def test_a_range_is_never_empty() -> None:
    assert view_moves.select_range(WHOLE, 7, 7).selection == (7, 8)


@pytest.mark.parametrize("direction", [1, -1])
def test_an_empty_trace(direction: int) -> None:
    rows = TimelineRows(Building().trace())
    view = view_moves.show_whole_run(rows.trace, View())
    assert view_moves.select_next_gap(rows, view, direction) == view
    assert view_moves.move_lanes(rows, view, [], direction) == view
    assert view_moves.pan_view(rows.trace, view, (direction, 1)) == view
