"""Decoded rows that are put aside until all of a file is decoded, so that memory does not grow with the file.

Rows wait in memory or in a file: column after column, each in as few bytes per row as its numbers need, for it is read
once or twice and then removed. Events are kept in the order in which they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.nesting import lane_sort_order

SPILL_SUFFIX: Final = ".rows"
"""The suffix of files with spilled rows."""

EVENT_ORDER_COLUMNS: Final = ("lane", "start", "end")
"""A frame with these columns holds events, which are kept sorted by (lane, start, -end)."""


class LaneRowBounds(NamedTuple):
    """The lanes of sorted events, each once, in order: those of `lane[i]` are the rows `[bounds[i], bounds[i + 1])`."""

    lane: Ints
    bounds: Ints


class MaskedColumn(NamedTuple):
    """Values of some rows as numbers; a category is its number in this process. `valid` is None where none is missing.

    The value at a missing row is arbitrary.
    """

    values: npt.NDArray[Any]
    valid: Mask | None = None

    def take(self, rows: npt.NDArray[np.intp] | slice) -> MaskedColumn:
        """Return the given rows, in any order."""
        if isinstance(rows, slice):
            return MaskedColumn(self.values[rows], None if self.valid is None else self.valid[rows])
        return MaskedColumn(self.values.take(rows), None if self.valid is None else self.valid.take(rows))

    def copied(self) -> MaskedColumn:
        """Return a copy in new memory."""
        return MaskedColumn(self.values.copy(), None if self.valid is None else self.valid.copy())


def columns_to_frame(columns: Mapping[str, MaskedColumn], dtypes: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return a frame of these columns, in the order of `dtypes`; missing columns are null.

    The frame may share their memory.
    """
    height = len(next(iter(columns.values())).values) if columns else 0
    frame = pl.DataFrame([_to_series(name, columns.get(name), dtype, height) for name, dtype in dtypes.items()])
    numbered = [_as_category(name, dtype) for name, dtype in dtypes.items() if name in columns and _is_category(dtype)]
    return frame.with_columns_seq(numbered) if numbered else frame


def _to_series(name: str, column: MaskedColumn | None, dtype: pl.DataType, height: int) -> pl.Series:
    """Return a column as a series, of categories their numbers.

    A query would take longer to begin than few rows are worth.
    """
    if column is None:
        return _null_series(dtype).new_from_index(0, height).alias(name)
    series = pl.Series(name, column.values)
    if column.valid is not None:
        series = series.zip_with(pl.Series(column.valid), _null_series(series.dtype))
    return series if series.dtype == dtype or _is_category(dtype) else series.cast(dtype)


def _is_category(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Categorical | pl.Enum)


