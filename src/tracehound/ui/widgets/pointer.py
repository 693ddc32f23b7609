"""A button of the mouse held over the lanes: a click, or the selecting of a range.

Owns the press that is going on. Knows cells, and no times.
"""

from __future__ import annotations

from dataclasses import dataclass

DRAG = 2
"""A press that moves fewer cells is a click."""

Spot = tuple[int, int]
"""Column (of the lanes; negative in the gutter) and line."""


@dataclass
class Pointer:
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
