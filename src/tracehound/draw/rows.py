"""The rows of a timeline as arrays that can be asked about any stretch of time in logarithmic time.

Owns `Row` (slices that do not overlap) and how a lane's events become rows. Knows nothing of characters, of widths,
and of when rows are made. Times are ps.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from zlib import crc32

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracehound.draw.colouring import BY_KIND, SHADES, Colouring
from tracehound.intervals import Cover, Intervals, Ints
from tracehound.trace import KIND_CODES

PARTS = 64
"""Into so many parts a stretch is cut to see how much of it a row has something in: about the cells of a screen."""

FEW_MARKS = 4
"""A row that has something in no more of these parts, such as the start and the end, is as good as empty."""


class Row(Struct, frozen=True, dict=True):
    """Slices on one line of the timeline: sorted, disjoint, none shorter than 1 ps.

    `kind` holds codes of `KINDS`, or of the classes of another colouring, `name` a code per name (its tint modulo
    `TINTS`), and `position` where the slice is in its lane's frame (None: the slices are the frame, in order).
    """

    start: Ints
    end: Ints
    kind: npt.NDArray[np.uint8]
    name: npt.NDArray[np.uint32]
    position: npt.NDArray[np.uint32] | None = None

    @cached_property
    def by_kind(self) -> tuple[tuple[int, Cover], ...]:
        """The cover of each kind that occurs."""
        present = np.flatnonzero(np.bincount(self.kind, minlength=1)) if len(self.kind) else np.empty(0, np.int64)
        if len(present) == 1:
            return ((int(present[0]), Cover.of(self.start, self.end)),)
        chosen = ((int(code), self.kind == code) for code in present)
        return tuple((code, Cover.of(self.start[mask], self.end[mask])) for code, mask in chosen)

    def covered(self, start: int, end: int) -> int:
        """How long of `[start, end)` the slices cover."""
        return sum(cover.between(start, end) for _, cover in self.by_kind)

    @property
    def size(self) -> int:
        """Bytes in memory, with what `by_kind` holds."""
        position = 0 if self.position is None else self.position.nbytes
        columns = self.start.nbytes + self.end.nbytes + self.kind.nbytes + self.name.nbytes + position
        return columns + self.start.nbytes * (1 if len(self.by_kind) == 1 else 3)

    def place(self, index: int) -> int:
        """Where slice `index` is in its lane's frame."""
        return index if self.position is None else int(self.position[index])

    def at(self, time: int) -> int | None:
        """The slice that covers the instant."""
        index = int(np.searchsorted(self.start, time, side="right")) - 1
        return index if index >= 0 and time < self.end[index] else None

    def marks(self, bounds: Ints) -> int:
        """In how many of the parts between `bounds` anything lies."""
        low = np.searchsorted(self.end, bounds[:-1], side="right")
        high = np.searchsorted(self.start, bounds[1:], side="left")
        return int(np.count_nonzero(high > low))

    def within(self, start: int, end: int) -> tuple[int, int]:
        """The range of slices that touch `[start, end)`."""
        low = int(np.searchsorted(self.end, start, side="right"))
        return low, max(low, int(np.searchsorted(self.start, end, side="left")))


NO_ROW = Row(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint32))


class Vocabulary(Struct, frozen=True):
    """The distinct names of a lane: `words[i]` is the name whose code is `codes[i]`; codes are sorted."""

    codes: npt.NDArray[np.uint32]
    words: pl.Series

    def word(self, code: int) -> str:
        """The name with this code, which must be one of them."""
        return str(self.words[int(np.searchsorted(self.codes, code))] or "")


