"""The vocabulary of the program: what a trace is, in frames.

Owns `Trace`, `Part`, `Window` and the schemas of the frames. Knows no file format, no analysis and no face.

A *part* is one ingested file with ids and times of its own; a `Trace` is the parts placed together: one clock, one
numbering of hosts, ranks and lanes. Both are immutable. An id (event, lane, op) of a trace holds its part's number in
the upper half and the row of that part in the lower one (`tracehound.ids`).

Time is Int64 picoseconds from the trace's own origin.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.file_facts import FileFacts
from tracehound.ids import id_of, part_of, row_of
from tracehound.notes import Note

if TYPE_CHECKING:
    from polars.lazyframe.in_process import InProcessQuery


def schema(columns: Mapping[str, pl.DataType]) -> pl.Schema:
    """The schema of a frame with these columns."""
    return pl.Schema(columns)


KINDS = (
    "kernel", "collective", "copy", "memset", "op", "runtime", "annotation", "step", "module", "python", "sync",
    "transfer", "compile", "other",
)  # fmt: skip
"""What an event is. The order is the order of legends."""

KIND = pl.Enum(KINDS)

KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
"""Kinds as numbers, for arrays: those of `KIND`."""

ROLES = (
    "steps", "annotations", "modules", "ops", "stream", "async", "sync", "scope", "thread", "counter", "other",
)  # fmt: skip
"""What a lane shows. `steps` to `scope` belong to a device (or to the profiler's own rows), `thread` to a host."""

ROLE = pl.Enum(ROLES)

EVENTS = schema(
    {
        "id": pl.Int64(),  # of the event; row of the part's frame, see the module's docstring
        "lane": pl.Int64(),
        "start": pl.Int64(),
        "end": pl.Int64(),
        "name": pl.Categorical(),
        "kind": KIND,
        "rank": pl.Int32(),  # null on a host's lanes
        "step": pl.Int32(),  # the step that the event belongs to: by its launch, else by its start
        "depth": pl.UInt16(),  # row inside the lane; overlapping events are on different rows
        "parent": pl.Int64(),  # id of the innermost event of the lane that contains it
        "self": pl.Int64(),  # length less what its children cover, on the device's own clock where there is one
        "launch": pl.Int64(),  # id of the host event that enqueued it
        "correlation": pl.Int64(),  # Kineto's and CUPTI's id shared by a runtime call and its device events
        "external": pl.Int64(),  # Kineto's "External id": the operator active at the launch
        "run": pl.Int64(),  # XLA's run_id: one execution of a module; TPUs each count their own
        "op": pl.Int64(),  # row of the `ops` frame
        "bytes": pl.Int64(),  # moved, or the message of a collective
        "device_start": pl.Int64(),  # on the device's own clock (TPU), which may not be mixed with start and end
        "device_end": pl.Int64(),
        "record": pl.Int64(),  # where the event lies in its file; the format knows what that means
    }
)
"""The frame of events, sorted by (lane, start, -end). Times in ps."""

LANES = schema(
    {
        "lane": pl.Int64(),
        "host": pl.Int32(),
        "rank": pl.Int32(),  # null: a host's lane
        "role": ROLE,
        "work": pl.Boolean(),  # its events keep the device busy: busy and idle time are counted on these lanes
        "name": pl.String(),  # for people: "stream 7", "XLA Ops", "python3 (1234)"
        "process": pl.String(),
        "thread": pl.String(),
        "stream": pl.Int64(),
        "order": pl.Int32(),  # place in its rank's or host's group
        "rows": pl.Int32(),  # how many rows its events need
        "events": pl.Int64(),
        "first": pl.Int64(),  # start of the first event, end of the last; ps
        "last": pl.Int64(),
        "unit": pl.String(),  # of a counter's values: "bytes", or as the file calls it; "" where it does not
    }
)
"""The frame of lanes. One of a counter has no events but samples, whose first and last times it has."""

COUNTERS = schema(
    {
        "lane": pl.Int64(),
        "time": pl.Int64(),
        "value": pl.Float64(),  # finite; it holds from this sample to the next
    }
)
"""The frame of the samples of counters, sorted by (lane, time); of several at one time the last one holds."""

RANKS = schema(
    {
        "rank": pl.Int32(),
        "host": pl.Int32(),
        "device": pl.Int32(),  # the ordinal that the file gives the device; null without a device
        "label": pl.String(),  # "GPU 0", "TPU:1", "CPU"
        "model": pl.String(),  # "NVIDIA H100 80GB HBM3"
        "inferred": pl.Boolean(),  # the file did not say which rank this is
    }
)

ON_CPU = "CPU"
"""How the labels of ranks begin whose ops run on the threads of a host, several at once."""

STEPS = schema(
    {
        "step": pl.Int32(),
        "host": pl.Int32(),
        "rank": pl.Int32(),  # null: marked on the host, and so for all ranks it drives
        "name": pl.String(),
        "start": pl.Int64(),
        "end": pl.Int64(),
        "inferred": pl.Boolean(),
        "event": pl.Int64(),  # id of the mark, or of the module's event
        "run": pl.Int64(),  # XLA's run_id of the execution that an inferred one is
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
        "normalized_flops": pl.Int64(),  # as if all were of the type that the device's peak is stated for (TPU: bf16)
        "hbm_bytes": pl.Int64(),  # of `bytes_accessed` those of the device's main memory, and of its other memories
        "cmem_read": pl.Int64(),
        "cmem_written": pl.Int64(),
        "vmem_read": pl.Int64(),
        "vmem_written": pl.Int64(),
        "host_bytes": pl.Int64(),  # of its operands and results those that lie in the host's memory
        "estimated_flops": pl.Int64(),  # from the shapes of the HLO, where the file does not count
        "estimated_bytes": pl.Int64(),
        "dtype": pl.String(),  # of what a matrix product or convolution multiplies: "bf16"
        "twin": pl.String(),  # name of the first op with the same HLO, where the compiler says so
    }
)
"""What is true of every execution of an HLO op; events point here by `op`. Null: the file does not say."""

Profiler = Literal["PyTorch", "XLA"]

PROFILERS: Mapping[str, Profiler] = {
    "kineto": "PyTorch",
    "memory_timeline": "PyTorch",
    "xplane": "XLA",
    "chrome": "XLA",
}
"""Whose words the files of a format speak."""


class Host(Struct, frozen=True):
    """One process (Kineto) or machine (XLA) whose threads drive ranks."""

    name: str
    part: int = 0


class FileState(NamedTuple):
    """What tells one state of a file from another: not the time of its inode, which links and permissions change."""

    size: int
    mtime_ns: int


class Part(Struct, frozen=True, eq=False):
    """One ingested file. Ids are rows of its own frames, times are ps from `wall_ns` (or from an unknown instant).

    `scan` (the events, which may lie on disk), `lanes`, `ranks`, `steps`, `ops` and `counters` have the schemas above
    with local ids: `lane`, `op`, `parent`, `launch` and `event` are rows, `host` a position in `hosts`, `rank` a row of
    `ranks`. `facets` are those of `FACETS` that the file has, of which `record` is that of an event.
    `facts` is what the file says of its run beside its events. `ranks.rank` is what the file claims (null: nothing),
    and `places` is what the format needs to find the args of an event again, sealed in a part from a cache. `home` is
    the folder there in which the part lies, or a copy of it; None without a cache. `state` is that of the file just
    before it was read; None where there is no file.
    """

    path: Path
    format: str
    scan: pl.LazyFrame
    lanes: pl.DataFrame
    ranks: pl.DataFrame
    steps: pl.DataFrame
    ops: pl.DataFrame
    hosts: tuple[str, ...]
    wall_ns: int | None
    facts: FileFacts = FileFacts()
    notes: tuple[Note, ...] = ()
    places: Any = None
    home: Path | None = None
    state: FileState | None = None
    counters: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=COUNTERS))
    facets: Mapping[str, pl.LazyFrame] = field(default_factory=dict)

    @property
    def events(self) -> pl.DataFrame:
        """All events at once, in memory."""
        return collected(self.scan)

    @property
    def recorded(self) -> tuple[int, int] | None:
        """The first start and the last end of its events and samples; None without any."""
        lanes = spanned(self.lanes)
        if lanes.is_empty():
            return None
        return int(lanes["first"].to_numpy().min()), int(lanes["last"].to_numpy().max())


