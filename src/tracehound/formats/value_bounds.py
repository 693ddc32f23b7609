"""Bounds of the times and sizes that can be true, and the codes of notes on values beyond them.

Times are in ns, except `MAX_DISTANCE_PS`. A file that gives a larger size is damaged: the value is ignored, since sums
of such numbers overflow.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tracehound.formats.spill import MaskedColumn
from tracehound.numeric.intervals import Ints, Mask

EARLIEST_WALL_CLOCK_NS: Final = 10**17
"""Times above this are on a wall clock, of 1973 and later; times below, on a clock of unknown origin."""

LATEST_WALL_CLOCK_NS: Final = 1 << 62
"""Latest time of a wall clock: the year 2116. Times near it, and some added to them, still fit Int64."""

MAX_DISTANCE_NS: Final = 24 * 3600 * 10**9
"""Events farther than this from the median one are dropped, and none lasts so long: no profile takes a day.

So all events of a file lie within two days. Int64 picoseconds hold 106: the few damaged times that a file may have
cannot make a sum of lengths or of gaps overflow.
"""

MAX_DISTANCE_PS: Final = MAX_DISTANCE_NS * 1000

CLOCK_IMPOSSIBLE: Final = "clock_impossible"
"""The code of the note on a clock beyond these bounds; its `where` is the name of the field, or empty for many
events.
"""


def middle_time(times: Ints) -> int:
    """The lower median of the times, 0 without any.

    It is one of them. The mean of the middle two is far from every event where half of the events lie days away.
    """
    middle = (len(times) - 1) // 2
    return int(np.partition(times, middle)[middle]) if len(times) else 0


def valid_wall_clock(ns: int) -> int | None:
    """Return a time since 1970 (ns) unchanged, or None where it cannot be true."""
    return ns if EARLIEST_WALL_CLOCK_NS < ns <= LATEST_WALL_CLOCK_NS else None


MAX_BYTES: Final = 1 << 44
"""16 TiB, more than any memory has; half a million of them can be summed up in Int64."""

SIZE_OUT_OF_RANGE: Final = "size_out_of_range"
"""The code of the note on events whose size was ignored."""


def drop_impossible_sizes(sizes: MaskedColumn, least: int = 0) -> tuple[MaskedColumn, Mask]:
    """Mark sizes below `least` and above `MAX_BYTES` as missing; also return the mask of these rows."""
    beyond = (sizes.values < least) | (sizes.values > MAX_BYTES)
    if sizes.valid is not None:
        beyond &= sizes.valid
    if not beyond.any():
        return sizes, beyond
    return MaskedColumn(sizes.values, ~beyond if sizes.valid is None else sizes.valid & ~beyond), beyond
