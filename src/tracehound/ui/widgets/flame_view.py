"""Flame graph: bars of frames, each as wide as its weight, under the bar of its caller.

Owns the cursor, the zoom and the style of bars. A key refreshes only the lines that it changes.
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

from tracehound.analysis.result import Result
from tracehound.draw.charts.flame_graph import PASS_THROUGH_SHARE, ROOT_BAR, FlameBar
from tracehound.draw.event_colors import KIND_HUES, TINTS_PER_HUE
from tracehound.draw.glyphs import Glyphs
from tracehound.draw.text_wrapping import wrap_paragraphs
from tracehound.errors import TracehoundError
from tracehound.ui.bindings import keys
from tracehound.ui.terminal.outside_programs import copy_to_clipboard, notify_success
from tracehound.ui.themes import Appearance, appearance_of
from tracehound.ui.widgets.cursor_list import RowsAwaited
from tracehound.ui.widgets.flame_frames import FlameFrames, FlameWeight, build_flame_frames

HEAD_LINES = 1
FOOT_LINES = 2
"""Lines above and below the bars."""

EVERY_FRAME = 2.0
"""Share of its caller's weight above which a frame is merged with it: none reaches twice, so each frame has its own
bar.
"""


class FlameView(RowsAwaited, can_focus=True, inherit_bindings=False):
    """Frames of a result that is a tree."""

    ALLOW_SELECT = False
    BINDING_GROUP_TITLE = "Flame graph"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.textual_bindings("flame")]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"flame-view--{part}" for part in ("head", "focus", "foot", "cursor", "found")
    }
    DEFAULT_CSS = """
    FlameView {
        height: 1fr; width: 1fr;
        & > .flame-view--head { color: $text-muted; text-style: bold; }
        & > .flame-view--focus { color: $accent; text-style: bold; }
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

    zoom: reactive[int] = reactive(ROOT_BAR, repaint=False)
    """Frame that is as wide as the screen."""
    cursor: reactive[int] = reactive(ROOT_BAR, repaint=False)
    """The frame under the cursor."""

    @dataclass
    class SourceRequested(Message):
        """The user wants to read the source line that the text names."""

        words: str

    @dataclass
    class EditRequested(Message):
        """The user wants to edit the source line that the text names."""

        words: str

    @dataclass
    class ActionRequested(Message):
        """The user wants an action on the frame under the cursor; `row` is None for the bar around all."""

        what: Literal["go", "window", "find", "table"]
        row: dict[str, Any] | None

    def __init__(self, glyphs: Glyphs, weights: Sequence[FlameWeight]) -> None:
        """`weights` are those that the user can choose from."""
        super().__init__()
        self.empty = ""
        self._glyphs = glyphs
        self._weights = tuple(weights)
        self._weight = 0
        self._min_share = PASS_THROUGH_SHARE
        self._needle = ""
        self._so_far = ""
        self._frames: FlameFrames | None = None
        self._cached_bars: tuple[tuple[object, ...], list[list[FlameBar]]] = ((), [])
        self._first_visible_line = 0
        self._tones: Appearance | None = None

    # -- what is shown

    def show(self, result: Result | None, so_far: str = "") -> None:
        """Show another result; cursor and zoom stay on their paths if those exist.

        `so_far` says how much of the trace is read.
        """
        self._so_far = so_far
        self._rebuild_frames(result, self._weight, self._min_share)

    def on_focus(self) -> None:
        """Redraw the title and the cursor with the focus."""
        self.refresh()

    def on_blur(self) -> None:
        """Redraw the title and the cursor without the focus."""
        self.refresh()

    def find(self, needle: str) -> str:
        """Mark the frames whose names match. Returns what is wrong with the pattern, in one line."""
        self._needle, problem = needle, ""
        if self._frames is not None:
            try:
                self._frames = self._frames.search(needle)
            except TracehoundError as error:
                self._frames, problem = self._frames.search(""), str(error)
        self.refresh()
        return problem

    @property
    def row(self) -> dict[str, Any] | None:
        """Raw values of the frame under the cursor; None for the bar around all."""
        return self._frames.row(self.cursor) if self._frames is not None else None

    @property
    def frames(self) -> FlameFrames | None:
        """Frames that are shown; None without a result."""
        return self._frames

    @property
    def has_no_rows(self) -> bool:
        """True without a frame."""
        return self._frames is None or self._frames.flame.total == 0

    def _rebuild_frames(self, result: Result | None, weight: int, least: float) -> None:
        """Show a result by a weight; cursor and zoom stay on their paths."""
        old, rows = self._frames, (self.zoom, self.cursor)
        paths = [old.path(row) if old is not None else () for row in rows]
        self._min_share, self._frames = least, None
        if result is not None:
            self._frames, self._weight = build_flame_frames(result, self._weights, weight, least)
        new = self._frames
        zoom, cursor = (new.flame.bar_of(new.frame_at(path)) if new is not None else ROOT_BAR for path in paths)
        self.set_reactive(FlameView.zoom, zoom)
        self.set_reactive(FlameView.cursor, cursor)
        self.find(self._needle)
        self._move_cursor_to_bar()

    def _move_cursor_to_bar(self) -> None:
        """Move the cursor to a bar that is drawn, and redraw all."""
        drawn = {bar.row for line in self._visible_bars for bar in line}
        cursor = self.cursor
        while self._frames is not None and cursor != ROOT_BAR and cursor not in drawn:
            cursor = self._frames.flame.ancestors(cursor)[-2]
        self.set_reactive(FlameView.cursor, cursor)
        self._scroll_to_cursor()
        self.refresh()

    @property
    def _visible_bars(self) -> list[list[FlameBar]]:
        """Bars of every line, for this width and zoom."""
        shape = self._frames.flame if self._frames is not None else None
        key = (shape, self.zoom, self.size.width)
        if self._cached_bars[0] != key:
            self._cached_bars = (key, shape.lines(self.zoom, self.size.width) if shape is not None else [])
        return self._cached_bars[1]

    # -- drawing

    @property
    def _cached_tones(self) -> Appearance:
        if self._tones is None:
            self._tones = appearance_of(self.app, self._glyphs)
        return self._tones

    @property
    def _bar_lines(self) -> int:
        """Number of lines for bars."""
        return max(1, self.size.height - HEAD_LINES - FOOT_LINES)

    def render_line(self, y: int) -> Strip:
        """Draw the title, a line of bars, or the name or the numbers of the frame under the cursor."""
        shown = self._frames
        if shown is None or self.has_no_rows:
            lines = wrap_paragraphs(self.empty, max(1, self.size.width - 2))[max(0, y - HEAD_LINES) :]
            return self._text_line(lines[0] if lines and y >= HEAD_LINES else "", "foot")
        if y < HEAD_LINES:
            below = len(self._visible_bars) - self._first_visible_line - self._bar_lines
            words = (shown.title(self.zoom, below, self._glyphs.dot), self._so_far)
            part = "focus" if self.has_focus else "head"
            return self._text_line(f" {self._glyphs.dot} ".join(filter(None, words)), part)
        if y >= HEAD_LINES + self._bar_lines:
            name, numbers = shown.facts(self.cursor, self.zoom)
            return self._text_line(name if y == HEAD_LINES + self._bar_lines else self._join_fitting(numbers), "foot")
        line = self._first_visible_line + y - HEAD_LINES
        segments, at = list[Segment](), 0
        for bar in self._visible_bars[line] if line < len(self._visible_bars) else []:
            segments += [Segment(" " * (bar.left - at), self.rich_style), self._bar_segment(shown, bar)]
            at = bar.right
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style).simplify()

    def _text_line(self, text: str, part: str) -> Strip:
        style = self.get_component_rich_style(f"flame-view--{part}", partial=False)
        words = self._glyphs.cut(f" {text}", self.size.width)
        return Strip([Segment(words, style)]).adjust_cell_length(self.size.width, self.rich_style)

    def _join_fitting(self, parts: Sequence[str]) -> str:
        """Join as many of the parts as fit."""
        fits = parts[:1]
        for part in parts[1:]:
            if len(", ".join([*fits, part])) < self.size.width:
                fits = [*fits, part]
        return ", ".join(fits)

    def _bar_segment(self, shown: FlameFrames, bar: FlameBar) -> Segment:
        """Edge, label and fill of a bar; without color a line fills it."""
        room, colored, here = bar.right - bar.left - 1, bool(self._cached_tones.palette.shades), bar.row == self.cursor
        text = shown.flame.label(bar.row, room) if room else ""
        label = self._glyphs.label(text, room)
        edge = self._glyphs.chosen if here and not colored else self._glyphs.edge
        fill = " " if colored or here else self._glyphs.span
        label = set_cell_size(label, min(cell_len(label), room))
        return Segment(edge + label + fill * (room - cell_len(label)), self._bar_style(shown, bar.row))

    def _bar_style(self, shown: FlameFrames, row: int) -> Style:
        if row == self.cursor and self.has_focus:
            return self.get_component_rich_style("flame-view--cursor", partial=False)
        if shown.is_found(row):
            return self.get_component_rich_style("flame-view--found", partial=False)
        hue, palette = KIND_HUES[shown.kind(row)], self._cached_tones.palette
        name = shown.flame.names[row] if row != ROOT_BAR else ""
        color = palette.hue_color(hue, zlib.crc32(name.encode("utf-8", "replace")) % TINTS_PER_HUE)
        return Style(color=palette.text_color_on(hue), bgcolor=color) if color is not None else self.rich_style

    # -- moving

    def watch_cursor(self, old: int, new: int) -> None:
        """Redraw the two lines that changed, and the facts of the frame."""
        before = self._first_visible_line
        self._scroll_to_cursor()
        if before != self._first_visible_line:
            self.refresh()
            return
        lines = {
            HEAD_LINES + line - self._first_visible_line
            for row in (old, new)
            if (line := self._line_of(row)) is not None
        }
        for y in lines:
            self.refresh(Region(0, y, self.size.width, 1))
        self.refresh(Region(0, HEAD_LINES + self._bar_lines, self.size.width, FOOT_LINES))

    def watch_zoom(self) -> None:
        """Show the bars of another zoom."""
        self._move_cursor_to_bar()

    def _line_of(self, row: int) -> int | None:
        return next((y for y, line in enumerate(self._visible_bars) for bar in line if bar.row == row), None)

    def _scroll_to_cursor(self) -> None:
        """Scroll to the cursor's line, without empty lines at the end."""
        line = self._line_of(self.cursor) or 0
        top = min(max(self._first_visible_line, line - self._bar_lines + 1), line)
        self._first_visible_line = max(0, min(top, len(self._visible_bars) - self._bar_lines))

    def on_resize(self) -> None:
        """Show the bars for another width."""
        self._move_cursor_to_bar()

    def action_vertical(self, by: int) -> None:
        """Go to the frame around (-1), or to the widest inside (1)."""
        line = self._line_of(self.cursor)
        if line is None or not 0 <= line + by < len(self._visible_bars):
            return
        here = next(bar for bar in self._visible_bars[line] if bar.row == self.cursor)
        near = [bar for bar in self._visible_bars[line + by] if bar.left < here.right and here.left < bar.right]
        if near:
            self.cursor = max(near, key=lambda bar: bar.right - bar.left).row

    def action_aside(self, by: int) -> None:
        """Go to the next (1) or previous (-1) frame on the line."""
        line = self._line_of(self.cursor)
        if line is not None:
            rows = [bar.row for bar in self._visible_bars[line]]
            self.cursor = rows[max(0, min(rows.index(self.cursor) + by, len(rows) - 1))]

    def action_first(self) -> None:
        """Go to the bar around all."""
        self.cursor = ROOT_BAR

    def action_zoom(self) -> None:
        """Zoom to the frame under the cursor."""
        self.zoom = self.cursor

    def action_out(self) -> None:
        """Zoom out to the frame around; when all are shown, leave the key to the screen."""
        if self._frames is None or self.zoom == ROOT_BAR:
            raise SkipAction
        self.zoom = self._frames.flame.ancestors(self.zoom)[-2]

    def action_whole(self) -> None:
        """Show all frames."""
        self.zoom = ROOT_BAR

    def action_weigh(self) -> None:
        """Use the next weight that has values."""
        if self._frames is None:
            return
        before = self._weight
        self._rebuild_frames(self._frames.result, before + 1, self._min_share)
        if self._weight == before:
            others = " or ".join(weight.words for weight in self._weights if weight != self._weights[before])
            notify_success(self.app, f"no frame has {others}")

    def action_every(self) -> None:
        """Give every frame its own bar, or merge those that only pass on their caller's weight."""
        if self._frames is not None:
            self._rebuild_frames(
                self._frames.result, self._weight, PASS_THROUGH_SHARE if self._min_share == EVERY_FRAME else EVERY_FRAME
            )

    def action_find_next(self, by: int) -> None:
        """Go to the next (1) or previous (-1) match in the order of the table; zoom out if it is elsewhere."""
        shown = self._frames
        if shown is None or not shown.found.any():
            raise SkipAction
        bars = sorted({shown.flame.bar_of(int(row)) for row in np.flatnonzero(shown.found)})
        beyond = [bar for bar in bars if (bar > self.cursor if by > 0 else bar < self.cursor)]
        target = (beyond or bars)[0 if by > 0 else -1]
        for zoom in (self.zoom, *reversed(shown.flame.ancestors(target))):
            self.zoom = zoom
            if self._line_of(target) is not None:
                break
        self.cursor = target

    # -- what a frame leads to

    def action_source(self) -> None:
        """Request the source line of the frame, or of the one around it."""
        self.post_message(self.SourceRequested(self._frames.source(self.cursor) if self._frames is not None else ""))

    def action_edit(self) -> None:
        """Request to edit the source line of the frame, or of the one around it."""
        self.post_message(self.EditRequested(self._frames.source(self.cursor) if self._frames is not None else ""))

    def action_ask(self, what: Literal["go", "window", "find", "table"]) -> None:
        """Request an action from the pane."""
        self.post_message(self.ActionRequested(what, self.row))

    def action_copy(self) -> None:
        """Copy the frame's name."""
        if self._frames is not None and self.cursor != ROOT_BAR:
            copy_to_clipboard(self.app, self._frames.flame.names[self.cursor])

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked bar; a double click zooms to it."""
        where = event.get_content_offset(self)
        if where is None or not HEAD_LINES <= where.y < HEAD_LINES + self._bar_lines:
            return
        line = self._first_visible_line + where.y - HEAD_LINES
        bars = self._visible_bars[line] if line < len(self._visible_bars) else []
        hit = next((bar.row for bar in bars if bar.left <= where.x < bar.right), None)
        if hit is not None:
            self.cursor = hit
            if event.chain > 1:
                self.action_zoom()

    def notify_style_update(self) -> None:
        """Redraw all with the new theme."""
        super().notify_style_update()
        self._tones = None
        self.refresh()
