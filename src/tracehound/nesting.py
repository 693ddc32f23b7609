"""How time intervals nest: what contains what, and how deep it lies.

Owns the order of intervals by lane and start, parents and depths, and what follows from parents. Knows no domain words;
whose time it is `own_time` tells. All times are Int64 in one unit; an interval is half-open, `[start, end)`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracehound.intervals import Ints, Mask
from tracehound.native import trees
from tracehound.native.nest import nested, ordered


class Nesting(NamedTuple):
    """How the intervals of lanes nest.

    `parent` is the index of the innermost interval of its lane that wholly contains this one (-1: none), `depth` the
    row on which it can be drawn without touching another: the first below its parent's that is free when it begins.
    Where intervals nest that is the next one; where two overlap without either containing the other, the later has a
    row of its own. Without room below `ROWS` the last is shared. Unless `torn` there are no such two.
    """

    parent: Ints
    depth: Ints
    torn: bool


ROWS: Final = 1 << 16
"""So many rows a lane can have: `EVENTS` holds their numbers in 16 bits."""

_ONE_LANE: Final = np.zeros(1, np.int64)
_NOTHING: Final = np.empty(0, np.int64)
_FOREVER: Final = int(np.iinfo(np.int64).max)
_LONG_AGO: Final = int(np.iinfo(np.int64).min)


def nesting(start: Ints, end: Ints, first: Ints = _ONE_LANE, known: Ints = _NOTHING) -> Nesting:
    """Nest intervals sorted by (lane, start, -end). Of equal intervals the first contains the others.

    An interval of no length belongs to what is open at its instant. `first` has the index at which each lane begins.
    The leading intervals of the first lane may be what is still open of more that was nested before: then `known` has
    their depths.
    """
    until = np.maximum(end, start + 1)
    if (found := nested(start, until, first, known)) is not None:
        return Nesting(*found)
    return _nesting(start, until, first, known)


def _nesting(start: Ints, until: Ints, first: Ints, known: Ints) -> Nesting:
    """The same in Python, of intervals of which none is empty."""
    times = _in_turn(start, until, first, len(known))
    if times is None:
        return _overlapping(start, until, first, known)
    found, torn = _laminar(*times, known)
    if len(torn):
        begins = np.flatnonzero(found.depth[torn] == 0)
        some = _overlapping(start[torn], until[torn], begins, known if torn[0] < len(known) else _NOTHING)
        found.parent[torn] = np.append(torn, -1)[some.parent]
        found.depth[torn] = some.depth
    return found._replace(depth=np.minimum(found.depth, ROWS - 1), torn=len(torn) > 0)


def _laminar(start: Ints, until: Ints, known: Ints) -> tuple[Nesting, npt.NDArray[np.intp]]:
    """Nest intervals that never overlap without one containing the other, in a few passes over all of them at once.

    How many are open when one begins is then its depth, and the last one before it that is one less deep its parent.
    That holds where each is inside its parent: also given are the rows of those that are open at some time together
    with one that is not. Where their depth is 0, such a stretch begins.
    """
    count = len(start)
    rows = np.arange(count)
    ends_at = rows + 1  # the first row that begins after the end: of most the next one
    long = np.flatnonzero(until[:-1] > start[1:])
    ends_at[long] = np.searchsorted(start, until[long])
    depth = rows - np.cumsum(np.bincount(ends_at, minlength=count + 1))[:count]
    deeper = np.append(True, depth[1:] > depth[:-1])[:count]  # than the one before, its parent; others have a sibling
    order = np.argsort(_narrow(depth), kind="stable")
    latest = np.maximum.accumulate(np.where(deeper[order], rows, 0))
    parent = np.empty(count, np.int64)
    parent[order] = order[latest] - 1
    parent[depth == 0] = -1
    apart = until > np.append(until, _FOREVER)[parent]
    apart[: len(known)] |= known != rows[: len(known)]
    if not apart.any():
        return Nesting(parent, depth, torn=False), np.empty(0, np.intp)
    stretch = np.cumsum(depth == 0)
    bad = np.zeros(count + 1, np.bool_)
    bad[stretch[apart]] = True
    return Nesting(parent, depth, torn=True), np.flatnonzero(bad[stretch])


def _in_turn(start: Ints, until: Ints, first: Ints, known: int) -> tuple[Ints, Ints] | None:
    """The times with each lane's after those of the lane before, the `known` begun before all else; None: too long."""
    if known:
        start = start.copy()
        start[:known] = min(int(until[:known].min()) - 1, int(start[known:].min(initial=_FOREVER)))
    if len(first) < 2:
        return start, until
    size = np.diff(np.append(first, len(start)))
    low, high = start[first], np.maximum.reduceat(until, first)
    if float((high.astype(np.float64) - low).sum()) > _FOREVER / 2:
        return None
    shift = np.repeat(np.cumsum(high - low) - high, size)
    return start + shift, until + shift


def _narrow(depth: Ints) -> npt.NDArray[Any]:
    """Small numbers in few bits, which sort many times faster."""
    deepest = int(depth.max(initial=0))
    return depth.astype(np.uint8 if deepest < 1 << 8 else np.uint16 if deepest < 1 << 16 else np.int64)


def _overlapping(start: Ints, until: Ints, first: Ints, known: Ints) -> Nesting:
    """Nest any intervals: from each goes a search for what contains it, and then one for a row."""
    parent = np.arange(-1, len(start))
    parent[-1] = -1
    parent[first[first < len(start)]] = -1
    _reach(parent, np.append(until, _FOREVER), until - 1)  # the last, at index -1, surrounds every lane
    return Nesting(parent[:-1], _depth(start, until, parent[:-1], first, known), torn=True)


