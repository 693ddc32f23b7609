"""The bytes of a file, inflated where it is gzip.

Owns opening, recognising gzip by its first two bytes, how much a file may grow to, and noticing that it was changed.
Knows nothing of what the bytes mean.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from isal import igzip, igzip_lib

from tracehound.errors import TracehoundError
from tracehound.formats.salvage import Damage, Point, Salvage
from tracehound.notes import Note
from tracehound.trace import FileState

MAGIC: Final = b"\x1f\x8b"

HONEST_RATIO: Final = 250
"""Traces shrink 10 to 60 times; what grows more than this is taken for a bomb. (Deflate's own limit: 1,032.)"""

HONEST_SIZE: Final = 256 << 20
"""What any gzip file may grow to, however small it is."""

LIMIT: Final = "TRACEHOUND_MAX_INFLATED"
"""The environment variable that sets how many bytes a gzip file may grow to: a number, with K, M, G or T behind it."""

_SIZE: Final = re.compile(r"\s*(\d{1,15})\s*([KMGT]?)(?:i?B)?\s*", re.IGNORECASE)


class Source(Protocol):
    """What inflated bytes are read from."""

    def readinto(self, view: memoryview, /) -> int | None:
        """Fill the start of `view`; 0 at the end."""


class Stream:
    """The inflated bytes of one file, in order. Made by `opened`; a context manager.

    `compressed` says whether the file is gzip.
    """

    def __init__(self, path: Path, file: io.FileIO, *, compressed: bool, limit: int) -> None:
        self.path = path
        self.compressed = compressed
        self._file = file
        self._source: Source = igzip.GzipFile(fileobj=file) if compressed else file  # type: ignore[no-untyped-call]
        self._given = 0
        self._limit = limit

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def damage(self) -> Damage | None:
        """What ended the inflated bytes early, once that was reached."""
        return self._source.damage if isinstance(self._source, Salvage) else None

    @property
    def state(self) -> FileState:
        """The file's state now."""
        found = os.fstat(self._file.fileno())
        return FileState(found.st_size, found.st_mtime_ns)

    def check(self, state: FileState | None) -> None:
        """Raise TracehoundError where the file has changed since it had this state; None is any."""
        if state is not None and self.state != state:
            raise changed(self.path)

    @property
    def position(self) -> int:
        """Bytes of the file used so far."""
        return self._file.tell()

    def readinto(self, view: memoryview) -> int:
        """Fill the start of `view`; 0 only at the end.

        Raises TracehoundError where the file cannot be read, or grows without bound.
        """
        if not len(view):
            return 0
        try:
            count = self._read(view)
        except OSError as error:
            raise TracehoundError(f"cannot be read: {error.strerror or error}", self.path) from error
        self._given += count
        if self.compressed and self._given > self._limit:
            raise TracehoundError(
                f"grows to more than {self._limit:,} bytes when inflated",
                self.path,
                remedy=f"if that is right, set {LIMIT} to more, such as {LIMIT}=64G",
            )
        return count

    def skip(self, count: int) -> None:
        """Pass over `count` bytes; past the end is no error."""
        if not self.compressed:
            self._file.seek(count, io.SEEK_CUR)
            self._given += count
            return
        spare = memoryview(bytearray(min(count, 1 << 20)))
        while count > 0:
            read = self.readinto(spare[: min(count, len(spare))])
            if not read:
                return
            count -= read

    def salvage(self, start: Point | None = None) -> Salvage:
        """The file through zlib, from its beginning or from a point in it; nothing else may read from it then."""
        return Salvage(self._file, start)

    def _read(self, view: memoryview) -> int:
        """Fill the start of `view`, from where a gzip file is damaged on with what zlib still finds. Raises OSError."""
        try:
            return self._source.readinto(view) or 0
        except (EOFError, igzip.BadGzipFile, igzip_lib.error):  # type: ignore[misc]  # a class, which its stub hides
            self._source = self._rest()
            return self._source.readinto(view)

    def _rest(self) -> Salvage:
        """What zlib still finds before the damage, past what was given: igzip withholds its last piece."""
        salvage = self.salvage()
        left, spare = self._given, memoryview(bytearray(1 << 16))
        while left and (count := salvage.readinto(spare[:left])):
            left -= count
        return salvage


def opened(path: Path) -> Stream:
    """Open `path`; gzip may become as many bytes as `LIMIT` says, else `HONEST_RATIO` times as many.

    Raises TracehoundError for what cannot be opened, is no regular file, or is empty.
    """
    try:
        if path.is_dir():
            raise TracehoundError("is a folder, not a file", path)
        if path.exists() and not path.is_file():
            raise TracehoundError("is not a regular file", path, remedy="save it to a file first")
        bound = _bound(path.stat().st_size)
        with ExitStack() as closing:
            file = closing.enter_context(path.open("rb", buffering=0))
            magic = file.read(2)
            file.seek(0)
            closing.pop_all()
    except FileNotFoundError as error:
        raise TracehoundError("no such file", path) from error
    except PermissionError as error:
        raise TracehoundError("no permission to read it", path) from error
    except OSError as error:
        raise TracehoundError(f"cannot be opened: {error.strerror or error}", path) from error
    if not magic:
        file.close()
        raise TracehoundError("the file is empty", path)
    return Stream(path, file, compressed=magic == MAGIC, limit=bound)


def is_compressed(path: Path) -> bool:
    """Whether the file is gzip, by its first bytes. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


class Beginning(NamedTuple):
    """The first inflated bytes of a file, and what ended them where more could not be read."""

    content: bytes
    damage: Damage | None


def beginning(path: Path, size: int = 65536) -> Beginning:
    """The first inflated bytes, at most `size`. Raises as `opened`."""
    with opened(path) as stream:
        return Beginning(filled(stream, size), stream.damage)


def head(path: Path, size: int = 65536) -> bytes:
    """The first inflated bytes, at most `size`. Raises as `opened`."""
    return beginning(path, size).content


def whole(path: Path) -> tuple[bytes, tuple[Note, ...]]:
    """All inflated bytes, and what was wrong with the gzip. Raises as `opened` and `Stream.readinto`."""
    with opened(path) as stream:
        parts = []
        buffer = memoryview(bytearray(1 << 20))
        while count := stream.readinto(buffer):
            parts.append(bytes(buffer[:count]))
        return b"".join(parts), (stream.damage.note(),) if stream.damage else ()


def changed(path: Path) -> TracehoundError:
    """What is raised of a file that is no longer what it was."""
    return TracehoundError("the file has changed since it was read", path, remedy="open it again")


def check(path: Path, state: FileState | None) -> None:
    """Raise as `opened`, and where the file has changed since it had this state."""
    with opened(path) as stream:
        stream.check(state)


Section = Callable[[Path, int, int, FileState | None], bytes]
"""Gives so many inflated bytes of a file from an offset on, of the file as it was in a state; see `section`."""


def section(path: Path, offset: int, length: int, state: FileState | None = None) -> bytes:
    """`length` inflated bytes from `offset`, or fewer at the end; of a gzip file all before them are inflated again.

    `state` is that of the file when it was first read. Raises as `opened`, and where the file has changed since.
    """
    with opened(path) as stream:
        stream.check(state)
        stream.skip(offset)
        return filled(stream, length)


def filled(stream: Stream, size: int) -> bytes:
    """The next `size` bytes, or fewer at the end."""
    buffer = bytearray(size)
    view, have = memoryview(buffer), 0
    while have < size and (count := stream.readinto(view[have:])):
        have += count
    return bytes(view[:have])


def _bound(size: int) -> int:
    """How many bytes a gzip file of `size` bytes may grow to."""
    said = os.environ.get(LIMIT, "")
    if not said:
        return max(HONEST_SIZE, HONEST_RATIO * size)
    match = _SIZE.fullmatch(said)
    if match is None:
        raise TracehoundError(f"{LIMIT} is {said!r}, which is not a size", remedy="write bytes, or such as 64G")
    return int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ")
