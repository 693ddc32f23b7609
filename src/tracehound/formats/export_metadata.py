"""Metadata keys and counter names that an export adds to its trace, and how they are read back.

The meaning of the counters is defined by the analyses that they come from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from tracehound.model.file_facts import ExportedWindow
from tracehound.model.notes import SOURCE_ENDS_EARLY, Note
from tracehound.model.old_names import current_name
from tracehound.model.units import PS_PER_US

WINDOW_KEY: Final = "exportedWindow"
"""The key of an exported window: start and end as text, in microseconds on the clock of its events, null without a
limit. Events that cross an edge are in the file, events beyond it are not.
"""

STEP_MODULE_KEY: Final = "exportedStep"
"""The key for the module whose executions are the steps of an XLA profile without step marks: within a window too few
of them may be left to infer this.
"""

TRUNCATED_SOURCE_KEY: Final = "severedSource"
"""The key that says that a source file ends within its events, as a killed run leaves it."""

_TIME_TEXT: Final = re.compile(r"-?\d{1,20}(\.\d{1,6})?")

_LATEST_PS: Final = 1 << 61
"""Limits beyond this (ps, 26 days) are ignored."""

QUEUE_TITLE: Final = "Queue length"
COPY_BANDWIDTH_TITLE: Final = "Copy bandwidth"
UTILIZATION_TITLE: Final = "Utilization"

UTILIZATION_LABELS: Final = {"utilization": "GPU", "sm_efficiency": "SM", "occupancy": "occupancy"}
"""The drawn occupancy measures of a device and their labels, which follow `UTILIZATION_TITLE`."""


def counter_name(title: str, series: str) -> str:
    """Return the name of the counter for one series under a title."""
    return f"{title}, {series}"


def current_counter_name(name: str) -> str:
    """Return the name that an export gives today to a counter, which an older export may have named otherwise."""
    title, separator, series = name.partition(counter_name("", ""))
    return f"{current_name(title)}{separator}{series}" if separator else name


def is_exported_counter(name: str) -> bool:
    """Return whether a counter of that name was computed from the events by an export, and not recorded."""
    return current_counter_name(name).startswith(
        tuple(counter_name(title, "") for title in (QUEUE_TITLE, COPY_BANDWIDTH_TITLE, UTILIZATION_TITLE))
    )


def exported_window(metadata: Mapping[str, Any], origin: int) -> ExportedWindow | None:
    """Return the window that the file was exported from; None without one.

    Its limits are relative to `origin` (ps of the file's times).
    """
    limits = metadata.get(WINDOW_KEY)
    if not isinstance(limits, list) or len(limits) != 2:  # start and end
        return None
    start, end = (_parse_time(time, origin) for time in limits)
    return None if start is None and end is None else ExportedWindow(start, end)


def _parse_time(text: object, origin: int) -> int | None:
    if not isinstance(text, str) or _TIME_TEXT.fullmatch(text) is None:
        return None
    time = int(Decimal(text) * PS_PER_US) - origin
    return time if abs(time) < _LATEST_PS else None  # no event is there


def exported_step_module(metadata: Mapping[str, Any]) -> str:
    """Return the module whose executions are the steps, where the file is an export that names it, else ""."""
    name = metadata.get(STEP_MODULE_KEY)
    return name if isinstance(name, str) else ""


def truncated_source_notes(metadata: Mapping[str, Any]) -> tuple[Note, ...]:
    """Return a note if the file was exported from one that ends within its events."""
    return (Note("missing", SOURCE_ENDS_EARLY),) if metadata.get(TRUNCATED_SOURCE_KEY) is True else ()


def exported_window_notes(window: ExportedWindow | None) -> tuple[Note, ...]:
    """Return a note if the file is an export of this window."""
    return (Note("missing", "exported_window"),) if window is not None else ()
