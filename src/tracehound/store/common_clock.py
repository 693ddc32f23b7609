"""One clock for the files of a trace: the shift of each file's times. The offsets from collectives are an input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import polars as pl
from msgspec import Struct, field

from tracehound.model.notes import Note
from tracehound.model.trace import FileFrames, lanes_with_times


class ClockAlignment(Struct, frozen=True):
    """The way in which files get one clock: by their wall clocks if possible, or each from its own first event.

    In addition, file number n moves by `shifts[n]` ps, known to within `uncertainty` ps.
    """

    start_from: Literal["wall", "start"] = "wall"
    shifts: Mapping[int, int] = field(default_factory=dict)
    uncertainty: int = 0


WALL_CLOCK: Final = ClockAlignment()
"""The wall clock without corrections."""


_MAX_DISTANCE: Final = 1 << 62
"""Files whose times are this far apart (ps, 53 days) cannot be of one run: sums of such times would exceed Int64."""


FILES_APART: Final = "files_apart_in_time"
"""The code of the note that files have no interval of time in common."""


class CommonClock(Struct, frozen=True):
    """The shift of each file's times, in ps, to a common origin: the first event or sample of the trace."""

    shifts: Sequence[int]
    origin_ns: int | None
    notes: tuple[Note, ...] = ()


def make_common_clock(parts: Sequence[FileFrames], alignment: ClockAlignment) -> CommonClock:
    """One clock for all files: the wall clock if every file has one and they overlap, else the start of each file.

    A file without events and samples has no time and is ignored.
    """
    spans = {index: span for index, part in enumerate(parts) if (span := part.time_range) is not None}
    moves = alignment.shifts
    walls = {index: wall * 1000 + moves.get(index, 0) for index in spans if (wall := parts[index].wall_ns) is not None}
    shift_notes = (
        (Note("inferred", "placed_by_collectives", len(moves), values=(("exact", alignment.uncertainty),)),)
        if moves
        else ()
    )
    why = "files_at_their_starts" if alignment.start_from == "start" else "files_without_wall_clock"
    if spans and len(walls) == len(spans) and alignment.start_from == "wall":
        bounds = sorted((low + walls[index], high + walls[index]) for index, (low, high) in spans.items())
        origin = bounds[0][0]
        if are_near_in_time(bounds) and max(high for _, high in bounds) - origin < _MAX_DISTANCE:
            shifts = [walls.get(index, origin) - origin for index in range(len(parts))]
            return CommonClock(shifts, origin // 1000, shift_notes)
        why = FILES_APART
    begins = {index: moves.get(index, 0) - _first_event_start(parts[index]) for index in spans}
    first = min((begins[index] + low for index, (low, _) in spans.items()), default=0)
    shifts = [begins[index] - first if index in begins else 0 for index in range(len(parts))]
    if len(spans) < 2 or moves:
        return CommonClock(shifts, None, shift_notes)
    note = Note("inferred", why, len(spans), file=str(parts[min(spans)].path))
    return CommonClock(shifts, None, (note,))


def _first_event_start(part: FileFrames) -> int:
    """Start of the first event of a file, in ps; without events its first sample."""
    lanes = lanes_with_times(part.lanes)
    events = lanes.filter(pl.col("events") > 0)
    return int((events if events.height else lanes)["first"].to_numpy().min())


def are_near_in_time(bounds: Sequence[tuple[int, int]]) -> bool:
    """True if sorted intervals look like one run: the gaps between them are no longer than the intervals in total."""
    covered, reach = 0, bounds[0][0]
    for low, high in bounds:
        covered += max(0, high - max(low, reach))
        reach = max(reach, high)
    return reach - bounds[0][0] <= 2 * covered
