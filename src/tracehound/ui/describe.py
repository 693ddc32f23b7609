"""What the view has selected, in one line of words. Knows no widget."""

from __future__ import annotations

import polars as pl

from tracehound.errors import printable
from tracehound.trace import Trace
from tracehound.ui.view import View
from tracehound.units import count, duration, instant


def describe(trace: Trace, view: View) -> str:
    """The selected event, else the selected window, else the lane under the cursor, else the run."""
    if view.event is not None:
        return _event(trace, view.event)
    if view.selection is not None:
        start, end = view.selection
        return f"{duration(end - start)} selected · {instant(start)} to {instant(end)}"
    if view.lane is not None:
        return _lane(trace, view.lane)
    events = int(trace.lanes["events"].sum())
    return f"{count(events)} events on {count(trace.lanes.height)} lanes · {duration(trace.span[1] - trace.span[0])}"


def _event(trace: Trace, event: int) -> str:
    found = trace.event(event)
    lane = trace.lanes.filter(pl.col("lane") == found["lane"])["name"][0]
    parts = (printable(found["name"]), duration(found["end"] - found["start"]), f"at {instant(found['start'])}",
             found["kind"], printable(lane))  # fmt: skip
    return " · ".join(parts)


def _lane(trace: Trace, lane: int) -> str:
    columns = trace.lanes.filter(pl.col("lane") == lane).select("name", "process", "role", "events").row(0, named=True)
    process = columns["process"]
    parts = (columns["name"], process if process != columns["name"] else None, columns["role"],
             f"{count(columns['events'])} events")  # fmt: skip
    return " · ".join(printable(part) for part in parts if part)
