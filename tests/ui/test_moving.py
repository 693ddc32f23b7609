"""The keys that move through lists, wherever there is one: tables, arrivals, the pages of HLO."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_arrivals_pane import opened, twenty
from test_hlo_page import page, show_hlo, view

from exploring import explored, press, read_once, settled
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.widgets.result_table import ResultTable


def ops(explorer: ExplorerScreen) -> ResultTable:
    return explorer.pane_stack.table_pane("ops").table


async def test_rows_of_a_table(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128")) as (explorer, pilot):
        await press(pilot, "2", "end")
        last = ops(explorer).line_count - 1
        assert ops(explorer).cursor == last > 20
        await press(pilot, "pageup")
        page_long = last - ops(explorer).cursor
        assert 0 < page_long < last
        await press(pilot, "home")
        assert ops(explorer).cursor == 0
        await press(pilot, "pagedown", "ctrl+d")
        assert ops(explorer).cursor == 2 * page_long
        await press(pilot, "ctrl+u", "G", "g")
        assert ops(explorer).cursor == 0


async def test_rows_of_a_tree_are_entered(samples: Path) -> None:
    async with explored(read_once(samples / "torch_stacks"), (120, 40)) as (explorer, pilot):
        explorer.action_show("modules")
        await settled(pilot)
        table = explorer.pane_stack.tables["modules"].table
        table.focus()
        await press(pilot, "home", "e")
        folded, row = table.line_count, table.row
        await press(pilot, "shift+right")
        assert table.line_count > folded
        assert (table.cursor, table.row) == (0, row)
        await press(pilot, "L")
        assert table.cursor == 1, "into what is unfolded"
        assert table.row is not None
        assert row is not None
        assert table.row["depth"] == row["depth"] + 1


@pytest.mark.thorough
async def test_ranks_of_a_collective(tmp_path: Path) -> None:
    async with explored(twenty(tmp_path)) as (explorer, pilot):
        await opened(explorer, pilot, 20)
        pane = explorer.pane_stack.arrivals
        await press(pilot, "end")
        last = pane.cursor
        await press(pilot, "up")
        assert pane.cursor == last - 1
        await press(pilot, "pageup", "pageup", "pageup", "pageup", "pageup")
        assert pane.cursor == 0
        await press(pilot, "pagedown")
        assert 0 < pane.cursor < last


@pytest.mark.thorough
async def test_lines_of_a_page_of_hlo(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128"), (80, 24)) as (explorer, pilot):
        await show_hlo(explorer, pilot)
        await press(pilot, "end")
        last = view(pilot).cursor
        assert last == view(pilot).line_count - 1 > 0
        await press(pilot, "k")
        assert view(pilot).cursor == last - 1
        await press(pilot, "home", "pagedown")
        below = view(pilot).cursor
        assert below > 0
        await press(pilot, "pageup")
        assert view(pilot).cursor == 0
        title = page(pilot.app)[0].split()[0]
        await press(pilot, "y")
        assert pilot.app.clipboard.startswith(title)
        await press(pilot, "N")
        assert isinstance(pilot.app.screen, ExplorerScreen)


@pytest.mark.thorough
async def test_what_is_beyond_a_line_of_hlo(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128"), (80, 40)) as (explorer, pilot):
        await show_hlo(explorer, pilot)
        for _ in range(view(pilot).line_count):
            item = view(pilot).item
            if item is not None and item.open is False:
                break
            await press(pilot, "j")
        at, lines = view(pilot).cursor, view(pilot).line_count
        await press(pilot, "right")
        assert view(pilot).line_count > lines
        await press(pilot, "l")
        assert view(pilot).cursor == at + 1, "into what is unfolded"
        await press(pilot, "left", "h")
        assert (view(pilot).cursor, view(pilot).line_count) == (at, lines)
