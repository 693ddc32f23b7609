"""Following links through the layers of a program: device, launch, operator, Python.

Owns where a link leads; it is looked for in a thread, since the way back down has to be searched. Knows no widget but
the one that is told. Up, an event of a device leads to the host event that enqueued it, an annotation there to the one
of the host whose work it spans, and an event of a host to the nearest one around it on a layer further out; down, an
event leads to what it enqueued, or to what enqueues inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from msgspec import Struct
from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.model.ids import file_index_of, is_in_file, row_of
from tracehound.model.short_names import shorten_kernel_name
from tracehound.model.trace import Trace, collect_frame
from tracehound.model.units import format_duration
from tracehound.numeric.intervals import Ints
from tracehound.ui.background.background_thread import BackgroundThread
from tracehound.ui.state.event_walk import EventWalk

LinkDirection = Literal[-1, 1]
"""Up to what caused an event (-1), or down to what it caused (1)."""

OUTERMOST_LAYER = 2

OUTER_KINDS = {"op": 1, "annotation": 1, "module": 1, "step": 1, "python": OUTERMOST_LAYER}
"""How far out a host event is by its kind; calls of the runtime, and all others, are the innermost."""

ANNOTATIONS = ("annotation", "step")


class EventLink(Struct, frozen=True):
    """Link of an event: its `target` (None: none), the text about it, and further targets."""

    target: int | None
    words: str
    walk: EventWalk | None = None


def find_cause(trace: Trace, event: int) -> EventLink:
    """The event that enqueued this one; of a host event, or where no launch is known, the one around it.

    Around a host event that is the nearest on a layer further out (call, operator, Python), else the nearest of all.
    What a profiler draws on a device for an annotation of the host comes from that.
    """
    found = _event_columns(trace, event, "name", "lane", "start", "rank", "kind", "launch", "parent", "external")
    name = _short_name(found)
    if found["launch"] is not None:
        launch = _event_columns(trace, found["launch"], "name", "start")
        return EventLink(found["launch"], f"launch, {format_duration(found['start'] - launch['start'])} before {name}")
    if (annotated := _host_annotation(trace, event, found)) is not None:
        return EventLink(annotated, f"{name} on the host, whose work the device's spans")
    if found["parent"] is None:
        why = "no launch is recorded" if found["rank"] is not None else "nothing is recorded around it"
        return EventLink(None, f"{name}: {why}")
    target = found["parent"] if found["rank"] is not None else _enclosing_event(trace, found)
    return EventLink(target, f"around {name}")


def _host_annotation(trace: Trace, event: int, found: dict[str, Any]) -> int | None:
    """The annotation of the host that one on a device repeats: of the same name and External id."""
    if found["rank"] is None or found["external"] is None or found["kind"] not in ANNOTATIONS:
        return None
    host = trace.lanes.filter(pl.col("lane") == found["lane"])["host"][0]
    here = pl.col("rank").is_null() & (pl.col("host") == host) & is_in_file("lane", file_index_of(event))
    events = trace.events(trace.lanes.filter(here)["lane"].to_list())
    alike = (pl.col("external") == found["external"]) & pl.col("kind").is_in(ANNOTATIONS)
    named = events.filter(alike & (pl.col("name").cast(pl.String) == found["name"]))
    same = collect_frame(named.select("id"))["id"]
    return int(same[0]) if len(same) else None


def _enclosing_event(trace: Trace, found: dict[str, Any]) -> int:
    """The nearest event around this one that is on a layer further out, else its parent."""
    layer, around = OUTER_KINDS.get(found["kind"], 0), found["parent"]
    while around is not None and layer < OUTERMOST_LAYER:
        other = _event_columns(trace, around, "kind", "parent")
        if OUTER_KINDS.get(other["kind"], 0) > layer:
            return int(around)
        around = other["parent"]
    return int(found["parent"])


def find_effects(trace: Trace, event: int) -> EventLink:
    """Device events that this event enqueued, else the host events inside it that enqueued some; in time order."""
    found = _event_columns(trace, event, "name", "lane", "end", "rank")
    name = _short_name(found)
    if found["rank"] is not None:
        return EventLink(None, f"{name} runs on the device: nothing is launched from there")
    here = is_in_file("lane", file_index_of(event))
    devices = trace.lanes.filter(pl.col("rank").is_not_null() & here)["lane"].to_list()
    launches = collect_frame(trace.events(devices).filter(pl.col("launch") >= event).select("id", "start", "launch"))
    direct = launches.filter(pl.col("launch") == event).sort("start", "id")
    if direct.height:
        return _first_of_several(f"launched by {name}", direct["id"].to_numpy(), direct["start"].to_numpy())
    callers, starts = _callers_inside(trace, event, found, launches["launch"].unique().sort().to_numpy())
    if len(callers):
        return _first_of_several(f"launches in {name}", callers, starts)
    return EventLink(None, f"nothing was launched in {name}")


def _callers_inside(trace: Trace, event: int, found: dict[str, Any], callers: Ints) -> tuple[Ints, Ints]:
    """Those of the `callers` (ids, sorted) that lie inside the event on its lane, and their starts.

    What is inside an event follows it in the frame, up to the first that begins at its end or later.
    """
    first = int(collect_frame(trace.events([found["lane"]]).select("id").head(1))["id"][0])
    starts = trace.lane(found["lane"], "start")["start"].to_numpy()
    beyond = first + int(np.searchsorted(starts, found["end"], side="left"))
    low, high = np.searchsorted(callers, [event + 1, beyond])
    chosen = callers[low:high]
    return chosen, starts[chosen - first]


def _first_of_several(what: str, events: Ints, starts: Ints) -> EventLink:
    """The first of several, and the way to the others."""
    walk = EventWalk(what, events, starts, 0)
    return EventLink(walk.event, f"{what}: {walk.words}", walk)


def _event_columns(trace: Trace, event: int, *columns: str) -> dict[str, Any]:
    """Some columns of one event: reading all of them takes several times as long."""
    return collect_frame(trace.frames[file_index_of(event)].slice(row_of(event), 1).select(columns)).row(0, named=True)


def _short_name(found: dict[str, Any]) -> str:
    return shorten_kernel_name(str(found["name"]), 24)


class LinkFinder(BackgroundThread):
    """Looks for one link after the other; only the newest request counts."""

    @dataclass
    class Linked(Message):
        """Link of `event`, once it is found."""

        event: int
        link: EventLink

    def __init__(self, target: MessagePump) -> None:
        super().__init__()
        self._target = target

    def ask(self, trace: Trace, event: int, direction: LinkDirection) -> None:
        """Have `Linked` sent to the target."""
        find: Callable[[Trace, int], EventLink] = find_cause if direction < 0 else find_effects

        def tell(link: EventLink) -> None:
            self._target.post_message(self.Linked(event, link))

        self.submit("following the link", lambda: tell(find(trace, event)), lambda why: tell(EventLink(None, why)))
