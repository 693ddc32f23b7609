"""Older names of analyses, columns, values and keys, which users, files and traces may still have.

The only table of names that have changed. Names that a trace gives to its events are never translated.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

CURRENT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        # analyses and columns
        "utilisation": "utilization",
        "utilisation_curve": "utilization_curve",
        "rematerialised": "rematerialized",
        "synchronising": "synchronizing",
        # causes of idle time, classes of kernels
        "synchronisation": "synchronization",
        "normalisation": "normalization",
        "quantisation": "quantization",
        # counters
        "GPU utilisation": "GPU utilization",
        "Utilisation": "Utilization",
        # keys of the explorer, and fields of its session
        "lanes.colour": "lanes.color",
        "colour": "color",
        "comparison.base": "comparison.baseline",
        "comparison.other": "comparison.candidate",
    }
)
"""The current name of each older one."""

_OLD_NAMES: Final = {current: old for old, current in CURRENT_NAMES.items()}

OLD_COMPARISON_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "baseline": "base",
        "candidate": "other",
        **{f"baseline_{column}": f"base_{column}" for column in ("median", "spread", "count", "ops", "event")},
        **{
            f"candidate_{column}": f"other_{column}"
            for column in ("median", "spread", "count", "ops", "event", "name", "category")
        },
    }
)
"""The older key of each key of a comparison in JSON: both are written. The words alone mean other things elsewhere."""


def current_name(name: str) -> str:
    """The name today of what has this name, which may be an older one."""
    return CURRENT_NAMES.get(name, name)


def old_name(name: str) -> str | None:
    """The older name of what has this name today; None if it never had another."""
    return _OLD_NAMES.get(name)
