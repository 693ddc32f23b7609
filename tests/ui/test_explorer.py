"""The explorer through its keys: what a person does, and what every pane then shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest
from msgspec.structs import replace
from textual.containers import VerticalScroll
from textual.widgets import Input

from building import US
from exploring import (
    PATIENCE,
    explored,
    header,
    in_full,
    press,
    read_once,
    rows_in_full,
    said,
    selected,
    settled,
    slices,
    until,
    written,
)  # fmt: skip
from stages import TRACE
from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.draw.text_wrapping import wrap_paragraphs
from tracehound.errors import TracehoundError
from tracehound.model.notes import text_note
from tracehound.model.trace import FileFrames, Trace
from tracehound.store import TraceReader, open_trace_files
from tracehound.ui.bindings.keys import KEYS, Group
from tracehound.ui.explorer_app import ExplorerApp, ExplorerCommands
from tracehound.ui.panes import pane_menu
from tracehound.ui.panes.arrivals_pane import ArrivalsPane
from tracehound.ui.panes.details_pane import FactSheet
from tracehound.ui.panes.overview_pane import OverviewPane
from tracehound.ui.panes.pane_stack import PANE_TABS
from tracehound.ui.panes.rank_map_pane import RankMapPane
from tracehound.ui.screens.comparison_screen import ComparisonScreen
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.screens.hlo_screen import HloView
from tracehound.ui.screens.source_screen import CodeView
from tracehound.ui.screens.text_dialogs import HelpScreen
from tracehound.ui.widgets.flame_view import FlameView
from tracehound.ui.widgets.prompts import AnswerInput, PromptInput
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.widgets.status_bars import TabBar
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.widgets.timeline_panel import TimelinePanel
from tracehound.ui.wording.messages import header_parts, why_empty


def lines(widget: ResultTable | Timeline | TabBar) -> list[str]:
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


def table(explorer: ExplorerScreen, name: str) -> ResultTable:
    return explorer.pane_stack.table_pane(name).table


def caption(explorer: ExplorerScreen, name: str) -> str:
    return explorer.pane_stack.table_pane(name).caption.render_line(0).text


async def test_header_says_what_is_open(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, _):
        assert " ".join(header(explorer).split()) == (
            "worker0.json 45.7 %, 500 us: the GPU idles before its first kernel · 1 rank"
        )
        explorer.header.finding = ()
        assert " ".join(header(explorer).split()) == "worker0.json 1 rank · Test GPU · 2.00 ms · PyTorch"


@pytest.mark.thorough
async def test_header_says_how_many_ranks_are_shown(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (140, 24)) as (explorer, pilot):
        assert " 2 ranks" in header(explorer)
        await press(pilot, "R", "1", "enter")
        assert " 1 of 2 ranks · " in header(explorer), "before the top finding"
        await press(pilot, "X")
        assert " 2 ranks" in header(explorer)


def test_header_names_a_device_that_all_ranks_are_on() -> None:
    apart = replace(TRACE, ranks=TRACE.ranks.with_columns(model=pl.lit(None, pl.String)))
    assert not {"GPU 0", "GPU 1"} & set(header_parts(apart))
    assert "GPU 1" in header_parts(apart, [1])
    assert "GPU 0" in header_parts(replace(apart, ranks=apart.ranks.with_columns(label=pl.lit("GPU 0"))))


@pytest.mark.thorough
async def test_header_says_whole_facts_beside_a_window(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "4", "space")
        for width in range(70, 100):
            await pilot.resize_terminal(width, 24)
            await settled(pilot)
            facts = header(explorer).split(explorer.header.window)[-1].split(" · ")[1:]
            assert {fact.strip() for fact in facts} <= {"filtered to window", "Esc clears", *explorer.header.facts}


async def test_header_says_what_is_selected_beside_a_window(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "4", "space")
        assert "filtered to window · Esc clears" in header(explorer)
        await press(pilot, "T", "enter")
        assert selected(explorer) is not None
        assert explorer.header.window in header(explorer)
        assert "Esc clears" not in header(explorer)
        assert explorer.header.event[0][:12] in header(explorer)


@pytest.mark.thorough
async def test_what_stands_at_the_right_of_a_header_leaves_room_for_what_is_open(opening: TraceReader) -> None:
    async with explored(opening, (40, 10)) as (explorer, pilot):
        explorer.header.place = "a_kernel_of_which_there_are_many 232 of 241"
        await pilot.pause()
        name, *_, place = header(explorer).split()
        assert name == explorer.header.title[: len(name)]
        assert len(name) > 3
        assert place == "241"
        assert len(header(explorer)) == 40


async def test_header_says_that_something_is_lost(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:-400])
    async with explored(open_trace_files([path])) as (explorer, _):
        assert " incomplete: see health · 45.7 %, " in header(explorer), "no finding hides that"


@pytest.mark.thorough
async def test_a_key_that_leads_nowhere_says_why(opening: TraceReader, samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo")) as (explorer, pilot):
        for key, why in {"]": "no device", "[": "no device", "b": "no device lanes", "O": "no event"}.items():
            await press(pilot, "T", key)
            assert why in said(explorer)
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "T", *"]" * 9)
        assert "no next gap of 20.0 us or more here" in said(explorer)
        await press(pilot, "escape", *"[" * 9)
        assert "no gap before of" in said(explorer)


async def test_ops_lead_to_the_longest_instance_and_from_it_to_the_others(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "2")
        assert pilot.app.focused is table(explorer, "ops")
        assert "softmax" in lines(table(explorer, "ops"))[1]

        await press(pilot, "enter")
        assert selected(explorer) == "void softmax<float>(float*)"
        longest = explorer.view.event
        assert longest is not None
        assert explorer.trace is not None
        assert explorer.trace.event(longest)["end"] - explorer.trace.event(longest)["start"] == 97_000_000
        assert "4 of 4" in header(explorer)

        seen = [longest]
        for place in ("1 of 4", "2 of 4", "3 of 4", "4 of 4"):
            await press(pilot, "n")
            assert place in header(explorer)
            assert explorer.view.event is not None
            seen.append(explorer.view.event)
        assert seen[0] == seen[-1]
        assert len(set(seen)) == 4
        await press(pilot, "N")
        assert "3 of 4" in header(explorer)
        assert explorer.header.place == "3 of 4", "the name stands beside it"
        assert header(explorer).count("softmax") == 1
        await press(pilot, "T", "full_stop")
        assert not explorer.header.place, "another event is selected"
        await press(pilot, "n")
        assert explorer.header.place == "4 of 4", "and n goes on"
        await press(pilot, "left_parenthesis", "escape")
        explorer.view = replace(explorer.view, event=None)
        assert not explorer.header.place


async def test_a_key_pressed_before_the_instances_are_known_counts(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "2")
        await pilot.press("enter", "n")
        await settled(pilot)
        assert "1 of 4" in header(explorer)


@pytest.mark.parametrize("size", [(80, 24), *in_full((200, 50))])
async def test_a_gap_and_what_the_host_did_in_it(opening: TraceReader, size: tuple[int, int]) -> None:
    async with explored(opening, size) as (explorer, pilot):
        await press(pilot, "3")
        gap = table(explorer, "gaps").row
        assert gap is not None
        host = table(explorer, "gap-host")
        (loading,) = [line for line in lines(host) if "load batch" in line]
        assert " us" in loading, "for how long is told, if not for which part"
        assert host.region.x > table(explorer, "gaps").region.x, "beside the list, not below it"
        assert "softmax" in explorer.pane_stack.gaps.lines.render_line(0).text
        assert "gemm" in explorer.pane_stack.gaps.lines.render_line(1).text
        launch = explorer.pane_stack.gaps.lines.render_line(2).text
        assert "cudaLaunc" in launch
        assert "before its end" in launch, "however narrow, when it was launched is told"
        assert ("on thread" in launch) == (size[0] > 80)

        await press(pilot, "j", "k", "enter")
        view = explorer.view
        assert view.selection == (gap["start"], gap["start"] + gap["duration"])
        length = view.end - view.start
        assert gap["duration"] / length == pytest.approx(0.5, abs=0.01), "the gap fills half of the timeline"
        assert "window" in header(explorer)
        assert table(explorer, "gaps").passing_row_count > 1, "the list it was picked from keeps its rows"
        assert "whole run" in caption(explorer, "gaps"), "though the header says that tables are filtered"
        assert "window" in caption(explorer, "gap-host")
        await press(pilot, "escape")
        assert "filtered" not in header(explorer)


async def test_every_table_follows_the_selected_window(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "2")
        assert "whole run" in caption(explorer, "ops")
        whole = table(explorer, "ops").row
        await press(pilot, "4", "down", "space")
        assert explorer.view.selection is not None
        step = explorer.view.selection
        assert step[1] - step[0] == 906_000_000, "from when the work of the step before has ended"
        assert table(explorer, "steps").passing_row_count == 2

        await press(pilot, "2")
        assert "in the 906 us window" in caption(explorer, "ops")
        part = table(explorer, "ops").row
        assert whole is not None
        assert part is not None
        assert part["count"] < whole["count"]
        for pane in ("3", "5", "6", "7"):
            await press(pilot, pane)
            assert "in the 906 us" in caption(explorer, explorer.pane_stack.active_results[0])

        await press(pilot, "8")
        assert "whole run" in caption(explorer, "health"), "nothing narrows what is said of the reading"

        await press(pilot, "7", "escape")
        assert explorer.view.selection is None
        assert "whole run" in caption(explorer, explorer.pane_stack.active_results[0])
        assert "window" not in header(explorer)


@pytest.mark.thorough
async def test_a_range_marked_in_the_timeline_narrows_the_tables(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "2", "T", "j", "j", "v", "full_stop", "v")
        assert explorer.view.selection is not None
        assert "window" in caption(explorer, "ops")


async def test_annotations_lead_to_their_event_and_to_their_window(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "5")
        names = [line.split("  ")[0].strip() for line in lines(table(explorer, "annotations"))]
        row = names.index("load batch") - 1
        await press(pilot, *["down"] * row, "enter")
        assert selected(explorer) == "load batch"
        assert explorer.view.selection is None
        await press(pilot, "w")
        assert explorer.view.selection is not None
        assert explorer.view.selection[1] - explorer.view.selection[0] == 400_000_000


@pytest.mark.parametrize("key", ["enter", *in_full("space")])
async def test_both_keys_select_a_step_as_its_row_has_it(opening: TraceReader, key: str) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "4", "down", key)
        row = table(explorer, "steps").row
        assert row is not None
        assert explorer.view.selection == (row["start"], row["start"] + row["duration"])
        assert explorer.view.event is None, "which would be the mark, of other bounds"
        assert "step 2 until its work is done; its mark: 1.00 ms at 1.000 ms" in said(explorer)
        assert table(explorer, "steps").passing_row_count == 2
        await press(pilot, "T", "left_parenthesis")
        assert explorer.view.selection == (1_000_000_000, 2_000_000_000)
        await press(pilot, "9")
        assert "2, as it is marked" in "\n".join(lines(explorer.selected.details.fact_sheet))


@pytest.mark.parametrize(
    ("name", "key"),
    [("breakdown", "enter"), *rows_in_full(("breakdown", "space"), ("distributed", "enter"), ("distributed", "space"))],
)
async def test_both_keys_select_a_step_as_it_is_marked_where_its_row_is_of_the_mark(
    opening: TraceReader, key: str, name: str
) -> None:
    async with explored(opening) as (explorer, pilot):
        explorer.results.set_settings(name, (("by", "step"),))
        await press(pilot, *(["7"] if name == "breakdown" else ["M", pane_menu.menu_keys(KEYS)[name]]), "down", key)
        row = table(explorer, name).row
        assert row is not None
        assert explorer.view.selection == (row["start"], row["start"] + row["span"]) == (1_000_000_000, 2_000_000_000)
        assert explorer.view.event is None
        assert "step 2, as it is marked" in said(explorer)
        assert table(explorer, name).passing_row_count == 2


@pytest.mark.parametrize("key", ["space", *in_full("enter")])
async def test_both_keys_select_the_part_of_a_step_that_its_row_is_of(opening: TraceReader, key: str) -> None:
    async with explored(opening) as (explorer, pilot):
        explorer.results.set_settings("breakdown", (("by", "step"),))
        explorer.view = replace(explorer.view, selection=(1_200_000_000, 1_900_000_000))
        await press(pilot, "7", key)
        assert explorer.view.selection == (1_200_000_000, 1_900_000_000)
        assert "step 2 as its row has it; its mark: 1.00 ms at 1.000 ms" in said(explorer)


async def test_search_counts_while_one_types_and_cycles(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "slash", *"LAUNCH")
        assert explorer.pane_stack.active == "search"
        assert "1 of 8" in header(explorer)
        row = table(explorer, "search").row
        assert row is not None
        assert (row["name"], row["count"], row["total"]) == ("cudaLaunchKernel", 8, 40_000_000)
        assert explorer.view.event is None, "typing moves nothing"

        await press(pilot, "enter")
        assert selected(explorer) == "cudaLaunchKernel"
        assert explorer.view.needle == "LAUNCH"
        await press(pilot, "n", "n")
        assert "3 of 8" in header(explorer)
        await press(pilot, "N", "N", "N")
        assert "8 of 8" in header(explorer)


async def test_search_is_over_hosts_and_devices_and_by_regular_expression(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "slash")
        explorer.search_session.prompt.input.value = "~^(gemm|aten::)"
        await settled(pilot)
        names = table(explorer, "search").result
        assert names is not None
        assert sorted(names.table["name"].to_list()) == ["aten::copy_", "gemm"]
        explorer.search_session.prompt.input.value = "~("
        await settled(pilot)
        assert "unclosed group" in str(explorer.search_session.prompt._count.render())
        said = " ".join(lines(table(explorer, "search")))
        assert "not a regular expression" in said
        assert "unclosed group" in said
        assert explorer.walk is None, "that there is no match is not known"
        await press(pilot, "escape")
        assert not explorer.search_session.prompt.is_open


@pytest.mark.parametrize("key", ["escape", *in_full("enter")])
@pytest.mark.thorough
async def test_after_a_search_the_keys_are_where_they_were(opening: TraceReader, key: str) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "T", "slash", *"gemm", key)
        assert explorer.focused is explorer.timeline
        await press(pilot, "2", "slash", *"gemm", key)
        assert explorer.focused is table(explorer, "search"), "it stands in the place of the ops"
        assert "Enter go" in said(explorer)
        await press(pilot, "z", "slash", *"x", key)
        assert explorer.focused is table(explorer, "search"), "the timeline is not on the screen"
        assert "Enter go" in said(explorer)


@pytest.mark.thorough
async def test_a_line_that_is_left_makes_way_for_the_footer(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        for key in ("slash", "g", "m"):
            await press(pilot, "T", key)
            assert isinstance(explorer.focused, Input), key
            assert "Esc leave" in "".join(strip.text for strip in explorer._compositor.render_strips()[-1:]), key
            await press(pilot, "shift+tab")
            assert not isinstance(explorer.focused, Input), key
            assert explorer.key_bar.display, key
            assert not any(each.region.height for each in explorer.query(Input)), "nothing is asked any more"


@pytest.mark.thorough
async def test_one_thing_is_asked_at_a_time(opening: TraceReader) -> None:
    """What is asked by the palette, too, while a search is typed."""
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "T", "slash")
        await explorer.run_action("travel('mark')")
        await settled(pilot)
        assert isinstance(explorer.focused, AnswerInput)
        assert not explorer.search_session.prompt.is_open
        assert not explorer.key_bar.display
        await press(pilot, "escape")
        assert explorer.focused is explorer.timeline
        assert explorer.key_bar.display


@pytest.mark.thorough
async def test_an_empty_search_says_what_to_type(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "slash", "g", "backspace")
        assert caption(explorer, "search").split() == ["Search", "·", "whole", "run"]
        assert "type part of a name" in " ".join(lines(table(explorer, "search")))
        assert explorer.walk is None


@pytest.mark.parametrize("width", [80, *in_full(40, 100)])
async def test_the_tab_in_sight_is_named_and_the_last_others_make_way(opening: TraceReader, width: int) -> None:
    async with explored(opening, (width, 24)) as (explorer, pilot):
        for keys, name in (("t", "t host"), (["slash", "g"], "/ "), ("9", "9 details")):
            await press(pilot, *keys)
            assert name in lines(explorer.pane_layout.tabs)[0]
            assert lines(explorer.pane_layout.tabs)[0].startswith(" 1 over")
            assert "M all" in lines(explorer.pane_layout.tabs)[0]
            await press(pilot, "escape")


async def test_threads_of_the_window_are_a_key_away(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "t")
        assert explorer.pane_stack.active == "host"
        assert any("load batch" in line for line in lines(table(explorer, "host")))


@pytest.mark.thorough
async def test_a_search_from_another_tab_shows_what_it_finds(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "/", *"gemm", "escape", "2", "/", "f")
        assert explorer.pane_stack.active == "search"
        assert any("softmax" in line for line in lines(table(explorer, "search")))


@pytest.mark.thorough
async def test_a_pane_that_is_chosen_before_the_search_is_done_stays(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "/")
        explorer.search_session.prompt.input.value = "gemm"
        explorer.search_session.search_typed_text("gemm")
        explorer.search_session.submit("gemm")
        explorer.action_show("details")
        await settled(pilot)
        assert explorer.trace is not None
        assert explorer.view.event is not None
        assert explorer.trace.event(explorer.view.event)["name"] == "gemm"
        assert explorer.pane_stack.active == "details"


@pytest.mark.thorough
async def test_a_search_without_matches_says_so(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "slash", *"zebra", "enter")
        assert "no match" in header(explorer)
        assert "no event has such a name" in " ".join(lines(table(explorer, "search")))
        await press(pilot, "n")
        assert explorer.view.event is None


@pytest.mark.thorough
async def test_details_are_all_that_the_file_has(opening: TraceReader) -> None:
    async with explored(opening, (80, 40)) as (explorer, pilot):
        await press(pilot, "2", "enter", "9")
        assert explorer.selected.details.display
        screen = "\n".join(strip.text for strip in explorer._compositor.render_strips())
        for word in ("softmax", "launched by", "cudaLaunchKernel", "correlation", "stream 7, rank 0"):
            assert word in screen


@pytest.mark.thorough
async def test_details_stand_beside_the_tables_where_there_is_room(opening: TraceReader) -> None:
    async with explored(opening, (160, 40)) as (explorer, pilot):
        await press(pilot, "2", "enter")
        assert explorer.selected.details.display
        assert explorer.selected.details.region.x > table(explorer, "ops").region.x
        await press(pilot, "9")
        assert pilot.app.focused is explorer.selected.details.fact_sheet
        assert explorer.pane_stack.active == "ops", "the table stays"
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        assert not explorer.selected.details.display


@pytest.mark.thorough
async def test_tables_have_the_room_of_the_details_until_there_is_something_to_say(opening: TraceReader) -> None:
    async with explored(opening, (200, 50)) as (explorer, pilot):
        await press(pilot, "2")
        details, ops = explorer.selected.details, table(explorer, "ops")
        assert not details.display
        assert explorer.pane_stack.size.width == 200
        await press(pilot, "enter")
        assert details.display
        width = explorer.pane_stack.size.width
        explorer.view = replace(explorer.view, event=None)
        await press(pilot, "down")
        assert (details.display, explorer.pane_stack.size.width) == (True, width), "they stay: nothing jumps"
        assert ops.size.width < 200


async def test_a_key_of_another_pane_says_so(opening: TraceReader) -> None:
    async with explored(opening, (120, 24)) as (explorer, pilot):
        await press(pilot, "9")
        for key, meaning in (("R", "Choose ranks"), ("(", "Select the previous step"), ("0", "Fit the whole run")):
            await press(pilot, key)
            does = f"{key} does nothing in the details; in the timeline (T goes there): {meaning}"
            assert does in explorer.key_bar.message
        await press(pilot, "j")
        assert not explorer.key_bar.message
        await press(pilot, "slash", "R")
        assert not explorer.key_bar.message, "text"


@pytest.mark.thorough
async def test_what_a_key_of_another_pane_does_is_cut_behind_a_word(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "E")
        assert said(explorer).strip() == ("E does nothing in the timeline; in the flame graph: Open it in $VISUAL or…")
        await press(pilot, "2")
        await pilot.resize_terminal(60, 15)
        await press(pilot, "R")
        assert said(explorer).strip() == "R does nothing in tables; in the timeline (T goes there)"


@pytest.mark.thorough
async def test_keys_without_room_are_left_out_whole(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        for width in (60, 40, 20):
            await pilot.resize_terminal(width, 24)
            await settled(pilot)
            named = {f"{key.shown.split()[0]} {key.label}" for key in explorer.keys}
            assert set(said(explorer).strip().split("  ")) <= named


@pytest.mark.thorough
async def test_the_footer_of_the_details_offers_what_can_be_done(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "9")
        assert "source" not in said(explorer)
        assert "find" in said(explorer)
        await press(pilot, "2", "enter", "9")
        assert "source" in said(explorer)


@pytest.mark.thorough
async def test_details_that_are_gone_to_are_there_without_an_event(opening: TraceReader) -> None:
    async with explored(opening, (200, 50)) as (explorer, pilot):
        await press(pilot, "9")
        assert explorer.selected.details.display
        assert pilot.app.focused is explorer.selected.details.fact_sheet


@pytest.mark.parametrize("keys", [("{", "{"), *in_full((), ("}",))])
@pytest.mark.thorough
async def test_a_size_that_is_back_is_shared_as_before(opening: TraceReader, keys: tuple[str, ...]) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, *keys)
        before = [strip.text for strip in explorer._compositor.render_strips()]
        for other in ((10, 3), (30, 8), (200, 60)):
            await pilot.resize_terminal(*other)
            await settled(pilot)
            await pilot.resize_terminal(80, 24)
            await settled(pilot)
            assert [strip.text for strip in explorer._compositor.render_strips()] == before, other


@pytest.mark.thorough
async def test_a_timeline_that_cannot_grow_remembers_what_was_wanted(opening: TraceReader) -> None:
    async with explored(opening, (80, 40)) as (explorer, pilot):
        await press(pilot, *"}}}}")
        height = explorer.timeline.size.height
        await pilot.resize_terminal(80, 16)
        await settled(pilot)
        least = explorer.timeline.size.height
        await press(pilot, *"}}}")
        assert explorer.timeline.size.height == least
        await pilot.resize_terminal(80, 40)
        await settled(pilot)
        assert explorer.timeline.size.height == height
        await pilot.resize_terminal(80, 16)
        await settled(pilot)
        await press(pilot, "{")
        assert explorer.timeline.size.height == least - 2, "a key that can do something does so at once"


async def test_zoom_and_sizes(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        height = explorer.timeline.size.height
        await press(pilot, "}")
        assert explorer.timeline.size.height == height + 2
        await press(pilot, "{")
        assert explorer.timeline.size.height == height
        await press(pilot, "T", "z")
        assert explorer.timeline.size.height > 20
        await press(pilot, "z", "2", "z")
        assert table(explorer, "ops").size.height > 18
        await press(pilot, "3")
        pane = explorer.pane_stack.pane_for("gaps")
        assert pane.table.size.height + pane.caption.size.height > 19
        await press(pilot, "escape")
        assert explorer.timeline.size.height == height


@pytest.mark.thorough
async def test_another_size_is_laid_out_once(opening: TraceReader, monkeypatch: pytest.MonkeyPatch) -> None:
    layouts, lay_out = list[None](), ExplorerScreen._refresh_layout

    def counted(self: ExplorerScreen, *size: Any, **scroll: Any) -> None:
        layouts.append(None)
        lay_out(self, *size, **scroll)

    monkeypatch.setattr(ExplorerScreen, "_refresh_layout", counted)
    async with explored(opening, (200, 50)) as (_, pilot):
        await press(pilot, "2")
        for key in ("{", "}", "z", "z"):
            layouts.clear()
            await press(pilot, key)
            assert len(layouts) == 1, key


async def test_tables_filter_and_sort(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "2", "f", *"gem", "enter")
        ops = table(explorer, "ops")
        assert ops.passing_row_count == 1
        assert pilot.app.focused is ops
        assert "1 of 2 rows" in caption(explorer, "ops")
        await press(pilot, "f", "escape")
        assert ops.passing_row_count == 2

        await press(pilot, "space", "f", *"gem", "enter")
        assert explorer.view.selection is not None
        assert ops.passing_row_count == 1
        await press(pilot, "escape")
        assert ops.passing_row_count == 2, "what is nearest ends first"
        assert explorer.view.selection is not None
        await press(pilot, "escape")
        assert explorer.view.selection is None

        await press(pilot, ">")
        assert ops.order == ("name", False)
        assert lines(ops)[1].startswith(" gemm")
        await press(pilot, "o")
        assert ops.order == ("name", True)
        assert "softmax" in lines(ops)[1]
        await press(pilot, "<")
        assert ops.order is not None
        assert ops.order[0] != "name"


async def test_the_mouse_does_the_same(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await pilot.click(explorer.pane_layout.tabs, offset=(lines(explorer.pane_layout.tabs)[0].index("ops"), 0))
        await settled(pilot)
        ops = table(explorer, "ops")
        assert pilot.app.focused is ops
        await pilot.click(ops, offset=(3, 0))
        assert ops.order is not None
        assert ops.order[0] == "name"
        await pilot.click(ops, offset=(3, 2))
        assert ops.cursor == 1
        await pilot.click(ops, offset=(3, 2), times=2)
        await settled(pilot)
        assert selected(explorer) is not None
        await pilot.click(explorer.key_bar, offset=(explorer.key_bar.render_line(0).text.index("help"), 0))
        await settled(pilot)
        assert isinstance(pilot.app.screen, HelpScreen)


@pytest.mark.thorough
async def test_help_scrolls_by_pages_and_to_its_ends(opening: TraceReader) -> None:
    async with explored(opening, (80, 24)) as (_, pilot):
        await press(pilot, "?")
        page = pilot.app.screen.query_one(VerticalScroll)
        visible = page.size.height
        for key, line in (("pagedown", visible - 1), ("space", 2 * visible - 2), ("pageup", visible - 1), ("home", 0)):
            await press(pilot, key)
            assert page.scroll_offset.y == line
        for last, first in (("end", "home"), ("G", "g")):
            await press(pilot, last)
            assert page.scroll_offset.y == page.max_scroll_y > 0
            await press(pilot, first)
            assert page.scroll_offset.y == 0


@pytest.mark.thorough
async def test_hidden_lanes_say_which_key_shows_them(opening: TraceReader) -> None:
    async with explored(opening, (60, 24)) as (explorer, pilot):
        await press(pilot, "T", "j", "x")
        for width in (60, 80, 200):
            await pilot.resize_terminal(width, 24)
            await settled(pilot)
            assert any("1 hidden (X shows)" in line for line in lines(explorer.timeline)), width


@pytest.mark.thorough
async def test_help_names_every_key(opening: TraceReader) -> None:
    async with explored(opening, (200, 200)) as (_, pilot):
        await press(pilot, "?")
        screen = "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
        for key in (key for key in KEYS if key.group != "comparison"):
            assert " ".join(key.meaning.split()[:4]) in screen, key.id
        assert "Bars: a full one of a share is 100 %" in screen
        await press(pilot, "q")
        assert isinstance(pilot.app.screen, ExplorerScreen), "q closes the page, not the program"


@pytest.mark.thorough
async def test_help_begins_with_the_keys_of_what_has_the_focus(opening: TraceReader) -> None:
    async with explored(opening) as (_, pilot):
        for key, first in (("T", "Timeline"), ("2", "Tables"), ("1", "Overview"), ("3", "Tables")):
            await press(pilot, key, "?")
            screen = [strip.text for strip in pilot.app.screen._compositor.render_strips()]
            top = next(number for number, line in enumerate(screen) if "─ Keys ─" in line)
            assert screen[top + 1].strip("│▾ ").startswith(first), key
            await press(pilot, "escape")


@pytest.mark.thorough
async def test_who_leaves_sees_no_other_tab(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        pilot.app.exit()
        explorer.action_show("collectives")
        assert not explorer.pane_stack.tables["collectives"].is_attached


@pytest.mark.thorough
async def test_the_palette_says_what_the_trace_cannot_answer(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, _):
        meanings = {name: meaning for name, meaning, _ in ExplorerCommands(explorer)._commands()}
        assert meanings["Show programs"] == "needs an XLA profile"
        assert meanings["Show ops"] == get_analysis("ops").question


@pytest.mark.thorough
async def test_palette_offers_every_analysis(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "ctrl+p", *"show host", "enter")
        assert explorer.pane_stack.active == "host"
        assert any("load batch" in line for line in lines(table(explorer, "host")))


@pytest.mark.thorough
async def test_an_analysis_without_a_key_of_its_own_shows_its_rows_too(opening: TraceReader) -> None:
    """And Enter leads from one to its place in the timeline."""
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "ctrl+p", *"show kernels", "enter")
        assert explorer.pane_stack.active == "kernels"
        assert any("softmax" in line for line in lines(table(explorer, "kernels")))
        await press(pilot, "enter")
        assert selected(explorer) == "void softmax<float>(float*)"


@pytest.mark.parametrize("kind", [pl.exceptions.PanicException, *in_full(ZeroDivisionError)])
async def test_a_failing_analysis_is_one_line(
    kind: type[BaseException], opening: TraceReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise kind("by\x1b[31m nothing")

    monkeypatch.setattr("tracehound.ui.background.analysis_runner.run_analysis", broken)
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "2")
        assert caption(explorer, "ops").split() == ["▌Ops"]
        assert [line for line in lines(table(explorer, "ops")) if line] == [
            f" analysis for ops failed: {kind.__name__}: by␛[31m nothing"
        ]


@pytest.mark.thorough
async def test_names_are_neither_markup_nor_control(tmp_path: Path) -> None:
    evil = "[red]x[/red]\x1b[2J\u202e"
    event = {
        "ph": "X",
        "cat": "kernel",
        "name": evil,
        "pid": 0,
        "tid": 7,
        "ts": 0,
        "dur": 9,
        "args": {"device": 0, "s": evil},
    }
    async with explored(open_trace_files([written(tmp_path, [event])]), (120, 30)) as (explorer, pilot):
        await press(pilot, "2", "enter", "slash", "x", "enter")
        screen = "\n".join(strip.text for strip in explorer._compositor.render_strips())
        assert "[red]x[/red]␛[2J" in screen
        assert "\x1b" not in screen
        assert "\u202e" not in screen


@pytest.mark.thorough
async def test_every_tab_says_something_when_there_is_nothing(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 9, "args": {}}
    async with explored(open_trace_files([written(tmp_path, [event])])) as (explorer, pilot):
        for tab in PANE_TABS:
            explorer.action_show(tab.pane)
            await settled(pilot)
            screen = "\n".join(strip.text for strip in explorer._compositor.render_strips()[12:-1])
            assert screen.strip(), tab


@pytest.mark.thorough
async def test_an_analysis_without_a_key_has_a_pane_too_that_leads_to_its_event(opening: TraceReader) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        for name in ("idle", "launches", "queue"):
            explorer.view = replace(explorer.view, event=None)
            explorer.action_show(name)
            await settled(pilot)
            assert lines(table(explorer, name))[0].split()[0] == "rank", name
            await press(pilot, "enter")
            assert selected(explorer) in ("gemm", "cudaLaunchKernel"), name


@pytest.mark.thorough
async def test_keys_of_the_timeline_that_have_nothing_to_go_to_say_what_to_do(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "f")
        assert "nothing to zoom to" in said(explorer)
        for key in ("n", "N"):
            await press(pilot, "0", key)
            assert "/ searches, Enter selects an event" in said(explorer)
        await press(pilot, "enter", "f")
        assert explorer.view.event is not None
        assert "? help" in said(explorer), "the keys are back"
        explorer.walk = None
        await press(pilot, "n")
        assert explorer.walk is not None, "an op is walked again"


@pytest.mark.thorough
async def test_while_text_is_typed_no_key_is_named_that_would_be_text(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "enter")
        for keys in (("2", "f"), ("9", "f"), (":",), ("T", "backslash"), ("T", "R")):
            await press(pilot, *keys)
            assert isinstance(explorer.focused, Input), keys
            assert said(explorer).split() == ["Enter", "done", "Esc", "leave"], keys
            await press(pilot, "escape")
            assert "q quit" in said(explorer), keys


@pytest.mark.thorough
async def test_what_was_said_goes_with_the_next_key_that_does_something(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "T", "i")
        assert "no event selected" in said(explorer)
        await press(pilot, "f5")
        assert "no event selected" in said(explorer), "that key does nothing"
        await press(pilot, "w")
        assert "no event selected" not in said(explorer)
        assert "quit" in said(explorer)
        await press(pilot, "i", "i")
        assert "no event selected" in said(explorer), "it is as true of the second key"
        await press(pilot, "M", "escape")
        assert "quit" in said(explorer)


@pytest.mark.thorough
async def test_why_a_table_is_empty_is_said_in_full(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 9, "args": {}}
    async with explored(open_trace_files([written(tmp_path, [event])])) as (explorer, pilot):
        await press(pilot, "4")
        shown = " ".join(" ".join(lines(table(explorer, "steps"))[1:]).split())
        result = table(explorer, "steps").result
        assert result is not None
        assert shown == note_texts(result.notes)[0]


@pytest.mark.thorough
async def test_no_key_of_rows_is_named_where_there_is_none(opening: TraceReader) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        await press(pilot, "2")
        assert "Enter go" in said(explorer)
        await press(pilot, "f", *"nothing", "enter")
        assert explorer.focused is table(explorer, "ops")
        assert "Enter go" not in said(explorer)
        assert "f filter" in said(explorer)
        await press(pilot, "escape")
        assert "Enter go" in said(explorer)
        await press(pilot, "M", pane_menu.menu_keys(KEYS)["compiles"])
        assert table(explorer, "compiles").has_no_rows
        assert "Enter go" not in said(explorer)
        await press(pilot, "M", pane_menu.menu_keys(KEYS)["arrivals"])
        assert "Enter go" not in said(explorer)


@pytest.mark.thorough
async def test_a_table_of_ranks_is_empty_for_its_own_reason(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128")) as (explorer, pilot):
        explorer.action_show("clocks")
        await settled(pilot)
        first, *_ = [line.strip() for line in lines(table(explorer, "clocks"))[1:] if line.strip()]
        assert first.startswith("all 8 ranks share one clock: they are of one file")


def test_every_note_of_an_empty_result_is_a_paragraph() -> None:
    notes = text_note("a"), text_note("b")
    result = replace(
        run_analysis(get_analysis("steps"), TRACE), analysis="operator_roofline", table=pl.DataFrame(), notes=notes
    )
    assert why_empty(result, TRACE, None) == "a\nb"
    assert why_empty(result, TRACE, (0, US)) == "nothing in the 1.00 us window; Esc clears it\na\nb"
    assert wrap_paragraphs("a b\nc", 2) == ["a", "b", "c"]


class Slow:
    """An opening whose files come when they are let through."""

    def __init__(self, real: TraceReader) -> None:
        self.name, self.files, self.notes = real.name, real.files * 2, real.notes
        self.real = real
        self.wanted_files = frozenset[int]()
        self.gate = threading.Event()
        self.cancelled = threading.Event()

    def placeholder(self, _: int) -> FileFrames:
        return self.real.placeholder(0)

    def merge_frames(self, parts: Sequence[FileFrames]) -> Trace:
        return self.real.merge_frames(parts)

    def merge_on_final_clock(self, parts: Sequence[FileFrames]) -> Trace:
        return self.real.merge_on_final_clock(parts)

    def read_files(
        self, listen: Callable[..., None], cancelled: Callable[[], bool]
    ) -> Iterator[tuple[int, FileFrames]]:
        (_, part), *_ = self.real.read_files(listen)
        yield 0, part
        while not self.gate.wait(0.01):
            if cancelled():
                self.cancelled.set()
                return
        yield 1, part


@pytest.fixture
def _shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part is shown however long it takes to place it."""
    monkeypatch.setattr("tracehound.ui.background.trace_loader.MIN_PAUSE", 3600.0)


