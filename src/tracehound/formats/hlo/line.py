"""The shapes of HLO as values: which arrays an instruction reads and writes, how large they are, where they lie.

Owns the reading of a shape's text. Pure functions of text; knows no protos and no traces.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from tracehound.formats.hlo.text import element_bits, split_shape

HOST_SPACE, VECTOR_SPACE = 5, 1
"""Memory spaces: the host's on every backend, and on TPUs the memory beside the vector unit (VMEM)."""


class Array(NamedTuple):
    """One array of a shape: its element type, its dimensions, and the memory space that it lies in."""

    element: str
    dims: tuple[int, ...]
    space: int = 0

    @property
    def on_host(self) -> bool:
        """Whether it lies in the host's memory."""
        return self.space == HOST_SPACE

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        """Bytes of its elements, without the padding of a layout."""
        return (self.elements * element_bits(self.element) + 7) // 8


class Line(NamedTuple):
    """An HLO line with shapes: the arrays of its result and of its operands, its opcode, and its custom call's target.

    `results` of a tuple are its arrays in order.
    """

    opcode: str
    results: tuple[Array, ...]
    operands: tuple[Array, ...]
    target: str = ""


_ARRAY = re.compile(r"\b([a-z]\w*?)\[([\d,<= ]*)\](\{[^{}]*\})?")
_SPACE = re.compile(r"S\(([0-9]{1,9})\)")
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_SIZE = re.compile(r"[0-9]+")
_DIGITS = 18


def arrays(shape: str) -> tuple[Array, ...]:
    """The arrays of a shape in text: ``(f32[2,3]{1,0:S(5)}, s32[])`` has two."""
    return tuple(
        Array(element, _dims(dims), int(found[1]) if (found := _SPACE.search(layout or "")) else 0)
        for element, dims, layout in _ARRAY.findall(shape)
    )


def _dims(text: str) -> tuple[int, ...]:
    return tuple(int(size[:_DIGITS]) for size in _SIZE.findall(text))


def line(text: str) -> Line | None:
    """An HLO line whose operands have shapes, as XLA writes it for TPUs; None for what is no such line."""
    head, equals, rest = text.partition(" = ")
    if not equals or not head:
        return None
    shape, after = split_shape(rest)
    opcode, bracket, inside = after.partition("(")
    if not bracket:
        return None
    target = _TARGET.search(inside)
    return Line(opcode.strip(), arrays(shape), arrays(_arguments(inside)), target[1] if target else "")


def _arguments(inside: str) -> str:
    """What stands before the bracket that closes the list of operands."""
    depth = 0
    for at, char in enumerate(inside):
        if char == ")" and depth == 0:
            return inside[:at]
        depth += (char in "([{") - (char in ")]}")
    return inside


def bytes_in(found: Line, space: int) -> int:
    """Bytes of the operands and results that lie in a memory space.

    The halves of an asynchronous copy carry both of its ends in one tuple, so the one that lies there counts once.
    """
    there = (one.bytes for one in (*found.results, *found.operands) if one.space == space)
    return max(there, default=0) if found.opcode.endswith(("-start", "-done")) else sum(there)
