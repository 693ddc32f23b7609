"""Passes over trees of rows: `trees.c`, as Python sees it. What they mean is in `nesting`.

Each gives None without the library, and for rows that do not come after the one above them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tracehound.native import library

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]

_NO_MEMORY = -2


def nearest(parent: Ints, chosen: Mask) -> Ints | None:
    """For each row the nearest at or above it that is chosen, -1 where there is none."""
    return _told("trees_nearest", parent, np.ascontiguousarray(chosen, np.bool_), np.empty(len(parent), np.int64))


def inherited(parent: Ints, own: Bytes) -> Bytes | None:
    """What each row says itself (0 or more), else the nearest above it that says anything; -1 without one."""
    return _told("trees_inherited", parent, np.ascontiguousarray(own, np.int8), np.empty(len(parent), np.int8))


def with_below(parent: Ints, value: Ints) -> Ints | None:
    """The value of each row and of all rows below it, summed."""
    return _told("trees_with_below", parent, np.ascontiguousarray(value, np.int64), np.empty(len(parent), np.int64))


T = TypeVar("T", bound=np.generic)


def _told(function: str, parent: Ints, given: npt.NDArray[Any], found: npt.NDArray[T]) -> npt.NDArray[T] | None:
    """What a function finds of each row, by its parent and what is given of it."""
    native = library()
    if native is None:
        return None
    above = np.ascontiguousarray(parent, np.int64)
    refused = getattr(native, function)(above.ctypes.data, given.ctypes.data, len(above), found.ctypes.data)
    return None if refused else found


def again(parent: Ints, chosen: Mask, number: Ints, numbers: int) -> Mask | None:
    """Which of the chosen rows have one above them with the same number; all are below `numbers`.

    Rows come depth first, and all above a chosen one are chosen.
    """
    native = library()
    if native is None:
        return None
    above, said = np.ascontiguousarray(parent, np.int64), np.ascontiguousarray(number, np.int64)
    marks = np.ascontiguousarray(chosen, np.bool_)
    found = np.empty_like(marks)
    state = native.trees_again(
        *(above.ctypes.data, marks.ctypes.data, said.ctypes.data, len(above), numbers, found.ctypes.data)
    )
    if state == _NO_MEMORY:
        raise MemoryError
    return None if state else found


def paths(parent: Ints, name: Ints, root: Ints) -> tuple[Ints, Ints, Ints] | None:
    """The node of each row, by the names on its way from the root and the number in `root` (0 or more) of that.

    Of each node what is above it (-1: a root) and its first row; they are numbered in the order of these.
    """
    native = library()
    if native is None:
        return None
    given = [np.ascontiguousarray(each, np.int64) for each in (parent, name, root)]
    found = [np.empty(len(parent), np.int64) for _ in range(3)]
    before, after = ([each.ctypes.data for each in arrays] for arrays in (given, found))
    nodes = native.trees_paths(*before, len(parent), *after)
    if nodes == _NO_MEMORY:
        raise MemoryError
    node, above, first = found
    return None if nodes < 0 else (node, above[:nodes].copy(), first[:nodes].copy())
