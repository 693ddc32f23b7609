"""The files of a trace before any of it is read, and the choice among the files of a folder.

If a folder holds the same data twice, one file is chosen: of the two forms of an XLA profile, of several recordings of
a run, of memory timelines beside traces.
"""

from __future__ import annotations

import os
import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from tracehound.errors import TracehoundError
from tracehound.formats import Format
from tracehound.model.notes import Note
from tracehound.model.units import join_some


class TraceFile(Struct, frozen=True):
    """A file of the trace, and the format that will read it; with `devices` only its device events are read.

    `etag` tells versions of a bucket's object apart; empty for a file of this machine.
    """

    path: Path
    format: Format
    size: int
    compressed: bool = False
    devices: bool = False
    etag: str = ""


class FoundFiles(Struct, frozen=True):
    """The files found under some paths, and notes about what was skipped.

    `empty` are the paths without a trace; there is a note about each.
    """

    files: tuple[TraceFile, ...]
    notes: tuple[Note, ...]
    empty: tuple[Path, ...] = ()


_DIGITS = re.compile(r"([0-9]+)")


def natural_sort_key(path: Path) -> tuple[tuple[str | int, ...], str]:
    """A sort key of paths by which numbers in them count by value: ``rank2`` before ``rank10``."""
    text = str(path)
    chunks = _DIGITS.split(text)
    return tuple(int(piece) if at % 2 else piece for at, piece in enumerate(chunks)), text


_XLA_NAME = re.compile(r"(?P<host>.*)\.(?P<form>xplane\.pb|trace\.json)(\.gz)?")

TWIN_JSON_SKIPPED: Final = "twin_json_skipped"
"""The code of the note about trace.json files, which lie beside the xplane of every XLA profile."""


def choose_files(files: Sequence[TraceFile]) -> FoundFiles:
    """The files of a folder that are opened together, and notes about the others."""
    notes: list[Note] = []
    traces = [file for file in files if file.format.name != "memory_timeline"]
    if traces and len(traces) < len(files):
        beside = [file.path for file in files if file not in traces]
        notes.append(Note("info", "memory_timeline_beside_trace", len(beside), file=str(beside[0])))
    chosen = {file.path: file for file in _drop_json_twins(traces or files)}
    if twins := [file.path for file in traces if file.path not in chosen]:
        notes.append(Note("info", TWIN_JSON_SKIPPED, len(twins), file=twins[0].name))
    older, newer = other_recordings(list(chosen), lambda path: peek_rank(chosen[path]))
    if older:
        notes.append(Note("info", "older_recordings", len(older), file=str(older[-1])))
    if newer:
        notes.append(Note("inferred", "newer_recordings", len(newer), file=str(newer[-1])))
    left = {*older, *newer}
    return FoundFiles(tuple(file for path, file in chosen.items() if path not in left), tuple(notes))


def _drop_json_twins(files: Iterable[TraceFile]) -> list[TraceFile]:
    files = list(files)
    complete = {m["host"] for f in files if f.format.name == "xplane" and (m := _XLA_NAME.fullmatch(f.path.name))}
    return [
        f
        for f in files
        if not (f.format.name == "chrome" and (m := _XLA_NAME.fullmatch(f.path.name)) and m["host"] in complete)
    ]


def peek_rank(file: TraceFile) -> int | None:
    """The rank that a file records at its ends; None without one."""
    try:
        return file.format.reader.read_claims(file.path).rank
    except TracehoundError:
        return None


_CYCLE_FILE_NAME = re.compile(r"(?P<worker>.+)\.(?P<time>\d{13,19})\.pt\.trace\.json(\.gz)?")
"""A worker and the time of writing, in ms or ns: a repeating profiler schedule writes one file for each cycle."""

_WorkerRank = tuple[str, int | None]
"""A worker name and, if several files have it, a rank."""


def other_recordings(paths: Sequence[Path], claim: Callable[[Path], int | None]) -> tuple[list[Path], list[Path]]:
    """The files of older and of newer recordings than the one to open, sorted by time.

    The recording to open is the newest of those with most processes, so that no two ranks come from different
    recordings. The process with the most files gives the number of recordings and their times. A process with as many
    files has one in each recording, in order; a file of a process with fewer belongs to the recording that is nearest
    in time. Ranks with one worker name are separate processes: `claim` gives the rank that a file records.
    """
    processes = _files_by_process(paths, claim)
    times = [time for time, _ in max(processes.values(), key=len, default=[])]
    between = [(before + after) // 2 for before, after in pairwise(times)]
    recordings: list[dict[_WorkerRank, tuple[int, Path]]] = [{} for _ in times]
    for process, files in processes.items():
        for number, each in enumerate(files):
            at = number if len(files) == len(times) else bisect(between, each[0])
            recordings[at][process] = each
    opened = max(reversed(recordings), key=len, default={}).values()
    left = sorted(each for files in processes.values() for each in files if each not in opened)
    last = max(opened, default=(0,))[0]
    return [path for time, path in left if time <= last], [path for time, path in left if time > last]


def _files_by_process(
    paths: Sequence[Path], claim: Callable[[Path], int | None]
) -> dict[_WorkerRank, list[tuple[int, Path]]]:
    """The files of each process with their times of writing, sorted by time."""
    workers: dict[str, list[tuple[int, Path]]] = {}
    for path in paths:
        if match := _CYCLE_FILE_NAME.fullmatch(path.name):
            workers.setdefault(match["worker"], []).append((int(match["time"]), path))
    found: dict[_WorkerRank, list[tuple[int, Path]]] = {}
    for worker, files in workers.items():
        for each in sorted(files):
            found.setdefault((worker, claim(each[1]) if len(files) > 1 else None), []).append(each)
    return found


COMPARED_BYTES: Final = 1 << 16
"""Bytes that are compared at the beginning and at the end of a file."""


def notes_of_equal_files(sizes: Mapping[Path, int]) -> Iterator[Note]:
    """Notes about files that are copies of one another: equal in size and in the bytes at both ends.

    `sizes` are in bytes. Links to one file are no copies: a user makes them for ranks that share it.
    """
    by_size: dict[int, dict[tuple[int, int], Path]] = {}
    for path, size in sizes.items():
        with suppress(OSError):
            state = path.stat()
            by_size.setdefault(size, {}).setdefault((state.st_dev, state.st_ino), path)
    for size, files in by_size.items():
        alike: dict[bytes, list[Path]] = {}
        for path in files.values() if len(files) > 1 else ():
            with suppress(OSError), path.open("rb") as file:
                alike.setdefault(_hash_both_ends(file, size), []).append(path)
        for same in alike.values():
            if len(same) > 1:
                folder = os.path.commonpath(path.absolute().parent for path in same)
                names = join_some([os.path.relpath(path, folder) for path in same], 4)
                yield Note("inferred", "equal_files", len(same), file=names)


def _hash_both_ends(file: BinaryIO, size: int) -> bytes:
    """A hash of the bytes at both ends of a file."""
    first = file.read(COMPARED_BYTES)
    file.seek(max(size - COMPARED_BYTES, len(first)))
    return blake2b(first + file.read(COMPARED_BYTES), digest_size=16).digest()
