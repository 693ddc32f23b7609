"""The instructions of an HLO module: an index of all of them, and summaries of those that are asked for.

Owns the field numbers of HloProto that more than one reader needs. A summary has an op's line, category, framework name
and source. Of several instructions with one id or one name the first counts. Knows no trace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from tracehound.formats.hlo.hlo_line_parser import COLLECTIVE_OPCODES, moved_bytes
from tracehound.formats.hlo.hlo_shape import read_shape
from tracehound.formats.hlo.proto_message import MessageTable, read_message
from tracehound.formats.hlo.replica_groups import CHANNEL_ID, USE_GLOBAL_DEVICE_IDS, read_groups
from tracehound.formats.protobuf_wire import (
    BYTES,
    VARINT,
    MessageOffsets,
    PaddedBytes,
    WireError,
    WireField,
    collect_repeated_fields,
    iterate_fields,
    read_field,
)

MODULE, COMPUTATION, DEVICE_ASSIGNMENT, FRAME_INDEX = 1, 3, 15, 17
INSTRUCTION, COMPUTATION_ID, ROOT_ID = 2, 5, 6
NAME, OPCODE, SHAPE, METADATA, FUSION_KIND, CUSTOM_CALL_TARGET, ID, OPERANDS, CALLED_COMPUTATIONS = (
    1,
    2,
    3,
    7,
    11,
    28,
    35,
    36,
    38,
)
WINDOW_FIELD, CONVOLUTION_DIMENSIONS, DOT_DIMENSIONS, FEATURE_GROUP_COUNT, BATCH_GROUP_COUNT = 15, 16, 30, 50, 58
INDEXED_FIELDS = (NAME, OPCODE, SHAPE, METADATA, FUSION_KIND, CUSTOM_CALL_TARGET)


class InstructionIndex(Struct, frozen=True, dict=True):
    """The instructions of a module. A row is the position of an instruction among all, in the order of the proto.

    `computation_rows` has the rows of each computation by its id, `root_ids` the id of the instruction that makes its
    result; `frames` is the table of source frames.
    """

    file: PaddedBytes
    table: MessageTable
    computation_rows: Mapping[int, range]
    root_ids: Mapping[int, int]
    frames: WireField | None

    @cached_property
    def row_by_id(self) -> dict[int, int]:
        """The row of each instruction id."""
        return {id_: row for row, id_ in reversed(list(enumerate(self.table.ids.tolist())))}

    @cached_property
    def names(self) -> list[str]:
        """The name of every instruction."""
        return self.table.texts(NAME)

    def rows_of_names(self, wanted: Collection[str]) -> dict[str, int]:
        """The rows of the instructions with these names, in their order."""
        found = dict[str, int]()
        for row, name in enumerate(self.names):
            if name in wanted:
                found.setdefault(name, row)
        return found

    def root_row(self, computation: int) -> int | None:
        """The row of the instruction that makes the result of a computation; None where no instruction has its id."""
        return self.row_by_id.get(self.root_ids.get(computation, -1))


def index_instructions(file: PaddedBytes, start: int, end: int) -> InstructionIndex:
    """The instructions of the HloProto `[start, end)`; none where it is damaged."""
    spans, bodies, roots, frames = MessageOffsets(INSTRUCTION), dict[int, range](), dict[int, int](), None
    try:
        for part in _module_fields(file, start, end):
            if part.number == FRAME_INDEX:
                frames = part
            elif part.number == COMPUTATION:
                first = len(spans.start)
                number, root = _index_computation(file, part, spans)
                bodies.setdefault(number, range(first, len(spans.start)))
                roots.setdefault(number, root)
    except WireError:
        spans, bodies, roots, frames = MessageOffsets(INSTRUCTION), {}, {}, None
    return InstructionIndex(
        file, MessageTable(file, *spans.arrays()[1:], ID, INDEXED_FIELDS, (OPERANDS,)), bodies, roots, frames
    )


def _module_fields(file: PaddedBytes, start: int, end: int) -> Iterator[WireField]:
    """The fields with a length in the modules of an HloProto. Raises WireError."""
    for proto in iterate_fields(file.data, start, end):
        if (proto.number, proto.wire) == (MODULE, BYTES):
            inner = iterate_fields(file.data, proto.at, proto.at + proto.value)
            yield from (part for part in inner if part.wire == BYTES)


def _index_computation(file: PaddedBytes, computation: WireField, spans: MessageOffsets) -> tuple[int, int]:
    """Add the byte ranges of a computation's instructions; returns its id and that of its root. Raises WireError."""
    at, end = computation.at, computation.at + computation.value
    ids = {COMPUTATION_ID: -1, ROOT_ID: -1}
    while at < end:
        at = collect_repeated_fields(file.data, at, end, spans)
        if at < end:
            part, at = read_field(file.data, at, end)
            if part.wire == VARINT and part.number in ids:
                ids[part.number] = part.value
    return ids[COMPUTATION_ID], ids[ROOT_ID]


