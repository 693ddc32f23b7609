"""Files of one trace that hold the same: a copy was left beside the file.

Owns how they are told. Knows nothing of what is inside.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from tracehound.trace import Note
from tracehound.units import several

ENDS: Final = 1 << 16
"""Bytes that are compared at the beginning of a file and at its end."""


def copies(sizes: Mapping[Path, int]) -> Iterator[Note]:
    """A note for the files, by their sizes in bytes, that equal one another: in size, and in the bytes at both ends.

    Links to one file are no copies: who made them wants ranks that share it.
    """
    common = Counter(sizes.values())
    alike: dict[tuple[int, bytes], dict[tuple[int, int], Path]] = {}
    for path, size in sizes.items():
        if common[size] > 1:
            with suppress(OSError), path.open("rb") as file:
                state = os.fstat(file.fileno())
                alike.setdefault((size, _ends(file, size)), {}).setdefault((state.st_dev, state.st_ino), path)
    for same in alike.values():
        if len(same) > 1:
            folder = os.path.commonpath(path.absolute().parent for path in same.values())
            names = several([os.path.relpath(path, folder) for path in same.values()], 4)
            yield Note("inferred", "equal files, each counted as ranks of its own: is one a copy?", len(same), names)


def _ends(file: BinaryIO, size: int) -> bytes:
    first = file.read(ENDS)
    file.seek(max(size - ENDS, len(first)))
    return first + file.read(ENDS)
