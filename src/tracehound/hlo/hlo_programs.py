"""The programs of a trace whose HLO its files contain, and tables about them and their instructions.

Owns the search for programs and the columns of these tables. Reads a program's bytes when they are asked for. Knows no
form in which tables are shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
from msgspec import Struct

from tracehound.analysis.hlo.hlo_op_executions import first_kernels_of_executions
from tracehound.analysis.result import Column, Result, empty_table
from tracehound.analysis.timing.device_clock import EVENT_LENGTH
from tracehound.errors import TracehoundError, printable, printable_file_name
from tracehound.formats.hlo.hlo_line_parser import COLLECTIVE_OPCODES
from tracehound.formats.hlo.hlo_shape import memory_space_name
from tracehound.formats.inflate import SectionReader, read_section
from tracehound.hlo.hlo_module import HloModule, Instruction, read_module
from tracehound.hlo.instruction_sentences import describe_instruction
from tracehound.hlo.module_text import frontend_attributes_text, instruction_line, instruction_line_without_metadata
from tracehound.hlo.neighborhood import NeighborhoodNode, inner_instructions, instruction_neighborhood
from tracehound.model.notes import note
from tracehound.model.trace import FileState, Trace, collect_streaming
from tracehound.model.units import count_noun, format_bytes, format_count, format_duration, join_some

NO_HLO_MESSAGE = (
    "no HLO in this trace: XLA profiles (xplane.pb) hold the programs when they are recorded with "
    "enable_hlo_proto, the default of jax.profiler and of torch_xla's xp.trace"
)

MAX_PROTO_BYTES = 1 << 31
"""Bytes of an HLO proto: protobuf has no longer ones."""


class TraceProgram(Struct, frozen=True):
    """A program, and the location of its proto: `part` is the number of its file in the trace, `state` the file's."""

    name: str
    program: int
    part: int
    path: Path
    offset: int
    size: int
    state: FileState | None = None

    @property
    def title(self) -> str:
        """``jit_f(12190760917235803885)``, as XLA writes it: the id is unsigned."""
        return f"{self.name}({self.program & (1 << 64) - 1})"


def programs_of_trace(trace: Trace) -> tuple[TraceProgram, ...]:
    """The programs of all files, each once: hosts of a job have the same programs."""
    found: dict[tuple[str, int], TraceProgram] = {}
    for number, part in enumerate(trace.parts):
        for one in part.facts.programs:
            made = TraceProgram(one.name, one.program, number, part.path, one.offset, one.size, part.state)
            found.setdefault((made.name, made.program), made)
    return tuple(found.values())


def read_program(program: TraceProgram, give: SectionReader = read_section) -> HloModule:
    """The module of a program. Raises TracehoundError where it is gone, or its file has changed."""
    proto = give(program.path, program.offset, min(program.size, MAX_PROTO_BYTES), program.state)
    module = read_module(proto) if len(proto) == program.size else None
    if module is None:
        what = f"the HLO of {printable(program.name)} cannot be read; did the file change?"
        raise TracehoundError(what, program.path, f"byte {program.offset:,}")
    return module


def require_programs(trace: Trace) -> tuple[TraceProgram, ...]:
    """The programs of a trace. Raises TracehoundError where there are none."""
    found = programs_of_trace(trace)
    if not found:
        raise TracehoundError(NO_HLO_MESSAGE)
    return found


def find_programs(found: Sequence[TraceProgram], text: str) -> tuple[TraceProgram, ...]:
    """The programs with this name, name and id, or id; none where no program matches."""
    word = text.strip()
    exact = tuple(one for one in found if word in (one.title, str(one.program), str(one.program & (1 << 64) - 1)))
    return exact or tuple(one for one in found if one.name == word)


