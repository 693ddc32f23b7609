"""How long every execution of an op took, worked out in the background for a histogram.

Owns that. Knows no widget but the pane that asked.
"""

from __future__ import annotations

import polars as pl

from tracehound.trace import Trace, collected
from tracehound.ui.background import Background
from tracehound.ui.panes.pane import TablePane
from tracehound.ui.walk import alike


def measure(background: Background, trace: Trace, asked: TablePane.LengthsAsked) -> None:
    """Have the pane told the lengths, in ps, of what is like the event and lies inside the window."""

    def work() -> None:
        low, high = asked.window or trace.span
        inside = (pl.col("start") >= low) & (pl.col("end") <= high)
        found = trace.events().filter(alike(trace, trace.event(asked.event)) & inside)
        lengths = collected(found.select(pl.col("end") - pl.col("start"))).to_series().to_numpy()
        asked.pane.post_message(TablePane.Measured(asked.event, lengths))

    background.submit("lengths", work)
