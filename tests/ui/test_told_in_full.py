"""What a pane says: over several lines where there is room, and all of it by one key."""

from __future__ import annotations

from pathlib import Path

import pytest

from exploring import explored, press, read_once, said, settled
from tracehound.draw.notes import note_texts
from tracehound.ui.screens.text_dialogs import FullTextScreen


async def test_a_caption_takes_the_lines_that_its_answer_needs(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128")) as (explorer, pilot):
        await press(pilot, "4")
        await settled(pilot)
        pane = explorer.pane_stack.pane_for("steps")
        caption = pane.caption
        told = " ".join(caption.render_line(y).text.strip() for y in range(caption.size.height))
        assert 1 < caption.size.height <= 3
        assert "p95" in told
        assert pane.table.size.height > caption.size.height, "rows stay in sight"


async def test_one_key_shows_all_that_is_said(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128")) as (explorer, pilot):
        await press(pilot, "4")
        await settled(pilot)
        result = explorer.pane_stack.pane_for("steps").table.result
        assert result is not None
        await press(pilot, "I")
        await settled(pilot)
        page = pilot.app.screen
        assert isinstance(page, FullTextScreen)
        words = [fact.words for section in page._sections for fact in section.facts]
        assert all(text in words for text in note_texts(result.notes))
        assert page._sections[-1].title == "What its columns mean"
        await press(pilot, "escape")
        await settled(pilot)
        assert pilot.app.screen is explorer


@pytest.mark.thorough
async def test_the_footer_of_a_table_names_its_chart_at_80_columns(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128")) as (explorer, pilot):
        await press(pilot, "4")
        named = said(explorer)
        assert all(key in named for key in ("Enter go", "f filter", "v chart", "q quit"))


@pytest.mark.thorough
async def test_what_is_cut_names_the_key_that_shows_it(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128"), (80, 14)) as (explorer, pilot):
        await press(pilot, "4")
        caption = explorer.pane_stack.pane_for("steps").caption
        assert caption.render_line(caption.size.height - 1).text.rstrip().endswith("… I shows all")


@pytest.mark.thorough
async def test_words_give_way_to_the_rows_of_short_tables(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128")) as (explorer, pilot):
        await press(pilot, "7")
        for name in ("breakdown", "overview"):
            pane = explorer.pane_stack.tables[name]
            assert pane.caption.size.height == 1
            assert pane.table.size.height >= 4, "of five lines or six"


@pytest.mark.thorough
async def test_another_row_sends_no_caption_again(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128")) as (explorer, pilot):
        await press(pilot, "4")
        caption, drawn = explorer.pane_stack.pane_for("steps").caption, list[int]()
        caption.render_line = lambda y, draw=caption.render_line: drawn.append(y) or draw(y)
        await press(pilot, "down", "down", "l", ">")
        assert not drawn


@pytest.mark.thorough
async def test_advice_has_the_lines_that_are_free(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo")) as (explorer, pilot):
        await press(pilot, "M", "f")
        await settled(pilot)
        chart = explorer.pane_stack.pane_for("findings").charted_table.chart
        small = chart.size.height
        await press(pilot, "z")
        await settled(pilot)
        assert chart.size.height > small
        lines = [chart.render_line(y).text.strip() for y in range(chart.size.height)]
        assert any(line.startswith("advice") for line in lines)
        assert "…" not in "".join(lines)
