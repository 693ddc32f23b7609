"""Reader of XLA profiles (``*.xplane.pb``) as JAX, PyTorch/XLA and TensorFlow write them; their facet ``handed``."""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.errors import TracehoundError, printable_file_name
from tracehound.formats import WHOLE_FILE, FormatReader, Progress, WorkerShard, ignore_progress
from tracehound.formats.assembly.arrow_storage import scan_facets, store_facet
from tracehound.formats.assembly.counter_samples import append_counters
from tracehound.formats.assembly.event_batches import concat_column_sets
from tracehound.formats.assembly.file_assembly import DecodedFile, assemble_file
from tracehound.formats.file_signatures import REPLACEMENT_CHARACTER
from tracehound.formats.hlo.buffer_assignment import buffers_of_program
from tracehound.formats.inflate import open_stream, read_all, read_first_bytes
from tracehound.formats.protobuf_wire import FileShortenedError, InflatedFile, Offsets
from tracehound.formats.spill import MaskedColumn, Spill, SpilledRows, columns_to_frame
from tracehound.formats.value_bounds import CLOCK_IMPOSSIBLE, valid_wall_clock
from tracehound.formats.xplane.event_decoder import EventRange, WrongCutError
from tracehound.formats.xplane.plane_event_columns import decode_events_of_shard
from tracehound.formats.xplane.plane_lanes import (
    DEVICE_PLANE,
    PlaneSummary,
    ShardResult,
    add_side_lines,
    merge_shards,
    summarize_plane,
)
from tracehound.formats.xplane.plane_rows import ShardState
from tracehound.formats.xplane.xplane_args import PlaneLocations, locate_planes, read_args
from tracehound.formats.xplane.xplane_counters import allocator_counters, line_counters, merge_allocator_events
from tracehound.formats.xplane.xplane_facts import (
    ENVIRONMENT_PLANE,
    SESSION_START_STAT,
    SESSION_STOP_STAT,
    collect_file_facts,
    damaged_program_notes,
    middle_line_time,
    session_clock,
    session_start,
    space_notes,
)
from tracehound.formats.xplane.xplane_ops import (
    LocatedProgram,
    OpCollector,
    ProgramIndexes,
    ids_of_unique_programs,
    locate_programs,
)
from tracehound.formats.xplane.xspace import (
    EventLocator,
    XPlane,
    XSpace,
    follow_events,
    probe_events,
    read_space,
    read_space_names,
)
from tracehound.model.facet_schemas import FACET_SCHEMAS, LINK_COLUMNS
from tracehound.model.file_facts import FileFacts, NoDeviceWork, PeekedFacts
from tracehound.model.notes import Note
from tracehound.model.trace import FileFrames


class _LinkedRows(Struct, frozen=True, eq=False):
    """Rows of a chunk with links, and the first and last of their records."""

    spilled: SpilledRows
    rows: npt.NDArray[np.intp]
    first: int
    last: int

    def read(self) -> dict[str, MaskedColumn]:
        """Columns of the rows."""
        columns = self.spilled.read(0, self.spilled.height, ["record", *_link_columns(self.spilled)])
        return {name: column.take(self.rows) for name, column in columns.items()}


def producer_consumer_frames(chunks: Sequence[SpilledRows]) -> Iterator[pl.DataFrame]:
    """The facet in frames, ordered by record; events that derived lanes repeat are in it once.

    Chunks are read one after the other; only chunks that overlap in the file are read together.
    """
    waiting, last = list[_LinkedRows](), -1
    for linked in sorted(filter(None, map(_find_linked_rows, chunks)), key=lambda linked: linked.first):
        if waiting and linked.first > last:
            yield _merge_linked_rows(waiting)
            waiting = []
        waiting.append(linked)
        last = max(last, linked.last)
    if waiting:
        yield _merge_linked_rows(waiting)


def _link_columns(spilled: SpilledRows) -> list[str]:
    return [name for name in LINK_COLUMNS if name in spilled.dtypes]


def _find_linked_rows(spilled: SpilledRows) -> _LinkedRows | None:
    """Rows with links; None if the chunk has none."""
    columns = spilled.read(0, spilled.height, _link_columns(spilled))
    has_link = [np.ones(spilled.height, np.bool_) if valid is None else valid for _, valid in columns.values()]
    rows = np.flatnonzero(np.any(has_link, axis=0)) if has_link else np.empty(0, np.intp)
    if not len(rows):
        return None
    record = spilled.read(0, spilled.height, ["record"])["record"].values[rows]
    return _LinkedRows(spilled, rows, int(record.min()), int(record.max()))


