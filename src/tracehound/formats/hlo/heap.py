"""What a program of XLA keeps in memory while it runs, by the buffer assignment in its HLO proto.

Owns the field numbers of BufferAssignmentProto and the replay of its heap: events that allocate a buffer, free it, or
let it share another's place. Knows no trace. A proto may claim anything: what does not fit together is left out.

The heap of a memory space is the trace of the first allocation there (XLA puts all temporary buffers of a space into
one), of several traces without one that with most of its buffers. Beside the heap there is what lives all the time:
parameters, outputs and constants, each allocation with its largest buffer. That is XProf's rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracehound.facets import FACETS
from tracehound.formats.hlo.fields import Message, message
from tracehound.formats.hlo.instructions import instruction_at
from tracehound.formats.hlo.located import SHAPE, located
from tracehound.formats.hlo.shape import Shape, shape_of
from tracehound.formats.sizes import MOST_BYTES
from tracehound.formats.wire import BYTES, VARINT, Bytes, Rows, rounds

ASSIGNMENT: Final = 3
LOGICAL, ALLOCATIONS, TRACES = 1, 3, 4
ID, SIZE, DEFINED, COLOUR = 1, 2, 3, 4
DEFINED_INDEX, DEFINED_ID, DEFINED_NAME = 3, 4, 2
INDEX, ALLOCATION_SIZE, THREAD_LOCAL, PARAMETER, OUTPUT, ALLOCATION_COLOUR, ASSIGNED, CONSTANT = 1, 2, 3, 5, 7, 8, 9, 12
EVENTS, TRACE_ALLOCATION = 1, 3
KIND, BUFFER, SHARED = 1, 2, 5
ALLOC, FREE, SHARE = 0, 1, 2

DETAILED: Final = 20_000
"""Buffers of a peak that are told in detail, the largest."""


class Lifetime(NamedTuple):
    """When a buffer is there: from the event `first` (None: always) to the event `last` (None: to the end)."""

    buffer: int
    first: int | None
    last: int | None


class Heap(Struct, frozen=True):
    """The buffers of one memory space over the events of its heap; `peak` is the event at which most is there."""

    space: int
    lifetimes: tuple[Lifetime, ...]
    peak: int | None

    def alive(self, one: Lifetime) -> bool:
        """Whether a buffer is there at the peak."""
        if one.first is None:
            return True
        return self.peak is not None and one.first <= self.peak and (one.last is None or one.last > self.peak)


class _Allocation(Struct):
    index: int
    space: int
    sort: str
    thread_local: bool
    buffers: list[int] = field(default_factory=list)


def heaps(assignment: Message) -> tuple[list[Heap], dict[int, int], dict[int, str]]:
    """The heaps of a BufferAssignmentProto, and of each buffer the bytes and the sort."""
    sizes, spaces = _logical(assignment)
    allocations = list(_allocations(assignment))
    sorts = {buffer: one.sort for one in reversed(allocations) for buffer in one.buffers}
    traces = list(assignment.all(TRACES))
    counts = [Counter(spaces.get(buffer) for _, buffer, _ in _events(trace)) for trace in traces]
    found = []
    for space in sorted({*spaces.values(), *(one.space for one in allocations)}):
        always = tuple(Lifetime(buffer, None, None) for buffer in _lasting(allocations, space, sizes))
        trace = _trace_of(traces, allocations, space, [count[space] for count in counts])
        events = list(_events(trace)) if trace is not None else []
        lifetimes, peak = replayed(events, sizes)
        if always or lifetimes:
            found.append(Heap(space, (*always, *lifetimes), peak))
    return found, sizes, sorts


def replayed(events: Sequence[tuple[int, int, int]], sizes: Mapping[int, int]) -> tuple[list[Lifetime], int | None]:
    """The lifetimes of buffers by events (kind, buffer, the one whose place it shares), and where most is there.

    A place is held as long as any buffer shares it. Of several events with the same most the first is the peak.
    """
    root: dict[int, int] = {}
    holders: Counter[int] = Counter()
    since: dict[int, int] = {}
    found: list[Lifetime] = []
    held = most = 0
    peak: int | None = None
    for at, (kind, buffer, shared) in enumerate(events):
        if buffer not in sizes or (kind == SHARE and shared not in sizes):
            continue
        if kind == SHARE:
            root[buffer] = root.get(shared, shared)
        place = root.get(buffer, buffer)
        if kind == FREE and holders[place]:
            holders[place] -= 1
            if not holders[place]:
                found.append(Lifetime(place, since.pop(place), at))
                held -= sizes[place]
        elif kind in (ALLOC, SHARE):
            holders[place] += 1
            if place not in since:
                since[place] = at
                held += sizes[place]
        if held > most:
            most, peak = held, at
    found += [Lifetime(place, first, None) for place, first in since.items()]
    return sorted(found, key=lambda one: (one.first or 0, one.buffer)), peak


def buffers(file: Bytes, module: str, program: int) -> pl.DataFrame:
    """The facet ``buffers`` of a program whose HloProto is all of `file`."""
    assignment = message(file, 0, file.size).one(ASSIGNMENT)
    if assignment is None:
        return pl.DataFrame(schema=FACETS["buffers"])
    found, sizes, sorts = heaps(assignment)
    origins = _Origins(file, assignment)
    rows = [
        {"module": module, "program": program, "space": heap.space, "first": one.first, "last": one.last,
         "bytes": sizes[one.buffer], "name": origins.name(one.buffer),
         "sort": "temporary" if one.first is not None else sorts.get(one.buffer, "temporary"), "peak": heap.alive(one),
         **(origins.details(one.buffer) if one.buffer in detailed else {})}
        for heap in found
        for detailed in [_largest(heap, sizes)]
        for one in heap.lifetimes
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=FACETS["buffers"])


def _largest(heap: Heap, sizes: Mapping[int, int]) -> set[int]:
    alive = [one.buffer for one in heap.lifetimes if heap.alive(one)]
    return set(sorted(alive, key=lambda buffer: -sizes[buffer])[:DETAILED])


def _logical(assignment: Message) -> tuple[dict[int, int], dict[int, int]]:
    """Bytes and memory space of every buffer, by its id."""
    table = numbers(assignment, LOGICAL, (ID, SIZE, COLOUR))
    sound = (table[SIZE] >= 0) & (table[SIZE] <= MOST_BYTES)
    ids = table[ID][sound].tolist()
    return dict(zip(ids, table[SIZE][sound].tolist(), strict=True)), dict(
        zip(ids, (table[COLOUR][sound] & 0xFFFF).tolist(), strict=True)
    )


def numbers(owner: Message, field: int, wanted: Sequence[int]) -> dict[int, Rows]:
    """Numbers of the messages in a repeated field, by their own field; 0 where a message has none."""
    parts = [part for part in owner.parts.get(field, ()) if part.wire == BYTES]
    start = np.array([part.at for part in parts], np.int64)
    end = start + np.array([part.value for part in parts], np.int64)
    found = {number: np.zeros(len(parts), np.int64) for number in wanted}
    for now in rounds(owner.file.words, start, end):
        for number, column in found.items():
            here = now.where(number, VARINT)
            column[now.message[here]] = now.value[here].view(np.int64)
    return found


def _allocations(assignment: Message) -> Iterator[_Allocation]:
    for one in assignment.all(ALLOCATIONS):
        sorts = ((PARAMETER, "parameter"), (OUTPUT, "output"), (CONSTANT, "constant"))
        sort = next((word for number, word in sorts if one.number(number)), "temporary")
        yield _Allocation(
            one.number(INDEX), one.number(ALLOCATION_COLOUR) & 0xFFFF, sort, bool(one.number(THREAD_LOCAL)),
            numbers(one, ASSIGNED, (1,))[1].tolist(),
        )  # fmt: skip


def _lasting(allocations: Sequence[_Allocation], space: int, sizes: Mapping[int, int]) -> Iterator[int]:
    """The largest buffer of every allocation that lasts."""
    for one in allocations:
        if one.space == space and one.sort != "temporary" and not one.thread_local:
            known = [buffer for buffer in one.buffers if buffer in sizes]
            if known:
                yield max(known, key=lambda buffer: (sizes[buffer], -buffer))


def _trace_of(
    traces: Sequence[Message], allocations: Sequence[_Allocation], space: int, counts: Sequence[int]
) -> Message | None:
    """The trace of the heap in a memory space; `counts` has of each how many of its events are there."""
    of_index = {one.index: one for one in allocations}
    for trace in traces:
        owner = of_index.get(trace.number(TRACE_ALLOCATION))
        if trace.number(TRACE_ALLOCATION) and owner is not None and owner.space == space:
            return trace
    best = max(range(len(traces)), key=lambda at: (counts[at], -at), default=None)
    return traces[best] if best is not None and counts[best] else None


def _events(trace: Message) -> Iterator[tuple[int, int, int]]:
    table = numbers(trace, EVENTS, (KIND, BUFFER, SHARED))
    return zip(table[KIND].tolist(), table[BUFFER].tolist(), table[SHARED].tolist(), strict=True)


class _Origins:
    """What instruction defines which buffer."""

    def __init__(self, file: Bytes, assignment: Message) -> None:
        self._module = located(file, 0, file.size)
        self._named = self._module.named(set(self._module.names))
        self._defined = {
            one.number(ID): place for one in assignment.all(LOGICAL) if (place := one.one(DEFINED)) is not None
        }

    def name(self, buffer: int) -> str:
        """``copy-start{0}``: the instruction, and where in its result the buffer is."""
        row, place = self._row(buffer), self._defined.get(buffer)
        told = self._module.names[row] if row is not None else place.text(DEFINED_NAME) if place is not None else ""
        index = place.numbers(DEFINED_INDEX) if place is not None else []
        return f"{told}{{{','.join(map(str, index))}}}" if index else told

    def details(self, buffer: int) -> dict[str, Any]:
        """What the instruction is, and the bytes of the buffer without padding."""
        row = self._row(buffer)
        if row is None:
            return {}
        one = instruction_at(self._module, row)
        shape = self._shape(row, buffer)
        return {
            "unpadded": min(shape.own_bytes, MOST_BYTES), "opcode": one.opcode, "shape": shape.text,
            "framework": one.framework or None, "source": one.source or None,
        }  # fmt: skip

    def _row(self, buffer: int) -> int | None:
        place = self._defined.get(buffer)
        if place is None:
            return None
        if DEFINED_ID in place:
            return self._module.rows.get(place.number(DEFINED_ID))
        return self._named.get(place.text(DEFINED_NAME))

    def _shape(self, row: int, buffer: int) -> Shape:
        """The shape of the part of the result that the buffer holds."""
        shape = shape_of(message(self._module.file, *self._module.table.span(SHAPE, row)))
        for at in self._defined[buffer].numbers(DEFINED_INDEX):
            if not 0 <= at < len(shape.parts):
                return shape
            shape = shape.parts[at]
        return shape
