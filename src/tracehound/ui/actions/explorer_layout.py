"""Layout of the explorer: the timeline above, tabs and panes below.

Owns which pane is visible, which one has the whole screen, and where the details stand. Knows no trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from textual.widget import Widget

from tracehound.ui.panes.details_pane import DetailsPane
from tracehound.ui.panes.pane_stack import PaneStack
from tracehound.ui.widgets.boxes_and_scroll_bars import HorizontalBox
from tracehound.ui.widgets.status_bars import TabBar
from tracehound.ui.widgets.timeline_area import TimelineArea

WIDE_COLUMNS = 120
"""Columns from which there is room for the details beside the tables."""


class ExplorerLayout:
    """The timeline above, under it the tabs and the panes; `changed` is called when others are in sight."""

    def __init__(self, stage: TimelineArea, deck: PaneStack, details: DetailsPane, changed: Callable[[], None]) -> None:
        self.tabs = TabBar()
        self.bottom = HorizontalBox(deck, details, id="bottom")
        self._stage = stage
        self._deck = deck
        self._details = details
        self._changed = changed
        self._alone: Literal["", "timeline", "panes"] = ""
        self._opened = False
        self.arrived = True
        """Whether what was gone to has the keys."""

    @property
    def wide(self) -> bool:
        """True if the details stand beside the tables."""
        return self._stage.app.size.width >= WIDE_COLUMNS

    @property
    def active(self) -> str:
        """The tab that is shown."""
        return self._deck.active

    def go_to(self, pane: str) -> None:
        """Show a pane and give it the keys."""
        self.arrived = pane == "timeline"
        if self._alone:
            self._alone = "timeline" if pane == "timeline" else "panes"
            self.lay()
        if pane == "timeline":
            self._stage.timeline.focus()
        elif pane == "details":
            self._opened = True
            self.show(self.active if self.wide else pane)
            self._details.call_after_refresh(self._focus, self._details.fact_sheet.focus)
        else:
            self.show(pane)
            self._deck.call_after_refresh(self._focus_deck)

    def _focus_deck(self) -> None:
        """Give the keys to what is shown, as soon as it is there."""
        if self._deck.is_ready:
            self._focus(self._deck.focus_active)
        else:
            self._deck.call_after_refresh(self._focus_deck)

    def _focus(self, focus: Callable[[], object]) -> None:
        """Textual gives the focus a moment later; it has arrived after that."""
        focus()
        self._deck.app.call_later(self._arrive)

    def _arrive(self) -> None:
        self.arrived = True

    def open_details(self) -> None:
        """Have the details beside the tables from now on; until there is something to say the tables have that room."""
        if not self._opened:
            self._opened = True
            self.show(self.active)

    def show(self, tab: str) -> None:
        """Put a tab in sight: the details have one of their own only where they do not stand beside the tables."""
        tab = "ops" if self.wide and tab == "details" else tab
        self._deck.active = tab
        self.tabs.active = tab
        self._deck.display = tab != "details"
        self._details.display = tab == "details" or (self.wide and self._opened)
        self._changed()

    def zoom(self, focused: Widget | None) -> None:
        """Give the screen to the pane with the keys, or share it again."""
        self._alone = "" if self._alone else "timeline" if focused is self._stage.timeline else "panes"
        self.lay()

    def share(self) -> None:
        """Share the screen, if one has it alone."""
        if self._alone:
            self.zoom(None)

    def lay(self) -> None:
        """Share the screen, or give it to what has it alone; no classes, which would restyle every widget."""
        self._stage.display = self._alone != "panes"
        self.tabs.display = self.bottom.display = self._alone != "timeline"
        (self._stage.fill if self._alone else self._stage.share)()

    def resized(self) -> None:
        """Share another size; the details may come or go."""
        self.lay()
        self.show(self.active)
