"""A glance at a captured XSpace: are there events, on which planes, and which time does it cover.

Reads the few fields that say so and skips all others, so it costs milliseconds whatever the size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from tracehound.formats.protobuf_wire import BYTES, VARINT, WireField, iterate_fields
from tracehound.formats.xplane.plane_lanes import DEVICE_PLANE
from tracehound.formats.xplane.xplane_facts import ENVIRONMENT_PLANE, SESSION_START_STAT

SESSION_STOP_STAT: Final = "profile_stop_time"
"""Stat with the wall clock (ns) at the end of the session."""

PROCESS_STAT: Final = "process_id"
"""Stat with the id of the process, in its own container."""

_FACT_PLANES: Final = (ENVIRONMENT_PLANE, "/host:metadata")
"""Planes whose stats are about the session."""

# XSpace
_PLANES, _ERRORS = 1, 2

# XPlane
_PLANE_NAME, _LINES, _STAT_METADATA, _STATS = 2, 3, 5, 6

# XLine
_EVENTS = 4

# entries of the map of stat names, and XStat
_KEY, _VALUE, _NAME = 1, 2, 2
_STAT_NAME, _UINT64_VALUE, _INT64_VALUE = 1, 3, 4


class XSpaceContents(Struct, frozen=True):
    """The contents of an XSpace: planes of devices with and without events, and errors.

    Its time (Unix ns) and the id of its process are 0 where they are not recorded.
    """

    has_events: bool
    active_devices: int = 0
    idle_devices: int = 0
    errors: tuple[str, ...] = ()
    start_ns: int = 0
    stop_ns: int = 0
    process_id: int = 0

    @property
    def seconds(self) -> float:
        """The length of the recorded time; 0 if it is not known."""
        return max(0, self.stop_ns - self.start_ns) / 1e9 if self.start_ns else 0.0


def inspect_xspace(data: bytes, start: int, end: int) -> XSpaceContents:
    """The contents of the XSpace at `[start, end)`. Raises WireError if it is none."""
    planes = list[_PlaneContents]()
    errors = list[str]()
    for part in _sized_fields(data, start, end):
        if part.number == _PLANES:
            planes.append(_inspect_plane(data, part.at, part.at + part.value))
        elif part.number == _ERRORS:
            errors.append(_text(data, part))
    devices = [plane.has_events for plane in planes if (device := DEVICE_PLANE.match(plane.name)) and not device[3]]
    facts = {name: value for plane in planes for name, value in plane.facts.items()}
    return XSpaceContents(
        has_events=any(plane.has_events for plane in planes),
        active_devices=sum(devices),
        idle_devices=len(devices) - sum(devices),
        errors=tuple(errors),
        start_ns=facts.get(SESSION_START_STAT, 0),
        stop_ns=facts.get(SESSION_STOP_STAT, 0),
        process_id=facts.get(PROCESS_STAT, 0),
    )


class _PlaneContents(Struct, frozen=True):
    name: str
    has_events: bool
    facts: dict[str, int]


def _inspect_plane(data: bytes, start: int, end: int) -> _PlaneContents:
    """Name and events of a plane, and the numbers of the planes about the session; stops at the first event."""
    name, names, numbers = "", dict[int, str](), dict[int, int]()
    for part in _sized_fields(data, start, end):
        low, high = part.at, part.at + part.value
        if part.number == _PLANE_NAME:
            name = _text(data, part)
        elif part.number == _LINES and _has_events(data, low, high):
            return _PlaneContents(name, has_events=True, facts={})
        elif name in _FACT_PLANES and part.number == _STAT_METADATA:
            names.update(_stat_names(data, low, high))
        elif name in _FACT_PLANES and part.number == _STATS:
            stat = {each.number: each.value for each in iterate_fields(data, low, high) if each.wire == VARINT}
            numbers[stat.get(_STAT_NAME, 0)] = stat.get(_UINT64_VALUE, stat.get(_INT64_VALUE, 0))
    facts = {names[number]: value for number, value in numbers.items() if number in names}
    return _PlaneContents(name, has_events=False, facts=facts)


def _has_events(data: bytes, start: int, end: int) -> bool:
    return any(part.number == _EVENTS for part in _sized_fields(data, start, end))


def _stat_names(data: bytes, start: int, end: int) -> dict[int, str]:
    """The number and the name of a stat, from an entry of the map of stat metadata."""
    entry = {part.number: part for part in iterate_fields(data, start, end)}
    value = entry.get(_VALUE)
    if _KEY not in entry or value is None or value.wire != BYTES:
        return {}
    named = [part for part in _sized_fields(data, value.at, value.at + value.value) if part.number == _NAME]
    return {entry[_KEY].value: _text(data, named[-1])} if named else {}


def _sized_fields(data: bytes, start: int, end: int) -> Iterator[WireField]:
    """The fields of a message that have a length: texts and messages."""
    return (part for part in iterate_fields(data, start, end) if part.wire == BYTES)


def _text(data: bytes, part: WireField) -> str:
    return data[part.at : part.at + part.value].decode("utf-8", "replace")
