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
from textual.screen import ModalScreen
from textual.widgets import OptionList

from tracehound.draw.glyphs import Glyphs
from tracehound.ui.source.lines import SourceLine
from tracehound.ui.tones import tones
from tracehound.ui.widgets.plain_bars import suit


class ChoiceScreen(ModalScreen[SourceLine | None]):
    """The source lines of an event, the nearest first; gives the chosen one, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "close", tooltip="Choose none", id="choice.close"),
        Binding("j,s", "move(1)", show=False, tooltip="Next line", id="choice.down"),
        Binding("k,w", "move(-1)", show=False, tooltip="Line before", id="choice.up"),
    ]
    DEFAULT_CSS = """
    ChoiceScreen { align: center middle; background: $background 60%; }
    ChoiceScreen > Vertical {
        width: 90%; max-width: 120; height: auto; max-height: 80%; background: $panel; border: round $primary;
        border-title-color: $primary;
    }
    ChoiceScreen OptionList, ChoiceScreen OptionList:focus {
        height: auto; max-height: 100%; background: $panel; border: none; padding: 0; scrollbar-size-vertical: 1;
    }
    """

    def __init__(self, lines: Sequence[SourceLine], glyphs: Glyphs) -> None:
        super().__init__()
        self._lines = tuple(lines)
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        """One option for each line."""
        look = tones(self.app, self._glyphs)
        with Vertical() as box:
            box.border_title = "Source lines, innermost first"
            yield OptionList(*(_prompt(line, look.words) for line in self._lines), markup=False)

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self.query_one(OptionList), self._glyphs)

    @on(OptionList.OptionSelected)
    def _selected(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(self._lines[message.option_index])

    def action_move(self, by: int) -> None:
        """Move in the list."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()


def _prompt(line: SourceLine, words: Callable[[str], str]) -> Text:
    """``forward  model.py:12``."""
    place = Text(words(f"{line.file}:{line.line}"))
    return Text.assemble((words(line.what), "bold"), "  ", place) if line.what else place
