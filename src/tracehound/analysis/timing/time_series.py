"""Values over time: step functions from intervals that add up, time series, and weighted distributions.

Knows no events.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from tracehound.numeric.intervals import Ints


class TimeSeries(Struct, frozen=True, eq=False):
    """A value over time: from ``time[i]`` (ps, strictly ascending) on it is ``value[i]``, until the next instant.

    `name` names its subject, a lane or a kind of copy; `stream` is the stream's number, if it has one. Before the first
    instant the value is 0; after the last it stays.
    """

    name: str
    stream: int | None
    time: Ints
    value: Ints


class RunningSum(Struct, frozen=True, eq=False):
    """A sum over time, change by change; `time` (ps) ascends, and repeats if several changes fall on one instant."""

    time: Ints
    value: Ints

    def last_per_instant(self) -> RunningSum:
        """Only the last of the changes at one instant."""
        last = np.append(self.time[1:] != self.time[:-1], True) if len(self.time) else np.empty(0, np.bool_)
        return RunningSum(self.time[last], self.value[last])

    def between(self, start: int, end: int) -> RunningSum:
        """The changes in `[start, end)`."""
        low, high = (int(np.searchsorted(self.time, instant)) for instant in (start, end))
        return RunningSum(self.time[low:high], self.value[low:high])

    def clipped(self, start: int, end: int) -> RunningSum:
        """The changes in `[start, end)`, after one at `start` to the value reached by then."""
        low = int(np.searchsorted(self.time, start))
        inside = self.between(start, end)
        return RunningSum(np.append(start, inside.time), np.append(self.value[low - 1] if low else 0, inside.value))

    def durations(self, end: int) -> Ints:
        """The duration of each value, of the last one until `end`; ps."""
        return np.diff(self.time, append=max(end, int(self.time[-1]))) if len(self.time) else self.time

    def to_time_series(self, name: str, stream: int | None) -> TimeSeries:
        """The time series of that name."""
        steps = self.last_per_instant()
        return TimeSeries(name, stream, steps.time, steps.value)


def sum_over_time(start: Ints, end: Ints, height: Ints) -> RunningSum:
    """The sum of the heights of all intervals `[start, end)` over time, with a change at every start and end.

    At one instant starts are added before ends are subtracted, so that the sum is never negative.
    """
    time = np.concatenate([start, end])
    order = np.argsort(time, kind="stable")
    return RunningSum(time[order], np.cumsum(np.concatenate([height, -height])[order]))


_MAX_COUNTED_VALUE: Final = 1 << 16
"""Values from 0 up to here are counted with a table, larger ones sorted."""


class WeightedDistribution(Struct, frozen=True, eq=False):
    """The weight of each value: the time it lasts, or how often it was seen.

    `value` is strictly ascending, `weight` is above 0.
    """

    value: Ints
    weight: Ints

    @property
    def total(self) -> int:
        """The weight of all values together."""
        return int(self.weight.sum())

    @property
    def max(self) -> int:
        """The largest value; 0 without any."""
        return int(self.value[-1]) if len(self.value) else 0

    @property
    def mean(self) -> float | None:
        """The mean; None without values."""
        return float(np.average(self.value, weights=self.weight)) if len(self.value) else None

    @property
    def standard_deviation(self) -> float | None:
        """The standard deviation of a sample; None with fewer than two values."""
        if self.total < 2:
            return None
        off = self.value - np.average(self.value, weights=self.weight)
        return float(np.sqrt((self.weight * off * off).sum() / (self.total - 1)))

    def lowest_value_with_share(self, part: float) -> int | None:
        """The lowest value that, with all below it, holds at least this part of the weight."""
        if not len(self.value):
            return None
        cumulative = np.cumsum(self.weight)
        return int(self.value[min(int(np.searchsorted(cumulative, part * cumulative[-1])), len(cumulative) - 1)])

    def quantile(self, part: float) -> float | None:
        """The quantile with weights as counts, interpolated linearly between two values, as pandas does."""
        if not len(self.value):
            return None
        cumulative = np.cumsum(self.weight)
        place = part * float(cumulative[-1] - 1)
        around = np.searchsorted(cumulative, [np.floor(place), np.ceil(place)], side="right")
        low, high = self.value[around].tolist()
        return float(low + (high - low) * (place % 1))


def weighted_distribution(value: Ints, weight: Ints | None = None) -> WeightedDistribution:
    """The distribution of values, not negative, each with its weight (without weights each counts once)."""
    if not len(value):
        return WeightedDistribution(value, value)
    if int(value.max()) < _MAX_COUNTED_VALUE:
        weights = np.bincount(value, weights=weight)
        seen = np.flatnonzero(weights)
        return WeightedDistribution(seen.astype(np.int64), np.rint(weights[seen]).astype(np.int64))
    order = np.argsort(value, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(value[order]) > 0))
    sums = np.add.reduceat(np.ones(len(value), np.int64) if weight is None else weight[order], first)
    return WeightedDistribution(value[order][first][sums > 0], sums[sums > 0])
