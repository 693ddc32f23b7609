"""A tree of calls as the bars of a flame graph: each as wide as its weight, below its caller.

Rows are those of a result that is a tree; -1 is the bar around all roots.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.result import Result, indented_column, row_depths
from tracehound.analysis.row_filter import text_matches
from tracehound.errors import printable
from tracehound.formats.torch_names import MODULE_PREFIX
from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.trees import Trees, trees_from_depths

ROOT_BAR = -1
"""The bar around all roots."""

PASS_THROUGH_SHARE = 0.98
"""A frame with at least this share of its caller's weight has no bar of its own, if such frames are merged."""

NAME_SEPARATOR = " › "
"""Between the names of a caller and of the callee that is merged into its bar."""

_PYTHON_FRAME = re.compile(r"(?:.*[/\\])?(?P<file>[^/\\]+)\((?P<line>\d+)\): ?(?P<what>.+)")
_XLA_FRAME = re.compile(r"\$(?P<file>\S+?):(?P<line>\d+) (?P<what>.+)")
_BUILTIN_FRAME = re.compile(r"<built-in (?:function|method) (?P<what>.+?)(?: of .*)?>|\$\S+ (?P<xla>\S+)")


class FlameBar(NamedTuple):
    """The cells `[left, right)` of a line that belong to a row."""

    row: int
    left: int
    right: int


class FlameGraph(Struct, frozen=True, eq=False, dict=True):
    """Frames by row: their `names`, their calls, and their weights, which include the frames inside.

    `has_bar` marks frames with a bar of their own; the others are merged into their caller's.
    """

    names: tuple[str, ...]
    trees: Trees
    weight: Ints
    has_bar: Mask

    @cached_property
    def start(self) -> Ints:
        """The start of each frame, in units of weight. Callees of one caller lie side by side, the heaviest first."""
        return self.trees.sibling_starts(self.weight, -self.weight)

    @cached_property
    def total(self) -> int:
        """The weight of all roots."""
        return int(self.weight[self.trees.parent < 0].sum())

    @cached_property
    def _level(self) -> Ints:
        """Number of bars above the bar of each row."""
        level = self.has_bar.astype(np.int64)
        for rows in self.trees.levels[1:]:
            level[rows] += level[self.trees.parent[rows]]
        return level

    @cached_property
    def _subtree_sizes(self) -> Ints:
        """Number of rows at and below each row; they follow it."""
        return self.trees.subtree_sums(np.ones(len(self.names), np.int64))

    @cached_property
    def _merged_callees(self) -> dict[int, int]:
        """The row that is part of its caller's bar, by its caller."""
        rows = np.flatnonzero(~self.has_bar)
        return dict(zip(self.trees.parent[rows].tolist(), rows.tolist(), strict=True))

    def lines(self, zoom: int, width: int) -> list[list[FlameBar]]:
        """The bars on each line, from the left, when `zoom` is as wide as the line; what is around it comes first.

        Bars that are narrower than a cell are left out.
        """
        around = [[FlameBar(row, 0, width)] for row in self.ancestors(zoom)]
        low, total = (0, self.total) if zoom == ROOT_BAR else (int(self.start[zoom]), int(self.weight[zoom]))
        if total <= 0 or width <= 0:
            return around
        first, last = (0, len(self.names)) if zoom == ROOT_BAR else (zoom + 1, zoom + int(self._subtree_sizes[zoom]))
        start, weight = self.start[first:last] - low, self.weight[first:last]
        left, right = (start * width) // total, ((start + weight) * width) // total
        rows = np.flatnonzero(self.has_bar[first:last] & (right > left))
        level = self._level[first:last][rows]
        rows = rows[np.lexsort((left[rows], level))]
        lines: dict[int, list[FlameBar]] = {}
        bars = zip(self._level[first:last][rows], rows + first, left[rows], right[rows], strict=True)
        for depth, row, begin, end in bars:
            lines.setdefault(int(depth), []).append(FlameBar(int(row), int(begin), int(end)))
        return [*around, *(lines[depth] for depth in sorted(lines))]

    def ancestors(self, row: int) -> list[int]:
        """The row and the bars around it, from the outermost."""
        chain = [at for at in self.trees.ancestors(row) if self.has_bar[at]] if row != ROOT_BAR else []
        return [ROOT_BAR, *reversed(chain)]

    def share(self, row: int, of: int = ROOT_BAR) -> float:
        """The weight of a row as a fraction of another's."""
        total = self.total if of == ROOT_BAR else int(self.weight[of])
        return 1.0 if row == ROOT_BAR else int(self.weight[row]) / total if total else 0.0

    def merged_rows(self, row: int) -> list[int]:
        """The rows that share a bar, the caller first."""
        rows = [row]
        while (passed := self._merged_callees.get(rows[-1])) is not None:
            rows.append(passed)
        return rows

    def label(self, row: int, width: int) -> str:
        """The text of a bar of so many cells: its names, with the line of source if there is room."""
        if row == ROOT_BAR:
            return "all"
        rows = self.merged_rows(row)
        short = NAME_SEPARATOR.join(split_frame_name(self.names[at])[0] for at in rows)
        source_line = split_frame_name(self.names[row])[1]
        return (
            f"{short}  {source_line}"
            if len(rows) == 1 and source_line and len(short) + len(source_line) + 2 <= width
            else short
        )

    def rows_matching(self, needle: str) -> Mask:
        """Mask of rows whose names match a search. Raises TracehoundError for an invalid search."""
        table = pl.DataFrame({"name": pl.Series(self.names, dtype=pl.String)})
        return table.select(text_matches(pl.col("name"), needle)).to_series().to_numpy()

    def bar_of(self, row: int) -> int:
        """The row whose bar contains a row."""
        return next((at for at in self.trees.ancestors(row) if self.has_bar[at]), ROOT_BAR)


def build_flame_graph(result: Result, column: str, least: float = PASS_THROUGH_SHARE) -> FlameGraph | None:
    """The flame graph of a tree by a column of weights; None if the result is no tree.

    Frames with at least `least` of their caller's weight have no bar of their own. A row weighs at least as much as its
    callees.
    """
    deep, name = row_depths(result.table, result.columns), indented_column(result.columns)
    if deep is None or name is None:
        return None
    trees = trees_from_depths(deep)
    weight = np.maximum(result.table[column].fill_null(0).cast(pl.Int64).to_numpy(), 0)
    for rows in trees.levels[:0:-1]:
        callee_weight = np.zeros(len(weight), np.int64)
        np.add.at(callee_weight, trees.parent[rows], weight[rows])
        weight = np.maximum(weight, callee_weight)
    caller_weight = np.append(weight, 0)[trees.parent]
    has_bar = (trees.parent < 0) | (weight < caller_weight * least) | (weight == 0)
    return FlameGraph(tuple(text or "" for text in result.table[name.name].to_list()), trees, weight, has_bar)


def split_frame_name(name: str) -> tuple[str, str]:
    """The function of a frame, and ``file.py:12`` if the name has a file."""
    text = printable(name)
    if match := _PYTHON_FRAME.fullmatch(text) or _XLA_FRAME.fullmatch(text):
        return match["what"], f"{match['file']}:{match['line']}"
    if match := _BUILTIN_FRAME.fullmatch(text):
        return match["what"] or match["xla"], ""
    return text.removeprefix(MODULE_PREFIX), ""
