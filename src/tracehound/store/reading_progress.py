"""The progress of reading many files: totals over files, and over the workers that share one file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace


class DownloadProgress(Struct, frozen=True):
    """The state of downloads: bytes of the objects of a trace that are here, of all, and the speed in bytes/s."""

    downloaded: int
    size: int
    speed: float


class ReadingProgress(Struct, frozen=True):
    """The state of reading.

    `path` is a file that is being read. `done` of `files` are finished; `read` of the `size` bytes of all of them are
    read and gave `events`; `seconds` have passed. `running` has bytes and events of each file that is being read.
    `download` is set while reading waits for the download of objects.
    """

    path: Path
    done: int
    files: int
    read: int
    size: int
    events: int
    seconds: float
    running: Mapping[Path, tuple[int, int]] = field(default_factory=dict)
    download: DownloadProgress | None = None

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the end at the average speed so far; None if it is too early to tell.

        Of a download, the seconds to its own end.
        """
        if self.download is not None:
            left, speed = self.download.size - self.download.downloaded, self.download.speed
            return left / speed if self.seconds >= 1 and speed else None
        if self.seconds < 1 or not self.read:
            return None
        return self.seconds * max(0, self.size - self.read) / self.read


ProgressListener = Callable[[ReadingProgress], None]


def ignore_progress(reading: ReadingProgress) -> None:
    """A `ProgressListener` that does nothing."""


class ProgressCounter(Struct):
    """Sums the progress of several files and passes it on. `size` is the bytes of all `files`."""

    files: int
    size: int
    listen: ProgressListener
    _started: float = field(default_factory=time.monotonic)
    _done: int = 0
    _read: int = 0
    _events: int = 0
    _running: dict[Path, tuple[int, int]] = field(default_factory=dict)
    _downloaded_before: int | None = None

    def update_file(self, path: Path, read: int, events: int) -> None:
        """Record the bytes read and the events found so far in a file."""
        self._running[path] = (read, events)
        self.listen(self._progress(path))

    def update_download(self, path: Path, downloaded: int, size: int) -> None:
        """Record the bytes downloaded so far, of the bytes of all objects, while reading waits for a file."""
        if self._downloaded_before is None:
            self._downloaded_before = downloaded
        progress = self._progress(path)
        speed = (downloaded - self._downloaded_before) / max(progress.seconds, 1e-3)
        self.listen(replace(progress, download=DownloadProgress(downloaded, size, speed)))

    def _progress(self, path: Path) -> ReadingProgress:
        return ReadingProgress(
            path=path,
            done=self._done,
            files=self.files,
            read=self._read + sum(read for read, _ in self._running.values()),
            size=self.size,
            events=self._events + sum(events for _, events in self._running.values()),
            seconds=time.monotonic() - self._started,
            running=dict(self._running),
        )

    def finish_file(self, path: Path, size: int, events: int) -> None:
        """Record that a file is read, or given up."""
        self._running.pop(path, None)
        self._done += 1
        self._read += size
        self._events += events


_STOP_COLUMN = 0


class StoppedError(Exception):
    """Reading was stopped on request."""


class SharedProgress(Struct, frozen=True):
    """The progress of several processes, an Int64 table in a file: row 0 asks to stop, each other row is a worker's."""

    path: Path
    workers: int

    def create(self) -> None:
        """Create the file, with nothing read yet. Raises OSError."""
        self.path.write_bytes(bytes(16 * (self.workers + 1)))

    def _map_table(self) -> np.memmap[tuple[int, int], np.dtype[np.int64]]:
        return np.memmap(self.path, np.int64, "r+", shape=(self.workers + 1, 2))

    def request_stop(self) -> None:
        """Ask all workers to stop."""
        self._map_table()[0, _STOP_COLUMN] = 1

    def totals(self) -> tuple[int, int]:
        """Bytes and events of all workers."""
        table = np.frombuffer(self.path.read_bytes(), np.int64).reshape(-1, 2)  # faster than to map it
        read, events = table[1:].sum(axis=0).tolist()
        return read, events

    def for_worker(self, worker: int) -> WorkerProgress:
        """The row in which one worker reports its progress."""
        return WorkerProgress(self._map_table(), worker + 1)


class WorkerProgress(Struct, frozen=True):
    """One worker's row of the table; called like a progress listener."""

    table: np.memmap[tuple[int, int], np.dtype[np.int64]]
    row: int

    def __call__(self, read: int, events: int) -> None:
        """Write the worker's progress. Raises StoppedError if it should stop."""
        self.table[self.row] = (read, events)
        if self.table[0, _STOP_COLUMN]:
            raise StoppedError
