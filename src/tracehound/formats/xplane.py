"""XLA profiles as JAX, PyTorch/XLA and TensorFlow write them: ``*.xplane.pb``.

Owns the format: how a file is recognised, read into a part, and asked for the stats of one event. The structure of the
file is `xspace`'s, what its planes mean is `xla_planes`'.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tracehound.errors import TracehoundError
from tracehound.formats.assemble import Decoded, held, part
from tracehound.formats.format import Format, Portion, Progress
from tracehound.formats.inflate import section, whole
from tracehound.formats.spill import Spill
from tracehound.formats.wire import BYTES, VARINT, Bytes, WireError, bytes_of, field_at, fields, signed, varint
from tracehound.formats.xevents import DURATION_PS, EVENT_STAT, METADATA_ID, OFFSET_PS, Events, events
from tracehound.formats.xla_ops import Ops, programs
from tracehound.formats.xla_planes import (
    DEVICE,
    HOST,
    RUN_BITS,
    Gathered,
    add_cpu_devices,
    add_device,
    add_host,
    add_other,
)
from tracehound.formats.xspace import DISPLAYED, METADATA_STAT, NAME, Plane, Space, space_of
from tracehound.formats.xstats import Value, decoded, stats
from tracehound.trace import Note, Part

ENVIRONMENT = "Task Environment"
"""The plane whose stats tell when the session began and ended, on the wall clock."""

ABSOLUTE_NS = 10**15
"""Times of lines above this (11 days) are not counted from the session's start, but from 1970 or a boot."""

CONVERTED = b"\xef\xbf\xbd"
"""What a converter of text puts where bytes are no UTF-8."""


@dataclass(frozen=True)
class PlanePlace:
    """What the args of a plane's events need: names of stats, and where each metadata entry lies."""

    start: int
    end: int
    name: str
    stat_names: Mapping[int, str]
    metadata: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Places:
    """The planes of a file in its order."""

    planes: tuple[PlanePlace, ...]

    def of(self, record: int) -> PlanePlace:
        """The plane in which a record lies."""
        return self.planes[bisect_right([plane.start for plane in self.planes], record) - 1]


def matches(head: bytes) -> bool:
    """Whether the bytes begin an XSpace: a plane that begins with an id and a name, and holds what a plane may hold.

    One that went through a converter of text is taken too, so that reading can say what happened to it.
    """
    end = len(head)
    if head.startswith(b"\n") and CONVERTED in head and any(name in head[:64] for name in (b"/device:", b"/host:")):
        return True
    try:
        key, at = varint(head, 0, end)
        if key != 1 << 3 | BYTES:
            return False
        size, at = varint(head, at, end)
        return size > 0 and _is_plane(head, at, min(at + size, end), cut=at + size > end)
    except WireError:
        return False


_PLANE_WIRES = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: BYTES, 6: BYTES}


def _is_plane(head: bytes, at: int, end: int, *, cut: bool) -> bool:
    """Whether `[at, end)` reads as an XPlane, as far as it goes."""
    named = False
    while at < end:
        try:
            part, at = field_at(head, at, end)
        except WireError as error:
            return cut and error.overrun and named
        if _PLANE_WIRES.get(part.number) != part.wire:
            return False
        if part.number == 2:
            name = head[part.at : part.at + part.value]
            named = len(name) > 0 and name.isascii() and name.decode("ascii").isprintable()
        if not named and part.number > 2:
            return False
    return named


class Portioned(NamedTuple):
    """What one portion holds."""

    decoded: Decoded


def decode(path: Path, portion: Portion, spill: Spill, progress: Progress) -> Portioned:
    """One portion of a file. Raises TracehoundError when no plane of it can be kept."""
    data, notes = whole(path)
    file = bytes_of(data)
    del data
    space = space_of(file)
    _refuse_ruins(path, file, space)
    base_ns, wall_ns = _clock(space)
    ops = Ops(programs(space))
    gathered = Gathered(ops)
    told = _Telling(progress)
    left_out = _gather(file, space, gathered, lambda plane: events(file, plane, base_ns, told.add))
    return Portioned(
        Decoded(
            path=path,
            format=FORMAT.name,
            pieces=held(gathered.event_frame()),
            lanes=gathered.lane_frame(),
            ranks=gathered.rank_frame(),
            hosts=(", ".join(space.hostnames) or path.name.split(".xplane")[0],),
            wall_ns=wall_ns,
            ops=ops.frame(),
            facts=_facts(space, ops),
            notes=(*notes, *_notes(space), *left_out),
            places=_places(space),
        )
    )


def finish(path: Path, portions: Sequence[Portioned], spill: Spill) -> Part:
    """The part of all portions."""
    (portion,) = portions
    return part(portion.decoded, spill)


