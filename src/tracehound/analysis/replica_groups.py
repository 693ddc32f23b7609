"""Which devices an HLO collective joins, read from its line.

Owns the spellings of replica groups. Knows no ranks: ids are those of the program's device assignment.
"""

from __future__ import annotations

import re
from math import prod
from typing import Final

import numpy as np

_LISTED: Final = re.compile(r"replica_groups=\{(\{[\d,{}\s]*\})\}")
_GROUP: Final = re.compile(r"\{([\d,\s]*)\}")
_IOTA: Final = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_TEXT: Final = re.compile(r"replica_groups=(?:\{[\d,{}\s]*\}|\[[\d,]+\]<=\[[\d,]+\](?:T\([\d,]+\))?)")

MOST: Final = 1 << 16
"""Groups of more devices than this are taken for damage."""

_DIGITS: Final = 9


def spelt(text: str) -> str:
    """The part of an HLO line that names the groups; empty where it names none, and all devices are one group."""
    match = _TEXT.search(text)
    return match[0] if match else ""


def groups(text: str) -> tuple[tuple[int, ...], ...]:
    """The groups that an HLO line names, each by its ids; empty where it names none or they make no sense.

    Both spellings: ``{{0,1},{2,3}}``, and ``[4,2]<=[2,4]T(1,0)``: the ids 0 to 7 in the shape [2,4], transposed, read
    as four groups of two.
    """
    if listed := _LISTED.search(text):
        found = [_numbers(inside) for inside in _GROUP.findall(listed[1])]
        return tuple(group for group in found if group) if sum(map(len, found)) <= MOST else ()
    match = _IOTA.search(text)
    return _iota(_numbers(match[1]), _numbers(match[2]), _numbers(match[3] or "")) if match else ()


def _iota(shape: tuple[int, ...], dims: tuple[int, ...], order: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    count = prod(dims)
    fits = len(shape) == 2 and 0 < count <= MOST and prod(shape) == count
    if not fits or (order and sorted(order) != list(range(len(dims)))):
        return ()
    ids = np.arange(count).reshape(dims).transpose(order or range(len(dims))).reshape(shape)
    return tuple(tuple(row) for row in ids.tolist())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word[:_DIGITS]) for word in text.replace(" ", "").split(",") if word)
