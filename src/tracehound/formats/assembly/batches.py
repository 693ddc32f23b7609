"""Raw events in pieces -> batches of events in their final order, each small enough to work on in memory.

Owns which rows of which pieces make a batch: whole lanes, many at a time, or a stretch of one long lane. Knows no
event's meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.formats.spill import Column, Kept
from tracehound.intervals import Ints, Mask
from tracehound.lookup import distinct
from tracehound.nesting import lane_order, outermost, still_open

SIZE: Final = 1 << 17
"""How many events a batch has, about: 150 to 200 bytes of memory each while they are worked on."""

_STRIDE: Final = 64
"""A long lane is cut between starts of which every batch has about so many."""


class Source(NamedTuple):
    """A piece of the file: `shift` is added to its times, `first` to its records, and `ops` numbers its ops anew."""

    kept: Kept
    shift: int
    first: int
    ops: Ints | None = None

    def read(self, low: int, high: int, names: Sequence[str]) -> dict[str, Column]:
        """The rows `[low, high)` of those columns of the names that there are, with times and records as they are."""
        columns = self.kept.read(low, high, [name for name in names if name in self.kept.dtypes])
        if self.ops is not None and "op" in columns and len(self.ops):
            values, valid = columns["op"]
            columns["op"] = Column(self.ops[values], valid)
        return columns


class Runs(NamedTuple):
    """Rows `[low[i], high[i])` of the source `source[i]` are events of `lane[i]`; sorted by lane, then source."""

    lane: Ints
    source: Ints
    low: Ints
    high: Ints

    def at(self, rows: slice | Ints) -> Runs:
        """Some of them."""
        return Runs(self.lane[rows], self.source[rows], self.low[rows], self.high[rows])

    @property
    def height(self) -> int:
        """How many events they have."""
        return int((self.high - self.low).sum())


def all_runs(kept: Sequence[Kept], lanes: Sequence[Ints | None]) -> Runs:
    """The runs of all pieces; `lanes` maps the lane numbers of each piece to those of the file."""
    lane, source, low, high = [], [], [], []
    for number, (rows, numbers) in enumerate(zip(kept, lanes, strict=True)):
        if rows.runs is None:
            raise ValueError("a piece holds events")
        lane.append(rows.runs.lane if numbers is None else np.asarray(numbers, np.int64)[rows.runs.lane])
        source.append(np.full(len(rows.runs.lane), number, np.int64))
        low.append(rows.runs.bounds[:-1])
        high.append(rows.runs.bounds[1:])
    if not lane:
        return Runs(*(np.empty(0, np.int64) for _ in Runs._fields))
    runs = Runs(*(np.concatenate(column) for column in (lane, source, low, high)))
    return runs.at(np.argsort(runs.lane, kind="stable"))


class Rows(Struct, frozen=True, eq=False, dict=True):
    """Events in order, of which the first has the id `first`: their lanes, and columns as numbers."""

    lane: Ints
    columns: Mapping[str, Column]
    first: int

    @property
    def start(self) -> Ints:
        """When they start, ps."""
        return self.columns["start"].values

    @property
    def end(self) -> Ints:
        """When they end, ps."""
        return self.columns["end"].values

    @cached_property
    def lanes(self) -> npt.NDArray[np.intp]:
        """The rows at which their lanes begin."""
        return np.append(0, np.flatnonzero(self.lane[1:] != self.lane[:-1]) + 1)

    @cached_property
    def ids(self) -> Ints:
        """Their ids."""
        return np.arange(self.first, self.first + len(self.lane))

    def valid(self, name: str) -> Mask:
        """Which of them have a value in a column."""
        column = self.columns.get(name)
        if column is None:
            return np.zeros(len(self.lane), np.bool_)
        return np.ones(len(self.lane), np.bool_) if column.valid is None else column.valid

    def at(self, order: npt.NDArray[np.intp]) -> Rows:
        """The same in another order."""
        columns = {name: column.at(order) for name, column in self.columns.items()}
        return Rows(self.lane[order], columns, self.first)


class Batch(Struct, frozen=True, eq=False):
    """Some events that follow one another in the part: the rows `runs`, of which the first will be row `first`."""

    runs: Runs
    first: int
    sources: Sequence[Source]

    @property
    def height(self) -> int:
        """How many events it has."""
        return self.runs.height

    def read(self, names: Sequence[str]) -> Rows:
        """Its events, sorted by (lane, start, -end), with the lanes, times and records of the file.

        They have `start` and `end`, and of the columns named those that any of the sources has.
        """
        runs = self._by_source()
        columns, _ = self._parts(runs, names)
        rows = Rows(np.repeat(runs.lane, runs.high - runs.low), columns, self.first)
        whole_lanes = bool(np.all(runs.lane[1:] > runs.lane[:-1]))  # each in one stretch, and those are in order
        return rows if whole_lanes else _in_order(rows)

    def column(self, name: str) -> Column | None:
        """One of its columns, in no order; None where none of the sources has it."""
        columns, _ = self._parts(self._by_source(), (name,))
        return columns.get(name)

    def outline(self) -> Rows:
        """Of a batch of one lane, the events that lie inside no other of it, and those that may contain later ones."""
        columns, sizes = self._parts(self._by_source(), ("start", "end"))
        until = np.maximum(columns["end"].values, columns["start"].values + 1)
        edges = np.cumsum(sizes)
        kept = [
            distinct(np.append(outermost(until[low:high]), still_open(until[low:high]))) + low
            for low, high in zip((edges - sizes).tolist(), edges.tolist(), strict=True)
        ]  # what is neither in its own part is neither in the whole
        rows = np.concatenate(kept)
        some = {name: column.at(rows) for name, column in columns.items()}
        return _in_order(Rows(np.full(len(rows), self.runs.lane[0]), some, self.first))

    def _by_source(self) -> Runs:
        return self.runs.at(np.lexsort((self.runs.low, self.runs.source)))

    def _parts(self, runs: Runs, names: Sequence[str]) -> tuple[dict[str, Column], Ints]:
        """Its events, stretch after stretch of a source, and the lengths of the stretches: one lane's is in order."""
        follows = (runs.source[1:] == runs.source[:-1]) & (runs.low[1:] == runs.high[:-1])
        apart = np.flatnonzero(np.append(True, ~follows | (runs.lane[1:] == runs.lane[:-1])))
        lows, highs = runs.low[apart], runs.high[np.append(apart[1:] - 1, len(runs.low) - 1)]
        sources = [self.sources[number] for number in runs.source[apart].tolist()]
        parts = [
            source.read(low, high, names)
            for source, low, high in zip(sources, lows.tolist(), highs.tolist(), strict=True)
        ]
        sizes = highs - lows
        columns = joined(parts, sizes.tolist())
        for name, by in _MOVED.items():
            offset = np.array([getattr(source, by) for source in sources])
            if name in columns and offset.any():
                values, valid = columns[name]
                columns[name] = Column(values + np.repeat(offset, sizes), valid)
        return columns, sizes


