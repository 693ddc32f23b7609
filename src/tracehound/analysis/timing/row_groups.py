"""Groups of rows as numbers: a number for each category, and for each combination of keys that occurs.

Groups equal rows without sorting. Knows no columns.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.native import row_loops


def category_codes(values: pl.Series) -> npt.NDArray[np.int64]:
    """A number for each value of a categorical; 0 for null."""
    physical = values.to_physical()
    if physical.null_count():
        return (physical.cast(pl.Int64) + 1).fill_null(0).to_numpy()
    return physical.to_numpy().astype(np.int64) + 1


class NameKindPairs:
    """The distinct pairs of a name and a kind; `rows` has one row of each."""

    def __init__(self, names: pl.Series, kinds: pl.Series) -> None:
        """Take two categoricals of equal length."""
        self._name, many = _physical_codes(names)
        self._kind, self._kinds = _physical_codes(kinds)
        self._many = many * self._kinds
        self._sparse = self._many > _MAX_TABLE_FACTOR * max(len(names), _MIN_TABLE_ROWS)
        if self._sparse:
            self.pair_numbers, self.rows = group_rows(self._name.astype(np.int64))
            if (self._kind[self.rows][self.pair_numbers] != self._kind).any():  # a name has several kinds
                _, self.rows, self.pair_numbers = np.unique(self._pair_codes(), return_index=True, return_inverse=True)
            return
        row = row_loops.find_row_of_each_pair(self._name, self._kind, many, self._kinds)
        if row is None:
            row = np.full(self._many, -1, np.int64)
            row[self._pair_codes()] = np.arange(len(names))
        self._known = np.flatnonzero(row >= 0)
        self.rows = row[self._known]

    def expand_to_rows(self, answers: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
        """The answer for each row, given one answer per distinct pair, in the order of `rows`."""
        if self._sparse:
            return np.asarray(answers[self.pair_numbers])
        known = np.zeros(self._many, np.int8)
        known[self._known] = answers
        found = row_loops.look_up_bytes(self._name, self._kind, self._kinds, known)
        return known[self._pair_codes()] if found is None else found

    @cached_property
    def pair_numbers(self) -> Ints:
        """For each row the number of its pair: the position in `rows`."""
        known = np.zeros(self._many, np.int64)
        known[self._known] = np.arange(len(self._known))
        found = row_loops.look_up_numbers(self._name, self._kind, self._kinds, known)
        return known[self._pair_codes()] if found is None else found

    def _pair_codes(self) -> Ints:
        places: Ints = np.multiply(self._name, self._kinds, dtype=np.int64) + self._kind
        return places


def _physical_codes(values: pl.Series) -> tuple[npt.NDArray[np.unsignedinteger[Any]], int]:
    """A number for each value of a categorical, the last for null, and the number of possible values."""
    physical = values.to_physical()
    known = physical.drop_nulls().to_numpy()
    many = int(known.max()) + 1 if len(known) else 0
    return (physical.fill_null(many).to_numpy() if physical.null_count() else known), many + 1


def value_change_rows(numbers: npt.NDArray[np.integer[Any]]) -> Ints:
    """Rows whose number differs from that of the previous row: the starts of runs, but the first."""
    return np.flatnonzero(numbers[1:] != numbers[:-1]) + 1


def equal_value_group_numbers(numbers: npt.NDArray[np.integer[Any]]) -> Ints:
    """For each row the number of its run of equal numbers, from 0."""
    return np.cumsum(np.append(0, numbers[1:] != numbers[:-1])[: len(numbers)])


def occurring_numbers(numbers: npt.NDArray[np.integer[Any]]) -> Mask:
    """Mask of the numbers (from 0, not negative) that occur."""
    many = int(numbers.max(initial=0)) + 1
    if (found := row_loops.mark_occurring(numbers, many)) is not None:
        return found
    occurs = np.zeros(many, np.bool_)
    occurs[numbers] = True
    return occurs


def group_rows(*keys: Ints) -> tuple[Ints, Ints]:
    """For each row the number of its combination of keys, and for each combination its first row.

    Keys are not negative and of equal length; combinations are numbered from 0 in the order of their keys.
    """
    number, many = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        number, many = _renumber_densely(number * (int(key.max(initial=0)) + 1) + key)
    first = np.empty(many, np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    return number, first


def largest_row_per_group(group: Ints, values: Ints, others: Ints, many: int) -> Ints:
    """For each group the first row with the largest value, and among equals the largest `others`; -1 without a row.

    Rows with a negative group are in none.
    """
    if (found := row_loops.find_largest_per_group(group, values, others, many)) is not None:
        return found
    rows = np.flatnonzero(group >= 0)
    for by in (values, others):
        largest = np.full(many, np.iinfo(np.int64).min)
        np.maximum.at(largest, group[rows], by[rows])
        rows = rows[by[rows] == largest[group[rows]]]
    first = np.full(many, -1, np.int64)
    first[group[rows][::-1]] = rows[::-1]
    return first


def largest_rows(values: Ints, many: int | None) -> npt.NDArray[np.intp]:
    """Rows of the `many` largest values (None: of all), the largest first; of equal ones the first."""
    if many is None or many >= len(values):
        return np.argsort(-values, kind="stable")
    if many == 0:
        return np.empty(0, np.intp)
    least = np.partition(values, -many)[-many]
    rows = np.flatnonzero(values >= least)
    return rows[np.argsort(-values[rows], kind="stable")[:many]]


def match_ends_to_starts(group: Ints, order: npt.NDArray[np.intp], starts: int) -> Ints:
    """For each end the first start of its group that is before it and not taken; -1 without one.

    The first `starts` rows are starts, the rest are ends, and each end has one value in the result. `order` has all
    rows in the order of time.
    """
    if (found := row_loops.match_starts_to_ends(group, order, starts, int(group.max(initial=-1)) + 1)) is not None:
        return found
    sorted_ = order[np.argsort(group[order], kind="stable")]
    ends, fresh = sorted_ >= starts, np.append(True, np.diff(group[sorted_]) != 0)[: len(sorted_)]
    number = np.cumsum(fresh) - 1
    open_ = _running_sum(np.where(ends, -1, 1), fresh)
    spacing = 2 * len(order) + 1  # so large that the minimum of one group never affects the next
    lowest = np.minimum.accumulate(np.minimum(open_, 0) - number * spacing) + number * spacing
    taking = ends & (lowest >= np.where(fresh, 0, np.append(0, lowest[:-1])[: len(lowest)]))
    turn = np.where(ends, _running_sum(taking.astype(np.int64), fresh), _running_sum((~ends).astype(np.int64), fresh))
    begins, closes = np.flatnonzero(~ends), np.flatnonzero(taking)
    key = number * spacing + turn
    _, first, last = np.intersect1d(key[begins], key[closes], assume_unique=True, return_indices=True)
    taken = np.full(len(group) - starts, -1, np.int64)
    taken[sorted_[closes[last]] - starts] = sorted_[begins[first]]
    return taken


def _running_sum(values: Ints, fresh: Mask) -> Ints:
    """The running sum of `values`, restarted where `fresh` is true."""
    total = np.cumsum(values)
    begins = np.flatnonzero(fresh)
    base = (total - values)[begins]
    return total - np.repeat(base, np.diff(np.append(begins, len(values))))


def _renumber_densely(values: Ints) -> tuple[Ints, int]:
    """The values numbered in their order, and the count of distinct values."""
    if int(values.max(initial=0)) > _MAX_TABLE_FACTOR * len(values):
        known, number = np.unique(values, return_inverse=True)
        return number, len(known)
    occurs = occurring_numbers(values)
    place = np.cumsum(occurs) - 1
    return place[values], int(occurs.sum())


_MAX_TABLE_FACTOR: Final = 4
"""Up to this many numbers per row a lookup table is used, which is quicker than sorting."""

_MIN_TABLE_ROWS: Final = 1 << 14
"""With fewer rows the table may be as large as for this many."""
