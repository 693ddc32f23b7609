"""Going places: along links, to steps and times, back and forward, to marks, from one of a sort to the next.

Owns what is remembered for that, and the line on which a place is asked for. The screen owns the view, and is told
where to go; it says in its header what it is told to say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.timing import other_step_work
from tracehound.analysis.topics import is_memory_only
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace, Window
from tracehound.model.units import format_instant
from tracehound.ui.actions import critical_path_overlay, pane_settings
from tracehound.ui.actions.critical_path_overlay import CriticalPathOverlay
from tracehound.ui.background.event_finder import CountingRow, EventFinder
from tracehound.ui.background.event_links import LinkDirection, LinkFinder
from tracehound.ui.state import row_target, typed_targets, view_moves
from tracehound.ui.state.event_walk import EventWalk
from tracehound.ui.state.saved_session import SavedSession, valid_view
from tracehound.ui.state.view import View
from tracehound.ui.state.view_history import Marks, ViewHistory, list_mark_letters, return_to_place
from tracehound.ui.widgets.prompts import QuestionBar, QuestionCallbacks
from tracehound.ui.wording import messages

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer_screen import ExplorerScreen

FIRST_PANE = "ops"
"""The tab that is shown where none is remembered."""

MEMORY_PANE = "memory"
"""The same of a memory timeline, which has nothing else."""


class Navigation:
    """Every way of going somewhere that is more than a move within the timeline."""

    def __init__(self, screen: ExplorerScreen) -> None:
        self.linker = LinkFinder(screen)
        self.trail = CriticalPathOverlay(screen, screen.background)
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
            "link": self.link, "step": self.step, "walk": self.walk, "back": self.back,
            "path": self.trail.switch, "place": self.ask_place, "mark": self.ask_mark, "to_mark": self.ask_jump,
        }  # fmt: skip

    # -- what the screen tells

    def arrived(self, view: View) -> None:
        """The view is another one."""
        self.history.arrive(view, time.monotonic())

    def grown(self, old: Trace, new: Trace) -> None:
        """Carry history and marks over to a trace that has grown."""

        def moved(place: View) -> View:
            return row_target.view_in_grown_trace(place, old, new)

        self.history.change(moved)
        self.marks = {letter: moved(place) for letter, place in self.marks.items()}

    def jump(self, view: View) -> None:
        """Go to a view from which `back` leads back here; where its lane is not shown, say so."""
        screen = self._screen
        self.history.settle()
        screen.view = view
        shown = view.event is None or screen.timeline.outline.group_of(view.lane) is not None
        if screen.trace is not None and view.lane is not None and not shown and not screen.reading.busy:
            lane = screen.trace.lanes.row(by_predicate=pl.col("lane") == view.lane, named=True)
            screen.key_bar.say(messages.lane_not_shown(lane["name"], screen.timeline.key))

    def open(self, trace: Trace) -> None:
        """Show first what the trace is about."""
        if is_memory_only(trace) and self._screen.arrangement.active == FIRST_PANE:
            self._first = MEMORY_PANE
            self._screen.results.choose(MEMORY_PANE, (("by", "category"),))
            self._screen.arrangement.show(MEMORY_PANE)

    def recall(self) -> None:
        """Be where one was the last time, unless one has gone somewhere meanwhile."""
        trace, view, session = self._screen.trace, self._screen.view, self.session
        if trace is None or session.view is None:
            return
        self._screen.timeline_area.timeline_panel.restore_arrangement(session.lanes)
        for pane, given in pane_settings.valid_settings(session.settings).items():
            self._screen.results.choose(pane, given)
        arrangement = self._screen.arrangement
        if session.pane in self._screen.pane_stack.tabs and arrangement.active == self._first:
            arrangement.show(session.pane)
        self._screen.results.ask(view)
        self.marks = {**{letter: valid_view(trace, place) for letter, place in session.marks.items()}, **self.marks}
        if return_to_place(view_moves.show_whole_run(trace, view), View(*view_moves.run_bounds(trace, view))) == view:
            self.jump(replace(valid_view(trace, session.view), needle=view.needle))
            self._screen.key_bar.say("where you were the last time; u: back to the whole run")

    @property
    def remembered(self) -> SavedSession | None:
        """Session to save for the next visit; None while the trace is being read, since its times may still change."""
        screen = self._screen
        if screen.trace is None or screen.reading.busy:
            return None
        return SavedSession(
            screen.view,
            screen.arrangement.active,
            self.marks,
            screen.timeline_area.timeline_panel.saved_arrangement,
            screen.results.kept,
        )

    # -- along links

    def link(self, direction: LinkDirection) -> None:
        """To what caused the selected event (-1), or what it caused (1), after the links that are still looked for."""
        trace, event = self._screen.trace, self._screen.view.event
        if event is None:
            self._screen.key_bar.say(messages.NO_EVENT)
        elif trace is not None:
            self._links_due.append(direction)
            if len(self._links_due) == 1:
                self.linker.ask(trace, event, direction)

    def linked(self, found: LinkFinder.Linked) -> None:
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
            self.link(direction)

    # -- from one of a sort to the next

    def begin(self, trace: Trace, event: int) -> None:
        """Have the instances of an event's op worked out, to walk from one to the next."""
        self._steps_due = 0
        self._screen.walk = None
        self._screen.seeking.finder.walk(trace, event)

    def begin_row(self, row: CountingRow) -> None:
        """Have the events that a row counts worked out, to walk from one to the next."""
        self._steps_due = 0
        self._screen.seeking.finder.walk_row(self._screen.results.counted, row)

    def begun(self, found: EventFinder.Walked) -> None:
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
            screen.key_bar.say(messages.no_match(screen.walk.what))
        elif screen.walk is not None:
            self.to(screen.walk.step(by))
        elif screen.background.busy:
            self._steps_due += by
        elif screen.trace is not None and screen.view.event is not None:
            self.begin(screen.trace, screen.view.event)
            self._steps_due = by
        else:
            screen.key_bar.say(messages.NO_EVENTS if self._on_silence() else messages.NO_WALK)

    def _on_silence(self) -> bool:
        """True if the critical path table is visible and its cursor is on time in which nothing was recorded."""
        deck = self._screen.pane_stack
        row = (
            deck.table(critical_path_overlay.ANALYSIS_NAME).table.row
            if critical_path_overlay.ANALYSIS_NAME in deck.active_results
            else None
        )
        return row is not None and row["event"] is None

    def to(self, walk: EventWalk) -> None:
        """To the present event of a walk."""
        self._screen.walk = walk
        if self._screen.trace is not None and walk.event is not None:
            self.jump(view_moves.go_to_event(self._screen.trace, self._screen.view, walk.event))

    def step(self, direction: int) -> None:
        """To the next (1) or previous (-1) step."""
        screen, trace = self._screen, self._screen.trace
        if trace is None:
            return
        view = typed_targets.go_to_next_step(trace, screen.view, direction)
        if view != screen.view:
            self.jump(view)
            self._tell_of_others(trace, view)
        else:
            screen.key_bar.say("no more steps" if trace.steps.height else "no steps marked, none to infer")

    def _tell_of_others(self, trace: Trace, view: View) -> None:
        """If a step is selected, report how much of the device's work in it belongs to other steps."""
        screen, rank = self._screen, view_moves.rank_of_view(trace, view)
        numbers = typed_targets.selected_step_numbers(trace, view)
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

    def ask_place(self) -> None:
        """Ask for a time or a step, and go there."""
        self._ask("go to", typed_targets.TIME_NOTATIONS, self._try_place, self._go_to_place)

    def _try_place(self, text: str) -> None:
        """Say whether that is a place, while it is being typed."""
        if self._prompt is not None:
            self._prompt.show_reply(self._place(text)[1] if text.strip() else "")

    def _go_to_place(self, text: str) -> None:
        view, words = self._place(text) if text.strip() else (None, "")
        if view is None and text.strip() and self._prompt is not None:
            self._prompt.show_reply(words)
            return
        self._screen.prompting.end()
        if view is not None:
            self.jump(view)
            if self._screen.trace is not None:
                self._tell_of_others(self._screen.trace, view)

    def _place(self, text: str) -> tuple[View | None, str]:
        """The view at a place and where that is, or why there is none."""
        if self._screen.trace is None:
            return None, ""
        try:
            view = typed_targets.view_at_text(self._screen.trace, self._screen.view, text)
        except TracehoundError as error:
            return None, str(error)
        return view, format_instant(view.selection[0] if view.selection else view_moves.focus_time(view))

    def ask_mark(self) -> None:
        """Ask for a letter, and remember this place by it."""
        self._ask("mark this place as", f"a letter; set: {list_mark_letters(self.marks)}", self._mark, self._mark)

    def _mark(self, text: str) -> None:
        self._screen.prompting.end()
        if text.isalnum():
            self.marks = {**self.marks, text: self._screen.view}
            self.marked.add(text)
            self._screen.key_bar.say(f"marked {text}: ' {text} comes back here")

    def ask_jump(self) -> None:
        """Ask for a letter, and go to the place that is remembered by it."""
        self._ask("go to mark", f"a letter; set: {list_mark_letters(self.marks)}", self._to_mark, self._to_mark)

    def _to_mark(self, text: str) -> None:
        self._screen.prompting.end()
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
            question, screen.glyphs.words(hint), QuestionCallbacks(typed, entered, screen.prompting.end)
        )
        screen.prompting.begin(prompt.input, prompt.remove)
        screen.mount(prompt, before=screen.key_bar)
        self._prompt = prompt
