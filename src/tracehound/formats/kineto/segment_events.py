"""Events of a segment of a Kineto file: the drawn ones, spilled with their kinds, steps and lanes.

Runs where the segment is decoded; `merged_segments` adds what needs the whole file. Events that are left out are
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import starmap
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.formats.assembly.counter_samples import SpilledSamples
from tracehound.formats.assembly.derived_columns import RAW_EVENTS
from tracehound.formats.device_occupancy import THREAD_GRID_CALLS
from tracehound.formats.json.value_columns import INVALID, MISSING, CodeArray, ResultsByCode
from tracehound.formats.kineto.categories import (
    NAMES_WITH_KINDS,
    copy_kind,
    is_mtia_copy,
    is_unknown_category,
    kernel_kind,
    operator_kind,
    parse_category,
    runtime_call_kind,
    step_number,
)
from tracehound.formats.kineto.event_columns import GLOO_PREFIX, EventColumns, EventSignature, is_device_event
from tracehound.formats.kineto.json_events import RawId
from tracehound.formats.kineto.kineto_lanes import LaneKey, LaneUsage, device_lane_key, thread_lane_key
from tracehound.formats.kineto.note_counts import (
    COUNTER_WITHOUT_NUMBER,
    EVENT_FAR_AWAY,
    EVENT_WITHOUT_TIME,
    EVENTS_WITHOUT_NAME,
    EVENTS_WITHOUT_THREAD,
    FOREIGN_CATEGORIES,
    NEGATIVE_DURATION,
    OPERATORS_TIMED_ON_DEVICES,
    NoteCounts,
    NoteKind,
)
from tracehound.formats.kineto.paired_slices import EdgesLeft, EdgeThread
from tracehound.formats.kineto.process_ids import LaunchFlowEndpoint, autograd_event_kind
from tracehound.formats.kineto.segment_columns import SegmentColumns
from tracehound.formats.spill import MaskedColumn, Spill, SpilledRows
from tracehound.formats.value_bounds import MAX_DISTANCE_NS
from tracehound.model.trace import KIND_CODES, KINDS
from tracehound.numeric.intervals import Ints, Mask

_MAX_FRAME_NS: Final = 6 * 24 * 3600 * 10**9
"""Events that start within this (ns) of each other, and last less than `MAX_DISTANCE_NS`, fit a frame of Int64 ps."""

_START_SAMPLE_SIZE: Final = 1_000


class SpilledEvents(NamedTuple):
    """Events that are near each other in time, with the columns of `RAW_EVENTS` and the segment's lane numbers.

    Times in the frame are ps from `start`; `start`, `last` (the last start) and `end` are ns as in the file. With
    `may_be_collective`, other segments may show that these events belong to a collective.
    """

    spilled: SpilledRows
    start: int
    last: int
    end: int
    may_be_collective: bool


class SegmentResult(Struct, frozen=True):
    """Spilled events of a segment, and what the whole file needs to know of them.

    `lanes` has the usage of each lane, in the order of the lane numbers; `recorded_names` and `collective_sizes` are
    those of `SegmentColumns`. `start_sample` has some of the starts (ns), `profiler_span` the start and length of the
    profiler's own span (`INVALID` for an invalid time; None without a span). `samples` are those of counters, and
    `facets` those of `FACET_SCHEMAS`, with times in ns; `categories` and `kinds` are those of the events,
    `writers` the processes that mark steps or call a device's runtime, with the number of these events.
    `flow_ends` are the ends of launch flows, `edges_left` those of `SegmentColumns`. `has_thread_grids`: a call gives
    the grid of a kernel in threads.
    """

    spilled_events: tuple[SpilledEvents, ...]
    lanes: dict[LaneKey, LaneUsage]
    recorded_names: dict[tuple[str, RawId, RawId], str]
    collective_sizes: dict[tuple[RawId, int], int]
    note_counts: NoteCounts
    start_sample: Ints
    profiler_span: tuple[int, int] | None
    device_family: str
    categories: frozenset[str]
    kinds: frozenset[str]
    writers: Mapping[RawId, int]
    samples: SpilledSamples
    facets: Mapping[str, SpilledRows]
    flow_ends: tuple[LaunchFlowEndpoint, ...]
    edges_left: Mapping[EdgeThread, EdgesLeft]
    has_thread_grids: bool


def spill_segment(columns: SegmentColumns, kind_cache: KindCache, spill: Spill, name: str) -> SegmentResult:
    """Spill the drawn events of a segment into files whose names start with `name`."""
    events, note_counts = columns.event_columns(), NoteCounts()
    note_counts.merge(columns.note_counts, 0)
    note_counts.add(COUNTER_WITHOUT_NUMBER, len(columns.samples.broken), min(columns.samples.broken, default=0))
    keys, lane = number_lanes(columns, events)
    in_profiler_span = (
        ResultsByCode(
            columns.signatures, lambda signature: parse_category(signature[0]).role == "none"
        ).results_of_codes(events.signature)
        > 0
    )
    drawn = ~in_profiler_span
    timed = (events.start != INVALID) & (events.length != INVALID)
    note_counts.add_mask(EVENT_WITHOUT_TIME, drawn & ~timed, events.record)
    too_long = drawn & timed & (events.length >= MAX_DISTANCE_NS)
    note_counts.add_mask(EVENT_FAR_AWAY, too_long, events.record)
    drawn &= timed & ~too_long
    starts = events.start[drawn]
    note_counts.add_mask(NEGATIVE_DURATION, drawn & (events.length < 0), events.record)
    for note, applies in _NOTES_BY_SIGNATURE.items():
        codes_with_note = ResultsByCode(columns.signatures, applies).all_results() > 0
        if codes_with_note.any():
            note_counts.add_mask(note, drawn & codes_with_note[events.signature], events.record)
    if "" in columns.names:
        note_counts.add_mask(EVENTS_WITHOUT_NAME, drawn & (events.name == columns.names[""]), events.record)
    rows = np.flatnonzero(drawn)
    drawn_events = events if len(rows) == len(drawn) else events.take(rows)
    texts = pl.Series(list(columns.names), dtype=pl.String())
    kind, step = kinds_and_steps(columns, drawn_events, texts, kind_cache)
    names = texts.cast(pl.Categorical())  # polars frees categories that no series uses
    shared_columns = {
        **_columns_without_times(drawn_events, names.to_physical().to_numpy(), kind, step),
        "lane": MaskedColumn(lane[rows]),
        "record": MaskedColumn(drawn_events.record),
    }
    groups = _group_rows(drawn_events.start, collective_candidates(columns, drawn_events, kind))
    length, counts = np.maximum(drawn_events.length, 0), np.bincount(lane[~in_profiler_span], minlength=len(keys))
    busy_time = np.bincount(lane[rows], weights=length, minlength=len(keys)).astype(np.int64)
    return SegmentResult(
        spilled_events=tuple(_spill_groups(shared_columns, drawn_events.start, length, groups, names, spill, name)),
        lanes=dict(zip(keys, starmap(LaneUsage, np.column_stack([counts, busy_time]).tolist()), strict=True)),
        recorded_names=columns.metadata,
        collective_sizes=columns.collective_sizes,
        note_counts=note_counts,
        start_sample=starts[:: 1 + len(starts) // _START_SAMPLE_SIZE].copy(),  # a view would keep all starts in memory
        profiler_span=_profiler_span(events, in_profiler_span),
        device_family=next(
            (found for cat, *_ in columns.signatures if (found := parse_category(cat).family)),
            "HPU" if columns.has_engines else "",
        ),
        categories=frozenset(cat for cat, *_ in columns.signatures),
        kinds=frozenset(KINDS[code] for code in np.flatnonzero(np.bincount(kind)).tolist()),
        writers=_count_by_writer(columns, drawn_events, (step >= 0) | (kind == KIND_CODES["runtime"])),
        samples=columns.samples.finish().spill_samples(spill, f"{name}-samples"),
        facets=columns.facets.spill(spill, name, note_counts),
        flow_ends=tuple(columns.flow_ends),
        edges_left=columns.edges_left,
        has_thread_grids=not columns.names.keys().isdisjoint(THREAD_GRID_CALLS),
    )


def _count_by_writer(columns: SegmentColumns, events: EventColumns, rows: npt.NDArray[np.bool_]) -> dict[RawId, int]:
    """The processes of some events of a host, and the number of these events."""
    counts, found = np.bincount(events.signature[rows], minlength=len(columns.signatures)), Counter[RawId]()
    for (_, pid, _), count in zip(columns.signatures, counts.tolist(), strict=True):
        found[pid] += count
    return {pid: count for pid, count in found.items() if count}


def _has_unknown_category(signature: EventSignature) -> bool:
    """True if the kind of a signature's events is unknown."""
    return is_unknown_category(signature[0]) and autograd_event_kind(signature) is None


