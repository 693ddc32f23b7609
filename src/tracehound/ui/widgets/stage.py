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
        """Take half of the screen, and of what was asked for beyond that what there is."""
        self.styles.height = self._room // 2 + self._beyond(self._taller)

    def grow(self, lines: int) -> None:
        """Take so many lines more from the panes; less than none gives them back. Where none can go nothing changes."""
        now = self._beyond(self._taller)
        wanted = self._beyond(now + lines)
        if wanted != now:
            self._taller = wanted
            self.share()

    @property
    def _room(self) -> int:
        """Lines of the screen that there are to share."""
        return self.app.size.height - BARS

    def _beyond(self, lines: int) -> int:
        """So many lines beyond half of the screen, as far as both keep their least; the wish for more outlasts that."""
        half = self._room // 2
        return max(LEAST - half, min(lines, self._room - half - LEAST))

    def fill(self) -> None:
        """Take all there is."""
        self.styles.height = "1fr"