@cache
def _as_category(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return the expression for the categories of a column of their numbers."""
    return pl.col(name).cat.to(dtype)


@cache
def _null_series(dtype: pl.DataType) -> pl.Series:
    """Return a series of this type with one value, which is missing."""
    return pl.Series([None], dtype=dtype)


def frame_to_columns(frame: pl.DataFrame) -> dict[str, MaskedColumn]:
    """Return the columns of a frame as numbers."""
    plain = {series.name: MaskedColumn(series.to_numpy()) for series in frame if _is_plain(series)}
    if len(plain) == frame.width:
        return plain
    others = [series for series in frame if series.name not in plain]
    converted = frame.select_seq(  # once for all columns: polars takes longer to begin than to convert
        *(_to_numbers(series) for series in others),
        *(pl.col(series.name).is_not_null().name.suffix(_VALID_SUFFIX) for series in others if series.null_count()),
    )
    numbers = {series.name: series.to_numpy() for series in converted}
    return {
        name: plain[name] if name in plain else MaskedColumn(numbers[name], numbers.get(name + _VALID_SUFFIX))
        for name in frame.columns
    }


_VALID_SUFFIX: Final = " valid"
"""The suffix of the column that says which values of another column are valid."""


def _is_plain(series: pl.Series) -> bool:
    """True if the values of a series are numbers, and none is missing."""
    return not series.null_count() and not _is_category(series.dtype)


def _to_numbers(series: pl.Series) -> pl.Expr:
    """Return an expression for the values of a series as numbers, with any number where one is missing."""
    column = pl.col(series.name)
    numbers = column.to_physical() if _is_category(series.dtype) else column
    return numbers.fill_null(False if series.dtype == pl.Boolean else 0) if series.null_count() else numbers


class SpilledColumns(NamedTuple):
    """Rows in memory as numbers, with series that keep their categories alive: polars frees those that none uses."""

    columns: Mapping[str, MaskedColumn]
    categories: tuple[pl.Series, ...]


class SpilledRows(Struct, frozen=True, eq=False):
    """Rows put aside: they can be read repeatedly, in any process that sees the folder.

    `runs` has the rows of each lane's events; None for rows that are no events.
    """

    height: int
    dtypes: Mapping[str, pl.DataType]
    storage: pl.DataFrame | SpilledColumns | SpilledFile
    runs: LaneRowBounds | None = None

    def read_frame(self, low: int = 0, high: int | None = None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows `[low, high)` as a frame, with all columns or those named, in that order."""
        high = self.height if high is None else high
        wanted = tuple(self.dtypes) if columns is None else columns
        if isinstance(self.storage, pl.DataFrame):
            return self.storage.select(wanted).slice(low, high - low)
        return columns_to_frame(self.read(low, high, wanted), {name: self.dtypes[name] for name in wanted})

    def read(self, low: int, high: int, columns: Sequence[str]) -> dict[str, MaskedColumn]:
        """Return the rows `[low, high)` of the columns named, as numbers."""
        if isinstance(self.storage, pl.DataFrame):
            return frame_to_columns(self.storage.select(columns).slice(low, high - low))
        if isinstance(self.storage, SpilledColumns):
            return {name: self.storage.columns[name].take(slice(low, high)) for name in columns}
        return self.storage.read(low, high, columns)

    def with_column(self, name: str, values: npt.NDArray[Any]) -> SpilledRows:
        """Return the rows with new values, none missing, in one column of numbers or categories.

        For rows in a file the values are appended to it. Raises OSError as writing does.
        """
        dtype = self.dtypes[name]
        if isinstance(self.storage, pl.DataFrame):
            column = columns_to_frame({name: MaskedColumn(values)}, {name: dtype})
            return replace(self, storage=self.storage.with_columns(column.to_series()))
        if isinstance(self.storage, SpilledColumns):
            kept = _keep_categories({name: MaskedColumn(values)}, {name: dtype})
            columns = {**self.storage.columns, name: MaskedColumn(values)}
            return replace(self, storage=SpilledColumns(columns, (*self.storage.categories, *kept)))
        with self.storage.path.open("ab", buffering=0) as file:
            stored = _write_column(file, name, MaskedColumn(values), dtype)
        return replace(self, storage=SpilledFile(self.storage.path, {**self.storage.columns, name: stored}))


class _StoredColumn(NamedTuple):
    """The position in a file of a column's values, and of its validity, a bit per row.

    The values are stored as `stored` with `base` subtracted, and read as `dtype`. `names` are the categories that they
    number. With `before` only the valid values are stored: `before` counts those in rows before each block of
    `_BLOCK_ROWS`.
    """

    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    base: int
    values: int
    valid: int | None
    names: pl.Series | None
    before: Ints | None = None

    def read(self, file: BinaryIO, low: int, high: int) -> MaskedColumn:
        """Return the rows `[low, high)`."""
        if self.valid is None:
            return MaskedColumn(self._values(file, low, high))
        if self.before is None:
            return MaskedColumn(self._values(file, low, high), self._valid(file, self.valid, low, high))
        block = low // _BLOCK_ROWS
        valid = self._valid(file, self.valid, block * _BLOCK_ROWS, high)
        first = int(self.before[block]) + int(np.count_nonzero(valid[: low - block * _BLOCK_ROWS]))
        valid = valid[low - block * _BLOCK_ROWS :]
        values = np.zeros(high - low, self.dtype)
        rows = np.flatnonzero(valid)
        values[rows] = self._values(file, first, first + len(rows))
        return MaskedColumn(values, valid)

    def _values(self, file: BinaryIO, low: int, high: int) -> npt.NDArray[Any]:
        """Return the stored values `[low, high)`."""
        file.seek(self.values + low * self.stored.itemsize)
        stored = np.fromfile(file, self.stored, high - low)
        values = stored.astype(self.dtype, copy=False)
        if self.base:
            values += self.base
        return values if self.names is None or not len(self.names) else self.names.to_physical().to_numpy()[values]

    def _valid(self, file: BinaryIO, begin: int, low: int, high: int) -> Mask:
        first = low // 8
        file.seek(begin + first)
        bits = np.unpackbits(np.fromfile(file, np.uint8, (high + 7) // 8 - first))
        return bits.view(np.bool_)[low - 8 * first : high - 8 * first]


_BLOCK_ROWS: Final = 1 << 12
"""The rows per count of valid values."""


class SpilledFile(NamedTuple):
    """Rows in a file, column after column: numbers, booleans, categories."""

    path: Path
    columns: Mapping[str, _StoredColumn]

    def read(self, low: int, high: int, names: Sequence[str]) -> dict[str, MaskedColumn]:
        """Return the rows `[low, high)` of the columns named."""
        with self.path.open("rb", buffering=0) as file:
            return {name: self.columns[name].read(file, low, high) for name in names}


class SpilledArray(Struct):
    """Numbers that are appended and then read as one array, which is mapped if it is in a file."""

    path: Path | None
    dtype: np.dtype[Any]
    height: int = 0
    _parts: list[npt.NDArray[Any]] = field(default_factory=list)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Append numbers. Raises OSError as writing does."""
        if self.path is None:
            self._parts.append(values.astype(self.dtype))
        elif len(values):
            with self.path.open("ab" if self.height else "wb", buffering=0) as file:
                _append_array(file, np.asarray(values, self.dtype))
        self.height += len(values)

    def values(self) -> npt.NDArray[Any]:
        """Return all numbers. The file may be removed meanwhile."""
        if self.path is None or not self.height:
            return np.concatenate([np.empty(0, self.dtype), *self._parts])
        return np.asarray(np.memmap(self.path, self.dtype, "r"))  # the array alone: what numpy adds to it is slow


class Spill(Struct, frozen=True):
    """A place for rows that wait: files in `folder`, which exists and is the caller's to remove; without one, memory.

    The `name` of rows is a file name used once in the folder. Events (`EVENT_ORDER_COLUMNS`) are sorted, other rows
    keep their order. With a folder, columns are numbers, booleans or categories; TypeError is raised for others, and
    OSError as writing does.
    """

    folder: Path | None = None

    def spill_frame(self, frame: pl.DataFrame, name: str) -> SpilledRows:
        """Put the rows of a frame aside."""
        runs = None
        if all(column in frame.columns for column in EVENT_ORDER_COLUMNS):
            order, runs = _sort_events(*(frame[column].to_numpy() for column in EVENT_ORDER_COLUMNS))
            frame = frame if order is None else frame[order]
        dtypes = dict(frame.schema)
        if self.folder is None:
            return SpilledRows(frame.height, dtypes, frame, runs)
        columns = frame_to_columns(frame).items()
        return SpilledRows(frame.height, dtypes, _write_columns(self.folder, name, columns, dtypes), runs)

    def new_array(self, name: str, dtype: npt.DTypeLike) -> SpilledArray:
        """Return a new, empty array of numbers."""
        return SpilledArray(None if self.folder is None else self.folder / f"{name}{SPILL_SUFFIX}", np.dtype(dtype))

    def spill_columns(
        self,
        columns: Mapping[str, MaskedColumn],
        dtypes: Mapping[str, pl.DataType],
        name: str,
        rows: Ints | None = None,
        categories: Sequence[pl.Series] | None = None,
    ) -> SpilledRows:
        """Put the given rows (None: all) of these columns aside.

        `dtypes` has all `columns`, whose arrays may be reused afterwards. `categories` are series with all categories
        of the columns; None where the caller has none.
        """
        order, runs = rows, None
        if all(column in columns for column in EVENT_ORDER_COLUMNS):
            bounds = (columns[column].values for column in EVENT_ORDER_COLUMNS)
            order, runs = _sort_events(*(bounds if rows is None else (values.take(rows) for values in bounds)))
            order = rows if order is None else order if rows is None else rows.take(order)
        height = len(next(iter(columns.values())).values) if columns else 0
        height = height if order is None else len(order)
        if self.folder is None:
            copies = {
                each: column.copied() if order is None else column.take(order) for each, column in columns.items()
            }
            kept = _keep_categories(copies, dtypes) if categories is None else tuple(categories)
            return SpilledRows(height, dtypes, SpilledColumns(copies, kept), runs)
        selected = (
            (column_name, column if order is None else column.take(order)) for column_name, column in columns.items()
        )
        return SpilledRows(height, dtypes, _write_columns(self.folder, name, selected, dtypes), runs)


def _sort_events(lane: Ints, start: Ints, end: Ints) -> tuple[npt.NDArray[np.intp] | None, LaneRowBounds]:
    """Return the order of events, None where they are sorted; and the bounds of each lane's events then."""
    order = lane_sort_order(lane, start, end)
    lane = lane if order is None else lane[order]
    first = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])) if len(lane) else np.empty(0, np.int64)
    return order, LaneRowBounds(lane[first].astype(np.int64), np.append(first, len(lane)))


