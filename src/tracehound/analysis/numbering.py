"""Rows by number: a number for each category, and for each combination of keys that occurs.

Owns the counting of what is alike without sorting it. Knows no columns.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.intervals import Ints, Mask


def codes(values: pl.Series) -> npt.NDArray[np.int64]:
    """A number for each value of a category; 0 for null."""
    physical = values.to_physical()
    if physical.null_count():
        return (physical.cast(pl.Int64) + 1).fill_null(0).to_numpy()
    return physical.to_numpy().astype(np.int64) + 1


def one_of_each(numbers: Ints) -> Ints:
    """A row of each number that occurs; they are not negative."""
    row = np.full(int(numbers.max(initial=0)) + 1, -1, np.int64)
    row[numbers] = np.arange(len(numbers))
    return row[row >= 0]


def occurring(numbers: npt.NDArray[np.integer[Any]]) -> Mask:
    """Which numbers from 0 on occur; they are not negative."""
    occurs = np.zeros(int(numbers.max(initial=0)) + 1, np.bool_)
    occurs[numbers] = True
    return occurs


def alike(*keys: Ints) -> tuple[Ints, Ints]:
    """Of each row which combination of keys it has, and of each combination the first row that has it.

    Keys are not negative, and equally long; combinations are numbered from 0 in the order of their keys.
    """
    number, many = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        number, many = _counted(number * (int(key.max(initial=0)) + 1) + key)
    first = np.empty(many, np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    return number, first


def _counted(values: Ints) -> tuple[Ints, int]:
    """The values numbered in their order, and how many there are."""
    if int(values.max(initial=0)) > _DENSE * len(values):
        known, number = np.unique(values, return_inverse=True)
        return number, len(known)
    occurs = occurring(values)
    place = np.cumsum(occurs) - 1
    return place[values], int(occurs.sum())


_DENSE: Final = 4
"""Up to so many times as many numbers as rows are marked in a table, which is quicker than sorting."""
