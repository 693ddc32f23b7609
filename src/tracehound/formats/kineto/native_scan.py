"""Lists of Kineto events, scanned to columns of numbers by native code where that is available.

Few events are left to be decoded as objects: those of rare phases, those that belong to a collective, and unusual
spellings. A list that the scanner refuses, or one with launch flows, is decoded as objects as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.formats.assembly.counter_samples import SampleCollector
from tracehound.formats.json.value_columns import MISSING, CodeArray, ValueCodes
from tracehound.formats.kineto.arg_values import parse_natural
from tracehound.formats.kineto.event_columns import (
    GLOO_PREFIX,
    MEMORY_EVENT_NAME,
    PROFILER_EVENT_PREFIXES,
    EventColumns,
    EventSignature,
    is_device_event,
    may_have_call_args,
)
from tracehound.formats.kineto.json_events import (
    CompleteEvent,
    CounterEvent,
    EventArgs,
    InstantEvent,
    JsonEvent,
    RawId,
    decode_events,
)
from tracehound.formats.kineto.kineto_counters import TotalsColumn, allocator_devices, memory_samples
from tracehound.formats.kineto.note_counts import (
    EVENT_WITHOUT_DURATION,
    FLOW_EVENTS_SKIPPED,
    MEMORY_EVENTS,
    MEMORY_WITHOUT_ADDRESS,
    MEMORY_WITHOUT_SIZE,
    NoteCounts,
)
from tracehound.formats.kineto.process_ids import LAUNCH_FLOW_CATEGORY
from tracehound.formats.kineto.segment_facets import NO_CALL_ARGS, SegmentFacets
from tracehound.formats.spill import MaskedColumn
from tracehound.formats.torch_names import COLLECTIVE_PARAMS
from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.native.scanners import (
    ABSENT_NUMBER,
    ANY_TYPE,
    KEY_SEPARATOR,
    NULL,
    NUMBER,
    TEXT,
    FieldKind,
    JsonField,
    JsonScanner,
    ObjectColumns,
    make_json_scanner,
)

COMPLETE_PHASE: Final = "X"
INSTANT_PHASES: Final = "iI"
FLOW_PHASES: Final = "stf"

(
    TS, DUR, CORRELATION, EXTERNAL, EXTERNAL_OLD, BYTES, SEQUENCE, FORWARD,
    MEMORY_CHANGE, MEMORY_ADDRESS, MEMORY_DEVICE_TYPE, MEMORY_DEVICE, TOTAL_ALLOCATED, TOTAL_RESERVED,
) = range(14)  # fmt: skip
"""Columns of numbers; times are ns."""

LOCATION, NAME, _LAUNCH, _CALL = range(4)
"""Groups of fields: location of an event, its name, launch args of a kernel, call args of an operator."""

_NUMBER_COLUMNS: Final = {
    "correlation": CORRELATION,
    "External id": EXTERNAL,
    "external id": EXTERNAL_OLD,
    "bytes": BYTES,
    "Sequence number": SEQUENCE,
    "Fwd thread id": FORWARD,
    "Bytes": MEMORY_CHANGE,
    "Addr": MEMORY_ADDRESS,
    "Device Type": MEMORY_DEVICE_TYPE,
    "Device Id": MEMORY_DEVICE,
    "Total Allocated": TOTAL_ALLOCATED,
    "Total Reserved": TOTAL_RESERVED,
}
_LAUNCH_ARGS: Final = (
    "grid",
    "block",
    "registers",
    "shared",
    "blocks_per_sm",
    "warps_per_sm",
    "occupancy",
    "occupancy_old",
)
_CALL_ARGS: Final = ("dims", "dims_old", "types", "strides", "concrete", "stack", "hierarchy")
_RARE_ARGS: Final = (
    "collective", "dtype", "group", "description", "ranks", "size", "collective_number", "elements_in",
    "elements_out", "split_in", "split_out", "source", "destination", "awaited_stream", "recorded",
)  # fmt: skip
"""Args that few events have."""

_ARG_SPELLINGS: Final = dict(zip(EventArgs.__struct_fields__, EventArgs.__struct_encode_fields__, strict=True))
_ID_TYPES: Final = TEXT | NUMBER | NULL

_SCANNED_FIELDS: Final = (
    JsonField("ph", FieldKind.TAG),
    JsonField("args", FieldKind.NESTED),
    JsonField("ts", FieldKind.TICKS, column=TS),
    JsonField("dur", FieldKind.TICKS, column=DUR),
    JsonField("cat", FieldKind.PART, column=LOCATION, part=0, types=TEXT),
    JsonField("pid", FieldKind.PART, column=LOCATION, part=1, types=_ID_TYPES),
    JsonField("tid", FieldKind.PART, column=LOCATION, part=2, types=_ID_TYPES),
    JsonField("device", FieldKind.PART, nested=True, column=LOCATION, part=3, types=_ID_TYPES),
    JsonField("stream", FieldKind.PART, nested=True, column=LOCATION, part=4, types=_ID_TYPES),
    JsonField("name", FieldKind.PART, column=NAME, types=TEXT),
    *(JsonField(key, FieldKind.WHOLE, nested=True, column=column) for key, column in _NUMBER_COLUMNS.items()),
    *(
        JsonField(_ARG_SPELLINGS[name], FieldKind.PART, nested=True, column=group, part=part, types=ANY_TYPE)
        for group, names in ((_LAUNCH, _LAUNCH_ARGS), (_CALL, _CALL_ARGS))
        for part, name in enumerate(names)
    ),
    *(JsonField(_ARG_SPELLINGS[name], FieldKind.ODD, nested=True) for name in _RARE_ARGS),
)

_COLLECTIVE_NAME_PREFIXES: Final = (f'"{COLLECTIVE_PARAMS}"', f'"{GLOO_PREFIX}')
"""Prefixes of the JSON names of events that belong to a collective: they are decoded as objects."""

_LEFTOVER_RATIO: Final = 4
"""A list with more than one leftover in this many elements is decoded as objects as a whole, which is faster."""

_MAX_KEY_BYTES: Final = 16 << 20
"""Keys of more bytes are not kept for the next list: they hardly repeat."""

KeyValue = TypeVar("KeyValue")


class EventLocation(NamedTuple):
    """Signature, device and stream of an event as the file writes them."""

    signature: EventSignature
    device: RawId
    stream: RawId


class KeyTable(Generic[KeyValue]):
    """Parsed keys of a group of fields, by the scanner's code."""

    def __init__(self, group: int, parse: Callable[[list[bytes]], KeyValue]) -> None:
        self.values: list[KeyValue] = []
        self._group = group
        self._parse = parse

    def read_new_keys(self, scanner: JsonScanner) -> None:
        """Parse the keys that are new in the scanner. Raises msgspec's errors for invalid ones."""
        for key in scanner.group_keys(self._group, len(self.values)):
            self.values.append(self._parse(key.split(KEY_SEPARATOR)))