class Window(Struct, frozen=True):
    """A stretch of time, and the ranks and lanes of interest: an argument of every analysis and drawing.

    None means no limit. It clips: an event that overlaps it counts, with the part of its time that lies inside. With
    numbers of `steps` it lasts on every rank as long as these steps do there, within `start` and `end`.
    """

    start: int | None = None
    end: int | None = None
    ranks: tuple[int, ...] | None = None
    lanes: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None

    def within(self, start: int, end: int) -> tuple[int, int]:
        """The window's own bounds, clipped to `[start, end)`; empty windows collapse to `(start, start)`."""
        low = start if self.start is None else max(start, self.start)
        high = end if self.end is None else min(end, self.end)
        return (low, max(low, high))

    def at(self, start: int | None, end: int | None) -> Window:
        """The same ranks and lanes, other times."""
        return replace(self, start=start, end=end, steps=None)

    @property
    def timed(self) -> bool:
        """Whether it limits time."""
        return self.start is not None or self.end is not None or self.steps is not None

    @property
    def whole(self) -> bool:
        """Whether it limits nothing."""
        return self == Window()


BLOCK, BLOCKS = 1 << 10, 32
"""Events are looked at in blocks of so many, of which so many are kept: some 200 kB each. To read one event of a file
takes as long as to read all of a block."""


