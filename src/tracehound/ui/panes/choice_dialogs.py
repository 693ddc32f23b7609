"""Dialogs to choose the settings of an analysis and the columns of a table.

They get the current choice and return the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from tracehound.analysis.analysis_settings import ChosenSettings, Setting
from tracehound.analysis.result import Column
from tracehound.draw.cell_text import column_heading
from tracehound.draw.glyphs import Glyphs
from tracehound.errors import TracehoundError
from tracehound.ui.state.table_view import ColumnChoice, TableView
from tracehound.ui.widgets.base_screens import ListDialog
from tracehound.ui.widgets.prompts import Prompt

SETTINGS_KEYS = "Space: another value · Bksp: the usual one · Enter takes them · Esc leaves"

VALUE_INDENT = " " * 10
"""Indentation of values and meanings below the name."""


class SettingsDialog(ListDialog[ChosenSettings | None]):
    """Every setting with its values and its meaning. Returns the settings that differ from their defaults, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,right,l,d", "turn(1)", "another", tooltip="The next value, or type one", id="settings.next"),
        Binding("left,h,a", "turn(-1)", show=False, tooltip="The value before, or type one", id="settings.previous"),
        Binding("backspace,delete", "usual", show=False, tooltip="The usual value", id="settings.usual"),
        Binding("escape,q", "dismiss(None)", "cancel", tooltip="Leave all as it was", id="settings.cancel"),
    ]

    def __init__(
        self, title: str, settings: Sequence[Setting[Any]], usual: ChosenSettings, given: ChosenSettings, glyphs: Glyphs
    ) -> None:
        """`usual` are defaults that replace the settings' own; `given` is the current choice."""
        super().__init__(glyphs)
        self._title = title
        self._settings = tuple(settings)
        self._defaults = {setting.name: setting.default for setting in settings} | dict(usual)
        self._values = self._defaults | dict(given)
        self._prompt = Prompt("value", "", glyphs)

    def compose(self) -> ComposeResult:
        """Yield the list, the prompt and the key help."""
        with Vertical() as box:
            box.border_title = self._glyphs.to_alphabet(self._title)
            yield self.options
            yield self._prompt
            yield Label(self._glyphs.to_alphabet(SETTINGS_KEYS))

    def on_mount(self) -> None:
        """Add an option for every setting."""
        self.options.add_options([Option(self._option_line(setting)) for setting in self._settings])

    @property
    def chosen(self) -> ChosenSettings:
        """Values that differ from their defaults."""
        return tuple(sorted((name, value) for name, value in self._values.items() if value != self._defaults[name]))

    @property
    def _current_setting(self) -> Setting[Any]:
        return self._settings[self.options.highlighted or 0]

    @on(OptionList.OptionSelected)
    def _dismiss_with_choice(self) -> None:
        self.dismiss(self.chosen)

    def action_turn(self, by: int) -> None:
        """Take the next of the possible values, or open the prompt if any text is allowed."""
        setting = self._current_setting
        value = self._values[setting.name]
        if setting.choices:
            at = setting.choices.index(value) if value in setting.choices else -1
            self._set_value(setting.choices[(at + by) % len(setting.choices)])
        else:
            self._prompt.show_remark("")
            self._prompt.begin(value)

    def action_usual(self) -> None:
        """Take the default value."""
        self._set_value(self._defaults[self._current_setting.name])

    def _set_value(self, value: str) -> None:
        self._values[self._current_setting.name] = value
        self.options.replace_option_prompt_at_index(
            self.options.highlighted or 0, self._option_line(self._current_setting)
        )

    @on(Prompt.Submitted)
    def _use_typed_value(self, event: Prompt.Submitted) -> None:
        """Take the typed value, or show what is wrong with it."""
        event.stop()
        try:
            self._current_setting.read(event.text)
        except TracehoundError as error:
            self._prompt.show_remark(f"{error.message}; {error.remedy}" if error.remedy else error.message)
            return
        self._set_value(event.text)
        self._close_prompt()

    @on(Prompt.Cancelled)
    def _cancel_prompt(self, event: Prompt.Cancelled) -> None:
        event.stop()
        self._close_prompt()

    @on(Prompt.ArrowPressed)
    @on(Prompt.Changed)
    def _ignore_prompt_message(self, event: Prompt.ArrowPressed | Prompt.Changed) -> None:
        event.stop()

    def _close_prompt(self) -> None:
        self.options.focus()
        self._prompt.end()

    def _option_line(self, setting: Setting[Any]) -> Text:
        """Option with the values, as in ``by  name [shape] module``, and the meaning below."""
        value = self._values[setting.name]
        among = [f"[{each}]" if each == value else f" {each} " for each in setting.choices] or [f"[{value or 'none'}]"]
        values, meaning = (
            fill(self._glyphs.to_alphabet(text), self.room, initial_indent=VALUE_INDENT, subsequent_indent=VALUE_INDENT)
            for text in (" ".join(among), setting.meaning)
        )
        return Text.assemble(
            (f"{setting.name:<{len(VALUE_INDENT)}}", "bold"), values[len(VALUE_INDENT) :], "\n", (meaning, "dim")
        )


class ColumnsDialog(ListDialog[ColumnChoice | None]):
    """Every column with its meaning; visible ones are checked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space,x", "switch", "show or hide", tooltip="Show or hide the column", id="columns.toggle", priority=True
        ),
        Binding("enter", "done", "done", tooltip="Take this choice", id="columns.done", priority=True),
        Binding("escape,q", "dismiss", "cancel", tooltip="Leave the columns as they were", id="columns.cancel"),
    ]

    def __init__(self, shown: TableView, placed: Sequence[str], glyphs: Glyphs) -> None:
        super().__init__(glyphs)
        self._columns = shown.available_columns
        self._choice = shown.choice
        self._shown_columns = set(placed)

    def compose(self) -> ComposeResult:
        """Yield the list and the key help."""
        with Vertical() as box:
            box.border_title = "Columns"
            yield self.options
            yield Label(
                self._glyphs.to_alphabet("Space shows or hides · Enter takes the choice · Esc leaves all as it was")
            )

    def on_mount(self) -> None:
        """Add an option for every column."""
        self.options.add_options([Option(self._option_line(column)) for column in self._columns])

    def action_switch(self) -> None:
        """Show the column even if there is little space, or hide it."""
        index = self.options.highlighted
        if index is None:
            return
        column = self._columns[index]
        if column.name not in self._shown_columns:
            self._shown_columns.add(column.name)
            self._choice = self._choice.with_(column.name)
        elif len(self._shown_columns) > 1:
            self._shown_columns.remove(column.name)
            self._choice = self._choice.without(column.name)
        self.options.replace_option_prompt_at_index(index, self._option_line(column))

    def action_done(self) -> None:
        """Return the choice."""
        self.dismiss(self._choice)

    def _option_line(self, column: Column) -> Text:
        mark = "[x]" if column.name in self._shown_columns else "[ ]"
        words = f"{column.meaning}, of {column.base}" if column.base else column.meaning
        line = self._glyphs.to_alphabet(f"{mark} {column_heading(column):<20} {words}")
        return Text(self._glyphs.cut(line, self.room), no_wrap=True)
