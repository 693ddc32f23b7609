"""Layout boxes and scroll bars that are cheap to draw.

A screen has as many boxes behind each other as widgets, and Textual paints them all.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual.geometry import Region, Size
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip
from textual.widget import Widget

from tracehound.draw.glyphs import Glyphs


class UnscrolledWidget(Widget):
    """Widget that is as large as its space and never scrolls."""

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002, as Textual
        """Accept another size without a second layout."""
        return super()._size_updated(size, virtual_size, container_size, layout=False)


class PlainBox(UnscrolledWidget):
    """Box without borders above or below: it paints one line and shows that everywhere."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Repeat one line."""
        return super().render_lines(Region(crop.x, crop.y, crop.width, 1)) * crop.height if crop else []


class VerticalBox(PlainBox):
    """Box that stacks its children."""

    DEFAULT_CSS = "VerticalBox { width: 1fr; height: 1fr; layout: vertical; overflow: hidden; }"


class HorizontalBox(PlainBox):
    """Box that puts its children side by side."""

    DEFAULT_CSS = "HorizontalBox { width: 1fr; height: 1fr; layout: horizontal; overflow: hidden; }"


class PlainScrollBar(ScrollBarRender):
    """Scroll bar that ends on whole cells and is drawn by color alone."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


def simplify_scroll_bars(widget: Widget, glyphs: Glyphs) -> None:
    """Give a widget the scroll bars of an alphabet, and let their changes of length trigger no layout."""
    for bar in (widget.vertical_scrollbar, widget.horizontal_scrollbar):
        bar._size_updated = partial(bar._size_updated, layout=False)  # type: ignore[method-assign]  # noqa: SLF001
        if glyphs.name == "ascii":
            bar.renderer = PlainScrollBar  # type: ignore[misc]  # a class attribute of Textual, read from the instance