class Trace(Struct, frozen=True, eq=False, dict=True):
    """Everything opened together, over all its ranks; immutable. Made by `tracehound.store`.

    `origin_ns` is the wall clock (Unix, ns) of time 0, where known.
    """

    name: str
    parts: tuple[Part, ...]
    hosts: tuple[Host, ...]
    frames: tuple[pl.LazyFrame, ...]
    """The events of each part, with the ids and times of this trace. The row of an event is that of its id."""
    lanes: pl.DataFrame
    ranks: pl.DataFrame
    steps: pl.DataFrame
    ops: pl.DataFrame
    origin_ns: int | None
    notes: tuple[Note, ...] = ()
    counters: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=COUNTERS))
    facets: tuple[Mapping[str, pl.LazyFrame], ...] = ()
    """Those of each part, with times of this trace."""

    def events(self, lanes: Sequence[int] | None = None) -> pl.LazyFrame:
        """The events of these lanes (None: of all), lazily, in the schema `EVENTS`, sorted by (lane, start, -end)."""
        if lanes is None:
            return pl.concat(self.frames) if self.frames else pl.LazyFrame(schema=EVENTS)
        pieces = [
            self.frames[part].slice(low, high - low) for part, low, high in self._stretches(sorted(lanes)) if low < high
        ]
        return pl.concat(pieces) if pieces else pl.LazyFrame(schema=EVENTS)

    def lane(self, lane: int, *columns: str) -> pl.DataFrame:
        """The events of one lane, sorted by (start, -end): of all columns, or of those named."""
        low, high = self._slices[lane]
        rows = self.frames[part_of(lane)].slice(low, high - low)
        return collected(rows.select(columns) if columns else rows)

    def begins(self, lanes: Sequence[int]) -> list[int]:
        """The id of the first event of each of these lanes; the others of a lane follow it."""
        return [id_of(part_of(lane), self._slices[lane][0]) for lane in lanes]

    def samples(self, lane: int) -> pl.DataFrame:
        """The samples of a counter, in order: `time` and `value`. Empty for a lane of events."""
        low, high = np.searchsorted(self.counters["lane"].to_numpy(), [lane, lane + 1])
        return self.counters.slice(int(low), int(high - low)).select("time", "value")

    def event(self, event: int) -> dict[str, Any]:
        """The columns of one event; those around it are kept for a while: what contains it is asked for next."""
        block, row = divmod(row_of(event), BLOCK)
        return self._block(part_of(event), block).row(row, named=True)

    @cached_property
    def _block(self) -> Callable[[int, int], pl.DataFrame]:
        """Reads so many events that follow one another in a part."""

        def read(part: int, number: int) -> pl.DataFrame:
            rows = collected(self.frames[part].slice(number * BLOCK, BLOCK))
            return rows[np.arange(rows.height)]  # a copy: a slice would keep all that was read with it

        return lru_cache(BLOCKS)(read)

    def lanes_of(self, ranks: Sequence[int] | None = None) -> pl.DataFrame:
        """The lanes of the ranks, and of the hosts that drive them, in the order in which they are shown."""
        if ranks is None:
            return self.lanes
        chosen = self.ranks.filter(pl.col("rank").is_in(list(ranks)))
        of_rank = pl.col("rank").is_in(chosen["rank"].to_list())
        of_host = pl.col("rank").is_null() & pl.col("host").is_in(chosen["host"].to_list())
        return self.lanes.filter(of_rank | of_host)

    @cached_property
    def span(self) -> tuple[int, int]:
        """When the first event or sample is, and when the last ends, ps; (0, 0) of a trace without any."""
        lanes = spanned(self.lanes)
        if lanes.is_empty():
            return (0, 0)
        return (_whole(lanes["first"].min()), _whole(lanes["last"].max()))

    def _stretches(self, lanes: Sequence[int]) -> list[tuple[int, int, int]]:
        """Part and bounds of the rows of these lanes, in order; lanes that follow one another are one stretch."""
        stretches: list[tuple[int, int, int]] = []
        for lane in lanes:
            part, (low, high) = part_of(lane), self._slices[lane]
            if stretches and stretches[-1][0] == part and stretches[-1][2] == low:
                low = stretches.pop()[1]
            stretches.append((part, low, high))
        return stretches

    @cached_property
    def _slices(self) -> dict[int, tuple[int, int]]:
        """The rows of each lane in its part's frame."""
        slices: dict[int, tuple[int, int]] = {}
        last = dict.fromkeys(range(len(self.parts)), 0)
        for lane, count in self.lanes.select("lane", "events").sort("lane").iter_rows():
            part = part_of(lane)
            low = last[part]
            last[part] = low + count
            slices[lane] = (low, low + count)
        return slices


