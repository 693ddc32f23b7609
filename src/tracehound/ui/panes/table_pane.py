"""Pane of one result: caption, table, chart, filter prompt and save prompt.

The screen supplies the result, or the reason why there is none, and writes files.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar, Final, Literal

from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tracehound.analysis.result import Result
from tracehound.draw import result_details
from tracehound.draw.fact_layout import FactSection
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.notes import note_text, note_texts, split_headline
from tracehound.draw.result_details import sentence_columns
from tracehound.draw.text_wrapping import CaptionLayout, CaptionLine, CaptionStyle, CaptionText
from tracehound.model.notes import Note
from tracehound.ui.panes.charted_table import ChartedTable
from tracehound.ui.panes.choice_dialogs import ColumnsDialog
from tracehound.ui.state.table_view import ColumnChoice
from tracehound.ui.widgets.boxes_and_scroll_bars import UnscrolledWidget, VerticalBox
from tracehound.ui.widgets.chart_view import ChartView
from tracehound.ui.widgets.prompts import Prompt
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.wording import messages

MAX_BORROWED_LINES: Final = 3
"""Most lines taken from the table below, and no more than a third of the pane."""

UNBOUNDED_LINES: Final = 1 << 16
"""More lines than any terminal has."""

SIDE_MARGIN: Final = 1
"""Empty cells on either side."""


class Caption(UnscrolledWidget):
    """Title, scope, number of rows and notes above a table."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"caption--{part}" for part in ("title", "focus", "scope", "headline", "more")
    }
    DEFAULT_CSS = """
    Caption {
        height: auto; color: $text-muted;
        & > .caption--title { color: $text; text-style: bold; }
        & > .caption--focus { color: $accent; text-style: bold; }
        & > .caption--scope { color: $accent; text-style: bold; }
        & > .caption--headline { color: $text; text-style: bold; }
        & > .caption--more { color: $accent; text-style: bold; }
    }
    """

    text: reactive[CaptionText] = reactive(CaptionText(), repaint=False)
    """Title, scope, number of rows, and notes."""
    told: reactive[str] = reactive("", repaint=False)
    """Message about the last action, shown after the scope for a while."""
    windowed: reactive[bool] = reactive(default=False)
    """True if the scope is a selected window."""
    focused: reactive[bool] = reactive(default=False, repaint=False)
    """True if the table below or a prompt has the focus: the title is marked."""

    def __init__(self, glyphs: Glyphs, key: str = "") -> None:
        """`key` shows what is cut."""
        super().__init__()
        self.glyphs = glyphs
        self.key = key
        self._lines_below = (UNBOUNDED_LINES, 0)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines for all parts, limited to free lines and to those that the table can spare."""
        del viewport
        room, (most, least) = container.height, self._lines_below
        needed = self._layout(width).count_lines(self.text)
        return max(1, min(needed, max(room - most, min(MAX_BORROWED_LINES, (room - 2) // 3, room - least))))

    def fit(self, most: int, least: int) -> None:
        """Set the preferred (`most`) and the least number of lines of the table below."""
        if (most, least) != self._lines_below:
            self._lines_below = (most, least)
            self.refresh(layout=True)

    def watch_text(self, old: CaptionText, new: CaptionText) -> None:
        """Redraw; lay out again only if the number of lines changes."""
        layout = self._layout(self.size.width)
        if self.size.width <= 2 * SIDE_MARGIN or layout.count_lines(old) != layout.count_lines(new):
            self.refresh(layout=True)
        self._refresh_changed_lines(self._wrapped_lines(old, self.told), self._wrapped_lines(new, self.told))

    def watch_focused(self) -> None:
        """Redraw the title."""
        self.refresh(Region(0, 0, self.size.width, 1))

    def watch_told(self, old: str, new: str) -> None:
        """Redraw the changed lines."""
        self._refresh_changed_lines(self._wrapped_lines(self.text, old), self._wrapped_lines(self.text, new))

    def render_line(self, y: int) -> Strip:
        """Draw one line; the last has an ellipsis if parts are cut."""
        lines = self._wrapped_lines(self.text, self.told)
        segments = [Segment(piece.words, self._style_of(piece.sort)) for piece in (lines[y] if y < len(lines) else [])]
        mark = self.glyphs.cursor if self.focused and y == 0 else " "
        margin = Segment(f"{mark:<{SIDE_MARGIN}}", self._style_of("title") if y == 0 else self.rich_style)
        return Strip([margin, *segments]).adjust_cell_length(self.size.width, self.rich_style)

    def _layout(self, width: int) -> CaptionLayout:
        return CaptionLayout(self.glyphs, max(1, width - 2 * SIDE_MARGIN), self.key)

    def _wrapped_lines(self, text: CaptionText, told: str) -> list[CaptionLine]:
        """All lines as pieces of text."""
        heading = (*text.heading[:2], *([told] if told else []), *text.heading[2:])
        return self._layout(self.size.width).lay_out(replace(text, heading=heading), max(1, self.size.height))

    def _refresh_changed_lines(self, old: list[CaptionLine], new: list[CaptionLine]) -> None:
        """Refresh the lines that differ."""
        changed = [y for y, (before, after) in enumerate(zip_longest(old, new)) if before != after]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def _style_of(self, sort: CaptionStyle) -> Style:
        if sort == "plain" or (sort == "scope" and not self.windowed):
            return self.rich_style
        part = "focus" if sort == "title" and self.focused else sort
        return self.get_component_rich_style(f"caption--{part}", partial=False)


def caption_text(heading: Sequence[str], notes: Sequence[Note], said: Collection[str] = ()) -> CaptionText:
    """The caption of a result with these notes, without those that are `said` elsewhere."""
    headline, others = split_headline(notes)
    texts = tuple(text for text in note_texts(others) if text not in said)
    first = "" if headline is None else note_text(headline)
    return CaptionText(tuple(heading), "" if first in said else first, texts)


TimeWindow = tuple[int, int]


class TablePane(VerticalBox):
    """One result: a caption, the table or its chart, and the prompts for a filter and a file name."""

    DEFAULT_CSS = """
    TablePane { height: 1fr; width: 1fr; }
    """

    @dataclass
    class SaveRequested(Message):
        """The user wants to save the rows, in a new file or over an existing one."""

        pane: TablePane
        path: Path
        result: Result
        window: TimeWindow | None
        how: Literal["new", "over"]

    @dataclass
    class SaveFinished(Message):
        """The file is saved; or it exists already (`taken`), or saving failed."""

        asked: TablePane.SaveRequested
        taken: bool = False
        failure: str = ""

    @dataclass
    class ChartRequested(Message):
        """The user wants to see the chart of a result, which another widget draws."""

        pane: TablePane

    def __init__(
        self,
        name: str,
        glyphs: Glyphs = UNICODE,
        aside: tuple[str, ...] = (),
        chart: Literal["below", "elsewhere"] = "below",
    ) -> None:
        """`aside` names columns that are shown beside the table; `chart` says where the chart is drawn."""
        super().__init__(id=f"pane-{name}")
        self._title = name.removeprefix("diff-").replace("_", " ").replace("-", " ").capitalize()
        self._chart_elsewhere = chart == "elsewhere"
        self.caption = Caption(glyphs)
        self.charted_table = ChartedTable(glyphs, aside)
        self.filter_prompt = Prompt("filter", "gemm   self > 1ms and name ~ x   ~regex", glyphs)
        self.save_prompt = Prompt("save as", "a name that ends with .csv, .json, .md or .txt", glyphs)
        self._window: TimeWindow | None = None
        self._basis = ""
        self._ignores_window = False
        self._heading: tuple[str, ...] = ()
        self.so_far = ""
        self._existing_path = ""

    def compose(self) -> ComposeResult:
        """Yield caption and table; a prompt is mounted when it is first opened."""
        yield self.caption
        yield self.charted_table

    def show(
        self, result: Result, window: TimeWindow | None, why_empty: str, so_far: str = "", about: str = ""
    ) -> None:
        """Show a result of `window`.

        `why_empty` replaces the rows if there are none; `so_far` says how much of the trace is read.

        `about` says what the numbers are of, where that is neither the window nor the whole run.
        """
        self._window, self.so_far, self._basis = window, so_far, about
        self.charted_table.window = window
        self.table.empty = why_empty if result.table.is_empty() else "no row passes the filter"
        self.table.result = result
        if self.filter_prompt.input.value:
            self.filter_prompt.show_remark(self.table.filter_error)  # the columns may have changed
        self._update_caption()
        self.table.awaits_rows = False
        if self.is_attached:
            self.call_later(self._lay_out)

    def show_failure(self, message: str) -> None:
        """Show why there is no result, in place of the rows."""
        self.caption.text = CaptionText((self._title,))
        self.table.empty = message
        self.table.result = None
        self.table.forget_postponed()
        self.table.awaits_rows = False

    def show_waiting(self, message: str) -> None:
        """Show that a result is being computed, unless one is shown; keys that need its rows wait for it."""
        self.show_hint(message)
        self.table.awaits_rows = self.table.result is None

    def show_hint(self, message: str) -> None:
        """Show what the pane is for, unless a result is shown."""
        if self.table.result is None:
            self.caption.text = CaptionText((message,))

    def set_full_text_key(self, key: str) -> None:
        """Set the key that the pane names where text is cut."""
        self.caption.key = self.charted_table.key = key

    def set_ignores_window(self, *, ignores: bool) -> None:
        """Set whether the selected window does not change this table; the caption says so."""
        if ignores != self._ignores_window:
            self._ignores_window = ignores
            self._update_caption()

    def show_message(self, message: str) -> None:
        """Show a message about the last action in the caption, until the cursor moves."""
        self.caption.told = message

    def clear_result(self) -> None:
        """Remove the result, since its rows no longer mean the same."""
        self.table.result = None

    def on_resize(self) -> None:
        """Wrap lines for another width."""
        self.call_after_refresh(self._lay_out)

    def on_descendant_focus(self) -> None:
        """Mark the title."""
        self.caption.focused = True

    def on_descendant_blur(self) -> None:
        """Mark the title no longer."""
        self.caption.focused = False

    def focus_pane(self) -> None:
        """Focus the table."""
        self.table.focus()

    @property
    def full_text(self) -> list[FactSection]:
        """All notes of the result, and the row under the cursor, as sections of text."""
        result, shown = self.table.result, self.table.sheet
        if result is None or shown is None:
            return [
                result_details.notes_section(
                    self.caption.text.heading, self.table.empty.split("\n") if self.table.empty else ()
                )
            ]
        row = self.table.cursor if self.display else -1
        untold = replace(shown.folded, notes=messages.notes_not_yet_said(result.notes, self.so_far))
        return result_details.result_sections(untold, self._heading, replace(untold, table=shown.visible_rows), row)

    def _update_caption(self) -> None:
        result, shown = self.table.result, self.table.sheet
        if result is None or shown is None:
            return
        self.caption.windowed = self._window is not None
        scope = messages.table_scope_text(self._window)
        about = scope if self._ignores_window and self._window is None else self._basis or result.about or scope
        untold = replace(result, notes=messages.notes_not_yet_said(result.notes, self.so_far))
        title, scope, *rows = messages.table_caption(shown, about)
        said = self.table.empty.split("\n") if result.table.is_empty() else []
        self._heading = (title, scope, *filter(None, (self.so_far,)), *rows)
        self.caption.text = caption_text(self._heading, untold.notes, said)
        self.caption.fit(*self.charted_table.height_range)

    async def _lay_out(self) -> None:
        """Divide the space between caption, table and chart."""
        await self.charted_table.lay_out()
        self.caption.fit(*self.charted_table.height_range)

    # -- what the table asks for

    @on(ResultTable.ActionRequested)
    async def _do_action(self, message: ResultTable.ActionRequested) -> None:
        message.stop()
        if message.what == "filter":
            await self._open_prompt(self.filter_prompt)
            return
        if message.what == "unfilter":
            self._clear_filter()
            return
        shown = self.table.sheet
        if message.what == "save":
            self._existing_path = ""
            self.save_prompt.show_remark("")
            name = self._title.lower().replace(" ", "_") if shown is None else shown.result.analysis
            await self._open_prompt(self.save_prompt, f"{name}.csv")
            return
        if shown is None:
            return
        match message.what:
            case "columns":
                screen = ColumnsDialog(shown, self.table.visible_column_names, self.caption.glyphs)
                self.app.push_screen(screen, self._choose_columns)
            case "chart" if self._chart_elsewhere:
                self.post_message(self.ChartRequested(self))
            case "chart":
                await self._next_chart_mode()
            case "hide":
                self.table.choice = shown.without(self.table.current_column, self.table.visible_column_names)
            case "copy cell" | "copy row" if self.table.passing_row_count and self.table.visible_column_names:
                self._copy_cells(message.what)

    def _choose_columns(self, choice: ColumnChoice | None) -> None:
        if choice is not None:
            self.table.choice = choice

    def _copy_cells(self, what: Literal["copy cell", "copy row"]) -> None:
        """Copy the uncut cell, or all cells of the row separated by tabs, to the terminal's clipboard."""
        shown, table = self.table.sheet, self.table
        if shown is not None:
            names = table.visible_column_names if what == "copy row" else (table.current_column,)
            text = "\t".join(shown.text(table.cursor, name) for name in names)
            self.app.copy_to_clipboard(text)
            self.show_message(f"copied {text}" if what == "copy cell" else f"copied the row, {len(names)} cells")

    async def _open_prompt(self, prompt: Prompt, text: str = "") -> None:
        """Open a prompt with its last text, or with a suggested one."""
        if not prompt.is_attached:
            await self.mount(prompt)
        if text:
            prompt.suggest(text)
        else:
            prompt.begin()

    # -- the chart

    @property
    def table(self) -> ResultTable:
        """Table of the rows."""
        return self.charted_table.table

    @property
    def chart(self) -> ChartView:
        """Chart of the rows."""
        return self.charted_table.chart

    @property
    def chart_visible(self) -> bool:
        """True if the chart is visible."""
        return self.charted_table.chart_visible

    async def _next_chart_mode(self) -> None:
        """Switch to the next layout; a chart alone gets most of the space that the pane shares with another."""
        await self.charted_table.switch_chart_mode()
        self.caption.fit(*self.charted_table.height_range)
        self.styles.height = "4fr" if self.charted_table.mode == "chart" else "1fr"
        if self.table.result is not None and sentence_columns(self.table.result):
            shown = "the rows alone" if self.charted_table.mode == "table" else "the row in full"
            self.show_message(f"no chart of sentences: {shown}")

    @on(ResultTable.RowHighlighted)
    def _follow_cursor(self) -> None:
        self.caption.told = ""
        self.charted_table.draw_chart()

    # -- prompts

    @on(Prompt.Changed)
    def _prompt_text_changed(self, event: Prompt.Changed) -> None:
        event.stop()
        if event.prompt is self.filter_prompt:
            self.table.needle = event.text
            self.filter_prompt.show_remark(self.table.filter_error)
            self._update_caption()
        elif event.text != self._existing_path:
            self._existing_path = ""
            self.save_prompt.show_remark("")

    @on(Prompt.Submitted)
    def _prompt_submitted(self, event: Prompt.Submitted) -> None:
        event.stop()
        shown = self.table.sheet
        if event.prompt is self.filter_prompt:
            self._focus_rows()
        elif shown is not None:
            how: Literal["new", "over"] = "over" if event.text == self._existing_path else "new"
            path = Path(os.path.expanduser(event.text.strip()))  # noqa: PTH111 - Path's raises where there is no home
            self.post_message(self.SaveRequested(self, path, shown.result_to_save, self._window, how))
        else:
            self.save_prompt.show_remark("no rows yet")

    @on(Prompt.Cancelled)
    def _prompt_cancelled(self, event: Prompt.Cancelled) -> None:
        event.stop()
        if event.prompt is self.filter_prompt:
            self._clear_filter()
        else:
            self._focus_rows()

    def _clear_filter(self) -> None:
        """Show all rows again."""
        self.filter_prompt.input.value = ""
        self._focus_rows()

    @on(Prompt.ArrowPressed)
    def _leave_filter_prompt(self, event: Prompt.ArrowPressed) -> None:
        event.stop()
        if event.prompt is self.filter_prompt and event.by > 0:
            self._focus_rows()

    def _focus_rows(self) -> None:
        """Close the prompts and focus the table; the filter prompt stays open while there is a filter."""
        self.save_prompt.end()
        if not self.filter_prompt.input.value:
            self.filter_prompt.end()
        self.table.focus()

    @on(SaveFinished)
    def _report_saved_file(self, message: SaveFinished) -> None:
        message.stop()
        asked = message.asked
        if message.taken:
            self._existing_path = self.save_prompt.input.value
            self.save_prompt.show_remark("is there already: Enter again replaces it")
        elif message.failure:
            self.save_prompt.show_remark(message.failure)
        else:
            self._focus_rows()
            rows = asked.result.table.height
            self.show_message(f"saved {rows:,} row{'' if rows == 1 else 's'} as {asked.path}")
