"""The host events that events of devices may point at, put aside until all of them are known.

Owns which of several with one id are meant, and that a file of any size needs few of their columns in memory. Knows no
bytes, and no columns of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.formats.assembly.batches import SIZE
from tracehound.formats.spill import Column, Kept, Spill
from tracehound.intervals import Ints, Mask
from tracehound.lookup import distinct
from tracehound.trace import schema


class Calls(NamedTuple):
    """Host events by one of their columns: its value (`key`), and the event's id and step (-1: none).

    Of those with one key, calls of the runtime go before others (`late`), then the earlier before the later. `thread`
    is the lane, `begun` and `until` are the times.
    """

    key: Ints
    id: Ints
    step: npt.NDArray[np.int32]
    late: Mask
    thread: Ints
    begun: Ints
    until: Ints

    def firsts(self) -> Calls:
        """Sorted by key, of each key the first."""
        order = self._order()
        return self.at(order[fresh(self.key[order])])

    def apart(self) -> Calls:
        """Sorted by key and start: of each key the calls of the runtime, else the others, and none inside another.

        Of calls on one thread that overlap, in part too, the first is left, and lasts until all of them have ended: so
        it does not matter which of them are looked at together first.
        """
        order = self._order()
        begins = fresh(self.key[order])
        if begins.all():
            return self.at(order)
        group = np.cumsum(begins) - 1
        same = self.at(order[self.late[order] == self.late[order[begins]][group]])
        order = np.lexsort((same.id, same.begun, same.thread, same.key))
        key, thread = same.key[order], same.thread[order]
        group = np.cumsum(fresh(key) | fresh(thread)) - 1
        known, rank = np.unique(same.until[order], return_inverse=True)
        reach = known[np.maximum.accumulate(group * len(known) + rank) - group * len(known)]
        inside = np.append(False, (group[1:] == group[:-1]) & (same.begun[order][1:] < reach[:-1]))
        outer = np.flatnonzero(~inside)
        left = same.at(order[outer])._replace(until=np.maximum.reduceat(same.until[order], outer))
        return left.at(np.lexsort((left.id, left.begun, left.key)))

    def _order(self) -> npt.NDArray[np.intp]:
        order = np.argsort(self.key, kind="stable")
        if fresh(self.key[order]).all():
            return order
        return np.lexsort((self.id, self.begun, self.late, self.key))

    def at(self, rows: npt.NDArray[np.intp]) -> Calls:
        """Some of them."""
        key, id_, step, late, thread, begun, until = self
        return Calls(key[rows], id_[rows], step[rows], late[rows], thread[rows], begun[rows], until[rows])


def fresh(values: Ints) -> Mask:
    """Which values differ from the one before."""
    return np.append(True, values[1:] != values[:-1]) if len(values) else np.empty(0, np.bool_)


def together(tables: Sequence[Calls]) -> Calls:
    """Several as one."""
    return Calls(*(np.concatenate(column) for column in zip(*tables, strict=True)))


class Settled(NamedTuple):
    """Calls by key, with what is asked of them. Of those at `rows`, whose keys repeat, `begun` has the starts."""

    key: Ints
    id: Ints
    step: npt.NDArray[np.int32]
    rows: Ints
    begun: Ints


class Waiting(Struct):
    """Calls that wait in a spill until all are there, sorted by key, in rows whose names begin with `name`."""

    spill: Spill
    name: str
    _parts: list[Kept] = field(default_factory=list)

    def add(self, calls: Calls) -> None:
        """Put some aside, sorted by key. Raises OSError as writing does."""
        columns = {name: Column(values) for name, values in calls._asdict().items()}
        self._parts.append(self.spill.put(columns, _COLUMNS, f"{self.name}-{len(self._parts)}"))

    def settled(self, meant: Callable[[Calls], Calls], size: int = SIZE) -> Iterator[Settled]:
        """All of them by key, about `size` at a time: of those that share a key the ones that are `meant`."""
        for stretch in self._stretches(size):
            key = _column(stretch, "key")
            order = np.argsort(key, kind="stable")
            key = key[order]
            begins = fresh(key)
            alone = begins & np.append(begins[1:], True)
            if alone.all():
                id_, step = (_column(stretch, name)[order] for name in ("id", "step"))
                yield Settled(key, id_, step, *(np.empty(0, np.int64),) * 2)
            else:
                yield _several(meant(Calls(*(_column(stretch, name)[order] for name in Calls._fields))))

    def _stretches(self, size: int) -> Iterator[list[_Stretch]]:
        """Rows of parts which have the next keys, about `size` of them; what shares a key comes together."""
        if not self._parts:
            return
        heights = np.array([part.height for part in self._parts])
        stride = max(1, size // _SAMPLES)
        samples = np.sort(np.concatenate([_keys(part)[::stride] for part in self._parts]))
        edges = distinct(samples[size // stride :: size // stride])
        at = [np.searchsorted(_keys(part), edges) for part in self._parts]
        bounds = np.column_stack([np.zeros(len(at), np.int64), at, heights])
        for low, high in zip(bounds.T[:-1], bounds.T[1:], strict=True):
            if some := np.flatnonzero(high > low).tolist():
                yield [_Stretch(self._parts[part], int(low[part]), int(high[part])) for part in some]


class _Stretch(NamedTuple):
    """The rows `[low, high)` of some that wait."""

    kept: Kept
    low: int
    high: int


def _keys(part: Kept) -> Ints:
    return part.read(0, part.height, ("key",))["key"].values


def _column(stretches: Sequence[_Stretch], name: str) -> npt.NDArray[Any]:
    return np.concatenate([kept.read(low, high, (name,))[name].values for kept, low, high in stretches])


def _several(calls: Calls) -> Settled:
    """Calls by key, of which some share one."""
    begins = fresh(calls.key)
    rows = np.flatnonzero(~(begins & np.append(begins[1:], True)))
    return Settled(calls.key, calls.id, calls.step, rows, calls.begun[rows])


_SAMPLES: Final = 64
"""So many keys of every stretch are looked at to tell where the next begins."""

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
