"""Trees whose nodes are the rows of a table, depth first: levels, ancestors, sums over subtrees; and sums by group.

All operations work on whole arrays, level by level. A row is a position in the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.native import row_loops

RowIndexes = npt.NDArray[np.intp]

_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HASH_SHIFT = np.uint64(29)


class Trees:
    """Trees of rows: `parent` has the row above each, -1 at a root. There must be no cycles."""

    def __init__(self, parent: Ints) -> None:
        self.parent = parent

    @cached_property
    def levels(self) -> tuple[RowIndexes, ...]:
        """The rows of each level, roots first, in row order."""
        order = np.argsort(self.depths, kind="stable")
        return tuple(np.split(order, np.cumsum(np.bincount(self.depths))[:-1])) if len(order) else ()

    @cached_property
    def depths(self) -> Ints:
        """The number of ancestors of each row."""
        count = len(self.parent)
        at = np.append(np.where(self.parent < 0, count, self.parent), count)
        level = (at < count).astype(np.int64)
        while (at < count).any():  # each round doubles the steps climbed
            level += level[at]
            at = at[at]
        return level[:-1]

    @cached_property
    def has_children(self) -> Mask:
        """True for the rows that have others below them."""
        inner = np.zeros(len(self.parent), np.bool_)
        inner[self.parent[self.parent >= 0]] = True
        return inner

    def subtree_sums(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum over the subtree of each row: its own value and those of all rows below it."""
        if values.dtype == np.int64 and (found := row_loops.sum_subtrees(self.parent, values)) is not None:
            return found
        total = values.copy()
        for rows in self.levels[:0:-1]:
            np.add.at(total, self.parent[rows], total[rows])
        return total

    def with_ancestors(self, chosen: Mask) -> Mask:
        """The chosen rows and all their ancestors."""
        marked = chosen.copy()
        for rows in self.levels[:0:-1]:
            marked[self.parent[rows[marked[rows]]]] = True
        return marked

    def below_closed(self, closed: Mask) -> Mask:
        """True for the rows below a closed one."""
        hidden = np.zeros(len(self.parent), np.bool_)
        for rows in self.levels[1:]:
            above = self.parent[rows]
            hidden[rows] = hidden[above] | closed[above]
        return hidden

    def sibling_starts(self, size: Ints, rank: npt.NDArray[Any]) -> Ints:
        """The start of each row if siblings (also roots) are laid out side by side from the start of their parent.

        Siblings are ordered by `rank` (stable), each as long as its `size`.
        """
        order = np.lexsort((rank, self.parent))
        before = np.cumsum(size[order]) - size[order]
        first = np.append(True, np.diff(self.parent[order]) != 0)[: len(order)]
        start = np.empty(len(order), np.int64)
        start[order] = before - np.repeat(before[first], np.diff(np.append(np.flatnonzero(first), len(order))))
        for rows in self.levels[1:]:
            start[rows] += start[self.parent[rows]]
        return start

    def sort_siblings(self, rank: npt.NDArray[Any]) -> RowIndexes:
        """The rows depth first, with siblings (also roots) sorted by `rank` (stable)."""
        size = self.subtree_sums(np.ones(len(self.parent), np.int64))
        return np.argsort(self.sibling_starts(size, rank) + self.depths)

    def path_keys(self, names: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """A hash for each row of the names on its path from the root, and of the number of equal paths before it.

        So a row has the same key in another table if it has the same path there.
        """
        key = names.copy()
        for rows in self.levels:
            above = np.append(key, np.uint64(0))[self.parent[rows]]
            mixed = _hash_numbers(above ^ _hash_numbers(names[rows] + _HASH_MULTIPLIER))
            key[rows] = _hash_numbers(mixed + _HASH_MULTIPLIER + _count_equal_before(mixed))
        return key

    def ancestors(self, row: int) -> Iterator[int]:
        """The row itself, the row above it, and so on to the root."""
        while row >= 0:
            yield row
            row = int(self.parent[row])

    def heaviest_rows(self, weight: Ints, most: int) -> RowIndexes:
        """The rows with the largest weights, at most `most`, in row order; of equal ones the first.

        A row weighs at least as much as each row below it, so that all ancestors are included. Rows come depth first.
        """
        heavy = weight.copy()
        for rows in self.levels[:0:-1]:
            np.maximum.at(heavy, self.parent[rows], heavy[rows])
        return np.sort(np.argsort(-heavy, kind="stable")[:most])


def trees_from_depths(depth: npt.NDArray[Any]) -> Trees:
    """The trees of rows with these depths: the parent of a row is the nearest earlier row that is less deep.

    Any depths are allowed: the first row is a root whatever its depth, and a row may be more than one deeper than its
    parent.
    """
    return Trees(_parents_from_depths(np.asarray(depth, np.int64)))


class PathGroups(NamedTuple):
    """Rows grouped by the names on their paths from the root.

    `node` of each row; for each node its `parent` (-1: a root) and the `first` of its rows. A node comes after its
    parent; if rows do so, too, nodes are in the order of their first rows.
    """

    node: Ints
    parent: Ints
    first: RowIndexes


def group_by_path(forest: Trees, name: Ints, root: Ints) -> PathGroups:
    """Group rows by path: rows with equal names on their paths belong together; roots must also agree in `root`.

    Numbers in `root` are not below 0.
    """
    found = row_loops.group_by_path(forest.parent, name, root)
    if found is not None:
        return PathGroups(*found)
    by_level = _group_by_path_numpy(forest, name, root)
    if (forest.parent >= np.arange(len(name))).any():
        return by_level
    node, parent, first = by_level
    order = np.argsort(first)
    place = np.empty(len(order) + 1, np.int64)
    place[order], place[-1] = np.arange(len(order)), -1
    return PathGroups(place[node], place[parent[order]], first[order])


def _group_by_path_numpy(forest: Trees, name: Ints, root: Ints) -> PathGroups:
    """Group rows by path without the C library, level after level."""
    names, roots = (int(numbers.max(initial=0)) + 1 for numbers in (name, root))
    if max(names, 1) * max(roots, len(name) + 1) > np.iinfo(np.int64).max:
        raise OverflowError("too many names")
    node = np.full(len(name), -1, np.int64)
    parents, firsts, count = list[Ints](), list[RowIndexes](), 0
    for level, rows in enumerate(forest.levels):
        above = node[forest.parent[rows]] if level else root[rows]
        _, first, found = np.unique(above * names + name[rows], return_index=True, return_inverse=True)
        node[rows] = found + count
        parents.append(above[first] if level else np.full(len(first), -1, np.int64))
        firsts.append(rows[first])
        count += len(first)
    if not parents:
        return PathGroups(node, node, np.empty(0, np.intp))
    return PathGroups(node, np.concatenate(parents), np.concatenate(firsts))


def _parents_from_depths(depth: Ints) -> Ints:
    count = len(depth)
    if count == 0:
        return np.empty(0, np.int64)
    if depth[0] != 0 or depth.min() < 0 or (np.diff(depth) > 1).any():
        return _parents_row_by_row(depth)
    order = np.argsort(depth, kind="stable")
    deeper = np.append(True, depth[1:] > depth[:-1])  # than the previous row, its parent; others have a sibling there
    latest = np.maximum.accumulate(np.where(deeper[order], np.arange(count), 0))
    parent = np.empty(count, np.int64)
    parent[order] = order[latest] - 1
    parent[depth == 0] = -1
    return parent


def _parents_row_by_row(depth: Ints) -> Ints:
    """The parents of rows with depths that skip levels, row after row."""
    parent = np.empty(len(depth), np.int64)
    above: list[int] = []
    deep = depth.tolist()
    for row, own in enumerate(deep):
        while above and deep[above[-1]] >= own:
            above.pop()
        parent[row] = above[-1] if above else -1
        above.append(row)
    return parent


def _hash_numbers(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    value = (value ^ (value >> _HASH_SHIFT)) * _HASH_MULTIPLIER
    return value ^ (value >> _HASH_SHIFT)


def _count_equal_before(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The number of equal values before each."""
    order = np.argsort(values, kind="stable")
    first = np.append(True, np.diff(values[order]) != 0)[: len(order)]
    begins = np.flatnonzero(first)
    times = np.empty(len(values), np.uint64)
    times[order] = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    return times


def sum_groups(group: Ints, values: Ints, many: int) -> Ints:
    """The sum of the values of each group; a row with a group below 0 belongs to none."""
    if (found := row_loops.sum_by_group(group, values, many)) is not None:
        return found
    sums = np.zeros(many + 1, np.int64)  # the last sum, at -1, is for rows without a group
    np.add.at(sums, group, values)
    return sums[:-1]
