"""The timeline: lanes of events under a ruler.

Owns the widget: scrolling, which lines change with the view, keys and mouse. `artist` knows what lines look like and
`navigate` what moves mean. Its state beside the view: the lines (`sheet`), how a person arranged them (`seats`, see
`desk`), the scroll position, and the beginning of a range that is being selected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from msgspec.structs import replace
from rich.cells import cell_len
from textual import events, on
from textual.actions import SkipAction
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.outline import Group, Outline, groups
from tracehound.draw.path import Path
from tracehound.draw.seats import PINNED, Seats, seated
from tracehound.draw.shelf import Rows
from tracehound.draw.sight import Sight, needs
from tracehound.errors import printable
from tracehound.trace import Trace
from tracehound.ui.background.supply import UNKNOWN, Move, Slot, Supply
from tracehound.ui.bindings.keys import bindings
from tracehound.ui.state import navigate
from tracehound.ui.state.view import View
from tracehound.ui.widgets.artist import MARGIN, Artist, Picture, Shown, shown
from tracehound.ui.widgets.looks import CSS, PARTS, looks
from tracehound.ui.widgets.pointed import pointed
from tracehound.ui.widgets.ranging import Mark, Pointer, Spot
from tracehound.ui.widgets.touched import touched
from tracehound.ui.wording import words
from tracehound.units import duration


class Timeline(ScrollView, can_focus=True, inherit_bindings=False):
    """The lanes of a trace over the window that `view` shows; `unread` are the parts of which no events are known yet.

    Keys and mouse change `view` at once, so that fast keys never work on a stale one, and post `ViewChanged`; setting
    `view` from outside posts nothing. What needs rows that are not read yet is drawn, or moved to, when they are.
    """

    BINDINGS = bindings("timeline")
    BINDING_GROUP_TITLE = "Timeline"
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"timeline--{part}" for part in PARTS}
    DEFAULT_CSS = CSS

    trace: reactive[Trace | None] = reactive(None, repaint=False, init=False)
    """What is shown."""
    view: reactive[View] = reactive(View(), repaint=False, init=False)
    """Where one is in it."""

    @dataclass
    class ViewChanged(Message):
        """A key or the mouse changed the view."""

        view: View

        def can_replace(self, message: Message) -> bool:
            """Only the newest view counts."""
            return isinstance(message, Timeline.ViewChanged)

    @dataclass
    class EventOpened(Message):
        """Enter on the selected event: someone wants to see all of it."""

        event: int

    @dataclass
    class Refused(Message):
        """A key leads nowhere, and why."""

        words: str

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.unread: frozenset[int] = frozenset()
        self.sheet = Outline()
        self.seats = Seats()
        self.key = ""
        """What is to be pressed for the lanes that are hidden."""
        self.news: dict[str, str] = {}
        self.path: Path | None = None
        self.supply = Supply(self)
        self._glyphs = glyphs
        self._rows: Rows | None = None
        self._artist: Artist | None = None
        self._chosen: Slot | None = None
        self._mark = Mark()
        self._pointer = Pointer()
        self._picture: Picture | None = None

    def on_unmount(self) -> None:
        """Nobody waits for rows any more."""
        self.supply.close()

    @property
    def gutter_width(self) -> int:
        """Cells of lane names at the left."""
        return min(28, max(14, self._width // 7))

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def shown(self) -> Shown:
        """What is in sight, and how large."""
        return shown(self.view, self.gutter_width, self._width)

    @property
    def _top(self) -> int:
        """Lines above the lanes: the steps, where there are any, and the ruler."""
        return 1 + (self.trace is not None and not self.trace.steps.is_empty())

    def render_lines(self, crop: Region) -> list[Strip]:
        """All lines of a frame are drawn from one picture."""
        self._picture = self._pictured()
        strips = super().render_lines(crop)
        self._picture = None
        return strips

    def render_line(self, y: int) -> Strip:
        """One line of the widget."""
        picture = self._picture or self._pictured()
        if self._rows is None:
            return Strip.blank(picture.shown.total, self.rich_style)
        if self._artist is None:
            how = looks(self, self._glyphs, self._rows.colouring)
            self._artist = Artist(self._rows, how, news=self.news, path=self.path)
        return self._artist.draw(y, picture)

    def _pictured(self) -> Picture:
        return Picture(self.view, self._sight, self.shown, self._chosen, self._corner)

    @property
    def _corner(self) -> str:
        """What is said beside the times: their length, and before it what names of lanes have, if there is room."""
        if self._mark.at:
            return "selecting"
        needle, length = printable(self.seats.needle), duration(self.view.end - self.view.start)
        both = f"{needle} {self._glyphs.dot} {length}"
        return both if needle and cell_len(both) <= self.shown.gutter - MARGIN else needle or length

    def notify_style_update(self) -> None:
        """Colours may have changed: forget what was drawn with the old ones."""
        super().notify_style_update()
        self._artist = None

    # -- what changes

    def show(self, trace: Trace, view: View, unread: frozenset[int]) -> None:
        """More of the trace, and where one is in it."""
        self.unread = unread
        self.set_reactive(Timeline.view, view)
        self.trace = trace

    def forget(self) -> None:
        """End what has begun in what is shown: a range that is being selected, and moves that wait."""
        self._mark.at = None
        self.supply.forget()

    def watch_trace(self, trace: Trace | None) -> None:
        """Another trace, or more of the same: the line at the top stays there."""
        top, event, self._artist = self._sight.scrolled[:1], self.view.event, None
        rows = self._rows = None if trace is None else self.supply.rows(trace)
        self._chosen = None if rows is None or event is None else self.supply.slot(rows, event)
        self._regroup()
        at = self.sheet.find(top[0]) if top else None
        if at is not None:
            self._scroll(at - self._sight.stays)

    def watch_view(self, old: View, new: View) -> None:
        """Redraw what the change touches: everything when time moves, else the lines of cursor and selection."""
        if self._rows is None:
            return
        was, self._chosen = self._chosen, None if new.event is None else self.supply.slot(self._rows, new.event)
        if old.ranks != new.ranks:
            self._regroup()
        elif self._take(self.sheet) or new.elsewhere(old):
            self.refresh()
        else:
            slots = {was, self._chosen}
            for region in touched(self._rows.trace, self._sight, (old, new), slots, self.gutter_width, self._width):
                self.refresh(region)
        if (old.lane, old.event) != (new.lane, new.event):
            self._keep_in_sight()

    @property
    def _sight(self) -> Sight:
        return Sight(self.sheet, self.scroll_offset.y, self.size.height - self._top, self._top, PINNED)

    def _lay(self) -> None:
        """Work out the lines anew."""
        self._take(self.sheet.laid(self.size.height - self._top))
        self.refresh()

    def _regroup(self) -> None:
        """Work out groups and lines anew."""
        rows = self._rows
        found = () if rows is None else groups(rows.trace, self.view.ranks, self._order, self.unread)
        self.sheet = self.sheet.of(seated(found, self.seats, self.key))
        self._lay()

    def _order(self, lane: int) -> tuple[int, ...]:
        """In which order the rows of a lane get a line."""
        return () if self._rows is None else self._rows.order(lane, self.view.start, self.view.end)

    def _take(self, sheet: Outline) -> bool:
        """Use this outline, with those rows of the lanes in sight that have something to show, and the selected event.

        Says whether the lines are others than before.
        """
        before = self.sheet.lines
        sheet = sheet.ordered(self._order, replace(self._sight, sheet=sheet).tracks)
        self.sheet = sheet.relaxed() if self._chosen is None else sheet.showing(*self._chosen[:2])
        extent = Size(self._width, self._top + len(self.sheet.lines))
        if extent != self.virtual_size:  # and no new layout of the screen, unless the scroll bar comes or goes
            self.set_reactive(Timeline.virtual_size, extent)
            self._scroll_update(extent)
        self._wish()
        return self.sheet.lines is not before

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:  # noqa: FBT001, FBT002, as Textual
        """Lay the lines out for another size now, before they are painted; `Resize` comes when they have been."""
        if size != self._size:
            self._take(self.sheet.laid(self.size.height - self._top))
        return super()._size_updated(size, virtual_size, container_size, layout)

    def _keep_in_sight(self) -> None:
        """Scroll as little as shows the cursor's lane, or the row of the selected event."""
        lane, at = self.view.lane, self._chosen
        self._scroll(self._sight.showing(lane, at[1] if at is not None and at[0] == lane else None))

    def _scroll(self, to: int) -> None:
        if to != self.scroll_offset.y:
            self.scroll_to(y=to, animate=False, force=True)  # the scroll bar may only appear with this frame

    # -- what has to be read first

    def _wish(self) -> None:
        """Have what is in sight read."""
        if self._rows is not None:
            self.supply.want(self._rows, self._sight)

    @on(Supply.Arrived)
    def _arrived(self, message: Supply.Arrived) -> None:
        """Draw what has come, and make the moves that waited for it."""
        due, event = self.supply.take(message), self.view.event
        if self._rows is None:
            return
        if event is not None and self._chosen is not None and self._chosen[2] == UNKNOWN:
            self._chosen = self.supply.slot(self._rows, event)
        if message.wish.of == "lane" and self._take(self.sheet):
            self.refresh()
        for y, line in self._sight.placed:
            if y == self._top + self._sight.stays or message.wish in needs(line):
                self.refresh(Region(0, y, self._width, 1))
        for move in due:
            self._move(move)
        self._wish()

    def watch_scroll_y(self, old: float, new: float) -> None:
        """Other lanes are in sight."""
        super().watch_scroll_y(old, new)
        if self._take(self.sheet):
            self.refresh()

    # -- moving

    def _go(self, view: View) -> None:
        """Take this view, stretch the range that is being selected, and tell."""
        if self._rows is not None:
            view = self._mark.stretched(self._rows.trace, view)
        if view != self.view:
            self.view = view
            self.post_message(self.ViewChanged(view).set_sender(self))  # else it stops at a parent that moved us

    def _move(self, move: Move) -> None:
        if self._rows is not None:
            self._go(self.supply.moved(self._rows, self.view, move))
            self._wish()

    def action_pan(self, by: int, of: int) -> None:
        """Move by `by / of` of a screen; the end of a range that is being selected moves in smaller steps."""
        move = navigate.pan if self._mark.at is None else navigate.stretch
        self._move(lambda rows, view: move(rows.trace, view, (by, of)))

    def action_zoom(self, by: int, of: int) -> None:
        """Show `by / of` as much time."""
        self._move(lambda rows, view: navigate.zoom(rows.trace, view, (by, of)))

    def action_fit(self) -> None:
        """Show the whole run."""
        self._move(lambda rows, view: navigate.fit(rows.trace, view))

    def action_frame(self) -> None:
        """Zoom to what is selected."""
        if self.view.selection is None and self.view.event is None:
            self.refuse(words.NO_CHOICE)
        self._move(navigate.to_chosen)

    def action_vertical(self, direction: int) -> None:
        """Down or up: through the events inside each other, then the lanes."""
        self._move(lambda rows, view: navigate.vertical(rows, view, self.sheet.stops(), direction))

    def action_lane(self, by: int) -> None:
        """Down or up by whole lanes."""
        self._move(lambda rows, view: navigate.to_lane(rows, view, self.sheet.stops(), by))

    def action_page(self, direction: int) -> None:
        """Down or up by as many lanes as fit on the screen; where no lanes are, by lines."""
        self._lanes_or_lines(direction * max(1, self._sight.lanes - 1), direction * max(1, self._sight.room - 1))

    def action_last_lane(self, direction: int) -> None:
        """To the last lane (1) or the first (-1); where no lanes are, to the last line or the first."""
        lines = direction * len(self.sheet.lines)
        self._lanes_or_lines(lines, lines)

    def _lanes_or_lines(self, lanes: int, lines: int) -> None:
        before = self.view
        self.action_lane(lanes)
        if self.view == before:
            self.scroll_to(y=self.scroll_offset.y + lines, animate=False)

    def action_event(self, direction: int) -> None:
        """To the next or previous event of the lane; without one, of the first."""
        stops = self.sheet.stops()
        self._move(lambda rows, view: navigate.next_event(rows, navigate.on_lane(rows, view, stops), direction))

    def action_gap(self, direction: int) -> None:
        """To the next or previous gap of the rank; where there is none, say why."""

        def move(rows: Rows, view: View) -> View:
            after = navigate.next_gap(rows, view, direction)
            if after == view:
                least = (view.end - view.start) // navigate.LEAST_GAP
                self.refuse(words.no_gap(rows.trace, least, direction))
            return after

        self._move(move)

    def refuse(self, why: str) -> None:
        """Tell that a key leads nowhere."""
        self.post_message(self.Refused(why).set_sender(self))

    def action_choose(self) -> None:
        """Select the event at the focus, without a lane on the first; when one is selected, ask to see all of it.

        Where there is none, say so.
        """
        if self.view.event is not None:
            self.post_message(self.EventOpened(self.view.event))
            return

        def move(rows: Rows, view: View) -> View:
            after = navigate.pick(rows, navigate.on_lane(rows, view, self.sheet.stops()))
            if after.event is None and after.lane is not None:
                self.refuse(words.NOTHING_HERE)
            return after

        self._move(move)

    def action_mark(self) -> None:
        """Begin a range at the selected event or the focus; the second time, end it."""
        if self._rows is not None:
            self._mark.switch(self._rows.trace, self.view)
            self._go(self.view)
        self.refresh(Region(0, self._top - 1, self._width, 1))

    def action_clear(self) -> None:
        """Select nothing."""
        self.forget()
        cleared = navigate.clear(self.view)
        if cleared == self.view:
            raise SkipAction
        self._go(cleared)

    def mark_path(self, path: Path | None) -> None:
        """Mark these events, and let all others step back; None ends that."""
        self.path, self._artist = path, None
        self.refresh()

    def choose_ranks(self, ranks: tuple[int, ...] | None) -> None:
        """Show these ranks (None: all)."""
        self._move(lambda rows, view: navigate.to_ranks(rows.trace, view, ranks))

    def seat(self, seats: Seats) -> None:
        """Arrange the lanes like this."""
        self.seats = seats
        self._regroup()
        self._keep_in_sight()

    def relay(self, sheet: Outline) -> None:
        """Draw the lines of this outline, which are still to be made."""
        self.sheet = sheet
        self._lay()
        self._keep_in_sight()

    def _spot(self, event: events.MouseEvent) -> Spot | None:
        """Where a mouse event is; None in the scroll bar."""
        offset = event.get_content_offset(self)
        return None if offset is None else (offset.x - self.gutter_width, offset.y)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """The beginning of a click or a drag."""
        spot = self._spot(event)
        if spot is not None and event.button == 1:
            self._pointer.press(spot)
            self.capture_mouse()

    def _on_mouse_move(self, event: events.MouseMove) -> None:
        """Stretch the range while the button is down; told when it is released, so that tables follow once."""
        columns = self._pointer.drag(event.get_content_offset_capture(self).x - self.gutter_width)
        if columns is not None:
            self.view = navigate.select_range(self.view, *map(self.shown.time, columns))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """The end of a drag, or a click."""
        self.release_mouse()
        press, dragged = self._pointer.release() if event.button == 1 else (None, False)
        if dragged:
            self.post_message(self.ViewChanged(self.view))
        elif press is not None:
            found = pointed(self._sight, self.shown, press)
            if isinstance(found, Group):
                self.relay(self.sheet.fold(found.key))
            elif found is not None:
                self._move(found)

    @on(events.MouseScrollDown)
    @on(events.MouseScrollUp)
    @on(events.MouseScrollLeft)
    @on(events.MouseScrollRight)
    def _wheel(self, event: events.MouseEvent) -> None:
        """Scroll the lanes; sideways or with shift pan, with ctrl zoom about the pointer."""
        direction = -1 if isinstance(event, events.MouseScrollUp | events.MouseScrollLeft) else 1
        spot = self._spot(event)
        if event.shift or isinstance(event, events.MouseScrollLeft | events.MouseScrollRight):
            self.action_pan(direction, 8)
        elif event.ctrl and spot is not None:
            at, by = self.shown.time(spot[0]), (4, 3) if direction > 0 else (3, 4)
            self._move(lambda rows, view: navigate.zoom(rows.trace, view, by, at))
        else:
            self.scroll_to(y=self.scroll_offset.y + 3 * direction, animate=False)
        event.stop().prevent_default()
