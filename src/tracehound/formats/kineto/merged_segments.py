"""Segments of a Kineto file, merged into the decoded file.

Decides what only the whole file shows: its times and which of them are impossible, its lanes, the kernels that belong
to collectives of another segment's operators, and the launches of the old autograd profiler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.formats.assembly.arrow_storage import FacetPiece, store_facets
from tracehound.formats.assembly.counter_samples import CounterSamples, FileCounters, concat_samples
from tracehound.formats.assembly.file_assembly import RAW_EVENTS, RawChunk
from tracehound.formats.assembly.launch_links import make_counted_ids_unique
from tracehound.formats.export_metadata import exported_window
from tracehound.formats.json.value_columns import INVALID, parse_count
from tracehound.formats.kineto.event_columns import GLOO_PREFIX
from tracehound.formats.kineto.foreign_writers import (
    ForeignLanes,
    KindAmendment,
    LocatedEvents,
    find_foreign_lanes,
)
from tracehound.formats.kineto.json_events import RawId
from tracehound.formats.kineto.kineto_counters import count_memory_changes, count_unattributed_memory, counter_lanes
from tracehound.formats.kineto.kineto_lanes import (
    NO_USAGE,
    FileLanes,
    LaneKey,
    LaneUsage,
    build_lanes,
    normalize_id,
    thread_lane_key,
)
from tracehound.formats.kineto.note_counts import (
    COUNTER_FAR_AWAY,
    EVENT_AT_ZERO,
    EVENT_FAR_AWAY,
    EVENTS_ON_ANOTHER_DEVICE,
    FOREIGN_CATEGORIES,
    MEMORY_EVENTS,
    MEMORY_OF_SEVERAL_RANKS,
    MEMORY_WITHOUT_ADDRESS,
    MEMORY_WITHOUT_TOTALS,
    NoteCounts,
)
from tracehound.formats.kineto.segment_events import SegmentResult, SpilledEvents
from tracehound.formats.spill import MaskedColumn, Spill, SpilledRows, columns_to_frame
from tracehound.formats.value_bounds import CLOCK_IMPOSSIBLE, MAX_DISTANCE_NS, middle_time, valid_wall_clock
from tracehound.model.file_facts import ExportedWindow
from tracehound.model.notes import Note
from tracehound.model.trace import KIND_CODES, KINDS
from tracehound.numeric.id_set import sorted_distinct
from tracehound.numeric.intervals import Ints, Mask

BASE_TIME_KEY: Final = "baseTimeNanoseconds"
"""Key of the wall clock (ns) at time 0."""

_MAX_WRITERS: Final = 8
"""So many of the processes that wrote a file are named."""

UNSET_TIME_GAP_NS: Final = 3600 * 10**9
"""An event at time 0 counts as without a time if the other events are further away than this (ns)."""


class MergedSegments(Struct, frozen=True):
    """All events of a file; times in ps from `wall_ns` (None: from an unknown instant).

    `span_ns` is start and length of the profiler's own span, `exported_window` the window from which the file was
    exported. `kinds` may be those of events that were left out, too. `facets` is lazy. `has_thread_grids`: a call gives
    the grid of a kernel in threads.
    """

    chunks: tuple[RawChunk, ...]
    file_lanes: FileLanes
    wall_ns: int | None
    span_ns: tuple[int, int] | None
    notes: tuple[Note, ...]
    counters: FileCounters
    facets: Iterator[FacetPiece]
    kinds: frozenset[str]
    exported_window: ExportedWindow | None
    has_thread_grids: bool


class _TimeBounds(NamedTuple):
    """Valid times (ns) lie between `after` and `before`; starts up to `unset` count as missing."""

    after: int
    before: int
    unset: int | None

    def contains(self, time: Ints) -> Mask:
        """Mask of the valid times."""
        unset = np.zeros(len(time), np.bool_) if self.unset is None else time <= self.unset
        return (time > self.after) & (time < self.before) & ~unset

    def contains_all(self, events_chunk: SpilledEvents) -> bool:
        """True if the times of all these events are valid."""
        early = events_chunk.start <= self.after or (self.unset is not None and events_chunk.start <= self.unset)
        return not early and max(events_chunk.last, events_chunk.end) < self.before


def merge_segment_results(
    results: Sequence[SegmentResult], firsts: Sequence[int], metadata: Mapping[str, Any], spill: Spill
) -> MergedSegments:
    """Merge the segments of a file; `firsts` has the ordinal of the first element of each."""
    base_ns = max(parse_count(metadata.get(BASE_TIME_KEY)), 0)
    lanes, recorded_names, note_counts = dict[LaneKey, LaneUsage](), dict[tuple[str, RawId, RawId], str](), NoteCounts()
    collective_sizes = dict[tuple[RawId, int], int]()
    for result, first in zip(results, firsts, strict=True):
        recorded_names.update(result.recorded_names)
        collective_sizes.update(result.collective_sizes)
        for key, lane_usage in result.lanes.items():
            lanes[key] = lanes.get(key, NO_USAGE).plus(lane_usage)
        note_counts.merge(result.note_counts, first)
    categories = frozenset[str]().union(*(result.categories for result in results))
    foreign = find_foreign_lanes(lanes, recorded_names, categories)
    family = foreign.family or next((result.device_family for result in results if result.device_family), "")
    file_lanes = _build_moved_lanes(lanes, foreign, recorded_names, family, metadata)
    if foreign.writer == "torch_npu":
        note_counts.counts.pop(FOREIGN_CATEGORIES, None)
    writers = _find_writers(results)
    bounds, located_events = _time_bounds(results, base_ns), list[LocatedEvents]()
    lanes_of_chunk = list[Sequence[LaneKey]]()
    operators = _collective_operators(collective_sizes, file_lanes)
    host_of_lane = file_lanes.lanes["host"].cast(pl.Int64).to_numpy()
    for result, first in zip(results, firsts, strict=True):
        rows = np.array([file_lanes.lane_numbers[key] for key in result.lanes], np.int64)
        for events_chunk in result.spilled_events:
            valid_events = (
                events_chunk
                if bounds.contains_all(events_chunk)
                else _without_impossible_times(events_chunk, bounds, first, note_counts, spill)
            )
            if valid_events is not None:
                lanes_of_chunk.append(list(result.lanes))
                located_events.append(
                    (_amend_collectives(valid_events, operators, host_of_lane[rows], first, spill), rows, first)
                )
    located_events = KindAmendment(foreign, spill).amend(located_events, lanes_of_chunk)
    located_events = add_launch_correlations(located_events, results, firsts, file_lanes, spill)
    samples = _samples_in_bounds(results, bounds, firsts, note_counts)
    note_counts.add(EVENTS_ON_ANOTHER_DEVICE, file_lanes.stray_events, 0)
    note_counts.drop_if_all(MEMORY_WITHOUT_ADDRESS, MEMORY_EVENTS)  # PyTorch did not write them until 2021
    if file_lanes.runs.has_several_runs:
        note_counts.add(MEMORY_OF_SEVERAL_RANKS, count_unattributed_memory(samples, file_lanes.ranks), 0)
    origin = min(
        (events_chunk.start for events_chunk, *_ in located_events), default=int(samples.time.min(initial=2**62))
    )
    origin = 0 if origin == 2**62 else origin
    chunks = tuple(
        RawChunk(events_chunk.spilled, rows, (events_chunk.start - origin) * 1000, first)
        for events_chunk, rows, first in located_events
    )
    wall_ns = valid_wall_clock(base_ns + origin) if chunks else None
    has_unusable_base = bool(chunks) and wall_ns is None and metadata.get(BASE_TIME_KEY) not in (None, 0)
    return MergedSegments(
        chunks=chunks,
        file_lanes=file_lanes,
        wall_ns=wall_ns,
        span_ns=_profiler_span_of_file(results, 0 if has_unusable_base else base_ns),
        notes=(
            *([Note("dropped", CLOCK_IMPOSSIBLE, where=BASE_TIME_KEY)] if has_unusable_base else []),
            *([] if file_lanes.runs.is_merged else _several_writers_notes(writers)),
            *([Note("info", "written_by", values=(("writer", foreign.writer),))] if foreign.writer else []),
            *note_counts.notes(),
        ),
        facets=store_facets(
            [result.facets for result in results], firsts, lambda ns: _time_from_origin(ns, bounds, origin), spill
        ),
        kinds=frozenset(KINDS) if foreign.writer else frozenset[str]().union(*(result.kinds for result in results)),
        counters=counter_lanes(samples, origin, file_lanes.ranks, file_lanes.runs),
        exported_window=exported_window(metadata, origin * 1000),
        has_thread_grids=any(result.has_thread_grids for result in results),
    )


def _find_writers(results: Sequence[SegmentResult]) -> list[str]:
    """The processes that mark steps or call a device's runtime; not the rare ones, whose ids damage may have torn."""
    found = Counter[str]()
    for result in results:
        for pid, count in result.writers.items():
            found[str(normalize_id(pid))] += count
    rare = max(1, max(found.values(), default=0) // 100)
    return sorted(process for process, count in found.items() if count > rare)


def _several_writers_notes(processes: Sequence[str]) -> list[Note]:
    """A note of the processes that wrote a file, if there are several: each writes a file of its own otherwise."""
    values = (("processes", tuple(processes[:_MAX_WRITERS])),)
    return [Note("missing", "several_writers", len(processes), values=values)] if len(processes) > 1 else []


def _build_moved_lanes(
    usage: Mapping[LaneKey, LaneUsage],
    foreign: ForeignLanes,
    names: Mapping[tuple[str, RawId, RawId], str],
    family: str,
    metadata: Mapping[str, Any],
) -> FileLanes:
    """Lanes of a file, some of which its writer recorded as others; the numbers are by the recorded lanes."""
    moved_usage = dict[LaneKey, LaneUsage]()
    for key, lane_usage in usage.items():
        moved = foreign.moved.get(key, key)
        moved_usage[moved] = moved_usage.get(moved, NO_USAGE).plus(lane_usage)
    file_lanes = build_lanes(moved_usage, names, family, metadata)
    if not foreign.moved:
        return file_lanes
    numbers = {key: file_lanes.lane_numbers[foreign.moved.get(key, key)] for key in usage}
    return replace(file_lanes, lane_numbers=numbers)


def _time_bounds(results: Sequence[SegmentResult], base: int) -> _TimeBounds:
    starts = np.concatenate([np.empty(0, np.int64), *(result.start_sample for result in results)])
    if not len(starts):
        starts = concat_samples([result.samples for result in results], [0] * len(results)).time
    middle = middle_time(starts)
    return _TimeBounds(
        middle - MAX_DISTANCE_NS, middle + MAX_DISTANCE_NS, 0 if base and middle > UNSET_TIME_GAP_NS else None
    )


def _samples_in_bounds(
    results: Sequence[SegmentResult], bounds: _TimeBounds, firsts: Sequence[int], note_counts: NoteCounts
) -> CounterSamples:
    """Counter samples with valid times; the others are counted."""
    samples = concat_samples([result.samples for result in results], firsts)
    in_bounds = bounds.contains(samples.time)
    dropped = sorted_distinct(samples.ordinal[~in_bounds])
    note_counts.add(COUNTER_FAR_AWAY, len(dropped), int(dropped[0]) if len(dropped) else 0)
    note_counts.add(MEMORY_WITHOUT_TOTALS, count_memory_changes(samples), 0)
    return samples if in_bounds.all() else samples.take(np.flatnonzero(in_bounds))


def _time_from_origin(ns: Ints, bounds: _TimeBounds, origin: int) -> tuple[Mask, Ints]:
    """Mask of the valid times, and all times in ps from the origin."""
    in_bounds = bounds.contains(ns)
    return in_bounds, np.where(in_bounds, ns - origin, 0) * 1000


def _without_impossible_times(
    events_chunk: SpilledEvents, bounds: _TimeBounds, first: int, note_counts: NoteCounts, spill: Spill
) -> SpilledEvents | None:
    """The events with valid times; the others are counted. None if there are none."""
    rows = events_chunk.spilled.read_frame()
    start, end, record = (rows[name].to_numpy() for name in ("start", "end", "record"))
    start, end = start // 1000 + events_chunk.start, end // 1000 + events_chunk.start
    unset = np.zeros(len(start), np.bool_) if bounds.unset is None else start <= bounds.unset
    far = ~unset & ~((start > bounds.after) & (start < bounds.before) & (end < bounds.before))
    for note, mask in ((EVENT_AT_ZERO, unset), (EVENT_FAR_AWAY, far)):
        note_counts.add(note, int(np.count_nonzero(mask)), first + int(record[mask].min(initial=2**31 - 1)))
    valid_rows = np.flatnonzero(~unset & ~far)
    if not len(valid_rows):
        return None
    begin = int(start[valid_rows].min())
    moved = (pl.col(name) - (begin - events_chunk.start) * 1000 for name in ("start", "end"))
    frame = rows[valid_rows].with_columns(moved)
    name = f"sifted-{first}-{events_chunk.start}-{int(events_chunk.may_be_collective)}"
    return SpilledEvents(
        spill.spill_frame(frame, name),
        begin,
        int(start[valid_rows].max()),
        int(end[valid_rows].max()),
        events_chunk.may_be_collective,
    )


class _CollectiveOperators(NamedTuple):
    """The operators that started a collective: their external ids, sorted, and message sizes (`MISSING`: unknown).

    Kernels that run for such an operator are that collective and have its bytes. So are Gloo's annotations on the host
    of a file without working devices (`of_gloo`). External ids are those of `make_counted_ids_unique`.
    """

    external: Ints
    size: Ints
    of_gloo: bool

    def find(self, external: MaskedColumn) -> tuple[Mask, MaskedColumn]:
        """Mask of the events that ran for such an operator, and the message size of each."""
        if not len(self.external):
            nothing = np.zeros(len(external.values), np.bool_)
            return nothing, MaskedColumn(external.values, nothing)
        at = np.minimum(np.searchsorted(self.external, external.values), len(self.external) - 1)
        found = self.external[at] == external.values
        if external.valid is not None:
            found &= external.valid
        return found, MaskedColumn(self.size[at], found & (self.size[at] >= 0))


def _collective_operators(
    collective_sizes: Mapping[tuple[RawId, int], int], file_lanes: FileLanes
) -> _CollectiveOperators | None:
    """The operators that started a collective; None if no event can be part of one."""
    operators_with_size = [
        (file_lanes.runs.run_of(normalize_id(pid)), external, size)
        for (pid, external), size in collective_sizes.items()
    ]
    operators_with_size = [(host, external, size) for host, external, size in operators_with_size if external >= 0]
    host, external = (np.array([each[part] for each in operators_with_size], np.int64) for part in (0, 1))
    of_gloo = file_lanes.ranks["device"].null_count() == file_lanes.ranks.height
    if not (of_gloo or operators_with_size):
        return None
    sizes = {  # of operators with one id, the last whose size is known
        operator: size
        for known in (False, True)
        for operator, (_, _, size) in zip(
            make_counted_ids_unique(external, host).tolist(), operators_with_size, strict=True
        )
        if (size >= 0) == known
    }
    operators, size = (np.array(values, np.int64) for values in (list(sizes), list(sizes.values())))
    order = np.argsort(operators)
    return _CollectiveOperators(operators[order], size[order], of_gloo)


def _amend_collectives(
    events_chunk: SpilledEvents, operators: _CollectiveOperators | None, host: Ints, first: int, spill: Spill
) -> SpilledEvents:
    """The events with the kinds and bytes of collectives; `host` is the host of each lane."""
    if operators is None or not events_chunk.may_be_collective:
        return events_chunk
    spilled = events_chunk.spilled
    columns = spilled.read(0, spilled.height, [name for name in _AMENDED_COLUMNS if name in spilled.dtypes])
    nothing = MaskedColumn(np.zeros(spilled.height, np.int64), np.zeros(spilled.height, np.bool_))
    kind, bytes_recorded = columns["kind"].values, columns.get("bytes", nothing)
    ran_for_operator, size = operators.find(_external_per_host(columns.get("external", nothing), spilled, host))
    collective = (kind == KIND_CODES["collective"]) | ((kind == KIND_CODES["kernel"]) & ran_for_operator)
    if operators.of_gloo and (annotations := kind == KIND_CODES["annotation"]).any():
        collective |= annotations & _starts_with(columns["name"].values, GLOO_PREFIX)
    unsized = np.zeros(spilled.height, np.bool_) if bytes_recorded.valid is None else ~bytes_recorded.valid
    sized = collective & unsized & size.valid
    if not sized.any() and (kind[collective] == KIND_CODES["collective"]).all():
        return events_chunk  # the collective kernels recorded it all themselves
    amended = {
        "kind": MaskedColumn(np.where(collective, np.uint8(KIND_CODES["collective"]), kind)),
        "bytes": MaskedColumn(np.where(sized, size.values, bytes_recorded.values), ~unsized | sized),
    }
    return events_chunk._replace(
        spilled=spill.spill_columns(
            spilled.read(0, spilled.height, list(spilled.dtypes)) | amended,
            {**spilled.dtypes, "bytes": RAW_EVENTS["bytes"]},
            f"amended-{first}-{events_chunk.start}",
        )
    )


def _external_per_host(external: MaskedColumn, spilled: SpilledRows, host: Ints) -> MaskedColumn:
    """The external ids of all events, which differ between hosts."""
    if spilled.runs is None or not host.any():
        return external
    of_row = np.repeat(host[spilled.runs.lane], np.diff(spilled.runs.bounds))
    return MaskedColumn(make_counted_ids_unique(external.values, of_row), external.valid)


def _starts_with(names: npt.NDArray[np.uint32], prefix: str) -> Mask:
    """Mask of the names (as codes) that start with a prefix."""
    codes = sorted_distinct(names)
    texts = columns_to_frame({"name": MaskedColumn(codes)}, {"name": RAW_EVENTS["name"]})["name"].cast(pl.String)
    return np.isin(names, codes[texts.str.starts_with(prefix).to_numpy()])


_AMENDED_COLUMNS: Final = ("kind", "name", "external", "bytes")
"""Columns that amendments read or change."""


def _profiler_span_of_file(results: Sequence[SegmentResult], base: int) -> tuple[int, int] | None:
    start, length = next((result.profiler_span for result in results if result.profiler_span), (INVALID, INVALID))
    return None if INVALID in (start, length) else (base + start, length)


_FLOW_END_SCHEMA: Final[Mapping[str, pl.DataType]] = {
    "record": pl.Int64(),
    "begins": pl.Boolean(),
    "flow": pl.String(),
    "lane": pl.Int64(),
    "start": pl.Int64(),
}
_LANE_AND_START: Final = ("lane", "start")


def add_launch_correlations(
    located_events: Sequence[LocatedEvents],
    results: Sequence[SegmentResult],
    firsts: Sequence[int],
    file_lanes: FileLanes,
    spill: Spill,
) -> list[LocatedEvents]:
    """The events, with correlation ids for operators and kernels that a launch flow connects.

    The id is the ordinal of the operator's element.
    """
    if not located_events or not any(result.flow_ends for result in results):
        return list(located_events)
    ends = _flow_ends_on_lanes(results, firsts, file_lanes)
    if ends.is_empty():
        return list(located_events)
    events = pl.concat([_event_starts(*each) for each in located_events]).sort("record")
    starts = _match_flow_ends(ends.filter("begins"), events, "backward").select("flow", correlation="event")
    finishes = _match_flow_ends(ends.filter(~pl.col("begins")), events, "forward").select("flow", "event")
    launched = finishes.join(starts, on="flow").drop("flow")
    ids = pl.concat([launched, launched.select(event="correlation", correlation="correlation")]).unique(
        "event", keep="first", maintain_order=True
    )
    return [
        (_set_correlations(events_chunk, ids, first, spill), lanes, first)
        for events_chunk, lanes, first in located_events
    ]


def _flow_ends_on_lanes(results: Sequence[SegmentResult], firsts: Sequence[int], file_lanes: FileLanes) -> pl.DataFrame:
    """Ends of launch flows on lanes with events; in merged files each run has its own flow ids."""
    flow_lane_of = cache(lambda pid, tid: _flow_lane(thread_lane_key(pid, tid), file_lanes))
    rows = [
        (first + end.record, end.begins, f"{flow_lane.run} {end.id}", flow_lane.lane, end.start)
        for result, first in zip(results, firsts, strict=True)
        for end in result.flow_ends
        if (flow_lane := flow_lane_of(end.pid, end.tid)) is not None
    ]
    return pl.DataFrame(rows, _FLOW_END_SCHEMA, orient="row")


class _FlowLane(NamedTuple):
    run: int
    lane: int


def _flow_lane(key: LaneKey, file_lanes: FileLanes) -> _FlowLane | None:
    """Run and lane number of a lane; None if it has no events."""
    return (
        _FlowLane(file_lanes.runs.run_of(key.pid), file_lanes.lane_numbers[key])
        if key in file_lanes.lane_numbers
        else None
    )


def _event_starts(events_chunk: SpilledEvents, lanes: Ints, first: int) -> pl.DataFrame:
    """Ordinal, lane and start (ns) of each event."""
    rows = events_chunk.spilled.read_frame(columns=("record", "lane", "start"))
    return rows.select(
        pl.col("record").cast(pl.Int64) + first,
        pl.Series("lane", lanes[rows["lane"].to_numpy()]),
        pl.col("start") // 1000 + events_chunk.start,
    )


def _match_flow_ends(
    ends: pl.DataFrame, events: pl.DataFrame, direction: Literal["backward", "forward"]
) -> pl.DataFrame:
    """The flow ends with the ordinal of their `event`.

    If several events start there, the next one in the file in this direction is taken: PyTorch writes a flow between
    its events. Since a tool may have reordered them, the nearest in the opposite direction is the fallback.
    """
    opposite: Final = "forward" if direction == "backward" else "backward"
    events = events.with_columns(event="record")
    matched = ends.sort("record")
    for name, strategy in (("near", direction), ("far", opposite)):
        matched = matched.join_asof(
            events.rename({"event": name}), on="record", by=_LANE_AND_START, strategy=strategy, check_sortedness=False
        )
    return (
        matched.with_columns(event=pl.coalesce("near", "far"))
        .drop_nulls("event")
        .unique("flow", keep="first", maintain_order=True)
    )


def _set_correlations(events_chunk: SpilledEvents, ids: pl.DataFrame, first: int, spill: Spill) -> SpilledEvents:
    rows = events_chunk.spilled.read_frame()
    events = rows.select(event=pl.col("record").cast(pl.Int64) + first)
    correlation = events.join(ids, on="event", how="left", maintain_order="left")["correlation"]
    if correlation.null_count() == len(correlation):
        return events_chunk
    spilled = spill.spill_frame(
        rows.with_columns(correlation), f"tied-{first}-{events_chunk.start}-{int(events_chunk.may_be_collective)}"
    )
    return events_chunk._replace(spilled=spilled)
