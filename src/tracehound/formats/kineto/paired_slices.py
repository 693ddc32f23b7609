"""Slices that are written as two elements, a begin and an end, as other tools do; PyTorch writes complete events.

They are paired within a segment of the file: an end belongs to the last begin of its thread that has none yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from tracehound.formats.json.value_columns import INVALID
from tracehound.formats.kineto.json_events import BeginEvent, CompleteEvent, EndEvent, RawId
from tracehound.numeric.intervals import Ints


class SliceEdge(NamedTuple):
    """A begin or an end: its time (ns), its ordinal in the segment, and its element."""

    time: int
    record: int
    event: BeginEvent


class PairedSlice(NamedTuple):
    """A slice with its start and length (ns); `record` is the ordinal of its begin."""

    event: CompleteEvent
    record: int
    start: int
    length: int


class SliceEdges(Struct):
    """Begins and ends of slices, by thread."""

    _by_thread: dict[tuple[RawId, RawId], list[SliceEdge]] = field(default_factory=dict)

    def add(self, events: Sequence[BeginEvent], records: Ints, times: Ints) -> None:
        """Add begins and ends."""
        for event, record, time in zip(events, records.tolist(), times.tolist(), strict=True):
            self._by_thread.setdefault((event.pid, event.tid), []).append(SliceEdge(time, record, event))

    def pair(self) -> tuple[list[PairedSlice], list[int]]:
        """The slices in order of their begins, and the records of begins and ends that are alone or have no time."""
        slices, alone = list[PairedSlice](), list[int]()
        for edges in self._by_thread.values():
            begins = list[SliceEdge]()
            for edge in sorted(edges, key=lambda each: each[:2]):
                if edge.time == INVALID or (isinstance(edge.event, EndEvent) and not begins):
                    alone.append(edge.record)
                elif isinstance(edge.event, EndEvent):
                    slices.append(_make_slice(begins.pop(), edge))
                else:
                    begins.append(edge)
            alone += [begin.record for begin in begins]
        return sorted(slices, key=lambda each: each.record), alone


def _make_slice(begin: SliceEdge, end: SliceEdge) -> PairedSlice:
    """The slice from a begin to an end."""
    event, length = begin.event, end.time - begin.time
    complete = CompleteEvent(
        cat=event.cat or end.event.cat,
        name=event.name or end.event.name,
        pid=event.pid,
        tid=event.tid,
        ts=begin.time / 1000,
        dur=length / 1000,
        args=event.args,
    )
    return PairedSlice(complete, begin.record, begin.time, length)
