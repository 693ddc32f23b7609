"""HLO text of a module, a computation, an instruction or a constant, as XLA's own printer writes it.

XLA's tools can read the text. Instructions are read one by one while the text is written, so the first lines of a huge
module come at once. Owns the field numbers of LiteralProto.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tracehound.formats.hlo.hlo_shape import HloShape, add_index_comments, read_shape
from tracehound.formats.hlo.proto_message import MAX_NESTING, ProtoMessage
from tracehound.hlo.hlo_module import (
    FRONTEND_ATTRIBUTES,
    LITERAL,
    PARAMETER_NUMBER,
    SCHEDULE,
    Computation,
    HloModule,
    Instruction,
)
from tracehound.hlo.instruction_attributes import attribute_texts, escape_quotes

HOST_PROGRAM_SHAPE, INPUT_OUTPUT_ALIAS, MODULE_FRONTEND_ATTRIBUTES = 4, 8, 19
PROGRAM_PARAMETERS, PROGRAM_RESULT = 1, 2


def module_lines(module: HloModule) -> Iterator[str]:
    """The text of the module: its header, then its computations, the entry last."""
    yield module_header(module)
    last = [module.computations[module.entry]] if module.entry is not None else []
    for one in [*(one for one in module.computations if one.number != module.entry), *last]:
        yield ""
        yield from computation_lines(module, one)


def module_header(module: HloModule) -> str:
    """``HloModule jit_f, is_scheduled=true, entry_computation_layout={...}``."""
    parts = [f"HloModule {module.name}"]
    if SCHEDULE in module.head:
        parts.append("is_scheduled=true")
    if alias := _input_output_aliases(module):
        parts.append(f"input_output_alias={{ {alias} }}")
    if program := module.head.submessage(HOST_PROGRAM_SHAPE):
        takes = ", ".join(add_index_comments([read_shape(one).text for one in program.submessages(PROGRAM_PARAMETERS)]))
        parts.append(f"entry_computation_layout={{({takes})->{read_shape(program.submessage(PROGRAM_RESULT)).text}}}")
    attached = module.head.submessage(MODULE_FRONTEND_ATTRIBUTES)
    if attached and (pairs := attached.text_map(1)):
        parts.append(f"frontend_attributes={frontend_attributes_text(pairs)}")
    return ", ".join(parts)


def computation_lines(module: HloModule, one: Computation) -> Iterator[str]:
    """The text of one computation."""
    takes, result = list[str](), ""
    found = [module.instruction(row) for row in one.rows if module.opcodes[row] == "parameter" or row == one.root]
    for instruction in sorted(found, key=lambda each: each.fields.number(PARAMETER_NUMBER)):
        if instruction.opcode == "parameter":
            takes.append(f"{instruction.name}: {instruction.shape.text_without_layout}")
        if instruction.row == one.root:
            result = instruction.shape.text_without_layout
    entry = "ENTRY " if one.number == module.entry else ""
    yield f"{entry}%{one.name} ({', '.join(takes)}) -> {result} {{"
    for row in module.scheduled_rows(one):
        yield f"  {'ROOT ' if row == one.root else ''}{instruction_line(module, module.instruction(row))}"
    yield "}"


def instruction_line(module: HloModule, instruction: Instruction) -> str:
    """The whole line of one instruction."""
    rest = [instruction_line_without_metadata(module, instruction), *_frontend_attributes(instruction)]
    if metadata := _metadata_text(module, instruction):
        rest.append(f"metadata={{{metadata}}}")
    if config := instruction.backend_config:
        rest.append(
            f"backend_config={config if config.startswith('{') else f'{chr(34)}{escape_quotes(config)}{chr(34)}'}"
        )
    return ", ".join(rest)


def instruction_line_without_metadata(module: HloModule, instruction: Instruction) -> str:
    """The line of one instruction without the attributes, metadata and configuration of framework and backend."""
    call = f"%{instruction.name} = {call_text(module, instruction)}"
    return ", ".join([call, *attribute_texts(module, instruction)])


def call_text(module: HloModule, instruction: Instruction) -> str:
    """``f32[8]{0} add(%a, %b)``: shape, opcode and operands."""
    arguments = ", ".join(add_index_comments(argument_texts(module, instruction)))
    return f"{instruction.shape.text} {instruction.opcode}({arguments})"


def argument_texts(module: HloModule, instruction: Instruction) -> list[str]:
    """The texts between the parentheses: operands, the number of a parameter, or the value of a constant."""
    if instruction.opcode == "parameter":
        return [str(instruction.fields.number(PARAMETER_NUMBER))]
    if instruction.opcode == "constant":
        return [literal_text(instruction.fields.submessage(LITERAL))]
    return [f"%{module.names[row]}" for row in module.operands[instruction.row]]


def frontend_attributes_text(pairs: dict[str, str]) -> str:
    """Frontend attributes: ``{name="value"}``, in the order of names."""
    texts = (f"{name}={_attribute_value(pairs[name])}" for name in sorted(pairs))
    return f"{{{','.join(texts)}}}"


def _attribute_value(text: str) -> str:
    """The value of a frontend attribute, in quotes unless it has braces."""
    return text if text.startswith("{") and text.endswith("}") else f'"{escape_quotes(text)}"'


def _frontend_attributes(instruction: Instruction) -> Iterator[str]:
    """The frontend attributes of an instruction."""
    if FRONTEND_ATTRIBUTES in instruction.fields and (pairs := instruction.attributes):
        yield f"frontend_attributes={frontend_attributes_text(pairs)}"


def _metadata_text(module: HloModule, instruction: Instruction) -> str:
    """Framework name and innermost source line."""
    parts = [f'op_name="{escape_quotes(instruction.op_name)}"'] if instruction.op_name else []
    stack = module.frames.stack(instruction)
    if stack:
        parts.append(f'source_file="{escape_quotes(stack[0].file)}" source_line={stack[0].line}')
    return " ".join(parts)


def _input_output_aliases(module: HloModule) -> str:
    """The outputs that share the memory of parameters."""
    alias = module.head.submessage(INPUT_OUTPUT_ALIAS)
    if alias is None:
        return ""
    kinds = {1: "may-alias", 2: "must-alias"}
    texts = (
        f"{{{','.join(map(str, one.numbers(1)))}}}: ({one.number(2)}, "
        f"{{{','.join(map(str, one.numbers(3)))}}}, {kinds.get(one.number(4), 'undefined')})"
        for one in alias.submessages(1)
    )
    return ", ".join(texts)


LITERAL_SHAPE, TUPLE_LITERALS = 1, 10

MAX_LITERAL_ELEMENTS: Final = 64
"""Constants with more elements are written as ``{...}``."""

_FIXED_SIZE_FIELDS: Final = {
    "f16": (11, "<f2"), "f32": (8, "<f4"), "f64": (9, "<f8"), "u8": (3, "u1"), "s8": (15, "i1"), "u16": (16, "<u2"),
    "s16": (17, "<i2"), "bf16": (13, "<u2"), "c64": (12, "<c8"), "c128": (18, "<c16"),
}  # fmt: skip
_VARINT_FIELDS: Final = {"pred": 2, "s32": 4, "s64": 5, "u32": 6, "u64": 7}


def literal_text(proto: ProtoMessage | None, depth: int = 0) -> str:
    """The value of a LiteralProto: ``0.5``, ``{ 1, 2 }``, ``{ { 1, 0 }, { 0, 1 } }``."""
    if proto is None:
        return "{...}"
    shape = read_shape(proto.submessage(LITERAL_SHAPE))
    if shape.element == "tuple" and depth < MAX_NESTING:
        return f"( {', '.join(literal_text(part, depth + 1) for part in proto.submessages(TUPLE_LITERALS))} )"
    count = 1
    for dim in shape.dims:
        count *= max(dim, 0)
    if count > MAX_LITERAL_ELEMENTS:
        return "{...}"
    values = _literal_values(proto, shape)
    return _nested_braces(values, shape.dims) if len(values) == count else "{...}"


def _literal_values(proto: ProtoMessage, shape: HloShape) -> list[str]:
    """The elements of an array literal, as texts."""
    element = shape.element
    if element == "pred":
        return [
            ("true" if value else "false") if not shape.dims else str(int(bool(value))) for value in proto.raw_bytes(2)
        ]
    if element in _VARINT_FIELDS:
        numbers = proto.numbers(_VARINT_FIELDS[element])
        return [str(value & ((1 << 64) - 1) if element == "u64" else value) for value in numbers]
    if element not in _FIXED_SIZE_FIELDS:
        return []
    number, dtype = _FIXED_SIZE_FIELDS[element]
    raw = proto.fixed_bytes(number)
    values = np.frombuffer(raw[: len(raw) // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize], dtype)
    if element == "bf16":
        return [f"{value:.4g}" for value in (values.astype(np.uint32) << np.uint32(16)).view(np.float32).tolist()]
    return [_format_number(value) for value in values]


def _format_number(value: np.generic) -> str:
    """A number with the fewest digits, of those that XLA tries, that read back as the same number."""
    if isinstance(value, np.complexfloating):
        return f"({_format_number(value.real)}, {_format_number(value.imag)})"
    if not isinstance(value, np.floating):
        return str(value)
    short, long = _FLOAT_DIGITS[value.dtype.itemsize]
    few = f"{float(value):.{short}g}"
    return few if value.dtype.type(few) == value or np.isnan(value) else f"{float(value):.{long}g}"


_FLOAT_DIGITS: Final = {2: (4, 4), 4: (6, 9), 8: (15, 17)}


def _nested_braces(values: list[str], dims: tuple[int, ...]) -> str:
    """The elements in braces, dimension by dimension."""
    if not dims:
        return values[0]
    if not dims[0]:
        return "{}"
    step = len(values) // dims[0]
    return f"{{ {', '.join(_nested_braces(values[at * step :][:step], dims[1:]) for at in range(dims[0]))} }}"
