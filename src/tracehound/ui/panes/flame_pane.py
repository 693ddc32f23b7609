"""Pane that shows a call tree as a flame graph or as a table.

Owns the choice between the two, and the search prompt. A chosen frame is posted as if its row had been chosen in the
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from textual import on
from textual.app import ComposeResult

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui.panes.table_pane import TablePane
from tracehound.ui.widgets.boxes_and_scroll_bars import VerticalBox
from tracehound.ui.widgets.flame_frames import FlameWeight
from tracehound.ui.widgets.flame_view import FlameView
from tracehound.ui.widgets.prompts import Prompt
from tracehound.ui.widgets.result_table import ResultTable

FLAME_WEIGHTS: Mapping[str, tuple[FlameWeight, ...]] = MappingProxyType(
    {
        "stacks": (
            FlameWeight("total", "time on the host"),
            FlameWeight("device_total", "device time launched"),
        ),
        "modules": (
            FlameWeight("host_total", "time on the host"),
            FlameWeight("device_total", "device time launched"),
        ),
    }
)
"""Results that have a flame graph, and the columns that its frames can be weighted by."""


class FlamePane(VerticalBox):
    """Flame graph of a result, and its table in the same place."""

    DEFAULT_CSS = """
    FlamePane { height: 1fr; width: 1fr; }
    """

    def __init__(self, name: str, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=f"flame-{name}")
        self.flame_view = FlameView(glyphs, FLAME_WEIGHTS[name])
        self.table_pane = TablePane(name, glyphs, chart="elsewhere")
        self.prompt = Prompt("find", "a part of a frame's name, or ~regex", glyphs)
        self.table_pane.display = False

    def compose(self) -> ComposeResult:
        """Yield the graph, the search prompt and the table."""
        yield self.flame_view
        yield self.prompt
        yield self.table_pane

    def on_mount(self) -> None:
        """Make the graph follow the table's result."""
        self.watch(self.table_pane.table, "result", self._show_result)
        self.watch(self.table_pane.table, "awaits_rows", self._await_rows)

    def _await_rows(self, awaits: bool) -> None:  # noqa: FBT001, as Textual
        self.flame_view.awaits_rows = awaits

    def _show_result(self) -> None:
        result = self.table_pane.table.result
        self.flame_view.empty = (
            self.table_pane.table.empty if result is None or result.table.is_empty() else "no time in any frame"
        )
        self.flame_view.show(result, self.table_pane.so_far)

    def focus_pane(self) -> None:
        """Focus the graph or the table."""
        if self.table_pane.display:
            self.table_pane.focus_pane()
        else:
            self.flame_view.focus()

    @on(TablePane.ChartRequested)
    def _show_graph(self, message: TablePane.ChartRequested) -> None:
        message.stop()
        self.table_pane.display, self.flame_view.display = False, True
        self.flame_view.focus()

    @on(FlameView.ActionRequested)
    def _do_action(self, message: FlameView.ActionRequested) -> None:
        message.stop()
        match message.what:
            case "table":
                self._clear_search()  # matches are bars of the graph
                self.table_pane.display, self.flame_view.display = True, False
                self.table_pane.focus_pane()
            case "find":
                self.prompt.begin()
            case "go" if message.row is not None:
                self.post_message(ResultTable.RowChosen(self.table_pane.table, message.row))
            case "window" if message.row is not None:
                self.post_message(ResultTable.WindowRequested(self.table_pane.table, message.row))

    @on(Prompt.Changed)
    def _find_frames(self, event: Prompt.Changed) -> None:
        event.stop()
        if event.prompt is self.prompt:
            self.prompt.show_remark(self.flame_view.find(event.text))

    @on(Prompt.Submitted)
    def _go_to_first_match(self, event: Prompt.Submitted) -> None:
        event.stop()
        self.flame_view.focus()
        if self.flame_view.frames is not None and self.flame_view.frames.found.any():
            self.flame_view.action_find_next(1)

    @on(Prompt.Cancelled)
    def _cancel_search(self, event: Prompt.Cancelled) -> None:
        event.stop()
        self._clear_search()
        self.flame_view.focus()

    def _clear_search(self) -> None:
        self.prompt.input.value = ""
        self.prompt.end()

    @on(Prompt.ArrowPressed)
    def _leave_prompt(self, event: Prompt.ArrowPressed) -> None:
        event.stop()
        if event.by > 0:
            self.flame_view.focus()
