"""Raw events in chunks -> batches of events in their final order, each small enough for memory.

A batch has many whole lanes, or a time interval of one long lane. On streams that run their kernels in order, one that
contains later ones has an impossible end: those of a batch are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tracehound.formats.spill import MaskedColumn, SpilledRows
from tracehound.model.trace import KIND_CODES
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


RECORDED_END: Final = "recorded_end"
"""The column with the ends that the file has, in batches with kernels whose ends were cut."""

_QUEUE_COLUMNS: Final = ("start", "end", "name", "kind", "correlation", "bytes")
_KERNEL_KINDS: Final = np.array([KIND_CODES["kernel"], KIND_CODES["collective"]])
_ROUNDING: Final = 1_000_000
"""Two times that differ by less may be one time, rounded: a microsecond, in ps."""

_NEVER: Final = int(np.iinfo(np.int64).max)
_BEFORE_ALL: Final = int(np.iinfo(np.int64).min) // 2


class LaterEvents(NamedTuple):
    """Events of a long lane after one of its batches: the first start, and the first end of a kernel that takes time.

    Kernels of launches that have events in the batch are left out.
    """

    first_start: int = _NEVER
    first_kernel_end: int = _NEVER


def survey_queue(group: Sequence[EventBatch], queues: Mask) -> Mapping[int, LaterEvents]:
    """Survey the batches of a long lane that is a queue: what follows each of them, by the first id of the batch.

    Empty if no kernel of the lane has an impossible end, or if the lane runs kernels at the same time.
    """
    lane = group[0].runs.lane[0]
    if len(group) == 1 or not queues[lane]:
        return {}
    found, later, next_rows, impossible = dict[int, LaterEvents](), LaterEvents(), None, 0
    for batch in reversed(group):
        rows = batch.read(_QUEUE_COLUMNS)
        if next_rows is not None:
            launched_here = np.isin(_launch_keys(next_rows), _launch_keys(rows))
            ends = next_rows.end[_lasting_kernel_mask(next_rows) & ~launched_here]
            later = LaterEvents(int(next_rows.start[0]), min(later.first_kernel_end, int(ends.min(initial=_NEVER))))
        found[batch.first] = later
        impossible += int(np.count_nonzero(_cut_ends(rows, 0, len(rows.lane), later) != rows.end))
        next_rows = rows
    if not impossible:
        return {}
    concurrent, before = 0, _NO_KERNEL
    for batch in group:
        rows = batch.read(_QUEUE_COLUMNS)
        kernels = _kernels(rows, 0, len(rows.lane), _cut_ends(rows, 0, len(rows.lane), found[batch.first]), before)
        concurrent += _count_concurrent(kernels)
        before = kernels.last_as_one
    return found if concurrent <= impossible else {}


def cut_impossible_ends(events: EventRows, queues: Mask, later: LaterEvents | None) -> EventRows:
    """Cut the ends of kernels that contain later kernels of their queue at the next start on the lane.

    A queue begins a kernel when the one before has ended, or is about to (programmatic dependent launch): a kernel
    that begins before another and ends after it has an end that cannot be true. Copies may run beside kernels, on an
    engine of their own: only those that are too slow to be true are examined, too. Kernels of one launch may be
    branches of a graph: a kernel that contains only such is cut if few with its name run beside the next one. Lanes on
    which more kernels run beside others than have such ends are no queues.

    `later` has what follows on a long lane, None for a batch of whole lanes.
    """
    if not len(events.lane):
        return events
    edges = np.append(events.lane_start_rows, len(events.lane))
    falls = np.flatnonzero((events.end[:-1] - events.end[1:] > _ROUNDING) & (events.lane[:-1] == events.lane[1:]))
    lanes = np.unique(np.searchsorted(edges, falls, side="right") - 1) if later is None else np.zeros(1, np.intp)
    end = events.end.copy()
    for number in lanes[queues[events.lane[edges[lanes]]]].tolist():
        low, high = int(edges[number]), int(edges[number + 1])
        cut = _cut_ends(events, low, high, later or LaterEvents())
        impossible = np.count_nonzero(cut != end[low:high])
        if later is None and _count_concurrent(_kernels(events, low, high, cut, _NO_KERNEL)) > impossible:
            continue
        end[low:high] = cut
    is_cut = end != events.end
    if not is_cut.any():
        return events
    columns = {**events.columns, "end": MaskedColumn(end), RECORDED_END: MaskedColumn(events.end, is_cut)}
    return EventRows(events.lane, columns, events.first)


def _cut_ends(events: EventRows, low: int, high: int, later: LaterEvents) -> Ints:
    """Return the ends of the rows `[low, high)`, which are of one queue; impossible ones are cut."""
    start, end = events.start[low:high], events.end[low:high]
    is_kernel = _kernel_mask(events)[low:high]
    is_examined = is_kernel | _slow_copy_mask(events, low, high)
    next_row = np.searchsorted(start, start, side="right")
    lasting_end = np.where(_lasting_kernel_mask(events)[low:high], end, _NEVER)
    first_end = np.minimum.accumulate(np.append(lasting_end, later.first_kernel_end)[::-1])[::-1]
    rows = np.flatnonzero(is_examined & (end - _ROUNDING > first_end[next_row]))
    if not len(rows):
        return end
    next_start = np.append(start, later.first_start)[next_row]
    beside_next = is_kernel & (end - _ROUNDING > next_start)
    behind_launch = np.maximum(next_row, _last_rows(_launch_keys(events)[low:high]) + 1)
    is_other_launch = end - _ROUNDING > first_end[behind_launch]
    rows = rows[(is_other_launch | _is_rare(events.columns["name"].values[low:high], is_kernel, beside_next))[rows]]
    cut = end.copy()
    cut[rows] = next_start[rows]
    for row in rows[next_row[rows] > rows + 1][::-1]:  # of equal starts the longest comes first, before and after
        cut[row] = max(cut[row], cut[row + 1])
    return cut


def _last_rows(values: Ints) -> Ints:
    """Return, for each row, the last row with its value."""
    _, number = np.unique(values, return_inverse=True)
    last = np.zeros(number.max(initial=0) + 1, np.int64)
    np.maximum.at(last, number, np.arange(len(values)))
    return last[number]


def _is_rare(names: Ints, is_kernel: Mask, beside_next: Mask) -> Mask:
    """Mask of the rows with a name of which few kernels run beside the next: branches of a graph do each time."""
    _, number = np.unique(names, return_inverse=True)
    total, beside = np.bincount(number, is_kernel), np.bincount(number, beside_next)
    return np.asarray((beside * _RARELY < total)[number])


_RARELY: Final = 10
"""One in more than this many is rare."""


class _Kernels(NamedTuple):
    """Kernels of a queue in order, after one that stands for all before them, with the latest end so far."""

    start: Ints
    end: Ints
    launch: Ints

    @property
    def last_as_one(self) -> _Kernels:
        """The latest end and the last launch, to stand before later kernels."""
        return _Kernels(self.start[-1:], np.maximum.reduce(self.end, keepdims=True), self.launch[-1:])


_NO_KERNEL: Final = _Kernels(*(np.array([_BEFORE_ALL]) for _ in range(3)))


def _kernels(events: EventRows, low: int, high: int, end: Ints, before: _Kernels) -> _Kernels:
    """Return the kernels among the rows `[low, high)`, with these ends, after those `before`."""
    rows = np.flatnonzero(_kernel_mask(events)[low:high])
    columns = (events.start[low:high], end, _launch_keys(events)[low:high])
    return _Kernels(*(np.append(first, column[rows]) for first, column in zip(before, columns, strict=True)))


def _count_concurrent(kernels: _Kernels) -> int:
    """Count the kernels of which most runs beside an earlier one of another launch."""
    start, end, launch = kernels
    beside = np.minimum(np.maximum.accumulate(end)[:-1], end[1:]) - start[1:]
    is_concurrent = (beside > _ROUNDING) & (2 * beside > end[1:] - start[1:]) & (launch[1:] != launch[:-1])
    return int(np.count_nonzero(is_concurrent))


def _kernel_mask(events: EventRows) -> Mask:
    """Mask of kernels and collectives: copies may run on engines of their own."""
    return np.isin(events.columns["kind"].values, _KERNEL_KINDS)


def _lasting_kernel_mask(events: EventRows) -> Mask:
    """Mask of kernels and collectives that take time: one of no length inside another may be at a wrong time itself."""
    return _kernel_mask(events) & (events.end > events.start)


def _slow_copy_mask(events: EventRows, low: int, high: int) -> Mask:
    """Mask of the copies among the rows `[low, high)` that are too slow to be true: no link moves so few bytes."""
    if "bytes" not in events.columns:
        return np.zeros(high - low, np.bool_)
    is_copy = events.columns["kind"].values[low:high] == KIND_CODES["copy"]
    length = events.end[low:high] - events.start[low:high]
    is_slow = (length >= _LONG_COPY) & (events.columns["bytes"].values[low:high] < length // _SLOWEST_COPY)
    return np.asarray(is_copy & is_slow & events.has_value("bytes")[low:high])


_LONG_COPY: Final = 1_000_000_000
_SLOWEST_COPY: Final = 10_000
"""A copy of at least a millisecond that takes longer than 10 ns for each byte (0.1 GB/s) is too slow; ps."""


def _launch_keys(events: EventRows) -> Ints:
    """A number for each launch: the correlation id, or one of its own for an event without it."""
    known = events.has_value("correlation")
    own = -1 - events.ids
    return np.where(known, events.columns["correlation"].values, own) if known.any() else own
