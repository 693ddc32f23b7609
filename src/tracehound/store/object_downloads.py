"""Downloads of objects into the cache: several ranges at once, resumed where a connection breaks.

An object that changes while it is downloaded is begun anew once, then refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from tracehound.errors import TracehoundError, path_text
from tracehound.remote.remote_store import ObjectInfo, RemoteError, RemoteStore
from tracehound.store.cached_object import ByteRange, CachedObject, open_cached_object
from tracehound.store.trace_cache import TraceCache

CONNECTIONS: Final = 8
"""Ranges that are downloaded at once."""

RANGE_BYTES: Final = 8 << 20
"""Bytes of a range."""

MAX_BREAKS: Final = 6
"""A connection that breaks so many times in a row without a byte in between is given up."""

BREAK_SECONDS: Final = 0.25
"""Seconds before a broken connection is made anew; doubled each time."""

POLL_SECONDS: Final = 0.05


class StoppedDownloadError(Exception):
    """Nobody needs the download any more."""


class RemoteObject(Struct, eq=False):
    """An object of a bucket, and the local path that stands for its URL: a link to its file in the cache.

    `cached` is None as long as nothing was downloaded; then the path is an empty file of the same size.
    """

    path: Path
    store: RemoteStore
    info: ObjectInfo
    cached: CachedObject | None = None
    renewed: bool = False
    _opened_ns: int = field(default_factory=time.time_ns)

    @property
    def version(self) -> str:
        """The version of the object: its etag, else its time; where the server gives neither, another one each time."""
        return self.info.etag or f"modified {self.info.modified_ns or self._opened_ns}"

    def open(self, cache: TraceCache) -> CachedObject:
        """The object in the cache. Raises TracehoundError if the cache cannot hold it."""
        if self.cached is None:
            try:
                folder = cache.open_object_folder(path_text(self.path), self.version, self.info.size)
                self.cached = open_cached_object(folder, self.info.size, self.info.modified_ns)
                link = self.path.with_name(f"{self.path.name[:200]}.link")
                link.symlink_to(self.cached.path)
                link.replace(self.path)
            except OSError as error:
                raise cache_error(self.path, cache, error) from error
        return self.cached

    def renew(self) -> None:
        """Begin anew with the object as it is now. Raises RemoteError if that was done before."""
        if self.renewed:
            message = "the object changes while it is read"
            raise RemoteError(message, self.path, remedy="wait until it is written", reason="changed")
        self.info, self.cached, self.renewed = self.store.head(self.info.key), None, True


def cache_error(path: Path, cache: TraceCache, error: OSError) -> TracehoundError:
    """The error of a cache that cannot hold an object."""
    why = (error.strerror or str(error)).lower()
    if cache.temporary:
        return TracehoundError(f"cannot be downloaded: {why}", path, remedy="set TMPDIR to a folder with room")
    return TracehoundError(f"cannot be kept in the cache: {why}", path, remedy="name a cache with room: --cache DIR")


def download_ranges(
    wanted: RemoteObject, cache: TraceCache, ranges: Sequence[ByteRange], listen: Callable[[], None]
) -> None:
    """Download what is missing of some ranges of an object; `listen` is called for each chunk and may raise.

    Raises RemoteError, and TracehoundError if the cache cannot hold it.
    """
    cached = wanted.open(cache)
    try:
        for start, end in ranges:
            for missing in cached.missing_ranges(start, end):
                _download_range(wanted, cached, missing, listen)
    except OSError as error:
        raise cache_error(wanted.path, cache, error) from error
    finally:
        with suppress(OSError):
            cached.save_ranges()


def _download_range(wanted: RemoteObject, cached: CachedObject, missing: ByteRange, listen: Callable[[], None]) -> None:
    at, end, breaks = *missing, 0
    while at < end:
        try:
            for content in wanted.store.read_range(wanted.info, at, end):
                cached.write(at, content)
                at, breaks = at + len(content), 0
                listen()
        except RemoteError as error:
            breaks += 1
            goes_on = error.reason == "lost" or (error.reason == "unreachable" and cached.downloaded)
            if not goes_on or breaks > MAX_BREAKS:
                raise
            _pause(BREAK_SECONDS * 2 ** (breaks - 1), listen)


def _pause(seconds: float, listen: Callable[[], None]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        listen()
        time.sleep(POLL_SECONDS)


class _Download(Struct, eq=False):
    """The download of one object: its ranges that nobody has begun, and those under way."""

    wanted: RemoteObject
    waiting: list[ByteRange] = field(default_factory=list)
    running: int = 0
    begun: bool = False
    done: bool = False
    error: TracehoundError | None = None
    locks: ExitStack = field(default_factory=ExitStack)


class ObjectDownloads:
    """Downloads of the objects among the files of a trace, by their numbers, in threads.

    Those come first whose numbers `wanted_first` returns. What is downloaded stays in the cache.
    """

    def __init__(
        self, objects: Mapping[int, RemoteObject], cache: TraceCache, wanted_first: Callable[[], Collection[int]]
    ) -> None:
        self._downloads = {number: _Download(each) for number, each in objects.items()}
        self._cache = cache
        self._wanted_first = wanted_first
        self._guard = threading.Condition()
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._work, name="tracehound download", daemon=True)
            for _ in range(min(CONNECTIONS, 2 * len(objects)))
        ]

    def start(self) -> None:
        """Start to download."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the downloads, without waiting for connections that hang."""
        with self._guard:
            self._stopped = True
            self._guard.notify_all()
        for thread in self._threads:
            thread.join(POLL_SECONDS)

    def is_done(self, number: int) -> bool:
        """True if a file is there: its object is complete or given up, or it is a file of this machine."""
        return number not in self._downloads or self._downloads[number].done

    def object(self, number: int) -> RemoteObject | None:
        """The object of a file that is done; None for a file of this machine. Raises the error of the download."""
        if (download := self._downloads.get(number)) is None:
            return None
        if download.error is not None:
            raise download.error
        return download.wanted

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes of all objects that are downloaded so far, and of all objects."""
        wanted = [each.wanted for each in self._downloads.values()]
        downloaded = sum(each.cached.downloaded for each in wanted if each.cached is not None)
        return downloaded, sum(each.info.size for each in wanted)

    def wait(self) -> None:
        """Wait a moment, or until an object is done."""
        with self._guard:
            self._guard.wait(POLL_SECONDS)

    def _work(self) -> None:
        """Download one range after the other until all are done."""
        while not self._stopped and not all(each.done for each in self._downloads.values()):
            taken = self._take_range()
            if taken is None:
                time.sleep(POLL_SECONDS)
                continue
            download, byte_range = taken
            error: TracehoundError | None = None
            try:
                download_ranges(download.wanted, self._cache, [byte_range], self._raise_if_stopped)
            except StoppedDownloadError:
                return
            except TracehoundError as failure:
                error = failure
            except Exception as failure:  # noqa: BLE001, the file is then one that cannot be read
                error = TracehoundError(f"{type(failure).__name__}: {failure}", download.wanted.path)
            self._finish_range(download, error)

    def _raise_if_stopped(self) -> None:
        if self._stopped:
            raise StoppedDownloadError

    def _take_range(self) -> tuple[_Download, ByteRange] | None:
        """The next range to download: of the objects that are wanted first, else in their order."""
        first = self._wanted_first()
        with self._guard:
            order = sorted(self._downloads, key=lambda number: (number not in first, number))
            for download in (self._downloads[number] for number in order):
                if not download.begun and not download.done:
                    self._begin(download)
                if download.waiting and download.error is None:
                    download.running += 1
                    return download, download.waiting.pop(0)
        return None

    def _begin(self, download: _Download) -> None:
        """Find out what is missing of an object, unless another process is just downloading it."""
        try:
            cached = download.wanted.open(self._cache)
            if not download.locks.enter_context(cached.try_lock()):
                download.locks.close()
                return
        except TracehoundError as error:
            self._end(download, error)
            return
        except OSError as error:
            self._end(download, cache_error(download.wanted.path, self._cache, error))
            return
        download.begun = True
        size = download.wanted.info.size
        step = RANGE_BYTES if download.wanted.info.has_ranges else max(size, 1)
        download.waiting = [
            missing
            for start in range(0, size, step)
            for missing in cached.missing_ranges(start, min(size, start + step))
        ]
        if not download.waiting:
            self._end(download, None)

    def _finish_range(self, download: _Download, error: TracehoundError | None) -> None:
        with self._guard:
            download.running -= 1
            download.error = download.error or error
            if download.running or (download.waiting and download.error is None):
                return
            if isinstance(download.error, RemoteError) and download.error.reason == "changed":
                self._renew(download)
            else:
                self._end(download, download.error)

    def _renew(self, download: _Download) -> None:
        """Begin an object that has changed anew."""
        try:
            download.wanted.renew()
        except TracehoundError as error:
            self._end(download, error)
        else:
            download.locks.close()
            download.begun, download.waiting, download.error = False, [], None

    def _end(self, download: _Download, error: TracehoundError | None) -> None:
        download.locks.close()
        download.error, download.done = error, True
        self._guard.notify_all()
