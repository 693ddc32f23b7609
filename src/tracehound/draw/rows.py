"""The rows of a timeline as arrays that can be asked about any stretch of time in logarithmic time.

Owns `Row` (slices that do not overlap) and `Rows`, which makes those of a trace when they are first wanted and keeps
them. Knows nothing of characters, and no widths. Times are ps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from zlib import crc32

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.draw.palette import TINTS
from tracehound.intervals import EMPTY, Intervals, Ints, union
from tracehound.trace import KINDS, Trace

KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}


@dataclass(frozen=True)
class Cover:
    """How much of any stretch some disjoint, sorted intervals cover; `before[i]` is the length of the first `i`."""

    start: Ints
    end: Ints
    before: Ints

    @classmethod
    def of(cls, start: Ints, end: Ints) -> Cover:
        """The cover of disjoint intervals in order."""
        return cls(start, end, np.concatenate([np.zeros(1, np.int64), np.cumsum(end - start)]))

    def until(self, times: Ints) -> Ints:
        """For each time, the length covered before it."""
        if len(self.start) == 0:
            return np.zeros(len(times), np.int64)
        last = np.searchsorted(self.start, times, side="right") - 1
        at = np.maximum(last, 0)
        inside = np.minimum(times - self.start[at], self.end[at] - self.start[at])
        return np.where(last < 0, 0, self.before[at] + inside)

    def between(self, start: int, end: int) -> int:
        """The length covered in `[start, end)`."""
        low, high = self.until(np.array([start, max(start, end)], np.int64))
        return int(high - low)


@dataclass(frozen=True)
class Row:
    """Slices on one line of the timeline: sorted, disjoint, none shorter than 1 ps.

    `kind` holds codes of `KINDS`, `name` a code per name (its tint modulo `TINTS`), and `position` where the slice is
    in its lane's frame (None: the slices are the frame, in order).
    """

    start: Ints
    end: Ints
    kind: npt.NDArray[np.uint8]
    name: npt.NDArray[np.uint32]
    position: Ints | None = None

    @cached_property
    def by_kind(self) -> tuple[tuple[int, Cover], ...]:
        """The cover of each kind that occurs."""
        present = np.flatnonzero(np.bincount(self.kind, minlength=1)) if len(self.kind) else np.empty(0, np.int64)
        if len(present) == 1:
            return ((int(present[0]), Cover.of(self.start, self.end)),)
        chosen = ((int(code), self.kind == code) for code in present)
        return tuple((code, Cover.of(self.start[mask], self.end[mask])) for code, mask in chosen)

    def place(self, index: int) -> int:
        """Where slice `index` is in its lane's frame."""
        return index if self.position is None else int(self.position[index])

    def at(self, time: int) -> int | None:
        """The slice that covers the instant."""
        index = int(np.searchsorted(self.start, time, side="right")) - 1
        return index if index >= 0 and time < self.end[index] else None

    def within(self, start: int, end: int) -> tuple[int, int]:
        """The range of slices that touch `[start, end)`."""
        low = int(np.searchsorted(self.end, start, side="right"))
        return low, max(low, int(np.searchsorted(self.start, end, side="left")))


NO_ROW = Row(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint32))


def rows_of(frame: pl.DataFrame) -> tuple[Row, ...]:
    """The rows of one lane's events, by depth."""
    if frame.is_empty():
        return ()
    start, end = frame["start"].to_numpy(), frame["end"].to_numpy()
    depth = frame["depth"].to_numpy()
    kind, name = frame["kind"].to_physical().to_numpy(), name_codes(frame["name"])
    if np.any(end <= start):
        end = np.maximum(end, start + 1)
    if not depth.any():
        return (Row(start, end, kind, name),)
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max()) + 2))
    parts = [order[low:high] for low, high in pairwise(bounds)]
    return tuple(Row(start[part], end[part], kind[part], name[part], part) for part in parts)


def name_codes(names: pl.Series) -> npt.NDArray[np.uint32]:
    """A code for each name of a categorical column, whose rest modulo `TINTS` depends on nothing but the name.

    The codes that polars gives depend on what was read before; colours must not.
    """
    codes: npt.NDArray[np.uint32] = names.to_physical().to_numpy()
    seen = names.unique()
    own = np.fromiter((crc32(str(name).encode()) % TINTS for name in seen.cast(pl.String)), np.uint32, len(seen))
    known = seen.to_physical().to_numpy()
    lookup = np.zeros(int(known.max()) + 1, np.uint32)
    lookup[known] = own
    return codes * np.uint32(TINTS) + lookup[codes]


def row_of_intervals(covered: Intervals, kind: str) -> Row:
    """A row of nameless slices of one kind."""
    size = len(covered.start)
    return Row(covered.start, covered.end, np.full(size, KIND_CODES[kind], np.uint8), np.zeros(size, np.uint32))


class Rows:
    """The rows of one trace, made when first asked for."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._lanes: dict[int, tuple[Row, ...]] = {}
        self._busy: dict[int, tuple[Intervals, Cover]] = {}

    def lane(self, lane: int) -> tuple[Row, ...]:
        """The rows of a lane, by depth."""
        if lane not in self._lanes:
            self._lanes[lane] = rows_of(self.trace.lane(lane))
        return self._lanes[lane]

    def row(self, lane: int, depth: int) -> Row:
        """One row of a lane; an empty one where the lane is not as deep."""
        rows = self.lane(lane)
        return rows[depth] if depth < len(rows) else NO_ROW

    def event(self, lane: int, depth: int, index: int) -> int:
        """The id of slice `index` of a row."""
        return int(self.trace.lane(lane, "id").item(self.row(lane, depth).place(index), 0))

    def slice_of(self, event: int) -> tuple[int, int, int]:
        """Lane, depth and index of an event on its row."""
        found = self.trace.event(event)
        lane, depth = int(found["lane"]), int(found["depth"])
        index = int(np.searchsorted(self.row(lane, depth).start, int(found["start"]), side="left"))
        return lane, depth, index

    def busy(self, rank: int) -> Intervals:
        """When the rank's device works: what any event of its work lanes covers."""
        return self._work(rank)[0]

    def busy_time(self, rank: int, start: int, end: int) -> int:
        """How long of `[start, end)` the rank's device works."""
        return self._work(rank)[1].between(start, end)

    def _work(self, rank: int) -> tuple[Intervals, Cover]:
        if rank not in self._busy:
            lanes = self.trace.lanes.filter((pl.col("rank") == rank) & pl.col("work"))["lane"].to_list()
            outer = [self.row(lane, 0) for lane in lanes]
            covered = (
                union(np.concatenate([r.start for r in outer]), np.concatenate([r.end for r in outer]))
                if outer
                else EMPTY
            )
            self._busy[rank] = (covered, Cover.of(covered.start, covered.end))
        return self._busy[rank]
