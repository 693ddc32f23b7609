"""The values of constants, as HLO writes them.

Owns the field numbers of LiteralProto. Long constants are left out: ``{...}``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tracehound.formats.hlo.fields import DEEPEST, Message
from tracehound.formats.hlo.shape import Shape, shape_of

SHAPE, TUPLE = 1, 10

LONGEST: Final = 64
"""Elements of a constant that are written."""

_FIXED: Final = {
    "f16": (11, "<f2"), "f32": (8, "<f4"), "f64": (9, "<f8"), "u8": (3, "u1"), "s8": (15, "i1"), "u16": (16, "<u2"),
    "s16": (17, "<i2"), "bf16": (13, "<u2"), "c64": (12, "<c8"), "c128": (18, "<c16"),
}  # fmt: skip
_VARINT: Final = {"pred": 2, "s32": 4, "s64": 5, "u32": 6, "u64": 7}


def literal_text(proto: Message | None, depth: int = 0) -> str:
    """The value of a LiteralProto: ``0.5``, ``{ 1, 2 }``, ``{ { 1, 0 }, { 0, 1 } }``."""
    if proto is None:
        return "{...}"
    shape = shape_of(proto.one(SHAPE))
    if shape.element == "tuple" and depth < DEEPEST:
        return f"( {', '.join(literal_text(part, depth + 1) for part in proto.all(TUPLE))} )"
    count = 1
    for dim in shape.dims:
        count *= max(dim, 0)
    if count > LONGEST:
        return "{...}"
    values = _values(proto, shape)
    return _nested(values, shape.dims) if len(values) == count else "{...}"


def _values(proto: Message, shape: Shape) -> list[str]:
    element = shape.element
    if element == "pred":
        return [("true" if value else "false") if not shape.dims else str(int(bool(value))) for value in proto.raw(2)]
    if element in _VARINT:
        numbers = proto.numbers(_VARINT[element])
        return [str(value & ((1 << 64) - 1) if element == "u64" else value) for value in numbers]
    if element not in _FIXED:
        return []
    number, dtype = _FIXED[element]
    raw = proto.fixed(number)
    values = np.frombuffer(raw[: len(raw) // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize], dtype)
    if element == "bf16":
        return [f"{value:.4g}" for value in (values.astype(np.uint32) << np.uint32(16)).view(np.float32).tolist()]
    return [_number(value) for value in values]


def _number(value: np.generic) -> str:
    """The fewest digits, of those that XLA tries, that read back as the same number."""
    if isinstance(value, np.complexfloating):
        return f"({_number(value.real)}, {_number(value.imag)})"
    if not isinstance(value, np.floating):
        return str(value)
    short, long = _DIGITS[value.dtype.itemsize]
    few = f"{float(value):.{short}g}"
    return few if value.dtype.type(few) == value or np.isnan(value) else f"{float(value):.{long}g}"


_DIGITS: Final = {2: (4, 4), 4: (6, 9), 8: (15, 17)}


def _nested(values: list[str], dims: tuple[int, ...]) -> str:
    if not dims:
        return values[0]
    if not dims[0]:
        return "{}"
    step = len(values) // dims[0]
    return f"{{ {', '.join(_nested(values[at * step :][:step], dims[1:]) for at in range(dims[0]))} }}"
