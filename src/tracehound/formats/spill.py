"""Where decoded events wait until all of a file is decoded, so that memory does not grow with the file.

Owns whether rows wait in memory or in a file, how such a file is laid out (column after column, each in as few bytes a
row as its numbers need: it is read once or twice and then removed), and that events wait in the order in which they are
wanted. Knows no event's meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.intervals import Ints, Mask
from tracehound.nesting import lane_order

WAITING: Final = ".rows"
"""How the names of files end in which rows wait."""

ORDERED: Final = ("lane", "start", "end")
"""A frame with these columns holds events, which are kept sorted by (lane, start, -end)."""


class Runs(NamedTuple):
    """The lanes of sorted events, each once, in order: those of `lane[i]` are the rows `[bounds[i], bounds[i + 1])`."""

    lane: Ints
    bounds: Ints


class Column(NamedTuple):
    """Values of some rows as numbers: of a category its number in this process. `valid` is None where none is missing.

    What is at a missing value's place means nothing.
    """

    values: npt.NDArray[Any]
    valid: Mask | None = None

    def at(self, rows: npt.NDArray[np.intp]) -> Column:
        """Some rows of it, in any order."""
        return Column(self.values.take(rows), None if self.valid is None else self.valid.take(rows))

    def copied(self) -> Column:
        """The same in memory of its own."""
        return Column(self.values.copy(), None if self.valid is None else self.valid.copy())


def frame_of(columns: Mapping[str, Column], dtypes: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The frame of these columns, in the order of `dtypes`; what is in no column is null. It may share their memory."""
    known = {name: column for name, column in columns.items() if name in dtypes}
    series = [pl.Series(name, column.values) for name, column in known.items()]
    series += [pl.Series(f"{name} valid", column.valid) for name, column in known.items() if column.valid is not None]
    return pl.DataFrame(series).select(
        _typed(name, known.get(name), dtype).alias(name) for name, dtype in dtypes.items()
    )


def columns_of(frame: pl.DataFrame) -> dict[str, Column]:
    """The columns of a frame as numbers."""
    return {series.name: _column(series) for series in frame}


def _typed(name: str, column: Column | None, dtype: pl.DataType) -> pl.Expr:
    if column is None:
        return pl.lit(None, dtype)
    values = pl.col(name)
    typed = values.cat.to(dtype) if isinstance(dtype, pl.Categorical | pl.Enum) else values.cast(dtype)
    return typed if column.valid is None else pl.when(f"{name} valid").then(typed)


