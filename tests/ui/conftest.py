"""Fixtures of the tests of the explorer."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from textual import app as textual_app
from textual import pilot as textual_pilot
from textual._context import active_app
from textual.app import App

from exploring import read_once, written
from tracehound.store import TraceReader
from tracehound.ui.background import analysis_runner
from tracehound.ui.widgets import status_bars


@pytest.fixture(scope="session", autouse=True)
def _answered_once() -> Iterator[None]:
    """What explorers ask of one trace is worked out once in each process: what the answers are is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis_runner, "run_analysis", cache(analysis_runner.run_analysis))
        patch.setattr(analysis_runner, "profile_run", cache(analysis_runner.profile_run))
        yield


@pytest.fixture(scope="session", autouse=True)
def _said_until_seen() -> Iterator[None]:
    """What is said stands there until the test has read it, however slow the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(status_bars, "MESSAGE_SECONDS", 3600.0)
        patch.setattr(App, "NOTIFICATION_TIMEOUT", 3600.0)
        yield


async def _wait_for_idle_loop(*_: float) -> None:
    """Wait until nothing is to be laid out, nor ready to run twice in succession: a thread may have something."""
    loop, app, quiet = asyncio.get_running_loop(), active_app.get(), 0
    while quiet < 2 and not (app._exit or app._exception):
        screen = app.screen_stack[-1] if app.screen_stack else None
        waits = screen is not None and bool(screen._layout_required or screen._callbacks)
        await asyncio.sleep(0.002 if waits else 0)
        quiet = 0 if waits or loop._ready else quiet + 1  # type: ignore[attr-defined]


@pytest.fixture(scope="session", autouse=True)
def _idle_at_once() -> Iterator[None]:
    """A loop without work is idle; Textual sleeps for 20 ms or more to see that, twice for each key."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (textual_app, textual_pilot):
            patch.setattr(module, "wait_for_idle", _wait_for_idle_loop)
        yield


@pytest.fixture(scope="module", autouse=True)
def _looked_through_once() -> None:
    """What is there before a module stays: looking through it again takes a quarter of an explorer's start."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of two steps of one GPU."""
    return written(tmp_path_factory.mktemp("small"))


@pytest.fixture
def opening(small: Path) -> TraceReader:
    """Two steps of one GPU, read once."""
    return read_once(small)
