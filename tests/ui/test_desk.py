"""The keys that arrange lanes."""

from __future__ import annotations

import json

import pytest
from textual.pilot import Pilot

from building import Building, stream
from exploring import in_full, until
from stages import TRACE, lines, stage
from tracehound.errors import TracehoundError
from tracehound.model.units import format_duration
from tracehound.ui.state import goto_targets, view_moves
from tracehound.ui.state.view import View
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.widgets.timeline_panel import TimelinePanel


def shape(timeline: Timeline) -> list[str]:
    """Groups and lanes as they stand."""
    return [
        f"{group.title[0]}: {', '.join(track.name for track in group.entries)}" for group in timeline.outline.groups
    ]  # fmt: skip


def lane(name: str, rank: int | None = None) -> int:
    found = TRACE.lanes.filter(name=name) if rank is None else TRACE.lanes.filter(name=name, rank=rank)
    return int(found["lane"][0])


async def on(timeline: Timeline, pilot: Pilot[None], number: int) -> None:
    """Put the cursor there."""
    timeline.view = View(*TRACE.span, lane=number)
    await pilot.pause()


USUAL = ["rank 0: stream 7", "rank 1: stream 7", "host: python, stack"]


async def test_hide_and_show_all() -> None:
    async with stage() as (_, timeline, pilot):
        assert shape(timeline) == USUAL
        await on(timeline, pilot, lane("python"))
        await pilot.press("x")
        assert shape(timeline)[2] == "host: stack"
        assert any("1 hidden" in line for line in lines(timeline))
        assert timeline.view.lane == lane("stack")
        await pilot.press("x")
        assert timeline.view.lane == lane("stream 7", 1)
        assert any("2 hidden" in line and "not read" not in line for line in lines(timeline))
        await pilot.press("X")
        assert shape(timeline) == USUAL


async def test_without_a_lane_under_the_cursor_that_is_said() -> None:
    async with stage() as (app, timeline, pilot):
        timeline.view = View(*TRACE.span)
        await pilot.pause()
        for count, key in enumerate(("x", "p", "e", "<", ">"), 1):
            await pilot.press(key)
            await pilot.pause()
            assert app.refused == ["no lane under the cursor: j and k go to one"] * count, key
            assert shape(timeline) == USUAL, key


async def test_a_lane_whose_rows_are_all_shown_is_not_expanded() -> None:
    async with stage() as (app, timeline, pilot):
        await on(timeline, pilot, lane("stream 7", 1))
        await pilot.press("e")
        await pilot.pause()
        assert app.refused == ["this lane has one row"]
        assert not timeline.outline.expanded


async def test_a_pinned_lane_stays_while_the_others_scroll() -> None:
    async with stage((80, 9)) as (_, timeline, pilot):
        await on(timeline, pilot, lane("stream 7", 1))
        await pilot.press("p")
        assert shape(timeline)[0] == "pinned: rank 1 stream 7"
        before = lines(timeline)[2:4]
        assert before[0].startswith("▾ pinned")
        await pilot.press("end")
        assert timeline.scroll_offset.y > 0
        after = lines(timeline)
        assert [line[20:] for line in after[2:4]] == [line[20:] for line in before]
        assert after[4].startswith("▾ host")
        await on(timeline, pilot, lane("stream 7", 1))
        await pilot.press("p")
        assert shape(timeline) == USUAL


async def test_a_click_below_pinned_lanes_meets_the_line_that_is_there() -> None:
    async with stage((80, 10)) as (_, timeline, pilot):
        await on(timeline, pilot, lane("stream 7", 1))
        await pilot.press("p", "end")
        y, line = next(
            (y, line) for y, line in reversed(timeline._viewport.numbered_lines) if line.lane == lane("stack")
        )
        await pilot.click(Timeline, offset=(40, y))
        assert timeline.view.lane == line.lane


async def test_move_lanes() -> None:
    async with stage() as (_, timeline, pilot):
        await on(timeline, pilot, lane("python"))
        await pilot.press(">")
        assert shape(timeline)[2] == "host: stack, python"
        await pilot.press(">", "<")
        assert shape(timeline) == USUAL


async def test_the_same_stream_of_all_ranks() -> None:
    async with stage() as (_, timeline, pilot):
        await pilot.press("b")
        assert shape(timeline) == ["stream 7: rank 0, rank 1", "host: python, stack"]
        assert any(line.startswith("▾ stream 7 · 2 ranks") for line in lines(timeline))
        await on(timeline, pilot, lane("stream 7", 0))
        await pilot.press("space")
        assert [line.entry for line in timeline.outline.lines if line.group.key == "lane stream 7"] == [None]
        await pilot.press("space", "b")
        assert shape(timeline) == USUAL


async def test_filter_lanes_by_name() -> None:
    async with stage() as (app, timeline, pilot):
        prompt = app.query_one(TimelinePanel).prompt
        await pilot.press("backslash", *"STR")
        assert prompt.display
        assert shape(timeline) == ["rank 0: stream 7", "rank 1: stream 7"]
        await pilot.press("enter")
        assert not prompt.display
        assert app.focused is timeline
        assert shape(timeline) == USUAL[:2]
        corner, length = timeline._header_lines - 1, format_duration(timeline.view.end - timeline.view.start)
        assert lines(timeline)[corner].partition("│")[0].split() == ["STR"], "there is no room for the length, too"
        await pilot.resize_terminal(200, 24)
        await until(pilot, lambda: lines(timeline)[corner].startswith(f" STR · {length} "))
        await pilot.press("backslash", *"xyz", "escape")
        assert shape(timeline) == USUAL[:2]
        await pilot.press("backslash", "backspace", "enter")
        assert shape(timeline) == USUAL


