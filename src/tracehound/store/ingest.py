"""One file -> its part, read here or by worker processes, in memory or on disk.

Owns the steps of it and how they are told and stopped. Knows no order of files and no format's inside.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tracehound.formats.format import Portion, Progress
from tracehound.formats.spill import WAITING, Spill
from tracehound.heap import hold, release
from tracehound.store.board import Board
from tracehound.store.cache import Cache, Stamp, stamp
from tracehound.store.found import Found
from tracehound.store.head import load, save
from tracehound.store.pool import Pool
from tracehound.trace import Part

_PIECES: Final = "pieces"
_BOARD: Final = "board"

TICK: Final = 0.05
"""Seconds between two looks at the workers."""

SMALL: Final = 24 << 20
"""Bytes, inflated, up to which a file is read in memory: sooner done than a worker is started."""

SHARED: Final = 96 << 20
"""Bytes, inflated, from which several workers share a file."""

GROWTH: Final = 10
"""How many times a gzip file grows, where only a guess is needed."""


def guessed_size(found: Found) -> int:
    """Bytes of a file when inflated, about."""
    return found.size * (GROWTH if found.compressed else 1)


def stamp_of(found: Found) -> Stamp:
    """What is wanted of the file, as that is now. Raises TracehoundError where it is gone."""
    return stamp(found.path, devices=found.devices)


def on_disk(found: Found, cache: Cache, progress: Progress, pool: Pool) -> Part:
    """Read a file in this process, with what does not fit in memory on disk.

    Of a large one the pool's workers decode a portion each; this process has one too, and finishes all: the workers go
    before that, and what they hold with them. Raises what reading raises, OSError where the disk is full, and
    BrokenExecutor when a worker was killed.
    """
    before, folder = stamp_of(found), cache.bench()
    large = guessed_size(found) >= SHARED
    executor = pool.executor if large else None
    several = 1 if executor is None else pool.jobs
    board, helpers = Board(folder / _BOARD, several), list[Future[None]]()
    try:
        prepare(board, folder)
        rest = [Portion(number, several, found.devices) for number in range(1, several)]
        helpers += () if executor is None else (executor.submit(decode, found, one, folder, board) for one in rest)
        hold()
        portions = [_watched(found, several, folder, board, progress)]
        while wait(helpers, TICK).not_done:
            progress(*board.read())
        for helper in helpers:
            helper.result()
        portions += [_decoded(folder, portion.number) for portion in rest]
        if helpers:
            pool.close()
        if large:
            release()
        finished(found, portions, folder)
        del portions
        release()
        return keep(cache, folder, found, before)
    except BaseException:
        abandon(folder, board, helpers)
        raise


def _watched(found: Found, several: int, folder: Path, board: Board, progress: Progress) -> Any:  # noqa: ANN401
    """The first portion of a file, decoded here; `progress` is told of those of all workers."""
    desk = board.desk(0)

    def tell(read: int, events: int) -> None:
        desk(read, events)
        progress(*board.read())

    return found.format.reader.decode(found.path, Portion(0, several, found.devices), Spill(folder / _PIECES), tell)


def copy(part: Part, cache: Cache, found: Found, before: Stamp) -> Part:
    """Put a part that was read in memory into the cache too: it is at home there. Raises OSError where that is full."""
    folder = cache.bench()
    try:
        save(part, folder)
        return replace(part, home=keep(cache, folder, found, before).home)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise


def keep(cache: Cache, folder: Path, found: Found, before: Stamp) -> Part:
    """Move what was made in a folder into the cache, unless the file changed meanwhile; the part as it lies there."""
    (folder / _BOARD).unlink(missing_ok=True)
    if not cache.fleeting and stamp_of(found) == before:
        return cache.keep(folder, before)
    return load(folder, found.path, before.state, fresh=True)


class Ingest(Struct):
    """A file that is being read on disk, step by step. Made by `begin`; ask `pending`, and `advance` when one is done.

    `part` is there when nothing is pending any more.
    """

    found: Found
    cache: Cache
    folder: Path
    before: Stamp
    board: Board
    executor: Executor
    pending: list[Future[None]]
    _decoding: bool
    part: Part | None = None

    def advance(self) -> None:
        """Take the next step if all futures of this one are done.

        Raises what reading raises, OSError, and BrokenExecutor when a worker was killed.
        """
        done = [future for future in self.pending if future.done()]
        for future in done:
            future.result()  # one that failed ends the reading, whatever the others do
        if self.part is not None or len(done) < len(self.pending):
            return
        if self._decoding:
            self._decoding = False
            self.pending = [self.executor.submit(finish, self.found, len(done), self.folder)]
            return
        self.pending = []
        self.part = keep(self.cache, self.folder, self.found, self.before)

    def abandon(self) -> None:
        """Stop the workers soon; nothing of it is kept."""
        abandon(self.folder, self.board, self.pending)


def begin(found: Found, cache: Cache, executor: Executor, jobs: int) -> Ingest:
    """Have workers read a file: one of them, or several where it is large. Raises OSError where there is no room."""
    before, folder = stamp_of(found), cache.bench()
    several = jobs if guessed_size(found) >= SHARED else 1
    board, pending = Board(folder / _BOARD, several), list[Future[None]]()
    try:
        prepare(board, folder)
        if several == 1:
            pending.append(executor.submit(alone, found, folder, board))
        else:
            shares = (Portion(number, several, found.devices) for number in range(several))
            pending.extend(executor.submit(decode, found, share, folder, board) for share in shares)
    except BaseException:
        abandon(folder, board, pending)
        raise
    return Ingest(found, cache, folder, before, board, executor, pending, several > 1)


def prepare(board: Board, folder: Path) -> None:
    """Make ready a folder in which a file is to be decoded. Raises OSError where there is no room."""
    board.clear()
    (folder / _PIECES).mkdir()


def abandon(folder: Path, board: Board, pending: Sequence[Future[None]]) -> None:
    """Have those who read a file stop soon, and remove the folder: when the last of them has, for they write there.

    Waits for none of them.
    """
    with suppress(OSError):
        board.stop()
    for future in pending:
        future.cancel()

    def removed(_: object = None) -> None:
        if all(future.done() for future in pending):
            rmtree(folder, ignore_errors=True)

    for future in pending:
        future.add_done_callback(removed)
    removed()


def alone(found: Found, folder: Path, board: Board) -> None:
    """Read a file into a folder, in this process."""
    every = Portion(0, 1, found.devices)
    finished(found, [found.format.reader.decode(found.path, every, Spill(folder / _PIECES), board.desk(0))], folder)


def decode(found: Found, portion: Portion, folder: Path, board: Board) -> None:
    """Decode a portion of a file into the folder, for `finish`: only files go from one worker to another."""
    decoded = found.format.reader.decode(found.path, portion, Spill(folder / _PIECES), board.desk(portion.number))
    with _portion(folder, portion.number).open("wb") as file:
        pickle.dump(decoded, file, pickle.HIGHEST_PROTOCOL)


def finish(found: Found, portions: int, folder: Path) -> None:
    """Make the part of so many portions that were decoded in the folder."""
    finished(found, [_decoded(folder, number) for number in range(portions)], folder)


def finished(found: Found, portions: list[Any], folder: Path) -> None:
    """Make the part of all portions in the folder."""
    part = found.format.reader.finish(found.path, portions, Spill(folder))
    save(part, folder)
    rmtree(folder / _PIECES, ignore_errors=True)
    for rest in folder.glob(f"*{WAITING}"):  # what finishing itself put aside
        rest.unlink(missing_ok=True)


def _decoded(folder: Path, number: int) -> Any:  # noqa: ANN401, whatever the format makes of it
    """A portion that was decoded in the folder."""
    return pickle.loads(_portion(folder, number).read_bytes())  # noqa: S301, ours


def _portion(folder: Path, number: int) -> Path:
    """Where a decoded portion waits; the folder is readable by its owner alone."""
    return folder / _PIECES / f"{number}.portion"
