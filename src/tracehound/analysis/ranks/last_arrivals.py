"""Ranks that came last at collectives, by step, and for how long the others' median waited for them.

Sees the calls of `collective_matching`, and no events. `stragglers` and `rank_map` have their lateness from here.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracehound.analysis.ranks.rank_collectives import SEND_AND_RECV
from tracehound.model.notes import Note, note
from tracehound.model.trace import schema

LATENESS_DEFINITION: Final = """\
late = time from the median arrival of the other ranks to its own, at all collectives of the step to which it came
last; overlaps count once. This is the most that the others could save. Arrivals are on the common clock of the
analysis clocks."""

LAST_ARRIVALS: Final = schema(
    {
        "step": pl.Int64(),
        "rank": pl.Int64(),
        "late": pl.Int64(),
        "at": pl.String(),
        "most": pl.Int64(),
        "lasts": pl.Int64(),
        "start": pl.Int64(),
        "duration": pl.Int64(),
        "call": pl.Int64(),
        "meeting": pl.UInt64(),
        "calls": pl.List(pl.Int64()),
    }
)
"""A row for each step and rank that came last at a collective of the step; times in ps.

`at`, `most`, `start`, `duration`, `call` and `meeting` are of the collective where it was latest, `calls` are all its
calls to which it came last, and `lasts` counts their collectives.
"""


def is_send_or_receive(calls: pl.DataFrame) -> pl.Series:
    """Mask of the sends and receives among calls: a receiver depends on its sender, so it is not late."""
    return calls["collective"].cast(pl.String).is_in(SEND_AND_RECV).fill_null(value=False)


def sends_and_receives_notes(left_out: pl.Series) -> list[Note]:
    """A note on the sends and receives of this mask, if there are any."""
    calls = int(left_out.sum())
    return [note("sends_and_receives_left_out", calls=calls)] if calls else []


def last_arrivals(calls: pl.DataFrame) -> pl.DataFrame:
    """The last ranks of these matched calls in the schema `LAST_ARRIVALS`, the latest first."""
    by = ("step", "rank")
    late_calls = calls.filter((pl.col("arrived") == pl.col("last")) & (pl.col("late") > 0))
    latest_first = late_calls.sort("late", "event", descending=[True, False])
    latest = latest_first.group_by(by, maintain_order=True).agg(
        pl.col("name").first().alias("at"),
        pl.col("late").first().alias("most"),
        pl.col("meeting").n_unique().alias("lasts"),
        (pl.col("start") - pl.col("late")).first().alias("start"),
        pl.col("late").first().alias("duration"),
        pl.col("event").first().alias("call"),
        pl.col("meeting").first(),
    )
    called = late_calls.group_by(by).agg(pl.col("event").alias("calls"))
    return (
        latest.join(_union_per_step(late_calls), on=by, nulls_equal=True)
        .join(called, on=by, nulls_equal=True)
        .select(LAST_ARRIVALS.names())
        .cast(LAST_ARRIVALS)
        .sort("late", "step", "rank", descending=[True, False, False])
    )


def _union_per_step(late_calls: pl.DataFrame) -> pl.DataFrame:
    """For each step and rank the length of the union of its latenesses: `late`, ps."""
    began = (pl.col("arrived") - pl.col("late")).alias("began")
    covered = pl.col("arrived").cum_max().shift(1).over("step", "rank")
    added = (pl.col("arrived") - pl.max_horizontal("began", covered)).clip(lower_bound=0)
    each = late_calls.select("step", "rank", "arrived", began).sort("began")
    return each.with_columns(added.alias("late")).group_by("step", "rank").agg(pl.col("late").sum())
