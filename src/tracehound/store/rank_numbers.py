"""The numbers of ranks: as files record them, else from file names, else in the order of files.

A number that no file records is marked as inferred.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Final

import polars as pl
from msgspec import Struct

from tracehound.errors import URL_FOLDER
from tracehound.model.notes import Note, NoteValue, other_files_text
from tracehound.model.trace import FileFrames
from tracehound.store.trace_files import RANK_PER_FILE_FORMAT, natural_sort_key

_RANK_WORDS: Final = ("rank", "worker", "gpu", "device", "proc")
"""Words before the number of a rank in a file name, the most reliable first."""

_WORD_AND_NUMBER = re.compile(rf"({'|'.join(_RANK_WORDS)})[-_. ]?(\d{{1,6}})(?!\d)", re.IGNORECASE)
_TRAILING_NUMBER = re.compile(r"[-_](\d{1,6})(?=\.|$)")
_RANK_FOLDER_NAME = re.compile(r"(?:rank|worker|r|proc|node)?[-_]?(\d{1,6})", re.IGNORECASE)


class RankNumbers(Struct, frozen=True):
    """The rank numbers of each file, in the order of its `ranks` frame, and which of them are inferred."""

    numbers: tuple[tuple[int, ...], ...]
    inferred: tuple[tuple[bool, ...], ...]
    notes: tuple[Note, ...]


def number_ranks(parts: Sequence[FileFrames]) -> RankNumbers:
    """Number the ranks of all files so that no number repeats.

    A rank that its file records keeps that number. Files without one, of a single rank each, are numbered by their
    names (``rank3``, ``worker-3``, ``_3``, a folder ``r3``) if that gives distinct and plausible numbers, else in the
    natural order of their names. Files that record the same number are numbered by their names, too, if the names give
    other numbers that no file records; else all but the first get numbers after all ranks of the job, so that they are
    taken for none of them.

    In a file with several devices, the recorded rank, or that of the name, is the number of the device that does the
    work; its other devices get numbers after all ranks of the job. A file that records the rank of each device keeps
    those. Without any recorded rank the devices are numbered in order.
    """
    owners = [_owner_row(part) for part in parts]
    claimed = [_recorded_rank(part) for part in parts]
    named = (
        _ranks_by_name([part.path for part in parts if part.ranks.height])
        if len({*claimed} - {None}) < len(parts)
        else {}
    )
    disputed = _find_disputed_files(parts, claimed, named)
    claims = [None if at in disputed else claim for at, claim in enumerate(claimed)]
    recorded = [
        [None] * part.ranks.height if at in disputed else part.ranks["rank"].to_list() for at, part in enumerate(parts)
    ]
    known = {rank for ranks in recorded for rank in ranks if rank is not None}
    world = max((_world_size(part) for part in parts), default=0)
    allocator = _NumberAllocator(
        known, max(world, *(rank + 1 for rank in known | set(named.values()) if rank < _MAX_RANKS), 0)
    )
    numbers: list[tuple[int, ...]] = [()] * len(parts)
    renumbered: dict[int, list[tuple[int, Path]]] = {}
    for at in sorted(range(len(parts)), key=lambda at: natural_sort_key(parts[at].path)):
        claim, path = claims[at], parts[at].path
        given = allocator.assign_owner(recorded[at], owners[at], named.get(path) if claim is None else claim)
        if claim is None:
            allocator.assign_recorded(given, recorded[at])
        allocator.assign_others(given)
        numbers[at] = tuple(given)
        for number, rank in zip(given, recorded[at], strict=True):
            if rank is not None and rank not in given:
                renumbered.setdefault(rank, []).append((number, path))
    inferred = tuple(
        tuple(
            number != claim and part.format == RANK_PER_FILE_FORMAT
            for number, claim in zip(given, part.ranks["rank"], strict=True)
        )
        for part, given in zip(parts, numbers, strict=True)
    )
    notes = (
        *_notes_of_numbers_by_name(parts, claimed, named, disputed),
        *_notes_of_new_numbers(renumbered),
        *_notes_of_unrecorded_ranks(parts, claimed, owners, named),
    )
    return RankNumbers(tuple(numbers), inferred, notes)


def _find_disputed_files(
    parts: Sequence[FileFrames], claims: Sequence[int | None], named: Mapping[Path, int]
) -> frozenset[int]:
    """The files that record the rank of another one, if the names of all give numbers that no other file records."""
    many = Counter(claims)
    found = frozenset(
        at
        for at, (part, claim) in enumerate(zip(parts, claims, strict=True))
        if claim is not None and many[claim] > 1 and part.format == RANK_PER_FILE_FORMAT
    )
    others = {rank for at, part in enumerate(parts) if at not in found for rank in part.ranks["rank"]}
    return found if named and others.isdisjoint(named[parts[at].path] for at in found) else frozenset()


def _notes_of_numbers_by_name(
    parts: Sequence[FileFrames], claims: Sequence[int | None], named: Mapping[Path, int], disputed: frozenset[int]
) -> Iterator[Note]:
    """Notes about files that record the same rank and are numbered by their names."""
    for rank in sorted({claim for at in disputed if (claim := claims[at]) is not None}):
        paths = [parts[at].path for at in sorted(disputed) if claims[at] == rank]
        anew = sorted(named[path] for path in paths)
        values = (("rank", rank), ("files", len(paths)), ("ranks", tuple(anew)))
        yield Note("inferred", RANKS_CLAIMED_TWICE[0], len(paths), file=str(paths[0]), values=values)


class _NumberAllocator:
    """Gives numbers to ranks, file after file.

    Recorded numbers stay reserved; extra devices get numbers after all ranks.
    """

    def __init__(self, recorded: set[int], first_extra: int) -> None:
        self._recorded = recorded
        self._first_extra = first_extra
        self._taken: set[int] = set()

    def assign_owner(self, ranks: Sequence[int | None], owner: int | None, wanted: int | None) -> list[int]:
        """Numbers for the ranks of a file: for its owner the wanted number if that is free, -1 for all others."""
        given = [-1] * len(ranks)
        if owner is not None and wanted is not None:
            (given[owner],) = self._free_numbers(1, self._first_extra) if wanted in self._taken else (wanted,)
            self._taken.add(given[owner])
        return given

    def assign_recorded(self, given: list[int], ranks: Sequence[int | None]) -> None:
        """Give each recorded rank its number, unless that is taken."""
        for row, rank in enumerate(ranks):
            if rank is not None and rank not in self._taken:
                given[row] = rank
                self._taken.add(rank)

    def assign_others(self, given: list[int]) -> None:
        """Number the remaining ranks: after all ranks of the job if the file has a numbered one, else from 0 on."""
        others = [row for row, number in enumerate(given) if number < 0]
        after = self._first_extra if len(others) < len(given) else 0
        for row, number in zip(others, self._free_numbers(len(others), after), strict=True):
            given[row] = number
        self._taken.update(given)

    def _free_numbers(self, size: int, first: int) -> Iterator[int]:
        """The lowest numbers from `first` on that are neither taken nor recorded."""
        unavailable = self._taken | self._recorded
        return islice((number for number in count(first) if number not in unavailable), size)


def _notes_of_new_numbers(renumbered: Mapping[int, Sequence[tuple[int, Path]]]) -> Iterator[Note]:
    """Notes about files that record a rank which another file has, with the numbers that they got instead."""
    for rank, files in renumbered.items():
        values = (("rank", rank), ("files", len(files) + 1), ("ranks", tuple(number for number, _ in files)))
        yield Note("inferred", RANKS_CLAIMED_TWICE[1], len(files), file=str(files[0][1]), values=values)


_STRAY_DEVICE_RATIO: Final = 100
"""A device with this many times fewer events than another of its process is not the one that the process works on."""


def _owner_row(part: FileFrames) -> int | None:
    """The row of the file's ranks that gets the rank recorded for the whole file; None if no device stands out."""
    recorded = [row for row, rank in enumerate(part.ranks["rank"].to_list()) if rank is not None]
    if part.ranks.height == 1 or len(recorded) == 1:
        return recorded[0] if recorded else 0
    if part.format != RANK_PER_FILE_FORMAT:
        return None
    work = part.lanes.filter("work", pl.col("rank").is_not_null()).group_by("rank").agg(pl.col("events").sum())
    ordered = work.sort("events", "rank", descending=[True, False])
    if ordered.height < 2 or ordered["events"][0] < _STRAY_DEVICE_RATIO * ordered["events"][1]:
        return None
    return int(ordered["rank"][0])


