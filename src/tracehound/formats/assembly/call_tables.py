"""Host events that device events may refer to, put aside until all of them are known.

A table chooses between calls with equal keys, and keeps few of their columns in memory for a file of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.formats.assembly.event_batches import BATCH_SIZE
from tracehound.formats.spill import MaskedColumn, Spill, SpilledRows
from tracehound.model.trace import schema
from tracehound.numeric.id_set import sorted_distinct
from tracehound.numeric.intervals import Ints, Mask


class CallTable(NamedTuple):
    """Host events by one of their columns: its value (`key`), and the event's id and step (-1: none).

    Of those with one key, calls of the runtime come before others (`late`), then the earlier before the later. `thread`
    is the lane, `begun` and `until` are start and end.
    """

    key: Ints
    id: Ints
    step: npt.NDArray[np.int32]
    late: Mask
    thread: Ints
    begun: Ints
    until: Ints

    def first_per_key(self) -> CallTable:
        """Return the first call of each key, sorted by key."""
        order = self._order()
        return self.take(order[differs_from_previous(self.key[order])])

    def outermost_per_key(self) -> CallTable:
        """Return, sorted by key and start, the outermost calls of each key: of the runtime if any, else the others.

        Of calls on one thread that overlap, even in part, the first stays, and lasts until all of them have ended: so
        the result does not depend on which of them are combined first.
        """
        order = self._order()
        begins = differs_from_previous(self.key[order])
        if begins.all():
            return self.take(order)
        group = np.cumsum(begins) - 1
        preferred = self.take(order[self.late[order] == self.late[order[begins]][group]])
        order = np.lexsort((preferred.id, preferred.begun, preferred.thread, preferred.key))
        key, thread = preferred.key[order], preferred.thread[order]
        group = np.cumsum(differs_from_previous(key) | differs_from_previous(thread)) - 1
        ends, rank = np.unique(preferred.until[order], return_inverse=True)
        max_end = ends[np.maximum.accumulate(group * len(ends) + rank) - group * len(ends)]
        inside = np.append(False, (group[1:] == group[:-1]) & (preferred.begun[order][1:] < max_end[:-1]))
        outer = np.flatnonzero(~inside)
        outermost = preferred.take(order[outer])._replace(until=np.maximum.reduceat(preferred.until[order], outer))
        return outermost.take(np.lexsort((outermost.id, outermost.begun, outermost.key)))

    def _order(self) -> npt.NDArray[np.intp]:
        order = np.argsort(self.key, kind="stable")
        if differs_from_previous(self.key[order]).all():
            return order
        return np.lexsort((self.id, self.begun, self.late, self.key))

    def take(self, rows: npt.NDArray[np.intp]) -> CallTable:
        """Return some of the rows."""
        key, id_, step, late, thread, begun, until = self
        return CallTable(key[rows], id_[rows], step[rows], late[rows], thread[rows], begun[rows], until[rows])


def differs_from_previous(values: Ints) -> Mask:
    """Mask of the values that differ from the one before."""
    return np.append(True, values[1:] != values[:-1]) if len(values) else np.empty(0, np.bool_)


def concat_call_tables(tables: Sequence[CallTable]) -> CallTable:
    """Concatenate several tables."""
    return CallTable(*(np.concatenate(column) for column in zip(*tables, strict=True)))


class ResolvedCalls(NamedTuple):
    """Calls by key, with the columns needed later. Of those at `rows`, whose keys repeat, `begun` has the starts."""

    key: Ints
    id: Ints
    step: npt.NDArray[np.int32]
    rows: Ints
    begun: Ints


class SpilledCalls(Struct):
    """Calls sorted by key that wait in a spill until all are collected; the names of their rows begin with `name`."""

    spill: Spill
    name: str
    _parts: list[SpilledRows] = field(default_factory=list)

    def add(self, calls: CallTable) -> None:
        """Put calls aside, sorted by key. Raises OSError as writing does."""
        columns = {name: MaskedColumn(values) for name, values in calls._asdict().items()}
        self._parts.append(self.spill.spill_columns(columns, _COLUMNS, f"{self.name}-{len(self._parts)}"))

    def iterate_resolved_calls(
        self, choose: Callable[[CallTable], CallTable], size: int = BATCH_SIZE
    ) -> Iterator[ResolvedCalls]:
        """Yield all calls by key, about `size` at a time; `choose` chooses those that stay of calls with one key."""
        for ranges in self._row_ranges(size):
            key = _read_column(ranges, "key")
            order = np.argsort(key, kind="stable")
            key = key[order]
            begins = differs_from_previous(key)
            is_unique = begins & np.append(begins[1:], True)
            if is_unique.all():
                id_, step = (_read_column(ranges, name)[order] for name in ("id", "step"))
                yield ResolvedCalls(key, id_, step, *(np.empty(0, np.int64),) * 2)
            else:
                yield _with_repeated_keys(
                    choose(CallTable(*(_read_column(ranges, name)[order] for name in CallTable._fields)))
                )

    def _row_ranges(self, size: int) -> Iterator[list[_RowRange]]:
        """Yield the rows of parts with the next keys, about `size` of them; calls with one key come together."""
        if not self._parts:
            return
        heights = np.array([part.height for part in self._parts])
        stride = max(1, size // _SAMPLES)
        samples = np.sort(np.concatenate([_read_keys(part)[::stride] for part in self._parts]))
        edges = sorted_distinct(samples[size // stride :: size // stride])
        at = [np.searchsorted(_read_keys(part), edges) for part in self._parts]
        bounds = np.column_stack([np.zeros(len(at), np.int64), at, heights])
        for low, high in zip(bounds.T[:-1], bounds.T[1:], strict=True):
            if nonempty := np.flatnonzero(high > low).tolist():
                yield [_RowRange(self._parts[part], int(low[part]), int(high[part])) for part in nonempty]


class _RowRange(NamedTuple):
    """The rows `[low, high)` of some spilled rows."""

    spilled: SpilledRows
    low: int
    high: int


def _read_keys(part: SpilledRows) -> Ints:
    return part.read(0, part.height, ("key",))["key"].values


def _read_column(ranges: Sequence[_RowRange], name: str) -> npt.NDArray[Any]:
    return np.concatenate([spilled.read(low, high, (name,))[name].values for spilled, low, high in ranges])


def _with_repeated_keys(calls: CallTable) -> ResolvedCalls:
    """Return calls by key, of which some share one."""
    begins = differs_from_previous(calls.key)
    rows = np.flatnonzero(~(begins & np.append(begins[1:], True)))
    return ResolvedCalls(calls.key, calls.id, calls.step, rows, calls.begun[rows])


_SAMPLES: Final = 64
"""The keys per range that are sampled to find where the next begins."""

_COLUMNS: Final = schema(
    {
        "key": pl.Int64(),
        "id": pl.Int64(),
        "step": pl.Int32(),
        "late": pl.Boolean(),
        "thread": pl.Int64(),
        "begun": pl.Int64(),
        "until": pl.Int64(),
    }
)
