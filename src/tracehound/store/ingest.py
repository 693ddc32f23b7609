"""One file -> its part, read here or by worker processes, in memory or on disk.

Owns the steps of it and how they are told and stopped. Knows no order of files and no format's inside.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from tracehound.formats.format import ALL, Portion, Progress
from tracehound.formats.spill import Spill
from tracehound.store.board import Board
from tracehound.store.cache import Cache, Stamp, stamp
from tracehound.store.find import Found
from tracehound.store.head import load, save
from tracehound.trace import Part

_PIECES: Final = "pieces"
_BOARD: Final = "board"

SMALL: Final = 24 << 20
"""Bytes, inflated, up to which a file is read in memory: sooner done than a worker is started."""

SHARED: Final = 96 << 20
"""Bytes, inflated, from which several workers share a file."""

GROWTH: Final = 10
"""How many times a gzip file grows, where only a guess is needed."""


def guessed_size(found: Found) -> int:
    """Bytes of a file when inflated, about."""
    return found.size * (GROWTH if found.compressed else 1)


def on_disk(found: Found, cache: Cache, progress: Progress) -> Part:
    """Read a file in this process, with what does not fit in memory on disk.

    Raises what reading raises, and OSError where the disk is full.
    """
    before, folder = stamp(found.path), cache.bench()
    (folder / _PIECES).mkdir()
    portion = found.format.reader.decode(found.path, ALL, Spill(folder / _PIECES), progress)
    finish(found, [portion], folder)
    return keep(cache, folder, found, before)


def copy(part: Part, cache: Cache, found: Found, before: Stamp) -> None:
    """Put a part that was read in memory into the cache too. Raises OSError where that has no room."""
    folder = cache.bench()
    save(part, folder)
    keep(cache, folder, found, before)


def keep(cache: Cache, folder: Path, found: Found, before: Stamp) -> Part:
    """Move what was made in a folder into the cache, unless the file changed meanwhile; the part as it lies there."""
    (folder / _BOARD).unlink(missing_ok=True)
    if not cache.fleeting and stamp(found.path) == before:
        return cache.keep(folder, before)
    return load(folder, found.path)


@dataclass
class Ingest:
    """A file that is being read on disk, step by step. Made by `begin`; ask `pending`, and `advance` when one is done.

    `part` is there when nothing is pending any more.
    """

    found: Found
    cache: Cache
    folder: Path
    before: Stamp
    board: Board
    executor: Executor
    pending: list[Future[Any]]
    part: Part | None = None
    _portions: list[Future[Any]] = field(default_factory=list)

    def advance(self) -> None:
        """Take the next step if all futures of this one are done. Raises what reading raises, and OSError."""
        if self.part is not None or not all(future.done() for future in self.pending):
            return
        if self._portions:
            portions = [future.result() for future in self._portions]
            self._portions = []
            self.pending = [self.executor.submit(finish, self.found, portions, self.folder)]
            return
        for future in self.pending:
            future.result()
        self.pending = []
        self.part = keep(self.cache, self.folder, self.found, self.before)

    def abandon(self) -> None:
        """Stop the workers soon; nothing of it is kept."""
        with suppress(OSError):
            self.board.stop()
        for future in self.pending:
            future.cancel()


def begin(found: Found, cache: Cache, executor: Executor, jobs: int) -> Ingest:
    """Have workers read a file: one of them, or several where it is large. Raises OSError where there is no room."""
    before, folder = stamp(found.path), cache.bench()
    several = jobs if guessed_size(found) >= SHARED else 1
    board = Board(folder / _BOARD, several)
    board.clear()
    (folder / _PIECES).mkdir()
    if several == 1:
        return Ingest(found, cache, folder, before, board, executor, [executor.submit(alone, found, folder, board)])
    portions = [executor.submit(decode, found, Portion(number, several), folder, board) for number in range(several)]
    return Ingest(found, cache, folder, before, board, executor, list(portions), None, portions)


def alone(found: Found, folder: Path, board: Board) -> None:
    """Read a file into a folder, in this process."""
    finish(found, [decode(found, ALL, folder, board)], folder)


def decode(found: Found, portion: Portion, folder: Path, board: Board) -> Any:  # noqa: ANN401, the format's own
    """Decode a portion of a file; what does not fit in memory waits in the folder."""
    return found.format.reader.decode(found.path, portion, Spill(folder / _PIECES), board.desk(portion.number))


def finish(found: Found, portions: list[Any], folder: Path) -> None:
    """Make the part of all portions in the folder."""
    part = found.format.reader.finish(found.path, portions, Spill(folder))
    save(part, folder)
    rmtree(folder / _PIECES, ignore_errors=True)
