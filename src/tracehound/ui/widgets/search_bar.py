"""The line on which a search is typed.

Owns the prompt. Knows nothing of what is searched: it tells every change, and shows the count that it is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Label

from tracehound.ui.bindings import keys


class SearchInput(Input):
    """The text of the search."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "cancel", show=False, tooltip="Leave the search as it was", id="search.cancel")
    ]
    DEFAULT_CSS = """
    SearchInput, SearchInput:focus { border: none; height: 1; padding: 0; width: 1fr; background: $panel; }
    """

    def action_cancel(self) -> None:
        """Tell that nothing is searched for."""
        self.post_message(SearchBar.Cancelled())


class SearchBar(Horizontal):
    """A slash, the text, and how much it matches."""

    DEFAULT_CSS = """
    SearchBar { height: 1; background: $panel; display: none; }
    SearchBar.-open { display: block; }
    SearchBar > .slash { color: $accent; text-style: bold; padding: 0 0 0 1; }
    SearchBar > .count, SearchBar > .keys { color: $text-muted; padding: 0 1; }
    """

    @dataclass
    class Changed(Message):
        """The text is another one."""

        needle: str

    @dataclass
    class Submitted(Message):
        """Go to the first match."""

        needle: str

    @dataclass
    class Cancelled(Message):
        """Forget it."""

    def __init__(self) -> None:
        super().__init__()
        self.input = SearchInput(placeholder="a part of any event name, or ~regex", select_on_focus=True)
        self.input.cursor_blink = False
        self._count = Label("", classes="count", markup=False)

    def compose(self) -> ComposeResult:
        """The prompt."""
        yield Label("/", classes="slash", markup=False)
        yield self.input
        yield self._count
        yield Label(keys.TO_BE_PRESSED, classes="keys", markup=False)

    @property
    def open(self) -> bool:
        """Whether it is on the screen."""
        return self.has_class("-open")

    def begin(self) -> None:
        """Appear, with the last text selected."""
        self.add_class("-open")
        self.input.focus()

    def end(self) -> None:
        """Disappear."""
        self.remove_class("-open")

    def tell(self, count: str) -> None:
        """Show how much matches."""
        self._count.update(count)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.open:
            self.post_message(self.Changed(event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Submitted(event.value))
