"""Everything that one event of an XSpace carries, read from the file when someone asks.

Owns where the args of an event are found again. Knows no lane and no kind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from tracehound.errors import TracehoundError
from tracehound.formats.inflate import Section, section
from tracehound.formats.wire import BYTES, Bytes, WireError, bytes_of, field_at, fields, signed
from tracehound.formats.xla.xevents import DURATION_PS, EVENT_STAT, METADATA_ID, OFFSET_PS
from tracehound.formats.xla.xmetadata import DISPLAYED, METADATA_STAT, NAME
from tracehound.formats.xla.xspace import Plane, Space
from tracehound.formats.xla.xstats import Value, decoded, stats
from tracehound.trace import Part


class PlanePlace(Struct, frozen=True):
    """What the args of a plane's events need: names of stats, and where each metadata entry lies.

    `metadata` is an array of int64: the ids in ascending order, then where each entry starts, then where each ends.
    """

    start: int
    end: int
    name: str
    stat_names: dict[int, str]
    metadata: bytes

    def entry(self, id_: int) -> tuple[int, int]:
        """Where the metadata with this id lies; nowhere if there is none."""
        ids, start, end = np.frombuffer(self.metadata, np.int64).reshape(3, -1)
        at = int(np.searchsorted(ids, id_))
        return (int(start[at]), int(end[at])) if at < len(ids) and ids[at] == id_ else (0, 0)


class Places(Struct, frozen=True):
    """The planes of a file in its order; can be written as msgpack."""

    planes: tuple[PlanePlace, ...]

    def of(self, record: int) -> PlanePlace:
        """The plane in which a record lies."""
        return self.planes[bisect_right([plane.start for plane in self.planes], record) - 1]


def places(space: Space) -> Places:
    """What the args of all planes need."""
    return Places(tuple(_place(plane) for plane in space.planes))


def _place(plane: Plane) -> PlanePlace:
    table = plane.metadata
    located = np.concatenate([table.ids, table.start, table.end]).tobytes()
    return PlanePlace(plane.start, plane.end, plane.name, dict(plane.stat_names), located)


LONGEST_EVENT = 1 << 20
"""Bytes read to find one event again; stats are seldom longer than a hundred."""


def args(part: Part, record: int, /, read: Section = section) -> dict[str, Any]:
    """All stats of the event that begins at byte `record` of the inflated file, and of its metadata.

    Names are resolved, bytes are shown by their size; where both have a stat, the event's own counts.
    """
    place = part.places.of(record)
    event = bytes_of(read(part.path, record, min(place.end - record, LONGEST_EVENT), part.state))
    try:
        body, _ = field_at(event.data, 0, event.size)
        found = {item.number: item.value for item in fields(event.data, body.at, body.at + body.value)}
        own = _stats_in(event, body.at, body.at + body.value, EVENT_STAT, place.stat_names)
    except WireError as error:
        raise TracehoundError("the event cannot be found again; did the file change?", part.path,
                              f"byte {record:,}") from error  # fmt: skip
    shared = _metadata_args(part, place, read, signed(found.get(METADATA_ID, 0)))
    times = {"offset_ps": signed(found.get(OFFSET_PS, 0)), "duration_ps": signed(found.get(DURATION_PS, 0))}
    return {**shared, **own, **times}


def _metadata_args(of: Part, place: PlanePlace, read: Section, metadata: int) -> dict[str, Any]:
    """What the metadata of an event says of it; nothing where that is damaged."""
    start, end = place.entry(metadata)
    if start >= end:
        return {}
    entry = bytes_of(read(of.path, start, end - start, of.state))
    try:
        texts = {
            part.number: entry.text(part.at, part.at + part.value)
            for part in fields(entry.data, 0, entry.size)
            if part.wire == BYTES and part.number in (NAME, DISPLAYED)
        }
        carried = _stats_in(entry, 0, entry.size, METADATA_STAT, place.stat_names)
    except WireError:
        return {}
    long = {"long_name": texts[NAME]} if texts.get(DISPLAYED) and NAME in texts else {}
    return long | carried


def _stats_in(file: Bytes, start: int, end: int, number: int, names: Mapping[int, str]) -> dict[str, Any]:
    """The stats in the fields `number` of a message, as people can read them."""
    spans = [
        (part.at, part.at + part.value)
        for part in fields(file.data, start, end)
        if (part.number, part.wire) == (number, BYTES)
    ]
    low, high = np.array(spans, np.int64).reshape(-1, 2).T
    table = stats(file, np.zeros_like(low), np.ascontiguousarray(low), np.ascontiguousarray(high))
    return {name: readable(value) for _, name, value in decoded(file, table, names)}


def readable(value: Value) -> Value:
    """A value as people and JSON can take it: bytes by their size."""
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else value
