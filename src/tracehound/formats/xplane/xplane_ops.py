"""Ops that the events of an XSpace execute, and the HLO programs that it holds.

TPU events have all of an op in their metadata; for CPUs and GPUs, which only name ops, it is read from HLO protos.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracehound.formats.hlo import replica_groups
from tracehound.formats.hlo.cost_model import InstructionCost, estimate_costs
from tracehound.formats.hlo.hlo_instructions import (
    DEVICE_ASSIGNMENT,
    MODULE,
    InstructionIndex,
    InstructionSummary,
    index_instructions,
    summarize_instructions,
    users_by_name,
)
from tracehound.formats.hlo.proto_message import read_message
from tracehound.formats.protobuf_wire import BYTES, InflatedFile, Offsets, WireError, as_signed, iterate_fields
from tracehound.formats.xla.op_executions import bytes_by_memory, cost_from_hlo_proto, cost_from_hlo_text
from tracehound.formats.xla.op_kinds import bytes_moved_by_op, op_kind
from tracehound.formats.xla.profile_builder import _MOVING_KINDS, OpTable
from tracehound.formats.xla.xla_names import EventKind, core_type_of_plane, kernel_name_of_op, opcode_of_name
from tracehound.formats.xplane.derived_lanes import OP_USERS_SCHEMA
from tracehound.formats.xplane.plane_metadata import (
    BLOB,
    METADATA_NAME,
    METADATA_STAT,
    STAT_ID,
    EventMetadata,
    StatValue,
    iterate_stat_values,
)
from tracehound.formats.xplane.xspace import XPlane, XSpace

_PROGRAM_NAME = re.compile(r"(.*)\((\d+)\)$", re.DOTALL)
HLO_PROTO = "Hlo Proto"


class LocatedProgram(Struct, frozen=True):
    """A compiled module, and the location of its HloProto."""

    name: str
    program: int
    offset: int
    size: int


def locate_programs(file: InflatedFile, space: XSpace) -> dict[int, LocatedProgram]:
    """Modules whose HLO is in the file, by program id (int64): the number in the name, else the id of the entry.

    They are located, not read.
    """
    programs: dict[int, LocatedProgram] = {}
    for plane in space.planes:
        stats = {id_ for id_, name in plane.stat_names.items() if name == HLO_PROTO}
        if not stats:
            continue
        table = plane.metadata
        for id_, start, end in zip(table.ids.tolist(), table.start.tolist(), table.end.tolist(), strict=True):
            name, protos = _locate_protos(file, start, end, stats)
            for offset, size in protos:
                match = _PROGRAM_NAME.match(name)
                program = as_signed(int(match[2]) & (1 << 64) - 1) if match else id_
                programs[program] = LocatedProgram(match[1] if match else name, program, offset, size)
    return programs


def ids_of_unique_programs(programs: Collection[LocatedProgram]) -> dict[str, int]:
    """Ids of the programs with a unique name."""
    name_counts = Counter(program.name for program in programs)
    return {program.name: program.program for program in programs if name_counts[program.name] == 1}


def replica_and_partition_counts(file: InflatedFile, program: LocatedProgram) -> tuple[int, int]:
    """Number of replicas and of partitions, over all hosts, with which the program runs; (0, 0) if not recorded.

    Raises WireError if the proto is damaged.
    """
    at, size = program.offset, program.size
    for number in (MODULE, DEVICE_ASSIGNMENT):  # the rest of the proto, which may be long, is skipped
        matching = [
            one for one in iterate_fields(file.data, at, at + size) if (one.number, one.wire) == (number, BYTES)
        ]
        if not matching:
            return 0, 0
        at, size = matching[-1].at, matching[-1].value
    replicas = replica_groups.read_device_assignment(read_message(file.read_intervals((at, at + size)), 0, size))
    return (len(replicas), len(replicas[0])) if replicas else (0, 0)


def _locate_protos(
    file: InflatedFile, start: int, end: int, stats: Collection[int]
) -> tuple[str, list[tuple[int, int]]]:
    """Name of a metadata entry, and the offset and size of the protos among its stats."""
    name, protos = "", []
    try:
        for field_ in iterate_fields(file.data, start, end):
            if (field_.number, field_.wire) == (METADATA_NAME, BYTES):
                name = file.text(field_.at, field_.at + field_.value)
            elif (field_.number, field_.wire) == (METADATA_STAT, BYTES):
                stat_fields = {
                    one.number: one for one in iterate_fields(file.data, field_.at, field_.at + field_.value)
                }
                if BLOB in stat_fields and STAT_ID in stat_fields and as_signed(stat_fields[STAT_ID].value) in stats:
                    protos.append((stat_fields[BLOB].at, stat_fields[BLOB].value))
    except WireError:
        return name, protos
    return name, protos


class ProgramIndexes(Struct):
    """The instructions of the programs of a file; those of small programs are kept, to be used several times."""

    file: InflatedFile
    _kept: dict[int, InstructionIndex] = field(default_factory=dict)
    _kept_bytes: int = 0

    def index(self, program: LocatedProgram) -> InstructionIndex:
        """The instructions of a program."""
        if (kept := self._kept.get(program.offset)) is not None:
            return kept
        data = self.file.read_intervals((program.offset, program.offset + program.size))
        index = index_instructions(data, 0, data.size)
        if self._kept_bytes + program.size <= _MAX_KEPT_BYTES:
            self._kept[program.offset] = index
            self._kept_bytes += program.size
        return index


_MAX_KEPT_BYTES = 4 << 20
"""The bytes of protos whose instructions are kept."""


class OpOrigin(NamedTuple):
    """Origin of an op in the file: ops of one origin are equal, and origins have an order.

    `by_name` is 0 for ops described by event metadata (at `position`), 1 for those that events only name (in
    `program`).
    """

    plane: int
    by_name: int
    position: int = 0
    program: int = 0
    module: str = ""
    name: str = ""


class ExecutedOp(Struct, frozen=True):
    """An op that events of a shard execute."""

    origin: OpOrigin
    kind: EventKind
    bytes: int | None
    row: Mapping[str, Any]


class OpCollector(Struct):
    """Ops that the events of one shard execute, numbered in the order in which they appear."""

    file: InflatedFile
    programs: Mapping[int, LocatedProgram]
    indexes: ProgramIndexes
    executed: list[ExecutedOp] = field(default_factory=list)
    _op_numbers: dict[OpOrigin, int] = field(default_factory=dict)
    _known_instructions: dict[tuple[int, str], InstructionSummary | None] = field(default_factory=dict)
    _known_costs: dict[tuple[int, str], InstructionCost] = field(default_factory=dict)
    _known_modules: dict[int, dict[int, str]] = field(default_factory=dict)
    _known_kernels: dict[int, dict[str, str]] = field(default_factory=dict)

    def op_of_metadata(self, number: int, plane: XPlane, metadata: EventMetadata, position: int) -> int:
        """Number of the op of events with this metadata, whose stats describe it completely (TPU)."""
        origin = OpOrigin(number, 0, position)
        if origin not in self._op_numbers:
            values = iterate_stat_values(self.file, metadata.stats_of(position), plane.stat_names)
            if number not in self._known_modules:
                self._known_modules[number] = _module_names(metadata.names)
            stats = {name: value for _, name, value in values}
            on_sparse_core = core_type_of_plane(plane.name) != ""
            self._add_op(
                origin,
                *self._op_from_stats(
                    metadata, position, stats, self._known_modules[number], on_sparse_core=on_sparse_core
                ),
            )
        return self._op_numbers[origin]

    def _add_op(self, origin: OpOrigin, kind: EventKind, moved: int | None, row: Mapping[str, Any]) -> int:
        if origin not in self._op_numbers:
            self._op_numbers[origin] = len(self.executed)
            self.executed.append(ExecutedOp(origin, kind, moved if kind in _MOVING_KINDS else None, row))
        return self._op_numbers[origin]

    def _op_from_stats(
        self,
        metadata: EventMetadata,
        position: int,
        stats: Mapping[str, StatValue],
        modules: Mapping[int, str],
        *,
        on_sparse_core: bool,
    ) -> tuple[EventKind, int | None, dict[str, Any]]:
        full_name, name = metadata.names[position], metadata.display_names[position] or metadata.names[position]
        text = full_name if " = " in full_name else ""
        category = str(stats.get("hlo_category", "")) or opcode_of_name(name)
        program = _int64_value(stats.get("program_id"))
        return (
            op_kind(name, category, text, on_sparse_core=on_sparse_core),
            bytes_moved_by_op(name, category, text),
            {
                "name": name.removeprefix("%"),
                "category": category,
                "module": self._module_name(program, stats.get("hlo_module"), modules),
                "program": program,
                "framework": str(stats.get("tf_op", "")).rpartition(":")[0] or str(stats.get("tf_op", "")) or None,
                "source": str(stats.get("source", "")) or None,
                "text": text or None,
                "flops": _int64_value(stats.get("model_flops", stats.get("flops"))),
                "bytes_accessed": _int64_value(stats.get("bytes_accessed")),
                "normalized_flops": _int64_value(stats.get("flops")),
                "twin": str(stats.get("deduplicated_name", "")).removeprefix("%") or None,
                **bytes_by_memory(stats.get("memory_access_breakdown")),
                **cost_from_hlo_text(name, text),
            },
        )

    def _module_name(self, program: int | None, recorded: StatValue | None, modules: Mapping[int, str]) -> str | None:
        """Module name of a program: from the op, else from its HLO, else from the plane's modules."""
        if recorded is not None:
            return str(recorded)
        if program is None:
            return None
        return self.programs[program].name if program in self.programs else modules.get(program)

    def ops_of_names(self, number: int, rows: pl.DataFrame) -> pl.DataFrame:
        """`op`, `kind` and `bytes` of every row (`program`, `module`, `name`), looked up in HLO protos."""
        combinations = rows.select("program", "module", "name").unique(maintain_order=True)
        answer_rows = []
        for (program,), group in combinations.partition_by("program", as_dict=True, maintain_order=True).items():
            found = self._read_instructions(program, group["name"].to_list())
            for module, name in group.select("module", "name").iter_rows():
                origin = OpOrigin(number, 1, 0, -1 if program is None else program, module or "", name)
                cost = self._known_costs.get((-1 if program is None else program, name))
                op = self._add_op(origin, *_op_from_instruction(program, module, name, found.get(name), cost))
                answer_rows.append((program, module, name, op, self.executed[op].kind, self.executed[op].bytes))
        answers = pl.DataFrame(
            answer_rows,
            schema={**combinations.schema, "op": pl.Int64, "kind": pl.String, "bytes": pl.Int64},
            orient="row",
        )
        return rows.select("program", "module", "name").join(
            answers, on=["program", "module", "name"], how="left", nulls_equal=True, maintain_order="left"
        ).select("op", "kind", "bytes")  # fmt: skip

    def ops_of_kernels(self, kernels: pl.DataFrame) -> pl.Series:
        """Name of the op of every row (`program`, `name`, `kernel`): the recorded name, unless it says little.

        A missing name says little, and so does that of an op that only calls others (a command buffer) or is not in its
        program. Then the op after which the kernel is named is taken, if the program's HLO has it.
        """
        combinations, answer_rows = (
            kernels.unique(maintain_order=True),
            list[tuple[int | None, str | None, str, str | None]](),
        )
        for (program,), group in combinations.partition_by("program", as_dict=True, maintain_order=True).items():
            found = self._read_instructions(program, group["name"].drop_nulls().to_list())
            for name, kernel in group.select("name", "kernel").iter_rows():
                says_little = name not in found or found[name].opcode == "call"
                answer_rows.append(
                    (program, name, kernel, self._ops_by_kernel(program).get(kernel, name) if says_little else name)
                )
        answers = pl.DataFrame(answer_rows, {**combinations.schema, "op": pl.String()}, orient="row")
        return kernels.join(answers, on=combinations.columns, how="left", nulls_equal=True, maintain_order="left")["op"]

    def _ops_by_kernel(self, program: int | None) -> dict[str, str]:
        """Instructions of a program by the kernel name that is made of theirs."""
        location = self.programs.get(program) if program is not None else None
        if location is None:
            return {}
        if location.program not in self._known_kernels:
            all_names = self.indexes.index(location).names
            kernel_counts = Counter(map(kernel_name_of_op, all_names))
            op_of_kernel = {
                kernel_name_of_op(name): name for name in all_names if kernel_counts[kernel_name_of_op(name)] == 1
            }
            self._known_kernels[location.program] = op_of_kernel | {
                f"{kernel}.kd": name for kernel, name in op_of_kernel.items()
            }
        return self._known_kernels[location.program]

    def _read_instructions(self, program: int | None, names: Sequence[str]) -> dict[str, InstructionSummary]:
        """Instructions with these names; a proto is read again only for new names."""
        location = self.programs.get(program) if program is not None else None
        if location is None:
            return {}
        new_names = {name for name in names if (location.program, name) not in self._known_instructions}
        if new_names:
            module = self.indexes.index(location)
            read = summarize_instructions(module, new_names)
            self._known_instructions.update({(location.program, name): read.get(name) for name in new_names})
            self._known_costs.update(
                {(location.program, name): cost for name, cost in estimate_costs(module, new_names).items()}
            )
        requested = {name: self._known_instructions[location.program, name] for name in names}
        return {name: one for name, one in requested.items() if one is not None}

    def op_users(self) -> pl.DataFrame:
        """Ops that were looked up by name, and the ops that need their results, in the schema `OP_USERS_SCHEMA`."""
        names_of_program: dict[int, set[str]] = {}
        for program, name in self._known_instructions:
            names_of_program.setdefault(program, set()).add(name)
        pairs = list[tuple[int, str, str]]()
        for program, names in names_of_program.items():
            users_of_name = users_by_name(self.indexes.index(self.programs[program]))
            pairs += [
                (program, name, user)
                for name in sorted(names & users_of_name.keys())
                for user in sorted(users_of_name[name])
            ]
        return pl.DataFrame(pairs, {**OP_USERS_SCHEMA, "name": pl.String, "user": pl.String}, orient="row").cast(
            OP_USERS_SCHEMA
        )


