"""Lines that scroll under a cursor, by the keys that every list of this program has.

Owns where the cursor may be, that it is in sight, and that only lines that changed are drawn. Knows no content.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from rich.style import Style
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip


class Walked(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines, one of them under the cursor; `HEADER` lines above them stay where they are."""

    ALLOW_SELECT = False
    HEADER: ClassVar[int] = 0

    cursor: reactive[int] = reactive(0, repaint=False)
    """The line under the cursor, the first one below the header being 0."""

    _plain: Style | None = None

    @property
    def plain(self) -> Style:
        """The style of a line that is none in particular; worked out once for all lines of a frame."""
        return self._plain or self.rich_style

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a frame."""
        self._plain = self.rich_style
        strips = super().render_lines(crop)
        self._plain = None
        return strips

    @property
    @abstractmethod
    def line_count(self) -> int:
        """How many lines there are."""

    def extend(self, extent: Size) -> None:
        """Have so many cells and lines to scroll over; the screen is laid out anew only if a scroll bar comes or goes.

        Textual does that whenever `virtual_size` changes: for a screen full of panes that is most of a move's time.
        """
        if extent != self.virtual_size:
            self.set_reactive(ScrollView.virtual_size, extent)
            self._scroll_update(extent)

    def validate_cursor(self, cursor: int) -> int:
        """Keep the cursor on a line."""
        return max(0, min(cursor, self.line_count - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two lines that changed, and keep the cursor in sight."""
        self.refresh_line(old + self.HEADER)
        self.refresh_line(new + self.HEADER)
        self.reveal()

    def reveal(self) -> None:
        """Bring the cursor into sight."""
        page, top = self.size.height - self.HEADER, self.scroll_offset.y
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + page:
            self.scroll_to(y=self.cursor - page + 1, animate=False, immediate=True)

    def on_focus(self) -> None:
        """The cursor's line looks different with the focus."""
        self.refresh_line(self.cursor + self.HEADER)

    def on_blur(self) -> None:
        """The cursor's line looks different without the focus."""
        self.refresh_line(self.cursor + self.HEADER)

    def action_move(self, lines: int) -> None:
        """Move the cursor."""
        self.cursor += lines

    def action_page(self, pages: int) -> None:
        """Move the cursor by what is visible."""
        self.cursor += pages * max(1, self.size.height - self.HEADER - 1)

    def action_first(self) -> None:
        """Go to the first line."""
        self.cursor = 0

    def action_last(self) -> None:
        """Go to the last line."""
        self.cursor = self.line_count - 1