def spanned(lanes: pl.DataFrame) -> pl.DataFrame:
    """The lanes that say when something happened: those of events, and of counters with samples."""
    return lanes.filter(pl.col("first").is_not_null())


warnings.filterwarnings("ignore", "POLARS_MAX_BLOCKING_THREAD_COUNT reached")
"""A query on hundreds of files opens them all at once, each in a thread of polars' while it has any left. Others wait
for one, and no thread that opens a file waits for another: what polars warns of cannot happen."""

_PLAIN = pl.QueryOptFlags(comm_subplan_elim=False)

PAUSE = 0.005
"""Seconds between two looks at a query that can be given up."""


def collected(events: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a query on events, now.

    Without polars' search for common parts of a query: of several slices of one file it would make one scan of the
    whole file, which feeds them all.
    """
    return events.collect(optimizations=_PLAIN)


def copied(events: pl.LazyFrame, *groups: Sequence[str | pl.Expr]) -> pl.DataFrame:
    """These columns, each in one piece of memory of its own.

    Those of a group are read together, and are there twice for a moment: few should be.
    """
    return pl.concat([collected(events.select(some)).rechunk() for some in groups], how="horizontal")


def streamed(events: pl.LazyFrame) -> pl.DataFrame:
    """The same for a query that leaves little of many events: read piece by piece, so that memory does not grow."""
    return events.collect(engine="streaming", optimizations=_PLAIN)


def interruptible(events: pl.LazyFrame, stopped: Callable[[], bool]) -> pl.DataFrame:
    """The same as `streamed`, given up with InterruptedError soon after `stopped` says so.

    Polars itself stops when its present operation is done, which may be later: nobody waits for that.
    """
    running = events.collect(engine="streaming", optimizations=_PLAIN, background=True)
    while not stopped():
        if (found := running.fetch()) is not None:
            return found
        time.sleep(PAUSE)
    _give_up(running)
    raise InterruptedError


def _give_up(running: InProcessQuery) -> None:
    """Stop a query, and hold it until it has stopped: one that cannot hand over its result ends the process."""

    def hold() -> None:
        with suppress(BaseException):  # that it was stopped, in whatever words
            while running.fetch() is None:
                time.sleep(PAUSE)

    running.cancel()
    Thread(target=hold, daemon=True).start()


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value
