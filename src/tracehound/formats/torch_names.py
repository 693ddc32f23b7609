"""Names that PyTorch's profiler and its reader give to events.

Owns these names alone: who asks for one reads no file, and need not import what does.
"""

from __future__ import annotations

from typing import Final

MODULE: Final = "nn.Module: "
"""How PyTorch's profiler calls the call of a module, before its class and number."""

CURVES: Final = {"utilisation": "GPU utilisation", "sm_efficiency": "SM efficiency"}
"""The measures that are drawn, and what their counters are called: 0 before the first kernel and after the last."""
