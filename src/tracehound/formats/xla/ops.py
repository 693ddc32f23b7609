"""The ops of an XLA profile: what is true of every execution of an HLO op.

Owns the rows of the `ops` frame and where they come from: the metadata of TPU events, and HLO protos for the ops that
CPUs and GPUs only name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracehound.formats.hlo import members
from tracehound.formats.hlo.cost import Cost, costs
from tracehound.formats.hlo.fields import message
from tracehound.formats.hlo.instructions import Instruction, instructions, users
from tracehound.formats.hlo.located import ASSIGNED, MODULE, Located, located
from tracehound.formats.wire import BYTES, File, Rows, WireError, fields, signed
from tracehound.formats.xla.costs import accessed, of_shapes, told_by_text
from tracehound.formats.xla.ends import USERS
from tracehound.formats.xla.kinds import op_bytes, op_kind
from tracehound.formats.xla.names import Kind, kernel_name, opcode_of_name
from tracehound.formats.xla.xmetadata import METADATA_STAT, NAME, Described
from tracehound.formats.xla.xspace import Plane, Space
from tracehound.formats.xla.xstats import BLOB, STAT_ID, Value, decoded
from tracehound.trace import OPS

_PROGRAM_NAME = re.compile(r"(.*)\((\d+)\)$", re.DOTALL)
_MOVING = ("collective", "copy", "transfer")
HLO_PROTO = "Hlo Proto"


class Program(Struct, frozen=True):
    """A compiled module, and where its HloProto lies."""

    name: str
    program: int
    offset: int
    size: int


def programs(file: File, space: Space) -> dict[int, Program]:
    """The modules whose HLO the file holds, by program id (int64): the number in the name, else the entry's own id.

    They are located, not read.
    """
    found: dict[int, Program] = {}
    for plane in space.planes:
        stats = {id_ for id_, name in plane.stat_names.items() if name == HLO_PROTO}
        if not stats:
            continue
        table = plane.metadata
        for id_, start, end in zip(table.ids.tolist(), table.start.tolist(), table.end.tolist(), strict=True):
            name, places = _protos(file, start, end, stats)
            for offset, size in places:
                named = _PROGRAM_NAME.match(name)
                program = signed(int(named[2]) & (1 << 64) - 1) if named else id_
                found[program] = Program(named[1] if named else name, program, offset, size)
    return found


def only(programs: Collection[Program]) -> dict[str, int]:
    """The ids of the programs whose names no other has."""
    times = Counter(one.name for one in programs)
    return {one.name: one.program for one in programs if times[one.name] == 1}


def assigned(file: File, program: Program) -> tuple[int, int]:
    """As how many replicas of how many partitions, of all hosts, the program runs; (0, 0): its HLO does not say.

    Raises WireError where the proto is damaged.
    """
    at, size = program.offset, program.size
    for number in (MODULE, ASSIGNED):  # the rest of a proto, which may be long, is passed over
        inner = [one for one in fields(file.data, at, at + size) if (one.number, one.wire) == (number, BYTES)]
        if not inner:
            return 0, 0
        at, size = inner[-1].at, inner[-1].value
    replicas = members.replicas_of(message(file.piece((at, at + size)), 0, size))
    return (len(replicas), len(replicas[0])) if replicas else (0, 0)


def _protos(file: File, start: int, end: int, stats: Collection[int]) -> tuple[str, list[tuple[int, int]]]:
    """The name of a metadata entry, and offset and size of the protos among its stats."""
    name, places = "", []
    try:
        for part in fields(file.data, start, end):
            if (part.number, part.wire) == (NAME, BYTES):
                name = file.text(part.at, part.at + part.value)
            elif (part.number, part.wire) == (METADATA_STAT, BYTES):
                inner = {one.number: one for one in fields(file.data, part.at, part.at + part.value)}
                if BLOB in inner and STAT_ID in inner and signed(inner[STAT_ID].value) in stats:
                    places.append((inner[BLOB].at, inner[BLOB].value))
    except WireError:
        return name, places
    return name, places


class Op(Struct, frozen=True):
    """One row of `ops` and what its events have from it."""

    row: int
    kind: Kind
    bytes: int | None


class Ops(Struct):
    """Collects ops, one row for each."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    _known: dict[tuple[Any, ...], Op] = field(default_factory=dict)

    def add(self, kind: Kind, moved: int | None, row: dict[str, Any]) -> Op:
        """The op with this name and text in this program, as a new row if it has none yet."""
        key = (row["program"], row["module"], row["name"], row["text"])
        if key not in self._known:
            self._known[key] = Op(len(self.rows), kind, moved if kind in _MOVING else None)
            self.rows.append({"op": len(self.rows), **row})
        return self._known[key]

    def frame(self) -> pl.DataFrame:
        """The `ops` frame."""
        return pl.DataFrame(self.rows, schema=OPS)


