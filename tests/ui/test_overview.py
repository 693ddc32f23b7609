"""The overview: what its parts say, and the way from each to its pane and back."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from textual.pilot import Pilot

from exploring import explored, header, in_full, press, read_once, rows_in_full, settled
from tracehound.store import TraceReader
from tracehound.ui.background import analysis_runner
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.panes.overview_pane import OVERVIEW_ANALYSES
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.wording.messages import COMPUTING

NARROW, WIDE = (80, 24), (200, 50)


def page(explorer: ExplorerScreen) -> list[str]:
    pane = explorer.pane_stack.overview
    return [pane.render_line(y).text for y in range(pane.size.height)]


def title(explorer: ExplorerScreen, name: str) -> tuple[int, int]:
    """Where the title of a part is."""
    lines = page(explorer)
    y = next(y for y, line in enumerate(lines) if name in line)
    return lines[y].index(name), y


@pytest.mark.parametrize(
    ("sample", "size"),
    rows_in_full(*product(("jax_cpu8_b128", "torch_ddp_gloo", "torch_xla_single"), (NARROW, WIDE))),
)
async def test_every_part_is_on_the_page(samples: Path, sample: str, size: tuple[int, int]) -> None:
    async with explored(read_once(samples / sample), size) as (explorer, pilot):
        await press(pilot, "1")
        assert pilot.app.focused is explorer.pane_stack.overview
        text = " ".join(page(explorer))
        for name in ("Mf Findings", "7 Breakdown", "4 Steps", "2 Top ops", "8 Health"):
            assert name in text, name
        assert COMPUTING not in text
        assert all(len(line) == explorer.pane_stack.overview.size.width for line in page(explorer))


MOVES = {
    (): "breakdown", ("down",): "steps", ("down", "up"): "breakdown", ("right",): "findings",
    ("right", "down"): "ops", ("l", "j", "j"): "health", ("l", "j", "h"): "steps",
}  # fmt: skip


async def test_keys_lead_from_a_part_to_its_pane(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        for moves, name in MOVES.items():
            explorer.pane_stack.overview.part = "breakdown"
            await press(pilot, "1", *moves, "enter")
            assert explorer.pane_stack.active == name, moves
            assert pilot.app.focused is explorer.pane_stack.tables[name].table, moves


@pytest.mark.parametrize("size", [NARROW, *in_full(WIDE)])
async def test_a_click_on_a_title_leads_there(opening: TraceReader, size: tuple[int, int]) -> None:
    async with explored(opening, size) as (explorer, pilot):
        await press(pilot, "1")
        await pilot.click(explorer.pane_stack.overview, offset=title(explorer, "Health"))
        await settled(pilot)
        assert explorer.pane_stack.active == "health"
        await press(pilot, "1")
        x, y = title(explorer, "Steps")
        await pilot.click(explorer.pane_stack.overview, offset=(x, y + 1))
        assert explorer.pane_stack.overview.part == "steps", "a click below the title only puts the cursor there"
        assert explorer.pane_stack.active == "overview"


@pytest.mark.thorough
async def test_a_narrow_page_says_that_it_is_of_a_window_and_what_each_part_is(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128"), (80, 24)) as (explorer, pilot):
        await press(pilot, "4", "space", "1")
        titles = [line for line in page(explorer) if "Breakdown" in line or "Top ops" in line]
        assert sum(line.count(" window ") for line in titles) == 3, "findings, breakdown and top ops"
        assert "% of op time" in " ".join(titles), "which window it is stands in the header"
        await press(pilot, "4", "1")
        health = next(line for line in page(explorer) if "Health" in line)
        assert "window" not in health[health.index("Health") :], "nothing narrows what is said of the reading"


@pytest.mark.thorough
async def test_the_page_is_of_the_selected_window(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128"), (200, 50)) as (explorer, pilot):
        await press(pilot, "1")
        whole = page(explorer)
        await press(pilot, "4", "space", "1")
        assert explorer.view.selection is not None
        assert page(explorer) != whole
        assert "in the window " in " ".join(page(explorer))
        await press(pilot, "T", "escape", "1")
        assert page(explorer) == whole


@pytest.mark.thorough
async def test_what_the_copied_command_prints(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128")) as (_, pilot):
        copied: list[str] = []
        monkeypatch.setattr(pilot.app, "copy_to_clipboard", copied.append)
        await press(pilot, "1", "Y")
        assert copied[0].startswith("tracehound summary ")
        assert " overview" not in copied[0]
        await press(pilot, "4", "Y")
        assert copied[1].endswith(" steps")


@pytest.mark.thorough
async def test_ascii_and_no_color(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = ExplorerApp(read_once(samples / "jax_cpu8_b128"), "ascii")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "1")
        assert all(line.isascii() for line in page(app.explorer))
        await _cursor_is_seen(app, pilot)


async def _cursor_is_seen(app: ExplorerApp, pilot: Pilot[None]) -> None:
    """The title under the cursor looks different, without any color."""
    pane = app.explorer.pane_stack.overview
    before = [list(pane.render_line(y)) for y in range(pane.size.height)]
    await press(pilot, "down")
    assert before != [list(pane.render_line(y)) for y in range(pane.size.height)]


async def test_the_first_screen_says_what_costs_most(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        assert explorer.pane_stack.active == "overview"
        assert pilot.app.focused is explorer.timeline
        assert explorer.header.size.height == 1
        words = "45.7 %, 500 us: the GPU idles before its first kernel"
        assert words in header(explorer)
        assert "45.7 % the GPU idles before its" in "\n".join(page(explorer)), "as the panel has it"
        explorer.header.finding = ("45.7 % of step time, 500 us", "45.7 %, 500 us", "a \x1b[31mname " * 9)
        assert "\x1b" not in header(explorer)
        assert header(explorer).rstrip().endswith("name…"), "cut behind a word"
        explorer.header.finding = (COMPUTING,)
        assert COMPUTING in header(explorer)
        await press(pilot, "T", "right_parenthesis")
        assert "window " in header(explorer), "which is not what the finding is of"
        assert COMPUTING not in header(explorer)


async def test_a_tall_screen_has_a_line_for_the_top_finding(opening: TraceReader) -> None:
    async with explored(opening, (120, 40)) as (explorer, pilot):
        assert [explorer.header.render_line(y).text.strip() for y in range(explorer.header.size.height)] == [
            "worker0.json  1 rank · Test GPU · 2.00 ms · PyTorch",
            "Top finding: 45.7 % of step time, 500 us: the GPU idles before its first kernel",
        ]
        lines = explorer.timeline.size.height + explorer.pane_stack.size.height
        assert lines == 40 - 2 - 2, "header, tabs and keys"
        await press(pilot, "T", "right_parenthesis")
        assert explorer.header.render_line(1).text.startswith(" Whole run: 45.7 % of step time"), "not of the window"


async def test_an_analysis_that_fails_leaves_the_header_as_it_was(
    opening: TraceReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> object:
        raise RuntimeError

    monkeypatch.setattr(analysis_runner, "run_analysis", fails)
    async with explored(opening) as (explorer, _):
        assert " ".join(header(explorer).split()) == "worker0.json 1 rank · Test GPU · 2.00 ms · PyTorch"


def marks(explorer: ExplorerScreen) -> tuple[bool, bool, bool, bool]:
    """Which titles are marked: of the timeline, the tab, the table of ops, and the details."""
    corner = next(iter(explorer.timeline.render_line(0))).style
    return (
        corner is not None and bool(corner.bold),
        explorer.pane_layout.tabs.has_keys,
        explorer.pane_stack.table_pane("ops").caption.focused,
        explorer.selected.details.has_class("-focused"),
    )


async def test_the_title_of_the_pane_with_the_focus_is_marked(opening: TraceReader) -> None:
    async with explored(opening, (140, 40)) as (explorer, pilot):
        assert marks(explorer) == (True, False, False, False)
        await press(pilot, "1")
        assert marks(explorer) == (False, True, False, False)
        await press(pilot, "2")
        assert marks(explorer) == (False, True, True, False)
        assert explorer.pane_stack.table_pane("ops").caption.render_line(0).text.startswith("▌Ops"), (
            "without color, too"
        )
        await press(pilot, "9")
        assert marks(explorer) == (False, False, False, True)
        await press(pilot, "T")
        assert marks(explorer) == (True, False, False, False)


def test_parts_are_analyses() -> None:
    assert set(OVERVIEW_ANALYSES) == {"findings", "breakdown", "steps", "ops", "health"}
