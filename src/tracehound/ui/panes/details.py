"""All that the selected event carries.

Owns which event that is, and the prompt of the search in it. Knows no trace: the screen brings the facts, and later the
args.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widgets import Input

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.sheet import Fact, Section
from tracehound.ui.terminal.outside import copy
from tracehound.ui.widgets.fact_sheet import FactSheet
from tracehound.ui.widgets.plain_box import Column
from tracehound.ui.wording.facts import Facts

PATIENCE = 0.15
"""Seconds in which args may come before facts are shown without them: nobody sees the same lines drawn twice."""

NOTHING = "no event selected: Enter or a click in the timeline selects one"


class FindBox(Input):
    """Where what is searched for is typed."""

    BINDING_GROUP_TITLE = "Prompts"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave(True)", "leave", show=False, tooltip="Leave the search", id="find.cancel"),
        Binding("enter,down", "submit", "facts", show=False, tooltip="Go to the match", id="find.done"),
    ]
    DEFAULT_CSS = """
    FindBox, FindBox:focus { border: none; height: 1; padding: 0 1; background: $boost; display: none; }
    FindBox.-open { display: block; }
    """

    def __init__(self, left: Callable[[], None]) -> None:
        super().__init__(placeholder="find in these details", select_on_focus=True)
        self.cursor_blink = False
        self._left = left

    def action_leave(self, forget: bool = True) -> None:  # noqa: FBT001, FBT002 - an action's argument is a literal in the bindings
        """Go back to the facts, at the match or without one."""
        if forget:
            self.value = ""
        self._left()

    async def action_submit(self) -> None:
        """Go to the match."""
        self.action_leave(forget=False)


class DetailsPane(Column):
    """Labels and values of one event, and a search in them."""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="pane-details")
        self.event: int | None = None
        self.sheet = FactSheet(glyphs, NOTHING)
        self.box = FindBox(self._found)
        self._late: Timer | None = None

    def compose(self) -> ComposeResult:
        """The facts; the prompt joins when it is asked for."""
        yield self.sheet

    def expect(self, event: int) -> None:
        """What is shown next is about this event."""
        self._drop()
        self.event = event
        self.sheet.cursor = 0

    def show(self, facts: Facts, args: Facts | None, failure: str = "") -> None:
        """Show the facts of the event, and its args as the file has them (None: shown without, if they take long)."""
        self._drop()
        if args is None and not failure:
            sections = (*facts, _news("decoding its args"))
            self._late = self.set_timer(PATIENCE, lambda: self.sheet.show(sections))
            return
        self.sheet.show((*facts, *(args or ()), *([_news(failure)] if failure else [])))

    def clear(self, window: Facts = ()) -> None:
        """Show no event: what there is to say of the window instead, and how one is selected."""
        self._drop()
        self.event = None
        self.sheet.show((*window, _news(NOTHING)) if window else ())

    def _drop(self) -> None:
        """Show nothing later."""
        if self._late is not None:
            self._late.stop()

    @on(FactSheet.FindAsked)
    async def _find(self, message: FactSheet.FindAsked) -> None:
        message.stop()
        if not self.box.is_attached:
            await self.mount(self.box)
        self.box.add_class("-open")
        self.box.focus()

    @on(FactSheet.Copied)
    def _copied(self, message: FactSheet.Copied) -> None:
        message.stop()
        copy(self.app, message.text)

    @on(Input.Changed)
    def _changed(self, message: Input.Changed) -> None:
        message.stop()
        self.sheet.needle = message.value

    def _found(self) -> None:
        """Give the keys back at once: who types fast means the facts."""
        self.box.remove_class("-open")
        self.screen.set_focus(self.sheet)


def _news(words: str) -> Section:
    """A line below the facts."""
    return Section("", (Fact("", words),))