class Kept(Struct, frozen=True, eq=False):
    """Rows that wait: read as often as wanted, in any process that sees the folder.

    `runs` says where each lane's events are; None for rows that are no events.
    """

    height: int
    dtypes: Mapping[str, pl.DataType]
    held: pl.DataFrame | Filed
    runs: Runs | None = None

    def rows(self, low: int = 0, high: int | None = None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows `[low, high)`, of all columns or of those named, in that order."""
        high = self.height if high is None else high
        wanted = tuple(self.dtypes) if columns is None else columns
        if isinstance(self.held, pl.DataFrame):
            return self.held.select(wanted).slice(low, high - low)
        return frame_of(self.held.read(low, high, wanted), {name: self.dtypes[name] for name in wanted})

    def read(self, low: int, high: int, columns: Sequence[str]) -> dict[str, Column]:
        """The rows `[low, high)` of the columns named, as numbers."""
        if isinstance(self.held, pl.DataFrame):
            return {name: _column(self.held[name][low:high]) for name in columns}
        return self.held.read(low, high, columns)

    def replaced(self, name: str, values: npt.NDArray[Any]) -> Kept:
        """The same rows with other values in a column of numbers or categories, all of them there.

        Of rows in a file they are put at its end. Raises OSError as writing does.
        """
        dtype = self.dtypes[name]
        if isinstance(self.held, pl.DataFrame):
            column = frame_of({name: Column(values)}, {name: dtype})
            return replace(self, held=self.held.with_columns(column.to_series()))
        with self.held.path.open("ab", buffering=0) as file:
            place = _write(file, name, Column(values), dtype)
        return replace(self, held=Filed(self.held.path, {**self.held.places, name: place}))


class _Place(NamedTuple):
    """Where in a file the values of a column begin, and its validity, a bit a row.

    Numbers of the type `stored` are there, to which `base` is added; they are read as `dtype`. `names` are the
    categories that they count. Where `before` is given only the valid values are there: it has how many of them belong
    to rows before each `_BLOCK` of rows.
    """

    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    base: int
    values: int
    valid: int | None
    names: pl.Series | None
    before: Ints | None = None

    def read(self, file: BinaryIO, low: int, high: int) -> Column:
        """The rows `[low, high)`."""
        if self.valid is None:
            return Column(self._values(file, low, high))
        if self.before is None:
            return Column(self._values(file, low, high), self._valid(file, self.valid, low, high))
        block = low // _BLOCK
        valid = self._valid(file, self.valid, block * _BLOCK, high)
        first = int(self.before[block]) + int(np.count_nonzero(valid[: low - block * _BLOCK]))
        valid = valid[low - block * _BLOCK :]
        values = np.zeros(high - low, self.dtype)
        rows = np.flatnonzero(valid)
        values[rows] = self._values(file, first, first + len(rows))
        return Column(values, valid)

    def _values(self, file: BinaryIO, low: int, high: int) -> npt.NDArray[Any]:
        """Those that are stored at `[low, high)`."""
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


_BLOCK: Final = 1 << 12
"""Rows of which the valid values are counted together."""


class Filed(NamedTuple):
    """Rows in a file, column after column: numbers, truth values, categories."""

    path: Path
    places: Mapping[str, _Place]

    def read(self, low: int, high: int, columns: Sequence[str]) -> dict[str, Column]:
        """The rows `[low, high)` of the columns named."""
        with self.path.open("rb", buffering=0) as file:
            return {name: self.places[name].read(file, low, high) for name in columns}


class Pile(Struct):
    """Numbers that are added one after the other, and then read as one array: mapped, where they are in a file."""

    path: Path | None
    dtype: np.dtype[Any]
    height: int = 0
    _held: list[npt.NDArray[Any]] = field(default_factory=list)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Put some at the end. Raises OSError as writing does."""
        if self.path is None:
            self._held.append(values.astype(self.dtype))
        elif len(values):
            with self.path.open("ab" if self.height else "wb", buffering=0) as file:
                _append(file, np.asarray(values, self.dtype))
        self.height += len(values)

    def values(self) -> npt.NDArray[Any]:
        """All of them. The file may be removed meanwhile."""
        if self.path is None or not self.height:
            return np.concatenate([np.empty(0, self.dtype), *self._held])
        return np.asarray(np.memmap(self.path, self.dtype, "r"))  # the array alone: what numpy adds to it is slow


class Spill(Struct, frozen=True):
    """Keeps rows in files of `folder`, which exists and is the caller's to remove; without one in memory.

    The `name` of rows is a file name that nobody else uses in the folder. Events (`ORDERED`) are put in order, other
    rows stay in theirs. With a folder, columns are numbers, truth values or categories; TypeError is raised for others,
    and OSError as writing does.
    """

    folder: Path | None = None

    def keep(self, frame: pl.DataFrame, name: str) -> Kept:
        """Put the rows of a frame aside."""
        runs = None
        if all(column in frame.columns for column in ORDERED):
            order, runs = _in_order(*(frame[column].to_numpy() for column in ORDERED))
            frame = frame if order is None else frame[order]
        dtypes = dict(frame.schema)
        if self.folder is None:
            return Kept(frame.height, dtypes, frame, runs)
        columns = ((series.name, _column(series)) for series in frame)
        return Kept(frame.height, dtypes, _filed(self.folder, name, columns, dtypes), runs)

    def pile(self, name: str, dtype: npt.DTypeLike) -> Pile:
        """A pile of numbers, with none yet."""
        return Pile(None if self.folder is None else self.folder / f"{name}{WAITING}", np.dtype(dtype))

    def put(
        self, columns: Mapping[str, Column], dtypes: Mapping[str, pl.DataType], name: str, rows: Ints | None = None
    ) -> Kept:
        """Put these rows (None: all) aside that are no frame yet.

        `dtypes` are of all `columns`, whose arrays may be used again.
        """
        if self.folder is None:
            own = {at: column.copied() if rows is None else column.at(rows) for at, column in columns.items()}
            return self.keep(frame_of(own, dtypes), name)
        order, runs = rows, None
        if all(column in columns for column in ORDERED):
            bounds = (columns[column].values for column in ORDERED)
            order, runs = _in_order(*(bounds if rows is None else (values.take(rows) for values in bounds)))
            order = rows if order is None else order if rows is None else rows.take(order)
        height = len(next(iter(columns.values())).values) if columns else 0
        height = height if order is None else len(order)
        placed = ((at, column if order is None else column.at(order)) for at, column in columns.items())
        return Kept(height, dtypes, _filed(self.folder, name, placed, dtypes), runs)


def _in_order(lane: Ints, start: Ints, end: Ints) -> tuple[npt.NDArray[np.intp] | None, Runs]:
    """The order of events, None where they have it; and where each lane's are then."""
    order = lane_order(lane, start, end)
    lane = lane if order is None else lane[order]
    first = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])) if len(lane) else np.empty(0, np.int64)
    return order, Runs(lane[first].astype(np.int64), np.append(first, len(lane)))


