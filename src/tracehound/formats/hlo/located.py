"""Where the instructions of an HLO module lie in its proto, and what is read of all of them at once.

Owns the field numbers of HloProto that more than one reader needs, and which instruction is meant where several have
one id or one name: the first. Knows nothing of what instructions mean.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from msgspec import Struct

from tracehound.formats.hlo.table import Table
from tracehound.formats.wire import BYTES, VARINT, Bytes, Field, Spans, WireError, field_at, fields, repeated

MODULE, COMPUTATION, ASSIGNED, FRAME_INDEX = 1, 3, 15, 17
INSTRUCTION, COMPUTATION_ID, ROOT_ID = 2, 5, 6
NAME, OPCODE, SHAPE, METADATA, FUSION_KIND, TARGET, ID, OPERANDS, CALLED = 1, 2, 3, 7, 11, 28, 35, 36, 38
WINDOW, CONVOLUTION, DOT, FEATURE_GROUPS, BATCH_GROUPS = 15, 16, 30, 50, 58
SIZED = (NAME, OPCODE, SHAPE, METADATA, FUSION_KIND, TARGET)


class Located(Struct, frozen=True, dict=True):
    """The instructions of a module: a row is the place of one among all, in the order of the proto.

    `bodies` has the rows of each computation by its id, `roots` the id of the instruction that makes its result;
    `frames` is the table of source frames.
    """

    file: Bytes
    table: Table
    bodies: Mapping[int, range]
    roots: Mapping[int, int]
    frames: Field | None

    @cached_property
    def rows(self) -> dict[int, int]:
        """The row of each id."""
        return {id_: row for row, id_ in reversed(list(enumerate(self.table.ids.tolist())))}

    @cached_property
    def names(self) -> list[str]:
        """The name of every instruction."""
        return self.table.texts(NAME)

    def named(self, wanted: Collection[str]) -> dict[str, int]:
        """The rows of the instructions with these names, in their order."""
        found = dict[str, int]()
        for row, name in enumerate(self.names):
            if name in wanted:
                found.setdefault(name, row)
        return found

    def root(self, computation: int) -> int | None:
        """The row of what makes the result of a computation; None where nothing has its id."""
        return self.rows.get(self.roots.get(computation, -1))


def located(file: Bytes, start: int, end: int) -> Located:
    """The instructions of the HloProto `[start, end)`; none where it is damaged."""
    spans, bodies, roots, frames = Spans(INSTRUCTION), dict[int, range](), dict[int, int](), None
    try:
        for part in _parts(file, start, end):
            if part.number == FRAME_INDEX:
                frames = part
            elif part.number == COMPUTATION:
                first = len(spans.start)
                number, root = _collect(file, part, spans)
                bodies.setdefault(number, range(first, len(spans.start)))
                roots.setdefault(number, root)
    except WireError:
        spans, bodies, roots, frames = Spans(INSTRUCTION), {}, {}, None
    return Located(file, Table(file, *spans.arrays()[1:], ID, SIZED, (OPERANDS,)), bodies, roots, frames)


def _parts(file: Bytes, start: int, end: int) -> Iterator[Field]:
    """The messages in the modules of an HloProto. Raises WireError."""
    for proto in fields(file.data, start, end):
        if (proto.number, proto.wire) == (MODULE, BYTES):
            inner = fields(file.data, proto.at, proto.at + proto.value)
            yield from (part for part in inner if part.wire == BYTES)


def _collect(file: Bytes, computation: Field, spans: Spans) -> tuple[int, int]:
    """Add where the instructions of a computation lie; its id, and that of its root. Raises WireError."""
    at, end = computation.at, computation.at + computation.value
    told = {COMPUTATION_ID: -1, ROOT_ID: -1}
    while at < end:
        at = repeated(file.data, at, end, spans)
        if at < end:
            part, at = field_at(file.data, at, end)
            if part.wire == VARINT and part.number in told:
                told[part.number] = part.value
    return told[COMPUTATION_ID], told[ROOT_ID]
