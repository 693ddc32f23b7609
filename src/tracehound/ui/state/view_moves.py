"""Moves through a trace: a view in, the next view out.

Owns what each move means: zoom, pan, the next event, the next gap, up and down. Knows no keys and no widgets. A move
that leads nowhere gives the same view back; one that needs rows which are not there yet raises `NotReadError`. Times
are ps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from tracehound.draw.lane_cache import TimelineRows
from tracehound.draw.lane_rows import LaneRow
from tracehound.model.trace import Trace, lanes_with_times
from tracehound.numeric.intervals import EMPTY_INTERVALS, Intervals
from tracehound.ui.state.view import View

SHORTEST_VIEW = 1000
"""No view is shorter than this."""

LEGIBLE_SHARE = 50
"""An event shorter than this part of the view is zoomed to when one jumps to it."""

MIN_GAP_SHARE = 100
"""Walking from gap to gap stops at those that are at least this part of the view: smaller ones cannot be seen."""


def run_bounds(trace: Trace, view: View) -> tuple[int, int]:
    """First start and last end of the lanes of the ranks shown, of events or of samples."""
    if view.ranks is None:
        low, high = trace.span
    else:
        lanes = lanes_with_times(trace.lanes_of(view.ranks))
        if lanes.is_empty():
            return (0, SHORTEST_VIEW)
        low, high = int(lanes["first"].to_numpy().min()), int(lanes["last"].to_numpy().max())
    return (low, max(high, low + SHORTEST_VIEW))


def show_whole_run(trace: Trace, view: View) -> View:
    """Show the whole run."""
    return view.with_bounds(*run_bounds(trace, view))


def clamp_view(trace: Trace, view: View, start: int, length: int) -> View:
    """Show `length` from `start`, moved and shortened so as to stay inside the run."""
    low, high = run_bounds(trace, view)
    length = min(max(length, SHORTEST_VIEW), high - low)
    start = min(max(start, low), high - length)
    return view.with_bounds(start, start + length)


def focus_time(view: View) -> int:
    """The instant that zooming keeps in place: the view's focus, or the middle where that is out of sight."""
    if view.focus is not None and view.start <= view.focus < view.end:
        return view.focus
    return (view.start + view.end) // 2


def selected_bounds(trace: Trace, view: View) -> tuple[int, int]:
    """Start and end of the selected event; without one the focus, twice."""
    if view.event is None:
        return (focus_time(view), focus_time(view))
    found = trace.event(view.event)
    return (int(found["start"]), int(found["end"]))