def _recorded_rank(part: FileFrames) -> int | None:
    """The one rank that the file records; None without one."""
    recorded = [rank for rank in part.ranks["rank"].to_list() if rank is not None]
    return recorded[0] if len(recorded) == 1 else None


def _world_size(part: FileFrames) -> int:
    """The number of ranks of the job, if the file records it; else 0."""
    world = part.facts.world_size
    return world if world is not None and 0 <= world < _MAX_RANKS else 0


RANKS_NOT_RECORDED: Final = "ranks_not_recorded"
DEVICES_DIFFER: Final = "devices_differ"
"""The codes of the notes about files without ranks, and about devices of different models."""

RANKS_CLAIMED_TWICE: Final = ("rank_claimed_numbered_by_names", "rank_claimed_numbered_anew")
"""The codes of the notes about files that record the rank of another one."""

_MAX_RANKS: Final = 1 << 24
"""No job has so many ranks."""


def _notes_of_unrecorded_ranks(
    parts: Sequence[FileFrames], claims: Sequence[int | None], owners: Sequence[int | None], named: Mapping[Path, int]
) -> Iterator[Note]:
    """Notes about ranks that no file records."""
    files = [at for at, part in enumerate(parts) if part.format == RANK_PER_FILE_FORMAT]
    silent = [at for at in files if claims[at] is None and owners[at] is not None]
    if silent and len(parts) > 1:
        values = (("from_names", bool(named)),)
        yield _note_on_files(RANKS_NOT_RECORDED, [parts[at].path for at in silent], values)
    mixed = [at for at in files if parts[at].ranks.height > 1 and parts[at].ranks["rank"].null_count()]
    for code, chosen in (("devices_of_one_rank", True), ("devices_without_rank", False)):
        found = [at for at in mixed if (owners[at] is not None and (claims[at] is not None or bool(named))) == chosen]
        if found:
            yield _note_on_files(code, [parts[at].path for at in found])
    models = list(
        dict.fromkeys(model for at in files for model in parts[at].ranks["model"].to_list() if model is not None)
    )
    if len(models) > 1 and silent:
        yield Note("inferred", DEVICES_DIFFER, len(models), values=(("models", tuple(models)),))


