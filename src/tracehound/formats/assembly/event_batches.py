"""Raw events in chunks -> batches of events in their final order, each small enough for memory.

A batch has many whole lanes, or a time interval of one long lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.formats.spill import MaskedColumn, SpilledRows
from tracehound.numeric.id_set import sorted_distinct
from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.nesting import lane_sort_order, outermost_rows, still_open_rows

BATCH_SIZE: Final = 1 << 17
"""The approximate number of events of a batch: 150 to 200 bytes of memory each while they are processed."""

_STRIDE: Final = 64
"""A long lane is split between starts; every batch has about this many of them."""


class ShiftedChunk(NamedTuple):
    """A chunk of the file: `shift` is added to its times, `first` to its records, and `ops` renumbers its ops."""

    spilled: SpilledRows
    shift: int
    first: int
    ops: Ints | None = None

    def read(self, low: int, high: int, names: Sequence[str]) -> dict[str, MaskedColumn]:
        """Return the existing columns among `names` of the rows `[low, high)`; times and records are not shifted."""
        columns = self.spilled.read(low, high, [name for name in names if name in self.spilled.dtypes])
        if self.ops is not None and "op" in columns and len(self.ops):
            values, valid = columns["op"]
            columns["op"] = MaskedColumn(self.ops[values], valid)
        return columns


class RowRanges(NamedTuple):
    """Rows `[low[i], high[i])` of the source `source[i]` are events of `lane[i]`; sorted by lane, then source."""

    lane: Ints
    source: Ints
    low: Ints
    high: Ints

    def take(self, rows: slice | Ints) -> RowRanges:
        """Return some of the row ranges."""
        return RowRanges(self.lane[rows], self.source[rows], self.low[rows], self.high[rows])

    @property
    def height(self) -> int:
        """The number of their events."""
        return int((self.high - self.low).sum())


def collect_row_ranges(spilled: Sequence[SpilledRows], lanes: Sequence[Ints | None]) -> RowRanges:
    """Collect the row ranges of all chunks; `lanes` maps the lane numbers of each chunk to those of the file."""
    lane, source, low, high = [], [], [], []
    for number, (rows, numbers) in enumerate(zip(spilled, lanes, strict=True)):
        if rows.runs is None:
            raise ValueError("a piece holds events")
        lane.append(rows.runs.lane if numbers is None else np.asarray(numbers, np.int64)[rows.runs.lane])
        source.append(np.full(len(rows.runs.lane), number, np.int64))
        low.append(rows.runs.bounds[:-1])
        high.append(rows.runs.bounds[1:])
    if not lane:
        return RowRanges(*(np.empty(0, np.int64) for _ in RowRanges._fields))
    runs = RowRanges(*(np.concatenate(column) for column in (lane, source, low, high)))
    return runs.take(np.argsort(runs.lane, kind="stable"))


class EventRows(Struct, frozen=True, eq=False, dict=True):
    """Events in order, of which the first has the id `first`: their lanes, and columns as numbers."""

    lane: Ints
    columns: Mapping[str, MaskedColumn]
    first: int

    @property
    def start(self) -> Ints:
        """The starts of the events, ps."""
        return self.columns["start"].values

    @property
    def end(self) -> Ints:
        """The ends of the events, ps."""
        return self.columns["end"].values

    @cached_property
    def lane_start_rows(self) -> npt.NDArray[np.intp]:
        """The rows at which the lanes begin."""
        return np.append(0, np.flatnonzero(self.lane[1:] != self.lane[:-1]) + 1)

    @cached_property
    def ids(self) -> Ints:
        """The ids of the events."""
        return np.arange(self.first, self.first + len(self.lane))

    def has_value(self, name: str) -> Mask:
        """Mask of the events with a value in a column."""
        column = self.columns.get(name)
        if column is None:
            return np.zeros(len(self.lane), np.bool_)
        return np.ones(len(self.lane), np.bool_) if column.valid is None else column.valid

    def take(self, order: npt.NDArray[np.intp]) -> EventRows:
        """Return the events in another order."""
        columns = {name: column.take(order) for name, column in self.columns.items()}
        return EventRows(self.lane[order], columns, self.first)


class EventBatch(Struct, frozen=True, eq=False):
    """Successive events of the file frames: those in the row ranges `runs`; the first will be row `first`."""

    runs: RowRanges
    first: int
    sources: Sequence[ShiftedChunk]

    @property
    def height(self) -> int:
        """The number of events."""
        return self.runs.height

    def read(self, names: Sequence[str]) -> EventRows:
        """Read the events, sorted by (lane, start, -end), with the file's lanes, times and records.

        They have `start` and `end`, and those of the named columns that any of the sources has.
        """
        runs = self._ranges_by_source()
        columns, _ = self._read_ranges(runs, names)
        rows = EventRows(np.repeat(runs.lane, runs.high - runs.low), columns, self.first)
        whole_lanes = bool(np.all(runs.lane[1:] > runs.lane[:-1]))  # each in one range, and those are in order
        return rows if whole_lanes else _sort_event_rows(rows)

    def column(self, name: str) -> MaskedColumn | None:
        """Read one column, unsorted; None where no source has it."""
        columns, _ = self._read_ranges(self._ranges_by_source(), (name,))
        return columns.get(name)

    def read_outermost_and_open(self) -> EventRows:
        """Read the events of a one-lane batch that lie inside no other of it, and those that may contain later ones."""
        columns, sizes = self._read_ranges(self._ranges_by_source(), ("start", "end"))
        until = np.maximum(columns["end"].values, columns["start"].values + 1)
        edges = np.cumsum(sizes)
        selected = [
            sorted_distinct(np.append(outermost_rows(until[low:high]), still_open_rows(until[low:high]))) + low
            for low, high in zip((edges - sizes).tolist(), edges.tolist(), strict=True)
        ]  # an event that is neither in its part is neither in the whole
        rows = np.concatenate(selected)
        some = {name: column.take(rows) for name, column in columns.items()}
        return _sort_event_rows(EventRows(np.full(len(rows), self.runs.lane[0]), some, self.first))

    def _ranges_by_source(self) -> RowRanges:
        return self.runs.take(np.lexsort((self.runs.low, self.runs.source)))

    def _read_ranges(self, runs: RowRanges, names: Sequence[str]) -> tuple[dict[str, MaskedColumn], Ints]:
        """Read the events, range after range of a source, and the lengths of the ranges; one lane's are in order."""
        follows = (runs.source[1:] == runs.source[:-1]) & (runs.low[1:] == runs.high[:-1])
        begins = np.flatnonzero(np.append(True, ~follows | (runs.lane[1:] == runs.lane[:-1])))
        lows, highs = runs.low[begins], runs.high[np.append(begins[1:] - 1, len(runs.low) - 1)]
        sources = [self.sources[number] for number in runs.source[begins].tolist()]
        parts = [
            source.read(low, high, names)
            for source, low, high in zip(sources, lows.tolist(), highs.tolist(), strict=True)
        ]
        sizes = highs - lows
        columns = concat_column_sets(parts, sizes.tolist())
        for name, by in _SHIFTED_COLUMNS.items():
            offset = np.array([getattr(source, by) for source in sources])
            if name in columns and offset.any():
                values, valid = columns[name]
                columns[name] = MaskedColumn(values + np.repeat(offset, sizes), valid)
        return columns, sizes