OP_NAME, SOURCE_FILE, SOURCE_LINE, FRAME_ID = 2, 3, 4, 15
PASS_THROUGH_OPCODES = frozenset({"add-dependency", "bitcast", "get-tuple-element", "opt-barrier", "tuple"})
"""Opcodes of instructions that only pass on their operands: nothing runs."""
_DATA_FORMATTING_OPCODES = frozenset({"transpose", "copy", "reshape"})
ELEMENTWISE_OPCODES = frozenset({
    "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "compare", "complex", "convert", "cosine",
    "count-leading-zeros", "divide", "erf", "exponential", "exponential-minus-one", "floor", "imag", "is-finite", "log",
    "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real",
    "reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sqrt", "stochastic-convert", "subtract", "tan",
    "tanh", "xor",
})  # fmt: skip


class InstructionSummary(Struct, frozen=True):
    """One HLO instruction as an op: its line of HLO is `text`."""

    name: str
    opcode: str
    category: str
    framework: str
    source: str
    text: str

    @property
    def bytes(self) -> int | None:
        """Bytes that it moves, if it is a collective, copy or transfer."""
        return moved_bytes(self.text)


def xprof_category(opcode: str, fusion_kind: str = "") -> str:
    """The category of an op as XProf names it; for most ops it is the opcode.

    A ``fusion`` of kind ``kLoop`` is a loop fusion, a ``copy`` data formatting, an ``add`` non-fusion elementwise.
    """
    if opcode == "fusion":
        return f"{fusion_kind.removeprefix('k').lower()} fusion" if fusion_kind else "fusion"
    if opcode in _DATA_FORMATTING_OPCODES:
        return "data formatting"
    return "non-fusion elementwise" if opcode in ELEMENTWISE_OPCODES else opcode


def summarize_instructions(module: InstructionIndex, wanted: Collection[str]) -> dict[str, InstructionSummary]:
    """Summaries of the instructions with these names; damaged ones are left out."""
    rows = module.rows_of_names(wanted)
    found = {name: summarize_instruction(module, row) for name, row in rows.items()}
    return {
        name: _with_replica_groups(one, module.table, _collective_row(module, rows[name]))
        for name, one in found.items()
    }


def users_by_name(module: InstructionIndex) -> dict[str, set[str]]:
    """The names of the instructions that need the result of each instruction that runs.

    An instruction that runs nothing (`PASS_THROUGH_OPCODES`) is replaced by its own users. Empty for a damaged proto.
    """
    table, names = module.table, module.names
    opcodes = table.texts(OPCODE)
    users_of_all, users_of_part = (
        [set[str]() for _ in names] for _ in range(2)
    )  # who needs all of it, and who a part of a tuple
    for user in range(len(names) - 1, -1, -1):  # a computation has every instruction before those that need it
        opcode = opcodes[user]
        for operand in (module.row_by_id[id_] for id_ in table.id_list(OPERANDS, user) if id_ in module.row_by_id):
            if opcode == "get-tuple-element":
                users_of_part[operand] |= users_of_all[user] | users_of_part[user]
                continue
            users_of_all[operand] |= users_of_all[user] if opcode in PASS_THROUGH_OPCODES else {names[user]}
            if (
                opcode in PASS_THROUGH_OPCODES and opcode != "tuple"
            ):  # who needs a part of a tuple need not need this one
                users_of_part[operand] |= users_of_part[user]
    rows = (row for row, opcode in enumerate(opcodes) if opcode not in PASS_THROUGH_OPCODES)
    return {names[row]: users_of_all[row] | users_of_part[row] for row in rows}


