"""A trace cut to one rank and one window, as the map of an analysis gets it, and the context of its combine.

Also the computations that the ranks of a host, or the analyses of a rank, have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast

import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.window_bounds import UNBOUNDED, TimeBounds, exported_bounds, host_windows, rank_windows
from tracehound.formats.device_occupancy import UNKNOWN_CAPACITY, DeviceCapacity
from tracehound.formats.device_occupancy import device_capacity as properties
from tracehound.model.facet_schemas import empty_facet
from tracehound.model.file_facts import FileFacts
from tracehound.model.notes import Note
from tracehound.model.row_slices import RowSlices
from tracehound.model.trace import EVENTS, PROFILERS, FileFrames, Host, MergedFile, Profiler, Trace, Window


class RankOutline(Struct, frozen=True, dict=True, kw_only=True):
    """One rank of a trace in one window, without its events.

    `lanes` and `steps` are the rows of the trace's frames that belong to the rank, steps ordered by start.
    `lanes.begin` is the id of a lane's first event, and `lanes.low` its row in `RankTrace.device_anytime` or `threads`.

    Without a window (not `windowed`) `start` and `end` are the bounds of the trace. If the user chose steps by number
    (`step_numbers`), the bounds are those of the rank's own steps, and `host_window` covers the steps of all ranks that
    the host drives. `recorded_bounds` are the bounds of the exported window, if its file is an export of a window.

    `part` is the number of its file in the trace, and `home` that file's cache folder. `ordinal` is the number that the
    file gives the rank's device, and `capacity` holds the device's properties. `profiler` recorded the rank.
    `program_devices` has the replicas and partitions of the programs that the file describes. `host_results` are
    results of host computations that were done before the map. `is_only_rank` says that the trace has no other rank.
    `unmatched_launches` is the fact of its file.
    """

    rank: int
    host: int
    label: str
    lanes: pl.DataFrame
    steps: pl.DataFrame
    start: int
    end: int
    windowed: bool
    recorded_bounds: TimeBounds = UNBOUNDED
    part: int = 0
    home: Path | None = None
    ordinal: int | None = None
    capacity: DeviceCapacity = UNKNOWN_CAPACITY
    profiler: Profiler = "XLA"
    program_devices: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    step_numbers: tuple[int, ...] | None = None
    host_window: tuple[int, int] | None = None
    host_results: Mapping[tuple[SharedHostResult[Any], ChosenSettings], Any] = field(default_factory=dict)
    is_only_rank: bool = False
    unmatched_launches: int | None = 0

    @cached_property
    def frames_hash(self) -> bytes:
        """Hashes of its lanes and steps: they change when the position of its file in the trace changes."""
        return b"".join(frame.hash_rows().to_numpy().tobytes() for frame in (self.lanes, self.steps))

    @property
    def is_chosen_step(self) -> pl.Expr:
        """Filter for the rank's chosen steps: those chosen by number, else those that overlap the window.

        Reads the columns step, start and end. Chosen steps are matched by number because the work of a step may run
        after its mark, and so after the window.
        """
        if self.step_numbers is not None:
            return pl.col("step").is_in(list(self.step_numbers))
        return (pl.col("start") < self.end) & (pl.col("end") > self.start)


class RankTrace(RankOutline, frozen=True, dict=True, kw_only=True):
    """One rank of a trace in one window: the input of an analysis's map.

    `device` holds the events on the rank's own lanes that overlap `[start, end)`, `device_anytime` all events on these
    lanes, and `threads` all events of its host's threads at any time (a launch may lie before the window, and its work
    after it). All three are lazy, in the schema `EVENTS`, with unclipped times. `ops` has the ops of its file.

    `rank_results` are results of rank computations done in this map. `other_devices` holds the events on all other
    lanes of devices that its host drives (None: it has none, or no launch is unmatched).
    """

    device: pl.LazyFrame
    device_anytime: pl.LazyFrame
    threads: pl.LazyFrame
    ops: pl.DataFrame
    facets: Mapping[str, pl.LazyFrame] = field(default_factory=dict)
    rank_results: dict[SharedRankResult[Any], Any] = field(default_factory=dict)
    other_devices: pl.LazyFrame | None = None

    @property
    def with_host_window(self) -> RankTrace:
        """This rank trace with the window of its host, which is one for all ranks that the host drives."""
        return self if self.host_window is None else replace(self, start=self.host_window[0], end=self.host_window[1])

    def facet(self, name: str) -> pl.LazyFrame:
        """Facet of the rank's file, in a schema of `FACET_SCHEMAS`; join it to events by `record`."""
        return self.facets.get(name, empty_facet(name))


