"""Which execution of a module an op is of, where only the executions say it: TPUs number these and not the ops.

Owns that ops have the run of the execution that they start in. Knows no bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from tracehound.formats.assembly.batches import Rows
from tracehound.formats.spill import Column
from tracehound.intervals import Ints, Mask


class _Layer(NamedTuple):
    """The executions on one lane of modules, in order; of those that overlap each lasts until the next begins."""

    start: Ints
    until: Ints
    run: Ints
    known: Mask

    def over(self, start: Ints) -> tuple[Ints, Mask]:
        """The runs of events that start at these instants, which are sorted, and which of them are known."""
        bounds = np.stack([np.searchsorted(start, self.start), np.searchsorted(start, self.until)], axis=1).ravel()
        sizes = np.diff(bounds, prepend=0, append=len(start))
        run, known = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.bool_)
        run[1::2], known[1::2] = self.run, self.known
        return np.repeat(run, sizes), np.repeat(known, sizes)


class ModuleRuns(Struct, frozen=True, eq=False):
    """The runs of the executions of modules, by rank; of several lanes of modules the earlier goes first."""

    layers: Mapping[int, list[_Layer]]

    def of(self, events: Rows, rank: Ints) -> Column | None:
        """The runs of these events: their own, else of an op that of the execution it starts in; None for none at all.

        `rank` is that of each lane, by its number. Costs a look at each execution, not at each op.
        """
        own, lacking = events.columns.get("run"), events.valid("op") & ~events.valid("run")
        if not self.layers or not lacking.any():
            return own
        values = np.zeros(len(events.lane), np.int64) if own is None else own.values.astype(np.int64)
        valid = events.valid("run").copy()
        begins = events.lanes
        for low, high in zip(begins.tolist(), np.append(begins[1:], len(events.lane)).tolist(), strict=True):
            for layer in self.layers.get(int(rank[events.lane[low]]), ()):
                run, known = layer.over(events.start[low:high])
                known &= lacking[low:high]
                np.copyto(values[low:high], run, where=known)
                valid[low:high] |= known
                lacking[low:high] &= ~known
        return Column(values, valid) if valid.any() else None


def module_runs(executions: Rows, rank: Ints) -> ModuleRuns:
    """The runs of these executions, which are sorted by (lane, start); `rank` is that of each lane, by its number."""
    layers = dict[int, list[_Layer]]()
    known = executions.valid("run")
    if not known.any():
        return ModuleRuns(layers)
    begins = executions.lanes
    start, end, run = executions.start, executions.end, executions.columns["run"].values
    for low, high in zip(begins.tolist(), np.append(begins[1:], len(executions.lane)).tolist(), strict=True):
        until = np.minimum(end[low:high], np.append(start[low + 1 : high], end[high - 1]))
        layer = _Layer(start[low:high], until, run[low:high], known[low:high])
        layers.setdefault(int(rank[executions.lane[low]]), []).append(layer)
    return ModuleRuns(layers)
