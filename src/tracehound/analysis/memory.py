"""How much memory each device holds: at its peak, and what never goes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.allocations import (
    HOST,
    LEVELS,
    alive,
    allocations,
    blocks,
    holding,
    named,
    nowhere,
    of_ranks,
    peaks,
    unrecorded,
)
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.notes import Note, note

DEFINITION = f"""\
{LEVELS}

peak = the most that is allocated, at = when that is so first; reserved and unused are of that instant. most reserved
and most unused are the maxima over time, each for itself. capacity = the device's memory. At the peak, blocks are those
that were given by then and taken back later; "since before" is what of the peak was there before the recording and
never taken back in it. never freed = what was given in the recording (or the window) and not taken back in the file.
A window counts what happens in it. Of a file that begins with a release, the peak may be before that. The PyTorch
TensorBoard plugin has the same peak.

by=category says of parameters, activations, gradients, optimizer state and the like what each held at the peak of the
device, and the most that it held. Only PyTorch's memory timeline tells categories: a file of its own, which
export_memory_timeline("....raw.json.gz") of a profiler with profile_memory, record_shapes and with_stack writes."""

BY: Final = Setting(
    "by", "device", "what a row is: a device, or what memory of a device is for", one_of("device", "category")
)

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


BY_CATEGORY: Final = (
    Column("rank", "count", "rank"),
    Column("device", "text", "whose memory"),
    Column("category", "text", "what it is for"),
    Column("at_peak", "bytes", "held at the peak of the device"),
    Column("share", "share", "held then", "the peak of the device"),
    Column("at", "instant", "when the device is at its peak", brief=False),
    Column("most", "bytes", "most that the category held"),
    Column("most_at", "instant", "when that was so first"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each device of the rank's file, or for each category of its memory; bytes."""
    everything = allocations(share)
    rows = holding(everything, share)
    if rows.is_empty():
        return nowhere(everything)
    return (
        _categories(everything, rows, share)
        if BY.of(options.given) == "category"
        else _devices(everything, rows, share)
    )


def _categories(everything: pl.DataFrame, rows: pl.DataFrame, share: Share) -> pl.DataFrame:
    """What each category held when most was allocated, and the most that it held."""
    held = pl.col("bytes").cum_sum().over("device", "category").alias("held")
    known = everything.with_columns(held).drop_nulls("category")
    top = rows.group_by("device").agg(
        pl.col("time", "row").get(pl.col("level").arg_max()).name.prefix("peak "),
        pl.col("level").max().alias("peak"),
    )
    earlier = pl.col("row") <= pl.col("peak row")
    table = (
        holding(known, share, ["device", "category"])
        .join(top, on="device", maintain_order="left")
        .group_by("device", "category", maintain_order=True)
        .agg(
            pl.col("peak", "peak time").first(),
            pl.col("held").filter(earlier).last().fill_null(0).alias("at_peak"),
            pl.col("held").max().alias("most"),
            pl.col("time").get(pl.col("held").arg_max()).alias("most_at"),
            ((pl.col("held") != 0) | (pl.col("bytes") != 0)).any().alias("any"),
        )
        .filter("any")  # what holds nothing as the window begins, and all through it, is not there
    )
    believed = (pl.col("at_peak") >= 0) & (pl.col("at_peak") <= pl.col("peak"))
    return table.select(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.col("device").cast(pl.Int64).alias("number"),
        pl.col("category").cast(pl.String),
        "at_peak",
        "peak",
        pl.when(believed).then(pl.col("at_peak") / pl.col("peak")).fill_nan(None).alias("share"),
        pl.col("peak time").alias("at"),
        "most",
        "most_at",
    )  # fmt: skip


def _devices(everything: pl.DataFrame, rows: pl.DataFrame, share: Share) -> pl.DataFrame:
    top = peaks(rows)
    unused = (pl.col("reserved") - pl.col("allocated")).clip(lower_bound=0)
    levels = (
        rows.with_columns(unused.alias("unused"))
        .group_by("device", maintain_order=True)
        .agg(
            pl.col("reserved").max().alias("most_reserved"),
            pl.col("unused").max().alias("most_unused"),
            (pl.col("change") > 0).sum().cast(pl.Int64).alias("allocations"),
            pl.col("allocated").is_not_null().any().alias("totals"),
            pl.col("address").is_not_null().any().alias("addresses"),
        )
    )
    moment = (
        rows.with_columns(unused.alias("unused"))
        .join(top, on="device")
        .filter(pl.col("row") == pl.col("row_right"))
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
    found = blocks(everything).join(top.select("device", "row"), on="device")
    there = alive(pl.col("row"))
    kept = pl.col("died").is_null() & pl.col("born").is_between(share.start, share.end)
    return found.group_by("device").agg(
        there.sum().cast(pl.Int64).alias("blocks"),
        pl.col("bytes").filter(there).sum().alias("held"),
        pl.col("bytes").filter(kept).sum().alias("never_freed"),
        kept.sum().cast(pl.Int64).alias("never_freed_blocks"),
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row for each rank and device, the devices before the host; of categories, the largest at the peak first."""
    by_category = BY.of(options.given) == "category"
    shown = ANALYSIS.shown(options.given)
    rows = of_ranks(tables, scene)
    if rows.is_empty():
        untold = by_category and any("category" in table.columns for table in tables)
        why = note("no_memory_categories", level="missing") if untold else unrecorded(scene, tables)
        return without(shown, scene, options, why)
    if by_category:
        order = ["rank", "number", "at_peak", "most"]
        table = rows.sort(order, descending=[False, False, True, True]).with_columns(named(pl.col("number")))
        return answer(shown, table, scene, options, _peaks(table))
    believed = (pl.col("capacity") >= pl.col("peak")) & (pl.col("peak") >= 0)
    table = rows.with_columns(
        named(pl.col("number")), pl.when(believed).then(pl.col("peak") / pl.col("capacity")).alias("peak_share")
    ).sort("rank", pl.col("number") == HOST, "number")
    return answer(ANALYSIS, table, scene, options, _notes(table))


def _peaks(table: pl.DataFrame) -> list[Note]:
    """The most that each device held of all categories together."""
    devices = table.unique(["rank", "number"], maintain_order=True).head(4)
    return [
        note("device_memory_peak", device=row["device"], rank=row["rank"], at=row["at"], peak=row["peak"])
        for row in devices.iter_rows(named=True)
    ]


def _notes(table: pl.DataFrame) -> list[Note]:
    high = table.filter(pl.col("peak_share") > _NEARLY)
    notes = [
        note("memory_nearly_full", device=device, rank=rank, share=share, capacity=capacity)
        for device, rank, share, capacity in high.head(4).select("device", "rank", "peak_share", "capacity").iter_rows()
    ]
    absurd = table.filter(pl.col("peak") > pl.col("capacity")).head(4)
    notes += [
        note("memory_peak_impossible", device=device, rank=rank)
        for device, rank in absurd.select("device", "rank").iter_rows()
    ]
    for what, code in (("totals", "memory_totals_missing"), ("addresses", "memory_addresses_missing")):
        untold = table.filter(~pl.col(what))["device"].unique(maintain_order=True).to_list()
        if untold:
            every = len(untold) == table["device"].n_unique()
            notes.append(note(code, level="missing", devices=tuple(untold), every=every))
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
    settings=(BY,),
    by={"category": BY_CATEGORY},
)
