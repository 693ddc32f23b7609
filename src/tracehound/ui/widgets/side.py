"""One of two runs that are compared: a line that says which, and its timeline.

Owns the reading of that run and how far it is. What the timeline shows is decided by the screen, which knows both.
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

from tracehound.draw.colouring import By
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.outline import groups
from tracehound.draw.seats import Seats
from tracehound.errors import TracehoundError
from tracehound.progress import brief
from tracehound.store import Opening
from tracehound.trace import Trace
from tracehound.ui.background.loading import Loading
from tracehound.ui.background.supply import Supply
from tracehound.ui.state.view import View
from tracehound.ui.widgets.desk import Desk
from tracehound.ui.widgets.plain_bars import suit
from tracehound.ui.widgets.plain_box import Column
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.wording import words
from tracehound.ui.wording.describe import describe

DEVICE_LANES: Final = 3
HOST_LANES: Final = 1
"""So many lanes of the device and of the host are shown at first: those with most events."""


class SideBar(Widget):
    """Which run this is, in one line."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"side-bar--name", "side-bar--step"}
    DEFAULT_CSS = """
    SideBar {
        height: 1; background: $panel; color: $text-muted;
        & > .side-bar--name { color: $primary; text-style: bold; }
        & > .side-bar--step { color: $accent; text-style: bold; }
    }
    """

    title: reactive[str] = reactive("")
    """``- base`` or ``+ other``, and the name."""
    step: reactive[str] = reactive("")
    """The step that is looked at."""
    facts: reactive[tuple[str, ...]] = reactive(())
    """What is open, or the selected event; the most telling first."""
    news: reactive[str] = reactive("")
    """How far the reading is, or why there is none."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs

    def render_line(self, y: int) -> Strip:
        """Name and step always, then what fits."""
        del y
        width, glyphs = self.size.width, self._glyphs
        name, step = (self.get_component_rich_style(f"side-bar--{part}", partial=False) for part in ("name", "step"))
        title = glyphs.cut(self.title, max(16, width // 3))
        told = glyphs.words(self.step)
        room = width - len(title) - len(told) - 6
        rest = glyphs.cut(self.news, room) if self.news else ""
        facts = [glyphs.words(fact) for fact in self.facts]
        rest = rest or (words.named(facts, room, glyphs.dot) if facts else "")
        segments = [Segment(f" {title}", name), Segment(f"  {told}" if told else "", step)]
        return Strip([*segments, Segment(f"  {rest}", self.rich_style)]).adjust_cell_length(width, self.rich_style)


class Side(Column):
    """A run: its line, and its lanes."""

    @dataclass
    class Grown(Message):
        """More of the run is read."""

        side: Side

        def can_replace(self, message: Message) -> bool:
            """Only the newest counts."""
            return isinstance(message, Side.Grown) and message.side is self.side

    @dataclass
    class Moved(Message):
        """A key or the mouse moved the timeline; where to, its view says: that is always of the trace that it shows."""

        side: Side

        def can_replace(self, message: Message) -> bool:
            """Only where it is now counts."""
            return isinstance(message, Side.Moved) and message.side is self.side

    @dataclass
    class Settled(Message):
        """The reading has ended: all is read, or as much as can be."""

        side: Side

    @dataclass
    class Failed(Message):
        """Nothing of the run can be read."""

        error: TracehoundError

    def __init__(self, opening: Opening, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.opening = opening
        self.said = opening.name
        """The path of the run, as it was asked for."""
        self.reading = Loading(self, opening)
        self.bar = SideBar(glyphs)
        self.desk = Desk(glyphs)
        self.timeline = self.desk.timeline
        self.trace: Trace | None = None
        self.settled = False
        """Whether the reading has ended, so that the run stays as it is."""
        self.unread = frozenset[int]()
        self.facts: tuple[str, ...] = ()
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        """The line above the lanes."""
        yield self.bar
        yield self.desk

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self.timeline, self._glyphs)
        self.bar.news = "waits for its turn"

    def on_unmount(self) -> None:
        """Nobody waits for anything any more."""
        self.reading.cancel()

    def start(self) -> None:
        """Begin to read."""
        self.bar.news = "reading"
        self.reading.start()

    @property
    def busy(self) -> bool:
        """Whether something is being read."""
        return self.reading.busy or self.timeline.supply.busy

    def show_run(self, view: View) -> None:
        """Show the run itself."""
        if self.trace is not None:
            self._show(self.trace, view, "kind", self.unread)
            self.desk.legend.display = False

    def show_slots(self, trace: Trace, view: View) -> None:
        """Show what was made of a step of it: ops in slots, coloured by what differs."""
        self.timeline.forget()
        self._show(trace, view, "difference", frozenset())

    def leave_slots(self, view: View) -> None:
        """Show the run again."""
        self.timeline.forget()
        self.show_run(view)

    def _show(self, trace: Trace, view: View, by: By, unread: frozenset[int]) -> None:
        self.timeline.supply.by = by
        self.timeline.show(trace, view, unread)

    def tell(self, event: int | None) -> None:
        """Say which event of the run is selected; None: what the run is."""
        if event is None or self.trace is None:
            self.bar.facts = self.facts
        else:
            self.bar.facts = describe(self.trace, View(event=event))

    def choose_lanes(self) -> None:
        """Show few lanes: the busiest of the device, and that of the host which does most."""
        if self.trace is not None:
            seats = few(self.trace, self.timeline.view.ranks)
            self.timeline.seat(replace(self.timeline.seats, hidden=seats.hidden))

    def reveal(self, event: int) -> None:
        """Show the lane of an event of the run, if it was left out."""
        if self.trace is not None:
            lane = self.trace.event(event)["lane"]
            tracks = (track for group in groups(self.trace, None, lambda _: ()) for track in group.tracks)
            shown = {track.key for track in tracks if track.lane == lane}
            seats = self.timeline.seats
            if shown & seats.hidden:
                self.timeline.seat(replace(seats, hidden=seats.hidden - shown))

    @on(Loading.Progressed)
    def _progressed(self, message: Loading.Progressed) -> None:
        message.stop()
        self.bar.news = brief(message.reading, self.app.size.width // 2)

    @on(Loading.Loaded)
    def _loaded(self, message: Loading.Loaded) -> None:
        message.stop()
        self.trace, self.unread = message.trace, message.unread
        self.facts = self.bar.facts = tuple(words.about(message.trace))
        self.post_message(self.Grown(self))
        if message.done:
            self.bar.news = ""
            self._settle()

    @on(Loading.Stopped)
    def _stopped(self, message: Loading.Stopped) -> None:
        message.stop()
        self.bar.news = words.stopped(message.read, len(self.opening.files))
        self._settle()

    @on(Loading.Failed)
    def _reading_failed(self, message: Loading.Failed) -> None:
        message.stop()
        self.bar.news = message.words
        if self.trace is None or len(self.unread) == len(self.trace.parts):
            self.post_message(self.Failed(message.error))
        else:
            self._settle()

    def _settle(self) -> None:
        self.settled = True
        self.post_message(self.Settled(self))

    @on(Timeline.ViewChanged)
    def _view_changed(self, message: Timeline.ViewChanged) -> None:
        message.stop()
        self.post_message(self.Moved(self))

    @on(Supply.Arrived)
    def _arrived(self, message: Supply.Arrived) -> None:
        message.stop()
        self.bar.news = message.failure or self.bar.news

    @on(Supply.Sighted)
    def _sighted(self, message: Supply.Sighted) -> None:
        """What one looks at is read first."""
        message.stop()
        self.opening.wanted = message.parts


def few(trace: Trace, ranks: Sequence[int] | None) -> Seats:
    """The lanes hidden but for those with most events: some that keep the device busy, and one of the host."""
    shown = None if ranks is None else tuple(ranks)
    events = dict(trace.lanes.select("lane", "events").iter_rows())
    works = dict(trace.lanes.select("lane", "work").iter_rows())
    hidden = set[str]()
    for group in groups(trace, shown, lambda _: ()):
        order = sorted(group.tracks, key=lambda track: (works[track.lane] or False, events[track.lane]), reverse=True)
        kept = DEVICE_LANES if group.rank is not None else HOST_LANES
        hidden |= {track.key for track in order[kept:]}
    return Seats(hidden=frozenset(hidden))
