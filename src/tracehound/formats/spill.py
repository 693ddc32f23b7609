"""Where decoded events wait until all of a file is decoded, so that memory does not grow with the file.

Owns whether rows wait in memory or in a file, how such a file is laid out (column after column, as they are in memory:
it is read once or twice and then removed), and that events wait in the order in which they are wanted. Knows no event's
meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.intervals import Ints, lane_order

ORDERED: Final = ("lane", "start", "end")
"""A frame with these columns holds events, which are kept sorted by (lane, start, -end)."""


class Runs(NamedTuple):
    """The lanes of sorted events, each once, in order: those of `lane[i]` are the rows `[bounds[i], bounds[i + 1])`."""

    lane: Ints
    bounds: Ints


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows that wait: read with `rows`, as often as wanted and in any process that sees the folder.

    `runs` says where each lane's events are; None for rows that are no events.
    """

    height: int
    held: pl.DataFrame | Filed
    runs: Runs | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        held = self.held
        return tuple(held.columns) if isinstance(held, pl.DataFrame) else tuple(column.name for column in held.columns)

    def rows(self, low: int = 0, high: int | None = None, columns: list[str] | None = None) -> pl.DataFrame:
        """The rows `[low, high)`, of all columns or of those named, in that order."""
        high = self.height if high is None else high
        wanted = self.columns if columns is None else columns
        if isinstance(self.held, pl.DataFrame):
            return self.held.select(wanted).slice(low, high - low)
        return self.held.read(low, high, wanted)


class _Column(NamedTuple):
    """One column of a file: where its values begin, and its validity, a byte a row (None: no value is missing).

    `names` has what the numbers of a categorical column stand for.
    """

    name: str
    dtype: pl.DataType
    stored: np.dtype[np.generic]
    values: int
    valid: int | None
    names: pl.Series | None

    def read(self, file: BinaryIO, low: int, high: int) -> pl.Series:
        series = pl.Series(self.name, _read(file, self.values, self.stored, low, high))
        if self.names is not None:
            codes = self.names.to_physical().to_numpy()[series.to_numpy()] if len(self.names) else series.to_numpy()
            series = pl.Series(self.name, codes)
        frame = series.to_frame()
        if self.valid is not None:
            valid = pl.Series(_read(file, self.valid, np.dtype(np.bool_), low, high))
            frame = frame.select(pl.when(valid).then(pl.col(self.name)))
        if isinstance(self.dtype, pl.Categorical | pl.Enum):
            frame = frame.select(pl.col(self.name).cat.to(self.dtype))
        return frame.to_series()


class Filed(NamedTuple):
    """Rows in a file: numbers, truth values, categories."""

    path: Path
    columns: tuple[_Column, ...]

    def read(self, low: int, high: int, columns: tuple[str, ...] | list[str]) -> pl.DataFrame:
        """Some rows of some columns."""
        known = {column.name: column for column in self.columns}
        with self.path.open("rb", buffering=0) as file:
            return pl.DataFrame([known[name].read(file, low, high) for name in columns])


@dataclass(frozen=True)
class Spill:
    """Keeps rows in files of `folder`, which exists and is the caller's to remove; without one in memory."""

    folder: Path | None = None

    def keep(self, frame: pl.DataFrame, name: str) -> Kept:
        """Put rows aside; `name` is a file name that nobody else uses in the folder. Raises OSError as writing does.

        Events (`ORDERED`) are put in order, other rows stay in theirs. With a folder, columns are numbers, truth
        values or categories.
        """
        runs = None
        if all(column in frame.columns for column in ORDERED):
            frame, runs = _in_order(frame)
        if self.folder is None:
            return Kept(frame.height, frame, runs)
        path = self.folder / f"{name}.rows"
        with path.open("wb", buffering=0) as file:
            columns = tuple(_write(file, series) for series in frame)
        return Kept(frame.height, Filed(path, columns), runs)


def _in_order(frame: pl.DataFrame) -> tuple[pl.DataFrame, Runs]:
    lane, start, end = (frame[name].to_numpy() for name in ORDERED)
    order = lane_order(lane, start, end)
    if order is not None:
        frame, lane = frame[order], lane[order]
    first = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])) if len(lane) else np.empty(0, np.int64)
    return frame, Runs(lane[first].astype(np.int64), np.append(first, len(lane)))


def _write(file: BinaryIO, series: pl.Series) -> _Column:
    """Append a column to the file."""
    dtype, valid, names = series.dtype, None, None
    if series.null_count():
        valid = _append(file, series.is_not_null().to_numpy())
    numbers = series.to_physical() if isinstance(dtype, pl.Categorical | pl.Enum) else series
    values = (numbers.fill_null(False) if dtype == pl.Boolean else numbers.fill_null(0)).to_numpy()  # noqa: FBT003
    if isinstance(dtype, pl.Categorical):
        names = series.drop_nulls().unique()
        values = _recoded(values, names.to_physical().to_numpy())
    return _Column(series.name, dtype, values.dtype, _append(file, values), valid, names)


def _recoded(codes: npt.NDArray[np.uint32], distinct: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Each code as its position in `distinct`: only this process knows what the codes themselves mean."""
    if len(distinct) == 0:
        return codes
    position = np.zeros(int(max(distinct.max(), codes.max())) + 1, np.uint32)
    position[distinct] = np.arange(len(distinct), dtype=np.uint32)
    return position[codes]


def _append(file: BinaryIO, values: npt.NDArray[np.generic]) -> int:
    """Write the values at the end of the file; where they begin."""
    begin = file.tell()
    left = memoryview(np.ascontiguousarray(values).view(np.uint8).data)
    while left:
        left = left[file.write(left) :]
    return begin


def _read(file: BinaryIO, begin: int, stored: np.dtype[np.generic], low: int, high: int) -> npt.NDArray[np.generic]:
    file.seek(begin + low * stored.itemsize)
    return np.fromfile(file, stored, high - low)
