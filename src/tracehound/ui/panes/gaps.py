"""The gaps, and beside them what every host thread did in the one under the cursor.

Owns the two tables and the lines about the chosen gap. Knows no trace: the screen brings both results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracehound import units
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui.panes.pane import TablePane
from tracehound.ui.widgets.plain_box import Column, Line
from tracehound.ui.widgets.result_table import ResultTable

BESIDE = ("before", "after", "launch", "thread", "launched", "why", "why_share")
"""What is told of the gap under the cursor beside the list of gaps."""

SHORTEST = 12
"""A launch's name is not cut further than this for what follows it."""


class GapLines(Widget):
    """Four lines: between which ops a gap lies, which launch ended it, and what the host was at meanwhile."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"gap-lines--label"}
    DEFAULT_CSS = """
    GapLines { height: 4; color: $text; }
    GapLines > .gap-lines--label { color: $text-muted; }
    """

    row: reactive[dict[str, Any] | None] = reactive(None)
    """The gap."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs

    def render_line(self, y: int) -> Strip:
        """A label and what it is."""
        width = self.size.width
        row = self.row
        if row is None:
            return Strip.blank(width, self.rich_style)
        label, value = self._facts(row, width - 10)[y]
        style = self.get_component_rich_style("gap-lines--label", partial=False)
        text = self._glyphs.cut(value, width - 10)
        return Strip([Segment(f" {label:8} ", style), Segment(text, self.rich_style)]).adjust_cell_length(
            width, self.rich_style
        )

    def _facts(self, row: dict[str, Any], room: int) -> list[tuple[str, str]]:
        return [
            ("before", units.short_name(row["before"] or "nothing")),
            ("after", units.short_name(row["after"] or "nothing")),
            ("launch", self._launch(row, room)),
            ("host", _host(row)),
        ]

    def _launch(self, row: dict[str, Any], room: int) -> str:
        """The launch, how long before the end of the gap, and its thread; what is said first goes last."""
        if row["launch"] is None:
            return "not recorded"
        name = units.short_name(row["launch"])
        before = f", {units.duration(row['launched'])} before its end" if row["launched"] is not None else ""
        thread = f", on {row['thread']}" if row["thread"] else ""
        if cell_len(name + before + thread) <= room:
            return name + before + thread
        return self._glyphs.cut(name, max(room - cell_len(before), SHORTEST)) + before


def _host(row: dict[str, Any]) -> str:
    """``tracing the next step (96.89 %)``: what the thread that matters was at, and for which part of the gap."""
    return "not recorded" if row["why"] is None else f"{row['why']} ({units.share(row['why_share'])})"


class GapsPane(Line):
    """Gaps by length on the left; on the right the gap under the cursor."""

    DEFAULT_CSS = """
    GapsPane { height: 1fr; width: 1fr; }
    GapsPane > TablePane { width: 30; }
    GapsPane > #gap { width: 1fr; border-left: solid $panel-lighten-2; }
    """

    @dataclass
    class Pointed(Message):
        """The cursor is on another gap: what did the host do in it?"""

        row: dict[str, Any] | None

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="pane-gaps")
        self.gaps = TablePane("gap-list", glyphs, BESIDE)
        self.lines = GapLines(glyphs)
        self.host = TablePane("gap-host", glyphs)

    def compose(self) -> ComposeResult:
        """The gaps, and the chosen one."""
        yield self.gaps
        with Column(id="gap"):
            yield self.lines
            yield self.host

    @on(ResultTable.Highlighted)
    def _point(self, event: ResultTable.Highlighted) -> None:
        if event.table is self.gaps.table:
            self.lines.row = event.row
            self.post_message(self.Pointed(event.row))