def _note_on_files(code: str, paths: Sequence[Path], values: tuple[tuple[str, NoteValue], ...] = ()) -> Note:
    """A note on several files, of which it names the first."""
    where = other_files_text(len(paths))
    return Note("inferred", code, len(paths), file=str(paths[0]), where=where, values=values)


def _ranks_by_name(paths: Sequence[Path]) -> dict[Path, int]:
    """A rank number for each path by its name; empty if some have none, or two have the same.

    A number without a word (``host_851``) is often a process id; it counts only among several files with dense numbers.
    """
    for found in _ranks_by_words(paths):
        if _are_distinct(found, paths):
            return found
    bare = {path: int(match[1]) for path in paths if len(paths) > 1 and (match := _TRAILING_NUMBER.search(path.name))}
    folders = {path: int(match[1]) for path in paths for match in [_match_rank_folder(path)] if match}
    for found in (bare, folders):
        if _are_distinct(found, paths) and max(found.values()) < 2 * len(paths):
            return found
    return {}


def _ranks_by_words(paths: Sequence[Path]) -> Iterator[dict[Path, int]]:
    """Possible rank numbers of all paths: the number after one word in all of them, else after the best word in each.

    Of several numbers after one word first the last is tried, then the first: ``rank0_of_rank8``.
    """
    said = {
        path: [(word.lower(), int(digits)) for word, digits in _WORD_AND_NUMBER.findall(path.name)] for path in paths
    }
    for word in _RANK_WORDS:
        given = {path: [number for by, number in found if by == word] for path, found in said.items()}
        for place in (-1, 0):
            yield {path: numbers[place] for path, numbers in given.items() if numbers}
    yield {
        path: min(reversed(found), key=lambda each: _RANK_WORDS.index(each[0]))[1]
        for path, found in said.items()
        if found
    }


def _match_rank_folder(path: Path) -> re.Match[str] | None:
    for parent in path.parents:
        if parent.name == URL_FOLDER:  # folders above are those of the cache
            return None
        if (match := _RANK_FOLDER_NAME.fullmatch(parent.name)) and not _is_run_folder(parent):
            return match
    return None


def _is_run_folder(folder: Path) -> bool:
    """True for a run of a TensorBoard log folder, whose name may be anything."""
    return folder.absolute().parts[-3:-1] == ("plugins", "profile")


def _are_distinct(found: dict[Path, int], paths: Sequence[Path]) -> bool:
    return bool(found) and len(found) == len(paths) and max(Counter(found.values()).values()) == 1
