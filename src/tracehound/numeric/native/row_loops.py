"""Loops over rows in C: trees of rows (`trees.c`) and rows grouped by numbers (`groups.c`).

`nesting`, `trees` and `row_groups` define the results. Each returns None without the library. Loops over trees also do
if a row comes before its parent, loops over groups if names are not UInt32 or kinds not UInt8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tracehound.numeric.native import library

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.integer[Any]]
T = TypeVar("T", bound=np.generic)

_NO_MEMORY = -2


def nearest_chosen(parent: Ints, chosen: Mask) -> Ints | None:
    """For each row the nearest chosen row at or above it; -1 if there is none."""
    return _call_tree_loop(
        "trees_nearest", parent, np.ascontiguousarray(chosen, np.bool_), np.empty(len(parent), np.int64)
    )


def inherit_values(parent: Ints, own: Bytes) -> Bytes | None:
    """The row's own value if it is 0 or more, else the nearest such value above it; -1 without one."""
    return _call_tree_loop(
        "trees_inherited", parent, np.ascontiguousarray(own, np.int8), np.empty(len(parent), np.int8)
    )


def sum_subtrees(parent: Ints, value: Ints) -> Ints | None:
    """The sum of the values of each row and all rows below it."""
    return _call_tree_loop(
        "trees_subtree_sums", parent, np.ascontiguousarray(value, np.int64), np.empty(len(parent), np.int64)
    )


def _call_tree_loop(
    function: str, parent: Ints, given: npt.NDArray[Any], found: npt.NDArray[T]
) -> npt.NDArray[T] | None:
    """Call a C function that computes one result for each row from its parent and one given value."""
    native = library()
    if native is None:
        return None
    above = np.ascontiguousarray(parent, np.int64)
    refused = getattr(native, function)(above.ctypes.data, given.ctypes.data, len(above), found.ctypes.data)
    return None if refused else found


def mark_repeated(parent: Ints, chosen: Mask, number: Ints, numbers: int) -> Mask | None:
    """True for chosen rows with an ancestor of the same number; all numbers are below `numbers`.

    Rows come depth first, and all ancestors of a chosen row are chosen.
    """
    native = library()
    if native is None:
        return None
    above, said = np.ascontiguousarray(parent, np.int64), np.ascontiguousarray(number, np.int64)
    marks = np.ascontiguousarray(chosen, np.bool_)
    found = np.empty_like(marks)
    state = native.trees_repeated(
        *(above.ctypes.data, marks.ctypes.data, said.ctypes.data, len(above), numbers, found.ctypes.data)
    )
    if state == _NO_MEMORY:
        raise MemoryError
    return None if state else found


def group_by_path(parent: Ints, name: Ints, root: Ints) -> tuple[Ints, Ints, Ints] | None:
    """The node of each row, by the names on its path from the root and the number in `root` (0 or more) of that root.

    Also the parent (-1: a root) and the first row of each node; nodes are numbered in the order of these rows.
    """
    native = library()
    if native is None:
        return None
    given = [np.ascontiguousarray(each, np.int64) for each in (parent, name, root)]
    found = [np.empty(len(parent), np.int64) for _ in range(3)]
    before, after = ([each.ctypes.data for each in arrays] for arrays in (given, found))
    nodes = native.trees_paths(*before, len(parent), *after)
    if nodes == _NO_MEMORY:
        raise MemoryError
    node, above, first = found
    return None if nodes < 0 else (node, above[:nodes].copy(), first[:nodes].copy())


def mark_occurring(number: Numbers, numbers: int) -> npt.NDArray[np.bool_] | None:
    """True for each number below `numbers` that occurs."""
    native = library()
    if native is None or number.dtype != np.uint32:
        return None
    one = np.ascontiguousarray(number)
    occurs = np.zeros(numbers, np.bool_)
    native.groups_occurring(one.ctypes.data, len(one), occurs.ctypes.data)
    return occurs


