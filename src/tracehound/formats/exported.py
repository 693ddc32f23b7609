"""Counters that an export writes beside those of its trace, as they are called where it is read back.

Owns their names. What they are is the business of the analyses that they come from.
"""

from __future__ import annotations

from typing import Final

QUEUE: Final = "Queue length"
COPIES: Final = "Copy bandwidth"
FILLED: Final = "Utilisation"

FILLS: Final = {"utilisation": "GPU", "sm_efficiency": "SM", "occupancy": "occupancy"}
"""What is drawn of how full a device is, measure by measure: what stands behind `FILLED`."""


def called(title: str, series: str) -> str:
    """The name of the counter of one series of those of a title."""
    return f"{title}, {series}"


def exported(name: str) -> bool:
    """Whether a counter of that name is worked out from the events, and no part of what was recorded."""
    return name.startswith(tuple(called(title, "") for title in (QUEUE, COPIES, FILLED)))
