"""The line at the bottom on which something is asked: it has the footer's place and the keys, and gives both back.

Owns what had the keys before, and that one thing is asked at a time. What it is knows who asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.widget import Widget

from tracehound.ui.bindings import keys
from tracehound.ui.panes.arrivals_pane import ArrivalsPane
from tracehound.ui.widgets.flame_view import FlameView
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.widgets.status_bars import KeyBar

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
        if (close := self._ended()) is not None:
            self.give_back(self._before)  # first: Textual would choose another when the line is removed
            close()

    def left(self, widget: Widget | None) -> None:
        """The keys went from this widget to another one: out of the line, that ends it."""
        if widget is self._input and (close := self._ended()) is not None:
            close()

    def give_back(self, before: Widget | None) -> None:
        """Give the keys to what had them, or to the pane that stands in its place now."""
        screen = self._screen
        if before is not None and before in screen.focus_chain:
            screen.set_focus(before)
        else:
            screen.arrangement.go_to(screen.arrangement.active)

    def _ended(self) -> Callable[[], object] | None:
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
    bar.has_no_rows = isinstance(focused, ResultTable | ArrivalsPane | FlameView) and focused.has_no_rows
