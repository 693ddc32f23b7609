"""A timeline whose rows have to be read first."""

from __future__ import annotations

import threading
from pathlib import Path

import polars as pl
import pytest
from textual.pilot import Pilot

from exploring import PATIENCE, until
from stages import TRACE, chosen, cursor, lines, stage
from tracehound.draw.lane_cache import RowsRequest, TimelineRows
from tracehound.store import merge_file_frames
from tracehound.ui.widgets.timeline import Timeline


class Gate:
    """Lets rows be made when it is open; `made` is what was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.made: list[RowsRequest] = []
        make = TimelineRows.read_rows

        def wait(rows: TimelineRows, wish: RowsRequest) -> object:
            assert self.open.wait(PATIENCE)
            self.made.append(wish)
            return make(rows, wish)

        monkeypatch.setattr("tracehound.draw.lane_cache.FEW_EVENTS", 0)
        monkeypatch.setattr(TimelineRows, "read_rows", wait)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


async def settled(pilot: Pilot[None], timeline: Timeline) -> None:
    await pilot.pause(0.01)
    await until(pilot, lambda: not timeline.lane_loader.busy)
    await pilot.pause()


async def test_a_lane_is_its_name_until_its_slices_are_there(gate: Gate) -> None:
    async with stage() as (_, timeline, pilot):
        waiting = lines(timeline)
        assert waiting[3].split() == ["stream", "7", "│…"]
        assert "busy" not in waiting[2]
        gate.open.set()
        await settled(pilot, timeline)
        assert "ncclDevKernel_AllReduce" in lines(timeline)[3]
        assert lines(timeline)[2].rstrip().endswith("busy 69.0 % of view")
        lanes = [wish for wish in gate.made if wish.of == "lane"]
        assert lanes == list(dict.fromkeys(lanes)), "no lane is read twice"
        assert gate.made == sorted(gate.made, key=lambda wish: wish.of), "lanes before how busy ranks are"


async def test_it_looks_like_a_trace_that_was_read_at_once(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    gate.open.set()
    async with stage() as (_, timeline, pilot):
        await settled(pilot, timeline)
        await pilot.press("j", "full_stop", "end", "space")
        await settled(pilot, timeline)
        late = lines(timeline)
    monkeypatch.setattr("tracehound.draw.lane_cache.FEW_EVENTS", 10_000)
    async with stage() as (_, timeline, pilot):
        await pilot.press("j", "full_stop", "end", "space")
        await pilot.pause()
        assert lines(timeline) == late


async def test_keys_that_need_rows_count_when_they_come_and_others_at_once(gate: Gate) -> None:
    async with stage() as (app, timeline, pilot):
        await pilot.press("j", "comma", "comma", "w")
        assert (cursor(timeline), chosen(timeline)) == ("stream 7@0", None)
        assert timeline.view.end - timeline.view.start == 500_000_000
        gate.open.set()
        await settled(pilot, timeline)
        assert chosen(timeline) == "gemm"
        assert app.views[-1] == timeline.view


async def test_escape_gives_up_what_waits(gate: Gate) -> None:
    async with stage() as (_, timeline, pilot):
        await pilot.press("j", "v", "v", "comma", "escape")
        gate.open.set()
        await settled(pilot, timeline)
        assert chosen(timeline) is None


async def test_an_event_from_elsewhere_is_selected_before_its_lane_is_there(gate: Gate) -> None:
    async with stage((80, 9)) as (_, timeline, pilot):
        deepest = int(TRACE.events().collect().filter(name="frame 19")["id"][0])
        timeline.view = timeline.view.__class__(0, 900_000_000, lane=int(TRACE.event(deepest)["lane"]), event=deepest)
        await pilot.pause()
        assert any(line.startswith("▌") and "…" in line for line in lines(timeline)), "its row is in sight"
        gate.open.set()
        await settled(pilot, timeline)
        assert any("frame 19" in line for line in lines(timeline))


async def test_what_is_in_sight_is_read_and_nothing_else(gate: Gate) -> None:
    gate.open.set()
    async with stage((80, 6)) as (_, timeline, pilot):
        await settled(pilot, timeline)
        assert [wish.of for wish in gate.made] == ["lane", "lane", "rank", "rank"]
        timeline.scroll_to(y=99, animate=False)
        await pilot.pause()
        await settled(pilot, timeline)
        assert len([wish for wish in gate.made if wish.of == "lane"]) == 3, "one more, and not the one between"


async def test_rows_stay_when_the_trace_grows(gate: Gate) -> None:
    gate.open.set()
    async with stage() as (_, timeline, pilot):
        await settled(pilot, timeline)
        before = len(gate.made)
        timeline.trace = merge_file_frames("grown", TRACE.parts)
        await settled(pilot, timeline)
        assert len(gate.made) == before
        assert "ncclDevKernel_AllReduce" in lines(timeline)[3]


@pytest.mark.parametrize("error", [OSError("is gone", Path("x")), pl.exceptions.PanicException("is damaged")])
async def test_a_lane_that_cannot_be_read_is_empty(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> object:
        raise error

    monkeypatch.setattr("tracehound.draw.lane_cache.FEW_EVENTS", 0)
    monkeypatch.setattr(TimelineRows, "read_rows", gone)
    async with stage() as (_, timeline, pilot):
        await settled(pilot, timeline)
        assert not timeline.lane_loader.busy
        await pilot.press("j", "full_stop", "right_square_bracket", "enter")
        assert lines(timeline)[3].split() == ["▌stream", "7", "│"]
