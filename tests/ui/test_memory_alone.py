"""A memory timeline, of which nothing else is known: what the explorer and the comparison begin with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exploring import explored, press, settled
from tracehound.store import TraceReader, load_trace, open_trace_files
from tracehound.ui.explorer_app import ComparisonApp
from tracehound.ui.state import view_moves
from tracehound.ui.state.view import View

START = 1_700_000_000_000_000_000


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def opening(folder: Path, name: str, size: int) -> TraceReader:
    """A parameter, and activations of this size for a while."""
    rows = [[-1, 1, 100, 0], [START + 1000, 2, size, 4], [START + 5000, 4, -size, 4]]
    path = folder / f"{name}.raw.json"
    path.write_text(json.dumps(rows))
    return open_trace_files([path])


async def test_the_explorer_begins_with_what_memory_is_for(tmp_path: Path) -> None:
    async with explored(opening(tmp_path, "one", 50)) as (explorer, pilot):
        assert explorer.pane_layout.active == "memory"
        table = explorer.pane_stack.pane_for("memory").table
        assert table.result is not None
        assert table.result.table["category"].to_list() == ["parameter", "activation"]
        await press(pilot, "2")
        assert explorer.pane_layout.active == "ops"
        assert "holds only memory" in explorer.pane_stack.pane_for("ops").table.empty


async def test_a_rank_lasts_as_long_as_its_memory_is_known(tmp_path: Path) -> None:
    for rank in (0, 1):
        opening(tmp_path, f"rank{rank}", 50)
    trace = load_trace(open_trace_files([tmp_path]))
    assert view_moves.run_bounds(trace, View()) == view_moves.run_bounds(trace, View(ranks=(0,))) == trace.span
    assert trace.span[1] - trace.span[0] == 4000 * 1000


async def test_the_comparison_begins_with_what_both_held(tmp_path: Path) -> None:
    app = ComparisonApp(opening(tmp_path, "one", 50), opening(tmp_path, "two", 70))
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert app.comparison.differences.active == "counters"
        result = app.comparison.differences.tables["diff-memory"].table.result
        assert result is not None
        assert dict(result.table.select("counter", "candidate").rows())["activation"] == 70
