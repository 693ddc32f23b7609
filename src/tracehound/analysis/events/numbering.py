"""Rows by number: a number for each category, and for each combination of keys that occurs.

Owns the counting of what is alike without sorting it. Knows no columns.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.intervals import Ints, Mask
from tracehound.native import groups


def codes(values: pl.Series) -> npt.NDArray[np.int64]:
    """A number for each value of a category; 0 for null."""
    physical = values.to_physical()
    if physical.null_count():
        return (physical.cast(pl.Int64) + 1).fill_null(0).to_numpy()
    return physical.to_numpy().astype(np.int64) + 1


class Pairs:
    """The pairs of a name and a kind that occur: `rows` has a row of each."""

    def __init__(self, names: pl.Series, kinds: pl.Series) -> None:
        """Of two categories, equally long."""
        self._name, many = _physical(names)
        self._kind, self._kinds = _physical(kinds)
        self._many = many * self._kinds
        self._sparse = self._many > _DENSE * max(len(names), _FEW)
        if self._sparse:
            _, self.rows, self.numbers = np.unique(self._places(), return_index=True, return_inverse=True)
            return
        row = groups.one_of_each(self._name, self._kind, many, self._kinds)
        if row is None:
            row = np.full(self._many, -1, np.int64)
            row[self._places()] = np.arange(len(names))
        self._known = np.flatnonzero(row >= 0)
        self.rows = row[self._known]

    def told(self, answers: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
        """For every row what is said of its pair, of which `rows` has another."""
        if self._sparse:
            return np.asarray(answers[self.numbers])
        known = np.zeros(self._many, np.int8)
        known[self._known] = answers
        found = groups.told(self._name, self._kind, self._kinds, known)
        return known[self._places()] if found is None else found

    @cached_property
    def numbers(self) -> Ints:
        """For every row the number of its pair: the place in `rows` where that has another."""
        known = np.zeros(self._many, np.int64)
        known[self._known] = np.arange(len(self._known))
        found = groups.numbered(self._name, self._kind, self._kinds, known)
        return known[self._places()] if found is None else found

    def _places(self) -> Ints:
        places: Ints = np.multiply(self._name, self._kinds, dtype=np.int64) + self._kind
        return places


def _physical(values: pl.Series) -> tuple[npt.NDArray[np.unsignedinteger[Any]], int]:
    """A number for each value of a category, the last for null, and how many there may be."""
    physical = values.to_physical()
    known = physical.drop_nulls().to_numpy()
    many = int(known.max()) + 1 if len(known) else 0
    return (physical.fill_null(many).to_numpy() if physical.null_count() else known), many + 1


def turns(numbers: npt.NDArray[np.integer[Any]]) -> Ints:
    """The rows whose number is another than that of the row before: where runs of one number begin, but the first."""
    return np.flatnonzero(numbers[1:] != numbers[:-1]) + 1


def stretch(numbers: npt.NDArray[np.integer[Any]]) -> Ints:
    """In which run of one number each row is, from 0."""
    return np.cumsum(np.append(0, numbers[1:] != numbers[:-1])[: len(numbers)])


def occurring(numbers: npt.NDArray[np.integer[Any]]) -> Mask:
    """Which numbers from 0 on occur; they are not negative."""
    many = int(numbers.max(initial=0)) + 1
    if (found := groups.occurring(numbers, many)) is not None:
        return found
    occurs = np.zeros(many, np.bool_)
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


def most(group: Ints, values: Ints, others: Ints, many: int) -> Ints:
    """Of each group the first row with the largest value, and of these with the largest other one; -1 without a row.

    A row whose group is below 0 is in none.
    """
    if (found := groups.most(group, values, others, many)) is not None:
        return found
    rows = np.flatnonzero(group >= 0)
    for by in (values, others):
        largest = np.full(many, np.iinfo(np.int64).min)
        np.maximum.at(largest, group[rows], by[rows])
        rows = rows[by[rows] == largest[group[rows]]]
    first = np.full(many, -1, np.int64)
    first[group[rows][::-1]] = rows[::-1]
    return first


def largest(values: Ints, many: int | None) -> npt.NDArray[np.intp]:
    """The rows of the `many` largest values (None: of all), the largest first; of equal ones the first."""
    if many is None or many >= len(values):
        return np.argsort(-values, kind="stable")
    if many == 0:
        return np.empty(0, np.intp)
    least = np.partition(values, -many)[-many]
    rows = np.flatnonzero(values >= least)
    return rows[np.argsort(-values[rows], kind="stable")[:many]]


def earliest(group: Ints, order: npt.NDArray[np.intp], starts: int) -> Ints:
    """Which start each end takes: the first of its group that is before it and not taken; -1 without one.

    The first `starts` rows are starts, the rest ends, of which there is a value for each; `order` has all rows in the
    order of time.
    """
    if (found := groups.earliest(group, order, starts, int(group.max(initial=-1)) + 1)) is not None:
        return found
    sorted_ = order[np.argsort(group[order], kind="stable")]
    ends, fresh = sorted_ >= starts, np.append(True, np.diff(group[sorted_]) != 0)[: len(sorted_)]
    number = np.cumsum(fresh) - 1
    open_ = _within(np.where(ends, -1, 1), fresh)
    apart = 2 * len(order) + 1  # groups lie so far apart that no minimum of one reaches into the next
    lowest = np.minimum.accumulate(np.minimum(open_, 0) - number * apart) + number * apart
    taking = ends & (lowest >= np.where(fresh, 0, np.append(0, lowest[:-1])[: len(lowest)]))
    turn = np.where(ends, _within(taking.astype(np.int64), fresh), _within((~ends).astype(np.int64), fresh))
    begins, closes = np.flatnonzero(~ends), np.flatnonzero(taking)
    key = number * apart + turn
    _, first, last = np.intersect1d(key[begins], key[closes], assume_unique=True, return_indices=True)
    taken = np.full(len(group) - starts, -1, np.int64)
    taken[sorted_[closes[last]] - starts] = sorted_[begins[first]]
    return taken


def _within(values: Ints, fresh: Mask) -> Ints:
    """The running sum of `values`, begun anew where `fresh` is true."""
    total = np.cumsum(values)
    begins = np.flatnonzero(fresh)
    base = (total - values)[begins]
    return total - np.repeat(base, np.diff(np.append(begins, len(values))))


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

_FEW: Final = 1 << 14
"""Where there are fewer rows, the table may be as large as for so many."""
