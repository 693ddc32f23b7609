"""Selection in the timeline: clicks, ranges dragged with the mouse, and ranges from an anchor with the keys."""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from tracehound.draw.lane_cache import TimelineRows
from tracehound.draw.lane_layout import Viewport
from tracehound.draw.timeline_outline import LaneGroup
from tracehound.model.trace import Trace
from tracehound.ui.background.lane_loader import ViewMove
from tracehound.ui.state import view_moves
from tracehound.ui.state.view import View
from tracehound.ui.widgets.timeline_painter import FrameGeometry

MIN_DRAG_CELLS = 2
"""Least movement in cells that makes a press a drag."""

CellPosition = tuple[int, int]
"""Column (of the lanes; negative in the gutter) and line."""


class MouseDrag(Struct):
    """Position where the mouse button went down, and whether it has moved since."""

    _pressed_at: CellPosition | None = None
    _dragging: bool = False

    def press(self, spot: CellPosition) -> None:
        """Start at this position."""
        self._pressed_at, self._dragging = spot, False

    def drag(self, column: int) -> tuple[int, int] | None:
        """Columns of the dragged range; None for a click, or from the gutter."""
        if self._pressed_at is None or self._pressed_at[0] < 0:
            return None
        self._dragging = self._dragging or abs(column - self._pressed_at[0]) >= MIN_DRAG_CELLS
        return (self._pressed_at[0], column) if self._dragging else None

    def release(self) -> tuple[CellPosition | None, bool]:
        """End. Returns the pressed position, and True for a drag."""
        press, dragging = self._pressed_at, self._dragging
        self._pressed_at, self._dragging = None, False
        return press, dragging


class RangeAnchor(Struct):
    """Start and end of the event or instant where a range began, in ps.

    None while no range is selected with the keys.
    """

    at: tuple[int, int] | None = None

    def toggle(self, trace: Trace, view: View) -> None:
        """Begin at the selected event or the focus; the second time, end."""
        self.at = view_moves.selected_bounds(trace, view) if self.at is None else None

    def extend_selection(self, trace: Trace, view: View) -> View:
        """View with the range from the anchor to the current event or focus selected."""
        if self.at is None:
            return view
        low, high = view_moves.selected_bounds(trace, view)
        return view_moves.select_range(view, min(low, self.at[0]), max(high, self.at[1]))


def click_target(sight: Viewport, shown: FrameGeometry, spot: CellPosition) -> LaneGroup | ViewMove | None:
    """Group to fold if its header was clicked; else the move to the clicked event, lane or instant.

    A click above the lanes clears the selection; a click below them does nothing.
    """
    column, y = spot
    if y < sight.above:
        return lambda rows, view: view_moves.clear_selection(view)  # noqa: ARG005
    line = dict(sight.numbered_lines).get(y)
    if line is None:
        return None
    if line.entry is None or y == sight.above + sight.pinned_line_count:
        return line.group
    if column < 0:
        return partial(_go_to_lane, line.entry.lane)
    return partial(_select_at, line.entry.lane, line.depth, (shown.time(column), shown.time(column + 1)))


def _go_to_lane(lane: int, rows: TimelineRows, view: View) -> View:
    return view_moves.move_lanes(rows, view, [(lane, 1)], 0)


def _select_at(lane: int, depth: int, cell: tuple[int, int], rows: TimelineRows, view: View) -> View:
    return view_moves.select_at_point(rows, view, lane, depth, cell)
