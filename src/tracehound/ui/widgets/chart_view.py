"""Widget that shows a chart.

Owns the time of redrawing. A function supplies the lines for a size.
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

from tracehound.draw.glyphs import Glyphs, to_ascii
from tracehound.errors import printable
from tracehound.ui.widgets.boxes_and_scroll_bars import UnscrolledWidget

DrawChart = Callable[[tuple[int, int]], list[str]]
"""Function that draws a chart of a width and a height in characters; it returns no lines if there is too little
space.
"""

PROGRESS_DELAY: Final = 0.3
"""Seconds after which a message says that the chart is being computed."""


class ChartView(UnscrolledWidget):
    """Lines of characters; the last one is a note."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"chart-view--note"}  # noqa: RUF012, as Textual
    DEFAULT_CSS = """
    ChartView { height: 1fr; color: $primary; padding: 0 1; }
    ChartView > .chart-view--note { color: $text-muted; }
    """

    draws: reactive[DrawChart | None] = reactive(None, repaint=False)
    """Function that draws the chart; None while its data is computed."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._lines: list[str] = []
        self._drawn_size = (0, 0)
        self._draw_pending = False
        self._progress_timer: Timer | None = None
        self._base_style = Style.null()

    def watch_draws(self) -> None:
        """Draw another chart after the other changes of the key. A message appears only if its data takes long."""
        if self._progress_timer is not None:
            self._progress_timer.stop()
        if self.draws is None:
            self._progress_timer = self.set_timer(PROGRESS_DELAY, partial(self._show_lines, ["working it out"]))
        elif not self._draw_pending:
            self._draw_pending = True
            self.call_after_refresh(self._draw_chart)

    def on_resize(self, event: events.Resize) -> None:
        """Draw the chart for another size."""
        del event
        self._draw_chart()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw all lines with one style: Textual computes the style of a widget on each access."""
        self._base_style = self.rich_style
        if self._lines and self._drawn_size != self.size:  # painted before the Resize event
            self.call_later(self._draw_chart)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        note = self.get_component_rich_style("chart-view--note", partial=False)
        style = note if y == len(self._lines) - 1 else self._base_style
        text = self._lines[y] if y < len(self._lines) else ""
        words = to_ascii(text) if self._glyphs.name == "ascii" else text
        return Strip([Segment(words, style)]).adjust_cell_length(self.size.width, self._base_style)

    def _draw_chart(self) -> None:
        self._draw_pending = False
        if self.draws is not None:
            self._drawn_size = self.size
            self._show_lines(_draw_or_explain(self.draws, self.size))

    def _show_lines(self, lines: list[str]) -> None:
        """Refresh the lines that differ."""
        before, self._lines = self._lines, lines
        all_of_them = len(before) != len(lines)  # the last line has its own style
        both = enumerate(zip_longest(before, lines))
        changed = [y for y, (old, new) in both if all_of_them or old != new]
        if changed:
            self.refresh(*(Region(0, y, self.outer_size.width, 1) for y in changed))


def _draw_or_explain(draws: DrawChart, size: tuple[int, int]) -> list[str]:
    """Lines of a chart, or one line that says why there are none."""
    try:
        return draws(size) or ["nothing to draw, or no room for it"]
    except Exception as error:  # noqa: BLE001 - a fault in one chart must not end the explorer
        return [printable(f"no chart: {type(error).__name__}: {error}")]