def _in_order(rows: Rows) -> Rows:
    order = lane_order(rows.lane, rows.start, rows.end)
    return rows if order is None else rows.at(order)


_MOVED: Final = {"start": "shift", "end": "shift", "record": "first"}


def joined(parts: Sequence[Mapping[str, Column]], sizes: Sequence[int]) -> dict[str, Column]:
    """The columns of some parts of so many rows, one after the other; what a part lacks is missing there."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: _one_after_the_other([part.get(name) for part in parts], sizes) for name in names}


def one_after_the_other(columns: Sequence[Column]) -> Column:
    """These columns as one."""
    return _one_after_the_other(columns, [len(column.values) for column in columns])


def _one_after_the_other(columns: Sequence[Column | None], sizes: Sequence[int]) -> Column:
    if len(columns) == 1 and columns[0] is not None:
        return columns[0]
    values, valid = [], []
    for column, size in zip(columns, sizes, strict=True):
        values.append(np.zeros(size, np.int8) if column is None else column.values)
        missing = None if column is None else column.valid
        valid.append(np.full(size, column is not None) if missing is None else missing)
    complete = all(column is not None and column.valid is None for column in columns)
    return Column(np.concatenate(values), None if complete else np.concatenate(valid))


def batches(runs: Runs, sources: Sequence[Source], first: int, size: int = SIZE) -> Iterator[list[Batch]]:
    """Batches of about `size` events, in the order of the lanes; those of one long lane come in one list.

    `first` is the row of the first event. Events of one lane that start together stay together.
    """
    if len(runs.lane) == 0:
        return
    begins = np.flatnonzero(np.append(True, runs.lane[1:] != runs.lane[:-1]))
    count = np.add.reduceat(runs.high - runs.low, begins)
    before = np.cumsum(count) - count
    long = count > size
    whole = before // size
    apart = np.append(True, (whole[1:] != whole[:-1]) | long[1:] | long[:-1])
    edges = np.append(begins[apart], len(runs.lane))
    for low, high, done, cut in zip(edges[:-1], edges[1:], before[apart], long[apart], strict=True):
        some = runs.at(slice(low, high))
        pieces = _cut(some, sources, size) if cut else [some]
        row = first + int(done)
        group = []
        for piece in pieces:
            group.append(Batch(piece, row, sources))
            row += piece.height
        yield group


def _cut(runs: Runs, sources: Sequence[Source], size: int) -> list[Runs]:
    """One lane in stretches of time of about `size` events."""
    stride = max(1, size // _STRIDE)
    samples = [_starts(runs, sources, run)[::stride].copy() for run in range(len(runs.lane))]  # a view keeps them all
    weight = np.full(sum(map(len, samples)), stride)
    length = runs.high - runs.low
    weight[np.cumsum([len(sample) for sample in samples]) - 1] = (length - 1) % stride + 1
    start = np.concatenate(samples)
    order = np.argsort(start, kind="stable")
    bin_of = (np.cumsum(weight[order]) - weight[order]) // size
    edges = np.unique(start[order][np.flatnonzero(bin_of[1:] != bin_of[:-1]) + 1])
    at = np.stack([np.searchsorted(_starts(runs, sources, run), edges) for run in range(len(runs.lane))])
    bounds = np.hstack([np.zeros((len(at), 1), np.int64), at, length[:, None]]) + runs.low[:, None]
    cut = [Runs(runs.lane, runs.source, bounds[:, k], bounds[:, k + 1]) for k in range(len(edges) + 1)]
    stretches = [stretch.at(np.flatnonzero(stretch.high > stretch.low)) for stretch in cut]
    return [stretch for stretch in stretches if len(stretch.lane)]


def _starts(runs: Runs, sources: Sequence[Source], run: int) -> Ints:
    source = sources[int(runs.source[run])]
    starts: Ints = source.kept.read(int(runs.low[run]), int(runs.high[run]), ["start"])["start"].values
    return starts + source.shift
