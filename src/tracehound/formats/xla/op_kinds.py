"""Kinds of HLO ops and the copies that they make, by category, HLO line and name.

Defines collectives, copies and transfers for all formats and analyses.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tracehound.formats.hlo.hlo_line_parser import (
    COLLECTIVE_OPCODES,
    moved_bytes,
    shape_bytes,
    split_shape,
    tuple_elements,
)
from tracehound.formats.value_bounds import MAX_BYTES
from tracehound.formats.xla.xla_names import EventKind, opcode_of_name

HOST_MEMORY_NAME: Final = "host"
DEVICE_MEMORY_NAME: Final = "HBM"
"""Memory of a buffer whose layout names no space."""

_MEMORY_NAMES: Final = {"1": "VMEM", "2": "sync flags", "5": HOST_MEMORY_NAME, "6": "SMEM"}
_LAYOUT_SPACE: Final = re.compile(r"S\((\d{1,9})\)")
_UPDATE_SLICE: Final = "dynamic-update-slice"
_FEED_DIRECTIONS: Final = {
    "infeed": (HOST_MEMORY_NAME, DEVICE_MEMORY_NAME),
    "outfeed": (DEVICE_MEMORY_NAME, HOST_MEMORY_NAME),
    "send": (DEVICE_MEMORY_NAME, HOST_MEMORY_NAME),
    "recv": (HOST_MEMORY_NAME, DEVICE_MEMORY_NAME),
}
_SLICE_OR_COPY: Final = re.compile(r"slice|copy")
_HOST_TRANSFER_ATTRIBUTE: Final = "is_host_transfer=true"
_MEGASCALE_RUNTIME: Final = "xla_megascale_runtime"
_MEGASCALE_TRANSFER_TYPE: Final = re.compile(r"_xla_megascale_transfer_type\W{1,9}(\w+)")


class MemoryCopy(NamedTuple):
    """Source and target memory of a copy, and its bytes (None: not in its line)."""

    source: str
    target: str
    bytes: int | None

    @property
    def with_host(self) -> bool:
        """True if the source or the target is host memory."""
        return HOST_MEMORY_NAME in (self.source, self.target)


def is_async_done(category: str, text: str) -> bool:
    """True if an op waits for the end of an asynchronous one, by the opcode of its line, else by its category."""
    return (opcode_of_line(text) or category).strip().lower().endswith("-done")


def opcode_of_line(text: str) -> str:
    """Opcode of an HLO line: ``copy-start`` of ``%a = (f32[2], f32[2]) copy-start(f32[2] %b)``; "" for another text."""
    _, equals, rest = text.partition(" = ")
    return split_shape(rest)[1].partition("(")[0].strip() if equals else ""


def operands_of_line(text: str) -> list[str]:
    """Operands of an HLO line, with their shapes where it has them."""
    _, _, rest = text.partition(" = ")
    _, opening, inside = split_shape(rest)[1].partition("(")
    if not opening:
        return []
    depth = 1
    for at, char in enumerate(inside):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            return [one.strip() for one in tuple_elements(inside[:at])]
    return []


_OPERAND_NAME: Final = re.compile(r"%([^\s,()%]+)\s*$")


def start_op_name(name: str, text: str) -> str:
    """Name of the op that a ``-done`` op waits for: its last operand, else its own name with ``-start``."""
    operands = operands_of_line(text)
    operand = _OPERAND_NAME.search(operands[-1]) if operands else None
    return operand[1] if operand else name.replace("-done", "-start", 1)


def parse_copy(name: str, category: str, text: str) -> MemoryCopy | None:
    """Copy that an HLO op makes: between memories, by a feed, or as the start of an asynchronous copy; else None.

    The copy that a ``-done`` op waits for is that of its ``-start``, or of `parse_awaited_copy`. Asynchronous
    collectives are no copies.
    """
    opcode = opcode_of_line(text) or category
    base_opcode = re.sub(r"-done$", "", opcode.removeprefix("host ")).strip()
    shape = split_shape(text.partition(" = ")[2])[0]
    if base_opcode in ("infeed", "outfeed") or (
        base_opcode in ("send", "recv") and is_host_transfer(category or opcode, text)
    ):
        sent_shapes = operands_of_line(text)[:1] if base_opcode in ("outfeed", "send") else _tuple_parts(shape)[:1]
        return MemoryCopy(*_FEED_DIRECTIONS[base_opcode], _size_of_shape("".join(sent_shapes)) or None)
    if opcode in ("copy-start", "async-start"):
        return _parse_async_copy(name, opcode, _tuple_parts(shape), operands_of_line(text))
    if opcode == "copy" and (operands := operands_of_line(text)):
        source, target = memory_of_shape(operands[0]), memory_of_shape(shape)
        return MemoryCopy(source, target, _size_of_shape(shape)) if source != target else None
    return None


def parse_awaited_copy(name: str, category: str, text: str) -> MemoryCopy | None:
    """Asynchronous copy that an op waits for, if the op's line has the operand's shape; else None.

    Without that shape, a slice or copy can only be recognized by its name, without its memories.
    """
    opcode, operands = opcode_of_line(text) or category, operands_of_line(text)
    if opcode not in ("copy-done", "async-done") or not operands:
        return None
    start_opcode = opcode.replace("-done", "-start")
    return _parse_async_copy(start_op_name(name, text), start_opcode, _tuple_parts(split_shape(operands[-1])[0]), [])


def is_slice_or_copy(name: str) -> bool:
    """True if an asynchronous op of this name or opcode copies a buffer or a part of it."""
    return _SLICE_OR_COPY.search(name) is not None


def _tuple_parts(shape: str) -> list[str]:
    """Elements of a tuple's shape; of another shape the shape itself."""
    return [part.strip() for part in tuple_elements(shape[1:-1])] if shape.startswith("(") else [shape]


