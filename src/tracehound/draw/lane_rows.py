"""The rows of a lane as sorted arrays, which are searched in logarithmic time. Times are ps.

A row holds events that do not overlap; a lane has a row for each depth.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from zlib import crc32

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.draw.event_colors import COLORING_BY_KIND, NAME_COLORS, EventColoring
from tracehound.model.trace import KIND_CODES
from tracehound.numeric.intervals import CoverageIndex, Intervals, Ints

OCCUPANCY_BINS = 64
"""Bins that measure how much of an interval a row occupies: about the cells of a screen."""

FEW_OCCUPIED_BINS = 4
"""A row with events in at most this many bins counts as nearly empty."""


class LaneRow(Struct, frozen=True, dict=True):
    """Events on one line of the timeline: sorted, disjoint, none shorter than 1 ps.

    `kind` holds codes of `KINDS`, or of the classes of another coloring, `name` a code per name (its tint modulo
    `TINTS_PER_HUE`), and `position` the event's position in the lane's frame (None: the row is the frame, in order).
    """

    start: Ints
    end: Ints
    kind: npt.NDArray[np.uint8]
    name: npt.NDArray[np.uint32]
    position: npt.NDArray[np.uint32] | None = None

    @cached_property
    def cover_by_kind(self) -> tuple[tuple[int, CoverageIndex], ...]:
        """The cover of each kind that occurs."""
        present = np.flatnonzero(np.bincount(self.kind, minlength=1)) if len(self.kind) else np.empty(0, np.int64)
        if len(present) == 1:
            return ((int(present[0]), CoverageIndex.from_intervals(self.start, self.end)),)
        chosen = ((int(code), self.kind == code) for code in present)
        return tuple((code, CoverageIndex.from_intervals(self.start[mask], self.end[mask])) for code, mask in chosen)

    def covered_time(self, start: int, end: int) -> int:
        """Covered time within `[start, end)`, ps."""
        return sum(cover.covered_between(start, end) for _, cover in self.cover_by_kind)

    @property
    def size(self) -> int:
        """Bytes in memory, with those of `cover_by_kind`."""
        position = 0 if self.position is None else self.position.nbytes
        columns = self.start.nbytes + self.end.nbytes + self.kind.nbytes + self.name.nbytes + position
        return columns + self.start.nbytes * (1 if len(self.cover_by_kind) == 1 else 3)

    def frame_position(self, index: int) -> int:
        """The position of event `index` in its lane's frame."""
        return index if self.position is None else int(self.position[index])

    def event_index_at(self, time: int) -> int | None:
        """The index of the event that covers the instant."""
        index = int(np.searchsorted(self.start, time, side="right")) - 1
        return index if index >= 0 and time < self.end[index] else None

    def count_occupied_bins(self, bounds: Ints) -> int:
        """Number of bins between `bounds` that contain any event."""
        low = np.searchsorted(self.end, bounds[:-1], side="right")
        high = np.searchsorted(self.start, bounds[1:], side="left")
        return int(np.count_nonzero(high > low))

    def event_range(self, start: int, end: int) -> tuple[int, int]:
        """The range of indices of events that touch `[start, end)`."""
        low = int(np.searchsorted(self.end, start, side="right"))
        return low, max(low, int(np.searchsorted(self.start, end, side="left")))


EMPTY_ROW = LaneRow(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint32))


class LaneEventNames(Struct, frozen=True):
    """The distinct names of a lane: `words[i]` is the name with code `codes[i]`; codes are sorted."""

    codes: npt.NDArray[np.uint32]
    words: pl.Series

    def name_of_code(self, code: int) -> str:
        """The name with this code, which must exist."""
        return str(self.words[int(np.searchsorted(self.codes, code))] or "")