class ScannedEvents(Struct, frozen=True, eq=False):
    """A list of events as columns, which are valid until the next list is scanned.

    `leftovers` are the events that are decoded as objects, `leftover_rows` their positions in the list, and
    `leftover_texts` their JSON. Codes keep their meaning as long as their table is the same object. `launched` and
    `called` have the keys of `ArgCombinations`.
    """

    objects: ObjectColumns
    leftover_rows: Ints
    leftovers: list[JsonEvent]
    leftover_texts: list[bytes]
    locations: KeyTable[EventLocation]
    names: KeyTable[str]
    launched: KeyTable[tuple[Any, ...]]
    called: KeyTable[bytes]

    def __len__(self) -> int:
        return len(self.objects.tags)


class NativeDecoder:
    """Decodes lists of events for one reader of one file."""

    def __init__(self, native: JsonScanner) -> None:
        self._scanner = native
        self._tables = _new_key_tables()

    def decode(self, data: memoryview) -> ScannedEvents | list[JsonEvent]:
        """Decode a list of events. Raises msgspec's errors and UnicodeDecodeError if it is not one."""
        if self._scanner.key_bytes > _MAX_KEY_BYTES:
            self._reset()
        objects = self._scanner.scan_list(data)
        if objects is None or len(objects.others) * _LEFTOVER_RATIO > len(objects.tags):
            return decode_events(data)
        leftover_texts = [bytes(data[begin:end]) for _, begin, end in objects.others.tolist()]
        leftovers = decode_events(b"[%b]" % b",".join(leftover_texts)) if leftover_texts else []
        if any(map(is_counter_sample, leftovers)) and any((objects.tags == ord(tag)).any() for tag in INSTANT_PHASES):
            return decode_events(data)  # memory totals and the order of counters depend on the order of all events
        try:
            if not objects.ascii:
                str(data, "utf-8")
            for table in self._tables:
                table.read_new_keys(self._scanner)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._reset()
            return decode_events(data)
        return ScannedEvents(objects, objects.others[:, 0], leftovers, leftover_texts, *self._tables)

    def _reset(self) -> None:
        self._scanner.forget_keys()
        self._tables = _new_key_tables()


