"""The timeline under keys and mouse."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from textual import events
from textual.geometry import Region
from textual.pilot import Pilot

from building import US, Building, Lane, stream, thread
from exploring import in_full
from stages import TRACE, chosen, cursor, lines, stage
from tracehound.draw.glyphs import ASCII, UNICODE
from tracehound.model.trace import Trace
from tracehound.ui.bindings.keys import KEYS
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.state import view_moves
from tracehound.ui.state.view import View
from tracehound.ui.widgets.timeline import Timeline


async def test_the_screen_at_80_by_24() -> None:
    async with stage() as (_, timeline, _pilot):
        seen = lines(timeline)
        assert seen[0].startswith(" steps       │▏ProfilerStep#3")
        assert seen[1].startswith(" 1.00 ms     │╵0 us")
        assert seen[2].startswith("▾ rank 0 · GPU 0 · Test GPU")
        assert seen[2].rstrip().endswith("busy 69.0 % of view")
        assert seen[3].startswith(" stream 7    │       ▏gemm ")
        assert "[bold]evil␛" in seen[3]
        assert "ncclDevKernel_AllReduce" in seen[3]
        assert seen[4].startswith("▾ rank 1")
        assert seen[6].startswith("▾ host host ")
        assert all("\x1b" not in line for line in seen)
        assert all(len(line) == 80 for line in seen)


async def test_lanes_whose_names_do_not_fit_are_told_apart() -> None:
    built = Building()
    for number in (16, 17):
        built.event(Lane(f"Stream #{number}(MemcpyOther)", 0, "stream", work=True), "copy", number, 30, "copy")
    for glyphs, sign in ((UNICODE, "…"), (ASCII, "~")):
        async with stage(glyphs=glyphs, trace=built.trace()) as (_, timeline, _pilot):
            names = [line[: timeline.gutter_width] for line in lines(timeline) if "Str" in line]
            assert [number in name and sign in name for number, name in zip(("16", "17"), names, strict=True)] == [1, 1]


async def test_the_screen_in_ascii() -> None:
    async with stage(glyphs=ASCII) as (_, timeline, pilot):
        await pilot.press("j", "full_stop")
        assert all(line.isascii() for line in lines(timeline))
        assert lines(timeline)[3].startswith(">stream 7    |")


async def test_without_color_letters_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with stage() as (_, timeline, pilot):
        await pilot.press("0")
        assert "r" in lines(timeline)[9]
        bars = [segment for segment in timeline.render_line(3) if segment.text.startswith("▏gemm")]
        assert bars[0].style is not None
        assert bars[0].style.reverse


async def test_the_colors_follow_the_theme() -> None:
    async with stage() as (app, timeline, pilot):
        grounds = set()
        for theme in ("textual-dark", "textual-light"):
            app.theme = theme
            await pilot.pause()
            title = next(iter(timeline.render_line(2)))
            assert title.style is not None
            assert title.style.color != title.style.bgcolor
            grounds.add(title.style.bgcolor)
        assert len(grounds) == 2


async def test_a_range_hides_nothing_where_the_terminal_has_sixteen_colors() -> None:
    async with stage() as (app, timeline, pilot):
        app.theme = "ansi-dark"
        await pilot.press("v", "D", "D")
        words = [segment.style for segment in timeline.render_line(1) if "250.0 us" in segment.text]
        assert words[0] is not None
        assert words[0].color != words[0].bgcolor
        shaded = [segment.style for segment in timeline.render_line(3) if segment.style and segment.style.underline]
        assert {style.bgcolor.is_default for style in shaded if style.bgcolor} == {True}


async def test_keys_of_events_begin_on_the_first_lane() -> None:
    async with stage() as (_, timeline, pilot):
        await pilot.press("comma")
        assert cursor(timeline) == "stream 7@0"
        assert chosen(timeline) is not None
    async with stage() as (_, timeline, pilot):
        await pilot.press("enter")
        assert cursor(timeline) == "stream 7@0"
        assert chosen(timeline) is not None


async def test_nothing_hides_behind_the_scroll_bar() -> None:
    async with stage(size=(80, 8)) as (_, timeline, _pilot):
        assert timeline.show_vertical_scrollbar
        assert {len(line) for line in lines(timeline)} == {79}
        assert lines(timeline)[2].endswith("69.0 % of view")


async def test_deep_lanes_are_cut_and_say_so() -> None:
    async with stage(size=(80, 12)) as (_, timeline, pilot):
        count = timeline.virtual_size.height
        await pilot.press("end")
        await pilot.pause()
        assert any("… +16 rows" in line for line in lines(timeline))
        await pilot.press("e")
        assert timeline.virtual_size.height == count + 16
        await pilot.press("e")
        assert timeline.virtual_size.height == count


async def fresh(timeline: Timeline, pilot: Pilot[None]) -> None:
    """The whole run, with nothing selected, from the first lane on."""
    await pilot.press("escape", "escape", "escape")
    timeline.scroll_home(animate=False)
    timeline.view = view_moves.show_whole_run(TRACE, View())
    await pilot.pause()


TIMES = {
    "w": (250, 750), "plus": (250, 750), "equals_sign": (250, 750),
    "w s": (0, 1000), "w minus": (0, 1000),
    "w right": (375, 875), "w l": (375, 875), "w d": (375, 875),
    "w left": (125, 625), "w h": (125, 625), "w a": (125, 625),
    "w w shift+right": (625, 875), "w w L": (625, 875), "w w D": (625, 875),
    "w w shift+left": (125, 375), "w w H": (125, 375), "w w A": (125, 375),
    "w w w 0": (0, 1000),
}  # fmt: skip


async def test_keys_of_time() -> None:
    async with stage() as (app, timeline, pilot):
        for keys, shown in TIMES.items():
            await fresh(timeline, pilot)
            await pilot.press(*keys.split())
            await pilot.pause()
            assert (timeline.view.start, timeline.view.end) == (shown[0] * US, shown[1] * US), keys
            assert app.views[-1] == timeline.view, keys


PLACES = (
    ("down", "stream 7@0", None), ("j", "stream 7@0", None), ("j j", "stream 7@1", None),
    ("j j up", "stream 7@0", None), ("j j k", "stream 7@0", None),
    ("J J J", "python", None), ("shift+down shift+down shift+up", "stream 7@0", None),
    ("J J K", "stream 7@0", None),
    ("end", "stack", None), ("end home", "stream 7@0", None),
    ("j pagedown", "stack", None), ("end pageup", "stream 7@0", None),
    ("j full_stop", "stream 7@0", "ncclDevKernel_AllReduce"), ("j comma comma", "stream 7@0", "gemm"),
    ("j w h enter", "stream 7@0", "[bold]evil\x1b[2J[/bold]"),
    ("j comma comma j", "stream 7@1", "gemm"), ("j comma comma j j", "python", "ProfilerStep#3"),
    ("j comma comma j j j", "python", "aten::mm"), ("j comma comma j j j k", "python", "ProfilerStep#3"),
    ("j comma comma J J J", "stack", "frame 0"), ("j full_stop escape", "stream 7@0", None),
)  # fmt: skip


async def test_keys_of_lanes_and_events() -> None:
    async with stage() as (_, timeline, pilot):
        for keys, lane, event in PLACES:
            await fresh(timeline, pilot)
            await pilot.press(*keys.split())
            assert (cursor(timeline), chosen(timeline)) == (lane, event), keys


RANGES: tuple[tuple[str, tuple[int, int] | None], ...] = (
    ("right_square_bracket", (400, 600)), ("j left_square_bracket", (400, 600)),
    ("j comma comma right_square_bracket", (200, 210)),
    ("j comma comma right_square_bracket right_square_bracket", (400, 600)),
    ("v", (500, 500)), ("j comma comma v full_stop", (100, 400)),
    ("v right right", (500, 562)), ("v left", (468, 500)), ("v D l v l", (500, 656)),
    ("j comma comma v full_stop v full_stop", (100, 400)), ("j comma comma v full_stop escape", None),
)  # fmt: skip


async def test_keys_of_ranges() -> None:
    async with stage() as (_, timeline, pilot):
        for keys, selection in RANGES:
            await fresh(timeline, pilot)
            await pilot.press(*keys.split())
            seen = timeline.view.selection
            assert (seen if seen is None else (seen[0] // US, seen[1] // US)) == selection, keys


async def test_zoom_to_what_is_selected() -> None:
    async with stage() as (_, timeline, pilot):
        await pilot.press("j", "left_square_bracket", "f")
        assert 350 * US < timeline.view.start < 400 * US < 600 * US < timeline.view.end < 650 * US


async def test_enter_on_the_selected_event_asks_for_its_details() -> None:
    async with stage() as (app, timeline, pilot):
        await pilot.press("j", "enter", "enter")
        assert app.opened == [timeline.view.event]


async def test_enter_where_nothing_is_says_so() -> None:
    async with stage() as (app, timeline, pilot):
        lane = int(TRACE.lanes.filter(name="stream 7", rank=1)["lane"][0])
        timeline.view = View(510 * US, 590 * US, lane=lane, focus=550 * US)
        await pilot.press("enter")
        await pilot.pause()
        assert timeline.view.event is None
        assert app.refused == ["nothing here; . goes to the next event"]
        await pilot.press("full_stop", "enter")
        assert timeline.view.event is not None
        assert len(app.refused) == 1


async def test_fast_keys_are_not_lost() -> None:
    """The next key works on what the last one made, though nobody has answered its message yet."""
    async with stage() as (_, timeline, pilot):
        await pilot.press("j", "w", "w", "w")
        assert timeline.view.end - timeline.view.start == 125 * US


async def test_every_key_of_the_table_is_an_action() -> None:
    for key in KEYS:
        if key.group == "timeline":
            action = key.action.partition("(")[0]
            owner = ExplorerScreen if action.startswith("screen.") else Timeline
            assert hasattr(owner, f"action_{action.removeprefix('screen.')}"), key.id


async def test_folding_a_group() -> None:
    async with stage() as (_, timeline, pilot):
        await pilot.press("end", "space")
        seen = lines(timeline)
        assert seen[6].startswith("▸ host")
        assert seen[7].strip() == ""
        await pilot.press("home", "space")
        assert lines(timeline)[2].startswith("▌▸ rank 0")
        assert lines(timeline)[2].count("▏") == 3
        await pilot.press("space")
        assert lines(timeline)[3].startswith("▌stream 7")


async def test_the_first_line_always_says_which_group_it_is() -> None:
    async with stage(size=(80, 9)) as (_, timeline, pilot):
        await pilot.press("end")
        await pilot.pause()
        assert timeline.scroll_offset.y > 0
        assert lines(timeline)[2].startswith("▾ host")
        assert any(line.startswith("▌stack") for line in lines(timeline))


async def test_a_selection_moves_without_redrawing_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as (_, timeline, pilot):
        await pilot.press("j", "comma")
        dirty: list[Region] = []
        refresh = timeline.refresh
        monkeypatch.setattr(
            timeline, "refresh", lambda *regions, **more: (dirty.extend(regions), refresh(*regions, **more))
        )
        await pilot.press("comma")
        assert {region.y for region in dirty} == {1, 3}
        dirty.clear()
        await pilot.press("escape", "j")
        gutters = [region for region in dirty if region.width == timeline.gutter_width]
        assert {region.y for region in gutters} == {3, 5}


async def test_clicking() -> None:
    async with stage() as (_, timeline, pilot):
        gutter = timeline.gutter_width
        await pilot.click(Timeline, offset=(gutter + 50, 3))
        assert (cursor(timeline), chosen(timeline)) == ("stream 7@0", "ncclDevKernel_AllReduce")
        await pilot.click(Timeline, offset=(gutter + 32, 3))
        assert chosen(timeline) is None
        assert timeline.view.focus is not None
        await pilot.click(Timeline, offset=(3, 5))
        assert cursor(timeline) == "stream 7@1"
        await pilot.click(Timeline, offset=(gutter + 5, 1))
        assert timeline.view == replace(timeline.view, event=None, selection=None, focus=None)
        await pilot.click(Timeline, offset=(5, 2))
        assert lines(timeline)[2].lstrip("▌ ").startswith("▸ rank 0")


async def test_dragging_selects_a_range_and_tells_once() -> None:
    async with stage(size=(114, 24)) as (app, timeline, pilot):
        gutter = timeline.gutter_width
        width = 114 - gutter
        await pilot.mouse_down(Timeline, offset=(gutter + 10, 4))
        for x in (12, 20, 30):
            await pilot.hover(Timeline, offset=(gutter + x, 4))
        assert app.views == []
        await pilot.mouse_up(Timeline, offset=(gutter + 30, 4))
        assert timeline.view.selection == (1000 * US * 10 // width, 1000 * US * 30 // width)
        assert app.views == [timeline.view]


def wheel(kind: type[events.MouseEvent], timeline: Timeline, x: int, **keys: bool) -> events.MouseEvent:
    held = {"shift": False, "meta": False, "ctrl": False} | keys
    return kind(timeline, x, 4, 0, 0, 0, screen_x=x, screen_y=4, **held)


async def test_the_wheel() -> None:
    async with stage(size=(80, 8)) as (_, timeline, pilot):
        gutter = timeline.gutter_width
        timeline.post_message(wheel(events.MouseScrollDown, timeline, 40))
        await pilot.pause()
        assert timeline.scroll_offset.y == 3
        timeline.post_message(wheel(events.MouseScrollUp, timeline, 40))
        await pilot.pause()
        assert timeline.scroll_offset.y == 0
        timeline.post_message(wheel(events.MouseScrollUp, timeline, gutter, ctrl=True))
        await pilot.pause()
        assert (timeline.view.start, timeline.view.end) == (0, 750 * US)
        timeline.post_message(wheel(events.MouseScrollDown, timeline, gutter, shift=True))
        await pilot.pause()
        assert timeline.view.start == 750 * US // 8
        timeline.post_message(wheel(events.MouseScrollLeft, timeline, gutter))
        await pilot.pause()
        assert timeline.view.start == 0
        timeline.post_message(wheel(events.MouseScrollRight, timeline, gutter))
        timeline.post_message(wheel(events.MouseScrollDown, timeline, gutter, ctrl=True))
        await pilot.pause()
        assert (timeline.view.start, timeline.view.end) == (0, 1000 * US)


@pytest.mark.parametrize("size", [(40, 6), *in_full((80, 24), (300, 80))])
@pytest.mark.thorough
async def test_any_size(size: tuple[int, int]) -> None:
    async with stage(size=size) as (_, timeline, pilot):
        await pilot.press("j", "full_stop", "w", "v", "right_square_bracket", "end")
        assert len(lines(timeline)) == size[1]


@pytest.mark.parametrize("width", [41, *in_full(80, 201)])
async def test_a_line_is_as_wide_as_the_screen_whatever_the_names(width: int) -> None:
    b = Building()
    b.event(thread("スレッド" * 9), "注意力層" * 30, 0, 333, "op")
    b.event(thread("スレッド" * 9), "e\u0301👩‍👩‍👧 \u200b注", 333, 340, "op")
    b.event(stream(0), "行列の積", 340, 1000)
    b.event(stream(0), "ステップ", 0, 1000, "step", step=1)
    async with stage(trace=b.trace(), size=(width, 24)) as (_, timeline, pilot):
        await pilot.press("j", "full_stop", "w", "w")
        for y in range(24):
            strip = timeline.render_line(y)
            assert strip.cell_length == sum(cell_len(segment.text) for segment in strip) == width


async def test_an_empty_trace_and_none() -> None:
    async with stage(trace=Building().trace()) as (_, timeline, pilot):
        await pilot.press("j", "full_stop", "w", "enter", "right_square_bracket", "v", "space", "e", "0", "f", "end")
        assert lines(timeline)[1].strip() == ""
        timeline.trace = None
        await pilot.press("j", "w", "v", "escape")
        assert lines(timeline)[0].strip() == ""


async def test_a_selected_event_deep_in_its_lane_is_in_sight() -> None:
    """Also when the lanes fitted the screen before, so that there was nothing to scroll."""
    b = Building()
    for depth in range(30):
        b.event(thread("stack"), f"frame {depth}", depth, 900 - depth, "python")
    trace = b.trace()
    async with stage((80, 14), trace=trace) as (_, timeline, pilot):
        deepest = trace.lane(0)["id"][29]
        timeline.view = view_moves.go_to_event(trace, timeline.view, deepest)
        await pilot.pause()
        assert any("frame 29" in line for line in lines(timeline))


def crossed() -> Trace:
    """A thread with many rows above its step, which hold something at the start alone."""
    b = Building()
    for depth in range(8):
        b.event(thread(), f"begin {depth}", depth / 10, 20 - depth / 10, "python")
        b.event(thread(), f"end {depth}", 2000 + depth / 10, 2020 - depth / 10, "python")
    b.event(thread(), "step", 15, 1000, "step")
    for start in range(100, 900, 50):
        b.event(thread(), "op", start, start + 40, "op")
    b.event(stream(0), "gemm", 0, 1000)
    return b.trace()


async def test_rows_that_are_empty_in_the_view_have_no_lines() -> None:
    async with stage(size=(80, 9), trace=crossed()) as (_, timeline, pilot):
        assert [line.depth for line in timeline.outline.lines[3:]] == [0, 1, 2, 8, 9]
        assert any("▏step" in line for line in lines(timeline))
        count = timeline.virtual_size.height
        timeline.view = replace(timeline.view, start=0, end=16 * US)
        await pilot.pause()
        assert "begin 3" in "".join(lines(timeline))
        assert timeline.virtual_size.height == count


async def test_rows_stay_while_time_moves() -> None:
    async with stage(size=(80, 9), trace=crossed()) as (_, timeline, pilot):
        timeline.view = replace(timeline.view, start=200 * US, end=300 * US)
        await pilot.pause()
        before, changes = timeline.outline.lines, 0
        for _ in range(24):
            await pilot.press("right")
            changes += timeline.outline.lines != before
            before = timeline.outline.lines
        assert changes <= 3
