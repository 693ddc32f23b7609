"""Which rank is which: what files claim, what their names say, else their order.

Owns the numbering of ranks. A number that no file recorded is marked as inferred.
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

from tracehound.notes import Note
from tracehound.store.natural import natural
from tracehound.trace import Part

RANKED = "kineto"
"""The format whose files are written by one rank of a job each; the devices of an XLA profile are counted through."""

_WORDS: Final = ("rank", "worker", "gpu", "device", "proc")
"""What stands before a number of a rank, the surest first."""

_NAMED = re.compile(rf"({'|'.join(_WORDS)})[-_. ]?(\d{{1,6}})(?!\d)", re.IGNORECASE)
_NUMBERED = re.compile(r"[-_](\d{1,6})(?=\.|$)")
_FOLDER = re.compile(r"(?:rank|worker|r|proc|node)?[-_]?(\d{1,6})", re.IGNORECASE)


class Numbering(Struct, frozen=True):
    """For each part the numbers of its ranks, in the order of its `ranks` frame, and whether they are inferred."""

    numbers: tuple[tuple[int, ...], ...]
    inferred: tuple[tuple[bool, ...], ...]
    notes: tuple[Note, ...]


def number(parts: Sequence[Part]) -> Numbering:
    """Number the ranks of all parts so that none repeats.

    A rank that its file records keeps that number. Files without one, of a single rank each, are numbered by their
    names (``rank3``, ``worker-3``, ``_3``, a folder ``r3``) if that gives distinct and plausible numbers, else in the
    order of their names, in which ``2`` is before ``10``. Files that claim one number are numbered by their names, too,
    if those tell and no other file claims what they say; else all but the first get numbers after all ranks of the job,
    so that they stand for none of them.

    Of a file with several devices the recorded rank, or that of its name, is the number of the device that does the
    work; what else it touched comes after all ranks of the job. A file that records the rank of each device has
    those. Without any its devices are counted through.
    """
    owners = [_owner(part) for part in parts]
    claimed = [_claim(part) for part in parts]
    named = _by_name([part.path for part in parts]) if len({*claimed} - {None}) < len(parts) else {}
    disputed = _disputed(parts, claimed, named)
    claims = [None if at in disputed else claim for at, claim in enumerate(claimed)]
    recorded = [
        [None] * part.ranks.height if at in disputed else part.ranks["rank"].to_list() for at, part in enumerate(parts)
    ]
    known = {rank for ranks in recorded for rank in ranks if rank is not None}
    world = max((_world(part) for part in parts), default=0)
    given = _Given(known, max(world, *(rank + 1 for rank in known | set(named.values()) if rank < _MOST), 0))
    numbers: list[tuple[int, ...]] = [()] * len(parts)
    again: dict[int, list[tuple[int, Path]]] = {}
    for at in sorted(range(len(parts)), key=lambda at: natural(parts[at].path)):
        claim, path = claims[at], parts[at].path
        mine = given.owner(recorded[at], owners[at], named.get(path) if claim is None else claim)
        if claim is None:
            given.recorded(mine, recorded[at])
        given.others(mine)
        numbers[at] = tuple(mine)
        for number, rank in zip(mine, recorded[at], strict=True):
            if rank is not None and rank not in mine:
                again.setdefault(rank, []).append((number, path))
    inferred = tuple(
        tuple(number != claim and part.format == RANKED for number, claim in zip(mine, part.ranks["rank"], strict=True))
        for part, mine in zip(parts, numbers, strict=True)
    )
    notes = (*_settled(parts, claimed, named, disputed), *_claimed(again), *_notes(parts, claimed, owners, named))
    return Numbering(tuple(numbers), inferred, notes)


def _disputed(parts: Sequence[Part], claims: Sequence[int | None], named: Mapping[Path, int]) -> frozenset[int]:
    """The files that claim a rank which another one claims, where their names tell others, which no file claims."""
    many = Counter(claims)
    found = frozenset(
        at
        for at, (part, claim) in enumerate(zip(parts, claims, strict=True))
        if claim is not None and many[claim] > 1 and part.format == RANKED
    )
    others = {rank for at, part in enumerate(parts) if at not in found for rank in part.ranks["rank"]}
    return found if named and others.isdisjoint(named[parts[at].path] for at in found) else frozenset()


def _settled(
    parts: Sequence[Part], claims: Sequence[int | None], named: Mapping[Path, int], disputed: frozenset[int]
) -> Iterator[Note]:
    """What is said of files that claim one rank and are numbered by their names."""
    for rank in sorted({claim for at in disputed if (claim := claims[at]) is not None}):
        paths = [parts[at].path for at in sorted(disputed) if claims[at] == rank]
        anew = sorted(named[path] for path in paths)
        values = (("rank", rank), ("files", len(paths)), ("ranks", tuple(anew)))
        yield Note("inferred", "rank_claimed_numbered_by_names", len(paths), file=str(paths[0]), values=values)


class _Given:
    """Which numbers are given, file after file: those that any file records are kept for it, others lie `behind`."""

    def __init__(self, known: set[int], behind: int) -> None:
        self._known = known
        self._behind = behind
        self._taken: set[int] = set()

    def owner(self, ranks: Sequence[int | None], owner: int | None, wanted: int | None) -> list[int]:
        """Numbers for the ranks of a file, -1 for all but its owner, who has the wanted one unless another has it."""
        mine = [-1] * len(ranks)
        if owner is not None and wanted is not None:
            (mine[owner],) = self._free(1, self._behind) if wanted in self._taken else (wanted,)
            self._taken.add(mine[owner])
        return mine

    def recorded(self, mine: list[int], ranks: Sequence[int | None]) -> None:
        """Each rank that the file records has that number, unless another has it."""
        for row, rank in enumerate(ranks):
            if rank is not None and rank not in self._taken:
                mine[row] = rank
                self._taken.add(rank)

    def others(self, mine: list[int]) -> None:
        """What has no number yet: after all ranks of the job if anything of the file has one, else the lowest ones."""
        others = [row for row, number in enumerate(mine) if number < 0]
        after = self._behind if len(others) < len(mine) else 0
        for row, number in zip(others, self._free(len(others), after), strict=True):
            mine[row] = number
        self._taken.update(mine)

    def _free(self, size: int, first: int) -> Iterator[int]:
        """The lowest numbers from `first` on that nobody has or claims."""
        barred = self._taken | self._known
        return islice((number for number in count(first) if number not in barred), size)


def _claimed(again: Mapping[int, Sequence[tuple[int, Path]]]) -> Iterator[Note]:
    """What is said of files that claim a rank which another has, given the numbers that they got."""
    for rank, files in again.items():
        values = (("rank", rank), ("files", len(files) + 1), ("ranks", tuple(number for number, _ in files)))
        yield Note("inferred", "rank_claimed_numbered_anew", len(files), file=str(files[0][1]), values=values)


_STRAY: Final = 100
"""A device with so many times fewer events than another of the same process is not what the process works on."""


def _owner(part: Part) -> int | None:
    """The row of the part's ranks that a rank of the whole file is the number of; None where none stands out."""
    recorded = part.ranks["rank"].is_not_null().arg_true()
    if part.ranks.height == 1 or len(recorded) == 1:
        return int(recorded[0]) if len(recorded) else 0
    if part.format != RANKED:
        return None
    work = part.lanes.filter("work", pl.col("rank").is_not_null()).group_by("rank").agg(pl.col("events").sum())
    ordered = work.sort("events", "rank", descending=[True, False])
    if ordered.height < 2 or ordered["events"][0] < _STRAY * ordered["events"][1]:
        return None
    return int(ordered["rank"][0])


