"""What every pane under the timeline answers, and the pane that shows one result.

Owns the caption, the table or its chart, and the prompts about it: filter and file. Knows no trace: the screen says
what is shown, or why not, and writes files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.message import Message

from tracehound.analysis.result import Result
from tracehound.draw import in_full
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.notes import note_texts
from tracehound.draw.sentences import prose
from tracehound.draw.sheet import Section
from tracehound.ui.panes.caption import Caption
from tracehound.ui.panes.charted import ChartedTable
from tracehound.ui.screens.columns import ColumnsScreen
from tracehound.ui.state.sheet import Choice
from tracehound.ui.widgets.chart_view import ChartView
from tracehound.ui.widgets.plain_box import Column
from tracehound.ui.widgets.prompt import Prompt
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.wording import words

Span = tuple[int, int]


class TablePane(Column):
    """One result: a caption, the table, its filter, and where to save it."""

    DEFAULT_CSS = """
    TablePane { height: 1fr; width: 1fr; }
    """

    @dataclass
    class SaveAsked(Message):
        """The user wants what is shown in a file: a new one, or in the place of one that is there."""

        pane: TablePane
        path: Path
        result: Result
        window: Span | None
        how: Literal["new", "over"]

    @dataclass
    class Saved(Message):
        """What was shown is in a file; or there is one already (`taken`), or it failed."""

        asked: TablePane.SaveAsked
        taken: bool = False
        failure: str = ""

    @dataclass
    class ChartAsked(Message):
        """The user wants to see the result of a pane whose chart is elsewhere."""

        pane: TablePane

    def __init__(
        self,
        name: str,
        glyphs: Glyphs = UNICODE,
        aside: tuple[str, ...] = (),
        chart: Literal["below", "elsewhere"] = "below",
    ) -> None:
        """`aside` names columns that are told beside the table; `chart` says where it is drawn."""
        super().__init__(id=f"pane-{name}")
        self._title = name.removeprefix("diff-").replace("_", " ").replace("-", " ").capitalize()
        self._elsewhere = chart == "elsewhere"
        self.caption = Caption(glyphs)
        self.body = ChartedTable(glyphs, aside)
        self.filter = Prompt("filter", "gemm   self > 1ms and name ~ x   ~regex", glyphs)
        self.saving = Prompt("save as", "a name that ends with .csv, .json, .md or .txt", glyphs)
        self._window: Span | None = None
        self._about = ""
        self._aside = False
        self._head: tuple[str, ...] = ()
        self.so_far = ""
        self._taken = ""

    def compose(self) -> ComposeResult:
        """Caption and rows; a prompt joins when it is asked for."""
        yield self.caption
        yield self.body

    def show(self, result: Result, window: Span | None, why_empty: str, so_far: str = "", about: str = "") -> None:
        """Show a result of `window`; `why_empty` stands in place of rows, `so_far` says how much it is about.

        `about` says what its figures are of where that is neither the window nor the whole run.
        """
        self._window, self.so_far, self._about = window, so_far, about
        self.body.window = window
        self.table.empty = why_empty if result.table.is_empty() else "no row passes the filter"
        self.table.result = result
        if self.filter.input.value:
            self.filter.tell(self.table.refusal)  # its columns may be others
        self._describe()
        if self.is_attached:
            self.call_later(self._lay)

    def fail(self, message: str) -> None:
        """Say why there is no result, in place of its rows: there is room for all of it."""
        self.caption.parts = (self._title,)
        self.table.empty = message
        self.table.result = None

    def wait(self, message: str) -> None:
        """Say that a result is on its way; what is shown stays until then."""
        if self.table.result is None:
            self.caption.parts = (message,)

    def hint(self, key: str) -> None:
        """Say where something is left out what is to be pressed for all of it."""
        self.caption.key = self.body.key = key

    def set_aside(self, *, aside: bool) -> None:
        """Say in the caption whether the selected window leaves this table as it is."""
        if aside != self._aside:
            self._aside = aside
            self._describe()

    def tell(self, message: str) -> None:
        """Say in the caption what was just done, until the cursor moves on."""
        self.caption.told = message

    def forget(self) -> None:
        """Show no result, since its rows mean something else now."""
        self.table.result = None

    def on_resize(self) -> None:
        """Another width breaks lines elsewhere."""
        self.call_after_refresh(self._lay)

    def focus_pane(self) -> None:
        """Give the keys to the table."""
        self.table.focus()

    @property
    def in_full(self) -> list[Section]:
        """All that is said of what is shown, and of the row under the cursor."""
        result, shown = self.table.result, self.table.sheet
        if result is None or shown is None:
            return [in_full.notes(self.caption.parts, self.table.empty.split("\n") if self.table.empty else ())]
        row = self.table.cursor if self.display else -1
        untold = replace(result, notes=words.besides(result.notes, self.so_far))
        return in_full.in_full(untold, self._head, replace(result, table=shown.seen), row)

    def _describe(self) -> None:
        result = self.table.result
        if result is None:
            return
        self.caption.windowed = self._window is not None
        about = self._about or result.about or words.scope(self._window)
        about = words.NOT_NARROWED if self._aside and self._window is None else about
        untold = replace(result, notes=words.besides(result.notes, self.so_far))
        title, scope, *rows = words.caption(result, about, self.table.shown, self.table.filter)
        said = self.table.empty.split("\n") if result.table.is_empty() else []
        self._head = (title, scope, *filter(None, (self.so_far,)), *rows)
        self.caption.parts = (*self._head, *(text for text in note_texts(untold.notes) if text not in said))
        self.caption.fit(*self.body.wanted)

    async def _lay(self) -> None:
        """Share the room anew."""
        await self.body.lay()
        self.caption.fit(*self.body.wanted)

    # -- what the table asks for

    @on(ResultTable.Asked)
    async def _asked(self, message: ResultTable.Asked) -> None:
        message.stop()
        if message.what == "filter":
            await self._begin(self.filter)
            return
        if message.what == "unfilter":
            self._unfilter()
            return
        shown = self.table.sheet
        if shown is None:
            return
        match message.what:
            case "save":
                self._taken = ""
                self.saving.tell("")
                await self._begin(self.saving, f"{shown.result.analysis}.csv")
            case "columns":
                screen = ColumnsScreen(shown, self.table.placed, self.caption.glyphs)
                self.app.push_screen(screen, self._choose)
            case "chart" if self._elsewhere:
                self.post_message(self.ChartAsked(self))
            case "chart":
                await self._switch_chart()
            case "hide":
                self.table.choice = shown.without(self.table.meant, self.table.placed)
            case "copy cell" | "copy row" if self.table.shown and self.table.placed:
                self._copy(message.what)

    def _choose(self, choice: Choice | None) -> None:
        if choice is not None:
            self.table.choice = choice

    def _copy(self, what: Literal["copy cell", "copy row"]) -> None:
        """Put words into the clipboard of the terminal, uncut; those of a row with tabs between them."""
        shown, table = self.table.sheet, self.table
        if shown is not None:
            names = table.placed if what == "copy row" else (table.meant,)
            text = "\t".join(shown.text(table.cursor, name) for name in names)
            self.app.copy_to_clipboard(text)
            self.tell(f"copied {text}" if what == "copy cell" else f"copied the row, {len(names)} cells")

    async def _begin(self, prompt: Prompt, text: str = "") -> None:
        """Open a prompt with its last text, or with one that is only suggested."""
        if not prompt.is_attached:
            await self.mount(prompt)
        if text:
            prompt.suggest(text)
        else:
            prompt.begin()

    # -- the chart

    @property
    def table(self) -> ResultTable:
        """The rows."""
        return self.body.table

    @property
    def chart(self) -> ChartView:
        """What is drawn of them."""
        return self.body.chart

    @property
    def charted(self) -> bool:
        """Whether there is a chart."""
        return self.body.charted

    async def _switch_chart(self) -> None:
        """Another way of showing it; a chart has most of what it shares with another table."""
        await self.body.switch()
        self.caption.fit(*self.body.wanted)
        self.styles.height = "4fr" if self.body.mode == "chart" else "1fr"
        if self.table.result is not None and prose(self.table.result):
            self.tell(f"no chart of sentences: {'the rows alone' if self.body.mode == 'table' else 'the row in full'}")

    @on(ResultTable.Highlighted)
    def _highlighted(self) -> None:
        self.caption.told = ""
        self.body.draw()

    # -- prompts

    @on(Prompt.Changed)
    def _typed(self, event: Prompt.Changed) -> None:
        event.stop()
        if event.prompt is self.filter:
            self.table.needle = event.text
            self.filter.tell(self.table.refusal)
            self._describe()
        elif event.text != self._taken:
            self._taken = ""
            self.saving.tell("")

    @on(Prompt.Submitted)
    def _submitted(self, event: Prompt.Submitted) -> None:
        event.stop()
        shown = self.table.sheet
        if event.prompt is self.filter:
            self._to_rows()
        elif shown is not None:
            how: Literal["new", "over"] = "over" if event.text == self._taken else "new"
            path = Path(os.path.expanduser(event.text.strip()))  # noqa: PTH111 - Path's raises where there is no home
            self.post_message(self.SaveAsked(self, path, shown.saved, self._window, how))

    @on(Prompt.Left)
    def _left(self, event: Prompt.Left) -> None:
        event.stop()
        if event.prompt is self.filter:
            self._unfilter()
        else:
            self._to_rows()

    def _unfilter(self) -> None:
        """Show all rows again."""
        self.filter.input.value = ""
        self._to_rows()

    @on(Prompt.Moved)
    def _moved(self, event: Prompt.Moved) -> None:
        event.stop()
        if event.prompt is self.filter and event.by > 0:
            self._to_rows()

    def _to_rows(self) -> None:
        """Leave the prompts; the filter stays in sight while there is one."""
        self.saving.end()
        if not self.filter.input.value:
            self.filter.end()
        self.table.focus()

    @on(Saved)
    def _saved(self, message: Saved) -> None:
        message.stop()
        asked = message.asked
        if message.taken:
            self._taken = self.saving.input.value
            self.saving.tell("is there already: Enter again replaces it")
        elif message.failure:
            self.saving.tell(message.failure)
        else:
            self._to_rows()
            rows = asked.result.table.height
            self.tell(f"saved {rows:,} row{'' if rows == 1 else 's'} as {asked.path}")
