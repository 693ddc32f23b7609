"""Scroll bars that cost no second layout, and without characters beyond ASCII where there are none."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual.scrollbar import ScrollBarRender
from textual.widget import Widget

from tracehound.draw.glyphs import Glyphs


class PlainBars(ScrollBarRender):
    """Ends on whole cells, and drawn by colour alone."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


def suit(widget: Widget, glyphs: Glyphs) -> None:
    """Give a widget the scroll bars of an alphabet; that they are longer now lays nothing out anew."""
    for bar in (widget.vertical_scrollbar, widget.horizontal_scrollbar):
        bar._size_updated = partial(bar._size_updated, layout=False)  # type: ignore[method-assign]  # noqa: SLF001
        if glyphs.name == "ascii":
            bar.renderer = PlainBars  # type: ignore[misc]  # declared for all bars, looked up on each
