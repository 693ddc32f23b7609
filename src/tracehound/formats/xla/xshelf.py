"""Collects decoded slices of columns until there are enough to write.

Owns the memory in which slices wait until they are worth putting aside. Knows no event's meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.formats.spill import Column, frame_of
from tracehound.formats.wire import Rows
from tracehound.formats.xla.xframes import Columns, Known, Texts
from tracehound.formats.xla.xstats import Flags
from tracehound.trace import KIND

ENOUGH = 1 << 19
"""Rows that are worth putting aside."""

_DTYPES: Final[Mapping[str, pl.DataType]] = {"name": pl.Categorical(), "kind": KIND}
_CODED: Final = {"kind": np.dtype(np.uint8)}


class Table(NamedTuple):
    """Rows of a shelf: `name` and `kind` are categories, all other columns whole numbers."""

    columns: Mapping[str, Column]

    @property
    def dtypes(self) -> dict[str, pl.DataType]:
        """The types of its columns."""
        return {name: _DTYPES.get(name, pl.Int64()) for name in self.columns}

    def select(self, *names: str) -> Table:
        """Those of the columns that there are, in this order."""
        return Table({name: self.columns[name] for name in names if name in self.columns})

    def at(self, which: Flags) -> Table:
        """Some rows of it."""
        rows = np.flatnonzero(which)
        return Table({name: column.at(rows) for name, column in self.columns.items()})

    def frame(self) -> pl.DataFrame:
        """A copy as a frame."""
        return frame_of({name: column.copied() for name, column in self.columns.items()}, self.dtypes)


class _Growing(Struct):
    """A column that grows: memory for more rows than it has. `valid` is None where none can be missing."""

    values: npt.NDArray[Any]
    valid: Flags | None

    def put(self, low: int, high: int, part: Rows | Known | None) -> None:
        """The values of the rows `[low, high)`; None: they are missing, which is -1 where nothing can be."""
        if isinstance(part, Known) and self.valid is not None:
            self.values[low:high], self.valid[low:high] = part
        elif isinstance(part, np.ndarray):
            self.values[low:high] = part
        else:
            self.values[low:high] = -1 if self.valid is None else 0
            if self.valid is not None:
                self.valid[low:high] = False

    def longer(self, size: int) -> None:
        """Make room for `size` rows."""
        self.values = np.resize(self.values, size)
        self.valid = None if self.valid is None else np.resize(self.valid, size)

    def first(self, count: int) -> Column:
        """The first rows, in memory that will be used again."""
        valid = None if self.valid is None else self.valid[:count]
        return Column(self.values[:count], None if valid is None or valid.all() else valid)


class Shelf(Struct):
    """Rows that wait to become a table, in memory that is used again for the next one."""

    height: int = 0
    _room: int = 0
    _columns: dict[str, _Growing] = field(default_factory=dict)
    _here: dict[str, _Growing] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        """Whether its rows are worth putting aside."""
        return self.height >= ENOUGH

    def add(self, count: int, columns: Columns) -> None:
        """Put `count` rows on it; columns that are None are null."""
        low, high = self.height, self.height + count
        if high > self._room:
            self._room = max(2 * high, ENOUGH + (ENOUGH >> 3))
            for growing in self._columns.values():
                growing.longer(self._room)
        for name, column in columns.items():
            if column is not None and name not in self._here:
                self._here[name] = self._growing(name, column)
                if low:
                    self._here[name].put(0, low, None)
        for name, growing in self._here.items():
            growing.put(low, high, columns.get(name))
        self.height = high

    def _growing(self, name: str, like: Rows | Known) -> _Growing:
        growing, nullable = self._columns.get(name), isinstance(like, Known)
        if growing is None or (growing.valid is not None) != nullable:
            values = np.empty(self._room, _CODED.get(name, np.dtype(np.int64)))
            growing = self._columns[name] = _Growing(values, np.empty(self._room, np.bool_) if nullable else None)
        return growing

    def table(self, texts: Texts) -> Table:
        """All rows since the last table, good until more are added; `name` is one of the texts, others stay numbers."""
        columns = {name: growing.first(self.height) for name, growing in self._here.items()}
        if "name" in columns:
            columns["name"] = Column(texts.codes().take(columns["name"].values))
        self._here.clear()
        self.height = 0
        return Table(columns)
