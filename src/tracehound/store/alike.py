"""Files of one trace that hold the same: a copy was left beside the file.

Owns how they are told. Knows nothing of what is inside.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final

from tracehound.notes import Note
from tracehound.units import several

ENDS: Final = 1 << 16
"""Bytes that are compared at the beginning of a file and at its end."""


def copies(sizes: Mapping[Path, int]) -> Iterator[Note]:
    """A note for the files, by their sizes in bytes, that equal one another: in size, and in the bytes at both ends.

    Links to one file are no copies: who made them wants ranks that share it.
    """
    of_size: dict[int, dict[tuple[int, int], Path]] = {}
    for path, size in sizes.items():
        with suppress(OSError):
            state = path.stat()
            of_size.setdefault(size, {}).setdefault((state.st_dev, state.st_ino), path)
    for size, files in of_size.items():
        alike: dict[bytes, list[Path]] = {}
        for path in files.values() if len(files) > 1 else ():
            with suppress(OSError), path.open("rb") as file:
                alike.setdefault(_ends(file, size), []).append(path)
        for same in alike.values():
            if len(same) > 1:
                folder = os.path.commonpath(path.absolute().parent for path in same)
                names = several([os.path.relpath(path, folder) for path in same], 4)
                yield Note("inferred", "equal_files", len(same), file=names)


def _ends(file: BinaryIO, size: int) -> bytes:
    """What is at both ends of a file, in short."""
    first = file.read(ENDS)
    file.seek(max(size - ENDS, len(first)))
    return blake2b(first + file.read(ENDS), digest_size=16).digest()
