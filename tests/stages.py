"""A timeline alone on a screen, with a small trace on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from building import Building, stream, thread
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.model.trace import Trace
from tracehound.ui.state import view_moves
from tracehound.ui.state.view import View
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.widgets.timeline_panel import TimelinePanel


def built() -> Trace:
    b = Building()
    b.event(thread(), "ProfilerStep#3", 0, 500, "step", step=3)
    b.event(thread(), "ProfilerStep#4", 500, 1000, "step", step=4)
    b.event(thread(), "aten::mm", 100, 300, "op")
    b.event(thread(), "cudaLaunchKernel", 120, 140, "runtime")
    b.event(stream(0), "gemm", 100, 200)
    b.event(stream(0), "[bold]evil\x1b[2J[/bold]", 210, 400)
    b.event(stream(0), "ncclDevKernel_AllReduce", 600, 1000, "collective")
    b.event(stream(1), "gemm", 0, 500)
    b.event(stream(1), "gemm", 900, 1000)
    for depth in range(20):
        b.event(thread("stack"), f"frame {depth}", depth, 900 - depth, "python")
    return b.trace()


TRACE = built()


class Stage(App[None]):
    """A timeline alone, and what it said."""

    CSS = "TimelinePanel { height: 1fr; }"

    def __init__(self, trace: Trace, glyphs: Glyphs) -> None:
        super().__init__()
        self.shown = trace
        self.glyphs = glyphs
        self.views: list[View] = []
        self.opened: list[int] = []
        self.refused: list[str] = []

    def compose(self) -> ComposeResult:
        yield TimelinePanel(self.glyphs)

    def on_mount(self) -> None:
        timeline = self.query_one(Timeline)
        timeline.trace = self.shown
        timeline.view = view_moves.show_whole_run(self.shown, View())
        timeline.focus()

    def on_timeline_view_changed(self, message: Timeline.ViewChanged) -> None:
        self.views.append(message.view)

    def on_timeline_event_opened(self, message: Timeline.EventOpened) -> None:
        self.opened.append(message.event)

    def on_timeline_action_refused(self, message: Timeline.ActionRefused) -> None:
        self.refused.append(message.words)


@asynccontextmanager
async def stage(
    size: tuple[int, int] = (80, 24), glyphs: Glyphs = UNICODE, trace: Trace = TRACE
) -> AsyncIterator[tuple[Stage, Timeline, Pilot[None]]]:
    app = Stage(trace, glyphs)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, app.query_one(Timeline), pilot


def lines(timeline: Timeline) -> list[str]:
    return [timeline.render_line(y).text for y in range(timeline.size.height)]


def chosen(timeline: Timeline) -> str | None:
    return None if timeline.view.event is None else str(TRACE.event(timeline.view.event)["name"])


def cursor(timeline: Timeline) -> str:
    lanes = TRACE.lanes
    at = lanes["lane"].to_list().index(timeline.view.lane)
    rank = lanes["rank"][at]
    return lanes["name"][at] + ("" if rank is None else f"@{rank}")
