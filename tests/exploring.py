"""The explorer under a pilot: opened, and waited for after every key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

import orjson
import pytest
from textual.pilot import Pilot

from tracehound.model.trace import FileFrames, Trace
from tracehound.store import TraceReader, open_trace_files
from tracehound.store.reading_progress import ProgressListener, ignore_progress
from tracehound.ui.explorer_app import ComparisonApp, ExplorerApp
from tracehound.ui.screens.explorer_screen import ExplorerScreen

ROUNDS = 3
"""A message may cause another one on its way up or down: nothing must happen for so many rounds."""

PATIENCE = 300.0
"""Seconds until a test says that the screen does not come to rest."""


class ReadOnce(TraceReader, kw_only=True):
    """An opening whose files were read before: all explorers of it show one trace."""

    paths: tuple[Path, ...]

    def parts(
        self,
        listen: ProgressListener = ignore_progress,
        cancelled: Callable[[], bool] = lambda: False,
        *,
        idle: bool = False,
    ) -> Iterator[tuple[int, FileFrames]]:
        """What was read."""
        del listen, cancelled, idle
        return iter(_read(self.paths)[1])

    def merge_on_final_clock(self, parts: Sequence[FileFrames]) -> Trace:
        """The trace of all parts, the same one each time."""
        return _trace(self.paths) if len(parts) == len(_read(self.paths)[1]) else super().merge_on_final_clock(parts)


@cache
def _read(paths: tuple[Path, ...]) -> tuple[TraceReader, tuple[tuple[int, FileFrames], ...]]:
    opening = open_trace_files(paths)
    return opening, tuple(opening.read_files(idle=True))


@cache
def _trace(paths: tuple[Path, ...]) -> Trace:
    opening, parts = _read(paths)
    return opening.merge_on_final_clock([part for _, part in sorted(parts, key=lambda numbered: numbered[0])])


def read_once(*paths: Path) -> TraceReader:
    """The trace of these paths, which no test changes: it is read once in each process."""
    opening, _ = _read(paths)
    return ReadOnce(opening.name, opening.files, list(opening.notes), paths=paths)


def in_full(*values: object) -> list[Any]:
    """Values of a parameter that only the full run tries, beside those that every run tries."""
    return [pytest.param(value, marks=pytest.mark.thorough) for value in values]


def rows_in_full(*rows: tuple[object, ...]) -> list[Any]:
    """The same of several parameters at once."""
    return [pytest.param(*row, marks=pytest.mark.thorough) for row in rows]


def slices() -> list[dict[str, object]]:
    """Two steps of one GPU: a gemm each 100 us, a pause of 500 us in the second step while the host loads."""
    made: list[dict[str, object]] = []

    def add(cat: str, name: str, tid: object, ts: float, dur: float, **args: object) -> None:
        pid = 0 if cat in ("kernel", "gpu_memcpy") else 100
        made.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})

    add("user_annotation", "ProfilerStep#1", 100, 1000, 1000)
    add("user_annotation", "ProfilerStep#2", 100, 2000, 1000)
    add("user_annotation", "load batch", 100, 2210, 400)
    add("cpu_op", "aten::copy_", 101, 2300, 100)
    starts = [1500, 1600, 1700, 1800, 2000, 2100, 2700, 2800]
    for number, start in enumerate(starts):
        add("cuda_runtime", "cudaLaunchKernel", 100, start - 8, 5, correlation=number + 1)
        name = "gemm" if number % 2 == 0 else "void softmax<float>(float*)"
        add("kernel", name, 7, start, 90 + number, correlation=number + 1, device=0, stream=7)
    return made


def written(folder: Path, events: list[dict[str, object]] | None = None, name: str = "worker0.json") -> Path:
    """A file of PyTorch's profiler with these events, else with `slices`."""
    path = folder / name
    document = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "Test GPU"}],
        "distributedInfo": {"rank": 0, "world_size": 1},
        "traceEvents": slices() if events is None else events,
    }
    path.write_bytes(orjson.dumps(document))
    return path


async def settled(pilot: Pilot[None]) -> None:
    """Wait until nothing is read, worked out, told or drawn any more, however slow the machine is."""
    end, quiet = monotonic() + PATIENCE, 0
    while quiet < ROUNDS:
        await asyncio.sleep(0.005)
        quiet = 0 if _moves(pilot) else quiet + 1
        assert monotonic() < end, "the screen does not come to rest"
    await pilot.pause()


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    """Wait for something that the screen does not wait for itself."""
    end = monotonic() + PATIENCE
    while not true():
        assert monotonic() < end, "it never came"
        await pilot.pause(0.01)


def _moves(pilot: Pilot[None]) -> bool:
    """Whether a thread is at work, a message waits, or something is to be done when all is laid out and painted."""
    app = pilot.app
    assert isinstance(app, ExplorerApp | ComparisonApp)
    pumps = (app, *app.screen.walk_children(with_self=True))
    waits = app.screen._layout_required or app.screen._callbacks or any(pump.message_queue_size for pump in pumps)
    ends = app._exit or app._exception
    return not ends and (app.busy or waits)  # what ends answers no more


@asynccontextmanager
async def explored(
    opening: TraceReader, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[ExplorerScreen, Pilot[None]]]:
    """The explorer of a trace that is read."""
    app = ExplorerApp(opening)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield app.explorer, pilot


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, one after the other."""
    for key in keys:
        await pilot.app._press_keys([key])  # the pilot would wait for the screen twice
        await settled(pilot)


def header(explorer: ExplorerScreen) -> str:
    """The line at the top."""
    return explorer.header.render_line(0).text


def said(explorer: ExplorerScreen) -> str:
    """The line at the bottom."""
    return explorer.key_bar.render_line(0).text


def selected(explorer: ExplorerScreen) -> str | None:
    """The name of the selected event."""
    trace, event = explorer.trace, explorer.view.event
    return None if trace is None or event is None else trace.event(event)["name"]
