"""A chain of events, marked in the lanes that it goes through.

Owns which slices of a row are on it, and how a line looks whose other slices step back. Knows no analysis.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.lanes import FADED, Cells, Form, form_of
from tracehound.draw.rows import Row
from tracehound.ids import part_of, row_of
from tracehound.intervals import Ints


class Path(Struct, frozen=True, eq=False):
    """Stretches of events, in the order of time: `event` has ids; ps. An event may have several."""

    event: Ints
    start: Ints
    end: Ints

    @property
    def span(self) -> tuple[int, int]:
        """From its first to its last instant."""
        return int(self.start.min()), int(self.end.max())

    def within(self, lane: int, row: Row, first: int) -> tuple[Ints, Ints]:
        """The stretches that lie on a row of a lane whose first event is the `first` one of its part."""
        if not len(row.start):
            return self.start[:0], self.end[:0]
        place = row_of(self.event) - first
        own = (part_of(self.event) == part_of(lane)) & (place >= 0)
        index = place if row.position is None else np.searchsorted(row.position, np.maximum(place, 0))
        index = np.clip(index, 0, len(row.start) - 1)
        there = index if row.position is None else row.position[index]
        own &= there == place
        start = np.maximum(self.start, row.start[index])[own]
        end = np.minimum(self.end, row.end[index])[own]
        inside = end > start
        return start[inside], end[inside]


def marked(cells: Cells, stretches: tuple[Ints, Ints], bounds: Ints, glyphs: Glyphs) -> Cells:
    """The same line with what lies in the stretches as it was, signed at its beginning, and all else stepped back."""
    start, end = stretches
    inside = (end > bounds[0]) & (start < bounds[-1])
    low = np.searchsorted(bounds, np.maximum(start[inside], bounds[0]), side="right") - 1
    high = np.searchsorted(bounds, np.minimum(end[inside], bounds[-1]), side="left")
    edges = np.zeros(len(bounds), np.int64)
    np.add.at(edges, low, 1)
    np.add.at(edges, np.maximum(high, low + 1), -1)
    on = np.cumsum(edges)[:-1] > 0
    text, inks = cells.text.copy(), cells.ink.copy()
    form = form_of(inks)
    inks[~on & (form != Form.EMPTY)] += FADED
    begins = np.unique(low)
    begins = begins[form[begins] != Form.EMPTY]
    firsts = {bar.first for bar in cells.bars}
    for cell in begins.tolist():
        if cell in firsts or glyphs.fill == "letter" or form[cell] == Form.FILL:
            text[cell] = glyphs.path
    return Cells(text, inks, cells.bars)
