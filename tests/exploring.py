"""The explorer under a pilot: opened, and waited for after every key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from textual.pilot import Pilot

from tracehound.store import Opening
from tracehound.ui.app import TracehoundApp
from tracehound.ui.comparing import ComparingApp
from tracehound.ui.screens.explorer import Explorer

ROUNDS = 3
"""A message may cause another one on its way up or down: nothing must happen for so many rounds."""

PATIENCE = 60.0
"""Seconds until a test says that the screen does not come to rest."""


async def settled(pilot: Pilot[None]) -> None:
    """Wait until nothing is read, worked out, told or drawn any more, however slow the machine is."""
    end, quiet = monotonic() + PATIENCE, 0
    while quiet < ROUNDS:
        await asyncio.sleep(0.005)
        quiet = 0 if _moves(pilot) else quiet + 1
        assert monotonic() < end, "the screen does not come to rest"
    await pilot.pause()


def _moves(pilot: Pilot[None]) -> bool:
    """Whether a thread is at work, a message waits, or something is to be done when all is laid out and painted."""
    app = pilot.app
    assert isinstance(app, TracehoundApp | ComparingApp)
    pumps = (app, *app.screen.walk_children(with_self=True))
    waits = app.screen._layout_required or app.screen._callbacks or any(pump.message_queue_size for pump in pumps)
    return not app._exit and (app.busy or waits)  # who leaves answers no more


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
