"""The instructions of an HLO module, read from its proto at the wire.

Owns what an op is: its line, its category, framework name, source, and who needs its result. Decodes only the
instructions that are asked for; knows no traces.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from tracehound.formats.hlo.fields import message
from tracehound.formats.hlo.located import CALLED, FUSION_KIND, METADATA, NAME, OPCODE, OPERANDS, SHAPE, TARGET, Located
from tracehound.formats.hlo.members import CHANNEL, GLOBAL_IDS, groups_of
from tracehound.formats.hlo.shape import shape_of
from tracehound.formats.hlo.table import Table
from tracehound.formats.hlo.text import COLLECTIVES, moved_bytes
from tracehound.formats.wire import BYTES, VARINT, Bytes, Field, WireError, fields

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


def instructions(module: Located, wanted: Collection[str]) -> dict[str, Instruction]:
    """The instructions with these names; what is damaged is left out."""
    rows = module.named(wanted)
    found = {name: instruction_at(module, row) for name, row in rows.items()}
    return {name: _grouped(one, module.table, _exchanging(module, rows[name])) for name, one in found.items()}


def users(module: Located) -> dict[str, set[str]]:
    """Which instructions need the result of each that runs, by their names.

    What runs nothing (`PASSING`) stands for those that need it. Nothing where the proto is damaged.
    """
    table, named = module.table, module.names
    opcodes = table.texts(OPCODE)
    whole, parts = ([set[str]() for _ in named] for _ in range(2))  # who needs all of it, and who a part of a tuple
    for user in range(len(named) - 1, -1, -1):  # a computation has every instruction before those that need it
        opcode = opcodes[user]
        for operand in (module.rows[id_] for id_ in table.listed(OPERANDS, user) if id_ in module.rows):
            if opcode == "get-tuple-element":
                parts[operand] |= whole[user] | parts[user]
                continue
            whole[operand] |= whole[user] if opcode in PASSING else {named[user]}
            if opcode in PASSING and opcode != "tuple":  # who needs a part of a tuple need not need this one
                parts[operand] |= parts[user]
    rows = (row for row, opcode in enumerate(opcodes) if opcode not in PASSING)
    return {named[row]: whole[row] | parts[row] for row in rows}


def _operand(module: Located, row: int, opcode: str) -> str:
    """An operand in the line of an op: with its shape where the op moves that, and not the shape of its result."""
    name = f"%{module.table.text(NAME, row)}"
    return f"{_shape_at(module, row)} {name}" if opcode == "reduce-scatter" else name


def instruction_at(module: Located, row: int) -> Instruction:
    """One instruction of a module."""
    file, table = module.file, module.table
    name, opcode, kind = table.text(NAME, row), table.text(OPCODE, row), table.text(FUSION_KIND, row)
    try:
        shape = _shape_at(module, row)
        known = (module.rows[one] for one in table.listed(OPERANDS, row) if one in module.rows)
        operands = [_operand(module, one, opcode) for one in known]
        framework, source = _origin(file, *table.span(METADATA, row), module.frames)
    except WireError:
        shape, operands, framework, source = "", [], "", ""
    target = table.text(TARGET, row)
    tail = (f", kind={kind}" if kind else "") + (f', custom_call_target="{target}"' if target else "")
    text = f"%{name} = {shape} {opcode}({', '.join(operands)}){tail}"
    return Instruction(name, opcode, category_of(opcode, kind), framework, source, text)


def _exchanging(module: Located, row: int) -> int:
    """The row of what a collective does: its own; of an ``async-start`` that of the root of what it calls."""
    if module.table.text(OPCODE, row) != "async-start":
        return row
    called = module.table.message(row).numbers(CALLED)
    root = module.root(called[0]) if called else None
    return row if root is None else root


def _grouped(one: Instruction, table: Table, row: int) -> Instruction:
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


def _shape_at(module: Located, row: int) -> str:
    return shape_text(module.file, *module.table.span(SHAPE, row))


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
