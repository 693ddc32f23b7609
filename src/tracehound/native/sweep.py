"""Passes over sorted intervals: `sweep.c`, as Python sees it. What they mean is in `intervals` and `own_time`.

Each gives None without the library, and for what is not in the order that it needs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tracehound.native import library

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]

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


def unshared(start: Ints, end: Ints, parent: Ints, group: Ints) -> Ints | None:
    """From when each interval has its time for itself; parents come before their children, and groups in order."""
    native = library()
    if native is None:
        return None
    starts, ends, above, lanes = (np.ascontiguousarray(each, np.int64) for each in (start, end, parent, group))
    begin = np.empty_like(starts)
    state = native.sweep_unshared(
        *(starts.ctypes.data, ends.ctypes.data, above.ctypes.data, lanes.ctypes.data, len(starts), begin.ctypes.data)
    )
    if state == _NO_MEMORY:
        raise MemoryError
    return None if state else begin


def innermost(
    start: Ints, end: Ints, parent: Ints, *, group: Ints | None = None, apart: bool = False, label: Bytes | None = None
) -> tuple[Ints, Ints, Ints] | None:
    """Start, end and owner of the stretches in which an interval is the innermost of its lane, lane by lane, in order.

    Sorted by (group, start, -end). Lanes are runs of one `group`; without it there is one lane, or each interval of the
    top is one (`apart`). Those of one `label` that touch are one stretch, and a label below 0 is none. No interval of a
    lane may overlap another in part.
    """
    native = library()
    if native is None:
        return None
    starts, ends, above = (np.ascontiguousarray(each, np.int64) for each in (start, end, parent))
    lanes = None if group is None else np.ascontiguousarray(group, np.int64)
    labels = None if label is None else np.ascontiguousarray(label, np.int8)
    low, high, owner = (np.empty(2 * len(starts), np.int64) for _ in range(3))  # each goes by itself
    found = native.sweep_innermost(
        *(starts.ctypes.data, ends.ctypes.data, above.ctypes.data, len(starts)),
        *(None if lanes is None else lanes.ctypes.data, apart, None if labels is None else labels.ctypes.data),
        *(low.ctypes.data, high.ctypes.data, owner.ctypes.data),
    )
    return None if found < 0 else (low[:found], high[:found], owner[:found])


def passed(instants: Ints, now: Ints) -> Ints | None:
    """How many of the instants, which are sorted, each of the others has reached; quick for runs of near ones."""
    native = library()
    if native is None:
        return None
    known, asked = np.ascontiguousarray(instants, np.int64), np.ascontiguousarray(now, np.int64)
    found = np.empty_like(asked)
    native.sweep_passed(known.ctypes.data, len(known), asked.ctypes.data, len(asked), found.ctypes.data)
    return found


def latest(group: Ints, start: Ints, whose: Ints, now: Ints) -> Ints | None:
    """The last interval of each of these groups that has begun at the instant beside it, -1 where none has.

    Intervals are sorted by (group, start); quick for runs of near instants of one group.
    """
    native = library()
    if native is None:
        return None
    groups, starts, groups_asked, asked = (np.ascontiguousarray(each, np.int64) for each in (group, start, whose, now))
    found = np.empty_like(asked)
    native.sweep_latest(
        *(groups.ctypes.data, starts.ctypes.data, len(starts)),
        *(groups_asked.ctypes.data, asked.ctypes.data, len(asked), found.ctypes.data),
    )
    return found


def covered(start: Ints, end: Ints, before: Ints, low: Ints, high: Ints) -> Ints | None:
    """How much of each window a set of disjoint intervals in order covers; `before` each are so many of theirs."""
    native = library()
    if native is None:
        return None
    starts, ends, sums, lows, highs = (np.ascontiguousarray(each, np.int64) for each in (start, end, before, low, high))
    inside = np.empty_like(lows)
    native.sweep_covered(
        *(starts.ctypes.data, ends.ctypes.data, sums.ctypes.data, len(starts)),
        *(lows.ctypes.data, highs.ctypes.data, len(lows), inside.ctypes.data),
    )
    return inside


def shared_time(
    start: Ints, end: Ints, place: Ints, of: tuple[Ints, Ints], further: npt.NDArray[np.integer], sums: Ints
) -> bool:
    """Add the time that stretches and disjoint intervals in order share to the sums at the places of both together.

    False where nothing was added.
    """
    native = library()
    if native is None:
        return False
    starts, ends, places, low, high, more = (
        np.ascontiguousarray(each, np.int64) for each in (start, end, place, *of, further)
    )
    native.sweep_shared_time(
        *(starts.ctypes.data, ends.ctypes.data, places.ctypes.data, len(starts)),
        *(low.ctypes.data, high.ctypes.data, more.ctypes.data, len(low), sums.ctypes.data),
    )
    return True
