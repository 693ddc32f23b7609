"""How much memory is allocated and reserved over time, stretch by stretch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.allocations import HOST, LEVELS, allocations, holding, named, nowhere, of_ranks, unrecorded
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without

DEFINITION = f"""\
{LEVELS}

The time from the first memory event of a device to its last (or the window) is cut into up to 1,000 stretches of equal
length; of each it has the most that was allocated, reserved and unused in it, so that no peak is lost. Stretches in
which nothing changes are one row. Every change is a sample of the lanes "memory allocated" and "memory reserved"."""

STRETCHES: Final = 1000

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("device", "text", "whose memory"),
    Column("start", "instant", "start of the stretch"),
    Column("duration", "time", "length of the stretch", brief=False),
    Column("allocated", "bytes", "most that is allocated in it"),
    Column("reserved", "bytes", "most that is reserved in it"),
    Column("unused", "bytes", "most that is reserved and not allocated"),
    Column("changes", "count", "times that memory was given or taken back"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each stretch of each device of the rank's file in which anything changes; bytes."""
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
    place = (pl.col("time") - low) // size
    unused = (pl.col("reserved") - pl.col("allocated")).clip(lower_bound=0)
    most = (
        rows.group_by(place.alias("place"), maintain_order=True)
        .agg(
            pl.col("device").first().cast(pl.Int64).alias("number"),
            pl.col("level").max().alias("allocated"),
            pl.col("reserved").max(),
            unused.max().alias("unused"),
            (pl.col("bytes") != 0).sum().cast(pl.Int64).alias("changes"),
            pl.col("level", "reserved").last().name.prefix("last "),
        )
        .with_columns(
            pl.max_horizontal("allocated", pl.col("last level").shift(1)).alias("allocated"),
            pl.max_horizontal("reserved", pl.col("last reserved").shift(1)).alias("reserved"),
        )
    )
    start = low + most["place"].to_numpy() * size
    end = np.append(start[1:], high)
    return most.with_columns(pl.Series("start", start), pl.Series("duration", np.maximum(end - start, 0))).drop(
        "place", "last level", "last reserved"
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The stretches of all ranks, of devices before the host, in the order of time."""
    rows = of_ranks(tables, scene)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, unrecorded(scene, tables))
    table = rows.with_columns(named(pl.col("number"))).sort("rank", pl.col("number") == HOST, "number", "start")
    return answer(ANALYSIS, table, scene, options)


ANALYSIS = Analysis(
    name="memory_curve",
    title="Memory curve",
    question="How much memory is allocated and reserved over time?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
