"""The host events that events of devices may point at, put aside until all of them are known.

Owns which of several with one id are meant, and that a file of any size needs few of their columns in memory. Knows no
bytes, and no columns of events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.formats.spill import Column, Kept, Spill
from tracehound.intervals import Ints, Mask
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
        """Sorted by key and start: of each key the calls of the runtime, else the others, and none inside another."""
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
        outer = order[~inside]
        return same.at(outer[np.lexsort((same.id[outer], same.begun[outer], same.key[outer]))])

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
    """Calls by key, with what is asked of them. `begun` is None where no key repeats: nobody asks for it then."""

    key: Ints
    id: Ints
    step: npt.NDArray[np.int32]
    begun: Ints | None


class Waiting(Struct):
    """Calls that wait in a spill until all are there, in rows whose names begin with `name`."""

    spill: Spill
    name: str
    _parts: list[Kept] = field(default_factory=list)

    def add(self, calls: Calls) -> None:
        """Put some aside. Raises OSError as writing does."""
        columns = {name: Column(values) for name, values in calls._asdict().items()}
        self._parts.append(self.spill.put(columns, _COLUMNS, f"{self.name}-{len(self._parts)}"))

    def settled(self, meant: Callable[[Calls], Calls]) -> Settled | None:
        """All of them, of those that share a key the ones that are `meant`; None where there are none.

        A column is read at a time, of which few are needed where no key repeats.
        """
        if not self._parts:
            return None
        key = self._column("key")
        order = np.argsort(key, kind="stable")
        key = key[order]
        begins = fresh(key)
        alone = begins & np.append(begins[1:], True)
        if alone.all():
            return Settled(key, self._column("id")[order], self._column("step")[order], None)
        some, rest = meant(Calls(*(self._column(name)[order[~alone]] for name in Calls._fields))), order[alone]
        keys = np.concatenate([key[alone], some.key])
        order = np.argsort(keys, kind="stable")
        names = Settled._fields[1:]
        others = (np.concatenate([self._column(name)[rest], getattr(some, name)])[order] for name in names)
        return Settled(keys[order], *others)

    def _column(self, name: str) -> npt.NDArray[Any]:
        return np.concatenate([part.read(0, part.height, (name,))[name].values for part in self._parts])


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
