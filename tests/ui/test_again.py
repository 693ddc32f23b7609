"""The command line that prints what the explorer shows."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exploring import press, said, settled
from stages import TRACE
from tracehound.cli import main
from tracehound.store import open_paths
from tracehound.ui.again import command
from tracehound.ui.app import TracehoundApp
from tracehound.ui.view import View
from tracehound.units import LONGEST, exact, parse_duration


def test_paths_are_quoted_and_what_limits_nothing_is_left_out() -> None:
    assert (
        command(("my logs", "--run", "a;b"), TRACE, View(), None, "gaps")
        == "tracehound report 'my logs' --run 'a;b' gaps"
    )


def test_window_and_ranks() -> None:
    view = View(ranks=(0, 2))
    line = command(("x",), TRACE, view, (12_500_000_000, 1_000_000_000_001), "ops")
    assert line == "tracehound report x ops --window 12.5ms..1.000000000001s --rank 0,2"


def test_the_overview_is_the_summary() -> None:
    line = command(("x",), TRACE, View(ranks=(1,)), (0, 10**9), "overview")
    assert line == "tracehound summary x --window 0ps..1ms --rank 1"


def test_a_tab_without_an_analysis() -> None:
    assert command(("x",), TRACE, View(), None, "search") == "tracehound report x ops"


def test_the_lane_under_the_cursor() -> None:
    lane = TRACE.lanes["lane"][0]
    line = command(("x",), TRACE, View(lane=lane), None, "slices")
    assert line == "tracehound report x slices --set 'lane=^stream 7$' --rank 0"


@given(st.integers(-LONGEST, LONGEST))
def test_times_are_exact(ps: int) -> None:
    assert parse_duration(exact(ps)) == ps


@pytest.mark.parametrize("keys", ["4 Y", "2 space Y", "T w w Y", "4 space 6 Y", "T Y", "7 Y", "t Y", "T j 4 space S Y"])
async def test_what_is_copied_prints_what_is_shown(
    keys: str, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = samples / "torch_stacks"
    app = TracehoundApp(open_paths([path]))
    app.explorer.said = (str(path),)
    async with app.run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, *keys.split())
        assert f"copied: {app.clipboard}"[:60] in said(app.explorer)
        tab, view, timeline = app.explorer.deck.active, app.explorer.view, app.explorer.timeline
        windowed = view.selection or (timeline.has_focus and "w" in keys)
        result = app.explorer.deck.tables[tab].table.result
    program, *arguments = shlex.split(app.clipboard)
    assert program == "tracehound"
    assert tab in arguments
    assert ("--window" in arguments) == bool(windowed)
    assert main([*arguments, "--format", "json"]) == 0
    shown = capsys.readouterr().out
    if result is not None and not timeline.has_focus:
        assert all(f'"{column.name}"' in shown for column in result.columns if column.unit != "id")