def programs_with_instruction(
    found: Sequence[TraceProgram], op: str, give: SectionReader = read_section
) -> list[tuple[TraceProgram, HloModule, int]]:
    """The programs that have an instruction of this name, their modules, and its row. Raises as `read_program`.

    Raises TracehoundError with the nearest names where no program has it.
    """
    name, matches, names = op.strip().removeprefix("%"), [], {one.name for one in found}
    for program in found:
        module = read_program(program, give)
        if name in module.row_by_name:
            matches.append((program, module, module.row_by_name[name]))
        else:
            names.update(module.names)
    if not matches:
        near = difflib.get_close_matches(name, names, 3)
        hint = f"did you mean {', '.join(map(printable, near))}?" if near else "name a program to see its instructions"
        raise TracehoundError(f"no program and no instruction {printable(shorten_word(op))!r}", remedy=hint)
    return matches


def shorten_word(word: str) -> str:
    """A word of the user, shortened for a message."""
    return word if len(word) <= 80 else word[:79] + "…"


PROGRAM_COLUMNS = (
    Column("program", "text", "the name of the module and the id of the program"),
    Column("instructions", "count", "instructions of all its computations, fused ones included"),
    Column("fusions", "count", "fusions among them"),
    Column("collectives", "count", "collectives among them; of an asynchronous one its start"),
    Column(
        "computations", "count", "computations: the entry, and what fusions, loops and reductions call", brief=False
    ),
    Column("size", "bytes", "of its HLO proto in the file"),
    Column("file", "text", "the file that holds it", brief=False),
)

LINE_COLUMNS = (
    Column("computation", "text", "the computation in which the instruction lies"),
    Column("instruction", "text", "its name"),
    Column("opcode", "text", "what it does", brief=False),
    Column("text", "text", "its line of HLO"),
)

STACK_COLUMNS = (
    Column("source", "text", "file and line, the innermost first"),
    Column("function", "text", "the function there"),
)

TREE_COLUMNS = (
    Column("instruction", "text", "its name, indented by how far it is from the first"),
    Column("relation", "text", "what it is to the one above: an operand, a user, inside it, its caller"),
    Column("opcode", "text", "what it does; of a fusion and a custom call also which"),
    Column("shape", "text", "of its result, with layout: S(5) is host memory"),
    Column("bytes", "bytes", "of its result, without padding"),
    Column("note", "text", "what an instruction inside takes; the operand that a parameter stands for"),
    Column("source", "text", "the line of source that it comes from", brief=False),
    Column("framework", "text", "the framework's name of it", brief=False),
    Column("depth", "depth", "how far it is from the first"),
)


def programs_result(found: Sequence[TraceProgram], give: SectionReader = read_section) -> Result:
    """A table of the programs of a trace. Raises TracehoundError where one cannot be read."""
    rows = []
    for one in found:
        module = read_program(one, give)
        collectives = sum(opcode.removesuffix("-start") in COLLECTIVE_OPCODES for opcode in module.opcodes)
        numbers = (len(module.names), module.opcodes.count("fusion"), collectives, len(module.computations))
        rows.append((one.title, *numbers, one.size, printable_file_name(one.path)))
    return result_of_rows("hlo", "Programs", PROGRAM_COLUMNS, rows)


def instructions_result(module: HloModule) -> Result:
    """A table of every instruction of a module, in the order of computations."""
    rows = [
        (one.name, module.names[row], module.opcodes[row], instruction_line(module, module.instruction(row)))
        for one in module.computations
        for row in module.scheduled_rows(one)
    ]
    return result_of_rows("hlo-text", module.name, LINE_COLUMNS, rows)


def recorded_devices(trace: Trace) -> tuple[int, ...]:
    """The ordinals of the devices in the profile; none for a single CPU device, which may stand for several."""
    devices = tuple(trace.ranks["device"].drop_nulls().to_list())
    return () if len(devices) == 1 and str(trace.ranks["label"][0]).startswith("CPU") else devices


