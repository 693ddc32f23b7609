"""Scroll bars without characters beyond ASCII."""

from __future__ import annotations

from typing import ClassVar

from textual.scrollbar import ScrollBarRender
from textual.widget import Widget

from tracehound.draw.glyphs import Glyphs


class PlainBars(ScrollBarRender):
    """Ends on whole cells, and drawn by colour alone."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


def suit(widget: Widget, glyphs: Glyphs) -> None:
    """Give a widget the scroll bars of an alphabet."""
    if glyphs.name == "ascii":
        for bar in (widget.vertical_scrollbar, widget.horizontal_scrollbar):
            bar.renderer = PlainBars  # type: ignore[misc]  # declared for all bars, looked up on each
