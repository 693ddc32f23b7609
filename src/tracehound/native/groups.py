"""Passes over rows that have numbers: `groups.c`, as Python sees it. What they mean is in `numbering`.

Each gives None without the library, and of names that are no numbers of 32 bits, or kinds that are none of 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tracehound.native import library

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Numbers = npt.NDArray[np.integer[Any]]


def occurring(number: Numbers, numbers: int) -> npt.NDArray[np.bool_] | None:
    """Which numbers below `numbers` occur."""
    native = library()
    if native is None or number.dtype != np.uint32:
        return None
    one = np.ascontiguousarray(number)
    occurs = np.zeros(numbers, np.bool_)
    native.groups_occurring(one.ctypes.data, len(one), occurs.ctypes.data)
    return occurs


def one_of_each(name: Numbers, kind: Numbers, names: int, kinds: int) -> Ints | None:
    """A row of each name and kind that occur together, at the place `name * kinds + kind`, and -1 at others.

    There are fewer than `names` and `kinds`.
    """
    native = library()
    if native is None or not _narrow(name, kind):
        return None
    one, other = np.ascontiguousarray(name), np.ascontiguousarray(kind)
    row = np.full(names * kinds, -1, np.int64)
    native.groups_one_of_each(one.ctypes.data, other.ctypes.data, len(one), kinds, row.ctypes.data)
    return row


def told(name: Numbers, kind: Numbers, kinds: int, known: Bytes) -> Bytes | None:
    """What is known of the name and kind of each row, at the place of these."""
    native = library()
    if native is None or not _narrow(name, kind):
        return None
    return _at_places(native.groups_told, name, kind, kinds, np.ascontiguousarray(known, np.int8))


def numbered(name: Numbers, kind: Numbers, kinds: int, known: Ints) -> Ints | None:
    """The number that is known of the name and kind of each row, at the place of these."""
    native = library()
    if native is None or not _narrow(name, kind):
        return None
    return _at_places(native.groups_numbered, name, kind, kinds, np.ascontiguousarray(known, np.int64))


def rows_from(first: int, rows: int, wanted: Ints) -> Ints | None:
    """The row of each wanted number, where so many rows have the numbers from `first` on; -1 where there is none."""
    native = library()
    if native is None:
        return None
    numbers = np.ascontiguousarray(wanted, np.int64)
    row = np.empty_like(numbers)
    native.groups_rows(numbers.ctypes.data, len(numbers), first, rows, row.ctypes.data)
    return row


def add(group: Ints, value: Ints, groups: int) -> Ints | None:
    """The sum of the values of each group; a row whose group is below 0 has none."""
    native = library()
    if native is None:
        return None
    one, other = np.ascontiguousarray(group, np.int64), np.ascontiguousarray(value, np.int64)
    sums = np.zeros(groups, np.int64)
    native.groups_add(one.ctypes.data, other.ctypes.data, len(one), sums.ctypes.data)
    return sums


def most(group: Ints, value: Ints, other: Ints, groups: int) -> Ints | None:
    """Of each group the first row with the largest value, and of these the largest other one; -1 without a row."""
    native = library()
    if native is None:
        return None
    numbers, one, two = (np.ascontiguousarray(each, np.int64) for each in (group, value, other))
    rows = np.full(groups, -1, np.int64)
    native.groups_most(numbers.ctypes.data, one.ctypes.data, two.ctypes.data, len(numbers), rows.ctypes.data)
    return rows


def earliest(group: Ints, order: npt.NDArray[np.intp], starts: int, groups: int) -> Ints | None:
    """Which start each end takes, in the order of time; -1 without one."""
    native = library()
    if native is None:
        return None
    numbers, rows = np.ascontiguousarray(group, np.int64), np.ascontiguousarray(order, np.int64)
    first, last, following = np.full(groups, -1, np.int64), np.empty(groups, np.int64), np.empty(starts, np.int64)
    taken = np.empty(len(numbers) - starts, np.int64)
    native.groups_earliest(
        numbers.ctypes.data, rows.ctypes.data, len(rows), starts,
        *(each.ctypes.data for each in (first, last, following, taken)),
    )  # fmt: skip
    return taken


def _narrow(name: Numbers, kind: Numbers) -> bool:
    return name.dtype == np.uint32 and kind.dtype == np.uint8


T = TypeVar("T", bound=np.generic)


def _at_places(
    made: Callable[..., None], name: Numbers, kind: Numbers, kinds: int, known: npt.NDArray[T]
) -> npt.NDArray[T]:
    one, other = np.ascontiguousarray(name), np.ascontiguousarray(kind)
    found = np.empty(len(one), known.dtype)
    made(one.ctypes.data, other.ctypes.data, len(one), kinds, known.ctypes.data, found.ctypes.data)
    return found