_NOTES_BY_SIGNATURE: Final[Mapping[NoteKind, Callable[[EventSignature], bool]]] = {
    FOREIGN_CATEGORIES: _has_unknown_category,
    OPERATORS_TIMED_ON_DEVICES: lambda signature: autograd_event_kind(signature) == "kernel",
    EVENTS_WITHOUT_THREAD: lambda signature: signature[2] is None and not is_device_event(signature),
}
"""Notes on events by their category, process and thread."""


def _columns_without_times(
    events: EventColumns, categories: npt.NDArray[np.uint32], kind: npt.NDArray[np.int8], step: npt.NDArray[np.int32]
) -> dict[str, MaskedColumn]:
    """Columns of the events except for lane, times and record; ids that no event has are left out."""
    found = {"name": MaskedColumn(categories[events.name]), "kind": MaskedColumn(kind.view(np.uint8))}
    ids: dict[str, Ints | CodeArray] = {
        "step": step,
        "correlation": events.correlation,
        "external": events.external,
        "bytes": events.bytes,
    }
    for name, values in ids.items():
        valid = values >= 0
        if valid.any():
            found[name] = MaskedColumn(values, None if valid.all() else valid)
    return found


def _group_rows(start: Ints, collective: Mask) -> list[tuple[Ints | None, bool]]:
    """Rows (None: all) of each group that is spilled together, and whether its events may be collectives."""
    if not len(start):
        return []
    if int(start.max()) - int(start.min()) < _MAX_FRAME_NS:
        if not collective.any():
            return [(None, False)]
        parts = (np.flatnonzero(~collective), False), (np.flatnonzero(collective), True)
        return [(rows, may_be_collective) for rows, may_be_collective in parts if len(rows)]
    group = (start - start.min()) // _MAX_FRAME_NS * 2 + collective
    return [(np.flatnonzero(group == number), bool(number % 2)) for number in np.unique(group).tolist()]


