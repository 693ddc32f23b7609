"""Pane with a SQL prompt and the table of its answer.

Owns the prompt, its history, and the messages while a query runs. The screen runs the query.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.message import Message

from tracehound.analysis import NAMES
from tracehound.analysis.result import Result
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.query import ALL_TABLES
from tracehound.ui.panes.table_pane import TablePane, TimeWindow
from tracehound.ui.widgets.boxes_and_scroll_bars import VerticalBox
from tracehound.ui.widgets.prompts import Prompt

EXAMPLE_QUERY = "SELECT name, count(*) AS runs, sum(duration) AS total FROM events GROUP BY name ORDER BY total DESC"
QUERY_HELP = (
    f"tables: {', '.join(table.name for table in ALL_TABLES if table.name not in NAMES)}, "
    "and every analysis in the menu, such as steps, ops or gaps. Times are written 1.5ms. "
    "Enter on a row goes to its event where the query selects id, "
    "or to its window where it selects start and duration. tracehound query --tables lists the columns."
)


class QueryPane(VerticalBox):
    """SQL prompt above the table of the answer."""

    DEFAULT_CSS = "QueryPane Prompt { display: block; }"

    @dataclass
    class QuerySubmitted(Message):
        """The user submitted a query."""

        pane: QueryPane
        statement: str

    @dataclass
    class QueryCancelled(Message):
        """The user cancelled the running query."""

    @dataclass
    class QueryAnswered(Message):
        """Answer of a query in the window, with how much is read (`so_far`), or the reason why it failed."""

        statement: str
        result: Result | None
        window: TimeWindow | None = None
        so_far: str = ""
        failure: str = ""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="pane-query")
        self.prompt = Prompt("sql", EXAMPLE_QUERY, glyphs)
        self.answer = TablePane("query-answer", glyphs)
        self.answer.table.empty = QUERY_HELP
        self.history: list[str] = []
        self._history_index = 0
        self._running_query = ""

    def compose(self) -> ComposeResult:
        """Yield the prompt and the table."""
        yield self.prompt
        yield self.answer

    def on_mount(self) -> None:
        """Show the help text."""
        self.answer.show_hint("Query")

    def focus_pane(self) -> None:
        """Focus the prompt."""
        self.prompt.begin()

    @on(Prompt.Submitted)
    def _run_query(self, event: Prompt.Submitted) -> None:
        event.stop()
        statement = event.text.strip()
        if statement:
            self.history = [*(said for said in self.history if said != statement), statement]
            self._history_index = len(self.history)
            self._running_query = statement
            self.answer.table.result = None
            self.answer.table.empty = ""
            self.answer.show_waiting("Query: running, Esc stops it")
            self.post_message(self.QuerySubmitted(self, statement))

    @on(Prompt.Changed)
    def _ignore_change(self, event: Prompt.Changed) -> None:
        event.stop()

    @on(Prompt.ArrowPressed)
    def _browse_history(self, event: Prompt.ArrowPressed) -> None:
        """Go through the history. Below its end the prompt is empty, and then the table takes the focus."""
        event.stop()
        if event.by > 0 and self._history_index >= len(self.history):
            self.answer.focus_pane()
            return
        self._history_index = max(0, min(self._history_index + event.by, len(self.history)))
        self.prompt.begin(self.history[self._history_index] if self._history_index < len(self.history) else "")

    @on(Prompt.Cancelled)
    def _cancel_query(self, event: Prompt.Cancelled) -> None:
        """Cancel the running query, else focus the table."""
        event.stop()
        if self._running_query:
            self.post_message(self.QueryCancelled())
        else:
            self.answer.focus_pane()

    @on(QueryAnswered)
    def _show_answer(self, message: QueryAnswered) -> None:
        message.stop()
        if message.statement != self._running_query:
            return
        self._running_query = ""
        if message.result is None:
            self.answer.show_failure(message.failure)
            return
        self.answer.show(message.result, message.window, "no row: nothing in the trace is so", message.so_far)
        if self.prompt.input.has_focus and message.result.table.height:
            self.answer.focus_pane()
