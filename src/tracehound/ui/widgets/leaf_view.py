"""The lines about an instruction, to walk through.

Owns the cursor, the instructions that one came from, and how lines stand in a width. Knows no trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.sheet import wrapped
from tracehound.errors import printable
from tracehound.hlo.text import brief_line
from tracehound.ui.bindings import keys
from tracehound.ui.state.leaf import Item, Leaf, place_of
from tracehound.ui.widgets.plain_bars import suit
from tracehound.ui.widgets.walked import Walked
from tracehound.ui.wording.tones import tones

LABEL = 13
"""Cells of the labels of facts."""

MOST = 3
"""Lines that one fact or sentence takes; copied it is whole."""

WIDE = 116
"""Cells from which there is room for what an instruction inside takes."""


class Line(Struct, frozen=True):
    """A part of an item that stands on one line, the `number`th of it: its words from `start` to `end`."""

    item: int
    number: int = 0
    start: int = 0
    end: int = 0


class LeafView(Walked, can_focus=True, inherit_bindings=False):
    """An instruction: what it is, and lines that lead to others."""

    BINDING_GROUP_TITLE = "HLO"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("hlo")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "leaf-view--title", "leaf-view--name", "leaf-view--dim", "leaf-view--cursor",
    }  # fmt: skip
    DEFAULT_CSS = """
    LeafView {
        height: 1fr; width: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; overflow-x: hidden;
        & > .leaf-view--title { color: $primary; text-style: bold; }
        & > .leaf-view--name { text-style: bold; }
        & > .leaf-view--dim { color: $text-muted; }
        & > .leaf-view--cursor { background: $block-cursor-background; }
        &:ansi > .leaf-view--cursor { text-style: reverse; background: ansi_default; }
        &:nocolor > .leaf-view--cursor { text-style: reverse; }
    }
    """

    leaf: reactive[Leaf | None] = reactive(None, repaint=False)
    """What is shown."""

    @dataclass
    class Moved(Message):
        """Another instruction is in the middle, or under the cursor."""

        leaf: Leaf
        line: str

    @dataclass
    class SourceAsked(Message):
        """The user wants to read a source line."""

        words: str

    @dataclass
    class InstanceAsked(Message):
        """The user wants to see an execution of the instruction in the timeline: the next (1) or previous (-1) one."""

        leaf: Leaf
        by: int

    @dataclass
    class Copied(Message):
        """The user wants this on the clipboard."""

        text: str

    def __init__(self, leaf: Leaf, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._items: list[Item] = []
        self._lines: list[Line] = []
        self._before: list[tuple[Leaf, int]] = []
        self.set_reactive(LeafView.leaf, leaf)

    @property
    def line_count(self) -> int:
        """How many lines it takes."""
        return len(self._lines)

    @property
    def item(self) -> Item | None:
        """What the cursor is on."""
        return self._items[self._lines[self.cursor].item] if self.cursor < len(self._lines) else None

    def render_line(self, y: int) -> Strip:
        """One line of the page."""
        number, width = self.scroll_offset.y + y, self.size.width
        if number >= len(self._lines):
            return Strip.blank(width, self.plain)
        here = number == self.cursor and self.has_focus
        ground = self.get_component_rich_style("leaf-view--cursor", partial=False) if here else self.plain
        line = self._lines[number]
        return Strip([Segment(" ", ground), *self._segments(line, width - 2, ground)]).adjust_cell_length(width, ground)

    def _segments(self, line: Line, width: int, ground: Style) -> Iterator[Segment]:
        item, first = self._items[line.item], not line.number
        cut = line.number == MOST - 1 and line.end < len(item.words)
        words = self._glyphs.words(item.words[line.start : line.end] + ("…" if cut else ""))
        dim = ground + self.get_component_rich_style("leaf-view--dim")
        name = ground + self.get_component_rich_style("leaf-view--name")
        if item.kind == "code" and self.leaf is not None:
            yield Segment(self._glyphs.words(self.leaf.line(item.row)), ground)
        elif item.kind == "title":
            yield Segment(words, ground + self.get_component_rich_style("leaf-view--title"))
        elif item.kind == "fact":
            yield Segment(f"{item.label if first else '':<{LABEL}}", dim)
            yield Segment(words, ground)
        elif item.kind == "frame":
            yield Segment(self._glyphs.cut(item.words, max(width - len(item.label) - 2, width // 2)), ground)
            yield Segment(self._glyphs.words(f"  {item.label}"), dim)
        elif item.kind == "op":
            yield from self._op(item, width, name, ground, dim)
        elif item.kind == "name":
            yield from self._pieces([(item.words, name), (f"  {item.what}", self._kind(item, ground)),
                                     (f"  {item.shape}", ground)], width)  # fmt: skip
        else:
            yield Segment(words, ground)

    def _op(self, item: Item, width: int, name: Style, ground: Style, dim: Style) -> Iterator[Segment]:
        """Name, opcode, shape and size in columns; what it takes, where there is room."""
        glyphs = self._glyphs
        mark = " " if item.open is None else glyphs.unfolded if item.open else glyphs.folded
        lead = f"{'  ' * min(item.depth, 12)}{mark} "
        named = max(24, width * 3 // 10)
        kind = max(19, width // 6)
        noted = width // 4 if width >= WIDE else 0
        shaped = max(0, width - named - kind - 10 - noted)
        yield Segment(lead, dim)
        yield Segment(f"{glyphs.cut(item.words, named - len(lead) - 1):<{max(0, named - len(lead))}}", name)
        yield Segment(f"{glyphs.cut(item.what, kind - 1):<{kind}}", self._kind(item, ground))
        yield Segment(f"{glyphs.cut(item.shape, shaped):<{shaped}}", ground)
        yield Segment(f"{item.size:>10}", ground)
        if noted:
            yield Segment(f"  {glyphs.cut(item.note, noted - 2)}", dim)

    def _kind(self, item: Item, ground: Style) -> Style:
        return ground + tones(self.app, self._glyphs).kind(item.what)

    def _pieces(self, parts: Sequence[tuple[str, Style]], width: int) -> Iterator[Segment]:
        """Texts one after the other, the last cut to what is left of the width."""
        for text, style in parts:
            shown = self._glyphs.cut(text, width)
            width -= cell_len(shown)
            yield Segment(shown, style)

    def on_mount(self) -> None:
        """The scroll bar of the alphabet."""
        suit(self, self._glyphs)

    def on_resize(self) -> None:
        """Lines break elsewhere."""
        self._lay()
        self._tell()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor there; the second time, go to what the line is about."""
        self.cursor = self.scroll_offset.y + event.y
        if event.chain > 1:
            self.action_open()

    def watch_cursor(self, old: int, new: int) -> None:
        """Tell what the cursor is on."""
        super().watch_cursor(old, new)
        self._tell()

    def watch_leaf(self) -> None:
        """Show it."""
        self._lay()
        self._tell()

    def action_open(self) -> None:
        """Put the instruction under the cursor into the middle, or ask for the source line there."""
        item = self.item
        if item is None or self.leaf is None:
            return
        if item.kind == "frame":
            self.post_message(self.SourceAsked(item.words))
        elif item.row >= 0 and (item.row != self.leaf.row or self.leaf.text):
            self._go(self.leaf.at(item.row))

    def action_back(self) -> None:
        """Back to what was in the middle before."""
        if self._before:
            leaf, cursor = self._before.pop()
            self.leaf = leaf
            self.cursor = cursor

    def action_unfold(self) -> None:
        """Show what lies beyond the line, or go to the first line of it."""
        item = self.item
        if item is None or self.leaf is None or item.open is None:
            return
        if item.open:
            self.cursor += 1
        else:
            self._turn(self.leaf.turned(item))

    def action_fold(self) -> None:
        """Hide what lies beyond the line, or go to the line around it."""
        item = self.item
        if item is None or self.leaf is None or item.kind != "op":
            return
        if item.open:
            self._turn(self.leaf.turned(item))
        elif item.path in self.leaf.opened:
            self._turn(self.leaf.turned_inside(item))
        elif item.depth:
            above = (at for at in range(self.cursor, -1, -1) if self._depth(at) < item.depth)
            self.cursor = next(above, self.cursor)

    def action_inside(self) -> None:
        """Show what is inside the op under the cursor; on the first line, go to what is inside the middle."""
        item = self.item
        if item is None or self.leaf is None or item.row < 0:
            return
        if item.kind == "op":
            self._turn(self.leaf.turned_inside(item))
        else:
            inside = (at for at, line in enumerate(self._lines) if self._items[line.item].words.startswith("Inside"))
            self.cursor = next(inside, self.cursor)

    def action_text(self) -> None:
        """The whole computation as text, or the page again."""
        item, leaf = self.item, self.leaf
        if leaf is not None:
            row = item.row if item is not None and item.row >= 0 else leaf.row
            self._go(leaf.at(row) if leaf.text else replace(leaf.at(row), text=True, ran=leaf.ran))

    def action_instance(self, by: int) -> None:
        """Ask for an execution of what is in the middle."""
        if self.leaf is not None:
            self.post_message(self.InstanceAsked(self.leaf, by))

    def action_source(self) -> None:
        """Ask for the source line under the cursor, or of the instruction."""
        item, leaf = self.item, self.leaf
        if leaf is None:
            return
        row = item.row if item is not None and item.row >= 0 else leaf.row
        frames = leaf.module.frames.stack(leaf.module.instruction(row))
        on_frame = item is not None and item.kind == "frame"
        self.post_message(self.SourceAsked(item.words if on_frame and item else frames[0].text if frames else ""))

    def action_copy(self) -> None:
        """Copy what the line says: of an op its line of HLO."""
        self.post_message(self.Copied(self._said()))

    def notify_style_update(self) -> None:
        """Another theme: draw all again."""
        super().notify_style_update()
        self.refresh()

    def _go(self, leaf: Leaf) -> None:
        if self.leaf is not None:
            self._before.append((self.leaf, self.cursor))
        self.set_reactive(LeafView.cursor, 0)
        self.leaf = leaf
        at = place_of(self._items, leaf.row)
        self.cursor = next((number for number, line in enumerate(self._lines) if line.item == at), 0)

    def _turn(self, leaf: Leaf) -> None:
        """Fold or unfold, the cursor staying on its line."""
        self.leaf = leaf

    def _depth(self, number: int) -> int:
        item = self._items[self._lines[number].item]
        return item.depth if item.kind == "op" else -1

    def _said(self) -> str:
        """What the line under the cursor says, whole."""
        item, leaf = self.item, self.leaf
        if item is None or leaf is None:
            return ""
        return brief_line(leaf.module, leaf.module.instruction(item.row)) if item.row >= 0 else item.words

    def _tell(self) -> None:
        if self.leaf is not None and self._lines:
            item = self.item
            told = item is not None and item.kind in ("fact", "words", "frame")
            row = item.row if item is not None and item.row >= 0 else self.leaf.row
            line = brief_line(self.leaf.module, self.leaf.module.instruction(row))
            self.post_message(self.Moved(self.leaf, item.words if told and item else line))

    def _lay(self) -> None:
        """Make the lines, and break those that are longer than the width."""
        if self.leaf is None or not self.size.width:
            return
        self._items = [replace(item, words=printable(item.words)) if item.words else item for item in self.leaf.items()]
        self._lines, width = [], max(20, self.size.width - 2)
        for number, item in enumerate(self._items):
            room = width - 1 - (LABEL if item.kind == "fact" else 0)
            long = item.kind in ("fact", "words")
            spans = wrapped(item.words, room, room) if long else [(0, len(item.words))]
            self._lines += [Line(number, at, *span) for at, span in enumerate(spans[:MOST])]
        self.extend(Size(self.size.width, len(self._lines)))
        self.set_reactive(LeafView.cursor, self.validate_cursor(self.cursor))
        self.refresh()
