"""Recordings of one run, one after the other: of these one is opened, the newest that no process lacks.

Owns how they are told: by the names that PyTorch's handler for TensorBoard gives, where workers have spans.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

_SPAN = re.compile(r"(?P<worker>.+)\.(?P<time>\d{13,19})\.pt\.trace\.json(\.gz)?")
"""A worker and when its file was written, in ms or ns: a schedule that repeats leaves one for each cycle."""

_Process = tuple[str, int | None]
"""A worker and, where several files bear its name, a rank."""


def others(paths: Sequence[Path], claim: Callable[[Path], int | None]) -> tuple[list[Path], list[Path]]:
    """Those of the files of a folder that are of an older and of a newer recording than the one to open, by their time.

    That is the one of most processes, and of such the newest, so that no two ranks come from different recordings. A
    process that left most files tells how many recordings there are, and when. The files of another that left as many
    are of these in their order; a file of one that left fewer is of that which was written nearest to it in time. Ranks
    that were given one name are processes of their own: `claim` tells the rank that a file records.
    """
    processes = _processes(paths, claim)
    times = [time for time, _ in max(processes.values(), key=len, default=[])]
    between = [(before + after) // 2 for before, after in pairwise(times)]
    recordings: list[dict[_Process, tuple[int, Path]]] = [{} for _ in times]
    for process, files in processes.items():
        for number, each in enumerate(files):
            at = number if len(files) == len(times) else bisect(between, each[0])
            recordings[at][process] = each
    opened = max(reversed(recordings), key=len, default={}).values()
    left = sorted(each for files in processes.values() for each in files if each not in opened)
    last = max(opened, default=(0,))[0]
    return [path for time, path in left if time <= last], [path for time, path in left if time > last]


def _processes(paths: Sequence[Path], claim: Callable[[Path], int | None]) -> dict[_Process, list[tuple[int, Path]]]:
    """The files of each process and when they were written, in the order of time."""
    workers: dict[str, list[tuple[int, Path]]] = {}
    for path in paths:
        if match := _SPAN.fullmatch(path.name):
            workers.setdefault(match["worker"], []).append((int(match["time"]), path))
    found: dict[_Process, list[tuple[int, Path]]] = {}
    for worker, files in workers.items():
        for each in sorted(files):
            found.setdefault((worker, claim(each[1]) if len(files) > 1 else None), []).append(each)
    return found
