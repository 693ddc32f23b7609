"""The frames of a trace and their schemas, the frames of one file, and windows.

`FileFrames` is one ingested file with local ids and times; a `Trace` is all files merged: one clock, one numbering of
hosts, ranks and lanes. Both are immutable. An id (event, lane, op) of a trace has the number of its file in the upper
bits and the row of that file's frame in the lower ones (`tracehound.model.ids`).

Time is Int64 picoseconds from the trace's own origin.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.model.deferred_frames import DeferredFacets, DeferredScans, FacetsInMemory, FrameInMemory
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.file_facts import FileFacts
from tracehound.model.ids import file_index_of, id_of, row_of
from tracehound.model.notes import Note

if TYPE_CHECKING:
    from polars.lazyframe.in_process import InProcessQuery


def schema(columns: Mapping[str, pl.DataType]) -> pl.Schema:
    """The schema of a frame with these columns."""
    return pl.Schema(columns)


KINDS = (
    "kernel", "collective", "copy", "memset", "op", "runtime", "annotation", "step", "module", "python", "sync",
    "transfer", "compile", "other",
)  # fmt: skip
"""The kinds of events, in the order of legends."""

KIND = pl.Enum(KINDS)

KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
"""The codes of kinds in arrays: those of `KIND`."""

ROLES = (
    "steps", "annotations", "modules", "ops", "stream", "async", "sync", "scope", "sparse_steps", "sparse_modules",
    "sparse_ops", "thread", "counter", "other",
)  # fmt: skip
"""The roles of lanes. `steps` to `sparse_ops` belong to a device (or to the profiler's own rows), `thread` to a host.

The `sparse` ones are of a TPU's SparseCores, whose work runs beside that of its TensorCore and keeps it not busy."""

ROLE = pl.Enum(ROLES)

EVENTS = schema(
    {
        "id": pl.Int64(),  # of the event; file and row, see the module's docstring
        "lane": pl.Int64(),
        "start": pl.Int64(),
        "end": pl.Int64(),
        "name": pl.Categorical(),
        "kind": KIND,
        "rank": pl.Int32(),  # null on a host's lanes
        "step": pl.Int32(),  # step of the event: by its launch, else by its start
        "depth": pl.UInt16(),  # row inside the lane; overlapping events are on different rows
        "parent": pl.Int64(),  # id of the innermost event of the lane that contains it
        "self": pl.Int64(),  # self time, on the device's own clock if there is one
        "launch": pl.Int64(),  # id of the host event that enqueued it
        "correlation": pl.Int64(),  # Kineto's and CUPTI's id shared by a runtime call and its device events
        "external": pl.Int64(),  # Kineto's "External id": the operator active at the launch
        "run": pl.Int64(),  # XLA's run_id: one execution of a module; each TPU counts its own
        "op": pl.Int64(),  # row of the `ops` frame
        "bytes": pl.Int64(),  # moved, or the message of a collective
        "device_start": pl.Int64(),  # on the device's own clock (TPU); never mix with start and end
        "device_end": pl.Int64(),
        "record": pl.Int64(),  # position of the event in its file, defined by the format
    }
)
"""The frame of events, sorted by (lane, start, -end). Times in ps."""

LANES = schema(
    {
        "lane": pl.Int64(),
        "host": pl.Int32(),
        "rank": pl.Int32(),  # null: a host's lane
        "role": ROLE,
        "work": pl.Boolean(),  # its events are device work: busy and idle time are counted on these lanes
        "name": pl.String(),  # for people: "stream 7", "XLA Ops", "python3 (1234)"
        "process": pl.String(),
        "thread": pl.String(),
        "stream": pl.Int64(),
        "order": pl.Int32(),  # position in the group of its rank or host
        "rows": pl.Int32(),  # number of rows of its events
        "events": pl.Int64(),
        "first": pl.Int64(),  # start of the first event, end of the last; ps
        "last": pl.Int64(),
        "unit": pl.String(),  # of a counter's values: "bytes", or as the file calls it; "" where it does not
    }
)
"""The frame of lanes. A counter's lane has samples instead of events: `first` and `last` are their times."""

COUNTERS = schema(
    {
        "lane": pl.Int64(),
        "time": pl.Int64(),
        "value": pl.Float64(),  # finite; it holds from this sample to the next
    }
)
"""The frame of counter samples, sorted by (lane, time); of several samples at one time the last one holds."""

RANKS = schema(
    {
        "rank": pl.Int32(),
        "host": pl.Int32(),
        "device": pl.Int32(),  # ordinal of the device in the file; null without one
        "label": pl.String(),  # "GPU 0", "TPU:1", "CPU"
        "model": pl.String(),  # "NVIDIA H100 80GB HBM3"
        "inferred": pl.Boolean(),  # the file does not record the rank
    }
)

CPU_LABEL = "CPU"
"""The first letters of the label of a rank whose ops run on threads of a host, several at once."""

GPU_LABEL = "GPU"
"""The first letters of the label of a rank that is a GPU, or a device of a kind that the file does not name."""

STEPS = schema(
    {
        "step": pl.Int32(),
        "host": pl.Int32(),
        "rank": pl.Int32(),  # null: marked on the host, for all ranks that it drives
        "name": pl.String(),
        "start": pl.Int64(),
        "end": pl.Int64(),
        "inferred": pl.Boolean(),
        "event": pl.Int64(),  # id of the event that marks it, or of the module
        "run": pl.Int64(),  # XLA's run_id of the execution, for inferred steps
    }
)

OPS = schema(
    {
        "op": pl.Int64(),
        "name": pl.String(),
        "category": pl.String(),  # HLO category or opcode, kernel class
        "module": pl.String(),
        "program": pl.Int64(),
        "framework": pl.String(),  # op_name of the framework: "jit(step)/layer0/dot_general"
        "source": pl.String(),  # "file:line"
        "text": pl.String(),  # the HLO line
        "flops": pl.Int64(),
        "bytes_accessed": pl.Int64(),
        "normalized_flops": pl.Int64(),  # scaled to the dtype of the device's peak (TPU: bf16)
        "hbm_bytes": pl.Int64(),  # part of `bytes_accessed`, by the device's memories
        "cmem_read": pl.Int64(),
        "cmem_written": pl.Int64(),
        "vmem_read": pl.Int64(),
        "vmem_written": pl.Int64(),
        "host_bytes": pl.Int64(),  # operands and results in the host's memory
        "estimated_flops": pl.Int64(),  # from HLO shapes, if the file has no counts
        "estimated_bytes": pl.Int64(),
        "dtype": pl.String(),  # of what a matrix product or convolution multiplies: "bf16"
        "twin": pl.String(),  # name of the first op with identical HLO, if the compiler says so
    }
)
"""The frame of HLO ops: facts of every execution. Events refer to it by `op`. Null: the file does not say."""

Profiler = Literal["PyTorch", "XLA"]

PROFILERS: Mapping[str, Profiler] = {
    "kineto": "PyTorch",
    "memory_timeline": "PyTorch",
    "xplane": "XLA",
    "chrome": "XLA",
}
"""The profiler whose terms the files of a format use."""


SMALL_FRAMES: Mapping[str, pl.Schema] = MappingProxyType({"lanes": LANES, "ranks": RANKS, "steps": STEPS, "ops": OPS})
"""The frames of a file that are in memory."""


def small_frames(**frames: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The small frames of a file: those given, and empty ones."""
    return {name: frames[name] if name in frames else empty_small_frame(name) for name in SMALL_FRAMES}


class _FramesWithRows(dict[str, pl.DataFrame]):
    """The small frames with rows; each of the others is made when it is read: sending it takes a tenth of ms."""

    def __missing__(self, name: str) -> pl.DataFrame:
        """A frame without rows."""
        return empty_small_frame(name)


@cache
def empty_small_frame(name: str) -> pl.DataFrame:
    """The small frame of this name without rows."""
    return pl.DataFrame(schema=SMALL_FRAMES[name])


@cache
def no_counters() -> pl.DataFrame:
    """The samples of a file without counters."""
    return pl.DataFrame(schema=COUNTERS)


class Host(Struct, frozen=True):
    """One process (Kineto) or machine (XLA) whose threads drive ranks."""

    name: str
    part: int = 0


class FileState(NamedTuple):
    """Identifies the state of a file. The time of its inode is left out, since links and permissions change it."""

    size: int
    mtime_ns: int


class FileFrames(Struct, frozen=True, eq=False):
    """The frames of one ingested file. Ids are rows of its own frames, times are ps from `wall_ns` (None: unknown).

    `make_scan` gives `scan` (the events, maybe on disk), which is made when it is needed, since a query takes as much
    memory as hundreds of events; `make_counters` gives `counters`. `small_frames` has those of `SMALL_FRAMES`, with the
    schemas above and local ids: `lane`, `op`, `parent`, `launch` and `event` are rows, `host` a position in `hosts`,
    `rank` a row of `ranks`. `facets` are those of `FACET_SCHEMAS` that the file has; their `record` is that of an
    event. `facts` is what the file says about its run beside its events. `ranks.rank` is the recorded rank (null:
    none). `places` is what the format needs to find the args of an event again, still encoded in frames from a cache.
    `cache_folder` holds the frames, or a copy of them; None without a cache. `state` is that of the file just before it
    was read; None if there is no file. `reopen` gives the frames in another process, without a copy of what this one
    has in memory; None where all of it is on the disk, or nowhere else. `worker` is the worker of a cluster that read
    the file; empty for others.
    """

    path: Path
    format: str
    make_scan: Callable[[], pl.LazyFrame]
    small_frames: Mapping[str, pl.DataFrame]
    hosts: tuple[str, ...]
    wall_ns: int | None
    facts: FileFacts = FileFacts()
    notes: tuple[Note, ...] = ()
    places: Any = None
    cache_folder: Path | None = None
    state: FileState | None = None
    facets: Mapping[str, pl.LazyFrame] = field(default_factory=dict)
    reopen: Callable[[], FileFrames] | None = None
    worker: str = ""
    make_counters: Callable[[], pl.DataFrame] = no_counters

    @property
    def lanes(self) -> pl.DataFrame:
        """The lanes, in the schema `LANES`."""
        return self.small_frames["lanes"]

    @property
    def ranks(self) -> pl.DataFrame:
        """The ranks, in the schema `RANKS`."""
        return self.small_frames["ranks"]

    @property
    def steps(self) -> pl.DataFrame:
        """The steps, in the schema `STEPS`."""
        return self.small_frames["steps"]

    @property
    def ops(self) -> pl.DataFrame:
        """The ops, in the schema `OPS`."""
        return self.small_frames["ops"]

    @property
    def counters(self) -> pl.DataFrame:
        """The samples of counters, in the schema `COUNTERS`; read from the disk each time where they are there."""
        return self.make_counters()

    def with_frames(self, **frames: pl.DataFrame) -> FileFrames:
        """Return the file with these small frames in place of its own."""
        return replace(self, small_frames={**self.small_frames, **frames})

    @property
    def scan(self) -> pl.LazyFrame:
        """All events, lazily, in the schema `EVENTS` with local ids."""
        return self.make_scan()

    @property
    def in_memory(self) -> bool:
        """True if its events are in memory."""
        return isinstance(self.make_scan, FrameInMemory)

    @property
    def events(self) -> pl.DataFrame:
        """All events, collected in memory."""
        return self.make_scan.frame if isinstance(self.make_scan, FrameInMemory) else collect_frame(self.scan)

    def collect_facet(self, name: str) -> pl.DataFrame:
        """All rows of a facet, collected in memory."""
        facets = self.facets
        return facets.frames[name] if isinstance(facets, FacetsInMemory) else collect_frame(facets[name])

    @property
    def time_range(self) -> tuple[int, int] | None:
        """The first start and the last end of its events and samples; None without any."""
        first, last = self.lanes["first"].min(), self.lanes["last"].max()
        return None if first is None else (_as_int(first), _as_int(last))


class MergedFile(Struct, frozen=True, eq=False, dict=True):
    """A file of a trace: its frames, and what makes their ids, ranks, times and steps those of the trace.

    `source` has the frames, or opens them when they are needed. `index` is its position in the trace, and `ranks` has
    the number of each of its ranks. `shift` (ps) is added to its times, and `first_steps` (by rank) to the numbers of
    its inferred steps. Other processes get of a file what they read there: its events, facets and ops.
    """

    source: FileFrames | Callable[[], FileFrames]
    index: int
    ranks: Mapping[int, int]
    shift: int = 0
    first_steps: Mapping[int, int] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[MergedFile], tuple[object, ...]]:
        """Without the frames that other processes do not need."""
        source = self.source
        if isinstance(source, FileFrames):
            ops = {} if source.ops.is_empty() else {"ops": source.ops}
            needed = replace(source, small_frames=_FramesWithRows(ops), make_counters=no_counters)
            source = source.reopen or replace(needed, facts=FileFacts(), notes=(), places=None)
        return type(self), (source, self.index, self.ranks, self.shift, self.first_steps)

    @property
    def worker(self) -> str:
        """The worker of a cluster that read the file; empty for others."""
        return self.source.worker if isinstance(self.source, FileFrames) else ""

    @cached_property
    def frames(self) -> FileFrames:
        """The frames of the file with its own ids and times; in full, where a worker left out some of them."""
        if not isinstance(self.source, FileFrames):
            return self.source()
        return self.source.reopen() if self.source.worker and self.source.reopen else self.source

    def scan(self) -> pl.LazyFrame:
        """All events of the file, lazily, in the schema `EVENTS`."""
        counted = {row: self.first_steps[rank] for row, rank in self.ranks.items() if rank in self.first_steps}
        return self.frames.scan.with_columns(
            *([shift_step_numbers(counted)] if counted else []),
            *(id_of(self.index, pl.col(column)) for column in _ID_COLUMNS),
            pl.col("start") + self.shift,
            pl.col("end") + self.shift,
            pl.col("rank").replace_strict(self.ranks, default=None, return_dtype=pl.Int32),
        )

    @property
    def facets(self) -> Mapping[str, pl.LazyFrame]:
        """The facets of the file; each is scanned when it is needed."""
        return DeferredFacets(self.frames.facets, self._scan_facet)

    @property
    def ops(self) -> pl.DataFrame:
        """The ops of the file, in the schema `OPS`."""
        ops = self.frames.ops
        return ops if ops.is_empty() else ops.with_columns(id_of(self.index, pl.col("op")))

    @property
    def counters(self) -> pl.DataFrame:
        """The samples of the file's counters, in the schema `COUNTERS`."""
        return self.frames.counters.with_columns(id_of(self.index, pl.col("lane")), pl.col("time") + self.shift)

    def _scan_facet(self, name: str) -> pl.LazyFrame:
        facet = self.frames.facets[name]
        return facet.with_columns(pl.col("time") + self.shift) if "time" in FACET_SCHEMAS[name] else facet


_ID_COLUMNS = ("id", "lane", "parent", "launch", "op")


def shift_step_numbers(first_steps: Mapping[int, int]) -> pl.Expr:
    """Step numbers from the first number of their rank on; for inferred steps, which only device events have."""
    return pl.col("step") + pl.col("rank").replace_strict(first_steps, default=0, return_dtype=pl.Int32)


class Window(Struct, frozen=True):
    """An interval of time, and the ranks and lanes of interest: an argument of every analysis and drawing.

    None means no limit. An event that overlaps the window counts with the part of its time inside. With `steps` the
    window is on every rank the time of these steps there, within `start` and `end`.
    """

    start: int | None = None
    end: int | None = None
    ranks: tuple[int, ...] | None = None
    lanes: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None

    def clip_bounds(self, start: int, end: int) -> tuple[int, int]:
        """The window's own bounds, clipped to `[start, end)`; empty windows collapse to `(start, start)`."""
        low = start if self.start is None else max(start, self.start)
        high = end if self.end is None else min(end, self.end)
        return (low, max(low, high))

    def with_times(self, start: int | None, end: int | None) -> Window:
        """A window with the same ranks and lanes and other times."""
        return replace(self, start=start, end=end, steps=None)

    @property
    def limits_time(self) -> bool:
        """True if it limits time."""
        return self.start is not None or self.end is not None or self.steps is not None

    @property
    def is_unlimited(self) -> bool:
        """True if it limits nothing."""
        return self == Window()


BLOCK_EVENTS, BLOCKS_CACHED = 1 << 10, 32
"""Single events are read in blocks of `BLOCK_EVENTS`, which takes no longer than reading one event. `BLOCKS_CACHED`
blocks are kept, of some 200 kB each."""

FILES_WITH_COUNTERS_KEPT = 64
"""The samples of so many files are kept in memory: those of the files on a screen."""


class Trace(Struct, frozen=True, eq=False, dict=True):
    """All files that are opened together, with all their ranks; immutable. Made by `tracehound.store`.

    `origin_ns` is the wall clock (Unix, ns) of time 0, if known.
    """

    name: str
    parts: tuple[FileFrames, ...]
    hosts: tuple[Host, ...]
    files: Sequence[MergedFile]
    """The files of `parts` with the ids and times of this trace. The row of an event is that of its id."""
    lanes: pl.DataFrame
    ranks: pl.DataFrame
    steps: pl.DataFrame
    ops: pl.DataFrame
    origin_ns: int | None
    notes: tuple[Note, ...] = ()
    engine_ranks: tuple[Mapping[int, int], ...] = ()
    """For each file of one of several jobs (engines of a data-parallel server) the ranks of that job: as the files
    record them, with their numbers in this trace. Empty for other files."""

    @cached_property
    def frames(self) -> Sequence[pl.LazyFrame]:
        """The events of each file, with the ids and times of this trace."""
        return DeferredScans([file.scan for file in self.files])

    @cached_property
    def facets(self) -> Sequence[Mapping[str, pl.LazyFrame]]:
        """The facets of each file, with times of this trace."""
        return tuple(file.facets for file in self.files)

    def events(self, lanes: Sequence[int] | None = None) -> pl.LazyFrame:
        """The events of these lanes (None: of all), lazily, in the schema `EVENTS`, sorted by (lane, start, -end)."""
        if lanes is None:
            return pl.concat(list(self.frames)) if self.frames else pl.LazyFrame(schema=EVENTS)
        slices = [self.frames[part].slice(low, high - low) for part, low, high in self.row_ranges(lanes)]
        return pl.concat(slices) if slices else pl.LazyFrame(schema=EVENTS)

    def lane(self, lane: int, *columns: str) -> pl.DataFrame:
        """The events of one lane, sorted by (start, -end): all columns, or the named ones."""
        low, high = self._lane_rows[lane]
        rows = self.frames[file_index_of(lane)].slice(low, high - low)
        return collect_frame(rows.select(columns) if columns else rows)

    def first_event_ids(self, lanes: Sequence[int]) -> list[int]:
        """The id of the first event of each of these lanes; the ids of a lane's other events follow it."""
        return [id_of(file_index_of(lane), self._lane_rows[lane][0]) for lane in lanes]

    def samples(self, lane: int) -> pl.DataFrame:
        """The samples of a counter, in order: `time` and `value`. Empty for a lane of events."""
        counters = self._read_counters(file_index_of(lane))
        low, high = np.searchsorted(counters["lane"].to_numpy(), [lane, lane + 1])
        return counters.slice(int(low), int(high - low)).select("time", "value")

    @property
    def counters(self) -> pl.DataFrame:
        """The samples of all counters, in the schema `COUNTERS`, read each time."""
        return pl.concat([no_counters(), *(file.counters for file in self.files)])

    @cached_property
    def _read_counters(self) -> Callable[[int], pl.DataFrame]:
        """A cached function that reads the samples of a file."""
        return lru_cache(FILES_WITH_COUNTERS_KEPT)(lambda index: self.files[index].counters)

    def event(self, event: int) -> dict[str, Any]:
        """The columns of one event. Its block is cached, since the events around it are often needed next."""
        block, row = divmod(row_of(event), BLOCK_EVENTS)
        return self._read_block(file_index_of(event), block).row(row, named=True)

    @cached_property
    def _read_block(self) -> Callable[[int, int], pl.DataFrame]:
        """A cached function that reads a block of consecutive events of a file."""

        def read(part: int, number: int) -> pl.DataFrame:
            rows = collect_frame(self.frames[part].slice(number * BLOCK_EVENTS, BLOCK_EVENTS))
            return rows[np.arange(rows.height)]  # a copy: a slice would keep the whole chunk in memory

        return lru_cache(BLOCKS_CACHED)(read)

    def lanes_of(self, ranks: Sequence[int] | None = None) -> pl.DataFrame:
        """The lanes of the ranks, and of the hosts that drive them, in display order."""
        if ranks is None:
            return self.lanes
        chosen = self.ranks.filter(pl.col("rank").is_in(list(ranks)))
        of_rank = pl.col("rank").is_in(chosen["rank"].to_list())
        of_host = pl.col("rank").is_null() & pl.col("host").is_in(chosen["host"].to_list())
        return self.lanes.filter(of_rank | of_host)

    @cached_property
    def span(self) -> tuple[int, int]:
        """Start of the first event or sample and end of the last, ps; (0, 0) for an empty trace."""
        lanes = lanes_with_times(self.lanes)
        if lanes.is_empty():
            return (0, 0)
        return (_as_int(lanes["first"].min()), _as_int(lanes["last"].max()))

    def row_ranges(self, lanes: Collection[int]) -> list[tuple[int, int, int]]:
        """File and row bounds of the events of these lanes, in order; consecutive lanes are joined."""
        ranges: list[tuple[int, int, int]] = []
        for lane in sorted(lanes):
            part, (low, high) = file_index_of(lane), self._lane_rows[lane]
            if low == high:
                continue
            if ranges and ranges[-1][0] == part and ranges[-1][2] == low:
                low = ranges.pop()[1]
            ranges.append((part, low, high))
        return ranges

    @cached_property
    def _lane_rows(self) -> dict[int, tuple[int, int]]:
        """The row bounds of each lane in its file's frame."""
        slices: dict[int, tuple[int, int]] = {}
        last = dict.fromkeys(range(len(self.parts)), 0)
        for lane, count in self.lanes.select("lane", "events").sort("lane").iter_rows():
            part = file_index_of(lane)
            low = last[part]
            last[part] = low + count
            slices[lane] = (low, low + count)
        return slices


def lanes_with_times(lanes: pl.DataFrame) -> pl.DataFrame:
    """The lanes that have events or samples."""
    return lanes.filter(pl.col("first").is_not_null())


warnings.filterwarnings("ignore", "POLARS_MAX_BLOCKING_THREAD_COUNT reached")
"""A query on hundreds of files opens them all at once, each in a thread of polars' while it has any left. Others wait
for one, and no thread that opens a file waits for another: what polars warns of cannot happen."""

_NO_SUBPLAN_SHARING = pl.QueryOptFlags(comm_subplan_elim=False)

POLL_SECONDS = 0.005
"""Seconds between two checks of a query that may be cancelled."""


def collect_frame(events: pl.LazyFrame) -> pl.DataFrame:
    """Run a query on events now.

    Polars' search for common subplans is off: it would turn several slices of one file into one scan of the whole file.
    """
    return events.collect(optimizations=_NO_SUBPLAN_SHARING)


def collect_contiguous(events: pl.LazyFrame, *groups: Sequence[str | pl.Expr]) -> pl.DataFrame:
    """These columns of the events, each in one contiguous block of memory.

    The columns of a group are read together and need twice their memory for a moment, so groups should be small.
    """
    return pl.concat([collect_frame(events.select(some)).rechunk() for some in groups], how="horizontal")


def collect_streaming(events: pl.LazyFrame) -> pl.DataFrame:
    """Run a query that keeps little of many events with the streaming engine, so that memory stays small."""
    return events.collect(engine="streaming", optimizations=_NO_SUBPLAN_SHARING)


def collect_interruptible(events: pl.LazyFrame, stopped: Callable[[], bool]) -> pl.DataFrame:
    """Run a query with the streaming engine; raises InterruptedError soon after `stopped` returns true.

    Polars itself stops at the end of its present operation, which may be later; the caller does not wait for that.
    """
    running = events.collect(engine="streaming", optimizations=_NO_SUBPLAN_SHARING, background=True)
    while not stopped():
        if (found := running.fetch()) is not None:
            return found
        time.sleep(POLL_SECONDS)
    _cancel_query(running)
    raise InterruptedError


def _cancel_query(running: InProcessQuery) -> None:
    """Cancel a query and keep it alive until it has stopped: dropping it earlier would end the process."""

    def hold() -> None:
        with suppress(BaseException):  # polars' error for a cancelled query
            while running.fetch() is None:
                time.sleep(POLL_SECONDS)

    running.cancel()
    Thread(target=hold, daemon=True).start()


def _as_int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value