def _column(series: pl.Series) -> Column:
    """The values of a series as numbers."""
    valid = series.is_not_null().to_numpy() if series.null_count() else None
    numbers = series.to_physical() if isinstance(series.dtype, pl.Categorical | pl.Enum) else series
    if valid is not None:
        numbers = numbers.fill_null(False) if series.dtype == pl.Boolean else numbers.fill_null(0)  # noqa: FBT003
    return Column(numbers.to_numpy(), valid)


def _filed(folder: Path, name: str, columns: Iterable[tuple[str, Column]], dtypes: Mapping[str, pl.DataType]) -> Filed:
    path = folder / f"{name}{WAITING}"
    with path.open("wb", buffering=0) as file:
        return Filed(path, {name: _write(file, name, column, dtypes[name]) for name, column in columns})


def _write(file: BinaryIO, name: str, column: Column, dtype: pl.DataType) -> _Place:
    """Append a column to the file."""
    values, valid = column
    if values.dtype.hasobject:
        raise TypeError(f"column {name} is {dtype}, which does not wait in files")
    before = None if valid is None else _before(valid)
    if before is not None:
        values = values[valid]
    names = None
    if isinstance(dtype, pl.Categorical):
        distinct = _distinct(values if valid is None or before is not None else values[valid])
        names = frame_of({name: Column(distinct)}, {name: dtype}).to_series()
        values = _recoded(values, distinct)
    stored, base = _narrowed(values)
    begin = _append(file, stored)
    bits = None if valid is None else _append(file, np.packbits(valid))
    return _Place(values.dtype, stored.dtype, base, begin, bits, names, before)


def _before(valid: Mask) -> Ints | None:
    """How many valid values there are before each block of rows; None where few are missing, which are written too."""
    if 4 * np.count_nonzero(valid) > 3 * len(valid):
        return None
    blocks = np.add.reduceat(valid, np.arange(0, len(valid), _BLOCK), dtype=np.int64) if len(valid) else valid[:0]
    return np.append(0, np.cumsum(blocks))


def _narrowed(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
    """Whole numbers less the lowest of them, which is given too, in as few bytes as they need; others as they are."""
    if values.dtype.kind not in "iu" or len(values) == 0:
        return values, 0
    low, high = int(values.min()), int(values.max())
    for narrow in _NARROW:
        if narrow.itemsize < values.dtype.itemsize and high - low <= np.iinfo(narrow).max:
            return np.subtract(values, low, out=np.empty(len(values), narrow), casting="unsafe"), low
    return values, 0


_NARROW: Final = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))


def _distinct(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Each code once."""
    here = np.zeros(int(codes.max()) + 1 if len(codes) else 0, np.bool_)
    here[codes] = True
    return np.flatnonzero(here).astype(np.uint32)


def _recoded(codes: npt.NDArray[np.uint32], distinct: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Each code as its position in `distinct`: only this process knows what the codes themselves mean."""
    if len(distinct) == 0:
        return codes
    position = np.zeros(int(max(distinct.max(), codes.max())) + 1, np.uint32)
    position[distinct] = np.arange(len(distinct), dtype=np.uint32)
    return position[codes]


def _append(file: BinaryIO, values: npt.NDArray[Any]) -> int:
    """Write the values at the end of the file; where they begin."""
    begin = file.tell()
    left = memoryview(np.ascontiguousarray(values).view(np.uint8).data)
    while left:
        left = left[file.write(left) :]
    return begin
