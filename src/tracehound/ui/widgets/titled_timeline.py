"""Panel of one of two compared runs: a title line above its timeline.

Owns the reading of that run. The comparison screen decides what the timeline shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from msgspec.structs import replace
from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracehound.draw.event_colors import ColorBy
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.lane_layout import LaneLayout
from tracehound.draw.timeline_outline import build_lane_groups
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace
from tracehound.progress_line import short_progress_sentence
from tracehound.store import TraceReader
from tracehound.ui.background.lane_loader import LaneLoader
from tracehound.ui.background.trace_loader import TraceLoader
from tracehound.ui.state.view import View
from tracehound.ui.widgets.boxes_and_scroll_bars import VerticalBox, simplify_scroll_bars
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.widgets.timeline_panel import TimelinePanel
from tracehound.ui.wording import messages
from tracehound.ui.wording.event_facts import describe_selection

DEVICE_LANES: Final = 3
HOST_LANES: Final = 1
"""Number of lanes of the device and of the host that are shown at first: those with most events."""


class RunTitleBar(Widget):
    """Title line of a run."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"run-bar--name", "run-bar--step"}
    DEFAULT_CSS = """
    RunTitleBar {
        height: 1; background: $panel; color: $text-muted;
        & > .run-bar--name { color: $primary; text-style: bold; }
        & > .run-bar--step { color: $accent; text-style: bold; }
    }
    """

    title: reactive[str] = reactive("")
    """Sign, role and name of the run."""
    step: reactive[str] = reactive("")
    """Current step."""
    facts: reactive[tuple[str, ...]] = reactive(())
    """Facts of the run or of the selected event, the most important first."""
    news: reactive[str] = reactive("")
    """Progress of the reading, or its error."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs

    def render_line(self, y: int) -> Strip:
        """Draw name and step always, then what fits."""
        del y
        width, glyphs = self.size.width, self._glyphs
        name, step = (self.get_component_rich_style(f"run-bar--{part}", partial=False) for part in ("name", "step"))
        title = glyphs.cut(self.title, max(16, width // 3))
        told = glyphs.to_alphabet(self.step)
        room = width - len(title) - len(told) - 6
        rest = glyphs.cut(self.news, room) if self.news else ""
        facts = [glyphs.to_alphabet(fact) for fact in self.facts]
        rest = rest or (messages.fit_name_and_parts(facts, room, glyphs.dot) if facts else "")
        segments = [Segment(f" {title}", name), Segment(f"  {told}" if told else "", step)]
        return Strip([*segments, Segment(f"  {rest}", self.rich_style)]).adjust_cell_length(width, self.rich_style)


class TitledTimeline(VerticalBox):
    """Title line and timeline of a run."""

    @dataclass
    class TraceGrown(Message):
        """More of the run is read."""

        side: TitledTimeline

        def can_replace(self, message: Message) -> bool:
            """Drop this message if a newer one of the panel is queued."""
            return isinstance(message, TitledTimeline.TraceGrown) and message.side is self.side

    @dataclass
    class ViewMoved(Message):
        """A key or the mouse moved the timeline; its new view is that of the trace that it shows."""

        side: TitledTimeline

        def can_replace(self, message: Message) -> bool:
            """Drop this message if a newer one of the panel is queued."""
            return isinstance(message, TitledTimeline.ViewMoved) and message.side is self.side

    @dataclass
    class ReadingEnded(Message):
        """The reading has ended: all is read, or as much as possible."""

        side: TitledTimeline

    @dataclass
    class ReadingFailed(Message):
        """Nothing of the run can be read."""

        error: TracehoundError

    def __init__(self, opening: TraceReader, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.opening = opening
        self.command_words = opening.name
        """Path of the run as given on the command line."""
        self.reading = TraceLoader(self, opening)
        self.bar = RunTitleBar(glyphs)
        self.timeline_panel = TimelinePanel(glyphs)
        self.timeline = self.timeline_panel.timeline
        self.trace: Trace | None = None
        self.settled = False
        """True when the reading has ended, so that the run does not change any more."""
        self.unread = frozenset[int]()
        self.facts: tuple[str, ...] = ()
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        """Yield the title line and the timeline."""
        yield self.bar
        yield self.timeline_panel

    def on_mount(self) -> None:
        """Adapt the scroll bars to the alphabet."""
        simplify_scroll_bars(self.timeline, self._glyphs)
        self.bar.news = "waits for its turn"

    def on_unmount(self) -> None:
        """Cancel the reading."""
        self.reading.cancel()

    def start(self) -> None:
        """Start to read."""
        self.bar.news = "reading"
        self.reading.start()

    @property
    def busy(self) -> bool:
        """True while something is being read."""
        return self.reading.busy or self.timeline.lane_loader.busy

    def show_run(self, view: View) -> None:
        """Show the run itself."""
        if self.trace is not None:
            self._show_trace(self.trace, view, "kind", self.unread)
            self.timeline_panel.legend.display = False

    def show_slots(self, trace: Trace, view: View) -> None:
        """Show a step of the run with matched ops under each other, colored by their difference."""
        self.timeline.cancel_pending()
        self._show_trace(trace, view, "difference", frozenset())

    def leave_slots(self, view: View) -> None:
        """Show the run again."""
        self.timeline.cancel_pending()
        self.show_run(view)

    def _show_trace(self, trace: Trace, view: View, by: ColorBy, unread: frozenset[int]) -> None:
        self.timeline.lane_loader.by = by
        self.timeline.show(trace, view, unread)

    def show_facts(self, event: int | None) -> None:
        """Show the facts of the selected event; None: those of the run."""
        if event is None or self.trace is None:
            self.bar.facts = self.facts
        else:
            self.bar.facts = describe_selection(self.trace, View(event=event))

    def choose_lanes(self) -> None:
        """Show few lanes: the busiest of the device and of the host."""
        if self.trace is not None:
            seats = busiest_lanes_layout(self.trace, self.timeline.view.ranks)
            self.timeline.set_lane_layout(replace(self.timeline.lane_layout, hidden=seats.hidden))

    def unhide_lane_of(self, event: int) -> None:
        """Unhide the lane of an event."""
        if self.trace is not None:
            lane = self.trace.event(event)["lane"]
            tracks = (track for group in build_lane_groups(self.trace, None, lambda _: ()) for track in group.entries)
            shown = {track.key for track in tracks if track.lane == lane}
            seats = self.timeline.lane_layout
            if shown & seats.hidden:
                self.timeline.set_lane_layout(replace(seats, hidden=seats.hidden - shown))

    @on(TraceLoader.Progressed)
    def _show_progress(self, message: TraceLoader.Progressed) -> None:
        message.stop()
        self.bar.news = short_progress_sentence(message.reading, self.app.size.width // 2)

    @on(TraceLoader.Loaded)
    def _use_trace(self, message: TraceLoader.Loaded) -> None:
        message.stop()
        self.trace, self.unread = message.trace, message.unread
        self.facts = self.bar.facts = tuple(messages.header_parts(message.trace))
        self.post_message(self.TraceGrown(self))
        if message.done:
            self.bar.news = ""
            self._end_reading()

    @on(TraceLoader.Stopped)
    def _reading_stopped(self, message: TraceLoader.Stopped) -> None:
        message.stop()
        self.bar.news = messages.reading_stopped_message(message.read, len(self.opening.files))
        self._end_reading()

    @on(TraceLoader.Failed)
    def _reading_failed(self, message: TraceLoader.Failed) -> None:
        message.stop()
        self.bar.news = message.words
        if self.trace is None or len(self.unread) == len(self.trace.parts):
            self.post_message(self.ReadingFailed(message.error))
        else:
            self._end_reading()

    def _end_reading(self) -> None:
        self.settled = True
        self.post_message(self.ReadingEnded(self))

    @on(Timeline.ViewChanged)
    def _forward_view(self, message: Timeline.ViewChanged) -> None:
        message.stop()
        self.post_message(self.ViewMoved(self))

    @on(LaneLoader.Arrived)
    def _show_lane_failure(self, message: LaneLoader.Arrived) -> None:
        message.stop()
        self.bar.news = message.failure or self.bar.news

    @on(LaneLoader.Sighted)
    def _read_visible_first(self, message: LaneLoader.Sighted) -> None:
        """Make the reader prefer the files of visible lanes."""
        message.stop()
        self.opening.wanted_files = message.parts


def busiest_lanes_layout(trace: Trace, ranks: Sequence[int] | None) -> LaneLayout:
    """Layout that shows only the lanes with most events.

    These are `DEVICE_LANES` of each rank and `HOST_LANES` of the host.
    """
    shown = None if ranks is None else tuple(ranks)
    events = dict(trace.lanes.select("lane", "events").iter_rows())
    works = dict(trace.lanes.select("lane", "work").iter_rows())
    hidden = set[str]()
    for group in build_lane_groups(trace, shown, lambda _: ()):
        order = sorted(group.entries, key=lambda track: (works[track.lane] or False, events[track.lane]), reverse=True)
        kept = DEVICE_LANES if group.rank is not None else HOST_LANES
        hidden |= {track.key for track in order[kept:]}
    return LaneLayout(hidden=frozenset(hidden))
