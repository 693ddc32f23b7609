"""HLO as it is written: which opcodes move data between devices, and how many bytes the shapes in a line have.

Owns the grammar of a line as far as that goes; what instructions mean is `hlo.instructions`' and `hlo.line`'s.
"""

from __future__ import annotations

import re

COLLECTIVES = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute",
    "collective-broadcast",
)  # fmt: skip
"""HLO opcodes that move data between devices; ``-start`` and ``-done`` forms and fusions begin with them."""

_WIDTHS = {"pred": 8, "token": 0, "opaque": 0}
_ARRAY = re.compile(r"\b([a-z]\w*?)\[([\d,<=\s]*)\]")
_BITS = re.compile(r"[a-z]+(\d{1,9})")
_DIGITS = 20  # more than any size has


def shape_bytes(shape: str) -> int:
    """Bytes of an HLO shape in text, layouts ignored: ``(f32[2,3]{1,0}, s8[4])`` -> 28. Text without one: 0."""
    return sum(_array_bytes(element, dims) for element, dims in _ARRAY.findall(shape))


def element_bits(element: str) -> int:
    """Bits of one element of an HLO type: ``bf16`` -> 16; 0 for what holds no data, and what is no type."""
    if element in _WIDTHS:
        return _WIDTHS[element]
    bits = _BITS.match(element)
    return int(bits[1]) if bits else 0


def _array_bytes(element: str, dims: str) -> int:
    count = 1
    for size in dims.replace("<=", "").split(","):
        count *= int(size[:_DIGITS]) if size.strip() else 1
    return (count * element_bits(element) + 7) // 8


def moved_bytes(text: str) -> int | None:
    """Bytes that a collective, copy or transfer with this HLO line moves: those of its result.

    A ``reduce-scatter`` moves what goes into it, where the line has the shapes of operands. ``-start`` forms that
    return their operands too count the result only, a send what it sends. None when the text is no HLO line, or tells
    of more than Int64 holds.
    """
    head, equals, rest = text.partition(" = ")
    if not equals or not head:
        return None
    shape, opcode = split_shape(rest)
    given = opcode.partition("), ")[0] if opcode.startswith("reduce-scatter(") else ""
    if shape.startswith("(") and (shape.startswith("((") or opcode.startswith(_PAIRED)):
        parts = tuple_elements(shape[1:-1])
        if shape.startswith("((") and "reduce-scatter" in head + opcode:
            given = parts[0]
        shape = parts[0] if opcode.startswith(_FIRST) else parts[min(1, len(parts) - 1)]
    size = max(shape_bytes(shape), shape_bytes(given))
    return size if size < 2**63 else None


_FIRST = ("copy-start(", "send(", "recv(", "recv-done(")
"""Opcodes whose result comes first in what they return."""

_PAIRED = ("all-gather-start", "collective-permute-start", *_FIRST)
"""Those that return a tuple of more than their results."""


def split_shape(rest: str) -> tuple[str, str]:
    """The shape at the front of what follows ``=``, and the text after it."""
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
