"""Moves through a trace: a view in, the next view out.

Owns what each move means: zoom, pan, the next event, the next gap, up and down. Knows no keys and no widgets. A move
that leads nowhere gives the same view back; one that needs rows which are not there yet raises `NotReadError`. Times
are ps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from tracehound.draw.rows import Row
from tracehound.draw.shelf import Rows
from tracehound.intervals import EMPTY, Intervals
from tracehound.trace import Trace, spanned
from tracehound.ui.state.view import View

SHORTEST = 1000
"""No view is shorter than this."""

LEGIBLE = 50
"""An event shorter than this part of the view is zoomed to when one jumps to it."""

LEAST_GAP = 100
"""Walking from gap to gap stops at those that are at least this part of the view: smaller ones cannot be seen."""


def span(trace: Trace, view: View) -> tuple[int, int]:
    """First start and last end of the lanes of the ranks shown, of events or of samples."""
    if view.ranks is None:
        low, high = trace.span
    else:
        lanes = spanned(trace.lanes_of(view.ranks))
        if lanes.is_empty():
            return (0, SHORTEST)
        low, high = int(lanes["first"].to_numpy().min()), int(lanes["last"].to_numpy().max())
    return (low, max(high, low + SHORTEST))


def fit(trace: Trace, view: View) -> View:
    """Show the whole run."""
    return view.shown(*span(trace, view))


def bounded(trace: Trace, view: View, start: int, length: int) -> View:
    """Show `length` from `start`, moved and shortened so as to stay inside the run."""
    low, high = span(trace, view)
    length = min(max(length, SHORTEST), high - low)
    start = min(max(start, low), high - length)
    return view.shown(start, start + length)


def focus(view: View) -> int:
    """The instant that zooming keeps in place: the view's focus, or the middle where that is out of sight."""
    if view.focus is not None and view.start <= view.focus < view.end:
        return view.focus
    return (view.start + view.end) // 2


def extent(trace: Trace, view: View) -> tuple[int, int]:
    """Start and end of the selected event; without one the focus, twice."""
    if view.event is None:
        return (focus(view), focus(view))
    found = trace.event(view.event)
    return (int(found["start"]), int(found["end"]))


