"""The bytes of a file, inflated where it is gzip, up to the last byte before a damage; the next block in a thread.

Gzip is recognized by its first two bytes. A file may inflate up to a limit, and a change of the file since it was first
read is noticed. igzip inflates three times as fast as zlib; zlib is used to resume at a checkpoint, and to read all
bytes before a damage.
"""

from __future__ import annotations

import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice, takewhile
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple, Protocol, TypeVar

from isal import igzip, igzip_lib
from msgspec import Struct

from tracehound.errors import TracehoundError
from tracehound.model.notes import Note
from tracehound.model.trace import FileState

GZIP_MAGIC: Final = b"\x1f\x8b"

MAX_INFLATE_RATIO: Final = 250
"""Traces shrink 10 to 60 times; a file that inflates by more than this is taken for a bomb. (Deflate's own limit:
1,032.)
"""

ALWAYS_ALLOWED_SIZE: Final = 256 << 20
"""Any gzip file, however small, may inflate to this size."""

LIMIT_VARIABLE: Final = "TRACEHOUND_MAX_INFLATED"
"""The environment variable that sets how many bytes a gzip file may grow to: a number, with K, M, G or T behind it."""

_SIZE_TEXT: Final = re.compile(r"\s*(\d{1,15})\s*([KMGT]?)(?:i?B)?\s*", re.IGNORECASE)


class ByteSource(Protocol):
    """An object that inflated bytes are read from."""

    def readinto(self, view: memoryview, /) -> int | None:
        """Fill the start of `view`; 0 at the end."""


class InflatedStream:
    """The inflated bytes of one file, in order; a context manager, made by `open_stream`.

    `compressed` says whether the file is gzip.
    """

    def __init__(self, path: Path, file: io.FileIO, *, compressed: bool, limit: int) -> None:
        self.path = path
        self.compressed = compressed
        self._file = file
        self._source: ByteSource = igzip.GzipFile(fileobj=file) if compressed else file  # type: ignore[no-untyped-call]
        self._given = 0
        self._limit = limit

    def __enter__(self) -> InflatedStream:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def damage(self) -> GzipDamage | None:
        """The damage that ended the inflated bytes early, once it was reached."""
        return self._source.damage if isinstance(self._source, GzipSalvage) else None

    @property
    def state(self) -> FileState:
        """The file's current state."""
        found = os.fstat(self._file.fileno())
        return FileState(found.st_size, found.st_mtime_ns)

    def check(self, state: FileState | None) -> None:
        """Raise TracehoundError where the file has changed since it had this state; None skips the check."""
        if state is not None and self.state != state:
            raise file_changed_error(self.path)

    @property
    def position(self) -> int:
        """Bytes of the file used so far."""
        return self._file.tell()

    def readinto(self, view: memoryview) -> int:
        """Fill the start of `view` and return the number of bytes; 0 only at the end.

        Raises TracehoundError where the file cannot be read, or inflates beyond the limit.
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
                remedy=f"if that is right, set {LIMIT_VARIABLE} to more, such as {LIMIT_VARIABLE}=64G",
            )
        return count

    def skip(self, count: int) -> None:
        """Skip `count` bytes; skipping past the end is no error."""
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

    def salvage(self, start: InflatePoint | None = None) -> GzipSalvage:
        """Return the file through zlib, from its start or from a checkpoint.

        Nothing else may read from this stream then.
        """
        return GzipSalvage(self._file, start)

    def _read(self, view: memoryview) -> int:
        """Fill the start of `view`; behind a damage igzip reports, continue with zlib. Raises OSError."""
        try:
            return self._source.readinto(view) or 0
        except (EOFError, igzip.BadGzipFile, igzip_lib.error):  # type: ignore[misc]  # a class, which its stub hides
            self._source = self._salvage_rest()
            return self._source.readinto(view)

    def _salvage_rest(self) -> GzipSalvage:
        """Return the bytes between those already given and the damage; igzip withholds its last chunk."""
        salvage = self.salvage()
        left, spare = self._given, memoryview(bytearray(1 << 16))
        while left and (count := salvage.readinto(spare[:left])):
            left -= count
        return salvage


def open_stream(path: Path) -> InflatedStream:
    """Open `path`; gzip may inflate to the size in `LIMIT_VARIABLE`, else `MAX_INFLATE_RATIO` times its own size.

    Raises TracehoundError for a file that cannot be opened, is not regular, or is empty.
    """
    try:
        if path.is_dir():
            raise TracehoundError("is a folder, not a file", path)
        if path.exists() and not path.is_file():
            raise TracehoundError("is not a regular file", path, remedy="save it to a file first")
        limit = _inflated_limit(path.stat().st_size)
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
    return InflatedStream(path, file, compressed=magic == GZIP_MAGIC, limit=limit)


def is_gzip(path: Path) -> bool:
    """Return whether the file is gzip, by its first bytes. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


