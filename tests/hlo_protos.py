"""Instructions of HLO protos for tests, written from plain values."""

from __future__ import annotations

from xspaces import block, varint, whole


def array(element: int, *dims: int, order: tuple[int, ...] = (), memory: int = 0) -> bytes:
    layout = block(1, b"".join(varint(one) for one in order)) + (whole(8, memory) if memory else b"")
    sizes = block(3, b"".join(varint(one) for one in dims)) if dims else b""
    return whole(2, element) + sizes + block(5, layout)


def instruction(id_: int, name: str, opcode: str, shape: bytes, *more: bytes, operands: tuple[int, ...] = ()) -> bytes:
    packed = block(36, b"".join(varint(one) for one in operands)) if operands else b""
    return block(1, name) + block(2, opcode) + block(3, shape) + b"".join(more) + whole(35, id_) + packed
