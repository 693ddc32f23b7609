"""Caption lines above a table.

Owns the number of lines and what fits on them.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.strip import Strip

from tracehound.draw import text_wrapping
from tracehound.draw.glyphs import Glyphs
from tracehound.draw.text_wrapping import CaptionPiece, CaptionStyle
from tracehound.ui.widgets.boxes_and_scroll_bars import UnscrolledWidget

MAX_BORROWED_LINES: Final = 3
"""Most lines taken from the table below, and no more than a third of the pane."""

UNBOUNDED_LINES: Final = 1 << 16
"""More lines than any terminal has."""

SIDE_MARGIN: Final = 1
"""Empty cells on either side."""


class Caption(UnscrolledWidget):
    """Title, scope, number of rows and notes above a table."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"caption--{part}" for part in ("title", "scope", "more")}
    DEFAULT_CSS = """
    Caption {
        height: auto; color: $text-muted;
        & > .caption--title { color: $text; text-style: bold; }
        & > .caption--scope { color: $accent; text-style: bold; }
        & > .caption--more { color: $accent; text-style: bold; }
    }
    """

    parts: reactive[tuple[str, ...]] = reactive((), repaint=False)
    """Title, scope, and the rest."""
    told: reactive[str] = reactive("", repaint=False)
    """Message about the last action, shown after the scope for a while."""
    windowed: reactive[bool] = reactive(default=False)
    """True if the scope is a selected window."""

    def __init__(self, glyphs: Glyphs, key: str = "") -> None:
        """`key` shows what is cut."""
        super().__init__()
        self.glyphs = glyphs
        self.key = key
        self._lines_below = (UNBOUNDED_LINES, 0)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines for all parts, limited to free lines and to those that the table can spare."""
        del viewport
        room, (most, least) = container.height, self._lines_below
        needed = text_wrapping.count_caption_lines(self.parts, self.glyphs, max(1, width - 2 * SIDE_MARGIN))
        return max(1, min(needed, max(room - most, min(MAX_BORROWED_LINES, (room - 2) // 3, room - least))))

    def fit(self, most: int, least: int) -> None:
        """Set the preferred (`most`) and the least number of lines of the table below."""
        if (most, least) != self._lines_below:
            self._lines_below = (most, least)
            self.refresh(layout=True)

    def watch_parts(self, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Redraw; lay out again only if the number of lines changes."""
        width = self.size.width - 2 * SIDE_MARGIN
        if width < 1 or text_wrapping.count_caption_lines(old, self.glyphs, width) != text_wrapping.count_caption_lines(
            new, self.glyphs, width
        ):
            self.refresh(layout=True)
        self._refresh_changed_lines(self._wrapped_lines(old, self.told), self._wrapped_lines(new, self.told))

    def watch_told(self, old: str, new: str) -> None:
        """Redraw the changed lines."""
        self._refresh_changed_lines(self._wrapped_lines(self.parts, old), self._wrapped_lines(self.parts, new))

    def render_line(self, y: int) -> Strip:
        """Draw one line; the last has an ellipsis if parts are cut."""
        lines = self._wrapped_lines(self.parts, self.told)
        segments = [Segment(piece.words, self._style_of(piece.sort)) for piece in (lines[y] if y < len(lines) else [])]
        return Strip([Segment(" " * SIDE_MARGIN, self.rich_style), *segments]).adjust_cell_length(
            self.size.width, self.rich_style
        )

    def _wrapped_lines(self, parts: tuple[str, ...], told: str) -> list[list[CaptionPiece]]:
        """All lines as pieces of text."""
        size = max(1, self.size.width - 2 * SIDE_MARGIN), max(1, self.size.height)
        return text_wrapping.lay_out_caption(
            (*parts[:2], *([told] if told else []), *parts[2:]), self.glyphs, size, self.key
        )

    def _refresh_changed_lines(self, old: list[list[CaptionPiece]], new: list[list[CaptionPiece]]) -> None:
        """Refresh the lines that differ."""
        changed = [y for y, (before, after) in enumerate(zip_longest(old, new)) if before != after]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def _style_of(self, sort: CaptionStyle) -> Style:
        if sort == "plain" or (sort == "scope" and not self.windowed):
            return self.rich_style
        return self.get_component_rich_style(f"caption--{sort}", partial=False)