async def test_a_name_that_no_lane_has_is_said_and_asked_again() -> None:
    async with stage() as (app, timeline, pilot):
        prompt = app.query_one(TimelinePanel).prompt
        await pilot.press("backslash", *"xyz")
        assert "no lane has such a name" in str(prompt._remark.render())
        await pilot.press("enter")
        assert prompt.display, "nothing would be left to see"
        await pilot.press("escape")
        assert not prompt.display
        assert shape(timeline) == USUAL


async def test_choose_ranks() -> None:
    async with stage() as (app, timeline, pilot):
        await on(timeline, pilot, lane("stream 7", 0))
        await pilot.press("R", "1")
        assert (timeline.view.ranks, timeline.view.lane) == ((1,), None)
        assert shape(timeline) == USUAL[1:]
        await pilot.press("enter")
        assert app.views[-1].ranks == (1,)
        await pilot.press("R", *"9")
        assert timeline.view.ranks == (1,)
        assert "no rank 9 in this trace; there are 0-1" in str(app.query_one(TimelinePanel).prompt._remark.render())
        await pilot.press("escape", "R", "backspace", "enter")
        assert timeline.view.ranks is None
        assert shape(timeline) == USUAL


@pytest.mark.parametrize("typed", ["1,9", *in_full("9", "nonsense", "1-")])
async def test_a_rank_that_there_is_not_is_said_and_asked_again(typed: str) -> None:
    async with stage() as (app, timeline, pilot):
        prompt = app.query_one(TimelinePanel).prompt
        await pilot.press("R", *typed, "enter")
        assert prompt.display, "it waits for another text"
        assert str(prompt._remark.render())
        assert prompt.input.value == typed
        await pilot.press("ctrl+u", "1", "enter")
        assert not prompt.display
        assert timeline.view.ranks == (1,)


async def test_show_all_shows_all_ranks() -> None:
    async with stage() as (_, timeline, pilot):
        await pilot.press("R", "1", "enter", "X")
        assert timeline.view.ranks is None


async def test_color_by_something_else() -> None:
    async with stage() as (app, timeline, pilot):
        panel = app.query_one(TimelinePanel)
        before = [segment.style for segment in timeline.render_line(3)]
        await pilot.press("c")
        assert panel.saved_arrangement == {"color": "name"}
        assert "by name" in str(panel.legend.render())
        assert [segment.style for segment in timeline.render_line(3)] != before
        await pilot.press("c")
        assert "by step" in str(panel.legend.render())
        await pilot.press("c")
        assert not panel.legend.display
        assert [segment.style for segment in timeline.render_line(3)] == before


async def test_the_legend_names_categories_as_text() -> None:
    b = Building(ops=[{"op": 0, "name": "f", "category": "[red]fu\x1bsion"}])
    b.event(stream(), "f", 0, 10, op=0)
    async with stage(trace=b.trace()) as (app, _, pilot):
        await pilot.press("c", "c")
        said = str(app.query_one(TimelinePanel).legend.render())
        assert "[red]fu" in said
        assert "\x1b" not in said
        app.query_one(TimelinePanel).restore_arrangement({"color": "step"})
        await pilot.pause()
        assert app.query_one(TimelinePanel).saved_arrangement == {"color": "step"}


async def test_what_is_kept_is_restored() -> None:
    async with stage() as (app, timeline, pilot):
        await on(timeline, pilot, lane("stack"))
        await pilot.press("e", "<", "p", "b")
        await on(timeline, pilot, lane("python"))
        await pilot.press("space")
        kept = json.loads(json.dumps(app.query_one(TimelinePanel).saved_arrangement))
        arranged, shown = shape(timeline), lines(timeline)
        assert kept == {
            "pinned": ["host 0/stack"], "order": {"host 0": ["host 0/stack", "host 0/python"]}, "grouping": "lane",
            "folded": ["host 0"], "expanded": ["host 0/stack"],
        }  # fmt: skip
    async with stage() as (app, timeline, pilot):
        app.query_one(TimelinePanel).restore_arrangement(kept)
        await on(timeline, pilot, lane("python"))
        assert shape(timeline) == arranged
        assert lines(timeline) == shown
        app.query_one(TimelinePanel).restore_arrangement({"folded": [1, None], "expanded": ["gone", 7], "hidden": "x"})
        await pilot.pause()
        assert shape(timeline) == USUAL


@pytest.mark.parametrize(("text", "found"), [("", None), (" 0,2-3 ", (0, 2, 3)), ("2", (2,)), ("0-3", None)])
def test_ranks_as_they_are_typed(text: str, found: tuple[int, ...] | None) -> None:
    assert goto_targets.parse_ranks(text, [0, 1, 2, 3]) == found
    assert goto_targets.parse_ranks(goto_targets.format_ranks(found), [0, 1, 2, 3]) == found


@pytest.mark.parametrize("text", ["x", "7", "0,7", "0-9", "1-", "-1", "3-2"])
def test_no_ranks(text: str) -> None:
    with pytest.raises(TracehoundError):
        goto_targets.parse_ranks(text, [0, 1])


def test_an_event_of_a_rank_that_is_not_shown_is_not_selected() -> None:
    view = View(*TRACE.span, lane=lane("stream 7", 0), event=TRACE.lanes["lane"][0])
    assert view_moves.show_ranks(TRACE, view, (1,)) == View(*TRACE.span, ranks=(1,))
    assert view_moves.show_ranks(TRACE, view, (0,)).lane == view.lane