def _operand_text(module: InstructionIndex, row: int, opcode: str) -> str:
    """An operand in the line of an op: with its shape where the op moves that shape rather than its result's."""
    name = f"%{module.table.text(NAME, row)}"
    return f"{_shape_text_at(module, row)} {name}" if opcode == "reduce-scatter" else name


def summarize_instruction(module: InstructionIndex, row: int) -> InstructionSummary:
    """The summary of the instruction in this row."""
    file, table = module.file, module.table
    name, opcode, kind = table.text(NAME, row), table.text(OPCODE, row), table.text(FUSION_KIND, row)
    try:
        shape = _shape_text_at(module, row)
        known = (module.row_by_id[one] for one in table.id_list(OPERANDS, row) if one in module.row_by_id)
        operands = [_operand_text(module, one, opcode) for one in known]
        framework, source = _framework_name_and_source(file, *table.field_range(METADATA, row), module.frames)
    except WireError:
        shape, operands, framework, source = "", [], "", ""
    target = table.text(CUSTOM_CALL_TARGET, row)
    tail = (f", kind={kind}" if kind else "") + (f', custom_call_target="{target}"' if target else "")
    text = f"%{name} = {shape} {opcode}({', '.join(operands)}){tail}"
    return InstructionSummary(name, opcode, xprof_category(opcode, kind), framework, source, text)


def _collective_row(module: InstructionIndex, row: int) -> int:
    """The row with a collective's attributes: its own, or for ``async-start`` the root of the computation it calls."""
    if module.table.text(OPCODE, row) != "async-start":
        return row
    called = module.table.message(row).numbers(CALLED_COMPUTATIONS)
    root = module.root_row(called[0]) if called else None
    return row if root is None else root


def _with_replica_groups(one: InstructionSummary, table: MessageTable, row: int) -> InstructionSummary:
    """A collective with its device groups in its text, and the attributes that define the meaning of their numbers."""
    if not table.text(OPCODE, row).startswith(COLLECTIVE_OPCODES):
        return one
    fields = table.message(row)
    form = read_groups(fields)[1]
    if not form:
        return one
    channel = f", channel_id={number}" if (number := fields.number(CHANNEL_ID)) else ""
    flat = ", use_global_device_ids=true" if fields.number(USE_GLOBAL_DEVICE_IDS) else ""
    return replace(one, text=f"{one.text}{channel}, replica_groups={form}{flat}")


def _shape_text_at(module: InstructionIndex, row: int) -> str:
    """The shape of the instruction in this row, as HLO writes it."""
    return shape_text(module.file, *module.table.field_range(SHAPE, row))


def shape_text(file: PaddedBytes, start: int, end: int) -> str:
    """The ShapeProto in `[start, end)` as HLO writes it: ``f32[8,16]{1,0}``, ``(s32[], f32[2])``."""
    return read_shape(read_message(file, start, end)).text


def _framework_name_and_source(file: PaddedBytes, start: int, end: int, frames: WireField | None) -> tuple[str, str]:
    """The framework's name of the op and the source line that made it."""
    name, source, line, frame = "", "", 0, 0
    for part in iterate_fields(file.data, start, end):
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
    return name, _frame_location(file, frames, frame) if frames is not None and frame else ""


def _frame_location(file: PaddedBytes, index: WireField, frame: int) -> str:
    """``file:line`` of a source frame; frames, locations and files are numbered from 1 in the module's index."""
    files, places, frames = (
        [part for part in iterate_fields(file.data, index.at, index.at + index.value) if part.number == number]
        for number in (1, 3, 4)
    )
    if not 0 < frame <= len(frames):
        return ""
    place = _varints_by_number(file, frames[frame - 1]).get(1, 0)
    if not 0 < place <= len(places):
        return ""
    where = _varints_by_number(file, places[place - 1])
    number = where.get(1, 0)
    if not 0 < number <= len(files):
        return ""
    named = files[number - 1]
    return f"{file.text(named.at, named.at + named.value)}:{where.get(3, 0)}"


def _varints_by_number(file: PaddedBytes, message: WireField) -> dict[int, int]:
    """The varints of a message by field number."""
    parts = iterate_fields(file.data, message.at, message.at + message.value)
    return {part.number: part.value for part in parts if part.wire == VARINT}
