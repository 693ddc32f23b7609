"""Which operator of the host calls which, and which of them launched what runs on the device.

Owns the climb from an event to the operator around it, past frames and ranges. Knows no names and no tables.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.events.busy import local_parent
from tracehound.analysis.result import Share
from tracehound.intervals import Ints, Mask
from tracehound.lookup import rows_with
from tracehound.nesting import nearest
from tracehound.trace import collected, copied

OPERATORS: Final = ("op", "collective")
"""The kinds of host events that are operators; gloo's collectives are such too."""


class Tree(NamedTuple):
    """All events of a host's threads, sorted by id, and how they call one another, as rows of `events`.

    `parent` has the innermost event around each, `above` the innermost that is no Python frame, `around` the innermost
    operator at or around it (itself, where it is one); -1 where there is none. `operator` marks the operators.
    `threads` has the same events with all of their columns.
    """

    events: pl.DataFrame
    parent: Ints
    operator: Mask
    above: Ints
    around: Ints
    threads: pl.LazyFrame

    @property
    def caller(self) -> Ints:
        """The operator that called each event: the innermost around it that is not itself; -1 without one."""
        return np.where(self.operator, np.append(self.around, -1)[self.above], self.around)


def tree(share: Share) -> Tree:
    """The calls on the threads of the rank's host, whenever they ran."""
    events = copied(share.threads, ("id", "parent"))
    parent = local_parent(events)
    rest = copied(share.threads, ("start", "end"), ("lane", "name", "kind"))
    events = pl.concat([events.select("id"), rest], how="horizontal")
    operator = events["kind"].is_in(OPERATORS).to_numpy()
    recorded = (events["kind"] != "python").to_numpy()
    above = parent if recorded.all() else np.append(nearest(parent, recorded), -1)[parent]
    return Tree(events, parent, operator, above, nearest(above, operator), share.threads)


def launchers(calls: Tree, work: pl.DataFrame) -> Ints:
    """For each event of a device the row of the operator that launched it, -1 where none is known.

    It is the innermost operator around the launching call, else the one that the profiler gave the event as the active
    one ("External id"). `work` needs the columns `launch` and `external`.
    """
    found = np.append(calls.around, -1)[rows_of(calls, work["launch"])]
    rest = np.flatnonzero((found < 0) & work["external"].is_not_null().to_numpy())
    if len(rest):
        found[rest] = _by_external(calls, work["external"][rest].to_numpy())
    return found


def _by_external(calls: Tree, wanted: Ints) -> Ints:
    """The rows of the operators with these external ids, of several the first; -1 where there is none."""
    ids = collected(calls.threads.select("external"))["external"]
    operators = np.flatnonzero(calls.operator & ids.is_not_null().to_numpy())
    if len(operators) == 0:
        return np.full(len(wanted), -1, np.int64)
    external = ids.fill_null(-1).to_numpy()
    by_id = operators[np.argsort(external[operators], kind="stable")]
    at = by_id[np.minimum(np.searchsorted(external[by_id], wanted), len(by_id) - 1)]
    return np.where(external[at] == wanted, at, -1)


def rows_of(calls: Tree, ids: pl.Series) -> Ints:
    """The rows of the events with these ids, -1 where there is none."""
    return rows_with(calls.events["id"].to_numpy(), ids.fill_null(-1).to_numpy())
