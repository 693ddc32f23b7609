"""Which rank is which: what files claim, what their names say, else their order.

Owns the numbering of ranks. A number that no file recorded is marked as inferred.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracehound.store.natural import natural
from tracehound.trace import Note, Part

RANKED = "kineto"
"""The format whose files are written by one rank of a job each; the devices of an XLA profile are counted through."""

_WORDS: Final = ("rank", "worker", "gpu", "device", "proc")
"""What stands before a number of a rank, the surest first."""

_NAMED = re.compile(rf"({'|'.join(_WORDS)})[-_. ]?(\d{{1,6}})(?!\d)", re.IGNORECASE)
_NUMBERED = re.compile(r"[-_](\d{1,6})(?=\.|$)")
_FOLDER = re.compile(r"(?:rank|worker|r|proc|node)?[-_]?(\d{1,6})", re.IGNORECASE)


@dataclass(frozen=True)
class Numbering:
    """For each part the numbers of its ranks, in the order of its `ranks` frame, and whether they are inferred."""

    numbers: tuple[tuple[int, ...], ...]
    inferred: tuple[bool, ...]
    notes: tuple[Note, ...]


def number(parts: Sequence[Part]) -> Numbering:
    """Number the ranks of all parts so that none repeats.

    A rank that its file records keeps that number. Files without one, of a single rank each, are numbered by their
    names (``rank3``, ``worker-3``, ``_3``, a folder ``r3``) if that gives distinct and plausible numbers, else in the
    order of their names, in which ``2`` is before ``10``. Of two files that claim one number the second is renumbered.
    """
    claims = [_claim(part) for part in parts]
    named = _by_name([part.path for part in parts]) if None in claims else {}
    taken: set[int] = set()
    numbers: list[tuple[int, ...]] = [()] * len(parts)
    notes: list[Note] = []
    for at in sorted(range(len(parts)), key=lambda at: natural(parts[at].path)):
        part, claim = parts[at], claims[at]
        wanted = claim if claim is not None else named.get(part.path)
        fits = part.ranks.height == 1 and wanted is not None and wanted not in taken
        mine = (wanted,) if fits and wanted is not None else _free(taken, claims, part.ranks.height)
        if claim is not None and mine != (claim,):
            text = f"rank {claim} is claimed by several files; numbered {mine[0]}"
            notes.append(Note("inferred", text, 1, str(part.path)))
        taken.update(mine)
        numbers[at] = mine
    inferred = tuple(
        mine != (claim,) and part.format == RANKED for part, claim, mine in zip(parts, claims, numbers, strict=True)
    )
    silent = [part.path for part, claim in zip(parts, claims, strict=True) if claim is None and part.format == RANKED]
    if silent and len(parts) > 1:
        how = "from the file name" if named else "from the order of the files' names"
        notes.append(Note("inferred", f"no rank recorded in the file: taken {how}", len(silent), str(silent[0])))
    return Numbering(tuple(numbers), inferred, tuple(notes))


def _claim(part: Part) -> int | None:
    return part.ranks["rank"][0] if part.ranks.height == 1 else None


def _free(taken: set[int], claims: Sequence[int | None], size: int) -> tuple[int, ...]:
    """The lowest numbers that no rank has and no file claims."""
    reserved = taken | {claim for claim in claims if claim is not None}
    free: list[int] = []
    candidate = 0
    while len(free) < size:
        if candidate not in reserved:
            free.append(candidate)
        candidate += 1
    return tuple(free)


def _by_name(paths: Sequence[Path]) -> dict[Path, int]:
    """A number for each path, or nothing where names do not tell: not all have one, or two have the same.

    A bare number (``host_851``) is as often a process id; it counts only where the numbers of all files are dense.
    """
    for found in _by_words(paths):
        if _tell(found, paths):
            return found
    bare = {path: int(match[1]) for path in paths if (match := _NUMBERED.search(path.name))}
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
        if match := _FOLDER.fullmatch(parent.name):
            return match
    return None


def _tell(found: dict[Path, int], paths: Sequence[Path]) -> bool:
    return bool(found) and len(found) == len(paths) and max(Counter(found.values()).values()) == 1
