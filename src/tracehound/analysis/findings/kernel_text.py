"""Names of kernels and events in the sentences of findings."""

from __future__ import annotations

from typing import Final

from tracehound.formats.inductor_names import find_fused_operators, shorten_fused_name
from tracehound.model.short_names import shorten_kernel_name

NAME_WIDTH: Final = 60
"""Names in titles and evidence are cut in the middle to this many characters."""

_MAX_OPERATORS: Final = 6
"""A sentence names no more fused operators than this; of more it counts the rest."""


def describe_kernel(name: str) -> str:
    """A kernel's short name, with the operators that it fuses: ``triton_poi_fused_add_relu_0 (fused add, relu)``."""
    return describe_fused_kernel(name) or shorten_kernel_name(name, NAME_WIDTH)


def describe_fused_kernel(name: str) -> str:
    """The name of a kernel that fuses known operators, with these operators; empty for other names."""
    fused = find_fused_operators(name)
    if fused is None or not fused.known:
        return ""
    short = name if len(name) <= NAME_WIDTH else shorten_fused_name(name)
    if len(fused.names) <= _MAX_OPERATORS:
        return f"{short} (fused {', '.join(fused.names)})"
    listed = fused.names[: _MAX_OPERATORS - 1]
    return f"{short} (fused {', '.join(listed)} and {len(fused.names) - len(listed)} more)"
