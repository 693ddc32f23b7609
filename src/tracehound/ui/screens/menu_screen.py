"""Menu of all panes under headings, each with its own key.

Owns the layout in columns. `panes.pane_menu` has the entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Label

from tracehound.draw.glyphs import Glyphs
from tracehound.ui.panes.pane_menu import MenuEntry
from tracehound.ui.widgets.base_screens import DialogScreen
from tracehound.ui.widgets.boxes_and_scroll_bars import simplify_scroll_bars

MenuSection = tuple[str, list[MenuEntry]]
MenuCell = MenuEntry | str
"""An entry, a heading, or "" for an empty cell."""

MIN_COLUMN_WIDTH = 19
"""Least width of a column in cells."""

QUESTION_COLUMN_WIDTH = 64
"""Width from which a column shows the questions of its entries."""

RESERVED_LINES = 4
"""Lines of the screen that the list leaves free for the frame and the text below."""


class MenuList(Widget, can_focus=True):
    """Entries in columns, with a cursor."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"menu-list--{part}" for part in ("head", "key", "cursor", "gray")}
    DEFAULT_CSS = """
    MenuList {
        height: auto; color: $text;
        & > .menu-list--head { color: $text-muted; text-style: bold; }
        & > .menu-list--key { color: $accent; text-style: bold; }
        & > .menu-list--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
        & > .menu-list--gray { color: $text-disabled; }
        &:ansi > .menu-list--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
        &:ansi > .menu-list--gray { color: ansi_bright_black; }
        &:nocolor > .menu-list--gray { text-style: dim; }
    }
    """

    cursor: reactive[int] = reactive(0)
    """Number of the entry under the cursor."""

    @dataclass
    class EntryChosen(Message):
        """An entry was chosen."""

        entry: MenuEntry

    @dataclass
    class EntryHighlighted(Message):
        """The cursor is on another entry."""

        entry: MenuEntry

    def __init__(self, headings: Sequence[MenuSection], glyphs: Glyphs, first: str) -> None:
        super().__init__()
        self._headings = headings
        self._glyphs = glyphs
        self._entries = [entry for _, under in headings for entry in under]
        at = next((number for number, entry in enumerate(self._entries) if entry.pane == first), 0)
        self.set_reactive(MenuList.cursor, at)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Number of lines of the longest column."""
        del container, viewport
        return max(map(len, self._column_cells(width)))

    def _column_cells(self, width: int) -> list[list[MenuCell]]:
        """Cells of every column, with as few columns as the height allows."""
        most = max(1, width // MIN_COLUMN_WIDTH)
        lines = max(8, self.app.size.height - RESERVED_LINES)
        tried = (lay(self._headings, number) for lay in (flow_columns, pack_columns) for number in range(1, most + 1))
        fitting = (columns for columns in tried if max(map(len, columns)) <= lines)
        return next(fitting, pack_columns(self._headings, most))

    def _column_width(self) -> int:
        """Width of a column."""
        width = self.size.width
        return width // len(self._column_cells(width))

    def render_line(self, y: int) -> Strip:
        """Draw line `y` of all columns."""
        width = self._column_width()
        segments = list[Segment]()
        for column in self._column_cells(self.size.width):
            segments += Strip(self._cell_segments(column[y] if y < len(column) else "", width)).adjust_cell_length(
                width, self.rich_style
            )
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def _cell_segments(self, cell: MenuCell, width: int) -> list[Segment]:
        head, key, cursor, gray = (
            self.get_component_rich_style(f"menu-list--{part}", partial=False)
            for part in ("head", "key", "cursor", "gray")
        )
        if isinstance(cell, str):
            return [Segment(f" {cell}", head)]
        plain = gray if cell.lacks else self.rich_style
        under = cell is self._entries[self.cursor]
        styles = (cursor + Style(bold=True), cursor) if under else (gray if cell.lacks else key, plain)
        text = f"{cell.title:<17}" if width >= QUESTION_COLUMN_WIDTH else self._glyphs.cut(cell.title, width - 5)
        room = width - 5 - len(text)
        more = self._glyphs.cut(cell.lacks or cell.question, room) if width >= QUESTION_COLUMN_WIDTH else ""
        line = [Segment(f" {cell.key or ' '} ", styles[0]), Segment(f"{text} ", styles[1])]
        line += (
            [Segment(more, styles[1] if under else gray if cell.lacks else head + Style(bold=False))] if more else []
        )
        return [*Strip(line).adjust_cell_length(width - 1, styles[1] if under else self.rich_style)]

    def watch_cursor(self) -> None:
        """Post the entry under the cursor."""
        self.post_message(self.EntryHighlighted(self._entries[self.cursor]))

    def validate_cursor(self, cursor: int) -> int:
        """Clamp to the entries that exist."""
        return max(0, min(cursor, len(self._entries) - 1))

    def move(self, by: int) -> None:
        """Move the cursor by entries."""
        self.cursor += by

    def aside(self, by: int) -> None:
        """Move the cursor to the next (1) or previous (-1) column."""
        columns = self._column_cells(self.size.width)
        at = next((x, y) for x, cells in enumerate(columns) for y, cell in enumerate(cells) if self._is_cursor(cell))
        x = max(0, min(at[0] + by, len(columns) - 1))
        there = [(abs(y - at[1]), cell) for y, cell in enumerate(columns[x]) if isinstance(cell, MenuEntry)]
        if there:
            self.cursor = self._entries.index(min(there, key=lambda each: each[0])[1])

    @property
    def region_of_cursor(self) -> Region:
        """Line of the cursor, with the heading right above it."""
        lines = next(cells for cells in self._column_cells(self.size.width) if any(map(self._is_cursor, cells)))
        at = next(y for y, cell in enumerate(lines) if self._is_cursor(cell))
        above = at > 0 and isinstance(lines[at - 1], str)
        return Region(0, at - above, 1, 1 + above)

    def _is_cursor(self, cell: MenuCell) -> bool:
        return cell is self._entries[self.cursor]

    def go_to_key(self, key: str) -> MenuEntry | None:
        """Put the cursor on the entry with this key, and return it; None if there is none."""
        entry = next((each for each in self._entries if each.key == key), None)
        if entry is not None:
            self.cursor = self._entries.index(entry)
        return entry

    def choose(self) -> None:
        """Choose the entry under the cursor."""
        self.post_message(self.EntryChosen(self._entries[self.cursor]))

    def on_click(self, event: events.Click) -> None:
        """Choose the clicked entry."""
        where = event.get_content_offset(self)
        columns = self._column_cells(self.size.width)
        if where is None or where.x // self._column_width() >= len(columns):
            return
        column = columns[where.x // self._column_width()]
        cell = column[where.y] if where.y < len(column) else ""
        if isinstance(cell, MenuEntry):
            self.cursor = self._entries.index(cell)
            self.choose()


class MenuScreen(DialogScreen[str | None]):
    """All panes. Returns the name of the chosen one, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "close", tooltip="Back to where one was", id="menu.close"),
        Binding("enter", "choose", "show", tooltip="Show what is under the cursor", id="menu.choose"),
        Binding("down", "move(1)", show=False, tooltip="Next", id="menu.down"),
        Binding("up", "move(-1)", show=False, tooltip="The one before", id="menu.up"),
        Binding("right", "aside(1)", show=False, tooltip="Next column", id="menu.right"),
        Binding("left", "aside(-1)", show=False, tooltip="Column before", id="menu.left"),
    ]
    DEFAULT_CSS = """
    MenuScreen > Vertical { width: 100%; max-width: 180; max-height: 100%; padding: 0; }
    MenuScreen VerticalScroll { height: auto; scrollbar-size-vertical: 1; }
    MenuScreen Label { width: 100%; height: 1; padding: 0 1; text-wrap: nowrap; }
    MenuScreen #about { color: $accent; height: auto; max-height: 2; text-wrap: wrap; }
    """

    def __init__(self, headings: Sequence[MenuSection], glyphs: Glyphs, first: str) -> None:
        super().__init__()
        self.entries = MenuList(headings, glyphs, first)
        self._scroll_area = VerticalScroll(self.entries, can_focus=False)
        self._glyphs = glyphs
        self._about = Label("", id="about", markup=False)
        self._keys = Label(glyphs.to_alphabet("the key beside a name shows it · arrows and Enter do, too · Esc leaves"))

    def compose(self) -> ComposeResult:
        """Yield the list, the question of the entry under the cursor, and the key help."""
        with Vertical() as box:
            box.border_title = "What to look at"
            yield self._scroll_area
            yield self._about
            yield self._keys

    def on_mount(self) -> None:
        """Focus the list."""
        simplify_scroll_bars(self._scroll_area, self._glyphs)
        self.entries.focus()
        self.entries.watch_cursor()

    def on_resize(self) -> None:
        """Make the list scroll if it is too long; the text below stays."""
        self._scroll_area.styles.max_height = max(1, self.app.size.height - RESERVED_LINES)
        self._scroll_to_cursor()

    def _scroll_to_cursor(self) -> None:
        """Scroll to the cursor."""
        self._scroll_area.scroll_to_region(self.entries.region_of_cursor, animate=False, immediate=True, force=True)

    def on_key(self, event: events.Key) -> None:
        """Choose the entry with this key, at once: keys that follow are meant for its pane."""
        entry = self.entries.go_to_key(event.character) if event.character and event.is_printable else None
        if entry is not None:
            event.stop()
            event.prevent_default()
            self._dismiss_with(entry)

    @on(MenuList.EntryHighlighted)
    def _describe_entry(self, message: MenuList.EntryHighlighted) -> None:
        entry = message.entry
        said = self._glyphs.to_alphabet(entry.lacks or entry.question)
        self._about.update(said)
        self._keys.display = cell_len(said) <= self._about.content_size.width or not self._about.content_size.width
        self._scroll_to_cursor()

    @on(MenuList.EntryChosen)
    def _dismiss_with_entry(self, message: MenuList.EntryChosen) -> None:
        self._dismiss_with(message.entry)

    def _dismiss_with(self, entry: MenuEntry) -> None:
        if not entry.lacks:
            self.dismiss(entry.pane)

    def action_choose(self) -> None:
        """Show the pane under the cursor."""
        self.entries.choose()

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.entries.move(by)

    def action_aside(self, by: int) -> None:
        """Move the cursor to the column beside."""
        self.entries.aside(by)


