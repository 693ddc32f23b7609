"""The stats of an XPlane: named values that events, their metadata and planes carry.

Owns the field numbers of XStat and how its values read. `stats` decodes many at once, `value_of` one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.formats.wire import BYTES, FIXED64, VARINT, Bytes, File, Rows, Words, rounds, signed

STAT_ID, DOUBLE, UNSIGNED, SIGNED, TEXT, BLOB, REF = 1, 2, 3, 4, 5, 6, 7

Value = float | int | str | bytes
Flags = npt.NDArray[np.bool_]


class Stats(NamedTuple):
    """Stats of many owners, in the order of the file.

    `owner` is the position of the event (or entry) that carries it, `id` that of its name; `field` tells the type of
    the value, `value` has its bits (of strings and bytes the length) and `at` where its content begins.
    """

    owner: Rows
    id: Rows
    field: Rows
    value: Words
    at: Rows

    def take(self, which: Flags | Rows) -> Stats:
        """Some of them."""
        return Stats(self.owner[which], self.id[which], self.field[which], self.value[which], self.at[which])

    def named(self, ids: Collection[int]) -> Stats:
        """Those with one of these ids."""
        return self.take(np.isin(self.id, list(ids)))


def nothing() -> Stats:
    """No stats."""
    empty = np.empty(0, np.int64)
    return Stats(empty, empty, empty, np.empty(0, np.uint64), empty)


def joined(parts: Sequence[Stats]) -> Stats:
    """Several tables as one."""
    return Stats(*(np.concatenate(columns) for columns in zip(*parts, strict=True))) if parts else nothing()


def stats(file: Bytes, owner: Rows, start: Rows, end: Rows) -> Stats:
    """The stats in the XStat messages `[start, end)`; those that make no sense or have no value are left out."""
    name, kind = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    value, at = np.zeros(len(start), np.uint64), np.zeros(len(start), np.int64)
    broken = np.zeros(len(start), bool)
    for fields_now in rounds(file.words, start, end):
        broken[fields_now.message[fields_now.number == 0]] = True
        ids = fields_now.where(STAT_ID, VARINT)
        if ids.any():
            name[fields_now.message[ids]] = fields_now.value[ids].view(np.int64)
        valued = _valued(fields_now.number, fields_now.wire)
        if valued.any():
            rows = fields_now.message[valued]
            kind[rows], value[rows] = fields_now.number[valued], fields_now.value[valued]
            at[rows] = fields_now.at[valued]
    everything = Stats(owner, name, kind, value, at)
    sound = (kind > 0) & ~broken
    return everything if sound.all() else everything.take(sound)


def _valued(number: Rows, wire: Rows) -> Flags:
    """Which fields hold the value of a stat, in the wire type that its number calls for."""
    whole = (wire == VARINT) & ((number == UNSIGNED) | (number == SIGNED) | (number == REF))
    long = (wire == BYTES) & ((number == TEXT) | (number == BLOB))
    valued: Flags = whole | long | ((wire == FIXED64) & (number == DOUBLE))
    return valued


def value_of(file: Bytes | File, field: int, bits: int, at: int, names: Mapping[int, str]) -> Value:
    """One value; `names` are the plane's stat names, in which a reference is looked up."""
    if field == DOUBLE:
        return float(np.uint64(bits).view(np.float64))
    if field == TEXT:
        return file.text(at, at + bits)
    if field == BLOB:
        return bytes(file.data[at : at + bits])
    if field == REF:
        return names.get(signed(bits), f"<unknown text {bits}>")
    return signed(bits) if field == SIGNED else bits


def decoded(file: Bytes | File, table: Stats, names: Mapping[int, str]) -> Iterator[tuple[int, str, Value]]:
    """Owner, name and value of each stat."""
    for owner, name, field, bits, at in zip(*(column.tolist() for column in table), strict=True):
        yield owner, names.get(name, f"stat {name}"), value_of(file, field, bits, at, names)
