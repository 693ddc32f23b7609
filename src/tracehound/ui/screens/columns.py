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
from textual.widgets import Label
from textual.widgets.option_list import Option

from tracehound.analysis.result import Column
from tracehound.draw.cells import heading
from tracehound.draw.glyphs import Glyphs
from tracehound.ui.screens.framed import Listed
from tracehound.ui.state.sheet import Choice, Sheet


class ColumnsScreen(Listed[Choice | None]):
    """Every column with what it means; those that are on the screen are marked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space,x", "switch", "show or hide", tooltip="Show or hide the column", id="columns.toggle", priority=True
        ),
        Binding("enter", "done", "done", tooltip="Take this choice", id="columns.done", priority=True),
        Binding("escape,q", "dismiss", "cancel", tooltip="Leave the columns as they were", id="columns.cancel"),
    ]

    def __init__(self, shown: Sheet, placed: Sequence[str], glyphs: Glyphs) -> None:
        super().__init__(glyphs)
        self._columns = shown.offered
        self._choice = shown.choice
        self._on = set(placed)

    def compose(self) -> ComposeResult:
        """The list, and what the keys do."""
        with Vertical() as box:
            box.border_title = "Columns"
            yield self.options
            yield Label(self._glyphs.words("Space shows or hides · Enter takes the choice · Esc leaves all as it was"))

    def on_mount(self) -> None:
        """Every column with its mark."""
        self.options.add_options([Option(self._line(column)) for column in self._columns])

    def action_switch(self) -> None:
        """Show the column, whatever the room, or hide it."""
        index = self.options.highlighted
        if index is None:
            return
        column = self._columns[index]
        if column.name not in self._on:
            self._on.add(column.name)
            self._choice = self._choice.with_(column.name)
        elif len(self._on) > 1:
            self._on.remove(column.name)
            self._choice = self._choice.without(column.name)
        self.options.replace_option_prompt_at_index(index, self._line(column))

    def action_done(self) -> None:
        """Give the choice back."""
        self.dismiss(self._choice)

    def _line(self, column: Column) -> Text:
        mark = "[x]" if column.name in self._on else "[ ]"
        words = f"{column.meaning}, of {column.base}" if column.base else column.meaning
        line = self._glyphs.words(f"{mark} {heading(column):<20} {words}")
        return Text(self._glyphs.cut(line, self.room), no_wrap=True)
