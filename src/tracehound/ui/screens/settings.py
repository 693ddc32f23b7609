"""The settings of an analysis, to choose from.

Owns the list, its keys and the line on which a value is typed. Knows no trace: it is given what is chosen, and gives
back what is chosen then.
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

from tracehound.analysis.settings import Given, Setting
from tracehound.draw.glyphs import Glyphs
from tracehound.errors import TracehoundError
from tracehound.ui.screens.framed import Listed
from tracehound.ui.widgets.prompt import Prompt

KEYS = "Space: another value · Bksp: the usual one · Enter takes them · Esc leaves"

INDENT = " " * 10
"""What stands before values and meanings, below the name."""


class SettingsScreen(Listed[Given | None]):
    """Every setting with its value, what else it may be, and what it means; gives what is unlike the usual, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,right,l,d", "turn(1)", "another", tooltip="The next value, or type one", id="settings.next"),
        Binding("left,h,a", "turn(-1)", show=False, tooltip="The value before, or type one", id="settings.previous"),
        Binding("backspace,delete", "usual", show=False, tooltip="The usual value", id="settings.usual"),
        Binding("escape,q", "dismiss(None)", "cancel", tooltip="Leave all as it was", id="settings.cancel"),
    ]

    def __init__(
        self, title: str, settings: Sequence[Setting[Any]], usual: Given, given: Given, glyphs: Glyphs
    ) -> None:
        """`usual` is what holds where nothing is chosen, unlike the settings' own defaults; `given` is chosen now."""
        super().__init__(glyphs)
        self._title = title
        self._settings = tuple(settings)
        self._usual = {setting.name: setting.default for setting in settings} | dict(usual)
        self._values = self._usual | dict(given)
        self._prompt = Prompt("value", "", glyphs)

    def compose(self) -> ComposeResult:
        """The list, what is typed, and what the keys do."""
        with Vertical() as box:
            box.border_title = self._glyphs.words(self._title)
            yield self.options
            yield self._prompt
            yield Label(self._glyphs.words(KEYS))

    def on_mount(self) -> None:
        """Every setting with its value."""
        self.options.add_options([Option(self._line(setting)) for setting in self._settings])

    @property
    def chosen(self) -> Given:
        """The values that are not the usual ones."""
        return tuple(sorted((name, value) for name, value in self._values.items() if value != self._usual[name]))

    @property
    def _here(self) -> Setting[Any]:
        return self._settings[self.options.highlighted or 0]

    @on(OptionList.OptionSelected)
    def _done(self) -> None:
        self.dismiss(self.chosen)

    def action_turn(self, by: int) -> None:
        """Take the next value of those that there are; where any may be written, ask for one."""
        setting = self._here
        value = self._values[setting.name]
        if setting.choices:
            at = setting.choices.index(value) if value in setting.choices else -1
            self._take(setting.choices[(at + by) % len(setting.choices)])
        else:
            self._prompt.tell("")
            self._prompt.begin(value)

    def action_usual(self) -> None:
        """Take the value that holds where nothing is chosen."""
        self._take(self._usual[self._here.name])

    def _take(self, value: str) -> None:
        self._values[self._here.name] = value
        self.options.replace_option_prompt_at_index(self.options.highlighted or 0, self._line(self._here))

    @on(Prompt.Submitted)
    def _submitted(self, event: Prompt.Submitted) -> None:
        """Take what was typed, or say why it is no value."""
        event.stop()
        try:
            self._here.read(event.text)
        except TracehoundError as error:
            self._prompt.tell(f"{error.message}; {error.remedy}" if error.remedy else error.message)
            return
        self._take(event.text)
        self._end()

    @on(Prompt.Left)
    def _left(self, event: Prompt.Left) -> None:
        event.stop()
        self._end()

    @on(Prompt.Moved)
    @on(Prompt.Changed)
    def _typed(self, event: Prompt.Moved | Prompt.Changed) -> None:
        event.stop()

    def _end(self) -> None:
        self.options.focus()
        self._prompt.end()

    def _line(self, setting: Setting[Any]) -> Text:
        """``by  name [shape] module``, and under it what that means."""
        value = self._values[setting.name]
        among = [f"[{each}]" if each == value else f" {each} " for each in setting.choices] or [f"[{value or 'none'}]"]
        values, meaning = (
            fill(self._glyphs.words(text), self.room, initial_indent=INDENT, subsequent_indent=INDENT)
            for text in (" ".join(among), setting.meaning)
        )
        return Text.assemble((f"{setting.name:<{len(INDENT)}}", "bold"), values[len(INDENT) :], "\n", (meaning, "dim"))