def native_decoder() -> NativeDecoder | None:
    """Decoder of lists of events; None if the native scanner is missing."""
    plain = f"{COMPLETE_PHASE}{INSTANT_PHASES}{FLOW_PHASES}"
    native = make_json_scanner(_SCANNED_FIELDS, plain, (NAME, _COLLECTIVE_NAME_PREFIXES))
    return None if native is None else NativeDecoder(native)


def _new_key_tables() -> tuple[KeyTable[EventLocation], KeyTable[str], KeyTable[tuple[Any, ...]], KeyTable[bytes]]:
    return (
        KeyTable(LOCATION, _parse_location),
        KeyTable(NAME, _parse_name),
        KeyTable(_LAUNCH, _parse_launch_args),
        KeyTable(_CALL, _parse_call_args),
    )


def is_counter_sample(element: JsonEvent) -> bool:
    """True if an element gives counter samples."""
    return isinstance(element, CounterEvent) or (
        isinstance(element, InstantEvent) and element.name == MEMORY_EVENT_NAME
    )


def _decode_json(text: bytes, default: Any = None) -> Any:  # noqa: ANN401, any value of JSON
    return msgspec.json.decode(text) if text else default


def _parse_location(parts: list[bytes]) -> EventLocation:
    cat, pid, tid, device, stream = parts
    signature = (_decode_json(cat, ""), _decode_json(pid), _decode_json(tid))
    if signature[0] == LAUNCH_FLOW_CATEGORY:
        raise msgspec.ValidationError("a launch flow, which the scanner does not read")
    return EventLocation(signature, _decode_json(device), _decode_json(stream))


def _parse_name(parts: list[bytes]) -> str:
    name = str(_decode_json(parts[0], ""))
    if (name == COLLECTIVE_PARAMS or name.startswith(GLOO_PREFIX)) and not parts[0].decode().startswith(
        _COLLECTIVE_NAME_PREFIXES
    ):
        raise msgspec.ValidationError("an escaped spelling of a name that matters")
    return name


def _parse_launch_args(parts: list[bytes]) -> tuple[Any, ...]:
    grid, block, registers, shared, blocks, warps, occupancy, theoretical = parts
    achieved = _decode_number(occupancy)
    numbers = (
        _decode_number(registers, MISSING),
        _decode_number(shared, MISSING),
        _decode_number(blocks),
        _decode_number(warps),
    )
    return (grid, block, *numbers, _decode_number(theoretical) if achieved is None else achieved)


def _decode_number(text: bytes, default: Any = None) -> Any:  # noqa: ANN401
    """Number in a JSON text, else the default; true and false, which Python takes for 1 and 0, are None."""
    value = _decode_json(text, default)
    return None if isinstance(value, bool) else value


def _parse_call_args(parts: list[bytes]) -> bytes:
    dims, old_dims, *rest = parts
    return KEY_SEPARATOR.join((dims or old_dims, *rest))


_DRAWN_INSTANT, _MEMORY_INSTANT, _PROFILER_INSTANT = range(3)
"""Classes of instants by name."""