def is_host_transfer(category: str, text: str) -> bool:
    """True if a send or receive is to or from the host, not between devices.

    Transfers between slices of multi-slice jobs count as between devices: the runtime passes them through host memory,
    over DCN.
    """
    to_host = _HOST_TRANSFER_ATTRIBUTE in text or category.strip().lower().startswith("host ")
    return to_host and _MEGASCALE_RUNTIME not in text


def megascale_transfer_type(text: str) -> str:
    """Operation of a send or receive between slices: ``all_reduce``, ``one_to_one``; "" if not in its line."""
    match = _MEGASCALE_TRANSFER_TYPE.search(text)
    return match[1].lower() if match else ""


def _parse_async_copy(name: str, opcode: str, parts: list[str], operands: list[str]) -> MemoryCopy | None:
    """Copy of an asynchronous op.

    ``copy-start`` gives (target, source, context), ``async-start`` ((operands), target, context).
    """
    if len(parts) < 2:
        return None
    if opcode == "copy-start":
        return MemoryCopy(memory_of_shape(parts[1]), memory_of_shape(parts[0]), _size_of_shape(parts[0]))
    sources = operands or _tuple_parts(parts[0])
    is_update = _UPDATE_SLICE in name and len(sources) > 1
    moved_shape = sources[1] if is_update else parts[1]
    copy = MemoryCopy(
        memory_of_shape(moved_shape if is_update else sources[0]),
        memory_of_shape(parts[1]),
        _size_of_shape(moved_shape),
    )
    between_memories = copy.source != copy.target and not name.startswith(COLLECTIVE_OPCODES)
    return copy if is_slice_or_copy(name) or between_memories else None


def _size_of_shape(shape: str) -> int | None:
    """Bytes of a shape; None if impossible."""
    bytes_ = shape_bytes(shape)
    return bytes_ if bytes_ <= MAX_BYTES else None


