"""The files of a trace before any of it is read, and the choice among the files of a folder.

If a folder holds the same data twice, one file is chosen: of the two forms of an XLA profile, of a file and its copies,
of several recordings of a process, of memory timelines beside traces.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct
from msgspec.structs import replace

from tracehound.errors import TracehoundError
from tracehound.formats import Format
from tracehound.model.file_facts import PeekedFacts
from tracehound.model.notes import Note
from tracehound.model.units import join_some


class TraceFile(Struct, frozen=True):
    """A file of the trace, and the format that will read it; with `devices` only its device events are read.

    `etag` tells versions of a bucket's object apart; empty for a file of this machine. `rank` is recorded in a file
    beside it; None: in the file itself, if at all.
    """

    path: Path
    format: Format
    size: int
    compressed: bool = False
    devices: bool = False
    etag: str = ""
    rank: int | None = None


class FoundFiles(Struct, frozen=True):
    """The files found under some paths, and notes about what was skipped.

    `empty` are the paths without a trace; there is a note about each. `listed` are the files found in folders.
    `run_found` is true if the run that was asked for is there; `runs` are names of runs and recordings that are.
    """

    files: tuple[TraceFile, ...]
    notes: tuple[Note, ...]
    empty: tuple[Path, ...] = ()
    listed: frozenset[Path] = frozenset()
    run_found: bool = False
    runs: tuple[str, ...] = ()


RANK_PER_FILE_FORMAT: Final = "kineto"
"""The format whose files are written by one rank each; the devices of an XLA profile are numbered in order."""

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
    """The files of a folder that may be opened together, and notes about those that hold the same in another form."""
    notes: list[Note] = []
    traces = [file for file in files if file.format.name != "memory_timeline"]
    if traces and len(traces) < len(files):
        beside = [file.path for file in files if file not in traces]
        notes.append(Note("info", "memory_timeline_beside_trace", len(beside), file=str(beside[0])))
    chosen = _drop_json_twins(traces or files)
    kept = {file.path for file in chosen}
    if twins := [file.path for file in traces if file.path not in kept]:
        notes.append(Note("info", TWIN_JSON_SKIPPED, len(twins), file=twins[0].name))
    return FoundFiles(tuple(chosen), tuple(notes))


def _drop_json_twins(files: Iterable[TraceFile]) -> list[TraceFile]:
    files = list(files)
    complete = {m["host"] for f in files if f.format.name == "xplane" and (m := _XLA_NAME.fullmatch(f.path.name))}
    return [
        f
        for f in files
        if not (f.format.name == "chrome" and (m := _XLA_NAME.fullmatch(f.path.name)) and m["host"] in complete)
    ]


def xla_host(path: Path) -> str:
    """The name of the host in the name of a file of an XLA profile; empty without one."""
    match = _XLA_NAME.fullmatch(path.name)
    return "" if match is None else match["host"]


def peek(file: TraceFile) -> PeekedFacts:
    """The claims at the ends of a file; none if it cannot be read."""
    try:
        facts = file.format.reader.read_claims(file.path)
    except (TracehoundError, OSError):
        facts = PeekedFacts()
    return facts if file.rank is None else replace(facts, rank=file.rank)


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
        for alike in _group_by_hash(files.values(), _hash_start):
            for same in _group_by_hash(alike, partial(_hash_both_ends, size=size)):
                folder = os.path.commonpath(path.absolute().parent for path in same)
                names = join_some([os.path.relpath(path, folder) for path in same], 4)
                yield Note("inferred", "equal_files", len(same), file=names)


def _group_by_hash(paths: Collection[Path], hash_file: Callable[[BinaryIO], bytes]) -> list[list[Path]]:
    """The files in groups of several with one hash; one that cannot be read is in none."""
    groups: dict[bytes, list[Path]] = {}
    for path in paths if len(paths) > 1 else ():
        with suppress(OSError), path.open("rb") as file:
            groups.setdefault(hash_file(file), []).append(path)
    return [group for group in groups.values() if len(group) > 1]


def _hash_start(file: BinaryIO) -> bytes:
    """The first bytes of a file, which differ already in most files of a job."""
    return file.read(_BYTES_AT_START)


_BYTES_AT_START: Final = 1 << 12


def _hash_both_ends(file: BinaryIO, size: int) -> bytes:
    """A hash of the bytes at both ends of a file."""
    first = file.read(COMPARED_BYTES)
    file.seek(max(size - COMPARED_BYTES, len(first)))
    return blake2b(first + file.read(COMPARED_BYTES), digest_size=16).digest()
