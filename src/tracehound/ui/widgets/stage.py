"""The upper part of the screen: the timeline, and what is said there before it can be drawn.

Owns its share of the lines.
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui.widgets.desk import Desk
from tracehound.ui.widgets.plain_bars import suit
from tracehound.ui.widgets.plain_box import Column

BARS = 3
"""Lines of the screen that are neither timeline nor panes."""

LEAST = 4
"""Lines that timeline and panes keep, however one shares the screen."""


class Stage(Column):
    """The timeline, about as high as the panes below it."""

    DEFAULT_CSS = """
    Stage { height: 11; }
    Stage > Static { height: 1fr; padding: 1 2; color: $text-muted; }
    """

    def __init__(self, waiting: str, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.desk = Desk(glyphs)
        self.timeline = self.desk.timeline
        self.desk.display = False
        self._glyphs = glyphs
        self._waiting = Static(waiting, markup=False)
        self._taller = 0

    def compose(self) -> ComposeResult:
        """One of the two is shown."""
        yield self.desk
        yield self._waiting

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self.timeline, self._glyphs)

    def open(self) -> None:
        """There is something to draw."""
        self._waiting.display = False
        self.desk.display = True

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
