"""Labelled values that one can walk through, search and copy.

Owns the cursor, which is on a line, and what the search found. Knows no trace: it is given sections of facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.sheet import Fact, Match, Section, Sheet, laid_out, matches
from tracehound.ui.bindings import keys
from tracehound.ui.source.lines import named
from tracehound.ui.widgets.plain_bars import suit
from tracehound.ui.widgets.walked import Walked

MARGIN = 1
"""Empty cells on either side."""


class FactSheet(Walked, can_focus=True, inherit_bindings=False):
    """Sections of labels and values, wrapped and never cut."""

    BINDING_GROUP_TITLE = "Details"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("details")]
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
    """What is searched for; empty without a search."""

    @dataclass
    class SourceAsked(Message):
        """The user wants to read the source line that these words name."""

        words: str

    @dataclass
    class EditAsked(Message):
        """The user wants to edit it."""

        words: str

    @dataclass
    class FindAsked(Message):
        """The user wants to type what to search for."""

    @dataclass
    class Found(Message):
        """The search is at another place, said in words; empty when it has ended."""

        place: str

    @dataclass
    class Copied(Message):
        """The user wants this on the clipboard."""

        text: str

    def __init__(self, glyphs: Glyphs = UNICODE, nothing: str = "") -> None:
        """`nothing` stands there while there are no facts."""
        super().__init__()
        self._glyphs = glyphs
        self._nothing = Section("", (Fact("", nothing),))
        self._sections: tuple[Section, ...] = (self._nothing,)
        self._sheet = Sheet((), ())
        self._matches: list[Match] = []
        self._here = 0

    @property
    def line_count(self) -> int:
        """How many lines the facts take."""
        return len(self._sheet.lines)

    @property
    def fact(self) -> Fact | None:
        """What the cursor is on."""
        if self._sections == (self._nothing,) or not self._sheet.lines:
            return None
        number = self._sheet.lines[self.cursor].fact
        return self._sheet.facts[number] if number >= 0 else None

    def show(self, sections: Sequence[Section]) -> None:
        """Show other facts; the cursor stays on its line where there is one."""
        sections = tuple(sections) or (self._nothing,)
        if sections == self._sections:
            return
        self._sections = sections
        self._lay()
        self._search()

    def render_line(self, y: int) -> Strip:
        """One line of the sheet."""
        number, width = self.scroll_offset.y + y, self.size.width
        if number >= len(self._sheet.lines):
            return Strip.blank(width, self.plain)
        ground = self._ground(number)
        styles = {
            role: ground + self.get_component_rich_style(f"fact-sheet--{role}")
            for role in ("title", "label", "found", "here")
        }
        first = Style(bold=True) if number == 0 and self._sheet.lines[0].left else Style.null()
        segments = [
            Segment(self._glyphs.words(text), styles.get(role, ground + first))
            for text, role in self._sheet.pieces(number, self._matches, self._here)
        ]
        return Strip([Segment(" " * MARGIN, ground), *segments]).adjust_cell_length(width, ground)

    def _ground(self, number: int) -> Style:
        if number != self.cursor or not self.has_focus:
            return self.plain
        return self.get_component_rich_style("fact-sheet--cursor", partial=False)

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self, self._glyphs)

    def on_resize(self) -> None:
        """Lines break elsewhere."""
        self._lay()

    async def on_click(self, event: events.Click) -> None:
        """Put the cursor there; the second time, open what the line names."""
        self.cursor = self.scroll_offset.y + event.y
        if event.chain > 1:
            await self.action_open()

    def watch_needle(self) -> None:
        """Search again, from the top."""
        self._here = 0
        self._search()
        self._go()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002, as Textual
        """Without matches, n, N and Esc mean here what they mean everywhere."""
        return action not in ("find_next", "unfind") or bool(self.needle)

    async def action_open(self) -> None:
        """Ask for the source line under the cursor, or for those of the event."""
        if self.fact is not None and named(self.fact.words):
            self.post_message(self.SourceAsked(self.fact.words))
        else:
            await self.run_action("screen.read_source")

    def action_edit(self) -> None:
        """Ask for the source line under the cursor, to edit it."""
        self.post_message(self.EditAsked(self.fact.words if self.fact is not None else ""))

    def action_find(self) -> None:
        """Ask for a prompt."""
        self.post_message(self.FindAsked())

    def action_find_next(self, by: int) -> None:
        """Go to another match, round and round."""
        if self._matches:
            self._here = (self._here + by) % len(self._matches)
            self._go()

    def action_unfind(self) -> None:
        """End the search."""
        self.needle = ""

    def action_copy_value(self) -> None:
        """Copy the value under the cursor."""
        if self.fact is not None:
            self.post_message(self.Copied(self.fact.words))

    def action_copy_line(self) -> None:
        """Copy the label and the value under the cursor."""
        if self.fact is not None:
            self.post_message(self.Copied(_written(self.fact)))

    def action_copy_all(self) -> None:
        """Copy everything."""
        if self._sections != (self._nothing,):
            self.post_message(self.Copied(_all_written(self._sections)))

    def notify_style_update(self) -> None:
        """Another theme: draw all again."""
        super().notify_style_update()
        self.refresh(Region(0, 0, self.size.width, self.size.height))

    def _lay(self) -> None:
        """Break the lines for the width; a column is kept for the scroll bar, so that its coming moves nothing."""
        self._sheet = laid_out(self._sections, max(1, self.size.width - 2 * MARGIN))
        self.extend(Size(self.size.width, len(self._sheet.lines)))
        self.set_reactive(FactSheet.cursor, self.validate_cursor(self.cursor))
        self.refresh()

    def _search(self) -> None:
        self._matches = matches(self._sheet.facts, self.needle)
        self._here = min(self._here, max(0, len(self._matches) - 1))
        self.refresh()

    def _go(self) -> None:
        """Put the cursor where the search is, and tell."""
        if self._matches:
            self.cursor = self._sheet.line_of(self._matches[self._here])
        self.refresh()
        place = f"{self._here + 1} of {len(self._matches):,}" if self._matches else "not here"
        self.post_message(self.Found(f"{self.needle} {place}" if self.needle else ""))


def _written(fact: Fact) -> str:
    return f"{fact.label}: {fact.words}" if fact.label else fact.words


def _all_written(sections: Sequence[Section]) -> str:
    """Everything as plain text."""
    blocks = (
        "\n".join([*([section.title] if section.title else []), *map(_written, section.facts)]) for section in sections
    )
    return "\n\n".join(blocks) + "\n"