def _keep_categories(columns: Mapping[str, MaskedColumn], dtypes: Mapping[str, pl.DataType]) -> tuple[pl.Series, ...]:
    """Return a series with the categories of these columns, each once, if there are any."""
    codes = [
        column.values if column.valid is None else column.values[column.valid]
        for name, column in columns.items()
        if isinstance(dtypes[name], pl.Categorical)
    ]
    if not codes:
        return ()
    distinct = MaskedColumn(_distinct_codes(np.concatenate(codes)))
    return (columns_to_frame({"name": distinct}, {"name": pl.Categorical()}).to_series(),)


def _write_columns(
    folder: Path, name: str, columns: Iterable[tuple[str, MaskedColumn]], dtypes: Mapping[str, pl.DataType]
) -> SpilledFile:
    path = folder / f"{name}{SPILL_SUFFIX}"
    with path.open("wb", buffering=0) as file:
        return SpilledFile(path, {name: _write_column(file, name, column, dtypes[name]) for name, column in columns})


def _write_column(file: BinaryIO, name: str, column: MaskedColumn, dtype: pl.DataType) -> _StoredColumn:
    """Append a column to the file."""
    values, valid = column
    if values.dtype.hasobject:
        raise TypeError(f"column {name} is {dtype}, which does not wait in files")
    before = None if valid is None else _count_valid_before(valid)
    if before is not None:
        values = values[valid]
    names = None
    if isinstance(dtype, pl.Categorical):
        distinct = _distinct_codes(values if valid is None or before is not None else values[valid])
        names = columns_to_frame({name: MaskedColumn(distinct)}, {name: dtype}).to_series()
        values = _recode_categories(values, distinct)
    stored, base = _narrow_integers(values)
    begin = _append_array(file, stored)
    bits = None if valid is None else _append_array(file, np.packbits(valid))
    return _StoredColumn(values.dtype, stored.dtype, base, begin, bits, names, before)


