"""How much memory each device holds: at its peak, and what never goes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.allocations import (
    HOST,
    LEVELS,
    RECORD,
    alive,
    allocations,
    blocks,
    inside,
    named,
    of_ranks,
    peaks,
)
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank
from tracehound.units import bytes_
from tracehound.units import share as percent

DEFINITION = f"""\
{LEVELS}

peak = the most that is allocated, at = when that is so first; reserved and unused are of that instant. most reserved
and most unused are the maxima over time, each for itself. capacity = the device's memory. At the peak, blocks are those
that were given by then and taken back later; "since before" is what of the peak was there before the recording and
never taken back in it. never freed = what was given in the recording (or the window) and not taken back in the file.
A window counts what happens in it. The PyTorch TensorBoard plugin has the same peak."""

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("device", "text", "whose memory"),
    Column("peak", "bytes", "most that is allocated"),
    Column("at", "instant", "when that is so first"),
    Column("peak_share", "share", "peak", "the device's memory"),
    Column("reserved", "bytes", "taken from the device at the peak"),
    Column("unused", "bytes", "reserved and not allocated at the peak", brief=False),
    Column("most_reserved", "bytes", "most that is reserved", brief=False),
    Column("most_unused", "bytes", "most that is reserved and not allocated", brief=False),
    Column("capacity", "bytes", "memory of the device", brief=False),
    Column("blocks", "count", "blocks held at the peak whose allocation or release is recorded"),
    Column("since_before", "bytes", "of the peak, from before the recording and never taken back", brief=False),
    Column("allocations", "count", "times that memory was given"),
    Column("never_freed", "bytes", "given and not taken back"),
    Column("never_freed_blocks", "count", "blocks that were given and not taken back", brief=False),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each device of the rank's file; bytes."""
    del options
    everything = allocations(share)
    rows = inside(everything, share)
    if rows.is_empty():
        return pl.DataFrame()
    top = peaks(rows)
    unused = (pl.col("reserved") - pl.col("allocated")).clip(lower_bound=0)
    levels = (
        rows.with_columns(unused.alias("unused"))
        .group_by("device", maintain_order=True)
        .agg(
            pl.col("reserved").max().alias("most_reserved"),
            pl.col("unused").max().alias("most_unused"),
            (pl.col("bytes") > 0).sum().cast(pl.Int64).alias("allocations"),
            pl.col("allocated").is_not_null().any().alias("totals"),
            pl.col("address").is_not_null().any().alias("addresses"),
        )
    )
    moment = (
        rows.with_columns(unused.alias("unused"))
        .join(top, on="device")
        .filter((pl.col("time") == pl.col("at")) & (pl.col("level") == pl.col("peak")))
        .unique("device", keep="first", maintain_order=True)
        .select("device", "at", "peak", "reserved", "unused")
    )
    held = _held(everything, top, share)
    table = levels.join(moment, on="device", how="left").join(held, on="device", how="left", maintain_order="left")
    capacity = pl.when(pl.col("device") != HOST).then(share.properties.memory or None)
    return table.sort("device").select(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.col("device").cast(pl.Int64).alias("number"),
        pl.exclude("device", "held"),
        capacity.cast(pl.Int64).alias("capacity"),
        pl.when("totals").then((pl.col("peak") - pl.col("held")).clip(lower_bound=0)).alias("since_before"),
    )  # fmt: skip


def _held(everything: pl.DataFrame, top: pl.DataFrame, share: Share) -> pl.DataFrame:
    """Of each device the blocks at its peak, and those that were given in the window and never taken back."""
    found = blocks(everything).join(top.select("device", "at"), on="device")
    there = alive(pl.col("at"))
    kept = pl.col("died").is_null() & pl.col("born").is_between(share.start, share.end)
    return found.group_by("device").agg(
        there.sum().cast(pl.Int64).alias("blocks"),
        pl.col("bytes").filter(there).sum().alias("held"),
        pl.col("bytes").filter(kept).sum().alias("never_freed"),
        kept.sum().cast(pl.Int64).alias("never_freed_blocks"),
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row for each rank and device, the devices before the host."""
    rows = of_ranks(tables, scene)
    if rows.is_empty():
        return answer(ANALYSIS, blank(COLUMNS), scene, options, [RECORD])
    believed = (pl.col("capacity") >= pl.col("peak")) & (pl.col("peak") >= 0)
    table = rows.with_columns(
        named(pl.col("number")), pl.when(believed).then(pl.col("peak") / pl.col("capacity")).alias("peak_share")
    ).sort("rank", pl.col("number") == HOST, "number")
    return answer(ANALYSIS, table, scene, options, _notes(table))


def _notes(table: pl.DataFrame) -> list[str]:
    notes = []
    high = table.filter(pl.col("peak_share") > _NEARLY)
    for row in high.head(4).iter_rows(named=True):
        told = f"{percent(row['peak_share'])} of {bytes_(row['capacity'])}"
        notes.append(f"nearly full: {row['device']} of rank {row['rank']} at its peak, {told}")
    absurd = table.filter(pl.col("peak") > pl.col("capacity"))
    notes += [
        f"not to be believed: the peak of {row['device']} of rank {row['rank']} is above its memory"
        for row in absurd.head(4).iter_rows(named=True)
    ]
    if not table["totals"].all():
        notes.append("no totals in this file: allocated is counted from the start of the recording, reserved not known")
    if not table["addresses"].all():
        notes.append("no addresses in this file: which blocks are held or never freed is not known")
    return notes


_NEARLY: Final = 0.9
"""A peak above this part of the device's memory is worth a note; the plugin recommends checkpointing then."""

ANALYSIS = Analysis(
    name="memory",
    title="Memory",
    question="How much memory does each device hold at its peak, and what is never freed?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
