"""Results in the tables: of which snapshot of the trace, in which window, and for which visible panes.

Owns the requests that follow from that, and passes results to panes. Knows the panes, and no key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.ranks import rank_step_values
from tracehound.model.trace import Trace, Window
from tracehound.ui.actions import pane_settings
from tracehound.ui.actions.pane_requests import QueryRunner
from tracehound.ui.background.analysis_runner import AnalysisRequest, AnalysisRunner, TraceSnapshot
from tracehound.ui.background.event_finder import AggregateRow, RowEventFinder, counting_row
from tracehound.ui.panes.pane_stack import PROMPT_TABS, PaneStack
from tracehound.ui.panes.query_pane import QueryPane
from tracehound.ui.panes.table_pane import TablePane
from tracehound.ui.state import row_target, view_moves
from tracehound.ui.state.view import View
from tracehound.ui.widgets.status_bars import HeaderBar
from tracehound.ui.wording import messages

TimeRange = tuple[int, int]

HEADER: Final = "header"
"""Who asks for the top finding; no pane has this name."""

TOP_FINDING_ANALYSIS: Final = "findings"

RANK_MAP: Final = "rank_map"
"""The pane that chooses value and order of its rows itself: a result has all of them."""


def _takes_long(result: str) -> bool:
    """True for the findings, which draw on many other analyses: quick results of a tab come before them."""
    return result.endswith(TOP_FINDING_ANALYSIS)


class PaneResultUpdater:
    """Keeps the tables of a pane stack up to date."""

    def __init__(self, pane_stack: PaneStack, answers: AnalysisRunner, header: HeaderBar) -> None:
        self._pane_stack = pane_stack
        self._answers = answers
        self._header = header
        self._snapshot: TraceSnapshot | None = None
        self._picked: tuple[str, TimeRange | None, TimeRange | None] = ("", None, None)
        self._given: dict[str, ChosenSettings] = {}
        self._shown: dict[str, tuple[Trace, AnalysisRequest]] = {}
        self._lateness_on_request = False
        self._query_due: tuple[QueryRunner, QueryPane.QuerySubmitted] | None = None
        self.counted = RowEventFinder()
        self.queried: tuple[str, Window] | None = None
        """The last query, and what it is about."""

    def update_snapshot_if_due(self, trace: Trace, unread: frozenset[int]) -> None:
        """The trace has grown: ask it from now on, unless the last answers are new enough for one that still grows."""
        old = self._snapshot
        if old is None or not unread or old.trace.origin_ns != trace.origin_ns or self._answers.is_rerun_due:
            self.set_snapshot(trace, unread)

    def set_snapshot(self, trace: Trace, unread: frozenset[int]) -> None:
        """Ask this trace from now on, unless nothing of it is read."""
        old = self._snapshot
        if len(unread) < max(1, len(trace.parts)) and (old is None or old.trace is not trace):
            self._snapshot = TraceSnapshot.of(0 if old is None else old.version + 1, trace, unread)

    def clear_results(self) -> None:
        """Show nothing: the ids in the tables mean something else now."""
        self._shown.clear()
        for pane in self._pane_stack.tables.values():
            pane.clear_result()
        self._pane_stack.arrivals.clear_result()
        self._pane_stack.rank_map.clear_result()
        for slot in self._pane_stack.overview.sections.values():
            slot.clear_result()

    def set_settings(self, pane: str, given: ChosenSettings) -> None:
        """Work out what a pane shows with these settings from now on."""
        self._given[pane] = given
        if pane == RANK_MAP:
            self._pane_stack.rank_map.given = given

    def chosen_settings(self, pane: str) -> ChosenSettings:
        """Settings chosen for the analysis of a pane."""
        return self._given.get(pane, ())

    @property
    def _rank_map_settings(self) -> ChosenSettings:
        """The settings for the rank map: its results have all values in any order, but maybe not lateness unasked."""
        given = self.chosen_settings(RANK_MAP)
        late = self._lateness_on_request and rank_step_values.shown_value(given) == "late"
        return tuple(each for each in given if each[0] not in ("value", "by") or (late and each[0] == "value"))

    @property
    def settings_to_save(self) -> pane_settings.SavedSettings:
        """All that is chosen, for the next visit."""
        return {pane: dict(given) for pane, given in self._given.items() if given}

    def remember_picked_window(self, window: TimeRange, table: str, view: View) -> None:
        """Remember that a window was picked from a table: that one table is not narrowed to its own row."""
        self._picked = (table, window, self._table_window(table, view))

    def _table_window(self, table: str, view: View) -> TimeRange | None:
        """The window that a table is about; health is always about the whole run."""
        if table == "health":
            return None
        origin, window, before = self._picked
        return before if (origin, window) == (table, view.selection) else view.selection

    def ask(self, view: View) -> None:
        """Have the results that are in sight, or that keys wait for, computed for the view; with no trace, say so."""
        snapshot = self._snapshot
        shown = sorted(self._pane_stack.active_results, key=_takes_long)
        for name in dict.fromkeys((*self._pane_stack.results_for_postponed, *shown)):
            if name in PROMPT_TABS:
                continue
            if snapshot is None:
                self._pane_stack.pane_for(name).show_waiting(messages.NOTHING_READ)
            else:
                analysis = name.rpartition("/")[2]
                narrowed, shows = self._table_window(analysis, view), self._pane_stack.pane_for(name)
                if isinstance(shows, TablePane):
                    shows.set_ignores_window(ignores=narrowed is None and view.selection is not None)
                window = view.window.with_times(*(narrowed or (None, None)))
                if name == "slices":
                    window = limit_window_to_lane(window, snapshot.trace, view)
                given = self._rank_map_settings if name == RANK_MAP else self.chosen_settings(name)
                if self._answers.ask(name, snapshot, snapshot.question(analysis, window, given)):
                    shows.show_waiting(f"{analysis.replace('_', ' ')}: {messages.COMPUTING}")
        if snapshot is not None:
            self._ask_top_finding(snapshot, view)
            if self._query_due is not None:
                self.query(*self._query_due, view)

    def _ask_top_finding(self, snapshot: TraceSnapshot, view: View) -> None:
        """Have the header say what costs most in the whole run, of the ranks that are shown."""
        question = snapshot.question(TOP_FINDING_ANALYSIS, Window(ranks=view.ranks))
        if self._answers.ask(HEADER, snapshot, question) and not self._header.finding:
            self._header.finding = (messages.COMPUTING,)

    def query(self, asker: QueryRunner, asked: QueryPane.QuerySubmitted, view: View) -> None:
        """Have a query answered for the view; before anything is read, as soon as something is."""
        self._query_due = (asker, asked) if self._snapshot is None else None
        if (snapshot := self._snapshot) is not None:
            self.queried = asked.statement, view.window
            asker.ask(asked, snapshot.trace, snapshot.question("query", view.window).window, snapshot.ranks_read_text)

    def show(self, answer: AnalysisRunner.Answered) -> None:
        """Show an answer, if its pane still waits for it."""
        if not self._answers.is_awaited(answer):
            return
        if answer.pane == HEADER:
            read = answer.snapshot.ranks_read_text
            self._header.finding = messages.top_finding_parts(answer.result, read) if answer.result is not None else ()
            return
        table, snapshot, window = self._pane_stack.pane_for(answer.pane), answer.snapshot, answer.question.window
        if answer.result is None:
            table.show_failure(answer.failure)
            return
        self._shown[answer.pane] = snapshot.trace, answer.question
        if answer.pane == RANK_MAP:
            codes = {note.code for note in answer.result.notes}
            self._lateness_on_request = self._lateness_on_request or rank_step_values.LATENESS_NOT_COMPUTED in codes
        bounds = (window.start, window.end) if window.start is not None and window.end is not None else None
        so_far = " · ".join(
            filter(None, [pane_settings.format_settings(answer.question.given), snapshot.ranks_read_text])
        )
        untold = replace(answer.result, notes=messages.notes_not_yet_said(answer.result.notes, so_far))
        nothing = messages.why_empty(untold, snapshot.trace, bounds)
        table.show(answer.result, bounds, nothing, so_far)

    def counting_row_of(self, trace: Trace, pane: str, row: Mapping[str, Any]) -> AggregateRow | None:
        """A row of a pane as one that counts events; None where it does not."""
        if pane == "search":
            return counting_row(trace, row, None)
        shown = self._shown.get(pane)
        return None if shown is None else counting_row(shown[0], row, shown[1])

    def request_gap_host_activity(self, row: dict[str, Any] | None) -> None:
        """Work out what the host did in the gap under the cursor."""
        snapshot = self._snapshot
        window = row_target.window_of_row(snapshot.trace, row) if snapshot is not None and row is not None else None
        if snapshot is None or row is None or window is None:
            self._answers.forget("gap-host")
            return
        there = Window(*window, ranks=(row["rank"],))
        self._answers.ask("gap-host", snapshot, snapshot.question("host", there))


def limit_window_to_lane(window: Window, trace: Trace, view: View) -> Window:
    """The window, of the lane under the cursor alone; of all lanes where it is on none."""
    rank = view_moves.rank_of_view(trace, view)
    if view.lane is None or rank is None:
        return window
    return replace(window, ranks=(rank,), lanes=(view.lane,))
