"""The bytes of a file, inflated where it is gzip.

Owns opening, recognising gzip by its first two bytes, and what is left of a gzip file that was cut or damaged. Knows
nothing of what the bytes mean.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from isal import igzip, igzip_lib

from tracehound.errors import TracehoundError
from tracehound.trace import Note

MAGIC = b"\x1f\x8b"

HONEST_RATIO = 250
"""Traces shrink 10 to 60 times; what grows more than this is taken for a bomb. (Deflate's own limit: 1,032.)"""

HONEST_SIZE = 256 << 20
"""What any gzip file may grow to, however small it is."""

_PIECE = 1 << 16


class Source(Protocol):
    """What inflated bytes are read from."""

    def readinto(self, view: memoryview, /) -> int | None:
        """Fill the start of `view`; 0 at the end."""


@dataclass(frozen=True)
class Damage:
    """Where a gzip file stops making sense: `at` is the byte in the file, `inflated` what could be read until there."""

    at: int
    inflated: int
    what: str

    def note(self, path: Path) -> Note:
        """The damage as the user is told of it."""
        text = f"gzip {self.what}; {self.inflated:,} inflated bytes before it were kept"
        return Note("dropped", text, where=f"{path.name}, byte {self.at:,}")


class Stream:
    """The inflated bytes of one file, in order. Made by `opened`; a context manager.

    `compressed` says whether the file is gzip, `damage` what was wrong with it (None so far), `position` how many
    bytes of the file itself were used.
    """

    def __init__(self, path: Path, file: io.FileIO, *, compressed: bool, limit: int) -> None:
        self.path = path
        self.compressed = compressed
        self.damage: Damage | None = None
        self._file = file
        self._source: Source = igzip.GzipFile(fileobj=file) if compressed else file  # type: ignore[no-untyped-call]
        self._given = 0
        self._limit = limit

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def position(self) -> int:
        """Bytes of the file used so far."""
        return self._file.tell()

    def readinto(self, view: memoryview) -> int:
        """Fill the start of `view`; 0 only at the end. Raises TracehoundError where the file grows without bound."""
        if not len(view):
            return 0
        try:
            count = self._source.readinto(view)
        except (EOFError, igzip.BadGzipFile, igzip_lib.error):  # type: ignore[misc]  # a class, which its stub hides
            self._source = self._rest()
            count = self._source.readinto(view)
        except OSError as error:
            raise TracehoundError(f"cannot be read: {error.strerror or error}", self.path) from error
        count = count or 0
        self._given += count
        if self.compressed and self._given > self._limit:
            raise TracehoundError(
                f"grows to more than {self._limit:,} bytes when inflated", self.path, remedy="inflate it by hand first"
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

    def _rest(self) -> io.BytesIO:
        """What zlib still finds before the damage, past what was given: the fast inflater withholds its last piece."""
        rest, start = [], 0
        for piece, damage in _salvaged(self.path):
            skip = max(0, self._given - start)
            rest.append(piece[skip:])
            start += len(piece)
            self.damage = damage or self.damage
        return io.BytesIO(b"".join(rest))


def opened(path: Path, limit: int | None = None) -> Stream:
    """Open `path`; `limit` is how many bytes gzip may become (default: `HONEST_RATIO` times the file).

    Raises TracehoundError for what cannot be opened, is no regular file, or is empty.
    """
    try:
        if path.is_dir():
            raise TracehoundError("is a folder, not a file", path)
        if path.exists() and not path.is_file():
            raise TracehoundError("is not a regular file", path, remedy="save it to a file first")
        size = path.stat().st_size
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
    bound = max(HONEST_SIZE, HONEST_RATIO * size) if limit is None else limit
    return Stream(path, file, compressed=magic == MAGIC, limit=bound)


def is_compressed(path: Path) -> bool:
    """Whether the file is gzip, by its first bytes. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def head(path: Path, size: int = 65536) -> bytes:
    """The first inflated bytes, at most `size`. Raises as `opened`."""
    with opened(path) as stream:
        return _filled(stream, size)


def whole(path: Path, limit: int | None = None) -> tuple[bytes, tuple[Note, ...]]:
    """All inflated bytes, and what was wrong with the gzip. Raises as `opened`, and where `limit` is passed."""
    with opened(path, limit) as stream:
        if not stream.compressed:
            return path.read_bytes(), ()
        parts = []
        buffer = memoryview(bytearray(1 << 20))
        while count := stream.readinto(buffer):
            parts.append(bytes(buffer[:count]))
        return b"".join(parts), (stream.damage.note(path),) if stream.damage else ()


def section(path: Path, offset: int, length: int) -> bytes:
    """`length` inflated bytes from `offset`; of a gzip file all before them are inflated again."""
    with opened(path) as stream:
        stream.skip(offset)
        return _filled(stream, length)


def _filled(stream: Stream, size: int) -> bytes:
    buffer = bytearray(size)
    view, have = memoryview(buffer), 0
    while have < size and (count := stream.readinto(view[have:])):
        have += count
    return bytes(view[:have])


def _salvaged(path: Path) -> Iterator[tuple[bytes, Damage | None]]:
    """The pieces that zlib inflates, byte by byte near the damage; the last comes with the damage."""
    inflater, used, made = zlib.decompressobj(31), 0, 0
    with path.open("rb") as file:
        while data := file.read(_PIECE):
            while data:
                before = inflater.copy()
                try:
                    piece = inflater.decompress(data)
                except zlib.error:
                    last, good = _to_the_byte(before, data)
                    yield last, Damage(used + good, made + len(last), "is damaged here")
                    return
                made += len(piece)
                used += len(data) - len(inflater.unused_data)
                yield piece, None
                data = inflater.unused_data
                if inflater.eof:
                    data = data.lstrip(b"\0") if data.strip(b"\0") == b"" else data
                    inflater = zlib.decompressobj(31)
    yield b"", Damage(used, made, "ends early")


def _to_the_byte(inflater: zlib._Decompress, data: bytes) -> tuple[bytes, int]:
    """What `data` inflates to until it fails, and how many of its bytes were good."""
    parts = []
    for at in range(len(data)):
        try:
            parts.append(inflater.decompress(data[at : at + 1]))
        except zlib.error:
            return b"".join(parts), at
    return b"".join(parts), len(data)
