"""What a person does with a table: filter, choose columns, copy, save."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from test_explorer import caption, lines, table
from textual.pilot import Pilot

from building import US
from exploring import explored, header, press, rows_in_full, settled
from jobs import files, sized
from tracehound.store import TraceReader, open_trace_files
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.panes.choice_dialogs import ColumnsDialog
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.wording import messages


def names(explorer: ExplorerScreen) -> list[str]:
    shown = table(explorer, "ops").sheet
    assert shown is not None
    return shown.rows["name"].to_list()


def remark(explorer: ExplorerScreen) -> str:
    return str(explorer.pane_stack.table_pane("ops").filter_prompt._remark.render())


async def typed(explorer: ExplorerScreen, pilot: Pilot[None], words: str) -> None:
    """What the prompt of the filter holds, all at once: each key takes as long as all of it."""
    explorer.pane_stack.table_pane("ops").filter_prompt.input.value = words
    await settled(pilot)


async def test_a_filter_compares(opening: TraceReader) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        await press(pilot, "2", "f")
        await typed(explorer, pilot, "self > 372us and name ~ soft")
        await press(pilot, "enter")
        assert names(explorer) == ["void softmax<float>(float*)"]
        assert "1 of 2 rows with self > 372us and name ~ soft" in caption(explorer, "ops")
        await press(pilot, "f", "escape")
        assert len(names(explorer)) == 2
        assert "with" not in caption(explorer, "ops")


async def test_what_is_wrong_with_a_filter_stands_beside_it_and_the_rows_stay(opening: TraceReader) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        await press(pilot, "2", "f")
        await typed(explorer, pilot, "name ~ gem")
        assert names(explorer) == ["gemm"]
        assert remark(explorer) == ""
        await typed(explorer, pilot, "name ~ gem and ")
        assert "a column, a text or a bracket should be here" in remark(explorer)
        assert names(explorer) == ["gemm"], "the last good filter holds"
        await typed(explorer, pilot, "name ~ gem and self > 1ms")
        assert names(explorer) == []
        assert "no row passes the filter" in " ".join(lines(table(explorer, "ops")))
        assert remark(explorer) == ""


@pytest.mark.thorough
async def test_a_word_on_the_way_to_a_comparison_filters_no_more(opening: TraceReader) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        await press(pilot, "2", "f", *"self")
        assert names(explorer) == []
        await press(pilot, *" >")
        assert "nothing to compare self with" in remark(explorer)
        assert len(names(explorer)) == 2


@pytest.mark.thorough
async def test_the_filter_stays_while_the_window_changes(opening: TraceReader) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        await press(pilot, "2", "f", *"count > 3", "down")
        assert pilot.app.focused is table(explorer, "ops")
        assert len(names(explorer)) == 2
        await press(pilot, "4", "space", "2")
        assert names(explorer) == []
        assert "0 of 2 rows with count > 3" in caption(explorer, "ops")


async def test_the_cursor_moves_through_columns_sorts_and_hides(opening: TraceReader) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        ops = table(explorer, "ops")
        await press(pilot, "2")
        assert ops.column == ""
        await press(pilot, "right")
        assert ops.column == "name"
        await press(pilot, "l", "d")
        assert ops.column == "count"
        await press(pilot, "o")
        assert ops.order == ("count", True)
        await press(pilot, "o")
        assert ops.order == ("count", False)
        await press(pilot, "r", "left")
        assert (ops.order, ops.column) == (("count", True), "category")
        await press(pilot, "-")
        assert "category" not in ops.visible_column_names
        assert ops.column == "count", "the next one is under the cursor"
        assert "category" not in lines(ops)[0]
        await press(pilot, *["-"] * 20)
        assert len(ops.visible_column_names) == 1, "the last one stays"


async def test_columns_are_chosen_from_a_list(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        ops = table(explorer, "ops")
        await press(pilot, "2")
        before = ops.visible_column_names
        assert "max" not in before, "there is no room for it"
        await press(pilot, "+")
        screen = pilot.app.screen
        assert isinstance(screen, ColumnsDialog)
        text = "\n".join(strip.text for strip in screen._compositor.render_strips())
        assert "[x] name" in text
        assert "[ ] max                  longest" in text
        offered = [column.name for column in screen._columns]
        await press(pilot, "space", *["j"] * offered.index("max"), "space", "enter")
        assert "name" not in ops.visible_column_names
        assert "max" in ops.visible_column_names
        await press(pilot, "=", "space", "escape")
        assert "name" not in ops.visible_column_names, "Esc leaves all as it was"


async def test_a_cell_and_a_row_are_copied_uncut(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "2", "c")
        assert pilot.app.clipboard == "void softmax<float>(float*)"
        assert "copied void softmax<float>(float*)" in caption(explorer, "ops")
        await press(pilot, "right", "right", "c")
        assert pilot.app.clipboard == "4"
        await press(pilot, "C")
        cells = pilot.app.clipboard.split("\t")
        assert cells[0] == "void softmax<float>(float*)"
        assert len(cells) == len(table(explorer, "ops").visible_column_names)
        assert f"copied the row, {len(cells)} cells" in caption(explorer, "ops")


async def save(pilot, explorer: ExplorerScreen, path: Path) -> None:
    await press(pilot, "x")
    explorer.pane_stack.table_pane("ops").save_prompt.input.value = str(path)
    await press(pilot, "enter")


async def test_what_is_shown_is_saved_in_the_form_of_its_name(opening: TraceReader, tmp_path: Path) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "2", ">", "right", "right", "-", "f", *"count > 1", "enter")
        await save(pilot, explorer, tmp_path / "ops.csv")
        assert "saved 2 rows as" in caption(explorer, "ops")
        assert pilot.app.focused is table(explorer, "ops")
        rows = list(csv.DictReader((tmp_path / "ops.csv").read_text("utf-8").splitlines()))
        assert [row["name"] for row in rows] == ["gemm", "void softmax<float>(float*)"]
        assert "category" in rows[0], "there is room for it in a file"
        assert "count" not in rows[0], "it was hidden"
        assert rows[0]["self_ps"] == str((90 + 92 + 94 + 96) * 10**6)

        await save(pilot, explorer, tmp_path / "ops.json")
        document = json.loads((tmp_path / "ops.json").read_text("utf-8"))
        assert document["schema"] == "tracehound.result/1"
        assert document["notes"][-2:] == ["hidden: count", "sorted by name, rising"]
        assert document["notes"][0] == "where count > 1: 2 of 2 rows"
        await save(pilot, explorer, tmp_path / "ops.md")
        assert "| gemm |" in (tmp_path / "ops.md").read_text("utf-8")


async def test_nothing_is_overwritten_without_a_word(opening: TraceReader, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("precious", "utf-8")
    pane = "ops"
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "2")
        await save(pilot, explorer, path)
        saving = explorer.pane_stack.tables[pane].save_prompt
        assert "is there already: Enter again replaces it" in str(saving._remark.render())
        assert path.read_text("utf-8") == "precious"
        await press(pilot, "end", "backspace", "v")
        assert str(saving._remark.render()) == ""
        await press(pilot, "enter")
        assert path.read_text("utf-8") == "precious", "an Enter after a change asks anew"
        await press(pilot, "enter")
        assert path.read_text("utf-8").startswith("name,")
        assert [path.name for path in tmp_path.iterdir() if "csv" in path.name] == ["mine.csv"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("ops.xyz", "end the name with .csv"),
        *rows_in_full(("none/ops.csv", "no such file"), ("", "which form?"), ("a\0.csv", "null")),
    ],
)
async def test_what_cannot_be_saved_is_one_line(opening: TraceReader, tmp_path: Path, name: str, what: str) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        await press(pilot, "2", "x")
        saving = explorer.pane_stack.table_pane("ops").save_prompt
        assert saving.input.value == "ops.csv"
        saving.input.value = f"{tmp_path}/{name}" if name else ""
        await press(pilot, "enter")
        assert what in str(saving._remark.render())
        await press(pilot, "escape")
        assert pilot.app.focused is table(explorer, "ops")


def chart(explorer: ExplorerScreen, name: str) -> list[str]:
    view = explorer.pane_stack.tables[name].chart
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


async def test_a_chart_and_the_table_again(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        ops = table(explorer, "ops")
        await press(pilot, "2")
        height = ops.size.height
        await press(pilot, "v")
        assert ops.size.height == 2, "the header and the row under the cursor stay"
        assert "4 executions, median 94.0 us, p99 96.9 us" in chart(explorer, "ops")[-1]
        assert any("█" in line for line in chart(explorer, "ops"))
        await press(pilot, "j")
        assert "4 executions, median 93.0 us" in chart(explorer, "ops")[-1], "the histogram follows the row"
        assert "gemm" in lines(ops)[1]
        await press(pilot, "v")
        assert ops.size.height == height
        assert not explorer.pane_stack.table_pane("ops").chart_visible


@pytest.mark.thorough
async def test_a_histogram_is_of_the_selected_window(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "4", "down", "space", "2", "v")
        assert "2 executions" in chart(explorer, "ops")[-1]


async def test_a_row_leads_through_the_events_that_it_counts_and_charts_them(tmp_path: Path) -> None:
    """Two collectives of 4 kB and one of 20 kB, of one name, on each of two ranks; a window holds one of the former."""
    async with explored(open_trace_files(files(tmp_path, *sized())), (200, 50)) as (explorer, pilot):
        await press(pilot, "6")
        for row, count in (((4000, 4)), ((20000, 2))):
            collectives = table(explorer, "collectives")
            assert collectives.row is not None
            assert (collectives.row["message"], collectives.row["count"]) == (row, count)
            assert f"{count} executions" in chart(explorer, "collectives")[-1]
            await press(pilot, "enter", "n")
            assert f" of {count}" in header(explorer)
            sizes = set[int]()
            for _ in range(count):
                await press(pilot, "n")
                assert explorer.trace is not None
                assert explorer.view.event is not None
                sizes.add(explorer.trace.event(explorer.view.event)["start"] // (200 * US))
            assert sizes == {0 if count == 4 else 1}, "of this size alone"
            await press(pilot, "6", "down")
        explorer.view = replace(explorer.view, selection=(0, 90 * US))
        await press(pilot, "6", "enter", "n")
        assert " of 2" in header(explorer), "of the window, as the row"


@pytest.mark.thorough
async def test_a_row_that_counts_nothing_leads_through_nothing_of_the_row_before(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "2", "enter", "n")
        assert explorer.walk is not None
        await press(pilot, "3", "enter")
        assert explorer.walk is None


@pytest.mark.thorough
async def test_enter_on_a_row_of_a_whole_rank_says_that_it_is_in_sight(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        explorer.pane_layout.show("kernel_types")
        await press(pilot, "tab")
        table(explorer, "kernel_types").focus()
        await press(pilot, "enter", "enter")
        assert explorer.key_bar.message == messages.ROW_OF_WHOLE_RANK


@pytest.mark.thorough
async def test_a_match_leads_through_those_of_its_own_row(tmp_path: Path) -> None:
    async with explored(open_trace_files(files(tmp_path, *sized())), (200, 50)) as (explorer, pilot):
        await press(pilot, "slash", *"nccl", "enter")
        explorer.pane_layout.show("search")
        await press(pilot, "tab")
        matches = explorer.pane_stack.tables["search"].table
        matches.focus()
        assert matches.row is not None
        await press(pilot, "enter", "n")
        assert f" of {matches.row['count']}" in header(explorer)


@pytest.mark.thorough
async def test_other_tables_are_drawn_as_they_are_shown(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "7", "v")
        assert chart(explorer, "breakdown")[0].startswith("rank 0 █")
        assert "█ compute" in " ".join(chart(explorer, "breakdown"))
        await press(pilot, "4", "v", ">")
        assert any("step 1" in line for line in chart(explorer, "steps")), "two steps are bars"
        await press(pilot, "v", "f", *"step = 2", "enter", "v")
        assert not any("step 1" in line for line in chart(explorer, "steps"))


@pytest.mark.thorough
async def test_a_chart_without_rows_says_why_as_the_table_does(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "6")
        told = " ".join(line.strip() for line in lines(table(explorer, "collectives"))[1:]).strip()
        assert told.startswith("no collectives")
        await press(pilot, "v")
        assert " ".join(line.strip() for line in chart(explorer, "collectives")).strip() == told
        await press(pilot, "2", "f", *"self > 9s", "enter", "v")
        assert chart(explorer, "ops")[0].strip() == "no row passes the filter"
        await press(pilot, "f", "escape")
        assert "executions" in chart(explorer, "ops")[-1], "with rows it is a chart again"


@pytest.mark.thorough
async def test_a_chart_in_ascii_is_ascii(opening: TraceReader) -> None:
    app = ExplorerApp(opening, "ascii")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for keys in (("2", "v"), ("7", "v"), ("4", "v"), ("2", "+"), ("escape", ":"), ("2", "f"), ("escape", "x")):
            await press(pilot, *keys)
            screen = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
            assert screen.isascii(), (keys, [char for char in screen if not char.isascii()])


@pytest.mark.thorough
async def test_a_finding_is_told_in_full_under_its_table(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "M", "f")
        told = explorer.pane_stack.tables["findings"].table.result
        assert told is not None
        assert chart(explorer, "findings")[0] == told.table["finding"][0]
        assert chart(explorer, "findings")[1].startswith("evidence  ")
        await press(pilot, "v")
        assert not explorer.pane_stack.tables["findings"].chart_visible
        assert "no chart of sentences: the rows alone" in caption(explorer, "findings")
        await press(pilot, "v")
        assert "no chart of sentences: the row in full" in caption(explorer, "findings")


@pytest.mark.thorough
async def test_a_finding_stands_beside_its_table_where_there_is_room(opening: TraceReader) -> None:
    async with explored(opening, (200, 50)) as (explorer, pilot):
        await press(pilot, "M", "f")
        found = explorer.pane_stack.tables["findings"]
        assert found.chart.region.x > found.table.region.x
        assert any(line.startswith("advice") for line in chart(explorer, "findings"))


@pytest.mark.thorough
async def test_a_suggested_name_is_replaced_by_what_is_typed(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "2", "x", *"a.md")
        assert explorer.pane_stack.table_pane("ops").save_prompt.input.value == "a.md"


@pytest.mark.thorough
async def test_what_is_said_of_a_name_leaves_room_for_it(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        saving = explorer.pane_stack.table_pane("ops").save_prompt
        await press(pilot, "2", "x", *"/no/such/folder/a.csv", "enter")
        assert "no such file" in str(saving._remark.render()) or "folder" in str(saving._remark.render())
        assert saving.input.size.width >= 36
        assert saving.size.height == 2, "a long remark has a line of its own"
        await press(pilot, *"x")
        assert saving.size.height == 1


@pytest.mark.thorough
async def test_a_wide_screen_has_the_chart_beside_the_table(opening: TraceReader) -> None:
    async with explored(opening, (200, 50)) as (explorer, pilot):
        await press(pilot, "2")
        pane = explorer.pane_stack.table_pane("ops")
        assert pane.chart_visible
        assert pane.table.size.height == pane.chart.size.height
        assert "4 executions, median 94.0 us" in chart(explorer, "ops")[-1]
        await press(pilot, "j")
        assert "4 executions, median 93.0 us" in chart(explorer, "ops")[-1], "it follows the row"
        await press(pilot, "v")
        assert pane.table.size.height == 2, "the chart alone"
        await press(pilot, "v")
        assert not pane.chart_visible
        await press(pilot, "v")
        assert pane.chart_visible
        assert pane.table.size.height > 2


@pytest.mark.thorough
async def test_a_chart_comes_and_goes_with_the_width(opening: TraceReader) -> None:
    async with explored(opening, (200, 50)) as (explorer, pilot):
        await press(pilot, "2")
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        assert not explorer.pane_stack.table_pane("ops").chart_visible
        await pilot.resize_terminal(200, 50)
        await settled(pilot)
        assert explorer.pane_stack.table_pane("ops").chart_visible
        await press(pilot, "8")
        assert not explorer.pane_stack.tables["health"].chart_visible, "words need no chart"


@pytest.mark.thorough
async def test_launches_show_how_late_their_work_began(opening: TraceReader) -> None:
    async with explored(opening, (200, 50)) as (explorer, pilot):
        explorer.action_show("launches")
        await settled(pilot)
        assert explorer.pane_stack.tables["launches"].table.row is not None
        assert any("delays of work" in line for line in chart(explorer, "launches"))


async def test_a_fault_in_a_chart_ends_nothing(opening: TraceReader) -> None:
    def fails(size: tuple[int, int]) -> list[str]:
        raise ValueError(f"no room in {size}")

    async with explored(opening, (200, 50)) as (explorer, pilot):
        await press(pilot, "2")
        explorer.pane_stack.table_pane("ops").chart.draws = fails
        await settled(pilot)
        assert chart(explorer, "ops")[0].lstrip().startswith("no chart: ValueError: no room")
