"""The menu: everything there is, each with a key, and why something cannot be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual import events

from exploring import explored, in_full, press, read_once, rows_in_full, settled
from tracehound.analysis import ANALYSES
from tracehound.store import TraceReader
from tracehound.ui.bindings.keys import KEYS
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.panes import pane_menu
from tracehound.ui.panes.pane_stack import NON_ANALYSIS_TABS
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.screens.menu_screen import MenuCell, MenuScreen, flow_columns, pack_columns

NAMES = [*(analysis.name for analysis in ANALYSES), *NON_ANALYSIS_TABS]


def shown(screen: MenuScreen) -> list[str]:
    return [screen.entries.render_line(y).text for y in range(screen.entries.size.height)]


def test_every_pane_has_a_key_of_its_own() -> None:
    keys = pane_menu.menu_keys(KEYS)
    assert set(keys) == set(NAMES)
    assert all(keys.values())
    assert len(set(keys.values())) == len(keys)


def test_a_pane_has_the_same_key_in_the_menu_as_outside() -> None:
    keys = pane_menu.menu_keys(KEYS)
    assert (keys["ops"], keys["host"], keys["search"], keys["query"]) == ("2", "t", "/", ":")
    assert pane_menu.keys_to_press(KEYS)["kernels"] == f"M{keys['kernels']}"


def test_a_trace_has_the_entries_of_every_other() -> None:
    entries = [entry.pane for _, under in pane_menu.menu_entries(KEYS, None) for entry in under]
    assert sorted(entries) == sorted(NAMES)


@pytest.mark.parametrize("number", range(1, 7))
@pytest.mark.parametrize("lay", [flow_columns, pack_columns])
def test_columns_hold_all_and_no_heading_ends_one(lay: Callable[..., list[list[MenuCell]]], number: int) -> None:
    headings = pane_menu.menu_entries(KEYS, None)
    columns = lay(headings, number)
    assert len(columns) <= number
    cells = [cell for column in columns for cell in column if cell]
    assert cells == [cell for title, under in headings for cell in (title, *under)]
    assert not any(isinstance(column[-1], str) for column in columns)


@pytest.mark.parametrize("size", [(80, 24), *in_full((100, 30), (200, 50))])
async def test_the_whole_menu_is_in_sight(samples: Path, size: tuple[int, int]) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), size) as (explorer, pilot):
        await press(pilot, "M")
        screen = pilot.app.screen
        assert isinstance(screen, MenuScreen)
        text = "\n".join(strip.text for strip in screen._compositor.render_strips())
        for _, under in pane_menu.menu_entries(explorer.keys, explorer.trace):
            for entry in under:
                assert entry.title in text, entry.title
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, ExplorerScreen)


@pytest.mark.thorough
async def test_a_name_that_a_column_is_too_narrow_for_has_a_sign(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (120, 15)) as (_, pilot):
        await press(pilot, "M")
        screen = pilot.app.screen
        assert isinstance(screen, MenuScreen)
        assert any("o operator …line" in line for line in shown(screen))


@pytest.mark.parametrize("size", [(80, 12), *in_full((40, 16), (100, 7))])
@pytest.mark.thorough
async def test_a_short_screen_follows_the_cursor_through_all_of_it(samples: Path, size: tuple[int, int]) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), size) as (_, pilot):
        await press(pilot, "1", "M")
        screen = pilot.app.screen
        assert isinstance(screen, MenuScreen)
        for entry in screen.entries._entries:
            screen.entries.cursor = screen.entries._entries.index(entry)
            await settled(pilot)
            lines = [strip.text for strip in screen._compositor.render_strips()]
            assert any(f" {entry.key} {entry.title[:8]}" in line for line in lines[1:-3]), entry.title
            assert (entry.lacks or entry.question)[:8] in lines[-3], "the words under the list stay in sight"


@pytest.mark.parametrize("name", ["operators", *in_full("critical_path", "annotations", "health")])
async def test_one_key_shows_a_pane_and_gives_it_the_keys(samples: Path, name: str) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo")) as (explorer, pilot):
        await press(pilot, "M", pane_menu.menu_keys(KEYS)[name])
        assert explorer.pane_stack.active == name
        assert pilot.app.focused is explorer.pane_stack.tables[name].table
        assert explorer.pane_layout.tabs.active == name


async def test_arrows_and_the_mouse_do_the_same(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo")) as (explorer, pilot):
        await press(pilot, "4", "M", "down", "enter")
        assert explorer.pane_stack.active != "steps"
        tabs = explorer.pane_layout.tabs
        await pilot.click(tabs, offset=(tabs.render_line(0).text.index("M all"), 0))
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, MenuScreen)
        y = next(y for y, line in enumerate(shown(screen)) if "slices" in line)
        await pilot.click(screen.entries, offset=(shown(screen)[y].index("slices"), y))
        await settled(pilot)
        assert explorer.pane_stack.active == "slices"


@pytest.mark.thorough
async def test_sideways_leads_to_the_column_beside(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo")) as (_, pilot):
        await press(pilot, "M")
        screen = pilot.app.screen
        assert isinstance(screen, MenuScreen)
        before = screen.entries.cursor
        await press(pilot, "right")
        assert screen.entries.cursor > before + 1
        await press(pilot, "left", "left")
        assert screen.entries.cursor <= before + 1


async def test_what_the_trace_cannot_answer_says_why_and_takes_no_tab(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo")) as (explorer, pilot):
        assert "gaps" not in explorer.pane_layout.tabs.render_line(0).text
        await press(pilot, "M", "3")
        screen = pilot.app.screen
        assert isinstance(screen, MenuScreen), "the menu stays"
        assert "no device activity was recorded" in str(screen._about.render())
        await press(pilot, "escape", "3")
        assert explorer.pane_stack.active == "gaps", "its own key says the same in the pane"


@pytest.mark.thorough
async def test_a_long_reason_takes_a_second_line(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (44, 60)) as (explorer, pilot):
        await press(pilot, "M", "3")
        screen = pilot.app.screen
        assert isinstance(screen, MenuScreen)
        assert (screen._about.size.height, screen._keys.display) == (2, False)
        await press(pilot, "escape", "M", "1")
        assert explorer.pane_stack.active == "overview"
        await press(pilot, "M")
        screen = pilot.app.screen
        assert isinstance(screen, MenuScreen)
        assert (screen._about.size.height, screen._keys.display) == (1, True)


async def test_a_pane_without_a_tab_has_one_while_it_is_shown(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        key = pane_menu.menu_keys(KEYS)["kernel_types"]
        await press(pilot, "M", key)
        assert f" M{key} kernel types " in explorer.pane_layout.tabs.render_line(0).text
        await press(pilot, "2")
        assert "kernel types" not in explorer.pane_layout.tabs.render_line(0).text


@pytest.mark.thorough
async def test_the_prompt_of_searching_is_in_the_menu(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo")) as (explorer, pilot):
        await press(pilot, "M", "/")
        assert explorer.search_session.prompt.is_open


@pytest.mark.parametrize("keys", in_full(("t", "t"), ("enter", "enter"), ("enter", "escape")))
async def test_two_keys_in_one_burst_leave_the_menu_once(samples: Path, keys: tuple[str, str]) -> None:
    app = ExplorerApp(read_once(samples / "torch_stacks"))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("M")
        await settled(pilot)
        for key in keys:
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await settled(pilot)
        assert isinstance(app.screen, ExplorerScreen)


@pytest.mark.thorough
async def test_a_key_that_was_on_its_way_to_a_pane_while_the_menu_opened_is_meant_for_it(samples: Path) -> None:
    async with explored(read_once(samples / "torch_stacks")) as (explorer, pilot):
        assert isinstance(pilot.app, ExplorerApp)
        letter = pane_menu.menu_keys(KEYS)["operators"]
        key = events.Key(letter, letter)
        assert not pilot.app.type_ahead.hold_or_redirect(key), "it goes to the pane that has the focus"
        explorer.action_menu()
        await settled(pilot)
        key._set_forwarded()
        assert pilot.app.type_ahead.hold_or_redirect(key), "it comes back, and goes to the menu"
        await settled(pilot)
        assert explorer.pane_stack.active == "operators"
        assert pilot.app.screen is explorer


@pytest.mark.thorough
async def test_what_is_chosen_twice_or_under_another_screen_is_chosen_once(samples: Path) -> None:
    async with explored(read_once(samples / "torch_stacks")) as (explorer, pilot):
        await press(pilot, "M")
        screen = pilot.app.screen
        assert isinstance(screen, MenuScreen)
        for _ in range(2):
            assert screen.entries.go_to_key("t") is not None
            screen.entries.choose()
        await settled(pilot)
        assert pilot.app.screen is explorer
        assert explorer.pane_stack.active == "host"
        await press(pilot, "M", "ctrl+p")
        screen, above = pilot.app.screen_stack[1:]
        assert isinstance(screen, MenuScreen)
        for _ in range(2):
            assert screen.entries.go_to_key("2") is not None
            screen.entries.choose()
        await settled(pilot)
        assert pilot.app.screen is above
        await press(pilot, "escape", "2")
        assert pilot.app.screen is explorer
        assert explorer.pane_stack.active == "ops"


PAGES = ("pagedown", "pageup", "end", "home", "pagedown")


@pytest.mark.parametrize("size", in_full((10, 3), (120, 40)))
@pytest.mark.parametrize(
    ("before", "key"),
    [
        ((), "M"),
        *rows_in_full(((), "ctrl+p"), (("2",), "plus"), (("M", pane_menu.menu_keys(KEYS)["operators"]), "B")),
    ],
)
async def test_a_list_takes_keys_for_pages_before_it_is_laid_out(
    samples: Path, before: tuple[str, ...], key: str, size: tuple[int, int]
) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), size) as (explorer, pilot):
        await press(pilot, *before)
        for each in (key, *PAGES):
            pilot.app.post_message(events.Key(each, None))
        await settled(pilot)
        assert pilot.app.screen is not explorer
        await press(pilot, *PAGES, "escape")
        assert pilot.app.screen is explorer
