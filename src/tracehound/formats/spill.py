"""Where decoded events wait until all of a file is decoded, so that memory does not grow with the file.

Owns whether rows wait in memory or in a file. Knows no event's meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows that wait: read with `rows`, as often as wanted and in any process that sees the folder."""

    height: int
    held: pl.DataFrame | Path

    @property
    def scan(self) -> pl.LazyFrame:
        """The rows, lazily."""
        return pl.scan_ipc(self.held) if isinstance(self.held, Path) else self.held.lazy()

    def rows(self, low: int = 0, high: int | None = None, columns: list[str] | None = None) -> pl.DataFrame:
        """The rows `[low, high)`, of all columns or of some."""
        part = self.scan.slice(low, None if high is None else high - low)
        return (part if columns is None else part.select(columns)).collect()


@dataclass(frozen=True)
class Spill:
    """Keeps rows in files of `folder`, which exists and is the caller's to remove; without one in memory."""

    folder: Path | None = None

    def keep(self, frame: pl.DataFrame, name: str) -> Kept:
        """Put rows aside; `name` is a file name that nobody else uses in the folder. Raises OSError as writing does."""
        if self.folder is None:
            return Kept(frame.height, frame)
        path = self.folder / f"{name}.arrow"
        frame.write_ipc(path, compression="zstd", record_batch_size=1 << 16)
        return Kept(frame.height, path)
