"""Navigation: to the row of a table, along links, to steps and times, back and forward, and to marks.

Keeps the history and the marks, and shows the prompt for a destination. The screen keeps the view.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.timing import other_step_work
from tracehound.analysis.topics import is_memory_only
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace, Window
from tracehound.model.units import format_instant
from tracehound.ui.actions import critical_path_overlay, pane_settings
from tracehound.ui.actions.critical_path_overlay import CriticalPathOverlay
from tracehound.ui.background.event_finder import AggregateRow, EventFinder
from tracehound.ui.background.event_links import LinkDirection, LinkFinder
from tracehound.ui.state import goto_targets, row_target, view_moves
from tracehound.ui.state.event_walk import EventWalk
from tracehound.ui.state.saved_session import SavedSession, valid_view
from tracehound.ui.state.view import Marks, View, ViewHistory, list_mark_letters, return_to_place
from tracehound.ui.widgets.prompts import QuestionBar, QuestionCallbacks
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.wording import messages

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen

FIRST_PANE = "overview"
"""The tab that is shown where none is remembered."""

MEMORY_PANE = "memory"
"""The same of a memory timeline, which has nothing else."""


class Navigation:
    """Every way of going somewhere that is more than a move within the timeline."""

    def __init__(self, screen: ExplorerScreen) -> None:
        self.linker = LinkFinder(screen)
        self.critical_path_overlay = CriticalPathOverlay(screen, screen.background)
        self.history = ViewHistory()
        self.marks: Marks = {}
        self.marked: set[str] = set()
        """The marks that were set in this visit."""
        self.session = SavedSession()
        self._screen = screen
        self._first = FIRST_PANE
        self._links_due: list[LinkDirection] = []
        self._prompt: QuestionBar | None = None
        self._steps_due = 0
        self.ways: Mapping[str, Callable[..., None]] = {
            "link": self.follow_link, "step": self.step, "walk": self.walk, "back": self.back,
            "path": self.critical_path_overlay.switch,
            "place": self.ask_for_time_or_step, "mark": self.ask_mark, "to_mark": self.ask_for_mark_to_visit,
        }  # fmt: skip

    # -- what the screen tells

    def record_view(self, view: View) -> None:
        """The view is another one."""
        self.history.record_view(view, time.monotonic())

    def update_history_and_marks(self, old: Trace, new: Trace) -> None:
        """Carry history and marks over to a trace that has grown."""

        def moved(place: View) -> View:
            return row_target.view_in_grown_trace(place, old, new)

        self.history.change(moved)
        self.marks = {letter: moved(place) for letter, place in self.marks.items()}

    def jump(self, view: View) -> None:
        """Go to a view from which `back` leads back here; where its lane is not shown, say so."""
        screen = self._screen
        self.history.start_new_entry()
        screen.view = view
        shown = view.event is None or screen.timeline.outline.group_of(view.lane) is not None
        if screen.trace is not None and view.lane is not None and not shown and not screen.reading.busy:
            lane = screen.trace.lanes.row(by_predicate=pl.col("lane") == view.lane, named=True)
            screen.key_bar.say(messages.lane_not_shown(lane["name"], screen.timeline.key))

    def choose_first_pane(self, trace: Trace) -> None:
        """Show first what the trace is about."""
        if is_memory_only(trace) and self._screen.pane_layout.active == FIRST_PANE:
            self._first = MEMORY_PANE
            self._screen.results.set_settings(MEMORY_PANE, (("by", "category"),))
            self._screen.pane_layout.show(MEMORY_PANE)

    def restore_session(self) -> None:
        """Be where one was the last time, unless one has gone somewhere meanwhile."""
        trace, view, session = self._screen.trace, self._screen.view, self.session
        if trace is None or session.view is None:
            return
        self._screen.timeline_area.timeline_panel.restore_arrangement(session.lanes)
        for pane, given in pane_settings.valid_settings(session.settings).items():
            self._screen.results.set_settings(pane, given)
        arrangement = self._screen.pane_layout
        if session.pane in self._screen.pane_stack.tabs and arrangement.active == self._first:
            arrangement.show(session.pane)
        self._screen.results.ask(view)
        self.marks = {**{letter: valid_view(trace, place) for letter, place in session.marks.items()}, **self.marks}
        if return_to_place(view_moves.show_whole_run(trace, view), View(*view_moves.run_bounds(trace, view))) == view:
            self.jump(replace(valid_view(trace, session.view), needle=view.needle))
            self._screen.key_bar.say("where you were the last time; u: back to the whole run")

    @property
    def session_to_save(self) -> SavedSession | None:
        """Session to save for the next visit; None while the trace is being read, since its times may still change."""
        screen = self._screen
        if screen.trace is None or screen.reading.busy:
            return None
        return SavedSession(
            screen.view,
            screen.pane_layout.active,
            self.marks,
            screen.timeline_area.timeline_panel.saved_arrangement,
            screen.results.settings_to_save,
        )

    # -- along links

    def follow_link(self, direction: LinkDirection) -> None:
        """To what caused the selected event (-1), or what it caused (1), after the links that are still looked for."""
        trace, event = self._screen.trace, self._screen.view.event
        if event is None:
            self._screen.key_bar.say(messages.NO_EVENT)
        elif trace is not None:
            self._links_due.append(direction)
            if len(self._links_due) == 1:
                self.linker.ask(trace, event, direction)

    def follow_found_link(self, found: LinkFinder.Linked) -> None:
        """Go there, if one has not gone elsewhere since; then along the next link."""
        trace, link = self._screen.trace, found.link
        due, self._links_due = self._links_due[1:], []
        if trace is None or self._screen.view.event != found.event:
            return
        if link.target is not None:
            if link.walk is not None and len(link.walk) > 1:  # one of many launches has one kernel: n goes on
                self._screen.walk = link.walk
            self._screen.key_bar.say(link.words)
            self.jump(view_moves.go_to_event(trace, self._screen.view, link.target))
        else:
            self._screen.key_bar.say(link.words)
        for direction in due if link.target is not None else ():
            self.follow_link(direction)

    # -- from one of a sort to the next

    def request_op_walk(self, trace: Trace, event: int) -> None:
        """Have the instances of an event's op worked out, to walk from one to the next."""
        self._steps_due = 0
        self._screen.walk = None
        self._screen.search_session.finder.walk(trace, event)

    def request_row_walk(self, row: AggregateRow) -> None:
        """Have the events that a row counts worked out, to walk from one to the next."""
        self._steps_due = 0
        self._screen.search_session.finder.walk_row(self._screen.results.counted, row)

    def use_found_walk(self, found: EventFinder.Walked) -> None:
        """They are known: make the steps that were asked for meanwhile."""
        self._screen.walk = found.walk
        due, self._steps_due = self._steps_due, 0
        if found.walk is None:
            self._screen.key_bar.say(found.failure)
            return
        if due:
            self.walk(due)

    def walk(self, by: int) -> None:
        """To the next (1) or previous (-1) one; where they are not known yet, as soon as they are."""
        screen = self._screen
        if screen.walk is not None and not len(screen.walk):
            screen.key_bar.say(messages.no_match_message(screen.walk.what))
        elif screen.walk is not None:
            self.go_to_walk_event(screen.walk.step(by))
        elif screen.background.busy:
            self._steps_due += by
        elif screen.trace is not None and screen.view.event is not None:
            self.request_op_walk(screen.trace, screen.view.event)
            self._steps_due = by
        else:
            screen.key_bar.say(messages.NO_EVENTS if self._is_on_unrecorded_time() else messages.NO_WALK)

    def _is_on_unrecorded_time(self) -> bool:
        """True if the critical path table is visible and its cursor is on time in which nothing was recorded."""
        pane_stack = self._screen.pane_stack
        row = (
            pane_stack.table_pane(critical_path_overlay.ANALYSIS_NAME).table.row
            if critical_path_overlay.ANALYSIS_NAME in pane_stack.active_results
            else None
        )
        return row is not None and row["event"] is None

    def go_to_walk_event(self, walk: EventWalk) -> None:
        """To the present event of a walk."""
        self._screen.walk = walk
        if self._screen.trace is not None and walk.event is not None:
            self.jump(view_moves.go_to_event(self._screen.trace, self._screen.view, walk.event))

    def step(self, direction: int) -> None:
        """To the next (1) or previous (-1) step."""
        screen, trace = self._screen, self._screen.trace
        if trace is None:
            return
        view = goto_targets.go_to_next_step(trace, screen.view, direction)
        if view != screen.view:
            self.jump(view)
            self._report_other_steps_work(trace, view)
        else:
            screen.key_bar.say("no more steps" if trace.steps.height else "no steps marked, none to infer")

    def _report_other_steps_work(self, trace: Trace, view: View) -> None:
        """If a step is selected, report how much of the device's work in it belongs to other steps."""
        screen, rank = self._screen, view_moves.rank_of_view(trace, view)
        numbers = goto_targets.selected_step_numbers(trace, view)
        if rank is None or not numbers:
            return
        window = Window(ranks=(rank,), steps=numbers)

        def tell(others: float) -> None:
            if others and screen.view.selection == view.selection:
                screen.key_bar.say(messages.work_of_other_steps(others))

        def work() -> None:
            screen.call_later(tell, other_step_work.other_steps_share(trace, window))

        screen.background.submit("other steps", work, lambda why: screen.call_later(screen.key_bar.say, why))

    # -- back and forward

    def back(self, direction: int) -> None:
        """To where one was before (-1), or on again (1)."""
        place = self.history.back() if direction < 0 else self.history.forward()
        if place is None:
            self._screen.key_bar.say("no place before this one" if direction < 0 else "no place after this one")
        else:
            self._screen.view = return_to_place(self._screen.view, place)
            self._screen.key_bar.say(f"place {self.history.words}")

    # -- places that have names

    def ask_for_time_or_step(self) -> None:
        """Ask for a time or a step, and go there."""
        self._ask("go to", goto_targets.TIME_NOTATIONS, self._try_place, self._go_to_place)

    def _try_place(self, text: str) -> None:
        """Say whether that is a place, while it is being typed."""
        if self._prompt is not None:
            self._prompt.show_reply(self._parse_target(text)[1] if text.strip() else "")

    def _go_to_place(self, text: str) -> None:
        view, words = self._parse_target(text) if text.strip() else (None, "")
        if view is None and text.strip() and self._prompt is not None:
            self._prompt.show_reply(words)
            return
        self._screen.prompt_line.end()
        if view is not None:
            self.jump(view)
            if self._screen.trace is not None:
                self._report_other_steps_work(self._screen.trace, view)

    def _parse_target(self, text: str) -> tuple[View | None, str]:
        """The view at a place and where that is, or why there is none."""
        if self._screen.trace is None:
            return None, ""
        try:
            view = goto_targets.view_at_text(self._screen.trace, self._screen.view, text)
        except TracehoundError as error:
            return None, str(error)
        return view, format_instant(view.selection[0] if view.selection else view_moves.focus_time(view))

    def ask_mark(self) -> None:
        """Ask for a letter, and remember this place by it."""
        self._ask("mark this place as", f"a letter; set: {list_mark_letters(self.marks)}", self._mark, self._mark)

    def _mark(self, text: str) -> None:
        self._screen.prompt_line.end()
        if text.isalnum():
            self.marks = {**self.marks, text: self._screen.view}
            self.marked.add(text)
            self._screen.key_bar.say(f"marked {text}: ' {text} comes back here")

    def ask_for_mark_to_visit(self) -> None:
        """Ask for a letter, and go to the place that is remembered by it."""
        self._ask("go to mark", f"a letter; set: {list_mark_letters(self.marks)}", self._to_mark, self._to_mark)

    def _to_mark(self, text: str) -> None:
        self._screen.prompt_line.end()
        place = self.marks.get(text)
        if place is not None:
            self.jump(return_to_place(self._screen.view, place))
            self._screen.key_bar.say(f"mark {text}")
        elif text:
            self._screen.key_bar.say(f"no mark {text}; set: {list_mark_letters(self.marks)}")

    # -- the line on which one is asked

    def _ask(self, question: str, hint: str, typed: Callable[[str], None], entered: Callable[[str], None]) -> None:
        screen = self._screen
        prompt = QuestionBar(
            question, screen.glyphs.to_alphabet(hint), QuestionCallbacks(typed, entered, screen.prompt_line.end)
        )
        screen.prompt_line.begin(prompt.input, prompt.remove)
        screen.mount(prompt, before=screen.key_bar)
        self._prompt = prompt


