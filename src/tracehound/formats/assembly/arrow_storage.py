"""Events and facets of one file in Arrow files: written batch by batch, scanned, and read in the order of time.

Events of schema `EVENTS` are packed so that zstd writes them three times faster: a time is two columns of 32 bits, of
which one hardly changes; a length stands for an end, a difference for an id or for the time by another clock; the id
itself is the row. A facet has a file of its own for each group of segments. Few rows share a file, unpacked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path
from statistics import median_low
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl
from isal import isal_zlib

from tracehound.formats.assembly.event_batches import BATCH_SIZE, concat_column_sets
from tracehound.formats.spill import MaskedColumn, Spill, SpilledRows, columns_to_frame, frame_to_columns
from tracehound.model.deferred_frames import DeferredFacets, FacetsInMemory, FrameInMemory
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.trace import EVENTS, collect_frame
from tracehound.numeric.intervals import Ints, Mask
from tracehound.system.malloc import return_free_memory


def to_arrow_bytes(frame: pl.DataFrame, compression: Literal["uncompressed", "zstd"] = "uncompressed") -> bytes:
    """The frame as an Arrow IPC stream.

    A clone of the frame (without copies of its columns) is written: polars locks the frame while it writes and waits
    for the interpreter with each chunk, and a thread that reads the height of the locked frame holds the interpreter,
    so both would wait forever.
    """
    content = BytesIO()
    frame.clone().write_ipc_stream(content, compression=compression)
    return content.getvalue()


_SPLIT_COLUMNS: Final = ("start", "length", "inner", "ahead", "device_length")
_UNCHANGED_COLUMNS: Final = (
    "name", "kind", "rank", "step", "depth", "launch", "correlation", "external", "run", "op", "bytes",
)  # fmt: skip
_PACKED_SCHEMA: Final = {
    "lane": pl.Int32(),
    **{f"{name}_high": pl.Int32() for name in _SPLIT_COLUMNS},
    **{name: pl.UInt32() for name in _SPLIT_COLUMNS},
    "above": pl.Int32(),
    "beside_high": pl.Int32(),
    "beside": pl.UInt16(),
    **{name: EVENTS[name] for name in _UNCHANGED_COLUMNS},
}
_WRITER_THREADS: Final = 2
"""Threads that write: one compresses while the other packs."""

_BATCHES_PER_FILE: Final = 2
"""Batches per file: more files make each query of the events slower."""

_MANY_FILES: Final = 16
"""With at least this many files, freed memory is returned to the system; with fewer the next file needs it again."""

_EVENT_BATCH_ROWS: Final = 1 << 16
"""Rows per record batch, the least that is read at once."""


def write_events(
    batches: Iterable[Mapping[str, MaskedColumn]], folder: Path | None
) -> Callable[[], pl.LazyFrame] | FrameInMemory:
    """Write all events of these batches to files in the folder, or hold them in memory; schema `EVENTS`.

    A batch has columns of `EVENTS` as numbers, and ids that continue those of the previous one; its `device_end` is
    missing where `device_start` is, and records are below 2^46. One batch is written while the next is made. Memory
    freed after many files is returned to the system. Returns what scans the events. Raises OSError as writing does.
    """
    if folder is None:
        frames = [columns_to_frame(batch, EVENTS) for batch in _merge_small_batches(batches)]
        return FrameInMemory(_concat_frames(frames, rechunk=True) if frames else pl.DataFrame(schema=EVENTS))
    with ThreadPoolExecutor(_WRITER_THREADS) as writer:
        files = _EventFileWriter(folder, writer)
        for batch in batches:
            files.add(batch)
        paths = files.finish()
    if len(paths) > _MANY_FILES:
        return_free_memory()
    return scan_events(paths).lazy


def _merge_small_batches(batches: Iterable[Mapping[str, MaskedColumn]]) -> Iterator[Mapping[str, MaskedColumn]]:
    """Concatenate successive batches to few of about `BATCH_SIZE` events: of a small file there are two."""
    merged, sizes = list[Mapping[str, MaskedColumn]](), list[int]()
    for batch in batches:
        merged.append(batch)
        sizes.append(len(batch["id"].values))
        if sum(sizes) >= BATCH_SIZE:
            yield concat_column_sets(merged, sizes)
            merged, sizes = [], []
    if merged:
        yield concat_column_sets(merged, sizes)


class _EventFileWriter:
    """Writes files of several batches each, in the threads of `writer`."""

    def __init__(self, folder: Path, writer: ThreadPoolExecutor) -> None:
        self._folder, self._writer = folder, writer
        self._paths: list[Path] = []
        self._next: list[Future[pl.DataFrame]] = []
        self._running: deque[Future[Any]] = deque()

    def add(self, batch: Mapping[str, MaskedColumn]) -> None:
        """Add a batch to the next file. Raises the errors of earlier writes."""
        while len(self._running) >= _WRITER_THREADS:
            self._running.popleft().result()
        self._next.append(self._writer.submit(_pack_events, batch))
        self._running.append(self._next[-1])
        if len(self._next) == _BATCHES_PER_FILE:
            self._write()

    def finish(self) -> list[Path]:
        """Finish all files and return their paths."""
        self._write()
        for running in self._running:
            running.result()
        return self._paths

    def _write(self) -> None:
        frames, self._next = self._next, []
        if frames:
            self._paths.append(_event_file(self._folder, len(self._paths)))
            self._running.append(self._writer.submit(_write_event_file, frames, self._paths[-1]))


def _event_file(folder: Path, number: int) -> Path:
    """The path of a file of events."""
    return folder / f"events-{number:06}.arrow"


def _write_event_file(frames: Sequence[Future[pl.DataFrame]], path: Path) -> None:
    _write_packed(pl.concat([frame.result() for frame in frames]), path)  # these were submitted before this task


def write_event_frame(events: pl.DataFrame, folder: Path) -> Path:
    """Write events that are in memory to one file in the folder; returns its path. Raises OSError."""
    path = _event_file(folder, 0)
    _write_packed(_pack_events(frame_to_columns(events)), path)
    return path


def write_few_rows(frames: Mapping[str, pl.DataFrame], path: Path) -> None:
    """Write frames with few rows to one file, as they are. Raises OSError.

    It is compressed as a whole: polars takes longer to begin with each column than such columns are worth.
    """
    streams = {name: to_arrow_bytes(frame) for name, frame in frames.items()}
    path.write_bytes(isal_zlib.compress(msgspec.msgpack.encode(streams), 1))


_FEW_ROWS_GROWTH: Final = 8
"""Estimated ratio of the bytes of few rows to their packed bytes: with enough room at first they are copied once."""


def scan_few_rows(path: Path, name: str) -> pl.LazyFrame:
    """Scan one of the frames of a file that `write_few_rows` wrote."""
    packed = path.read_bytes()
    content = isal_zlib.decompress(packed, bufsize=_FEW_ROWS_GROWTH * len(packed))
    streams = msgspec.msgpack.decode(content, type=dict[str, bytes])
    return pl.read_ipc_stream(streams[name]).lazy()


def _write_packed(events: pl.DataFrame, path: Path) -> None:
    events.write_ipc(path, compression="zstd", record_batch_size=_EVENT_BATCH_ROWS)


def _pack_events(events: Mapping[str, MaskedColumn]) -> pl.DataFrame:
    """Pack the events of a batch into the columns of the files."""
    start, end, self_time, ids = (events[name].values for name in ("start", "end", "self", "id"))
    columns = {name: events[name] for name in (*_UNCHANGED_COLUMNS, "lane") if name in events}
    wide = {
        "start": MaskedColumn(start),
        "length": MaskedColumn(end - start),
        "inner": MaskedColumn(end - start - self_time),
    }
    if "device_start" in events:
        device_start, device_end = events["device_start"], events["device_end"]
        wide["ahead"] = MaskedColumn(device_start.values - start, device_start.valid)
        wide["device_length"] = MaskedColumn(device_end.values - device_start.values, device_end.valid)
    for name, (values, valid) in wide.items():
        halves = np.ascontiguousarray(values).view("<u4").reshape(-1, 2)
        columns[name] = MaskedColumn(halves[:, 0], valid)
        columns[f"{name}_high"] = MaskedColumn(halves[:, 1].view("<i4"), valid)
    columns["above"] = MaskedColumn(ids - events["parent"].values, events["parent"].valid)
    if "record" in events:
        values, valid = events["record"]
        beside = values - ids
        columns["beside"] = MaskedColumn(beside.astype(np.uint16), valid)
        columns["beside_high"] = MaskedColumn((beside >> _LOW_BITS).astype(np.int32), valid)
    return columns_to_frame(columns, _PACKED_SCHEMA)


_LOW_BITS: Final = 16
"""The low bits of record differences, in which neighbors differ."""


def scan_events(paths: Sequence[Path]) -> pl.LazyFrame:
    """Scan the events of all files, one after the other; a slice reads only the rows that it needs."""
    if not paths:
        return pl.LazyFrame(schema=EVENTS)
    row = pl.col("id").cast(pl.Int64)
    start, length, inner, ahead, device_length = (_join_halves(name, 32) for name in _SPLIT_COLUMNS)
    unpacked = {
        "id": row,
        "start": start,
        "end": start + length,
        "parent": row - pl.col("above"),
        "self": length - inner,
        "record": row + _join_halves("beside", _LOW_BITS),
        "device_start": start + ahead,
        "device_end": start + ahead + device_length,
    }
    files = pl.scan_ipc(list(paths), row_index_name="id")
    return files.select(unpacked.get(name, pl.col(name)).cast(dtype).alias(name) for name, dtype in EVENTS.items())


def _join_halves(name: str, bits: int) -> pl.Expr:
    return pl.col(f"{name}_high").cast(pl.Int64) * (1 << bits) + pl.col(name).cast(pl.Int64)


_FILE_ROWS: Final = 1 << 18
"""A file of a facet is full from this number of rows on."""

_FACET_BATCH_ROWS: Final = 1 << 16
"""Rows per record batch, the least that is read at once."""

ClockConversion = Callable[[Ints], tuple[Mask, Ints]]
"""Function from a file's times to the mask of possible ones and to times on the clock of the file frames."""


