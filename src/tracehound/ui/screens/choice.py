"""Source lines to choose from.

Owns the list; what happens with the chosen one is for who asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import OptionList

from tracehound.draw.glyphs import Glyphs
from tracehound.ui.screens.framed import Listed
from tracehound.ui.source.lines import SourceLine
from tracehound.ui.wording.tones import tones


class ChoiceScreen(Listed[SourceLine | None]):
    """The source lines of an event, the nearest first; gives the chosen one, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "close", tooltip="Choose none", id="choice.close"),
    ]
    DEFAULT_CSS = "ChoiceScreen > Vertical { width: 120; max-width: 90%; }"

    def __init__(self, lines: Sequence[SourceLine], glyphs: Glyphs) -> None:
        super().__init__(glyphs)
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        """The list."""
        with Vertical() as box:
            box.border_title = "Source lines, innermost first"
            yield self.options

    def on_mount(self) -> None:
        """One option for each line."""
        look = tones(self.app, self._glyphs)
        self.options.add_options([_prompt(line, look.words) for line in self._lines])

    @on(OptionList.OptionSelected)
    def _selected(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(self._lines[message.option_index])


def _prompt(line: SourceLine, words: Callable[[str], str]) -> Text:
    """``forward  model.py:12``."""
    place = Text(words(f"{line.file}:{line.line}"))
    return Text.assemble((words(line.what), "bold"), "  ", place) if line.what else place
