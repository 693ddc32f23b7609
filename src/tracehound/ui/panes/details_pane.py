"""Details of the selected event: labels and values, with a search in them.

Owns the selected event, the cursor and the search. The screen supplies the facts, and later the args.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Input

from tracehound.draw.fact_layout import Fact, FactLayout, FactMatch, FactSection, find_matches, lay_out_sheet
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui.bindings import keys
from tracehound.ui.source_files import parse_source_line
from tracehound.ui.terminal.outside_programs import copy_to_clipboard
from tracehound.ui.widgets.boxes_and_scroll_bars import VerticalBox, simplify_scroll_bars
from tracehound.ui.widgets.cursor_list import CursorList
from tracehound.ui.wording.event_facts import EventFacts

SHEET_MARGIN = 1
"""Empty cells on either side."""


class FactSheet(CursorList, can_focus=True, inherit_bindings=False):
    """Sections of labels and values, wrapped and never cut."""

    BINDING_GROUP_TITLE = "Details"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.textual_bindings("details")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "fact-sheet--title",
        "fact-sheet--label",
        "fact-sheet--found",
        "fact-sheet--here",
        "fact-sheet--cursor",
    }
    DEFAULT_CSS = """
    FactSheet {
        height: 1fr; width: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; overflow-x: hidden;
        & > .fact-sheet--title { color: $primary; text-style: bold; }
        & > .fact-sheet--label { color: $text-muted; }
        & > .fact-sheet--found { background: $warning 35%; }
        & > .fact-sheet--here { background: $warning; color: $background; text-style: bold; }
        & > .fact-sheet--cursor { background: $block-cursor-background; }
        &:ansi > .fact-sheet--found { background: ansi_default; text-style: underline; }
        &:ansi > .fact-sheet--here { background: ansi_yellow; color: ansi_black; text-style: bold; }
        &:ansi > .fact-sheet--cursor { text-style: reverse; background: ansi_default; }
        &:nocolor > .fact-sheet--cursor { text-style: reverse; }
        &:nocolor > .fact-sheet--found { text-style: underline; }
        &:nocolor > .fact-sheet--here { text-style: bold underline; }
    }
    """

    needle: reactive[str] = reactive("", repaint=False)
    """Search text; empty without a search."""

    @dataclass
    class SourceRequested(Message):
        """The user wants to read the source line that the text names."""

        words: str

    @dataclass
    class EditRequested(Message):
        """The user wants to edit the source line that the text names."""

        words: str

    @dataclass
    class FindRequested(Message):
        """The user wants to type a search text."""

    @dataclass
    class MatchChanged(Message):
        """The search is at another match, described in words; empty when the search has ended."""

        place: str

    @dataclass
    class CopyRequested(Message):
        """The user wants to copy the text."""

        text: str

    def __init__(self, glyphs: Glyphs = UNICODE, nothing: str = "") -> None:
        """`nothing` is shown while there are no facts."""
        super().__init__()
        self._glyphs = glyphs
        self._empty_section = FactSection("", (Fact("", nothing),))
        self._sections: tuple[FactSection, ...] = (self._empty_section,)
        self._sheet = FactLayout((), ())
        self._matches: list[FactMatch] = []
        self._match_number = 0

    @property
    def line_count(self) -> int:
        """Number of lines."""
        return len(self._sheet.lines)

    @property
    def fact(self) -> Fact | None:
        """Fact under the cursor."""
        if self._sections == (self._empty_section,) or not self._sheet.lines:
            return None
        number = self._sheet.lines[self.cursor].fact
        return self._sheet.facts[number] if number >= 0 else None

    def show(self, sections: Sequence[FactSection]) -> None:
        """Show other facts; the cursor stays on its line number."""
        sections = tuple(sections) or (self._empty_section,)
        if sections == self._sections:
            return
        self._sections = sections
        self._lay_out()
        self._find_matches()

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        number, width = self.scroll_offset.y + y, self.size.width
        if number >= len(self._sheet.lines):
            return Strip.blank(width, self.plain)
        ground = self._line_style(number)
        styles = {
            role: ground + self.get_component_rich_style(f"fact-sheet--{role}")
            for role in ("title", "label", "found", "here")
        }
        first = Style(bold=True) if number == 0 and self._sheet.lines[0].left else Style.null()
        segments = [
            Segment(self._glyphs.to_alphabet(text), styles.get(role, ground + first))
            for text, role in self._sheet.pieces(number, self._matches, self._match_number)
        ]
        return Strip([Segment(" " * SHEET_MARGIN, ground), *segments]).adjust_cell_length(width, ground)

    def _line_style(self, number: int) -> Style:
        if number != self.cursor or not self.has_focus:
            return self.plain
        return self.get_component_rich_style("fact-sheet--cursor", partial=False)

    def on_mount(self) -> None:
        """Adapt the scroll bars to the alphabet."""
        simplify_scroll_bars(self, self._glyphs)

    def on_resize(self) -> None:
        """Wrap the lines again."""
        self._lay_out()

    async def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked line; a double click opens the source line that it names."""
        self.cursor = self.scroll_offset.y + event.y
        if event.chain > 1:
            await self.action_open()

    def watch_needle(self) -> None:
        """Search again, from the top."""
        self._match_number = 0
        self._find_matches()
        self._go_to_match()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002, as Textual
        """Leave n, N and Esc to the screen while there is no search."""
        return action not in ("find_next", "unfind") or bool(self.needle)

    async def action_open(self) -> None:
        """Request the source line under the cursor, or those of the event."""
        if self.fact is not None and parse_source_line(self.fact.words):
            self.post_message(self.SourceRequested(self.fact.words))
        else:
            await self.run_action("screen.read_source")

    def action_edit(self) -> None:
        """Request to edit the source line under the cursor."""
        self.post_message(self.EditRequested(self.fact.words if self.fact is not None else ""))

    def action_find(self) -> None:
        """Request the search prompt."""
        self.post_message(self.FindRequested())

    def action_find_next(self, by: int) -> None:
        """Go to another match, and around at the end."""
        if self._matches:
            self._match_number = (self._match_number + by) % len(self._matches)
            self._go_to_match()

    def action_unfind(self) -> None:
        """End the search."""
        self.needle = ""

    def action_copy_value(self) -> None:
        """Copy the value under the cursor."""
        if self.fact is not None:
            self.post_message(self.CopyRequested(self.fact.words))

    def action_copy_line(self) -> None:
        """Copy the label and the value under the cursor."""
        if self.fact is not None:
            self.post_message(self.CopyRequested(_fact_text(self.fact)))

    def action_copy_all(self) -> None:
        """Copy everything."""
        if self._sections != (self._empty_section,):
            self.post_message(self.CopyRequested(_sections_text(self._sections)))

    def notify_style_update(self) -> None:
        """Redraw all with the new theme."""
        super().notify_style_update()
        self.refresh(Region(0, 0, self.size.width, self.size.height))

    def _lay_out(self) -> None:
        """Wrap the lines for the width. One column is kept for the scroll bar, so that its appearance moves nothing."""
        self._sheet = lay_out_sheet(self._sections, max(1, self.size.width - 2 * SHEET_MARGIN))
        self.set_extent(Size(self.size.width, len(self._sheet.lines)))
        self.set_reactive(FactSheet.cursor, self.validate_cursor(self.cursor))
        self.refresh()

    def _find_matches(self) -> None:
        self._matches = find_matches(self._sheet.facts, self.needle)
        self._match_number = min(self._match_number, max(0, len(self._matches) - 1))
        self.refresh()

    def _go_to_match(self) -> None:
        """Put the cursor on the current match and post its position."""
        if self._matches:
            self.cursor = self._sheet.line_of(self._matches[self._match_number])
        self.refresh()
        place = f"{self._match_number + 1} of {len(self._matches):,}" if self._matches else "not here"
        self.post_message(self.MatchChanged(f"{self.needle} {place}" if self.needle else ""))


