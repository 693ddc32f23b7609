"""The pane of arrivals: which collective it opens with, how one moves, and where Enter leads."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from exploring import explored, press, settled
from jobs import Rank, files
from tracehound.store import TraceReader, open_trace_files
from tracehound.ui.screens.explorer_screen import ExplorerScreen


@pytest.fixture
def opening(tmp_path: Path) -> TraceReader:
    """Three ranks and three collectives; rank 2 is latest at the second."""
    ranks = [Rank(number, 3) for number in range(3)]
    for rank in ranks:
        for number, late in enumerate((10, 40, 20)):
            base = 1000 * number
            rank.collective(base, base + 10 + late * rank.rank, base + 500, Seq=number)
    return open_trace_files(files(tmp_path, *ranks))


async def opened(explorer: ExplorerScreen, pilot: Pilot[None], ranks: int) -> None:
    """Show the pane, and wait until it has the keys and a collective of so many ranks (0: none)."""
    explorer.action_show("arrivals")
    pane = explorer.pane_stack.arrivals
    for _ in range(200):
        await settled(pilot)
        settled_down = (
            pane.has_focus and pane.render_line(0).text.strip(" ") and "working" not in pane.render_line(0).text
        )
        if settled_down and (len(pane.collective.rows) if pane.collective else 0) == ranks:
            return
    raise AssertionError("the pane never came")


async def shown(explorer: ExplorerScreen) -> list[str]:
    pane = explorer.pane_stack.arrivals
    return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]


async def test_it_opens_with_the_latest_and_moves_on(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await opened(explorer, pilot, 3)
        lines = await shown(explorer)
        assert "2 of 3" in lines[0]
        assert lines[1].startswith(" rank 2 last, 60.0 us after the others' median")
        assert [line.replace("▌", " ").split()[1] for line in lines[2:5]] == ["0", "1", "2"]
        await press(pilot, "full_stop")
        assert "3 of 3" in (await shown(explorer))[0]
        await press(pilot, "full_stop", "comma", "comma", "comma")
        assert "1 of 3" in (await shown(explorer))[0]
        await press(pilot, "exclamation_mark")
        assert "2 of 3" in (await shown(explorer))[0]


async def test_enter_goes_to_the_call_of_the_rank(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await opened(explorer, pilot, 3)
        for key, rank in (("enter", 2), ("home", 0), ("down", 1)):
            await press(pilot, *dict.fromkeys((key, "enter")))
            assert explorer.trace is not None
            assert explorer.view.event is not None
            event = explorer.trace.event(explorer.view.event)
            assert (event["kind"], event["rank"]) == ("collective", rank)


@pytest.mark.thorough
async def test_where_nothing_is_left_to_show_no_key_leads_anywhere(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await opened(explorer, pilot, 3)
        for key in ("exclamation_mark", "full_stop", "down", "enter", "end"):
            explorer.pane_stack.arrivals.clear_result()
            await press(pilot, key)
        explorer.pane_stack.arrivals.show_failure("no more")
        await press(pilot, "exclamation_mark")
        assert "no more" in (await shown(explorer))[0]


@pytest.mark.thorough
async def test_the_command_that_prints_it_is_copied(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await opened(explorer, pilot, 3)
        await press(pilot, "Y")
        assert explorer.app.clipboard.endswith(" arrivals")


@pytest.mark.thorough
async def test_one_rank_says_what_is_missing(tmp_path: Path) -> None:
    rank = Rank(0)
    rank.collective(0, 10, 20, Seq=1)
    async with explored(open_trace_files(files(tmp_path, rank))) as (explorer, pilot):
        await opened(explorer, pilot, 0)
        assert "open the files of all ranks together" in (await shown(explorer))[0]
        await press(pilot, "full_stop", "down", "enter", "exclamation_mark", "end")
        assert explorer.is_running


def twenty(folder: Path, apart: int = 20) -> TraceReader:
    """Twenty ranks that meet in one collective, each later by so many us than the one before."""
    ranks = [Rank(number, 20) for number in range(20)]
    for rank in ranks:
        rank.collective(0, 10 + apart * rank.rank, 500, Seq=1)
    return open_trace_files(files(folder, *ranks))


@pytest.mark.thorough
async def test_more_ranks_than_lines_scroll(tmp_path: Path) -> None:
    async with explored(twenty(tmp_path)) as (explorer, pilot):
        await opened(explorer, pilot, 20)
        lines = await shown(explorer)
        assert "rank 19" in next(line for line in reversed(lines) if line)
        await press(pilot, "home")
        assert "rank 0 " in (await shown(explorer))[2]
        await press(pilot, "pagedown", "end")
        assert "rank 19" in next(line for line in reversed(await shown(explorer)) if line)


@pytest.mark.thorough
async def test_ranks_that_are_alike_share_a_line_but_for_the_last(tmp_path: Path) -> None:
    async with explored(twenty(tmp_path, apart=0)) as (explorer, pilot):
        await opened(explorer, pilot, 20)
        assert [line.split()[:2] for line in (await shown(explorer))[2:4]] == [["▌ranks", "0-19"], []]
    async with explored(twenty(tmp_path, apart=1)) as (explorer, pilot):
        await opened(explorer, pilot, 20)
        lines = [line.replace("▌", " ") for line in (await shown(explorer))[2:] if line]
        assert lines[0].startswith(" ranks 0-")
        assert lines[-1].startswith(" rank 19 ")
        assert lines[-1].endswith("last")
