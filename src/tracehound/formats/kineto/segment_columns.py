"""Events of a segment of a Kineto file as columns.

Fields of every event become columns at once; those of few events (devices, messages, thread names) are read only for
these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import compress
from typing import Any, Final, cast

import msgspec
import numpy as np
import numpy.typing as npt

from tracehound.formats.assembly.counter_samples import CounterKey, SampleCollector, parse_event_args
from tracehound.formats.json.array_segments import JsonChunk, chunk_of_text
from tracehound.formats.json.value_columns import (
    MISSING,
    NS_PER_US,
    ResultsByCode,
    ValueCodes,
    as_text,
    parse_count,
    parse_ids,
    to_exact_ticks,
    to_ticks,
)
from tracehound.formats.kineto.arg_values import collective_message_bytes, convert_to_integers, input_tensor_bytes
from tracehound.formats.kineto.categories import engine_kind
from tracehound.formats.kineto.event_columns import (
    GLOO_PREFIX,
    MEMORY_EVENT_NAME,
    NO_EVENT_COLUMNS,
    PROFILER_EVENT_PREFIXES,
    EventColumns,
    EventSignature,
    is_device_event,
    may_have_call_args,
    may_have_wait_args,
)
from tracehound.formats.kineto.json_events import (
    BeginEvent,
    CompleteEvent,
    CounterEvent,
    EndEvent,
    EventArgs,
    FlowFinish,
    FlowStart,
    FlowStep,
    InstantEvent,
    JsonEvent,
    MetadataEvent,
    OldInstantEvent,
    RawId,
    RawTime,
    UnknownPhaseEvent,
)
from tracehound.formats.kineto.kineto_counters import (
    allocator_devices_of_args,
    memory_samples_of_args,
    missing_memory_args,
)
from tracehound.formats.kineto.native_scan import ScannedEvents, is_counter_sample
from tracehound.formats.kineto.note_counts import (
    COUNTER_SAMPLES,
    EDGE_ALONE,
    EVENT_WITHOUT_DURATION,
    EVENT_WITHOUT_PHASE,
    FLOW_EVENTS_SKIPPED,
    ID_TOO_LARGE,
    MEMORY_EVENTS,
    UNKNOWN_PHASE,
    NoteCounts,
)
from tracehound.formats.kineto.paired_slices import EdgesLeft, EdgeThread, PairedSlice, SliceEdges
from tracehound.formats.kineto.process_ids import LAUNCH_FLOW_CATEGORIES, LaunchFlowEndpoint, launch_flow_ends
from tracehound.formats.kineto.scanned_columns import ScannedColumnBuilder
from tracehound.formats.kineto.segment_facets import KnownCombinations, SegmentFacets
from tracehound.formats.torch_names import COLLECTIVE_PARAMS
from tracehound.numeric.intervals import Ints, Mask

KinetoChunk = JsonChunk[ScannedEvents | list[JsonEvent]]
"""A decoded chunk of a Kineto file's array."""

_LEFTOVERS_AT_ONCE: Final = 1 << 12
"""Number of elements left over by the scanner that are added without waiting for more."""

_PLAIN_ARGS, _DEVICE_ARGS, _COLLECTIVE_PARAMS, _GLOO_ARGS = range(4)

_COMPLETE, _INSTANT, _METADATA, _COUNTER, _FLOW, _EDGE, _UNKNOWN = range(7)
_PHASES: Final[Mapping[type[JsonEvent], int]] = {
    CompleteEvent: _COMPLETE, InstantEvent: _INSTANT, OldInstantEvent: _INSTANT, MetadataEvent: _METADATA,
    BeginEvent: _EDGE, EndEvent: _EDGE, CounterEvent: _COUNTER, FlowStart: _FLOW, FlowStep: _FLOW, FlowFinish: _FLOW,
    UnknownPhaseEvent: _UNKNOWN,
}  # fmt: skip


