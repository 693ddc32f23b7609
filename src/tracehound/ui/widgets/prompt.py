"""A line on which something is typed: a filter, a file's name, a query.

Owns the line: what it is for, the text, and what is said of the text beside it. Knows nothing of what the text means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Label
from textual.widgets.input import Selection

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui.bindings import keys

ROOM = 36
"""Cells that the text keeps at least: what is said and does not fit beside it stands on a line of its own."""


_COMMENT = re.compile(r"""(?P<text>'[^']*'|"[^"]*"|`[^`]*`)|--[^\n\r]*""")
"""A comment of SQL, or a text or a name in quotes, in which there is none."""


class PromptInput(Input):
    """The text."""

    BINDING_GROUP_TITLE = "Prompts"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("prompt")]
    DEFAULT_CSS = """
    PromptInput, PromptInput:focus { border: none; height: 1; padding: 0; width: 1fr; background: $boost; }
    """

    @dataclass
    class Moved(Message):
        """Up (-1) or down (1)."""

        by: int

    @dataclass
    class Left(Message):
        """Escape."""

    def on_paste(self, event: events.Paste) -> None:
        """Put in several lines as one, as queries have them: without their comments, which would go on to the end."""
        if len(event.text.splitlines()) < 2:
            return
        event.prevent_default()
        event.stop()
        told = _COMMENT.sub(lambda found: found["text"] or "", event.text)
        self.replace(" ".join(line.strip() for line in told.splitlines() if line.strip()), *self.selection)

    def action_move(self, by: int) -> None:
        """Tell."""
        self.post_message(self.Moved(by))

    def action_leave(self) -> None:
        """Tell."""
        self.post_message(self.Left())


class Prompt(Horizontal):
    """What it is for, the text, and what is said of it."""

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
        """The text is another one."""

        prompt: Prompt
        text: str

    @dataclass
    class Submitted(Message):
        """Enter."""

        prompt: Prompt
        text: str

    @dataclass
    class Left(Message):
        """Escape."""

        prompt: Prompt

    @dataclass
    class Moved(Message):
        """Up (-1) or down (1)."""

        prompt: Prompt
        by: int

    def __init__(self, purpose: str, hint: str, glyphs: Glyphs = UNICODE) -> None:
        """`purpose` stands before the text, `hint` in its place while there is none."""
        super().__init__()
        self.input = PromptInput(placeholder=hint, select_on_focus=False)
        self.input.cursor_blink = False
        self._purpose = purpose
        self._glyphs = glyphs
        self._remark = Label("", classes="remark", markup=False)

    def compose(self) -> ComposeResult:
        """One line."""
        yield Label(self._purpose, classes="purpose", markup=False)
        yield self.input
        yield self._remark

    def begin(self, text: str | None = None) -> None:
        """Appear and take the keys, with this text or with the last one."""
        self.add_class("-open")
        if text is not None:
            self.input.value = text
            self.input.cursor_position = len(text)
        self.input.focus()

    def suggest(self, text: str) -> None:
        """Appear and take the keys, with a text that is replaced by what is typed."""
        self.begin(text)
        self.input.selection = Selection(0, len(text))

    def end(self) -> None:
        """Disappear."""
        self.remove_class("-open")

    def tell(self, remark: str) -> None:
        """Say something of the text, beside it."""
        beside = self.size.width - cell_len(self._purpose) - ROOM
        self.set_class(cell_len(remark) > beside, "-long")
        self._remark.update(self._glyphs.cut(remark, max(1, self.size.width - 2)) if remark else "")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(self, event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Submitted(self, event.value))

    @on(PromptInput.Moved)
    def _moved(self, event: PromptInput.Moved) -> None:
        event.stop()
        self.post_message(self.Moved(self, event.by))

    @on(PromptInput.Left)
    def _left(self, event: PromptInput.Left) -> None:
        event.stop()
        self.post_message(self.Left(self))