RowRange = tuple[int, int]
"""The first row of some events of a file, and the row behind the last."""


class DeferredRank(RankOutline, frozen=True, dict=True, kw_only=True):
    """A rank of a trace whose events are not opened yet. It is small, and sent to where the rank is mapped.

    `file` has the rank's events; `device_rows`, `thread_rows` and `other_rows` are the rows there of the frames of its
    `RankTrace`.
    """

    file: MergedFile
    device_rows: Sequence[RowRange]
    thread_rows: Sequence[RowRange]
    other_rows: Sequence[RowRange] = ()

    def open(self) -> RankTrace:
        """The rank trace, in the process that reads its events. `home` is the cache folder that this process has."""
        outline = {name: getattr(self, name) for name in RankOutline.__struct_fields__}
        outline["home"] = self.file.frames.cache_folder
        scan = self.file.scan()
        device = _select_rows(scan, self.device_rows)
        return RankTrace(
            **outline,
            device=overlapping_events(device, self.start, self.end) if self.windowed else device,
            device_anytime=device,
            threads=_select_rows(scan, self.thread_rows),
            ops=self.file.ops,
            facets=self.file.facets,
            other_devices=_select_rows(scan, self.other_rows) if self.other_rows else None,
        )


def _select_rows(scan: pl.LazyFrame, rows: Sequence[RowRange]) -> pl.LazyFrame:
    """The events in these rows of a file."""
    slices = [scan.slice(low, high - low) for low, high in rows]
    return pl.concat(slices) if slices else pl.LazyFrame(schema=EVENTS)


T = TypeVar("T")


class SharedHostResult(Struct, Generic[T], frozen=True):
    """Computation on the threads of a host, done once for all ranks that it drives.

    `compute` takes the rank trace of any of these ranks with the host's window. It reads only `threads`, the host's
    `lanes` and the window, and the chosen values of `settings` (their names). The computation and its result are sent
    between processes, unless it is cheaper to compute again than to send a result as long as the events (not
    `sendable`).
    """

    compute: Callable[[RankTrace, ChosenSettings], T]
    settings: tuple[str, ...] = ()
    sendable: bool = True

    def relevant_settings(self, given: ChosenSettings) -> ChosenSettings:
        """Those of the chosen settings that the result depends on."""
        return tuple(choice for choice in given if choice[0] in self.settings)

    def result_for(self, rank_trace: RankTrace, given: ChosenSettings = ()) -> T:
        """Result for the rank's host: the known one, else computed now."""
        found = self.known_result(rank_trace, given)
        return self.compute(rank_trace.with_host_window, self.relevant_settings(given)) if found is None else found

    def known_result(self, rank_trace: RankTrace, given: ChosenSettings = ()) -> T | None:
        """Result that was computed before, or None. For callers that can do with less than the whole result."""
        return rank_trace.host_results.get((self, self.relevant_settings(given)))


class SharedRankResult(Struct, Generic[T], frozen=True):
    """Computation on a rank that several analyses need, whatever the window; the analyses of one map do it once.

    `compute` takes a rank trace, of which it reads nothing that depends on the window, and frames that every caller has
    read anyway (always equal).
    """

    compute: Callable[..., T]

    def result_for(self, rank_trace: RankTrace, *read: pl.DataFrame) -> T:
        """Result for the rank: the one computed in this map, else computed now."""
        if self not in rank_trace.rank_results:
            rank_trace.rank_results[self] = self.compute(rank_trace, *read)
        return cast("T", rank_trace.rank_results[self])


