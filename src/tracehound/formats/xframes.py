"""Slices of decoded events as columns, and many slices as one frame.

Owns how stats become the columns that joins are made on, and that rows are put aside before they fill the memory.
Knows neither lanes nor kinds, but counts kinds out cheaply: once for each name, not once for each event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl

from tracehound.formats.wire import File, Rows, signed
from tracehound.formats.xevents import Column, Slice
from tracehound.formats.xmetadata import Described
from tracehound.formats.xstats import REF, TEXT, Flags, decoded
from tracehound.trace import KIND, KINDS

CODE = {kind: code for code, kind in enumerate(KINDS)}
"""Kinds as numbers, for arrays."""

ENOUGH = 1 << 19
"""Rows that are worth putting aside."""

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

    def number(self, text: str) -> int:
        """The number of a text."""
        if text not in self._number:
            self._number[text] = len(self.words)
            self.words.append(text)
        return self._number[text]

    def series(self, numbers: Rows, dtype: pl.DataType) -> pl.Series:
        """The texts with these numbers, null for -1."""
        words = pl.Series([*self.words, None], dtype=pl.String).cast(dtype)
        if len(numbers) and numbers.min() < 0:
            numbers = np.where(numbers < 0, len(self.words), numbers)
        return words.gather(pl.Series(numbers.astype(np.uint32)))


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
        found: Rows = self._table[place]
        if len(found) and found.min() == _UNKNOWN:
            for one in np.unique(place[found == _UNKNOWN]).tolist():
                each, at = divmod(one, self._width)
                self._table[one] = self._of(each, at - 1)
            found = self._table[place]
        return found


@dataclass
class Shelf:
    """Columns that wait to become a frame."""

    texts: Texts = field(default_factory=Texts)
    height: int = 0
    _parts: list[tuple[int, dict[str, Rows | Known]]] = field(default_factory=list)

    def add(self, count: int, columns: Columns) -> None:
        """Put `count` rows on it; columns that are None are null."""
        self._parts.append((count, {name: column for name, column in columns.items() if column is not None}))
        self.height += count

    def frame(self) -> pl.DataFrame:
        """All rows since the last frame. `name` and `kind` are decoded, other texts are numbers."""
        names = dict.fromkeys(name for _, columns in self._parts for name in columns)
        frame = pl.DataFrame([self._series(name) for name in names])
        self._parts.clear()
        self.height = 0
        return frame

    def _series(self, name: str) -> pl.Series:
        parts = [(count, columns.get(name)) for count, columns in self._parts]
        some = next(part for _, part in parts if part is not None)
        if isinstance(some, Known):
            pairs = [part if isinstance(part, Known) else nobody(count) for count, part in parts]
            value, known = np.concatenate([one.value for one in pairs]), np.concatenate([one.known for one in pairs])
            return nullable(name, value, known)
        column = np.concatenate([
            part if isinstance(part, np.ndarray) else np.full(count, -1, some.dtype) for count, part in parts
        ])  # fmt: skip
        if name == "name":
            return self.texts.series(column, pl.Categorical()).alias(name)
        return of_codes(column) if name == "kind" else pl.Series(name, column)


def nullable(name: str, value: Rows, known: Flags) -> pl.Series:
    """The values, null where they are not known."""
    column = pl.Series(name, value)
    return column if known.all() else column.to_frame().select(pl.when(pl.Series(known)).then(pl.col(name))).to_series()


def of_codes(codes: Rows) -> pl.Series:
    """Kinds from their numbers."""
    return pl.Series("kind", KINDS, dtype=KIND).gather(pl.Series(codes.astype(np.uint32)))
