"""Events of several lanes in the order of time, some at a time, so that memory does not grow with the file.

Owns the order. Knows no event's meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from tracehound.trace import collected

_FEWEST: Final = 1 << 12
"""Rows of a lane that are read at once, at least: to find them takes longer than to read them."""


def in_time(scan: pl.LazyFrame, lanes: Sequence[tuple[int, int]], wanted: pl.Expr, size: int) -> Iterator[pl.DataFrame]:
    """The `wanted` rows of a scan by `start`, frame after frame: `size` of all lanes are held at once, about.

    `lanes` has the first row of each lane and how many follow, which have that order among themselves.
    """
    rows = size if sum(many for _, many in lanes) <= size else max(size // len(lanes), _FEWEST)
    every = [_Lane(scan, lane, wanted, rows) for lane in lanes]
    while waiting := [lane for lane in every if lane.more()]:
        until = min(lane.last for lane in waiting)
        frame = pl.concat([lane.take(until) for lane in waiting])
        yield frame if frame["start"].is_sorted() else frame.sort("start", maintain_order=True)


class _Lane:
    """What is left of a lane, of which some rows are held."""

    def __init__(self, scan: pl.LazyFrame, lane: tuple[int, int], wanted: pl.Expr, rows: int) -> None:
        low, many = lane
        self._scan, self._wanted, self._rows = scan, wanted, rows
        self._low, self._high = low, low + many
        self._held = pl.DataFrame()

    def more(self) -> bool:
        """Whether any row is left; some of these are held then."""
        while not self._held.height and self._low < self._high:
            high = min(self._low + self._rows, self._high)
            self._held = collected(self._scan.slice(self._low, high - self._low).filter(self._wanted))
            self._low = high
        return self._held.height > 0

    @property
    def last(self) -> int:
        """When the last one that is held starts."""
        last: int = self._held["start"][-1]
        return last

    def take(self, until: int) -> pl.DataFrame:
        """Give away what is held and starts no later."""
        first = int(self._held["start"].search_sorted(until, side="right"))
        taken, self._held = self._held[:first], self._held[first:]
        return taken