class _Telling:
    """Tells the progress of all planes as one."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._events = 0

    def add(self, at: int, count: int) -> None:
        """So many more events were found, the last at this byte."""
        self._events += count
        self._progress(at, self._events)


def _gather(file: Bytes, space: Space, gathered: Gathered, decode: Callable[[Plane], Events]) -> list[Note]:
    """Add plane after plane, devices first; notes of the events that are left out."""
    untimed = broken = 0
    planes = [plane for plane in space.planes if any(len(line.start) for line in plane.lines)]
    devices = [plane for plane in planes if DEVICE.match(plane.name)]
    for plane in devices:
        found = decode(plane)
        untimed, broken = untimed + found.untimed, broken + found.broken
        add_device(file, plane, found, gathered)
    tpu = any(rank["label"].startswith("TPU") for rank in gathered.ranks)
    accelerated = bool(gathered.ranks)
    for plane in planes:
        if DEVICE.match(plane.name):
            continue
        found = decode(plane)
        untimed, broken = untimed + found.untimed, broken + found.broken
        if not HOST.match(plane.name):
            add_other(plane, found, gathered)
            continue
        rows = add_host(plane, found, gathered, run_bits=RUN_BITS if tpu else -1)
        if not accelerated:
            add_cpu_devices(file, plane.name, rows, gathered)
    counts = ((untimed, "events that only count occurrences have no place in time"), (broken, "damaged events"))
    return [Note("dropped", text, count) for count, text in counts if count]


def _refuse_ruins(path: Path, file: Bytes, space: Space) -> None:
    """Raise where nothing can be kept, or where the bytes went through a converter of text."""
    damage = space.first_damage
    if damage is not None and file.data.count(CONVERTED) > file.size // 1000:
        raise TracehoundError(
            f"{damage.what}; this file looks text-converted (EF BF BD sequences), which cannot be undone",
            path, f"byte {damage.at:,}", "copy it again in binary mode",
        )  # fmt: skip
    if not space.planes:
        where = f"byte {damage.at:,}" if damage else ""
        raise TracehoundError("no plane of a profile can be read from it", path, where)


def _clock(space: Space) -> tuple[int, int | None]:
    """The time of lines (ns) that is 0 in the part, and its wall clock (Unix ns) where known."""
    start = next((plane.stats.get("profile_start_time") for plane in space.planes if plane.name == ENVIRONMENT), None)
    wall = start if isinstance(start, int) and start > 0 else None
    stamps = [line.timestamp_ns for plane in space.planes for line in plane.lines if len(line.start)]
    first = min(stamps, default=0)
    if first < ABSOLUTE_NS:
        return 0, wall
    return first, first if wall is None or first > wall // 2 else wall + first


def _facts(space: Space, ops: Ops) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for plane in space.planes:
        shown = {name: _shown(value) for name, value in plane.stats.items()}
        if plane.name in (ENVIRONMENT, "/host:metadata"):
            facts.update(shown)
        elif shown:
            facts.setdefault("planes", {})[plane.name] = shown
    facts["hostnames"] = list(space.hostnames)
    facts["programs"] = [
        {"name": one.name, "program": one.program, "hlo_offset": one.offset, "hlo_size": one.size}
        for one in ops.programs.values()
    ]
    return facts


def _shown(value: Value) -> Value:
    """A value as people and JSON can take it: bytes by their size."""
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else value


def _notes(space: Space) -> list[Note]:
    notes = [Note("info", f"the profiler reports an error: {text}") for text in space.errors]
    notes += [Note("info", f"the profiler warns: {text}") for text in space.warnings]
    return notes + space.notes


def _places(space: Space) -> Places:
    return Places(tuple(
        PlanePlace(
            plane.start, plane.end, plane.name, plane.stat_names,
            dict(zip(plane.metadata.ids.tolist(),
                     zip(plane.metadata.start.tolist(), plane.metadata.end.tolist(), strict=True), strict=True)),
        )
        for plane in space.planes
    ))  # fmt: skip


LONGEST_EVENT = 1 << 20
"""Bytes read to find one event again; stats are seldom longer than a hundred."""


def args(part: Part, record: int) -> dict[str, Any]:
    """All stats of the event that begins at byte `record` of the inflated file, and of its metadata.

    Names are resolved, bytes are shown by their size; where both have a stat, the event's own counts.
    """
    place = part.places.of(record)
    event = bytes_of(section(part.path, record, min(place.end - record, LONGEST_EVENT)))
    try:
        body, _ = field_at(event.data, 0, event.size)
        found = {item.number: item.value for item in fields(event.data, body.at, body.at + body.value)}
        own = _stats_in(event, body.at, body.at + body.value, EVENT_STAT, place.stat_names)
    except WireError as error:
        raise TracehoundError("the event cannot be found again; did the file change?", part.path,
                              f"byte {record:,}") from error  # fmt: skip
    shared = _metadata_args(part.path, place, signed(found.get(METADATA_ID, 0)))
    times = {"offset_ps": signed(found.get(OFFSET_PS, 0)), "duration_ps": signed(found.get(DURATION_PS, 0))}
    return {**shared, **own, **times}


def _metadata_args(path: Path, place: PlanePlace, metadata: int) -> dict[str, Any]:
    """What the metadata of an event says of it; nothing where that is damaged."""
    start, end = place.metadata.get(metadata, (0, 0))
    if start >= end:
        return {}
    entry = bytes_of(section(path, start, end - start))
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
    return {name: _shown(value) for _, name, value in decoded(file, table, names)}


FORMAT = Format("xplane", "XLA profile (xplane.pb)", matches, decode, finish, args, Places)