class Origin(NamedTuple):
    """Where in the file an op was met: ops of one origin are the same, and origins have an order.

    `by_name` is 0 for ops told by event metadata (at `position`), 1 for those that events only name (in `program`).
    """

    plane: int
    by_name: int
    position: int = 0
    program: int = 0
    module: str = ""
    name: str = ""


class Met(Struct, frozen=True):
    """An op that a portion's events execute."""

    origin: Origin
    kind: Kind
    bytes: int | None
    row: Mapping[str, Any]


class Meeting(Struct):
    """The ops that the events of one portion execute, numbered as they are met."""

    file: File
    programs: Mapping[int, Program]
    met: list[Met] = field(default_factory=list)
    _numbers: dict[Origin, int] = field(default_factory=dict)
    _read: dict[tuple[int, str], Instruction | None] = field(default_factory=dict)
    _costs: dict[tuple[int, str], Cost] = field(default_factory=dict)
    _modules: dict[int, dict[int, str]] = field(default_factory=dict)
    _kernels: dict[int, dict[str, str]] = field(default_factory=dict)

    def of_metadata(self, number: int, plane: Plane, entries: Described, position: int) -> int:
        """The op that the events with this metadata execute; its stats say all of it (TPU)."""
        origin = Origin(number, 0, position)
        if origin not in self._numbers:
            found = decoded(self.file, entries.of(position), plane.stat_names)
            if number not in self._modules:
                self._modules[number] = _modules(entries.names)
            stats = {name: value for _, name, value in found}
            self._meet(origin, *self._of_stats(entries, position, stats, self._modules[number]))
        return self._numbers[origin]

    def _meet(self, origin: Origin, kind: Kind, moved: int | None, row: Mapping[str, Any]) -> int:
        if origin not in self._numbers:
            self._numbers[origin] = len(self.met)
            self.met.append(Met(origin, kind, moved if kind in _MOVING else None, row))
        return self._numbers[origin]

    def _of_stats(
        self, entries: Described, position: int, stats: Mapping[str, Value], modules: Mapping[int, str]
    ) -> tuple[Kind, int | None, dict[str, Any]]:
        full, name = entries.names[position], entries.displayed[position] or entries.names[position]
        text = full if " = " in full else ""
        category = str(stats.get("hlo_category", "")) or opcode_of_name(name)
        program = _whole(stats.get("program_id"))
        return (
            op_kind(name, category, text),
            op_bytes(name, category, text),
            {
                "name": name.removeprefix("%"),
                "category": category,
                "module": self._module(program, stats.get("hlo_module"), modules),
                "program": program,
                "framework": str(stats.get("tf_op", "")).rpartition(":")[0] or str(stats.get("tf_op", "")) or None,
                "source": str(stats.get("source", "")) or None,
                "text": text or None,
                "flops": _whole(stats.get("model_flops", stats.get("flops"))),
                "bytes_accessed": _whole(stats.get("bytes_accessed")),
                "normalized_flops": _whole(stats.get("flops")),
                "twin": str(stats.get("deduplicated_name", "")).removeprefix("%") or None,
                **accessed(stats.get("memory_access_breakdown")),
                **told_by_text(name, text),
            },
        )

    def _module(self, program: int | None, named: Value | None, modules: Mapping[int, str]) -> str | None:
        """The name of a program: as the op states it, else as its HLO does, else as the plane's modules do."""
        if named is not None:
            return str(named)
        if program is None:
            return None
        return self.programs[program].name if program in self.programs else modules.get(program)

    def of_names(self, number: int, named: pl.DataFrame) -> pl.DataFrame:
        """`op`, `kind` and `bytes` of every row of `named` (`program`, `module`, `name`), looked up in HLO protos."""
        asked = named.select("program", "module", "name").unique(maintain_order=True)
        rows = []
        for (program,), group in asked.partition_by("program", as_dict=True, maintain_order=True).items():
            found = self._instructions(program, group["name"].to_list())
            for module, name in group.select("module", "name").iter_rows():
                origin = Origin(number, 1, 0, -1 if program is None else program, module or "", name)
                cost = self._costs.get((-1 if program is None else program, name))
                at = self._meet(origin, *_of_instruction(program, module, name, found.get(name), cost))
                rows.append((program, module, name, at, self.met[at].kind, self.met[at].bytes))
        answers = pl.DataFrame(
            rows,
            schema={**asked.schema, "op": pl.Int64, "kind": pl.String, "bytes": pl.Int64},
            orient="row",
        )
        return named.select("program", "module", "name").join(
            answers, on=["program", "module", "name"], how="left", nulls_equal=True, maintain_order="left"
        ).select("op", "kind", "bytes")  # fmt: skip

    def of_kernels(self, ran: pl.DataFrame) -> pl.Series:
        """Which op every row of `ran` (`program`, `name`, `kernel`) is of: that of its name, unless that says little.

        What only calls others (a command buffer), or is none of its program, does; so does no name. The op is then the
        one after which the kernel is called, where the program's HLO has it.
        """
        asked, told = ran.unique(maintain_order=True), list[tuple[int | None, str | None, str, str | None]]()
        for (program,), group in asked.partition_by("program", as_dict=True, maintain_order=True).items():
            found = self._instructions(program, group["name"].drop_nulls().to_list())
            for name, kernel in group.select("name", "kernel").iter_rows():
                vague = name not in found or found[name].opcode == "call"
                told.append((program, name, kernel, self._kernels_of(program).get(kernel, name) if vague else name))
        answers = pl.DataFrame(told, {**asked.schema, "op": pl.String()}, orient="row")
        return ran.join(answers, on=asked.columns, how="left", nulls_equal=True, maintain_order="left")["op"]

    def _kernels_of(self, program: int | None) -> dict[str, str]:
        """The instructions of a program by the names of kernels that are called after them."""
        place = self.programs.get(program) if program is not None else None
        if place is None:
            return {}
        if place.program not in self._kernels:
            every = self._located(place).names
            times = Counter(map(kernel_name, every))
            once = {kernel_name(name): name for name in every if times[kernel_name(name)] == 1}
            self._kernels[place.program] = once | {f"{kernel}.kd": name for kernel, name in once.items()}
        return self._kernels[place.program]

    def _instructions(self, program: int | None, names: Sequence[str]) -> dict[str, Instruction]:
        """The instructions with these names; a proto is read again only for names that were never asked for."""
        place = self.programs.get(program) if program is not None else None
        if place is None:
            return {}
        fresh = {name for name in names if (place.program, name) not in self._read}
        if fresh:
            module = self._located(place)
            found = instructions(module, fresh)
            self._read.update({(place.program, name): found.get(name) for name in fresh})
            self._costs.update({(place.program, name): cost for name, cost in costs(module, fresh).items()})
        known = {name: self._read[place.program, name] for name in names}
        return {name: one for name, one in known.items() if one is not None}

    def users(self) -> pl.DataFrame:
        """Who needs the results of the ops that were met by name, in the schema `USERS`."""
        asked: dict[int, set[str]] = {}
        for program, name in self._read:
            asked.setdefault(program, set()).add(name)
        found = list[tuple[int, str, str]]()
        for program, met in asked.items():
            needing = users(self._located(self.programs[program]))
            found += [(program, name, user) for name in sorted(met & needing.keys()) for user in sorted(needing[name])]
        return pl.DataFrame(found, {**USERS, "name": pl.String, "user": pl.String}, orient="row").cast(USERS)

    def _located(self, place: Program) -> Located:
        piece = self.file.piece((place.offset, place.offset + place.size))
        return located(piece, 0, piece.size)


