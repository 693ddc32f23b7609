"""The line on which a person says which lanes or ranks are shown.

Owns the prompt. Knows nothing of what is asked for: it tells every change, and what was there before when it is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input, Label

from tracehound.ui.widgets.plain_box import Line

What = Literal["lanes", "ranks"]

HINTS: dict[What, str] = {
    "lanes": "a part of a lane's name; /regex/ between slashes; nothing shows all",
    "ranks": "0,2-5; nothing shows all",
}


class LaneInput(Input):
    """What is typed."""

    BINDING_GROUP_TITLE = "Prompts"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", show=False, tooltip="Leave it as it was", id="lanes.cancel")
    ]
    DEFAULT_CSS = """
    LaneInput, LaneInput:focus { border: none; height: 1; padding: 0; width: 1fr; background: $panel; }
    """

    def action_leave(self) -> None:
        """Tell that nothing is asked for."""
        self.post_message(LanePrompt.Left())


class LanePrompt(Line):
    """What is asked, the text, and what is wrong with it."""

    DEFAULT_CSS = """
    LanePrompt { height: 1; background: $panel; display: none; }
    LanePrompt > .what { color: $accent; text-style: bold; padding: 0 1; width: auto; }
    LanePrompt > .said { color: $text-muted; padding: 0 1; width: auto; }
    """

    @dataclass
    class Changed(Message):
        """The text is another one."""

        what: What
        text: str

    @dataclass
    class Done(Message):
        """It stays as it is."""

        what: What
        text: str

    @dataclass
    class Left(Message):
        """It shall be as it was before."""

    def __init__(self) -> None:
        super().__init__()
        self.what: What = "lanes"
        self.input = LaneInput(select_on_focus=True)
        self.input.cursor_blink = False
        self._label = Label("", classes="what", markup=False)
        self._said = Label("", classes="said", markup=False)

    def compose(self) -> ComposeResult:
        """The prompt."""
        yield self._label
        yield self.input
        yield self._said

    def ask(self, what: What, text: str) -> None:
        """Appear, with what holds now."""
        self.what = what
        self._label.update(what)
        self.input.placeholder = HINTS[what]
        with self.prevent(Input.Changed):
            self.input.value = text
        self.say("")
        self.display = True
        self.input.focus()

    def say(self, words: str) -> None:
        """Say what comes of the text."""
        self._said.update(words)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(self.what, event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Done(self.what, event.value))
