"""Rows found by a number that tells them from others: the id of an event, its record.

Owns how they are found. Such numbers mostly grow from row to row, and so do those that are looked for: each is found
near the one before, where a join would make a table of all of them first, and one more to keep their order.
"""

from __future__ import annotations

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
"""The same of a table that only tells which there are: it has a byte for each."""


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
    """Some numbers, in order, for who asks of many others whether they are among them.

    Where they lie close together `there[number - numbers[0]]` tells, which is far quicker.
    """

    numbers: Ints
    there: Mask | None

    def has(self, wanted: Ints) -> Mask:
        """Which of the wanted numbers are among them."""
        if len(self.numbers) == 0:
            return np.zeros(len(wanted), np.bool_)
        if self.there is None:
            row = np.minimum(np.searchsorted(self.numbers, wanted), len(self.numbers) - 1)
            found: Mask = self.numbers[row] == wanted
            return found
        near: Mask = (wanted >= self.numbers[0]) & (wanted <= self.numbers[-1])
        near[near] = self.there[wanted[near] - self.numbers[0]]
        return near


def members(numbers: Ints) -> Members:
    """These numbers, in any order."""
    numbers = distinct(numbers)
    span = int(numbers[-1]) - int(numbers[0]) if len(numbers) else 0
    if span > _SPARSE * len(numbers):
        return Members(numbers, None)
    there = np.zeros(span + 1, np.bool_)
    there[numbers - numbers[:1]] = True
    return Members(numbers, there)


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
