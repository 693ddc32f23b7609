"""The line above a table.

Owns what fits on it. Knows no result.
"""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracehound.draw.glyphs import Glyphs


class Caption(Widget):
    """One line above a table: what it is, of which window, how many rows, and what is to be known of it."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"caption--title", "caption--scope"}
    DEFAULT_CSS = """
    Caption {
        height: 1; color: $text-muted;
        & > .caption--title { color: $text; text-style: bold; }
        & > .caption--scope { color: $accent; text-style: bold; }
    }
    """

    parts: reactive[tuple[str, ...]] = reactive(())
    """Title, scope, and the rest."""
    windowed: reactive[bool] = reactive(default=False)
    """Whether the scope is a selected window."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self.glyphs = glyphs

    def render_line(self, y: int) -> Strip:
        """The parts that fit, the last one cut."""
        del y
        glyphs = self.glyphs
        title = self.get_component_rich_style("caption--title", partial=False)
        scope = self.get_component_rich_style("caption--scope", partial=False) if self.windowed else self.rich_style
        segments = list[Segment]()
        for index, part in enumerate(self.parts):
            lead = f" {glyphs.dot} " if index else " "
            style = title if index == 0 else scope if index == 1 else self.rich_style
            segments += [Segment(lead, self.rich_style), Segment(glyphs.words(part), style)]
        strip = Strip(segments)
        width = self.size.width
        if strip.cell_length > width > 1:
            return Strip([*strip.crop(0, width - 1), Segment(glyphs.ellipsis, self.rich_style)])
        return strip.adjust_cell_length(width, self.rich_style)