def flow_columns(headings: Sequence[MenuSection], number: int) -> list[list[MenuCell]]:
    """Cells of `number` columns of about equal length, in reading order, with an empty line between sections.

    No heading stands alone at an end.
    """
    blocks: list[list[MenuCell]] = [[title, *under] for title, under in headings]
    total = sum(map(len, blocks)) + len(blocks) - 1
    most = -(-total // number)
    columns: list[list[MenuCell]] = [[]]
    for block in blocks:
        fits = len(columns[-1]) + 1 + len(block) <= most + 1
        if columns[-1] and not fits and len(columns) < number:
            columns.append([])
        columns[-1] += [*([""] if columns[-1] else []), *block]
    return columns


def pack_columns(headings: Sequence[MenuSection], number: int) -> list[list[MenuCell]]:
    """Cells of `number` columns without empty lines; a section may continue in the next column."""
    cells: list[MenuCell] = []
    for title, under in headings:
        cells += [title, *under]
    height = -(-len(cells) // number)
    while len(columns := _split_columns(cells, height)) > number:
        height += 1
    return columns


def _split_columns(cells: Sequence[MenuCell], height: int) -> list[list[MenuCell]]:
    """Columns of at most `height` cells, none of which ends with a heading."""
    columns: list[list[MenuCell]] = []
    left = list(cells)
    while left:
        size = min(height, len(left))
        if size > 1 and isinstance(left[size - 1], str):
            size -= 1
        columns.append(left[:size])
        left = left[size:]
    return columns
