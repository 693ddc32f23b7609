"""HLO protos, built by hand: bytes as XLA writes them."""

from __future__ import annotations

from tracehound.hlo.hlo_module import HloModule, read_module
from xspaces import block, varint, whole

F32, S32, BF16, TUPLE = 11, 4, 16, 13


def numbers(field: int, *values: int) -> bytes:
    """Packed varints; nothing where there are none."""
    return block(field, b"".join(varint(value) for value in values)) if values else b""


def array(element: int, *dims: int, order: tuple[int, ...] | None = None, memory: int = 0, tiles: bytes = b"") -> bytes:
    """A ShapeProto of an array, laid out row by row unless `order` says otherwise."""
    laid = tuple(reversed(range(len(dims)))) if order is None else order
    layout = numbers(1, *laid) + tiles + (whole(8, memory) if memory else b"")
    return whole(2, element) + numbers(3, *dims) + block(5, layout)


def tupled(*parts: bytes) -> bytes:
    """A ShapeProto of a tuple."""
    return whole(2, TUPLE) + b"".join(block(4, part) for part in parts)


def instruction(
    id_: int,
    name: str,
    opcode: str,
    shape: bytes,
    *more: bytes,
    operands: tuple[int, ...] = (),
    calls: tuple[int, ...] = (),
) -> bytes:
    """An HloInstructionProto."""
    head = block(1, name) + block(2, opcode) + block(3, shape)
    return head + b"".join(more) + whole(35, id_) + numbers(36, *operands) + numbers(38, *calls)


def computation(id_: int, name: str, root: int, *made: bytes, fused: bool = False) -> bytes:
    """An HloComputationProto."""
    body = b"".join(block(2, one) for one in made)
    return block(1, name) + body + whole(5, id_) + whole(6, root) + (whole(7, 1) if fused else b"")


def proto(*computations: bytes, entry: int = 1, more: bytes = b"", beside: bytes = b"") -> bytes:
    """An HloProto; `more` are fields of the module, `beside` of the proto."""
    body = b"".join(block(3, one) for one in computations)
    return block(1, block(1, "jit_f") + body + whole(6, entry) + more) + beside


def module(*computations: bytes, entry: int = 1, more: bytes = b"") -> HloModule:
    """The module of such a proto."""
    made = read_module(proto(*computations, entry=entry, more=more))
    assert made is not None
    return made


def devices(*ids: int, replicas: int = 1) -> bytes:
    """The device assignment of replicas with so many partitions, a field of the module; the first has these ids."""
    parts = (block(3, numbers(1, *(one + len(ids) * replica for replica in range(replicas)))) for one in ids)
    return block(15, whole(1, replicas) + whole(2, len(ids)) + b"".join(parts))


def summing(id_: int = 9) -> bytes:
    """The computation that adds two numbers."""
    return computation(
        id_, "add", id_ * 100 + 2,
        instruction(id_ * 100, "a", "parameter", array(F32), whole(9, 0)),
        instruction(id_ * 100 + 1, "b", "parameter", array(F32), whole(9, 1)),
        instruction(id_ * 100 + 2, "sum", "add", array(F32), operands=(id_ * 100, id_ * 100 + 1)),
    )  # fmt: skip


def group_list(*groups: tuple[int, ...]) -> bytes:
    """Replica groups as a CollectiveDeviceList."""
    return block(87, b"".join(block(1, numbers(1, *group)) for group in groups))
