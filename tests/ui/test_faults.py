"""What fails in the background is one line on the screen, and what is asked for next is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from exploring import explored, press, said, settled
from tracehound.store import TraceReader, load_trace, make_read_context, open_trace_files
from tracehound.store.event_args import CheckpointedFiles
from tracehound.store.trace_cache import open_cache
from tracehound.ui.screens.explorer_screen import ExplorerScreen


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def opening(samples: Path, root: Path) -> Iterator[TraceReader]:
    """A trace whose events lie in a cache."""
    with make_read_context(1, partial(open_cache, root)) as shop:
        load_trace(open_trace_files([samples / "torch_stacks"], None, shop))
    with make_read_context(1, partial(open_cache, root)) as shop:
        yield open_trace_files([samples / "torch_stacks"], None, shop)


@contextmanager
def without_events(root: Path) -> Iterator[None]:
    """Meanwhile the files of the events are elsewhere."""
    files = list(root.glob("entries/*/events-*"))
    assert files
    for file in files:
        file.rename(file.with_suffix(".gone"))
    yield
    for file in files:
        file.with_suffix(".gone").rename(file)


def chart(explorer: ExplorerScreen) -> list[str]:
    view = explorer.pane_stack.table_pane("ops").chart
    return [view.render_line(y).text.strip() for y in range(view.size.height)]


def found(explorer: ExplorerScreen) -> list[str]:
    shown = explorer.pane_stack.tables["search"].table
    return [line for y in range(shown.size.height) if (line := shown.render_line(y).text.strip())]


async def test_what_needs_events_that_are_gone(opening: TraceReader, root: Path) -> None:
    async with explored(opening, (200, 50)) as (explorer, pilot):
        await press(pilot, "2")
        assert "executions" in chart(explorer)[-1]
        assert explorer.trace is not None
        event = int(explorer.trace.events().select("id").first().collect().item())
        with without_events(root):
            await press(pilot, "down")
            assert " ".join(chart(explorer)).startswith("measuring for the chart failed: FileNotFoundError: ")
            explorer.navigation.request_op_walk(explorer.trace, event)
            await settled(pilot)
            assert said(explorer).startswith(" walk failed: FileNotFoundError: ")
            await press(pilot, "slash")
            assert found(explorer)[1].startswith("reading the names failed: FileNotFoundError: ")
            await press(pilot, "m")
            assert found(explorer)[1].startswith("search failed: FileNotFoundError: ")
            await press(pilot, "escape")
        await press(pilot, "2", "up")
        assert "executions" in chart(explorer)[-1]
        explorer.navigation.request_op_walk(explorer.trace, event)
        await settled(pilot)
        assert explorer.walk is not None
        assert explorer.walk.event == event
        await press(pilot, "slash", "t")
        assert "failed" not in found(explorer)[1]
        assert explorer.pane_stack.tables["search"].table.result.total > 10


def panics(*_: object) -> None:
    raise pl.exceptions.PanicException("index\nout of bounds")


@pytest.mark.thorough
async def test_a_table_that_cannot_be_saved(
    opening: TraceReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracehound.report.report_output._write_result", panics)
    async with explored(opening, (200, 50)) as (explorer, pilot):
        await press(pilot, "2", "x")
        saving, path = explorer.pane_stack.table_pane("ops").save_prompt, tmp_path / "ops.csv"
        saving.input.value = str(path)
        await press(pilot, "enter")
        assert str(saving._remark.render()) == f"saving {path} failed: PanicException: index out of bounds"
        assert not path.exists()


@pytest.mark.thorough
async def test_args_that_will_not_be_quick(opening: TraceReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CheckpointedFiles, "build", panics)
    async with explored(opening) as (_, pilot):
        (told,) = pilot.app._notifications
        assert told.message == f"preparing {opening.files[0].path} failed: PanicException: index out of bounds"