def _fact_text(fact: Fact) -> str:
    return f"{fact.label}: {fact.words}" if fact.label else fact.words


def _sections_text(sections: Sequence[FactSection]) -> str:
    """All sections as plain text."""
    blocks = (
        "\n".join([*([section.title] if section.title else []), *map(_fact_text, section.facts)])
        for section in sections
    )
    return "\n\n".join(blocks) + "\n"


ARGS_DELAY = 0.15
"""Seconds to wait for the args before the facts are shown without them, so that lines are not drawn twice."""

NO_EVENT_TEXT = "no event selected: Enter or a click in the timeline selects one"


class FindInput(Input):
    """Input of the search text."""

    BINDING_GROUP_TITLE = "Prompts"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave(True)", "leave", show=False, tooltip="Leave the search", id="find.cancel"),
        Binding("enter,down", "submit", "facts", show=False, tooltip="Go to the match", id="find.done"),
    ]
    DEFAULT_CSS = """
    FindInput, FindInput:focus { border: none; height: 1; padding: 0 1; background: $boost; display: none; }
    FindInput.-open { display: block; }
    """

    def __init__(self, left: Callable[[], None]) -> None:
        super().__init__(placeholder="find in these details", select_on_focus=True)
        self.cursor_blink = False
        self._leave_callback = left

    def action_leave(self, forget: bool = True) -> None:  # noqa: FBT001, FBT002 - an action's argument is a literal in the bindings
        """Return to the facts, with or without the match."""
        if forget:
            self.value = ""
        self._leave_callback()

    async def action_submit(self) -> None:
        """Go to the match."""
        self.action_leave(forget=False)