def _count_valid_before(valid: Mask) -> Ints | None:
    """Return the number of valid values before each block of rows.

    None where few values are missing; those are stored too.
    """
    if 4 * np.count_nonzero(valid) > 3 * len(valid):
        return None
    blocks = np.add.reduceat(valid, np.arange(0, len(valid), _BLOCK_ROWS), dtype=np.int64) if len(valid) else valid[:0]
    return np.append(0, np.cumsum(blocks))


def _narrow_integers(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
    """Subtract the lowest of the integers and store them in as few bytes as they need; also return the lowest.

    Other values are returned unchanged, with 0.
    """
    if values.dtype.kind not in "iu" or len(values) == 0:
        return values, 0
    low, high = int(values.min()), int(values.max())
    for narrow in _NARROW_TYPES:
        if narrow.itemsize < values.dtype.itemsize and high - low <= np.iinfo(narrow).max:
            return np.subtract(values, low, out=np.empty(len(values), narrow), casting="unsafe"), low
    return values, 0


_NARROW_TYPES: Final = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))


def _distinct_codes(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return each code once."""
    present = np.zeros(int(codes.max()) + 1 if len(codes) else 0, np.bool_)
    present[codes] = True
    return np.flatnonzero(present).astype(np.uint32)


def _recode_categories(codes: npt.NDArray[np.uint32], distinct: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return each code as its position in `distinct`: the codes themselves mean something only in this process."""
    if len(distinct) == 0:
        return codes
    position = np.zeros(int(max(distinct.max(), codes.max())) + 1, np.uint32)
    position[distinct] = np.arange(len(distinct), dtype=np.uint32)
    return position[codes]


def _append_array(file: BinaryIO, values: npt.NDArray[Any]) -> int:
    """Write the values at the end of the file and return their offset."""
    begin = file.tell()
    left = memoryview(np.ascontiguousarray(values).view(np.uint8).data)
    while left:
        left = left[file.write(left) :]
    return begin
