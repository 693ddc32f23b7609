"""The instructions of an HLO module, read from its proto at the wire.

Owns the field numbers of HloProto that say what an op is: name, opcode, shape, operands, framework name, source.
Decodes only the instructions that are asked for; knows no traces.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tracehound.formats.hlo.fields import Message, message
from tracehound.formats.hlo.members import CHANNEL, GLOBAL_IDS, groups_of
from tracehound.formats.hlo.shape import shape_of
from tracehound.formats.hlo.text import COLLECTIVES, moved_bytes
from tracehound.formats.wire import (
    BYTES,
    VARINT,
    Bytes,
    Field,
    Rows,
    Spans,
    WireError,
    field_at,
    fields,
    repeated,
    rounds,
    varint,
)

MODULE, COMPUTATION, FRAME_INDEX = 1, 3, 17
INSTRUCTION, COMPUTATION_ID, ROOT_ID = 2, 5, 6
NAME, OPCODE, SHAPE, METADATA, FUSION_KIND, TARGET, ID, OPERANDS, CALLED = 1, 2, 3, 7, 11, 28, 35, 36, 38
OP_NAME, SOURCE_FILE, SOURCE_LINE, FRAME_ID = 2, 3, 4, 15
PASSING = frozenset({"add-dependency", "bitcast", "get-tuple-element", "opt-barrier", "tuple"})
"""Opcodes of instructions that only pass on what they are given: nothing runs."""
_FORMATTING = frozenset({"transpose", "copy", "reshape"})
ELEMENTWISE = frozenset({
    "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "compare", "complex", "convert", "cosine",
    "count-leading-zeros", "divide", "erf", "exponential", "exponential-minus-one", "floor", "imag", "is-finite", "log",
    "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real",
    "reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sqrt", "stochastic-convert", "subtract", "tan",
    "tanh", "xor",
})  # fmt: skip


class Instruction(Struct, frozen=True):
    """One HLO instruction. `text` is its line, `bytes` what it moves if it is a collective, copy or transfer."""

    name: str
    opcode: str
    category: str
    framework: str
    source: str
    text: str

    @property
    def bytes(self) -> int | None:
        """Bytes of its result."""
        return moved_bytes(self.text)


def category_of(opcode: str, fusion_kind: str = "") -> str:
    """The category of an op as XProf names it; most ops are their own.

    A ``fusion`` of kind ``kLoop`` is a loop fusion, a ``copy`` data formatting, an ``add`` non-fusion elementwise.
    """
    if opcode == "fusion":
        return f"{fusion_kind.removeprefix('k').lower()} fusion" if fusion_kind else "fusion"
    if opcode in _FORMATTING:
        return "data formatting"
    return "non-fusion elementwise" if opcode in ELEMENTWISE else opcode


def instructions(file: Bytes, start: int, end: int, wanted: Collection[str]) -> dict[str, Instruction]:
    """The instructions with these names in the HloProto `[start, end)`; what is damaged is left out."""
    try:
        spans, roots, frames = module_spans(file, start, end)
    except WireError:
        return {}
    table = Table(file, *spans.arrays()[1:])
    rows = {name: row for row, name in enumerate(table.texts(NAME)) if name in wanted}
    by_id = dict(zip(table.ids.tolist(), range(len(table.ids)), strict=True))
    found = {name: instruction_at(file, table, row, by_id, frames) for name, row in rows.items()}
    return {name: _grouped(one, _exchanging(table, rows[name], by_id, roots), table) for name, one in found.items()}


def names(file: Bytes, start: int, end: int) -> list[str]:
    """The names of all instructions in the HloProto `[start, end)`; none where it is damaged."""
    try:
        return Table(file, *module_spans(file, start, end)[0].arrays()[1:]).texts(NAME)
    except WireError:
        return []


def users(file: Bytes, start: int, end: int) -> dict[str, set[str]]:
    """Which instructions in the HloProto `[start, end)` need the result of each that runs, by their names.

    What runs nothing (`PASSING`) stands for those that need it. Nothing where the proto is damaged.
    """
    try:
        table = Table(file, *module_spans(file, start, end)[0].arrays()[1:])
        needed = [table.operand_ids(row) for row in range(len(table.ids))]
    except WireError:
        return {}
    row_of = dict(zip(table.ids.tolist(), range(len(table.ids)), strict=True))
    named, opcodes = table.texts(NAME), table.texts(OPCODE)
    whole, parts = ([set[str]() for _ in named] for _ in range(2))  # who needs all of it, and who a part of a tuple
    for user in range(len(named) - 1, -1, -1):  # a computation has every instruction before those that need it
        opcode = opcodes[user]
        for operand in (row_of[id_] for id_ in needed[user] if id_ in row_of):
            if opcode == "get-tuple-element":
                parts[operand] |= whole[user] | parts[user]
                continue
            whole[operand] |= whole[user] if opcode in PASSING else {named[user]}
            if opcode in PASSING and opcode != "tuple":  # who needs a part of a tuple need not need this one
                parts[operand] |= parts[user]
    rows = (row for row, opcode in enumerate(opcodes) if opcode not in PASSING)
    return {named[row]: whole[row] | parts[row] for row in rows}


def module_spans(file: Bytes, start: int, end: int) -> tuple[Spans, dict[int, int], Field | None]:
    """Where the instructions of all computations of an HloProto lie, the roots of these, the table of source frames.

    Computations and their roots are ids. Raises WireError.
    """
    spans, roots, frames = Spans(INSTRUCTION), dict[int, int](), None
    for proto in fields(file.data, start, end):
        if (proto.number, proto.wire) != (MODULE, BYTES):
            continue
        for part in fields(file.data, proto.at, proto.at + proto.value):
            if (part.number, part.wire) == (COMPUTATION, BYTES):
                number, root = _collect(file, part, spans)
                roots[number] = root
            elif (part.number, part.wire) == (FRAME_INDEX, BYTES):
                frames = part
    return spans, roots, frames


def _collect(file: Bytes, computation: Field, spans: Spans) -> tuple[int, int]:
    """Add where the instructions of a computation lie; its id, and that of its root."""
    at, end = computation.at, computation.at + computation.value
    told = {COMPUTATION_ID: -1, ROOT_ID: -1}
    while at < end:
        at = repeated(file.data, at, end, spans)
        if at < end:
            part, at = field_at(file.data, at, end)
            if part.wire == VARINT and part.number in told:
                told[part.number] = part.value
    return told[COMPUTATION_ID], told[ROOT_ID]


class Table:
    """Where the fields of many instructions lie."""

    def __init__(self, file: Bytes, start: Rows, end: Rows) -> None:
        self._file, self._start, self._end = file, start, end
        count = len(start)
        self.spans = {n: np.zeros((2, count), np.int64) for n in (NAME, OPCODE, SHAPE, METADATA, FUSION_KIND, TARGET)}
        self.ids = np.full(count, -1, np.int64)
        self.operands: dict[int, list[tuple[int, int]]] = {}
        self.single: dict[int, list[int]] = {}
        for now in rounds(file.words, start, end):
            for number, (low, high) in self.spans.items():
                here = now.where(number, BYTES)
                low[now.message[here]] = now.at[here]
                high[now.message[here]] = now.at[here] + now.value[here].view(np.int64)
            ids = now.where(ID, VARINT)
            self.ids[now.message[ids]] = now.value[ids].view(np.int64)
            packed, plain = now.where(OPERANDS, BYTES), now.where(OPERANDS, VARINT)
            for row, at, size in zip(now.message[packed].tolist(), now.at[packed].tolist(),
                                     now.value[packed].tolist(), strict=True):  # fmt: skip
                self.operands.setdefault(row, []).append((at, at + size))
            for row, value in zip(now.message[plain].tolist(), now.value[plain].tolist(), strict=True):
                self.single.setdefault(row, []).append(value)

    def message(self, row: int) -> Message:
        """All of one instruction."""
        return message(self._file, int(self._start[row]), int(self._end[row]))

    def text(self, number: int, row: int) -> str:
        """A string of one instruction."""
        low, high = self.spans[number][:, row].tolist()
        return self._file.text(low, high)

    def texts(self, number: int) -> list[str]:
        """A string of every instruction."""
        low, high = self.spans[number]
        return [self._file.text(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]

    def operand_ids(self, row: int) -> list[int]:
        """Ids of the operands."""
        found = list(self.single.get(row, ()))
        for low, high in self.operands.get(row, ()):
            found.extend(packed(self._file, low, high))
        return found


def packed(file: Bytes, at: int, end: int) -> list[int]:
    """The varints in `[at, end)`. Raises WireError."""
    values = []
    while at < end:
        value, at = varint(file.data, at, end)
        values.append(value)
    return values


def _operand(file: Bytes, table: Table, row: int, opcode: str) -> str:
    """An operand in the line of an op: with its shape where the op moves that, and not the shape of its result."""
    name = f"%{table.text(NAME, row)}"
    return f"{shape_text(file, *table.spans[SHAPE][:, row].tolist())} {name}" if opcode == "reduce-scatter" else name


def instruction_at(file: Bytes, table: Table, row: int, by_id: Mapping[int, int], frames: Field | None) -> Instruction:
    """One instruction of a module: `by_id` are the rows of ids, `frames` the table of source frames."""
    name, opcode, kind = table.text(NAME, row), table.text(OPCODE, row), table.text(FUSION_KIND, row)
    try:
        shape = shape_text(file, *table.spans[SHAPE][:, row].tolist())
        operands = [_operand(file, table, by_id[one], opcode) for one in table.operand_ids(row) if one in by_id]
        low, high = table.spans[METADATA][:, row].tolist()
        framework, source = _origin(file, low, high, frames)
    except WireError:
        shape, operands, framework, source = "", [], "", ""
    target = table.text(TARGET, row)
    tail = (f", kind={kind}" if kind else "") + (f', custom_call_target="{target}"' if target else "")
    text = f"%{name} = {shape} {opcode}({', '.join(operands)}){tail}"
    return Instruction(name, opcode, category_of(opcode, kind), framework, source, text)


def _exchanging(table: Table, row: int, by_id: Mapping[int, int], roots: Mapping[int, int]) -> int:
    """The row of what a collective does: its own; of an ``async-start`` that of the root of what it calls."""
    if table.text(OPCODE, row) != "async-start":
        return row
    called = table.message(row).numbers(CALLED)
    return by_id.get(roots.get(called[0], -1), row) if called else row


def _grouped(one: Instruction, row: int, table: Table) -> Instruction:
    """A collective with its groups of devices in its text, and what tells what their numbers stand for."""
    if not table.text(OPCODE, row).startswith(COLLECTIVES):
        return one
    fields = table.message(row)
    form = groups_of(fields)[1]
    if not form:
        return one
    channel = f", channel_id={number}" if (number := fields.number(CHANNEL)) else ""
    flat = ", use_global_device_ids=true" if fields.number(GLOBAL_IDS) else ""
    return replace(one, text=f"{one.text}{channel}, replica_groups={form}{flat}")


def shape_text(file: Bytes, start: int, end: int) -> str:
    """The ShapeProto in `[start, end)` as HLO writes it: ``f32[8,16]{1,0}``, ``(s32[], f32[2])``."""
    return shape_of(message(file, start, end)).text


def _origin(file: Bytes, start: int, end: int, frames: Field | None) -> tuple[str, str]:
    """The framework's name of the op and the line of source that made it."""
    name, source, line, frame = "", "", 0, 0
    for part in fields(file.data, start, end):
        if (part.number, part.wire) == (OP_NAME, BYTES):
            name = file.text(part.at, part.at + part.value)
        elif (part.number, part.wire) == (SOURCE_FILE, BYTES):
            source = file.text(part.at, part.at + part.value)
        elif (part.number, part.wire) == (SOURCE_LINE, VARINT):
            line = part.value
        elif (part.number, part.wire) == (FRAME_ID, VARINT):
            frame = part.value
    if source:
        return name, f"{source}:{line}" if line else source
    return name, _frame_text(file, frames, frame) if frames is not None and frame else ""


def _frame_text(file: Bytes, index: Field, frame: int) -> str:
    """``file:line`` of a source frame; frames, places and files are numbered from 1 in the module's index."""
    files, places, frames = (
        [part for part in fields(file.data, index.at, index.at + index.value) if part.number == number]
        for number in (1, 3, 4)
    )
    if not 0 < frame <= len(frames):
        return ""
    place = _numbers(file, frames[frame - 1]).get(1, 0)
    if not 0 < place <= len(places):
        return ""
    where = _numbers(file, places[place - 1])
    number = where.get(1, 0)
    if not 0 < number <= len(files):
        return ""
    named = files[number - 1]
    return f"{file.text(named.at, named.at + named.value)}:{where.get(3, 0)}"


def _numbers(file: Bytes, message: Field) -> dict[int, int]:
    parts = fields(file.data, message.at, message.at + message.value)
    return {part.number: part.value for part in parts if part.wire == VARINT}
