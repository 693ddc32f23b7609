"""Columns of decoded events: numbers, texts and stats, buffered as rows until they are worth spilling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.formats.protobuf_wire import InflatedFile, Offsets, as_signed
from tracehound.formats.spill import MaskedColumn, columns_to_frame
from tracehound.formats.xplane.event_decoder import DecodedEvents, StatColumn
from tracehound.formats.xplane.plane_metadata import REF, TEXT, EventMetadata, Flags, iterate_stat_values
from tracehound.model.trace import KIND
from tracehound.numeric.id_set import sorted_distinct

_NOT_COMPUTED = np.iinfo(np.int64).min
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class NullableInts(NamedTuple):
    """Integers, and a mask of those that are not missing."""

    values: Offsets
    valid: Flags

    def mask_except(self, which: Flags) -> NullableInts:
        """The integers, missing where `which` is false, too."""
        return NullableInts(self.values, self.valid & which)


ColumnArrays = Mapping[str, Offsets | NullableInts | None]
"""Columns of equal length by name; None is a column of nulls."""


def all_missing(count: int) -> NullableInts:
    """A number of missing integers."""
    return NullableInts(np.zeros(count, np.int64), np.zeros(count, bool))


def link_key(ids: NullableInts, types: NullableInts) -> NullableInts:
    """Context id and type as one key: types number their ids independently, and ids use all 64 bits."""
    key = ids.values.view(np.uint64) ^ (types.values.view(np.uint64) * _HASH_MULTIPLIER)
    return NullableInts(key.view(np.int64), ids.valid)


class TextNumbers:
    """Numbers for distinct texts; `texts` has them in the order of their numbers."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._number: dict[str, int] = {}
        self._categories = pl.Series(dtype=pl.Categorical())

    def number(self, text: str) -> int:
        """Number of a text."""
        if text not in self._number:
            self._number[text] = len(self.texts)
            self.texts.append(text)
        return self._number[text]

    def series(self, numbers: Offsets) -> pl.Series:
        """Texts with these numbers, null for -1."""
        texts = pl.Series([*self.texts, None], dtype=pl.String)
        return texts.gather(pl.Series(np.where(numbers < 0, len(self.texts), numbers)))

    def codes(self) -> npt.NDArray[np.uint32]:
        """Codes of the texts as categories, in the order of their numbers; valid as long as this object lives."""
        if len(self._categories) < len(self.texts):
            self._categories = pl.Series(self.texts, dtype=pl.Categorical())  # polars frees those that no series uses
        return self._categories.to_physical().to_numpy()


class EventStats:
    """Stats of a plane's events; where an event has none of its own, those of its metadata."""

    def __init__(
        self,
        file: InflatedFile,
        metadata: EventMetadata,
        stat_names: Mapping[int, str],
        names: Sequence[str],
        texts: TextNumbers,
    ) -> None:
        self._stat_names = stat_names
        self._texts = texts
        self._numbers: dict[str, NullableInts] = {}
        self._words: dict[str, Offsets] = {}
        count = len(metadata.names)
        wanted_stats = metadata.stats.with_ids([id_ for id_, name in stat_names.items() if name in names])
        for owner, name, value in iterate_stat_values(file, wanted_stats, stat_names):
            if isinstance(value, int):
                column = self._numbers.setdefault(name, all_missing(count))
                column.values[owner], column.valid[owner] = as_signed(value & (1 << 64) - 1), True
            elif isinstance(value, str):
                self._words.setdefault(name, np.full(count, -1, np.int64))[owner] = texts.number(value)

    def int_stat(self, events: DecodedEvents, position: Offsets, name: str) -> NullableInts | None:
        """A stat as integers; `position` has the metadata of each event. None if no event has the stat."""
        own, shared = events.stats.get(name), self._numbers.get(name)
        if own is None and shared is None:
            return None
        found = NullableInts(own.bits.view(np.int64), own.is_integer) if own is not None else all_missing(len(position))
        if shared is not None:
            value, known = found.values.copy(), found.valid.copy()
            fill = np.flatnonzero(~known & (position >= 0))
            value[fill], known[fill] = shared.values[position[fill]], shared.valid[position[fill]]
            found = NullableInts(value, known)
        return found if found.valid.any() else None

    def text_stat(self, events: DecodedEvents, position: Offsets, name: str) -> Offsets | None:
        """A stat as numbers of texts, -1 where missing. None if no event has the stat."""
        own, shared = events.stats.get(name), self._words.get(name)
        if own is None and shared is None:
            return None
        found = self._numbers_of_texts(events, own) if own is not None else np.full(len(position), -1, np.int64)
        if shared is not None:
            fill = np.flatnonzero((found < 0) & (position >= 0))
            found[fill] = shared[position[fill]]
        return found if (found >= 0).any() else None

    def _numbers_of_texts(self, events: DecodedEvents, column: StatColumn) -> Offsets:
        found = np.full(len(column.field), -1, np.int64)
        refs = np.flatnonzero(column.field == REF)
        found[refs] = self._numbers_of_references(column.bits[refs].view(np.int64))
        for row in np.flatnonzero(column.field == TEXT).tolist():
            at, size = divmod(int(column.bits[row]), 1 << 32)
            found[row] = self._texts.number(events.data.text(at, at + size))
        return found

    def _numbers_of_references(self, ids: Offsets) -> Offsets:
        each, inverse = np.unique(ids, return_inverse=True)
        names = [self._stat_names.get(id_, f"<unknown text {id_}>") for id_ in each.tolist()]
        return np.array([self._texts.number(name) for name in names], np.int64)[inverse]


