"""The flame graph in the explorer: moving, zooming, weighing, finding, and where a frame leads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import polars as pl
import pytest
from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from building import Building, stream, thread
from tracehound.analysis import get_analysis, run_analysis
from tracehound.analysis.result import Result
from tracehound.draw.charts.flame_graph import ROOT_BAR
from tracehound.draw.glyphs import ASCII, MONO, UNICODE, Glyphs
from tracehound.ui.panes.flame_pane import FlamePane
from tracehound.ui.widgets.flame_view import FlameView
from tracehound.ui.widgets.result_table import ResultTable

MAIN = thread("python (1)")


def stacks() -> Result:
    """main trains and saves; train calls a module that launches a kernel, and loads."""
    b = Building()
    b.event(MAIN, "train.py(9): main", 0, 100, "python")
    b.event(MAIN, "train.py(3): train", 0, 70, "python")
    b.event(MAIN, "nn.Module: Linear_0", 0, 40, "python")
    b.event(MAIN, "cudaLaunchKernel", 10, 20, "runtime", correlation=1)
    b.event(MAIN, "load.py(5): load", 40, 60, "python")
    b.event(MAIN, "<built-in function save>", 80, 100, "python")
    b.event(stream(), "gemm", 50, 60, correlation=1)
    return run_analysis(get_analysis("stacks"), b.trace())


class Flames(App[None]):
    """One pane, which is shown in color unless `no_color`."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self.pane = FlamePane("stacks", glyphs)
        self.told: list[object] = []

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_flame_view_source_requested(self, message: FlameView.SourceRequested) -> None:
        self.told.append(("source", message.words))

    def on_flame_view_edit_requested(self, message: FlameView.EditRequested) -> None:
        self.told.append(("edit", message.words))

    def on_result_table_row_chosen(self, message: ResultTable.RowChosen) -> None:
        self.told.append(("go", message.row["call"]))

    def on_result_table_window_requested(self, message: ResultTable.WindowRequested) -> None:
        self.told.append(("window", message.row["call"]))


@asynccontextmanager
async def shown(
    result: Result | None = None, size: tuple[int, int] = (52, 12), glyphs: Glyphs = UNICODE
) -> AsyncIterator[tuple[Flames, Pilot[None]]]:
    app = Flames(glyphs)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        app.pane.table_pane.table.empty = "no frames"
        app.pane.table_pane.table.result = stacks() if result is None else result
        app.pane.focus_pane()
        await pilot.pause()
        yield app, pilot


def lines(app: Flames) -> list[str]:
    view = app.pane.flame_view
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


async def test_it_looks_like_this() -> None:
    async with shown() as (app, _):
        assert lines(app) == [
            " Stacks by time on the host · 100 us",
            "▏all",
            "▏main  train.py:9",
            "▏train  train.py:3                  ▏save",
            "▏Linear_0           ▏load",
            "▏cuda",
            "", "", "", "",
            " all",
            " time on the host 100 us",
        ]  # fmt: skip


@pytest.mark.parametrize(("glyphs", "first"), [(ASCII, "|all"), (MONO, "▏all")])
async def test_in_other_alphabets(glyphs: Glyphs, first: str) -> None:
    async with shown(glyphs=glyphs) as (app, pilot):
        await pilot.press("j", "j", "j")
        assert lines(app)[1].startswith(first)
        assert glyphs.name != "ascii" or all(line.isascii() for line in lines(app))


async def test_without_color_a_line_fills_a_bar_and_the_cursor_has_an_edge_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with shown(glyphs=MONO) as (app, pilot):
        await pilot.press("j", "j")
        assert lines(app)[2][:30] == "▏main  train.py:9─────────────"
        assert lines(app)[3][:20] == f"{MONO.chosen}train  train.py:3  "


async def test_arrows_move_from_frame_to_frame() -> None:
    async with shown() as (app, pilot):
        view, seen = app.pane.flame_view, []
        for key in ("down", "down", "right", "right", "left", "down", "right", "left", "up", "home"):
            await pilot.press(key)
            seen.append("all" if view.row is None else view.row["call"].split()[-1])
        assert seen == ["main", "train", "save>", "save>", "train", "Linear_0", "load", "Linear_0", "train", "all"]
        await pilot.press("j", "j")
        assert lines(app)[-2:] == [
            " train.py(3): train",
            " 70.0 % of all, total 70.00 us, self 10.00 us",
        ]


async def test_enter_widens_a_frame_and_backspace_the_one_around_it() -> None:
    async with shown() as (app, pilot):
        view = app.pane.flame_view
        await pilot.press("j", "j", "enter")
        assert lines(app)[0] == " Stacks by time on the host · 100 … in train, 70.0 %"
        assert lines(app)[3] == "▏train  train.py:3"
        assert lines(app)[4] == "▏Linear_0                    ▏load"
        await pilot.press("j")
        assert "of what is shown" in lines(app)[-1]
        await pilot.press("k", "k")  # what is around it is more than all that is shown
        assert lines(app)[-2] == " train.py(9): main"
        assert "of what is shown" not in lines(app)[-1]
        await pilot.press("j")
        await pilot.press("j", "enter")
        assert view.zoom == 2
        await pilot.press("backspace")
        assert view.zoom == 1
        await pilot.press("escape", "escape")
        assert view.zoom == ROOT_BAR
        await pilot.press("enter", "0")
        assert view.zoom == ROOT_BAR