def zoom(trace: Trace, view: View, by: tuple[int, int], at: int | None = None) -> View:
    """Show `by[0] / by[1]` as much time, keeping the instant `at` (the focus) where it is on the screen."""
    still = focus(view) if at is None else at
    length = view.end - view.start
    wanted = min(max(length * by[0] // by[1], SHORTEST), span(trace, view)[1] - span(trace, view)[0])
    return bounded(trace, view, still - (still - view.start) * wanted // length, wanted)


def pan(trace: Trace, view: View, by: tuple[int, int]) -> View:
    """Move by `by[0] / by[1]` of what is shown; to the right where that is positive."""
    length = view.end - view.start
    return bounded(trace, view, view.start + length * by[0] // by[1], length)


def stretch(trace: Trace, view: View, by: tuple[int, int]) -> View:
    """Move the focus by an eighth of what `pan` would move, off the selected event, and keep it in sight."""
    low, high = span(trace, view)
    at = min(max(focus(view) + (view.end - view.start) * by[0] // (8 * by[1]), low), high - 1)
    return reveal(trace, replace(view, event=None, focus=at), at, at + 1)


def reveal(trace: Trace, view: View, start: int, end: int) -> View:
    """Pan so that `[start, end)` is in sight; what is longer than the view is shown from its start."""
    length = view.end - view.start
    if view.start <= start and end <= view.end:
        return view
    if end - start > length:
        if max(0, min(end, view.end) - max(start, view.start)) * 2 >= length:
            return view
        return bounded(trace, view, start - length // 10, length)
    return bounded(trace, view, (start + end - length) // 2, length)


def frame(trace: Trace, view: View, start: int, end: int) -> View:
    """Zoom to `[start, end)` with a little air on both sides."""
    air = (end - start) // 12
    return bounded(trace, view, start - air, end - start + 2 * air)


def to_window(trace: Trace, view: View, window: tuple[int, int]) -> View:
    """Select a window and show all of it."""
    chosen = replace(view, selection=window, event=None, focus=(window[0] + window[1]) // 2)
    return frame(trace, chosen, *window)


def to_range(trace: Trace, view: View, start: int, end: int) -> View:
    """Select a range, bring it into sight, and zoom where it would be too short to see or too long to fit."""
    chosen = replace(view, selection=(start, end), event=None, focus=(start + end) // 2)
    shown = view.end - view.start
    if end - start > shown or (end - start) * LEAST_GAP < shown:
        length = max((end - start) * 4, SHORTEST)
        return bounded(trace, chosen, (start + end - length) // 2, length)
    return reveal(trace, chosen, start, end)


def to_chosen(rows: Rows, view: View) -> View:
    """Zoom to the selected range; without one to the selected event."""
    if view.selection is not None:
        return frame(rows.trace, view, *view.selection)
    if view.event is None:
        return view
    return frame(rows.trace, view, *extent(rows.trace, view))


def choose(trace: Trace, view: View, event: int) -> View:
    """Select an event and its lane; what is shown stays."""
    found = trace.event(event)
    return _chosen(view, event, int(found["lane"]), int(found["start"]), int(found["end"]))


def _choose_slice(rows: Rows, view: View, lane: int, depth: int, index: int) -> View:
    """The same for a slice: what is in memory needs no reading."""
    row = rows.row(lane, depth)
    return _chosen(view, rows.event(lane, depth, index), lane, int(row.start[index]), int(row.end[index]))


def _chosen(view: View, event: int, lane: int, start: int, end: int) -> View:
    """Select an event; the focus is the middle of what is in sight of it."""
    low, high = max(start, view.start), min(end, view.end)
    middle = (low + high) // 2 if low <= high else (start + end) // 2
    return replace(view, event=event, lane=lane, focus=middle)


def to_event(trace: Trace, view: View, event: int) -> View:
    """Select an event and bring it into sight; zoom where it would be too short to read or too long to see."""
    found = trace.event(event)
    start, end = int(found["start"]), int(found["end"])
    length, shown = end - start, view.end - view.start
    if length * LEGIBLE < shown or length > shown:
        wide = max(length * 8, SHORTEST)
        view = bounded(trace, view, (start + end - wide) // 2, wide)
    return choose(trace, reveal(trace, view, start, end), event)


def next_event(rows: Rows, view: View, direction: int) -> View:
    """Select the next (1) or previous (-1) event on the lane, on the row of the selected one.

    On a counter's lane go to where its value changes.
    """
    if view.lane is None:
        return view
    if (at := rows.change(view.lane, focus(view), direction)) is not None:
        return reveal(rows.trace, replace(view, focus=at, event=None), at, at + 1)
    depth, index = _beside(rows, view, view.lane, direction)
    row = rows.row(view.lane, depth)
    if not 0 <= index < len(row.start):
        return view
    shown = reveal(rows.trace, view, int(row.start[index]), int(row.end[index]))
    return _choose_slice(rows, shown, view.lane, depth, index)


def _beside(rows: Rows, view: View, lane: int, direction: int) -> tuple[int, int]:
    """Depth and index of the event after or before the selected one, or the focus."""
    if view.event is not None:
        chosen_lane, depth, index = rows.slice_of(view.event)
        if chosen_lane == lane:
            return depth, index + direction
    row, time = rows.row(lane, 0), focus(view)
    if direction > 0:
        return 0, int(np.searchsorted(row.end, time, side="right"))
    return 0, int(np.searchsorted(row.start, time, side="right")) - 1


def under_focus(rows: Rows, view: View, depth: int = 0) -> int | None:
    """The event of the view's lane at the focus, on the row `depth` or the nearest one above it."""
    if view.lane is None:
        return None
    for row_depth in range(depth, -1, -1):
        index = rows.row(view.lane, row_depth).at(focus(view))
        if index is not None:
            return rows.event(view.lane, row_depth, index)
    return None


def pick(rows: Rows, view: View) -> View:
    """Select what is at the focus on the lane, or the nearest event in sight."""
    if view.lane is None:
        return view
    event = under_focus(rows, view)
    if event is not None:
        return _choose_slice(rows, view, *rows.slice_of(event))
    row = rows.row(view.lane, 0)
    low, high = row.within(view.start, view.end)
    if low == high:
        return view
    distance = np.maximum(row.start[low:high] - focus(view), focus(view) - row.end[low:high])
    return _choose_slice(rows, view, view.lane, 0, low + int(distance.argmin()))


def vertical(rows: Rows, view: View, stops: Sequence[tuple[int, int]], direction: int) -> View:
    """Down (1) into the selected event and on to the next lane, or up (-1) out of it and to the previous one.

    `stops` are the lanes with the number of rows that each shows.
    """
    if view.event is not None and view.lane is not None:
        lane, depth, _ = rows.slice_of(view.event)
        if lane == view.lane and depth + direction >= 0:
            index = rows.row(lane, depth + direction).at(focus(view))
            if index is not None:
                return replace(view, event=rows.event(lane, depth + direction, index))
    return to_lane(rows, view, stops, direction)


def to_lane(rows: Rows, view: View, stops: Sequence[tuple[int, int]], by: int) -> View:
    """Move `by` lanes down (up where negative) and, where the view has a focus, select what is there at that instant.

    Going up meets the lane's lowest row that shows something, going down its first.
    """
    if not stops:
        return view
    lanes = [lane for lane, _ in stops]
    at = lanes.index(view.lane) + by if view.lane in lanes else by - 1
    lane, depth = stops[min(max(at, 0), len(stops) - 1)]
    if lane == view.lane:
        return view
    moved = replace(view, lane=lane, event=None)
    if view.focus is None:
        return moved
    return replace(moved, event=under_focus(rows, moved, depth - 1 if by < 0 else 0))


def on_lane(rows: Rows, view: View, stops: Sequence[tuple[int, int]]) -> View:
    """With the cursor on the first lane, if it is on none."""
    return view if view.lane is not None else to_lane(rows, view, stops, 1)


def point(rows: Rows, view: View, lane: int, depth: int, within: tuple[int, int]) -> View:
    """Select the event on a row of a lane that has most of `within`; where there is none, the lane and that instant."""
    row = rows.row(lane, depth)
    low, high = row.within(*within)
    here = replace(view, lane=lane, event=None, focus=(within[0] + within[1]) // 2)
    if low == high:
        return here
    inside = np.minimum(row.end[low:high], within[1]) - np.maximum(row.start[low:high], within[0])
    return _choose_slice(rows, here, lane, depth, low + int(inside.argmax()))


def to_ranks(trace: Trace, view: View, ranks: tuple[int, ...] | None) -> View:
    """Show these ranks (None: all). A lane or an event of another one is not selected any more."""
    if ranks == view.ranks:
        return view
    if view.lane is not None and view.lane not in trace.lanes_of(ranks)["lane"]:
        view = replace(view, lane=None, event=None)
    return replace(view, ranks=ranks)


def rank_of(trace: Trace, view: View) -> int | None:
    """The rank that the view's lane belongs to, or the first that its host drives; without a lane the first shown."""
    host = None  # asked with every line that is drawn: no query, which would wait for those of the analyses
    if view.lane is not None:
        at = int(np.flatnonzero(trace.lanes["lane"].to_numpy() == view.lane)[0])
        rank, host = trace.lanes["rank"][at], trace.lanes["host"][at]
        if rank is not None:
            return int(rank)
    for rank, other in zip(trace.ranks["rank"].to_list(), trace.ranks["host"].to_list(), strict=True):
        if host in (None, other) and (view.ranks is None or rank in view.ranks):
            return int(rank)
    return None


def next_gap(rows: Rows, view: View, direction: int) -> View:
    """Select the next (1) or previous (-1) gap of the rank: at least a hundredth of what is shown.

    Counted from the selected range; without one from the focus, and a gap around that comes first.
    """
    rank = rank_of(rows.trace, view)
    if rank is None:
        return view
    gaps = _gaps(rows.busy(rank), (view.end - view.start) // LEAST_GAP)
    if view.selection is None:
        ahead, behind = np.searchsorted(gaps.end, focus(view), side="right"), np.searchsorted(gaps.start, focus(view))
    else:
        ahead = np.searchsorted(gaps.start, view.selection[0], side="right")
        behind = np.searchsorted(gaps.end, view.selection[1])
    index = int(ahead) if direction > 0 else int(behind) - 1
    if not 0 <= index < len(gaps.start):
        return view
    return to_range(rows.trace, view, int(gaps.start[index]), int(gaps.end[index]))


def _gaps(busy: Row, least: int) -> Intervals:
    """The gaps between the first and the last work that are at least so long."""
    if len(busy.start) == 0:
        return EMPTY
    start, end = busy.end[:-1], busy.start[1:]
    keep = end - start >= max(least, 1)
    return Intervals(start[keep], end[keep])


def select_range(view: View, one: int, other: int) -> View:
    """Select the range between two instants."""
    return replace(view, selection=(min(one, other), max(one, other, min(one, other) + 1)))


def clear(view: View) -> View:
    """Select nothing."""
    return replace(view, event=None, selection=None, focus=None)
