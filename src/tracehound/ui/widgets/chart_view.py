"""A chart under a table.

Owns when it is drawn anew. Knows nothing of what it shows: it is given what draws it for a size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.plain import in_ascii
from tracehound.errors import printable
from tracehound.ui.widgets.plain_box import Unscrolled

Draw = Callable[[tuple[int, int]], list[str]]
"""A chart of a width and a height in characters; no lines where there is no room."""

LATE: Final = 0.3
"""Seconds after which it is said that a chart is being worked out."""


class ChartView(Unscrolled):
    """Lines of characters; the last one says what they are."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"chart-view--note"}  # noqa: RUF012, as Textual
    DEFAULT_CSS = """
    ChartView { height: 1fr; color: $primary; padding: 0 1; }
    ChartView > .chart-view--note { color: $text-muted; }
    """

    draws: reactive[Draw | None] = reactive(None, repaint=False)
    """What draws it; None while that is being worked out."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._lines: list[str] = []
        self._room = (0, 0)
        self._due = False
        self._late: Timer | None = None
        self._ground = Style.null()

    def watch_draws(self) -> None:
        """Another chart: first show what else the key changed. What takes long is told; a blink tells nobody."""
        if self._late is not None:
            self._late.stop()
        if self.draws is None:
            self._late = self.set_timer(LATE, partial(self._show, ["working it out"]))
        elif not self._due:
            self._due = True
            self.call_after_refresh(self._draw)

    def on_resize(self, event: events.Resize) -> None:
        """A chart for another size."""
        del event
        self._draw()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Textual works out the style of a widget anew for whoever asks: once is enough for all lines."""
        self._ground = self.rich_style
        if self._lines and self._room != self.size:  # painted before it is told of its size
            self.call_later(self._draw)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """One line of the chart."""
        note = self.get_component_rich_style("chart-view--note", partial=False)
        style = note if y == len(self._lines) - 1 else self._ground
        text = self._lines[y] if y < len(self._lines) else ""
        words = in_ascii(text) if self._glyphs.name == "ascii" else text
        return Strip([Segment(words, style)]).adjust_cell_length(self.size.width, self._ground)

    def _draw(self) -> None:
        self._due = False
        if self.draws is not None:
            self._room = self.size
            self._show(_drawn(self.draws, self.size))

    def _show(self, lines: list[str]) -> None:
        """Send the lines that are others now."""
        before, self._lines = self._lines, lines
        all_of_them = len(before) != len(lines)  # the last one has a look of its own
        both = enumerate(zip_longest(before, lines))
        changed = [y for y, (old, new) in both if all_of_them or old != new]
        if changed:
            self.refresh(*(Region(0, y, self.outer_size.width, 1) for y in changed))


def _drawn(draws: Draw, size: tuple[int, int]) -> list[str]:
    """The lines of a chart, or the one that says why there are none."""
    try:
        return draws(size) or ["nothing to draw, or no room for it"]
    except Exception as error:  # noqa: BLE001 - a fault in one chart must not end the explorer
        return [printable(f"no chart: {type(error).__name__}: {error}")]