_ROUNDS: Final = 64
"""After so many rounds over all intervals at once, the few that are left are settled one after the other."""


def _reach(at: Ints, until: Ints, bound: Ints) -> None:
    """Move every `at[i]`, which begins at the interval before, to the nearest earlier one that ends after `bound[i]`.

    That of an interval leads to one before it that ends no earlier than those between the two, so that they can be
    passed over: the steps grow as they are used.
    """
    rest = np.flatnonzero(until[at[:-1]] <= bound)
    to, least = at[rest], bound[rest]
    for _ in range(_ROUNDS):
        if len(rest) == 0:
            return
        to = at[to]
        at[rest] = to
        on = until[to] <= least
        rest, to, least = rest[on], to[on], least[on]
    for i in rest:
        one = i - 1
        while until[one] <= bound[i]:
            one = at[one]
        at[i] = one


def _depth(start: Ints, until: Ints, parent: Ints, first: Ints, known: Ints) -> Ints:
    """The rows of intervals, one after the other: below the parent's the first that is free."""
    depth = np.empty(len(start), np.int64)
    begins = set(first.tolist())
    taken = np.full(ROWS, _LONG_AGO)  # until when
    used = 0
    for i, (begin, end, around) in enumerate(zip(start.tolist(), until.tolist(), parent.tolist(), strict=True)):
        if i in begins:
            used = 0
        row = int(known[i]) if i < len(known) else int(depth[around]) + 1 if around >= 0 else 0
        if i >= len(known) and row < used and taken[row] > begin:
            free = taken[row:used] <= begin
            row += int(free.argmax()) if free.any() else used - row
        row = min(row, ROWS - 1)
        if row >= used:
            taken[used : row + 1] = _LONG_AGO
            used = row + 1
        taken[row] = max(int(taken[row]), end)
        depth[i] = row
    return depth


def outermost(until: Ints) -> npt.NDArray[np.intp]:
    """Of nested intervals of one lane, those that lie in no other: they end later than all before."""
    before = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(until)[:-1])[: len(until)]
    return np.flatnonzero(until > before)


def still_open(until: Ints) -> npt.NDArray[np.intp]:
    """Of nested intervals of one lane, those that may contain what comes next: they end no earlier than all later."""
    if len(until) == 0:
        return np.empty(0, np.intp)
    some = np.flatnonzero(until >= until[-1])  # few, and no other can be one
    ends = until[some]
    return some[ends >= np.maximum.accumulate(ends[::-1])[::-1]]


def lane_order(lane: Ints, start: Ints, end: Ints) -> npt.NDArray[np.intp] | None:
    """The order of intervals by (lane, start, -end), equal ones as they come; None where that is the order they have.

    Quick on runs that are sorted by lane or by start.
    """
    if _ordered(lane, start, end):
        return None
    order = np.argsort(start, kind="stable")
    several = lane[0] != lane[-1] or np.any(lane != lane[0])
    lanes = lane[order] if several else lane
    if several and np.any(lanes[1:] < lanes[:-1]):
        narrow = lanes.astype(np.uint16) if lanes.min() >= 0 and lanes.max() < 1 << 16 else lanes
        order = order[np.argsort(narrow, kind="stable")]
        lanes = lane[order]
    starts, ends = start[order], end[order]
    equal = (lanes[1:] == lanes[:-1]) & (starts[1:] == starts[:-1])
    if np.any(equal & (ends[1:] > ends[:-1])):
        member = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
        group = np.cumsum(np.append(True, ~equal))[member]
        order[member] = order[member[np.lexsort((-ends[member], group))]]
    return order


def _ordered(lane: Ints, start: Ints, end: Ints) -> bool:
    if (found := ordered(lane, start, end)) is not None:
        return found
    later = start[1:] > start[:-1]
    later |= (start[1:] == start[:-1]) & (end[1:] <= end[:-1])
    if later.all() and len(lane) and lane[0] == lane[-1]:
        return bool(np.all(lane == lane[0]))
    later &= lane[1:] == lane[:-1]
    later |= lane[1:] > lane[:-1]
    return bool(later.all())


def nearest(parent: Ints, chosen: Mask) -> Ints:
    """For each row the nearest at or above it that is chosen, -1 where there is none; `parent` has rows, -1 for none.

    All rows climb at once, each by the steps that those above it have climbed before.
    """
    if (found := trees.nearest(parent, chosen)) is not None:
        return found
    at: Ints = np.where(chosen, np.arange(len(parent)), parent)
    rest = np.flatnonzero(~chosen & (parent >= 0))
    while len(rest := rest[(at[rest] >= 0) & ~chosen[at[rest]]]):
        at[rest] = at[at[rest]]
    return at


def inherited(parent: Ints, own: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """What each row says itself (0 or more), else the nearest above it that says anything; -1 without one."""
    if (found := trees.inherited(parent, own)) is not None:
        return found
    return np.append(own, np.int8(-1))[nearest(parent, own >= 0)]  # of none, at -1


def again(parent: Ints, chosen: Mask, number: Ints) -> Mask:
    """Which of the chosen rows have one above them with the same number; all above a chosen row are chosen.

    `parent` has rows, -1 for none; numbers are not negative.
    """
    if (found := trees.again(parent, chosen, number, int(number.max(initial=-1)) + 1)) is not None:
        return found
    found = np.zeros(len(parent), np.bool_)
    row = np.flatnonzero(chosen)
    at, mine = parent[row], number[row]
    while len(row):
        same = (at >= 0) & (number[at] == mine)
        found[row[same]] = True
        on = (at >= 0) & ~same
        row, at, mine = row[on], parent[at[on]], mine[on]
    return found
