"""Whether a difference between two runs is more than the steps of each differ among themselves.

Owns the test. Steps are taken as exchangeable where nothing changed: were the labels "base" and "other" dealt to them
anew, a difference as large should be rare. That is a permutation test; for many quantities at once each is held against
the largest difference of all that differ no more (Westfall and Young's step-down max-T), so that among a thousand ops
none is called changed by chance.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL: Final = 0.01
"""How often steps that differ by chance alone may be called changed, where there are enough of them."""

HINT: Final = 0.05
"""How often they may be said to have changed perhaps."""

LEAST: Final = 4
"""Steps on either side from which a change is told from chance: 2 of 70 ways to deal 4 and 4 are as extreme."""

_EXACT: Final = 5_000
"""Up to so many ways to deal the labels, all are looked at."""

_CELLS: Final = 4_000_000
_MOST, _FEWEST = 9_999, 999
"""Otherwise so many random ones, fewer where there are many steps."""


def chances(base: Floats, other: Floats) -> Floats | None:
    """For each column, how likely a difference of means as large, in it or one that differs less, is by chance alone.

    `base` has a row per step of one run, `other` of the other; both have the same columns. None with fewer than `LEAST`
    steps on a side.
    """
    if min(len(base), len(other)) < LEAST:
        return None
    together = np.concatenate([base, other])
    spread = together.std(axis=0)
    scaled = (together - together.mean(axis=0)) / np.where(spread > 0, spread, 1)
    seen = _differences(np.arange(len(together))[None] < len(base), scaled)[0]
    order = np.argsort(-seen, kind="stable")
    dealt = _dealt(len(base), len(other))
    counts = sum(_as_large(part, scaled[:, order], seen[order]) for part in np.array_split(dealt, 16) if len(part))
    exact = len(dealt) == comb(len(together), len(base))
    found = counts / len(dealt) if exact else (counts + 1) / (len(dealt) + 1)
    told = np.empty(len(seen))
    told[order] = np.maximum.accumulate(found)  # what differs less is no surer a change
    return np.where(seen > 0, told, 1.0)


def _as_large(dealt: npt.NDArray[np.bool_], values: Floats, seen: Floats) -> npt.NDArray[np.int64]:
    """In how many of these ways this column or one after it differs as much as was seen; columns by that, falling."""
    largest = np.maximum.accumulate(_differences(dealt, values)[:, ::-1], axis=1)[:, ::-1]
    counts: npt.NDArray[np.int64] = (largest >= seen * (1 - 1e-9)).sum(axis=0)
    return counts


def level(base: int, other: int) -> float:
    """How rare a difference must be to be called a change, for so many steps: as rare as any can be, or `LEVEL`."""
    return max(LEVEL, 2 / comb(base + other, base))


def _differences(of_base: npt.NDArray[np.bool_], values: Floats) -> Floats:
    """How far the means of both sides lie apart, for each way to deal the rows (a row of `of_base`) and each column."""
    weights = np.where(of_base, 1 / of_base.sum(axis=1, keepdims=True), -1 / (~of_base).sum(axis=1, keepdims=True))
    apart: Floats = np.abs(weights @ values)
    return apart


def _dealt(base: int, other: int) -> npt.NDArray[np.bool_]:
    """Ways to deal the labels, a row each: all, or random ones, the same in every run of the program."""
    count = base + other
    if comb(count, base) <= _EXACT:
        ways = np.zeros((comb(count, base), count), np.bool_)
        for row, chosen in enumerate(combinations(range(count), base)):
            ways[row, list(chosen)] = True
        return ways
    number = min(_MOST, max(_FEWEST, _CELLS // count))
    order = np.random.default_rng(0).random((number, count)).argsort(axis=1)
    return order < base
