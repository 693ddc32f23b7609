"""The explorer's view: one frozen value, which panes watch and none keeps a copy of; and its history and marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.model.trace import Window


class View(Struct, frozen=True):
    """State of the explorer: what is shown and selected. Times are ps from the trace's origin; ids are the trace's.

    `start` and `end` bound what the timeline shows, `selection` the window that every table is narrowed to (None: the
    whole run). `lane` is the lane under the cursor, `event` the selected event, `ranks` the ranks shown (None: all),
    `needle` what was searched for last. `focus` is the instant that zooming keeps in place and at which moving to
    another lane looks; None is the middle of what is shown.
    """

    start: int = 0
    end: int = 1
    ranks: tuple[int, ...] | None = None
    lane: int | None = None
    event: int | None = None
    selection: tuple[int, int] | None = None
    needle: str = ""
    focus: int | None = None

    @property
    def window(self) -> Window:
        """The window of every analysis that a pane shows."""
        start, end = self.selection if self.selection is not None else (None, None)
        return Window(start, end, self.ranks)

    def differs_in_interval(self, other: View) -> bool:
        """True if it shows another interval than the other view, or selects another window."""
        return (self.start, self.end, self.selection) != (other.start, other.end, other.selection)

    def with_bounds(self, start: int, end: int) -> View:
        """The view with other bounds; never shorter than 1 ps."""
        return replace(self, start=start, end=max(end, start + 1))


REST_SECONDS = 1.0
"""Seconds after which a place counts as one, however small the move that led there and the next one are."""

MAX_PLACES = 100
"""So many places are remembered."""


def return_to_place(view: View, place: View) -> View:
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


class ViewHistory(Struct):
    """The places in the order in which they were visited, and which of them is the present one.

    Moving the cursor changes the present place. Panning and zooming by keys soon after one another is one move.
    What follows `start_new_entry` is a new place, however near.
    """

    places: list[View] = field(default_factory=list)
    at: int = -1
    _moved: float = -REST_SECONDS
    _settled: bool = False

    def start_new_entry(self) -> None:
        """The next change is a jump, to which `back` leads back."""
        self._settled = True

    def record_view(self, view: View, now: float) -> None:
        """The view is another one, at the time `now` (seconds of any clock)."""
        if self.at >= 0 and return_to_place(view, self.places[self.at]) == view:
            return
        if self.at >= 0 and not self._settled and self._near(view, now):
            self.places[self.at] = view
        else:
            del self.places[self.at + 1 :]
            self.places = [*self.places[1 - MAX_PLACES :], view]
            self.at = len(self.places) - 1
        self._settled = False
        self._moved = now if self.at else -REST_SECONDS

    def _near(self, view: View, now: float) -> bool:
        """True if this is still the current place: the same interval, or a small move a short while ago."""
        here = self.places[self.at]
        if (view.start, view.end, view.selection) == (here.start, here.end, here.selection):
            return True
        longer, shorter = sorted((view.end - view.start, here.end - here.start), reverse=True)
        return now - self._moved < REST_SECONDS and longer < 3 * shorter and view.selection == here.selection

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
        self._settled, self._moved = False, -REST_SECONDS
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


def list_mark_letters(marks: Marks) -> str:
    """The marks there are: ``a b x``."""
    return " ".join(sorted(marks)) or "none"
