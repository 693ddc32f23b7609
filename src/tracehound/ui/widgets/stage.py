"""The upper part of the screen: the timeline, and what is said there before it can be drawn.

Owns its share of the lines.
"""

from __future__ import annotations

from textual.app import ComposeResult

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.store import Reading
from tracehound.ui.widgets.desk import Desk
from tracehound.ui.widgets.plain_bars import suit
from tracehound.ui.widgets.plain_box import Column
from tracehound.ui.widgets.reading_panel import ReadingPanel

BARS = 3
"""Lines of the screen that are neither timeline nor panes."""

LEAST = 4
"""Lines that timeline and panes keep, however one shares the screen."""


class Stage(Column):
    """The timeline, about as high as the panes below it."""

    DEFAULT_CSS = """
    Stage { height: 11; }
    """

    def __init__(self, panel: ReadingPanel, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.panel = panel
        self.desk = Desk(glyphs)
        self.timeline = self.desk.timeline
        self.desk.display = False
        self._glyphs = glyphs
        self._taller = 0

    def compose(self) -> ComposeResult:
        """One of the two is shown."""
        yield self.desk
        yield self.panel

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self.timeline, self._glyphs)

    def open(self) -> None:
        """There is something to draw."""
        self.panel.display = False
        self.desk.display = True

    def tell(self, reading: Reading, shares: dict[str, str]) -> None:
        """How far the reading is, by file; a file that has a place in the timeline says it there."""
        self.panel.reading = reading
        if shares != self.timeline.news and self.timeline.unread:
            self.timeline.news.clear()
            self.timeline.news.update(shares)
            self.timeline.refresh()

    def share(self) -> None:
        """Take half of the screen, and what was asked for beyond that."""
        room = self.app.size.height - BARS
        self._taller = max(LEAST - room // 2, min(self._taller, room - room // 2 - LEAST))
        self.styles.height = room // 2 + self._taller

    def grow(self, lines: int) -> None:
        """Take so many lines more from the panes; less than none gives them back."""
        self._taller += lines
        self.share()

    def fill(self) -> None:
        """Take all there is."""
        self.styles.height = "1fr"
