"""From every row of every analysis a key leads to its place in the timeline, and another one back."""

from __future__ import annotations

from pathlib import Path

import pytest

from building import US, Building, stream, thread
from exploring import explored, in_full, press, read_once, said
from tracehound.analysis import ANALYSES, Options, run_analysis
from tracehound.analysis.result import Column
from tracehound.analysis.topics import unavailable_note
from tracehound.model.trace import Window
from tracehound.store import load_trace
from tracehound.ui.bindings.keys import KEYS
from tracehound.ui.panes.pane_menu import menu_keys
from tracehound.ui.state import row_target, view_moves
from tracehound.ui.state.view import View

NOWHERE = {
    "health": "what was repaired lies in a file",
    "findings": "some are of the whole run",
    **dict.fromkeys(("hlo_memory", "hlo_heap", "hlo_buffers", "allocator"), "of a program, whenever it runs"),
}
"""Analyses of which rows may lead nowhere, and why."""


@pytest.mark.parametrize("sample", ["torch_stacks", *in_full("jax_cpu8_b128", "torch_xla_single")])
def test_rows_lead_somewhere(samples: Path, sample: str) -> None:
    trace = load_trace(read_once(samples / sample))
    for analysis in ANALYSES:
        if unavailable_note(analysis.name, trace) or analysis.name in NOWHERE:
            continue
        result = run_analysis(analysis, trace, Window(), Options(20))
        for row in result.table.iter_rows(named=True):
            about_all = "rank" in row and row["rank"] is None
            assert about_all or row_target.has_target(trace, row), (analysis.name, row)


def test_a_row_shows_its_stretch_and_its_event_where_that_was_before() -> None:
    building = Building()
    building.event(thread(), "data", 0, 5, "annotation")
    building.event(thread(), "inside", 60, 90, "annotation")
    trace = building.trace()
    before, inside = trace.events().collect()["id"].to_list()
    waited = {"start": 50 * US, "duration": 20 * US, "rank": 0}
    for event, low in ((before, 0), (inside, 50)):
        gone = row_target.go_to_row_target(trace, view_moves.show_whole_run(trace, View()), {**waited, "event": event})
        assert gone.event == event
        assert gone.start <= low * US
        assert gone.end >= 70 * US
        assert gone.end - gone.start < 1.5 * (70 - low) * US


def test_a_column_leads_to_what_it_is_about() -> None:
    building = Building()
    building.event(thread(), "launch", 0, 5, "runtime")
    building.event(stream(), "gemm", 50, 90)
    trace = building.trace()
    call, work = trace.events().collect()["id"].to_list()
    view = view_moves.show_whole_run(trace, View())
    row = {"call": "launch", "call_max": 5 * US, "at": 2 * US, "call_event": call, "event": work, "rank": 0}
    for name in ("call", "call_max"):
        gone = row_target.go_to_column_target(trace, view, row, Column(name, "text", ""))
        assert gone is not None
        assert gone.event == call, name
    assert row_target.go_to_column_target(trace, view, row, Column("kernel", "text", "")) is None
    assert row_target.go_to_column_target(trace, view, row, None) is None
    there = row_target.go_to_column_target(trace, view, row, Column("at", "instant", ""))
    assert there is not None
    assert there.focus == 2 * US
    odd = {**row, "at": 10**18, "call_event": -4}
    assert row_target.go_to_column_target(trace, view, odd, Column("at", "instant", "")) is None
    assert row_target.go_to_column_target(trace, view, odd, Column("call", "text", "")) is None


async def test_a_row_without_a_place_says_so(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo")) as (explorer, pilot):
        before = explorer.view
        await press(pilot, "8", "enter")
        assert "no place in the timeline" in said(explorer)
        await press(pilot, "space")
        assert "no window" in said(explorer)
        assert explorer.view == before


async def test_there_and_back(samples: Path) -> None:
    async with explored(read_once(samples / "torch_stacks")) as (explorer, pilot):
        before = explorer.view
        await press(pilot, "M", menu_keys(KEYS)["operators"], "down", "enter")
        assert explorer.view.event is not None
        await press(pilot, "u")
        assert explorer.view == before
