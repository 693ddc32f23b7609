"""A module, a computation or an instruction as HLO text.

Owns how they are written: as XLA's own printer does, so that what is copied from here can be read by its tools.
Instructions are read one by one while the text is written, so that a huge module's first lines come at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracehound.formats.hlo.shape import indexed, shape_of
from tracehound.hlo.attributes import attributes_of, escaped
from tracehound.hlo.instruction import ATTRIBUTES, LITERAL, PARAMETER, Instruction
from tracehound.hlo.literal import literal_text
from tracehound.hlo.module import SCHEDULE, Computation, Module

HOST_SHAPE, ALIASES, MODULE_ATTRIBUTES = 4, 8, 19
PARAMETERS, RESULT = 1, 2


def module_lines(module: Module) -> Iterator[str]:
    """The text of the module: its head, then its computations, the entry last."""
    yield head_line(module)
    last = [module.computations[module.entry]] if module.entry is not None else []
    for one in [*(one for one in module.computations if one.number != module.entry), *last]:
        yield ""
        yield from computation_lines(module, one)


def head_line(module: Module) -> str:
    """``HloModule jit_f, is_scheduled=true, entry_computation_layout={...}``."""
    parts = [f"HloModule {module.name}"]
    if SCHEDULE in module.head:
        parts.append("is_scheduled=true")
    if alias := _aliases(module):
        parts.append(f"input_output_alias={{ {alias} }}")
    if program := module.head.one(HOST_SHAPE):
        takes = ", ".join(indexed([shape_of(one).text for one in program.all(PARAMETERS)]))
        parts.append(f"entry_computation_layout={{({takes})->{shape_of(program.one(RESULT)).text}}}")
    attached = module.head.one(MODULE_ATTRIBUTES)
    if attached and (pairs := attached.pairs(1)):
        parts.append(f"frontend_attributes={attributes_text(pairs)}")
    return ", ".join(parts)


def computation_lines(module: Module, one: Computation) -> Iterator[str]:
    """The text of one computation."""
    takes, result = list[str](), ""
    found = [module.instruction(row) for row in one.rows if module.opcodes[row] == "parameter" or row == one.root]
    for instruction in sorted(found, key=lambda each: each.fields.number(PARAMETER)):
        if instruction.opcode == "parameter":
            takes.append(f"{instruction.name}: {instruction.shape.brief}")
        if instruction.row == one.root:
            result = instruction.shape.brief
    entry = "ENTRY " if one.number == module.entry else ""
    yield f"{entry}%{one.name} ({', '.join(takes)}) -> {result} {{"
    for row in module.scheduled(one):
        yield f"  {'ROOT ' if row == one.root else ''}{instruction_line(module, module.instruction(row))}"
    yield "}"


def instruction_line(module: Module, instruction: Instruction) -> str:
    """The whole line of one instruction."""
    rest = [brief_line(module, instruction), *_attached(instruction)]
    if metadata := _metadata(module, instruction):
        rest.append(f"metadata={{{metadata}}}")
    if config := instruction.backend_config:
        rest.append(f"backend_config={config if config.startswith('{') else f'{chr(34)}{escaped(config)}{chr(34)}'}")
    return ", ".join(rest)


def brief_line(module: Module, instruction: Instruction) -> str:
    """The line without what the framework and the backend attached to it."""
    call = f"%{instruction.name} = {call_text(module, instruction)}"
    return ", ".join([call, *attributes_of(module, instruction)])


def call_text(module: Module, instruction: Instruction) -> str:
    """``f32[8]{0} add(%a, %b)``: shape, opcode and operands."""
    return f"{instruction.shape.text} {instruction.opcode}({', '.join(indexed(arguments(module, instruction)))})"


def arguments(module: Module, instruction: Instruction) -> list[str]:
    """What stands between the parentheses: operands, the number of a parameter, the value of a constant."""
    if instruction.opcode == "parameter":
        return [str(instruction.fields.number(PARAMETER))]
    if instruction.opcode == "constant":
        return [literal_text(instruction.fields.one(LITERAL))]
    return [f"%{module.names[row]}" for row in module.operands[instruction.row]]


def attributes_text(pairs: dict[str, str]) -> str:
    """Frontend attributes: ``{name="value"}``, in the order of names."""
    texts = (f"{name}={_value(pairs[name])}" for name in sorted(pairs))
    return f"{{{','.join(texts)}}}"


def _value(text: str) -> str:
    return text if text.startswith("{") and text.endswith("}") else f'"{escaped(text)}"'


def _attached(instruction: Instruction) -> Iterator[str]:
    if ATTRIBUTES in instruction.fields and (pairs := instruction.attributes):
        yield f"frontend_attributes={attributes_text(pairs)}"


def _metadata(module: Module, instruction: Instruction) -> str:
    parts = [f'op_name="{escaped(instruction.op_name)}"'] if instruction.op_name else []
    stack = module.frames.stack(instruction)
    if stack:
        parts.append(f'source_file="{escaped(stack[0].file)}" source_line={stack[0].line}')
    return " ".join(parts)


def _aliases(module: Module) -> str:
    """Which outputs share the memory of which parameters."""
    alias = module.head.one(ALIASES)
    if alias is None:
        return ""
    kinds = {1: "may-alias", 2: "must-alias"}
    texts = (
        f"{{{','.join(map(str, one.numbers(1)))}}}: ({one.number(2)}, "
        f"{{{','.join(map(str, one.numbers(3)))}}}, {kinds.get(one.number(4), 'undefined')})"
        for one in alias.all(1)
    )
    return ", ".join(texts)
