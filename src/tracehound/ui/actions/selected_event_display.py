"""The selected event: one line in the header, and in the details all that it carries.

Owns what is asked for that, and which answers are still wanted. The screen says which event it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracehound.errors import printable
from tracehound.model.short_names import shorten_kernel_name
from tracehound.ui.background.event_reader import EventReader
from tracehound.ui.panes.details_pane import DetailsPane, FactSheet
from tracehound.ui.state.goto_targets import selected_step_numbers
from tracehound.ui.state.view import View
from tracehound.ui.wording import event_facts
from tracehound.ui.wording.event_facts import window_facts

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen

WALK = 24
"""Cells of the header, at most, that say what a walk goes through."""

PLACE = 40
"""Cells of the header, at most, that say which of the places found in the details one is at."""


class SelectedEventDisplay:
    """The selected event of a screen."""

    def __init__(self, screen: ExplorerScreen) -> None:
        self.decoder = EventReader(screen)
        self.details = DetailsPane(screen.glyphs)
        self._screen = screen

    def update_for_view(self, old: View, new: View) -> None:
        """Another view, and so perhaps another event, or another value of a counter."""
        screen, trace = self._screen, self._screen.trace
        screen.key_bar.no_event = new.event is None
        if new.event is None and trace is not None:
            screen.header.event = event_facts.describe_counter(trace, new)
            self.show_walk_position()
        if new.event is None and old.event is None and new.selection != old.selection:
            self.request_details()
        if new.event is not None:
            screen.pane_layout.open_details()
        if new.event != old.event:
            if trace is not None and new.event is not None:
                self.decoder.describe(trace, new.event)
            self.request_details()

    def request_details(self) -> None:
        """Fill the details, where they are in sight."""
        trace, view = self._screen.trace, self._screen.view
        event, window = view.event, view.selection
        if trace is None or not self.details.display:
            return
        if event is None:
            self.details.clear(window_facts(window, selected_step_numbers(trace, view)) if window is not None else ())
            return
        if event == self.details.event:
            return
        self.details.begin_event(event)
        self.decoder.decode(trace, event)

    def described(self, found: EventReader.Described) -> None:
        """Say in one line what it is."""
        if found.event == self._screen.view.event:
            self._screen.header.event = found.words
            self.show_walk_position()

    def decoded(self, found: EventReader.Decoded) -> None:
        """Say all of it."""
        if found.event == self.details.event:
            self.details.show(found.facts, found.args, found.failure)

    def show_details_match(self, place: FactSheet.MatchChanged) -> None:
        """Say which of the places that were found in the details one is at; without any, where a walk is."""
        self.show_walk_position()
        screen = self._screen
        screen.header.place = screen.glyphs.cut(place.place, PLACE) or screen.header.place

    def show_walk_position(self) -> None:
        """Say where in a walk one is, and in which, unless that is the name beside it."""
        header, walk = self._screen.header, self._screen.walk
        there = walk is not None and walk.event in (None, self._screen.view.event)
        if walk is None or not (there or self._screen.search_session.prompt.is_open):
            header.place = ""  # one has gone elsewhere: n goes on all the same
        elif walk.event is not None and header.event[:1] == (printable(walk.what),):
            header.place = walk.words
        else:
            header.place = f"{self._screen.glyphs.cut(shorten_kernel_name(walk.what), WALK)} {walk.words}"
