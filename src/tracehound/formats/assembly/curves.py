"""Quantities that add up over time, and their means over stretches of it.

Owns the arithmetic: a height that holds from one instant to the next, and its integral. Knows no events.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.intervals import Ints

Floats = npt.NDArray[np.float64]

_BITS: Final = 62
"""Of heights as whole numbers, so that what ends takes away exactly what it added."""


class Curve(NamedTuple):
    """From ``time[i]`` (ps, ascending) the height is ``height[i]``, until the next instant; 0 before the first."""

    time: Ints
    height: Floats

    def capped(self, most: float) -> Curve:
        """Nowhere higher than that."""
        return Curve(self.time, np.minimum(self.height, most))

    def integral(self, start: Ints, end: Ints) -> Floats:
        """Height times time (ps) in each of the stretches `[start, end)`."""
        if len(self.time) == 0:
            return np.zeros(len(start), np.float64)
        until = np.concatenate([[0.0], np.cumsum(self.height[:-1] * np.diff(self.time))])

        def before(instant: Ints) -> Floats:
            at = np.searchsorted(self.time, instant, side="right") - 1
            known = np.maximum(at, 0)
            return np.where(at < 0, 0.0, until[known] + self.height[known] * (instant - self.time[known]))

        return np.maximum(before(end) - before(start), 0.0)


def stacked(start: Ints, end: Ints, heights: Mapping[str, Floats]) -> dict[str, Curve]:
    """The sums of the heights of the intervals `[start, end)` that last at each instant, for each sort of height."""
    time = np.concatenate([start, end])
    order = np.argsort(time, kind="stable")
    time = time[order]

    at_once = int(np.cumsum(np.where(order < len(start), 1, -1)).max(initial=1))

    def curve(height: Floats) -> Curve:
        unit = _unit(float(height.max(initial=0.0)) * at_once)
        whole = np.rint(height * unit).astype(np.int64)
        total = np.cumsum(np.concatenate([whole, -whole])[order])
        return Curve(time, np.maximum(total, 0) / unit)

    return {name: curve(height) for name, height in heights.items()}


def _unit(most: float) -> float:
    """How many parts of 1 the whole numbers count, where no sum is above `most`: as many as `_BITS` have room for.

    A power of two, so that what is counted loses nothing but what lies below a part.
    """
    return math.ldexp(1.0, _BITS - max(math.frexp(most)[1], 0))


_MICROSECOND: Final = 10**6
_MOST: Final = 200


def bucket(length: int, most: int = _MOST) -> int:
    """The smallest of 1, 2, 5, 10, 20, ... us (in ps) by which a length is cut into at most so many stretches."""
    size = _MICROSECOND
    while True:
        for round_size in (size, 2 * size, 5 * size):
            if length <= most * round_size:
                return round_size
        size *= 10


def buckets(start: int, end: int, size: int) -> tuple[Ints, Ints]:
    """Starts and ends of stretches of that size from `start` on; the last one takes in what is left."""
    count = max((end - start) // size, 1) if end > start else 0
    edges = start + size * np.arange(count + 1, dtype=np.int64)
    if count:
        edges[-1] = end
    return edges[:-1], edges[1:]
