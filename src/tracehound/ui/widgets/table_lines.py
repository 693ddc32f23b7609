"""The lines of a table: its header and its rows.

Owns the table's stylesheet, where on a line the cells stand, and which of them stand out. Knows no result: it gets
columns in their places, values, and the styles of this terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tracehound.draw.cells import alignment, cell, heading
from tracehound.ui.state.sheet import Order
from tracehound.ui.widgets.columns import Placed
from tracehound.ui.wording.tones import Tones

PARTS = ("header", "sorted", "cursor", "idle-cursor", "column", "empty")
"""The parts of a table that the stylesheet colours."""

CSS = """
ResultTable {
    scrollbar-size-vertical: 1;
    scrollbar-size-horizontal: 0;
    &> .result-table--header { color: $text-muted; text-style: bold; }
    &> .result-table--sorted { color: $primary; text-style: bold; }
    &> .result-table--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
    &> .result-table--idle-cursor { background: $primary 22%; }
    &> .result-table--empty { color: $text-muted; }
    &> .result-table--column { text-style: bold underline; }
    &:ansi > .result-table--idle-cursor { text-style: underline; background: ansi_default; }
    &:nocolor > .result-table--cursor { text-style: reverse; }
    &:nocolor > .result-table--idle-cursor { text-style: underline; }
    &:nocolor > .result-table--sorted { text-style: bold underline; }
}
"""


class Ground(Struct, frozen=True):
    """The style of a line, of the column under the cursor on it, and whether kinds may colour their cells."""

    line: Style
    column: Style
    coloured: bool = True


def header(
    places: Sequence[Placed], order: Order | None, column: str, look: Tones, plain: Style, chosen: Style
) -> Strip:
    """The headings; the one that the rows are sorted by has an arrow, the one under the cursor a line."""
    segments, end = [Segment(" ", plain)], 0
    for placed in places:
        name, gap = heading(placed.column), " " * (placed.left - end)
        end = placed.left + placed.width
        line = Style(underline=True) if placed.column.name == column else Style.null()
        if order is None or order[0] != placed.column.name:
            segments += [Segment(gap, plain), Segment(look.words(placed.fits(name)), plain + line)]
            continue
        arrow = look.falling if order[1] else look.rising
        if len(name) + 2 <= placed.width:
            name = f"{arrow} {name}" if alignment(placed.column) == "right" else f"{name} {arrow}"
        elif gap:
            gap = f"{gap[:-1]}{arrow}"
        segments += [Segment(gap, chosen), Segment(placed.fits(name), chosen + line)]
    return Strip(segments).simplify()


def going_on(head: Strip, width: int, look: Tones, style: Style) -> Strip:
    """The header of a table with columns beyond the edge of `width` cells."""
    return Strip.join([head.adjust_cell_length(width - 1, style), Strip([Segment(look.glyphs.ellipsis, style)])])


class Lead(Struct, frozen=True):
    """What stands before the words of one column; nothing in a table that is no tree."""

    column: str = ""
    words: str = ""


def row(
    places: Sequence[Placed], values: Mapping[str, Any], column: str, look: Tones, ground: Ground, lead: Lead
) -> Strip:
    """The cells of a row in their places."""
    segments, end = [Segment(" ", ground.line)], 0
    for placed in places:
        name = placed.column.name
        text = look.words(cell(placed.column, values[name]))
        style = ground.line + _tone(look, name, values[name]) if ground.coloured else ground.line
        style = style + ground.column if name == column else style
        before = lead.words if name == lead.column else ""
        gap, end = Segment(" " * (placed.left - end), ground.line), placed.left + placed.width
        segments += [gap, Segment(look.words(placed.fits(text, before)), style)]
    return Strip(segments).simplify()


def _tone(look: Tones, name: str, value: object) -> Style:
    """The colour of the kind that a cell names, if it names one."""
    return look.kind(value) if name in ("kind", "category") and isinstance(value, str) else Style.null()
