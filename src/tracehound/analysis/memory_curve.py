"""How much memory is allocated and reserved over time, stretch by stretch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.allocations import (
    HOST,
    LEVELS,
    allocations,
    holding,
    named,
    nowhere,
    of_ranks,
    unrecorded,
)
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.notes import note

DEFINITION = f"""\
{LEVELS}

The time from the first memory event of a device to its last (or the window) is cut into up to 1,000 stretches of equal
length; of each it has the most that was allocated, reserved and unused in it, what was so as it began included, so that
no peak is lost. Stretches that follow one another in which nothing changes are one row. Every change is a sample of the
lanes "memory allocated" and "memory reserved"."""

STRETCHES: Final = 1000

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("device", "text", "whose memory"),
    Column("start", "instant", "start of the stretch"),
    Column("duration", "time", "length of the stretch", brief=False),
    Column("allocated", "bytes", "most that is allocated at any time of the stretch"),
    Column("reserved", "bytes", "most that is reserved at any time of it"),
    Column(
        "unused",
        "bytes",
        "most that is reserved and not allocated at any time of it: the three may be so at different times",
    ),
    Column("changes", "count", "times that memory was given or taken back"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each stretch of each device of the rank's file, one for those in a row without a change; bytes."""
    del options
    everything = allocations(share)
    rows = holding(everything, share)
    if rows.is_empty():
        return nowhere(everything)
    found = [_stretches(device, share) for device in rows.partition_by("device", maintain_order=True)]
    return pl.concat(found).with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))


def _stretches(rows: pl.DataFrame, share: Share) -> pl.DataFrame:
    """The stretches of one device."""
    low, high = int(rows["time"][0]), int(rows["time"][-1])
    if share.windowed:
        low, high = min(low, share.start), max(high, share.end)
    size = max(1, -(-(high - low + 1) // STRETCHES))
    held = rows.select(
        ((pl.col("time") - low) // size).alias("place"),
        pl.col("device").cast(pl.Int64).alias("number"),
        pl.col("level").alias("allocated"),
        pl.col("reserved").forward_fill(),
        (pl.col("bytes") != 0).alias("changes"),
    ).with_columns((pl.col("reserved") - pl.col("allocated")).clip(lower_bound=0).alias("unused"))
    ends = pl.col("place").shift(-1).fill_null((high - low) // size + 1)
    told = (
        held.group_by("place", maintain_order=True)
        .agg(
            pl.col("number").first(),
            pl.col("changes").sum().cast(pl.Int64),
            pl.col(_LEVELS).max(),
            pl.col(_LEVELS).last().name.prefix("last "),
        )
        .with_columns(ends.alias("next"))
    )
    begun = [pl.max_horizontal(name, pl.col(f"last {name}").shift(1)).alias(name) for name in _LEVELS]
    changed = told.with_columns(
        *begun, pl.when(pl.col("changes") > 0).then(pl.col("place") + 1).otherwise("next").alias("end")
    )
    quiet = (pl.col("next") > pl.col("place") + 1) & (low + (pl.col("place") + 1) * size < high)
    after = told.filter((pl.col("changes") > 0) & quiet).with_columns(
        *(pl.col(f"last {name}").alias(name) for name in _LEVELS),
        pl.lit(0, pl.Int64).alias("changes"),
        pl.col("place") + 1,
        pl.col("next").alias("end"),
    )
    start, end = low + pl.col("place") * size, (low + pl.col("end") * size).clip(upper_bound=high)
    return (
        pl.concat([changed, after])
        .sort("place")
        .select("number", *_LEVELS, "changes", start.alias("start"), (end - start).alias("duration"))
    )


_LEVELS: Final = ("allocated", "reserved", "unused")


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The stretches of all ranks, of devices before the host, in the order of time."""
    rows = of_ranks(tables, scene)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, unrecorded(scene, tables))
    table = rows.with_columns(named(pl.col("number"))).sort("rank", pl.col("number") == HOST, "number", "start")
    return answer(ANALYSIS, table, scene, options, [note("memory_levels_are_maxima")])


ANALYSIS = Analysis(
    name="memory_curve",
    title="Memory curve",
    question="How much memory is allocated and reserved over time?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
