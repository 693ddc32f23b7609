"""Where one has been: back, forward, and marks to come back to.

Owns which views count as places. Knows no key, no widget and no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.ui.state.view import View

REST = 1.0
"""Seconds after which a place counts as one, however small the move that led there and the next one are."""

MOST = 100
"""So many places are remembered."""


def returned(view: View, place: View) -> View:
    """The view with what a place is: the stretch of time, lane, event, focus and window."""
    return replace(
        view,
        start=place.start,
        end=place.end,
        lane=place.lane,
        event=place.event,
        focus=place.focus,
        selection=place.selection,
    )


class History(Struct):
    """The places in the order in which they were visited, and which of them is the present one.

    Moving the cursor changes the present place. Panning and zooming by keys soon after one another is one move.
    What follows `settle` is a new place, however near.
    """

    places: list[View] = field(default_factory=list)
    at: int = -1
    _moved: float = -REST
    _settled: bool = False

    def settle(self) -> None:
        """The next change is a jump, to which `back` leads back."""
        self._settled = True

    def arrive(self, view: View, now: float) -> None:
        """The view is another one, at the time `now` (seconds of any clock)."""
        if self.at >= 0 and returned(view, self.places[self.at]) == view:
            return
        if self.at >= 0 and not self._settled and self._near(view, now):
            self.places[self.at] = view
        else:
            del self.places[self.at + 1 :]
            self.places = [*self.places[1 - MOST :], view]
            self.at = len(self.places) - 1
        self._settled = False
        self._moved = now if self.at else -REST

    def _near(self, view: View, now: float) -> bool:
        """Whether this is still the present place: the same picture, or a short while after a small move."""
        here = self.places[self.at]
        if (view.start, view.end, view.selection) == (here.start, here.end, here.selection):
            return True
        longer, shorter = sorted((view.end - view.start, here.end - here.start), reverse=True)
        return now - self._moved < REST and longer < 3 * shorter and view.selection == here.selection

    def back(self) -> View | None:
        """The place before; None at the first."""
        return self._step(-1)

    def forward(self) -> View | None:
        """The place after, where one has gone back; None at the last."""
        return self._step(1)

    def _step(self, by: int) -> View | None:
        if not 0 <= self.at + by < len(self.places):
            return None
        self.at += by
        self._settled, self._moved = False, -REST
        return self.places[self.at]

    def change(self, moved: Callable[[View], View]) -> None:
        """The trace has grown: the same places in its new numbers."""
        self.places = [moved(place) for place in self.places]

    @property
    def words(self) -> str:
        """``3 of 12``."""
        return f"{self.at + 1} of {len(self.places)}"


Marks = Mapping[str, View]
"""Places by the letters that they were given."""


def letters(marks: Marks) -> str:
    """The marks there are: ``a b x``."""
    return " ".join(sorted(marks)) or "none"
