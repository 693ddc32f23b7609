"""Events of the lines of an XPlane, decoded in bulk to columns.

Events in the usual order of fields are decoded together, field by field; others by the slower reader of any message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace
from numpy import uint64

from tracehound.formats.protobuf_wire import (
    BYTES,
    FIXED64,
    VARINT,
    InflatedFile,
    Offsets,
    PaddedBytes,
    ReadBuffer,
    Words,
    decode_leading_varints,
    decode_varints,
    iterate_field_rounds,
)
from tracehound.formats.xplane.event_offsets import EventOffsets, EventTagFinder, find_event_bounds
from tracehound.formats.xplane.plane_metadata import (
    BLOB,
    DOUBLE,
    REF,
    SIGNED,
    STAT_ID,
    TEXT,
    UNSIGNED,
    Flags,
    StatTable,
    concat_stats,
    decode_stats,
)
from tracehound.numeric.native.scanners import decode_xevents

METADATA_ID, OFFSET_PS, DURATION_PS, EVENT_STAT, OCCURRENCES = 1, 2, 3, 4, 5

DECODED_BYTES = 1 << 19
"""Bytes of events that are decoded at once: enough for numpy, few enough for the processor's cache."""

SMALL_STAT_ID_LIMIT = 1 << 14
"""Ids of stats below this take at most two bytes."""


class WrongCutError(Exception):
    """A range of a line does not end at the end of an event."""


class EventRange(NamedTuple):
    """Events of a line in `[start, end)` of the file; `line` is any number."""

    line: int
    start: int
    end: int


class WantedStats(Struct, frozen=True):
    """Stats that are decoded; `codes` are positions in `names`, for each of the sorted `ids`.

    `small_id_codes` has the codes of small ids, -1 for unwanted ones, in few bytes that stay in the processor's cache.
    """

    names: tuple[str, ...]
    ids: Offsets
    codes: Offsets
    small_id_codes: npt.NDArray[np.int8]

    def codes_of(self, ids: Offsets) -> Offsets:
        """Code of each stat id, -1 for unwanted ones."""
        if not len(self.ids):
            return np.full(len(ids), -1, np.int64)
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, self.codes[at], -1)


def find_wanted_stats(stat_names: Mapping[int, str], names: Sequence[str]) -> WantedStats:
    """Wanted stats of a plane with these stat names."""
    code = {name: at for at, name in enumerate(names)}
    pairs = sorted((id_, code[name]) for id_, name in stat_names.items() if name in code)
    ids, codes = np.array(pairs, np.int64).reshape(-1, 2).T
    small_id_codes = np.full(SMALL_STAT_ID_LIMIT, -1, np.int8)
    small = (ids >= 0) & (ids < SMALL_STAT_ID_LIMIT)
    small_id_codes[ids[small]] = codes[small]
    return WantedStats(tuple(names), ids, codes, small_id_codes)


class StatColumn(Struct, frozen=True):
    """One stat of all events: the field that holds its value (0: none), and its bits.

    For texts in the file the bits are ``at << 32 | length``, within the bytes that were decoded together.
    """

    field: npt.NDArray[np.uint8]
    bits: Words

    @classmethod
    def empty(cls, count: int) -> StatColumn:
        """Column of events without the stat."""
        return cls(np.zeros(count, np.uint8), np.zeros(count, uint64))

    @property
    def is_integer(self) -> Flags:
        """Mask of the events with an integer."""
        flags: Flags = (self.field == UNSIGNED) | (self.field == SIGNED)
        return flags


class DecodedEvents(Struct, frozen=True):
    """Events that were decoded together, in the order of the file.

    `line` is that of their range, `record` the byte at which an event begins, `start` (ps from the line's time) and
    `length` its times. `has_time` is false for events that have only a number of occurrences, `is_valid` for damaged
    ones. `stats` are the wanted stats of any of the events, by name; `data` holds their texts.
    """

    data: PaddedBytes
    line: Offsets
    record: Offsets
    metadata: Offsets
    start: Offsets
    length: Offsets
    has_time: Flags
    is_valid: Flags
    stats: Mapping[str, StatColumn]

    def delayed(self, ps: Offsets) -> DecodedEvents:
        """The events, shifted by these times."""
        return replace(self, start=self.start + ps)

    def take(self, which: Flags) -> DecodedEvents:
        """Some of the events."""
        return DecodedEvents(
            self.data, self.line[which], self.record[which], self.metadata[which], self.start[which],
            self.length[which], self.has_time[which], self.is_valid[which],
            {name: StatColumn(column.field[which], column.bits[which]) for name, column in self.stats.items()},
        )  # fmt: skip


