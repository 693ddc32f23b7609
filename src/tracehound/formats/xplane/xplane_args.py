"""Args of an event of an XSpace, read from the file on request."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from tracehound.errors import TracehoundError
from tracehound.formats.inflate import SectionReader, read_section
from tracehound.formats.protobuf_wire import (
    BYTES,
    PaddedBytes,
    WireError,
    as_signed,
    iterate_fields,
    pad_bytes,
    read_field,
)
from tracehound.formats.xplane.event_decoder import DURATION_PS, EVENT_STAT, METADATA_ID, OFFSET_PS
from tracehound.formats.xplane.plane_metadata import (
    METADATA_DISPLAY_NAME,
    METADATA_NAME,
    METADATA_STAT,
    StatValue,
    decode_stats,
    iterate_stat_values,
)
from tracehound.formats.xplane.xspace import XPlane, XSpace
from tracehound.model.trace import FileFrames


class PlaneLocation(Struct, frozen=True):
    """Bounds of a plane, its stat names, and the location of each metadata entry.

    `metadata` is an array of int64: the ids in ascending order, then the start of each entry, then the end of each.
    """

    start: int
    end: int
    name: str
    stat_names: dict[int, str]
    metadata: bytes

    def entry(self, id_: int) -> tuple[int, int]:
        """Bounds of the metadata with this id; (0, 0) if there is none."""
        ids, start, end = np.frombuffer(self.metadata, np.int64).reshape(3, -1)
        at = int(np.searchsorted(ids, id_))
        return (int(start[at]), int(end[at])) if at < len(ids) and ids[at] == id_ else (0, 0)


class PlaneLocations(Struct, frozen=True):
    """Planes of a file in the order of the file; can be written as msgpack."""

    planes: tuple[PlaneLocation, ...]

    def plane_at(self, record: int) -> PlaneLocation:
        """The plane in which a record lies."""
        return self.planes[bisect_right([plane.start for plane in self.planes], record) - 1]


def locate_planes(space: XSpace) -> PlaneLocations:
    """Locations of all planes."""
    return PlaneLocations(tuple(_locate_plane(plane) for plane in space.planes))


def _locate_plane(plane: XPlane) -> PlaneLocation:
    table = plane.metadata
    located = np.concatenate([table.ids, table.start, table.end]).tobytes()
    return PlaneLocation(plane.start, plane.end, plane.name, dict(plane.stat_names), located)


MAX_EVENT_BYTES = 1 << 20
"""Bytes that are read to find one event; stats are seldom longer than a hundred bytes."""


def read_args(part: FileFrames, record: int, /, read: SectionReader = read_section) -> dict[str, Any]:
    """All stats of the event that begins at byte `record` of the inflated file, and of its metadata.

    Names are resolved, bytes are replaced by their size; the event's own stats take precedence.
    """
    plane = part.places.plane_at(record)
    event = pad_bytes(read(part.path, record, min(plane.end - record, MAX_EVENT_BYTES), part.state))
    try:
        body, _ = read_field(event.data, 0, event.size)
        fields = {item.number: item.value for item in iterate_fields(event.data, body.at, body.at + body.value)}
        event_stats = _stats_of_message(event, body.at, body.at + body.value, EVENT_STAT, plane.stat_names)
    except WireError as error:
        raise TracehoundError("the event cannot be found again; did the file change?", part.path,
                              f"byte {record:,}") from error  # fmt: skip
    metadata_args = _metadata_args(part, plane, read, as_signed(fields.get(METADATA_ID, 0)))
    times = {"offset_ps": as_signed(fields.get(OFFSET_PS, 0)), "duration_ps": as_signed(fields.get(DURATION_PS, 0))}
    return {**metadata_args, **event_stats, **times}


def _metadata_args(frames: FileFrames, plane: PlaneLocation, read: SectionReader, metadata: int) -> dict[str, Any]:
    """Args in the metadata of an event; empty if it is damaged."""
    start, end = plane.entry(metadata)
    if start >= end:
        return {}
    entry = pad_bytes(read(frames.path, start, end - start, frames.state))
    try:
        texts = {
            part.number: entry.text(part.at, part.at + part.value)
            for part in iterate_fields(entry.data, 0, entry.size)
            if part.wire == BYTES and part.number in (METADATA_NAME, METADATA_DISPLAY_NAME)
        }
        stats = _stats_of_message(entry, 0, entry.size, METADATA_STAT, plane.stat_names)
    except WireError:
        return {}
    long = {"long_name": texts[METADATA_NAME]} if texts.get(METADATA_DISPLAY_NAME) and METADATA_NAME in texts else {}
    return long | stats


def _stats_of_message(file: PaddedBytes, start: int, end: int, number: int, names: Mapping[int, str]) -> dict[str, Any]:
    """Printable stats in the fields `number` of a message."""
    spans = [
        (part.at, part.at + part.value)
        for part in iterate_fields(file.data, start, end)
        if (part.number, part.wire) == (number, BYTES)
    ]
    low, high = np.array(spans, np.int64).reshape(-1, 2).T
    table = decode_stats(file, np.zeros_like(low), np.ascontiguousarray(low), np.ascontiguousarray(high))
    return {name: printable_value(value) for _, name, value in iterate_stat_values(file, table, names)}


def printable_value(value: StatValue) -> StatValue:
    """A value that can be printed and written as JSON: bytes as their size."""
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else value
