"""Holding two runs against each other: which of their steps, and by what.

Owns the steps that are shown op by op in place of the runs, and what it takes to come back from that. The screen owns
what both timelines show, and is told what to show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracehound.diff.aligned_steps import AlignedSteps, StepInterval
from tracehound.draw.event_colors import build_coloring
from tracehound.ui.background.analysis_runner import ComparisonRunner
from tracehound.ui.state import linked_views, view_moves
from tracehound.ui.state.linked_views import LinkedViews
from tracehound.ui.wording import messages

if TYPE_CHECKING:
    from tracehound.ui.screens.comparison_screen import ComparisonScreen


class StepAligner:
    """Every way of aligning the timelines of a screen."""

    def __init__(self, screen: ComparisonScreen) -> None:
        self.slots: AlignedSteps | None = None
        """What is shown while ops are matched, in place of the runs."""
        self._screen = screen
        self._runs = screen.state.views
        self._wanted: tuple[StepInterval, StepInterval] | None = None

    def switch_alignment(self) -> None:
        """Align in the next way."""
        screen, traces = self._screen, self._screen.traces
        if traces is None or screen.comparison is None:
            screen.key_bar.say("the runs are not compared yet")
            return
        if self.slots is not None:
            self.leave_matched_ops()
            screen.state = linked_views.align_starts(screen.state, traces)
        elif screen.state.alignment == "step":
            self._match(screen.state)
        elif screen.state.partners:
            screen.state = linked_views.show_pair(screen.state, screen.state.at)

    def change_partner_step(self, by: int) -> None:
        """Hold the step of the baseline against another one."""
        state = self._screen.state
        if state.partners:
            self._show(linked_views.change_partner(state, by), state.at)

    def go_to_next_pair(self, by: int) -> None:
        """Go to another pair of steps."""
        state = self._screen.state
        self._show(state, state.at + by)

    def _show(self, state: LinkedViews, at: int) -> None:
        """Show a pair of steps, in slots where that is how pairs are shown."""
        if not 0 <= at < len(state.partners):
            return
        if self.slots is None:
            self._screen.state = linked_views.show_pair(state, at)
        else:
            self._screen.state = replace(state, at=at)
            self._match(self._screen.state)

    # -- op by op

    def _match(self, state: LinkedViews) -> None:
        """Have the steps that are looked at aligned op by op, and show them like that when they are."""
        screen, places = self._screen, _step_places(state)
        if screen.traces is not None and places is not None and screen.comparison is not None:
            self._wanted = places
            screen.key_bar.say("matching the ops of both steps")
            screen.contrast.align(screen.traces, places, screen.comparison)

    def show_matched_ops(self, message: ComparisonRunner.Aligned) -> None:
        """Show the steps op by op, unless something else is wanted, or other steps are looked at, by now."""
        screen = self._screen
        if message.places != self._wanted or message.traces != screen.traces:
            return
        self._wanted = None
        if message.places != _step_places(screen.state):
            self._match(screen.state)
            return
        if message.found is None:
            screen.key_bar.say(message.failure)
            return
        if self.slots is None:
            self._runs = screen.state.views
        slots = self.slots = message.found
        state = linked_views.show_slots(screen.state, slots.traces[0].span[1])
        for side, trace, view in zip(screen.sides, slots.traces, state.views, strict=True):
            side.show_slots(trace, view)
        screen.sides[1].timeline_panel.legend.show_coloring(build_coloring("difference", slots.traces[1]))
        screen.key_bar.say(messages.slots_text(slots))
        screen.state = state
        screen.describe()

    def go_to_next_difference(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) op that is not the same in both steps."""
        screen, slots = self._screen, self.slots
        if slots is None:
            screen.key_bar.say("this walks through matched ops: align by matched sequence first")
            return
        found = slots.next_changed_op(view_moves.focus_time(screen.state.views[0]), direction)
        if found is not None:
            side, event = found
            view = view_moves.go_to_event(slots.traces[side], screen.state.views[side], event)
            screen.state = linked_views.move_view(screen.state, side, view)

    def leave_matched_ops(self) -> bool:
        """Show the runs again, at the pair that was looked at; False when they are shown already."""
        waited, self._wanted = self._wanted is not None, None
        if self.slots is None:
            return waited
        screen, self.slots = self._screen, None
        state = linked_views.leave_slots(screen.state, self._runs)
        for side, view in zip(screen.sides, state.views, strict=True):
            side.leave_slots(view)
        screen.state = state
        screen.describe()
        return True


def _step_places(state: LinkedViews) -> tuple[StepInterval, StepInterval] | None:
    """Rank, start and end of the two steps that are shown."""
    if state.pair is None:
        return None
    baseline, candidate = (StepInterval(step.rank, step.start, step.end) for step in state.pair)
    return baseline, candidate
