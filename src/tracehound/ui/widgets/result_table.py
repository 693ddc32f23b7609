"""Table of any result.

Owns the cursor, the order, the filter and the choice of columns. Rows are converted only when they become visible, so
that their number does not matter.
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

from tracehound.analysis.result import TEXT_UNITS, Column, Result
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.text_wrapping import wrap_paragraphs
from tracehound.ui.bindings import keys
from tracehound.ui.state import table_view
from tracehound.ui.state.table_view import ColumnChoice, SortOrder, TableView
from tracehound.ui.state.tree_folding import DEFAULT_FOLDS, FoldedTree, FoldKey
from tracehound.ui.themes import Appearance, appearance_of
from tracehound.ui.widgets import table_lines
from tracehound.ui.widgets.boxes_and_scroll_bars import simplify_scroll_bars
from tracehound.ui.widgets.cursor_list import CursorList
from tracehound.ui.widgets.table_columns import (
    COLUMN_GAP,
    ColumnNeeds,
    PlacedColumn,
    arrange_columns,
    indent_tree_names,
    measure_columns,
    scroll_offset_to_column,
    visible_columns,
)
from tracehound.ui.widgets.table_lines import RowPageCache

TableAction = Literal["filter", "unfilter", "columns", "hide", "copy cell", "copy row", "save", "chart"]
"""Action that a pane performs for its table."""


class ResultTable(CursorList, can_focus=True, inherit_bindings=False):
    """Rows of a result under a fixed header, with a cursor, an order, a filter and a choice of columns."""

    HEADER = 1
    BINDING_GROUP_TITLE = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.textual_bindings("table")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"result-table--{part}" for part in table_lines.TABLE_PARTS}
    DEFAULT_CSS = table_lines.TABLE_CSS

    result: reactive[Result | None] = reactive(None, repaint=False)
    """Result that is shown."""
    column: reactive[str] = reactive("", repaint=False)
    """Column under the cursor; empty until the user moves to one, then the first counts as current."""
    needle: reactive[str] = reactive("", repaint=False)
    """Filter as typed: only rows that pass it are shown, see `analysis.row_filter`."""
    choice: reactive[ColumnChoice] = reactive(ColumnChoice(), repaint=False)
    """Columns that are hidden, and those that are shown in any width."""
    empty: reactive[str] = reactive("")
    """Message in place of the rows when there are none."""

    @dataclass
    class RowChosen(Message):
        """The user wants to go to the event or window of the row; `column` is the one under the cursor, if any.

        The row belongs to `result`; the table may show another one when this arrives.
        """

        table: ResultTable
        row: dict[str, Any]
        column: Column | None = None
        result: Result | None = None

    @dataclass
    class WindowRequested(Message):
        """The user wants to select the row's window."""

        table: ResultTable
        row: dict[str, Any]

    @dataclass
    class RowHighlighted(Message):
        """The cursor is on another row; None without rows."""

        table: ResultTable
        row: dict[str, Any] | None

        def can_replace(self, message: Message) -> bool:
            """Drop this message if a newer one of the table is queued."""
            return isinstance(message, ResultTable.RowHighlighted) and message.table is self.table

    @dataclass
    class ActionRequested(Message):
        """The user wants an action on the table."""

        table: ResultTable
        what: TableAction

    def __init__(self, glyphs: Glyphs = UNICODE, aside: tuple[str, ...] = ()) -> None:
        """`aside` names columns that are shown beside the table."""
        super().__init__()
        self.sheet: TableView | None = None
        """Filtered, sorted and folded view of the result; None without one."""
        self._columns_elsewhere = aside
        self._glyphs = glyphs
        self._tones: Appearance | None = None
        self._rows = pl.DataFrame()
        self._column_needs: tuple[ColumnNeeds, ...] = ()
        self._placed_columns: tuple[PlacedColumn, ...] = ()
        self._filter = ""
        self._row_sort: SortOrder | None = None
        self._row_page = RowPageCache()
        self._folding = DEFAULT_FOLDS
        self._tree: FoldedTree | None = None
        self._passing_rows = 0

    @property
    def _cached_tones(self) -> Appearance:
        if self._tones is None:
            self._tones = appearance_of(self.app, self._glyphs)
        return self._tones

    @property
    def line_count(self) -> int:
        """Number of rows that are shown."""
        return self._rows.height

    @property
    def row(self) -> dict[str, Any] | None:
        """Raw values of the row under the cursor, hidden columns included."""
        return self._rows.row(self.cursor, named=True) if self.cursor < self._rows.height else None

    @property
    def has_no_rows(self) -> bool:
        """True without a row."""
        return self._rows.is_empty()

    @property
    def passing_row_count(self) -> int:
        """Number of rows that pass the filter."""
        return self._passing_rows

    @property
    def filter(self) -> str:
        """Filter in effect: the typed one, or the last valid one."""
        return self._filter

    @property
    def filter_error(self) -> str:
        """Error of the typed filter, in one line; the rows are still those of the last valid one."""
        return table_view.filter_error(self.result, self.needle) if self.result is not None else ""

    @property
    def current_column(self) -> str:
        """Column under the cursor, else the first."""
        return self.column if self.column in self.visible_column_names else next(iter(self.visible_column_names), "")

    @property
    def visible_column_names(self) -> tuple[str, ...]:
        """Visible columns, from left to right."""
        return tuple(placed.column.name for placed in self._placed_columns)

    @property
    def order(self) -> SortOrder | None:
        """Sort column, and True if descending; None in the result's own order."""
        return self._row_sort

    def render_line(self, y: int) -> Strip:
        """Draw the header, a row, or the message when there are none."""
        width, places = self.size.width, self._visible_columns
        if self.result is None:
            return self._empty_line(y)
        if y < self.HEADER:
            plain, chosen = (
                self.get_component_rich_style(f"result-table--{part}", partial=False) for part in ("header", "sorted")
            )
            strip = table_lines.header_line(places, self._row_sort, self.column, self._cached_tones, plain, chosen)
            if places[-1:] and places[-1].column is not self._placed_columns[-1].column:
                strip = table_lines.mark_more_columns(strip, self._row_width, self._cached_tones, plain)
            return strip.adjust_cell_length(width, self.plain)
        number = self.scroll_offset.y + y - self.HEADER
        if number < self._rows.height:
            ground = self._row_style(number)
            values = self._row_page.row(number, self.size.height)
            strip = table_lines.row_line(
                places, values, self.column, self._cached_tones, ground, self._tree_prefix(number)
            )
            return strip.crop_extend(0, width, ground.line)
        if not self._rows.height and y > self.HEADER:
            return self._empty_line(y - self.HEADER - 1)
        return Strip.blank(width, self.plain)

    def _empty_line(self, y: int) -> Strip:
        """Line `y` of the message in place of rows."""
        width, style = self.size.width, self.get_component_rich_style("result-table--empty", partial=False)
        words = wrap_paragraphs(self.empty, max(1, width - 2))[y:]
        return Strip([Segment(f" {self._cached_tones.words(words[0])}" if words else "", style)]).crop_extend(
            0, width, style
        )

    def on_mount(self) -> None:
        """Adapt the scroll bars to the alphabet."""
        simplify_scroll_bars(self, self._glyphs)

    def watch_result(self, old: Result | None, new: Result | None) -> None:
        """Show another result.

        If it is of the same analysis, the cursor stays on its row number and the order stays.
        """
        if old is None or new is None or old.analysis != new.analysis or old.columns != new.columns:
            self._row_sort, self._folding = None, DEFAULT_FOLDS
            self.set_reactive(ResultTable.choice, ColumnChoice())
            self.set_reactive(ResultTable.column, "")
            self.set_reactive(ResultTable.cursor, 0)
            self.scroll_to(0, 0, animate=False, immediate=True)
        self._update_rows()

    def watch_needle(self) -> None:
        """Filter again; the cursor goes to the first row."""
        self.set_reactive(ResultTable.cursor, 0)
        self._update_rows()

    def watch_choice(self) -> None:
        """Show other columns; the cursor moves off a column that is gone."""
        before = self.visible_column_names
        self._update_rows()
        if self.column and self.column not in self.visible_column_names and self.column in before:
            after = [name for name in before[before.index(self.column) :] if name in self.visible_column_names]
            self.column = next(iter([*after, *self.visible_column_names[-1:]]), "")

    def watch_column(self) -> None:
        """Mark the column, and scroll to it."""
        left = self.scroll_offset.x
        if (to := scroll_offset_to_column(self._placed_columns, self.column, left, self._row_width - 1)) != left:
            self.scroll_to(x=to, animate=False, immediate=True)
        self.refresh_line(0)
        self.refresh_line(self.cursor + self.HEADER)
        self.post_message(self.RowHighlighted(self, self.row))

    def watch_cursor(self, old: int, new: int) -> None:
        """Post the row under the cursor."""
        super().watch_cursor(old, new)
        self.post_message(self.RowHighlighted(self, self.row))

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:  # noqa: FBT001, FBT002, as Textual
        """Choose the columns for another width before they are painted, since `Resize` comes after that.

        A hidden table had no space for any.
        """
        if size != self._size or not self._placed_columns:
            self._fit_columns()
            self.set_reactive(ResultTable.virtual_size, self._scroll_extent)
        return super()._size_updated(size, virtual_size, container_size, layout)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked row; a double click goes to its event. A click on the header sorts."""
        where = event.get_content_offset(self)
        if where is None:
            return
        if where.y < self.HEADER:
            self._sort_clicked_column(where.x)
            return
        number = self.scroll_offset.y + where.y - self.HEADER
        if number < self._rows.height:
            self.cursor = number
            if where.x <= len(self._tree_prefix(number).words):
                self.action_fold("turn")
            elif event.chain > 1:
                self.action_choose()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Esc to the screen while there is no filter."""
        return (action, parameters) != ("ask", ("unfilter",)) or bool(self.needle)

    def action_column(self, by: int) -> None:
        """Move the cursor to another column; the first time, to the first or the last."""
        names = self.visible_column_names
        if names:
            here = names.index(self.column) + by if self.column in names else (0 if by > 0 else len(names) - 1)
            self.column = names[max(0, min(here, len(names) - 1))]

    def action_fold(self, way: FoldKey) -> None:
        """Fold or unfold rows of a tree, or go to the row around or inside."""
        if self._tree is not None and self._rows.height:
            self._folding, row = self._tree.apply_fold_key(self.cursor, way)
            self._update_rows()
            self.cursor = self._tree.place_of(row)

    def action_choose(self) -> None:
        """Request to go to the event or window of the row."""
        if (row := self.row) is not None:
            found = [column for column in self.sheet.folded.columns if column.name == self.column] if self.sheet else []
            self.post_message(self.RowChosen(self, row, found[0] if found else None, self.result))

    def action_pick_window(self) -> None:
        """Request to select the row's window."""
        if (row := self.row) is not None:
            self.post_message(self.WindowRequested(self, row))

    def action_ask(self, what: TableAction) -> None:
        """Request an action from the pane."""
        self.post_message(self.ActionRequested(self, what))

    def action_sort_column(self, step: int) -> None:
        """Sort by the column after (1) or before (-1) the sort column."""
        names = [placed.column.name for placed in self._placed_columns]
        if names:
            here = (
                names.index(self._row_sort[0])
                if self._row_sort and self._row_sort[0] in names
                else (-1 if step > 0 else 0)
            )
            self._sort_by(names[(here + step) % len(names)])

    def action_sort_here(self) -> None:
        """Sort by the column under the cursor; if it is the sort column, reverse the order."""
        if self._row_sort is not None and self.column in ("", self._row_sort[0]):
            self.action_reverse()
        elif self._placed_columns:
            self._sort_by(self.current_column)

    def action_reverse(self) -> None:
        """Reverse the order."""
        if self._row_sort is not None:
            self._row_sort = (self._row_sort[0], not self._row_sort[1])
            self._update_rows()
        elif self._placed_columns:
            self._sort_by(self._placed_columns[0].column.name)

    def _sort_clicked_column(self, x: int) -> None:
        for placed in self._visible_columns:
            if placed.left <= x < placed.left + placed.width + COLUMN_GAP:
                if self._row_sort is not None and self._row_sort[0] == placed.column.name:
                    self.action_reverse()
                else:
                    self._sort_by(placed.column.name)

    def _sort_by(self, name: str) -> None:
        """Sort by a column: numbers descending, since the large ones matter, texts and instants ascending."""
        if self.sheet is not None:
            self._row_sort = (name, self.sheet.folded.column(name).unit not in (*TEXT_UNITS, "instant"))
            self.set_reactive(ResultTable.column, name if self.column else "")
            self._update_rows()

    def _update_rows(self) -> None:
        """Filter, sort and measure the rows, and redraw."""
        shown = None
        if self.result is not None:
            self._filter = table_view.effective_filter(self.result, self.needle, self._filter)
            shown = TableView(
                self.result, self._filter, self._row_sort, self.choice, self._columns_elsewhere, self._folding
            )
        self.sheet = shown
        self._rows, self._column_needs, self._tree, self._passing_rows = pl.DataFrame(), (), None, 0
        if shown is not None:
            self._rows, self._tree, self._passing_rows = shown.visible_rows, shown.tree, shown.passing_row_count
            columns = measure_columns(shown.columns, shown.rows, shown.choice.wanted)
            self._column_needs = indent_tree_names(columns, shown.rows, shown.result.columns)
        self._fit_columns()
        self.set_extent(self._scroll_extent)
        self.refresh()
        self.set_reactive(ResultTable.cursor, self.validate_cursor(self.cursor))
        self.post_message(self.RowHighlighted(self, self.row))

    def _fit_columns(self) -> None:
        """Choose the columns that fit."""
        room = self._row_width
        self._row_page = RowPageCache(self._rows.select(needs.column.name for needs in self._column_needs))
        self._placed_columns = (
            arrange_columns(self._column_needs, self._rows, room - 1) if self._column_needs and room > 1 else ()
        )

    @property
    def _visible_columns(self) -> tuple[PlacedColumn, ...]:
        """Columns that are drawn, with their positions."""
        return visible_columns(self._placed_columns, self.scroll_offset.x, self._row_width - 1)

    @property
    def _row_width(self) -> int:
        """Width beside the scroll bar."""
        return self.size.width - (1 if self._rows.height > self.size.height - self.HEADER else 0)

    @property
    def _scroll_extent(self) -> Size:
        width = max((placed.left + placed.width for placed in self._placed_columns), default=0) + 1
        return Size(width if width > self._row_width else self.size.width, self._rows.height + self.HEADER)

    def _row_style(self, number: int) -> table_lines.RowStyle:
        """Style of a row's line."""
        if number != self.cursor:
            return table_lines.RowStyle(self.plain, Style.null())
        name = "result-table--cursor" if self.has_focus else "result-table--idle-cursor"
        line = self.get_component_rich_style(name, partial=False)
        marked = self.get_component_rich_style("result-table--column") if self.has_focus else Style.null()
        return table_lines.RowStyle(line, marked, colored=not self.has_focus)

    def _tree_prefix(self, number: int) -> table_lines.TreePrefix:
        """Indentation and fold mark before a row's name in a tree."""
        words = (
            self._tree.name_prefix(number, self._row_width, self._cached_tones.glyphs) if self._tree is not None else ""
        )
        return table_lines.TreePrefix(self._tree.name if self._tree is not None else "", words)

    def notify_style_update(self) -> None:
        """Redraw all with the new theme."""
        super().notify_style_update()
        self._tones = None
        self.refresh(Region(0, 0, self.size.width, self.size.height))
