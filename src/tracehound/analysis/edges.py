"""From when to when what was recorded lasts, where a file is the export of a window.

Owns how these bounds come onto the clock of the trace.
"""

from __future__ import annotations

from tracehound.ids import in_part
from tracehound.trace import Trace, spanned

Edges = tuple[int | None, int | None]
"""Start and end, ps of the trace; None where nothing was cut off."""

UNCUT: Edges = (None, None)


def edges(trace: Trace, number: int) -> Edges:
    """Those of a part. How far its times were moved is told by its first event or sample."""
    part = trace.parts[number]
    if "edges" not in part.facts or (recorded := part.recorded) is None:
        return UNCUT
    first = spanned(trace.lanes.filter(in_part("lane", number)))["first"].to_numpy().min()
    start, end = (None if time is None else time + int(first) - recorded[0] for time in part.facts["edges"])
    return start, end


def within(*every: Edges) -> Edges:
    """What lies in all of these."""
    starts, ends = ([time for time in times if time is not None] for times in zip(*every, strict=True))
    return max(starts, default=None), min(ends, default=None)