class LaneRows(Struct, frozen=True, dict=True):
    """The rows of a lane, by depth, and its names. `first` is the row of its first event in its file."""

    rows: tuple[LaneRow, ...]
    names: LaneEventNames
    first: int = 0

    @cached_property
    def size(self) -> int:
        """Bytes in memory."""
        names = self.names.codes.nbytes + int(self.names.words.estimated_size())
        return names + sum(row.size for row in self.rows)

    def find(self, position: int) -> tuple[int, int]:
        """Depth and index of the event at a position of the lane's frame. Raises KeyError."""
        for depth, row in enumerate(self.rows):
            index = position if row.position is None else int(np.searchsorted(row.position, position))
            if index < len(row.start) and row.frame_position(index) == position:
                return depth, index
        raise KeyError(position)

    @property
    def outer_row_count(self) -> int:
        """Number of rows, from the top, with a single event; 0 if all have one."""
        return next((depth for depth, row in enumerate(self.rows) if len(row.start) > 1), 0)

    def order(self, start: int, end: int) -> tuple[int, ...]:
        """The depths of all rows in the order in which they get a line, if there are fewer lines than rows.

        First the rows with events around `[start, end)`, from the top; then the outer rows with a single event,
        innermost first; then rows that are empty or nearly empty there.
        """
        bounds = _bins_around(start, end)
        marks = [row.count_occupied_bins(bounds) for row in self.rows]
        outer = self.outer_row_count
        shows = [depth for depth in range(outer, len(marks)) if marks[depth] > FEW_OCCUPIED_BINS]
        frames = [depth for depth in reversed(range(outer)) if marks[depth] > FEW_OCCUPIED_BINS]
        rest = [depth for depth, count in enumerate(marks) if 0 < count <= FEW_OCCUPIED_BINS]
        return (*shows, *frames, *rest, *(depth for depth, count in enumerate(marks) if not count))


def _bins_around(start: int, end: int) -> Ints:
    """The bounds of `OCCUPANCY_BINS` equal bins of an interval around `[start, end)`, up to four times as long.

    Its ends are on a coarse grid, so that most moves through time do not change it.
    """
    grid = 1 << max((max(end - start, 1) - 1).bit_length(), OCCUPANCY_BINS.bit_length())
    low, high = start // grid * grid, -(-end // grid) * grid
    return np.arange(OCCUPANCY_BINS + 1) * ((high - low) // OCCUPANCY_BINS) + low


ROW_COLUMNS = ("start", "end", "depth", "kind", "name")
"""The event columns that rows are built from."""


def build_lane_rows(frame: pl.DataFrame, first: int = 0, coloring: EventColoring = COLORING_BY_KIND) -> LaneRows:
    """The rows of one lane's events, which have `ROW_COLUMNS` and the columns of the coloring.

    Everything that drawing needs is computed here.
    """
    codes, vocabulary = encode_names(frame["name"])
    rows = _split_by_depth(frame, codes, coloring.classes(frame, codes))
    for row in rows:
        _ = row.cover_by_kind  # computed here, not while drawing
    return LaneRows(rows, vocabulary, first)


def _split_by_depth(
    frame: pl.DataFrame, name: npt.NDArray[np.uint32], kind: npt.NDArray[np.uint8]
) -> tuple[LaneRow, ...]:
    if frame.is_empty():
        return ()
    start, end = frame["start"].to_numpy(), frame["end"].to_numpy()
    depth = frame["depth"].to_numpy()
    if np.any(end <= start):
        end = np.maximum(end, start + 1)
    if not depth.any():
        return (LaneRow(start, end, kind, name),)
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max()) + 2))
    parts = [order[low:high].astype(np.uint32) for low, high in pairwise(bounds)]
    return tuple(LaneRow(start[part], end[part], kind[part], name[part], part) for part in parts)


def encode_names(names: pl.Series) -> tuple[npt.NDArray[np.uint32], LaneEventNames]:
    """A code for each name of a categorical column; its remainder modulo `NAME_COLORS` depends only on the name.

    The codes of polars depend on what was read before; colors must not.
    """
    codes: npt.NDArray[np.uint32] = names.to_physical().to_numpy()
    if len(codes) == 0:
        return codes, NO_NAMES
    seen = names.unique()
    words = seen.cast(pl.String)
    tints = np.fromiter((crc32(str(word).encode()) % NAME_COLORS for word in words), np.uint32, len(words))
    known = seen.to_physical().to_numpy()
    lookup = np.zeros(int(known.max()) + 1, np.uint32)
    lookup[known] = known * np.uint32(NAME_COLORS) + tints
    order = np.argsort(known)
    return lookup[codes], LaneEventNames(lookup[known[order]], words.gather(order))


NO_NAMES = LaneEventNames(np.empty(0, np.uint32), pl.Series(dtype=pl.String))


def row_of_intervals(covered: Intervals, kind: str) -> LaneRow:
    """A row of nameless events of one kind."""
    size = len(covered.start)
    return LaneRow(covered.start, covered.end, np.full(size, KIND_CODES[kind], np.uint8), np.zeros(size, np.uint32))