class RunContext(Struct, frozen=True):
    """All that a combine gets besides the small tables of the ranks; it holds no events.

    `rank_windows` has start and end of the window on each rank (they differ for a window of steps). `file_notes` are
    the notes of each file, in the order of `formats` and `facts`. `has_wall_clock` says whether the files share a wall
    clock, and `wall_clock_bounds` has start and end of each recording on the file's own wall clock, whether or not the
    trace is on it (Unix time, ns). `engine_ranks` is that of the trace.
    """

    hosts: tuple[Host, ...]
    ranks: pl.DataFrame
    steps: pl.DataFrame
    notes: tuple[Note, ...]
    start: int
    end: int
    windowed: bool
    formats: tuple[str, ...]
    facts: tuple[FileFacts, ...]
    rank_windows: tuple[tuple[int, int], ...] = ()
    file_notes: tuple[tuple[Note, ...], ...] = ()
    has_wall_clock: bool = False
    wall_clock_bounds: tuple[tuple[int, int] | None, ...] = ()
    engine_ranks: tuple[Mapping[int, int], ...] = ()

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The window's bounds, None for the whole run."""
        return (self.start, self.end) if self.windowed else None

    @property
    def profilers(self) -> frozenset[Profiler]:
        """The profilers that recorded the files."""
        return frozenset(PROFILERS[form] for form in self.formats)

    @property
    def is_pytorch(self) -> bool:
        """True if PyTorch recorded all files."""
        return self.profilers == {"PyTorch"}

    @property
    def is_xla(self) -> bool:
        """True if XLA recorded all files: PyTorch's terms mean nothing to its users."""
        return self.profilers == {"XLA"}


def rank_traces(trace: Trace, window: Window) -> Iterator[RankTrace]:
    """Rank trace of each chosen rank, in the order of ranks."""
    return (rank.open() for rank in deferred_ranks(trace, window))


def deferred_ranks(trace: Trace, window: Window) -> Iterator[DeferredRank]:
    """Each chosen rank, in the order of ranks; nothing of its events is opened."""
    spans = rank_windows(trace, window)
    hosts = host_windows(trace, spans)
    rows = _RowsOfRanks(trace, window)
    for rank, host, label, ordinal in trace.ranks.select("rank", "host", "label", "device").iter_rows():
        if rank not in spans:
            continue
        start, end = spans[rank]
        lanes = rows.lanes(rank, host)
        part = trace.hosts[host].part
        owners = list(zip(lanes["lane"].to_list(), lanes["rank"].to_list(), strict=True))
        facts = trace.parts[part].facts
        yield DeferredRank(
            rank=rank,
            host=host,
            label=label,
            lanes=lanes,
            steps=rows.steps(rank, host),
            start=start,
            end=end,
            windowed=window.limits_time,
            step_numbers=window.steps,
            host_window=hosts[host],
            recorded_bounds=exported_bounds(trace, part),
            part=part,
            home=trace.parts[part].cache_folder,
            ordinal=ordinal,
            capacity=properties(facts, ordinal),
            profiler=PROFILERS[trace.parts[part].format],
            program_devices=_program_devices(facts),
            is_only_rank=trace.ranks.height == 1,
            unmatched_launches=facts.unmatched_launches,
            file=trace.files[part],
            device_rows=_rows_in_file(trace, [lane for lane, owner in owners if owner is not None]),
            thread_rows=_rows_in_file(trace, [lane for lane, owner in owners if owner is None]),
            other_rows=() if facts.unmatched_launches == 0 else _rows_of_other_devices(trace, host, lanes),
        )


def _rows_in_file(trace: Trace, lanes: Sequence[int]) -> list[RowRange]:
    """The rows of the events of these lanes, which are all of one file."""
    return [(low, high) for _, low, high in trace.row_ranges(lanes)]


class _RowsOfRanks:
    """The lanes, steps and ops of a trace, divided once: so the time for thousands of ranks is linear in them."""

    def __init__(self, trace: Trace, window: Window) -> None:
        lanes = trace.lanes.filter(pl.col("events") > 0)  # counters have no events
        if window.lanes is not None:
            lanes = lanes.filter(pl.col("lane").is_in(list(window.lanes)))
        else:
            lanes = lanes.filter(~_IS_BESIDE_THREADS)
        first_events = pl.Series("begin", trace.first_event_ids(lanes["lane"].to_list()), pl.Int64)
        self._lanes = RowSlices(lanes.with_columns(first_events, _FIRST_ROW_OF_LANE), pl.col("host"))
        self._steps = RowSlices(trace.steps.sort("start", "step"), pl.col("host"))

    def lanes(self, rank: int, host: int) -> pl.DataFrame:
        """Lanes of a rank and of the host that drives it, in display order, with the columns `begin` and `low`."""
        return _of_rank(self._lanes.rows(host), rank)

    def steps(self, rank: int, host: int) -> pl.DataFrame:
        """Steps of a rank and of the host that drives it, sorted by start and number."""
        return _of_rank(self._steps.rows(host), rank)


