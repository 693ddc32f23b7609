"""Requests of panes: queries, saved tables, data for charts, and all notes of a pane in a dialog.

They run in the background. Event durations for histograms and the second result of a chart are kept here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Final

import polars as pl
from textual.screen import Screen

from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.timing.device_clock import measure_events
from tracehound.config import configured_settings
from tracehound.draw.fact_layout import FactSection
from tracehound.draw.glyphs import Glyphs
from tracehound.errors import TracehoundError, printable
from tracehound.model.trace import Trace, Window, collect_frame, collect_interruptible
from tracehound.query import answer_query, prepare_query
from tracehound.report import build_header, report_output
from tracehound.ui.background.background_thread import BackgroundThread
from tracehound.ui.background.event_finder import AggregateRow, RowEventFinder
from tracehound.ui.panes.charted_table import ChartedTable
from tracehound.ui.panes.query_pane import QueryPane
from tracehound.ui.panes.table_pane import TablePane
from tracehound.ui.screens.text_dialogs import FullTextScreen
from tracehound.ui.state.view import View
from tracehound.ui.widgets.result_table import ResultTable

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen


def measure_row_events(
    background: BackgroundThread, counted: RowEventFinder, row: AggregateRow, asked: ChartedTable.DurationsRequested
) -> None:
    """Have the chart told the lengths of the events that the row counts."""

    def work() -> None:
        found = event_durations(row.trace, counted.event_condition(row), asked.window or row.trace.span)
        lengths, ranks = (column.to_numpy() for column in found)
        asked.charted_table.post_message(ChartedTable.DurationsReady(asked.row, lengths, ranks))

    background.submit(
        "measuring for the chart", work, lambda why: asked.charted_table.post_message(ChartedTable.ChartFailed(why))
    )


def event_durations(trace: Trace, which: pl.Expr, window: tuple[int, int]) -> pl.DataFrame:
    """Duration of each event inside the window in ps, with its `rank` (-1: none)."""
    found = collect_frame(trace.events().filter(which).select(_MEASURED_COLUMNS).sort("id"))
    return measure_events(found, *window).select("length", pl.col("rank").cast(pl.Int64).fill_null(-1))


_MEASURED_COLUMNS: Final = ("id", "lane", "rank", "start", "end", "parent", "self", "device_start", "device_end")


def run_for_chart(
    background: BackgroundThread,
    trace: Trace,
    view: View,
    asked: ChartedTable.CompanionRequested,
    given: ChosenSettings,
) -> None:
    """Have the chart told another result of its analysis, of the window of its table, with what is `given` there."""
    analysis = get_analysis(asked.analysis)
    window = view.window.with_times(*(asked.window or (None, None)))

    def work() -> None:
        words = [f"{name}={value}" for name, value in (*given, *asked.given)]
        result = run_analysis(analysis, trace, window, Options(None, configured_settings(analysis, words)))
        asked.charted_table.post_message(ChartedTable.CompanionReady(result, asked.window))

    background.submit(
        "analysis for the chart", work, lambda why: asked.charted_table.post_message(ChartedTable.ChartFailed(why))
    )


def save_table(background: BackgroundThread, trace: Trace, view: View, asked: TablePane.SaveRequested) -> None:
    """Write what was asked for, and have the pane told."""
    window = view.window.with_times(*(asked.window or (None, None)))

    def work() -> None:
        try:
            write = report_output.create_result_file if asked.how == "new" else report_output.replace_result_file
            write(asked.path, build_header(trace, window), asked.result)
        except FileExistsError:
            asked.pane.post_message(TablePane.SaveFinished(asked, taken=True))
        except TracehoundError as error:
            words = f"{error.message}; {error.remedy}" if error.remedy else error.message
            asked.pane.post_message(TablePane.SaveFinished(asked, failure=printable(words)))
        else:
            asked.pane.post_message(TablePane.SaveFinished(asked))

    background.submit(
        f"saving {asked.path}", work, lambda why: asked.pane.post_message(TablePane.SaveFinished(asked, failure=why))
    )


MAX_QUERY_ROWS = 1_000_000
"""Rows of an answer; the table says of how many."""


class QueryRunner(BackgroundThread):
    """Answers one query after the other; a new one stops the one before."""

    def __init__(self) -> None:
        super().__init__()
        self._stop = Event()

    def ask(self, asked: QueryPane.QuerySubmitted, trace: Trace, window: Window, so_far: str) -> None:
        """Have `QueryPane.QueryAnswered` sent to the pane."""
        self.stop()
        self._stop = stop = Event()
        span = (window.start, window.end) if window.start is not None and window.end is not None else None

        def tell(result: Result | None, failure: str = "") -> None:
            asked.pane.post_message(QueryPane.QueryAnswered(asked.statement, result, span, so_far, failure))

        def work() -> None:
            collect = partial(collect_interruptible, stopped=stop.is_set)
            try:
                tell(answer_query(prepare_query(asked.statement), trace, window, MAX_QUERY_ROWS, collect=collect))
            except InterruptedError:
                tell(None, "Query: stopped")

        self.submit("the query", work, lambda why: tell(None, why))

    def stop(self) -> None:
        """Give up the query that runs."""
        self._stop.set()

    def close(self) -> None:
        """Give up the query that runs, and end."""
        self.stop()
        super().close()


def show_full_text(screen: ExplorerScreen) -> None:
    """Tell of the table with the keys, and then of what else is in sight of the tab that is shown."""
    pane_stack, focused = screen.pane_stack, screen.focused
    first = [pane_stack.result_name(focused)] if isinstance(focused, ResultTable) else []
    names = dict.fromkeys([*first, *pane_stack.active_results, *pane_stack.dependent_results])
    sections = [section for name in names for section in pane_stack.pane_for(name).full_text]
    if sections:
        push_full_text(screen, pane_stack.active, sections, screen.glyphs)
    else:
        screen.key_bar.say(f"{pane_stack.active.replace('_', ' ')}: all there is to say is shown")


def push_full_text(screen: Screen[None], pane: str, sections: Sequence[FactSection], glyphs: Glyphs) -> None:
    """Show a page of it."""
    title = pane.replace("_", " ")
    screen.app.push_screen(FullTextScreen(f"{title[:1].upper()}{title[1:]} in full", sections, glyphs))
