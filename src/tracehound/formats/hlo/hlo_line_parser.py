"""HLO text: shapes, opcodes and operands of a line, and the bytes that a line moves.

Owns the grammar of a line as far as that goes. Pure functions of text; knows no protos and no traces.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

COLLECTIVE_OPCODES = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute",
    "collective-broadcast",
)  # fmt: skip
"""Opcodes that move data between devices; their ``-start`` and ``-done`` forms, and fusions, begin with these words."""

_BITS_OF_SPECIAL_TYPES = {"pred": 8, "token": 0, "opaque": 0}
_ARRAY_TEXT = re.compile(r"\b([a-z]\w*?)\[([\d,<=\s]*)\]")
_TYPE_BITS = re.compile(r"[a-z]+(\d{1,9})")
_MAX_SIZE_DIGITS = 20  # more than any size has


def shape_bytes(shape: str) -> int:
    """Bytes of an HLO shape in text, layouts ignored: ``(f32[2,3]{1,0}, s8[4])`` -> 28. Text without one: 0."""
    return sum(_array_bytes(element, dims) for element, dims in _ARRAY_TEXT.findall(shape))


def element_bits(element: str) -> int:
    """Bits of one element of an HLO type: ``bf16`` -> 16; 0 for what holds no data, and what is no type."""
    if element in _BITS_OF_SPECIAL_TYPES:
        return _BITS_OF_SPECIAL_TYPES[element]
    bits = _TYPE_BITS.match(element)
    return int(bits[1]) if bits else 0


def _array_bytes(element: str, dims: str) -> int:
    """Bytes of one array of a shape in text."""
    count = 1
    for size in dims.replace("<=", "").split(","):
        count *= int(size[:_MAX_SIZE_DIGITS]) if size.strip() else 1
    return (count * element_bits(element) + 7) // 8


def moved_bytes(text: str) -> int | None:
    """Bytes that a collective, copy or transfer with this HLO line moves: those of its result.

    A ``reduce-scatter`` moves its operands, where the line has their shapes. For ``-start`` forms that return their
    operands too, and for a send, only the result counts. None when the text is no HLO line, or the size does not fit in
    Int64.
    """
    head, equals, rest = text.partition(" = ")
    if not equals or not head:
        return None
    shape, opcode = split_shape(rest)
    given = opcode.partition("), ")[0] if opcode.startswith("reduce-scatter(") else ""
    if shape.startswith("(") and (shape.startswith("((") or opcode.startswith(_TUPLE_OPCODES)):
        parts = tuple_elements(shape[1:-1])
        if shape.startswith("((") and "reduce-scatter" in head + opcode:
            given = parts[0]
        shape = parts[0] if opcode.startswith(_RESULT_FIRST_OPCODES) else parts[min(1, len(parts) - 1)]
    size = max(shape_bytes(shape), shape_bytes(given))
    return size if size < 2**63 else None


_RESULT_FIRST_OPCODES = ("copy-start(", "send(", "recv(", "recv-done(")
"""Opcodes whose returned tuple begins with the result."""

_TUPLE_OPCODES = ("all-gather-start", "collective-permute-start", *_RESULT_FIRST_OPCODES)
"""Opcodes that return a tuple of more than their results."""


def split_shape(rest: str) -> tuple[str, str]:
    """The shape at the front of the text after ``=``, and the rest."""
    depth = 0
    for at, char in enumerate(rest):
        depth += (char in "([{") - (char in ")]}")
        if char == " " and depth == 0:
            return rest[:at], rest[at + 1 :]
    return rest, ""


def tuple_elements(inside: str) -> list[str]:
    """The elements of a tuple's text, split at its own commas."""
    parts, depth, last = [], 0, 0
    for at, char in enumerate(inside):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(inside[last:at])
            last = at + 1
    return [*parts, inside[last:]]


HOST_SPACE, VECTOR_SPACE = 5, 1
"""Memory space of the host, on every backend."""


class ArrayShape(NamedTuple):
    """One array of a shape: its element type, its dimensions, and its memory space."""

    element: str
    dims: tuple[int, ...]
    space: int = 0

    @property
    def on_host(self) -> bool:
        """True where the array is in the host's memory."""
        return self.space == HOST_SPACE

    @property
    def elements(self) -> int:
        """The number of its elements."""
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        """Bytes of its elements, without the padding of a layout."""
        return (self.elements * element_bits(self.element) + 7) // 8


class ParsedLine(NamedTuple):
    """An HLO line with shapes: the arrays of its result and of its operands, its opcode, and its custom call's target.

    The `results` of a tuple are its arrays in order.
    """

    opcode: str
    results: tuple[ArrayShape, ...]
    operands: tuple[ArrayShape, ...]
    target: str = ""


_ARRAY_WITH_LAYOUT = re.compile(r"\b([a-z]\w*?)\[([\d,<= ]*)\](\{[^{}]*\})?")
_MEMORY_SPACE_TEXT = re.compile(r"S\(([0-9]{1,9})\)")
_TARGET_TEXT = re.compile(r'custom_call_target="([^"]*)"')
_DIMENSION_SIZE = re.compile(r"[0-9]+")
_MAX_DIMENSION_DIGITS = 18


def parse_arrays(shape: str) -> tuple[ArrayShape, ...]:
    """The arrays of a shape in text: ``(f32[2,3]{1,0:S(5)}, s32[])`` has two."""
    return tuple(
        ArrayShape(
            element, _parse_dimensions(dims), int(found[1]) if (found := _MEMORY_SPACE_TEXT.search(layout or "")) else 0
        )
        for element, dims, layout in _ARRAY_WITH_LAYOUT.findall(shape)
    )


def _parse_dimensions(text: str) -> tuple[int, ...]:
    """The dimensions of an array in text."""
    return tuple(int(size[:_MAX_DIMENSION_DIGITS]) for size in _DIMENSION_SIZE.findall(text))


def parse_line(text: str) -> ParsedLine | None:
    """An HLO line whose operands have shapes, as XLA writes it for TPUs; None for other text."""
    head, equals, rest = text.partition(" = ")
    if not equals or not head:
        return None
    shape, after = split_shape(rest)
    opcode, bracket, inside = after.partition("(")
    if not bracket:
        return None
    target = _TARGET_TEXT.search(inside)
    return ParsedLine(
        opcode.strip(), parse_arrays(shape), parse_arrays(_operand_list(inside)), target[1] if target else ""
    )


def _operand_list(inside: str) -> str:
    """The text of the operands, up to the bracket that closes their list."""
    depth = 0
    for at, char in enumerate(inside):
        if char == ")" and depth == 0:
            return inside[:at]
        depth += (char in "([{") - (char in ")]}")
    return inside


def bytes_in_memory_space(found: ParsedLine, space: int) -> int:
    """Bytes of the operands and results in a memory space.

    The halves of an asynchronous copy have both of its ends in one tuple, so the end in that space counts once.
    """
    there = (one.bytes for one in (*found.results, *found.operands) if one.space == space)
    return max(there, default=0) if found.opcode.endswith(("-start", "-done")) else sum(there)
