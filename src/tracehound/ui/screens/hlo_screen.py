"""Screen of one HLO instruction: its facts, operands, users and inner instructions.

Owns the cursor, the visited instructions and the line layout. Callbacks lead back to the explorer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widgets import Static

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.text_wrapping import wrap_spans
from tracehound.errors import printable
from tracehound.formats.hlo.hlo_shape import memory_space_name
from tracehound.hlo.module_text import instruction_line_without_metadata
from tracehound.model.units import format_bytes
from tracehound.ui.bindings import keys
from tracehound.ui.state.hlo_page import HloPage, HloPageLine, find_line
from tracehound.ui.terminal.outside_programs import copy_to_clipboard
from tracehound.ui.themes import appearance_of
from tracehound.ui.widgets.base_screens import DismissOnceScreen
from tracehound.ui.widgets.boxes_and_scroll_bars import simplify_scroll_bars
from tracehound.ui.widgets.cursor_list import CursorList
from tracehound.ui.widgets.status_bars import HeaderBar, KeyBar

LABEL_WIDTH = 13
"""Width of the labels of facts in cells."""

MAX_LINES = 3
"""Most lines of a fact or a sentence; a copy has the whole text."""

NOTE_COLUMN_WIDTH = 116
"""Width from which notes on inner instructions are shown."""


class WrappedLine(Struct, frozen=True):
    """One line of an item: line `number` of it, with its text from `start` to `end`."""

    item: int
    number: int = 0
    start: int = 0
    end: int = 0


class HloView(CursorList, can_focus=True, inherit_bindings=False):
    """Lines about an instruction, most of which lead to other instructions."""

    BINDING_GROUP_TITLE = "HLO"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.textual_bindings("hlo")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "hlo-view--title", "hlo-view--name", "hlo-view--dim", "hlo-view--cursor",
    }  # fmt: skip
    DEFAULT_CSS = """
    HloView {
        height: 1fr; width: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; overflow-x: hidden;
        & > .hlo-view--title { color: $primary; text-style: bold; }
        & > .hlo-view--name { text-style: bold; }
        & > .hlo-view--dim { color: $text-muted; }
        & > .hlo-view--cursor { background: $block-cursor-background; }
        &:ansi > .hlo-view--cursor { text-style: reverse; background: ansi_default; }
        &:nocolor > .hlo-view--cursor { text-style: reverse; }
    }
    """

    page: reactive[HloPage | None] = reactive(None, repaint=False)
    """Page that is shown."""

    @dataclass
    class LineHighlighted(Message):
        """The cursor is on another line, or the page shows another instruction."""

        page: HloPage
        line: str

    @dataclass
    class SourceRequested(Message):
        """The user wants to read a source line."""

        words: str

    @dataclass
    class ExecutionRequested(Message):
        """The user wants to see the next (1) or previous (-1) execution of the instruction in the timeline."""

        page: HloPage
        by: int

    @dataclass
    class CopyRequested(Message):
        """The user wants to copy the text."""

        text: str

    def __init__(self, page: HloPage, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._items: list[HloPageLine] = []
        self._lines: list[WrappedLine] = []
        self._visited: list[tuple[HloPage, int]] = []
        self.set_reactive(HloView.page, page)

    @property
    def line_count(self) -> int:
        """Number of lines."""
        return len(self._lines)

    @property
    def item(self) -> HloPageLine | None:
        """Item under the cursor."""
        return self._items[self._lines[self.cursor].item] if self.cursor < len(self._lines) else None

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        number, width = self.scroll_offset.y + y, self.size.width
        if number >= len(self._lines):
            return Strip.blank(width, self.plain)
        here = number == self.cursor and self.has_focus
        ground = self.get_component_rich_style("hlo-view--cursor", partial=False) if here else self.plain
        line = self._lines[number]
        return Strip([Segment(" ", ground), *self._line_segments(line, width - 2, ground)]).adjust_cell_length(
            width, ground
        )

    def _line_segments(self, line: WrappedLine, width: int, ground: Style) -> Iterator[Segment]:
        item, first = self._items[line.item], not line.number
        cut = line.number == MAX_LINES - 1 and line.end < len(item.words)
        words = self._glyphs.to_alphabet(item.words[line.start : line.end] + ("…" if cut else ""))
        dim = ground + self.get_component_rich_style("hlo-view--dim")
        name = ground + self.get_component_rich_style("hlo-view--name")
        if item.kind == "code" and self.page is not None:
            yield Segment(self._glyphs.to_alphabet(self.page.line(item.row)), ground)
        elif item.kind == "title":
            yield Segment(words, ground + self.get_component_rich_style("hlo-view--title"))
        elif item.kind == "fact":
            yield Segment(f"{item.label if first else '':<{LABEL_WIDTH}}", dim)
            yield Segment(words, ground)
        elif item.kind == "frame":
            yield Segment(self._glyphs.cut(item.words, max(width - len(item.label) - 2, width // 2)), ground)
            yield Segment(self._glyphs.to_alphabet(f"  {item.label}"), dim)
        elif item.kind == "op":
            yield from self._op_segments(item, width, name, ground, dim)
        elif item.kind == "name":
            yield from self._cut_segments([(item.words, name), (f"  {item.what}", self._kind_style(item, ground)),
                                     (f"  {item.shape}", ground)], width)  # fmt: skip
        else:
            yield Segment(words, ground)

    def _op_segments(self, item: HloPageLine, width: int, name: Style, ground: Style, dim: Style) -> Iterator[Segment]:
        """Name, opcode, shape and size in columns; on wide screens a note."""
        glyphs = self._glyphs
        mark = " " if item.open is None else glyphs.unfolded if item.open else glyphs.folded
        lead = f"{'  ' * min(item.depth, 12)}{mark} "
        named = max(24, width * 3 // 10)
        kind = max(19, width // 6)
        noted = width // 4 if width >= NOTE_COLUMN_WIDTH else 0
        shaped = max(0, width - named - kind - 10 - noted)
        yield Segment(lead, dim)
        yield Segment(f"{glyphs.cut(item.words, named - len(lead) - 1):<{max(0, named - len(lead))}}", name)
        yield Segment(f"{glyphs.cut(item.what, kind - 1):<{kind}}", self._kind_style(item, ground))
        yield Segment(f"{glyphs.cut(item.shape, shaped):<{shaped}}", ground)
        yield Segment(f"{item.size:>10}", ground)
        if noted:
            yield Segment(f"  {glyphs.cut(item.note, noted - 2)}", dim)

    def _kind_style(self, item: HloPageLine, ground: Style) -> Style:
        return ground + appearance_of(self.app, self._glyphs).kind_style(item.what)

    def _cut_segments(self, parts: Sequence[tuple[str, Style]], width: int) -> Iterator[Segment]:
        """Texts in a row; the last is cut to the remaining width."""
        for text, style in parts:
            shown = self._glyphs.cut(text, width)
            width -= cell_len(shown)
            yield Segment(shown, style)

    def on_mount(self) -> None:
        """Adapt the scroll bars to the alphabet."""
        simplify_scroll_bars(self, self._glyphs)

    def on_resize(self) -> None:
        """Wrap the lines again."""
        self._lay_out()
        self._post_highlighted_line()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked line; a double click opens its item."""
        self.cursor = self.scroll_offset.y + event.y
        if event.chain > 1:
            self.action_open()

    def watch_cursor(self, old: int, new: int) -> None:
        """Post the new line under the cursor."""
        super().watch_cursor(old, new)
        self._post_highlighted_line()

    def watch_page(self) -> None:
        """Show another page."""
        self._lay_out()
        self._post_highlighted_line()

    def action_open(self) -> None:
        """Open the page of the instruction under the cursor, or request its source line."""
        item = self.item
        if item is None or self.page is None:
            return
        if item.kind == "frame":
            self.post_message(self.SourceRequested(item.words))
        elif item.row >= 0 and (item.row != self.page.row or self.page.text):
            self._open_page(self.page.at(item.row))

    def action_back(self) -> None:
        """Return to the page before."""
        if self._visited:
            page, cursor = self._visited.pop()
            self.page = page
            self.cursor = cursor

    def action_unfold(self) -> None:
        """Unfold the line, or go to the first line inside."""
        item = self.item
        if item is None or self.page is None or item.open is None:
            return
        if item.open:
            self.cursor += 1
        else:
            self._replace_page(self.page.toggle_branch(item))

    def action_fold(self) -> None:
        """Fold the line, or go to the line around it."""
        item = self.item
        if item is None or self.page is None or item.kind != "op":
            return
        if item.open:
            self._replace_page(self.page.toggle_branch(item))
        elif item.path in self.page.opened:
            self._replace_page(self.page.toggle_inner_instructions(item))
        elif item.depth:
            above = (at for at in range(self.cursor, -1, -1) if self._line_depth(at) < item.depth)
            self.cursor = next(above, self.cursor)

    def action_inside(self) -> None:
        """Unfold the computation of the op under the cursor; on the first line, go to that of the page."""
        item = self.item
        if item is None or self.page is None or item.row < 0:
            return
        if item.kind == "op":
            self._replace_page(self.page.toggle_inner_instructions(item))
        else:
            inside = (at for at, line in enumerate(self._lines) if self._items[line.item].words.startswith("Inside"))
            self.cursor = next(inside, self.cursor)

    def action_text(self) -> None:
        """Show the whole computation as text, or the page again."""
        item, page = self.item, self.page
        if page is not None:
            row = item.row if item is not None and item.row >= 0 else page.row
            self._open_page(page.at(row) if page.text else replace(page.at(row), text=True, ran=page.ran))

    def action_instance(self, by: int) -> None:
        """Request an execution of the page's instruction."""
        if self.page is not None:
            self.post_message(self.ExecutionRequested(self.page, by))

    def action_source(self) -> None:
        """Request the source line under the cursor, or the instruction's."""
        item, page = self.item, self.page
        if page is None:
            return
        row = item.row if item is not None and item.row >= 0 else page.row
        frames = page.module.frames.stack(page.module.instruction(row))
        on_frame = item is not None and item.kind == "frame"
        self.post_message(self.SourceRequested(item.words if on_frame and item else frames[0].text if frames else ""))

    def action_copy(self) -> None:
        """Copy the line under the cursor; for an op its line of HLO."""
        self.post_message(self.CopyRequested(self._cursor_text()))

    def notify_style_update(self) -> None:
        """Redraw all with the new theme."""
        super().notify_style_update()
        self.refresh()

    def _open_page(self, page: HloPage) -> None:
        if self.page is not None:
            self._visited.append((self.page, self.cursor))
        self.set_reactive(HloView.cursor, 0)
        self.page = page
        at = find_line(self._items, page.row)
        self.cursor = next((number for number, line in enumerate(self._lines) if line.item == at), 0)

    def _replace_page(self, page: HloPage) -> None:
        """Show the page with a line folded or unfolded; the cursor stays."""
        self.page = page

    def _line_depth(self, number: int) -> int:
        item = self._items[self._lines[number].item]
        return item.depth if item.kind == "op" else -1

    def _cursor_text(self) -> str:
        """Uncut text of the line under the cursor."""
        item, page = self.item, self.page
        if item is None or page is None:
            return ""
        return (
            instruction_line_without_metadata(page.module, page.module.instruction(item.row))
            if item.row >= 0
            else item.words
        )

    def _post_highlighted_line(self) -> None:
        if self.page is not None and self._lines:
            item = self.item
            told = item is not None and item.kind in ("fact", "words", "frame")
            row = item.row if item is not None and item.row >= 0 else self.page.row
            line = instruction_line_without_metadata(self.page.module, self.page.module.instruction(row))
            self.post_message(self.LineHighlighted(self.page, item.words if told and item else line))

    def _lay_out(self) -> None:
        """Make the lines, and wrap those that are too long."""
        if self.page is None or not self.size.width:
            return
        self._items = [replace(item, words=printable(item.words)) if item.words else item for item in self.page.items()]
        self._lines, width = [], max(20, self.size.width - 2)
        for number, item in enumerate(self._items):
            room = width - 1 - (LABEL_WIDTH if item.kind == "fact" else 0)
            long = item.kind in ("fact", "words")
            spans = wrap_spans(item.words, room, room) if long else [(0, len(item.words))]
            self._lines += [WrappedLine(number, at, *span) for at, span in enumerate(spans[:MAX_LINES])]
        self.set_extent(Size(self.size.width, len(self._lines)))
        self.set_reactive(HloView.cursor, self.validate_cursor(self.cursor))
        self.refresh()


