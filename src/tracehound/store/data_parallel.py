"""Engines of a data-parallel server in one trace: each is a job of its own, with a rank 0 of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tracehound.model.trace import FileFrames
from tracehound.store.trace_files import RANK_PER_FILE_FORMAT

_ENGINE_NUMBER: Final = re.compile(
    r"(?<![a-z])(dp|engine|replica|instance|server|node|host)[-_. ]?(\d{1,6})(?!\d)", re.IGNORECASE
)


def ranks_of_engines(parts: Sequence[FileFrames], numbers: Sequence[Sequence[int]]) -> tuple[Mapping[int, int], ...]:
    """For each file the ranks of its engine: as the files record them, with the `numbers` that they have in the trace.

    Files are of one engine if their names, or their folders, have the same number of an engine, and each of them
    records another rank. Empty for files without such an engine, and if no rank is recorded twice.
    """
    found: list[Mapping[int, int]] = [{} for _ in parts]
    files = [
        (at, claim)
        for at, part in enumerate(parts)
        if part.format == RANK_PER_FILE_FORMAT and (claim := part.facts.rank) is not None and len(numbers[at]) == 1
    ]
    if len({claim for _, claim in files}) == len(files):
        return tuple(found)
    for name in (_number_in_name, _number_in_folder):
        engines = _group_files([parts[at].path for at, _ in files], name)
        ranks = [[files[at][1] for at in members] for members in engines]
        if len(engines) > 1 and all(len(set(each)) == len(each) for each in ranks) and max(map(len, ranks)) > 1:
            for members, recorded in zip(engines, ranks, strict=True):
                own = {rank: numbers[files[at][0]][0] for at, rank in zip(members, recorded, strict=True)}
                for at in members:
                    found[files[at][0]] = own
            break
    return tuple(found)


def _group_files(paths: Sequence[Path], name: Callable[[Path], Hashable]) -> list[list[int]]:
    """The files of each engine; none if a file names no engine."""
    engines: dict[Hashable, list[int]] = {}
    for at, path in enumerate(paths):
        engines.setdefault(name(path), []).append(at)
    return [] if None in engines else list(engines.values())


def _number_in_name(path: Path) -> Hashable:
    return tuple(_ENGINE_NUMBER.findall(path.name)) or None


def _number_in_folder(path: Path) -> Hashable:
    return tuple(_ENGINE_NUMBER.findall(path.parent.name)) or None
