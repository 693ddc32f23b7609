"""The table of any result.

Owns the cursor in the rows and columns of one `Result`, and how that is arranged. Knows no trace and no analysis: who
shows a result says what a row leads to. Rows are cut out of the frame as they come into sight, so their number does not
matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import polars as pl
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tracehound.analysis.result import TEXTS, Column, Result
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.wrap import paragraphs
from tracehound.ui.bindings import keys
from tracehound.ui.state import sheet
from tracehound.ui.state.folding import UNTOUCHED, Tree, Way
from tracehound.ui.state.sheet import Choice, Order, Sheet
from tracehound.ui.widgets import table_lines
from tracehound.ui.widgets.columns import GAP, Needed, Placed, arranged, moved, needed, scrolled, sighted
from tracehound.ui.widgets.page import Page
from tracehound.ui.widgets.plain_bars import suit
from tracehound.ui.widgets.walked import Walked
from tracehound.ui.wording.tones import Tones, tones

Wish = Literal["filter", "unfilter", "columns", "hide", "copy cell", "copy row", "save", "chart"]
"""What a pane does for its table."""


class ResultTable(Walked, can_focus=True, inherit_bindings=False):
    """Rows of a result under a header that stays, with a cursor, an order, a filter and a choice of columns."""

    HEADER = 1
    BINDING_GROUP_TITLE = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("table")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"result-table--{part}" for part in table_lines.PARTS}
    DEFAULT_CSS = table_lines.CSS

    result: reactive[Result | None] = reactive(None, repaint=False)
    """What is shown."""
    column: reactive[str] = reactive("", repaint=False)
    """The column under the cursor; empty until someone moves to one, and then the first is meant."""
    needle: reactive[str] = reactive("", repaint=False)
    """The filter that was typed: only rows that it holds for are shown, see `analysis.where`."""
    choice: reactive[Choice] = reactive(Choice(), repaint=False)
    """Which columns are hidden, and which are shown whatever the room."""
    empty: reactive[str] = reactive("")
    """What stands in place of the rows when there are none."""

    @dataclass
    class Chosen(Message):
        """The user wants to go to what the row is about; `column` is the one under the cursor, if any.

        The table may show another result than `result`, whose row it is, when this arrives.
        """

        table: ResultTable
        row: dict[str, Any]
        column: Column | None = None
        result: Result | None = None

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
    class Asked(Message):
        """The user wants something of what is shown."""

        table: ResultTable
        what: Wish

    def __init__(self, glyphs: Glyphs = UNICODE, aside: tuple[str, ...] = ()) -> None:
        """`aside` names columns that are told beside the table."""
        super().__init__()
        self.sheet: Sheet | None = None
        """What is shown of the result, and how; None without one."""
        self._aside = aside
        self._glyphs = glyphs
        self._tones: Tones | None = None
        self._rows = pl.DataFrame()
        self._needed: tuple[Needed, ...] = ()
        self._places: tuple[Placed, ...] = ()
        self._filter = ""
        self._sort: Order | None = None
        self._page = Page()
        self._folds = UNTOUCHED
        self._tree: Tree | None = None
        self._passed = 0

    @property
    def _look(self) -> Tones:
        if self._tones is None:
            self._tones = tones(self.app, self._glyphs)
        return self._tones

    @property
    def line_count(self) -> int:
        """How many rows are shown."""
        return self._rows.height

    @property
    def row(self) -> dict[str, Any] | None:
        """The raw values of the row under the cursor, hidden columns too."""
        return self._rows.row(self.cursor, named=True) if self.cursor < self._rows.height else None

    @property
    def rowless(self) -> bool:
        """Whether there is no row."""
        return self._rows.is_empty()

    @property
    def shown(self) -> int:
        """How many rows pass the filter."""
        return self._passed

    @property
    def filter(self) -> str:
        """The filter that holds: the one that was typed, or the last good one."""
        return self._filter

    @property
    def refusal(self) -> str:
        """What is wrong with the filter that was typed, in one line; the rows are those of the last good one."""
        return sheet.refusal(self.result, self.needle) if self.result is not None else ""

    @property
    def meant(self) -> str:
        """The column under the cursor, else the first."""
        return self.column if self.column in self.placed else next(iter(self.placed), "")

    @property
    def placed(self) -> tuple[str, ...]:
        """The columns on the screen, from left to right."""
        return tuple(placed.column.name for placed in self._places)

    @property
    def order(self) -> Order | None:
        """The column that the rows are sorted by and whether it falls; None in the result's own order."""
        return self._sort

    def render_line(self, y: int) -> Strip:
        """The header, a row, or what is said when there are none."""
        width, places = self.size.width, self._sighted
        if self.result is None:
            return self._instead(y)
        if y < self.HEADER:
            plain, chosen = (
                self.get_component_rich_style(f"result-table--{part}", partial=False) for part in ("header", "sorted")
            )
            strip = table_lines.header(places, self._sort, self.column, self._look, plain, chosen)
            if places[-1:] and places[-1].column is not self._places[-1].column:
                strip = table_lines.going_on(strip, self._room, self._look, plain)
            return strip.adjust_cell_length(width, self.plain)
        number = self.scroll_offset.y + y - self.HEADER
        if number < self._rows.height:
            ground = self._ground(number)
            values = self._page.row(number, self.size.height)
            strip = table_lines.row(places, values, self.column, self._look, ground, self._lead(number))
            return strip.crop_extend(0, width, ground.line)
        if not self._rows.height and y > self.HEADER:
            return self._instead(y - self.HEADER - 1)
        return Strip.blank(width, self.plain)

    def _instead(self, y: int) -> Strip:
        """Line `y` of what is said when there are no rows."""
        width, style = self.size.width, self.get_component_rich_style("result-table--empty", partial=False)
        words = paragraphs(self.empty, max(1, width - 2))[y:]
        return Strip([Segment(f" {self._look.words(words[0])}" if words else "", style)]).crop_extend(0, width, style)

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self, self._glyphs)

    def watch_result(self, old: Result | None, new: Result | None) -> None:
        """Show another result: of the same analysis, the cursor stays on its row number and the order is kept."""
        if old is None or new is None or old.analysis != new.analysis or old.columns != new.columns:
            self._sort, self._folds = None, UNTOUCHED
            self.set_reactive(ResultTable.choice, Choice())
            self.set_reactive(ResultTable.column, "")
            self.set_reactive(ResultTable.cursor, 0)
            self.scroll_to(0, 0, animate=False, immediate=True)
        self._arrange()

    def watch_needle(self) -> None:
        """Filter again; the cursor goes to the first row that is left."""
        self.set_reactive(ResultTable.cursor, 0)
        self._arrange()

    def watch_choice(self) -> None:
        """Show other columns; the cursor goes to the one beside a column that is gone."""
        before = self.placed
        self._arrange()
        if self.column and self.column not in self.placed and self.column in before:
            after = [name for name in before[before.index(self.column) :] if name in self.placed]
            self.column = next(iter([*after, *self.placed[-1:]]), "")

    def watch_column(self) -> None:
        """Mark it, and bring it into sight."""
        left = self.scroll_offset.x
        if (to := scrolled(self._places, self.column, left, self._room - 1)) != left:
            self.scroll_to(x=to, animate=False, immediate=True)
        self.refresh_line(0)
        self.refresh_line(self.cursor + self.HEADER)
        self.post_message(self.Highlighted(self, self.row))

    def watch_cursor(self, old: int, new: int) -> None:
        """Tell what is under it now."""
        super().watch_cursor(old, new)
        self.post_message(self.Highlighted(self, self.row))

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:  # noqa: FBT001, FBT002, as Textual
        """Other columns may fit now; placed before they are painted, since `Resize` comes when they have been.

        Out of sight there was room for none.
        """
        if size != self._size or not self._places:
            self._place()
            self.set_reactive(ResultTable.virtual_size, self._extent)
        return super()._size_updated(size, virtual_size, container_size, layout)

    def on_click(self, event: events.Click) -> None:
        """A row: put the cursor there, and the second time go to what it is about. The header: sort."""
        where = event.get_content_offset(self)
        if where is None:
            return
        if where.y < self.HEADER:
            self._sort_at(where.x)
            return
        number = self.scroll_offset.y + where.y - self.HEADER
        if number < self._rows.height:
            self.cursor = number
            if where.x <= len(self._lead(number).words):
                self.action_fold("turn")
            elif event.chain > 1:
                self.action_choose()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without a filter, Esc means here what it means everywhere."""
        return (action, parameters) != ("ask", ("unfilter",)) or bool(self.needle)

    def action_column(self, by: int) -> None:
        """Move the cursor to another column; the first time, to the first or the last."""
        names = self.placed
        if names:
            here = names.index(self.column) + by if self.column in names else (0 if by > 0 else len(names) - 1)
            self.column = names[max(0, min(here, len(names) - 1))]

    def action_fold(self, way: Way) -> None:
        """Fold or unfold rows of a tree, or go from a row to the one around it or inside."""
        if self._tree is not None and self._rows.height:
            self._folds, row = self._tree.turned(self.cursor, way)
            self._arrange()
            self.cursor = self._tree.place_of(row)

    def action_choose(self) -> None:
        """Ask to go to what the row is about."""
        if (row := self.row) is not None:
            found = [column for column in self.result.columns if column.name == self.column] if self.result else []
            self.post_message(self.Chosen(self, row, found[0] if found else None, self.result))

    def action_pick_window(self) -> None:
        """Ask to select the row's window."""
        if (row := self.row) is not None:
            self.post_message(self.WindowPicked(self, row))

    def action_ask(self, what: Wish) -> None:
        """Ask for what the pane does."""
        self.post_message(self.Asked(self, what))

    def action_sort_column(self, step: int) -> None:
        """Sort by the column beside the one that the rows are sorted by now."""
        names = [placed.column.name for placed in self._places]
        if names:
            here = names.index(self._sort[0]) if self._sort and self._sort[0] in names else (-1 if step > 0 else 0)
            self._sort_by(names[(here + step) % len(names)])

    def action_sort_here(self) -> None:
        """Sort by the column under the cursor; by the column that it is sorted by already, the other way round."""
        if self._sort is not None and self.column in ("", self._sort[0]):
            self.action_reverse()
        elif self._places:
            self._sort_by(self.meant)

    def action_reverse(self) -> None:
        """Turn the order round."""
        if self._sort is not None:
            self._sort = (self._sort[0], not self._sort[1])
            self._arrange()
        elif self._places:
            self._sort_by(self._places[0].column.name)

    def _sort_at(self, x: int) -> None:
        for placed in self._sighted:
            if placed.left <= x < placed.left + placed.width + GAP:
                if self._sort is not None and self._sort[0] == placed.column.name:
                    self.action_reverse()
                else:
                    self._sort_by(placed.column.name)

    def _sort_by(self, name: str) -> None:
        """Numbers fall first, since the large ones are looked for; texts and instants rise."""
        if self.result is not None:
            self._sort = (name, self.result.column(name).unit not in (*TEXTS, "instant"))
            self.set_reactive(ResultTable.column, name if self.column else "")
            self._arrange()

    def _arrange(self) -> None:
        """Filter, sort and measure the rows, and draw them."""
        shown = None
        if self.result is not None:
            self._filter = sheet.effective(self.result, self.needle, self._filter)
            shown = Sheet(self.result, self._filter, self._sort, self.choice, self._aside, self._folds)
        self.sheet = shown
        self._rows, self._needed, self._tree, self._passed = pl.DataFrame(), (), None, 0
        if shown is not None:
            self._rows, self._tree, self._passed = shown.seen, shown.tree, shown.passed
            columns = needed(shown.columns, shown.rows, shown.choice.wanted)
            self._needed = moved(columns, shown.rows, shown.result.columns)
        self._place()
        self.extend(self._extent)
        self.refresh()
        self.set_reactive(ResultTable.cursor, self.validate_cursor(self.cursor))
        self.post_message(self.Highlighted(self, self.row))

    def _place(self) -> None:
        """Choose the columns that fit."""
        room = self._room
        self._page = Page(self._rows.select(needs.column.name for needs in self._needed))
        self._places = arranged(self._needed, self._rows, room - 1) if self._needed and room > 1 else ()

    @property
    def _sighted(self) -> tuple[Placed, ...]:
        """The columns that are drawn, and where."""
        return sighted(self._places, self.scroll_offset.x, self._room - 1)

    @property
    def _room(self) -> int:
        """Cells beside the scroll bar."""
        return self.size.width - (1 if self._rows.height > self.size.height - self.HEADER else 0)

    @property
    def _extent(self) -> Size:
        width = max((placed.left + placed.width for placed in self._places), default=0) + 1
        return Size(width if width > self._room else self.size.width, self._rows.height + self.HEADER)

    def _ground(self, number: int) -> table_lines.Ground:
        """The looks of a row's line."""
        if number != self.cursor:
            return table_lines.Ground(self.plain, Style.null())
        name = "result-table--cursor" if self.has_focus else "result-table--idle-cursor"
        line = self.get_component_rich_style(name, partial=False)
        marked = self.get_component_rich_style("result-table--column") if self.has_focus else Style.null()
        return table_lines.Ground(line, marked, coloured=not self.has_focus)

    def _lead(self, number: int) -> table_lines.Lead:
        """What stands before a row's name in a tree."""
        words = self._tree.lead(number, self._room, self._look.glyphs) if self._tree is not None else ""
        return table_lines.Lead(self._tree.name if self._tree is not None else "", words)

    def notify_style_update(self) -> None:
        """Another theme: draw all again."""
        super().notify_style_update()
        self._tones = None
        self.refresh(Region(0, 0, self.size.width, self.size.height))
