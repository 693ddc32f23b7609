"""Rows found by a number that tells them from others: the id of an event, its record.

Owns how they are found. Such numbers mostly grow from row to row, and so do those that are looked for: each is found
near the one before, where a join would make a table of all of them first, and one more to keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.intervals import Ints, Mask
from tracehound.native import groups

T = TypeVar("T", bound=np.integer[Any])

_DENSE: Final = 8
"""Of numbers that are so many times as far apart as there are, at most, a table is made: looking up is slower."""

_SPARSE: Final = 64
"""The same of a table that only tells which there are: it has a bit for each."""


def rows_with(numbers: Ints, wanted: Ints) -> Ints:
    """The row of each wanted number among `numbers`, of which each is above the one before; -1 where it is in none."""
    if len(numbers) == 0:
        return np.full(len(wanted), -1, np.int64)
    span = int(numbers[-1]) - int(numbers[0])
    if span == len(numbers) - 1:  # none between the first and the last is left out
        if (found := groups.rows_from(int(numbers[0]), len(numbers), wanted)) is not None:
            return found
        row: Ints = wanted - numbers[0]
        outside = row.view(np.uint64) >= len(numbers)
        if outside.any():
            row[outside] = -1
        return row
    if span < _DENSE * len(numbers):
        row_of = np.full(span + 1, -1, np.int32)
        row_of[numbers - numbers[0]] = np.arange(len(numbers))
        near = (wanted >= numbers[0]) & (wanted <= numbers[-1])
        return np.where(near, row_of[np.where(near, wanted - numbers[0], 0)], -1)
    row = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[row] == wanted, row, -1)


def distinct(numbers: npt.NDArray[T]) -> npt.NDArray[T]:
    """The numbers that there are, in order.

    `numpy.unique` makes a table of them first, which takes up to thirty times as long as sorting.
    """
    in_order = np.sort(numbers)
    found: npt.NDArray[T] = in_order[np.append(True, in_order[1:] != in_order[:-1])[: len(in_order)]]
    return found


def among(numbers: Ints, others: Ints) -> Mask:
    """Which numbers are among the others.

    `numpy.isin` makes a table of these, too, where they are far apart.
    """
    return members(others).has(numbers)


class Members(NamedTuple):
    """Some numbers, for who asks of many others whether they are among them.

    They are `numbers`, in order. Where they lie close together these are only two of which all are between, and `bits`
    tells which there are, which is far quicker: number `n` is bit `n - numbers[0]`, and `numbers[0]` the multiple of 8
    before the lowest. `many` is how many they are at most: of one that is in several parts each counts.
    """

    numbers: Ints
    bits: npt.NDArray[np.uint8] | None
    many: int

    def has(self, wanted: Ints) -> Mask:
        """Which of the wanted numbers are among them."""
        if len(self.numbers) == 0:
            return np.zeros(len(wanted), np.bool_)
        if self.bits is None:
            row = np.minimum(np.searchsorted(self.numbers, wanted), len(self.numbers) - 1)
            found: Mask = self.numbers[row] == wanted
            return found
        near: Mask = (wanted >= self.numbers[0]) & (wanted <= self.numbers[-1])
        place = wanted[near] - self.numbers[0]
        near[near] = (self.bits[place >> 3] >> (place & 7).astype(np.uint8)) & 1
        return near

    def all(self) -> Ints:
        """The numbers, in order."""
        if self.bits is None:
            return self.numbers
        found: Ints = np.flatnonzero(np.unpackbits(self.bits, bitorder="little")) + self.numbers[0]
        return found


def members(numbers: Ints) -> Members:
    """All of these numbers, in any order."""
    found = distinct(numbers)
    return united([Members(found, None, len(found))])


def united(parts: Sequence[Members]) -> Members:
    """What is in any of the parts."""
    some, many = [part for part in parts if part.many], sum(part.many for part in parts)
    low = min((int(part.numbers[0]) for part in some), default=0) & -8
    high = max((int(part.numbers[-1]) for part in some), default=0)
    if not some or high - low > _SPARSE * many:
        found = distinct(np.concatenate([np.empty(0, np.int64), *(part.all() for part in some)]))
        return Members(found, None, len(found))
    bits = np.zeros((high - low >> 3) + 1, np.uint8)
    for part in some:
        own = _bits(part.numbers) if part.bits is None else part.bits
        first = (int(part.numbers[0]) & -8) - low >> 3
        bits[first : first + len(own)] |= own
    return Members(np.array([low, high]), bits, many)


def _bits(numbers: Ints) -> npt.NDArray[np.uint8]:
    """The bits of numbers in order, of which each is there once."""
    place = numbers - (int(numbers[0]) & -8)
    byte, bit = place >> 3, np.left_shift(1, place & 7).astype(np.uint8)
    first = np.flatnonzero(np.append(True, byte[1:] != byte[:-1]))
    bits = np.zeros(int(byte[-1]) + 1, np.uint8)
    bits[byte[first]] = np.bitwise_or.reduceat(bit, first)
    return bits


def looked_up(told: pl.DataFrame, by: str, wanted: pl.Series) -> pl.DataFrame:
    """The other columns of `told` for each of the wanted numbers, in their order; null where no row has the number.

    `by` is the column of whole numbers that has them, in any order: of several rows with one number the first counts.
    What is null in either is the number of nothing.
    """
    if told[by].null_count():
        told = told.filter(pl.col(by).is_not_null())
    numbers, first = told[by].to_numpy(), None
    if (numbers[1:] <= numbers[:-1]).any():
        numbers, first = np.unique(numbers, return_index=True)
    rows = rows_with(numbers, wanted.fill_null(0).to_numpy())
    rows = rows if first is None else np.append(first, -1)[rows]
    missing = pl.Series(rows < 0) | wanted.is_null()
    at = pl.Series(rows).set(missing, None) if missing.any() else pl.Series(rows)
    return told.select(pl.all().exclude(by).gather(at))
