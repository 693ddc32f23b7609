"""Raw events in pieces -> batches of events in their final order, each small enough to work on in memory.

Owns which rows of which pieces make a batch: whole lanes, many at a time, or a stretch of one long lane. Knows no
event's meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.formats.spill import Kept
from tracehound.intervals import Ints, lane_order

SIZE: Final = 1 << 18
"""How many events a batch has, about: 150 to 200 bytes of memory each while they are worked on."""

_STRIDE: Final = 64
"""A long lane is cut between starts of which every batch has about so many."""


class Source(NamedTuple):
    """A piece of the file: `shift` is added to its times, `first` to its records; `ops` numbers its ops anew and
    `amend` replaces columns.
    """

    kept: Kept
    shift: int
    first: int
    ops: Ints | None = None
    amend: tuple[pl.Expr, ...] = ()

    def rows(self, low: int, high: int, dtypes: pl.Schema) -> pl.DataFrame:
        """The rows `[low, high)` of those columns in `dtypes` that there are, amended where these are all it takes."""
        columns = [column for column in self.kept.columns if column in dtypes]
        frame = self.kept.rows(low, high, columns)
        if self.ops is not None and "op" in columns:
            frame = frame.with_columns(pl.Series("op", self.ops, pl.Int64).gather(frame["op"]))
        taken = {name for expr in self.amend for name in expr.meta.root_names()}
        if not taken or not taken <= set(dtypes):
            return frame
        absent = [pl.lit(None, dtypes[name]).alias(name) for name in sorted(taken - set(columns))]
        return frame.with_columns(absent).with_columns(self.amend)


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


@dataclass(frozen=True, eq=False)
class Batch:
    """Some events that follow one another in the part: the rows `runs`, of which the first will be row `first`."""

    runs: Runs
    first: int
    sources: Sequence[Source]

    @property
    def height(self) -> int:
        """How many events it has."""
        return self.runs.height

    def read(self, dtypes: pl.Schema) -> pl.DataFrame:
        """Its events, sorted by (lane, start, -end), with the lanes, times and records of the file.

        Of the columns in `dtypes` it has `lane`, `start`, `end` and those that any of its sources has.
        """
        runs = self.runs.at(np.lexsort((self.runs.low, self.runs.source)))
        joined = np.flatnonzero(
            np.append(True, (runs.source[1:] != runs.source[:-1]) | (runs.low[1:] != runs.high[:-1]))
        )
        frames, own = [], pl.Schema({name: dtype for name, dtype in dtypes.items() if name != "lane"})
        for low, last in zip(joined.tolist(), [*(joined[1:] - 1).tolist(), len(runs.lane) - 1], strict=True):
            source = self.sources[int(runs.source[low])]
            frames.append(source.rows(int(runs.low[low]), int(runs.high[last]), own))
        frame = pl.concat(frames, how="diagonal_relaxed")
        return self._in_order(frame.cast({name: dtypes[name] for name in frame.columns}), runs)

    def _in_order(self, frame: pl.DataFrame, runs: Runs) -> pl.DataFrame:
        count = runs.high - runs.low
        lane = np.repeat(runs.lane, count)
        moved = {"start": "shift", "end": "shift", "record": "first"}
        columns = [pl.Series("lane", lane)]
        for column, by in moved.items():
            offset = np.array([getattr(source, by) for source in self.sources], np.int64)[runs.source]
            if column in frame.columns and offset.any():
                columns.append(frame[column] + pl.Series(np.repeat(offset, count)))
        frame = frame.with_columns(columns)
        order = lane_order(lane, frame["start"].to_numpy(), frame["end"].to_numpy())
        return frame if order is None else frame[order]


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
    samples = [_starts(runs, sources, run)[::stride] for run in range(len(runs.lane))]
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
    rows = source.kept.rows(int(runs.low[run]), int(runs.high[run]), ["start"])
    starts: Ints = rows["start"].to_numpy() + source.shift
    return starts
