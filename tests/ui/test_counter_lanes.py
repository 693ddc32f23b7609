"""Counters on the timeline: their graphs, their values, and the keys that work on them."""

from __future__ import annotations

import polars as pl
import pytest

from building import US, Building, stream, thread
from exploring import rows_in_full
from stages import lines, stage
from tracehound.draw.counter_graph import load_counter_graph
from tracehound.draw.glyphs import ASCII, UNICODE, Glyphs
from tracehound.formats.assembly.counter_samples import FileCounters
from tracehound.model.trace import COUNTERS, Trace
from tracehound.store import merge_file_frames
from tracehound.ui.state.view import View
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.wording.event_facts import describe_counter

SAMPLES = [(0, 0.0), (250, 512.0), (500, 1024.0), (750, 256.0)]


def trace() -> Trace:
    b = Building()
    b.event(stream(0), "gemm", 0, 1000)
    b.event(thread(), "op", 0, 1000, "op")
    frame = pl.DataFrame([(0, at * US, value) for at, value in SAMPLES], schema=COUNTERS, orient="row")
    b.counters = FileCounters([{"host": 0, "rank": 0, "name": "memory", "unit": "bytes", "order": 1}], frame)
    return merge_file_frames("counted", [b.part()])


TRACE = trace()
LANE = TRACE.lanes.filter(role="counter")["lane"][0]


def drawn(timeline: Timeline) -> list[str]:
    """The lines of the counter, gutter and all."""
    found = [at for at, line in enumerate(timeline.outline.lines) if line.lane == LANE]
    return [lines(timeline)[at + timeline._header_lines] for at in found]


@pytest.mark.parametrize(("glyphs", "steps"), [(UNICODE, "_▄█▂"), *rows_in_full((ASCII, "_=@:"))])
async def test_a_counter_is_a_graph_under_its_rank(glyphs: Glyphs, steps: str) -> None:
    async with stage(trace=TRACE, glyphs=glyphs) as (_, timeline, _):
        (line,) = drawn(timeline)
        assert line[1:7] == "memory"
        assert "".join(dict.fromkeys(line[timeline.gutter_width :])) == steps


def test_beside_a_longer_recording_a_counter_ends_with_its_own() -> None:
    longer = Building(name="longer")
    longer.event(stream(1), "gemm", 0, 4000)
    both = merge_file_frames("two", [TRACE.parts[0], longer.part()])
    graph = load_counter_graph(both, both.lanes.filter(role="counter")["lane"][0])
    assert (graph.value_at(1000 * US), graph.value_at(1001 * US), graph.until) == (256.0, None, 1000 * US)


async def test_the_value_at_the_focus_is_beside_it() -> None:
    async with stage((160, 24), trace=TRACE) as (_, timeline, _):
        timeline.view = View(0, 1000 * US, focus=600 * US)
        assert drawn(timeline)[0][: timeline.gutter_width - 2].split() == ["memory", "1.00", "KiB"]


async def test_large_it_has_its_value_and_its_scale() -> None:
    async with stage((80, 24), trace=TRACE) as (_, timeline, pilot):
        timeline.view = View(0, 1000 * US, lane=LANE, focus=300 * US)
        await pilot.press("e")
        assert [line[1 : timeline.gutter_width - 2].strip() for line in drawn(timeline)] == [
            "memory", "512 B", "to 1.00 KiB", "from 0 B",
        ]  # fmt: skip
        await pilot.press("e")
        assert len(drawn(timeline)) == 1


async def test_next_and_previous_go_to_where_the_value_changes() -> None:
    async with stage(trace=TRACE) as (app, timeline, pilot):
        timeline.view = View(0, 1000 * US, lane=LANE, focus=300 * US)
        await pilot.press(".")
        assert timeline.view.focus == 500 * US
        await pilot.press(",", ",")
        assert (timeline.view.focus, timeline.view.event) == (0, None)
        assert app.views


async def test_lanes_are_walked_through_it_and_it_is_clicked() -> None:
    async with stage(trace=TRACE) as (_, timeline, pilot):
        await pilot.press("J", "J")
        assert timeline.view.lane == LANE
        at = next(y for y, line in timeline._viewport.numbered_lines if line.lane == LANE)
        await pilot.click(Timeline, offset=(60, at))
        assert (timeline.view.lane, timeline.view.event) == (LANE, None)
        await pilot.press("enter")
        assert timeline.view.event is None


def test_in_words() -> None:
    seen = View(200 * US, 600 * US, lane=LANE, focus=300 * US)
    assert describe_counter(TRACE, seen) == ("memory", "512 B here", "0 B to 1.00 KiB in sight", "at most 1.00 KiB")
    assert describe_counter(TRACE, View(lane=TRACE.lanes.filter(role="thread")["lane"][0])) == ()
    assert describe_counter(TRACE, View()) == ()
