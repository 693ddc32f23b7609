"""How intervals nest: `nest.c`, as Python sees it. What that means is in `nesting`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracehound.native import library

Ints = npt.NDArray[np.int64]


def ordered(lane: Ints, start: Ints, end: Ints) -> bool | None:
    """Whether intervals are sorted by (lane, start, -end); None without the library."""
    native = library()
    if native is None:
        return None
    lanes, starts, ends = (np.ascontiguousarray(each, np.int64) for each in (lane, start, end))
    return bool(native.nest_ordered(lanes.ctypes.data, starts.ctypes.data, ends.ctypes.data, len(lanes)))


def nested(start: Ints, until: Ints, first: Ints, known: Ints) -> tuple[Ints, Ints, bool] | None:
    """Parent, depth and whether any overlap in part, of the arguments of `nesting`; None without the library.

    None of the intervals may be empty.
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
