"""The trace of a screen while it is read: how far that is, and what everybody is told when there is more of it.

Owns which parts are still unread. The screen owns the trace and the view; where the user is in it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tracehound.progress import brief
from tracehound.store import Opening
from tracehound.trace import Trace
from tracehound.ui.background.loading import Loading
from tracehound.ui.bindings import menu
from tracehound.ui.state import follow, navigate
from tracehound.ui.wording import words

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer import Explorer

PREPARED: Final = 4
"""Of so many files the args are made quick to find before anybody asks; of the others when somebody does."""


class Growth:
    """What is read of an opening, on a screen."""

    def __init__(self, screen: Explorer, opening: Opening) -> None:
        self._screen = screen
        self._opening = opening
        self._unread = frozenset[int]()

    @property
    def any_read(self) -> bool:
        """Whether there are events to explore."""
        trace = self._screen.trace
        return trace is not None and len(self._unread) < len(trace.parts)

    @property
    def whole(self) -> Trace | None:
        """The trace, once all of it is read: of a part of it nobody can say what the whole lacks."""
        return None if self._unread else self._screen.trace

    def entitle(self) -> None:
        """Say what there is, and how much of it is shown."""
        if self._screen.trace is not None:
            self._screen.header.facts = tuple(words.about(self._screen.trace, self._screen.view.ranks))

    def progressed(self, message: Loading.Progressed) -> None:
        """Say how far the reading is."""
        screen = self._screen
        screen.header.news = brief(message.reading, screen.app.size.width // 2)
        screen.stage.tell(message.reading, words.shares(message.reading, self._opening.files))

    def stopped(self, message: Loading.Stopped) -> None:
        """Say that there will be no more, and ask all of what there is."""
        screen = self._screen
        screen.header.news = screen.stage.panel.stopped = words.stopped(message.read, len(self._opening.files))
        if screen.trace is not None:
            screen.results.settle(screen.trace, self._unread)
            screen.results.ask(screen.view)

    def loaded(self, message: Loading.Loaded) -> None:
        """Show what there is; when it is all, be where one was the last time."""
        screen = self._screen
        if message.done:
            screen.header.news = ""
            for part in message.trace.parts[:PREPARED]:
                screen.selected.decoder.prepare(part)
        self._unread = message.unread
        screen.trace = message.trace
        if message.done:
            screen.travels.recall()

    def grown(self, old: Trace | None, new: Trace) -> None:
        """Tell everybody of a trace that has grown."""
        screen = self._screen
        if old is None:
            screen.stage.open()
            screen.timeline.focus()
            screen.travels.open(new)
        elif follow.renumbered(old, new):
            screen.walk = None
            screen.results.forget()
        menu.label(screen.arrangement.tabs, screen.keys, self.whole)
        if old is not None:
            screen.travels.grown(old, new)
        view = navigate.fit(new, screen.view) if old is None else follow.moved(screen.view, old, new)
        screen.timeline.show(new, view, self._unread)
        screen.view = view
        self.entitle()
        screen.results.follow(new, self._unread)
        screen.results.ask(screen.view)
