"""An object of a bucket in the cache, whole or in part, with the ranges that are there.

    FOLDER/data      the object, with holes where nothing is downloaded yet
    FOLDER/ranges    the ranges that are downloaded: pairs of first byte and end, as JSON
    FOLDER/lock      locked by the process that downloads

A download that was ended resumes at the ranges. Processes that want the same object wait for the one that has the lock.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from tracehound.store.trace_cache import OBJECT_FILE
from tracehound.system.atomic_file import atomic_write

ByteRange = tuple[int, int]
"""First byte and end (exclusive)."""

_RANGES: Final = "ranges"
_LOCK: Final = "lock"


class CachedObject(Struct, eq=False):
    """An object of `size` bytes in a folder of the cache; made by `open_cached_object`.

    The times of its file are `modified_ns`, that of the object, whatever is written to it. Threads may write different
    ranges at once.
    """

    folder: Path
    size: int
    modified_ns: int
    _ranges: list[ByteRange] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def path(self) -> Path:
        """The file of the object."""
        return self.folder / OBJECT_FILE

    @property
    def is_complete(self) -> bool:
        """True if all bytes are downloaded."""
        return not self.missing_ranges(0, self.size)

    @property
    def downloaded(self) -> int:
        """The number of bytes that are downloaded."""
        with self._guard:
            return sum(end - start for start, end in self._ranges)

    def missing_ranges(self, start: int, end: int) -> list[ByteRange]:
        """The ranges between two offsets that are not downloaded yet."""
        missing, at = list[ByteRange](), start
        with self._guard:
            for first, after in self._ranges:
                if after <= at:
                    continue
                if first >= end:
                    break
                if first > at:
                    missing.append((at, first))
                at = after
        return [*missing, (at, end)] if at < end else missing

    def write(self, offset: int, content: bytes) -> None:
        """Write downloaded bytes. Raises OSError, as where the disk is full."""
        with FileIO(self.path, "r+") as file:
            left = memoryview(content)
            while left:
                count = os.pwrite(file.fileno(), left, offset)
                left, offset = left[count:], offset + count
        os.utime(self.path, ns=(self.modified_ns, self.modified_ns))
        self.mark_downloaded(offset - len(content), offset)

    def mark_downloaded(self, start: int, end: int) -> None:
        """Count the bytes from `start` to before `end` as downloaded."""
        with self._guard:
            self._ranges = _join_ranges([*self._ranges, (start, end)])

    def save_ranges(self) -> None:
        """Record what is downloaded, for the next process. Raises OSError."""
        with self._guard, atomic_write(self.folder / _RANGES) as file:
            file.write(msgspec.json.encode(self._ranges))

    def load_ranges(self) -> None:
        """Take over what other processes have downloaded."""
        with self._guard, suppress(OSError, msgspec.MsgspecError):
            found = msgspec.json.decode((self.folder / _RANGES).read_bytes(), type=list[ByteRange])
            if self.path.stat().st_size == self.size:
                self._ranges = _join_ranges([*self._ranges, *((a, b) for a, b in found if 0 <= a < b <= self.size)])

    @contextmanager
    def try_lock(self) -> Iterator[bool]:
        """A context in which no other process downloads the object; False if one does."""
        with FileIO(self.folder / _LOCK, "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            except OSError:  # a file system without locks
                pass
            self.load_ranges()
            yield True


def open_cached_object(folder: Path, size: int, modified_ns: int) -> CachedObject:
    """The object in a folder of the cache, with what is downloaded of it. Raises OSError."""
    found = CachedObject(folder, size, modified_ns)
    found.load_ranges()
    if not found.downloaded:
        with FileIO(found.path, "a") as file:
            file.truncate(size)
        os.utime(found.path, ns=(modified_ns, modified_ns))
    return found


def _join_ranges(ranges: list[ByteRange]) -> list[ByteRange]:
    """The ranges in order, without overlaps."""
    joined = list[ByteRange]()
    for start, end in sorted(each for each in ranges if each[0] < each[1]):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
