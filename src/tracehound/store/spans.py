"""Recordings of one process, one after the other: of these the newest is opened.

Owns how they are told: by the names that PyTorch's handler for TensorBoard gives, where workers have spans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

_SPAN = re.compile(r"(?P<worker>.+)\.(?P<time>\d{13,19})\.pt\.trace\.json(\.gz)?")
"""A worker and when its file was written, in ms or ns: a schedule that repeats leaves one for each cycle."""


def older(paths: Sequence[Path], claim: Callable[[Path], int | None]) -> list[Path]:
    """Those of the files of a folder of which there is a newer one of the same worker, in the order of time.

    Ranks that were given one name are workers of their own: `claim` tells the rank that a file records.
    """
    spans: dict[str, list[tuple[int, Path]]] = {}
    for path in paths:
        if match := _SPAN.fullmatch(path.name):
            spans.setdefault(match["worker"], []).append((int(match["time"]), path))
    found: list[tuple[int, Path]] = []
    for files in spans.values():
        last: dict[int | None, tuple[int, Path]] = {}
        for each in sorted(files) if len(files) > 1 else ():
            rank = claim(each[1])
            if rank in last:
                found.append(last[rank])
            last[rank] = each
    return [path for _, path in sorted(found)]
