"""The shapes of HLO: element types, dimensions, layouts, tuples, and how many bytes they take.

Owns the field numbers of ShapeProto and LayoutProto and how HLO writes a shape. Knows no instruction.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from msgspec import Struct

from tracehound.formats.hlo.fields import DEEPEST, Message

ELEMENT_TYPE, DIMENSIONS, TUPLE_SHAPES, LAYOUT, DYNAMIC = 2, 3, 4, 5, 6
MINOR_TO_MAJOR, TILES, ELEMENT_BITS, MEMORY_SPACE, TAIL_PADDING = 1, 6, 7, 8, 16

ELEMENTS: Final = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32",
    12: "f64", 14: "opaque", 15: "c64", 16: "bf16", 17: "token", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4",
    22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e4m3fnuz", 25: "f8e5m2fnuz", 26: "s2", 27: "u2", 28: "f8e4m3", 29: "f8e3m4",
    30: "s1", 31: "u1", 32: "f4e2m1fn", 33: "f8e8m0fnu", 34: "buffer",
}  # fmt: skip
TUPLE: Final = 13

BITS: Final = {
    "pred": 8, "s1": 1, "u1": 1, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16, "s32": 32,
    "u32": 32, "s64": 64, "u64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128,
    "f4e2m1fn": 4, "f8e5m2": 8, "f8e4m3fn": 8, "f8e4m3b11fnuz": 8, "f8e4m3fnuz": 8, "f8e5m2fnuz": 8, "f8e4m3": 8,
    "f8e3m4": 8, "f8e8m0fnu": 8,
}  # fmt: skip
"""Bits that one element takes; types that are not here take none."""

MOST_DIMENSIONS: Final = 64
"""More dimensions than any array of XLA has; what follows them is no shape."""

POINTER: Final = 8
"""Bytes that a tuple takes for each of its parts."""

SPACES: Final = {0: "device memory", 5: "host memory"}
"""What memory spaces are on every backend; the others' meanings depend on it (1 is a TPU's vector memory)."""


class Shape(Struct, frozen=True):
    """One shape; of a tuple `parts` are its shapes, and it has no dimensions.

    `order` lists dimensions from minor to major, None where the proto has no layout; `tiles` are applied one after the
    other; `memory` is the memory space, 5 being the host's.
    """

    element: str = "unknown"
    dims: tuple[int, ...] = ()
    dynamic: tuple[bool, ...] = ()
    order: tuple[int, ...] | None = None
    tiles: tuple[tuple[int, ...], ...] = ()
    memory: int = 0
    element_bits: int = 0
    alignment: int = 1
    parts: tuple[Shape, ...] = ()

    @property
    def text(self) -> str:
        """As HLO writes it: ``f32[8,16]{1,0:T(8,128)S(5)}``, ``(s32[], f32[2])``."""
        if self.element == "tuple":
            return f"({', '.join(indexed([part.text for part in self.parts]))})"
        return f"{self.brief}{self.layout}"

    @property
    def brief(self) -> str:
        """Without layouts: ``f32[8,16]``."""
        if self.element == "tuple":
            return f"({', '.join(indexed([part.brief for part in self.parts]))})"
        marks = [*self.dynamic, *(False for _ in self.dims)]
        sizes = (
            str(dim) if not mark else f"<={dim}" if dim >= 0 else "?"
            for dim, mark in zip(self.dims, marks[: len(self.dims)], strict=True)
        )
        return f"{self.element}[{','.join(sizes)}]"

    @property
    def layout(self) -> str:
        """``{1,0:T(8,128)S(5)}``; nothing where there is none, or nothing in it."""
        if self.order is None:
            return ""
        more = "".join(_more(self))
        text = f"{','.join(map(str, self.order))}{':' if more else ''}{more}"
        return f"{{{text}}}" if text else ""

    @property
    def leaves(self) -> Iterator[Shape]:
        """The arrays in it."""
        if self.element != "tuple":
            yield self
        for part in self.parts:
            yield from part.leaves

    @property
    def bytes(self) -> int:
        """Bytes of all elements, without padding; of a tuple those of all that is in it."""
        return sum(_elements(leaf.dims) * _bits(leaf) for leaf in self.leaves) + 7 >> 3

    @property
    def own_bytes(self) -> int:
        """Bytes of its own buffer, without padding: of a tuple its pointers."""
        return POINTER * len(self.parts) if self.element == "tuple" else self.bytes

    @property
    def padded_bytes(self) -> int:
        """Bytes of all elements with the padding to whole tiles that the layouts ask for."""
        return sum(_padded(leaf) * _bits(leaf) for leaf in self.leaves) + 7 >> 3

    @property
    def spaces(self) -> tuple[int, ...]:
        """The memory spaces of the arrays in it, each once, in their order."""
        return tuple(dict.fromkeys(leaf.memory for leaf in self.leaves))


def indexed(texts: list[str]) -> list[str]:
    """The texts, every fifth with its place before it, as HLO writes long lists."""
    return [f"/*index={at}*/{text}" if at and not at % 5 else text for at, text in enumerate(texts)]


def shape_of(proto: Message | None, depth: int = 0) -> Shape:
    """The shape in a ShapeProto; of nonsense what there is of it."""
    if proto is None:
        return Shape()
    if proto.number(ELEMENT_TYPE) == TUPLE:
        parts = proto.all(TUPLE_SHAPES) if depth < DEEPEST else ()
        return Shape("tuple", parts=tuple(shape_of(part, depth + 1) for part in parts))
    made = Shape(
        element=ELEMENTS.get(proto.number(ELEMENT_TYPE), "unknown"),
        dims=tuple(proto.numbers(DIMENSIONS)[:MOST_DIMENSIONS]),
        dynamic=tuple(map(bool, proto.numbers(DYNAMIC))),
    )
    layout = proto.one(LAYOUT)
    if layout is None:
        return made
    return Shape(
        element=made.element,
        dims=made.dims,
        dynamic=made.dynamic,
        order=tuple(layout.numbers(MINOR_TO_MAJOR)),
        tiles=tuple(tuple(tile.numbers(1)) for tile in layout.all(TILES)),
        memory=layout.number(MEMORY_SPACE),
        element_bits=layout.number(ELEMENT_BITS),
        alignment=layout.number(TAIL_PADDING, 1),
    )


def space_name(memory: int) -> str:
    """What a memory space is called."""
    return SPACES.get(memory, f"memory space {memory}")


def _more(shape: Shape) -> Iterator[str]:
    """What follows the colon of a layout."""
    if shape.tiles:
        yield "T" + "".join(
            f"({','.join('*' if dim == _COMBINED else str(dim) for dim in tile)})" for tile in shape.tiles
        )
    if shape.alignment > 1:
        yield f"L({shape.alignment})"
    if shape.element_bits:
        yield f"E({shape.element_bits})"
    if shape.memory:
        yield f"S({shape.memory})"


_COMBINED: Final = -(1 << 63)
"""Stands in a tile for a dimension that is one with the next."""


def _bits(shape: Shape) -> int:
    bits = BITS.get(shape.element, 0)
    return shape.element_bits if 0 < shape.element_bits < bits else bits


def _elements(dims: tuple[int, ...]) -> int:
    return prod(max(dim, 0) for dim in dims)


def _padded(shape: Shape) -> int:
    """Elements, the minor dimensions rounded up to the first tile; later tiles only divide it."""
    order = shape.order or ()
    if not shape.tiles or sorted(order) != list(range(len(shape.dims))):
        return _elements(shape.dims)
    major = [max(shape.dims[at], 0) for at in reversed(order)]
    tile = [size for size in shape.tiles[0] if size > 0]
    major = [1] * (len(tile) - len(major)) + major
    whole, cut = major[: len(major) - len(tile)], major[len(major) - len(tile) :]
    return prod(whole) * prod(-(-dim // size) * size for dim, size in zip(cut, tile, strict=True))