@pytest.mark.usefixtures("_shown_at_once")
@pytest.mark.thorough
async def test_the_first_part_is_explored_while_the_second_is_read(opening: TraceReader) -> None:
    slow = Slow(opening)
    app = ExplorerApp(slow)  # type: ignore[arg-type]
    async with app.run_test(size=(80, 24)) as pilot:
        explorer = app.explorer
        await until(pilot, lambda: explorer.trace_updates.any_read)
        assert explorer.trace is not None
        assert [part.lanes.height > 0 for part in explorer.trace.parts] == [True, False]
        await pilot.press("w")
        await pilot.pause()
        before = explorer.view
        slow.gate.set()
        await settled(pilot)
        assert all(part.lanes.height for part in explorer.trace.parts)
        assert (explorer.view.start, explorer.view.end) == (before.start, before.end)
        assert explorer.header.news == ""


@pytest.mark.usefixtures("_shown_at_once")
@pytest.mark.thorough
async def test_quitting_does_not_wait_for_the_reading(opening: TraceReader) -> None:
    slow = Slow(opening)
    app = ExplorerApp(slow)  # type: ignore[arg-type]
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.explorer.trace_updates.any_read)
        await pilot.press("q")
    assert app.return_code == 0
    assert slow.cancelled.wait(PATIENCE), "the reader was told"


