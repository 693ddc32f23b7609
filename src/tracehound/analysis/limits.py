"""From when to when what was recorded lasts, where a file is the export of a window.

Owns how these bounds come onto the clock of the trace.
"""

from __future__ import annotations

from tracehound.ids import in_part
from tracehound.trace import Trace, spanned

Limits = tuple[int | None, int | None]
"""Start and end, ps of the trace; None where there is none."""

UNLIMITED: Limits = (None, None)


def limits(trace: Trace, number: int) -> Limits:
    """Those of a part. How far its times were moved is told by its first event or sample."""
    part = trace.parts[number]
    window = part.facts.exported_window
    if window is None or (recorded := part.recorded) is None:
        return UNLIMITED
    first = spanned(trace.lanes.filter(in_part("lane", number)))["first"].to_numpy().min()
    start, end = (None if time is None else time + int(first) - recorded[0] for time in (window.start, window.end))
    return start, end


def within(*every: Limits) -> Limits:
    """What lies in all of these."""
    starts, ends = ([time for time in times if time is not None] for times in zip(*every, strict=True))
    return max(starts, default=None), min(ends, default=None)
