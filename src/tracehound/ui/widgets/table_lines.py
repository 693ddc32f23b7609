"""Header line and row lines of a table.

Owns the table's stylesheet, and the positions and styles of cells in a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tracehound.draw.cell_text import column_alignment, column_heading, format_cell
from tracehound.ui.state.table_view import SortOrder
from tracehound.ui.themes import Appearance
from tracehound.ui.widgets.table_columns import PlacedColumn

TABLE_PARTS = ("header", "sorted", "cursor", "idle-cursor", "column", "empty")
"""Parts of a table that the stylesheet colors."""

TABLE_CSS = """
ResultTable {
    scrollbar-size-vertical: 1;
    scrollbar-size-horizontal: 0;
    &> .result-table--header { color: $text-muted; text-style: bold; }
    &> .result-table--sorted { color: $primary; text-style: bold; }
    &> .result-table--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
    &> .result-table--idle-cursor { background: $foreground 9%; }
    &> .result-table--empty { color: $text-muted; }
    &> .result-table--column { text-style: bold underline; }
    &:ansi > .result-table--idle-cursor { text-style: underline; background: ansi_default; }
    &:nocolor > .result-table--cursor { text-style: reverse; }
    &:nocolor > .result-table--idle-cursor { text-style: underline; }
    &:nocolor > .result-table--sorted { text-style: bold underline; }
}
"""


class RowStyle(Struct, frozen=True):
    """Style of a line, of the current column in it, and whether kinds color their cells."""

    line: Style
    column: Style
    colored: bool = True


def header_line(
    places: Sequence[PlacedColumn], order: SortOrder | None, column: str, look: Appearance, plain: Style, chosen: Style
) -> Strip:
    """Headings; the sort column has an arrow, the current column is underlined."""
    segments, end = [Segment(" ", plain)], 0
    for placed in places:
        name, gap = column_heading(placed.column), " " * (placed.left - end)
        end = placed.left + placed.width
        line = Style(underline=True) if placed.column.name == column else Style.null()
        if order is None or order[0] != placed.column.name:
            segments += [Segment(gap, plain), Segment(look.words(placed.fit_text(name)), plain + line)]
            continue
        arrow = look.falling_mark if order[1] else look.rising_mark
        if len(name) + 2 <= placed.width:
            name = f"{arrow} {name}" if column_alignment(placed.column) == "right" else f"{name} {arrow}"
        elif gap:
            gap = f"{gap[:-1]}{arrow}"
        segments += [Segment(gap, chosen), Segment(placed.fit_text(name), chosen + line)]
    return Strip(segments).simplify()


def mark_more_columns(head: Strip, width: int, look: Appearance, style: Style) -> Strip:
    """Header with an ellipsis at the edge, for columns beyond `width` cells."""
    return Strip.join([head.adjust_cell_length(width - 1, style), Strip([Segment(look.glyphs.ellipsis, style)])])


class TreePrefix(Struct, frozen=True):
    """Prefix of the words of one column; empty in a table that is no tree."""

    column: str = ""
    words: str = ""


def row_line(
    places: Sequence[PlacedColumn],
    values: Mapping[str, Any],
    column: str,
    look: Appearance,
    ground: RowStyle,
    lead: TreePrefix,
) -> Strip:
    """Cells of a row at their positions."""
    segments, end = [Segment(" ", ground.line)], 0
    for placed in places:
        name = placed.column.name
        text = look.words(format_cell(placed.column, values[name]))
        style = ground.line + _kind_style(look, name, values[name]) if ground.colored else ground.line
        style = style + ground.column if name == column else style
        before = lead.words if name == lead.column else ""
        gap, end = Segment(" " * (placed.left - end), ground.line), placed.left + placed.width
        segments += [gap, Segment(look.words(placed.fit_text(text, before)), style)]
    return Strip(segments).simplify()


def _kind_style(look: Appearance, name: str, value: object) -> Style:
    """Color of the kind that a cell names, if any."""
    return look.kind_style(value) if name in ("kind", "category") and isinstance(value, str) else Style.null()


class RowPageCache:
    """Rows by number; some screens of them are converted to plain values at once."""

    def __init__(self, rows: pl.DataFrame | None = None) -> None:
        self._rows = pl.DataFrame() if rows is None else rows
        self._first = 0
        self._page: list[dict[str, Any]] = []

    def row(self, number: int, height: int) -> dict[str, Any]:
        """Raw values of a row, on a screen of `height` lines."""
        if not self._first <= number < self._first + len(self._page):
            self._first = max(0, number - height)
            self._page = self._rows.slice(self._first, 3 * max(1, height)).rows(named=True)
        return self._page[number - self._first]
