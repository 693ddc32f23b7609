"""XLA profiles as JAX, PyTorch/XLA and TensorFlow write them: ``*.xplane.pb``.

Owns how a file is opened, dealt out to portions and finished. The structure of the file is
`xspace`'s, what its planes mean is `xla.columns`' and `xla.planes`', the stats of one event are `xplaces`'.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.errors import TracehoundError, file_name
from tracehound.file_facts import Claims, FileFacts, HloProgram, PlaneStats
from tracehound.formats.assembly.assemble import Decoded, part
from tracehound.formats.assembly.counters import with_others
from tracehound.formats.assembly.facets import beside, filed
from tracehound.formats.format import ALL, Portion, Progress, Reader, silent
from tracehound.formats.hlo.heap import buffers
from tracehound.formats.inflate import head, opened, whole
from tracehound.formats.signs import CONVERTED
from tracehound.formats.spill import Spill
from tracehound.formats.times import FARTHEST, LATEST, NO_CLOCK, wall_clock
from tracehound.formats.wire import File, Rows, ShortenedError, WireError
from tracehound.formats.xla.asides import with_asides
from tracehound.formats.xla.columns import read
from tracehound.formats.xla.counters import counted as counters_of
from tracehound.formats.xla.handed import handed
from tracehound.formats.xla.memory import counted
from tracehound.formats.xla.memory import gathered as in_order
from tracehound.formats.xla.ops import Meeting, Program, assigned, only, programs
from tracehound.formats.xla.plane_stats import plane_stats
from tracehound.formats.xla.planes import DEVICE, Share, Shown, shown, together
from tracehound.formats.xla.rows import Portioning
from tracehound.formats.xla.xevents import Stretched, TornError
from tracehound.formats.xla.xplaces import Places, args, places, readable
from tracehound.formats.xla.xspace import Extent, Plane, Space, followed, names_of_planes, probed, space_of
from tracehound.formats.xla.xstats import Value
from tracehound.notes import Note
from tracehound.trace import Part

ENVIRONMENT = "Task Environment"
"""The plane whose stats tell when the session began and ended, on the wall clock."""

ABSOLUTE_NS = 10**15
"""Times of lines above this (11 days) are not counted from the session's start, but from 1970 or a boot."""


class Outline(Struct, frozen=True):
    """What every portion knows of the whole file."""

    planes: tuple[Shown, ...]
    host: str
    wall_ns: int | None
    facts: FileFacts
    notes: tuple[Note, ...]
    places: Places
    programs: Mapping[str, int]
    buffers: pl.DataFrame | None
    devices: bool = False


class Portioned(NamedTuple):
    """What one portion holds; no share where the lines turned out to be cut in the wrong places."""

    outline: Outline
    share: Share | None


def decode(path: Path, portion: Portion, spill: Spill, progress: Progress) -> Portioned:
    """One portion of a file. Raises TracehoundError when no plane of it can be kept.

    Long lines are cut where an event seems to begin. Whoever reaches such a place decoding proves it; where that fails,
    the file is read once more, going from event to event, by whoever has all of it.
    """
    try:
        with _inflated(path, spill, portion) as (file, notes):
            found = _portion(path, file, notes, probed, portion, spill, progress)
            if found.share is None and portion.of == 1:
                return _portion(path, file, notes, followed, portion, spill, progress)
            return found
    except ShortenedError as error:
        raise TracehoundError("became shorter while it was read", path, remedy="wait until it is written") from error


