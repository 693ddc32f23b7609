"""Where decoded events wait until all of a file is decoded, so that memory does not grow with the file.

Owns whether rows wait in memory or in a file, how such a file is laid out (column after column, as they are in memory:
it is read once or twice and then removed), and that events wait in the order in which they are wanted. Knows no event's
meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.intervals import Ints, Mask
from tracehound.nesting import lane_order

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
        return Column(self.values[rows], None if self.valid is None else self.valid[rows])


def frame_of(columns: Mapping[str, Column], dtypes: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The frame of these columns, in the order of `dtypes`; what is in no column is null."""
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


@dataclass(frozen=True, eq=False)
class Kept:
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


class _Place(NamedTuple):
    """Where in a file the values of a column begin, and its validity, a byte a row; `names` are its categories."""

    stored: np.dtype[Any]
    values: int
    valid: int | None
    names: pl.Series | None


class Filed(NamedTuple):
    """Rows in a file, column after column: numbers, truth values, categories."""

    path: Path
    places: Mapping[str, _Place]

    def read(self, low: int, high: int, columns: Sequence[str]) -> dict[str, Column]:
        """The rows `[low, high)` of the columns named."""
        found = {}
        with self.path.open("rb", buffering=0) as file:
            for name in columns:
                place = self.places[name]
                values = _read(file, place.values, place.stored, low, high)
                valid = None if place.valid is None else _read(file, place.valid, np.dtype(np.bool_), low, high)
                if place.names is not None and len(place.names):
                    values = place.names.to_physical().to_numpy()[values]
                found[name] = Column(values, valid)
        return found


@dataclass(frozen=True)
class Spill:
    """Keeps rows in files of `folder`, which exists and is the caller's to remove; without one in memory."""

    folder: Path | None = None

    def keep(self, frame: pl.DataFrame, name: str) -> Kept:
        """Put rows aside; `name` is a file name that nobody else uses in the folder. Raises OSError as writing does.

        Events (`ORDERED`) are put in order, other rows stay in theirs. With a folder, columns are numbers, truth
        values or categories; raises TypeError for others.
        """
        runs = None
        if all(column in frame.columns for column in ORDERED):
            frame, runs = _in_order(frame)
        dtypes = dict(frame.schema)
        if self.folder is None:
            return Kept(frame.height, dtypes, frame, runs)
        path = self.folder / f"{name}.rows"
        with path.open("wb", buffering=0) as file:
            places = {series.name: _write(file, series) for series in frame}
        return Kept(frame.height, dtypes, Filed(path, places), runs)


def _in_order(frame: pl.DataFrame) -> tuple[pl.DataFrame, Runs]:
    lane, start, end = (frame[name].to_numpy() for name in ORDERED)
    order = lane_order(lane, start, end)
    if order is not None:
        frame, lane = frame[order], lane[order]
    first = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])) if len(lane) else np.empty(0, np.int64)
    return frame, Runs(lane[first].astype(np.int64), np.append(first, len(lane)))


def _column(series: pl.Series) -> Column:
    """The values of a series as numbers."""
    valid = series.is_not_null().to_numpy() if series.null_count() else None
    numbers = series.to_physical() if isinstance(series.dtype, pl.Categorical | pl.Enum) else series
    if valid is not None:
        numbers = numbers.fill_null(False) if series.dtype == pl.Boolean else numbers.fill_null(0)  # noqa: FBT003
    return Column(numbers.to_numpy(), valid)


def _write(file: BinaryIO, series: pl.Series) -> _Place:
    """Append a column to the file."""
    values, valid = _column(series)
    if values.dtype.hasobject:
        raise TypeError(f"column {series.name} is {series.dtype}, which does not wait in files")
    names = None
    if isinstance(series.dtype, pl.Categorical):
        names = series.drop_nulls().unique()
        values = _recoded(values, names.to_physical().to_numpy())
    return _Place(values.dtype, _append(file, values), None if valid is None else _append(file, valid), names)


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


def _read(file: BinaryIO, begin: int, stored: np.dtype[Any], low: int, high: int) -> npt.NDArray[Any]:
    file.seek(begin + low * stored.itemsize)
    return np.fromfile(file, stored, high - low)
