"""The critical path in the timeline: marked by a key, walked, led to from its list, and ended."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from msgspec.structs import replace

from building import US
from exploring import explored, header, in_full, press, read_once, said, selected
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.draw.lane_cells import decode_style
from tracehound.model.trace import Window
from tracehound.store import load_trace, open_trace_files
from tracehound.ui.actions.critical_path_overlay import path_intervals
from tracehound.ui.bindings.keys import KEYS
from tracehound.ui.panes import pane_menu
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.wording.messages import LONGEST_INTERVAL, NO_EVENTS

LIST = ("M", pane_menu.menu_keys(KEYS)["critical_path"])


def signs(explorer: ExplorerScreen) -> int:
    timeline = explorer.timeline
    return sum(timeline.render_line(y).text.count("●") for y in range(timeline.size.height))


async def test_a_key_marks_the_path_and_ends_that(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (120, 40)) as (explorer, pilot):
        assert signs(explorer) == 0
        await press(pilot, "P")
        assert explorer.timeline.path is not None
        assert signs(explorer) > 0
        assert "critical path" in said(explorer)
        assert "critical path" in header(explorer)
        await press(pilot, "P")
        assert explorer.timeline.path is None
        assert signs(explorer) == 0
        assert explorer.walk is None


@pytest.mark.thorough
async def test_escape_ends_the_walk_on_the_path_and_then_the_path(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (120, 40)) as (explorer, pilot):
        await press(pilot, "P", "escape")
        assert explorer.walk is None
        assert explorer.timeline.path is not None
        await press(pilot, "escape")
        assert explorer.timeline.path is None


async def test_n_leads_along_the_path_and_back(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (120, 40)) as (explorer, pilot):
        await press(pilot, "P")
        assert explorer.trace is not None
        assert explorer.timeline.path is not None
        events = list(dict.fromkeys(explorer.timeline.path.event.tolist()))
        await press(pilot, "n")
        assert explorer.view.event == events[0]
        await press(pilot, "n", "n", "N")
        assert explorer.view.event == events[1]
        assert f"critical path events 2 of {len(events)}" in header(explorer)
        await press(pilot, "u")
        assert explorer.view.event == events[2], "back to where one was"


@pytest.mark.thorough
async def test_a_step_to_a_lane_that_is_not_shown_says_so(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (120, 40)) as (explorer, pilot):
        await press(pilot, "P", "n")
        explorer.timeline.set_lane_layout(replace(explorer.timeline.lane_layout, needle="no lane has this name"))
        await press(pilot, "n")
        assert explorer.timeline.outline.group_of(explorer.view.lane) is None
        assert "is not shown: X in the timeline shows all lanes" in said(explorer)
        await press(pilot, "T", "X", "n")
        assert "is not shown" not in said(explorer)


@pytest.mark.thorough
async def test_the_list_leads_to_the_marked_event(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (120, 40)) as (explorer, pilot):
        await press(pilot, *LIST, "b", "b", "down", "down", "enter")
        row = explorer.pane_stack.tables["critical_path"].table.row
        assert row is not None
        assert explorer.view.event == row["event"]
        assert selected(explorer) == row["name"]
        assert explorer.timeline.path is not None
        assert explorer.walk is not None
        assert explorer.walk.event == row["event"]
        assert len(explorer.walk) == len(set(explorer.timeline.path.event.tolist()))


async def test_sums_lead_through_the_events_that_they_are_of(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (120, 40)) as (explorer, pilot):
        await press(pilot, *LIST, "down", "enter")
        row = explorer.pane_stack.tables["critical_path"].table.row
        assert row is not None
        assert explorer.timeline.path is not None, "all of it is marked"
        assert explorer.view.event == row["event"]
        assert explorer.walk is not None
        assert len(explorer.walk) == row["count"] > 1
        await press(pilot, "n")
        assert explorer.view.event != row["event"]
        assert selected(explorer) == row["name"]
        assert f"{row['count']} of {row['count']}" in header(explorer)
        await press(pilot, *LIST, "b", "enter")
        row = explorer.pane_stack.tables["critical_path"].table.row
        assert row is not None
        assert row["name"] is None
        assert f"{row['class']} " in header(explorer)
        assert len(explorer.walk) == row["count"]


@pytest.mark.thorough
async def test_a_sum_without_an_event_leads_to_its_longest_stretch(tmp_path: Path) -> None:
    """The host is silent for 20 us, and for 55 us from 40 us on."""
    calls = [(start, 10, "cudaLaunchKernel", "cuda_runtime", 1, {}) for start in (0, 30, 95)]
    rows = [*calls, (106, 9, "gemm", "kernel", 7, {"device": 0, "stream": 7})]
    events = [
        {"ph": "X", "ts": start, "dur": length, "name": name, "cat": category, "pid": 0, "tid": tid,
         "args": {"correlation": start // 10 * 10 if tid == 1 else 90, **more}}
        for start, length, name, category, tid, more in rows
    ]  # fmt: skip
    file = tmp_path / "a.json"
    file.write_bytes(orjson.dumps({"schemaVersion": 1, "traceEvents": events}))
    async with explored(open_trace_files([file])) as (explorer, pilot):
        await press(pilot, *LIST)
        table = explorer.pane_stack.tables["critical_path"].table
        assert table.row is not None
        assert (table.row["name"], table.row["event"]) == ("nothing recorded", None)
        await press(pilot, "enter")
        assert LONGEST_INTERVAL in said(explorer)
        assert explorer.walk is None
        assert 30 * US < explorer.view.start < 40 * US < 95 * US < explorer.view.end
        await press(pilot, "n")
        assert NO_EVENTS in said(explorer)


@pytest.mark.thorough
async def test_a_row_of_another_rank_marks_the_path_of_that(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (120, 40)) as (explorer, pilot):
        await press(pilot, *LIST, "enter")
        marked = explorer.timeline.path
        await press(pilot, "end", "enter")
        assert explorer.timeline.path is not None
        assert marked is not None
        assert not set(explorer.timeline.path.event.tolist()) & set(marked.event.tolist())


@pytest.mark.thorough
async def test_the_table_of_the_path_says_what_it_is_of(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (120, 40)) as (explorer, pilot):
        await press(pilot, *LIST)
        pane = explorer.pane_stack.tables["critical_path"]
        assert pane.caption.text.heading[:3] == ("Critical path", "each rank's longest step", "131 rows")
        await press(pilot, "4", "space", *LIST)
        assert pane.caption.text.heading[1].startswith("in the ")


async def test_the_path_is_of_the_selected_window(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo"), (120, 40)) as (explorer, pilot):
        await press(pilot, "4", "space")
        window = explorer.view.selection
        assert window is not None
        await press(pilot, "P")
        assert explorer.timeline.path is not None
        assert explorer.timeline.path.span == window


async def test_a_trace_without_a_path_says_so(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128"), (120, 40)) as (explorer, pilot):
        await press(pilot, "P")
        assert explorer.timeline.path is None
        assert "no critical path: needs a trace of the PyTorch profiler" in said(explorer)


@pytest.mark.parametrize("alphabet", ["NO_COLOR", *in_full("TERM")])
@pytest.mark.thorough
async def test_a_path_reads_in_few_colors(samples: Path, alphabet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.setenv(alphabet, "1" if alphabet == "NO_COLOR" else "xterm")
    async with explored(read_once(samples / "torch_ddp_gloo"), (120, 40)) as (explorer, pilot):
        await press(pilot, "P")
        assert signs(explorer) > 0
        painter = explorer.timeline._painter
        assert painter is not None
        looks = {str(style) for code, style in painter.styles.styles.items() if decode_style(code).faded}
        others = {str(style) for code, style in painter.styles.styles.items() if not decode_style(code).faded}
        assert looks
        assert not looks & others, "what steps back looks like nothing else"


def test_stretches_without_an_event_are_not_on_the_path(samples: Path) -> None:
    trace = load_trace(read_once(samples / "torch_ddp_gloo"))
    result = run_analysis(get_analysis("critical_path"), trace, Window(ranks=(0,)), Options(given=(("by", "event"),)))
    path = path_intervals(result)
    assert path is not None
    assert len(path.event) == result.table["event"].drop_nulls().len()
    assert (path.start[1:] >= path.start[:-1]).all()