async def test_what_cannot_be_read_ends_the_explorer_with_the_reason(opening: TraceReader) -> None:
    class Bad(Slow):
        def read_files(self, *_: object) -> Iterator[tuple[int, FileFrames]]:
            raise TracehoundError("is damaged", path=Path("worker0.json"), where="byte 17")

    app = ExplorerApp(Bad(opening))  # type: ignore[arg-type]
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
    assert str(app.failure) == "worker0.json, byte 17: is damaged"


BOUND = (
    ExplorerScreen, Timeline, TimelinePanel, ResultTable, OverviewPane, ArrivalsPane, RankMapPane, FlameView,
    FactSheet, CodeView, HloView, ComparisonScreen, PromptInput,
)  # fmt: skip


def bound() -> set[str]:
    names = set()
    for widget in BOUND:
        names |= {binding.id for binding in getattr(widget, "BINDINGS", ())}
    return names


def test_every_key_has_an_id_of_its_own_and_does_something() -> None:
    ids = [key.id for key in KEYS]
    assert len(set(ids)) == len(ids)
    for groups in (("timeline", "lanes"), *((group,) for group in get_args(Group))):
        keys = [name for key in KEYS if key.group in groups for name in key.keys]
        assert len(set(keys)) == len(keys), f"one key does two things in {groups}"
    assert {key.id for key in KEYS} <= bound()


@pytest.mark.thorough
async def test_ascii_is_ascii(tmp_path: Path) -> None:
    events = [
        *slices(),
        {"ph": "X", "cat": "cpu_op", "name": "größe…·µ", "pid": 1, "tid": 1, "ts": 1000, "dur": 9, "args": {}},
    ]
    app = ExplorerApp(open_trace_files([written(tmp_path, events)]), "ascii")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for keys in (("2",), ("3", "enter"), ("2", "enter", "9"), ("?",), ("slash", "g")):
            await press(pilot, *keys)
            screen = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
            assert screen.isascii(), (keys, [char for char in screen if not char.isascii()])
            await press(pilot, "escape")


@pytest.mark.thorough
async def test_nothing_is_wider_than_the_screen(opening: TraceReader) -> None:
    async with explored(opening, (80, 30)) as (explorer, pilot):
        for width in (80, 100, 140, 200):
            await pilot.resize_terminal(width, 30)
            for tab in ("2", "3", "4", "5", "7", "9"):
                await press(pilot, tab)
                for strip in explorer._compositor.render_strips():
                    assert strip.cell_length == width, tab
