"""The events that the rows of a result count, for those who go from a row to what it stands for.

Owns how maps and combines carry them along beside the number of them: both are of one aggregation. Knows no trace.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.result import MEMBERS, Options
from tracehound.intervals import Ints

CARRIED: Final = pl.col(f"^{MEMBERS}$")
"""The column of events, where it is there."""

JOINED: Final = CARRIED.explode().drop_nulls()
"""In an aggregation of rows: the events of all of them."""

SHARED: Final = CARRIED.first()
"""In an aggregation of rows that count the same events, as ranks of one host do of its threads."""


def gathered(options: Options, events: str | pl.Expr = "id") -> list[pl.Expr]:
    """In an aggregation of events: which they are, where somebody asks for that."""
    which = pl.col(events) if isinstance(events, str) else events
    return [which.alias(MEMBERS)] if options.members else []


def listed(options: Options, events: pl.Series) -> dict[str, object]:
    """In a row that is made by itself: which they are, where somebody asks for that."""
    return {MEMBERS: events.to_list()} if options.members else {}


def grouped(options: Options, group: Ints, events: pl.Series, many: int) -> dict[str, pl.Series]:
    """The events of each of `many` groups, where somebody asks for them; `group` has one for each event, -1 is none."""
    if not options.members:
        return {}
    told = pl.DataFrame({"group": group, MEMBERS: events}).filter(pl.col("group") >= 0)
    every = pl.DataFrame({"group": np.arange(many)})
    found = told.group_by("group", maintain_order=True).agg(MEMBERS)
    return {MEMBERS: every.join(found, on="group", how="left", maintain_order="left")[MEMBERS]}
