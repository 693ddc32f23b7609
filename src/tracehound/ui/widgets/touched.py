"""Which cells of a timeline change when the view does, but for its time: the lines of cursor and selection.

Owns that: what is not redrawn costs nothing over a slow line.
"""

from __future__ import annotations

from collections.abc import Iterator

from textual.geometry import Region

from tracehound.draw.sight import Sight
from tracehound.trace import Trace
from tracehound.ui.background.supply import Slot
from tracehound.ui.state import navigate
from tracehound.ui.state.view import View

Change = tuple[View, View]
"""The view before and after."""


def touched(
    trace: Trace, sight: Sight, views: Change, slots: set[Slot | None], gutter: int, width: int
) -> list[Region]:
    """The regions that a change of the view touches; `slots` are the selected slices before and after."""
    return [*_above(trace, sight, views, width), *_lines(sight, views, slots, gutter, width)]


def _above(trace: Trace, sight: Sight, views: Change, width: int) -> Iterator[Region]:
    """The ruler has the focus, and the steps are those of the cursor's rank."""
    old, new = views
    if old.focus != new.focus:
        yield Region(0, sight.above - 1, width, 1)
    if sight.above > 1 and navigate.rank_of(trace, old) != navigate.rank_of(trace, new):
        yield Region(0, 0, width, 1)


def _lines(sight: Sight, views: Change, slots: set[Slot | None], gutter: int, width: int) -> Iterator[Region]:
    """The rows of the slices, the names of the lanes, and what counters are at the focus."""
    old, new = views
    rows = {slot[:2] for slot in slots if slot is not None} if len(slots) > 1 else set()
    lanes = {old.lane, new.lane} if old.lane != new.lane else set()
    for y, line in sight.placed:
        if (line.lane, line.depth) in rows:
            yield Region(0, y, width, 1)
        elif any(sight.sheet.stands_for(line, lane) for lane in lanes):
            yield Region(0, y, gutter if line.track else width, 1)
        elif line.track is not None and line.track.graph and old.focus != new.focus:
            yield Region(0, y, gutter, 1)
