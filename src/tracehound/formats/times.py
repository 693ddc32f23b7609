"""Times that can be true.

Owns the bounds, and what is said of clocks beyond them. All of them are ns, but for `FARTHEST_PS`.
"""

from __future__ import annotations

from typing import Final

UNIX: Final = 10**17
"""Times above this are a wall clock, of 1973 and later; below, a clock of unknown origin."""

LATEST: Final = 1 << 62
"""No wall clock shows more: it is the year 2116. Times near it, and some added to them, still fit Int64."""

FARTHEST: Final = 24 * 3600 * 10**9
"""Events farther than this from the middle one are strays, and none lasts so long: no profile takes a day.

So all of a file lies within two days. Int64 picoseconds hold 106: the few events with damaged times that a file may
have cannot make a sum of lengths or of gaps overflow.
"""

FARTHEST_PS: Final = FARTHEST * 1000

NO_CLOCK: Final = "clock_impossible"
"""The note of a clock beyond these bounds; its place is the name of the field, or nothing for many events."""


def wall_clock(ns: int) -> int | None:
    """A time since 1970 as it is; None where that cannot be true."""
    return ns if UNIX < ns <= LATEST else None