class ValueByName:
    """A number for each class of lines and event name, computed once for each pair.

    `of` computes it from the class and the position of the metadata, -1 where that is lost.
    """

    def __init__(self, classes: int, count: int, of: Callable[[int, int], int]) -> None:
        self._width = count + 1
        self._table = np.full(classes * self._width, _NOT_COMPUTED, np.int64)
        self._of = of

    def __call__(self, line_class: Offsets | int, position: Offsets) -> Offsets:
        """Number of every event."""
        place = position + (line_class * self._width + 1)
        found: Offsets = self._table.take(place)
        if len(found) and found.min() == _NOT_COMPUTED:
            for one in sorted_distinct(place[found == _NOT_COMPUTED]).tolist():
                each, at = divmod(one, self._width)
                self._table[one] = self._of(each, at - 1)
            found = self._table.take(place)
        return found


ROWS_PER_SPILL = 1 << 19
"""Number of rows that are worth spilling."""

_DTYPES: Final[Mapping[str, pl.DataType]] = {"name": pl.Categorical(), "kind": KIND}
_CODE_DTYPES: Final = {"kind": np.dtype(np.uint8)}


class RowTable(NamedTuple):
    """Rows of a buffer: `name` and `kind` are categories, all other columns integers."""

    columns: Mapping[str, MaskedColumn]

    @property
    def dtypes(self) -> dict[str, pl.DataType]:
        """Types of the columns."""
        return {name: _DTYPES.get(name, pl.Int64()) for name in self.columns}

    def select(self, *names: str) -> RowTable:
        """Those of the columns that exist, in this order."""
        return RowTable({name: self.columns[name] for name in names if name in self.columns})

    def take(self, which: Flags) -> RowTable:
        """Some rows."""
        rows = np.flatnonzero(which)
        return RowTable({name: column.take(rows) for name, column in self.columns.items()})

    def frame(self) -> pl.DataFrame:
        """Copy as a frame."""
        return columns_to_frame({name: column.copied() for name, column in self.columns.items()}, self.dtypes)


class _GrowingColumn(Struct):
    """A column with memory for more rows. `valid` is None if no value can be missing."""

    values: npt.NDArray[Any]
    valid: Flags | None

    def put(self, low: int, high: int, events: Offsets | NullableInts | None) -> None:
        """Set the rows `[low, high)`. None means missing, which is -1 in a column that cannot have missing values."""
        if isinstance(events, NullableInts) and self.valid is not None:
            self.values[low:high], self.valid[low:high] = events
        elif isinstance(events, np.ndarray):
            self.values[low:high] = events
        else:
            self.values[low:high] = -1 if self.valid is None else 0
            if self.valid is not None:
                self.valid[low:high] = False

    def grow(self, size: int) -> None:
        """Make room for `size` rows."""
        self.values = np.resize(self.values, size)
        self.valid = None if self.valid is None else np.resize(self.valid, size)

    def first_rows(self, count: int) -> MaskedColumn:
        """First rows, in memory that will be used again."""
        valid = None if self.valid is None else self.valid[:count]
        return MaskedColumn(self.values[:count], None if valid is None or valid.all() else valid)


class RowBuffer(Struct):
    """Rows that are collected into a table, in memory that is used again for the next one."""

    height: int = 0
    _capacity: int = 0
    _columns: dict[str, _GrowingColumn] = field(default_factory=dict)
    _used: dict[str, _GrowingColumn] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """True if the rows are worth spilling."""
        return self.height >= ROWS_PER_SPILL

    def add(self, count: int, columns: ColumnArrays) -> None:
        """Append `count` rows; columns that are None are null."""
        low, high = self.height, self.height + count
        if high > self._capacity:
            self._capacity = max(2 * high, ROWS_PER_SPILL + (ROWS_PER_SPILL >> 3))
            for growing in self._columns.values():
                growing.grow(self._capacity)
        for name, column in columns.items():
            if column is not None and name not in self._used:
                self._used[name] = self._growing(name, column)
                if low:
                    self._used[name].put(0, low, None)
        for name, growing in self._used.items():
            growing.put(low, high, columns.get(name))
        self.height = high

    def _growing(self, name: str, like: Offsets | NullableInts) -> _GrowingColumn:
        growing, nullable = self._columns.get(name), isinstance(like, NullableInts)
        if growing is None or (growing.valid is not None) != nullable:
            values = np.empty(self._capacity, _CODE_DTYPES.get(name, np.dtype(np.int64)))
            growing = self._columns[name] = _GrowingColumn(
                values, np.empty(self._capacity, np.bool_) if nullable else None
            )
        return growing

    def take_table(self, texts: TextNumbers) -> RowTable:
        """All rows since the last table, valid until more are added.

        `name` becomes a category; other texts stay numbers.
        """
        columns = {name: growing.first_rows(self.height) for name, growing in self._used.items()}
        if "name" in columns:
            columns["name"] = MaskedColumn(texts.codes().take(columns["name"].values))
        self._used.clear()
        self.height = 0
        return RowTable(columns)
