"""The explorer under a pilot: opened, and waited for after every key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from tracehound.store import Opening
from tracehound.ui.app import TracehoundApp
from tracehound.ui.screens.explorer import Explorer


async def settled(pilot: Pilot[None]) -> None:
    """Wait until nothing is read, worked out or drawn any more."""
    app = pilot.app
    assert isinstance(app, TracehoundApp)
    for _ in range(500):
        await pilot.pause(0.01)
        if not app.busy:
            break
    await pilot.pause()
    await pilot.pause()


@asynccontextmanager
async def explored(opening: Opening, size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Explorer, Pilot[None]]]:
    """The explorer of a trace that is read."""
    app = TracehoundApp(opening)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield app.explorer, pilot


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, one after the other."""
    for key in keys:
        await pilot.press(key)
        await settled(pilot)


def header(explorer: Explorer) -> str:
    """The line at the top."""
    return explorer.header.render_line(0).text


def said(explorer: Explorer) -> str:
    """The line at the bottom."""
    return explorer.key_bar.render_line(0).text


def selected(explorer: Explorer) -> str | None:
    """The name of the selected event."""
    trace, event = explorer.trace, explorer.view.event
    return None if trace is None or event is None else trace.event(event)["name"]
