"""What an export adds to its trace, as it is read back: counters, from when to when a window lasts, what its steps are.

Owns the names of these counters, and how a file says the others. What the counters are is the business of the analyses
that they come from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from tracehound.file_facts import ExportedWindow
from tracehound.formats.severed import ENDED
from tracehound.notes import Note
from tracehound.units import PS_PER_US

WINDOW: Final = "exportedWindow"
"""The key under which an export of a window says when that starts and ends: as text, in microseconds on the clock of
its events, null without a limit. What crosses an edge is in the file, what lies beyond is not."""

STEP: Final = "exportedStep"
"""The key under which an export names the module whose executions are the steps of an XLA profile that marks none: of a
window there may be too few of them left to tell."""

SEVERED: Final = "severedSource"
"""The key under which an export says that a file that it was made of ends within its events, as a run that was killed
leaves it."""

_TIME: Final = re.compile(r"-?\d{1,20}(\.\d{1,6})?")

_MOST: Final = 1 << 61
"""Limits beyond this (ps, 26 days) are none."""

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


def exported_window(metadata: Mapping[str, Any], origin: int) -> ExportedWindow | None:
    """The window that a file is the export of, from `origin` (ps of the file's times); None where it is of none."""
    said = metadata.get(WINDOW)
    if not isinstance(said, list) or len(said) != 2:  # start and end
        return None
    start, end = (_time(time, origin) for time in said)
    return None if start is None and end is None else ExportedWindow(start, end)


def _time(said: object, origin: int) -> int | None:
    if not isinstance(said, str) or _TIME.fullmatch(said) is None:
        return None
    time = int(Decimal(said) * PS_PER_US) - origin
    return time if abs(time) < _MOST else None  # no event is there


def repeating(metadata: Mapping[str, Any]) -> str:
    """The module whose executions are the steps, where the file is an export that names it; "" for none."""
    said = metadata.get(STEP)
    return said if isinstance(said, str) else ""


def ended(metadata: Mapping[str, Any]) -> tuple[Note, ...]:
    """That the file was exported from one that ends within its events."""
    return (Note("missing", ENDED),) if metadata.get(SEVERED) is True else ()


def cut(window: ExportedWindow | None) -> tuple[Note, ...]:
    """That a file is the export of a window, where it is of this one."""
    return (Note("missing", "exported_window"),) if window is not None else ()
