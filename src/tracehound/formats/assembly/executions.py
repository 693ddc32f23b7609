"""What executions of programs give to what runs in them: the call that launched them.

Owns who has the launch of another: what starts in an execution, and what is nested in a launched event. Finds no call.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.formats.assembly.batches import Rows
from tracehound.intervals import Ints, Latest


class _Layer(NamedTuple):
    """Executions on one module lane of each rank."""

    latest: Latest
    start: Ints
    end: Ints
    call: Ints
    run: Ints

    def give(self, call: Ints, rows: npt.NDArray[np.intp], events: Rows, rank: Ints) -> None:
        """Give those of the events `rows` that have no call that of the execution, on their rank, they start in.

        Programs may run at once: an event that tells its run is of no other.
        """
        orphans = rows[call[rows] < 0]
        start = events.start[orphans]
        at = self.latest.at(rank[orphans], start)
        inside = (at >= 0) & (start < np.append(self.end, 0)[at])
        orphans, at = orphans[inside], at[inside]
        own, whole = _runs(events)[orphans], self.run[at]
        other = (own != whole) & (own != _UNTOLD) & (whole != _UNTOLD)
        call[orphans[~other]] = self.call[at[~other]]


class Executions(Struct, frozen=True, eq=False):
    """Executions of modules on devices: what starts inside one, on its rank, may have its launch.

    `call` is that of the executions themselves.
    """

    layers: tuple[_Layer, ...]
    call: Ints

    def give(self, call: Ints, events: Rows, rank: Ints) -> None:
        """Give events on other lanes than the modules', without a call, that of the execution in which they start."""
        for layer in self.layers:
            layer.give(call, np.arange(len(call)), events, rank)


def executions(ran: Rows, rank: Ints, joined: Ints) -> Executions:
    """The executions on all modules' lanes, sorted by (lane, start); `joined` are the calls by their own ids.

    `rank` is that of each. Of several lanes of one rank the earlier goes first, and they inherit from one another too.
    """
    place = _places(ran.lane, rank)
    call, layers, run = joined.copy(), [], _runs(ran)
    for number in range(int(place.max()) + 1 if len(place) else 0):
        rows = np.flatnonzero(place == number)
        rows = rows[np.argsort(rank[rows], kind="stable")]
        start, end = ran.start[rows], ran.end[rows]
        layer = _Layer(Latest(rank[rows], start), start, end, call[rows], run[rows])
        layer.give(call, np.flatnonzero(place != number), ran, rank)
        layers.append(layer)
    return Executions(tuple(layers), call)


def _runs(events: Rows) -> Ints:
    """The run that each event tells of itself."""
    known = events.valid("run")
    return np.where(known, events.columns["run"].values, _UNTOLD) if known.any() else np.full(len(known), _UNTOLD)


_UNTOLD: Final = np.iinfo(np.int64).min
"""In place of a run that is not known."""


def _places(lane: Ints, rank: Ints) -> Ints:
    """For each event, how many lanes of its rank go before its own."""
    begins = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])) if len(lane) else np.empty(0, np.intp)
    ranks = rank[begins]
    order = np.argsort(ranks, kind="stable")
    group = np.flatnonzero(np.append(True, ranks[order][1:] != ranks[order][:-1])) if len(order) else order
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - np.repeat(group, np.diff(np.append(group, len(order))))
    return np.repeat(place, np.diff(np.append(begins, len(lane))))


def from_parents(call: Ints, parent: Ints, before: Ints) -> Ints:
    """The calls, with what nests inside a launched event, and has none of its own, having that of the innermost such.

    `parent` is a row of `before`, the calls of events that are still open, then of `call`; -1 for none.
    """
    every = np.concatenate([before, call, [-1]])
    around = np.concatenate([np.full(len(before), -1), parent, [-1]])
    rest = np.flatnonzero((every < 0) & (around >= 0))
    orphans = rest
    while len(rest):
        rest = rest[every[around[rest]] < 0]
        around[rest] = around[around[rest]]
        rest = rest[around[rest] >= 0]
    every[orphans] = every[around[orphans]]
    return every[len(before) : -1]