def _spill_groups(
    columns: Mapping[str, MaskedColumn],
    start: Ints,
    length: Ints,
    groups: list[tuple[Ints | None, bool]],
    names: pl.Series,
    spill: Spill,
    name: str,
) -> Iterator[SpilledEvents]:
    """Spill the groups of events with their times; `names` has the categories of all names."""
    end = start + length
    for number, (rows, may_be_collective) in enumerate(groups):
        starts, ends = (start, end) if rows is None else (start[rows], end[rows])
        origin = int(starts.min())
        group_columns = {
            **columns,
            "start": MaskedColumn((start - origin) * 1000),
            "end": MaskedColumn((end - origin) * 1000),
        }
        spilled = spill.spill_columns(
            group_columns, {each: RAW_EVENTS[each] for each in group_columns}, f"{name}-{number}", rows, [names]
        )
        yield SpilledEvents(spilled, origin, int(starts.max()), int(ends.max()), may_be_collective)


def _profiler_span(events: EventColumns, in_profiler_span: Mask) -> tuple[int, int] | None:
    """Start and length (ns) of the profiler's own span, before the file's base time is added."""
    first = int(np.argmax(in_profiler_span)) if len(in_profiler_span) else 0
    return (int(events.start[first]), int(events.length[first])) if in_profiler_span.any() else None


def number_lanes(columns: SegmentColumns, events: EventColumns) -> tuple[list[LaneKey], npt.NDArray[np.int32]]:
    """The lanes of a segment in the order of their first events, and the lane of every event."""
    numbers: dict[LaneKey, int] = {}
    signatures = list(columns.signatures)
    thread_lanes = [numbers.setdefault(thread_lane_key(pid, tid), len(numbers)) for _, pid, tid in signatures]
    device_lanes = [
        numbers.setdefault(device_lane_key(signatures[code], *device_and_stream), len(numbers))
        for code, *device_and_stream in columns.devices
    ]
    lane = np.array(thread_lanes, np.int32)[events.signature]
    on_device = events.device >= 0
    lane[on_device] = np.array(device_lanes, np.int32)[events.device[on_device]]
    keys, first = list(numbers), np.full(len(numbers), len(lane))
    lanes, first_rows = np.unique(lane, return_index=True)
    first[lanes] = first_rows
    order = np.argsort(first, kind="stable")
    return [keys[number] for number in order], np.argsort(order).astype(np.int32)[lane]


_KIND_BY_NAME: Final = {"kernel": kernel_kind, "copy": copy_kind, "runtime": runtime_call_kind, "op": operator_kind}


