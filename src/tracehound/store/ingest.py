"""Reading of one file into its frames, in this process or in workers, in memory or on disk."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tracehound.formats import Progress, WorkerShard
from tracehound.formats.spill import SPILL_SUFFIX, Spill
from tracehound.model.trace import FileFrames
from tracehound.store.reading_progress import SharedProgress
from tracehound.store.saved_frames import load_frames, save_frames
from tracehound.store.trace_cache import FileStamp, TraceCache, stamp_file
from tracehound.store.trace_files import TraceFile
from tracehound.store.worker_pool import WorkerPool
from tracehound.system.malloc import keep_freed_memory, return_free_memory

_SPILL_FOLDER: Final = "pieces"
_PROGRESS_FILE: Final = "progress_table"

POLL_SECONDS: Final = 0.05
"""Seconds between two looks at the workers."""

MAX_IN_MEMORY_BYTES: Final = 24 << 20
"""Inflated bytes up to which a file is read in memory, which takes less time than starting a worker."""

MIN_SHARED_BYTES: Final = 96 << 20
"""Inflated bytes from which workers workers shard a file."""

GZIP_GROWTH: Final = 10
"""Estimated ratio of inflated to compressed bytes of a gzip file."""


def estimate_inflated_size(file: TraceFile) -> int:
    """Estimated bytes of a file after inflation."""
    return file.size * (GZIP_GROWTH if file.compressed else 1)


def stamp_trace_file(file: TraceFile) -> FileStamp:
    """The stamp of the file as it is now. Raises TracehoundError if it is gone."""
    return replace(stamp_file(file.path, devices=file.devices), etag=file.etag)


def ingest_on_disk(file: TraceFile, cache: TraceCache, progress: Progress, pool: WorkerPool) -> FileFrames:
    """Read a file in this process, spilling to disk what does not fit in memory.

    The workers of the pool decode shards of a large file. This process decodes one shard, too, and finishes all; the
    workers end before that and release their memory. Raises the errors of reading, OSError if the disk is full, and
    BrokenExecutor if a worker was killed.
    """
    stamp, folder = stamp_trace_file(file), cache.create_work_folder()
    large = estimate_inflated_size(file) >= MIN_SHARED_BYTES
    executor = pool.executor if large else None
    workers = 1 if executor is None else pool.jobs
    progress_table, futures = SharedProgress(folder / _PROGRESS_FILE, workers), list[Future[None]]()
    try:
        prepare_folder(progress_table, folder)
        rest = [WorkerShard(number, workers, file.devices) for number in range(1, workers)]
        futures += (
            ()
            if executor is None
            else (executor.submit(decode_shard, file, one, folder, progress_table) for one in rest)
        )
        keep_freed_memory()
        shards = [_decode_first_shard(file, workers, folder, progress_table, progress)]
        while wait(futures, POLL_SECONDS).not_done:
            progress(*progress_table.totals())
        for future in futures:
            future.result()
        shards += [_load_shard(folder, shard.number) for shard in rest]
        if futures:
            pool.close()
        if large:
            return_free_memory()
        save_frames_of_shards(file, shards, folder)
        del shards
        return_free_memory()
        return _load_moved(*move_to_cache(cache, folder, file, stamp), file, stamp)
    except BaseException:
        abandon_ingest(folder, progress_table, futures)
        raise


def _decode_first_shard(
    file: TraceFile, workers: int, folder: Path, progress_table: SharedProgress, progress: Progress
) -> Any:  # noqa: ANN401
    """Decode the first shard of a file in this process; `progress` is called with the totals of all workers."""
    report_own = progress_table.for_worker(0)

    def report(read: int, events: int) -> None:
        report_own(read, events)
        progress(*progress_table.totals())

    return file.format.reader.decode(
        file.path, WorkerShard(0, workers, file.devices), Spill(folder / _SPILL_FOLDER), report
    )


def copy_to_cache(frames: FileFrames, cache: TraceCache, file: TraceFile, stamp: FileStamp) -> FileFrames:
    """Also put frames that were read in memory into the cache. Raises OSError if the disk is full."""
    folder = cache.create_work_folder()
    try:
        save_frames(frames, folder)
        entry, _ = move_to_cache(cache, folder, file, stamp)
        return replace(
            frames, cache_folder=entry, reopen=partial(load_frames, entry, frames.path, frames.state, fresh=True)
        )
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise


def move_to_cache(cache: TraceCache, folder: Path, file: TraceFile, stamp: FileStamp) -> tuple[Path, bool]:
    """Move a finished folder into the cache unless the file changed meanwhile.

    Returns where its frames are, and False if another process had put them there before.
    """
    (folder / _PROGRESS_FILE).unlink(missing_ok=True)
    if cache.keeps_entries and stamp_trace_file(file) == stamp:
        return cache.entry_folder(stamp), cache.add_folder(folder, stamp)
    return folder, True


def _load_moved(folder: Path, ours: bool, file: TraceFile, stamp: FileStamp) -> FileFrames:  # noqa: FBT001
    """The frames of a file, from the folder that `move_to_cache` returned."""
    return load_frames(folder, file.path, stamp.file_state, fresh=ours)


class FileIngest(Struct):
    """A file that workers are reading; made by `start_ingest`. A small file has no `progress_table`.

    Wait for the futures in `pending` and call `advance` when they are done. `frames` is set once nothing is pending.
    """

    file: TraceFile
    cache: TraceCache
    folder: Path
    stamp: FileStamp
    progress_table: SharedProgress | None
    executor: Executor
    pending: list[Future[None]]
    _decoding: bool
    frames: FileFrames | None = None

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes and events that all workers have read."""
        return (0, 0) if self.progress_table is None else self.progress_table.totals()

    def advance(self) -> None:
        """Take the next step if all pending futures are done.

        Raises the errors of reading, OSError, and BrokenExecutor if a worker was killed.
        """
        done = [future for future in self.pending if future.done()]
        for future in done:
            future.result()  # a failed one ends the reading, whatever the others do
        if self.frames is not None or len(done) < len(self.pending):
            return
        if self._decoding:
            self._decoding = False
            self.pending = [self.executor.submit(finish_in_worker, self.file, len(done), self.folder)]
            return
        self.pending = []
        moved = move_to_cache(self.cache, self.folder, self.file, self.stamp)
        self.frames = _load_moved(*moved, self.file, self.stamp)

    def abandon(self) -> None:
        """Ask the workers to stop, and discard their results."""
        abandon_ingest(self.folder, self.progress_table, self.pending)