class SegmentColumns:
    """Columns of the events of a segment so far.

    `signatures` (category, pid, tid), `names` and `devices` (code of the signature; device and stream as in the args)
    give the codes in the columns. `metadata` has the names that metadata events give to a (pid, tid).
    `collective_sizes` has the message bytes (-1: unknown) of each operator that started a collective, by its pid and
    External id. `note_counts` counts elements that are not in the columns; `samples` are those of counters; `facets`
    has what only some events carry, and `known` the arg combinations of earlier segments; `flow_ends` are the ends of
    launch flows. `has_engines`: kernels name the engine of Intel Gaudi that ran them. `edges_left` are begins and ends
    of slices that the segment does not pair, which are all of them with `pair_late`.
    """

    def __init__(self, known: KnownCombinations, *, pair_late: bool = False) -> None:
        self.signatures, self.names, self.devices = ValueCodes(), ValueCodes(), ValueCodes()
        self.metadata: dict[tuple[str, RawId, RawId], str] = {}
        self.collective_sizes: dict[tuple[RawId, int], int] = {}
        self.note_counts = NoteCounts()
        self.samples = SampleCollector()
        self.facets = SegmentFacets(known)
        self.flow_ends: list[LaunchFlowEndpoint] = []
        self.has_engines = False
        self.edges_left: dict[EdgeThread, EdgesLeft] = {}
        self._edges = SliceEdges(pair_late)
        self._count = 0
        self._columns = [NO_EVENT_COLUMNS]
        self._leftovers, self._leftover_texts, self._leftover_records = list[JsonEvent](), list[bytes](), list[Ints]()
        self._from_scan = ScannedColumnBuilder(
            self.signatures, self.names, self.devices, self.note_counts, self.samples, self.facets
        )
        self._args_class = ResultsByCode(
            self.signatures, lambda signature: _DEVICE_ARGS if is_device_event(signature) else _PLAIN_ARGS
        )
        self._calls = ResultsByCode(self.signatures, may_have_call_args)
        self._waits = ResultsByCode(self.signatures, may_have_wait_args)
        self._args_class_by_name = ResultsByCode(self.names, _args_class_of_name)

    def add(self, chunk: KinetoChunk) -> None:
        """Append a chunk."""
        events, first = chunk.events, self._count
        self._count += len(events)
        if isinstance(events, ScannedEvents):
            self._columns.append(self._from_scan.add(events, first))
            self._defer_leftovers(events, first)
        else:
            self._add_leftovers()
            self._add_elements(events, np.arange(first, self._count), chunk)

    def _defer_leftovers(self, events: ScannedEvents, first: int) -> None:
        """Collect the elements that the scanner left over: there are too few in most chunks to add them chunk by chunk.

        Counter samples are added at once: they must stay in the order of the file.
        """
        if not events.leftovers:
            return
        self._leftovers += events.leftovers
        self._leftover_texts += events.leftover_texts
        self._leftover_records.append(events.leftover_rows + first)
        if len(self._leftovers) >= _LEFTOVERS_AT_ONCE or any(map(is_counter_sample, events.leftovers)):
            self._add_leftovers()

    def _add_leftovers(self) -> None:
        """Append the collected elements."""
        if not self._leftovers:
            return
        elements, records = self._leftovers, np.concatenate(self._leftover_records)
        chunk = chunk_of_text(elements, b"[%b]" % b",".join(self._leftover_texts))
        self._leftovers, self._leftover_texts, self._leftover_records = [], [], []
        self._add_elements(elements, records, chunk)

    def _add_elements(self, elements: list[JsonEvent], records: Ints, chunk: JsonChunk[Any]) -> None:
        """Append the elements of a chunk; `records` are their ordinals in the segment."""
        if not elements:
            return
        phases = np.fromiter(map(_PHASES.__getitem__, map(type, elements)), np.int8, len(elements))
        drawn = phases == _COMPLETE
        if not drawn.all():
            instants, memory = _instant_masks(elements, phases)
            drawn |= instants
            self._add_non_events(elements, records, chunk, phases, memory)
        rows = np.flatnonzero(drawn)
        if len(rows):
            events = elements if len(rows) == len(elements) else compress(elements, drawn.tolist())
            self._add_events(cast("list[CompleteEvent | InstantEvent]", list(events)), rows, records[rows], chunk)

    def event_columns(self) -> EventColumns:
        """Columns of all events in the order of the file. Call it last: it completes the other attributes."""
        self._add_leftovers()
        self._add_paired_slices()
        columns = EventColumns(*(np.concatenate(parts) for parts in zip(*self._columns, strict=True)))
        in_order = bool(np.all(columns.record[1:] > columns.record[:-1]))
        return columns if in_order else columns.take(np.argsort(columns.record, kind="stable"))

    def _add_paired_slices(self) -> None:
        """Append the slices of the segment that were written as a begin and an end."""
        slices, self.edges_left, timeless = self._edges.pair()
        self.add_slices(slices, timeless)

    def add_slices(self, slices: Sequence[PairedSlice], alone: Sequence[int]) -> None:
        """Append slices that were written as a begin and an end, and count those that are `alone` by their records."""
        self.note_counts.add(EDGE_ALONE, len(alone), min(alone, default=0))
        if not slices:
            return
        events: list[CompleteEvent | InstantEvent] = [each.event for each in slices]
        starts, lengths = (
            [Decimal(getattr(each, name)) / NS_PER_US for each in slices] for name in ("start", "length")
        )
        chunk = JsonChunk[Any](events, lambda: starts, lambda: lengths, list, lambda _: False)
        self._add_events(events, np.arange(len(events)), np.array([each.record for each in slices], np.int64), chunk)

    def _add_events(
        self, events: list[CompleteEvent | InstantEvent], rows: Ints, records: Ints, chunk: JsonChunk[Any]
    ) -> None:
        """Append events; `rows` are their positions in the chunk, `records` in the segment."""
        count, args = len(events), [event.args for event in events]
        correlation, large = parse_ids([each.correlation for each in args])
        external, larger = parse_ids([each.external_old if each.external is None else each.external for each in args])
        columns = EventColumns(
            record=records,
            signature=self.signatures.encode_values(_event_signatures(events), count),
            name=self.names.encode_values([event.name for event in events], count),
            start=_nanoseconds([event.ts for event in events], chunk.starts, rows),
            length=_nanoseconds([event.dur for event in events], chunk.lengths, rows),
            correlation=correlation,
            external=external,
            device=np.full(count, MISSING, np.int32),
            bytes=np.full(count, MISSING, np.int64),
            collective=np.zeros(count, np.bool_),
            copy=np.zeros(count, np.bool_),
        )
        self._columns.append(columns)
        self._count_missing_durations(events, columns)
        none = sorted({*large, *larger})
        self.note_counts.add(ID_TOO_LARGE, len(none), int(columns.record[none[0]]) if none else 0)
        args_class, by_name = (
            self._args_class.results_of_codes(columns.signature),
            self._args_class_by_name.results_of_codes(columns.name),
        )
        args_class = np.where(args_class == _PLAIN_ARGS, by_name, args_class)
        if args_class.any():
            self._add_device_args(np.flatnonzero(args_class == _DEVICE_ARGS), args, columns)
            self._add_collective_params(np.flatnonzero(args_class == _COLLECTIVE_PARAMS), args, columns)
            self._add_gloo_sizes(np.flatnonzero(args_class == _GLOO_ARGS), args, columns)
            self._add_collective_args(np.flatnonzero(args_class), args, columns)
        calls = np.flatnonzero(self._calls.results_of_codes(columns.signature))
        if len(calls):
            self.facets.add("called", columns.record[calls], [args[row] for row in calls.tolist()])
        waits = np.flatnonzero(self._waits.results_of_codes(columns.signature))
        if len(waits):
            self.facets.add("waited", columns.record[waits], [args[row] for row in waits.tolist()])

    def _count_missing_durations(self, events: Sequence[CompleteEvent | InstantEvent], columns: EventColumns) -> None:
        without_duration = [row for row in np.flatnonzero(columns.length == 0).tolist() if events[row].dur is False]
        rows = [row for row in without_duration if isinstance(events[row], CompleteEvent)]
        self.note_counts.add(EVENT_WITHOUT_DURATION, len(rows), int(columns.record[rows[0]]) if rows else 0)

    def _add_device_args(self, rows: Ints, args: Sequence[EventArgs], columns: EventColumns) -> None:
        args = [args[row] for row in rows.tolist()]
        devices = zip(
            columns.signature[rows].tolist(),
            [each.device for each in args],
            [each.stream for each in args],
            strict=True,
        )
        columns.device[rows] = self.devices.encode_values(devices, len(args))
        columns.bytes[rows] = [  # few kernels have any; checked here since this runs for every kernel
            MISSING
            if each.bytes is None and each.elements_in is None and each.elements_out is None
            else _message_size(each)
            for each in args
        ]
        self.facets.add("launched", columns.record[rows], args)
        engines = [engine_kind(as_text(each.engine)) if each.engine is not None else "" for each in args]
        self.has_engines |= any(engines)
        columns.collective[rows] |= np.array([engine == "collective" for engine in engines], np.bool_)
        columns.copy[rows] = [engine == "copy" for engine in engines]
        copies = [row for row, each in enumerate(args) if each.copy_bandwidth is not None]
        self.facets.add("copied", columns.record[rows[copies]], [args[row] for row in copies])

    def _add_collective_params(self, rows: Ints, args: Sequence[EventArgs], columns: EventColumns) -> None:
        recorded = list(self.signatures) if len(rows) else []
        for row in rows.tolist():
            columns.bytes[row] = _message_size(args[row])
            _, pid, _ = recorded[columns.signature[row]]
            self.collective_sizes[pid, int(columns.external[row])] = int(columns.bytes[row])

    def _add_collective_args(self, rows: Ints, args: Sequence[EventArgs], columns: EventColumns) -> None:
        """Add the args of events that name a collective, on devices and on the host."""
        collective_rows = [row for row in rows.tolist() if args[row].collective is not None]
        columns.collective[collective_rows] |= columns.device[collective_rows] >= 0
        self.facets.add("communicated", columns.record[collective_rows], [args[row] for row in collective_rows])

    def _add_gloo_sizes(self, rows: Ints, args: Sequence[EventArgs], columns: EventColumns) -> None:
        for row in rows.tolist():
            size = _message_size(args[row])
            columns.bytes[row] = _input_tensors_size(args[row]) if size == MISSING else size

    def _add_non_events(
        self,
        elements: list[JsonEvent],
        records: Ints,
        chunk: JsonChunk[Any],
        phases: npt.NDArray[np.int8],
        memory: Mask,
    ) -> None:
        """Read or count the elements that are not in the columns; `memory` marks the instants of memory."""
        for row in np.flatnonzero(phases == _METADATA).tolist():
            metadata_event = cast(MetadataEvent, elements[row])
            self.metadata[metadata_event.name, metadata_event.pid, metadata_event.tid] = as_text(
                metadata_event.args.name
            )
        edges = np.flatnonzero(phases == _EDGE)
        if len(edges):
            found = [cast("BeginEvent", elements[row]) for row in edges.tolist()]
            self._edges.add(found, records[edges], _nanoseconds([edge.ts for edge in found], chunk.starts, edges))
        for row in np.flatnonzero(phases == _UNKNOWN).tolist():
            self.note_counts.add(
                UNKNOWN_PHASE if cast(UnknownPhaseEvent, elements[row]).ph else EVENT_WITHOUT_PHASE,
                1,
                int(records[row]),
            )
        counters = phases == _COUNTER
        for note, mask in (
            (FLOW_EVENTS_SKIPPED, phases == _FLOW),
            (MEMORY_EVENTS, memory),
            (COUNTER_SAMPLES, counters),
        ):
            self.note_counts.add(note, int(np.count_nonzero(mask)), int(records[np.argmax(mask)]))
        flows = np.flatnonzero(phases == _FLOW)
        if len(flows) and any(chunk.holds(category.encode()) for category in LAUNCH_FLOW_CATEGORIES):
            self._add_flows(flows, records, chunk)
        rows = np.flatnonzero(counters | memory)
        if len(rows):
            sampled = cast("list[CounterEvent | InstantEvent]", [elements[row] for row in rows.tolist()])
            self._add_samples(sampled, memory[rows], rows, records[rows], chunk)

    def _add_flows(self, rows: Ints, records: Ints, chunk: JsonChunk[Any]) -> None:
        """Read the launch flows at these rows of a chunk, decoded again since no other flow needs decoding."""
        raws, times = chunk.raws(), to_exact_ticks(chunk.starts(), NS_PER_US)
        rows = rows[rows < len(raws)]
        self.flow_ends += launch_flow_ends([raws[row] for row in rows.tolist()], records[rows], times[rows])

    def _add_samples(
        self, events: list[CounterEvent | InstantEvent], memory: Mask, rows: Ints, records: Ints, chunk: JsonChunk[Any]
    ) -> None:
        """Add the values of counters and of memory events, in the order of the file."""
        time = _nanoseconds([event.ts for event in events], chunk.starts, rows)
        for run in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(memory)) + 1):
            some = events[run[0] : run[-1] + 1]
            if memory[run[0]]:
                self._add_memory(cast("list[InstantEvent]", some), records[run], time[run])
            else:
                self._add_counters(cast("list[CounterEvent]", some), records[run], time[run], chunk.raws(), rows[run])

    def _add_counters(
        self, counters: Sequence[CounterEvent], records: Ints, time: Ints, raws: Sequence[msgspec.Raw], rows: Ints
    ) -> None:
        """Add the values of counters. Their args are decoded again here, since nothing else needs them."""
        for counter, record, at, row in zip(counters, records.tolist(), time.tolist(), rows.tolist(), strict=True):
            values_by_arg = parse_event_args(raws[row]) if row < len(raws) else {}
            values = {
                CounterKey(counter.pid, counter.name, as_text(arg)): value for arg, value in values_by_arg.items()
            }
            self.samples.add(record, at, values)

    def _add_memory(self, instants: Sequence[InstantEvent], records: Ints, time: Ints) -> None:
        """Add memory events, all at once since there are many."""
        args = [instant.args for instant in instants]
        device = allocator_devices_of_args(args)
        for note, lacking in missing_memory_args(args).items():
            self.note_counts.add_mask(note, lacking, records)
        self.samples.extend(records, time, memory_samples_of_args(args, device))
        self.facets.add_memory(records, time, device, [instant.tid for instant in instants], args)


