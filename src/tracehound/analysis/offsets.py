"""How the clocks of the ranks differ, told by the ends of their collectives, and how exactly that is known.

Owns the estimate and when it is better than the trace's own clock.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracehound.analysis.calls import TOGETHER
from tracehound.trace import schema

FEWEST: Final = 3
"""Fewer collectives than this tell nothing of a clock."""

BETTER: Final = 2
"""The ends must agree this many times better for an offset to be applied."""

SAMPLE: Final = 200_000
"""At most about so many calls are looked at, of collectives that are spread over the run."""

ROUNDS: Final = 40
CLOSE: Final = 1_000
"""The estimate is done after so many rounds, or when none moves by as much as this (ps)."""

CLOCKS: Final = schema(
    {
        "part": pl.Int64(),
        "matched": pl.Int64(),  # collectives that tell of it
        "offset": pl.Int64(),  # to be added to its times, so that they are those of the first part
        "applied": pl.Int64(),  # the same where it is applied, else 0
        "own": pl.Int64(),  # median distance of its ends from the collectives' without an offset
        "left": pl.Int64(),  # the same with it: how exact it is
        "drift": pl.Int64(),  # how much the distance grows from the first to the last third of the collectives
    }
)
"""What is known of the clock of each part (file) of a trace; ps."""


def offsets(rows: pl.DataFrame) -> pl.DataFrame:
    """The clock of every part among these calls (columns meeting, collective, part, end), in the schema `CLOCKS`.

    Nobody leaves a collective of `TOGETHER` before everybody has come, so it ends at one moment for all, but for what
    the last bytes take. The offset of a part is the median, over its collectives, of the distance of its end from the
    median end of all parts; since every part moves the others' medians, this is repeated until nothing moves.
    """
    parts = rows.select("part").unique().drop_nulls().sort("part")
    ends = _ends(rows)
    ends = ends.with_columns(pl.lit(0, pl.Int64).alias("offset"))
    for _ in range(ROUNDS):
        moves = _distances(ends).group_by("part").agg(pl.col("distance").median().round().cast(pl.Int64))
        if moves.is_empty() or int(moves.select(pl.col("distance").abs().max()).item()) < CLOSE:
            break
        ends = ends.join(moves, on="part").with_columns(pl.col("offset") + pl.col("distance")).drop("distance")
    found = ends.group_by("part").agg(pl.col("offset").first())
    offset = parts.join(found, on="part", how="left").with_columns(pl.col("offset").fill_null(0)).sort("part")
    first = int(offset["offset"][0]) if offset.height else 0
    own = _distances(ends.with_columns(pl.lit(0, pl.Int64).alias("offset")))
    return _judged(offset.with_columns(pl.col("offset") - first), own, _distances(ends))


def _ends(rows: pl.DataFrame) -> pl.DataFrame:
    """The end of each part at a sample of the collectives that two parts or more have."""
    ends = (
        rows.filter(pl.col("meeting").is_not_null() & pl.col("collective").cast(pl.String).is_in(TOGETHER))
        .group_by("meeting", "part")
        .agg(pl.col("end").max())
        .filter(pl.len().over("meeting") > 1)
    )
    if ends.height <= SAMPLE:
        return ends.sort("end", "meeting", "part")
    meetings = ends.group_by("meeting").agg(pl.col("end").min()).sort("end", "meeting")
    every = 1 + ends.height // SAMPLE
    return ends.join(meetings.gather_every(every).select("meeting"), on="meeting").sort("end", "meeting", "part")


def _distances(ends: pl.DataFrame) -> pl.DataFrame:
    """How far each part would have to move to end with the others."""
    moved = pl.col("end") + pl.col("offset")
    return ends.with_columns((moved.median().over("meeting") - moved).alias("distance"))


def _judged(offset: pl.DataFrame, own: pl.DataFrame, left: pl.DataFrame) -> pl.DataFrame:
    """The offsets with how exact they are, and which of them are applied."""
    distance = pl.col("distance")
    third = (pl.len() // 3).clip(lower_bound=1)
    before = own.group_by("part").agg(pl.len().cast(pl.Int64).alias("matched"), distance.abs().median().alias("own"))
    after = left.group_by("part", maintain_order=True).agg(
        distance.abs().median().alias("left"),
        (distance.tail(third).median() - distance.head(third).median()).alias("drift"),
    )
    table = (
        offset.join(before, on="part", how="left")
        .join(after, on="part", how="left")
        .with_columns(
            pl.col("matched").fill_null(0), *(pl.col(name).round().cast(pl.Int64) for name in ("own", "left", "drift"))
        )
    )
    better = (pl.col("matched") >= FEWEST) & (pl.col("own") > BETTER * pl.col("left")) & (pl.col("own") >= CLOSE)
    applied = pl.when(better.fill_null(value=False)).then("offset").otherwise(0).alias("applied")
    return table.with_columns(applied).select(CLOCKS.names()).cast(CLOCKS).sort("part")