def _of_rank(rows: pl.DataFrame, rank: int) -> pl.DataFrame:
    """Those rows of a host that belong to a rank, or to none of its ranks."""
    owners = rows["rank"].to_list()
    kept = [row for row, owner in enumerate(owners) if owner is None or owner == rank]
    return rows if len(kept) == len(owners) else rows[kept]


def _rows_of_other_devices(trace: Trace, host: int, lanes: pl.DataFrame) -> list[RowRange]:
    """The rows of the events on all lanes of devices that a host drives but these."""
    of_devices = trace.lanes.filter(pl.col("rank").is_not_null() & (pl.col("host") == host) & (pl.col("events") > 0))
    others = of_devices.filter(~pl.col("lane").is_in(lanes["lane"].to_list()))
    return _rows_in_file(trace, others["lane"].to_list())


_IS_BESIDE_THREADS: Final = pl.col("rank").is_null() & (pl.col("role") == "other")
"""Lanes of no device that are no thread either, as those of a network: only a choice of lanes reads them."""


_FIRST_ROW_OF_LANE: Final = (
    (pl.col("events").cum_sum() - pl.col("events")).over("host", "rank", order_by="lane").alias("low")
)
"""Row of a lane's first event among the events of all lanes of the rank's device, or of its host."""


def _program_devices(facts: FileFacts) -> dict[int, tuple[int, int]]:
    """Replicas and partitions by program id."""
    return {one.program: (one.replicas, one.partitions) for one in facts.programs if one.partitions}


def run_context(trace: Trace, window: Window) -> RunContext:
    """Context of the combines for this trace and window."""
    spans = rank_windows(trace, window)
    bounds = spans.values() if window.steps and spans else [window.clip_bounds(*trace.span)]
    return RunContext(
        hosts=trace.hosts,
        ranks=trace.ranks,
        steps=trace.steps,
        notes=trace.notes,
        start=min(start for start, _ in bounds),
        end=max(end for _, end in bounds),
        windowed=window.limits_time,
        rank_windows=tuple(spans.values()),
        formats=tuple(part.format for part in trace.parts),
        facts=tuple(part.facts for part in trace.parts),
        file_notes=tuple(part.notes for part in trace.parts),
        has_wall_clock=trace.origin_ns is not None,
        wall_clock_bounds=tuple(_wall_clock_bounds(part) for part in trace.parts),
        engine_ranks=trace.engine_ranks,
    )


def _wall_clock_bounds(part: FileFrames) -> tuple[int, int] | None:
    """Start and end of the recording of a file on its own wall clock (Unix time, ns); None if unknown."""
    span, wall = part.time_range, part.wall_ns
    return None if span is None or wall is None else (span[0] // 1000 + wall, span[1] // 1000 + wall)


def overlapping_events(events: pl.LazyFrame, start: int | pl.Expr, end: int | pl.Expr) -> pl.LazyFrame:
    """Events that overlap `[start, end)`; an event of zero length counts if it lies inside, ends included.

    If the bounds are expressions, each event has its own; an event whose bounds are null overlaps nothing.
    """
    inside = (pl.col("start") < end) & (pl.col("end") > start)
    instant = (pl.col("start") == pl.col("end")) & pl.col("start").is_between(start, end)
    return events.filter(inside | instant)


def device_lane_events(rank_trace: RankTrace, lanes: Collection[int]) -> pl.LazyFrame:
    """Events of these lanes of the rank's device at any time, sorted by id; other lanes are not read."""
    return lane_events(rank_trace.device_anytime, rank_trace.lanes, lanes)


def lane_events(events: pl.LazyFrame, lane_rows: pl.DataFrame, lanes: Collection[int]) -> pl.LazyFrame:
    """Events of these lanes among those of all lanes of a device or a host; `places` are `RankTrace.lanes`.

    Other lanes are not read.
    """
    wanted, ranges = set(lanes), list[list[int]]()
    rows = zip(*(lane_rows[name].to_list() for name in ("lane", "low", "events")), strict=True)
    for _, low, count in sorted(row for row in rows if row[0] in wanted):
        if ranges and sum(ranges[-1]) == low:
            ranges[-1][1] += count
        else:
            ranges.append([low, count])
    frames = [events.slice(low, count) for low, count in ranges]
    return pl.concat(frames) if frames else events.clear()
