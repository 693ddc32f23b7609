"""Whose the processes of a Kineto file are, where the files of several ranks were merged into one.

Owns how those who merge files mark what is whose. Knows no events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from tracehound.formats.kineto.elements import Id

_MARK: Final = re.compile(
    r"\[(?P<bracketed>[^\[\]]{1,80})\]\s*+(?=\S)|(?P<ranked>ranks?[ _.-]?\d{1,6}(?:[,-]\d{1,6})*)"
    r"(?:\s*+[:|/_-]\s*+|[^\S ]*+ \s*+)(?=\S)",
    re.IGNORECASE,
)
"""What stands before the id or the name of a process: ``[TP03] 4711``, ``[DP00-TP01] 0``, ``rank 3: python``."""

_NUMBERS: Final = re.compile(r"\d+")

_LONGEST_RANK: Final = 8
"""A number of so many digits is a date, or an id of something else."""


class Members(Struct, frozen=True):
    """The runs that a file was merged of, by their marks, in order, and to which of them each process belongs.

    A file that nobody merged is one, without a mark; a piece of a merged one may be one with a mark.
    """

    marks: tuple[str, ...] = ("",)
    of: Mapping[Id, int] | None = None

    @property
    def marked(self) -> bool:
        """Whether the file was merged: what it records of its run need not be true of all of it."""
        return self.of is not None

    @property
    def several(self) -> bool:
        """Whether there are more than one."""
        return len(self.marks) > 1

    def member(self, process: Id) -> int:
        """The number of the run of a process; one without events and without a mark in its id is of the first."""
        if self.of is None:
            return 0
        mark = _mark(process)
        return self.of.get(process, self.marks.index(mark) if mark in self.marks else 0)

    @property
    def ranks(self) -> tuple[int | None, ...]:
        """The rank of each: the one number in its mark, where all have one that is no other's; else unknown."""
        said = [_NUMBERS.findall(mark) for mark in self.marks]
        numbers = [int(found[0]) for found in said if len(found) == 1 and len(found[0]) < _LONGEST_RANK]
        return tuple(numbers) if len(set(numbers)) == len(said) else (None,) * len(said)


def members(processes: Iterable[Id], names: Mapping[Id, str]) -> Members:
    """Whose these processes, of which all have events, are; `names` are those that the file gives them.

    They are of several runs where each has a mark, in its id or before its name, and these differ. They are of one that
    was merged with others where all have one with a number in their ids; a name may be the title that a program gave
    itself.
    """
    marks = {process: _mark(process) or _mark(names.get(process)) for process in processes}
    found = sorted(set(marks.values()), key=_in_order)
    whose = Members(tuple(found), {process: found.index(mark) for process, mark in marks.items()})
    alone = len(found) == 1 and (whose.ranks == (None,) or not all(map(_mark, marks)))
    return Members() if not found or "" in found or alone else whose


def unmarked(process: Id) -> Id:
    """The id that a process had before its file was merged."""
    if not isinstance(process, str) or not (match := _MARK.match(process)):
        return process
    rest = process[match.end() :]
    return int(rest) if rest.isdecimal() and rest.isascii() and len(rest) < _LONG else rest


_LONG: Final = 19
"""Digits of a number that is no id of a process."""


def _mark(said: Id) -> str:
    match = _MARK.match(said) if isinstance(said, str) else None
    return "" if match is None else match["bracketed"] or match["ranked"]


def _in_order(mark: str) -> tuple[str | int, ...]:
    """Marks in the order of the numbers in them."""
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", mark))