def _claim(part: Part) -> int | None:
    """The rank that the file records."""
    recorded = part.ranks["rank"].drop_nulls()
    return int(recorded[0]) if len(recorded) == 1 else None


def _world(part: Part) -> int:
    """How many ranks the job has, as far as the file says."""
    world = part.facts.world_size
    return world if world is not None and 0 <= world < _MOST else 0


UNRANKED: Final = "ranks_not_recorded"
UNLIKE: Final = "devices_differ"
"""The notes of files that do not say their ranks, and of devices that differ."""

_MOST: Final = 1 << 24
"""No job has so many ranks."""


def _notes(
    parts: Sequence[Part], claims: Sequence[int | None], owners: Sequence[int | None], named: Mapping[Path, int]
) -> Iterator[Note]:
    """What is to be said of ranks that no file records."""
    files = [at for at, part in enumerate(parts) if part.format == RANKED]
    silent = [at for at in files if claims[at] is None and owners[at] is not None]
    if silent and len(parts) > 1:
        values = (("from_names", bool(named)),)
        yield Note("inferred", UNRANKED, len(silent), file=str(parts[silent[0]].path), values=values)
    mixed = [at for at in files if parts[at].ranks.height > 1 and parts[at].ranks["rank"].null_count()]
    for code, chosen in (("devices_of_one_rank", True), ("devices_without_rank", False)):
        found = [at for at in mixed if (owners[at] is not None and (claims[at] is not None or bool(named))) == chosen]
        if found:
            yield Note("inferred", code, len(found), file=str(parts[found[0]].path))
    models = list(dict.fromkeys(model for at in files for model in parts[at].ranks["model"].drop_nulls()))
    if len(models) > 1 and silent:
        yield Note("inferred", UNLIKE, len(models), values=(("models", tuple(models)),))


def _by_name(paths: Sequence[Path]) -> dict[Path, int]:
    """A number for each path, or nothing where names do not tell: not all have one, or two have the same.

    A bare number (``host_851``) is as often a process id; it counts only among several files, whose numbers are dense.
    """
    for found in _by_words(paths):
        if _tell(found, paths):
            return found
    bare = {path: int(match[1]) for path in paths if len(paths) > 1 and (match := _NUMBERED.search(path.name))}
    folders = {path: int(match[1]) for path in paths for match in [_in_folder(path)] if match}
    for found in (bare, folders):
        if _tell(found, paths) and max(found.values()) < 2 * len(paths):
            return found
    return {}


def _by_words(paths: Sequence[Path]) -> Iterator[dict[Path, int]]:
    """What names may mean: the number behind one word in all of them, else behind the surest word in each.

    Of several behind one word the last, else the first: ``rank0_of_rank8``.
    """
    said = {path: [(word.lower(), int(digits)) for word, digits in _NAMED.findall(path.name)] for path in paths}
    for word in _WORDS:
        mine = {path: [number for by, number in found if by == word] for path, found in said.items()}
        for place in (-1, 0):
            yield {path: numbers[place] for path, numbers in mine.items() if numbers}
    yield {
        path: min(reversed(found), key=lambda each: _WORDS.index(each[0]))[1] for path, found in said.items() if found
    }


def _in_folder(path: Path) -> re.Match[str] | None:
    for parent in path.parents:
        if (match := _FOLDER.fullmatch(parent.name)) and not _is_run(parent):
            return match
    return None


def _is_run(folder: Path) -> bool:
    """Whether it is a run of a TensorBoard log folder, whose name may be anything."""
    return folder.absolute().parts[-3:-1] == ("plugins", "profile")


def _tell(found: dict[Path, int], paths: Sequence[Path]) -> bool:
    return bool(found) and len(found) == len(paths) and max(Counter(found.values()).values()) == 1
