"""One compiled module, read from its HLO proto: computations, instructions, source frames, device groups.

Owns the field numbers of HloModuleProto, HloComputationProto, HloInstructionProto and StackFrameIndex that only the
program's pages show. All names are read at once, further fields of an instruction when they are asked for. Knows no
trace.

A row is the position of an instruction among all of the module, in the order of the proto. Protos may be damaged: an id
that nothing has is ignored, and a proto that is cut short gives the part before the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from tracehound.formats.hlo.hlo_instructions import (
    CALLED_COMPUTATIONS,
    COMPUTATION,
    COMPUTATION_ID,
    CUSTOM_CALL_TARGET,
    FRAME_ID,
    FRAME_INDEX,
    FUSION_KIND,
    ID,
    INSTRUCTION,
    METADATA,
    MODULE,
    NAME,
    OP_NAME,
    OPCODE,
    OPERANDS,
    ROOT_ID,
    SHAPE,
    SOURCE_FILE,
    SOURCE_LINE,
    xprof_category,
)
from tracehound.formats.hlo.hlo_line_parser import COLLECTIVE_OPCODES
from tracehound.formats.hlo.hlo_shape import HloShape, read_shape
from tracehound.formats.hlo.proto_message import MessageTable, ProtoMessage, read_message
from tracehound.formats.hlo.replica_groups import (
    CHANNEL_ID,
    USE_GLOBAL_DEVICE_IDS,
    DeviceGroups,
    GroupNumbering,
    group_numbering,
    read_groups,
)
from tracehound.formats.protobuf_wire import BYTES, Offsets, pad_bytes

LITERAL, PARAMETER_NUMBER, TUPLE_INDEX, DIMENSIONS, CONTROL_PREDECESSORS, SHARDING, BACKEND_CONFIG = (
    8,
    9,
    13,
    14,
    37,
    40,
    43,
)
FRONTEND_ATTRIBUTES, ASYNC_THREAD = 68, 79


class Instruction(Struct, frozen=True, dict=True):
    """One HLO instruction; `fields` is its proto."""

    row: int
    fields: ProtoMessage

    @cached_property
    def name(self) -> str:
        """The name, without the ``%`` that HLO writes before it."""
        return self.fields.text(NAME)

    @cached_property
    def opcode(self) -> str:
        """The opcode: ``fusion``, ``all-reduce-start``."""
        return self.fields.text(OPCODE)

    @cached_property
    def shape(self) -> HloShape:
        """The shape of its result."""
        return read_shape(self.fields.submessage(SHAPE))

    @property
    def fusion_kind(self) -> str:
        """``kLoop``; "" where it is no fusion."""
        return self.fields.text(FUSION_KIND)

    @property
    def category(self) -> str:
        """The category as XProf names it."""
        return xprof_category(self.opcode, self.fusion_kind)

    @property
    def target(self) -> str:
        """The target of a custom call."""
        return self.fields.text(CUSTOM_CALL_TARGET)

    @property
    def backend_config(self) -> str:
        """The backend's configuration, JSON on most backends."""
        return self.fields.text(BACKEND_CONFIG)

    @cached_property
    def metadata(self) -> ProtoMessage | None:
        """Its OpMetadata: framework name and source."""
        return self.fields.submessage(METADATA)

    @property
    def op_name(self) -> str:
        """The framework's name of it: ``jit(step)/layer0/dot_general``."""
        return self.metadata.text(OP_NAME) if self.metadata else ""

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes that the framework attached to it."""
        attached = self.fields.submessage(FRONTEND_ATTRIBUTES)
        return attached.text_map(1) if attached else {}

    @property
    def collective(self) -> str:
        """The collective's opcode without ``-start`` and ``-done``; "" for other instructions."""
        bare = self.opcode.removesuffix("-start").removesuffix("-done")
        return bare if bare in COLLECTIVE_OPCODES else ""


FILE_NAMES, FUNCTION_NAMES, FILE_LOCATIONS, STACK_FRAMES = 1, 2, 3, 4
FRAME_LOCATION, FRAME_PARENT = 1, 2
LOCATION_FILE, LOCATION_FUNCTION, LOCATION_LINE = 1, 2, 3

MAX_FRAMES = 256
"""At most so many frames of a stack are shown: a damaged stack may lead back to itself."""


class SourceFrame(NamedTuple):
    """One line of source; `function` is empty where the file does not name it."""

    file: str
    line: int
    function: str = ""

    @property
    def text(self) -> str:
        """``model.py:42``."""
        return f"{self.file}:{self.line}" if self.line else self.file


