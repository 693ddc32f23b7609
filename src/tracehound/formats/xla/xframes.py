"""Slices of decoded events as columns.

Owns how stats become the columns that joins are made on. Knows neither lanes nor kinds, but counts kinds out cheaply:
once for each name, not once for each event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.wire import File, Rows, signed
from tracehound.formats.xla.xevents import Column, Slice
from tracehound.formats.xla.xmetadata import Described
from tracehound.formats.xla.xstats import REF, TEXT, Flags, decoded
from tracehound.lookup import distinct

_UNKNOWN = np.iinfo(np.int64).min
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Known(NamedTuple):
    """Numbers, and which of them are known."""

    value: Rows
    known: Flags

    def only(self, which: Flags) -> Known:
        """Known only where `which` is true."""
        return Known(self.value, self.known & which)


Columns = Mapping[str, Rows | Known | None]
"""Columns of equal length by name; None is a column of nulls."""


def nobody(count: int) -> Known:
    """Of as many, none known."""
    return Known(np.zeros(count, np.int64), np.zeros(count, bool))


def link(ids: Known, types: Known) -> Known:
    """Context id and type as one key: types number their ids independently, and ids fill all 64 bits."""
    key = ids.value.view(np.uint64) ^ (types.value.view(np.uint64) * _SPREAD)
    return Known(key.view(np.int64), ids.known)


class Texts:
    """Texts as numbers, each counted once; `words` has them in the order of their numbers."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._number: dict[str, int] = {}
        self._categories = pl.Series(dtype=pl.Categorical())

    def number(self, text: str) -> int:
        """The number of a text."""
        if text not in self._number:
            self._number[text] = len(self.words)
            self.words.append(text)
        return self._number[text]

    def series(self, numbers: Rows) -> pl.Series:
        """The texts with these numbers, null for -1."""
        words = pl.Series([*self.words, None], dtype=pl.String)
        return words.gather(pl.Series(np.where(numbers < 0, len(self.words), numbers)))

    def codes(self) -> npt.NDArray[np.uint32]:
        """The numbers that the texts have as categories, in the order of their own, as long as this object lives."""
        self._categories = pl.Series(self.words, dtype=pl.Categorical())  # polars frees categories that no series uses
        return self._categories.to_physical().to_numpy()


class Stated:
    """The stats of a plane's events, those of their metadata where an event has none of its own."""

    def __init__(
        self, file: File, entries: Described, stat_names: Mapping[int, str], names: Sequence[str], texts: Texts
    ) -> None:
        self._stat_names = stat_names
        self._texts = texts
        self._numbers: dict[str, Known] = {}
        self._words: dict[str, Rows] = {}
        count = len(entries.names)
        mine = entries.stats.named([id_ for id_, name in stat_names.items() if name in names])
        for owner, name, value in decoded(file, mine, stat_names):
            if isinstance(value, int):
                column = self._numbers.setdefault(name, nobody(count))
                column.value[owner], column.known[owner] = signed(value & (1 << 64) - 1), True
            elif isinstance(value, str):
                self._words.setdefault(name, np.full(count, -1, np.int64))[owner] = texts.number(value)

    def number(self, part: Slice, position: Rows, name: str) -> Known | None:
        """A stat of the events of a slice, whose metadata is at `position`; None where nobody has it."""
        own, shared = part.stats.get(name), self._numbers.get(name)
        if own is None and shared is None:
            return None
        found = Known(own.bits.view(np.int64), own.whole) if own is not None else nobody(len(position))
        if shared is not None:
            value, known = found.value.copy(), found.known.copy()
            fill = np.flatnonzero(~known & (position >= 0))
            value[fill], known[fill] = shared.value[position[fill]], shared.known[position[fill]]
            found = Known(value, known)
        return found if found.known.any() else None

    def text(self, part: Slice, position: Rows, name: str) -> Rows | None:
        """The same of a text, as its number; -1 where an event has none."""
        own, shared = part.stats.get(name), self._words.get(name)
        if own is None and shared is None:
            return None
        found = self._numbered(part, own) if own is not None else np.full(len(position), -1, np.int64)
        if shared is not None:
            fill = np.flatnonzero((found < 0) & (position >= 0))
            found[fill] = shared[position[fill]]
        return found if (found >= 0).any() else None

    def _numbered(self, part: Slice, column: Column) -> Rows:
        found = np.full(len(column.field), -1, np.int64)
        refs = np.flatnonzero(column.field == REF)
        found[refs] = self._referred(column.bits[refs].view(np.int64))
        for row in np.flatnonzero(column.field == TEXT).tolist():
            at, size = divmod(int(column.bits[row]), 1 << 32)
            found[row] = self._texts.number(part.piece.text(at, at + size))
        return found

    def _referred(self, ids: Rows) -> Rows:
        each, inverse = np.unique(ids, return_inverse=True)
        names = [self._stat_names.get(id_, f"<unknown text {id_}>") for id_ in each.tolist()]
        return np.array([self._texts.number(name) for name in names], np.int64)[inverse]


class ByName:
    """What is known of events by their name and the class of their line, worked out once for each pair.

    `of` gives the number for a class and a name, whose position is -1 where the metadata is lost.
    """

    def __init__(self, classes: int, count: int, of: Callable[[int, int], int]) -> None:
        self._width = count + 1
        self._table = np.full(classes * self._width, _UNKNOWN, np.int64)
        self._of = of

    def __call__(self, line_class: Rows | int, position: Rows) -> Rows:
        """The number of every event."""
        place = position + (line_class * self._width + 1)
        found: Rows = self._table.take(place)
        if len(found) and found.min() == _UNKNOWN:
            for one in distinct(place[found == _UNKNOWN]).tolist():
                each, at = divmod(one, self._width)
                self._table[one] = self._of(each, at - 1)
            found = self._table.take(place)
        return found
