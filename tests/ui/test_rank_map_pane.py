"""The pane of the rank map: what it shows first, its keys, its settings, and where Enter leads."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from textual.pilot import Pilot

from exploring import explored, press, settled
from jobs import Rank, files
from tracehound.draw.glyphs import ASCII
from tracehound.store import TraceReader, open_trace_files
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.screens.explorer_screen import ExplorerScreen

SLOW, LATE = 5, 2


@pytest.fixture
def opening(tmp_path: Path) -> TraceReader:
    """Six ranks and three steps: one has slow steps, and another one comes late to the collective."""
    ranks = [Rank(number, 6, machine=f"node{number // 2}") for number in range(6)]
    for rank in ranks:
        for number in range(3):
            begin = 3000 * number
            rank.step(number, begin, begin + 2000 + 500 * (rank.rank == SLOW))
            rank.kernel("gemm", begin + 10, begin + 20, begin + 900)
            rank.collective(begin + 30, begin + 1000 + 300 * (rank.rank == LATE), begin + 1900, Seq=number)
    return open_trace_files(files(tmp_path, *ranks))


async def opened(explorer: ExplorerScreen, pilot: Pilot[None], words: str = "6 ranks") -> None:
    """Show the pane, and wait until it has the keys and shows so much."""
    explorer.action_show("rank_map")
    for _ in range(200):
        await settled(pilot)
        if explorer.pane_stack.rank_map.has_focus and words in "".join(shown(explorer)):
            return
    raise AssertionError(f"the pane never came: {shown(explorer)}")


def shown(explorer: ExplorerScreen) -> list[str]:
    pane = explorer.pane_stack.rank_map
    return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]


async def test_it_opens_at_the_slow_rank_and_leads_to_its_step(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await opened(explorer, pilot)
        lines = shown(explorer)
        assert lines[0].startswith(" Rank map · step time · by rank")
        assert lines[1].startswith(" rank 5 on node2 is slowest: mean step 2.50 ms, against a median of 2.00 ms")
        assert lines[-1].startswith(" rank 5 · step 0 · step time 2.50 ms · +25.0 % from the median 2.00 ms")
        await press(pilot, "right", "enter")
        assert explorer.trace is not None
        selected = explorer.view.selection
        assert selected == (3000 * 10**6, 5500 * 10**6)
        lane = explorer.trace.lanes.row(by_predicate=pl.col("lane") == explorer.view.lane, named=True)
        assert lane["rank"] == SLOW
        assert "3 steps" in "".join(shown(explorer)), "the map itself still has all steps"


async def test_value_and_order_change_without_another_run(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await opened(explorer, pilot)
        pane = explorer.pane_stack.rank_map
        result = pane._result
        await press(pilot, "v", "v")
        lines = shown(explorer)
        assert lines[0].startswith(" Rank map · lateness")
        assert lines[1].startswith(" rank 2 on node1 is latest: 300 us late in a mean step")
        assert lines[-1].startswith(" rank 2 · step 0 · lateness 300 us")
        await press(pilot, "b", "b", "b")
        assert "worst rank first" in shown(explorer)[0]
        assert pane._result is result
        await press(pilot, "Y")
        assert explorer.app.clipboard.endswith(" rank_map --set by=value --set value=late")
        await press(pilot, "v", "b")
        assert explorer.results.chosen_settings("rank_map") == ()


@pytest.mark.thorough
async def test_the_cursor_moves_and_zooms(opening: TraceReader) -> None:
    async with explored(opening, size=(80, 24)) as (explorer, pilot):
        await opened(explorer, pilot)
        pane = explorer.pane_stack.rank_map
        await press(pilot, "home", "h")
        assert (pane.view.row, pane.view.column) == (0, 0)
        await press(pilot, "j", "l", "l", "l")
        assert pane.view.column == 2
        await press(pilot, "exclamation_mark")
        assert (pane.view.row, pane.view.column) == (SLOW, 0)
        await press(pilot, "+", "+", "+")
        assert "worst of" not in shown(explorer)[0]
        await press(pilot, "0", "G", "pageup", "-")
        assert pane.view.zoom == 0
        assert all(len(line) <= 80 for line in shown(explorer))


@pytest.mark.thorough
async def test_the_choice_of_kernels_shows_their_mean(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await opened(explorer, pilot)
        explorer.results.set_settings("rank_map", (("kernel", "gemm"),))
        explorer.results.ask(explorer.view)
        await opened(explorer, pilot, "mean kernel 880 us")
        await press(pilot, "v")
        assert shown(explorer)[0].startswith(" Rank map · step time")
        await press(pilot, "v", "v", "v")
        assert shown(explorer)[0].startswith(" Rank map · mean kernel")


@pytest.mark.thorough
async def test_lateness_that_was_not_computed_is_computed_when_it_is_shown(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        explorer.results.set_settings("rank_map", (("calls", "5"),))
        await opened(explorer, pilot)
        await press(pilot, "v", "v")
        await opened(explorer, pilot, "lateness 300 us")
        await press(pilot, "v")
        await opened(explorer, pilot, "step time 2.50 ms")


@pytest.mark.thorough
async def test_ascii_and_a_failure(opening: TraceReader) -> None:
    app = ExplorerApp(opening, "ascii")
    async with app.run_test(size=(80, 24)) as pilot:
        explorer = app.explorer
        await opened(explorer, pilot)
        assert all(line.isascii() for line in shown(explorer))
        pane = explorer.pane_stack.rank_map
        assert pane._glyphs is ASCII
        for key in ("v", "b", "+", "enter", "exclamation_mark", "end", "j", "pagedown"):
            pane.clear_result()
            await press(pilot, key)
        pane.show_failure("no more")
        assert "no more" in shown(explorer)[0]
