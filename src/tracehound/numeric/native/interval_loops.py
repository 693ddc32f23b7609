"""Loops over sorted intervals in C (`sweep.c`, `nest.c`); `intervals`, `nesting` and `self_time` define the results.

Each returns None without the library, and for input that is not in the order that it needs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tracehound.numeric.native import library

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]

_NO_MEMORY = -2


def union_sorted(start: Ints, end: Ints) -> tuple[Ints, Ints] | None:
    """The set covered by intervals that are sorted by start."""
    native = library()
    if native is None:
        return None
    starts, ends = np.array(start, np.int64), np.array(end, np.int64)
    count = native.sweep_union(starts.ctypes.data, ends.ctypes.data, len(starts))
    if count < 0:
        return None
    return (starts[:count], ends[:count]) if 2 * count > len(starts) else (starts[:count].copy(), ends[:count].copy())


def merge_sets(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> tuple[Ints, Ints] | None:
    """The union of two sets, each of sorted, disjoint intervals."""
    native = library()
    return None if native is None else _combine_sets(native.sweep_merge, start, end, other_start, other_end)


def intersect_sets(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> tuple[Ints, Ints] | None:
    """The intersection of two sets, each of sorted, disjoint intervals."""
    native = library()
    return None if native is None else _combine_sets(native.sweep_intersect, start, end, other_start, other_end)


def _combine_sets(made: Callable[..., int], *sets: Ints) -> tuple[Ints, Ints]:
    start, end, other_start, other_end = (np.ascontiguousarray(each, np.int64) for each in sets)
    starts, ends = np.empty((2, len(start) + len(other_start)), np.int64)
    count = made(
        *(start.ctypes.data, end.ctypes.data, len(start)),
        *(other_start.ctypes.data, other_end.ctypes.data, len(other_start)),
        *(starts.ctypes.data, ends.ctypes.data),
    )
    return starts[:count].copy(), ends[:count].copy()


def self_times(start: Ints, end: Ints, parent: Ints) -> Ints | None:
    """The self time of each interval; sorted by (lane, start, -end)."""
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


def exclusive_starts(start: Ints, end: Ints, parent: Ints, group: Ints) -> Ints | None:
    """The exclusive start of each interval; parents come before their children, and groups are sorted."""
    native = library()
    if native is None:
        return None
    starts, ends, above, lanes = (np.ascontiguousarray(each, np.int64) for each in (start, end, parent, group))
    begin = np.empty_like(starts)
    state = native.sweep_exclusive_starts(
        *(starts.ctypes.data, ends.ctypes.data, above.ctypes.data, lanes.ctypes.data, len(starts), begin.ctypes.data)
    )
    if state == _NO_MEMORY:
        raise MemoryError
    return None if state else begin


def innermost_intervals(
    start: Ints,
    end: Ints,
    parent: Ints,
    *,
    group: Ints | None = None,
    separate_roots: bool = False,
    label: Bytes | None = None,
) -> tuple[Ints, Ints, Ints] | None:
    """Start, end and owner of the parts in which an interval is the innermost of its lane, lane by lane, in order.

    Sorted by (group, start, -end). Lanes are runs of one `group`; without it there is one lane, or (`separate_roots`)
    each top-level interval is a lane. Touching parts with one `label` are joined, and labels below 0 are left out. No
    intervals of a lane may partially overlap.
    """
    native = library()
    if native is None:
        return None
    starts, ends, above = (np.ascontiguousarray(each, np.int64) for each in (start, end, parent))
    lanes = None if group is None else np.ascontiguousarray(group, np.int64)
    labels = None if label is None else np.ascontiguousarray(label, np.int8)
    low, high, owner = (np.empty(2 * len(starts), np.int64) for _ in range(3))  # separate arrays, freed separately
    found = native.sweep_innermost(
        *(starts.ctypes.data, ends.ctypes.data, above.ctypes.data, len(starts)),
        *(None if lanes is None else lanes.ctypes.data, separate_roots, None if labels is None else labels.ctypes.data),
        *(low.ctypes.data, high.ctypes.data, owner.ctypes.data),
    )
    return None if found < 0 else (low[:found], high[:found], owner[:found])


def count_instants_reached(instants: Ints, now: Ints) -> Ints | None:
    """The number of sorted instants at or before each time; fast if consecutive times are near each other."""
    native = library()
    if native is None:
        return None
    known, asked = np.ascontiguousarray(instants, np.int64), np.ascontiguousarray(now, np.int64)
    found = np.empty_like(asked)
    native.sweep_count_reached(known.ctypes.data, len(known), asked.ctypes.data, len(asked), found.ctypes.data)
    return found


def find_latest_begun(group: Ints, start: Ints, whose: Ints, now: Ints) -> Ints | None:
    """The last interval that has begun at each instant, in the group beside it; -1 if none has.

    Intervals are sorted by (group, start); fast if consecutive instants are near each other in one group.
    """
    native = library()
    if native is None:
        return None
    groups, starts, groups_asked, asked = (np.ascontiguousarray(each, np.int64) for each in (group, start, whose, now))
    found = np.empty_like(asked)
    native.sweep_latest_begun(
        *(groups.ctypes.data, starts.ctypes.data, len(starts)),
        *(groups_asked.ctypes.data, asked.ctypes.data, len(asked), found.ctypes.data),
    )
    return found


def covered_lengths(start: Ints, end: Ints, before: Ints, low: Ints, high: Ints) -> Ints | None:
    """The length that sorted, disjoint intervals cover of each window; `before` is the length before each interval."""
    native = library()
    if native is None:
        return None
    starts, ends, sums, lows, highs = (np.ascontiguousarray(each, np.int64) for each in (start, end, before, low, high))
    inside = np.empty_like(lows)
    native.sweep_covered_lengths(
        *(starts.ctypes.data, ends.ctypes.data, sums.ctypes.data, len(starts)),
        *(lows.ctypes.data, highs.ctypes.data, len(lows), inside.ctypes.data),
    )
    return inside


def add_overlap_times(
    start: Ints, end: Ints, place: Ints, of: tuple[Ints, Ints], further: npt.NDArray[np.integer], sums: Ints
) -> bool:
    """Add the overlaps of intervals with sorted, disjoint intervals to the sums at `place` plus `further`.

    False if nothing was added.
    """
    native = library()
    if native is None:
        return False
    starts, ends, places, low, high, more = (
        np.ascontiguousarray(each, np.int64) for each in (start, end, place, *of, further)
    )
    native.sweep_add_overlaps(
        *(starts.ctypes.data, ends.ctypes.data, places.ctypes.data, len(starts)),
        *(low.ctypes.data, high.ctypes.data, more.ctypes.data, len(low), sums.ctypes.data),
    )
    return True


def is_sorted_by_lane(lane: Ints, start: Ints, end: Ints) -> bool | None:
    """True if intervals are sorted by (lane, start, -end); None without the library."""
    native = library()
    if native is None:
        return None
    lanes, starts, ends = (np.ascontiguousarray(each, np.int64) for each in (lane, start, end))
    return bool(native.nest_ordered(lanes.ctypes.data, starts.ctypes.data, ends.ctypes.data, len(lanes)))


def nest_in_c(start: Ints, until: Ints, first: Ints, known: Ints) -> tuple[Ints, Ints, bool] | None:
    """Parent, depth and the existence of partial overlaps, for the arguments of `nest_intervals`.

    No interval may be empty. None without the library.
    """
    native = library()
    if native is None:
        return None
    starts, untils, firsts, depths = (np.ascontiguousarray(each, np.int64) for each in (start, until, first, known))
    parent, depth = np.empty_like(starts), np.empty_like(starts)
    torn = native.nest_intervals(
        starts.ctypes.data, untils.ctypes.data, len(starts),
        firsts.ctypes.data, len(firsts),
        depths.ctypes.data, len(depths),
        parent.ctypes.data, depth.ctypes.data,
    )  # fmt: skip
    if torn < 0:
        raise MemoryError
    return parent, depth, torn > 0