_MAX_KINDS_OF_FILES: Final = 1 << 14
"""More kinds than this are not kept for the next file."""


class KindCache(dict[tuple[str, str], int]):
    """Kind of an event by the kind of its category and its name.

    It is kept over segments and files, which share most names.
    """

    def forget_many(self) -> None:
        """Before the next file, forget the kinds if they are many."""
        if len(self) > _MAX_KINDS_OF_FILES:
            self.clear()

    def __missing__(self, key: tuple[str, str]) -> int:
        by_category, name = key
        number = self[key] = KIND_CODES[_KIND_BY_NAME[by_category](name)]
        return number


def kinds_and_steps(
    columns: SegmentColumns, events: EventColumns, texts: pl.Series, kind_cache: KindCache
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32]]:
    """Kind of each event as a position in `KINDS`, by category, then args, then name; and its step (-1: none).

    `texts` has the names of the columns.
    """
    kind = ResultsByCode(columns.signatures, _kind_of_signature).results_of_codes(events.signature)
    with_kind = np.flatnonzero(NAMES_WITH_KINDS.may_match(texts))
    named = texts if len(with_kind) == len(texts) else texts.gather(with_kind)
    names = dict(zip(with_kind.tolist(), named.to_list(), strict=True))
    for kind_name in _KIND_BY_NAME:
        rows = np.flatnonzero(kind == KIND_CODES[kind_name])
        kind_of_name = np.full(len(texts), KIND_CODES[kind_name], np.int8)
        for code in _used_codes(events.name[rows], with_kind, len(texts)):
            kind_of_name[code] = kind_cache[kind_name, names[code]]
        kind[rows] = kind_of_name[events.name[rows]]
    on_mtia = ResultsByCode(columns.signatures, _is_mtia_event).all_results() > 0
    if on_mtia.any():
        is_copy = ResultsByCode(columns.names, is_mtia_copy).results_of_codes(events.name)
        kind[on_mtia[events.signature] & (is_copy > 0) & (kind == KIND_CODES["kernel"])] = KIND_CODES["copy"]
    kind[events.copy & (kind == KIND_CODES["kernel"])] = KIND_CODES["copy"]
    kind[events.collective & (kind == KIND_CODES["kernel"])] = KIND_CODES["collective"]
    step = _step_numbers(names, len(texts), events, kind)
    kind[step >= 0] = KIND_CODES["step"]
    return kind, step


def collective_candidates(
    columns: SegmentColumns, events: EventColumns, kind: npt.NDArray[np.int8]
) -> npt.NDArray[np.bool_]:
    """Mask of the events that may be collectives, depending on operators elsewhere in the file or on its devices."""
    kernel, collective = kind == KIND_CODES["kernel"], kind == KIND_CODES["collective"]
    candidates: npt.NDArray[np.bool_] = (kernel | (collective & (events.bytes < 0))) & (events.external >= 0)
    gloo = ResultsByCode(columns.names, lambda name: name.startswith(GLOO_PREFIX)).all_results()
    if gloo.any():
        candidates |= (kind == KIND_CODES["annotation"]) & (gloo[events.name] > 0)
    return candidates


def _kind_of_signature(signature: EventSignature) -> int:
    return KIND_CODES[autograd_event_kind(signature) or parse_category(signature[0]).kind]


def _is_mtia_event(signature: EventSignature) -> bool:
    return parse_category(signature[0]).family == "MTIA"


def _used_codes(column: CodeArray, codes: Ints, size: int) -> list[int]:
    """Those of these codes, all below `size`, that are in the column."""
    is_used = np.zeros(size, np.bool_)
    is_used[column] = True
    used: list[int] = codes[is_used[codes]].tolist()
    return used


def _step_numbers(
    names: Mapping[int, str], size: int, events: EventColumns, kind: npt.NDArray[np.int8]
) -> npt.NDArray[np.int32]:
    """Step that each event marks, -1 for none. Marks are on threads; those on devices only repeat them.

    `names` has the names that may mark steps, by their codes, which are below `size`.
    """
    step_of_name = np.full(size, MISSING, np.int32)
    step_of_name[list(names)] = [step_number(name) for name in names.values()]
    may_mark_step = ((kind == KIND_CODES["annotation"]) | (kind == KIND_CODES["op"])) & (events.device < 0)
    return np.where(may_mark_step, step_of_name[events.name], np.int32(MISSING))