def _modules(names: Sequence[str]) -> dict[int, str]:
    """The names of the programs that a plane executes, by their ids: its modules are called ``jit_f(77)``."""
    found = (_PROGRAM_NAME.match(name) for name in names if " = " not in name)
    return {signed(int(one[2]) & (1 << 64) - 1): one[1] for one in found if one}


def _of_instruction(
    program: int | None, module: str | None, name: str, found: Instruction | None, cost: Cost | None
) -> tuple[Kind, int | None, dict[str, Any]]:
    opcode = found.opcode if found else opcode_of_name(name)
    row = {
        "name": name, "category": found.category if found else None, "module": module, "program": program,
        "framework": found.framework or None if found else None, "source": found.source or None if found else None,
        "text": found.text if found else None, "flops": None, "bytes_accessed": None, **of_shapes(cost),
    }  # fmt: skip
    return op_kind(name, opcode, found.text if found else ""), found.bytes if found else None, row


def merged(portions: Sequence[Sequence[Met]]) -> tuple[Ops, list[Rows]]:
    """The ops of all portions, in the order of their origins, and for each portion the rows of its ops."""
    ops = Ops()
    rows = {
        met.origin: ops.add(met.kind, met.bytes, dict(met.row)).row
        for met in sorted((met for portion in portions for met in portion), key=lambda met: met.origin)
    }
    return ops, [np.array([rows[met.origin] for met in portion], np.int64) for portion in portions]


def _whole(value: Value | None) -> int | None:
    if isinstance(value, int):
        return signed(value & (1 << 64) - 1)
    return int(value) if isinstance(value, float) and abs(value) < 1 << 62 else None
