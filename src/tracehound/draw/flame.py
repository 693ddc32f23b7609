"""A tree of calls -> the bars of a flame graph: each as wide as its weight, under the one that called it.

Owns which bars there are for a width, where they begin and end, which frames have one of their own, and what is written
on them. Knows no colours and no widget. Rows are those of a result that is a tree; -1 is the bar around all roots.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.needle import found
from tracehound.analysis.result import Result
from tracehound.analysis.trees import depths, stem
from tracehound.errors import printable
from tracehound.forest import Forest, forest
from tracehound.formats.torch_names import MODULE
from tracehound.intervals import Ints, Mask

ALL = -1
"""The bar around all roots."""

PASSED_ON = 0.98
"""A frame that takes at least this part of what its caller takes has no bar of its own, where such are left out."""

JOINT = " › "
"""Between the names of a caller and of what it passes all its time on to."""

_PYTHON = re.compile(r"(?:.*[/\\])?(?P<file>[^/\\]+)\((?P<line>\d+)\): ?(?P<what>.+)")
_XLA = re.compile(r"\$(?P<file>\S+?):(?P<line>\d+) (?P<what>.+)")
_BUILTIN = re.compile(r"<built-in (?:function|method) (?P<what>.+?)(?: of .*)?>|\$\S+ (?P<xla>\S+)")


class Bar(NamedTuple):
    """The cells `[left, right)` of a line that a row has."""

    row: int
    left: int
    right: int


class Flame(Struct, frozen=True, eq=False, dict=True):
    """Frames by rows: their `names`, how they call one another, and what each weighs with all inside it.

    `own` says which of them have a bar of their own; the others are part of their caller's.
    """

    names: tuple[str, ...]
    trees: Forest
    weight: Ints
    own: Mask

    @cached_property
    def start(self) -> Ints:
        """Where each begins, in units of weight; what one caller calls lies side by side, the heaviest first."""
        return self.trees.starts(self.weight, -self.weight)

    @cached_property
    def total(self) -> int:
        """What all roots weigh."""
        return int(self.weight[self.trees.parent < 0].sum())

    @cached_property
    def _level(self) -> Ints:
        """How many bars are above the one of each row."""
        level = self.own.astype(np.int64)
        for rows in self.trees.levels[1:]:
            level[rows] += level[self.trees.parent[rows]]
        return level

    @cached_property
    def _size(self) -> Ints:
        """How many rows are at and below each; they follow it."""
        return self.trees.summed(np.ones(len(self.names), np.int64))

    @cached_property
    def _passed_to(self) -> dict[int, int]:
        """The row that is part of its caller's bar, by its caller."""
        rows = np.flatnonzero(~self.own)
        return dict(zip(self.trees.parent[rows].tolist(), rows.tolist(), strict=True))

    def lines(self, zoom: int, width: int) -> list[list[Bar]]:
        """The bars on each line, from the left, when `zoom` is as wide as the line; what is around it comes first.

        Bars that are narrower than a cell are left out.
        """
        around = [[Bar(row, 0, width)] for row in self.around(zoom)]
        low, whole = (0, self.total) if zoom == ALL else (int(self.start[zoom]), int(self.weight[zoom]))
        if whole <= 0 or width <= 0:
            return around
        first, last = (0, len(self.names)) if zoom == ALL else (zoom + 1, zoom + int(self._size[zoom]))
        start, weight = self.start[first:last] - low, self.weight[first:last]
        left, right = (start * width) // whole, ((start + weight) * width) // whole
        rows = np.flatnonzero(self.own[first:last] & (right > left))
        level = self._level[first:last][rows]
        rows = rows[np.lexsort((left[rows], level))]
        lines: dict[int, list[Bar]] = {}
        told = zip(self._level[first:last][rows], rows + first, left[rows], right[rows], strict=True)
        for depth, row, begin, end in told:
            lines.setdefault(int(depth), []).append(Bar(int(row), int(begin), int(end)))
        return [*around, *(lines[depth] for depth in sorted(lines))]

    def around(self, row: int) -> list[int]:
        """The row and the bars around it, from the outermost."""
        chain = [at for at in self.trees.climb(row) if self.own[at]] if row != ALL else []
        return [ALL, *reversed(chain)]

    def share(self, row: int, of: int = ALL) -> float:
        """The weight of a row as a part of another's."""
        whole = self.total if of == ALL else int(self.weight[of])
        return 1.0 if row == ALL else int(self.weight[row]) / whole if whole else 0.0

    def chain(self, row: int) -> list[int]:
        """The rows that share a bar, the caller first."""
        rows = [row]
        while (passed := self._passed_to.get(rows[-1])) is not None:
            rows.append(passed)
        return rows

    def label(self, row: int, width: int) -> str:
        """What is written on a bar of so many cells: the names on it, with their lines where there is room."""
        if row == ALL:
            return "all"
        rows = self.chain(row)
        short = JOINT.join(called(self.names[at])[0] for at in rows)
        place = called(self.names[row])[1]
        return f"{short}  {place}" if len(rows) == 1 and place and len(short) + len(place) + 2 <= width else short

    def matching(self, needle: str) -> Mask:
        """Which rows' names a search finds. Raises TracehoundError for what cannot be searched for."""
        table = pl.DataFrame({"name": pl.Series(self.names, dtype=pl.String)})
        return table.select(found(pl.col("name"), needle)).to_series().to_numpy()

    def bar_of(self, row: int) -> int:
        """The row whose bar a row is part of."""
        return next((at for at in self.trees.climb(row) if self.own[at]), ALL)


def flame(result: Result, column: str, least: float = PASSED_ON) -> Flame | None:
    """The flame graph of a tree by a column of weights; None where the result is none.

    Frames with at least `least` of their caller's weight have no bar of their own. A row weighs at least as much as
    what it called.
    """
    deep, name = depths(result.table, result.columns), stem(result.columns)
    if deep is None or name is None:
        return None
    trees = forest(deep)
    weight = np.maximum(result.table[column].fill_null(0).cast(pl.Int64).to_numpy(), 0)
    for rows in trees.levels[:0:-1]:
        below = np.zeros(len(weight), np.int64)
        np.add.at(below, trees.parent[rows], weight[rows])
        weight = np.maximum(weight, below)
    above = np.append(weight, 0)[trees.parent]
    own = (trees.parent < 0) | (weight < above * least) | (weight == 0)
    return Flame(tuple(text or "" for text in result.table[name.name].to_list()), trees, weight, own)


def called(name: str) -> tuple[str, str]:
    """A frame's function, and ``file.py:12`` where it names one, as people say them."""
    text = printable(name)
    if match := _PYTHON.fullmatch(text) or _XLA.fullmatch(text):
        return match["what"], f"{match['file']}:{match['line']}"
    if match := _BUILTIN.fullmatch(text):
        return match["what"] or match["xla"], ""
    return text.removeprefix(MODULE), ""
