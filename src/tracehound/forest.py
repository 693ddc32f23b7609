"""Trees whose nodes are the rows of a table, depth first: who is above whom, and what that makes of orders and filters.

Owns the reading of depths and the walks over all rows at once, level by level. Knows no domain words, no columns and no
widths. A row is a position in the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.intervals import Ints, Mask
from tracehound.native import trees

Rows = npt.NDArray[np.intp]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_TURN = np.uint64(29)


class Forest:
    """Trees of rows: `parent` has the row above each, -1 at a root. No row may be above itself, by whatever way."""

    def __init__(self, parent: Ints) -> None:
        self.parent = parent

    @cached_property
    def levels(self) -> tuple[Rows, ...]:
        """The rows of each level, roots first, in the order of the rows."""
        order = np.argsort(self.level, kind="stable")
        return tuple(np.split(order, np.cumsum(np.bincount(self.level))[:-1])) if len(order) else ()

    @cached_property
    def level(self) -> Ints:
        """How many rows are above each."""
        count = len(self.parent)
        at = np.append(np.where(self.parent < 0, count, self.parent), count)
        level = (at < count).astype(np.int64)
        while (at < count).any():  # each row climbs as far again as it has come
            level += level[at]
            at = at[at]
        return level[:-1]

    @cached_property
    def inner(self) -> Mask:
        """Which rows have others below them."""
        inner = np.zeros(len(self.parent), np.bool_)
        inner[self.parent[self.parent >= 0]] = True
        return inner

    def summed(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Of each row the sum of its own value and of those of all rows below it."""
        if values.dtype == np.int64 and (found := trees.with_below(self.parent, values)) is not None:
            return found
        total = values.copy()
        for rows in self.levels[:0:-1]:
            np.add.at(total, self.parent[rows], total[rows])
        return total

    def with_above(self, chosen: Mask) -> Mask:
        """The chosen rows and all that are above one of them."""
        kept = chosen.copy()
        for rows in self.levels[:0:-1]:
            kept[self.parent[rows[kept[rows]]]] = True
        return kept

    def hidden(self, closed: Mask) -> Mask:
        """Which rows are below a closed one."""
        hidden = np.zeros(len(self.parent), np.bool_)
        for rows in self.levels[1:]:
            above = self.parent[rows]
            hidden[rows] = hidden[above] | closed[above]
        return hidden

    def starts(self, size: Ints, rank: npt.NDArray[Any]) -> Ints:
        """Where each row begins when those with one parent (and the roots) lie side by side, from where that begins.

        They lie by rising `rank`, equals as they are, each as long as its `size`.
        """
        order = np.lexsort((rank, self.parent))
        before = np.cumsum(size[order]) - size[order]
        first = np.append(True, np.diff(self.parent[order]) != 0)[: len(order)]
        start = np.empty(len(order), np.int64)
        start[order] = before - np.repeat(before[first], np.diff(np.append(np.flatnonzero(first), len(order))))
        for rows in self.levels[1:]:
            start[rows] += start[self.parent[rows]]
        return start

    def sorted(self, rank: npt.NDArray[Any]) -> Rows:
        """The rows depth first again, those with one parent (and the roots) by rising `rank`, equals as they were."""
        size = self.summed(np.ones(len(self.parent), np.int64))
        return np.argsort(self.starts(size, rank) + self.level)

    def keys(self, names: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """A number for each row that follows from its name and those above it, and from how many of them came before.

        So a row has the same number in another table in which it stands on the same path.
        """
        key = names.copy()
        for rows in self.levels:
            above = np.append(key, np.uint64(0))[self.parent[rows]]
            mixed = _mixed(above ^ _mixed(names[rows] + _MIX))
            key[rows] = _mixed(mixed + _MIX + _times_before(mixed))
        return key

    def climb(self, row: int) -> Iterator[int]:
        """The row, the one above it, and so on to the root."""
        while row >= 0:
            yield row
            row = int(self.parent[row])

    def heaviest(self, weight: Ints, most: int) -> Rows:
        """The rows with the largest weights, at most so many, in their order; of equal ones the first.

        A row weighs as much as the heaviest below it, so that none loses what is above it. Rows come depth first.
        """
        heavy = weight.copy()
        for rows in self.levels[:0:-1]:
            np.maximum.at(heavy, self.parent[rows], heavy[rows])
        return np.sort(np.argsort(-heavy, kind="stable")[:most])


def forest(depth: npt.NDArray[Any]) -> Forest:
    """The trees that rows with these depths are: above a row is the nearest earlier one that is less deep.

    Any depths make trees: a first row is a root however deep it says it is, and a row may be more than one deeper than
    the one above it.
    """
    return Forest(_parents(np.asarray(depth, np.int64)))


class Paths(NamedTuple):
    """Rows grouped by the names on their way from the root.

    `node` of each row, and of each node its `parent` (-1: a root) and the `first` of its rows. A node comes after its
    parent; where rows do too, nodes come in the order of their first rows.
    """

    node: Ints
    parent: Ints
    first: Rows


def paths(forest: Forest, name: Ints, root: Ints) -> Paths:
    """Group rows by path: those with one name above which are rows of one path; roots also by the number in `root`.

    Numbers in `root` are not below 0.
    """
    found = trees.paths(forest.parent, name, root)
    if found is not None:
        return Paths(*found)
    by_level = _paths(forest, name, root)
    if (forest.parent >= np.arange(len(name))).any():
        return by_level
    node, parent, first = by_level
    order = np.argsort(first)
    place = np.empty(len(order) + 1, np.int64)
    place[order], place[-1] = np.arange(len(order)), -1
    return Paths(place[node], place[parent[order]], first[order])


def _paths(forest: Forest, name: Ints, root: Ints) -> Paths:
    """The same, level after level."""
    names, roots = (int(numbers.max(initial=0)) + 1 for numbers in (name, root))
    if max(names, 1) * max(roots, len(name) + 1) > np.iinfo(np.int64).max:
        raise OverflowError("too many names")
    node = np.full(len(name), -1, np.int64)
    parents, firsts, count = list[Ints](), list[Rows](), 0
    for level, rows in enumerate(forest.levels):
        above = node[forest.parent[rows]] if level else root[rows]
        _, first, found = np.unique(above * names + name[rows], return_index=True, return_inverse=True)
        node[rows] = found + count
        parents.append(above[first] if level else np.full(len(first), -1, np.int64))
        firsts.append(rows[first])
        count += len(first)
    if not parents:
        return Paths(node, node, np.empty(0, np.intp))
    return Paths(node, np.concatenate(parents), np.concatenate(firsts))


def _parents(depth: Ints) -> Ints:
    count = len(depth)
    if count == 0:
        return np.empty(0, np.int64)
    if depth[0] != 0 or depth.min() < 0 or (np.diff(depth) > 1).any():
        return _climbed(depth)
    order = np.argsort(depth, kind="stable")
    deeper = np.append(True, depth[1:] > depth[:-1])  # than the one before, its parent; others have a sibling
    latest = np.maximum.accumulate(np.where(deeper[order], np.arange(count), 0))
    parent = np.empty(count, np.int64)
    parent[order] = order[latest] - 1
    parent[depth == 0] = -1
    return parent


def _climbed(depth: Ints) -> Ints:
    """The same for depths that skip levels, row after row."""
    parent = np.empty(len(depth), np.int64)
    above: list[int] = []
    deep = depth.tolist()
    for row, own in enumerate(deep):
        while above and deep[above[-1]] >= own:
            above.pop()
        parent[row] = above[-1] if above else -1
        above.append(row)
    return parent


def _mixed(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    value = (value ^ (value >> _TURN)) * _MIX
    return value ^ (value >> _TURN)


def _times_before(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """How many equal values stand before each."""
    order = np.argsort(values, kind="stable")
    first = np.append(True, np.diff(values[order]) != 0)[: len(order)]
    begins = np.flatnonzero(first)
    times = np.empty(len(values), np.uint64)
    times[order] = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    return times
