"""Holding two runs against each other: which of their steps, and by what.

Owns the steps that are shown op by op in place of the runs, and what it takes to come back from that. The screen owns
what both timelines show, and is told what to show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracehound.diff.slots import Place, Slotted
from tracehound.draw.colouring import colouring
from tracehound.ui.background.contrast import Contrast
from tracehound.ui.state import abreast, navigate
from tracehound.ui.state.abreast import Abreast
from tracehound.ui.wording import sentences

if TYPE_CHECKING:
    from tracehound.ui.screens.comparison import ComparisonScreen


class Aligning:
    """Every way of aligning the timelines of a screen."""

    def __init__(self, screen: ComparisonScreen) -> None:
        self.slots: Slotted | None = None
        """What is shown while ops are matched, in place of the runs."""
        self._screen = screen
        self._runs = screen.state.views
        self._wanted: tuple[Place, Place] | None = None

    def turn(self) -> None:
        """Align in the next way."""
        screen, traces = self._screen, self._screen.traces
        if traces is None or screen.found is None:
            screen.key_bar.say("the runs are not compared yet")
            return
        if self.slots is not None:
            self.leave()
            screen.state = abreast.from_start(screen.state, traces)
        elif screen.state.alignment == "step":
            self._match(screen.state)
        elif screen.state.partners:
            screen.state = abreast.to_pair(screen.state, screen.state.at)

    def pair(self, by: int) -> None:
        """Hold the step of the base against another one."""
        state = self._screen.state
        if state.partners:
            self._show(abreast.partner(state, by), state.at)

    def step(self, by: int) -> None:
        """Go to another pair of steps."""
        state = self._screen.state
        self._show(state, state.at + by)

    def _show(self, state: Abreast, at: int) -> None:
        """Show a pair of steps, in slots where that is how pairs are shown."""
        if not 0 <= at < len(state.partners):
            return
        if self.slots is None:
            self._screen.state = abreast.to_pair(state, at)
        else:
            self._screen.state = replace(state, at=at)
            self._match(self._screen.state)

    # -- op by op

    def _match(self, state: Abreast) -> None:
        """Have the steps that are looked at aligned op by op, and show them like that when they are."""
        screen, places = self._screen, _places(state)
        if screen.traces is not None and places is not None and screen.found is not None:
            self._wanted = places
            screen.key_bar.say("matching the ops of both steps")
            screen.contrast.align(screen.traces, places, screen.found)

    def matched(self, message: Contrast.Aligned) -> None:
        """Show the steps op by op, unless something else is wanted, or other steps are looked at, by now."""
        screen = self._screen
        if message.places != self._wanted or message.traces != screen.traces:
            return
        self._wanted = None
        if message.places != _places(screen.state):
            self._match(screen.state)
            return
        if message.found is None:
            screen.key_bar.say(message.failure)
            return
        if self.slots is None:
            self._runs = screen.state.views
        slots = self.slots = message.found
        state = abreast.in_slots(screen.state, slots.traces[0].span[1])
        for side, trace, view in zip(screen.sides, slots.traces, state.views, strict=True):
            side.show_slots(trace, view)
        screen.sides[1].desk.legend.say(colouring("difference", slots.traces[1]))
        screen.key_bar.say(sentences.of_slots(slots))
        screen.state = state
        screen.describe()

    def difference(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) op that is not the same in both steps."""
        screen, slots = self._screen, self.slots
        if slots is None:
            screen.key_bar.say("this walks through matched ops: align by matched sequence first")
            return
        found = slots.unlike(navigate.focus(screen.state.views[0]), direction)
        if found is not None:
            side, event = found
            view = navigate.to_event(slots.traces[side], screen.state.views[side], event)
            screen.state = abreast.moved(screen.state, side, view)

    def leave(self) -> bool:
        """Show the runs again, at the pair that was looked at; False when they are shown already."""
        waited, self._wanted = self._wanted is not None, None
        if self.slots is None:
            return waited
        screen, self.slots = self._screen, None
        state = abreast.out_of_slots(screen.state, self._runs)
        for side, view in zip(screen.sides, state.views, strict=True):
            side.leave_slots(view)
        screen.state = state
        screen.describe()
        return True


def _places(state: Abreast) -> tuple[Place, Place] | None:
    """Where the steps are that are looked at."""
    if state.pair is None:
        return None
    base, other = (Place(step.rank, step.start, step.end) for step in state.pair)
    return base, other