ROWS_OF_MARKED_STEPS: Final = ("breakdown", "distributed")
"""Tables whose rows may be steps as they are marked, or what of them lies in the window."""

STEP_TABLES: Final = ("steps", "step_parts", "step_time", "utilization", *ROWS_OF_MARKED_STEPS)
"""Tables whose rows may be steps: what is an event are the marks, and their numbers may be of other stretches."""


def go_to_row(screen: ExplorerScreen, trace: Trace, chosen: ResultTable.RowChosen) -> None:
    """Go to what the column under the cursor is about, else to what the row is about."""
    row, table, navigation = chosen.row, screen.pane_stack.result_name(chosen.table), screen.navigation
    event, window = row_target.event_of_row(trace, row), row_target.window_of_row(trace, row)
    beside = row_target.go_to_column_target(trace, screen.view, row, chosen.column)
    screen.walk = None  # that of the row before
    if beside is not None:
        navigation.jump(beside)
    elif not row_target.has_target(trace, row):
        screen.key_bar.say("this row has no place in the timeline")
    elif table == "gaps" and window is not None:
        screen.results.remember_picked_window(window, table, screen.view)
        navigation.jump(row_target.select_gap(trace, screen.view, row))
    elif _is_one_step(table, row) and window is not None:
        screen.results.remember_picked_window(window, table, screen.view)
        navigation.jump(view_moves.select_window(trace, screen.view, window))
        _describe_step_bounds(screen, trace, table, row)
    elif table == critical_path_overlay.ANALYSIS_NAME:
        if event is not None or window is not None:
            navigation.jump(row_target.go_to_row_target(trace, screen.view, row))
        if event is not None or window is None:
            about = screen.view.window.with_times(
                *(screen.pane_stack.tables[table].charted_table.window or (None, None))
            )
            navigation.critical_path_overlay.begin(
                trace, row["rank"], about, critical_path_overlay.target_of_row(row, event)
            )
    else:
        there = row_target.go_to_row_target(trace, screen.view, row)
        if there == screen.view and event is None and window is None:
            screen.key_bar.say(messages.ROW_OF_WHOLE_RANK)
        navigation.jump(there)
        if event is not None and (counting := screen.results.counting_row_of(trace, table, row)) is not None:
            navigation.request_row_walk(counting)


