"""What the view has selected, in a few words each about something of it. Knows no widget and no width."""

from __future__ import annotations

import polars as pl

from tracehound.draw.graph import graph_of
from tracehound.errors import printable
from tracehound.trace import Trace
from tracehound.ui.state.view import View
from tracehound.units import count, duration, instant


def describe(trace: Trace, view: View) -> tuple[str, ...]:
    """The selected event, else the selected window, else the lane under the cursor, else the run.

    Its name stands first, what people ask for first after it.
    """
    if view.event is not None:
        return _event(trace, view.event)
    if view.selection is not None:
        start, end = view.selection
        return f"{duration(end - start)} selected", f"{instant(start)} to {instant(end)}"
    if view.lane is not None:
        return _lane(trace, view.lane)
    events = int(trace.lanes["events"].sum())
    length = duration(trace.span[1] - trace.span[0])
    return f"{_many(events, 'event')} on {_many(trace.lanes.height, 'lane')}", length


def _event(trace: Trace, event: int) -> tuple[str, ...]:
    found = trace.event(event)
    lane = trace.lanes.filter(pl.col("lane") == found["lane"])["name"][0]
    return (printable(found["name"]), duration(found["end"] - found["start"]), f"at {instant(found['start'])}",
            found["kind"], printable(lane))  # fmt: skip


def counter(trace: Trace, view: View) -> tuple[str, ...]:
    """What the counter under the cursor is at the focus, in sight and in all of the run; empty on other lanes."""
    at = None if view.lane is None else trace.lanes["lane"].index_of(view.lane)
    if at is None or trace.lanes["role"][at] != "counter" or trace.lanes["events"][at]:
        return ()
    graph = graph_of(trace, trace.lanes["lane"][at])
    here = None if view.focus is None else graph.at(view.focus)
    seen = graph.between(view.start, view.end)
    parts = [trace.lanes["name"][at], f"{graph.words(here)} here" if here is not None else ""]
    parts += [f"{graph.words(seen[0])} to {graph.words(seen[1])} in sight" if seen is not None else ""]
    parts += [f"at most {graph.words(graph.scale[1])}"]
    return tuple(printable(part) for part in parts if part)


def _lane(trace: Trace, lane: int) -> tuple[str, ...]:
    columns = trace.lanes.filter(pl.col("lane") == lane).select("name", "process", "role", "events").row(0, named=True)
    process = columns["process"]
    parts = (columns["name"], process if process != columns["name"] else None, columns["role"],
             _many(columns["events"], "event"))  # fmt: skip
    return tuple(printable(part) for part in parts if part)


def _many(number: int, word: str) -> str:
    return f"{count(number)} {word}{'' if number == 1 else 's'}"