def _module_names(names: Sequence[str]) -> dict[int, str]:
    """Names of the programs that a plane executes, by id: its modules are called ``jit_f(77)``."""
    found = (_PROGRAM_NAME.match(name) for name in names if " = " not in name)
    return {as_signed(int(one[2]) & (1 << 64) - 1): one[1] for one in found if one}


def _op_from_instruction(
    program: int | None, module: str | None, name: str, found: InstructionSummary | None, cost: InstructionCost | None
) -> tuple[EventKind, int | None, dict[str, Any]]:
    opcode = found.opcode if found else opcode_of_name(name)
    row = {
        "name": name, "category": found.category if found else None, "module": module, "program": program,
        "framework": found.framework or None if found else None, "source": found.source or None if found else None,
        "text": found.text if found else None, "flops": None, "bytes_accessed": None, **cost_from_hlo_proto(cost),
    }  # fmt: skip
    return op_kind(name, opcode, found.text if found else ""), found.bytes if found else None, row


def merge_ops(shards: Sequence[Sequence[ExecutedOp]]) -> tuple[OpTable, list[Offsets]]:
    """Ops of all shards, in the order of their origins, and for each shard the rows of its ops."""
    ops = OpTable()
    rows = {
        executed.origin: ops.add(executed.kind, executed.bytes, dict(executed.row)).row
        for executed in sorted(
            (executed for shard in shards for executed in shard), key=lambda executed: executed.origin
        )
    }
    return ops, [np.array([rows[executed.origin] for executed in shard], np.int64) for shard in shards]


def _int64_value(value: StatValue | None) -> int | None:
    if isinstance(value, int):
        return as_signed(value & (1 << 64) - 1)
    return int(value) if isinstance(value, float) and abs(value) < 1 << 62 else None