class SourceFrameTable(Struct, frozen=True):
    """The source frames of a module: the line of each frame, and the number of the frame that called it."""

    lines: tuple[SourceFrame, ...] = ()
    parents: tuple[int, ...] = ()

    def stack(self, instruction: Instruction) -> tuple[SourceFrame, ...]:
        """The source frames of an instruction, the innermost first."""
        metadata = instruction.metadata
        if metadata is None:
            return ()
        found = self._frames_from(metadata.number(FRAME_ID))
        if found or not metadata.text(SOURCE_FILE):
            return found
        return (SourceFrame(metadata.text(SOURCE_FILE), metadata.number(SOURCE_LINE)),)

    def _frames_from(self, number: int) -> tuple[SourceFrame, ...]:
        """The frames from this one outward."""
        found: list[SourceFrame] = []
        while 0 < number <= len(self.lines) and len(found) < MAX_FRAMES:
            found.append(self.lines[number - 1])
            number = self.parents[number - 1]
        return tuple(one for one in found if one.file)


def read_source_frames(index: ProtoMessage | None) -> SourceFrameTable:
    """The frames of a StackFrameIndex. Files, functions, locations and frames are numbered from 1 in it."""
    if index is None:
        return SourceFrameTable()
    files, functions = index.texts(FILE_NAMES), index.texts(FUNCTION_NAMES)
    places = [
        SourceFrame(
            _nth_text(files, place.number(LOCATION_FILE)),
            place.number(LOCATION_LINE),
            _nth_text(functions, place.number(LOCATION_FUNCTION)),
        )
        for place in index.submessages(FILE_LOCATIONS)
    ]
    stack = [(frame.number(FRAME_LOCATION), frame.number(FRAME_PARENT)) for frame in index.submessages(STACK_FRAMES)]
    nowhere = SourceFrame("", 0)
    lines = tuple(places[at - 1] if 0 < at <= len(places) else nowhere for at, _ in stack)
    return SourceFrameTable(lines, tuple(parent for _, parent in stack))


def _nth_text(texts: list[str], number: int) -> str:
    """The text with this number, counted from 1; "" where there is none."""
    return texts[number - 1] if 0 < number <= len(texts) else ""


SOURCE_TARGET_PAIRS = 52


class CollectiveGroups(Struct, frozen=True):
    """The device groups of a collective. `groups` is empty where all devices take part, None where they are unknown.

    `form` is their HLO text: ``{{0,1},{2,3}}`` or ``[4,2]<=[2,4]T(1,0)``. `mode` is the meaning of the numbers.
    """

    groups: DeviceGroups | None
    form: str
    mode: GroupNumbering


def collective_groups(instruction: Instruction) -> CollectiveGroups | None:
    """The device groups of a collective; None where the proto has none at all, as for a ``-done``."""
    fields = instruction.fields
    groups, form = read_groups(fields)
    if not form and not instruction.collective:
        return None
    mode = group_numbering(instruction.collective, fields.number(CHANNEL_ID), fields.number(USE_GLOBAL_DEVICE_IDS))
    return CollectiveGroups(groups, form, mode)


def source_target_pairs(instruction: Instruction) -> DeviceGroups:
    """Source and target of each transfer of a collective-permute."""
    return tuple((pair.number(1), pair.number(2)) for pair in instruction.fields.submessages(SOURCE_TARGET_PAIRS))


MODULE_NAME, ENTRY_COMPUTATION_NAME, ENTRY_COMPUTATION_ID, SCHEDULE = 1, 2, 6, 7
COMPUTATION_NAME, IS_FUSION, EXECUTION_THREAD = 1, 7, 8

RowNumbers = tuple[int, ...]


class Computation(Struct, frozen=True):
    """One computation: the rows `[first, after)`; `root` is the row of its result, None without one."""

    number: int
    name: str
    id: int
    first: int
    after: int
    root: int | None
    fused: bool
    thread: str

    @property
    def rows(self) -> range:
        """Its instructions, each after its operands."""
        return range(self.first, self.after)


