"""The command line that prints what the explorer shows."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exploring import in_full, press, read_once, rows_in_full, said, settled
from stages import TRACE
from tracehound.cli.arguments import parse_arguments
from tracehound.cli.main import main
from tracehound.model.trace import Window
from tracehound.model.units import MAX_TIME_PS, format_exact_time, parse_duration
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.state.equivalent_commands import query_command, report_command
from tracehound.ui.state.view import View


def test_paths_are_quoted_and_what_limits_nothing_is_left_out() -> None:
    assert (
        report_command(("my logs", "--run", "a;b"), TRACE, View(), None, "gaps")
        == "tracehound report 'my logs' --run 'a;b' gaps"
    )


def test_window_and_ranks() -> None:
    view = View(ranks=(0, 2))
    line = report_command(("x",), TRACE, view, (12_500_000_000, 1_000_000_000_001), "ops")
    assert line == "tracehound report x ops --window 12.5ms..1.000000000001s --rank 0,2"


def test_the_overview_is_the_summary() -> None:
    line = report_command(("x",), TRACE, View(ranks=(1,)), (0, 10**9), "overview")
    assert line == "tracehound summary x --window 0ps..1ms --rank 1"


def test_a_filter_is_one_of_the_report() -> None:
    line = report_command(("x",), TRACE, View(ranks=(1,)), None, "ops", (), "self > 5ms and name ~ cutlass")
    assert line == "tracehound report x ops --where 'self > 5ms and name ~ cutlass' --rank 1"
    assert parse_arguments(shlex.split(report_command(("x",), TRACE, View(), None, "ops", (), "-x"))[1:]).where == "-x"


def test_a_query_is_about_its_window_and_ranks() -> None:
    line = query_command(("x",), "SELECT 'a' FROM events", Window(0, 10**9, ranks=(0, 2)))
    assert shlex.split(line) == [
        "tracehound", "query", "x", "--window", "0ps..1ms", "--rank", "0,2", "SELECT 'a' FROM events",
    ]  # fmt: skip


def test_the_lane_under_the_cursor() -> None:
    lane = TRACE.lanes["lane"][0]
    line = report_command(("x",), TRACE, View(lane=lane), None, "slices")
    assert line == "tracehound report x slices --set 'lane=^stream 7$' --rank 0"


@given(st.integers(-MAX_TIME_PS, MAX_TIME_PS))
def test_times_are_exact(ps: int) -> None:
    assert parse_duration(format_exact_time(ps)) == ps


@pytest.mark.parametrize(
    "keys",
    ["4 space 6 Y", *in_full("4 Y", "2 T w w Y", "2 space Y", "2 T Y", "7 Y", "t Y", "T j 4 space S Y")],
)
async def test_what_is_copied_prints_what_is_shown(
    keys: str, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = samples / "torch_stacks"
    app = ExplorerApp(read_once(path))
    app.explorer.command_words = (str(path),)
    async with app.run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, *keys.split())
        assert f"copied: {app.clipboard}"[:60] in said(app.explorer)
        tab, view, timeline = app.explorer.pane_stack.active, app.explorer.view, app.explorer.timeline
        windowed = view.selection or (timeline.has_focus and "w" in keys)
        result = app.explorer.pane_stack.tables[tab].table.result
    program, *arguments = shlex.split(app.clipboard)
    assert program == "tracehound"
    assert tab in arguments
    assert ("--window" in arguments) == bool(windowed)
    assert main([*arguments, "--format", "json"]) == 0
    shown = capsys.readouterr().out
    if result is not None and not timeline.has_focus:
        assert all(f'"{column.name}"' in shown for column in result.columns if column.unit != "id")


async def copied(path: Path, *keys: str, columns: int = 120) -> tuple[str, str, list[dict[str, Any]]]:
    """The command that the keys copy, what is said, and the rows of the last tab, as they pass the filter."""
    app = ExplorerApp(read_once(path))
    app.explorer.command_words = (str(path),)
    async with app.run_test(size=(columns, 30)) as pilot:
        await settled(pilot)
        await press(pilot, *keys)
        table = app.explorer.pane_stack.tables.get(app.explorer.pane_stack.active)
        rows = table.table.sheet.filtered_rows.to_dicts() if table is not None and table.table.sheet is not None else []
        return app.clipboard, said(app.explorer), rows


def printed(line: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The rows that a command prints."""
    assert main([*shlex.split(line)[1:], "--format", "json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
    return rows


async def test_a_filtered_table_is_printed_with_its_filter(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line, words, rows = await copied(samples / "torch_stacks", "2", "f", *"count > 1", "enter", "Y")
    assert "--where 'count > 1'" in line
    assert "copied: tracehound report" in words
    assert 0 < len(rows) == len(printed(line, capsys))


@pytest.mark.thorough
async def test_the_answer_of_a_query_is_printed_by_it(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    statement = "SELECT name, kind FROM events WHERE kind = 'op'"
    line, _, rows = await copied(samples / "torch_stacks", ":", *statement, "enter", "Y")
    assert "tracehound query" in line
    assert 0 < len(rows) == len(printed(line, capsys))


@pytest.mark.parametrize("needle", ["~aten::(mm|add)", *in_full("aten::", "it's (")])
async def test_what_a_search_found_is_printed_by_a_query(
    needle: str, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line, _, rows = await copied(samples / "torch_stacks", "/", *needle, "enter", "Y")
    shown = printed(line, capsys)
    assert [(row["name"], row["count"]) for row in shown] == [(row["name"], row["count"]) for row in rows]
    assert [row["total"] for row in shown] == [row["total"] for row in rows]


@pytest.mark.parametrize(
    ("keys", "words"),
    [("2 enter 9 T Y", "no command prints the details"), *rows_in_full((": escape Y", "nothing to print yet"))],
)
@pytest.mark.thorough
async def test_what_no_command_prints_is_said(keys: str, words: str, samples: Path) -> None:
    line, shown, _ = await copied(samples / "torch_stacks", *keys.split(), columns=80)
    assert line == ""
    assert words in shown