def go_to_rank_and_step(screen: ExplorerScreen, trace: Trace, row: row_target.ResultRow) -> None:
    """Select a step of a rank, with the cursor on the rank's first lane; the rank map is not narrowed to it."""
    window = row_target.window_of_row(trace, row)
    if window is None:
        return
    screen.walk = None
    screen.results.remember_picked_window(window, "rank_map", screen.view)
    view = row_target.go_to_row_target(trace, screen.view, {"rank": row["rank"]})
    screen.navigation.jump(view_moves.select_window(trace, view, window))
    _describe_step_bounds(screen, trace, "rank_map", row)


def select_row_window(screen: ExplorerScreen, trace: Trace, picked: ResultTable.WindowRequested) -> None:
    """Narrow every table to a row's window, and show it."""
    window = row_target.window_of_row(trace, picked.row)
    if window is None:
        screen.key_bar.say("this row has no window")
        return
    table = screen.pane_stack.result_name(picked.table)
    screen.results.remember_picked_window(window, table, screen.view)
    screen.navigation.jump(view_moves.select_range_in_sight(trace, screen.view, *window))
    if _is_one_step(table, picked.row):
        _describe_step_bounds(screen, trace, table, picked.row)


def _is_one_step(table: str, row: row_target.ResultRow) -> bool:
    """True if a row is one step; tables by rank or by part have rows that cover many steps."""
    return table in STEP_TABLES and "step" in row and isinstance(row.get("start"), int)


def _describe_step_bounds(screen: ExplorerScreen, trace: Trace, table: str, row: row_target.ResultRow) -> None:
    """Say whether the step that was selected goes by its mark, or until its work is done, and what its mark is then."""
    window, mark = (row_target.window_of_row(trace, each) for each in (row, {"event": row["event"]}))
    if window is not None:
        until = "as its row has it" if table in ROWS_OF_MARKED_STEPS else "until its work is done"
        screen.key_bar.say(messages.step_selected_message(row["step"], window, mark, until))