class HloModule(Struct, frozen=True, eq=False, dict=True):
    """A module: its computations, and for every instruction name, opcode, operands (rows) and calls (computations)."""

    name: str
    head: ProtoMessage
    computations: tuple[Computation, ...]
    entry: int | None
    names: Sequence[str]
    opcodes: Sequence[str]
    operands: Sequence[RowNumbers]
    calls: Sequence[RowNumbers]
    ids: Offsets
    complete: bool
    _table: MessageTable

    @cached_property
    def row_by_name(self) -> dict[str, int]:
        """The row of each name; of equal names the first."""
        return {name: row for row, name in reversed(list(enumerate(self.names)))}

    @cached_property
    def users(self) -> dict[int, list[int]]:
        """The rows that have a row as an operand, each once."""
        found: dict[int, list[int]] = {}
        for row, operands in enumerate(self.operands):
            for operand in dict.fromkeys(operands):
                found.setdefault(operand, []).append(row)
        return found

    @cached_property
    def callers(self) -> dict[int, list[int]]:
        """The rows that call a computation."""
        found: dict[int, list[int]] = {}
        for row, called in enumerate(self.calls):
            for number in dict.fromkeys(called):
                found.setdefault(number, []).append(row)
        return found

    @cached_property
    def row_by_id(self) -> dict[int, int]:
        """The row of each id; ids are unique in a module."""
        return {id_: row for row, id_ in reversed(list(enumerate(self.ids.tolist())))}

    def instruction(self, row: int) -> Instruction:
        """The instruction in this row, with all fields of its proto."""
        return Instruction(row, self._table.message(row))

    def computation_of(self, row: int) -> Computation:
        """The computation that contains an instruction."""
        at = int(np.searchsorted([one.after for one in self.computations], row, side="right"))
        return self.computations[at]

    @cached_property
    def _schedule(self) -> dict[int, list[int]]:
        """The ids of a computation's instructions in the order in which they run, by the computation's id."""
        schedule = self.head.submessage(SCHEDULE)
        entries = schedule.submessages(1) if schedule else ()
        return {entry.number(1): order.numbers(1) for entry in entries if (order := entry.submessage(2))}

    def scheduled_rows(self, one: Computation) -> Sequence[int]:
        """The rows of a computation in the order in which they run, where the proto has that order for all of them."""
        order = [self.row_by_id.get(id_, -1) for id_ in self._schedule.get(one.id, ())]
        return order if sorted(order) == list(one.rows) else one.rows

    @cached_property
    def frames(self) -> SourceFrameTable:
        """The table of source frames."""
        return read_source_frames(self.head.submessage(FRAME_INDEX))


def read_module(proto: bytes) -> HloModule | None:
    """The module in an HloProto; None where there is none."""
    file = pad_bytes(proto)
    head = read_message(file, 0, file.size).submessage(MODULE)
    if head is None:
        return None
    spans, computations = _read_computations(head)
    rows = len(spans[0])
    table = MessageTable(file, *spans, ID, (NAME, OPCODE), (OPERANDS, CALLED_COMPUTATIONS))
    numbers = {one.id: at for at, one in reversed(list(enumerate(computations)))}
    rooted = tuple(_with_root_row(one, table.ids) for one in computations)
    named = head.text(ENTRY_COMPUTATION_NAME)
    entry = numbers.get(
        head.number(ENTRY_COMPUTATION_ID), next((one.number for one in rooted if one.name == named), None)
    )
    return HloModule(
        name=head.text(MODULE_NAME),
        head=head,
        computations=rooted,
        entry=entry,
        names=table.texts(NAME),
        opcodes=table.texts(OPCODE),
        operands=_operand_rows(table, rooted),
        calls=[
            tuple(numbers[id_] for id_ in table.id_list(CALLED_COMPUTATIONS, row) if id_ in numbers)
            for row in range(rows)
        ],
        ids=table.ids,
        complete=head.complete and head.end <= file.size and table.sound,
        _table=table,
    )


def _read_computations(head: ProtoMessage) -> tuple[tuple[Offsets, Offsets], list[Computation]]:
    """Byte ranges of the instructions of all computations, and the computations; a root is still an id."""
    start, end, computations = list[int](), list[int](), list[Computation]()
    for number, one in enumerate(head.submessages(COMPUTATION)):
        first = len(start)
        for part in one.fields_by_number.get(INSTRUCTION, ()):
            if part.wire == BYTES:
                start.append(part.at)
                end.append(part.at + part.value)
        name, id_, root = one.text(COMPUTATION_NAME), one.number(COMPUTATION_ID), one.number(ROOT_ID, -1)
        computations.append(
            Computation(
                number, name, id_, first, len(start), root, bool(one.number(IS_FUSION)), one.text(EXECUTION_THREAD)
            )
        )
    return (np.array(start, np.int64), np.array(end, np.int64)), computations


def _with_root_row(one: Computation, ids: Offsets) -> Computation:
    """The computation with the row of its root."""
    found = np.flatnonzero(ids[one.first : one.after] == one.root)
    root = one.first + int(found[0]) if len(found) else None
    return Computation(one.number, one.name, one.id, one.first, one.after, root, one.fused, one.thread)


def _operand_rows(table: MessageTable, computations: Sequence[Computation]) -> list[RowNumbers]:
    """The rows of the operands of every instruction; they are in its own computation."""
    found: list[RowNumbers] = []
    ids = table.ids.tolist()
    for one in computations:
        here = {ids[row]: row for row in reversed(one.rows)}
        found.extend(tuple(here[id_] for id_ in table.id_list(OPERANDS, row) if id_ in here) for row in one.rows)
    return found
