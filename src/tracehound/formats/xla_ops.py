"""The ops of an XLA profile: what is true of every execution of an HLO op.

Owns the rows of the `ops` frame and where they come from: the metadata of TPU events, and HLO protos for the ops that
CPUs and GPUs only name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tracehound.formats.hlo import Instruction, instructions
from tracehound.formats.wire import Bytes, Rows, signed
from tracehound.formats.xla_names import Kind, moved_bytes, op_kind, opcode_of_name
from tracehound.formats.xspace import Plane, Space
from tracehound.formats.xstats import BLOB, Value, decoded
from tracehound.trace import OPS

_PROGRAM_NAME = re.compile(r"(.*)\((\d+)\)$", re.DOTALL)
_MOVING = ("collective", "copy", "transfer")


@dataclass(frozen=True)
class Program:
    """A compiled module, and where its HloProto lies."""

    name: str
    program: int
    offset: int
    size: int


def programs(space: Space) -> dict[int, Program]:
    """The modules whose HLO the file holds, by program id (int64): the number in the name, else the entry's own id."""
    found: dict[int, Program] = {}
    for plane in space.planes:
        ids = [id_ for id_, name in plane.stat_names.items() if name == "Hlo Proto"]
        table = plane.metadata.stats.named(ids)
        for owner, kind, size, at in zip(
            table.owner.tolist(), table.field.tolist(), table.value.tolist(), table.at.tolist(), strict=True
        ):
            if kind == BLOB:
                name = plane.metadata.names[owner]
                named = _PROGRAM_NAME.match(name)
                program = signed(int(named[2]) & (1 << 64) - 1) if named else int(plane.metadata.ids[owner])
                found[program] = Program(named[1] if named else name, program, at, size)
    return found


@dataclass(frozen=True)
class Op:
    """One row of `ops` and what its events have from it."""

    row: int
    kind: Kind
    bytes: int | None


@dataclass
class Ops:
    """Collects ops, one row for each."""

    programs: Mapping[int, Program]
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

    def of_metadata(self, file: Bytes, plane: Plane, positions: Collection[int]) -> dict[int, Op]:
        """The ops that the events with these metadata execute; their stats say all of it (TPU)."""
        chosen = np.isin(plane.metadata.stats.owner, list(positions))
        stats: dict[int, dict[str, Value]] = {position: {} for position in positions}
        for owner, name, value in decoded(file, plane.metadata.stats.take(chosen), plane.stat_names):
            stats[owner][name] = value
        return {position: self._of_stats(plane, position, found) for position, found in stats.items()}

    def _of_stats(self, plane: Plane, position: int, stats: Mapping[str, Value]) -> Op:
        full, name = plane.metadata.names[position], plane.metadata.shown[position]
        text = full if " = " in full else ""
        category = str(stats.get("hlo_category", "")) or opcode_of_name(name)
        program = _whole(stats.get("program_id"))
        return self.add(
            op_kind(category, text),
            moved_bytes(text),
            {
                "name": name.removeprefix("%"),
                "category": category,
                "module": self._module(program, stats.get("hlo_module")),
                "program": program,
                "framework": str(stats.get("tf_op", "")).rpartition(":")[0] or str(stats.get("tf_op", "")) or None,
                "source": str(stats.get("source", "")) or None,
                "text": text or None,
                "flops": _whole(stats.get("model_flops", stats.get("flops"))),
                "bytes_accessed": _whole(stats.get("bytes_accessed")),
            },
        )

    def _module(self, program: int | None, named: Value | None) -> str | None:
        if named is not None:
            return str(named)
        return self.programs[program].name if program is not None and program in self.programs else None

    def of_names(self, file: Bytes, named: pl.DataFrame) -> pl.DataFrame:
        """`op`, `kind` and `bytes` of every row of `named` (`program`, `module`, `name`), looked up in HLO protos."""
        asked = named.select("program", "module", "name").unique(maintain_order=True)
        rows = []
        for (program,), group in asked.partition_by("program", as_dict=True, maintain_order=True).items():
            found = self._instructions(file, program, set(group["name"].to_list()))
            for module, name in group.select("module", "name").iter_rows():
                op = self._of_instruction(program, module, name, found.get(name))
                rows.append((program, module, name, op.row, op.kind, op.bytes))
        answers = pl.DataFrame(
            rows,
            schema={**asked.schema, "op": pl.Int64, "kind": pl.String, "bytes": pl.Int64},
            orient="row",
        )
        return named.select("program", "module", "name").join(
            answers, on=["program", "module", "name"], how="left", nulls_equal=True, maintain_order="left"
        ).select("op", "kind", "bytes")  # fmt: skip

    def _instructions(self, file: Bytes, program: int | None, names: Collection[str]) -> dict[str, Instruction]:
        place = self.programs.get(program) if program is not None else None
        return instructions(file, place.offset, place.offset + place.size, names) if place else {}

    def _of_instruction(self, program: int | None, module: str | None, name: str, found: Instruction | None) -> Op:
        opcode = found.opcode if found else opcode_of_name(name)
        row = {
            "name": name, "category": found.category if found else None, "module": module, "program": program,
            "framework": found.framework or None if found else None, "source": found.source or None if found else None,
            "text": found.text if found else None, "flops": None, "bytes_accessed": None,
        }  # fmt: skip
        return self.add(op_kind(opcode, found.text if found else ""), found.bytes if found else None, row)


def per_position(ops: Mapping[int, Op], count: int) -> tuple[Rows, Rows]:
    """Row of the op (-1: none) and bytes (-1: none) by position of the metadata; one more position for unknown ones."""
    row, moved = np.full(count + 1, -1, np.int64), np.full(count + 1, -1, np.int64)
    for position, op in ops.items():
        row[position] = op.row
        moved[position] = -1 if op.bytes is None else op.bytes
    return row, moved


def used(positions: Rows) -> list[int]:
    """The known positions among these, each once."""
    return [position for position in np.unique(positions).tolist() if position >= 0]


def _whole(value: Value | None) -> int | None:
    if isinstance(value, int):
        return signed(value & (1 << 64) - 1)
    return int(value) if isinstance(value, float) and abs(value) < 1 << 62 else None