def _sort_event_rows(rows: EventRows) -> EventRows:
    order = lane_sort_order(rows.lane, rows.start, rows.end)
    return rows if order is None else rows.take(order)


_SHIFTED_COLUMNS: Final = {"start": "shift", "end": "shift", "record": "first"}


def concat_column_sets(parts: Sequence[Mapping[str, MaskedColumn]], sizes: Sequence[int]) -> dict[str, MaskedColumn]:
    """Concatenate the columns of parts with the given numbers of rows; a column that a part lacks is missing there."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: _concat_optional_columns([part.get(name) for part in parts], sizes) for name in names}


def concat_columns(columns: Sequence[MaskedColumn]) -> MaskedColumn:
    """Concatenate these columns."""
    return _concat_optional_columns(columns, [len(column.values) for column in columns])


def _concat_optional_columns(columns: Sequence[MaskedColumn | None], sizes: Sequence[int]) -> MaskedColumn:
    if len(columns) == 1 and columns[0] is not None:
        return columns[0]
    values, valid = [], []
    for column, size in zip(columns, sizes, strict=True):
        values.append(np.zeros(size, np.int8) if column is None else column.values)
        missing = None if column is None else column.valid
        valid.append(np.full(size, column is not None) if missing is None else missing)
    complete = all(column is not None and column.valid is None for column in columns)
    return MaskedColumn(np.concatenate(values), None if complete else np.concatenate(valid))


def split_into_batches(
    runs: RowRanges, sources: Sequence[ShiftedChunk], first: int, size: int = BATCH_SIZE
) -> Iterator[list[EventBatch]]:
    """Yield batches of about `size` events, in the order of the lanes; those of one long lane come in one list.

    `first` is the row of the first event. Events of one lane with equal starts stay together.
    """
    if len(runs.lane) == 0:
        return
    begins = np.flatnonzero(np.append(True, runs.lane[1:] != runs.lane[:-1]))
    count = np.add.reduceat(runs.high - runs.low, begins)
    before = np.cumsum(count) - count
    long = count > size
    batch_number = before // size
    begins_batch = np.append(True, (batch_number[1:] != batch_number[:-1]) | long[1:] | long[:-1])
    edges = np.append(begins[begins_batch], len(runs.lane))
    for low, high, events_before, is_long in zip(
        edges[:-1], edges[1:], before[begins_batch], long[begins_batch], strict=True
    ):
        selected = runs.take(slice(low, high))
        range_sets = _split_long_lane(selected, sources, size) if is_long else [selected]
        row = first + int(events_before)
        group = []
        for row_ranges in range_sets:
            group.append(EventBatch(row_ranges, row, sources))
            row += row_ranges.height
        yield group


def _split_long_lane(runs: RowRanges, sources: Sequence[ShiftedChunk], size: int) -> list[RowRanges]:
    """Split one lane into time intervals of about `size` events."""
    stride = max(1, size // _STRIDE)
    samples = [
        _read_starts(runs, sources, run)[::stride].copy() for run in range(len(runs.lane))
    ]  # a view would keep all of them in memory
    weight = np.full(sum(map(len, samples)), stride)
    length = runs.high - runs.low
    weight[np.cumsum([len(sample) for sample in samples]) - 1] = (length - 1) % stride + 1
    start = np.concatenate(samples)
    order = np.argsort(start, kind="stable")
    bin_of = (np.cumsum(weight[order]) - weight[order]) // size
    edges = np.unique(start[order][np.flatnonzero(bin_of[1:] != bin_of[:-1]) + 1])
    at = np.stack([np.searchsorted(_read_starts(runs, sources, run), edges) for run in range(len(runs.lane))])
    bounds = np.hstack([np.zeros((len(at), 1), np.int64), at, length[:, None]]) + runs.low[:, None]
    cut = [RowRanges(runs.lane, runs.source, bounds[:, k], bounds[:, k + 1]) for k in range(len(edges) + 1)]
    parts = [part.take(np.flatnonzero(part.high > part.low)) for part in cut]
    return [part for part in parts if len(part.lane)]


def _read_starts(runs: RowRanges, sources: Sequence[ShiftedChunk], run: int) -> Ints:
    source = sources[int(runs.source[run])]
    starts: Ints = source.spilled.read(int(runs.low[run]), int(runs.high[run]), ["start"])["start"].values
    return starts + source.shift
