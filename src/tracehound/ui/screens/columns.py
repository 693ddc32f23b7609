"""The columns of a table, to choose from.

Owns the list and its keys. Knows no table: it is given what is shown, and gives back a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from tracehound.analysis.result import Column
from tracehound.draw.cells import heading
from tracehound.draw.glyphs import Glyphs
from tracehound.ui.sheet import Choice, Sheet
from tracehound.ui.widgets.plain_bars import suit


class ColumnsScreen(ModalScreen[Choice | None]):
    """Every column with what it means; those that are on the screen are marked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space,x", "switch", "show or hide", tooltip="Show or hide the column", id="columns.toggle", priority=True
        ),
        Binding("enter", "done", "done", tooltip="Take this choice", id="columns.done", priority=True),
        Binding("escape,q", "dismiss", "cancel", tooltip="Leave the columns as they were", id="columns.cancel"),
        Binding("j,s", "move(1)", show=False, tooltip="Next column", id="columns.down"),
        Binding("k,w", "move(-1)", show=False, tooltip="Column before", id="columns.up"),
    ]
    DEFAULT_CSS = """
    ColumnsScreen { align: center middle; background: $background 60%; }
    ColumnsScreen > Vertical {
        width: 78; max-width: 100%; height: auto; max-height: 90%;
        background: $panel; border: round $primary; padding: 0 1;
    }
    ColumnsScreen OptionList, ColumnsScreen OptionList:focus {
        height: auto; max-height: 1fr; border: none; padding: 0; background: $panel; scrollbar-size-vertical: 1;
    }
    ColumnsScreen Label { color: $text-muted; }
    """

    def __init__(self, shown: Sheet, placed: Sequence[str], glyphs: Glyphs) -> None:
        super().__init__()
        self._columns = shown.offered
        self._choice = shown.choice
        self._on = set(placed)
        self._glyphs = glyphs
        self._list = OptionList(*(Option(self._line(column)) for column in self._columns), markup=False)

    def compose(self) -> ComposeResult:
        """The list, and what the keys do."""
        with Vertical() as box:
            box.border_title = "Columns"
            yield self._list
            yield Label(self._glyphs.words("Space shows or hides · Enter takes the choice · Esc leaves all as it was"))

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self._list, self._glyphs)

    def action_switch(self) -> None:
        """Show the column, whatever the room, or hide it."""
        index = self._list.highlighted
        if index is None:
            return
        column = self._columns[index]
        if column.name not in self._on:
            self._on.add(column.name)
            self._choice = self._choice.with_(column.name)
        elif len(self._on) > 1:
            self._on.remove(column.name)
            self._choice = self._choice.without(column.name)
        self._list.replace_option_prompt_at_index(index, self._line(column))

    def action_done(self) -> None:
        """Give the choice back."""
        self.dismiss(self._choice)

    def action_move(self, by: int) -> None:
        """Go to another column."""
        (self._list.action_cursor_down if by > 0 else self._list.action_cursor_up)()

    def _line(self, column: Column) -> Text:
        mark = "[x]" if column.name in self._on else "[ ]"
        words = f"{column.meaning}, of {column.base}" if column.base else column.meaning
        line = Text(self._glyphs.words(f"{mark} {heading(column):<20} {words}"), no_wrap=True, overflow="ellipsis")
        line.truncate(72)
        return line
