"""Folding of the rows of a tree.

Owns which rows are folded, and the marks before their names. Knows no widget and no width. Rows are positions in the
filtered and sorted table; only their `keys` stay valid when the table is arranged in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.result import Column, indented_column, row_depths
from tracehound.draw.glyphs import Glyphs
from tracehound.draw.text_table import fit_tree_indents
from tracehound.numeric.intervals import Mask
from tracehound.numeric.trees import RowIndexes, Trees, trees_from_depths

MAX_OPEN_ROWS = 100
"""A tree of more rows begins folded: as many levels are open as have together no more than this."""

FoldKey = Literal["turn", "inward", "outward", "more", "less"]
"""Fold or unfold a row; unfold it or go to the first inside; fold it or go to the one around; a level more, or less."""


class FoldState(Struct, frozen=True):
    """Rows on the first `levels` levels are open (None: as many as are sensible), but for those `shut` or `opened`."""

    levels: int | None = None
    opened: frozenset[int] = frozenset()
    shut: frozenset[int] = frozenset()

    def with_row_unfolded(self, key: int) -> FoldState:
        """The folds with this row open."""
        return replace(self, opened=self.opened | {key}, shut=self.shut - {key})

    def with_row_folded(self, key: int) -> FoldState:
        """The folds with this row folded."""
        return replace(self, opened=self.opened - {key}, shut=self.shut | {key})


DEFAULT_FOLDS = FoldState()
"""As a tree begins."""


class FoldedTree(Struct, frozen=True, eq=False, dict=True):
    """The rows of a tree, in order, and which of them are folded.

    `name` is the column that is moved in ("": none); `searched`: a filter has chosen the rows.
    """

    name: str
    forest: Trees
    keys: npt.NDArray[np.uint64]
    folds: FoldState
    searched: bool = False

    @cached_property
    def levels(self) -> int:
        """Number of open levels."""
        if self.folds.levels is not None:
            return self.folds.levels
        if self.searched:
            return max(0, len(self.forest.levels) - 1)  # what was looked for is to be seen
        rows = np.cumsum([len(level) for level in self.forest.levels])
        return max(0, int(np.searchsorted(rows, MAX_OPEN_ROWS, side="right")) - 1)

    @cached_property
    def folded_mask(self) -> Mask:
        """Mask of the rows that hide the rows inside them."""
        opened, shut = (np.array(sorted(keys), np.uint64) for keys in (self.folds.opened, self.folds.shut))
        deep = (self.forest.depths >= self.levels) & ~np.isin(self.keys, opened)
        return self.forest.has_children & (deep | np.isin(self.keys, shut))

    @cached_property
    def visible_row_indexes(self) -> RowIndexes:
        """The rows in no folded one."""
        return np.flatnonzero(~self.forest.below_closed(self.folded_mask))

    @property
    def deepest_visible_level(self) -> int:
        """The level of the deepest row that is seen."""
        return int(self.forest.depths[self.visible_row_indexes].max(initial=0))

    def name_prefix(self, place: int, width: int, glyphs: Glyphs) -> str:
        """Text before the name of the row at a `place` among the visible ones, on a line of that width."""
        if not self.forest.has_children.any():
            return ""
        row = self.visible_row_indexes[place]
        mark = (glyphs.folded if self.folded_mask[row] else glyphs.unfolded) if self.forest.has_children[row] else " "
        indents = fit_tree_indents(self.deepest_visible_level, width)
        return f"{indents.indent_at_depth(int(self.forest.depths[row]))}{mark} "

    def apply_fold_key(self, place: int, way: FoldKey) -> tuple[FoldState, int]:
        """The folds after a key on the row at a `place` among those seen, and the row where the cursor is then."""
        row = int(self.visible_row_indexes[place])
        key, inner, closed = int(self.keys[row]), bool(self.forest.has_children[row]), bool(self.folded_mask[row])
        match way:
            case "more" | "less":
                levels = self.levels + (1 if way == "more" else -1)
                return FoldState(max(0, min(levels, len(self.forest.levels) - 1))), row
            case "turn" | "inward" if inner and closed:
                return self.folds.with_row_unfolded(key), row
            case "turn" | "outward" if inner and not closed:
                return self.folds.with_row_folded(key), row
            case "inward" if inner:
                return self.folds, row + 1
            case "outward" if self.forest.parent[row] >= 0:
                return self.folds, int(self.forest.parent[row])
        return self.folds, row

    def place_of(self, row: int) -> int:
        """Position of a row among the visible ones, or of the folded row that it is in."""
        return max(0, int(np.searchsorted(self.visible_row_indexes, row, side="right")) - 1)


def fold_tree(rows: pl.DataFrame, columns: Sequence[Column], folds: FoldState, *, searched: bool) -> FoldedTree | None:
    """The tree that these rows are; None where the result is none."""
    deep, name = row_depths(rows, columns), indented_column(columns)
    if deep is None:
        return None
    trees = trees_from_depths(deep)
    names = rows[name.name].hash(0).to_numpy() if name is not None else np.zeros(rows.height, np.uint64)
    return FoldedTree(name.name if name is not None else "", trees, trees.path_keys(names), folds, searched)


def sort_rows(rows: pl.DataFrame, columns: Sequence[Column], order: tuple[str, bool]) -> pl.DataFrame:
    """The rows sorted by a column, what is not known last; in a tree those in one row among themselves."""
    name, falls = order
    deep = row_depths(rows, columns)
    if deep is None:
        return rows.sort(name, descending=falls, nulls_last=True, maintain_order=True)
    place = pl.int_range(pl.len())
    by = rows.select(place.sort_by(name, descending=falls, nulls_last=True, maintain_order=True)).to_series().to_numpy()
    rank = np.empty(rows.height, np.int64)
    rank[by] = np.arange(rows.height)
    return rows[trees_from_depths(deep).sort_siblings(rank)]
