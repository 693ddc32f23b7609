"""Scanned events of a segment, turned into the columns that decoded events give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, Generic

import numpy as np
import numpy.typing as npt

from tracehound.formats.assembly.counter_samples import SampleCollector
from tracehound.formats.json.value_columns import MISSING, CodeArray, ValueCodes
from tracehound.formats.kineto.arg_values import parse_natural
from tracehound.formats.kineto.event_columns import (
    MEMORY_EVENT_NAME,
    PROFILER_EVENT_PREFIXES,
    EventColumns,
    is_device_event,
    may_have_call_args,
)
from tracehound.formats.kineto.json_events import (
    CompleteEvent,
    InstantEvent,
)
from tracehound.formats.kineto.kineto_counters import TotalsColumn, memory_samples
from tracehound.formats.kineto.native_scan import (
    BYTES,
    COMPLETE_PHASE,
    CORRELATION,
    DUR,
    EXTERNAL,
    EXTERNAL_OLD,
    FLOW_PHASES,
    FORWARD,
    INSTANT_PHASES,
    LOCATION,
    MEMORY_ADDRESS,
    MEMORY_CHANGE,
    MEMORY_DEVICE,
    MEMORY_DEVICE_TYPE,
    NAME,
    SEQUENCE,
    TOTAL_ALLOCATED,
    TOTAL_RESERVED,
    TS,
    EventLaneKey,
    KeyTable,
    KeyValue,
    ScannedEvents,
)
from tracehound.formats.kineto.note_counts import (
    EVENT_WITHOUT_DURATION,
    FLOW_EVENTS_SKIPPED,
    MEMORY_EVENTS,
    MEMORY_WITHOUT_ADDRESS,
    MEMORY_WITHOUT_SIZE,
    NoteCounts,
)
from tracehound.formats.kineto.segment_facets import NO_CALL_ARGS, NO_COPY_ARGS, SegmentFacets
from tracehound.formats.spill import MaskedColumn
from tracehound.model.memory_devices import memory_device_numbers
from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.native.scanners import (
    ABSENT_NUMBER,
)

_DRAWN_INSTANT, _MEMORY_INSTANT, _PROFILER_INSTANT = range(3)
"""Classes of instants by name."""


_COMMON_NUMBERS: Final = (TS, DUR, CORRELATION, EXTERNAL, EXTERNAL_OLD, BYTES)
"""Numbers that any drawn event may have."""


class _ValuePerKey(Generic[KeyValue]):
    """Applies a function to the keys of a scanner, once for each key: it returns the values of several keys."""

    def __init__(self, function: Callable[[Sequence[KeyValue]], Sequence[int] | CodeArray]) -> None:
        self._function = function
        self._keys: KeyTable[KeyValue] | None = None
        self._values = np.empty(0, np.int64)

    def values_of(self, keys: KeyTable[KeyValue], codes: CodeArray) -> Ints:
        """Value for each of these codes; new keys are computed in the order of their first row."""
        self._add_keys(keys)
        found = self._values.take(codes)
        if int(found.min(initial=0)) != _NOT_COMPUTED:
            return found
        new = codes[self._first_rows(codes, found)]
        self._values[new] = self._function([keys.values[code] for code in new.tolist()])
        return self._values.take(codes)

    def first_rows_of_new_keys(self, keys: KeyTable[KeyValue], codes: CodeArray) -> Ints:
        """First row of each key that has no value yet."""
        self._add_keys(keys)
        return self._first_rows(codes, self._values.take(codes))

    def _add_keys(self, keys: KeyTable[KeyValue]) -> None:
        """Make room for the value of every key."""
        if keys is not self._keys:
            self._keys, self._values = keys, np.empty(0, np.int64)
        missing = len(keys.values) - len(self._values)
        if missing:
            self._values = np.append(self._values, np.full(missing, _NOT_COMPUTED))

    @staticmethod
    def _first_rows(codes: CodeArray, found: Ints) -> Ints:
        rows = np.flatnonzero(found == _NOT_COMPUTED)[::-1]
        if not len(rows):
            return rows
        first = np.full(int(codes.max()) + 1, -1)
        first[codes[rows]] = rows  # of several rows with one code the last one assigned stays: the first
        return np.sort(first[first >= 0])


_MEMORY_COLUMNS: Final = {
    "bytes": MEMORY_CHANGE,
    "address": MEMORY_ADDRESS,
    "allocated": TOTAL_ALLOCATED,
    "reserved": TOTAL_RESERVED,
}
"""Number columns of memory events."""

_NOT_COMPUTED: Final = int(np.iinfo(np.int64).min)


def _number_device(signatures: ValueCodes, devices: ValueCodes, location: EventLaneKey) -> int:
    """Code of the device and stream of a location; -1 for a host.

    A function, not a method: a method in the lambdas of `ScannedColumnBuilder` would keep a segment's columns in
    memory, since garbage collection is off while a file is read.
    """
    number = signatures[location.signature]
    return devices[number, location.device, location.stream] if is_device_event(location.signature) else MISSING


def _thread_id(location: EventLaneKey) -> int:
    """Id of the thread of a location; -1 for one that is no number."""
    thread = parse_natural(location.signature[2])
    return -1 if thread is None else thread


def _instant_class(name: str) -> int:
    """Class of an instant with this name."""
    if name == MEMORY_EVENT_NAME:
        return _MEMORY_INSTANT
    return _PROFILER_INSTANT if name.startswith(PROFILER_EVENT_PREFIXES) else _DRAWN_INSTANT


class ScannedColumnBuilder:
    """Turns scanned events into the columns of a segment; its arguments are the attributes of `SegmentColumns`."""

    def __init__(
        self,
        signatures: ValueCodes,
        names: ValueCodes,
        devices: ValueCodes,
        note_counts: NoteCounts,
        samples: SampleCollector,
        facets: SegmentFacets,
    ) -> None:
        self._note_counts, self._samples, self._facets = note_counts, samples, facets
        self._device_of = device_of = partial(_number_device, signatures, devices)
        self._signature = _ValuePerKey[EventLaneKey](lambda keys: [signatures[key.signature] for key in keys])
        self._device = _ValuePerKey[EventLaneKey](lambda keys: list(map(device_of, keys)))
        self._calls = _ValuePerKey[EventLaneKey](lambda keys: [may_have_call_args(key.signature) for key in keys])
        self._thread = _ValuePerKey[EventLaneKey](lambda keys: list(map(_thread_id, keys)))
        self._name = _ValuePerKey[str](lambda keys: names.encode_values(keys, len(keys)))
        self._instant = _ValuePerKey[str](lambda keys: list(map(_instant_class, keys)))
        self._launched = _ValuePerKey[tuple[Any, ...]](partial(facets.combination_numbers, "launched"))
        self._called = _ValuePerKey[bytes](partial(facets.combination_numbers, "called"))
        self._copied = _ValuePerKey[tuple[Any, ...]](partial(facets.combination_numbers, "copied"))
        self._no_copy_args = int(facets.combination_numbers("copied", [NO_COPY_ARGS])[0])
        self._no_call_args = int(facets.combination_numbers("called", [NO_CALL_ARGS])[0])

    def add(self, events: ScannedEvents, first: int) -> EventColumns:
        """Columns of the drawn events; `first` is the ordinal of the list's first element."""
        tags, names = events.objects.tags, events.objects.codes[NAME]
        complete, instants, flows = (
            _phase_mask(tags, COMPLETE_PHASE),
            _phase_mask(tags, INSTANT_PHASES),
            _phase_mask(tags, FLOW_PHASES),
        )
        self._note_counts.add_mask(FLOW_EVENTS_SKIPPED, flows, np.arange(first, first + len(tags)))
        drawn = complete
        if instants.any():
            instant_kind = self._instant.values_of(events.names, names)
            drawn = complete | (instants & (instant_kind == _DRAWN_INSTANT))
            self._add_memory(events, np.flatnonzero(instants & (instant_kind == _MEMORY_INSTANT)), first)
        rows = np.flatnonzero(drawn)
        self._number_locations_in_order(events, rows)
        return self._event_columns(events, rows, complete, first)

    def _number_locations_in_order(self, events: ScannedEvents, rows: Ints) -> None:
        """Number the locations in the order of the file, including those of leftovers."""
        if not events.leftovers:
            return  # they are found in that order, one by one
        codes = events.objects.codes[LOCATION][rows]
        new_rows = rows[self._device.first_rows_of_new_keys(events.locations, codes)].tolist()
        found = [
            (row, events.locations.values[code])
            for row, code in zip(new_rows, events.objects.codes[LOCATION][new_rows], strict=True)
        ]
        for row, event in zip(events.leftover_rows.tolist(), events.leftovers, strict=True):
            if isinstance(event, CompleteEvent) or (
                isinstance(event, InstantEvent) and not event.name.startswith(PROFILER_EVENT_PREFIXES)
            ):
                found.append(
                    (row, EventLaneKey((event.cat, event.pid, event.tid), event.args.device, event.args.stream))
                )
        for _, location in sorted(found, key=itemgetter(0)):
            self._device_of(location)

    def _event_columns(self, events: ScannedEvents, rows: Ints, complete: Mask, first: int) -> EventColumns:
        number_columns = {column: events.objects.numbers[column].take(rows) for column in _COMMON_NUMBERS}
        locations, names, launched, called, copied = (codes.take(rows) for codes in events.objects.codes)
        record = rows + first
        self._note_counts.add_mask(
            EVENT_WITHOUT_DURATION, (number_columns[DUR] == ABSENT_NUMBER) & complete[rows], record
        )
        device = self._device.values_of(events.locations, locations)
        device_rows = np.flatnonzero(device >= 0)
        if len(device_rows):
            numbers = self._launched.values_of(events.launched, launched[device_rows])
            self._facets.add_columns("launched", record[device_rows], {}, numbers.astype(np.int32))
            copies = self._copied.values_of(events.copied, copied[device_rows]).astype(np.int32)
            with_args = np.flatnonzero(copies != self._no_copy_args)
            if len(with_args):
                self._facets.add_columns("copied", record[device_rows[with_args]], {}, copies[with_args])
        call_rows = np.flatnonzero(self._calls.values_of(events.locations, locations))
        self._add_calls(events, rows[call_rows], first, called[call_rows])
        return EventColumns(
            record=record,
            signature=self._signature.values_of(events.locations, locations).astype(np.int32),
            name=self._name.values_of(events.names, names).astype(np.int32),
            start=number_columns[TS],
            length=_zero_where_absent(number_columns[DUR]),
            correlation=np.maximum(number_columns[CORRELATION], MISSING),
            external=np.maximum(
                np.where(
                    number_columns[EXTERNAL] == ABSENT_NUMBER, number_columns[EXTERNAL_OLD], number_columns[EXTERNAL]
                ),
                MISSING,
            ),
            device=device.astype(np.int32),
            bytes=np.where(device >= 0, np.maximum(number_columns[BYTES], MISSING), MISSING),
            collective=np.zeros(len(rows), np.bool_),
            copy=np.zeros(len(rows), np.bool_),
        )

    def _add_calls(self, events: ScannedEvents, rows: Ints, first: int, codes: CodeArray) -> None:
        """Add the call args of operators at these rows, if any are recorded; `codes` are those of combinations."""
        called = self._called.values_of(events.called, codes).astype(np.int32)
        sequence, forward = (events.objects.numbers[column].take(rows) for column in (SEQUENCE, FORWARD))
        rows_with_args = np.flatnonzero((called != self._no_call_args) | (sequence >= 0) | (forward >= 0))
        if len(rows_with_args):
            own_columns = {
                "sequence": _non_negative_column(sequence[rows_with_args]),
                "forward": _non_negative_column(forward[rows_with_args]),
            }
            self._facets.add_columns("called", rows[rows_with_args] + first, own_columns, called[rows_with_args])

    def _add_memory(self, events: ScannedEvents, rows: Ints, first: int) -> None:
        """Add allocations and frees of memory at these rows."""
        if not len(rows):
            return
        numbers, record = events.objects.numbers[:, rows], rows + first
        time, change = numbers[TS], numbers[MEMORY_CHANGE]
        self._note_counts.add(MEMORY_EVENTS, len(rows), int(record[0]))
        self._note_counts.add_mask(
            MEMORY_WITHOUT_SIZE, (numbers[[MEMORY_CHANGE, MEMORY_DEVICE_TYPE]] == ABSENT_NUMBER).any(axis=0), record
        )
        self._note_counts.add_mask(MEMORY_WITHOUT_ADDRESS, numbers[MEMORY_ADDRESS] == ABSENT_NUMBER, record)
        device = memory_device_numbers(
            np.maximum(numbers[MEMORY_DEVICE_TYPE], MISSING), np.maximum(numbers[MEMORY_DEVICE], MISSING)
        )
        changed = np.where(change == ABSENT_NUMBER, np.nan, change)
        self._samples.extend(
            record,
            time,
            memory_samples(
                _scanned_totals(numbers[TOTAL_ALLOCATED]), _scanned_totals(numbers[TOTAL_RESERVED]), changed, device
            ),
        )
        columns = {
            "time": MaskedColumn(time),
            "device": MaskedColumn(device),
            **{
                name: _nullable_column(numbers[column], numbers[column] != ABSENT_NUMBER)
                for name, column in _MEMORY_COLUMNS.items()
            },
            "thread": _non_negative_column(
                self._thread.values_of(events.locations, events.objects.codes[LOCATION][rows])
            ),
        }
        self._facets.add_columns("allocated", record, columns)


def _phase_mask(tags: npt.NDArray[np.uint8], which: str) -> Mask:
    found: Mask = tags == ord(which[0])
    for each in which[1:]:
        found |= tags == ord(each)
    return found


def _zero_where_absent(numbers: Ints) -> Ints:
    return np.where(numbers == ABSENT_NUMBER, 0, numbers)


def _non_negative_column(numbers: Ints) -> MaskedColumn:
    return _nullable_column(numbers, numbers >= 0)


def _nullable_column(numbers: Ints, valid: Mask) -> MaskedColumn:
    """Column of numbers of which some are missing."""
    return MaskedColumn(numbers, None if valid.all() else valid)


def _scanned_totals(numbers: Ints) -> TotalsColumn:
    return TotalsColumn(numbers != ABSENT_NUMBER, numbers.astype(np.float64))
