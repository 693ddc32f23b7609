"""Links from each device event to the host event that launched it.

They are found by correlation id (Kineto, CUPTI, roctracer), by producer and consumer (TraceMe contexts), by run id (one
execution of an XLA module), and, on the one device of a CPU where no id exists, by the order of calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.formats.assembly.call_tables import CallTable, SpilledCalls, concat_call_tables, differs_from_previous
from tracehound.formats.assembly.event_batches import EventRows
from tracehound.formats.runtime_names import RECORDED_LAUNCH_CALL
from tracehound.formats.spill import MaskedColumn, Spill, columns_to_frame
from tracehound.model.trace import KINDS
from tracehound.numeric.id_set import IdSet, find_rows, sorted_distinct
from tracehound.numeric.intervals import Ints, LatestBegun, Mask
from tracehound.numeric.nesting import nearest_chosen_ancestor

EXECUTE_CALL: Final = r"Cpu\w*Executable::Execute(?:Sharded)?$|LoadedExecutable::ExecuteHelperOnSingleDevice$"
"""Runtime calls, of any framework, of which each is one execution of a program on one device."""

UNNAMED_FUNCTION: Final = 0
"""The number of a function whose name is not known."""

_FUNCTION_CALL: Final = re.compile(r"PjitFunction\((?:jit\((?P<compiled>.*)\)|(?P<function>.*))\)", re.DOTALL)
"""JAX writes this around a call: of a function, or of one compiled before (``f.lower(x).compile()``)."""

_PROGRAM_NAME: Final = re.compile(r"jit_(.*?)(?:\(\d+\))?", re.DOTALL)
_REPLACED_CHARACTERS: Final = re.compile(r"[^\w.-]")
"""Characters that JAX replaces when it names a program after a function: ``<lambda>`` is ``jit__lambda_``, in newer
versions ``jit__lambda``.
"""

_MAX_EARLIER_CALLS: Final = 64
"""At most this many executions may have been called before the profile began."""


class FunctionNumbers:
    """The functions that JAX calls, numbered from 1."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def of_calls(self, names: Sequence[str]) -> Ints:
        """Return, for each name of a host event, the number of the function it calls; `UNNAMED_FUNCTION` for none."""
        found = (_FUNCTION_CALL.fullmatch(name) for name in names)
        cleaned = (
            None if match is None else _REPLACED_CHARACTERS.sub("_", match[match.lastgroup or 0]).strip("_")
            for match in found
        )
        numbers = (
            UNNAMED_FUNCTION if name is None else self._number.setdefault(name, len(self._number) + 1)
            for name in cleaned
        )
        return np.fromiter(numbers, np.int64, len(names))

    def of_programs(self, names: Sequence[str]) -> Ints:
        """Return, for each name of a program, the number of its function; `UNNAMED_FUNCTION` for none."""
        found = (_PROGRAM_NAME.fullmatch(name) for name in names)
        numbers = (
            UNNAMED_FUNCTION if match is None else self._number.get(match[1].strip("_"), UNNAMED_FUNCTION)
            for match in found
        )
        return np.fromiter(numbers, np.int64, len(names))


def are_consecutive_runs(runs: Ints) -> bool:
    """Return whether these runs number one program's calls consecutively, from any first number."""
    return len(runs) > 0 and int(runs.max()) - int(runs.min()) < 2 * len(runs)