class DetailsPane(VerticalBox):
    """Labels and values of one event, and a search in them."""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="pane-details")
        self.event: int | None = None
        self.fact_sheet = FactSheet(glyphs, NO_EVENT_TEXT)
        self.find_input = FindInput(self._return_to_facts)
        self._delayed_show: Timer | None = None

    def compose(self) -> ComposeResult:
        """Yield the facts; the search input is mounted when it is first opened."""
        yield self.fact_sheet

    def begin_event(self, event: int) -> None:
        """Take the event whose facts are shown next."""
        self._cancel_delayed_show()
        self.event = event
        self.fact_sheet.cursor = 0

    def show(self, facts: EventFacts, args: EventFacts | None, failure: str = "") -> None:
        """Show the facts of the event, and its args as the file has them. None: args are still being read."""
        self._cancel_delayed_show()
        if args is None and not failure:
            sections = (*facts, _message_section("decoding its args"))
            self._delayed_show = self.set_timer(ARGS_DELAY, lambda: self.fact_sheet.show(sections))
            return
        self.fact_sheet.show((*facts, *(args or ()), *([_message_section(failure)] if failure else [])))

    def clear(self, window: EventFacts = ()) -> None:
        """Show no event: facts of the window instead, and how to select an event."""
        self._cancel_delayed_show()
        self.event = None
        self.fact_sheet.show((*window, _message_section(NO_EVENT_TEXT)) if window else ())

    def _cancel_delayed_show(self) -> None:
        """Cancel the delayed display."""
        if self._delayed_show is not None:
            self._delayed_show.stop()

    def on_descendant_focus(self) -> None:
        """Mark the frame."""
        self.add_class("-focused")

    def on_descendant_blur(self) -> None:
        """Mark the frame no longer."""
        self.remove_class("-focused")

    @on(FactSheet.FindRequested)
    async def _open_find_input(self, message: FactSheet.FindRequested) -> None:
        message.stop()
        if not self.find_input.is_attached:
            await self.mount(self.find_input)
        self.find_input.add_class("-open")
        self.find_input.focus()

    @on(FactSheet.CopyRequested)
    def _copy_text(self, message: FactSheet.CopyRequested) -> None:
        message.stop()
        copy_to_clipboard(self.app, message.text)

    @on(Input.Changed)
    def _find_text_changed(self, message: Input.Changed) -> None:
        message.stop()
        self.fact_sheet.needle = message.value

    def _return_to_facts(self) -> None:
        """Return the focus at once, so that further keys go to the facts."""
        self.find_input.remove_class("-open")
        self.screen.set_focus(self.fact_sheet)


def _message_section(words: str) -> FactSection:
    """A message below the facts."""
    return FactSection("", (Fact("", words),))
