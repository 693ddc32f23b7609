"""Byte strings that wait in a temporary file until they are needed."""

from __future__ import annotations

import os
from tempfile import TemporaryFile
from typing import BinaryIO, Final, NamedTuple

MAX_BYTES_IN_MEMORY: Final = 256 << 10
"""The first bytes of each file stay in memory: most traces have no more."""


class SpilledBytes(NamedTuple):
    """A byte string in memory (`content`), or `size` bytes at a position of a file."""

    content: bytes
    spill: SpillFile | None = None
    position: int = 0
    size: int = 0

    def read(self) -> bytes:
        """The bytes. Raises OSError if the file cannot be read."""
        return self.content if self.spill is None else self.spill.read(self.position, self.size)


class SpillFile:
    """A temporary file, which has no name and ends with the last of its byte strings.

    It is made when there are more than `MAX_BYTES_IN_MEMORY`. What cannot be written stays in memory.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._in_memory = self._written = 0

    def add(self, content: bytes) -> SpilledBytes:
        """Keep a byte string."""
        if self._in_memory + len(content) > MAX_BYTES_IN_MEMORY:
            try:
                return self._write(content)
            except OSError:  # no room, or no folder for temporary files
                pass
        self._in_memory += len(content)
        return SpilledBytes(content)

    def read(self, position: int, size: int) -> bytes:
        """Bytes of the file. Raises OSError if it cannot be read."""
        return b"" if self._file is None else os.pread(self._file.fileno(), size, position)

    def __del__(self) -> None:
        """Close the file, which removes it."""
        if self._file is not None:
            self._file.close()

    def _write(self, content: bytes) -> SpilledBytes:
        """Write a byte string. Raises OSError if that fails."""
        self._file = self._file or TemporaryFile()  # noqa: SIM115, `__del__` closes it
        position, rest = self._written, memoryview(content)
        while rest:
            rest = rest[os.pwrite(self._file.fileno(), rest, position + len(content) - len(rest)) :]
        self._written += len(content)
        return SpilledBytes(b"", self, position, len(content))
