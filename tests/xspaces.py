"""XSpaces for tests: written from plain values, and read back by a slow, obvious reader."""

from __future__ import annotations

import struct

from msgspec import Struct, field

MASK = (1 << 64) - 1


def varint(value: int) -> bytes:
    value &= MASK
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def whole(number: int, value: int) -> bytes:
    """A varint field."""
    return varint(number << 3) + varint(value)


def block(number: int, content: bytes | str) -> bytes:
    """A field of bytes, text or a message."""
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


class Stat(Struct):
    """`kind` is the number of the field that holds the value."""

    name: str
    kind: int
    value: int | float | str | bytes


class Event(Struct):
    name: str
    offset: int = 0
    duration: int = 0
    stats: list[Stat] = field(default_factory=list)
    occurrences: int | None = None
    junk: bytes = b""


class Line(Struct):
    name: str
    events: list[Event]
    id: int = 1
    timestamp_ns: int = 0
    display_id: int = 0


class Plane(Struct):
    name: str
    lines: list[Line] = field(default_factory=list)
    stats: list[Stat] = field(default_factory=list)
    metadata_stats: dict[str, list[Stat]] = field(default_factory=dict)
    displayed: dict[str, str] = field(default_factory=dict)
    first_id: int = 1
    tables_first: bool = False


def space(*planes: Plane, hostname: str = "") -> bytes:
    """The bytes of an XSpace."""
    return b"".join(block(1, plane_bytes(plane)) for plane in planes) + (block(4, hostname) if hostname else b"")


class _Ids:
    def __init__(self, first: int) -> None:
        self.first = first
        self.known: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.known.setdefault(name, self.first + len(self.known))


def plane_bytes(plane: Plane) -> bytes:
    events, stats = _Ids(plane.first_id), _Ids(1)
    lines = b"".join(block(3, _line(line, events, stats)) for line in plane.lines)
    for name in plane.metadata_stats:
        events(name)
    metadata = b""
    for name, id_ in events.known.items():
        value = whole(1, id_) + block(2, name)
        if name in plane.displayed:
            value += block(4, plane.displayed[name])
        value += b"".join(block(5, _stat(stat, stats)) for stat in plane.metadata_stats.get(name, ()))
        metadata += block(4, whole(1, id_) + block(2, value))
    own = b"".join(block(6, _stat(stat, stats)) for stat in plane.stats)
    names = b"".join(block(5, whole(1, id_) + block(2, whole(1, id_) + block(2, name)))
                     for name, id_ in stats.known.items())  # fmt: skip
    body = metadata + names + lines if plane.tables_first else lines + metadata + names
    return whole(1, 3) + block(2, plane.name) + body + own


def _line(line: Line, events: _Ids, stats: _Ids) -> bytes:
    head = whole(1, line.id) + block(2, line.name) + whole(3, line.timestamp_ns)
    tail = whole(10, line.display_id) if line.display_id else b""
    return head + b"".join(block(4, _event(event, events, stats)) for event in line.events) + tail


def _event(event: Event, events: _Ids, stats: _Ids) -> bytes:
    out = whole(1, events(event.name))
    out += whole(2, event.offset) if event.occurrences is None else whole(5, event.occurrences)
    out += whole(3, event.duration) if event.duration else b""
    return out + event.junk + b"".join(block(4, _stat(stat, stats)) for stat in event.stats)


def _stat(stat: Stat, stats: _Ids) -> bytes:
    name = whole(1, stats(stat.name))
    if stat.kind == 2:
        return name + varint(2 << 3 | 1) + struct.pack("<d", stat.value)
    if stat.kind in (5, 6):
        return name + block(stat.kind, stat.value)
    return name + whole(stat.kind, stats(stat.value) if stat.kind == 7 else stat.value)


def integers(event: Event, shared: list[Stat]) -> dict[str, int]:
    """The integer stats that count for an event: its own before those of its metadata, the last of equal names."""
    return {s.name: _signed(s.value) for stats in (shared, event.stats) for s in stats if s.kind in (3, 4)}


def texts(event: Event, shared: list[Stat]) -> dict[str, str]:
    """The same of its texts."""
    return {s.name: s.value for stats in (shared, event.stats) for s in stats if s.kind in (5, 7)}


def _signed(value: int) -> int:
    value &= MASK
    return value - (1 << 64) if value >> 63 else value