def finish(path: Path, portions: Sequence[Portioned], spill: Spill) -> Part:
    """The part of all portions."""
    shares = [portion.share for portion in portions if portion.share is not None]
    outline = portions[0].outline
    if len(shares) < len(portions):
        return finish(path, [decode(path, ALL._replace(devices=outline.devices), spill, silent)], spill)
    pieces, gathered = together(outline.planes, shares, outline.programs, spill)
    ranks = gathered.rank_frame()
    held, unsized = in_order(kept.rows() for share in shares for kept in share.held)
    counters = counted(held, ranks)
    counting, told_of = counters_of((frame for share in shares for frame in share.sampled), outline.planes, ranks)
    launches = [kept.rows() for share in shares for kept in share.launched]
    launched = pl.concat(launches).sort("record") if launches else None
    frames = {"buffers": outline.buffers, "held": held, "launched": launched}
    told = {name: iter([frame]) for name, frame in frames.items() if frame is not None}
    told["handed"] = handed([piece.kept for piece in pieces])
    facets = beside(piece for name, each in told.items() for piece in filed(name, each, spill))
    del held, launches, launched, frames, told  # before what is large
    return part(
        Decoded(
            path=path,
            format="xplane",
            pieces=pieces,
            lanes=gathered.lane_frame(),
            ranks=ranks,
            hosts=(outline.host,),
            wall_ns=outline.wall_ns,
            ops=gathered.ops.frame(),
            facts=outline.facts,
            notes=(*outline.notes, *_left_out(shares), *unsized, *told_of),
            places=outline.places,
            counted="byte",
            facets=facets,
            counters=with_others(counters, counting),
        ),
        spill,
    )


def glance(path: Path) -> Claims:
    """The claims in the names of the planes: `devices` and `host`; of gzip those in its beginning."""
    with opened(path) as stream:
        compressed = stream.compressed
    if compressed:
        planes, hosts = names_of_planes(_of_bytes(head(path, _GLANCE)))
    else:
        with _mapped(path) as file:
            planes, hosts = names_of_planes(file)
    devices = [f"{named[1]}:{named[2]}" for name in planes if (named := DEVICE.match(name))]
    return Claims(devices=tuple(dict.fromkeys(devices)), host=", ".join(dict.fromkeys(hosts)))


_GLANCE = 1 << 20


@contextmanager
def _inflated(path: Path, spill: Spill, portion: Portion) -> Iterator[tuple[File, tuple[Note, ...]]]:
    """The inflated bytes: those of the file itself, else in a file of the spill's folder, else in memory."""
    with opened(path) as stream:
        if not stream.compressed:
            with _mapped(path) as file:
                yield file, ()
            return
        if spill.folder is None:
            data, notes = whole(path)
            yield _of_bytes(data), notes
            return
        inflated = spill.folder / f"inflated-{portion.number}"
        buffer = memoryview(bytearray(1 << 20))
        with inflated.open("wb") as out:
            while count := stream.readinto(buffer):
                out.write(buffer[:count])
        notes = (stream.damage.note(),) if stream.damage else ()
    with ExitStack() as opening:
        file = opening.enter_context(_mapped(inflated)) if inflated.stat().st_size else _of_bytes(b"")
        inflated.unlink()
        yield file, notes


def _of_bytes(data: bytes) -> File:
    return File(data, len(data))


@contextmanager
def _mapped(path: Path) -> Iterator[File]:
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        yield File(data, len(data), file.fileno())


def _portion(
    path: Path, file: File, notes: tuple[Note, ...], extent: Extent, portion: Portion, spill: Spill, progress: Progress
) -> Portioned:
    """One portion, with the lines cut by `extent`."""
    space = space_of(file, extent)
    _refuse_ruins(path, file, space)
    _leave_out_again(file, space)
    space.planes[:] = [_with_asides(plane) for plane in space.planes]
    base_ns, wall_ns = _clock(space)
    unclocked = [Note("dropped", NO_CLOCK, where=_START)] if _session_start(space) and wall_ns is None else []
    located = programs(file, space)
    facts = _facts(file, space, located)
    outline = Outline(
        planes=tuple(shown(plane) for plane in space.planes),
        host=", ".join(space.hostnames) or file_name(path).split(".xplane")[0],
        wall_ns=wall_ns,
        facts=facts,
        notes=(*notes, *unclocked, *_notes(space), *_ruined(facts.programs)),
        places=places(space),
        programs=only(located.values()),
        buffers=_buffers(file, located) if portion.number == 0 else None,
        devices=portion.devices,
    )
    portioning = Portioning(
        file=file,
        space=space,
        base_ns=base_ns,
        middle_ns=_middle(space),
        ops=Meeting(file, located),
        spill=spill,
        stem=f"{extent.__name__}-{portion.number}",
        tick=_Telling(progress).add,
        drawn=np.zeros(sum(len(plane.lines) for plane in space.planes), np.int64),
    )
    try:
        return Portioned(outline, read(portioning, _dealt(space, portion)))
    except TornError:
        return Portioned(outline, None)


