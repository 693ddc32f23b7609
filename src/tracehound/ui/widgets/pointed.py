"""What a click on the lanes means. Knows no widget."""

from __future__ import annotations

from functools import partial

from tracehound.draw.outline import Group
from tracehound.draw.shelf import Rows
from tracehound.draw.sight import Sight
from tracehound.ui.background.supply import Move
from tracehound.ui.state import navigate
from tracehound.ui.state.view import View
from tracehound.ui.widgets.artist import Shown
from tracehound.ui.widgets.ranging import Spot


def pointed(sight: Sight, shown: Shown, spot: Spot) -> Group | Move | None:
    """The group whose header is there, to be folded; else the way to the event, lane or instant that is there.

    Above the lanes nothing is selected any more; below them a click means nothing.
    """
    column, y = spot
    if y < sight.above:
        return lambda rows, view: navigate.clear(view)  # noqa: ARG005
    line = dict(sight.placed).get(y)
    if line is None:
        return None
    if line.track is None or y == sight.above + sight.stays:
        return line.group
    if column < 0:
        return partial(_to_lane, line.track.lane)
    return partial(_point, line.track.lane, line.depth, (shown.time(column), shown.time(column + 1)))


def _to_lane(lane: int, rows: Rows, view: View) -> View:
    return navigate.to_lane(rows, view, [(lane, 1)], 0)


def _point(lane: int, depth: int, cell: tuple[int, int], rows: Rows, view: View) -> View:
    return navigate.point(rows, view, lane, depth, cell)
