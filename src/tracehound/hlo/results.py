"""The programs of a trace, and instructions and their neighbourhoods, as results.

Owns the columns. Knows no form in which they are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import polars as pl

from tracehound.analysis.events.measured import LENGTH
from tracehound.analysis.hlo.rows import begins
from tracehound.analysis.result import Column, Result, blank
from tracehound.errors import file_name
from tracehound.formats.hlo.shape import space_name
from tracehound.formats.hlo.text import COLLECTIVES
from tracehound.formats.inflate import Section, section
from tracehound.hlo.instruction import Instruction
from tracehound.hlo.module import Module
from tracehound.hlo.programs import Program, read
from tracehound.hlo.text import attributes_text, brief_line, instruction_line
from tracehound.hlo.walk import Node, inside, neighbourhood
from tracehound.hlo.words import sentences
from tracehound.notes import note
from tracehound.trace import Trace, streamed
from tracehound.units import bytes_, count, duration, plural, several

PROGRAMS = (
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

LINES = (
    Column("computation", "text", "the computation in which the instruction lies"),
    Column("instruction", "text", "its name"),
    Column("opcode", "text", "what it does", brief=False),
    Column("text", "text", "its line of HLO"),
)

FRAMES = (
    Column("source", "text", "file and line, the innermost first"),
    Column("function", "text", "the function there"),
)

TREE = (
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


def listing(found: Sequence[Program], give: Section = section) -> Result:
    """The programs of a trace. Raises TracehoundError where one cannot be read."""
    rows = []
    for one in found:
        module = read(one, give)
        collectives = sum(opcode.removesuffix("-start") in COLLECTIVES for opcode in module.opcodes)
        numbers = (len(module.names), module.opcodes.count("fusion"), collectives, len(module.computations))
        rows.append((one.title, *numbers, one.size, file_name(one.path)))
    return result("hlo", "Programs", PROGRAMS, rows)


def lines(module: Module) -> Result:
    """Every instruction of a module, a row for each, in the order of computations."""
    rows = [
        (one.name, module.names[row], module.opcodes[row], instruction_line(module, module.instruction(row)))
        for one in module.computations
        for row in module.scheduled(one)
    ]
    return result("hlo-text", module.name, LINES, rows)


def recorded(trace: Trace) -> tuple[int, ...]:
    """The ordinals of the devices in the profile; none where all that ran is taken for one CPU's: it may be several."""
    devices = tuple(trace.ranks["device"].drop_nulls().to_list())
    return () if len(devices) == 1 and str(trace.ranks["label"][0]).startswith("CPU") else devices