def start_ingest(file: TraceFile, cache: TraceCache, executor: Executor, jobs: int) -> FileIngest:
    """Let workers read a file: one worker, or workers for a large file. Raises OSError if the disk is full."""
    stamp, folder = stamp_trace_file(file), cache.create_work_folder()
    if estimate_inflated_size(file) < MAX_IN_MEMORY_BYTES:
        small = executor.submit(ingest_small_file, file, folder)
        return FileIngest(file, cache, folder, stamp, None, executor, [small], _decoding=False)
    workers = jobs if estimate_inflated_size(file) >= MIN_SHARED_BYTES else 1
    progress_table, pending = SharedProgress(folder / _PROGRESS_FILE, workers), list[Future[None]]()
    try:
        prepare_folder(progress_table, folder)
        if workers == 1:
            pending.append(executor.submit(ingest_in_one_process, file, folder, progress_table))
        else:
            shards = (WorkerShard(number, workers, file.devices) for number in range(workers))
            pending.extend(executor.submit(decode_shard, file, shard, folder, progress_table) for shard in shards)
    except BaseException:
        abandon_ingest(folder, progress_table, pending)
        raise
    return FileIngest(file, cache, folder, stamp, progress_table, executor, pending, workers > 1)


def prepare_folder(progress_table: SharedProgress, folder: Path) -> None:
    """Create the files and folders that decoding needs. Raises OSError if the disk is full."""
    progress_table.create()
    (folder / _SPILL_FOLDER).mkdir()


def abandon_ingest(folder: Path, progress_table: SharedProgress | None, pending: Sequence[Future[None]]) -> None:
    """Ask the workers to stop, and remove the folder after the last of them has ended. Does not wait."""
    if progress_table is not None:
        with suppress(OSError):
            progress_table.request_stop()
    for future in pending:
        future.cancel()

    def remove_when_done(_: object = None) -> None:
        if all(future.done() for future in pending):
            rmtree(folder, ignore_errors=True)

    for future in pending:
        future.add_done_callback(remove_when_done)
    remove_when_done()


def ingest_small_file(file: TraceFile, folder: Path) -> None:
    """Read a small file into a folder, in this process and in memory, since files of rows cost time."""
    save_frames(file.format.read(file.path), folder)


def ingest_in_one_process(file: TraceFile, folder: Path, progress_table: SharedProgress) -> None:
    """Read a whole file into a folder, in this process."""
    every = WorkerShard(0, 1, file.devices)
    save_frames_of_shards(
        file,
        [file.format.reader.decode(file.path, every, Spill(folder / _SPILL_FOLDER), progress_table.for_worker(0))],
        folder,
    )


def decode_shard(file: TraceFile, shard: WorkerShard, folder: Path, progress_table: SharedProgress) -> None:
    """Decode a shard of a file and write it to the folder, where `finish_in_worker` reads it."""
    decoded = file.format.reader.decode(
        file.path, shard, Spill(folder / _SPILL_FOLDER), progress_table.for_worker(shard.number)
    )
    with _shard_path(folder, shard.number).open("wb") as output:
        pickle.dump(decoded, output, pickle.HIGHEST_PROTOCOL)


def finish_in_worker(file: TraceFile, shards: int, folder: Path) -> None:
    """Make the frames of a file from all shards that were decoded in the folder."""
    save_frames_of_shards(file, [_load_shard(folder, number) for number in range(shards)], folder)


def save_frames_of_shards(file: TraceFile, shards: list[Any], folder: Path) -> None:
    """Make the frames of a file from its decoded shards, and save them in the folder."""
    frames = file.format.finish(file.path, shards, Spill(folder), whole=not file.devices)
    save_frames(frames, folder)
    rmtree(folder / _SPILL_FOLDER, ignore_errors=True)
    for rest in folder.glob(f"*{SPILL_SUFFIX}"):  # spilled by finishing itself
        rest.unlink(missing_ok=True)


def _load_shard(folder: Path, number: int) -> Any:  # noqa: ANN401, any type of the format
    """A decoded shard, loaded from the folder."""
    return pickle.loads(_shard_path(folder, number).read_bytes())  # noqa: S301, ours


def _shard_path(folder: Path, number: int) -> Path:
    """The file of a decoded shard; the folder is readable by its owner only."""
    return folder / _SPILL_FOLDER / f"{number}.portion"
