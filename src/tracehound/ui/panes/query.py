"""Where a question in SQL is typed, and its answer.

Owns the prompt, its history, and what is said while a query runs. Knows no trace: the screen has it answered.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.message import Message

from tracehound.analysis import NAMES
from tracehound.analysis.result import Result
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.query import TABLES
from tracehound.ui.panes.pane import Span, TablePane
from tracehound.ui.widgets.plain_box import Column
from tracehound.ui.widgets.prompt import Prompt

HINT = "SELECT name, count(*) AS runs, sum(duration) AS total FROM events GROUP BY name ORDER BY total DESC"
NOTHING = (
    f"tables: {', '.join(table.name for table in TABLES if table.name not in NAMES)}, and every analysis in the menu, "
    "such as steps, ops or gaps. Times are written 1.5ms. Enter on a row goes to its event where the query selects id, "
    "or to its window where it selects start and duration. tracehound query --tables lists the columns."
)


class QueryPane(Column):
    """A prompt above the table of what it found."""

    DEFAULT_CSS = "QueryPane Prompt { display: block; }"

    @dataclass
    class Asked(Message):
        """A query is to be answered."""

        pane: QueryPane
        statement: str

    @dataclass
    class Stopped(Message):
        """The answer is not wanted any more."""

    @dataclass
    class Answered(Message):
        """What a query found in the window, of as much as is read (`so_far`); or why there is no answer."""

        statement: str
        result: Result | None
        window: Span | None = None
        so_far: str = ""
        failure: str = ""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="pane-query")
        self.prompt = Prompt("sql", HINT, glyphs)
        self.found = TablePane("query-answer", glyphs)
        self.found.table.empty = NOTHING
        self.history: list[str] = []
        self._place = 0
        self._awaited = ""

    def compose(self) -> ComposeResult:
        """The prompt and the table."""
        yield self.prompt
        yield self.found

    def on_mount(self) -> None:
        """Say what there is to ask."""
        self.found.wait("Query")

    def focus_pane(self) -> None:
        """Give the keys to the prompt."""
        self.prompt.begin()

    @on(Prompt.Submitted)
    def _submitted(self, event: Prompt.Submitted) -> None:
        event.stop()
        statement = event.text.strip()
        if statement:
            self.history = [*(said for said in self.history if said != statement), statement]
            self._place = len(self.history)
            self._awaited = statement
            self.found.table.result = None
            self.found.table.empty = ""
            self.found.wait("Query: running, Esc stops it")
            self.post_message(self.Asked(self, statement))

    @on(Prompt.Changed)
    def _changed(self, event: Prompt.Changed) -> None:
        event.stop()

    @on(Prompt.Moved)
    def _moved(self, event: Prompt.Moved) -> None:
        """Through the history; below its end the prompt is empty, and then come the rows."""
        event.stop()
        if event.by > 0 and self._place >= len(self.history):
            self.found.focus_pane()
            return
        self._place = max(0, min(self._place + event.by, len(self.history)))
        self.prompt.begin(self.history[self._place] if self._place < len(self.history) else "")

    @on(Prompt.Left)
    def _left(self, event: Prompt.Left) -> None:
        """Stop what runs, else go to the rows."""
        event.stop()
        if self._awaited:
            self.post_message(self.Stopped())
        else:
            self.found.focus_pane()

    @on(Answered)
    def _answered(self, message: Answered) -> None:
        message.stop()
        if message.statement != self._awaited:
            return
        self._awaited = ""
        if message.result is None:
            self.found.fail(message.failure)
            return
        self.found.show(message.result, message.window, "no row: nothing in the trace is so", message.so_far)
        if self.prompt.input.has_focus and message.result.table.height:
            self.found.focus_pane()