class FileStart(NamedTuple):
    """The first inflated bytes of a file, and the damage that ended them early, if any."""

    content: bytes
    damage: GzipDamage | None


def read_start(path: Path, size: int = 65536) -> FileStart:
    """Read the first inflated bytes, at most `size`. Raises as `open_stream`."""
    with open_stream(path) as stream:
        return FileStart(read_up_to(stream, size), stream.damage)


def read_first_bytes(path: Path, size: int = 65536) -> bytes:
    """Read the first inflated bytes, at most `size`, without the damage. Raises as `open_stream`."""
    return read_start(path, size).content


def read_all(path: Path) -> tuple[bytes, tuple[Note, ...]]:
    """Read all inflated bytes; also return notes on damaged gzip.

    Raises as `open_stream` and `InflatedStream.readinto`.
    """
    with open_stream(path) as stream:
        chunks = []
        buffer = memoryview(bytearray(1 << 20))
        while count := stream.readinto(buffer):
            chunks.append(bytes(buffer[:count]))
        return b"".join(chunks), (stream.damage.note(),) if stream.damage else ()


def file_changed_error(path: Path) -> TracehoundError:
    """Return the error for a file that has changed since it was read."""
    return TracehoundError("the file has changed since it was read", path, remedy="open it again")


def check_unchanged(path: Path, state: FileState | None) -> None:
    """Raise TracehoundError where the file has changed since it had this state, and as `open_stream`."""
    with open_stream(path) as stream:
        stream.check(state)


SectionReader = Callable[[Path, int, int, FileState | None], bytes]
"""Function that reads inflated bytes of a file: path, offset, length and expected state; see `read_section`."""


def read_section(path: Path, offset: int, length: int, state: FileState | None = None) -> bytes:
    """Read `length` inflated bytes from `offset`, or fewer at the end; a gzip file is inflated again from its start.

    `state` is the file's state when it was first read. Raises as `open_stream`, and where the file has changed since.
    """
    with open_stream(path) as stream:
        stream.check(state)
        stream.skip(offset)
        return read_up_to(stream, length)


def read_up_to(stream: InflatedStream, size: int) -> bytes:
    """Read the next `size` bytes, or fewer at the end."""
    buffer = bytearray(size)
    view, count_read = memoryview(buffer), 0
    while count_read < size and (count := stream.readinto(view[count_read:])):
        count_read += count
    return bytes(view[:count_read])


def _inflated_limit(size: int) -> int:
    """Return the number of bytes that a gzip file of `size` bytes may inflate to."""
    setting = os.environ.get(LIMIT_VARIABLE, "")
    if not setting:
        return max(ALWAYS_ALLOWED_SIZE, MAX_INFLATE_RATIO * size)
    match = _SIZE_TEXT.fullmatch(setting)
    if match is None:
        raise TracehoundError(
            f"{LIMIT_VARIABLE} is {setting!r}, which is not a size", remedy="write bytes, or such as 64G"
        )
    return int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ")


_INPUT_SIZE: Final = 1 << 15
_OUTPUT_SIZE: Final = 1 << 18
_GZIP_WINDOW_BITS: Final = 31


GZIP_DAMAGED: Final = "gzip_damaged"
GZIP_ENDS_EARLY: Final = "gzip_ends_early"


class GzipDamage(Struct, frozen=True):
    """The position where a gzip file becomes unreadable.

    `at` is the byte in the file, `inflated` the number of bytes read before it; `ends` says that the rest is missing.
    """

    at: int
    inflated: int
    what: str
    ends: bool = False

    def note(self) -> Note:
        """Return the note on this damage."""
        values = (("what", self.what), ("inflated", self.inflated))
        code = GZIP_ENDS_EARLY if self.ends else GZIP_DAMAGED
        return Note("dropped", code, where=f"byte {self.at:,}", values=values)


class InflatePoint(NamedTuple):
    """A state from which inflating can resume; about 40 kB.

    It lies after `inflated_count` bytes from `file_offset` bytes of the file; `begun` says that a gzip member is open
    here.
    """

    inflated_count: int
    file_offset: int
    inflater: zlib._Decompress
    begun: bool