class Slices(Struct, frozen=True, dict=True):
    """The slices of a lane: its rows, by depth, and their names. `first` is the row of its first event in its part."""

    rows: tuple[Row, ...]
    names: Vocabulary
    first: int = 0

    @cached_property
    def size(self) -> int:
        """Bytes in memory."""
        names = self.names.codes.nbytes + int(self.names.words.estimated_size())
        return names + sum(row.size for row in self.rows)

    def find(self, position: int) -> tuple[int, int]:
        """Depth and index of the slice that is at a position of the lane's frame. Raises KeyError."""
        for depth, row in enumerate(self.rows):
            index = position if row.position is None else int(np.searchsorted(row.position, position))
            if index < len(row.start) and row.place(index) == position:
                return depth, index
        raise KeyError(position)

    @property
    def outer(self) -> int:
        """How many rows, from the top, hold a single slice; 0 where all do."""
        return next((depth for depth, row in enumerate(self.rows) if len(row.start) > 1), 0)

    def order(self, start: int, end: int) -> tuple[int, ...]:
        """The depths of all rows in the order in which they get a line, where there are fewer lines than rows.

        First those that have something to show about `[start, end)`, from the top; then the frames that everything else
        runs in, from the innermost; then those that are nearly or quite empty there.
        """
        bounds = _about(start, end)
        marks = [row.marks(bounds) for row in self.rows]
        outer = self.outer
        shows = [depth for depth in range(outer, len(marks)) if marks[depth] > FEW_MARKS]
        frames = [depth for depth in reversed(range(outer)) if marks[depth] > FEW_MARKS]
        rest = [depth for depth, count in enumerate(marks) if 0 < count <= FEW_MARKS]
        return (*shows, *frames, *rest, *(depth for depth, count in enumerate(marks) if not count))


def _about(start: int, end: int) -> Ints:
    """The bounds of `PARTS` equal parts of a stretch around `[start, end)`, up to four times as long.

    Its ends are on a coarse grid, so that it stays the same for most moves through time.
    """
    grid = 1 << max((max(end - start, 1) - 1).bit_length(), PARTS.bit_length())
    low, high = start // grid * grid, -(-end // grid) * grid
    return np.arange(PARTS + 1) * ((high - low) // PARTS) + low


COLUMNS = ("start", "end", "depth", "kind", "name")
"""The columns of events that rows are made of."""


def slices_of(frame: pl.DataFrame, first: int = 0, colouring: Colouring = BY_KIND) -> Slices:
    """The slices of one lane's events, which have `COLUMNS` and those of the colouring.

    All is made that painting asks for.
    """
    codes, vocabulary = name_codes(frame["name"])
    rows = _rows(frame, codes, colouring.classes(frame, codes))
    for row in rows:
        _ = row.by_kind  # now, where nobody waits, and not while something is drawn
    return Slices(rows, vocabulary, first)


def _rows(frame: pl.DataFrame, name: npt.NDArray[np.uint32], kind: npt.NDArray[np.uint8]) -> tuple[Row, ...]:
    if frame.is_empty():
        return ()
    start, end = frame["start"].to_numpy(), frame["end"].to_numpy()
    depth = frame["depth"].to_numpy()
    if np.any(end <= start):
        end = np.maximum(end, start + 1)
    if not depth.any():
        return (Row(start, end, kind, name),)
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max()) + 2))
    parts = [order[low:high].astype(np.uint32) for low, high in pairwise(bounds)]
    return tuple(Row(start[part], end[part], kind[part], name[part], part) for part in parts)


def name_codes(names: pl.Series) -> tuple[npt.NDArray[np.uint32], Vocabulary]:
    """A code for each name of a categorical column, whose rest modulo `SHADES` depends on nothing but the name.

    The codes that polars gives depend on what was read before; colours must not.
    """
    codes: npt.NDArray[np.uint32] = names.to_physical().to_numpy()
    if len(codes) == 0:
        return codes, NO_WORDS
    seen = names.unique()
    words = seen.cast(pl.String)
    tints = np.fromiter((crc32(str(word).encode()) % SHADES for word in words), np.uint32, len(words))
    known = seen.to_physical().to_numpy()
    lookup = np.zeros(int(known.max()) + 1, np.uint32)
    lookup[known] = known * np.uint32(SHADES) + tints
    order = np.argsort(known)
    return lookup[codes], Vocabulary(lookup[known[order]], words.gather(order))


NO_WORDS = Vocabulary(np.empty(0, np.uint32), pl.Series(dtype=pl.String))


def row_of_intervals(covered: Intervals, kind: str) -> Row:
    """A row of nameless slices of one kind."""
    size = len(covered.start)
    return Row(covered.start, covered.end, np.full(size, KIND_CODES[kind], np.uint8), np.zeros(size, np.uint32))
