"""What a chart needs beyond its table, worked out in the background.

Owns that: how long every event that a row counts took, and other results of an analysis. Knows no widget but the one
that asked.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracehound.analysis import Options, named, run
from tracehound.analysis.events.measured import measured
from tracehound.analysis.settings import Given
from tracehound.preferences import preferred
from tracehound.trace import Trace, collected
from tracehound.ui.background.counted import Counted, CountingRow
from tracehound.ui.background.threads import Background
from tracehound.ui.panes.charted import ChartedTable
from tracehound.ui.state.view import View


def measure(background: Background, counted: Counted, row: CountingRow, asked: ChartedTable.LengthsAsked) -> None:
    """Have the chart told the lengths of the events that the row counts."""

    def work() -> None:
        found = executions(row.trace, counted.events(row), asked.window or row.trace.span)
        lengths, ranks = (column.to_numpy() for column in found)
        asked.charted.post_message(ChartedTable.Measured(asked.row, lengths, ranks))

    background.submit("measuring for the chart", work, lambda why: asked.charted.post_message(ChartedTable.Failed(why)))


def executions(trace: Trace, which: pl.Expr, window: tuple[int, int]) -> pl.DataFrame:
    """How long each of these events took inside the window, in ps, and on which `rank`; -1: on none."""
    found = collected(trace.events().filter(which).select(_MEASURED).sort("id"))
    return measured(found, *window).select("length", pl.col("rank").cast(pl.Int64).fill_null(-1))


_MEASURED: Final = ("id", "lane", "rank", "start", "end", "parent", "self", "device_start", "device_end")


def also(background: Background, trace: Trace, view: View, asked: ChartedTable.AlsoAsked, given: Given) -> None:
    """Have the chart told another result of its analysis, of the window of its table, with what is `given` there."""
    analysis = named(asked.analysis)
    window = view.window.at(*(asked.window or (None, None)))

    def work() -> None:
        words = [f"{name}={value}" for name, value in (*given, *asked.given)]
        result = run(analysis, trace, window, Options(None, preferred(analysis, words)))
        asked.charted.post_message(ChartedTable.Also(result, asked.window))

    background.submit("analysis for the chart", work, lambda why: asked.charted.post_message(ChartedTable.Failed(why)))
