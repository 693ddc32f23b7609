"""Ids that events inherit from executions of modules: the call that launched them, and the run.

An event inherits the launch of the execution in which it starts, or of the launched event in which it nests. TPUs
number the executions and not the ops: an op inherits the run of the execution in which it starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.formats.assembly.event_batches import EventRows
from tracehound.formats.spill import MaskedColumn
from tracehound.numeric.intervals import Ints, LatestBegun, Mask


class _ExecutionLayer(NamedTuple):
    """Executions on one module lane of each rank."""

    latest: LatestBegun
    start: Ints
    end: Ints
    call: Ints
    run: Ints

    def fill_missing_calls(self, call: Ints, rows: npt.NDArray[np.intp], events: EventRows, rank: Ints) -> None:
        """Give events (`rows`) without a call that of the execution in which they start, on their rank.

        Programs may run at once: an event with a run of its own does not inherit from another run.
        """
        orphans = rows[call[rows] < 0]
        start = events.start[orphans]
        at = self.latest.latest_index_at(rank[orphans], start)
        inside = (at >= 0) & (start < np.append(self.end, 0)[at])
        orphans, at = orphans[inside], at[inside]
        own, execution_run = _event_runs(events)[orphans], self.run[at]
        other = (own != execution_run) & (own != _UNKNOWN_RUN) & (execution_run != _UNKNOWN_RUN)
        call[orphans[~other]] = self.call[at[~other]]


class ModuleExecutions(Struct, frozen=True, eq=False):
    """Executions of modules on devices: an event that starts inside one, on its rank, may have its launch.

    `call` has the calls of the executions themselves.
    """

    layers: tuple[_ExecutionLayer, ...]
    call: Ints

    def fill_missing_calls(self, call: Ints, events: EventRows, rank: Ints) -> None:
        """Give events on lanes other than the modules', without a call, that of the execution in which they start."""
        for layer in self.layers:
            layer.fill_missing_calls(call, np.arange(len(call)), events, rank)


def index_executions(executions: EventRows, rank: Ints, own_calls: Ints) -> ModuleExecutions:
    """Index the executions on all modules' lanes, sorted by (lane, start); `own_calls` are the calls by their own ids.

    `rank` has the rank of each. Of several lanes of one rank the earlier has priority; they inherit from one another,
    too.
    """
    ordinal = _lane_ordinals(executions.lane, rank)
    call, layers, run = own_calls.copy(), [], _event_runs(executions)
    for number in range(int(ordinal.max()) + 1 if len(ordinal) else 0):
        rows = np.flatnonzero(ordinal == number)
        rows = rows[np.argsort(rank[rows], kind="stable")]
        start, end = executions.start[rows], executions.end[rows]
        layer = _ExecutionLayer(LatestBegun(rank[rows], start), start, end, call[rows], run[rows])
        layer.fill_missing_calls(call, np.flatnonzero(ordinal != number), executions, rank)
        layers.append(layer)
    return ModuleExecutions(tuple(layers), call)


def _event_runs(events: EventRows) -> Ints:
    """Return the run that each event itself records."""
    known = events.has_value("run")
    return (
        np.where(known, events.columns["run"].values, _UNKNOWN_RUN)
        if known.any()
        else np.full(len(known), _UNKNOWN_RUN)
    )


_UNKNOWN_RUN: Final = np.iinfo(np.int64).min
"""Stands for an unknown run."""


def _lane_ordinals(lane: Ints, rank: Ints) -> Ints:
    """Return, for each event, the number of lanes of its rank before its own."""
    begins = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])) if len(lane) else np.empty(0, np.intp)
    ranks = rank[begins]
    order = np.argsort(ranks, kind="stable")
    group = np.flatnonzero(np.append(True, ranks[order][1:] != ranks[order][:-1])) if len(order) else order
    ordinal = np.empty(len(order), np.int64)
    ordinal[order] = np.arange(len(order)) - np.repeat(group, np.diff(np.append(group, len(order))))
    return np.repeat(ordinal, np.diff(np.append(begins, len(lane))))


def inherit_calls(call: Ints, parent: Ints, before: Ints) -> Ints:
    """Give events without a call that of the innermost launched event in which they nest.

    `parent` is a row of `before`, the calls of events that are still open, then of `call`; -1 for none.
    """
    all_calls = np.concatenate([before, call, [-1]])
    enclosing = np.concatenate([np.full(len(before), -1), parent, [-1]])
    rest = np.flatnonzero((all_calls < 0) & (enclosing >= 0))
    orphans = rest
    while len(rest):
        rest = rest[all_calls[enclosing[rest]] < 0]
        enclosing[rest] = enclosing[enclosing[rest]]
        rest = rest[enclosing[rest] >= 0]
    all_calls[orphans] = all_calls[enclosing[orphans]]
    return all_calls[len(before) : -1]


class _RunLayer(NamedTuple):
    """Executions on one lane of modules, in order; an overlapped one lasts only until the next begins."""

    start: Ints
    until: Ints
    run: Ints
    known: Mask

    def runs_at_starts(self, start: Ints) -> tuple[Ints, Mask]:
        """Return the runs of events that start at these sorted instants, and the mask of known ones."""
        bounds = np.stack([np.searchsorted(start, self.start), np.searchsorted(start, self.until)], axis=1).ravel()
        sizes = np.diff(bounds, prepend=0, append=len(start))
        run, known = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.bool_)
        run[1::2], known[1::2] = self.run, self.known
        return np.repeat(run, sizes), np.repeat(known, sizes)


class ModuleRuns(Struct, frozen=True, eq=False):
    """Runs of the executions of modules, by rank; of several lanes of modules the earlier has priority."""

    layers: Mapping[int, list[_RunLayer]]

    def runs_of_events(self, events: EventRows, rank: Ints) -> MaskedColumn | None:
        """Return the events' runs: their own, else for an op that of the execution in which it starts; None for none.

        `rank` is that of each lane, by its number. The cost depends on the number of executions, not of ops.
        """
        own_runs, missing = events.columns.get("run"), events.has_value("op") & ~events.has_value("run")
        if not self.layers or not missing.any():
            return own_runs
        values = np.zeros(len(events.lane), np.int64) if own_runs is None else own_runs.values.astype(np.int64)
        valid = events.has_value("run").copy()
        begins = events.lane_start_rows
        for low, high in zip(begins.tolist(), np.append(begins[1:], len(events.lane)).tolist(), strict=True):
            for layer in self.layers.get(int(rank[events.lane[low]]), ()):
                run, known = layer.runs_at_starts(events.start[low:high])
                known &= missing[low:high]
                np.copyto(values[low:high], run, where=known)
                valid[low:high] |= known
                missing[low:high] &= ~known
        return MaskedColumn(values, valid) if valid.any() else None


def index_module_runs(executions: EventRows, rank: Ints) -> ModuleRuns:
    """Index the runs of executions sorted by (lane, start); `rank` is that of each lane, by its number."""
    layers = dict[int, list[_RunLayer]]()
    known = executions.has_value("run")
    if not known.any():
        return ModuleRuns(layers)
    begins = executions.lane_start_rows
    start, end, run = executions.start, executions.end, executions.columns["run"].values
    for low, high in zip(begins.tolist(), np.append(begins[1:], len(executions.lane)).tolist(), strict=True):
        until = np.minimum(end[low:high], np.append(start[low + 1 : high], end[high - 1]))
        layer = _RunLayer(start[low:high], until, run[low:high], known[low:high])
        layers.setdefault(int(rank[executions.lane[low]]), []).append(layer)
    return ModuleRuns(layers)
