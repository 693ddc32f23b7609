"""Memory of an XLA program while it runs, from the buffer assignment in its HLO proto.

Owns the field numbers of BufferAssignmentProto and the replay of its heap: events that allocate a buffer, free it, or
let it share another's memory. Knows no trace. A proto may claim anything: parts that do not fit together are left out.

The heap of a memory space is the trace of the first allocation there (XLA puts all temporary buffers of a space into
one); of several traces without an allocation it is the one with most of the space's buffers. Beside the heap are
buffers that live all the time: parameters, outputs and constants, each allocation with its largest buffer. That is
XProf's rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracehound.formats.hlo.hlo_instructions import (
    SHAPE,
    InstructionIndex,
    index_instructions,
    summarize_instruction,
)
from tracehound.formats.hlo.hlo_shape import HloShape, read_shape
from tracehound.formats.hlo.proto_message import ProtoMessage, read_message
from tracehound.formats.protobuf_wire import BYTES, VARINT, Offsets, PaddedBytes, iterate_message_fields
from tracehound.formats.value_bounds import MAX_BYTES
from tracehound.model.facet_schemas import FACET_SCHEMAS

BUFFER_ASSIGNMENT: Final = 3
LOGICAL_BUFFERS, ALLOCATIONS, HEAP_TRACES = 1, 3, 4
ID, SIZE, DEFINED_AT, COLOR = 1, 2, 3, 4
DEFINED_INDEX, DEFINED_ID, DEFINED_NAME = 3, 4, 2
INDEX, ALLOCATION_SIZE, THREAD_LOCAL, PARAMETER, OUTPUT, ALLOCATION_COLOR, ASSIGNED, CONSTANT = 1, 2, 3, 5, 7, 8, 9, 12
EVENTS, TRACE_ALLOCATION = 1, 3
KIND, BUFFER, SHARE_WITH = 1, 2, 5
ALLOC, FREE, SHARE = 0, 1, 2

MAX_DETAILED_BUFFERS: Final = 20_000
"""So many buffers of a peak, the largest, get all details."""


class BufferLifetime(NamedTuple):
    """The lifetime of a buffer: from the event `first` (None: always) to the event `last` (None: to the end)."""

    buffer: int
    first: int | None
    last: int | None


class MemorySpaceHeap(Struct, frozen=True):
    """The buffers of one memory space over its heap events; `peak` is the event with the most bytes allocated."""

    space: int
    lifetimes: tuple[BufferLifetime, ...]
    peak: int | None

    def alive_at_peak(self, one: BufferLifetime) -> bool:
        """True for a buffer that is allocated at the peak."""
        if one.first is None:
            return True
        return self.peak is not None and one.first <= self.peak and (one.last is None or one.last > self.peak)


class _BufferAllocation(Struct):
    """One allocation: its memory space, its kind (parameter, output, constant, temporary) and its buffers."""

    index: int
    space: int
    kind: str
    thread_local: bool
    buffers: list[int] = field(default_factory=list)


def read_heaps(assignment: ProtoMessage) -> tuple[list[MemorySpaceHeap], dict[int, int], dict[int, str]]:
    """The heaps of a BufferAssignmentProto, and the bytes and the kind of each buffer."""
    sizes, spaces = _buffer_sizes_and_spaces(assignment)
    allocations = list(_read_allocations(assignment))
    sorts = {buffer: one.kind for one in reversed(allocations) for buffer in one.buffers}
    traces = list(assignment.submessages(HEAP_TRACES))
    counts = [Counter(spaces.get(buffer) for _, buffer, _ in _heap_events(trace)) for trace in traces]
    found = []
    for space in sorted({*spaces.values(), *(one.space for one in allocations)}):
        always = tuple(BufferLifetime(buffer, None, None) for buffer in _lasting_buffers(allocations, space, sizes))
        trace = _heap_trace_of_space(traces, allocations, space, [count[space] for count in counts])
        events = list(_heap_events(trace)) if trace is not None else []
        lifetimes, peak = replay_heap_trace(events, sizes)
        if always or lifetimes:
            found.append(MemorySpaceHeap(space, (*always, *lifetimes), peak))
    return found, sizes, sorts


def replay_heap_trace(
    events: Sequence[tuple[int, int, int]], sizes: Mapping[int, int]
) -> tuple[list[BufferLifetime], int | None]:
    """Buffer lifetimes, and the event with the most bytes, from events (kind, buffer, buffer whose memory it shares).

    Memory is allocated as long as any buffer shares it. Of several events with an equal maximum the first is the peak.
    """
    root: dict[int, int] = {}
    holders: Counter[int] = Counter()
    since: dict[int, int] = {}
    found: list[BufferLifetime] = []
    allocated = most = 0
    peak: int | None = None
    for at, (kind, buffer, shared) in enumerate(events):
        if buffer not in sizes or (kind == SHARE and shared not in sizes):
            continue
        if kind == SHARE:
            root[buffer] = root.get(shared, shared)
        owner = root.get(buffer, buffer)
        if kind == FREE and holders[owner]:
            holders[owner] -= 1
            if not holders[owner]:
                found.append(BufferLifetime(owner, since.pop(owner), at))
                allocated -= sizes[owner]
        elif kind in (ALLOC, SHARE):
            holders[owner] += 1
            if owner not in since:
                since[owner] = at
                allocated += sizes[owner]
        if allocated > most:
            most, peak = allocated, at
    found += [BufferLifetime(owner, first, None) for owner, first in since.items()]
    return sorted(found, key=lambda one: (one.first or 0, one.buffer)), peak


def buffers_of_program(
    file: PaddedBytes, module: str, program: int, index: Callable[[], InstructionIndex] | None = None
) -> pl.DataFrame:
    """The facet ``buffers`` of a program whose HloProto is all of `file`; `index` gives its instructions, if known."""
    assignment = read_message(file, 0, file.size).submessage(BUFFER_ASSIGNMENT)
    if assignment is None:
        return pl.DataFrame(schema=FACET_SCHEMAS["buffers"])
    found, sizes, sorts = read_heaps(assignment)
    origins = _BufferDefinitions(index_instructions(file, 0, file.size) if index is None else index(), assignment)
    rows = [
        {"module": module, "program": program, "space": heap.space, "first": one.first, "last": one.last,
         "bytes": sizes[one.buffer], "name": origins.buffer_name(one.buffer),
         "sort": "temporary" if one.first is not None else sorts.get(one.buffer, "temporary"),
         "peak": heap.alive_at_peak(one),
         **(origins.buffer_details(one.buffer) if one.buffer in detailed else {})}
        for heap in found
        for detailed in [_largest_live_buffers(heap, sizes)]
        for one in heap.lifetimes
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=FACET_SCHEMAS["buffers"])


def _largest_live_buffers(heap: MemorySpaceHeap, sizes: Mapping[int, int]) -> set[int]:
    """The largest buffers that are allocated at the peak, at most `MAX_DETAILED_BUFFERS`."""
    alive = [one.buffer for one in heap.lifetimes if heap.alive_at_peak(one)]
    return set(sorted(alive, key=lambda buffer: -sizes[buffer])[:MAX_DETAILED_BUFFERS])


def _buffer_sizes_and_spaces(assignment: ProtoMessage) -> tuple[dict[int, int], dict[int, int]]:
    """Bytes and memory space of every buffer, by its id."""
    table = varint_columns(assignment, LOGICAL_BUFFERS, (ID, SIZE, COLOR))
    sound = (table[SIZE] >= 0) & (table[SIZE] <= MAX_BYTES)
    ids = table[ID][sound].tolist()
    return dict(zip(ids, table[SIZE][sound].tolist(), strict=True)), dict(
        zip(ids, (table[COLOR][sound] & 0xFFFF).tolist(), strict=True)
    )


def varint_columns(owner: ProtoMessage, field: int, wanted: Sequence[int]) -> dict[int, Offsets]:
    """Varint fields of all messages in a repeated field, one column per field number; 0 where a message has none."""
    parts = [part for part in owner.fields_by_number.get(field, ()) if part.wire == BYTES]
    start = np.array([part.at for part in parts], np.int64)
    end = start + np.array([part.value for part in parts], np.int64)
    found = {number: np.zeros(len(parts), np.int64) for number in wanted}
    for now in iterate_message_fields(owner.file, start, end):
        for number, column in found.items():
            here = now.field_mask(number, VARINT)
            column[now.message[here]] = now.value[here].view(np.int64)
    return found


def _read_allocations(assignment: ProtoMessage) -> Iterator[_BufferAllocation]:
    """The allocations of the assignment."""
    for one in assignment.submessages(ALLOCATIONS):
        sorts = ((PARAMETER, "parameter"), (OUTPUT, "output"), (CONSTANT, "constant"))
        sort = next((word for number, word in sorts if one.number(number)), "temporary")
        yield _BufferAllocation(
            one.number(INDEX), one.number(ALLOCATION_COLOR) & 0xFFFF, sort, bool(one.number(THREAD_LOCAL)),
            varint_columns(one, ASSIGNED, (1,))[1].tolist(),
        )  # fmt: skip


def _lasting_buffers(allocations: Sequence[_BufferAllocation], space: int, sizes: Mapping[int, int]) -> Iterator[int]:
    """The largest buffer of every allocation that lives for the whole run."""
    for one in allocations:
        if one.space == space and one.kind != "temporary" and not one.thread_local:
            known = [buffer for buffer in one.buffers if buffer in sizes]
            if known:
                yield max(known, key=lambda buffer: (sizes[buffer], -buffer))


def _heap_trace_of_space(
    traces: Sequence[ProtoMessage], allocations: Sequence[_BufferAllocation], space: int, counts: Sequence[int]
) -> ProtoMessage | None:
    """The heap trace of a memory space; `counts` has, for each trace, how many of its events are in that space."""
    of_index = {one.index: one for one in allocations}
    for trace in traces:
        owner = of_index.get(trace.number(TRACE_ALLOCATION))
        if trace.number(TRACE_ALLOCATION) and owner is not None and owner.space == space:
            return trace
    best = max(range(len(traces)), key=lambda at: (counts[at], -at), default=None)
    return traces[best] if best is not None and counts[best] else None


def _heap_events(trace: ProtoMessage) -> Iterator[tuple[int, int, int]]:
    """The events of a heap trace: kind, buffer, and the buffer whose memory it shares."""
    table = varint_columns(trace, EVENTS, (KIND, BUFFER, SHARE_WITH))
    return zip(table[KIND].tolist(), table[BUFFER].tolist(), table[SHARE_WITH].tolist(), strict=True)


class _BufferDefinitions:
    """Finds the instruction that defines a buffer, and describes it."""

    def __init__(self, module: InstructionIndex, assignment: ProtoMessage) -> None:
        self._module = module
        self._row_by_name = self._module.rows_of_names(set(self._module.names))
        self._locations = {
            one.number(ID): place
            for one in assignment.submessages(LOGICAL_BUFFERS)
            if (place := one.submessage(DEFINED_AT)) is not None
        }

    def buffer_name(self, buffer: int) -> str:
        """``copy-start{0}``: the instruction, and the position of the buffer in its result."""
        row, location = self._defining_row(buffer), self._locations.get(buffer)
        name = (
            self._module.names[row] if row is not None else location.text(DEFINED_NAME) if location is not None else ""
        )
        index = location.numbers(DEFINED_INDEX) if location is not None else []
        return f"{name}{{{','.join(map(str, index))}}}" if index else name

    def buffer_details(self, buffer: int) -> dict[str, Any]:
        """Opcode, shape, framework name and source of the defining instruction, and the bytes without padding."""
        row = self._defining_row(buffer)
        if row is None:
            return {}
        one = summarize_instruction(self._module, row)
        shape = self._buffer_shape(row, buffer)
        return {
            "unpadded": min(shape.buffer_bytes, MAX_BYTES), "opcode": one.opcode, "shape": shape.text,
            "framework": one.framework or None, "source": one.source or None,
        }  # fmt: skip

    def _defining_row(self, buffer: int) -> int | None:
        """The row of the instruction that defines a buffer; None where it is unknown."""
        location = self._locations.get(buffer)
        if location is None:
            return None
        if DEFINED_ID in location:
            return self._module.row_by_id.get(location.number(DEFINED_ID))
        return self._row_by_name.get(location.text(DEFINED_NAME))

    def _buffer_shape(self, row: int, buffer: int) -> HloShape:
        """The shape of the part of the result that is in the buffer."""
        shape = read_shape(read_message(self._module.file, *self._module.table.field_range(SHAPE, row)))
        for at in self._locations[buffer].numbers(DEFINED_INDEX):
            if not 0 <= at < len(shape.tuple_shapes):
                return shape
            shape = shape.tuple_shapes[at]
        return shape
