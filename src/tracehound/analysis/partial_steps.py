"""Which steps of a rank are partial: the recording began or ended within them.

Owns that rule, and how what is left out for it is told. Knows no table.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracehound.formats.recurring import GRAPHS
from tracehound.units import plural

DEFINITION: Final = """\
The first or last step of a rank is partial where the recording began or ended within it: it has less than 80 % as many
device events, with or without a known launch, as the median of the rank's other steps. Where no device work of steps is
recorded, and there are three or more, its mark is less than half as long as the median of theirs. The last of inferred
steps that last until the next one starts (executions of a module, replays of graphs) is partial, too: nothing tells
when it ended. Partial steps are shown, and left out of averages, percentiles and shares."""
"""For the definitions of analyses. A window changes nothing of it."""

_WHOLE: Final = 0.8
_LONG: Final = 0.5
_FEWEST: Final = 3
"""Of fewer steps nobody knows which has the length of a step."""


def partial(steps: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    """Which of all steps of a rank, in the order of their starts, are partial.

    `events` is all work of the rank's device, with the column `step`.
    """
    counts = events.group_by("step").len("work")
    size = steps.join(counts, on="step", how="left", maintain_order="left")["work"].fill_null(0).to_numpy()
    least, fewest = _WHOLE, 2
    if not size.any():
        size, least, fewest = (steps["end"] - steps["start"]).to_numpy(), _LONG, _FEWEST
    found = np.zeros(len(size), np.bool_)
    if len(size) >= fewest:
        for edge in (0, -1):
            found[edge] = size[edge] < least * np.median(np.delete(size, edge))
    if len(size) > 1:
        found[-1] |= _until_next(steps)
    return pl.Series("partial", found)


def _until_next(steps: pl.DataFrame) -> bool:
    """Whether the steps of a rank were inferred, and each but the last lasts until the next one starts."""
    of_module, of_graph = pl.col("rank").is_not_null(), pl.col("name").is_in(GRAPHS)
    return bool(steps.select((pl.col("inferred") & (of_module | of_graph)).any()).item())


def left_out(rows: pl.DataFrame, of: str) -> list[str]:
    """That some of these steps are partial, and so left out of something."""
    left = int(rows["partial"].sum())
    if not left:
        return []
    words = f"{plural(left, 'partial step')} {'is' if left == 1 else 'are'} left out of {of}"
    return [f"{words}: the recording began or ended within, or the work ran outside"]
