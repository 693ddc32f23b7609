"""Timeline: lanes of events under a ruler.

Owns scrolling, the refresh of changed lines, keys and mouse. `timeline_painter` draws the lines, `state.view_moves`
moves the view. Its state besides the view: the `outline` (all lines), the `lane_layout` (how the user arranged them),
the scroll position, and the start of a range that is being selected.
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
from tracehound.draw.lane_cache import TimelineRows
from tracehound.draw.lane_cells import CriticalPathIntervals
from tracehound.draw.lane_layout import PINNED_GROUP, LaneLayout, Viewport, arrange_groups, rows_needed_by_line
from tracehound.draw.timeline_outline import LaneGroup, TimelineOutline, build_lane_groups
from tracehound.errors import printable
from tracehound.model.trace import Trace
from tracehound.model.units import format_duration
from tracehound.ui.background.lane_loader import UNKNOWN_INDEX, EventSlot, LaneLoader, ViewMove
from tracehound.ui.bindings.keys import textual_bindings
from tracehound.ui.state import view_moves
from tracehound.ui.state.view import View
from tracehound.ui.widgets.timeline_painter import (
    GUTTER_MARGIN,
    FrameGeometry,
    TimelineFrame,
    TimelinePainter,
    changed_regions,
    frame_geometry,
)
from tracehound.ui.widgets.timeline_selection import CellPosition, MouseDrag, RangeAnchor, click_target
from tracehound.ui.widgets.timeline_styles import TIMELINE_CSS, TIMELINE_PARTS, resolve_styles
from tracehound.ui.wording import messages


class Timeline(ScrollView, can_focus=True, inherit_bindings=False):
    """Lanes of a trace in the times that `view` shows; `unread` are the parts whose events are not read yet.

    Keys and mouse change `view` at once, so that fast keys never act on a stale one, and post `ViewChanged`. Setting
    `view` from outside posts nothing. Lines and moves that need rows which are not read yet follow when these are.
    """

    BINDINGS = textual_bindings("timeline")
    BINDING_GROUP_TITLE = "Timeline"
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"timeline--{part}" for part in TIMELINE_PARTS}
    DEFAULT_CSS = TIMELINE_CSS

    trace: reactive[Trace | None] = reactive(None, repaint=False, init=False)
    """Trace that is shown."""
    view: reactive[View] = reactive(View(), repaint=False, init=False)
    """Current view of the trace."""

    @dataclass
    class ViewChanged(Message):
        """A key or the mouse changed the view."""

        view: View

        def can_replace(self, message: Message) -> bool:
            """Drop this message if a newer view is queued."""
            return isinstance(message, Timeline.ViewChanged)

    @dataclass
    class EventOpened(Message):
        """The user pressed Enter on the selected event to see its details."""

        event: int

    @dataclass
    class ActionRefused(Message):
        """A key has no effect here, for the reason in `words`."""

        words: str

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.unread: frozenset[int] = frozenset()
        self.outline = TimelineOutline()
        self.lane_layout = LaneLayout()
        self.key = ""
        """Key that shows hidden lanes."""
        self.news: dict[str, str] = {}
        self.path: CriticalPathIntervals | None = None
        self.clears_selection = True
        """True if Esc clears the selection here; else only a range that is being selected, and the rest is left to the
        screen."""
        self.lane_loader = LaneLoader(self)
        self._glyphs = glyphs
        self._rows: TimelineRows | None = None
        self._painter: TimelinePainter | None = None
        self._selected_row: EventSlot | None = None
        self._range_anchor = RangeAnchor()
        self._mouse_drag = MouseDrag()
        self._frame: TimelineFrame | None = None

    def on_unmount(self) -> None:
        """Stop loading rows."""
        self.lane_loader.close()

    @property
    def gutter_width(self) -> int:
        """Width of the lane names at the left."""
        return min(28, max(14, self._width // 7))

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def visible_geometry(self) -> FrameGeometry:
        """Times and sizes of the visible part."""
        return frame_geometry(self.view, self.gutter_width, self._width)

    @property
    def _header_lines(self) -> int:
        """Number of lines above the lanes: the steps, if there are any, and the ruler."""
        return 1 + (self.trace is not None and not self.trace.steps.is_empty())

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw all lines of a frame from one state."""
        self._frame = self._current_frame()
        strips = super().render_lines(crop)
        self._frame = None
        return strips

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        picture = self._frame or self._current_frame()
        if self._rows is None:
            return Strip.blank(picture.shown.total, self.rich_style)
        if self._painter is None:
            how = resolve_styles(self, self._glyphs, self._rows.coloring)
            self._painter = TimelinePainter(self._rows, how, reading_status=self.news, critical_path=self.path)
        self._painter.focused = self.has_focus
        return self._painter.paint_line(y, picture)

    def _current_frame(self) -> TimelineFrame:
        return TimelineFrame(self.view, self._viewport, self.visible_geometry, self._selected_row, self._corner_text)

    @property
    def _corner_text(self) -> str:
        """Text beside the ruler: the duration of the visible part, and before it the lane filter if both fit."""
        if self._range_anchor.at:
            return "selecting"
        needle, length = printable(self.lane_layout.needle), format_duration(self.view.end - self.view.start)
        both = f"{needle} {self._glyphs.dot} {length}"
        return both if needle and cell_len(both) <= self.visible_geometry.gutter - GUTTER_MARGIN else needle or length

    def on_focus(self) -> None:
        """Show that the timeline has the focus."""
        self._refresh_focus()

    def on_blur(self) -> None:
        """Show that another pane has the focus."""
        self._refresh_focus()

    def _refresh_focus(self) -> None:
        """Refresh the title and the lane under the cursor."""
        lines = (y for y, line in self._viewport.numbered_lines if self.outline.line_shows_lane(line, self.view.lane))
        for y in (0, *lines):
            self.refresh(Region(0, y, self._width, 1))

    def notify_style_update(self) -> None:
        """Forget all lines drawn with the old colors."""
        super().notify_style_update()
        self._painter = None

    # -- what changes

    def show(self, trace: Trace, view: View, unread: frozenset[int]) -> None:
        """Show a trace, or more of it, with this view."""
        self.unread = unread
        self.set_reactive(Timeline.view, view)
        self.trace = trace

    def cancel_pending(self) -> None:
        """Cancel the selection of a range, and moves that wait for rows."""
        self._range_anchor.at = None
        self.lane_loader.cancel_moves()

    def watch_trace(self, trace: Trace | None) -> None:
        """Show another trace, or more of it; the line at the top stays there."""
        top, event, self._painter = self._viewport.scrolling_lines[:1], self.view.event, None
        rows = self._rows = None if trace is None else self.lane_loader.rows(trace)
        self._selected_row = None if rows is None or event is None else self.lane_loader.locate_event(rows, event)
        self._rebuild_groups()
        at = self.outline.find_line(top[0]) if top else None
        if at is not None:
            self._scroll_to_line(at - self._viewport.pinned_line_count)

    def watch_view(self, old: View, new: View) -> None:
        """Refresh what changes with the view: everything when time moves, else the lines of cursor and selection."""
        if self._rows is None:
            return
        was, self._selected_row = (
            self._selected_row,
            None if new.event is None else self.lane_loader.locate_event(self._rows, new.event),
        )
        if old.ranks != new.ranks:
            self._rebuild_groups()
        elif self._use_outline(self.outline) or new.differs_in_interval(old):
            self.refresh()
        else:
            slots = {was, self._selected_row}
            for region in changed_regions(
                self._rows.trace, self._viewport, (old, new), slots, self.gutter_width, self._width
            ):
                self.refresh(region)
        if (old.lane, old.event) != (new.lane, new.event):
            self._keep_in_sight()

    @property
    def _viewport(self) -> Viewport:
        return Viewport(
            self.outline, self.scroll_offset.y, self.size.height - self._header_lines, self._header_lines, PINNED_GROUP
        )

    def _lay_out_lines(self) -> None:
        """Compute the lines again."""
        self._use_outline(self.outline.fitted_to(self.size.height - self._header_lines))
        self.refresh()

    def _rebuild_groups(self) -> None:
        """Compute groups and lines again."""
        rows = self._rows
        found = () if rows is None else build_lane_groups(rows.trace, self.view.ranks, self._row_order, self.unread)
        self.outline = self.outline.with_groups(arrange_groups(found, self.lane_layout, self.key))
        self._lay_out_lines()

    def _row_order(self, lane: int) -> tuple[int, ...]:
        """Order in which the rows of a lane get a line."""
        return () if self._rows is None else self._rows.order(lane, self.view.start, self.view.end)

    def _use_outline(self, sheet: TimelineOutline) -> bool:
        """Use this outline, limited to rows that have events in the view, and to the row of the selected event.

        Returns True if the lines have changed.
        """
        before = self.outline.lines
        sheet = sheet.with_row_order(self._row_order, replace(self._viewport, outline=sheet).lane_ids)
        self.outline = (
            sheet.with_usual_lines() if self._selected_row is None else sheet.with_row_shown(*self._selected_row[:2])
        )
        extent = Size(self._width, self._header_lines + len(self.outline.lines))
        if extent != self.virtual_size:  # without a new layout, unless the scroll bar appears or disappears
            self.set_reactive(Timeline.virtual_size, extent)
            self._scroll_update(extent)
        self._request_rows()
        return self.outline.lines is not before

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:  # noqa: FBT001, FBT002, as Textual
        """Compute the lines for another size before they are painted, since `Resize` comes after that."""
        if size != self._size:
            self._use_outline(self.outline.fitted_to(self.size.height - self._header_lines))
        return super()._size_updated(size, virtual_size, container_size, layout)

    def _keep_in_sight(self) -> None:
        """Scroll as little as possible to show the cursor's lane, or the row of the selected event."""
        lane, at = self.view.lane, self._selected_row
        self._scroll_to_line(self._viewport.top_to_show(lane, at[1] if at is not None and at[0] == lane else None))

    def _scroll_to_line(self, to: int) -> None:
        if to != self.scroll_offset.y:
            self.scroll_to(y=to, animate=False, force=True)  # the scroll bar may appear only with this frame

    # -- what has to be read first

    def _request_rows(self) -> None:
        """Load the rows that are visible."""
        if self._rows is not None:
            self.lane_loader.request_rows(self._rows, self._viewport)

    @on(LaneLoader.Arrived)
    def _use_loaded_rows(self, message: LaneLoader.Arrived) -> None:
        """Draw loaded rows, and make the moves that waited for them."""
        due, event = self.lane_loader.store_loaded_rows(message), self.view.event
        if self._rows is None:
            return
        if event is not None and self._selected_row is not None and self._selected_row[2] == UNKNOWN_INDEX:
            self._selected_row = self.lane_loader.locate_event(self._rows, event)
        if message.wish.of == "lane" and self._use_outline(self.outline):
            self.refresh()
        for y, line in self._viewport.numbered_lines:
            if y == self._header_lines + self._viewport.pinned_line_count or message.wish in rows_needed_by_line(line):
                self.refresh(Region(0, y, self._width, 1))
        for move in due:
            self._make_move(move)
        self._request_rows()

    def watch_scroll_y(self, old: float, new: float) -> None:
        """Use the rows of the lanes that are visible now."""
        super().watch_scroll_y(old, new)
        if self._use_outline(self.outline):
            self.refresh()

    # -- moving

    def _set_view(self, view: View) -> None:
        """Use this view, extend a range that is being selected, and post the view."""
        if self._rows is not None:
            view = self._range_anchor.extend_selection(self._rows.trace, view)
        if view != self.view:
            self.view = view
            self.post_message(
                self.ViewChanged(view).set_sender(self)
            )  # without a sender it would stop at the parent that moved it

    def _make_move(self, move: ViewMove) -> None:
        if self._rows is not None:
            self._set_view(self.lane_loader.apply_move(self._rows, self.view, move))
            self._request_rows()

    def action_pan(self, by: int, of: int) -> None:
        """Pan by `by / of` of the visible part; the end of a range that is being selected moves in smaller steps."""
        move = view_moves.pan_view if self._range_anchor.at is None else view_moves.move_focus
        self._make_move(lambda rows, view: move(rows.trace, view, (by, of)))

    def action_zoom(self, by: int, of: int) -> None:
        """Zoom so that `by / of` as much time is visible."""
        self._make_move(lambda rows, view: view_moves.zoom_view(rows.trace, view, (by, of)))

    def action_fit(self) -> None:
        """Show the whole run."""
        self._make_move(lambda rows, view: view_moves.show_whole_run(rows.trace, view))

    def action_frame(self) -> None:
        """Zoom to the selected range or event."""
        if self.view.selection is None and self.view.event is None:
            self.refuse(messages.NOTHING_SELECTED)
        self._make_move(view_moves.zoom_to_selection)

    def action_vertical(self, direction: int) -> None:
        """Go down (1) or up (-1): through nested events, then through the lanes."""
        self._make_move(
            lambda rows, view: view_moves.move_vertically(rows, view, self.outline.cursor_stops(), direction)
        )

    def action_lane(self, by: int) -> None:
        """Go down or up by lanes."""
        self._make_move(lambda rows, view: view_moves.move_lanes(rows, view, self.outline.cursor_stops(), by))

    def action_page(self, direction: int) -> None:
        """Go down or up by as many lanes as fit on the screen; without lanes, by lines."""
        self._move_lanes_or_scroll(
            direction * max(1, self._viewport.lane_count - 1), direction * max(1, self._viewport.room - 1)
        )

    def action_last_lane(self, direction: int) -> None:
        """Go to the last lane (1) or the first (-1); without lanes, to the last or first line."""
        lines = direction * len(self.outline.lines)
        self._move_lanes_or_scroll(lines, lines)

    def _move_lanes_or_scroll(self, lanes: int, lines: int) -> None:
        before = self.view
        self.action_lane(lanes)
        if self.view == before:
            self.scroll_to(y=self.scroll_offset.y + lines, animate=False)

    def action_event(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) event of the lane, or of the first lane without a cursor."""
        stops = self.outline.cursor_stops()
        self._make_move(
            lambda rows, view: view_moves.go_to_next_event(rows, view_moves.ensure_lane(rows, view, stops), direction)
        )

    def action_gap(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) gap of the rank; if there is none, say why."""

        def move(rows: TimelineRows, view: View) -> View:
            after = view_moves.select_next_gap(rows, view, direction)
            if after == view:
                least = (view.end - view.start) // view_moves.MIN_GAP_SHARE
                self.refuse(messages.no_gap_message(rows.trace, least, direction))
            return after

        self._make_move(move)

    def refuse(self, why: str) -> None:
        """Post that a key has no effect here."""
        self.post_message(self.ActionRefused(why).set_sender(self))

    def action_choose(self) -> None:
        """Select the event at the focus, on the first lane without a cursor. If an event is selected, open its details.

        If there is no event, say so.
        """
        if self.view.event is not None:
            self.post_message(self.EventOpened(self.view.event))
            return

        def move(rows: TimelineRows, view: View) -> View:
            after = view_moves.select_at_focus(rows, view_moves.ensure_lane(rows, view, self.outline.cursor_stops()))
            if after.event is None and after.lane is not None:
                self.refuse(messages.NOTHING_HERE)
            return after

        self._make_move(move)

    def action_mark(self) -> None:
        """Start a range at the selected event or the focus; the second time, end it."""
        if self._rows is not None:
            self._range_anchor.toggle(self._rows.trace, self.view)
            self._set_view(self.view)
        self.refresh(Region(0, self._header_lines - 1, self._width, 1))

    def action_clear(self) -> None:
        """Clear the selection."""
        selecting = self._range_anchor.at is not None
        self.cancel_pending()
        cleared = view_moves.clear_selection(self.view)
        if cleared == self.view or not (selecting or self.clears_selection):
            raise SkipAction
        self._set_view(cleared)

    def highlight_path(self, path: CriticalPathIntervals | None) -> None:
        """Highlight these events and fade all others; None ends that."""
        self.path, self._painter = path, None
        self.refresh()

    def choose_ranks(self, ranks: tuple[int, ...] | None) -> None:
        """Show these ranks (None: all)."""
        self._make_move(lambda rows, view: view_moves.show_ranks(rows.trace, view, ranks))

    def set_lane_layout(self, seats: LaneLayout) -> None:
        """Arrange the lanes in this layout."""
        self.lane_layout = seats
        self._rebuild_groups()
        self._keep_in_sight()

    def set_outline(self, sheet: TimelineOutline) -> None:
        """Use this outline, and compute its lines."""
        self.outline = sheet
        self._lay_out_lines()
        self._keep_in_sight()

    def _cell_position(self, event: events.MouseEvent) -> CellPosition | None:
        """Column and line of a mouse event; None in the scroll bar."""
        offset = event.get_content_offset(self)
        return None if offset is None else (offset.x - self.gutter_width, offset.y)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Start a click or a drag."""
        spot = self._cell_position(event)
        if spot is not None and event.button == 1:
            self._mouse_drag.press(spot)
            self.capture_mouse()

    def _on_mouse_move(self, event: events.MouseMove) -> None:
        """Extend the range while the button is down.

        It is posted when the button is released, so that tables change once.
        """
        columns = self._mouse_drag.drag(event.get_content_offset_capture(self).x - self.gutter_width)
        if columns is not None:
            self.view = view_moves.select_range(self.view, *map(self.visible_geometry.time, columns))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End a drag or a click."""
        self.release_mouse()
        press, dragged = self._mouse_drag.release() if event.button == 1 else (None, False)
        if dragged:
            self.post_message(self.ViewChanged(self.view))
        elif press is not None:
            found = click_target(self._viewport, self.visible_geometry, press)
            if isinstance(found, LaneGroup):
                self.set_outline(self.outline.toggle_fold(found.key))
            elif found is not None:
                self._make_move(found)

    @on(events.MouseScrollDown)
    @on(events.MouseScrollUp)
    @on(events.MouseScrollLeft)
    @on(events.MouseScrollRight)
    def _scroll_by_wheel(self, event: events.MouseEvent) -> None:
        """Scroll the lanes; pan with shift or sideways, zoom about the pointer with ctrl."""
        direction = -1 if isinstance(event, events.MouseScrollUp | events.MouseScrollLeft) else 1
        spot = self._cell_position(event)
        if event.shift or isinstance(event, events.MouseScrollLeft | events.MouseScrollRight):
            self.action_pan(direction, 8)
        elif event.ctrl and spot is not None:
            at, by = self.visible_geometry.time(spot[0]), (4, 3) if direction > 0 else (3, 4)
            self._make_move(lambda rows, view: view_moves.zoom_view(rows.trace, view, by, at))
        else:
            self.scroll_to(y=self.scroll_offset.y + 3 * direction, animate=False)
        event.stop().prevent_default()
