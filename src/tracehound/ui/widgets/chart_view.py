"""A chart under a table.

Owns when it is drawn anew. Knows nothing of what it shows: it is given what draws it for a size.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.plain import in_ascii
from tracehound.errors import printable

Draw = Callable[[tuple[int, int]], list[str]]
"""A chart of a width and a height in characters; no lines where there is no room."""


class ChartView(Widget):
    """Lines of characters; the last one says what they are."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"chart-view--note"}  # noqa: RUF012, as Textual
    DEFAULT_CSS = """
    ChartView { height: 1fr; color: $primary; padding: 0 1; }
    ChartView > .chart-view--note { color: $text-muted; }
    """

    draws: reactive[Draw | None] = reactive(None)
    """What draws it; None while that is being worked out."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._drawn: tuple[Draw | None, tuple[int, int], list[str]] = (None, (0, 0), [])

    def render_line(self, y: int) -> Strip:
        """One line of the chart."""
        width, height = self.size
        lines = self._lines((width, height))
        note = self.get_component_rich_style("chart-view--note", partial=False)
        style = note if y == len(lines) - 1 else self.rich_style
        text = lines[y] if y < len(lines) else ""
        words = in_ascii(text) if self._glyphs.name == "ascii" else text
        return Strip([Segment(words, style)]).adjust_cell_length(width, self.rich_style)

    def _lines(self, size: tuple[int, int]) -> list[str]:
        draws = self.draws
        if draws is None:
            return ["working it out"]
        if self._drawn[:2] != (draws, size):
            self._drawn = (draws, size, _drawn(draws, size))
        return self._drawn[2]


def _drawn(draws: Draw, size: tuple[int, int]) -> list[str]:
    """The lines of a chart, or the one that says why there are none."""
    try:
        return draws(size) or ["nothing to draw, or no room for it"]
    except Exception as error:  # noqa: BLE001 - a fault in one chart must not end the explorer
        return [printable(f"no chart: {type(error).__name__}: {error}")]