def _leave_out_again(file: File, space: Space) -> None:
    """Leave out what is in the file for the second time, as in one that was joined to a copy of itself."""
    kept = list[Plane]()
    again = list[Plane]()
    for plane in space.planes:
        (again if any(_same(file, plane, other) for other in kept) else kept).append(plane)
    if again:
        space.planes[:] = kept
        space.hostnames[:] = dict.fromkeys(space.hostnames)
        space.notes.append(Note("repaired", "planes_doubled", len(again), where=f"byte {again[0].start:,}"))


def _same(file: File, one: Plane, other: Plane) -> bool:
    if (one.id, one.name, one.end - one.start) != (other.id, other.name, other.end - other.start):
        return False
    with memoryview(file.data) as data, data[one.start : one.end] as here, data[other.start : other.end] as there:
        return here == there


def _with_asides(plane: Plane) -> Plane:
    """The plane; a GPU's with the lines beside those of its streams."""
    gpu = (device := DEVICE.match(plane.name)) is not None and device[1] == "GPU"
    return replace(plane, lines=with_asides(plane.lines)) if gpu else plane


def _buffers(file: File, located: Mapping[int, Program]) -> pl.DataFrame | None:
    """What the programs keep in memory, by their buffer assignments; None where no proto has one."""
    pieces = (
        (one, file.piece((one.offset, one.offset + one.size))) for one in located.values() if one.size < LONGEST_PROTO
    )
    found = [buffers(piece, one.name, one.program) for one, piece in pieces]
    kept = [frame for frame in found if frame.height]
    return pl.concat(kept) if kept else None


LONGEST_PROTO: Final = 1 << 31
"""Bytes of an HLO proto: protobuf has no longer ones."""


def apart(path: Path) -> bool:
    """Whether all devices of a file are TPUs: nothing that their lanes show is made of what hosts did.

    On GPUs it is: the programs that their kernels belong to are those that hosts launched them in.
    """
    with opened(path) as stream:
        if stream.compressed:
            return False
    with _mapped(path) as file:
        kinds = {named[1] for name in names_of_planes(file)[0] if (named := DEVICE.match(name))}
    return kinds == {"TPU"}


def _dealt(space: Space, portion: Portion) -> list[tuple[int, Stretched]]:
    """The stretches of events of a portion, in the order of the file, and the planes that they are of.

    Portions are about equally many bytes. Where devices have no events, what hosts did counts.
    """
    devices = {number for number, plane in enumerate(space.planes) if plane.has_events and DEVICE.match(plane.name)}
    wanted = devices if portion.devices and devices else range(len(space.planes))
    stretches: list[tuple[int, Stretched]] = []
    line_number = 0
    for number, plane in enumerate(space.planes):
        for line in plane.lines:
            if number in wanted:
                stretches += [(number, Stretched(line_number, *stretch)) for stretch in line.stretches]
            line_number += 1
    size = np.array([one.end - one.start for _, one in stretches], np.int64)
    middle = np.cumsum(size) - size // 2
    owner: Rows = middle * portion.of // max(1, int(size.sum()))
    return [stretches[at] for at in np.flatnonzero(owner == portion.number).tolist()]


