"""Searching: from the first letter in the prompt to the event that one goes to.

Owns the prompt, and which search is to be followed as soon as it is done. The screen owns the view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracehound.ui.background.background_thread import BackgroundThread
from tracehound.ui.background.event_finder import EventFinder
from tracehound.ui.state.name_search import SearchMatches
from tracehound.ui.widgets.prompts import SearchBar
from tracehound.ui.wording import messages

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen


class SearchSession:
    """The search of a screen."""

    def __init__(self, screen: ExplorerScreen, background: BackgroundThread) -> None:
        self.prompt = SearchBar()
        self.finder = EventFinder(screen, background)
        self._screen = screen
        self._due: str | None = None
        self._left = ""
        self.needle = ""
        """What was last found, if anything can be."""

    def begin(self) -> None:
        """Open the prompt; what was sent off before is not waited for any more."""
        self._due = None
        self._screen.prompting.begin(self.prompt.input, self._close)
        self.prompt.begin()
        if self._screen.trace is not None:
            self.finder.prepare(self._screen.trace)

    def typed(self, needle: str) -> None:
        """The text is another one."""
        if self._screen.trace is not None:
            self.finder.search(self._screen.trace, needle)

    def show(self, found: SearchMatches) -> None:
        """Show what matches; go there only when the search was sent off before."""
        screen, trace = self._screen, self._screen.trace
        if trace is None or found.needle != self.prompt.input.value:
            return
        self.needle = "" if found.failure else found.needle
        walk = found.walk.after(screen.view.start)
        count = messages.search_matches(walk.words, found.result.total, screen.glyphs.dot) if found.needle else ""
        self.prompt.show_count(screen.glyphs.cut(found.failure, screen.size.width // 2) or count)
        nothing = found.failure or messages.why_no_rows("search" if found.needle else "prompt", trace, None)
        screen.pane_stack.table("search").show(found.result, None, nothing)
        if self._due is None or screen.arrangement.active == self._left:
            screen.arrangement.show("search")  # unless another pane was chosen since it was sent off
            if screen.focused is not self.prompt.input:
                screen.prompting.give_back(screen.focused)
        screen.walk = walk if found.needle and not found.failure else None
        if self._due == found.needle:
            self._due = None
            screen.travels.to(walk)

    def submit(self, needle: str) -> None:
        """Go to the first match in sight, or after what is in sight."""
        screen = self._screen
        screen.prompting.end()
        screen.view = replace(screen.view, needle=needle)
        if screen.walk is not None and screen.walk.what == needle:
            screen.travels.to(screen.walk)
        else:
            self._due, self._left = needle, screen.arrangement.active

    def _close(self) -> None:
        self.prompt.end()
        self._screen.selected.place()