def zoom_view(trace: Trace, view: View, by: tuple[int, int], at: int | None = None) -> View:
    """Show `by[0] / by[1]` as much time, keeping the instant `at` (the focus) where it is on the screen."""
    still = focus_time(view) if at is None else at
    length = view.end - view.start
    wanted = min(max(length * by[0] // by[1], SHORTEST_VIEW), run_bounds(trace, view)[1] - run_bounds(trace, view)[0])
    return clamp_view(trace, view, still - (still - view.start) * wanted // length, wanted)


def pan_view(trace: Trace, view: View, by: tuple[int, int]) -> View:
    """Move by `by[0] / by[1]` of what is shown; to the right where that is positive."""
    length = view.end - view.start
    return clamp_view(trace, view, view.start + length * by[0] // by[1], length)


def move_focus(trace: Trace, view: View, by: tuple[int, int]) -> View:
    """Move the focus by an eighth of what `pan` would move, off the selected event, and keep it in sight."""
    low, high = run_bounds(trace, view)
    at = min(max(focus_time(view) + (view.end - view.start) * by[0] // (8 * by[1]), low), high - 1)
    return reveal_interval(trace, replace(view, event=None, focus=at), at, at + 1)


def reveal_interval(trace: Trace, view: View, start: int, end: int) -> View:
    """Pan so that `[start, end)` is in sight; what is longer than the view is shown from its start."""
    length = view.end - view.start
    if view.start <= start and end <= view.end:
        return view
    if end - start > length:
        if max(0, min(end, view.end) - max(start, view.start)) * 2 >= length:
            return view
        return clamp_view(trace, view, start - length // 10, length)
    return clamp_view(trace, view, (start + end - length) // 2, length)


def frame_interval(trace: Trace, view: View, start: int, end: int) -> View:
    """Zoom to `[start, end)` with a little air on both sides."""
    air = (end - start) // 12
    return clamp_view(trace, view, start - air, end - start + 2 * air)


def select_window(trace: Trace, view: View, window: tuple[int, int]) -> View:
    """Select a window and show all of it."""
    chosen = replace(view, selection=window, event=None, focus=(window[0] + window[1]) // 2)
    return frame_interval(trace, chosen, *window)


def select_range_in_sight(trace: Trace, view: View, start: int, end: int) -> View:
    """Select a range, bring it into sight, and zoom where it would be too short to see or too long to fit."""
    chosen = replace(view, selection=(start, end), event=None, focus=(start + end) // 2)
    shown = view.end - view.start
    if end - start > shown or (end - start) * MIN_GAP_SHARE < shown:
        length = max((end - start) * 4, SHORTEST_VIEW)
        return clamp_view(trace, chosen, (start + end - length) // 2, length)
    return reveal_interval(trace, chosen, start, end)


def zoom_to_selection(rows: TimelineRows, view: View) -> View:
    """Zoom to the selected range; without one to the selected event."""
    if view.selection is not None:
        return frame_interval(rows.trace, view, *view.selection)
    if view.event is None:
        return view
    return frame_interval(rows.trace, view, *selected_bounds(rows.trace, view))


def select_event(trace: Trace, view: View, event: int) -> View:
    """Select an event and its lane; what is shown stays."""
    found = trace.event(event)
    return _with_selected_event(view, event, int(found["lane"]), int(found["start"]), int(found["end"]))


def _select_slice(rows: TimelineRows, view: View, lane: int, depth: int, index: int) -> View:
    """`select_event` for a slice of a lane in memory: no reading is needed."""
    row = rows.row(lane, depth)
    return _with_selected_event(
        view, rows.event_id(lane, depth, index), lane, int(row.start[index]), int(row.end[index])
    )


def _with_selected_event(view: View, event: int, lane: int, start: int, end: int) -> View:
    """Select an event; the focus is the middle of what is in sight of it."""
    low, high = max(start, view.start), min(end, view.end)
    middle = (low + high) // 2 if low <= high else (start + end) // 2
    return replace(view, event=event, lane=lane, focus=middle)


def go_to_event(trace: Trace, view: View, event: int) -> View:
    """Select an event and bring it into sight; zoom where it would be too short to read or too long to see."""
    found = trace.event(event)
    start, end = int(found["start"]), int(found["end"])
    length, shown = end - start, view.end - view.start
    if length * LEGIBLE_SHARE < shown or length > shown:
        wide = max(length * 8, SHORTEST_VIEW)
        view = clamp_view(trace, view, (start + end - wide) // 2, wide)
    return select_event(trace, reveal_interval(trace, view, start, end), event)


def go_to_next_event(rows: TimelineRows, view: View, direction: int) -> View:
    """Select the next (1) or previous (-1) event on the lane, on the row of the selected one.

    On a counter's lane go to where its value changes.
    """
    if view.lane is None:
        return view
    if (at := rows.next_change(view.lane, focus_time(view), direction)) is not None:
        return reveal_interval(rows.trace, replace(view, focus=at, event=None), at, at + 1)
    depth, index = _neighbor_slice(rows, view, view.lane, direction)
    row = rows.row(view.lane, depth)
    if not 0 <= index < len(row.start):
        return view
    shown = reveal_interval(rows.trace, view, int(row.start[index]), int(row.end[index]))
    return _select_slice(rows, shown, view.lane, depth, index)


def _neighbor_slice(rows: TimelineRows, view: View, lane: int, direction: int) -> tuple[int, int]:
    """Depth and index of the event after or before the selected one, or the focus."""
    if view.event is not None:
        chosen_lane, depth, index = rows.locate_event(view.event)
        if chosen_lane == lane:
            return depth, index + direction
    row, time = rows.row(lane, 0), focus_time(view)
    if direction > 0:
        return 0, int(np.searchsorted(row.end, time, side="right"))
    return 0, int(np.searchsorted(row.start, time, side="right")) - 1


def slice_at_focus(rows: TimelineRows, view: View, depth: int = 0) -> int | None:
    """The event of the view's lane at the focus, on the row `depth` or the nearest one above it."""
    if view.lane is None:
        return None
    for row_depth in range(depth, -1, -1):
        index = rows.row(view.lane, row_depth).event_index_at(focus_time(view))
        if index is not None:
            return rows.event_id(view.lane, row_depth, index)
    return None


def select_at_focus(rows: TimelineRows, view: View) -> View:
    """Select what is at the focus on the lane, or the nearest event in sight."""
    if view.lane is None:
        return view
    event = slice_at_focus(rows, view)
    if event is not None:
        return _select_slice(rows, view, *rows.locate_event(event))
    row = rows.row(view.lane, 0)
    low, high = row.event_range(view.start, view.end)
    if low == high:
        return view
    distance = np.maximum(row.start[low:high] - focus_time(view), focus_time(view) - row.end[low:high])
    return _select_slice(rows, view, view.lane, 0, low + int(distance.argmin()))


def move_vertically(rows: TimelineRows, view: View, stops: Sequence[tuple[int, int]], direction: int) -> View:
    """Down (1) into the selected event and on to the next lane, or up (-1) out of it and to the previous one.

    `stops` are the lanes with the number of rows that each shows.
    """
    if view.event is not None and view.lane is not None:
        lane, depth, _ = rows.locate_event(view.event)
        if lane == view.lane and depth + direction >= 0:
            index = rows.row(lane, depth + direction).event_index_at(focus_time(view))
            if index is not None:
                return replace(view, event=rows.event_id(lane, depth + direction, index))
    return move_lanes(rows, view, stops, direction)


def move_lanes(rows: TimelineRows, view: View, stops: Sequence[tuple[int, int]], by: int) -> View:
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
    return replace(moved, event=slice_at_focus(rows, moved, depth - 1 if by < 0 else 0))


def ensure_lane(rows: TimelineRows, view: View, stops: Sequence[tuple[int, int]]) -> View:
    """With the cursor on the first lane, if it is on none."""
    return view if view.lane is not None else move_lanes(rows, view, stops, 1)


def select_at_point(rows: TimelineRows, view: View, lane: int, depth: int, within: tuple[int, int]) -> View:
    """Select the event on a row of a lane that has most of `within`; where there is none, the lane and that instant."""
    row = rows.row(lane, depth)
    low, high = row.event_range(*within)
    here = replace(view, lane=lane, event=None, focus=(within[0] + within[1]) // 2)
    if low == high:
        return here
    inside = np.minimum(row.end[low:high], within[1]) - np.maximum(row.start[low:high], within[0])
    return _select_slice(rows, here, lane, depth, low + int(inside.argmax()))


def show_ranks(trace: Trace, view: View, ranks: tuple[int, ...] | None) -> View:
    """Show these ranks (None: all). A lane or an event of another one is not selected any more."""
    if ranks == view.ranks:
        return view
    if view.lane is not None and view.lane not in trace.lanes_of(ranks)["lane"]:
        view = replace(view, lane=None, event=None)
    return replace(view, ranks=ranks)


def rank_of_view(trace: Trace, view: View) -> int | None:
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


def select_next_gap(rows: TimelineRows, view: View, direction: int) -> View:
    """Select the next (1) or previous (-1) gap of the rank: at least a hundredth of what is shown.

    Counted from the selected range; without one from the focus, and a gap around that comes first.
    """
    rank = rank_of_view(rows.trace, view)
    if rank is None:
        return view
    gaps = _gaps_between(rows.busy_row(rank), (view.end - view.start) // MIN_GAP_SHARE)
    if view.selection is None:
        ahead, behind = (
            np.searchsorted(gaps.end, focus_time(view), side="right"),
            np.searchsorted(gaps.start, focus_time(view)),
        )
    else:
        ahead = np.searchsorted(gaps.start, view.selection[0], side="right")
        behind = np.searchsorted(gaps.end, view.selection[1])
    index = int(ahead) if direction > 0 else int(behind) - 1
    if not 0 <= index < len(gaps.start):
        return view
    return select_range_in_sight(rows.trace, view, int(gaps.start[index]), int(gaps.end[index]))


def _gaps_between(busy: LaneRow, least: int) -> Intervals:
    """The gaps between the first and the last work that are at least so long."""
    if len(busy.start) == 0:
        return EMPTY_INTERVALS
    start, end = busy.end[:-1], busy.start[1:]
    keep = end - start >= max(least, 1)
    return Intervals(start[keep], end[keep])


def select_range(view: View, one: int, other: int) -> View:
    """Select the range between two instants."""
    return replace(view, selection=(min(one, other), max(one, other, min(one, other) + 1)))


def clear_selection(view: View) -> View:
    """Select nothing."""
    return replace(view, event=None, selection=None, focus=None)
