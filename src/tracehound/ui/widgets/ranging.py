"""A range of time that is being selected: with a button of the mouse held over the lanes, or from a mark with the keys.

Owns where it began. Knows no widget.
"""

from __future__ import annotations

from msgspec import Struct

from tracehound.trace import Trace
from tracehound.ui.state import navigate
from tracehound.ui.state.view import View

DRAG = 2
"""A press that moves fewer cells is a click."""

Spot = tuple[int, int]
"""Column (of the lanes; negative in the gutter) and line."""


class Pointer(Struct):
    """Where the button went down, and whether it has moved since."""

    _press: Spot | None = None
    _dragging: bool = False

    def press(self, spot: Spot) -> None:
        """The button went down."""
        self._press, self._dragging = spot, False

    def drag(self, column: int) -> tuple[int, int] | None:
        """The columns that are selected now; None while that is a click, or begins in the gutter."""
        if self._press is None or self._press[0] < 0:
            return None
        self._dragging = self._dragging or abs(column - self._press[0]) >= DRAG
        return (self._press[0], column) if self._dragging else None

    def release(self) -> tuple[Spot | None, bool]:
        """The button went up: where it was pressed, and whether that was a drag."""
        press, dragging = self._press, self._dragging
        self._press, self._dragging = None, False
        return press, dragging


class Mark(Struct):
    """Start and end of what a range began at, ps; None while no range is selected with the keys."""

    at: tuple[int, int] | None = None

    def switch(self, trace: Trace, view: View) -> None:
        """Begin at the selected event or the focus; the second time, end."""
        self.at = navigate.extent(trace, view) if self.at is None else None

    def stretched(self, trace: Trace, view: View) -> View:
        """The view with all selected from the mark to where one is in it."""
        if self.at is None:
            return view
        low, high = navigate.extent(trace, view)
        return navigate.select_range(view, min(low, self.at[0]), max(high, self.at[1]))