def _merge_linked_rows(chunks: Sequence[_LinkedRows]) -> pl.DataFrame:
    columns = concat_column_sets([one.read() for one in chunks], [len(one.rows) for one in chunks])
    record = columns["record"].values
    order = np.argsort(record, kind="stable")
    order = order[np.flatnonzero(np.diff(record[order], prepend=-1))]
    return columns_to_frame({name: column.take(order) for name, column in columns.items()}, FACET_SCHEMAS["handed"])


class ProfileOutline(Struct, frozen=True):
    """Facts of the whole file, which every shard reads."""

    planes: tuple[PlaneSummary, ...]
    host: str
    wall_ns: int | None
    facts: FileFacts
    notes: tuple[Note, ...]
    places: PlaneLocations
    programs: Mapping[str, int]
    buffers: pl.DataFrame | None
    devices: bool = False


class XplaneShard(NamedTuple):
    """Result of one shard; None if a line was cut in the wrong place."""

    outline: ProfileOutline
    result: ShardResult | None


def decode_shard(path: Path, shard: WorkerShard, spill: Spill, progress: Progress) -> XplaneShard:
    """Decode one shard of a file. Raises TracehoundError if no plane of it is readable.

    Long lines are cut where an event seems to begin. The shard that ends there verifies the cut; if it is wrong, the
    whole file is read again, from event to event.
    """
    try:
        with _open_inflated(path, spill, shard) as (file, notes):
            decoded = _decode_with_locator(path, file, notes, probe_events, shard, spill, progress)
            if decoded.result is None and shard.of == 1:
                return _decode_with_locator(path, file, notes, follow_events, shard, spill, progress)
            return decoded
    except FileShortenedError as error:
        raise TracehoundError("became shorter while it was read", path, remedy="wait until it is written") from error


def build_file_frames(path: Path, shards: Sequence[XplaneShard], spill: Spill) -> FileFrames:
    """Frames of the file from all shards."""
    results = [shard.result for shard in shards if shard.result is not None]
    outline = shards[0].outline
    if len(results) < len(shards):
        return build_file_frames(
            path, [decode_shard(path, WHOLE_FILE._replace(devices=outline.devices), spill, ignore_progress)], spill
        )
    chunks, builder = merge_shards(outline.planes, results, outline.programs, spill)
    ranks = builder.rank_frame()
    memory_events, size_notes = merge_allocator_events(
        spilled.read_frame() for result in results for spilled in result.memory_events
    )
    memory_counters = allocator_counters(memory_events, ranks)
    sampled_counters, counter_notes = line_counters(
        (frame for result in results for frame in result.counter_samples), outline.planes, ranks
    )
    launch_frames = [spilled.read_frame() for result in results for spilled in result.kernel_launches]
    launched = pl.concat(launch_frames).sort("record") if launch_frames else None
    frames = {"buffers": outline.buffers, "held": memory_events, "launched": launched}
    facet_frames = {name: iter([frame]) for name, frame in frames.items() if frame is not None}
    facet_frames["handed"] = producer_consumer_frames([chunk.spilled for chunk in chunks])
    facets = scan_facets(
        piece for name, frames_of_facet in facet_frames.items() for piece in store_facet(name, frames_of_facet, spill)
    )
    del memory_events, launch_frames, launched, frames, facet_frames  # frees memory before the large step
    whole_file = assemble_file(
        DecodedFile(
            path=path,
            format="xplane",
            chunks=chunks,
            lanes=builder.lane_frame(),
            ranks=ranks,
            hosts=(outline.host,),
            wall_ns=outline.wall_ns,
            ops=builder.ops.frame(),
            facts=outline.facts,
            notes=(*outline.notes, *_dropped_event_notes(results), *size_notes, *counter_notes),
            places=outline.places,
            counted="byte",
            facets=facets,
            counters=append_counters(memory_counters, sampled_counters),
        ),
        spill,
    )
    if any(result.unnamed for result in results) and not whole_file.lanes.filter("work")["events"].sum():
        return replace(whole_file, facts=replace(whole_file.facts, host_only=NoDeviceWork(severed=True)))
    return whole_file


def read_claims(path: Path) -> PeekedFacts:
    """Claims in the names of the planes (`devices` and `host`), and the start and end of the session.

    Of a gzip file only its beginning is read.
    """
    with open_stream(path) as stream:
        compressed = stream.compressed
    if compressed:
        names = read_space_names(_file_in_memory(read_first_bytes(path, _PEEKED_BYTES)), ENVIRONMENT_PLANE)
    else:
        with _map_file(path) as file:
            names = read_space_names(file, ENVIRONMENT_PLANE)
    devices = [f"{named[1]}:{named[2]}" for name in names.planes if (named := DEVICE_PLANE.match(name))]
    start, end = (
        valid_wall_clock(stamp) if isinstance(stamp := names.environment.get(stat), int) else None
        for stat in (SESSION_START_STAT, SESSION_STOP_STAT)
    )
    return PeekedFacts(
        devices=tuple(dict.fromkeys(devices)),
        host=", ".join(dict.fromkeys(names.hosts)),
        start_ns=start,
        end_ns=end,
        wall=start is not None,
    )


