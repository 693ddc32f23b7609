"""Passes over sorted intervals: `sweep.c`, as Python sees it. What they mean is in `intervals` and `nesting`.

Each gives None without the library, and for what is not in the order that it needs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tracehound.native import library

Ints = npt.NDArray[np.int64]

_NO_MEMORY = -2


def union(start: Ints, end: Ints) -> tuple[Ints, Ints] | None:
    """The set covered by intervals in the order of their starts."""
    native = library()
    if native is None:
        return None
    starts, ends = np.array(start, np.int64), np.array(end, np.int64)
    count = native.sweep_union(starts.ctypes.data, ends.ctypes.data, len(starts))
    if count < 0:
        return None
    return (starts[:count], ends[:count]) if 2 * count > len(starts) else (starts[:count].copy(), ends[:count].copy())


def merge(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> tuple[Ints, Ints] | None:
    """What two sets cover, each of disjoint intervals in order."""
    native = library()
    return None if native is None else _of_two(native.sweep_merge, start, end, other_start, other_end)


def intersect(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> tuple[Ints, Ints] | None:
    """What both of two sets cover, each of disjoint intervals in order."""
    native = library()
    return None if native is None else _of_two(native.sweep_intersect, start, end, other_start, other_end)


def _of_two(made: Callable[..., int], *sets: Ints) -> tuple[Ints, Ints]:
    start, end, other_start, other_end = (np.ascontiguousarray(each, np.int64) for each in sets)
    starts, ends = np.empty((2, len(start) + len(other_start)), np.int64)
    count = made(
        *(start.ctypes.data, end.ctypes.data, len(start)),
        *(other_start.ctypes.data, other_end.ctypes.data, len(other_start)),
        *(starts.ctypes.data, ends.ctypes.data),
    )
    return starts[:count].copy(), ends[:count].copy()


def nearest(parent: Ints, chosen: npt.NDArray[np.bool_]) -> Ints | None:
    """For each row the nearest at or above it that is chosen; parents come before their children."""
    native = library()
    if native is None:
        return None
    above, marks = np.ascontiguousarray(parent, np.int64), np.ascontiguousarray(chosen, np.bool_)
    found = np.empty_like(above)
    refused = native.sweep_nearest(above.ctypes.data, marks.ctypes.data, len(above), found.ctypes.data)
    return None if refused else found


def self_time(start: Ints, end: Ints, parent: Ints) -> Ints | None:
    """The time of each interval that no child covers; sorted by (lane, start, -end)."""
    native = library()
    if native is None:
        return None
    starts, ends, above = (np.ascontiguousarray(each, np.int64) for each in (start, end, parent))
    own = np.empty_like(starts)
    state = native.sweep_self_time(
        starts.ctypes.data, ends.ctypes.data, above.ctypes.data, len(starts), own.ctypes.data
    )
    if state == _NO_MEMORY:
        raise MemoryError
    return None if state else own
