"""Words and numbers in the names of files: those of processes, times, copies and folders of torch_npu."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

_PROCESS_WORD: Final = re.compile(
    r"(?<![a-z])(rank|worker|gpu|device|proc|node|host|replica|engine|tp|pp|dp)[-_. ]?(\d{1,6})(?!\d)", re.IGNORECASE
)
_TRAILING_NUMBER: Final = re.compile(r"[-_](\d{1,6})(?=\.|$)")
_DATED_NAME: Final = re.compile(r"(?P<worker>.+)\.(?P<time>\d{13,19})\.pt\.trace\.json(\.gz)?")
"""A worker and the time of writing, in ms or ns: a repeating profiler schedule writes one file for each cycle."""

_DERIVED: Final = re.compile(
    r"\(\d+\)|(?:^|[^a-z])cop(?:y|ie)|counters|overlaid|merged|fused|combined|filtered|backup|old(?![a-z])|\.\d+$",
    re.IGNORECASE,
)
_WORDS: Final = re.compile(r"[^-_. ()]+")


_ASCEND_FOLDER: Final = re.compile(r"(?P<worker>.+)_(?P<time>\d{13,19})_ascend_pt")
"""The folder of one recording by torch_npu: worker and time."""

ASCEND_OUTPUT: Final = "ASCEND_PROFILER_OUTPUT"
"""The folder with the results in the folder of a recording by torch_npu."""


def ascend_folder(path: Path) -> Path | None:
    """The folder of the recording by torch_npu that a file is of; None without one."""
    parents = path.absolute().parents
    return parents[1] if len(parents) > 1 and parents[0].name == ASCEND_OUTPUT else None


def is_ascend_folder(folder: Path) -> bool:
    """True for the name of a folder of one recording by torch_npu."""
    return _ASCEND_FOLDER.fullmatch(folder.name) is not None


def dated_name(path: Path) -> tuple[str, int] | None:
    """The worker and the time of writing in a name such as ``vm_7.1795659017154.pt.trace.json``; None without them."""
    match = _DATED_NAME.fullmatch(path.name)
    if match is None and (folder := ascend_folder(path)):
        match = _ASCEND_FOLDER.fullmatch(folder.name)
    return None if match is None else (match["worker"], int(match["time"]))


def process_words(path: Path) -> tuple[tuple[str, int], ...]:
    """The numbers of ranks, nodes and the like in the name of a file, each with its word."""
    return tuple((word.lower(), int(number)) for word, number in _PROCESS_WORD.findall(path.name))


def name_different_processes(one: Path, other: Path) -> bool:
    """True if the names of two files tell them apart as files of different processes: their folders, or ranks."""
    first, second = _parse_name(one), _parse_name(other)
    if first.folder != second.folder:
        return True
    if any(second.words.get(word, number) != number for word, number in first.words.items()):
        return True
    if first.worker and second.worker:
        return first.worker != second.worker
    return bool(first.numbers and second.numbers) and first.numbers != second.numbers


class _ParsedName(NamedTuple):
    """The folder of a file, the process words and the worker in its name, and the numbers after its words."""

    folder: Path
    words: Mapping[str, int]
    worker: str
    numbers: Sequence[str]


@lru_cache(1 << 12)  # a file is compared with all others of its process
def _parse_name(path: Path) -> _ParsedName:
    worker, _ = dated_name(path) or ("", 0)
    return _ParsedName(path.parent, dict(process_words(path)), worker, _TRAILING_NUMBER.findall(path.name))


def is_name_of_copy(one: Path, other: Path) -> bool:
    """True if one of two names has all words of the other, as that of a copy has: ``rank0 (1).json``."""
    first, second = (set(_WORDS.findall(path.name)) for path in (one, other))
    return first <= second or second <= first


def original_sort_key(path: Path) -> tuple[bool, int, str]:
    """A sort key by which the name of an original comes before those of its copies."""
    return _DERIVED.search(path.name) is not None, len(path.name), path.name
