"""Slices that are written as two elements, a begin and an end, as other tools do; PyTorch writes complete events.

An end belongs to the last begin of its thread that has none yet, in the order of their times. Most are paired within
a segment of the file; `join_edges` pairs the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from tracehound.formats.json.value_columns import INVALID
from tracehound.formats.kineto.json_events import BeginEvent, CompleteEvent, EndEvent, RawId
from tracehound.numeric.intervals import Ints

EdgeThread = tuple[RawId, RawId]
"""Process and thread of a begin or an end."""


class SliceEdge(NamedTuple):
    """A begin or an end: its time (ns), its ordinal in the segment or in the file, and its element."""

    time: int
    record: int
    event: BeginEvent


class PairedSlice(NamedTuple):
    """A slice with its start and length (ns); `record` is the ordinal of its begin."""

    event: CompleteEvent
    record: int
    start: int
    length: int


class EdgesLeft(NamedTuple):
    """Edges of a thread that a segment could not pair, in order, and the times of its first and last edge (ns)."""

    edges: list[SliceEdge]
    first: int
    last: int


class SliceEdges(Struct):
    """Begins and ends of a segment's slices, by thread; with `late` none is paired within the segment."""

    late: bool = False
    _by_thread: dict[EdgeThread, list[SliceEdge]] = field(default_factory=dict)

    def add(self, events: Sequence[BeginEvent], records: Ints, times: Ints) -> None:
        """Add begins and ends."""
        for event, record, time in zip(events, records.tolist(), times.tolist(), strict=True):
            self._by_thread.setdefault((event.pid, event.tid), []).append(SliceEdge(time, record, event))

    def pair(self) -> tuple[list[PairedSlice], dict[EdgeThread, EdgesLeft], list[int]]:
        """The slices in order of their begins, the edges left by thread, and the records of edges without a time."""
        slices, left, timeless = list[PairedSlice](), dict[EdgeThread, EdgesLeft](), list[int]()
        for thread, edges in self._by_thread.items():
            timeless += [edge.record for edge in edges if edge.time == INVALID]
            timed = sorted((edge for edge in edges if edge.time != INVALID), key=lambda each: each[:2])
            if timed:
                paired, alone = ([], timed) if self.late else _pair_edges(timed)
                slices += paired
                left[thread] = EdgesLeft(alone, timed[0].time, timed[-1].time)
        return sorted(slices, key=lambda each: each.record), left, timeless


def join_edges(
    segments: Sequence[Mapping[EdgeThread, EdgesLeft]], firsts: Sequence[int], *, late: bool
) -> tuple[list[PairedSlice], list[int]] | None:
    """The slices of a file's segments that begin in one and end in another, and the records of edges that stay alone.

    `firsts` has the ordinal of the first element of each segment. None if a thread's edges of different segments
    overlap in time: then those of a segment say nothing for themselves, and all must be paired `late`.
    """
    by_thread = dict[EdgeThread, list[SliceEdge]]()
    ends = dict[EdgeThread, int]()
    for segment, first in zip(segments, firsts, strict=True):
        for thread, left in segment.items():
            if not late and left.first < ends.get(thread, left.first):
                return None
            ends[thread] = left.last
            known = by_thread.setdefault(thread, [])
            known += [edge._replace(record=edge.record + first) for edge in left.edges]
    slices, alone = list[PairedSlice](), list[int]()
    for edges in by_thread.values():
        paired, rest = _pair_edges(sorted(edges, key=lambda each: each[:2]))
        slices += paired
        alone += [edge.record for edge in rest]
    return sorted(slices, key=lambda each: each.record), alone


def _pair_edges(edges: Sequence[SliceEdge]) -> tuple[list[PairedSlice], list[SliceEdge]]:
    """The slices of one thread's edges, sorted by time and record, and the edges that stay alone, likewise."""
    slices, begins, ends = list[PairedSlice](), list[SliceEdge](), list[SliceEdge]()
    for edge in edges:
        if not isinstance(edge.event, EndEvent):
            begins.append(edge)
        elif begins:
            slices.append(_make_slice(begins.pop(), edge))
        else:
            ends.append(edge)
    return slices, [*ends, *begins]


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
