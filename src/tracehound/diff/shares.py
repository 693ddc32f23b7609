"""Whose each instant of a device's time is: of exactly one op, or of none.

Owns that rule, so that the times of ops and the idle time add up to the time that passed. Knows no names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tracehound.diff.stretches import Stretches
from tracehound.intervals import EMPTY, Intervals, Ints, Mask, covered, merge, pairs_of, union
from tracehound.own_time import Owned

COMPUTE, COMMUNICATION, COPY = range(3)
"""Classes of work in the order in which they claim an instant; hidden communication costs nothing."""

CLASSES: Final = ("compute", "communication", "copy")


class Times(NamedTuple):
    """Times of events in stretches, a row for each pair that meets: rows of the events and of the stretches, and ps."""

    event: Ints
    stretch: Ints
    time: Ints


def own_times(owned: Owned, when: Stretches) -> Times:
    """The own time of each event in each stretch: overlapping events of several streams count in full."""
    event, stretch, start, end = cut(owned.owner, owned.start, owned.end, when)
    return Times(event, stretch, end - start)


def exposed_times(owned: Owned, classes: Ints, when: Stretches) -> Times:
    """The time in which an event is what the device's time goes to.

    Of the classes that run at an instant the first of `CLASSES` has it, and in a class the event that began first.
    These times of a stretch add up to the time in which its device works. `classes` is of the events.
    """
    found: list[tuple[Ints, ...]] = []
    higher: Intervals = EMPTY
    for number in range(len(CLASSES)):
        mine = classes[owned.owner] == number
        owner, start, end = _in_turn(owned.owner[mine], owned.start[mine], owned.end[mine])
        event, stretch, low, high = cut(owner, start, end, when)
        found.append((event, stretch, high - low - covered(higher, low, high)))
        higher = merge(higher, union(start, end))
    return Times(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _in_turn(owner: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Pieces of time that do not overlap: each begins where all before it have ended."""
    order = np.lexsort((owner, start))
    owner, start, end = owner[order], start[order], end[order]
    if len(start):
        start = np.maximum(start, np.append(start[0], np.maximum.accumulate(end)[:-1]))
    keep = end > start
    return owner[keep], start[keep], end[keep]


def cut(owner: Ints, start: Ints, end: Ints, when: Stretches) -> tuple[Ints, Ints, Ints, Ints]:
    """Pieces of time cut at the edges of stretches: owner, stretch, start and end of what lies in one."""
    piece, stretch = pairs_of(start, end, Intervals(when.start, when.end))
    starts, ends = np.maximum(start[piece], when.start[stretch]), np.minimum(end[piece], when.end[stretch])
    return owner[piece], stretch, starts, ends


def classes_of(kinds: Sequence[Mask]) -> Ints:
    """The class of each event from what is communication and what copies, in that order."""
    communication, copies = kinds
    return np.where(communication, COMMUNICATION, np.where(copies, COPY, COMPUTE))