def memory_of_shape(shape: str) -> str:
    """Memory in a shape's layout: ``f32[2]{0:T(128)S(5)}`` lies in host memory."""
    match = _LAYOUT_SPACE.search(shape)
    return DEVICE_MEMORY_NAME if match is None or match[1] == "0" else _MEMORY_NAMES.get(match[1], f"space {match[1]}")


HOST_MEMORY_LAYOUT: Final = "S(5)"
"""Marks a layout in host memory."""

_POINT_TO_POINT_OPS: Final = ("send", "recv")
_HOST_TRANSFER_OPS: Final = ("infeed", "outfeed", "host send", "host recv", "host-transfer", "host transfer")
_COPY_OPS: Final = ("copy", "copy-start", "copy-done")
_ASYNC_SUFFIX: Final = re.compile(r"-(start|done|update)$")
_GENERIC_ASYNC_OPS: Final = ("async-start", "async-update", "async-done")


def performed_opcode(name: str, category: str, text: str = "") -> str:
    """Opcode of an op without its phase; `text` is its HLO line, if known.

    ``reduce-scatter`` for ``reduce-scatter-done(...)``. A generic ``async-start`` or ``async-done`` is resolved by the
    name of the op that starts it.
    """
    opcode = opcode_of_line(text) or category.strip().lower()
    if opcode in _GENERIC_ASYNC_OPS:
        opcode = opcode_of_name(name if opcode == "async-start" else start_op_name(name, text))
    return _ASYNC_SUFFIX.sub("", opcode)


_OFFLOADED_COLLECTIVE: Final = re.compile(
    r"all[-_]?gather|all[-_]?reduce|reduce[-_]?scatter|all[-_]?(?:to|2)[-_]?all|collective[-_]?(?:permute|broadcast)"
    r"|psum|ppermute",
    re.IGNORECASE,
)


def op_kind(name: str, category: str, text: str = "", *, on_sparse_core: bool = False) -> EventKind:
    """Kind of an HLO op of this name with this category or opcode; `text` is its HLO line, if known.

    A collective that is offloaded to a SparseCore may be a custom call there, of which only the name tells.

    Collective = data goes to other devices, over ICI or DCN, including sends and receives, of which those between
    slices pass through their hosts. Transfer = a feed, a send to or receive from the host, or a copy with host memory
    on one side. Copy = from one memory of the device to another, or asynchronous (as a whole or of a slice), or an op
    with the opcode ``copy``. An op of the category data formatting, which changes the layout within one memory,
    computes. Both halves of an asynchronous op have one kind.
    """
    base_category, opcode = _ASYNC_SUFFIX.sub("", category.strip().lower()), performed_opcode(name, category, text)
    if base_category.startswith(COLLECTIVE_OPCODES) or opcode.startswith(COLLECTIVE_OPCODES):
        return "collective"
    if opcode in _POINT_TO_POINT_OPS:
        return "transfer" if is_host_transfer(category, text) else "collective"
    if base_category in _HOST_TRANSFER_OPS:
        return "transfer"
    copy = _copy_done_or_awaited(name, category, text)
    if copy is not None:
        return "transfer" if copy.with_host else "copy"
    is_generic = (opcode_of_line(text) or category) in _GENERIC_ASYNC_OPS
    if base_category in _COPY_OPS or (is_generic and is_slice_or_copy(opcode)):
        return "transfer" if HOST_MEMORY_LAYOUT in text else "copy"
    return "collective" if on_sparse_core and _OFFLOADED_COLLECTIVE.search(name) else "op"


def bytes_moved_by_op(name: str, category: str, text: str) -> int | None:
    """Bytes that a collective, copy or transfer of this name, category and line moves; None if unknown.

    For an asynchronous slice, and for an update of a part of a buffer, those of the part.
    """
    copy = _copy_done_or_awaited(name, category, text)
    return moved_bytes(text) if copy is None else copy.bytes


def _copy_done_or_awaited(name: str, category: str, text: str) -> MemoryCopy | None:
    """Copy that an op makes or waits for; None for another op."""
    return parse_copy(name, category, text) or parse_awaited_copy(name, category, text)
