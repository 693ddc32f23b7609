"""The trace of a screen while it is read: how far that is, and what everybody is told when there is more of it.

Owns which parts are still unread. The screen owns the trace and the view; where the user is in it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tracehound.model.trace import Trace
from tracehound.progress_line import short_progress_sentence
from tracehound.store import TraceReader
from tracehound.ui.background.trace_loader import TraceLoader
from tracehound.ui.panes import pane_menu
from tracehound.ui.state import row_target, view_moves
from tracehound.ui.wording import messages

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen

PREPARED: Final = 4
"""Of so many files the args are made quick to find before anybody asks; of the others when somebody does."""


class TraceUpdates:
    """Updates of a screen while its trace is being read."""

    def __init__(self, screen: ExplorerScreen, opening: TraceReader) -> None:
        self._screen = screen
        self._opening = opening
        self._unread = frozenset[int]()
        self._searched = False

    @property
    def any_read(self) -> bool:
        """True once there are events to explore."""
        trace = self._screen.trace
        return trace is not None and len(self._unread) < len(trace.parts)

    @property
    def complete_trace(self) -> Trace | None:
        """The trace, once all of it is read: of a part of it nobody can say what the whole lacks."""
        return None if self._unread else self._screen.trace

    def update_header_facts(self) -> None:
        """Say what there is, and how much of it is shown."""
        screen = self._screen
        if screen.trace is not None:
            screen.header.facts = tuple(messages.header_parts(screen.trace, screen.view.ranks))
            screen.header.alerts = tuple(messages.header_alerts(screen.trace, screen.view.ranks))

    def show_progress(self, message: TraceLoader.Progressed) -> None:
        """Say how far the reading is."""
        screen = self._screen
        screen.header.news = short_progress_sentence(message.reading, screen.app.size.width // 2)
        screen.timeline_area.show_progress(
            message.reading, messages.file_progress(message.reading, self._opening.files)
        )

    def show_stopped_reading(self, message: TraceLoader.Stopped) -> None:
        """Say that there will be no more, and ask all of what there is."""
        screen = self._screen
        screen.header.news = screen.timeline_area.panel.stopped = messages.reading_stopped_message(
            message.read, len(self._opening.files)
        )
        if screen.trace is not None:
            screen.results.set_snapshot(screen.trace, self._unread)
            screen.results.ask(screen.view)

    def use_loaded_trace(self, message: TraceLoader.Loaded) -> None:
        """Show what there is; when it is all, be where one was the last time."""
        screen = self._screen
        if message.done:
            screen.header.news = ""
            for part in message.trace.parts[:PREPARED]:
                screen.selected.decoder.prepare_args(part)
        self._unread = message.unread
        screen.trace = message.trace
        if message.done:
            screen.navigation.restore_session()

    def show_grown_trace(self, old: Trace | None, new: Trace) -> None:
        """Tell everybody of a trace that has grown."""
        screen = self._screen
        if old is None:
            screen.timeline_area.show_timeline()
            if screen.focused is None and screen.pane_layout.arrived:  # else the user has gone elsewhere meanwhile
                screen.timeline.focus()
            screen.navigation.choose_first_pane(new)
        elif row_target.ids_changed(old, new):
            screen.walk = None
            screen.results.clear_results()
        pane_menu.label_tabs(screen.pane_layout.tabs, screen.keys, self.complete_trace)
        if old is not None:
            screen.navigation.update_history_and_marks(old, new)
        view = (
            view_moves.show_whole_run(new, screen.view)
            if old is None
            else row_target.view_in_grown_trace(screen.view, old, new)
        )
        screen.timeline.show(new, view, self._unread)
        screen.view = view
        self.update_header_facts()
        if self.any_read and not self._searched:
            self._searched = True
            screen.search_session.search_typed_before()
        screen.results.update_snapshot_if_due(new, self._unread)
        screen.results.ask(screen.view)
