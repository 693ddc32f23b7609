"""One compiled module, read from its HLO proto when somebody looks at it.

Owns the field numbers of HloModuleProto and HloComputationProto that nothing but its pages shows, and who uses and
calls whom. All names are read at once; what else an instruction is, `instruction` reads for those that are looked at.
Knows no trace.

A row is the place of an instruction among all of the module, in the order of the proto. Protos come from strangers:
whatever an id says that nothing has is left out, and a proto that is cut short gives what lies before the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from tracehound.formats.hlo.fields import Message, message
from tracehound.formats.hlo.located import (
    CALLED,
    COMPUTATION,
    COMPUTATION_ID,
    FRAME_INDEX,
    ID,
    INSTRUCTION,
    MODULE,
    NAME,
    OPCODE,
    OPERANDS,
    ROOT_ID,
)
from tracehound.formats.hlo.table import Table
from tracehound.formats.wire import BYTES, Rows, bytes_of
from tracehound.hlo.frames import Frames, frames_of
from tracehound.hlo.instruction import Instruction

NAMED, ENTRY_NAME, ENTRY_ID, SCHEDULE = 1, 2, 6, 7
COMPUTATION_NAME, FUSED, THREAD = 1, 7, 8

Ids = tuple[int, ...]


class Computation(Struct, frozen=True):
    """One computation: the rows `[first, after)`; `root` is the row of its result, None where none has its id."""

    number: int
    name: str
    id: int
    first: int
    after: int
    root: int | None
    fused: bool
    thread: str

    @property
    def rows(self) -> range:
        """Its instructions, each after its operands."""
        return range(self.first, self.after)


class Module(Struct, frozen=True, eq=False, dict=True):
    """A module: its computations, and for every instruction name, opcode, operands (rows) and calls (computations)."""

    name: str
    head: Message
    computations: tuple[Computation, ...]
    entry: int | None
    names: Sequence[str]
    opcodes: Sequence[str]
    operands: Sequence[Ids]
    calls: Sequence[Ids]
    ids: Rows
    whole: bool
    _table: Table

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each name; of equal ones the first."""
        return {name: row for row, name in reversed(list(enumerate(self.names)))}

    @cached_property
    def users(self) -> dict[int, list[int]]:
        """The rows that have a row as an operand, each once."""
        found: dict[int, list[int]] = {}
        for row, operands in enumerate(self.operands):
            for operand in dict.fromkeys(operands):
                found.setdefault(operand, []).append(row)
        return found

    @cached_property
    def callers(self) -> dict[int, list[int]]:
        """The rows that call a computation."""
        found: dict[int, list[int]] = {}
        for row, called in enumerate(self.calls):
            for number in dict.fromkeys(called):
                found.setdefault(number, []).append(row)
        return found

    @cached_property
    def by_id(self) -> dict[int, int]:
        """The row of each id, which are unique in a module."""
        return {id_: row for row, id_ in reversed(list(enumerate(self.ids.tolist())))}

    def instruction(self, row: int) -> Instruction:
        """All that the proto says of one instruction."""
        return Instruction(row, self._table.message(row))

    def computation_of(self, row: int) -> Computation:
        """The computation in which an instruction lies."""
        at = int(np.searchsorted([one.after for one in self.computations], row, side="right"))
        return self.computations[at]

    @cached_property
    def _schedule(self) -> dict[int, list[int]]:
        """The ids of the instructions of computations (by id) in the order in which they run."""
        schedule = self.head.one(SCHEDULE)
        entries = schedule.all(1) if schedule else ()
        return {entry.number(1): order.numbers(1) for entry in entries if (order := entry.one(2))}

    def scheduled(self, one: Computation) -> Sequence[int]:
        """The rows of a computation in the order in which they run, where the proto says it of all of them."""
        order = [self.by_id.get(id_, -1) for id_ in self._schedule.get(one.id, ())]
        return order if sorted(order) == list(one.rows) else one.rows

    @cached_property
    def frames(self) -> Frames:
        """The table of source frames."""
        return frames_of(self.head.one(FRAME_INDEX))


def module_of(proto: bytes) -> Module | None:
    """The module in an HloProto; None where there is none."""
    file = bytes_of(proto)
    head = message(file, 0, file.size).one(MODULE)
    if head is None:
        return None
    spans, computations = _spans(head)
    rows = len(spans[0])
    table = Table(file, *spans, ID, (NAME, OPCODE), (OPERANDS, CALLED))
    numbers = {one.id: at for at, one in reversed(list(enumerate(computations)))}
    rooted = tuple(_rooted(one, table.ids) for one in computations)
    named = head.text(ENTRY_NAME)
    entry = numbers.get(head.number(ENTRY_ID), next((one.number for one in rooted if one.name == named), None))
    return Module(
        name=head.text(NAMED),
        head=head,
        computations=rooted,
        entry=entry,
        names=table.texts(NAME),
        opcodes=table.texts(OPCODE),
        operands=_operands(table, rooted),
        calls=[tuple(numbers[id_] for id_ in table.listed(CALLED, row) if id_ in numbers) for row in range(rows)],
        ids=table.ids,
        whole=head.whole and head.end <= file.size and table.sound,
        _table=table,
    )


def _spans(head: Message) -> tuple[tuple[Rows, Rows], list[Computation]]:
    """Where the instructions of all computations lie, and the computations; a root is still an id."""
    start, end, computations = list[int](), list[int](), list[Computation]()
    for number, one in enumerate(head.all(COMPUTATION)):
        first = len(start)
        for part in one.parts.get(INSTRUCTION, ()):
            if part.wire == BYTES:
                start.append(part.at)
                end.append(part.at + part.value)
        name, id_, root = one.text(COMPUTATION_NAME), one.number(COMPUTATION_ID), one.number(ROOT_ID, -1)
        computations.append(
            Computation(number, name, id_, first, len(start), root, bool(one.number(FUSED)), one.text(THREAD))
        )
    return (np.array(start, np.int64), np.array(end, np.int64)), computations


def _rooted(one: Computation, ids: Rows) -> Computation:
    """The computation with the row of its root."""
    found = np.flatnonzero(ids[one.first : one.after] == one.root)
    root = one.first + int(found[0]) if len(found) else None
    return Computation(one.number, one.name, one.id, one.first, one.after, root, one.fused, one.thread)


def _operands(table: Table, computations: Sequence[Computation]) -> list[Ids]:
    """The rows of the operands of every instruction, which lie in its own computation."""
    found: list[Ids] = []
    ids = table.ids.tolist()
    for one in computations:
        here = {ids[row]: row for row in reversed(one.rows)}
        found.extend(tuple(here[id_] for id_ in table.listed(OPERANDS, row) if id_ in here) for row in one.rows)
    return found
