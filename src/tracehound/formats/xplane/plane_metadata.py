"""Tables of an XPlane: event metadata, stat names, and stats (XStat).

Tables are located when the file is opened, and read for planes whose events are decoded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.formats.protobuf_wire import (
    BYTES,
    FIXED64,
    VARINT,
    InflatedFile,
    MessageOffsets,
    Offsets,
    PaddedBytes,
    Words,
    as_signed,
    iterate_message_fields,
    read_message_groups,
)

ENTRY_KEY, ENTRY_VALUE = 1, 2
METADATA_NAME, METADATA_DISPLAY_NAME, METADATA_STAT = 2, 4, 5


class MetadataTable(Struct, frozen=True, dict=True):
    """Offsets of the event metadata of a plane, sorted by id."""

    ids: Offsets
    start: Offsets
    end: Offsets

    def positions(self, ids: Offsets) -> Offsets:
        """Position of the entry of each id; -1 for unknown ids."""
        if not len(self.ids) or not len(ids):
            return np.full(len(ids), -1, np.int64)
        if ids.min() >= 0 and ids.max() < len(self._position_of_small_ids):
            return self._position_of_small_ids[ids]
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, at, -1)

    @cached_property
    def _position_of_small_ids(self) -> Offsets:
        """Position of every id up to the largest; empty if there are many more ids than entries."""
        last = int(self.ids[-1])
        if last > _MAX_ID_SPREAD * len(self.ids):
            return np.empty(0, np.int64)
        table = np.full(max(0, last + 1), -1, np.int64)
        known = np.flatnonzero(self.ids >= 0)
        table[self.ids[known]] = known
        return table


_MAX_ID_SPREAD = 64


class EventMetadata(Struct, frozen=True):
    """Names and stats of the event metadata of a plane, by position.

    The owner of a stat is a position too; stats are sorted by it. `stats.at` are offsets in the file.
    """

    names: tuple[str, ...]
    display_names: tuple[str, ...]
    stats: StatTable

    def stats_of(self, position: int) -> StatTable:
        """Stats of one entry."""
        low, high = np.searchsorted(self.stats.owner, [position, position + 1])
        return self.stats.take(np.arange(low, high))

    @property
    def shown_names(self) -> tuple[str, ...]:
        """Display name of each entry, else its full name."""
        return tuple(short or full for short, full in zip(self.display_names, self.names, strict=True))


def locate_event_metadata(file: InflatedFile, spans: MessageOffsets) -> MetadataTable:
    """Table of the event metadata whose entries lie in the spans."""
    return MetadataTable(*_locate_map_entries(file, spans))


def read_stat_names(file: InflatedFile, spans: MessageOffsets) -> dict[int, str]:
    """Names of stats by id; texts that stats refer to are among them."""
    ids, start, end = _locate_map_entries(file, spans)
    names, _ = _read_texts_and_stats(file, start, end, (METADATA_NAME,))
    return dict(zip(ids.tolist(), names[METADATA_NAME], strict=True))


def read_event_metadata(file: InflatedFile, table: MetadataTable) -> EventMetadata:
    """Read everything in the table."""
    texts, stat_tables = _read_texts_and_stats(file, table.start, table.end, (METADATA_NAME, METADATA_DISPLAY_NAME))
    return EventMetadata(
        tuple(texts[METADATA_NAME]),
        tuple(texts[METADATA_DISPLAY_NAME]),
        stat_tables.take(np.argsort(stat_tables.owner, kind="stable")),
    )


def _locate_map_entries(file: InflatedFile, spans: MessageOffsets) -> tuple[Offsets, Offsets, Offsets]:
    """Key and bounds of the value of each entry of a map, sorted by key; of equal keys the last, as in protobuf."""
    _, start, end = spans.arrays()
    key, low, high = (np.zeros(len(start), np.int64) for _ in range(3))
    broken = np.zeros(len(start), bool)
    for which, data, base in read_message_groups(file, start, end):
        for field_round in iterate_message_fields(data, start[which] - base, end[which] - base):
            row = field_round.message + which.start
            broken[row[field_round.number == 0]] = True
            keys, values = field_round.field_mask(ENTRY_KEY, VARINT), field_round.field_mask(ENTRY_VALUE, BYTES)
            key[row[keys]] = field_round.value[keys].view(np.int64)
            low[row[values]] = field_round.at[values] + base
            high[row[values]] = low[row[values]] + field_round.value[values].view(np.int64)
    order = np.argsort(key, kind="stable")
    order = order[~broken[order]]
    order = order[np.append(key[order][1:] != key[order][:-1], True)] if len(order) else order
    return key[order], low[order], high[order]


def _read_texts_and_stats(
    file: InflatedFile, start: Offsets, end: Offsets, wanted: tuple[int, ...]
) -> tuple[dict[int, list[str]], StatTable]:
    """Texts in these fields of the messages `[start, end)`, and their stats."""
    texts = {number: [""] * len(start) for number in wanted}
    order, stat_tables = np.argsort(start, kind="stable"), []
    for which, data, base in read_message_groups(file, start[order], end[order]):
        rows = order[which]
        for field_round in iterate_message_fields(data, start[rows] - base, end[rows] - base):
            for number, column in texts.items():
                has_text = field_round.field_mask(number, BYTES)
                spans = zip(
                    rows[field_round.message[has_text]].tolist(),
                    field_round.at[has_text].tolist(),
                    field_round.value[has_text].tolist(),
                    strict=True,
                )
                for row, at, size in spans:
                    column[row] = data.text(at, at + size)
            has_stat = field_round.field_mask(METADATA_STAT, BYTES)
            if has_stat.any():
                low = field_round.at[has_stat]
                stats = decode_stats(
                    data, rows[field_round.message[has_stat]], low, low + field_round.value[has_stat].view(np.int64)
                )
                stat_tables.append(stats._replace(at=stats.at + base))
    return texts, concat_stats(stat_tables)


STAT_ID, DOUBLE, UNSIGNED, SIGNED, TEXT, BLOB, REF = 1, 2, 3, 4, 5, 6, 7

StatValue = float | int | str | bytes
Flags = npt.NDArray[np.bool_]


class StatTable(NamedTuple):
    """Stats of many owners, in the order of the file.

    `owner` is the position of the event (or entry) with the stat, `id` that of its name. `field` gives the type of the
    value, `value` its bits (the length for strings and bytes), and `at` the offset of its content.
    """

    owner: Offsets
    id: Offsets
    field: Offsets
    value: Words
    at: Offsets

    def take(self, which: Flags | Offsets) -> StatTable:
        """Some of the stats."""
        return StatTable(self.owner[which], self.id[which], self.field[which], self.value[which], self.at[which])

    def with_ids(self, ids: Collection[int]) -> StatTable:
        """Stats with one of these ids."""
        return self.take(np.isin(self.id, list(ids)))


def no_stats() -> StatTable:
    """Empty table."""
    empty = np.empty(0, np.int64)
    return StatTable(empty, empty, empty, np.empty(0, np.uint64), empty)


def concat_stats(parts: Sequence[StatTable]) -> StatTable:
    """Several tables as one."""
    return StatTable(*(np.concatenate(columns) for columns in zip(*parts, strict=True))) if parts else no_stats()


def decode_stats(file: PaddedBytes, owner: Offsets, start: Offsets, end: Offsets) -> StatTable:
    """Stats in the XStat messages `[start, end)`; damaged ones and those without a value are left out."""
    name_id, kind = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    value, at = np.zeros(len(start), np.uint64), np.zeros(len(start), np.int64)
    damaged = np.zeros(len(start), bool)
    for fields_now in iterate_message_fields(file, start, end):
        damaged[fields_now.message[fields_now.number == 0]] = True
        ids = fields_now.field_mask(STAT_ID, VARINT)
        if ids.any():
            name_id[fields_now.message[ids]] = fields_now.value[ids].view(np.int64)
        has_value = _holds_value(fields_now.number, fields_now.wire)
        if has_value.any():
            rows = fields_now.message[has_value]
            kind[rows], value[rows] = fields_now.number[has_value], fields_now.value[has_value]
            at[rows] = fields_now.at[has_value]
    table = StatTable(owner, name_id, kind, value, at)
    is_valid = (kind > 0) & ~damaged
    return table if is_valid.all() else table.take(is_valid)


def _holds_value(number: Offsets, wire: Offsets) -> Flags:
    """Mask of the fields that hold a stat's value in the wire type that belongs to them."""
    is_integer = (wire == VARINT) & ((number == UNSIGNED) | (number == SIGNED) | (number == REF))
    is_text = (wire == BYTES) & ((number == TEXT) | (number == BLOB))
    has_value: Flags = is_integer | is_text | ((wire == FIXED64) & (number == DOUBLE))
    return has_value


def stat_value(file: PaddedBytes | InflatedFile, field: int, bits: int, at: int, names: Mapping[int, str]) -> StatValue:
    """One value; a reference is looked up in `names`, the plane's stat names."""
    if field == DOUBLE:
        return float(np.uint64(bits).view(np.float64))
    if field == TEXT:
        return file.text(at, at + bits)
    if field == BLOB:
        return bytes(file.data[at : at + bits])
    if field == REF:
        return names.get(as_signed(bits), f"<unknown text {bits}>")
    return as_signed(bits) if field == SIGNED else bits


def iterate_stat_values(
    file: PaddedBytes | InflatedFile, table: StatTable, names: Mapping[int, str]
) -> Iterator[tuple[int, str, StatValue]]:
    """Owner, name and value of each stat."""
    for owner, name, field, bits, at in zip(*(column.tolist() for column in table), strict=True):
        yield owner, names.get(name, f"stat {name}"), stat_value(file, field, bits, at, names)
