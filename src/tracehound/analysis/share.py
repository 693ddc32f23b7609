"""A trace and a window -> what the map of an analysis sees, rank by rank.

Owns the cutting of a trace to one rank and one window, and the running of an analysis over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracehound.analysis.result import Analysis, Options, Result, Scene, Share
from tracehound.trace import Trace, Window


def run(analysis: Analysis, trace: Trace, window: Window | None = None, options: Options | None = None) -> Result:
    """The analysis of the trace, in the window and with the options."""
    window, options = window or Window(), options or Options()
    tables = [analysis.per_rank(share, options) for share in shares(trace, window)]
    return analysis.combine(tables, scene(trace, window), options)


def shares(trace: Trace, window: Window) -> Iterator[Share]:
    """Each chosen rank's share of the trace, in the order of ranks."""
    start, end = window.within(*trace.span)
    timed = window.start is not None or window.end is not None
    for rank, host, label in trace.ranks.select("rank", "host", "label").iter_rows():
        if window.ranks is not None and rank not in window.ranks:
            continue
        lanes = trace.lanes_of([rank])
        if window.lanes is not None:
            lanes = lanes.filter(pl.col("lane").is_in(list(window.lanes)))
        here = pl.col("rank").is_null() & (pl.col("host") == host) | (pl.col("rank") == rank)
        yield Share(
            rank=rank,
            label=label,
            device=overlapping(trace.events(_numbers(lanes.filter(pl.col("rank").is_not_null()))), start, end),
            threads=trace.events(_numbers(lanes.filter(pl.col("rank").is_null()))),
            lanes=lanes,
            steps=trace.steps.filter(here),
            ops=trace.ops,
            start=start,
            end=end,
            windowed=timed,
        )


def scene(trace: Trace, window: Window) -> Scene:
    """What a combine may know of the trace."""
    start, end = window.within(*trace.span)
    return Scene(
        hosts=trace.hosts,
        ranks=trace.ranks,
        steps=trace.steps,
        notes=trace.notes,
        start=start,
        end=end,
        windowed=window.start is not None or window.end is not None,
        formats=tuple(part.format for part in trace.parts),
        facts=tuple(part.facts for part in trace.parts),
    )


def _numbers(lanes: pl.DataFrame) -> list[int]:
    return lanes["lane"].to_list()


def overlapping(events: pl.LazyFrame, start: int, end: int) -> pl.LazyFrame:
    """The events of which a part lies in `[start, end)`; one of no length counts where it lies, ends included."""
    inside = (pl.col("start") < end) & (pl.col("end") > start)
    instant = (pl.col("start") == pl.col("end")) & pl.col("start").is_between(start, end)
    return events.filter(inside | instant)
