"""Names that PyTorch's profiler and the reader of its files give to events, and sizes of PyTorch's element types.

This module imports nothing that reads files.
"""

from __future__ import annotations

import re
from typing import Final

STEP_MARK: Final = r"^(ProfilerStep)#(\d{1,9})$"
"""Pattern of the profiler's step mark; its groups are the common name of all marks, and the step's number."""

COLLECTIVE_PARAMS: Final = "record_param_comms"
"""The name of the operators that describe the collective they start."""

MODULE_PREFIX: Final = "nn.Module: "
"""Prefix of the profiler's events for calls of modules; class and number follow."""

UTILIZATION_COUNTERS: Final = {"utilization": "GPU utilization", "sm_efficiency": "SM efficiency"}
"""The drawn measures and the names of their counters; a counter is 0 before the first kernel and after the last."""

_TYPES_BY_SIZE: Final = {
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
"""Element types by bytes per element: PyTorch's names, and the C++ spellings of compilers.

For packed types (``Float4_e2m1fn_x2``) an element is what shapes count: a pack.
"""

SCALAR_TYPES: Final = (
    "Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double", "ComplexHalf", "ComplexFloat", "ComplexDouble",
    "Bool", "QInt8", "QUInt8", "QInt32", "BFloat16", "QUInt4x2", "QUInt2x4", "Bits1x8", "Bits2x4", "Bits4x2", "Bits8",
    "Bits16", "Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz", "UInt16", "UInt32", "UInt64",
    "UInt1", "UInt2", "UInt3", "UInt4", "UInt5", "UInt6", "UInt7", "Int1", "Int2", "Int3", "Int4", "Int5", "Int6",
    "Int7", "Float8_e8m0fnu", "Float4_e2m1fn_x2",
)  # fmt: skip
"""Element types at the position of their PyTorch number; an operator's dtype argument holds that number."""

_SIZE_OF_TYPE: Final = {name: size for size, names in _TYPES_BY_SIZE.items() for name in names}


def element_size(dtype: object) -> int:
    """Return the bytes of an element of a type; 0 if unknown.

    The type is spelled as PyTorch writes it (``BFloat16``, ``c10::Half``, ``long int``).
    """
    if not isinstance(dtype, str):
        return 0
    name = _NAMESPACE.sub("", dtype.lower().strip())
    if name in _SIZE_OF_TYPE:
        return _SIZE_OF_TYPE[name]
    return 1 if name.startswith(("float8", "f8")) or _SUB_BYTE_INTEGER.fullmatch(name) else 0


_NAMESPACE: Final = re.compile(r"\b(?:\w+::)+")
_SUB_BYTE_INTEGER: Final = re.compile(r"u?int[1-7]")
"""Integers of fewer than 8 bits; each takes one byte."""
