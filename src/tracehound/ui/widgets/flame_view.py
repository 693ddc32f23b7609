"""A flame graph: bars of frames, each as wide as its weight, under the one that called it.

Owns the cursor, which is on a frame, the zoom, and how bars look. Knows no trace: who shows a result says what a frame
leads to. A key dirties the lines that it changes.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.actions import SkipAction
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracehound.analysis.result import Result
from tracehound.draw.flame import ALL, PASSED_ON, Bar
from tracehound.draw.glyphs import Glyphs
from tracehound.draw.palette import HUES, TINTS
from tracehound.draw.wrap import paragraphs
from tracehound.errors import TracehoundError
from tracehound.ui.bindings import keys
from tracehound.ui.terminal.outside import copy, tell
from tracehound.ui.widgets.frames import Frames, Weight, frames
from tracehound.ui.wording.tones import Tones, tones

HEAD = 1
FOOT = 2
"""Lines above and below the bars."""

EVERY = 2.0
"""No frame takes twice what its caller takes: each has a bar of its own."""


class FlameView(Widget, can_focus=True, inherit_bindings=False):
    """The frames of a result that is a tree."""

    ALLOW_SELECT = False
    BINDING_GROUP_TITLE = "Flame graph"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("flame")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"flame-view--{part}" for part in ("head", "foot", "cursor", "found")}
    DEFAULT_CSS = """
    FlameView {
        height: 1fr; width: 1fr;
        & > .flame-view--head { color: $text-muted; text-style: bold; }
        & > .flame-view--foot { color: $text-muted; }
        & > .flame-view--cursor {
            background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
        }
        & > .flame-view--found { background: $warning; color: $background; text-style: bold; }
        &:ansi > .flame-view--found { background: ansi_yellow; color: ansi_black; }
        &:nocolor > .flame-view--cursor { text-style: reverse bold; }
        &:nocolor > .flame-view--found { text-style: bold underline; }
    }
    """

    zoom: reactive[int] = reactive(ALL, repaint=False)
    """The frame that is as wide as the screen."""
    cursor: reactive[int] = reactive(ALL, repaint=False)
    """The frame under the cursor."""

    @dataclass
    class SourceAsked(Message):
        """The user wants to read the source line that these words name."""

        words: str

    @dataclass
    class EditAsked(Message):
        """The user wants to edit it."""

        words: str

    @dataclass
    class Asked(Message):
        """The user wants something of the frame under the cursor: of its `row`, which the bar around all has not."""

        what: Literal["go", "window", "find", "table"]
        row: dict[str, Any] | None

    def __init__(self, glyphs: Glyphs, weights: Sequence[Weight]) -> None:
        """`weights` are what one can choose from."""
        super().__init__()
        self.empty = ""
        self._glyphs = glyphs
        self._weights = tuple(weights)
        self._weight = 0
        self._least = PASSED_ON
        self._needle = ""
        self._so_far = ""
        self._frames: Frames | None = None
        self._lines: tuple[tuple[object, ...], list[list[Bar]]] = ((), [])
        self._top = 0
        self._tones: Tones | None = None

    # -- what is shown

    def show(self, result: Result | None, so_far: str = "") -> None:
        """Show another result; of the same paths, the cursor and the zoom stay. `so_far` says how much it is about."""
        self._so_far = so_far
        self._reframe(result, self._weight, self._least)

    def find(self, needle: str) -> str:
        """Mark the frames whose names have this; what is wrong with it, in one line."""
        self._needle, problem = needle, ""
        if self._frames is not None:
            try:
                self._frames = self._frames.searched(needle)
            except TracehoundError as error:
                self._frames, problem = self._frames.searched(""), str(error)
        self.refresh()
        return problem

    @property
    def row(self) -> dict[str, Any] | None:
        """The raw values of the frame under the cursor; None on the bar around all."""
        return self._frames.row(self.cursor) if self._frames is not None else None

    @property
    def frames(self) -> Frames | None:
        """What is shown; None without a result."""
        return self._frames

    @property
    def rowless(self) -> bool:
        """Whether there is no frame."""
        return self._frames is None or self._frames.flame.total == 0

    def _reframe(self, result: Result | None, weight: int, least: float) -> None:
        """Show a result by a weight; cursor and zoom stay on their paths."""
        old, rows = self._frames, (self.zoom, self.cursor)
        paths = [old.path(row) if old is not None else () for row in rows]
        self._least, self._frames = least, None
        if result is not None:
            self._frames, self._weight = frames(result, self._weights, weight, least)
        new = self._frames
        zoom, cursor = (new.flame.bar_of(new.at(path)) if new is not None else ALL for path in paths)
        self.set_reactive(FlameView.zoom, zoom)
        self.set_reactive(FlameView.cursor, cursor)
        self.find(self._needle)
        self._settle()

    def _settle(self) -> None:
        """Put the cursor on a bar that is drawn, and draw all."""
        drawn = {bar.row for line in self._bars for bar in line}
        cursor = self.cursor
        while self._frames is not None and cursor != ALL and cursor not in drawn:
            cursor = self._frames.flame.around(cursor)[-2]
        self.set_reactive(FlameView.cursor, cursor)
        self._reveal()
        self.refresh()

    @property
    def _bars(self) -> list[list[Bar]]:
        """The bars of every line, for this width and zoom."""
        shape = self._frames.flame if self._frames is not None else None
        key = (shape, self.zoom, self.size.width)
        if self._lines[0] != key:
            self._lines = (key, shape.lines(self.zoom, self.size.width) if shape is not None else [])
        return self._lines[1]

    # -- drawing

    @property
    def _look(self) -> Tones:
        if self._tones is None:
            self._tones = tones(self.app, self._glyphs)
        return self._tones

    @property
    def _room(self) -> int:
        """Lines for bars."""
        return max(1, self.size.height - HEAD - FOOT)

    def render_line(self, y: int) -> Strip:
        """What it is, the bars, and what the frame under the cursor is."""
        shown = self._frames
        if shown is None or self.rowless:
            lines = paragraphs(self.empty, max(1, self.size.width - 2))[max(0, y - HEAD) :]
            return self._words(lines[0] if lines and y >= HEAD else "", "foot")
        if y < HEAD:
            below = len(self._bars) - self._top - self._room
            words = (shown.title(self.zoom, below, self._glyphs.dot), self._so_far)
            return self._words(f" {self._glyphs.dot} ".join(filter(None, words)), "head")
        if y >= HEAD + self._room:
            name, numbers = shown.facts(self.cursor, self.zoom)
            return self._words(name if y == HEAD + self._room else self._fitting(numbers), "foot")
        line = self._top + y - HEAD
        segments, at = list[Segment](), 0
        for bar in self._bars[line] if line < len(self._bars) else []:
            segments += [Segment(" " * (bar.left - at), self.rich_style), self._bar(shown, bar)]
            at = bar.right
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style).simplify()

    def _words(self, text: str, part: str) -> Strip:
        style = self.get_component_rich_style(f"flame-view--{part}", partial=False)
        words = self._glyphs.cut(f" {text}", self.size.width)
        return Strip([Segment(words, style)]).adjust_cell_length(self.size.width, self.rich_style)

    def _fitting(self, parts: Sequence[str]) -> str:
        """As many of the parts as there is room for."""
        fits = parts[:1]
        for part in parts[1:]:
            if len(", ".join([*fits, part])) < self.size.width:
                fits = [*fits, part]
        return ", ".join(fits)

    def _bar(self, shown: Frames, bar: Bar) -> Segment:
        """An edge, the label, and the rest of its width; without colour a line fills that."""
        room, coloured, here = bar.right - bar.left - 1, bool(self._look.palette.shades), bar.row == self.cursor
        text = shown.flame.label(bar.row, room) if room else ""
        label = self._glyphs.label(text, room)
        edge = self._glyphs.chosen if here and not coloured else self._glyphs.edge
        fill = " " if coloured or here else self._glyphs.span
        label = set_cell_size(label, min(cell_len(label), room))
        return Segment(edge + label + fill * (room - cell_len(label)), self._style(shown, bar.row))

    def _style(self, shown: Frames, row: int) -> Style:
        if row == self.cursor:
            return self.get_component_rich_style("flame-view--cursor", partial=False)
        if shown.is_found(row):
            return self.get_component_rich_style("flame-view--found", partial=False)
        hue, palette = HUES[shown.kind(row)], self._look.palette
        name = shown.flame.names[row] if row != ALL else ""
        colour = palette.shade(hue, zlib.crc32(name.encode("utf-8", "replace")) % TINTS)
        return Style(color=palette.ink_on(hue), bgcolor=colour) if colour is not None else self.rich_style

    # -- moving

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two lines that changed, and what the frame is."""
        before = self._top
        self._reveal()
        if before != self._top:
            self.refresh()
            return
        lines = {HEAD + line - self._top for row in (old, new) if (line := self._line_of(row)) is not None}
        for y in lines:
            self.refresh(Region(0, y, self.size.width, 1))
        self.refresh(Region(0, HEAD + self._room, self.size.width, FOOT))

    def watch_zoom(self) -> None:
        """Other bars everywhere."""
        self._settle()

    def _line_of(self, row: int) -> int | None:
        return next((y for y, line in enumerate(self._bars) for bar in line if bar.row == row), None)

    def _reveal(self) -> None:
        """Bring the cursor's line into sight, and no emptiness."""
        line = self._line_of(self.cursor) or 0
        top = min(max(self._top, line - self._room + 1), line)
        self._top = max(0, min(top, len(self._bars) - self._room))

    def on_resize(self) -> None:
        """Other bars fit."""
        self._settle()

    def action_vertical(self, by: int) -> None:
        """Go to the frame around, or to the widest inside."""
        line = self._line_of(self.cursor)
        if line is None or not 0 <= line + by < len(self._bars):
            return
        here = next(bar for bar in self._bars[line] if bar.row == self.cursor)
        near = [bar for bar in self._bars[line + by] if bar.left < here.right and here.left < bar.right]
        if near:
            self.cursor = max(near, key=lambda bar: bar.right - bar.left).row

    def action_aside(self, by: int) -> None:
        """Go to the next frame on the line."""
        line = self._line_of(self.cursor)
        if line is not None:
            rows = [bar.row for bar in self._bars[line]]
            self.cursor = rows[max(0, min(rows.index(self.cursor) + by, len(rows) - 1))]

    def action_first(self) -> None:
        """Go to the top."""
        self.cursor = ALL

    def action_zoom(self) -> None:
        """Make the frame under the cursor as wide as the screen."""
        self.zoom = self.cursor

    def action_out(self) -> None:
        """Widen the frame around; where all are shown, the key means what it means everywhere."""
        if self._frames is None or self.zoom == ALL:
            raise SkipAction
        self.zoom = self._frames.flame.around(self.zoom)[-2]

    def action_whole(self) -> None:
        """Show all frames."""
        self.zoom = ALL

    def action_weigh(self) -> None:
        """Weigh by the next column that has values."""
        if self._frames is None:
            return
        before = self._weight
        self._reframe(self._frames.result, before + 1, self._least)
        if self._weight == before:
            others = " or ".join(weight.words for weight in self._weights if weight != self._weights[before])
            tell(self.app, f"no frame has {others}")

    def action_every(self) -> None:
        """Give every frame its bar, or leave out those that only pass on."""
        if self._frames is not None:
            self._reframe(self._frames.result, self._weight, PASSED_ON if self._least == EVERY else EVERY)

    def action_find_next(self, by: int) -> None:
        """Go to the next bar that was found, in the order of the table; out of the zoom where that is elsewhere."""
        shown = self._frames
        if shown is None or not shown.found.any():
            raise SkipAction
        bars = sorted({shown.flame.bar_of(int(row)) for row in np.flatnonzero(shown.found)})
        beyond = [bar for bar in bars if (bar > self.cursor if by > 0 else bar < self.cursor)]
        target = (beyond or bars)[0 if by > 0 else -1]
        for zoom in (self.zoom, *reversed(shown.flame.around(target))):
            self.zoom = zoom
            if self._line_of(target) is not None:
                break
        self.cursor = target

    # -- what a frame leads to

    def action_source(self) -> None:
        """Ask to read the source line of the frame, or of the one around it."""
        self.post_message(self.SourceAsked(self._frames.source(self.cursor) if self._frames is not None else ""))

    def action_edit(self) -> None:
        """Ask to edit it."""
        self.post_message(self.EditAsked(self._frames.source(self.cursor) if self._frames is not None else ""))

    def action_ask(self, what: Literal["go", "window", "find", "table"]) -> None:
        """Ask for what the pane does."""
        self.post_message(self.Asked(what, self.row))

    def action_copy(self) -> None:
        """Copy the frame's name."""
        if self._frames is not None and self.cursor != ALL:
            copy(self.app, self._frames.flame.names[self.cursor])

    def on_click(self, event: events.Click) -> None:
        """A bar: put the cursor there, and the second time zoom."""
        where = event.get_content_offset(self)
        if where is None or not HEAD <= where.y < HEAD + self._room:
            return
        line = self._top + where.y - HEAD
        bars = self._bars[line] if line < len(self._bars) else []
        hit = next((bar.row for bar in bars if bar.left <= where.x < bar.right), None)
        if hit is not None:
            self.cursor = hit
            if event.chain > 1:
                self.action_zoom()

    def notify_style_update(self) -> None:
        """Another theme: draw all again."""
        super().notify_style_update()
        self._tones = None
        self.refresh()