_PEEKED_BYTES = 1 << 20


@contextmanager
def _open_inflated(path: Path, spill: Spill, shard: WorkerShard) -> Iterator[tuple[InflatedFile, tuple[Note, ...]]]:
    """Inflated bytes: the file itself, else a file in the spill's folder, else memory."""
    with open_stream(path) as stream:
        if not stream.compressed:
            with _map_file(path) as file:
                yield file, ()
            return
        if spill.folder is None:
            data, notes = read_all(path)
            yield _file_in_memory(data), notes
            return
        inflated = spill.folder / f"inflated-{shard.number}"
        buffer = memoryview(bytearray(1 << 20))
        with inflated.open("wb") as inflated_file:
            while count := stream.readinto(buffer):
                inflated_file.write(buffer[:count])
        notes = (stream.damage.note(),) if stream.damage else ()
    with ExitStack() as opening:
        file = opening.enter_context(_map_file(inflated)) if inflated.stat().st_size else _file_in_memory(b"")
        inflated.unlink()
        yield file, notes


def _file_in_memory(data: bytes) -> InflatedFile:
    return InflatedFile(data, len(data))


@contextmanager
def _map_file(path: Path) -> Iterator[InflatedFile]:
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        yield InflatedFile(data, len(data), file.fileno())


def _decode_with_locator(
    path: Path,
    file: InflatedFile,
    notes: tuple[Note, ...],
    locate_events: EventLocator,
    shard: WorkerShard,
    spill: Spill,
    progress: Progress,
) -> XplaneShard:
    """Decode one shard, with the lines cut by `locate_events`."""
    space = read_space(file, locate_events)
    _reject_unreadable(path, file, space)
    _drop_repeated_planes(file, space)
    space.planes[:] = [_with_side_lines(plane, space.noted_ends) for plane in space.planes]
    base_ns, wall_ns = session_clock(space)
    clock_notes = (
        [Note("dropped", CLOCK_IMPOSSIBLE, where=SESSION_START_STAT)]
        if session_start(space) and wall_ns is None
        else []
    )
    programs, indexes = locate_programs(file, space), ProgramIndexes(file)
    facts = collect_file_facts(file, space, programs)
    outline = ProfileOutline(
        planes=tuple(summarize_plane(plane) for plane in space.planes),
        host=", ".join(space.hostnames) or printable_file_name(path).split(".xplane")[0],
        wall_ns=wall_ns,
        facts=facts,
        notes=(*notes, *clock_notes, *space_notes(space), *damaged_program_notes(facts.programs)),
        places=locate_planes(space),
        programs=ids_of_unique_programs(programs.values()),
        buffers=_read_hlo_buffers(file, programs, indexes) if shard.number == 0 else None,
        devices=shard.devices,
    )
    state = ShardState(
        file=file,
        space=space,
        base_ns=base_ns,
        middle_ns=middle_line_time(space),
        ops=OpCollector(file, programs, indexes),
        spill=spill,
        stem=f"{locate_events.__name__}-{shard.number}",
        tick=_ProgressReporter(progress).add,
        event_counts=np.zeros(sum(len(plane.lines) for plane in space.planes), np.int64),
    )
    try:
        return XplaneShard(outline, decode_events_of_shard(state, _ranges_of_shard(space, shard)))
    except WrongCutError:
        return XplaneShard(outline, None)


def _drop_repeated_planes(file: InflatedFile, space: XSpace) -> None:
    """Drop repeated planes, as in a file that was joined to a copy of itself."""
    first_planes = list[XPlane]()
    repeated = list[XPlane]()
    for plane in space.planes:
        (repeated if any(_have_same_bytes(file, plane, other) for other in first_planes) else first_planes).append(
            plane
        )
    if repeated:
        space.planes[:] = first_planes
        space.hostnames[:] = dict.fromkeys(space.hostnames)
        space.notes.append(Note("repaired", "planes_doubled", len(repeated), where=f"byte {repeated[0].start:,}"))


def _have_same_bytes(file: InflatedFile, one: XPlane, other: XPlane) -> bool:
    if (one.id, one.name, one.end - one.start) != (other.id, other.name, other.end - other.start):
        return False
    with (
        memoryview(file.data) as data,
        data[one.start : one.end] as bytes_,
        data[other.start : other.end] as other_bytes,
    ):
        return bytes_ == other_bytes