def pair_executions_with_calls(begun: Ints, called: Ints, others: int = 0) -> Ints:
    """Return the position in `called` of each execution's call, -1 for none; both are in the order of the calls.

    A device executes one program's calls in order. The first executions may have been called before the profile began:
    the fewest for which no execution begins before its call. No execution has a call if there are many more or fewer
    calls; `others` calls may be of the same program.
    """
    some = max(2, len(called) // 10)
    position = np.full(len(begun), -1, np.int64)
    for before in range(min(len(begun), _MAX_EARLIER_CALLS)):
        pairs = min(len(begun) - before, len(called))
        more = len(begun) - before - len(called)
        if -some <= more <= max(some, others) and (begun[before : before + pairs] >= called[:pairs]).all():
            position[before : before + pairs] = np.arange(pairs)
            break
    return position


_ID_JOINS: Final = (("run", "run"), ("consumes", "produces"), ("correlation", "correlation"))
"""Pairs of a device event's column and the host event's column with equal ids; later ones are more trusted."""

_CORRELATION: Final = "correlation"
"""The id for which repeated values on a host mean different calls."""

CORRELATION_IDS_REPEATED: Final = "correlation_ids_repeated"
"""The code of the note on a file with such repeated ids."""

_RUNTIME: Final = KINDS.index("runtime")
_CAN_BE_CORRELATED: Final = np.array([kind in ("runtime", "transfer", "op", "other") for kind in KINDS])
"""Kinds of host events that a correlation id may refer to."""

_RUN: Final = "run"
IS_PART_OF_RUN: Final = np.array([kind in ("op", "collective", "sync") for kind in KINDS])
"""Kinds of host events that are part of a run, or wait for it: they launch none of it."""


def lacks_call_ids(executions: EventRows, rank: Ints) -> bool:
    """Return whether all executions are on one rank and none has an id, other than its run, that leads to its call."""
    has_ids = any(executions.has_value(column).any() for column, _ in _ID_JOINS if column != _RUN)
    return not has_ids and len(rank) > 0 and bool((rank == rank[0]).all())


def consumed_ids(executions: EventRows) -> Ints:
    """Return the ids that executions consume, sorted."""
    has = executions.has_value("consumes")
    return sorted_distinct(executions.columns["consumes"].values[has]) if has.any() else np.empty(0, np.int64)


def make_counted_ids_unique(ids: Ints, host: Ints) -> Ints:
    """Make ids that each host counts for itself unique over hosts. Those of the first host stay unchanged.

    No host counts to 2^40: larger ids mean the same on all hosts.
    """
    if not host.any():
        return ids
    counted = (host > 0) & (ids >= 0) & (ids < _MAX_COUNTED_ID)
    return np.where(counted, -(host * _MAX_COUNTED_ID + ids) - 2, ids)


def make_ids_unique(ids: Ints, host: Ints) -> Ints:
    """Make ids of any size unique per host: a host's ids move by a stride for which no two meet.

    Those of the first host stay unchanged.
    """
    return ids + host * _HOST_STRIDE if host.any() else ids


_MAX_COUNTED_ID: Final = 1 << 40
_HOST_STRIDE: Final = 0x1E3779B97F4A7C15
"""An odd number without a pattern; sums wrap around."""


class HostCallCollector(Struct):
    """Collects the host events that device events may refer to, from batch after batch of host events.

    `device_columns` are the columns that device events have, `correlation_ids` their ids of `correlation`: most calls
    of the runtime launch nothing. `executed_ids` are the ids that executions on devices consume, sorted; `by_order`
    says that executions may have to be matched to calls by order; `host` is that of each lane. Collected calls wait in
    the `spill`. `unmatched_launches` counts launches whose correlation id no device event has.
    """

    device_columns: Collection[str]
    correlation_ids: IdSet
    executed_ids: Ints
    by_order: bool
    host: Ints
    spill: Spill
    unmatched_launches: int = 0
    _found: dict[str, SpilledCalls] = field(default_factory=dict)
    _executes: list[CallTable] = field(default_factory=list)
    _functions: FunctionNumbers = field(default_factory=FunctionNumbers)

    def add(self, events: EventRows, parent: Ints, step: Ints) -> None:
        """Add the events of a batch; `parent` is the row of each event's parent, `step` its step, -1 for none."""
        kind = events.columns["kind"].values
        if self.by_order:
            self._add_executes(events, parent, step)
        for device_column, host_column in _ID_JOINS:
            if device_column not in self.device_columns:
                continue
            has = events.has_value(host_column)
            if host_column == _CORRELATION:
                has = has & _CAN_BE_CORRELATED[kind]
            if host_column == _RUN:
                has = has & ~IS_PART_OF_RUN[kind]
            rows = np.flatnonzero(has)
            if host_column == _CORRELATION and len(rows):
                matched = self.correlation_ids.has(events.columns[host_column].values[rows])
                others = rows[~matched & (kind[rows] == _RUNTIME)]
                self.unmatched_launches += _count_launches(events.columns["name"].values[others])
                rows = rows[matched]
            if host_column == _RUN:
                rows = rows[~self._produced_execution(events, rows)]
            if len(rows):
                key, late = _host_unique_ids(events, host_column, rows, self.host), kind[rows] != _RUNTIME
                where = events.lane[rows], events.start[rows], events.end[rows]
                calls = CallTable(key, rows + events.first, step[rows].astype(np.int32), late, *where)
                spilled = self._found.setdefault(host_column, SpilledCalls(self.spill, f"calls-{host_column}"))
                spilled.add(_choose_calls(host_column)(calls))

    def _add_executes(self, events: EventRows, parent: Ints, step: Ints) -> None:
        """Add the calls for executions by the function around them; none lies inside another of its thread."""
        runtime = np.flatnonzero(events.columns["kind"].values == _RUNTIME)
        codes, name = np.unique(events.columns["name"].values[runtime], return_inverse=True)
        names = _decode_names(codes)
        rows = runtime[names.str.contains(EXECUTE_CALL).to_numpy()[name]]
        if not len(rows):
            return
        function = np.full(len(events.lane) + 1, UNNAMED_FUNCTION)  # of nothing, at -1
        function[runtime] = self._functions.of_calls(names.to_list())[name]
        around = nearest_chosen_ancestor(parent, function[:-1] != UNNAMED_FUNCTION)[rows]
        where = events.lane[rows], events.start[rows], events.end[rows]
        late = np.zeros(len(rows), np.bool_)
        calls = CallTable(function[around], events.ids[rows], step[rows].astype(np.int32), late, *where)
        self._executes.append(calls.outermost_per_key())

    def _produced_execution(self, events: EventRows, rows: npt.NDArray[np.intp]) -> Mask:
        """Mask of rows that produced an execution: they launched no other, though devices may use equal run numbers."""
        produced_one = events.has_value("produces")[rows]
        if not len(self.executed_ids) or not produced_one.any():
            return np.zeros_like(produced_one)
        produced = events.columns["produces"].values[rows[produced_one]]
        at = np.minimum(np.searchsorted(self.executed_ids, produced), len(self.executed_ids) - 1)
        produced_one[produced_one] = self.executed_ids[at] == produced
        return produced_one

    def build_launch_table(self) -> LaunchTable:
        """Return all calls, ready to be joined; nothing can be added afterwards."""
        ids, steps = self.spill.new_array("launches-id", np.int64), self.spill.new_array("launches-step", np.int32)
        tables, first = list[_KeyTable](), [0]
        for _, column in _ID_JOINS:
            keys, spilled = self.spill.new_array(f"launches-{column}", np.int64), self._found.pop(column, None)
            rows, groups, begun = ([np.empty(0, np.int64)] for _ in range(3))
            for resolved in () if spilled is None else spilled.iterate_resolved_calls(_choose_calls(column)):
                rows.append(resolved.rows + keys.height)
                groups.append(resolved.key[resolved.rows])
                begun.append(resolved.begun)
                for array, values in ((keys, resolved.key), (ids, resolved.id), (steps, resolved.step)):
                    array.add(values)
            tables.append(
                _KeyTable(keys.values(), _RepeatedKeys.from_sorted_calls(*map(np.concatenate, (rows, groups, begun))))
            )
            first.append(ids.height)
        by_order = concat_call_tables(self._executes).outermost_per_key() if self._executes else None
        for array, values in () if by_order is None else ((ids, by_order.id), (steps, by_order.step)):
            array.add(values)
        ids.add(np.full(1, -1))
        steps.add(np.full(1, -1, np.int32))
        return LaunchTable(
            tuple(tables),
            tuple(first),
            ids.values(),
            steps.values(),
            np.empty(0, np.int64) if by_order is None else by_order.begun,
            np.empty(0, np.int64) if by_order is None else by_order.key,
            self._functions,
            self.host,
        )


def _count_launches(names: Ints) -> int:
    """Count the names (as codes) of calls whose device work profilers record."""
    codes, count = np.unique(names, return_counts=True)
    if not len(codes):
        return 0
    is_launch = [RECORDED_LAUNCH_CALL.search(name) is not None for name in _decode_names(codes).to_list()]
    return int(count[np.array(is_launch)].sum())


def _choose_calls(name: str) -> Callable[[CallTable], CallTable]:
    """Return the method that chooses between calls with equal values in a column of this name."""
    return CallTable.outermost_per_key if name == _CORRELATION else CallTable.first_per_key


def _decode_names(codes: Ints) -> pl.Series:
    """Return names by their codes."""
    return columns_to_frame({"name": MaskedColumn(codes)}, {"name": pl.Categorical()})["name"].cast(pl.String)


def _host_unique_ids(events: EventRows, name: str, rows: npt.NDArray[np.intp], host: Ints) -> Ints:
    """Return the ids of some events in a column; ids that hosts count for themselves are made unique."""
    ids = events.columns[name].values[rows]
    if name == _CORRELATION:
        return make_counted_ids_unique(ids, host[events.lane[rows]])
    return make_ids_unique(ids, host[events.lane[rows]]) if name == _RUN else ids


class _RepeatedKeys(NamedTuple):
    """Calls with repeated keys: their `rows` in a table (and -1, the last), and the latest begun call of a key.

    Keys are numbered: `first` has the first row of each.
    """

    first: Ints
    rows: Ints
    latest: LatestBegun

    @classmethod
    def from_sorted_calls(cls, rows: Ints, key: Ints, begun: Ints) -> _RepeatedKeys:
        """Index calls with these rows, keys and starts, sorted by key and start."""
        begins = differs_from_previous(key)
        return cls(rows[begins], np.append(rows, -1), LatestBegun(np.cumsum(begins) - 1, begun))

    def latest_begun(self, row: Ints, instant: Ints) -> Ints:
        """Return the row of the latest call begun at an instant, among those with the key whose first row is given."""
        number = find_rows(self.first, row)
        return np.where(number < 0, row, np.maximum(row, self.rows[self.latest.latest_index_at(number, instant)]))


class _KeyTable(NamedTuple):
    """The sorted keys of some calls, and the repeated ones."""

    key: Ints
    repeated_keys: _RepeatedKeys


class LaunchTable(NamedTuple):
    """The host events that launch something. A *call* is a row of `id` and `step`; -1, their last row, is none."""

    tables: tuple[_KeyTable, ...]
    first: tuple[int, ...]
    id: Ints
    step: npt.NDArray[np.int32]
    executes: Ints
    function: Ints
    functions: FunctionNumbers
    host: Ints

    @property
    def repeated_id_count(self) -> int:
        """The number of ids that refer to several calls, one after the other or in several processes."""
        return sum(len(table.repeated_keys.first) for table in self.tables)

    def match_by_id(self, events: EventRows) -> Ints:
        """Return the call of each device event by its own ids.

        In order of trust: equal `correlation`; the host event whose `produces` is this event's `consumes`; the first
        host event of the same `run` that is no op of it, no wait for it, and has not launched another. Of several,
        calls of the runtime come before others, and earlier before later. But ids of `correlation` belong to a process
        and may start anew: of calls that do not lie inside one another, the latest that has begun when the event begins
        is taken.
        """
        call = np.full(len(events.lane), -1, np.int64)
        for (column, _), (key, repeated), first in zip(_ID_JOINS, self.tables, self.first[:-1], strict=True):
            rows = np.flatnonzero(events.has_value(column))
            if not len(key) or not len(rows):
                continue
            wanted = _host_unique_ids(events, column, rows, self.host)
            at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
            known = key[at] == wanted
            call[rows[known]] = repeated.latest_begun(at[known], events.start[rows[known]]) + first
        return call

    def match_by_order(self, executions: EventRows) -> Ints:
        """Return the call of each execution on the one device of a CPU, where no call has an id, by the order of both.

        The calls of each function are matched to the executions of its programs, where JAX names them: programs that do
        not depend on one another begin in any order.
        """
        call = np.full(len(executions.lane), -1, np.int64)
        codes, name = np.unique(executions.columns["name"].values, return_inverse=True)
        function = self.functions.of_programs(_decode_names(codes).to_list())[name]
        run = executions.columns[_RUN].values if executions.has_value(_RUN).all() else None
        for number in sorted_distinct(function).tolist():
            rows, calls = np.flatnonzero(function == number), np.flatnonzero(self.function == number)
            rows = rows[np.argsort(executions.start[rows], kind="stable")]
            if run is not None and are_consecutive_runs(run[rows]):
                rows = rows[np.argsort(run[rows], kind="stable")]
            others = 0 if number == UNNAMED_FUNCTION else int(np.count_nonzero(self.function == UNNAMED_FUNCTION))
            position = pair_executions_with_calls(executions.start[rows], self.executes[calls], others)
            call[rows] = np.where(position >= 0, np.append(calls, -1)[position] + self.first[-1], -1)
        return call

    def ids(self, call: Ints) -> Ints:
        """Return the ids of calls."""
        return self.id.take(call)

    def steps(self, call: Ints) -> Ints:
        """Return the steps of calls, -1 where they have none."""
        return self.step.take(call).astype(np.int64)
