"""The table of any result.

Owns the cursor, the order and the filter of the rows of one `Result`. Knows no trace and no analysis: who shows a
result says what a row leads to. Rows are cut out of the frame as they come into sight, so their number does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import Any, ClassVar

import polars as pl
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tracehound.analysis.result import Result
from tracehound.draw.cells import alignment, cell, heading
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui import keys
from tracehound.ui.tones import Tones, tones
from tracehound.ui.widgets.columns import ASIDE, GAP, Needed, Placed, needed, place
from tracehound.ui.widgets.plain_bars import suit

HEADER = 1
"""Lines above the rows."""


class ResultTable(ScrollView, can_focus=True, inherit_bindings=False):
    """Rows of a result under a header that stays, with a cursor, an order and a filter."""

    ALLOW_SELECT = False
    BINDING_GROUP_TITLE = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("table")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "result-table--header",
        "result-table--sorted",
        "result-table--cursor",
        "result-table--idle-cursor",
        "result-table--empty",
    }
    DEFAULT_CSS = """
    ResultTable {
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        &> .result-table--header { color: $text-muted; text-style: bold; }
        &> .result-table--sorted { color: $primary; text-style: bold; }
        &> .result-table--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
        &> .result-table--idle-cursor { background: $primary 22%; }
        &> .result-table--empty { color: $text-muted; }
        &:ansi > .result-table--idle-cursor { text-style: underline; background: ansi_default; }
        &:nocolor > .result-table--cursor { text-style: reverse; }
        &:nocolor > .result-table--idle-cursor { text-style: underline; }
        &:nocolor > .result-table--sorted { text-style: bold underline; }
    }
    """

    result: reactive[Result | None] = reactive(None, repaint=False)
    """What is shown."""
    cursor: reactive[int] = reactive(0, repaint=False)
    """The row under the cursor, in the order shown."""
    needle: reactive[str] = reactive("", repaint=False)
    """Only rows with this text in one of their text cells are shown; case does not matter."""
    empty: reactive[str] = reactive("")
    """What stands in place of the rows when there are none."""

    @dataclass
    class Chosen(Message):
        """The user wants to go to what the row is about."""

        table: ResultTable
        row: dict[str, Any]

    @dataclass
    class WindowPicked(Message):
        """The user wants the row's window selected."""

        table: ResultTable
        row: dict[str, Any]

    @dataclass
    class Highlighted(Message):
        """The cursor is on another row; None when there is no row."""

        table: ResultTable
        row: dict[str, Any] | None

        def can_replace(self, message: Message) -> bool:
            """Only the newest place of the cursor matters."""
            return isinstance(message, ResultTable.Highlighted) and message.table is self.table

    @dataclass
    class FilterAsked(Message):
        """The user wants to type a filter."""

        table: ResultTable

    def __init__(self, glyphs: Glyphs = UNICODE, aside: tuple[str, ...] = ()) -> None:
        """`aside` names columns that are told beside the table."""
        super().__init__()
        self._aside = aside
        self._glyphs = glyphs
        self._tones: Tones | None = None
        self._rows = pl.DataFrame()
        self._needed: tuple[Needed, ...] = ()
        self._places: tuple[Placed, ...] = ()
        self._sort: tuple[str, bool] | None = None
        self._page: tuple[int, list[dict[str, Any]]] = (0, [])

    @property
    def _look(self) -> Tones:
        if self._tones is None:
            self._tones = tones(self.app, self._glyphs)
        return self._tones

    @property
    def row(self) -> dict[str, Any] | None:
        """The raw values of the row under the cursor, hidden columns too."""
        return self._rows.row(self.cursor, named=True) if self.cursor < self._rows.height else None

    @property
    def shown(self) -> int:
        """How many rows the filter leaves."""
        return self._rows.height

    @property
    def order(self) -> tuple[str, bool] | None:
        """The column that the rows are sorted by and whether it falls; None in the result's own order."""
        return self._sort

    def render_line(self, y: int) -> Strip:
        """The header, a row, or what is said when there are none."""
        width, left = self.size.width, self.scroll_offset.x
        if y < HEADER:
            return self._header().crop(left, left + width).extend_cell_length(width, self.rich_style)
        number = self.scroll_offset.y + y - HEADER
        if number < self._rows.height:
            ground = self._ground(number)
            return self._row_strip(number, ground).crop_extend(left, left + width, ground)
        if not self._rows.height and y > HEADER:
            style = self.get_component_rich_style("result-table--empty", partial=False)
            words = wrap(self._look.words(self.empty), max(1, width - 2))[y - HEADER - 1 :]
            return Strip([Segment(f" {words[0]}" if words else "", style)]).crop_extend(0, width, style)
        return Strip.blank(width, self.rich_style)

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self, self._glyphs)

    def watch_result(self, old: Result | None, new: Result | None) -> None:
        """Show another result: of the same analysis, the cursor stays on its row number and the order is kept."""
        if old is None or new is None or old.analysis != new.analysis:
            self._sort = None
            self.set_reactive(ResultTable.cursor, 0)
            self.scroll_to(0, 0, animate=False, immediate=True)
        self._arrange()

    def watch_needle(self) -> None:
        """Filter again; the cursor goes to the first row that is left."""
        self.set_reactive(ResultTable.cursor, 0)
        self._arrange()

    def validate_cursor(self, cursor: int) -> int:
        """Keep the cursor on a row."""
        return max(0, min(cursor, self._rows.height - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two rows that changed, and tell."""
        self.refresh_line(old + HEADER)
        self.refresh_line(new + HEADER)
        page = self.size.height - HEADER
        top = self.scroll_offset.y
        if new < top:
            self.scroll_to(y=new, animate=False, immediate=True)
        elif new >= top + page:
            self.scroll_to(y=new - page + 1, animate=False, immediate=True)
        self.post_message(self.Highlighted(self, self.row))

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:  # noqa: FBT001, FBT002, as Textual
        """Other columns may fit now; placed before they are painted, since `Resize` comes when they have been."""
        if size != self._size:
            self._place()
            self.set_reactive(ResultTable.virtual_size, self._extent)
        return super()._size_updated(size, virtual_size, container_size, layout)

    def on_focus(self) -> None:
        """The cursor's line looks different with the focus."""
        self.refresh_line(self.cursor + HEADER)

    def on_blur(self) -> None:
        """The cursor's line looks different without the focus."""
        self.refresh_line(self.cursor + HEADER)

    def on_click(self, event: events.Click) -> None:
        """A row: put the cursor there, and the second time go to what it is about. The header: sort."""
        where = event.get_content_offset(self)
        if where is None:
            return
        if where.y < HEADER:
            self._sort_at(where.x + self.scroll_offset.x)
            return
        number = self.scroll_offset.y + where.y - HEADER
        if number < self._rows.height:
            self.cursor = number
            if event.chain > 1:
                self.action_choose()

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self.cursor += rows

    def action_page(self, pages: int) -> None:
        """Move the cursor by what is visible."""
        self.cursor += pages * max(1, self.size.height - HEADER - 1)

    def action_first(self) -> None:
        """Go to the first row."""
        self.cursor = 0

    def action_last(self) -> None:
        """Go to the last row."""
        self.cursor = self._rows.height - 1

    def action_shift(self, cells: int) -> None:
        """Scroll sideways."""
        self.scroll_to(x=self.scroll_offset.x + cells, animate=False, immediate=True)

    def action_choose(self) -> None:
        """Ask to go to what the row is about."""
        if (row := self.row) is not None:
            self.post_message(self.Chosen(self, row))

    def action_pick_window(self) -> None:
        """Ask to select the row's window."""
        if (row := self.row) is not None:
            self.post_message(self.WindowPicked(self, row))

    def action_filter(self) -> None:
        """Ask for a filter."""
        self.post_message(self.FilterAsked(self))

    def action_sort_column(self, step: int) -> None:
        """Sort by the column beside the one that the rows are sorted by now."""
        names = [placed.column.name for placed in self._places]
        if names:
            here = names.index(self._sort[0]) if self._sort and self._sort[0] in names else (-1 if step > 0 else 0)
            self._sort_by(names[(here + step) % len(names)])

    def action_reverse(self) -> None:
        """Turn the order round."""
        if self._sort is not None:
            self._sort = (self._sort[0], not self._sort[1])
            self._arrange()
        elif self._places:
            self._sort_by(self._places[0].column.name)

    def _sort_at(self, x: int) -> None:
        for placed in self._places:
            if placed.left <= x < placed.left + placed.width + GAP:
                if self._sort is not None and self._sort[0] == placed.column.name:
                    self.action_reverse()
                else:
                    self._sort_by(placed.column.name)

    def _sort_by(self, name: str) -> None:
        """Numbers fall first, since the large ones are looked for; texts and instants rise."""
        if self.result is not None:
            self._sort = (name, self.result.column(name).unit not in ("text", "instant"))
            self._arrange()

    def _arrange(self) -> None:
        """Filter, sort and measure the rows, and draw them."""
        result = self.result
        rows = result.table if result is not None else pl.DataFrame()
        if result is not None and self.needle:
            texts = [column.name for column in result.columns if column.unit == "text"]
            needle = self.needle.lower()
            rows = rows.filter(
                pl.any_horizontal(
                    pl.lit(value=False),
                    *(
                        pl.col(name).cast(pl.String).str.to_lowercase().str.contains(needle, literal=True)
                        for name in texts
                    ),
                )
            )
        if self._sort is not None and self._sort[0] in rows.columns:
            rows = rows.sort(self._sort[0], descending=self._sort[1], nulls_last=True, maintain_order=True)
        columns = [column for column in result.columns if column.name not in self._aside] if result is not None else []
        self._rows, self._needed = rows, needed(columns, rows)
        self._place()
        self.virtual_size = self._extent
        self.refresh()
        self.set_reactive(ResultTable.cursor, self.validate_cursor(self.cursor))
        self.post_message(self.Highlighted(self, self.row))

    def _place(self) -> None:
        """Choose the columns that fit."""
        room = self._room
        self._page = (0, [])
        self._places = place(self._needed, room - 1) if self._needed and room > 1 else ()

    @property
    def _room(self) -> int:
        """Cells beside the scroll bar."""
        return self.size.width - (1 if self._rows.height > self.size.height - HEADER else 0)

    @property
    def _extent(self) -> Size:
        width = max((placed.left + placed.width for placed in self._places), default=0) + 1
        return Size(width if width > self._room else self.size.width, self._rows.height + HEADER)

    def _header(self) -> Strip:
        plain = self.get_component_rich_style("result-table--header", partial=False)
        chosen = self.get_component_rich_style("result-table--sorted", partial=False)
        segments = [Segment(" ", plain)]
        for placed in self._places:
            name, gap = heading(placed.column), " " * GAP if placed.left else ""
            if self._sort is None or self._sort[0] != placed.column.name:
                segments.append(Segment(gap + self._look.words(placed.fits(name)), plain))
                continue
            arrow = self._look.falling if self._sort[1] else self._look.rising
            if len(name) + 2 <= placed.width:
                name = f"{arrow} {name}" if alignment(placed.column) == "right" else f"{name} {arrow}"
            elif gap:
                gap = f"{gap[:-1]}{arrow}"
            segments.append(Segment(gap + placed.fits(name), chosen))
        return Strip(segments)

    def _row_strip(self, number: int, base: Style) -> Strip:
        cursor = number == self.cursor
        row = self._row(number)
        segments = [Segment(" ", base)]
        for placed in self._places:
            text = self._look.words(cell(placed.column, row[placed.column.name]))
            style = base if cursor and self.has_focus else base + self._tone(placed, row)
            gap = [Segment(" " * GAP, base)] if placed.left else []
            segments += [*gap, Segment(self._look.words(placed.fits(text)), style)]
        return Strip(segments).simplify()

    def _ground(self, number: int) -> Style:
        """The style of a row's line, before kinds colour their cells."""
        if number != self.cursor:
            return self.rich_style
        name = "result-table--cursor" if self.has_focus else "result-table--idle-cursor"
        return self.get_component_rich_style(name, partial=False)

    def _tone(self, placed: Placed, row: dict[str, Any]) -> Style:
        """The colour of the kind that a cell names, if it names one."""
        value = row[placed.column.name]
        if placed.column.name in ("kind", "category") and isinstance(value, str):
            return self._look.kind(value)
        return Style.null()

    def _row(self, number: int) -> dict[str, Any]:
        """The raw values of a row; a screenful is cut out of the frame at once."""
        first, page = self._page
        if not first <= number < first + len(page):
            first = max(0, number - self.size.height)
            names = [name for name in self._rows.columns if self._visible(name)]
            page = self._rows.select(names).slice(first, 3 * max(1, self.size.height)).rows(named=True)
            self._page = (first, page)
        return page[number - first]

    def _visible(self, name: str) -> bool:
        return self.result is not None and self.result.column(name).unit not in ASIDE

    def notify_style_update(self) -> None:
        """Another theme: draw all again."""
        super().notify_style_update()
        self._tones = None
        self.refresh(Region(0, 0, self.size.width, self.size.height))