def _instant_masks(elements: Sequence[JsonEvent], phases: npt.NDArray[np.int8]) -> tuple[Mask, Mask]:
    """Masks of the instants that are drawn, and of those of memory; the profiler's own instants are in neither."""
    drawn, memory = np.zeros((2, len(phases)), np.bool_)
    rows = np.flatnonzero(phases == _INSTANT)
    instants = cast("Sequence[InstantEvent]", elements)
    names = [instants[row].name for row in rows.tolist()]
    memory[rows] = [name == MEMORY_EVENT_NAME for name in names]
    drawn[rows] = [name != MEMORY_EVENT_NAME and not name.startswith(PROFILER_EVENT_PREFIXES) for name in names]
    return drawn, memory


def _event_signatures(events: Sequence[CompleteEvent | InstantEvent]) -> Iterable[EventSignature]:
    """Signatures of events; `zip` reuses one tuple."""
    cats, pids, tids = [event.cat for event in events], [event.pid for event in events], [event.tid for event in events]
    return zip(cats, pids, tids, strict=True)


def _args_class_of_name(name: str) -> int:
    return (
        _COLLECTIVE_PARAMS if name == COLLECTIVE_PARAMS else _GLOO_ARGS if name.startswith(GLOO_PREFIX) else _PLAIN_ARGS
    )


def _nanoseconds(times: Sequence[RawTime], recorded: Callable[[], Sequence[Any]], rows: Ints) -> Ints:
    """Times of these rows of a chunk in ns; where floats are not exact, from the text in the file."""
    nanoseconds = to_ticks(times, NS_PER_US)
    if nanoseconds is None:
        exact = recorded()
        nanoseconds = to_exact_ticks([exact[row] for row in rows.tolist()], NS_PER_US)
    return nanoseconds


def _message_size(args: EventArgs) -> int:
    if args.bytes is not None:
        return parse_count(args.bytes)
    if args.elements_in is not None or args.elements_out is not None:
        return collective_message_bytes(parse_count(args.elements_in), parse_count(args.elements_out), args.dtype)
    return MISSING


def _input_tensors_size(args: EventArgs) -> int:
    """Bytes of the tensors that an operator was called with."""
    try:
        return input_tensor_bytes(convert_to_integers(msgspec.json.decode(args.dims)), msgspec.json.decode(args.types))
    except (msgspec.MsgspecError, RecursionError):
        return MISSING
