"""Names that PyTorch's profiler and its reader give to events.

Owns these names alone: who asks for one reads no file, and need not import what does.
"""

from __future__ import annotations

from typing import Final

MODULE: Final = "nn.Module: "
"""How PyTorch's profiler calls the call of a module, before its class and number."""

CURVES: Final = {"utilisation": "GPU utilisation", "sm_efficiency": "SM efficiency"}
"""The measures that are drawn, and what their counters are called: 0 before the first kernel and after the last."""

_SIZES: Final = {
    "float": 4, "float32": 4, "double": 8, "float64": 8, "half": 2, "float16": 2, "bfloat16": 2,
    "complex<float>": 8, "complexfloat": 8, "complex<double>": 16, "complexdouble": 16,
    "long": 8, "long int": 8, "int64": 8, "int": 4, "int32": 4, "short": 2, "short int": 2, "int16": 2,
    "bool": 1, "byte": 1, "char": 1, "signed char": 1, "unsigned char": 1, "int8": 1, "uint8": 1,
}  # fmt: skip


def type_size(dtype: object) -> int:
    """Bytes of an element of a type as PyTorch writes it (``BFloat16``, ``c10::Half``, ``long int``); 0 if unknown."""
    if not isinstance(dtype, str):
        return 0
    name = dtype.lower().strip().rpartition("::")[2]
    return 1 if name.startswith(("float8", "f8")) else _SIZES.get(name, 0)