async def test_frames_are_weighed_by_device_time_too() -> None:
    async with shown() as (app, pilot):
        await pilot.press("b")
        assert lines(app)[0] == " Stacks by device time launched · 10.0 us"
        assert lines(app)[2] == "▏main › train › Linear_0 › cudaLaunchKernel"
        await pilot.press("j", "e")
        assert [line.split()[0] for line in lines(app)[2:6]] == ["▏main", "▏train", "▏Linear_0", "▏cudaLaunchKernel"]
        await pilot.press("e", "b")
        assert lines(app)[0] == " Stacks by time on the host · 100 us"


async def test_a_weight_without_values_is_passed_over_and_told() -> None:
    b = Building()
    b.event(MAIN, "main", 0, 100, "python")
    async with shown(run_analysis(get_analysis("stacks"), b.trace())) as (app, pilot):
        await pilot.press("b")
        assert lines(app)[0] == " Stacks by time on the host · 100 us"
        assert [said.message for said in app._notifications] == ["no frame has device time launched"]


async def test_what_is_found_is_marked_and_n_leads_to_it() -> None:
    async with shown() as (app, pilot):
        await pilot.press("f", *"l.py", "enter")
        assert "0 found, 0 %" in lines(app)[0]
        await pilot.press("f", *["backspace"] * 4, *"~load|linear", "enter")
        assert "2 found, 60.0 %" in lines(app)[0]
        view = app.pane.flame_view
        assert app.focused is view
        assert view.row is not None
        assert view.row["call"] == "nn.Module: Linear_0"
        await pilot.press("n")
        assert view.row["call"] == "load.py(5): load"
        await pilot.press("enter", "N")
        assert view.row["call"] == "nn.Module: Linear_0", "it leaves the zoom"
        await pilot.press("f", "escape")
        assert "found" not in lines(app)[0]
        await pilot.press("f", *"load", "enter", "v")
        assert not app.pane.prompt.has_class("-open"), "what is found is the graph's, and not the table's"
        await pilot.press("v")
        assert "found" not in lines(app)[0]


async def test_a_frame_leads_to_its_source_its_call_and_the_table() -> None:
    async with shown() as (app, pilot):
        await pilot.press("j", "j", "j", "j", "O", "E", "g", "space")
        assert app.told == [
            ("source", "train.py(3): train"), ("edit", "train.py(3): train"),
            ("go", "cudaLaunchKernel"), ("window", "cudaLaunchKernel"),
        ]  # fmt: skip
        await pilot.press("v")
        assert app.focused is app.pane.table_pane.table
        await pilot.press("v")
        assert app.focused is app.pane.flame_view
        await pilot.press("home", "g", "O")
        assert app.told[4:] == [("source", "")], "all is no frame"


async def test_cursor_and_zoom_stay_on_their_paths_when_the_result_changes() -> None:
    async with shown() as (app, pilot):
        view = app.pane.flame_view
        await pilot.press("j", "j", "enter", "j", "right")
        assert view.row is not None
        app.pane.table_pane.table.result = replace(
            stacks(), table=stacks().table.filter(pl.col("call") != "cudaLaunchKernel")
        )
        await pilot.pause()
        assert view.row["call"] == "load.py(5): load"
        assert view.frames is not None
        assert view.frames.path(view.zoom) == ("train.py(9): main", "train.py(3): train")
        app.pane.table_pane.table.result = replace(stacks(), table=stacks().table.head(1))
        await pilot.pause()
        assert view.row["call"] == "train.py(9): main"
        app.pane.table_pane.table.result = None
        await pilot.pause()
        assert lines(app)[1] == " no frames"


async def test_a_key_dirties_only_the_lines_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown() as (app, pilot):
        await pilot.press("j")
        regions: list[object] = []
        monkeypatch.setattr(app.pane.flame_view, "refresh", lambda *found, **_: regions.extend(found or ["all"]))
        app.pane.flame_view.cursor = 1
        assert sorted(region.y for region in regions) == [2, 3, 10]  # type: ignore[attr-defined]


async def test_a_graph_deeper_than_the_screen_scrolls() -> None:
    names = pl.DataFrame(
        {"call": [f"f{n}" for n in range(30)], "total": [30 - n for n in range(30)], "depth": range(30)}
    )
    deep = replace(stacks(), table=_padded(names))
    async with shown(deep) as (app, pilot):
        assert "23 lines below" not in lines(app)[0]
        assert lines(app)[0].endswith("22 lines below")
        frames = app.pane.flame_view.frames
        assert frames is not None
        assert frames.title(-1, 1, "·").endswith("· 1 line below")
        await pilot.press(*["j"] * 12)
        assert any("f11" in line for line in lines(app))
        await pilot.press("home")
        assert "all" in lines(app)[1]


def _padded(table: pl.DataFrame) -> pl.DataFrame:
    """A table of stacks with nothing in the other columns."""
    schema = stacks().table.schema
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in schema.items()
    )


async def test_the_name_of_a_frame_is_copied() -> None:
    async with shown() as (app, pilot):
        await pilot.press("j", "c")
        assert app.clipboard == "train.py(9): main"
