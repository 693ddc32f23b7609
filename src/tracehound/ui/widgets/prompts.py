"""Prompt lines: for filters, file names and queries, for questions, and for the search.

They show the text, and a remark on it that the caller supplies.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Label
from textual.widgets.input import Selection

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui.bindings import keys

MIN_PROMPT_TEXT = 36
"""Least width of the text; a longer remark gets its own line."""


_SQL_COMMENT = re.compile(r"""(?P<text>'[^']*'|"[^"]*"|`[^`]*`)|--[^\n\r]*""")
"""A SQL comment; or a quoted text or name, which contains none."""


class PromptInput(Input):
    """Text input of a prompt."""

    BINDING_GROUP_TITLE = "Prompts"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.textual_bindings("prompt")]
    DEFAULT_CSS = """
    PromptInput, PromptInput:focus { border: none; height: 1; padding: 0; width: 1fr; background: $boost; }
    """

    @dataclass
    class ArrowPressed(Message):
        """The up (-1) or down (1) key was pressed."""

        by: int

    @dataclass
    class Cancelled(Message):
        """Escape was pressed."""

    def on_paste(self, event: events.Paste) -> None:
        """Paste several lines as one, without SQL comments, which would reach to the end."""
        if len(event.text.splitlines()) < 2:
            return
        event.prevent_default()
        event.stop()
        told = _SQL_COMMENT.sub(lambda found: found["text"] or "", event.text)
        self.replace(" ".join(line.strip() for line in told.splitlines() if line.strip()), *self.selection)

    def action_move(self, by: int) -> None:
        """Post the arrow key."""
        self.post_message(self.ArrowPressed(by))

    def action_leave(self) -> None:
        """Post the cancellation."""
        self.post_message(self.Cancelled())


class Prompt(Horizontal):
    """Purpose, text, and a remark on the text."""

    DEFAULT_CSS = """
    Prompt { height: 1; background: $boost; display: none; }
    Prompt.-open { display: block; }
    Prompt > .purpose { color: $accent; text-style: bold; padding: 0 1; }
    Prompt > .remark { color: $warning; padding: 0 1; }
    Prompt.-long { height: 2; }
    Prompt.-long > .remark { dock: bottom; width: 100%; }
    Prompt:nocolor > .remark { text-style: bold; }
    """

    @dataclass
    class Changed(Message):
        """The text has changed."""

        prompt: Prompt
        text: str

    @dataclass
    class Submitted(Message):
        """Enter was pressed."""

        prompt: Prompt
        text: str

    @dataclass
    class Cancelled(Message):
        """Escape was pressed."""

        prompt: Prompt

    @dataclass
    class ArrowPressed(Message):
        """The up (-1) or down (1) key was pressed."""

        prompt: Prompt
        by: int

    def __init__(self, purpose: str, hint: str, glyphs: Glyphs = UNICODE) -> None:
        """`purpose` is shown before the text, `hint` in its place while it is empty."""
        super().__init__()
        self.input = PromptInput(placeholder=hint, select_on_focus=False)
        self.input.cursor_blink = False
        self._purpose = purpose
        self._glyphs = glyphs
        self._remark = Label("", classes="remark", markup=False)

    def compose(self) -> ComposeResult:
        """Yield purpose, text and remark."""
        yield Label(self._purpose, classes="purpose", markup=False)
        yield self.input
        yield self._remark

    def begin(self, text: str | None = None) -> None:
        """Open and take the focus, with this text or with the last one."""
        self.add_class("-open")
        if text is not None:
            self.input.value = text
            self.input.cursor_position = len(text)
        self.input.focus()

    def suggest(self, text: str) -> None:
        """Open and take the focus, with a text that typing replaces."""
        self.begin(text)
        self.input.selection = Selection(0, len(text))

    def end(self) -> None:
        """Close."""
        self.remove_class("-open")

    def show_remark(self, remark: str) -> None:
        """Show a remark beside the text."""
        beside = self.size.width - cell_len(self._purpose) - MIN_PROMPT_TEXT
        self.set_class(cell_len(remark) > beside, "-long")
        self._remark.update(self._glyphs.cut(remark, max(1, self.size.width - 2)) if remark else "")

    @on(Input.Changed)
    def _text_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(self, event.value))

    @on(Input.Submitted)
    def _text_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Submitted(self, event.value))

    @on(PromptInput.ArrowPressed)
    def _arrow_pressed(self, event: PromptInput.ArrowPressed) -> None:
        event.stop()
        self.post_message(self.ArrowPressed(self, event.by))

    @on(PromptInput.Cancelled)
    def _prompt_cancelled(self, event: PromptInput.Cancelled) -> None:
        event.stop()
        self.post_message(self.Cancelled(self))


