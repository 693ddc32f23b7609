"""Lists of Kineto events, scanned to columns of numbers by native code where that is available.

Few events are left to be decoded as objects: those of rare phases, those that belong to a collective, and unusual
spellings. A list that the scanner refuses, or one with launch flows, is decoded as objects as a whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from tracehound.formats.json.value_columns import MISSING
from tracehound.formats.kineto.event_columns import (
    GLOO_PREFIX,
    MEMORY_EVENT_NAME,
    EventSignature,
)
from tracehound.formats.kineto.json_events import (
    CounterEvent,
    EventArgs,
    InstantEvent,
    JsonEvent,
    RawId,
    decode_events,
)
from tracehound.formats.kineto.process_ids import LAUNCH_FLOW_CATEGORIES
from tracehound.formats.torch_names import COLLECTIVE_PARAMS
from tracehound.numeric.intervals import Ints
from tracehound.numeric.native.scanners import (
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

LOCATION, NAME, _LAUNCH, _CALL, _COPY = range(5)
"""Groups of fields: location of an event, its name, args of a kernel's launch, of an operator's call, of a copy."""

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
_COPY_ARGS: Final = ("copy_bandwidth",)
_RARE_ARGS: Final = (
    "collective", "dtype", "group", "description", "ranks", "size", "collective_number", "elements_in",
    "elements_out", "split_in", "split_out", "source", "destination", "awaited_stream", "recorded", "engine",
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
        for group, names in ((_LAUNCH, _LAUNCH_ARGS), (_CALL, _CALL_ARGS), (_COPY, _COPY_ARGS))
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

_MAX_KEY_BYTES_OF_FILES: Final = 1 << 18
"""Keys of more bytes are not kept for the next file: most are those of other files."""

KeyValue = TypeVar("KeyValue")


class EventLaneKey(NamedTuple):
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
    `leftover_texts` their JSON. Codes keep their meaning as long as their table is the same object. `launched`,
    `called` and `copied` have the keys of `ArgCombinations`.
    """

    objects: ObjectColumns
    leftover_rows: Ints
    leftovers: list[JsonEvent]
    leftover_texts: list[bytes]
    locations: KeyTable[EventLaneKey]
    names: KeyTable[str]
    launched: KeyTable[tuple[Any, ...]]
    called: KeyTable[bytes]
    copied: KeyTable[tuple[Any, ...]]

    def __len__(self) -> int:
        return len(self.objects.tags)


class NativeDecoder:
    """Decodes lists of events of one file after the other."""

    def __init__(self, native: JsonScanner) -> None:
        self._scanner = native
        self._tables = _new_key_tables()

    def decode(self, data: memoryview) -> ScannedEvents | list[JsonEvent]:
        """Decode a list of events. Raises msgspec's errors and UnicodeDecodeError if it is not one."""
        self.forget_keys_above(_MAX_KEY_BYTES)
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

    def forget_keys_above(self, most: int) -> None:
        """Forget the keys if they have more bytes."""
        if self._scanner.key_bytes > most:
            self._reset()

    def _reset(self) -> None:
        self._scanner.forget_keys()
        self._tables = _new_key_tables()


class _KeptDecoder(threading.local):
    """The decoder of a thread, kept from file to file: the files of a job share most keys."""

    decoder: NativeDecoder | None = None


_KEPT: Final = _KeptDecoder()


def native_decoder() -> NativeDecoder | None:
    """This thread's decoder of lists of events, for another file; None if the native scanner is missing."""
    _KEPT.decoder = _KEPT.decoder or _new_decoder()
    if _KEPT.decoder is not None:
        _KEPT.decoder.forget_keys_above(_MAX_KEY_BYTES_OF_FILES)
    return _KEPT.decoder


def _new_decoder() -> NativeDecoder | None:
    plain = f"{COMPLETE_PHASE}{INSTANT_PHASES}{FLOW_PHASES}"
    native = make_json_scanner(_SCANNED_FIELDS, plain, (NAME, _COLLECTIVE_NAME_PREFIXES))
    return None if native is None else NativeDecoder(native)


def _new_key_tables() -> tuple[
    KeyTable[EventLaneKey], KeyTable[str], KeyTable[tuple[Any, ...]], KeyTable[bytes], KeyTable[tuple[Any, ...]]
]:
    return (
        KeyTable(LOCATION, _parse_location),
        KeyTable(NAME, _parse_name),
        KeyTable(_LAUNCH, _parse_launch_args),
        KeyTable(_CALL, _parse_call_args),
        KeyTable(_COPY, _parse_copy_args),
    )


def is_counter_sample(element: JsonEvent) -> bool:
    """True if an element gives counter samples."""
    return isinstance(element, CounterEvent) or (
        isinstance(element, InstantEvent) and element.name == MEMORY_EVENT_NAME
    )


def _decode_json(text: bytes, default: Any = None) -> Any:  # noqa: ANN401, any value of JSON
    return msgspec.json.decode(text) if text else default


def _parse_location(parts: list[bytes]) -> EventLaneKey:
    cat, pid, tid, device, stream = parts
    signature = (_decode_json(cat, ""), _decode_json(pid), _decode_json(tid))
    if signature[0] in LAUNCH_FLOW_CATEGORIES:
        raise msgspec.ValidationError("a launch flow, which the scanner does not read")
    return EventLaneKey(signature, _decode_json(device), _decode_json(stream))


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


def _parse_copy_args(parts: list[bytes]) -> tuple[Any, ...]:
    return (_decode_number(parts[0]),)


def _decode_number(text: bytes, default: Any = None) -> Any:  # noqa: ANN401
    """Number in a JSON text, else the default; true and false, which Python takes for 1 and 0, are None."""
    value = _decode_json(text, default)
    return None if isinstance(value, bool) else value


def _parse_call_args(parts: list[bytes]) -> bytes:
    dims, old_dims, *rest = parts
    return KEY_SEPARATOR.join((dims or old_dims, *rest))
