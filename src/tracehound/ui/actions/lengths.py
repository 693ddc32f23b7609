"""What a chart needs beyond its table, worked out in the background.

Owns that: how long every execution of an op took, and other results of an analysis. Knows no widget but the one that
asked.
"""

from __future__ import annotations

import polars as pl

from tracehound.analysis import Options, named, run
from tracehound.analysis.events.measured import LENGTH
from tracehound.analysis.settings import Given
from tracehound.preferences import preferred
from tracehound.trace import Trace, collected
from tracehound.ui.background.threads import Background
from tracehound.ui.panes.charted import ChartedTable
from tracehound.ui.state.view import View
from tracehound.ui.state.walk import alike


def measure(background: Background, trace: Trace, asked: ChartedTable.LengthsAsked) -> None:
    """Have the chart told the lengths of what is like the event and lies inside the window."""

    def work() -> None:
        lengths, ranks = (column.to_numpy() for column in executions(trace, asked.event, asked.window or trace.span))
        asked.charted.post_message(ChartedTable.Measured(asked.event, lengths, ranks))

    background.submit("measuring for the chart", work, lambda why: asked.charted.post_message(ChartedTable.Failed(why)))


def executions(trace: Trace, event: int, window: tuple[int, int]) -> pl.DataFrame:
    """How long each execution of what the event is one of took, in ps, and on which `rank`; -1: on none."""
    inside = (pl.col("start") >= window[0]) & (pl.col("end") <= window[1])
    found = trace.events().filter(alike(trace, trace.event(event)) & inside)
    return collected(found.select(LENGTH.alias("length"), pl.col("rank").cast(pl.Int64).fill_null(-1)))


def also(background: Background, trace: Trace, view: View, asked: ChartedTable.AlsoAsked, given: Given) -> None:
    """Have the chart told another result of its analysis, of the window of its table, with what is `given` there."""
    analysis = named(asked.analysis)
    window = view.window.at(*(asked.window or (None, None)))

    def work() -> None:
        words = [f"{name}={value}" for name, value in (*given, *asked.given)]
        result = run(analysis, trace, window, Options(None, preferred(analysis, words)))
        asked.charted.post_message(ChartedTable.Also(result, asked.window))

    background.submit("analysis for the chart", work, lambda why: asked.charted.post_message(ChartedTable.Failed(why)))