FacetPiece = tuple[str, pl.DataFrame | Path]
"""The name of a facet and some of its rows: the file with them, or the rows themselves."""


def store_facets(
    segments: Sequence[Mapping[str, SpilledRows]], firsts: Sequence[int], convert_times: ClockConversion, spill: Spill
) -> Iterator[FacetPiece]:
    """Store the facets of all segments, in order; the first events of the segments have the records `firsts`.

    A segment may lack columns without values. Each piece is written to the spill's folder on demand; without a folder
    its rows stay in memory. Raises OSError as writing does.
    """
    for name in dict.fromkeys(name for segment in segments for name in segment):
        stored = [(segment[name], first) for segment, first in zip(segments, firsts, strict=True) if name in segment]
        yield from store_facet(
            name, (_read_facet_rows(group, name, convert_times) for group in _group_segments(stored)), spill
        )


def _group_segments(segments: Iterable[tuple[SpilledRows, int]]) -> Iterator[list[tuple[SpilledRows, int]]]:
    """Group segments to be read together: polars takes a millisecond for each frame, however small it is."""
    group, rows = [], 0
    for spilled, first in segments:
        group.append((spilled, first))
        rows += spilled.height
        if rows >= _FILE_ROWS:
            yield group
            group, rows = [], 0
    if group:
        yield group