_MAX_MESSAGE_BYTES: Final = 1 << 31
"""No valid message is longer than this many bytes."""


def decode_event_ranges(
    file: InflatedFile, ranges: Sequence[EventRange], wanted: WantedStats
) -> Iterator[DecodedEvents]:
    """Decode the events of the ranges, in their order.

    The texts of one result are valid until the next. Raises WrongCutError if a range is not a sequence of events.
    """
    queue, budget = list(reversed(ranges)), DECODED_BYTES
    buffer, tag_finder = ReadBuffer(DECODED_BYTES), EventTagFinder(DECODED_BYTES)
    while queue:
        read_ranges, size = [], 0
        while queue and size < budget:
            one = queue.pop()
            until = min(one.end, one.start + budget - size)
            read_ranges.append(EventRange(one.line, one.start, until))
            size += until - one.start
            if until < one.end:
                queue.append(one._replace(start=until))
        data = buffer.read_intervals(file, *((one.start, one.end) for one in read_ranges))
        bounds, fields = _decode_natively(data, wanted) or _decode_with_numpy(data, tag_finder, wanted)
        if bounds.after < size:
            short = size - bounds.after
            if (
                bounds.stopped
                or not queue
                or queue[-1].start != read_ranges[-1].end
                or short > read_ranges[-1].end - read_ranges[-1].start
            ):
                raise WrongCutError
            queue[-1] = queue[-1]._replace(start=read_ranges[-1].end - short)
        budget = DECODED_BYTES if len(bounds.head) else 2 * budget
        if budget > _MAX_MESSAGE_BYTES:
            raise WrongCutError
        if len(bounds.head):
            yield _locate_events(fields, bounds, read_ranges)


class _EventFields(NamedTuple):
    """Fields of events, without their lines."""

    data: PaddedBytes
    metadata: Offsets
    start: Offsets
    length: Offsets
    has_time: Flags
    is_valid: Flags
    stats: Mapping[str, StatColumn]

    def on_lines(self, line: Offsets, record: Offsets) -> DecodedEvents:
        """The events with these lines and byte offsets."""
        data, metadata, start, length, has_time, is_valid, stat_tables = self
        return DecodedEvents(data, line, record, metadata, start, length, has_time, is_valid, stat_tables)


def _decode_natively(data: PaddedBytes, wanted: WantedStats) -> tuple[EventOffsets, _EventFields] | None:
    """Events at the front of the data, decoded by native code; None if it is missing or refuses the data."""
    native = decode_xevents(data.raw[: data.size], wanted.small_id_codes, len(wanted.names))
    if native is None:
        return None
    rows = np.flatnonzero(native.odd)
    bounds = EventOffsets(native.head, native.end, native.metadata, native.head, rows, native.after, stopped=False)
    columns = _StatColumns(len(native.head), wanted)
    for code in np.flatnonzero(native.seen).tolist():
        columns.bounds[wanted.names[code]] = StatColumn(native.field[code], native.bits[code])
    has_time, is_valid = np.ones((2, len(native.head)), np.bool_)
    fields = _EventFields(data, native.metadata, native.start, native.length, has_time, is_valid, columns.bounds)
    if len(rows):
        _decode_in_any_order(fields, bounds, rows, wanted, columns)
    return bounds, fields


def _decode_with_numpy(
    data: PaddedBytes, tag_finder: EventTagFinder, wanted: WantedStats
) -> tuple[EventOffsets, _EventFields]:
    """Events at the front of the data, decoded by numpy."""
    bounds = find_event_bounds(data, tag_finder)
    return bounds, _decode_fields(data, bounds, wanted)


def _locate_events(fields: _EventFields, bounds: EventOffsets, read_ranges: Sequence[EventRange]) -> DecodedEvents:
    """The events with their lines and offsets in the file."""
    if len(read_ranges) == 1:
        return fields.on_lines(np.full(len(bounds.head), read_ranges[0].line), bounds.head + read_ranges[0].start)
    lengths = np.array([one.end - one.start for one in read_ranges], np.int64)
    begin = np.cumsum(lengths) - lengths
    shift = np.array([one.start for one in read_ranges], np.int64) - begin
    line = np.array([one.line for one in read_ranges], np.int64)
    which = np.searchsorted(begin, bounds.head, side="right") - 1
    return fields.on_lines(line[which], bounds.head + shift[which])