MIN_ANSWER_WIDTH = 16
"""Least width of the answer in cells."""


class QuestionCallbacks(Struct, frozen=True):
    """Functions for a change of the text, for Enter, and for Escape."""

    typed: Callable[[str], None]
    entered: Callable[[str], None]
    left: Callable[[], None]


class AnswerInput(Input):
    """Text input of a question."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "cancel", show=False, tooltip="Ask no more", id="prompt.cancel")
    ]
    DEFAULT_CSS = """
    AnswerInput, AnswerInput:focus {
        border: none; height: 1; padding: 0; width: 1fr; min-width: 16; background: $panel;
    }
    """

    def __init__(self, hint: str, left: Callable[[], None]) -> None:
        super().__init__(placeholder=hint)
        self.cursor_blink = False
        self._leave_callback = left

    def action_leave(self) -> None:
        """Cancel the question."""
        self._leave_callback()


class QuestionBar(Horizontal):
    """A question, the answer, and a reply to it."""

    DEFAULT_CSS = """
    QuestionBar { height: 1; background: $panel; }
    QuestionBar > .question { color: $accent; text-style: bold; padding: 0 1; }
    QuestionBar > .reply, QuestionBar > .keys { color: $text-muted; padding: 0 1; }
    """

    def __init__(self, question: str, hint: str, answers: QuestionCallbacks) -> None:
        super().__init__()
        self.input = AnswerInput(hint, answers.left)
        self._question = question
        self._answers = answers
        self._reply = Label("", classes="reply", markup=False)
        self._keys = Label(keys.PRESSED_NAMES, classes="keys", markup=False)

    def compose(self) -> ComposeResult:
        """Yield question, answer, reply and key help."""
        yield Label(self._question, classes="question", markup=False)
        yield self.input
        yield self._reply
        yield self._keys

    def on_mount(self) -> None:
        """Focus the answer."""
        self.screen.set_focus(self.input)

    def show_reply(self, reply: str) -> None:
        """Show a reply to the typed text; hide the key help if both do not fit."""
        self._reply.update(reply)
        beside = sum(cell_len(words) + 2 for words in (self._question, reply, keys.PRESSED_NAMES))
        self._keys.display = beside + MIN_ANSWER_WIDTH <= self.size.width

    @on(Input.Changed)
    def _text_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._answers.typed(event.value)

    @on(Input.Submitted)
    def _text_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._answers.entered(event.value)


class SearchInput(Input):
    """Text input of the search."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "cancel", show=False, tooltip="Leave the search as it was", id="search.cancel")
    ]
    DEFAULT_CSS = """
    SearchInput, SearchInput:focus { border: none; height: 1; padding: 0; width: 1fr; background: $panel; }
    """

    def action_cancel(self) -> None:
        """Post the cancellation."""
        self.post_message(SearchBar.Cancelled())


class SearchBar(Horizontal):
    """Slash, search text and number of matches."""

    DEFAULT_CSS = """
    SearchBar { height: 1; background: $panel; display: none; }
    SearchBar.-open { display: block; }
    SearchBar > .slash { color: $accent; text-style: bold; padding: 0 0 0 1; }
    SearchBar > .count, SearchBar > .keys { color: $text-muted; padding: 0 1; }
    """

    @dataclass
    class Changed(Message):
        """The text has changed."""

        needle: str

    @dataclass
    class Submitted(Message):
        """The user wants to go to the first match."""

        needle: str

    @dataclass
    class Cancelled(Message):
        """The search is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.input = SearchInput(placeholder="a part of any event name, or ~regex", select_on_focus=True)
        self.input.cursor_blink = False
        self._count = Label("", classes="count", markup=False)

    def compose(self) -> ComposeResult:
        """Yield slash, text, count and key help."""
        yield Label("/", classes="slash", markup=False)
        yield self.input
        yield self._count
        yield Label(keys.PRESSED_NAMES, classes="keys", markup=False)

    @property
    def is_open(self) -> bool:
        """True while the bar is open."""
        return self.has_class("-open")

    def begin(self) -> None:
        """Open with the last text selected."""
        self.add_class("-open")
        self.input.focus()

    def end(self) -> None:
        """Close."""
        self.remove_class("-open")

    def show_count(self, count: str) -> None:
        """Show the number of matches."""
        self._count.update(count)

    @on(Input.Changed)
    def _text_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self.post_message(self.Changed(event.value))

    @on(Input.Submitted)
    def _text_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Submitted(event.value))