class GzipSalvage:
    """The inflated bytes of an open gzip file, of all its members, from its start or from a checkpoint.

    `inflated_count` is the number of bytes so far, `damage` what ended them early.
    """

    def __init__(self, file: io.FileIO, start: InflatePoint | None = None) -> None:
        self.inflated_count, offset, inflater, self._begun = start or InflatePoint(
            0, 0, zlib.decompressobj(_GZIP_WINDOW_BITS), begun=False
        )
        self.damage: GzipDamage | None = None
        self._inflater = inflater.copy()
        self._file = file
        self._waiting = b""  # read from the file, and not inflated yet
        self._spare = memoryview(b"")  # inflated, and not given by `readinto` yet
        file.seek(offset)

    @property
    def file_offset(self) -> int:
        """The number of bytes of the file needed so far."""
        return self._file.tell() - len(self._waiting)

    @property
    def checkpoint(self) -> InflatePoint:
        """The current state, as a checkpoint."""
        return InflatePoint(self.inflated_count, self.file_offset, self._inflater.copy(), self._begun)

    def next_bytes(self) -> bytes:
        """Return the next inflated bytes, about 256 kB or fewer; none at the end and at a damage."""
        while self.damage is None:
            ended = not self._fill_input()
            if ended and not self._begun:
                return b""
            if chunk := self._inflate_input():
                return chunk
            if ended and self._begun:
                self.damage = GzipDamage(self.file_offset, self.inflated_count, "ends early", ends=True)
        return b""

    def readinto(self, view: memoryview, /) -> int:
        """Fill the start of `view` and return the number of bytes; 0 at the end."""
        self._spare = self._spare or memoryview(self.next_bytes())
        count = min(len(view), len(self._spare))
        view[:count] = self._spare[:count]
        self._spare = self._spare[count:]
        return count

    def _fill_input(self) -> bool:
        """Read input if none waits, and return whether any does; zeros behind a member are padding."""
        while not self._waiting:
            data = self._file.read(_INPUT_SIZE)
            if not data:
                return False
            self._waiting = data if self._begun or not self.inflated_count else data.lstrip(b"\0")
        return True

    def _inflate_input(self) -> bytes:
        """Inflate the waiting input, or some of it."""
        before, data = self._inflater.copy(), self._waiting
        try:
            chunk = self._inflater.decompress(data, _OUTPUT_SIZE)
        except zlib.error as error:
            chunk, good = _inflate_until_damage(before, data)
            self.inflated_count += len(chunk)
            self._waiting = data[good:]
            self.damage = GzipDamage(
                self.file_offset,
                self.inflated_count,
                _describe_damage(str(error), self.inflated_count, begun=self._begun),
            )
            return chunk
        self.inflated_count += len(chunk)
        self._begun = not self._inflater.eof
        self._waiting = self._inflater.unconsumed_tail
        if self._inflater.eof:
            self._waiting = self._inflater.unused_data.lstrip(b"\0")
            self._inflater = zlib.decompressobj(_GZIP_WINDOW_BITS)
        return chunk


def _inflate_until_damage(inflater: zlib._Decompress, data: bytes) -> tuple[bytes, int]:
    """Inflate `data` byte by byte until it fails; return the result and the number of good bytes."""
    chunks = []
    for at in range(len(data)):
        try:
            chunks.append(inflater.decompress(data[at : at + 1]))
        except zlib.error:
            return b"".join(chunks), at
    return b"".join(chunks), len(data)


def _describe_damage(error: str, inflated_count: int, *, begun: bool) -> str:
    """Return what is wrong, in words for the user."""
    if "header check" in error and inflated_count and not begun:
        return "is followed by bytes that are not gzip"
    if "data check" in error or "length check" in error:
        return "has a wrong checksum, so what it holds may be damaged anywhere"
    return "is damaged here"


T = TypeVar("T")


def prefetch(items: Iterable[T]) -> Iterator[T]:
    """Yield the items in order, and make the next one meanwhile; an exception of an item is raised at its position."""
    source = iter(items)

    def following() -> list[T]:
        return list(islice(source, 1))

    with ThreadPoolExecutor(1, "tracehound ahead") as maker:
        coming = maker.submit(following)
        while made := coming.result():
            coming = maker.submit(following)
            yield made[0]


@contextmanager
def run_in_background(items: Iterable[T]) -> Iterator[Callable[[], list[T]]]:
    """Make all items in a thread while the context lasts.

    The function it gives waits for all of them and raises their exceptions. When the context is left early, only the
    item in progress is waited for.
    """
    given_up = Event()
    with ThreadPoolExecutor(1, "tracehound aside") as maker:
        coming = maker.submit(lambda: list(takewhile(lambda _: not given_up.is_set(), items)))
        try:
            yield coming.result
        finally:
            given_up.set()