_VARINT_STOP = uint64(0x80 << 56)
_TWO_BYTE_ID = uint64(0x80 << 24)
_STAT_HEAD, _STAT_MASK = uint64(EVENT_STAT << 3 | BYTES | STAT_ID << 19), uint64(0xFF80FF)


def _decode_fields(data: PaddedBytes, bounds: EventOffsets, wanted: WantedStats) -> _EventFields:
    """Fields of all events."""
    words, at = data.words, bounds.at
    start, size = decode_leading_varints(words[at])
    odd = size > 8
    at = at + size
    word = words[at]
    has_duration = (word & uint64(0xFF)) == uint64(DURATION_PS << 3)
    word >>= uint64(8)
    word |= _VARINT_STOP
    length, size = decode_leading_varints(word)
    if has_duration.all():
        at += size + 1
    else:
        at += np.where(has_duration, size + 1, 0)
        length = np.where(has_duration, length, uint64(0))
    odd |= has_duration & (size > 8)
    columns = _StatColumns(len(at), wanted)
    odd |= _decode_stats(data, at, bounds.end, wanted, columns)
    odd[bounds.odd] = True
    has_time, is_valid = np.ones(len(at), bool), np.ones(len(at), bool)
    fields = _EventFields(
        data, bounds.metadata, start.view(np.int64), length.view(np.int64), has_time, is_valid, columns.bounds
    )
    rows = np.flatnonzero(odd)
    if len(rows):
        _decode_in_any_order(fields, bounds, rows, wanted, columns)
    return fields


class _StatColumns:
    """Columns of stats; each is made when the first event has the stat."""

    def __init__(self, count: int, wanted: WantedStats) -> None:
        self.bounds: dict[str, StatColumn] = {}
        self._count = count
        self._names = wanted.names

    def put(self, code: int, rows: Offsets, field: Offsets | int, bits: Words) -> None:
        """Set the values of some events; if an event has a stat several times, the last counts."""
        name = self._names[code]
        if name not in self.bounds:
            self.bounds[name] = StatColumn.empty(self._count)
        column = self.bounds[name]
        if len(rows) == self._count and (rows[1:] > rows[:-1]).all():  # an event may have one stat several times
            column.field[:], column.bits[:] = field, bits
        else:
            column.field[rows], column.bits[rows] = field, bits

    def clear(self, rows: Offsets) -> None:
        """Remove the values of some events."""
        for column in self.bounds.values():
            column.field[rows] = 0


def _decode_stats(data: PaddedBytes, at: Offsets, end: Offsets, wanted: WantedStats, columns: _StatColumns) -> Flags:
    """Decode the first stats of all events, then the second, and so on; returns a mask of events with other fields."""
    odd = at > end
    row = np.flatnonzero(at < end)
    at, end = at[row], end[row]
    while len(row):
        word = data.words[at]
        value_at = at + 4
        after = at + ((word >> uint64(8)) & uint64(0x7F)).view(np.int64)
        after += 2
        is_valid = (word & _STAT_MASK) == _STAT_HEAD
        is_valid &= after <= end
        id_ = (word >> uint64(24)) & uint64(0x7F)
        two = word & _TWO_BYTE_ID
        if two.any():
            two >>= uint64(31)
            id_ |= two * ((word >> uint64(25)) & uint64(0x3F80))
            value_at += two.view(np.int64)
            is_valid &= (two & (word >> uint64(39))) == 0
        code = wanted.small_id_codes[id_.view(np.int64)]
        asked = (code >= 0) & is_valid
        if asked.all():
            is_valid = _decode_stat_values(data, row, value_at, after, code, columns)
        elif asked.any():
            hit = np.flatnonzero(asked)
            is_valid[hit] = _decode_stat_values(data, row[hit], value_at[hit], after[hit], code[hit], columns)
        if not is_valid.all():
            odd[row[~is_valid]] = True
        live = is_valid & (after < end)
        row, at, end = (row, after, end) if live.all() else (row[live], after[live], end[live])
    return odd