class _Telling:
    """Tells the progress of all slices, now and then."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bytes = self._events = self._told = 0

    def add(self, size: int, count: int) -> None:
        """So many more bytes were read, and so many more events were found."""
        self._bytes += size
        self._events += count
        if self._bytes - self._told >= _OFTEN:
            self._told = self._bytes
            self._progress(self._bytes, self._events)


_OFTEN = 1 << 22


def _left_out(shares: Sequence[Share]) -> list[Note]:
    """Notes of the events that no lane shows."""
    counts = (
        (sum(share.untimed for share in shares), "events_without_time"),
        (sum(share.broken for share in shares), "events_damaged"),
        (sum(share.unclocked for share in shares), NO_CLOCK),
    )
    return [Note("dropped", code, count) for count, code in counts if count]


def _refuse_ruins(path: Path, file: File, space: Space) -> None:
    """Raise where nothing can be kept, or where the bytes went through a converter of text."""
    damage = space.first_damage
    if damage is not None and _converted(file) > file.size // 1000:
        raise TracehoundError(
            f"{damage.what}; this file looks text-converted (EF BF BD sequences), which cannot be undone",
            path, f"byte {damage.at:,}", "copy it again in binary mode",
        )  # fmt: skip
    if not space.planes:
        where = f"byte {damage.at:,}" if damage else ""
        raise TracehoundError("no plane of a profile can be read from it", path, where)


def _converted(file: File) -> int:
    """How often a converter of text left its mark."""
    return sum(file.data[at : at + _OFTEN].count(CONVERTED) for at in range(0, file.size, _OFTEN))


def _clock(space: Space) -> tuple[int, int | None]:
    """The time of lines (ns) that is 0 in the part, and its wall clock (Unix ns) where known and possible."""
    start = _session_start(space)
    wall = wall_clock(start) if isinstance(start, int) else None
    middle = _middle(space)
    stamps = (line.timestamp_ns for plane in space.planes for line in plane.lines if line.stretches)
    first = min((stamp for stamp in stamps if abs(stamp - middle) < FARTHEST), default=0)
    if first < ABSOLUTE_NS:
        return 0, wall
    if wall is not None and first <= wall // 2:
        return first, wall_clock(wall + first)
    return first, first if first <= LATEST else None


_START: Final = "profile_start_time"
"""The stat with the wall clock (ns) at which the session began."""


def _middle(space: Space) -> int:
    """The time (ns) of the line that has the middle byte of all events; 0 without any."""
    size = Counter[int]()
    for plane in space.planes:
        for line in plane.lines:
            size[line.timestamp_ns] += sum(high - low for low, high in line.stretches)
    before, half = 0, size.total() / 2
    for stamp in sorted(size):
        before += size[stamp]
        if before > half:
            return stamp
    return 0


def _session_start(space: Space) -> Value | None:
    """The stat of the Task Environment plane that has the start of the session; None without one."""
    return next((plane.stats.get(_START) for plane in space.planes if plane.name == ENVIRONMENT), None)


def _facts(file: File, space: Space, located: Mapping[int, Program]) -> FileFacts:
    """The facts of a file: versions of its software, the stats of its planes, its programs."""
    versions, planes = dict[str, str](), dict[str, PlaneStats]()
    for plane in space.planes:
        if plane.name in (ENVIRONMENT, "/host:metadata"):
            named = {name: readable(value) for name, value in plane.stats.items() if name.endswith("_version")}
            versions.update({name: str(value) for name, value in named.items()})
        elif plane.stats:
            planes[plane.name] = plane_stats(plane.stats)
    programs = tuple(_program(file, one) for one in located.values())
    return FileFacts(versions=versions, planes=planes, programs=programs)


def _program(file: File, one: Program) -> HloProgram:
    """A program whose HLO the file has, and whether that is damaged."""
    try:
        replicas, partitions = assigned(file, one)
    except WireError:
        return HloProgram(one.name, one.program, one.offset, one.size, damaged=True)
    return HloProgram(one.name, one.program, one.offset, one.size, replicas, partitions)


def _ruined(located: Sequence[HloProgram]) -> list[Note]:
    """That the HLO of programs is damaged."""
    names = [one.name for one in located if one.damaged]
    return [Note("dropped", "hlo_proto_damaged", len(names), where=names[0])] if names else []


def _notes(space: Space) -> list[Note]:
    notes = [Note("info", "profiler_error", values=(("text", text),)) for text in space.errors]
    notes += [Note("info", "profiler_warning", values=(("text", text),)) for text in space.warnings]
    return [*notes, *_idle(space), *space.notes]


def _idle(space: Space) -> list[Note]:
    """A note of the devices that have a plane and no event, if there are any."""
    devices = [(device, plane) for plane in space.planes if (device := DEVICE.match(plane.name)) and not device[3]]
    names = [f"{device[1]}:{device[2]}" for device, plane in devices if not plane.has_events]
    return [Note("missing", "devices_without_events", len(names), values=(("names", tuple(names)),))] if names else []


READER: Final = Reader(decode, finish, args, Places, glance, apart)
