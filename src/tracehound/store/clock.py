"""One clock for the files of a trace.

Owns how the times of files become those of one trace. Knows no collectives: what they tell comes from outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import polars as pl
from msgspec import Struct, field

from tracehound.notes import Note
from tracehound.trace import Part, spanned


class Alignment(Struct, frozen=True):
    """How files get one clock: by their wall clocks where they can, or each from its own first event.

    On top of that each part (by number) moves by `moves` ps, which are known to within `exact` ps.
    """

    way: Literal["wall", "start"] = "wall"
    moves: Mapping[int, int] = field(default_factory=dict)
    exact: int = 0


WALL: Final = Alignment()
"""By the wall clock, as it is."""


_LONGEST: Final = 1 << 62
"""Files whose times lie this far apart (ps, 53 days) are no one run: Int64 would not hold sums of such times."""


APART: Final = "files_apart_in_time"
"""The note of files that have no interval of time in common."""


class Clock(Struct, frozen=True):
    """How far each part's times move, in ps, so that all share one origin: the first event or sample of the trace."""

    shift: Sequence[int]
    origin_ns: int | None
    notes: tuple[Note, ...] = ()


def clocked(parts: Sequence[Part], alignment: Alignment) -> Clock:
    """One clock for all parts: the wall clock, where every file has one and they overlap, else their own starts.

    A file without events and samples has no time, and no say in this.
    """
    spans = {index: span for index, part in enumerate(parts) if (span := part.recorded) is not None}
    moves = alignment.moves
    walls = {index: wall * 1000 + moves.get(index, 0) for index in spans if (wall := parts[index].wall_ns) is not None}
    told = (
        (Note("inferred", "placed_by_collectives", len(moves), values=(("exact", alignment.exact),)),) if moves else ()
    )
    why = "files_at_their_starts" if alignment.way == "start" else "files_without_wall_clock"
    if spans and len(walls) == len(spans) and alignment.way == "wall":
        bounds = sorted((low + walls[index], high + walls[index]) for index, (low, high) in spans.items())
        origin = bounds[0][0]
        if together(bounds) and max(high for _, high in bounds) - origin < _LONGEST:
            shift = [walls.get(index, origin) - origin for index in range(len(parts))]
            return Clock(shift, origin // 1000, told)
        why = APART
    begins = {index: moves.get(index, 0) - _first_event(parts[index]) for index in spans}
    first = min((begins[index] + low for index, (low, _) in spans.items()), default=0)
    shift = [begins[index] - first if index in begins else 0 for index in range(len(parts))]
    if len(spans) < 2 or moves:
        return Clock(shift, None, told)
    note = Note("inferred", why, len(spans), file=str(parts[min(spans)].path))
    return Clock(shift, None, (note,))


def _first_event(part: Part) -> int:
    """When the first event of a part begins; of one without any, its first sample."""
    lanes = spanned(part.lanes)
    events = lanes.filter(pl.col("events") > 0)
    return int((events if events.height else lanes)["first"].to_numpy().min())


def together(bounds: Sequence[tuple[int, int]]) -> bool:
    """Whether the stretches, sorted, are one run: what lies between them is no longer than they are."""
    covered, reach = 0, bounds[0][0]
    for low, high in bounds:
        covered += max(0, high - max(low, reach))
        reach = max(reach, high)
    return reach - bounds[0][0] <= 2 * covered