_COMMON_NUMBERS: Final = (TS, DUR, CORRELATION, EXTERNAL, EXTERNAL_OLD, BYTES)
"""Numbers that any drawn event may have."""


class _ValuePerKey(Generic[KeyValue]):
    """Applies a function to the keys of a scanner, once for each key."""

    def __init__(self, function: Callable[[KeyValue], int]) -> None:
        self._function = function
        self._keys: KeyTable[KeyValue] | None = None
        self._values = np.empty(0, np.int64)

    def values_of(self, keys: KeyTable[KeyValue], codes: CodeArray) -> Ints:
        """Value for each of these codes; new keys are computed in the order of their first row."""
        self._add_keys(keys)
        found = self._values.take(codes)
        if int(found.min(initial=0)) != _NOT_COMPUTED:
            return found
        for row in self._first_rows(codes, found).tolist():
            self._values[codes[row]] = self._function(keys.values[codes[row]])
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
        rows = np.flatnonzero(found == _NOT_COMPUTED)
        return rows if not len(rows) else np.sort(rows[np.unique(codes[rows], return_index=True)[1]])


_MEMORY_COLUMNS: Final = {
    "bytes": MEMORY_CHANGE,
    "address": MEMORY_ADDRESS,
    "allocated": TOTAL_ALLOCATED,
    "reserved": TOTAL_RESERVED,
}
"""Number columns of memory events."""

_NOT_COMPUTED: Final = int(np.iinfo(np.int64).min)


def _number_device(signatures: ValueCodes, devices: ValueCodes, location: EventLocation) -> int:
    """Code of the device and stream of a location; -1 for a host.

    A function, not a method: a method in the lambdas of `ScannedColumnBuilder` would keep a segment's columns in
    memory, since garbage collection is off while a file is read.
    """
    number = signatures[location.signature]
    return devices[number, location.device, location.stream] if is_device_event(location.signature) else MISSING


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
        self._device_of = partial(_number_device, signatures, devices)
        self._signature = _ValuePerKey[EventLocation](lambda location: signatures[location.signature])
        self._device = _ValuePerKey[EventLocation](self._device_of)
        self._calls = _ValuePerKey[EventLocation](lambda location: may_have_call_args(location.signature))
        self._thread = _ValuePerKey[EventLocation](
            lambda location: -1 if (tid := parse_natural(location.signature[2])) is None else tid
        )
        self._name = _ValuePerKey[str](lambda name: names[name])
        self._instant = _ValuePerKey[str](
            lambda name: _MEMORY_INSTANT
            if name == MEMORY_EVENT_NAME
            else _PROFILER_INSTANT
            if name.startswith(PROFILER_EVENT_PREFIXES)
            else _DRAWN_INSTANT
        )
        self._launched = _ValuePerKey[tuple[Any, ...]](lambda key: facets.combination_number("launched", key))
        self._called = _ValuePerKey[bytes](lambda key: facets.combination_number("called", key))
        self._no_call_args = facets.combination_number("called", NO_CALL_ARGS)

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
                    (row, EventLocation((event.cat, event.pid, event.tid), event.args.device, event.args.stream))
                )
        for _, location in sorted(found, key=itemgetter(0)):
            self._device_of(location)

    def _event_columns(self, events: ScannedEvents, rows: Ints, complete: Mask, first: int) -> EventColumns:
        number_columns = {column: events.objects.numbers[column].take(rows) for column in _COMMON_NUMBERS}
        locations, names, launched, called = (codes.take(rows) for codes in events.objects.codes)
        record = rows + first
        self._note_counts.add_mask(
            EVENT_WITHOUT_DURATION, (number_columns[DUR] == ABSENT_NUMBER) & complete[rows], record
        )
        device = self._device.values_of(events.locations, locations)
        device_rows = np.flatnonzero(device >= 0)
        if len(device_rows):
            numbers = self._launched.values_of(events.launched, launched[device_rows])
            self._facets.add_columns("launched", record[device_rows], {}, numbers.astype(np.int32))
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
        device = allocator_devices(
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
