"""Whether a difference between two runs is more than the steps of each differ among themselves.

Owns the test, and its counterpart: whether they tell that there is next to no difference. Steps are taken as
exchangeable where nothing changed: were the labels "base" and "other" dealt to them anew, a difference as large should
be rare. That is a permutation test; for many quantities at once each is held against the largest difference of all that
differ no more (Westfall and Young's step-down max-T), so that among a thousand ops none is called changed by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from math import comb
from typing import Final

import numpy as np

from tracehound.diff.quantities import Floats, Quantities, over
from tracehound.intervals import Ints, Mask

LEVEL: Final = 0.01
"""How often steps that differ by chance alone may be called changed, where there are enough of them."""

HINT: Final = 0.05
"""How often they may be said to have changed perhaps."""

LEAST: Final = 4
"""Steps on either side from which a change is told from chance: 2 of 70 ways to deal 4 and 4 are as extreme."""

STEPS: Final = 1_000
"""Of more steps on a side neighbouring ones are averaged for the test, as many as leave no more than these: a label is
dealt to each, again and again."""

LITTLE: Final = 0.05
"""A change is little where it is less than so much of the larger average, whatever chance had in it."""

NOTHING: Final = 0.0001
"""Less than so much of the larger average, 0.01 %, is no change, however sure: no table prints so little."""

_CHANCE: Final = 3.0
"""Chance has no more than so many standard errors in an average (one time in a hundred and less)."""

_EXACT: Final = 5_000
"""Up to so many ways to deal the labels, all are looked at."""

_CELLS: Final = 4_000_000
_MOST, _FEWEST = 9_999, 999
"""Otherwise so many random ones, fewer where there are many steps; no more cells are held at a time."""

_COLUMNS: Final = 256
"""At most so many columns are looked at together."""


def chances(base: Quantities, other: Quantities) -> Floats | None:
    """For each column, how likely a difference of means as large, in it or one that differs less, is by chance alone.

    Both sides have the same columns. Of more than `STEPS` steps neighbouring ones are averaged, as many on both sides,
    and so that `LEAST` are left on either. None with fewer than `LEAST` steps on a side.
    """
    fewest, most = sorted((base.height, other.height))
    if fewest < LEAST:
        return None
    size = min(-(-most // STEPS), fewest // LEAST)
    base, other = base.folded(size), other.folded(size)
    both = over(base, other)
    spread, mean = both.spreads, both.means
    seen = np.abs(base.means_off(mean) - other.means_off(mean)) / np.where(spread > 0, spread, 1)
    told = np.ones(both.width)
    if seen.any():
        alike = _alike(both)
        varied = np.flatnonzero((spread > 0) & (alike == np.arange(both.width)))
        rising = varied[np.argsort(seen[varied], kind="stable")]
        found = _as_large(both.chosen(rising), base.height, seen[rising])
        told[rising] = np.maximum.accumulate(found[::-1])[::-1]  # what differs less is no surer a change
        told = told[alike]
    return np.where(seen > 0, told, 1.0)


def little(base: Quantities, other: Quantities) -> Mask:
    """For each column, whether the steps tell that it changed little: less than `LITTLE`, with what may be chance.

    Both sides have the same columns, and `LEAST` steps.
    """
    means = base.means, other.means
    errors = (side.spreads**2 / (side.height - 1) for side in (base, other))
    most = np.abs(means[1] - means[0]) + _CHANCE * np.sqrt(sum(errors))
    room: Mask = most <= LITTLE * np.maximum(*np.abs(means))
    return room


def _alike(values: Quantities) -> Ints:
    """For each column the first that is a multiple of it, and so differs as much however the labels are dealt."""
    bounds = np.searchsorted(values.column, np.arange(values.width + 1))
    largest = np.zeros(values.width)
    np.maximum.at(largest, values.column, np.abs(values.value))
    shape = values.value / largest[values.column]
    first: dict[tuple[bytes, bytes], int] = {}
    return np.array(
        [
            first.setdefault((values.row[low:high].tobytes(), shape[low:high].tobytes()), column)
            for column, (low, high) in enumerate(pairwise(bounds.tolist()))
        ],
        np.int64,
    )


def _as_large(values: Quantities, base: int, seen: Floats) -> Floats:
    """How likely each column or one before it differs as much as was seen; columns by that, rising."""
    mean, spread = values.means[:, None], values.spreads[:, None]
    counts, number = np.zeros(values.width, np.int64), 0
    at_once = max(1, min(_COLUMNS, _CELLS // values.height))
    for of_base in _dealt(base, values.height - base):
        weights = np.where(of_base, 1 / base, -1 / (values.height - base)).T
        number += len(of_base)
        largest = np.zeros(len(of_base))
        for low in range(0, values.width, at_once):
            high = min(low + at_once, values.width)
            scaled = (values.block(low, high) - mean[low:high]) / spread[low:high]
            for column, apart in enumerate(np.abs(scaled @ weights), low):
                np.maximum(largest, apart, out=largest)
                counts[column] += np.count_nonzero(largest >= seen[column] * (1 - 1e-9))
    exact = number == comb(values.height, base)
    return counts / number if exact else (counts + 1) / (number + 1)


def level(base: int, other: int) -> float:
    """How rare a difference must be to be called a change, for so many steps: as rare as any can be, or `LEVEL`."""
    few = min(base, other, STEPS)
    return max(LEVEL, 2 / comb(few + min(max(base, other), STEPS), few))


def _dealt(base: int, other: int) -> Iterator[Mask]:
    """Ways to deal the labels, a row each, part by part: all, or random ones, the same in every run of the program."""
    count = base + other
    if comb(count, base) <= _EXACT:
        ways = np.zeros((comb(count, base), count), np.bool_)
        for row, chosen in enumerate(combinations(range(count), base)):
            ways[row, list(chosen)] = True
        yield ways
        return
    number = min(_MOST, max(_FEWEST, _CELLS // count))
    at_once = max(1, _CELLS // count)
    random = np.random.default_rng(0)
    for first in range(0, number, at_once):
        yield random.random((min(at_once, number - first), count)).argsort(axis=1) < base
