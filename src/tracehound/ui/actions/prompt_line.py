"""The prompt at the bottom of a screen, and the search for events that is typed into it.

The prompt replaces the key bar and takes the focus; both are given back when it closes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.widget import Widget

from tracehound.ui.background.background_thread import BackgroundThread
from tracehound.ui.background.event_finder import EventFinder
from tracehound.ui.bindings import keys
from tracehound.ui.panes.arrivals_pane import ArrivalsPane
from tracehound.ui.panes.rank_map_pane import RankMapPane
from tracehound.ui.state.name_search import SearchMatches
from tracehound.ui.widgets.flame_view import FlameView
from tracehound.ui.widgets.prompts import SearchBar
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.widgets.status_bars import KeyBar
from tracehound.ui.wording import messages

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen


class PromptLine:
    """The line of a screen."""

    def __init__(self, screen: ExplorerScreen) -> None:
        self._screen = screen
        self._input: Widget | None = None
        self._close: Callable[[], object] | None = None
        self._before: Widget | None = None

    def begin(self, where: Widget, close: Callable[[], object]) -> None:
        """Something is asked, and typed `where`; `close` takes the line away. Nothing else is asked any more."""
        self.end()
        self._before = self._screen.focused
        self._input, self._close = where, close
        self._screen.key_bar.display = False

    def end(self) -> None:
        """Ask no more, and give the keys back."""
        if (close := self._restore_key_bar()) is not None:
            self.give_back(self._before)  # first: Textual would choose another when the line is removed
            close()

    def close_if_left(self, widget: Widget | None) -> None:
        """The keys went from this widget to another one: out of the line, that ends it."""
        if widget is self._input and (close := self._restore_key_bar()) is not None:
            close()

    def give_back(self, before: Widget | None) -> None:
        """Give the keys to what had them, or to the pane that stands in its place now."""
        screen = self._screen
        if before is not None and before in screen.focus_chain:
            screen.set_focus(before)
        else:
            screen.pane_layout.go_to(screen.pane_layout.active)

    def _restore_key_bar(self) -> Callable[[], object] | None:
        """Show the footer again; what takes the line away, None where nothing is asked."""
        close, self._close, self._input = self._close, None, None
        if close is not None:
            self._screen.key_bar.display = True
        return close


def show_keys_of_focus(bar: KeyBar, focused: Widget) -> None:
    """Name the keys of what has them now."""
    for group, title in keys.GROUP_TITLES.items():
        if title == focused.BINDING_GROUP_TITLE:
            bar.group = group


def show_row_keys(bar: KeyBar, focused: Widget | None) -> None:
    """Name no key of rows where there is none."""
    bar.has_no_rows = isinstance(focused, ResultTable | ArrivalsPane | RankMapPane | FlameView) and focused.has_no_rows


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
        self._screen.prompt_line.begin(self.prompt.input, self._close)
        self.prompt.begin()
        if self._screen.trace is not None:
            self.finder.prepare(self._screen.trace)

    def search_typed_text(self, needle: str) -> None:
        """The text is another one."""
        if self._screen.trace is not None:
            self.finder.search(self._screen.trace, needle)

    def search_typed_before(self) -> None:
        """Search for the text that was typed before anything was read."""
        if self.prompt.is_open or self._due is not None:
            self.search_typed_text(self.prompt.input.value)

    def show(self, found: SearchMatches) -> None:
        """Show what matches; go there only when the search was sent off before."""
        screen, trace = self._screen, self._screen.trace
        if trace is None or found.needle != self.prompt.input.value:
            return
        self.needle = "" if found.failure else found.needle
        walk = found.walk.after(screen.view.start)
        count = messages.search_matches_text(walk.words, found.result.total, screen.glyphs.dot) if found.needle else ""
        self.prompt.show_count(screen.glyphs.cut(found.failure, screen.size.width // 2) or count)
        nothing = found.failure or messages.why_no_rows("search" if found.needle else "prompt", trace, None)
        screen.pane_stack.table_pane("search").show(found.result, None, nothing)
        if self._due is None or screen.pane_layout.active == self._left:
            screen.pane_layout.show("search")  # unless another pane was chosen since it was sent off
            if screen.focused is not self.prompt.input:
                screen.prompt_line.give_back(screen.focused)
        screen.walk = walk if found.needle and not found.failure else None
        if self._due == found.needle:
            self._due = None
            screen.navigation.go_to_walk_event(walk)

    def submit(self, needle: str) -> None:
        """Go to the first match in sight, or after what is in sight."""
        screen = self._screen
        screen.prompt_line.end()
        screen.view = replace(screen.view, needle=needle)
        if screen.walk is not None and screen.walk.what == needle:
            screen.navigation.go_to_walk_event(screen.walk)
        else:
            self._due, self._left = needle, screen.pane_layout.active

    def _close(self) -> None:
        self.prompt.end()
        self._screen.selected.show_walk_position()
