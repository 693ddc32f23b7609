"""Which call each execution on the one device of a CPU is of, where no id tells: by the order of both.

Owns the names of such calls, and how a program is known by the function that JAX called. Knows no events.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from tracehound.intervals import Ints

CALL: Final = r"Cpu\w*Executable::Execute(?:Sharded)?$|LoadedExecutable::ExecuteHelperOnSingleDevice$"
"""The runtime's calls of which each is one execution of a program on one device, whatever framework makes them."""

UNSAID: Final = 0
"""The number of the function of which no name is known."""

_CALLED: Final = re.compile(r"PjitFunction\((?:jit\((?P<compiled>.*)\)|(?P<function>.*))\)", re.DOTALL)
"""What JAX writes around a call: of a function, or of one that was compiled before (``f.lower(x).compile()``)."""

_PROGRAM: Final = re.compile(r"jit_(.*?)(?:\(\d+\))?", re.DOTALL)
_UNFIT: Final = re.compile(r"[^\w.-]")
"""What JAX replaces in the name of a function to make that of a program: ``<lambda>`` is ``jit__lambda_``, of late
``jit__lambda``."""

_AHEAD: Final = 64
"""So many executions may have been called for before the profile began."""


class Functions:
    """The functions that calls are made for, numbered from 1."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def called(self, names: Sequence[str]) -> Ints:
        """The number of the function that a host event of each of these names calls; `UNSAID` where it calls none."""
        found = (_CALLED.fullmatch(name) for name in names)
        fits = (None if match is None else _UNFIT.sub("_", match[match.lastgroup or 0]).strip("_") for match in found)
        numbers = (UNSAID if name is None else self._number.setdefault(name, len(self._number) + 1) for name in fits)
        return np.fromiter(numbers, np.int64, len(names))

    def programs(self, names: Sequence[str]) -> Ints:
        """The number of the function that a program of each of these names is of; `UNSAID` where none is called so."""
        found = (_PROGRAM.fullmatch(name) for name in names)
        numbers = (UNSAID if match is None else self._number.get(match[1].strip("_"), UNSAID) for match in found)
        return np.fromiter(numbers, np.int64, len(names))


def counted(runs: Ints) -> bool:
    """Whether these runs are those of one program, which are counted as it is called: each begins from any number."""
    return len(runs) > 0 and int(runs.max()) - int(runs.min()) < 2 * len(runs)


def paired(begun: Ints, called: Ints, others: int = 0) -> Ints:
    """Of each execution the place of its call among `called`, -1 for none; both in the order of the calls.

    A device executes one program's calls in turn. The first executions may have been called for before the profile
    began: as few as let none begin before its call. None has one where there are many more or fewer calls; `others`
    calls may be of the same program.
    """
    some = max(2, len(called) // 10)
    place = np.full(len(begun), -1, np.int64)
    for before in range(min(len(begun), _AHEAD)):
        pairs = min(len(begun) - before, len(called))
        more = len(begun) - before - len(called)
        if -some <= more <= max(some, others) and (begun[before : before + pairs] >= called[:pairs]).all():
            place[before : before + pairs] = np.arange(pairs)
            break
    return place
