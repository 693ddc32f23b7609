"""Boxes that only say where others stand.

Own that they cost nothing: a screen has as many boxes behind each other as widgets, and Textual paints them all.
"""

from __future__ import annotations

from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget


class Unscrolled(Widget):
    """What is as large as its room: nothing scrolls in it."""

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002, as Textual
        """Another size is no reason to lay everything out a second time."""
        return super()._size_updated(size, virtual_size, container_size, layout=False)


class PlainBox(Unscrolled):
    """A box without lines above or below: it paints one line and shows that everywhere."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The same line so often."""
        return super().render_lines(Region(crop.x, crop.y, crop.width, 1)) * crop.height if crop else []


class Column(PlainBox):
    """What is in it stands below each other."""

    DEFAULT_CSS = "Column { width: 1fr; height: 1fr; layout: vertical; overflow: hidden; }"


class Line(PlainBox):
    """What is in it stands beside each other."""

    DEFAULT_CSS = "Line { width: 1fr; height: 1fr; layout: horizontal; overflow: hidden; }"