def executions(trace: Trace, program: Program, name: str) -> str:
    """How often the trace shows an op and how long it took; nothing where it shows none, as of fused ones.

    On GPUs an execution may take several kernels, as in the tables of ops.
    """
    found = _summed(trace, program, name)
    if not found.events:
        return ""
    begun = _begun(trace, program, name)
    times, several_kernels = begun or found.events, begun not in (0, found.events)
    on = plural(found.ranks, "rank") + (f", in {found.events:,} kernels" if several_kernels else "")
    mean, most = duration(found.total // times), duration(found.longest)
    longest = "the longest kernel" if several_kernels else "the longest"
    return f"{count(times)} on {on}, {duration(found.total)} in all, {mean} each, {most} {longest}"


def busy(trace: Trace, program: Program, name: str) -> int:
    """How long the executions of an op took together, ps."""
    return _summed(trace, program, name.removeprefix("%")).total


def facts(module: Module, program: Program, row: int) -> list[tuple[str, str]]:
    """What is true of an instruction, by label; the first are the ones by which it is known."""
    instruction = module.instruction(row)
    told = [
        ("program", program.title),
        ("computation", _where(module, row)),
        ("hlo", brief_line(module, instruction)),
        ("category", instruction.category if instruction.category != instruction.opcode else ""),
        ("bytes", _bytes(instruction)),
        ("memory", ", ".join(map(space_name, instruction.shape.spaces)) if any(instruction.shape.spaces) else ""),
        ("framework", instruction.op_name),
        ("source", next((frame.text for frame in module.frames.stack(instruction)), "")),
        ("custom call", instruction.target),
        ("attributes", attributes_text(attached) if (attached := instruction.attributes) else ""),
        ("backend", instruction.backend_config),
    ]
    return [(label, text) for label, text in told if text]


def words(module: Module, row: int, present: Collection[int]) -> Result | None:
    """What an instruction does, in words; None where there is nothing to say."""
    told = sentences(module, module.instruction(row), present)
    notes = tuple(note("hlo_sentence", text=sentence) for sentence in told)
    return Result("words", "In words", FRAMES, blank(FRAMES), 0, notes) if notes else None


def stack(module: Module, row: int) -> Result | None:
    """The lines of source that an instruction comes from; None where the file has none."""
    frames = module.frames.stack(module.instruction(row))
    rows = [(frame.text, frame.function) for frame in frames]
    return result("stack", "Source stack", FRAMES, rows) if len(rows) > 1 else None


def opened(module: Module, row: int, top: int | None = None) -> Result | None:
    """What is inside an instruction; None where nothing is."""
    nodes = list(inside(module, row))
    return tree("inside", f"Inside %{module.names[row]}", module, nodes, top) if nodes else None


def around(module: Module, row: int, depth: int, top: int | None = None) -> Result:
    """The neighbourhood of an instruction: its operands, its users, its callers."""
    nodes = [node for node in neighbourhood(module, row, depth) if not node.relation.startswith("inside")]
    return tree("neighbourhood", f"Around %{module.names[row]}", module, nodes, top)


def tree(name: str, title: str, module: Module, nodes: Sequence[Node], top: int | None) -> Result:
    """The nodes of a tree as rows, at most `top` of them."""
    first = min((node.depth for node in nodes), default=0)
    shown = nodes if top is None else nodes[:top]
    made = result(name, title, TREE, list(_rows(module, shown, first)))
    return Result(name, title, TREE, made.table, len(nodes))


def result(name: str, title: str, columns: Sequence[Column], rows: Sequence[tuple[object, ...]]) -> Result:
    """A result of these rows."""
    table = pl.DataFrame(rows, schema=blank(columns).schema, orient="row")
    return Result(name, title, tuple(columns), table, table.height)


def what(instruction: Instruction) -> str:
    """The opcode, and of a fusion and a custom call which."""
    more = instruction.fusion_kind or instruction.target
    return f"{instruction.opcode} {more}" if more else instruction.opcode


class _Summed(NamedTuple):
    """How many events an op has, their length together, on how many ranks, and the longest; ps."""

    events: int
    total: int
    ranks: int
    longest: int


def _ops(trace: Trace, program: Program, name: str) -> list[int]:
    """The rows of an instruction among the ops of the trace."""
    found = trace.ops.filter((pl.col("name") == name) & (pl.col("program") == program.program))
    return found["op"].to_list()


def _begun(trace: Trace, program: Program, name: str) -> int:
    """How many executions of an op begin with its kernels on GPUs; 0 where ops are no kernels."""
    ops, times = _ops(trace, program, name), 0
    lanes = trace.lanes.filter(pl.col("rank").is_not_null())
    for of_rank in lanes.partition_by("rank"):
        roles = {role: rows["lane"].to_list() for (role,), rows in of_rank.partition_by("role", as_dict=True).items()}
        if "stream" not in roles or "ops" not in roles:
            continue
        kernels = streamed(trace.events(roles["ops"]).select("id", "lane", "op", "start")).sort("id")
        modules = streamed(trace.events(roles.get("modules", [])).select("start")).to_series()
        times += int(kernels["op"].is_in(ops).to_numpy()[begins(kernels, modules)].sum())
    return times


def _summed(trace: Trace, program: Program, name: str) -> _Summed:
    """What the events of an op come to.

    Lengths are those of the device's own clock where there is one, as in the tables of ops.
    """
    ops = _ops(trace, program, name)
    if not ops:
        return _Summed(0, 0, 0, 0)
    of_op = trace.events(trace.lanes.filter("work")["lane"].to_list()).filter(pl.col("op").is_in(ops))
    summed = of_op.select(
        pl.len().alias("times"), LENGTH.sum().alias("total"), pl.col("rank").n_unique(), LENGTH.max().alias("longest")
    )
    times, total, ranks, longest = streamed(summed).row(0)
    return _Summed(times, total, ranks, longest or 0)


MOST_BYTES = (1 << 63) - 1


def _rows(module: Module, nodes: Sequence[Node], first: int) -> Iterator[tuple[object, ...]]:
    for node in nodes:
        one = module.instruction(node.row)
        frames = module.frames.stack(one)
        yield (
            f"%{one.name}", node.relation, what(one), one.shape.text, min(one.shape.bytes, MOST_BYTES), node.note,
            frames[0].text if frames else "", one.op_name, node.depth - first,
        )  # fmt: skip


def _where(module: Module, row: int) -> str:
    """The computation of an instruction, and what calls that."""
    here = module.computation_of(row)
    if here.number == module.entry:
        return f"%{here.name}, the entry"
    callers = [f"%{module.names[caller]}" for caller in module.callers.get(here.number, ())]
    return f"%{here.name}, called by {several(callers, 8)}" if callers else f"%{here.name}"


def _bytes(instruction: Instruction) -> str:
    """The size of the result, and what padding to tiles adds; of what begins a copy, how much of it moves."""
    shape = instruction.shape
    bare, padded = shape.bytes, shape.padded_bytes
    more = f", {bytes_(padded)} with the padding of its tiles" if padded > bare else ""
    if instruction.opcode == "copy-start":
        more += f"; source and destination together, of which {bytes_(next(shape.leaves, shape).bytes)} move"
    return f"{bytes_(bare)} ({count(bare)}){more}" if bare else ""
