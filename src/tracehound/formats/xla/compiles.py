"""Compilations on the threads of hosts, and the events that belong to them.

Passes of the compiler have names that say nothing (``dce``, ``fusion``); they lie inside the compilation. Events lie in
any order, and those of one thread in several portions of a file: a portion tells when it saw compilations, and what
belongs to them is found when all portions are together.

Owns how that is told and found. Knows no names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from tracehound.formats.spill import Kept
from tracehound.formats.wire import Rows
from tracehound.formats.xla.lanes import OVERRULED
from tracehound.formats.xla.xstats import Flags
from tracehound.intervals import Intervals, merge, union
from tracehound.trace import KIND_CODES

_COMPILE: Final = KIND_CODES["compile"]
_OVERRULED: Final = np.isin(np.arange(len(KIND_CODES)), [KIND_CODES[kind] for kind in OVERRULED])


class Compiling:
    """Collects when compilations are under way on each line."""

    def __init__(self) -> None:
        self._spans: dict[int, list[Intervals]] = {}

    def add(self, line: Rows, kind: Rows, start: Rows, end: Rows) -> None:
        """The events of a slice; those that compile tell."""
        rows = np.flatnonzero(kind == _COMPILE)
        for each in sorted(set(line[rows].tolist())):
            mine = rows[line[rows] == each]
            self._spans.setdefault(each, []).append(union(start[mine], end[mine]))

    def spans(self) -> dict[int, Intervals]:
        """The times by line."""
        return {line: merge(*spans) for line, spans in self._spans.items()}


def on_rows(told: Iterable[Mapping[int, Intervals]], first: Mapping[int, int]) -> dict[int, Intervals]:
    """The times by line, of all that is drawn on its row: `first` tells the first line there."""
    rows: dict[int, list[Intervals]] = {}
    for spans in told:
        for line, these in spans.items():
            rows.setdefault(first[line], []).append(these)
    whole = {row: merge(*spans) for row, spans in rows.items()}
    return {line: whole[row] for line, row in first.items() if row in whole}


def with_compilations(kept: Kept, spans: Mapping[int, Intervals]) -> Kept:
    """The events, whose lanes are lines, of kind ``compile`` where a compilation is under way on their line."""
    if kept.runs is None:
        raise ValueError("only events belong to compilations")
    bounds = kept.runs.bounds.tolist()
    mine = [
        (low, high, spans[line])
        for line, low, high in zip(kept.runs.lane.tolist(), bounds[:-1], bounds[1:], strict=True)
        if line in spans
    ]
    if not mine:
        return kept
    kind = kept.read(0, kept.height, ["kind"])["kind"].values.copy()
    for low, high, these in mine:
        start = kept.read(low, high, ["start"])["start"].values
        here = kind[low:high]
        here[_begun_in(these, start) & _OVERRULED[here]] = _COMPILE
    return kept.replaced("kind", kind)


def _begun_in(spans: Intervals, start: Rows) -> Flags:
    """Which of these instants, in order, lie in the intervals."""
    size = len(start) + 1
    opened = np.bincount(np.searchsorted(start, spans.start), minlength=size)
    closed = np.bincount(np.searchsorted(start, spans.end), minlength=size)
    inside: Flags = np.cumsum(opened - closed)[:-1] > 0
    return inside
