"""From when to when what is exported lasts on each lane: a step with the work that it launched.

Owns that a device goes on with a step after its mark on the host has ended.
"""

from __future__ import annotations

import polars as pl

from tracehound.analysis.spans.windows import Span, of_lanes
from tracehound.ids import part_of
from tracehound.trace import Trace, Window, collected


def reach(trace: Trace, window: Window, part: int | None = None) -> dict[int, Span]:
    """The window on each lane of its ranks and of the hosts that drive them, ps: of all parts, or of this one.

    One of steps lasts on the lanes of a device until the work of these steps has ended there.
    """
    spans = {lane: span for lane, span in of_lanes(trace, window).items() if part is None or part_of(lane) == part}
    if window.steps is None:
        return spans
    work = trace.lanes.filter(pl.col("rank").is_not_null() & pl.col("lane").is_in(list(spans)))
    events = trace.events(work["lane"].to_list()).filter(pl.col("step").is_in(list(window.steps)))
    ends = collected(events.group_by("rank").agg(pl.col("end").max()))
    last = dict(ends.iter_rows())
    of_rank = dict(work.select("lane", "rank").iter_rows())
    return {lane: (start, max(end, last.get(of_rank.get(lane), end))) for lane, (start, end) in spans.items()}
