"""Pane that shows one collective on all ranks: arrival, wait and transfer of each, and the last rank.

Owns the selected collective and the rank under the cursor. `draw` has the characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import polars as pl
from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tracehound.analysis.result import Result
from tracehound.draw import result_details
from tracehound.draw.charts.arrival_bars import (
    HEADER_LINES,
    ArrivalLine,
    ArrivalStyle,
    CollectiveArrivals,
    draw_header,
    draw_rank_line,
)
from tracehound.draw.fact_layout import FactSection
from tracehound.draw.folded_rows import fold_rows
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.text_wrapping import wrap_paragraphs
from tracehound.ui.bindings.keys import textual_bindings
from tracehound.ui.themes import appearance_of
from tracehound.ui.widgets.cursor_list import DrawnResult
from tracehound.ui.wording import messages

TimeWindow = tuple[int, int]

_SEGMENT_KINDS: Final[Mapping[str, str]] = {"wait": "sync", "transfer": "collective"}


class ArrivalsPane(DrawnResult, can_focus=True, inherit_bindings=False):
    """One bar for each rank, or ranks that are alike, first arrival on top: wait, then transfer."""

    BINDINGS = textual_bindings("arrivals")
    BINDING_GROUP_TITLE = "Arrivals"
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"arrivals-pane--{part}" for part in ("title", "focus", "dim", "cursor", "last")
    }
    DEFAULT_CSS = """
    ArrivalsPane {
        height: 1fr; width: 1fr; color: $text;
        & > .arrivals-pane--title { color: $text; text-style: bold; }
        & > .arrivals-pane--focus { color: $accent; text-style: bold; }
        & > .arrivals-pane--dim { color: $text-muted; }
        & > .arrivals-pane--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
        & > .arrivals-pane--last { color: $warning; text-style: bold; }
        &:ansi > .arrivals-pane--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
        &:nocolor > .arrivals-pane--cursor { text-style: reverse; }
    }
    """

    place: reactive[int] = reactive(0)
    """Index of the collective that is shown, in the order of first arrivals."""
    cursor: reactive[int] = reactive(0)
    """Index of the rank under the cursor, in the order of arrivals."""

    @dataclass
    class CallChosen(Message):
        """The user wants to see the call of a rank in the timeline."""

        row: dict[str, Any]

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="pane-arrivals")
        self._glyphs = glyphs
        self._scope_text = ""
        self._collective_numbers: list[int] = []
        self._shown_collective: tuple[int, CollectiveArrivals] | None = None

    # -- what it shows

    def show(self, result: Result, window: TimeWindow | None, why_empty: str, so_far: str = "") -> None:
        """Show a result of `window`.

        `why_empty` replaces the bars if there are none; `so_far` says how much of the trace is read.
        """
        here, on_last = self._cursor_event, self.collective is None or self.cursor == len(self.collective.lines) - 1
        self._result, self._shown_collective = result, None
        self._collective_numbers = result.table["number"].unique(maintain_order=True).to_list()
        self._message = why_empty if result.table.is_empty() else ""
        self._scope_text = " ".join(
            filter(None, [messages.table_scope_text(window) if window is not None else "", so_far])
        )
        kept = self._rows.filter(pl.col("event") == here) if here is not None else self._rows.clear()
        if kept.height:
            self.place = self._collective_numbers.index(kept["number"][0])
            self._restore_cursor(here, on_last=on_last)
        else:
            self.action_latest()
        self.awaits_rows = False
        self.refresh()

    def _restore_cursor(self, event: int | None, *, on_last: bool) -> None:
        """Keep the cursor on its call. If it was on the last to arrive, it follows the last."""
        calls = [row["event"] for row in self.collective.lines] if self.collective is not None else []
        self.cursor = calls.index(event) if event in calls and not on_last else len(calls) - 1

    def clear_result(self) -> None:
        """Remove the result, since its rows no longer mean the same."""
        self._shown_collective, self._collective_numbers = None, []
        super().clear_result()

    @property
    def _rows(self) -> pl.DataFrame:
        return pl.DataFrame() if self._result is None else self._result.table

    @property
    def has_no_rows(self) -> bool:
        """True without a call."""
        return not self._collective_numbers

    @property
    def collective(self) -> CollectiveArrivals | None:
        """The collective that is shown."""
        if not self._collective_numbers:
            return None
        if self._shown_collective is None or self._shown_collective[0] != self.place:
            rows = self._rows.filter(pl.col("number") == self._collective_numbers[self.place])
            collective = CollectiveArrivals(rows.rows(named=True), self.place, len(self._collective_numbers))
            if self._result is not None:
                alike = rows if collective.several_last else rows.head(-1)  # who is last has a line
                folded = fold_rows(replace(self._result, table=alike, all_rows=None)).table
                lines = [*folded.rows(named=True), *collective.rows[alike.height :]]
                collective = replace(collective, folded=lines)
            self._shown_collective = (self.place, collective)
        return self._shown_collective[1]

    @property
    def full_text(self) -> list[FactSection]:
        """All notes of the result, and the call under the cursor, as sections of text."""
        if self._result is None:
            return [result_details.notes_section(("Arrivals",), (self._message,))]
        head = [self._result.title, *filter(None, (self._scope_text, self._result.shown_rows_text))]
        shown = replace(self._result, table=self._rows.filter(pl.col("event") == self._cursor_event))
        return result_details.result_sections(self._result, head, shown, 0)

    @property
    def _cursor_event(self) -> int | None:
        """Event id of the call under the cursor."""
        return self.collective.lines[self.cursor]["event"] if self.collective is not None else None

    # -- drawing

    def render_line(self, y: int) -> Strip:
        """Draw a heading line or the bar of a rank."""
        width, collective = self.size.width, self.collective
        line: ArrivalLine = []
        if collective is None:
            lines = wrap_paragraphs(self._message, max(1, width - 2))
            line = [(f" {self._glyphs.to_alphabet(lines[y])}", "dim")] if y < len(lines) else []
        elif y < HEADER_LINES:
            line = draw_header(collective, self._glyphs, width - len(self._scope_text) - 1 if y == 0 else width)[y]
            line = (
                [*line, (f" {self._glyphs.to_alphabet(self._scope_text)}", "last")]
                if y == 0 and self._scope_text
                else line
            )
        elif (number := self._first_visible_row + y - HEADER_LINES) < len(collective.lines):
            under = "cursor" if number == self.cursor and self.has_focus else "plain"
            line = draw_rank_line(collective, number, self._glyphs, width, under)  # type: ignore[arg-type]  # "cursor" or "plain"
        return Strip([Segment(text, self._style_of(sort)) for text, sort in line]).adjust_cell_length(
            width, self.rich_style
        )

    def _style_of(self, sort: ArrivalStyle) -> Style:
        if sort in _SEGMENT_KINDS:
            return self.rich_style + appearance_of(self.app, self._glyphs).kind_style(_SEGMENT_KINDS[sort])
        if sort == "plain":
            return self.rich_style
        part = "focus" if sort == "title" and self.has_focus else sort
        return self.get_component_rich_style(f"arrivals-pane--{part}", partial=False)

    @property
    def _page_size(self) -> int:
        return max(self.size.height - HEADER_LINES, 1)

    @property
    def _first_visible_row(self) -> int:
        """Index of the first rank that is visible: the smallest one that keeps the cursor visible."""
        return max(0, self.cursor - self._page_size + 1)

    # -- moving

    def validate_place(self, place: int) -> int:
        """Clamp to the collectives that exist."""
        return max(0, min(place, len(self._collective_numbers) - 1))

    def watch_place(self) -> None:
        """Put the cursor on the last rank of another collective."""
        self.cursor = len(self.collective.lines) - 1 if self.collective is not None else 0

    def validate_cursor(self, cursor: int) -> int:
        """Clamp to the ranks that exist."""
        return max(0, min(cursor, len(self.collective.lines) - 1 if self.collective is not None else 0))

    def focus_pane(self) -> None:
        """Take the focus."""
        self.focus()

    def on_focus(self) -> None:
        """Redraw with the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Redraw without the cursor."""
        self.refresh()

    def action_collective(self, by: int) -> None:
        """Go to the next collective (1) or the previous (-1)."""
        self.place += by

    def action_latest(self) -> None:
        """Go to the collective with the latest rank."""
        if self._rows.height:
            number = self._rows["number"].gather(self._rows["late"].arg_max() or 0)[0]
            self.place = self._collective_numbers.index(number)
            self.watch_place()

    def action_move(self, by: int) -> None:
        """Move the cursor by ranks."""
        self.cursor += by

    def action_page(self, by: int) -> None:
        """Move the cursor by pages of ranks."""
        self.cursor += by * self._page_size

    def action_end(self, where: int) -> None:
        """Go to the first rank that arrived (-1), or the last (1)."""
        self.cursor = 0 if where < 0 or self.collective is None else len(self.collective.lines) - 1

    def action_choose(self) -> None:
        """Show the call of the rank under the cursor in the timeline."""
        if self.collective is not None:
            self.post_message(self.CallChosen(dict(self.collective.lines[self.cursor])))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked rank; a double click shows its call in the timeline."""
        number = self._first_visible_row + event.y - HEADER_LINES
        if self.collective is not None and event.y >= HEADER_LINES and number < len(self.collective.lines):
            self.cursor = number
            if event.chain > 1:
                self.action_choose()