def _with_side_lines(plane: XPlane, damaged_ends: Collection[int]) -> XPlane:
    """The plane; for a device with the side lines of its lines. `damaged_ends` are the ends of damaged messages."""
    if (device := DEVICE_PLANE.match(plane.name)) is None:
        return plane
    lost_names = plane.end in damaged_ends or not len(plane.metadata.ids)
    if device[1] == "TPU" and not lost_names:
        return plane
    return replace(plane, lines=add_side_lines(plane.lines, unnamed=lost_names))


def _read_hlo_buffers(
    file: InflatedFile, programs: Mapping[int, LocatedProgram], indexes: ProgramIndexes
) -> pl.DataFrame | None:
    """Buffers of the programs, from their buffer assignments; None if no proto has one."""
    protos = (
        (one, file.read_intervals((one.offset, one.offset + one.size)))
        for one in programs.values()
        if one.size < MAX_PROTO_BYTES
    )
    frames = [buffers_of_program(proto, one.name, one.program, partial(indexes.index, one)) for one, proto in protos]
    non_empty = [frame for frame in frames if frame.height]
    return pl.concat(non_empty) if non_empty else None


MAX_PROTO_BYTES: Final = 1 << 31
"""Maximum size of an HLO proto in protobuf."""


def has_only_tpus(path: Path) -> bool:
    """True if all devices of a file are TPUs, whose lanes do not depend on host events.

    The lanes of other devices do: their kernels belong to the programs in which hosts launched them.
    """
    with open_stream(path) as stream:
        if stream.compressed:
            return False
    with _map_file(path) as file:
        kinds = {
            match[1] for name in read_space_names(file, ENVIRONMENT_PLANE).planes if (match := DEVICE_PLANE.match(name))
        }
    return kinds == {"TPU"}


def _ranges_of_shard(space: XSpace, shard: WorkerShard) -> list[tuple[int, EventRange]]:
    """Ranges of events of a shard, in the order of the file, with the numbers of their planes.

    Shards have about the same number of bytes. If no device has events, host planes count.
    """
    devices = {
        number for number, plane in enumerate(space.planes) if plane.has_events and DEVICE_PLANE.match(plane.name)
    }
    plane_numbers = devices if shard.devices and devices else range(len(space.planes))
    ranges: list[tuple[int, EventRange]] = []
    line_number = 0
    for number, plane in enumerate(space.planes):
        for line in plane.lines:
            if number in plane_numbers:
                ranges += [(number, EventRange(line_number, *byte_range)) for byte_range in line.ranges]
            line_number += 1
    size = np.array([one.end - one.start for _, one in ranges], np.int64)
    middle = np.cumsum(size) - size // 2
    shard_of_range: Offsets = middle * shard.of // max(1, int(size.sum()))
    return [ranges[at] for at in np.flatnonzero(shard_of_range == shard.number).tolist()]


class _ProgressReporter:
    """Reports the progress of decoding from time to time."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bytes = self._events = self._reported_bytes = 0

    def add(self, size: int, count: int) -> None:
        """Add bytes that were read, and events that were found."""
        self._bytes += size
        self._events += count
        if self._bytes - self._reported_bytes >= _BYTES_PER_REPORT:
            self._reported_bytes = self._bytes
            self._progress(self._bytes, self._events)


_BYTES_PER_REPORT = 1 << 22


def _dropped_event_notes(results: Sequence[ShardResult]) -> list[Note]:
    """Notes of the events that no lane shows."""
    counts = (
        (sum(result.without_time for result in results), "events_without_time"),
        (sum(result.damaged for result in results), "events_damaged"),
        (sum(result.unnamed for result in results), "device_events_unnamed"),
        (sum(result.bad_clocks for result in results), CLOCK_IMPOSSIBLE),
    )
    return [Note("dropped", code, count) for count, code in counts if count]


def _reject_unreadable(path: Path, file: InflatedFile, space: XSpace) -> None:
    """Raise if no plane is readable, or if the file went through a text converter."""
    damage = space.first_damage
    if damage is not None and _count_text_conversions(file) > file.size // 1000:
        raise TracehoundError(
            f"{damage.what}; this file looks text-converted (EF BF BD sequences), which cannot be undone",
            path, f"byte {damage.at:,}", "copy it again in binary mode",
        )  # fmt: skip
    if not space.planes:
        where = f"byte {damage.at:,}" if damage else ""
        raise TracehoundError("no plane of a profile can be read from it", path, where)


def _count_text_conversions(file: InflatedFile) -> int:
    """Number of traces that a text converter left in the file."""
    return sum(
        file.data[at : at + _BYTES_PER_REPORT].count(REPLACEMENT_CHARACTER)
        for at in range(0, file.size, _BYTES_PER_REPORT)
    )


READER: Final = FormatReader(decode_shard, build_file_frames, read_args, PlaneLocations, read_claims, has_only_tpus)
