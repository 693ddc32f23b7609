"""Decoders in C: lists of JSON objects (`scan.c`) and events of an XPlane's line (`xevents.c`) into columns.

They know no format: a table of fields, or of stat codes, says what is decoded.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int32, c_int64, c_uint8, c_void_p
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.numeric.native import library

ABSENT_NUMBER: Final = int(np.iinfo(np.int64).min)
"""The value of a number that an object does not have."""

KEY_SEPARATOR: Final = b"\0"
"""The byte between the parts of a key; no JSON contains it."""


class FieldKind(IntEnum):
    """The treatment of a field's value; an object with a value of another type is odd.

    `TAG`: text of one character. `TICKS`: a number with at most three decimals, in thousandths. `WHOLE`: a whole number
    of at most 18 digits. `PART`: part of the key of a group, as it is spelled. `NESTED`: an object whose members are
    read as well. `ODD`: an object with this field is odd.
    """

    TAG = 0
    TICKS = 1
    WHOLE = 2
    PART = 3
    NESTED = 4
    ODD = 5


TEXT, NUMBER, NULL, OTHER = 1, 2, 4, 8
"""Bits for the types that a part may have."""

ANY_TYPE: Final = TEXT | NUMBER | NULL | OTHER


class JsonField(Struct, frozen=True):
    """A member of the objects, or of objects nested in them; its key has no escapes in JSON.

    `column` is the column of numbers, or the group; `part` the position in the group's key, `types` its allowed types.
    """

    key: str
    kind: FieldKind
    nested: bool = False
    column: int = 0
    part: int = 0
    types: int = 0


class ObjectColumns(NamedTuple):
    """The objects of a list as columns, valid until the scanner reads the next list.

    `tags` are characters, `numbers` and `codes` have a row for each column and group. A code is the number of the
    object's key in that group, in order of first appearance. `others` has row, begin and end of each object that is odd
    or whose tag is not plain: their other columns are meaningless, and their tag is 0. `ascii` says that the list is
    pure ASCII; otherwise UTF-8 is unchecked.
    """

    tags: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]
    others: npt.NDArray[np.int64]
    ascii: bool


class JsonScanner:
    """Scans lists of JSON objects, one after the other; made by `make_json_scanner`."""

    def __init__(self, native: ctypes.CDLL, handle: int, numbers: int, groups: int) -> None:
        self._native, self._handle = native, handle
        self._numbers, self._groups = numbers, groups
        weakref.finalize(self, native.scan_free, handle)

    def scan_list(self, text: memoryview) -> ObjectColumns | None:
        """The objects of a list, from bracket to bracket; None if it is not a valid list of objects."""
        memory = np.frombuffer(text, np.uint8)
        count = self._native.scan_list(self._handle, memory.ctypes.data, len(memory))
        if count < 0:
            return None
        tags, numbers, codes, others = c_void_p(), c_void_p(), c_void_p(), c_void_p()
        room = self._native.scan_columns(self._handle, byref(tags), byref(numbers), byref(codes))
        found = self._native.scan_others(self._handle, byref(others))
        return ObjectColumns(
            self._array(tags, (1, count), room, np.uint8)[0],
            self._array(numbers, (self._numbers, count), room, np.int64),
            self._array(codes, (self._groups, count), room, np.int32),
            self._array(others, (found, 3), 3, np.int64),
            not self._native.scan_beyond_ascii(self._handle),
        )

    def group_keys(self, group: int, low: int) -> list[bytes]:
        """The keys of a group with numbers from `low` on: their parts as in the JSON, joined by `KEY_SEPARATOR`."""
        text, ends = c_void_p(), c_void_p()
        count = self._native.scan_texts(self._handle, group, byref(text), byref(ends))
        if low >= count:
            return []
        bounds = [0, *self._array(ends, (1, count), count, np.int64)[0].tolist()][low:]
        found = ctypes.string_at((text.value or 0) + bounds[0], bounds[-1] - bounds[0])
        return [found[begin - bounds[0] : end - bounds[0]] for begin, end in pairwise(bounds)]

    @property
    def key_bytes(self) -> int:
        """Approximate bytes of all known keys, also of those in refused lists."""
        return int(self._native.scan_key_bytes(self._handle))

    def forget_keys(self) -> None:
        """Forget all keys: their numbers start again."""
        self._native.scan_forget_keys(self._handle)

    def _array(self, place: c_void_p, shape: tuple[int, int], room: int, dtype: type[Any]) -> npt.NDArray[Any]:
        """Memory of the library as an array, with `room` numbers from one row to the next."""
        if place.value is None:
            return np.empty(shape, dtype)
        item = np.dtype(dtype)
        strides = (room * item.itemsize, item.itemsize)
        data = (place.value, True)  # read only
        interface = {"version": 3, "typestr": item.str, "shape": shape, "strides": strides, "data": data}
        return np.asarray(_LibraryMemory(interface, self))


def make_json_scanner(
    fields: Sequence[JsonField], plain: str, odd_starts: tuple[int, Sequence[str]]
) -> JsonScanner | None:
    """A scanner of objects with these fields; None without the library.

    `plain` are the tags of objects that the columns describe completely. `odd_starts` has a group and some texts:
    objects whose key of that group begins with one of them are odd, too. The hash of keys has a random seed, so that no
    file can be made to be slow.
    """
    native = library()
    if native is None:
        return None
    table = (_FieldStruct * len(fields))(*map(_to_field_struct, fields))
    handle = native.scan_new(table, len(fields), plain.encode(), int.from_bytes(os.urandom(8), "little"))
    if not handle:
        raise MemoryError
    numbers = [field.column for field in fields if field.kind in (FieldKind.TICKS, FieldKind.WHOLE)]
    groups = [field.column for field in fields if field.kind is FieldKind.PART]
    made = JsonScanner(native, handle, max(numbers) + 1, max(groups) + 1)  # it frees the memory, also after an error
    group, starts = odd_starts
    text = b"".join(start.encode() + b"\0" for start in starts) + b"\0"
    if not native.scan_odd_starts(handle, group, text, len(text)):
        raise MemoryError
    return made


class _FieldStruct(ctypes.Structure):
    _fields_ = (
        ("key", c_char_p),
        ("length", c_int32),
        ("kind", c_uint8),
        ("nested", c_uint8),
        ("column", c_uint8),
        ("part", c_uint8),
        ("types", c_uint8),
        ("unused", c_uint8 * 7),
    )


def _to_field_struct(field: JsonField) -> _FieldStruct:
    key = field.key.encode()
    return _FieldStruct(key, len(key), field.kind, field.nested, field.column, field.part, field.types)


class _LibraryMemory:
    """Memory of the library as numpy's array interface; keeps its scanner alive."""

    def __init__(self, interface: dict[str, Any], scanner: JsonScanner) -> None:
        self.__array_interface__ = interface
        self._scanner = scanner


