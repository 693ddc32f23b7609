"""Passes over trees of rows: `trees.c`, as Python sees it. What they mean is in `nesting`.

Each gives None without the library, and for rows that do not come after the one above them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracehound.native import library

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]

_NO_MEMORY = -2


def nearest(parent: Ints, chosen: Mask) -> Ints | None:
    """For each row the nearest at or above it that is chosen; parents come before their children."""
    native = library()
    if native is None:
        return None
    above, marks = np.ascontiguousarray(parent, np.int64), np.ascontiguousarray(chosen, np.bool_)
    found = np.empty_like(above)
    refused = native.trees_nearest(above.ctypes.data, marks.ctypes.data, len(above), found.ctypes.data)
    return None if refused else found


def inherited(parent: Ints, own: Bytes) -> Bytes | None:
    """What each row says itself, else the nearest above it that says anything; parents come before their children."""
    native = library()
    if native is None:
        return None
    above, says = np.ascontiguousarray(parent, np.int64), np.ascontiguousarray(own, np.int8)
    said = np.empty_like(says)
    refused = native.trees_inherited(above.ctypes.data, says.ctypes.data, len(says), said.ctypes.data)
    return None if refused else said


def with_below(parent: Ints, value: Ints) -> Ints | None:
    """The value of each row and of all rows below it, summed; parents come before their children."""
    native = library()
    if native is None:
        return None
    above, values = np.ascontiguousarray(parent, np.int64), np.ascontiguousarray(value, np.int64)
    sums = np.empty_like(values)
    refused = native.trees_with_below(above.ctypes.data, values.ctypes.data, len(above), sums.ctypes.data)
    return None if refused else sums


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
