"""Base classes of panes with rows: keys that wait for the rows, and scrolling lists with a cursor.

A list owns the cursor's limits, the scroll position, and the refresh of changed lines. Subclasses draw the lines.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from rich.style import Style
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tracehound.analysis.result import Result

ACTIONS_WITHOUT_ROWS: Final = ("ask('filter')", "ask('unfilter')", "ask('save')", "ask('find')", "ask('table')")
"""Actions of panes that make sense before there are rows: they open prompts, or show another widget."""


class RowsAwaited(Widget):
    """Widget whose keys wait for its rows while these are being computed, so that no key is lost.

    Textual takes the looks of a widget from its first base alone: a base with looks comes before this one.
    """

    awaits_rows: reactive[bool] = reactive(default=False, repaint=False)
    """True while rows are being computed and none are shown."""

    _postponed: tuple[str, ...] = ()

    def postpone(self, action: str) -> bool:
        """Keep an action of a key until there are rows. Returns False if it needs none, or there are some."""
        if not self.awaits_rows or "." in action.partition("(")[0] or action in ACTIONS_WITHOUT_ROWS:
            return False
        self._postponed = (*self._postponed, action)
        return True

    @property
    def has_postponed(self) -> bool:
        """True while actions wait for rows."""
        return bool(self._postponed)

    def forget_postponed(self) -> bool:
        """Drop the actions that wait. Returns True if there were any."""
        had_some, self._postponed = bool(self._postponed), ()
        return had_some

    def watch_awaits_rows(self, awaits: bool) -> None:  # noqa: FBT001, as Textual
        """Run the actions that have waited."""
        if not awaits and self._postponed:
            due, self._postponed = self._postponed, ()
            self.call_later(self._run_actions, due)

    async def _run_actions(self, actions: Sequence[str]) -> None:
        for action in actions:
            await self.run_action(action)


class DrawnResult(RowsAwaited):
    """Widget that draws one result, or in its place a message."""

    _result: Result | None = None
    _message: str = ""

    def show_failure(self, message: str) -> None:
        """Show why there is no result, in one line."""
        self.clear_result()
        self._message = message
        self.forget_postponed()
        self.awaits_rows = False
        self.refresh()

    def show_waiting(self, message: str) -> None:
        """Show that a result is being computed, unless one is shown."""
        if self._result is None:
            self._message = message
            self.awaits_rows = True
            self.refresh()

    def clear_result(self) -> None:
        """Remove the result, since its rows no longer mean the same."""
        self._result = None
        self.refresh()


class CursorList(ScrollView, RowsAwaited, can_focus=True, inherit_bindings=False):
    """Lines, one of them under the cursor; `HEADER` lines above them do not scroll."""

    ALLOW_SELECT = False
    HEADER: ClassVar[int] = 0

    cursor: reactive[int] = reactive(0, repaint=False)
    """Number of the line under the cursor; the first one below the header is 0."""

    _cached_style: Style | None = None

    @property
    def plain(self) -> Style:
        """Style of a normal line, computed once for all lines of a frame."""
        return self._cached_style or self.rich_style

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines of a frame."""
        self._cached_style = self.rich_style
        strips = super().render_lines(crop)
        self._cached_style = None
        return strips

    @property
    @abstractmethod
    def line_count(self) -> int:
        """Number of lines."""

    def set_extent(self, extent: Size) -> None:
        """Set the size of the content. The screen is laid out again only if a scroll bar appears or disappears.

        Textual does so whenever `virtual_size` changes, which takes most of the time of a move on a screen full of
        panes.
        """
        if extent != self.virtual_size:
            self.set_reactive(ScrollView.virtual_size, extent)
            self._scroll_update(extent)

    def validate_cursor(self, cursor: int) -> int:
        """Clamp to the lines that exist."""
        return max(0, min(cursor, self.line_count - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        """Redraw the two lines that changed, and scroll to the cursor."""
        self.refresh_line(old + self.HEADER)
        self.refresh_line(new + self.HEADER)
        self.scroll_to_cursor()

    def scroll_to_cursor(self) -> None:
        """Scroll to the cursor."""
        page, top = self.size.height - self.HEADER, self.scroll_offset.y
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + page:
            self.scroll_to(y=self.cursor - page + 1, animate=False, immediate=True)

    def on_focus(self) -> None:
        """Redraw the cursor's line with the focus."""
        self.refresh_line(self.cursor + self.HEADER)

    def on_blur(self) -> None:
        """Redraw the cursor's line without the focus."""
        self.refresh_line(self.cursor + self.HEADER)

    def action_move(self, lines: int) -> None:
        """Move the cursor."""
        self.cursor += lines

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.cursor += pages * max(1, self.size.height - self.HEADER - 1)

    def action_first(self) -> None:
        """Go to the first line."""
        self.cursor = 0

    def action_last(self) -> None:
        """Go to the last line."""
        self.cursor = self.line_count - 1