Int64Array = npt.NDArray[np.int64]


class XEventColumns(NamedTuple):
    """Consecutive events from the start of some bytes, up to `after`; the rest is incomplete.

    Each event is at `[head, end)`. For `odd` events nothing else is decoded. `field` and `bits` have a row for each
    stat code; rows that are not `seen` are meaningless.
    """

    head: Int64Array
    end: Int64Array
    metadata: Int64Array
    start: Int64Array
    length: Int64Array
    odd: npt.NDArray[np.bool_]
    field: npt.NDArray[np.uint8]
    bits: npt.NDArray[np.uint64]
    seen: npt.NDArray[np.bool_]
    after: int


def decode_xevents(data: npt.NDArray[np.uint8], codes: npt.NDArray[np.int8], stats: int) -> XEventColumns | None:
    """The events at the start of these bytes; None if something else follows one of them, or without the library.

    `codes` has the code of each small stat id, -1 for unwanted ones; there are `stats` codes.
    """
    native = library()
    if native is None:
        return None
    after = c_int64()
    count = native.xevents_count(data.ctypes.data, len(data), byref(after))
    if count < 0:
        return None
    rows, odd = np.empty((5, count), np.int64), np.empty(count, np.bool_)
    field, bits = np.empty((stats, count), np.uint8), np.empty((stats, count), np.uint64)
    seen = np.zeros(stats, np.bool_)
    native.xevents_columns(
        *(data.ctypes.data, len(data), count), *(row.ctypes.data for row in rows), odd.ctypes.data,
        *(codes.ctypes.data, len(codes)), field.ctypes.data, bits.ctypes.data, seen.ctypes.data,
    )  # fmt: skip
    head, end, metadata, start, length = rows
    return XEventColumns(head, end, metadata, start, length, odd, field, bits, seen, after.value)