def find_row_of_each_pair(name: Numbers, kind: Numbers, names: int, kinds: int) -> Ints | None:
    """A row of each pair of name and kind that occurs, at index `name * kinds + kind`; -1 at others.

    All names are below `names`, all kinds below `kinds`.
    """
    native = library()
    if native is None or not _are_narrow(name, kind):
        return None
    one, other = np.ascontiguousarray(name), np.ascontiguousarray(kind)
    row = np.full(names * kinds, -1, np.int64)
    native.groups_row_of_each_pair(one.ctypes.data, other.ctypes.data, len(one), kinds, row.ctypes.data)
    return row


def look_up_bytes(name: Numbers, kind: Numbers, kinds: int, known: Bytes) -> Bytes | None:
    """The value in `known` for the pair of name and kind of each row, as bytes."""
    native = library()
    if native is None or not _are_narrow(name, kind):
        return None
    return _look_up_pairs(native.groups_look_up_bytes, name, kind, kinds, np.ascontiguousarray(known, np.int8))


def look_up_numbers(name: Numbers, kind: Numbers, kinds: int, known: Ints) -> Ints | None:
    """The value in `known` for the pair of name and kind of each row, as numbers."""
    native = library()
    if native is None or not _are_narrow(name, kind):
        return None
    return _look_up_pairs(native.groups_look_up_numbers, name, kind, kinds, np.ascontiguousarray(known, np.int64))


def find_consecutive_rows(first: int, rows: int, wanted: Ints) -> Ints | None:
    """The row of each wanted number, if `rows` rows have consecutive numbers from `first` on; -1 for others."""
    native = library()
    if native is None:
        return None
    numbers = np.ascontiguousarray(wanted, np.int64)
    row = np.empty_like(numbers)
    native.groups_consecutive_rows(numbers.ctypes.data, len(numbers), first, rows, row.ctypes.data)
    return row


def sum_by_group(group: Ints, value: Ints, groups: int) -> Ints | None:
    """The sum of the values of each group; a row with a group below 0 belongs to none."""
    native = library()
    if native is None:
        return None
    one, other = np.ascontiguousarray(group, np.int64), np.ascontiguousarray(value, np.int64)
    sums = np.zeros(groups, np.int64)
    native.groups_add(one.ctypes.data, other.ctypes.data, len(one), sums.ctypes.data)
    return sums


def find_largest_per_group(group: Ints, value: Ints, other: Ints, groups: int) -> Ints | None:
    """The first row of each group with the largest value, ties broken by the largest other value; -1 without a row."""
    native = library()
    if native is None:
        return None
    numbers, one, two = (np.ascontiguousarray(each, np.int64) for each in (group, value, other))
    rows = np.full(groups, -1, np.int64)
    native.groups_largest(numbers.ctypes.data, one.ctypes.data, two.ctypes.data, len(numbers), rows.ctypes.data)
    return rows


def match_starts_to_ends(group: Ints, order: npt.NDArray[np.intp], starts: int, groups: int) -> Ints | None:
    """The start that each end takes, in time order; -1 without one."""
    native = library()
    if native is None:
        return None
    numbers, rows = np.ascontiguousarray(group, np.int64), np.ascontiguousarray(order, np.int64)
    first, last, following = np.full(groups, -1, np.int64), np.empty(groups, np.int64), np.empty(starts, np.int64)
    taken = np.empty(len(numbers) - starts, np.int64)
    native.groups_match_starts(
        numbers.ctypes.data, rows.ctypes.data, len(rows), starts,
        *(each.ctypes.data for each in (first, last, following, taken)),
    )  # fmt: skip
    return taken


def _are_narrow(name: Numbers, kind: Numbers) -> bool:
    return name.dtype == np.uint32 and kind.dtype == np.uint8


def _look_up_pairs(
    made: Callable[..., None], name: Numbers, kind: Numbers, kinds: int, known: npt.NDArray[T]
) -> npt.NDArray[T]:
    one, other = np.ascontiguousarray(name), np.ascontiguousarray(kind)
    found = np.empty(len(one), known.dtype)
    made(one.ctypes.data, other.ctypes.data, len(one), kinds, known.ctypes.data, found.ctypes.data)
    return found
