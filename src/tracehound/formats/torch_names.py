"""Names that PyTorch's profiler and its reader give to events.

Owns these names alone: who asks for one reads no file, and need not import what does.
"""

from __future__ import annotations

import re
from typing import Final

STEP: Final = r"^(ProfilerStep)#(\d{1,9})$"
"""How PyTorch's profiler calls its mark of a step: its groups are the name of all marks, and the step's number."""

PARAMS: Final = "record_param_comms"
"""The name of the operators that tell what the collective they start is."""

MODULE: Final = "nn.Module: "
"""How PyTorch's profiler calls the call of a module, before its class and number."""

CURVES: Final = {"utilisation": "GPU utilisation", "sm_efficiency": "SM efficiency"}
"""The measures that are drawn, and what their counters are called: 0 before the first kernel and after the last."""

_SIZES: Final = {
    1: (
        "bool", "byte", "char", "int8", "uint8", "signed char", "unsigned char", "qint8", "quint8",
        "bits8", "bits1x8", "bits2x4", "bits4x2", "float4_e2m1fn_x2",
    ),
    2: (
        "half", "float16", "bfloat16", "short", "short int", "int16",
        "uint16", "unsigned short", "short unsigned int", "bits16",
    ),
    4: (
        "float", "float32", "int", "int32", "uint32", "unsigned int", "qint32",
        "complexhalf", "complex32", "complex<half>",
    ),
    8: (
        "double", "float64", "long", "long int", "long long", "long long int", "__int64", "int64",
        "uint64", "unsigned long", "long unsigned int", "unsigned long long", "long long unsigned int",
        "unsigned __int64", "complexfloat", "complex64", "complex<float>",
    ),
    16: ("complexdouble", "complex128", "complex<double>"),
}  # fmt: skip
"""Types by the bytes of an element: as PyTorch calls them, and as compilers spell the types of C++ that they are.

Of types that pack several numbers (``Float4_e2m1fn_x2``) an element is what shapes count: a pack.
"""

SCALAR_TYPES: Final = (
    "Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double", "ComplexHalf", "ComplexFloat", "ComplexDouble",
    "Bool", "QInt8", "QUInt8", "QInt32", "BFloat16", "QUInt4x2", "QUInt2x4", "Bits1x8", "Bits2x4", "Bits4x2", "Bits8",
    "Bits16", "Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz", "UInt16", "UInt32", "UInt64",
    "UInt1", "UInt2", "UInt3", "UInt4", "UInt5", "UInt6", "UInt7", "Int1", "Int2", "Int3", "Int4", "Int5", "Int6",
    "Int7", "Float8_e8m0fnu", "Float4_e2m1fn_x2",
)  # fmt: skip
"""Element types by their numbers, which are their places here: an operator that is asked for a type has its number."""

_BYTES: Final = {name: size for size, names in _SIZES.items() for name in names}


def type_size(dtype: object) -> int:
    """Bytes of an element of a type as PyTorch writes it (``BFloat16``, ``c10::Half``, ``long int``); 0 if unknown."""
    if not isinstance(dtype, str):
        return 0
    name = _PLACE.sub("", dtype.lower().strip())
    if name in _BYTES:
        return _BYTES[name]
    return 1 if name.startswith(("float8", "f8")) or _NARROW.fullmatch(name) else 0


_PLACE: Final = re.compile(r"\b(?:\w+::)+")
_NARROW: Final = re.compile(r"u?int[1-7]")
"""Integers of fewer bits than a byte, which take one each."""
