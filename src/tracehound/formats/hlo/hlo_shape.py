"""The shapes of HLO: element types, dimensions, layouts, tuples, and their bytes.

Owns the field numbers of ShapeProto and LayoutProto and the text form of a shape. Knows no instruction.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from msgspec import Struct

from tracehound.formats.hlo.proto_message import MAX_NESTING, ProtoMessage

ELEMENT_TYPE, DIMENSIONS, TUPLE_SHAPES, LAYOUT, DYNAMIC = 2, 3, 4, 5, 6
MINOR_TO_MAJOR, TILES, ELEMENT_BITS, MEMORY_SPACE, TAIL_PADDING = 1, 6, 7, 8, 16

ELEMENT_TYPES: Final = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32",
    12: "f64", 14: "opaque", 15: "c64", 16: "bf16", 17: "token", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4",
    22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e4m3fnuz", 25: "f8e5m2fnuz", 26: "s2", 27: "u2", 28: "f8e4m3", 29: "f8e3m4",
    30: "s1", 31: "u1", 32: "f4e2m1fn", 33: "f8e8m0fnu", 34: "buffer",
}  # fmt: skip
TUPLE_TYPE: Final = 13

ELEMENT_TYPE_BITS: Final = {
    "pred": 8, "s1": 1, "u1": 1, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16, "s32": 32,
    "u32": 32, "s64": 64, "u64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128,
    "f4e2m1fn": 4, "f8e5m2": 8, "f8e4m3fn": 8, "f8e4m3b11fnuz": 8, "f8e4m3fnuz": 8, "f8e5m2fnuz": 8, "f8e4m3": 8,
    "f8e3m4": 8, "f8e8m0fnu": 8,
}  # fmt: skip
"""Bits of one element; types that are not here take none."""

MAX_DIMENSIONS: Final = 64
"""More dimensions than any array of XLA has; further ones are ignored."""

POINTER_BYTES: Final = 8
"""Bytes that a tuple takes for each of its elements."""

MEMORY_SPACE_NAMES: Final = {0: "device memory", 5: "host memory"}
"""Memory spaces with one meaning on every backend; others depend on it (1 is a TPU's vector memory)."""


class HloShape(Struct, frozen=True):
    """One shape; a tuple has `tuple_shapes` and no dimensions.

    `minor_to_major` is None where the proto has no layout; `tiles` are applied one after the other; `memory_space` is 5
    for the host's.
    """

    element: str = "unknown"
    dims: tuple[int, ...] = ()
    dynamic: tuple[bool, ...] = ()
    minor_to_major: tuple[int, ...] | None = None
    tiles: tuple[tuple[int, ...], ...] = ()
    memory_space: int = 0
    element_bits: int = 0
    alignment: int = 1
    tuple_shapes: tuple[HloShape, ...] = ()

    @property
    def text(self) -> str:
        """The shape as HLO writes it: ``f32[8,16]{1,0:T(8,128)S(5)}``, ``(s32[], f32[2])``."""
        if self.element == "tuple":
            return f"({', '.join(add_index_comments([part.text for part in self.tuple_shapes]))})"
        return f"{self.text_without_layout}{self.layout_text}"

    @property
    def text_without_layout(self) -> str:
        """The shape without layouts: ``f32[8,16]``."""
        if self.element == "tuple":
            return f"({', '.join(add_index_comments([part.text_without_layout for part in self.tuple_shapes]))})"
        marks = [*self.dynamic, *(False for _ in self.dims)]
        sizes = (
            str(dim) if not mark else f"<={dim}" if dim >= 0 else "?"
            for dim, mark in zip(self.dims, marks[: len(self.dims)], strict=True)
        )
        return f"{self.element}[{','.join(sizes)}]"

    @property
    def layout_text(self) -> str:
        """``{1,0:T(8,128)S(5)}``; "" without a layout, or with an empty one."""
        if self.minor_to_major is None:
            return ""
        more = "".join(_layout_suffixes(self))
        text = f"{','.join(map(str, self.minor_to_major))}{':' if more else ''}{more}"
        return f"{{{text}}}" if text else ""

    @property
    def arrays(self) -> Iterator[HloShape]:
        """The arrays in the shape."""
        if self.element != "tuple":
            yield self
        for part in self.tuple_shapes:
            yield from part.arrays

    @property
    def bytes(self) -> int:
        """Bytes of all elements, without padding; of a tuple those of all its arrays."""
        return sum(_count_elements(leaf.dims) * _element_bits(leaf) for leaf in self.arrays) + 7 >> 3

    @property
    def buffer_bytes(self) -> int:
        """Bytes of its own buffer, without padding: of a tuple those of its pointers."""
        return POINTER_BYTES * len(self.tuple_shapes) if self.element == "tuple" else self.bytes

    @property
    def padded_bytes(self) -> int:
        """Bytes of all elements with the padding to whole tiles that the layouts ask for."""
        return sum(_count_padded_elements(leaf) * _element_bits(leaf) for leaf in self.arrays) + 7 >> 3

    @property
    def memory_spaces(self) -> tuple[int, ...]:
        """The memory spaces of its arrays, each once, in their order."""
        return tuple(dict.fromkeys(leaf.memory_space for leaf in self.arrays))


def add_index_comments(texts: list[str]) -> list[str]:
    """The texts, every fifth with its index before it, as HLO writes long lists."""
    return [f"/*index={at}*/{text}" if at and not at % 5 else text for at, text in enumerate(texts)]


def read_shape(proto: ProtoMessage | None, depth: int = 0) -> HloShape:
    """The shape in a ShapeProto, as far as it can be read."""
    if proto is None:
        return HloShape()
    if proto.number(ELEMENT_TYPE) == TUPLE_TYPE:
        parts = proto.submessages(TUPLE_SHAPES) if depth < MAX_NESTING else ()
        return HloShape("tuple", tuple_shapes=tuple(read_shape(part, depth + 1) for part in parts))
    made = HloShape(
        element=ELEMENT_TYPES.get(proto.number(ELEMENT_TYPE), "unknown"),
        dims=tuple(proto.numbers(DIMENSIONS)[:MAX_DIMENSIONS]),
        dynamic=tuple(map(bool, proto.numbers(DYNAMIC))),
    )
    layout = proto.submessage(LAYOUT)
    if layout is None:
        return made
    return HloShape(
        element=made.element,
        dims=made.dims,
        dynamic=made.dynamic,
        minor_to_major=tuple(layout.numbers(MINOR_TO_MAJOR)),
        tiles=tuple(tuple(tile.numbers(1)) for tile in layout.submessages(TILES)),
        memory_space=layout.number(MEMORY_SPACE),
        element_bits=layout.number(ELEMENT_BITS),
        alignment=layout.number(TAIL_PADDING, 1),
    )


def memory_space_name(memory: int) -> str:
    """The name of a memory space."""
    return MEMORY_SPACE_NAMES.get(memory, f"memory space {memory}")


def _layout_suffixes(shape: HloShape) -> Iterator[str]:
    """The parts of a layout behind its colon: tiles, alignment, element bits, memory space."""
    if shape.tiles:
        yield "T" + "".join(
            f"({','.join('*' if dim == _COMBINED_DIMENSION else str(dim) for dim in tile)})" for tile in shape.tiles
        )
    if shape.alignment > 1:
        yield f"L({shape.alignment})"
    if shape.element_bits:
        yield f"E({shape.element_bits})"
    if shape.memory_space:
        yield f"S({shape.memory_space})"


_COMBINED_DIMENSION: Final = -(1 << 63)
"""In a tile: this dimension is combined with the next."""


def _element_bits(shape: HloShape) -> int:
    """Bits of one element of the shape."""
    bits = ELEMENT_TYPE_BITS.get(shape.element, 0)
    return shape.element_bits if 0 < shape.element_bits < bits else bits


def _count_elements(dims: tuple[int, ...]) -> int:
    """The number of elements; negative dimensions count as 0."""
    return prod(max(dim, 0) for dim in dims)


def _count_padded_elements(shape: HloShape) -> int:
    """The number of elements with the minor dimensions rounded up to the first tile; later tiles only divide it."""
    order = shape.minor_to_major or ()
    if not shape.tiles or sorted(order) != list(range(len(shape.dims))):
        return _count_elements(shape.dims)
    major = [max(shape.dims[at], 0) for at in reversed(order)]
    tile = [size for size in shape.tiles[0] if size > 0]
    major = [1] * (len(tile) - len(major)) + major
    whole, cut = major[: len(major) - len(tile)], major[len(major) - len(tile) :]
    return prod(whole) * prod(-(-dim // size) * size for dim, size in zip(cut, tile, strict=True))
