"""A tree of calls as a flame graph, or as a table.

Owns which of the two is in sight, and the prompt that finds frames. Knows no trace: where a frame leads is told as if
its row had been chosen in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from textual import on
from textual.app import ComposeResult

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui.panes.pane import TablePane
from tracehound.ui.widgets.flame_view import FlameView
from tracehound.ui.widgets.frames import Weight
from tracehound.ui.widgets.plain_box import Column
from tracehound.ui.widgets.prompt import Prompt
from tracehound.ui.widgets.result_table import ResultTable

FLAMES: Mapping[str, tuple[Weight, ...]] = MappingProxyType(
    {
        "stacks": (Weight("total", "time on the host"), Weight("device_total", "device time launched")),
        "modules": (Weight("host_total", "time on the host"), Weight("device_total", "device time launched")),
    }
)
"""The results that have a flame graph, and by what their frames can be weighed."""


class FlamePane(Column):
    """The flame graph of a result, and its table in the same place."""

    DEFAULT_CSS = """
    FlamePane { height: 1fr; width: 1fr; }
    """

    def __init__(self, name: str, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=f"flame-{name}")
        self.view = FlameView(glyphs, FLAMES[name])
        self.rows = TablePane(name, glyphs, chart="elsewhere")
        self.prompt = Prompt("find", "a part of a frame's name, or ~regex", glyphs)
        self.rows.display = False

    def compose(self) -> ComposeResult:
        """The graph, what is typed to find frames, and the table."""
        yield self.view
        yield self.prompt
        yield self.rows

    def on_mount(self) -> None:
        """The graph shows what the table shows."""
        self.watch(self.rows.table, "result", self._show)

    def _show(self) -> None:
        result = self.rows.table.result
        self.view.empty = self.rows.table.empty if result is None or result.table.is_empty() else "no time in any frame"
        self.view.show(result, self.rows.so_far)

    def focus_pane(self) -> None:
        """Give the keys to what is in sight."""
        if self.rows.display:
            self.rows.focus_pane()
        else:
            self.view.focus()

    @on(TablePane.ChartAsked)
    def _to_graph(self, message: TablePane.ChartAsked) -> None:
        message.stop()
        self.rows.display, self.view.display = False, True
        self.view.focus()

    @on(FlameView.Asked)
    def _asked(self, message: FlameView.Asked) -> None:
        message.stop()
        match message.what:
            case "table":
                self._forget_found()  # which are bars of the graph
                self.rows.display, self.view.display = True, False
                self.rows.focus_pane()
            case "find":
                self.prompt.begin()
            case "go" if message.row is not None:
                self.post_message(ResultTable.Chosen(self.rows.table, message.row))
            case "window" if message.row is not None:
                self.post_message(ResultTable.WindowPicked(self.rows.table, message.row))

    @on(Prompt.Changed)
    def _typed(self, event: Prompt.Changed) -> None:
        event.stop()
        if event.prompt is self.prompt:
            self.prompt.tell(self.view.find(event.text))

    @on(Prompt.Submitted)
    def _submitted(self, event: Prompt.Submitted) -> None:
        event.stop()
        self.view.focus()
        if self.view.frames is not None and self.view.frames.found.any():
            self.view.action_find_next(1)

    @on(Prompt.Left)
    def _left(self, event: Prompt.Left) -> None:
        event.stop()
        self._forget_found()
        self.view.focus()

    def _forget_found(self) -> None:
        self.prompt.input.value = ""
        self.prompt.end()

    @on(Prompt.Moved)
    def _moved(self, event: Prompt.Moved) -> None:
        event.stop()
        if event.by > 0:
            self.view.focus()
