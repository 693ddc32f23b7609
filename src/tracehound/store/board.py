"""How far several processes have come with a file, in a few numbers that all of them see.

Owns that file of numbers. It tells how many bytes were read and how many events found, and whether to stop.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec import Struct

_STOP = 0


class StoppedError(Exception):
    """The reading was called off."""


class Board(Struct, frozen=True):
    """A table of Int64 in a file: row 0 says whether to stop, each other row is one worker's."""

    path: Path
    workers: int

    def clear(self) -> None:
        """Make the file, with nothing read yet. Raises OSError."""
        self.path.write_bytes(bytes(16 * (self.workers + 1)))

    def _table(self) -> np.memmap[tuple[int, int], np.dtype[np.int64]]:
        return np.memmap(self.path, np.int64, "r+", shape=(self.workers + 1, 2))

    def stop(self) -> None:
        """Tell the workers to give up."""
        self._table()[0, _STOP] = 1

    def read(self) -> tuple[int, int]:
        """Bytes and events of all workers."""
        read, events = self._table()[1:].sum(axis=0).tolist()
        return read, events

    def desk(self, worker: int) -> Desk:
        """Where one worker tells how far it is."""
        return Desk(self._table(), worker + 1)


class Desk(Struct, frozen=True):
    """One worker's row; called as a `Progress`."""

    table: np.memmap[tuple[int, int], np.dtype[np.int64]]
    row: int

    def __call__(self, read: int, events: int) -> None:
        """Tell how far the worker is. Raises StoppedError when it should stop."""
        self.table[self.row] = (read, events)
        if self.table[0, _STOP]:
            raise StoppedError
