"""Targets of result rows: (trace, view, row) -> view.

Knows no widget. A row leads to a window by its columns ``start`` and ``duration`` (or ``span``, or ``end``),
and to an event by ``event`` (``longest`` in a table of threads, ``id`` in one of events). A column about another event
leads there: ``before`` to ``before_event``, ``call_max`` to ``call_event``; a column of instants leads to that instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.result import Column
from tracehound.model.ids import file_index_of, id_of, row_of
from tracehound.model.trace import Trace
from tracehound.ui.state import view_moves
from tracehound.ui.state.view import View

ResultRow = Mapping[str, Any]


def event_of_row(trace: Trace, row: ResultRow) -> int | None:
    """The event that a row is about; a query may give any number that name."""
    named = (row.get(name) for name in ("event", "longest", "id"))
    found = next((value for value in named if isinstance(value, int) and not isinstance(value, bool)), None)
    if found is None or not 0 <= file_index_of(found) < len(trace.parts):
        return None
    return found if row_of(found) < trace.parts[file_index_of(found)].lanes["events"].sum() else None


def window_of_row(trace: Trace, row: ResultRow) -> tuple[int, int] | None:
    """The row's own window inside the run, else that of its event."""
    start, duration, end = row.get("start"), row.get("duration", row.get("span")), row.get("end")
    if isinstance(start, int) and (isinstance(duration, int) or isinstance(end, int)):
        low, high = trace.span
        end = start + duration if isinstance(duration, int) else end
        return (start, max(start + 1, min(end, high))) if low <= start <= high and isinstance(end, int) else None
    event = event_of_row(trace, row)
    if event is None:
        return None
    found = trace.event(event)
    return (found["start"], max(found["start"] + 1, found["end"]))


def select_gap(trace: Trace, view: View, row: ResultRow) -> View:
    """Select a gap on the lane of the op before it, and zoom so that it fills half of what is shown."""
    start, end = row["start"], row["start"] + row["duration"]
    near = row["before_event"] if row["before_event"] is not None else row["event"]
    lane = trace.event(near)["lane"] if near is not None else view.lane
    half = (end - start) // 2
    shown = view_moves.clamp_view(trace, view, start - half, 2 * (end - start))
    return replace(shown, selection=(start, end), lane=lane, event=None, focus=start + half)


def go_to_row_target(trace: Trace, view: View, row: ResultRow) -> View:
    """Go to the row's event, else to its window, else to its rank's first lane."""
    event, window = event_of_row(trace, row), window_of_row(trace, row)
    if isinstance(row.get("start"), int) and window is not None:
        if event is None:
            return view_moves.frame_interval(trace, view, *window)
        return view_moves.select_event(
            trace, view_moves.frame_interval(trace, view, *_window_with_event(trace, window, event)), event
        )
    if event is not None:
        return view_moves.go_to_event(trace, view, event)
    return _go_to_rank(trace, view, row)


def _window_with_event(trace: Trace, window: tuple[int, int], event: int) -> tuple[int, int]:
    """A window, so long that the event has a part in it: what made a rank late was before it was waited for."""
    (low, high), found = window, trace.event(event)
    start, end = int(found["start"]), int(found["end"])
    return (low, high) if start < high and end > low else (min(low, start), max(high, end))


def _go_to_rank(trace: Trace, view: View, row: ResultRow) -> View:
    """With the cursor on the lane that the row names, else on the first one of its rank, or of what drives it."""
    if not isinstance(row.get("rank"), int):
        return view
    lanes = trace.lanes.filter(pl.col("rank") == row["rank"])
    if lanes.is_empty():
        host = trace.ranks.filter(pl.col("rank") == row["rank"])["host"]
        lanes = trace.lanes.filter(pl.col("rank").is_null() & pl.col("host").is_in(host.implode()))
    named = lanes.filter(pl.col("name").is_in([str(row.get(name)) for name in ("stream", "lane")]))
    lanes = lanes if named.is_empty() else named
    return view if lanes.is_empty() else replace(view, lane=int(lanes["lane"][0]), event=None)


def has_target(trace: Trace, row: ResultRow) -> bool:
    """True if a row leads anywhere."""
    return window_of_row(trace, row) is not None or _go_to_rank(trace, View(), row).lane is not None


def go_to_column_target(trace: Trace, view: View, row: ResultRow, column: Column | None) -> View | None:
    """Go to what the column under the cursor is about, where that is not what the row is about."""
    if column is None:
        return None
    about = [name for name in row if name.endswith("_event") and f"{column.name}_".startswith(name[: -len("event")])]
    for name in about:
        event = event_of_row(trace, {"event": row[name]})
        if event is not None:
            return view_moves.go_to_event(trace, view, event)
    at = row.get(column.name)
    low, high = trace.span
    if column.unit == "instant" and column.name != "start" and isinstance(at, int) and low <= at <= high:
        there = _go_to_rank(trace, view, row)
        length = there.end - there.start
        return view_moves.clamp_view(
            trace, replace(there, event=None, focus=min(at, high - 1)), at - length // 2, length
        )
    return None


def view_in_grown_trace(view: View, old: Trace, new: Trace) -> View:
    """The view on a trace that has grown: what showed the whole run still does, and times follow the new origin.

    Event and lane stay the same, also where the parts are numbered anew; those of a part that is gone are forgotten.
    """
    view = replace(view, lane=_id_in_grown_trace(view.lane, old, new), event=_id_in_grown_trace(view.event, old, new))
    if (view.start, view.end) == view_moves.run_bounds(old, view):
        return view_moves.show_whole_run(new, view)
    by = (old.origin_ns - new.origin_ns) * 1000 if old.origin_ns is not None and new.origin_ns is not None else 0
    if not by:
        return view
    selection = None if view.selection is None else (view.selection[0] + by, view.selection[1] + by)
    focus = None if view.focus is None else view.focus + by
    return replace(view, start=view.start + by, end=view.end + by, selection=selection, focus=focus)


def ids_changed(old: Trace, new: Trace) -> bool:
    """True if ids of the old trace may mean something else in the new one."""
    return [part.path for part in old.parts] != [part.path for part in new.parts]


def _id_in_grown_trace(number: int | None, old: Trace, new: Trace) -> int | None:
    """The id of the same lane or event in the new trace."""
    if number is None:
        return None
    path = old.parts[file_index_of(number)].path
    part = next((index for index, part in enumerate(new.parts) if part.path == path), None)
    return None if part is None else id_of(part, row_of(number))
