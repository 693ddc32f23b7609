"""Sets of ids, and rows found by an id: of an event, or of a record.

Ids mostly grow from row to row, as do the ids that are looked up, so each is found near the previous one. A join would
build a table of all ids first, and another one to keep the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.native import row_loops

T = TypeVar("T", bound=np.integer[Any])

_MAX_TABLE_SPREAD: Final = 8
"""A lookup table is built if the ids span at most this many times their number; else a binary search is used."""

_MAX_BITMAP_SPREAD: Final = 64
"""A bitmap is built if the ids span at most this many times their number."""


def find_rows(numbers: Ints, wanted: Ints) -> Ints:
    """The row of each wanted number among `numbers`, which are strictly ascending; -1 if it is not there."""
    if len(numbers) == 0:
        return np.full(len(wanted), -1, np.int64)
    span = int(numbers[-1]) - int(numbers[0])
    if span == len(numbers) - 1:  # consecutive numbers
        if (found := row_loops.find_consecutive_rows(int(numbers[0]), len(numbers), wanted)) is not None:
            return found
        row: Ints = wanted - numbers[0]
        outside = row.view(np.uint64) >= len(numbers)
        if outside.any():
            row[outside] = -1
        return row
    if span < _MAX_TABLE_SPREAD * len(numbers):
        row_of = np.full(span + 1, -1, np.int32)
        row_of[numbers - numbers[0]] = np.arange(len(numbers))
        near = (wanted >= numbers[0]) & (wanted <= numbers[-1])
        return np.where(near, row_of[np.where(near, wanted - numbers[0], 0)], -1)
    before = numbers - np.arange(len(numbers))
    others = int(np.searchsorted(before, before[-1]))
    if others > _MAX_OTHERS:
        return _search_rows(numbers, wanted)
    row = find_rows(numbers[others:], wanted) + others
    elsewhere = np.flatnonzero(row < others)
    row[elsewhere] = _search_rows(numbers[:others], wanted[elsewhere])
    return row


def _search_rows(numbers: Ints, wanted: Ints) -> Ints:
    """The rows of `find_rows`, by a binary search."""
    row = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[row] == wanted, row, -1)


_MAX_OTHERS: Final = 1 << 10
"""So few numbers before consecutive ones, as those of the open events before a chunk of a lane, are searched apart."""


def sorted_distinct(numbers: npt.NDArray[T]) -> npt.NDArray[T]:
    """The distinct numbers, sorted.

    `numpy.unique` builds a table first, which takes up to thirty times as long as sorting.
    """
    in_order = np.sort(numbers)
    found: npt.NDArray[T] = in_order[np.append(True, in_order[1:] != in_order[:-1])[: len(in_order)]]
    return found


def membership_mask(numbers: Ints, others: Ints) -> Mask:
    """True for the numbers that are among the others.

    `numpy.isin` builds a table, too, if these are far apart.
    """
    return make_id_set(others).has(numbers)


class IdSet(NamedTuple):
    """A set of numbers for many membership tests.

    `numbers` are sorted. If they are dense, `numbers` has only two bounds, and `bits` is a bitmap, which is much
    faster: number `n` is bit `n - numbers[0]`, and `numbers[0]` is the multiple of 8 at or before the lowest number.
    `max_count` is an upper bound of how many there are: a number that was in several sets counts several times.
    """

    numbers: Ints
    bits: npt.NDArray[np.uint8] | None
    max_count: int

    def has(self, wanted: Ints) -> Mask:
        """True for the wanted numbers that are in the set."""
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

    def to_array(self) -> Ints:
        """The numbers, sorted."""
        if self.bits is None:
            return self.numbers
        found: Ints = np.flatnonzero(np.unpackbits(self.bits, bitorder="little")) + self.numbers[0]
        return found


def make_id_set(numbers: Ints) -> IdSet:
    """The set of these numbers, given in any order."""
    found = sorted_distinct(numbers)
    return union_id_sets([IdSet(found, None, len(found))])


def union_id_sets(parts: Sequence[IdSet]) -> IdSet:
    """The union of the sets."""
    some, many = [part for part in parts if part.max_count], sum(part.max_count for part in parts)
    low = min((int(part.numbers[0]) for part in some), default=0) & -8
    high = max((int(part.numbers[-1]) for part in some), default=0)
    if not some or high - low > _MAX_BITMAP_SPREAD * many:
        found = sorted_distinct(np.concatenate([np.empty(0, np.int64), *(part.to_array() for part in some)]))
        return IdSet(found, None, len(found))
    bits = np.zeros((high - low >> 3) + 1, np.uint8)
    for part in some:
        own = _to_bitmap(part.numbers) if part.bits is None else part.bits
        first = (int(part.numbers[0]) & -8) - low >> 3
        bits[first : first + len(own)] |= own
    return IdSet(np.array([low, high]), bits, many)


def _to_bitmap(numbers: Ints) -> npt.NDArray[np.uint8]:
    """The bitmap of sorted, distinct numbers."""
    place = numbers - (int(numbers[0]) & -8)
    byte, bit = place >> 3, np.left_shift(1, place & 7).astype(np.uint8)
    first = np.flatnonzero(np.append(True, byte[1:] != byte[:-1]))
    bits = np.zeros(int(byte[-1]) + 1, np.uint8)
    bits[byte[first]] = np.bitwise_or.reduceat(bit, first)
    return bits


def look_up_rows(table: pl.DataFrame, by: str, wanted: pl.Series) -> pl.DataFrame:
    """The other columns of `table` for each wanted number, in order of `wanted`; null if no row has the number.

    `by` is the column with the numbers, in any order; of several rows with one number the first counts. Null numbers
    match nothing.
    """
    if table[by].null_count():
        table = table.filter(pl.col(by).is_not_null())
    numbers, first = table[by].to_numpy(), None
    if (numbers[1:] <= numbers[:-1]).any():
        numbers, first = np.unique(numbers, return_index=True)
    has_nulls = wanted.null_count() > 0
    rows = find_rows(numbers, (wanted.fill_null(0) if has_nulls else wanted).to_numpy())
    rows = rows if first is None else np.append(first, -1)[rows]
    missing = (rows < 0) | wanted.is_null().to_numpy() if has_nulls else rows < 0
    at = pl.Series(rows).set(pl.Series(missing), None) if missing.any() else pl.Series(rows)
    return table.select_seq(pl.all().exclude(by).gather(at))