class HloCallbacks(Struct, frozen=True):
    """Functions that show a source line, named in words, and an execution of an instruction."""

    source: Callable[[str], None]
    instance: Callable[[HloPage, int], None]


class HloScreen(DismissOnceScreen[None]):
    """Page of an instruction between the header and the key bar; the line under the cursor is shown uncut below it."""

    DEFAULT_CSS = """
    HloScreen { layout: vertical; background: $background; }
    HloScreen > Static { height: 3; width: 1fr; padding: 0 1; background: $boost; color: $text-muted; }
    HloScreen.-low > Static { height: 2; }
    """

    def __init__(self, page: HloPage, glyphs: Glyphs, leads: HloCallbacks, run: str = "") -> None:
        """`run` names the run in a comparison."""
        super().__init__()
        self.view = HloView(page, glyphs)
        self._header = HeaderBar(glyphs)
        self._header.set_reactive(HeaderBar.place, run)
        self._cursor_line = Static(markup=False)
        self._key_bar = KeyBar(glyphs)
        self._glyphs = glyphs
        self._leads_to = leads

    def compose(self) -> ComposeResult:
        """Yield header, page, uncut line and key bar."""
        yield self._header
        yield self.view
        yield self._cursor_line
        yield self._key_bar

    def on_mount(self) -> None:
        """Use the keys of the page."""
        self._key_bar.group = "hlo"
        self.view.focus()

    def on_resize(self) -> None:
        """Use fewer lines for the uncut line on a low terminal."""
        self.set_class(self.size.height < 30, "-low")

    @on(HloView.LineHighlighted)
    def _describe_line(self, message: HloView.LineHighlighted) -> None:
        page = message.page
        shape = page.module.instruction(page.row).shape
        spaces = [memory_space_name(space) for space in shape.memory_spaces if space]
        self._header.title = f"%{page.name}"
        self._header.facts = (page.program.title, *([format_bytes(shape.bytes)] if shape.bytes else []), *spaces)
        self._header.news = "" if page.module.complete else "its HLO is damaged: this is what lies before"
        self._cursor_line.update(Text(self._glyphs.to_alphabet(message.line)))

    @on(HloView.SourceRequested)
    def _open_source(self, message: HloView.SourceRequested) -> None:
        self._leads_to.source(message.words)

    @on(HloView.ExecutionRequested)
    def _go_to_execution(self, message: HloView.ExecutionRequested) -> None:
        self._leads_to.instance(message.page, message.by)

    @on(HloView.CopyRequested)
    def _copy_text(self, message: HloView.CopyRequested) -> None:
        copy_to_clipboard(self.app, message.text)

    async def on_key_bar_key_clicked(self, message: KeyBar.KeyClicked) -> None:
        """Run the clicked key."""
        if message.key.group == "hlo":
            await self.view.run_action(message.key.action)
