"""Lists of JSON objects -> columns: `scan.c`, as Python sees it.

Owns the table of fields and the lifetime of what the library holds. Knows no event and no format.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int32, c_uint8, c_void_p
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.native import library

ABSENT: Final = int(np.iinfo(np.int64).min)
"""A number that an object does not have."""

BETWEEN: Final = b"\0"
"""What stands between the parts of a key: no JSON holds it."""


class Kind(IntEnum):
    """What becomes of the value of a field; an object in which it is another kind of value is odd.

    `TAG`: text of one character. `TICKS`: a number of at most three decimals, in thousandths. `WHOLE`: a whole number
    of at most 18 digits. `PART`: part of the key of a group, as it is spelled. `NESTED`: an object whose members are
    read as well. `ODD`: nothing, an object that has it is odd.
    """

    TAG = 0
    TICKS = 1
    WHOLE = 2
    PART = 3
    NESTED = 4
    ODD = 5


TEXT, NUMBER, NULL, OTHER = 1, 2, 4, 8
"""Types that a part may have, to be added up."""

ANY: Final = TEXT | NUMBER | NULL | OTHER


class Field(Struct, frozen=True):
    """A member of the objects, or of the objects nested in them: its key, which JSON spells without escapes.

    `column` is that of the numbers, or the group; `part` the place in the group's key, `types` what it may be.
    """

    key: str
    kind: Kind
    nested: bool = False
    column: int = 0
    part: int = 0
    types: int = 0


class Objects(NamedTuple):
    """The objects of a list as columns, which hold until the scanner reads the next list.

    `tags` are characters, `numbers` and `codes` have a row for each column and group. A code is the number of the
    object's key of that group, in the order in which the scanner met them. `others` has row, begin and end of each
    object that is odd or whose tag is not plain: nothing else is told of them, and their tag is 0. `ascii` says that
    the list had no other characters; else nobody looked whether it is UTF-8.
    """

    tags: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]
    others: npt.NDArray[np.int64]
    ascii: bool


class Scanner:
    """Reads lists of objects, one after the other; made by `scanner`."""

    def __init__(self, native: ctypes.CDLL, held: int, numbers: int, groups: int) -> None:
        self._native, self._held = native, held
        self._numbers, self._groups = numbers, groups
        weakref.finalize(self, native.scan_free, held)

    def objects(self, text: memoryview) -> Objects | None:
        """The objects of a list, from bracket to bracket; None where it is no sound list of objects."""
        memory = np.frombuffer(text, np.uint8)
        count = self._native.scan_list(self._held, memory.ctypes.data, len(memory))
        if count < 0:
            return None
        tags, numbers, codes, others = c_void_p(), c_void_p(), c_void_p(), c_void_p()
        room = self._native.scan_columns(self._held, byref(tags), byref(numbers), byref(codes))
        found = self._native.scan_others(self._held, byref(others))
        return Objects(
            self._array(tags, (1, count), room, np.uint8)[0],
            self._array(numbers, (self._numbers, count), room, np.int64),
            self._array(codes, (self._groups, count), room, np.int32),
            self._array(others, (found, 3), 3, np.int64),
            not self._native.scan_beyond_ascii(self._held),
        )

    def keys(self, group: int, low: int) -> list[bytes]:
        """The keys of a group with numbers from `low` on: their parts as JSON spells them, `BETWEEN` them."""
        text, ends = c_void_p(), c_void_p()
        count = self._native.scan_texts(self._held, group, byref(text), byref(ends))
        if low >= count:
            return []
        bounds = [0, *self._array(ends, (1, count), count, np.int64)[0].tolist()][low:]
        found = ctypes.string_at((text.value or 0) + bounds[0], bounds[-1] - bounds[0])
        return [found[begin - bounds[0] : end - bounds[0]] for begin, end in pairwise(bounds)]

    @property
    def held(self) -> int:
        """About how many bytes the keys take that it knows, also those of lists that it refused."""
        return int(self._native.scan_held(self._held))

    def forget(self) -> None:
        """Forget all keys: numbers begin anew."""
        self._native.scan_forget(self._held)

    def _array(self, place: c_void_p, shape: tuple[int, int], room: int, dtype: type[Any]) -> npt.NDArray[Any]:
        """Memory of the library as an array, `room` being the numbers from one row to the next."""
        if place.value is None:
            return np.empty(shape, dtype)
        held = np.dtype(dtype)
        strides = (room * held.itemsize, held.itemsize)
        data = (place.value, True)  # read only
        interface = {"version": 3, "typestr": held.str, "shape": shape, "strides": strides, "data": data}
        return np.asarray(_Memory(interface, self))


def scanner(fields: Sequence[Field], plain: str, odd_starts: tuple[int, Sequence[str]]) -> Scanner | None:
    """What reads objects with these fields; None where the library is missing.

    `plain` are the tags of objects that the columns tell all about. Odd are those, too, whose key of a group begins as
    one of some texts: `odd_starts` is both. Keys are spread by a seed of their own, so that no file is slow by design.
    """
    native = library()
    if native is None:
        return None
    table = (_Field * len(fields))(*map(_told, fields))
    held = native.scan_new(table, len(fields), plain.encode(), int.from_bytes(os.urandom(8), "little"))
    if not held:
        raise MemoryError
    numbers = [field.column for field in fields if field.kind in (Kind.TICKS, Kind.WHOLE)]
    groups = [field.column for field in fields if field.kind is Kind.PART]
    made = Scanner(native, held, max(numbers) + 1, max(groups) + 1)  # which frees it, whatever comes
    group, starts = odd_starts
    text = b"".join(start.encode() + b"\0" for start in starts) + b"\0"
    if not native.scan_odd_starts(held, group, text, len(text)):
        raise MemoryError
    return made


class _Field(ctypes.Structure):
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


def _told(field: Field) -> _Field:
    key = field.key.encode()
    return _Field(key, len(key), field.kind, field.nested, field.column, field.part, field.types)


class _Memory:
    """Memory of the library, as numpy asks for it; it is there as long as its scanner."""

    def __init__(self, interface: dict[str, Any], scanner: Scanner) -> None:
        self.__array_interface__ = interface
        self._scanner = scanner
