"""The lines above a table.

Owns how many of them there are and what fits on them. Knows no result.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.strip import Strip

from tracehound.draw import captions
from tracehound.draw.captions import Piece, Sort
from tracehound.draw.glyphs import Glyphs
from tracehound.ui.widgets.plain_box import Unscrolled

LINES: Final = 3
"""So many lines are taken from what stands below, and no more than a third of what is there."""

MANY: Final = 1 << 16
"""Lines of what fills any room."""

MARGIN: Final = 1
"""Cells that stay free on either side."""


class Caption(Unscrolled):
    """What is said above a table: what it is, of which window, how many rows, and what is to be known of it."""

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
    """What was just done, behind the scope for as long as it matters: it takes no line of its own."""
    windowed: reactive[bool] = reactive(default=False)
    """Whether the scope is a selected window."""

    def __init__(self, glyphs: Glyphs, key: str = "") -> None:
        """`key` is what is to be pressed for what is left out."""
        super().__init__()
        self.glyphs = glyphs
        self.key = key
        self._below = (MANY, 0)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as there is something to say on, of those that are free and those that may be taken."""
        del viewport
        room, (most, least) = container.height, self._below
        needed = captions.needed(self.parts, self.glyphs, max(1, width - 2 * MARGIN))
        return max(1, min(needed, max(room - most, min(LINES, (room - 2) // 3, room - least))))

    def fit(self, most: int, least: int) -> None:
        """Leave lines to what stands below: it fills `most` of them, and can do with `least`."""
        if (most, least) != self._below:
            self._below = (most, least)
            self.refresh(layout=True)

    def watch_parts(self, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Other words; other lines only where there are to be more of them, or fewer."""
        width = self.size.width - 2 * MARGIN
        if width < 1 or captions.needed(old, self.glyphs, width) != captions.needed(new, self.glyphs, width):
            self.refresh(layout=True)
        self._redraw(self._said(old, self.told), self._said(new, self.told))

    def watch_told(self, old: str, new: str) -> None:
        """Other words on the same lines."""
        self._redraw(self._said(self.parts, old), self._said(self.parts, new))

    def render_line(self, y: int) -> Strip:
        """One line, the last one with a sign where all does not fit."""
        lines = self._said(self.parts, self.told)
        segments = [Segment(piece.words, self._style(piece.sort)) for piece in (lines[y] if y < len(lines) else [])]
        return Strip([Segment(" " * MARGIN, self.rich_style), *segments]).adjust_cell_length(
            self.size.width, self.rich_style
        )

    def _said(self, parts: tuple[str, ...], told: str) -> list[list[Piece]]:
        """The pieces of every line."""
        size = max(1, self.size.width - 2 * MARGIN), max(1, self.size.height)
        return captions.drawn((*parts[:2], *([told] if told else []), *parts[2:]), self.glyphs, size, self.key)

    def _redraw(self, old: list[list[Piece]], new: list[list[Piece]]) -> None:
        """Send the lines that are others now."""
        changed = [y for y, (before, after) in enumerate(zip_longest(old, new)) if before != after]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def _style(self, sort: Sort) -> Style:
        if sort == "plain" or (sort == "scope" and not self.windowed):
            return self.rich_style
        return self.get_component_rich_style(f"caption--{sort}", partial=False)
