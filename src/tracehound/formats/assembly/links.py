"""Which host event launched which device event.

Owns the joins: by correlation id (Kineto, CUPTI, roctracer), by producer and consumer (TraceMe contexts) and by run id
(one execution of an XLA module); and the order of calls, where no id leads to one. Knows no bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.formats.assembly.batches import Rows
from tracehound.formats.assembly.calls import Calls, Waiting, fresh, together
from tracehound.formats.assembly.turns import CALL, UNSAID, Functions, counted, paired
from tracehound.formats.spill import Column, Spill, frame_of
from tracehound.intervals import Ints, Latest, Mask
from tracehound.lookup import Members, distinct, rows_with
from tracehound.nesting import nearest
from tracehound.trace import KINDS

_JOINS: Final = (("run", "run"), ("consumes", "produces"), ("correlation", "correlation"))
"""What a device event has, and which column of a host event repeats it; the later, the more it is trusted."""

_REPEATED: Final = "correlation"
"""Of this, events of a host that repeat one value mean different things."""

SEVERAL: Final = "correlation_ids_repeated"
"""What is noted of a file in which they do."""

_RUNTIME: Final = KINDS.index("runtime")
_CALLING: Final = np.array([kind in ("runtime", "transfer", "op", "other") for kind in KINDS])
"""Kinds of host events that a correlation id may mean."""

_RUN: Final = "run"
RUNNING: Final = np.array([kind in ("op", "collective", "sync") for kind in KINDS])
"""Kinds of host events that are part of a run, or wait for it: they launch nothing of it."""


def untold(executions: Rows, rank: Ints) -> bool:
    """Whether all executions are on one rank, and none has an id that leads to its call, unless its run does."""
    told = any(executions.valid(here).any() for here, _ in _JOINS if here != _RUN)
    return not told and len(rank) > 0 and bool((rank == rank[0]).all())


def consumed(executions: Rows) -> Ints:
    """The ids that executions consume, sorted."""
    has = executions.valid("consumes")
    return distinct(executions.columns["consumes"].values[has]) if has.any() else np.empty(0, np.int64)


def of_host(ids: Ints, host: Ints) -> Ints:
    """Ids that each host counts for itself, told apart: no two hosts have one. Those of the first stay as they are.

    Nobody counts to 2^40: larger ids mean the same on all hosts.
    """
    if not host.any():
        return ids
    counted = (host > 0) & (ids >= 0) & (ids < _COUNTED)
    return np.where(counted, -(host * _COUNTED + ids) - 2, ids)


def apart(ids: Ints, host: Ints) -> Ints:
    """Ids of any size that mean nothing beyond a host, told apart: moved by a stride so long that none meet.

    Those of the first host stay as they are.
    """
    return ids + host * _STRIDE if host.any() else ids


_COUNTED: Final = 1 << 40
_STRIDE: Final = 0x1E3779B97F4A7C15
"""Odd and without a pattern; sums wrap around."""


class HostCalls(Struct):
    """Collects from batch after batch of host events what events of devices, with columns `pointing`, may point at.

    `meant` are their ids of `correlation`: most calls of the runtime launch nothing. `consumed` are the ids that
    executions on devices consume, sorted; `untold` says whether turns may have to tell their calls; `host` is that of
    each lane. What is collected waits in the `spill`.
    """

    pointing: Collection[str]
    meant: Members
    consumed: Ints
    untold: bool
    host: Ints
    spill: Spill
    _found: dict[str, Waiting] = field(default_factory=dict)
    _executes: list[Calls] = field(default_factory=list)
    _functions: Functions = field(default_factory=Functions)

    def add(self, events: Rows, parent: Ints, step: Ints) -> None:
        """The events of a batch; `parent` is the row of the one around each, `step` its number, -1 for none."""
        kind = events.columns["kind"].values
        if self.untold:
            self._add_executes(events, parent, step)
        for here, there in _JOINS:
            if here not in self.pointing:
                continue
            has = events.valid(there)
            if there == _REPEATED:
                has = has & _CALLING[kind]
            if there == _RUN:
                has = has & ~RUNNING[kind]
            rows = np.flatnonzero(has)
            if there == _REPEATED and len(rows):
                rows = rows[self.meant.has(events.columns[there].values[rows])]
            if there == _RUN:
                rows = rows[~self._took(events, rows)]
            if len(rows):
                key, late = _known_by(events, there, rows, self.host), kind[rows] != _RUNTIME
                where = events.lane[rows], events.start[rows], events.end[rows]
                calls = Calls(key, rows + events.first, step[rows].astype(np.int32), late, *where)
                waiting = self._found.setdefault(there, Waiting(self.spill, f"calls-{there}"))
                waiting.add(_meant(there)(calls))

    def _add_executes(self, events: Rows, parent: Ints, step: Ints) -> None:
        """The calls for executions, of which none lies inside another of its thread, by the function around them."""
        runtime = np.flatnonzero(events.columns["kind"].values == _RUNTIME)
        codes, name = np.unique(events.columns["name"].values[runtime], return_inverse=True)
        names = _names(codes)
        rows = runtime[names.str.contains(CALL).to_numpy()[name]]
        if not len(rows):
            return
        function = np.full(len(events.lane) + 1, UNSAID)  # of nothing, at -1
        function[runtime] = self._functions.called(names.to_list())[name]
        around = nearest(parent, function[:-1] != UNSAID)[rows]
        where = events.lane[rows], events.start[rows], events.end[rows]
        late = np.zeros(len(rows), np.bool_)
        calls = Calls(function[around], events.ids[rows], step[rows].astype(np.int32), late, *where)
        self._executes.append(calls.apart())

    def _took(self, events: Rows, rows: npt.NDArray[np.intp]) -> Mask:
        """Which of these rows produced an execution: they launched no other, though devices may number runs alike."""
        took = events.valid("produces")[rows]
        if not len(self.consumed) or not took.any():
            return np.zeros_like(took)
        produced = events.columns["produces"].values[rows[took]]
        at = np.minimum(np.searchsorted(self.consumed, produced), len(self.consumed) - 1)
        took[took] = self.consumed[at] == produced
        return took

    def launches(self) -> Launches:
        """All calls, ready to be joined; they are collected no longer."""
        ids, steps = self.spill.pile("launches-id", np.int64), self.spill.pile("launches-step", np.int32)
        tables, first = list[_Table](), [0]
        for _, there in _JOINS:
            keys, waiting = self.spill.pile(f"launches-{there}", np.int64), self._found.pop(there, None)
            rows, groups, begun = ([np.empty(0, np.int64)] for _ in range(3))
            for some in () if waiting is None else waiting.settled(_meant(there)):
                rows.append(some.rows + keys.height)
                groups.append(some.key[some.rows])
                begun.append(some.begun)
                for pile, values in ((keys, some.key), (ids, some.id), (steps, some.step)):
                    pile.add(values)
            tables.append(_Table(keys.values(), _Again.of(*map(np.concatenate, (rows, groups, begun)))))
            first.append(ids.height)
        turns = together(self._executes).apart() if self._executes else None
        for pile, values in () if turns is None else ((ids, turns.id), (steps, turns.step)):
            pile.add(values)
        ids.add(np.full(1, -1))
        steps.add(np.full(1, -1, np.int32))
        return Launches(
            tuple(tables),
            tuple(first),
            ids.values(),
            steps.values(),
            np.empty(0, np.int64) if turns is None else turns.begun,
            np.empty(0, np.int64) if turns is None else turns.key,
            self._functions,
            self.host,
        )


def _meant(name: str) -> Callable[[Calls], Calls]:
    """Which of several calls are meant that have the same in a column of this name."""
    return Calls.apart if name == _REPEATED else Calls.firsts


def _names(codes: Ints) -> pl.Series:
    """Names by their codes."""
    return frame_of({"name": Column(codes)}, {"name": pl.Categorical()})["name"].cast(pl.String)


def _known_by(events: Rows, name: str, rows: npt.NDArray[np.intp], host: Ints) -> Ints:
    """The ids of some events in a column; those that hosts count for themselves are told apart."""
    ids = events.columns[name].values[rows]
    if name == _REPEATED:
        return of_host(ids, host[events.lane[rows]])
    return apart(ids, host[events.lane[rows]]) if name == _RUN else ids


class _Again(NamedTuple):
    """Calls whose keys repeat: their `rows` in a table (and -1, the last), and which of a key has begun.

    Keys are numbered: `first` has the first row of each.
    """

    first: Ints
    rows: Ints
    latest: Latest

    @classmethod
    def of(cls, rows: Ints, key: Ints, begun: Ints) -> _Again:
        """Those of these rows, keys and starts, sorted by key and start."""
        begins = fresh(key)
        return cls(rows[begins], np.append(rows, -1), Latest(np.cumsum(begins) - 1, begun))

    def meant(self, row: Ints, instant: Ints) -> Ints:
        """Of the calls with the key that each row is the first of, the latest that has begun at an instant."""
        number = rows_with(self.first, row)
        return np.where(number < 0, row, np.maximum(row, self.rows[self.latest.at(number, instant)]))


class _Table(NamedTuple):
    """The keys of some calls, sorted, and those of which there are several."""

    key: Ints
    again: _Again


class Launches(NamedTuple):
    """The host events that launch something. A *call* is a row of `id` and `step`; -1, their last row, is none."""

    tables: tuple[_Table, ...]
    first: tuple[int, ...]
    id: Ints
    step: npt.NDArray[np.int32]
    executes: Ints
    function: Ints
    functions: Functions
    host: Ints

    @property
    def repeated(self) -> int:
        """How many ids of events mean several calls, one after the other or in several processes."""
        return sum(len(table.again.first) for table in self.tables)

    def joined(self, events: Rows) -> Ints:
        """The call of each device event by its own ids.

        In order of trust: equal `correlation`; the host event whose `produces` is this event's `consumes`; the first
        host event of the same `run` that is no op of it, no wait for it, and has not launched another. Of several,
        calls of the runtime go before others, and earlier before later. But ids of `correlation` are a process' own,
        and may begin anew: of calls that do not lie in one another the latest is meant that has begun when the event
        does.
        """
        call = np.full(len(events.lane), -1, np.int64)
        for (here, _), (key, again), first in zip(_JOINS, self.tables, self.first[:-1], strict=True):
            rows = np.flatnonzero(events.valid(here))
            if not len(key) or not len(rows):
                continue
            wanted = _known_by(events, here, rows, self.host)
            at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
            known = key[at] == wanted
            call[rows[known]] = again.meant(at[known], events.start[rows[known]]) + first
        return call

    def in_turn(self, executions: Rows) -> Ints:
        """The call of each execution on the one device of a CPU, of which no call has an id: in the order of both.

        Of each function the calls and the executions of its programs go together, where JAX names them: programs that
        need nothing of one another begin in any order.
        """
        call = np.full(len(executions.lane), -1, np.int64)
        codes, name = np.unique(executions.columns["name"].values, return_inverse=True)
        function = self.functions.programs(_names(codes).to_list())[name]
        run = executions.columns[_RUN].values if executions.valid(_RUN).all() else None
        for number in distinct(function).tolist():
            rows, calls = np.flatnonzero(function == number), np.flatnonzero(self.function == number)
            rows = rows[np.argsort(executions.start[rows], kind="stable")]
            if run is not None and counted(run[rows]):
                rows = rows[np.argsort(run[rows], kind="stable")]
            others = 0 if number == UNSAID else int(np.count_nonzero(self.function == UNSAID))
            place = paired(executions.start[rows], self.executes[calls], others)
            call[rows] = np.where(place >= 0, np.append(calls, -1)[place] + self.first[-1], -1)
        return call

    def ids(self, call: Ints) -> Ints:
        """The ids of calls."""
        return self.id.take(call)

    def steps(self, call: Ints) -> Ints:
        """The steps of calls, -1 where they have none."""
        return self.step.take(call).astype(np.int64)
