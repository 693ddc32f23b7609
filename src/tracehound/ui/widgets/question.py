"""The line on which a question is asked: go where, which mark.

Owns the question and what is typed. Knows nothing of what is done with it, and shows what it is told of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Label

from tracehound.ui.bindings import keys

LEAST = 16
"""Cells that what is typed has at least."""


class Answers(Struct, frozen=True):
    """What happens with every change of the text, with Enter, and with Escape."""

    typed: Callable[[str], None]
    entered: Callable[[str], None]
    left: Callable[[], None]


class Answer(Input):
    """What is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "cancel", show=False, tooltip="Ask no more", id="prompt.cancel")
    ]
    DEFAULT_CSS = """
    Answer, Answer:focus { border: none; height: 1; padding: 0; width: 1fr; min-width: 16; background: $panel; }
    """

    def __init__(self, hint: str, left: Callable[[], None]) -> None:
        super().__init__(placeholder=hint)
        self.cursor_blink = False
        self._left = left

    def action_leave(self) -> None:
        """There is no answer."""
        self._left()


class Question(Horizontal):
    """A question, what is typed, and what is said of that."""

    DEFAULT_CSS = """
    Question { height: 1; background: $panel; }
    Question > .question { color: $accent; text-style: bold; padding: 0 1; }
    Question > .reply, Question > .keys { color: $text-muted; padding: 0 1; }
    """

    def __init__(self, question: str, hint: str, answers: Answers) -> None:
        super().__init__()
        self.input = Answer(hint, answers.left)
        self._question = question
        self._answers = answers
        self._reply = Label("", classes="reply", markup=False)
        self._keys = Label(keys.TO_BE_PRESSED, classes="keys", markup=False)

    def compose(self) -> ComposeResult:
        """The question, then the text."""
        yield Label(self._question, classes="question", markup=False)
        yield self.input
        yield self._reply
        yield self._keys

    def on_mount(self) -> None:
        """The next key belongs to the answer."""
        self.screen.set_focus(self.input)

    def tell(self, reply: str) -> None:
        """Say something of what was typed; where that takes the room of the keys, without them."""
        self._reply.update(reply)
        beside = sum(cell_len(words) + 2 for words in (self._question, reply, keys.TO_BE_PRESSED))
        self._keys.display = beside + LEAST <= self.size.width

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._answers.typed(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._answers.entered(event.value)