def executions_sentence(trace: Trace, program: TraceProgram, name: str) -> str:
    """The number and time of an op's executions in the trace; "" where the trace has none, as for fused ones.

    On GPUs an execution may take several kernels, as in the tables of ops.
    """
    found = _op_totals(trace, program, name)
    if not found.events:
        return ""
    begun = _count_gpu_executions(trace, program, name)
    times, several_kernels = begun or found.events, begun not in (0, found.events)
    on = count_noun(found.ranks, "rank") + (f", in {found.events:,} kernels" if several_kernels else "")
    mean, most = format_duration(found.total // times), format_duration(found.longest)
    longest = "the longest kernel" if several_kernels else "the longest"
    return f"{format_count(times)} on {on}, {format_duration(found.total)} in all, {mean} each, {most} {longest}"


def op_time(trace: Trace, program: TraceProgram, name: str) -> int:
    """Time of all executions of an op, ps."""
    return _op_totals(trace, program, name.removeprefix("%")).total


def instruction_facts(module: HloModule, program: TraceProgram, row: int) -> list[tuple[str, str]]:
    """Facts about an instruction, by label; the identifying ones come first."""
    instruction = module.instruction(row)
    labeled_texts = [
        ("program", program.title),
        ("computation", _computation_phrase(module, row)),
        ("hlo", instruction_line_without_metadata(module, instruction)),
        ("category", instruction.category if instruction.category != instruction.opcode else ""),
        ("bytes", _result_bytes_phrase(instruction)),
        (
            "memory",
            ", ".join(map(memory_space_name, instruction.shape.memory_spaces))
            if any(instruction.shape.memory_spaces)
            else "",
        ),
        ("framework", instruction.op_name),
        ("source", next((frame.text for frame in module.frames.stack(instruction)), "")),
        ("custom call", instruction.target),
        ("attributes", frontend_attributes_text(attached) if (attached := instruction.attributes) else ""),
        ("backend", instruction.backend_config),
    ]
    return [(label, text) for label, text in labeled_texts if text]


def sentences_result(module: HloModule, row: int, present: Collection[int]) -> Result | None:
    """Sentences that explain an instruction; None where there is nothing to say."""
    sentences = describe_instruction(module, module.instruction(row), present)
    notes = tuple(note("hlo_sentence", text=sentence) for sentence in sentences)
    return Result("words", "In words", STACK_COLUMNS, empty_table(STACK_COLUMNS), 0, notes) if notes else None


def source_stack_result(module: HloModule, row: int) -> Result | None:
    """The source lines that an instruction comes from; None where the file has none."""
    frames = module.frames.stack(module.instruction(row))
    rows = [(frame.text, frame.function) for frame in frames]
    return result_of_rows("stack", "Source stack", STACK_COLUMNS, rows) if len(rows) > 1 else None


def inner_instructions_result(module: HloModule, row: int, top: int | None = None) -> Result | None:
    """The instructions inside an instruction; None where there are none."""
    nodes = list(inner_instructions(module, row))
    return tree_result("inside", f"Inside %{module.names[row]}", module, nodes, top) if nodes else None


def neighborhood_result(module: HloModule, row: int, depth: int, top: int | None = None) -> Result:
    """The neighborhood of an instruction: its operands, its users, its callers."""
    nodes = [node for node in instruction_neighborhood(module, row, depth) if not node.relation.startswith("inside")]
    return tree_result("neighbourhood", f"Around %{module.names[row]}", module, nodes, top)


def tree_result(name: str, title: str, module: HloModule, nodes: Sequence[NeighborhoodNode], top: int | None) -> Result:
    """The nodes of a tree as rows, at most `top` of them."""
    first = min((node.depth for node in nodes), default=0)
    shown = nodes if top is None else nodes[:top]
    made = result_of_rows(name, title, TREE_COLUMNS, list(_tree_rows(module, shown, first)))
    return Result(name, title, TREE_COLUMNS, made.table, len(nodes))


def result_of_rows(name: str, title: str, columns: Sequence[Column], rows: Sequence[tuple[object, ...]]) -> Result:
    """A result with these columns and rows."""
    table = pl.DataFrame(rows, schema=empty_table(columns).schema, orient="row")
    return Result(name, title, tuple(columns), table, table.height)


def opcode_with_kind(instruction: Instruction) -> str:
    """The opcode, with the kind of a fusion or the target of a custom call."""
    more = instruction.fusion_kind or instruction.target
    return f"{instruction.opcode} {more}" if more else instruction.opcode


class _OpTotals(NamedTuple):
    """The number of events of an op, their total length, their ranks, and the longest; ps."""

    events: int
    total: int
    ranks: int
    longest: int


def _op_ids(trace: Trace, program: TraceProgram, name: str) -> list[int]:
    """The ids of an instruction among the ops of the trace."""
    found = trace.ops.filter((pl.col("name") == name) & (pl.col("program") == program.program))
    return found["op"].to_list()


def _count_gpu_executions(trace: Trace, program: TraceProgram, name: str) -> int:
    """The number of an op's executions on GPUs, counted at their first kernels; 0 where ops are not kernels."""
    ops, times = _op_ids(trace, program, name), 0
    lanes = trace.lanes.filter(pl.col("rank").is_not_null())
    for of_rank in lanes.partition_by("rank"):
        roles = {role: rows["lane"].to_list() for (role,), rows in of_rank.partition_by("role", as_dict=True).items()}
        if "stream" not in roles or "ops" not in roles:
            continue
        kernels = collect_streaming(trace.events(roles["ops"]).select("id", "lane", "op", "start")).sort("id")
        modules = collect_streaming(trace.events(roles.get("modules", [])).select("start")).to_series()
        times += int(kernels["op"].is_in(ops).to_numpy()[first_kernels_of_executions(kernels, modules)].sum())
    return times


def _op_totals(trace: Trace, program: TraceProgram, name: str) -> _OpTotals:
    """Totals over the events of an op.

    Lengths are those of the device's own clock where there is one, as in the tables of ops.
    """
    ops = _op_ids(trace, program, name)
    if not ops:
        return _OpTotals(0, 0, 0, 0)
    of_op = trace.events(trace.lanes.filter("work")["lane"].to_list()).filter(pl.col("op").is_in(ops))
    summed = of_op.select(
        pl.len().alias("times"),
        EVENT_LENGTH.sum().alias("total"),
        pl.col("rank").n_unique(),
        EVENT_LENGTH.max().alias("longest"),
    )
    times, total, ranks, longest = collect_streaming(summed).row(0)
    return _OpTotals(times, total, ranks, longest or 0)


MAX_INT64 = (1 << 63) - 1


def _tree_rows(module: HloModule, nodes: Sequence[NeighborhoodNode], first: int) -> Iterator[tuple[object, ...]]:
    """The rows of a tree's nodes."""
    for node in nodes:
        one = module.instruction(node.row)
        frames = module.frames.stack(one)
        yield (
            f"%{one.name}", node.relation, opcode_with_kind(one), one.shape.text,
            min(one.shape.bytes, MAX_INT64), node.note,
            frames[0].text if frames else "", one.op_name, node.depth - first,
        )  # fmt: skip


def _computation_phrase(module: HloModule, row: int) -> str:
    """The computation of an instruction, and its callers."""
    here = module.computation_of(row)
    if here.number == module.entry:
        return f"%{here.name}, the entry"
    callers = [f"%{module.names[caller]}" for caller in module.callers.get(here.number, ())]
    return f"%{here.name}, called by {join_some(callers, 8)}" if callers else f"%{here.name}"


def _result_bytes_phrase(instruction: Instruction) -> str:
    """The size of the result, and the padding to tiles; for the start of a copy also the bytes that move."""
    shape = instruction.shape
    bare, padded = shape.bytes, shape.padded_bytes
    more = f", {format_bytes(padded)} with the padding of its tiles" if padded > bare else ""
    if instruction.opcode == "copy-start":
        more += f"; source and destination together, of which {format_bytes(next(shape.arrays, shape).bytes)} move"
    return f"{format_bytes(bare)} ({format_count(bare)}){more}" if bare else ""
