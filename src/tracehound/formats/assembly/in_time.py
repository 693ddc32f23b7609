"""Events of several lanes in the order of time, some at a time, so that memory does not grow with the file.

Owns the order. Knows no event's meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median_low
from typing import Final, NamedTuple

import polars as pl

from tracehound.trace import collected

_FEWEST: Final = 1 << 13
"""Rows of a lane that are read at once, at least: to find them takes longer than to read them."""

_APART: Final = 1 << 16
"""Stretches of rows that have fewer between them are read as one: as many are read at once in any case."""


class Place(NamedTuple):
    """Where the events of a lane are in a scan: `many` of them from the row `low` on."""

    lane: int
    low: int
    many: int


_NOWHERE: Final = Place(-1, 0, 0)


def of_lanes(scan: pl.LazyFrame, places: Sequence[Place]) -> pl.LazyFrame:
    """The rows of these lanes in a scan with the column `lane`; of few stretches, however many lanes there are."""
    stretches = list[list[int]]()
    for place in sorted(places, key=lambda place: place.low):
        if stretches and place.low - stretches[-1][1] < _APART:
            stretches[-1][1] = place.low + place.many
        else:
            stretches.append([place.low, place.low + place.many])
    rows = pl.concat([scan.slice(0, 0), *(scan.slice(low, high - low) for low, high in stretches)])
    return rows.filter(pl.col("lane").is_in([place.lane for place in places]))


def in_time(scan: pl.LazyFrame, places: Sequence[Place], wanted: pl.Expr, size: int) -> Iterator[pl.DataFrame]:
    """The `wanted` rows of these lanes by `start`, frame after frame: two or three times `size` are held, about.

    The scan has the columns `lane` and `start`; the rows of a lane are sorted by the latter. Short lanes are read as
    one. Of many long ones some may be read on before all of them have come as far.
    """
    short, long, held = list[Place](), list[Place](), 0
    for place in sorted(places, key=lambda place: place.many):
        held += place.many
        (short if held <= size else long).append(place)
    together = collected(of_lanes(scan, short).filter(wanted)).sort("start", maintain_order=True)
    rows = max(size // max(1, len(long)), _FEWEST)
    every = [_Lane(together, scan, wanted, _NOWHERE, rows)]
    every += [_Lane(together.clear(), scan, wanted, place, rows) for place in long]
    while waiting := [lane for lane in every if lane.more()]:
        middle, held = median_low(lane.last for lane in waiting), sum(lane.held.height for lane in waiting)
        for lane in waiting:
            while lane.last < middle and lane.left and held < 2 * size:
                held += lane.read()
        until = min((lane.last for lane in waiting if lane.left), default=max(lane.last for lane in waiting))
        frame = pl.concat([lane.take(until) for lane in waiting if lane.held["start"][0] <= until])
        yield frame if frame["start"].is_sorted() else frame.sort("start", maintain_order=True)


class _Lane:
    """What is left of a lane: the rows that are `held`, and those that follow in a scan."""

    def __init__(self, held: pl.DataFrame, scan: pl.LazyFrame, wanted: pl.Expr, place: Place, rows: int) -> None:
        self.held = held
        self._scan, self._wanted, self._rows = scan, wanted, rows
        self._low, self._high = place.low, place.low + place.many

    @property
    def left(self) -> bool:
        """Whether there may be more than is held."""
        return self._low < self._high

    @property
    def last(self) -> int:
        """When the last one that is held starts."""
        last: int = self.held["start"][-1]
        return last

    def more(self) -> bool:
        """Whether any row is left; some of these are held then."""
        while not self.held.height and self.left:
            self.read()
        return self.held.height > 0

    def read(self) -> int:
        """Hold the next rows, too; how many they are."""
        high = min(self._low + self._rows, self._high)
        found = collected(self._scan.slice(self._low, high - self._low).filter(self._wanted))
        self._low = high
        self.held = pl.concat([self.held, found])
        return found.height

    def take(self, until: int) -> pl.DataFrame:
        """Give away what is held and starts no later."""
        first = int(self.held["start"].search_sorted(until, side="right"))
        taken, self.held = self.held[:first], self.held[first:]
        return taken