def store_facet(name: str, frames: Iterable[pl.DataFrame], spill: Spill) -> Iterator[FacetPiece]:
    """Store a facet given as successive frames; see `store_facets`."""
    for number, rows in enumerate(_merge_small_frames(frames)):
        yield name, _store_frame(rows, name, number, spill)


def scan_facets(pieces: Iterable[FacetPiece]) -> DeferredFacets | FacetsInMemory:
    """Scan the facets of which these are all pieces, either all in memory or all in files."""
    files, frames = dict[str, list[Path]](), dict[str, list[pl.DataFrame]]()
    for name, piece in pieces:
        if isinstance(piece, Path):
            files.setdefault(name, []).append(piece)
        else:
            frames.setdefault(name, []).append(piece)
    if frames:
        return FacetsInMemory({name: _concat_frames(rows) for name, rows in frames.items()})
    return DeferredFacets(files, partial(_scan_facet_files, files))


def _merge_small_frames(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Concatenate the rows to few frames: each file has all categories that exist."""
    collected: list[pl.DataFrame] = []
    for frame in frames:
        collected.append(frame)
        if sum(each.height for each in collected) >= _FILE_ROWS:
            yield _concat_frames(collected)
            collected = []
    if collected:
        yield _concat_frames(collected)


def _store_frame(rows: pl.DataFrame, name: str, number: int, spill: Spill) -> pl.DataFrame | Path:
    if spill.folder is None:
        return rows
    path = spill.folder / f"{name}-{number:06}.arrow"
    rows.write_ipc(path, compression="zstd", record_batch_size=_FACET_BATCH_ROWS)
    return path


def write_facets(facets: Mapping[str, pl.LazyFrame], folder: Path) -> None:
    """Write facets from memory to files in a folder. Raises OSError."""
    for name, facet in facets.items():
        collect_frame(facet).write_ipc(folder / f"{name}-{0:06}.arrow", compression="zstd")


def scan_facet_files(names: Sequence[str], folder: Path) -> DeferredFacets:
    """Scan the facets in the files of these names in a folder, each in the order of its files."""
    files = dict[str, list[Path]]()
    for name in sorted(names):
        files.setdefault(_facet_of(name), []).append(folder / name)
    return DeferredFacets(files.keys() & FACET_SCHEMAS, partial(_scan_facet_files, files))


def _scan_facet_files(files: Mapping[str, Sequence[Path]], name: str) -> pl.LazyFrame:
    return _scan_facet(name, files[name])


def _facet_of(name: str) -> str:
    """The facet that a file of this name belongs to."""
    return name.rpartition("-")[0]


def list_facet_files(folder: Path) -> list[Path]:
    """List the files of facets in a folder."""
    return sorted(path for path in folder.glob("*.arrow") if _facet_of(path.name) in FACET_SCHEMAS)


def _read_facet_rows(
    segments: Sequence[tuple[SpilledRows, int]], name: str, convert_times: ClockConversion
) -> pl.DataFrame:
    """Read the rows of some segments with all columns of the facet, with records and times of the file frames."""
    column_sets = []
    for spilled, first in segments:
        columns = spilled.read(0, spilled.height, list(spilled.dtypes))
        column_sets.append(columns | {"record": MaskedColumn(columns["record"].values + first)})
    columns = concat_column_sets(column_sets, [spilled.height for spilled, _ in segments])
    if "time" in columns:
        possible, time = convert_times(columns["time"].values)
        columns["time"] = MaskedColumn(time)
        if not possible.all():
            columns = {each: column.take(np.flatnonzero(possible)) for each, column in columns.items()}
    return columns_to_frame(columns, FACET_SCHEMAS[name])


def _scan_facet(name: str, paths: Sequence[Path]) -> pl.LazyFrame:
    return pl.scan_ipc(list(paths)).cast(FACET_SCHEMAS[name])


def _concat_frames(frames: Sequence[pl.DataFrame], *, rechunk: bool = False) -> pl.DataFrame:
    """One frame of all these; a single one as it is, which takes no time."""
    return frames[0] if len(frames) == 1 else pl.concat(frames, rechunk=rechunk)


_MIN_ROWS_READ: Final = 1 << 13
"""Rows of a lane that are read at once, at least: finding them takes longer than reading them."""

_MAX_ROWS_SKIPPED: Final = 1 << 16
"""Row ranges with fewer rows between them are read as one: as many are read at once in any case."""


class LaneRowRange(NamedTuple):
    """The rows of a lane's events in a scan: `many` rows from `low` on."""

    lane: int
    low: int
    many: int


_NO_ROWS: Final = LaneRowRange(-1, 0, 0)


def scan_lanes(scan: pl.LazyFrame, lane_ranges: Sequence[LaneRowRange]) -> pl.LazyFrame:
    """Scan the rows of these lanes, in few row ranges however many lanes there are; the scan has the column `lane`."""
    ranges = list[list[int]]()
    for lane_range in sorted(lane_ranges, key=lambda lane_range: lane_range.low):
        if ranges and lane_range.low - ranges[-1][1] < _MAX_ROWS_SKIPPED:
            ranges[-1][1] = lane_range.low + lane_range.many
        else:
            ranges.append([lane_range.low, lane_range.low + lane_range.many])
    some = [scan.slice(low, high - low) for low, high in ranges] or [scan.slice(0, 0)]
    rows = some[0] if len(some) == 1 else pl.concat(some)
    return rows.filter(pl.col("lane").is_in([lane_range.lane for lane_range in lane_ranges]))


def iterate_in_time_order(
    scan: pl.LazyFrame, lane_ranges: Sequence[LaneRowRange], wanted: pl.Expr, size: int
) -> Iterator[pl.DataFrame]:
    """Yield the `wanted` rows of these lanes by `start`, in frames; about two or three times `size` rows are in memory.

    The scan has the columns `lane` and `start`; the rows of a lane are sorted by `start`. Short lanes are read
    together. Of many long lanes some may be read ahead before all have reached the same time.
    """
    short, long, row_count = list[LaneRowRange](), list[LaneRowRange](), 0
    for lane_range in sorted(lane_ranges, key=lambda lane_range: lane_range.many):
        row_count += lane_range.many
        (short if row_count <= size else long).append(lane_range)
    short_lanes = collect_frame(scan_lanes(scan, short).filter(wanted)).sort("start", maintain_order=True)
    rows = max(size // max(1, len(long)), _MIN_ROWS_READ)
    all_readers = [_LaneReader(short_lanes, scan, wanted, _NO_ROWS, rows)]
    all_readers += [_LaneReader(short_lanes.clear(), scan, wanted, lane_range, rows) for lane_range in long]
    while readers := [lane for lane in all_readers if lane.load()]:
        middle, row_count = median_low(lane.last_start for lane in readers), sum(lane.frame.height for lane in readers)
        for lane in readers:
            while lane.last_start < middle and lane.has_unread and row_count < 2 * size:
                row_count += lane.read()
        until = min(
            (lane.last_start for lane in readers if lane.has_unread), default=max(lane.last_start for lane in readers)
        )
        frame = pl.concat([lane.take(until) for lane in readers if lane.frame["start"][0] <= until])
        yield frame if frame["start"].is_sorted() else frame.sort("start", maintain_order=True)


class _LaneReader:
    """The remaining rows of a lane: those in memory (`frame`), and those that follow in the scan."""

    def __init__(
        self, frame: pl.DataFrame, scan: pl.LazyFrame, wanted: pl.Expr, lane_range: LaneRowRange, rows: int
    ) -> None:
        self.frame = frame
        self._scan, self._wanted, self._rows = scan, wanted, rows
        self._low, self._high = lane_range.low, lane_range.low + lane_range.many

    @property
    def has_unread(self) -> bool:
        """True if the scan has rows that are not in memory yet."""
        return self._low < self._high

    @property
    def last_start(self) -> int:
        """The start of the last row in memory."""
        last: int = self.frame["start"][-1]
        return last

    def load(self) -> bool:
        """Read rows until some are in memory, and return whether any remain."""
        while not self.frame.height and self.has_unread:
            self.read()
        return self.frame.height > 0

    def read(self) -> int:
        """Read the next rows, too, and return their number."""
        high = min(self._low + self._rows, self._high)
        found = collect_frame(self._scan.slice(self._low, high - self._low).filter(self._wanted))
        self._low = high
        self.frame = pl.concat([self.frame, found])
        return found.height

    def take(self, until: int) -> pl.DataFrame:
        """Remove and return the rows in memory that start no later than `until`."""
        first = int(self.frame["start"].search_sorted(until, side="right"))
        taken, self.frame = self.frame[:first], self.frame[first:]
        return taken
