"""Values that change over time, and what they are on the whole.

Owns `Series`, the making of one out of intervals that add up, and the spread of values that last, or count, unequally.
Knows no events and no domain words but rank and stream.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from tracehound.intervals import Ints


class Series(Struct, frozen=True, eq=False):
    """A value over time: from ``time[i]`` (ps, ascending, no two alike) it is ``value[i]``, until the next instant.

    `name` is of what it is told: the name of a lane, a kind of copy; `stream` the stream's number, where it has one.
    Before the first instant the value is 0; after the last it stays what it is.
    """

    name: str
    stream: int | None
    time: Ints
    value: Ints


class Steps(Struct, frozen=True, eq=False):
    """The sum of what goes on, change by change; `time` (ps) ascends, and repeats where several fall on one instant."""

    time: Ints
    value: Ints

    def merged(self) -> Steps:
        """Of the changes at one instant only the last."""
        last = np.append(self.time[1:] != self.time[:-1], True) if len(self.time) else np.empty(0, np.bool_)
        return Steps(self.time[last], self.value[last])

    def between(self, start: int, end: int) -> Steps:
        """The changes in `[start, end)`."""
        low, high = (int(np.searchsorted(self.time, instant)) for instant in (start, end))
        return Steps(self.time[low:high], self.value[low:high])

    def within(self, start: int, end: int) -> Steps:
        """The changes in `[start, end)`, after one at its start to what was reached by then."""
        low = int(np.searchsorted(self.time, start))
        inside = self.between(start, end)
        return Steps(np.append(start, inside.time), np.append(self.value[low - 1] if low else 0, inside.value))

    def lasting(self, end: int) -> Ints:
        """How long each value lasts, the last one until `end`; ps."""
        return np.diff(self.time, append=max(end, int(self.time[-1]))) if len(self.time) else self.time

    def series(self, name: str, stream: int | None) -> Series:
        """The series of that name."""
        steps = self.merged()
        return Series(name, stream, steps.time, steps.value)


def added(start: Ints, end: Ints, height: Ints) -> Steps:
    """The sum of the heights of the intervals `[start, end)` that last, with a change at every start and every end.

    At one instant what starts is added before what ends is taken away, so that the sum is never below 0.
    """
    time = np.concatenate([start, end])
    order = np.argsort(time, kind="stable")
    return Steps(time[order], np.cumsum(np.concatenate([height, -height])[order]))


_DENSE: Final = 1 << 16
"""Values from 0 up to here are counted, larger ones sorted."""


class Spread(Struct, frozen=True, eq=False):
    """How much weight is on each of some values: time in which a value lasts, or how often it was seen.

    `value` ascends without repetition, `weight` is above 0.
    """

    value: Ints
    weight: Ints

    @property
    def total(self) -> int:
        """The weight on all values together."""
        return int(self.weight.sum())

    @property
    def max(self) -> int:
        """The largest value; 0 without any."""
        return int(self.value[-1]) if len(self.value) else 0

    @property
    def mean(self) -> float | None:
        """The average; None without values."""
        return float(np.average(self.value, weights=self.weight)) if len(self.value) else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of a sample; None where fewer than two values were seen."""
        if self.total < 2:
            return None
        off = self.value - np.average(self.value, weights=self.weight)
        return float(np.sqrt((self.weight * off * off).sum() / (self.total - 1)))

    def reached(self, part: float) -> int | None:
        """The lowest value that holds at least this part of the weight together with those below it."""
        if not len(self.value):
            return None
        held = np.cumsum(self.weight)
        return int(self.value[min(int(np.searchsorted(held, part * held[-1])), len(held) - 1)])

    def quantile(self, part: float) -> float | None:
        """The same with the weights as counts, and linear between the two values around the place: as pandas does."""
        if not len(self.value):
            return None
        held = np.cumsum(self.weight)
        place = part * float(held[-1] - 1)
        around = np.searchsorted(held, [np.floor(place), np.ceil(place)], side="right")
        low, high = self.value[around].tolist()
        return float(low + (high - low) * (place % 1))


def spread(value: Ints, weight: Ints | None = None) -> Spread:
    """The spread of values, not negative, each with its weight (without weights each counts once)."""
    if not len(value):
        return Spread(value, value)
    if int(value.max()) < _DENSE:
        held = np.bincount(value, weights=weight)
        seen = np.flatnonzero(held)
        return Spread(seen.astype(np.int64), np.rint(held[seen]).astype(np.int64))
    order = np.argsort(value, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(value[order]) > 0))
    weighed = np.add.reduceat(np.ones(len(value), np.int64) if weight is None else weight[order], first)
    return Spread(value[order][first][weighed > 0], weighed[weighed > 0])
