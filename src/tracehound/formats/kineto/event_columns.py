"""Columns of the complete events and instants of a Kineto file, and tests of their categories."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np

from tracehound.formats.json.value_columns import CodeArray
from tracehound.formats.kineto.categories import parse_category
from tracehound.formats.kineto.json_events import RawId
from tracehound.numeric.intervals import Ints, Mask

EventSignature = tuple[str, RawId, RawId]
"""Category, process and thread of an event."""

GLOO_PREFIX: Final = "gloo:"
"""Prefix of the annotations of Gloo's collectives, which run on the host."""

MEMORY_EVENT_NAME: Final = "[memory]"
"""Name of the instants at which memory is allocated or freed."""

PROFILER_EVENT_PREFIXES: Final = ("Record Window End", "Iteration Start")
"""Prefixes of the profiler's own instants, which are not drawn."""


class EventColumns(NamedTuple):
    """Columns of complete events and instants; times in ns.

    `record` is the ordinal of the element in the segment. `signature`, `name` and `device` are codes of
    `SegmentColumns`; `device` is -1 on a host. Ids and `bytes` are -1 where missing. `collective` is true if the args
    name a collective or an engine that communicates, `copy` if they name an engine that copies.
    """

    record: Ints
    signature: CodeArray
    name: CodeArray
    start: Ints
    length: Ints
    correlation: Ints
    external: Ints
    device: CodeArray
    bytes: Ints
    collective: Mask
    copy: Mask

    def take(self, rows: Ints) -> EventColumns:
        """Columns of these rows."""
        return EventColumns(*(column.take(rows) for column in cast("tuple[Any, ...]", self)))


NO_EVENT_COLUMNS: Final = EventColumns(*(np.empty(0, dtype) for dtype in "qiiqqqqiq??"))


def is_device_event(signature: EventSignature) -> bool:
    """True if events of this signature are drawn on a device."""
    return parse_category(signature[0]).role not in ("thread", "none")


def may_have_wait_args(signature: EventSignature) -> bool:
    """True if events of this signature may record which stream or event was waited for."""
    return parse_category(signature[0]).role == "sync"


def may_have_call_args(signature: EventSignature) -> bool:
    """True if events of this signature may record the arguments of an operator call."""
    return parse_category(signature[0]).kind in ("op", "annotation")
