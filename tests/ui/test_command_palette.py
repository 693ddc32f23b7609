"""The command palette under fast hands, and what still runs for a widget that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.style import Style
from textual.app import ComposeResult
from textual.command import CommandInput, CommandList
from textual.css.query import NoMatches
from textual.events import Click, MouseDown
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, Static

from exploring import explored, press, read_once, settled
from short import some
from tracehound.store import TraceReader
from tracehound.ui.base_app import CommandPaletteScreen
from tracehound.ui.widgets.base_screens import DismissOnceScreen, is_removed


@pytest.fixture
def opening(samples: Path) -> TraceReader:
    return read_once(samples / "torch_stacks")


async def opened(pilot: Pilot[None]) -> CommandPaletteScreen:
    """The palette, open and with all its commands."""
    await pilot.press("ctrl+p")
    screen = pilot.app.screen
    assert isinstance(screen, CommandPaletteScreen)
    while not screen.query_one(CommandList).option_count:
        await asyncio.sleep(0.01)
    await pilot.pause()
    return screen


@pytest.mark.thorough
async def test_it_opens_again_while_the_last_one_is_removed(opening: TraceReader) -> None:
    async with explored(opening) as (_, pilot):
        for _ in range(5):
            first = await opened(pilot)
            first.dismiss()
            pilot.app.action_command_palette()
            second = pilot.app.screen
            assert isinstance(second, CommandPaletteScreen)
            assert second is not first
            second.dismiss()
            await settled(pilot)


async def test_nothing_is_done_on_it_once_it_is_left(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        palette = await opened(pilot)
        await pilot.press(*"show host")
        await pilot.pause(0.5)
        shown = explorer.pane_stack.active
        field = palette.query_one(CommandInput)
        palette.dismiss()
        palette.post_message(Input.Changed(field, "t").set_sender(field))
        palette.post_message(Input.Submitted(field, "t").set_sender(field))
        await settled(pilot)
        assert explorer.pane_stack.active == shown
        assert pilot.app.screen is explorer


async def test_a_click_where_nothing_is_laid_out_leaves_it(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        palette = await opened(pilot)
        palette.post_message(Click(palette, 500, 500, 0, 0, 1, shift=False, meta=False, ctrl=False))
        await settled(pilot)
        assert pilot.app.screen is explorer


@pytest.mark.thorough
async def test_a_click_on_a_line_that_is_gone_chooses_nothing(opening: TraceReader) -> None:
    async with explored(opening) as (_, pilot):
        palette = await opened(pilot)
        found = palette.query_one(CommandList)
        x, y = found.region.x + 1, found.region.y + 1
        gone = Style(meta={"option": found.option_count})
        click = Click(found, 1, 1, 0, 0, 1, shift=False, meta=False, ctrl=False, screen_x=x, screen_y=y, style=gone)
        found.post_message(click)
        await settled(pilot)
        assert pilot.app.screen is palette


async def test_a_press_on_a_widget_that_is_gone_selects_nothing(
    opening: TraceReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Textual finds it where it was drawn, until the screen is laid out anew."""
    async with explored(opening) as (_, pilot):
        palette, gone = await opened(pilot), Static("gone")
        monkeypatch.setattr(Screen, "get_widget_and_offset_at", lambda *_: (gone, Offset(0, 0)))
        palette._forward_event(MouseDown(palette, 3, 3, 0, 0, 1, shift=False, meta=False, ctrl=False))
        assert palette._select_state is None


class Late(DismissOnceScreen[None]):
    """A screen that says too late that something is not there."""

    def compose(self) -> ComposeResult:
        yield Static("there")

    def fail(self) -> None:
        self.query_one("#gone")

    async def work(self) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            self.fail()


WAYS: dict[str, Callable[[Late], object]] = {
    "worker": lambda screen: [worker.cancel() for worker in screen.workers if worker.node is screen],
    "callback": lambda screen: screen.call_later(screen.fail),
    "after refresh": lambda screen: screen.query_one(Static).call_after_refresh(screen.fail),
    "timer": lambda screen: screen.set_timer(0.001, screen.fail),
}


@pytest.mark.parametrize("way", some(WAYS, ["worker", "timer"]))
async def test_what_fails_on_a_screen_that_is_left_ends_nothing(opening: TraceReader, way: str) -> None:
    async with explored(opening) as (explorer, pilot):
        screen = Late()
        await pilot.app.push_screen(screen)
        screen.run_worker(screen.work())
        await settled(pilot)
        assert not is_removed(screen.query_one(Static))
        screen.dismiss()
        assert is_removed(screen.query_one(Static))
        WAYS[way](screen)
        await settled(pilot)
        assert pilot.app.screen is explorer
        assert pilot.app.return_code is None
        await press(pilot, "2")
        assert explorer.pane_stack.active == "ops"


@pytest.mark.parametrize("way", some(WAYS, ["callback"]))
async def test_what_fails_on_a_screen_that_is_there_ends_the_program(opening: TraceReader, way: str) -> None:
    async def fails() -> None:
        async with explored(opening) as (_, pilot):
            screen = Late()
            await pilot.app.push_screen(screen)
            screen.run_worker(screen.work())
            await settled(pilot)
            WAYS[way](screen)
            await settled(pilot)

    with pytest.raises(NoMatches):
        await fails()
