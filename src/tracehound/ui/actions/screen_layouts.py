"""Layouts of the two screens: the explorer (timeline, tabs, panes) and the comparison (two timelines, tables).

They know which pane is visible, which one fills the screen, and how many lines each timeline has; nothing of traces.
Below them is what Esc closes in the explorer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace
from textual.widget import Widget

from tracehound.ui.panes.comparison_panes import ComparisonPanes
from tracehound.ui.panes.details_pane import DetailsPane
from tracehound.ui.panes.pane_stack import PaneStack
from tracehound.ui.state.view import View
from tracehound.ui.state.view_moves import clear_selection
from tracehound.ui.widgets.boxes_and_scroll_bars import HorizontalBox
from tracehound.ui.widgets.status_bars import TabBar
from tracehound.ui.widgets.timeline_area import TimelineArea
from tracehound.ui.widgets.titled_timeline import TitledTimeline

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen

WIDE_COLUMNS = 120
"""Columns from which there is room for the details beside the tables."""


class ExplorerLayout:
    """The timeline above, under it the tabs and the panes; `changed` is called when others are in sight."""

    def __init__(
        self, timeline_area: TimelineArea, pane_stack: PaneStack, details: DetailsPane, changed: Callable[[], None]
    ) -> None:
        self.tabs = TabBar()
        self.bottom = HorizontalBox(pane_stack, details, id="bottom")
        self._timeline_area = timeline_area
        self._pane_stack = pane_stack
        self._details = details
        self._changed = changed
        self._alone: Literal["", "timeline", "panes"] = ""
        self._opened: Literal["", "by event", "by key"] = ""
        self._declined = False
        self._tab = pane_stack.active
        self._focused_before_details: Widget | None = None
        self.arrived = True
        """Whether what was gone to has the keys."""
        self.hold_keys: Callable[[Callable[[], bool]], None] = lambda arrived: None  # noqa: ARG005
        """Makes keys wait until what was gone to has them."""

    @property
    def has_room_for_details(self) -> bool:
        """True if the details stand beside the tables."""
        return self._timeline_area.app.size.width >= WIDE_COLUMNS

    @property
    def active(self) -> str:
        """The tab that is shown."""
        return self._pane_stack.active

    @property
    def is_zoomed(self) -> bool:
        """True if the timeline or the panes have the whole screen."""
        return bool(self._alone)

    @property
    def details_open(self) -> bool:
        """True if the details are open: beside the tables, or as the tab that is shown."""
        return bool(self._opened) if self.has_room_for_details else self.active == "details"

    def go_to(self, pane: str) -> None:
        """Show a pane and give it the keys; the details give them back where they have them already."""
        if pane == "details" and self._details_have_focus:
            self.close_details()
            return
        self.arrived = pane == "timeline"
        if self._alone:
            self._alone = "timeline" if pane == "timeline" else "panes"
            self.apply_layout()
        if pane == "timeline":
            self._timeline_area.timeline.focus()
        elif pane == "details":
            self._opened, self._declined = "by key", False
            self._focused_before_details = self._timeline_area.screen.focused
            self.show(self.active if self.has_room_for_details else pane)
            self._details.call_after_refresh(self._focus, self._details.fact_sheet.focus)
        else:
            self.show(pane)
            self._pane_stack.call_after_refresh(self._focus_active_tab)
        if pane != "query":  # whose prompt they wait for
            self.hold_keys(lambda: self.arrived)

    def _focus_active_tab(self) -> None:
        """Give the keys to what is shown, as soon as it is there."""
        if self._pane_stack.is_ready:
            self._focus(self._pane_stack.focus_active)
        else:
            self._pane_stack.call_after_refresh(self._focus_active_tab)

    def _focus(self, focus: Callable[[], object]) -> None:
        """Textual gives the focus a moment later; it has arrived after that."""
        focus()
        self._pane_stack.app.call_later(self._arrive)

    def _arrive(self) -> None:
        self.arrived = True

    def open_details(self) -> None:
        """Have the details of a selected event beside the tables, unless the user has closed them."""
        if not self._opened and not self._declined:
            self._opened = "by event"
            self.show(self.active)

    def close_details(self) -> None:
        """Give the room of the details to the tables, and the keys to what had them; no event opens them again."""
        had_focus = self._details_have_focus
        self._declined = True
        self._hide_details()
        if had_focus:
            before, screen = self._focused_before_details, self._timeline_area.screen
            if before is not None and before in screen.focus_chain:
                screen.set_focus(before)
            else:
                self.go_to(self.active)

    def leave_event(self) -> None:
        """No event is selected any more: the details close if one opened them."""
        if self._opened == "by event":
            self._hide_details()

    def _hide_details(self) -> None:
        self._opened = ""
        self.show(self._tab)

    @property
    def _details_have_focus(self) -> bool:
        focused = self._timeline_area.screen.focused
        return focused is not None and self._details.display and self._details in focused.ancestors

    def show(self, tab: str) -> None:
        """Put a tab in sight: the details have one of their own only where they do not stand beside the tables."""
        tab = self._tab if self.has_room_for_details and tab == "details" else tab
        self._tab = tab if tab != "details" else self._tab
        self._pane_stack.active = tab
        self.tabs.active = tab
        self._pane_stack.display = tab != "details"
        self._details.display = tab == "details" or (self.has_room_for_details and bool(self._opened))
        self._changed()

    def mark_focused_pane(self, focused: Widget) -> None:
        """Show in the tabs whether the active pane has the keys."""
        pane = self._details if self.active == "details" else self._pane_stack
        self.tabs.has_keys = pane in focused.ancestors

    def zoom(self, focused: Widget | None) -> None:
        """Give the screen to the pane with the keys, or share it again."""
        self._alone = "" if self._alone else "timeline" if focused is self._timeline_area.timeline else "panes"
        self.apply_layout()

    def end_zoom(self) -> None:
        """Share the screen, if one has it alone."""
        if self._alone:
            self.zoom(None)

    def apply_layout(self) -> None:
        """Share the screen, or give it to what has it alone; no classes, which would restyle every widget."""
        self._timeline_area.display = self._alone != "panes"
        self.tabs.display = self.bottom.display = self._alone != "timeline"
        (self._timeline_area.fill if self._alone else self._timeline_area.use_half_screen)()

    def apply_new_size(self) -> None:
        """Share another size; the details may come or go."""
        self.apply_layout()
        self.show(self.active)


Closable = Literal["path", "walk", "details", "zoom", "window", "event"]
"""Names of all that Esc can close."""


class ClosingOrder:
    """Names of all that is open, in the order in which it was opened.

    A window and an event that were selected at once are closed at once.
    """

    def __init__(self) -> None:
        self._open: dict[Closable, object] = {}
        self._order: list[tuple[Closable, ...]] = []

    def update(self, open_now: Mapping[Closable, object]) -> None:
        """Take what is open now; what has another value than before counts as opened anew."""
        same = {name for name, value in open_now.items() if name in self._open and self._open[name] == value}
        kept = (tuple(name for name in names if name in same) for names in self._order)
        new = [name for name in open_now if name not in same]
        selected = tuple(name for name in new if name in ("window", "event"))
        self._order = [names for names in kept if names]
        self._order += [*((name,) for name in new if name not in selected), *([selected] if selected else [])]
        self._open = dict(open_now)

    @property
    def last_opened(self) -> tuple[Closable, ...]:
        """Names of all that was opened last; empty if nothing is open."""
        return self._order[-1] if self._order else ()


def note_what_is_open(screen: ExplorerScreen) -> None:
    """Remember the order in which things are opened: to be called whenever one may have been opened or closed."""
    view, walk, path, layout = screen.view, screen.walk, screen.timeline.path, screen.pane_layout
    candidates: Mapping[Closable, object] = {
        "path": path, "walk": walk and walk.what, "details": layout.details_open, "zoom": layout.is_zoomed,
        "window": view.selection, "event": view.event,
    }  # fmt: skip
    screen.closing_order.update({
        name: value if name != "path" else id(value)
        for name, value in candidates.items()
        if value is not None and value is not False
    })  # fmt: skip


def close_last_opened(screen: ExplorerScreen) -> None:
    """Forget keys that wait for rows; else close what was opened last; with nothing open, stop the reading."""
    if screen.pane_stack.forget_postponed():
        return
    note_what_is_open(screen)
    last = screen.closing_order.last_opened
    close: Mapping[Closable, Callable[[], object]] = {
        "path": screen.navigation.critical_path_overlay.end,
        "details": screen.pane_layout.close_details,
        "zoom": screen.pane_layout.end_zoom,
    }
    if "window" in last or "event" in last:
        screen.view = _without_selected(screen.view, last)
    elif "walk" in last:
        screen.walk = None
    elif last:
        close[last[0]]()
    elif screen.reading.busy:
        screen.reading.stop()
    if "event" in last:
        screen.pane_layout.leave_event()
    note_what_is_open(screen)


def _without_selected(view: View, what: Sequence[Closable]) -> View:
    """The view without its window or its event, or without both; the last of them takes the focus with it."""
    event = None if "event" in what else view.event
    window = None if "window" in what else view.selection
    return clear_selection(view) if event is None and window is None else replace(view, event=event, selection=window)


VisiblePart = Literal["baseline", "candidate", "tables"]

TIMELINES: Final[tuple[VisiblePart, ...]] = ("baseline", "candidate")
EVERYTHING: Final[tuple[VisiblePart, ...]] = (*TIMELINES, "tables")

BAR_LINES: Final = 3
"""Lines of the screen that are neither timelines nor tables."""

MIN_TIMELINE_LINES: Final = 5
"""Lines of a run, at least: which it is, its steps, the time, and lanes."""

MIN_TABLE_LINES: Final = 4
"""Lines of the tables, at least: what it is, the header, and rows."""


class ComparisonLayout:
    """Both timelines above the tables; on a small screen those, or the one of them, that have the keys.

    `sides` are the baseline and the candidate, in this order whenever it is looked at.
    """

    def __init__(self, sides: Sequence[TitledTimeline], differences: ComparisonPanes) -> None:
        self.tabs = TabBar()
        self._sides = sides
        self._differences = differences
        self._wanted: VisiblePart = "baseline"
        self.alone = False
        """Whether the timelines have the screen alone."""

    @property
    def _boxes(self) -> dict[VisiblePart, Widget]:
        baseline, candidate = self._sides
        return {"baseline": baseline, "candidate": candidate, "tables": self._differences}

    @property
    def _room(self) -> int:
        return self.tabs.app.size.height - BAR_LINES

    @property
    def fits_one_part_only(self) -> bool:
        """True if only one of them fits on the screen: then the tables are shown, since they say most."""
        return self._room < 2 * MIN_TIMELINE_LINES

    def visible_parts(self) -> tuple[VisiblePart, ...]:
        """The wanted parts that fit on the screen."""
        if not self.alone and self._room >= 2 * MIN_TIMELINE_LINES + MIN_TABLE_LINES:
            return EVERYTHING
        wanted = "baseline" if self.alone and self._wanted == "tables" else self._wanted
        return TIMELINES if wanted != "tables" and not self.fits_one_part_only else (wanted,)

    def show_part(self, part: VisiblePart) -> None:
        """Bring this into sight."""
        self._wanted = part
        self.alone = self.alone and part != "tables"
        self.apply_layout()

    def show_focused_part(self, focused: Widget | None) -> None:
        """Keep the part that has the focus visible."""
        part = self._part_of(focused)
        self.tabs.has_keys = part == "tables"
        if part is not None:
            self.show_part(part)

    def _part_of(self, widget: Widget | None) -> VisiblePart | None:
        around = [] if widget is None else widget.ancestors
        return next((part for part, box in self._boxes.items() if box in around), None)

    def toggle_timelines_zoom(self) -> None:
        """Give the screen to the timelines, or share it again."""
        self.alone = not self.alone
        self.apply_layout()

    def apply_layout(self) -> None:
        """Share the lines: as much for either timeline, and a little more for the tables."""
        shown = self.visible_parts()
        lines = max(MIN_TIMELINE_LINES, self._room * 3 // 10) if shown == EVERYTHING else "1fr"
        if self._part_of(self.tabs.screen.focused) not in (None, *shown):
            self.tabs.screen.set_focus(None)  # Textual does so when it is hidden, and takes it from who has it by then
        for part, box in self._boxes.items():
            box.display = part in shown
        for side in self._sides:
            side.styles.height = lines
        self.tabs.display = not self.alone

    def neighbor_part(self, by: int) -> VisiblePart:
        """The part after the wanted one (1) or before it (-1), whether or not it fits now."""
        parts = TIMELINES if self.alone else EVERYTHING
        return parts[(parts.index(self._wanted) + by) % len(parts)] if self._wanted in parts else "baseline"
