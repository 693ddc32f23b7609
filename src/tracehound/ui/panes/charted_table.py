"""Table of a result with its chart: side by side, one below the other, or one alone.

Owns the layout, and redraws the chart when the rows or the cursor change. Data that the table lacks is requested by a
message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from textual import events, on
from textual.app import ComposeResult
from textual.message import Message

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.result import Result
from tracehound.draw.charts import analysis_charts, histograms
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.result_details import draw_row_sentences, sentence_columns
from tracehound.draw.text_wrapping import wrap_paragraphs
from tracehound.ui.state.table_view import TableView
from tracehound.ui.widgets.boxes_and_scroll_bars import HorizontalBox
from tracehound.ui.widgets.chart_view import ChartView
from tracehound.ui.widgets.result_table import ResultTable

TimeWindow = tuple[int, int]
ChartMode = Literal["table", "beside", "below", "chart"]

DURATION_CHARTS: Final = ("ops", "kernels", "annotations", "collectives", "search", "slices")
"""Analyses whose rows count many events: the chart shows the durations of the events of the row under the cursor."""

COMPANION_SETTINGS: Final[Mapping[str, ChosenSettings]] = MappingProxyType({"launches": (("by", "launch"),)})
"""Analyses whose chart needs a second result of the same analysis, with the settings of that."""

NO_CHART_AT_FIRST: Final = ("overview", "host", "search", "query", "gaps")
"""Analyses that show no chart until the user asks for it."""

SIDE_BY_SIDE_WIDTH: Final = 124
"""Width in cells from which the chart stands beside the table."""

MIN_SENTENCE_LINES: Final = 6
"""Minimum of lines for a row in sentences below the table."""

MIN_TABLE_ROWS: Final = 3
"""Rows that stay visible above it."""

UNBOUNDED_HEIGHT: Final = 1 << 16
"""More lines than any terminal has."""

MAX_MEASURED_ROWS: Final = 64
"""Number of rows that are measured to find the longest."""


class ChartedTable(HorizontalBox):
    """Table of a result, and a chart if it has one."""

    DEFAULT_CSS = "ChartedTable ResultTable { height: 1fr; width: 2fr; } ChartedTable ChartView { width: 1fr; }"

    @dataclass
    class DurationsRequested(Message):
        """Request for the durations of the events of this row, in a window."""

        charted_table: ChartedTable
        row: Mapping[str, Any]
        window: TimeWindow | None

    @dataclass
    class DurationsReady(Message):
        """Durations of the events of a row, in ps, and the rank of each (-1: none)."""

        row: Mapping[str, Any]
        lengths: npt.NDArray[np.int64]
        ranks: npt.NDArray[np.int64]

    @dataclass
    class CompanionRequested(Message):
        """Request for the second result that the chart needs."""

        charted_table: ChartedTable
        analysis: str
        given: ChosenSettings
        window: TimeWindow | None

    @dataclass
    class CompanionReady(Message):
        """Second result of the analysis, for the requested window."""

        result: Result
        window: TimeWindow | None

    @dataclass
    class ChartFailed(Message):
        """Reason why the data of the chart is missing."""

        words: str

    def __init__(self, glyphs: Glyphs = UNICODE, aside: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.table = ResultTable(glyphs, aside)
        self.chart = ChartView(glyphs)
        self.window: TimeWindow | None = None
        self.key = ""
        """Key that shows the full text of a row, named where the row is cut."""
        self._chosen_mode: ChartMode | None = None
        self._laid_out_mode: ChartMode = "table"
        self._companion: tuple[Result, TimeWindow | None, Result] | None = None
        self._drawn_rows: tuple[TableView, str, int] | None = None
        self._row_of_durations: Mapping[str, Any] | None = None

    def compose(self) -> ComposeResult:
        """Yield the table; the chart is mounted when it is first shown."""
        yield self.table

    @property
    def mode(self) -> ChartMode:
        """Current layout: the user's choice if it fits, else the default."""
        room = self.size.width >= SIDE_BY_SIDE_WIDTH
        if self._chosen_mode is not None and self._chosen_mode in self._available_modes:
            return self._chosen_mode
        result = self.table.result
        plain = result is None or result.analysis in NO_CHART_AT_FIRST or result.table.is_empty()
        return "table" if plain or not (room or self._has_sentences) else self._available_modes[0]

    @property
    def _has_sentences(self) -> bool:
        """True if rows are sentences, which are shown in full outside the table."""
        return self.table.result is not None and bool(sentence_columns(self.table.result))

    @property
    def _available_modes(self) -> tuple[ChartMode, ...]:
        """Layouts that fit, in the order in which the key cycles through them."""
        if self.size.width >= SIDE_BY_SIDE_WIDTH:
            return ("beside", "chart", "table")
        return ("below", "table") if self._has_sentences else ("table", "chart")

    @property
    def chart_visible(self) -> bool:
        """True if the chart is visible."""
        return self.chart.is_attached and bool(self.chart.display)

    async def switch_chart_mode(self) -> None:
        """Switch to the next layout that fits: chart beside the table, chart alone, table alone."""
        modes, mode = self._available_modes, self.mode
        self._chosen_mode = modes[(modes.index(mode) + 1) % len(modes)]
        await self.lay_out()

    async def lay_out(self) -> None:
        """Divide the space as the layout says."""
        mode = self.mode
        if mode != self._laid_out_mode:
            self._laid_out_mode = mode
            if mode != "table" and not self.chart.is_attached:
                await self.mount(self.chart, after=self.table)
            self.chart.display = mode != "table"
            self.styles.layout = "horizontal" if mode in ("table", "beside") else "vertical"
            self.table.styles.height = ResultTable.HEADER + 1 if mode == "chart" else "1fr"
            self.table.styles.width = "2fr" if mode in ("table", "beside") else "1fr"
            self.chart.styles.width = "1fr"
            self.table.call_after_refresh(self.table.scroll_to_cursor)
        self.chart.styles.height = self._chart_lines if mode == "below" else "1fr"
        self.draw_chart()

    @property
    def height_range(self) -> tuple[int, int]:
        """Preferred and least number of lines; a chart fills any number."""
        mode, rows = self.mode, self._row_count
        if mode == "below":
            return ResultTable.HEADER + rows + self._longest_row_lines, ResultTable.HEADER + min(
                rows, MIN_TABLE_ROWS
            ) + MIN_SENTENCE_LINES
        return (UNBOUNDED_HEIGHT if mode != "table" or not rows else ResultTable.HEADER + rows), 0

    @property
    def _row_count(self) -> int:
        """Number of rows of the table."""
        return 0 if self.table.sheet is None else self.table.sheet.folded.table.height

    @property
    def _longest_row_lines(self) -> int:
        """Lines of the longest row in sentences."""
        result, width = self.table.result, max(1, self.size.width - 2)
        if result is None:
            return 0
        sizes = (
            len(draw_row_sentences(result, row, (width, UNBOUNDED_HEIGHT)))
            for row in range(min(result.table.height, MAX_MEASURED_ROWS))
        )
        return max(sizes, default=0)

    @property
    def _chart_lines(self) -> int:
        """Lines for the sentences below the table: all free lines, else up to half of the pane."""
        room, longest = self.size.height - ResultTable.HEADER, self._longest_row_lines
        rows = self._row_count
        if room - rows > longest:
            return room - rows - 1
        return max(1, room - rows, min(longest, max(MIN_SENTENCE_LINES, room // 2), room - min(rows, MIN_TABLE_ROWS)))

    async def on_resize(self, event: events.Resize) -> None:
        """Lay out again: the chart may fit now, or no longer."""
        del event
        await self.lay_out()

    # -- what is drawn

    def draw_chart(self) -> None:
        """Draw the rows, or the events behind the row under the cursor; if there are no rows, say why."""
        shown = self.table.sheet
        if not self.chart_visible:
            return
        if shown is None or shown.visible_rows.is_empty():
            self._drawn_rows = None
            self.chart.draws = partial(_wrap_message, self.table.empty)
            return
        analysis, row = shown.result.analysis, self.table.row
        self._row_of_durations = None
        if analysis in DURATION_CHARTS and row is not None and isinstance(row.get("event"), int):
            self.chart.draws = None
            self._row_of_durations = row
            self._post_request(self.DurationsRequested(self, row, self.window))
        elif analysis in COMPANION_SETTINGS and row is not None:
            self._draw_companion_chart(shown.result)
        else:
            self._draw_table_chart(shown)

    def _draw_table_chart(self, shown: TableView) -> None:
        """Draw the rows in their order, unless they are drawn."""
        column = self.table.column or (self.table.order or ("",))[0]
        cursor = self.table.cursor if analysis_charts.depends_on_cursor(shown.result) else 0
        if self._drawn_rows != (shown, column, cursor) or self.chart.draws is None:
            self._drawn_rows = (shown, column, cursor)
            seen = replace(shown.folded, table=shown.visible_rows)
            self.chart.draws = (
                partial(draw_row_sentences, seen, cursor, more=self.key)
                if self._has_sentences
                else partial(analysis_charts.draw_chart, seen, column, cursor)
            )

    def _draw_companion_chart(self, result: Result) -> None:
        """Draw the row under the cursor from the second result, which is requested once."""
        if self._companion is None or self._companion[:2] != (result, self.window):
            self.chart.draws = None
            self._post_request(
                self.CompanionRequested(self, result.analysis, COMPANION_SETTINGS[result.analysis], self.window)
            )
        elif (row := self.table.row) is not None:
            self.chart.draws = partial(histograms.draw_launch_histograms, self._companion[2], row)

    def _post_request(self, message: Message) -> None:
        """Post a message to the screen.

        It needs a sender: without one it would stop at the parent that triggered the drawing.
        """
        self.post_message(message.set_sender(self))

    @on(DurationsReady)
    def _draw_durations(self, message: DurationsReady) -> None:
        message.stop()
        if message.row is self._row_of_durations:
            apart = {int(rank) for rank in str(message.row.get("outliers") or "").split(", ") if rank.isdigit()}
            self.chart.draws = partial(histograms.draw_length_spread, message.lengths, message.ranks, apart)

    @on(CompanionReady)
    def _use_companion(self, message: CompanionReady) -> None:
        message.stop()
        result = self.table.result
        if result is not None and message.window == self.window:
            self._companion = (result, message.window, message.result)
            self.draw_chart()

    @on(ChartFailed)
    def _show_chart_failure(self, message: ChartFailed) -> None:
        message.stop()
        if self.chart.draws is None:
            self.chart.draws = partial(_wrap_message, message.words)


def _wrap_message(words: str, size: tuple[int, int]) -> list[str]:
    """Wrap a message that replaces the chart."""
    return wrap_paragraphs(words, max(1, size[0]))[: size[1]]