def _decode_stat_values(
    data: PaddedBytes, row: Offsets, at: Offsets, after: Offsets, code: npt.NDArray[np.int8], columns: _StatColumns
) -> Flags:
    """Decode the values of wanted stats; returns a mask of those with the usual encoding, which end with their stat."""
    word = data.words[at]
    tag = word & uint64(0xFF)
    word >>= uint64(8)
    word |= _VARINT_STOP
    bits, size = decode_leading_varints(word)
    long = np.flatnonzero(size > 8)
    if len(long):
        bits[long], size[long] = decode_varints(data.words, at[long] + 1)
    end = at + 1
    end += size
    is_valid: Flags = end == after
    if len(long):
        is_valid &= size > 0
    field: Offsets | int = int(tag[0]) >> 3
    if int(tag[0]) not in _INTEGER_TAGS or not (tag == tag[0]).all():
        field, wire = (tag >> uint64(3)).view(np.int64), (tag & uint64(7)).view(np.int64)
        sized = (wire == BYTES) & ((field == TEXT) | (field == BLOB))
        double = (wire == FIXED64) & (field == DOUBLE)
        length = np.where(sized, np.minimum(bits, uint64(1 << 31)), uint64(0))
        bits = np.where(sized, end.view(uint64) << uint64(32) | length, bits)
        bits = np.where(double, data.words[at + 1], bits)
        ends = np.where(double, at + 9, end + length.view(np.int64))
        integer = (wire == VARINT) & ((field == UNSIGNED) | (field == SIGNED) | (field == REF))
        is_valid = ((size > 0) | double) & (ends == after) & (sized | double | integer)
    if not is_valid.all():
        row, bits, code = row[is_valid], bits[is_valid], code[is_valid]
        field = field if isinstance(field, int) else field[is_valid]
    if len(row) and code.min() == code.max():
        columns.put(int(code[0]), row, field, bits)
        return is_valid
    for each in np.flatnonzero(np.bincount(code)).tolist():
        has_code = code == each
        columns.put(each, row[has_code], field if isinstance(field, int) else field[has_code], bits[has_code])
    return is_valid


_INTEGER_TAGS = (UNSIGNED << 3 | VARINT, SIGNED << 3 | VARINT, REF << 3 | VARINT)


def _decode_in_any_order(
    fields: _EventFields, bounds: EventOffsets, rows: Offsets, wanted: WantedStats, columns: _StatColumns
) -> None:
    """Decode these events with any order and encoding of fields."""
    data = fields.data
    _, size = decode_varints(data.words, bounds.head[rows] + 1)
    integers = {number: np.zeros(len(rows), np.int64) for number in (METADATA_ID, OFFSET_PS, DURATION_PS)}
    has_time, is_valid, stat_tables = np.ones(len(rows), bool), np.ones(len(rows), bool), []
    for field_round in iterate_field_rounds(data.words, bounds.head[rows] + 1 + size, bounds.end[rows]):
        for number, column in integers.items():
            has_number = field_round.field_mask(number, VARINT)
            column[field_round.message[has_number]] = field_round.value[has_number].view(np.int64)
        has_time[field_round.message[field_round.field_mask(OCCURRENCES, VARINT)]] = False
        has_time[field_round.message[field_round.field_mask(OFFSET_PS, VARINT)]] = True
        is_valid[field_round.message[field_round.number == 0]] = False
        has_stat = field_round.field_mask(EVENT_STAT, BYTES)
        low = field_round.at[has_stat]
        stat_tables.append(
            decode_stats(data, field_round.message[has_stat], low, low + field_round.value[has_stat].view(np.int64))
        )
    fields.metadata[rows], fields.start[rows], fields.length[rows] = integers.values()
    fields.has_time[rows], fields.is_valid[rows] = has_time, is_valid
    columns.clear(rows)
    table: StatTable = concat_stats(stat_tables)
    code = wanted.codes_of(table.id)
    for each in np.unique(code[code >= 0]).tolist():
        stat_rows = table.take(code == each)
        sized = (stat_rows.field == TEXT) | (stat_rows.field == BLOB)
        text_positions = stat_rows.at.view(uint64) << uint64(32) | np.minimum(stat_rows.value, uint64((1 << 32) - 1))
        columns.put(each, rows[stat_rows.owner], stat_rows.field, np.where(sized, text_positions, stat_rows.value))
