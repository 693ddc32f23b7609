"""Pane of gaps, with the activity of every host thread in the gap under the cursor.

Owns both tables and the facts about that gap. The screen supplies both results.
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

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.rank_groups import RANKS_COLUMN
from tracehound.model import short_names, units
from tracehound.ui.panes.table_pane import TablePane
from tracehound.ui.widgets.boxes_and_scroll_bars import HorizontalBox, VerticalBox
from tracehound.ui.widgets.result_table import ResultTable

COLUMNS_BESIDE_LIST = ("before", "after", "launch", "thread", "launched", "why", "why_share")
"""Columns of a gap that are shown beside the list."""

MIN_LAUNCH_NAME = 12
"""Least width to which a launch's name is cut."""


class GapFactsPanel(Widget):
    """Four facts of a gap: the op before, the op after, the launch that ended it, and the host's activity."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"gap-facts--label"}
    DEFAULT_CSS = """
    GapFactsPanel { height: 4; color: $text; }
    GapFactsPanel > .gap-facts--label { color: $text-muted; }
    """

    row: reactive[dict[str, Any] | None] = reactive(None)
    """Row of the gap."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs

    def render_line(self, y: int) -> Strip:
        """Draw a label and its value."""
        width = self.size.width
        row = self.row
        if row is None:
            return Strip.blank(width, self.rich_style)
        label, value = self._labeled_facts(row, width - 10)[y]
        style = self.get_component_rich_style("gap-facts--label", partial=False)
        text = self._glyphs.cut(value, width - 10)
        return Strip([Segment(f" {label:8} ", style), Segment(text, self.rich_style)]).adjust_cell_length(
            width, self.rich_style
        )

    def _labeled_facts(self, row: dict[str, Any], room: int) -> list[tuple[str, str]]:
        return [
            ("before", short_names.shorten_kernel_name(row["before"] or "nothing")),
            ("after", short_names.shorten_kernel_name(row["after"] or "nothing")),
            ("launch", self._describe_launch(row, room)),
            ("host", _describe_host_activity(row)),
        ]

    def _describe_launch(self, row: dict[str, Any], room: int) -> str:
        """Launch, its time before the end of the gap, and its thread; the thread is dropped first."""
        if row["launch"] is None:
            return "not recorded"
        name = short_names.shorten_kernel_name(row["launch"])
        before = f", {units.format_duration(row['launched'])} before its end" if row["launched"] is not None else ""
        thread = f", on {row['thread']}" if row["thread"] else ""
        if cell_len(name + before + thread) <= room:
            return name + before + thread
        return self._glyphs.cut(name, max(room - cell_len(before), MIN_LAUNCH_NAME)) + before


def _describe_host_activity(row: dict[str, Any]) -> str:
    """Activity of the host thread that ended the gap, and its share: ``tracing the next step (96.89 %)``."""
    return "not recorded" if row["why"] is None else f"{row['why']} ({units.format_share(row['why_share'])})"


class GapsPane(HorizontalBox):
    """Gaps by length on the left, wider with the ranks of each; the gap under the cursor on the right."""

    DEFAULT_CSS = """
    GapsPane { height: 1fr; width: 1fr; }
    GapsPane > TablePane { width: 30; }
    GapsPane.-of-groups > TablePane { width: 33; }
    GapsPane > #gap { width: 1fr; border-left: solid $panel-lighten-2; }
    """

    @dataclass
    class GapHighlighted(Message):
        """The cursor is on another gap, whose host activity is needed."""

        row: dict[str, Any] | None

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="pane-gaps")
        self.gaps = TablePane("gap-list", glyphs, COLUMNS_BESIDE_LIST)
        self.lines = GapFactsPanel(glyphs)
        self.host = TablePane("gap-host", glyphs)

    def compose(self) -> ComposeResult:
        """Yield the list of gaps, and the details of one."""
        yield self.gaps
        with VerticalBox(id="gap"):
            yield self.lines
            yield self.host

    @on(ResultTable.RowHighlighted)
    def _show_highlighted_gap(self, event: ResultTable.RowHighlighted) -> None:
        if event.table is self.gaps.table:
            self.lines.row = event.row
            self.set_class(event.row is not None and RANKS_COLUMN.name in event.row, "-of-groups")
            self.post_message(self.GapHighlighted(event.row))
