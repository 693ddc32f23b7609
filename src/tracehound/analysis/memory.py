"""Memory of each device: its peak, and blocks that are never freed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.allocations import (
    LEVELS_DEFINITION,
    allocation_peaks,
    assign_devices_to_ranks,
    empty_memory_table,
    is_block_held,
    memory_blocks,
    no_memory_events_note,
    read_allocations,
    with_levels_at_start,
)
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_result, make_result
from tracehound.model.memory_devices import HOST_DEVICE, is_memory_like, memory_device_name
from tracehound.model.notes import Note, note

DEFINITION = f"""\
{LEVELS_DEFINITION}

peak = the largest allocated value, at = its first instant; reserved and unused are of that instant. most reserved and
most unused are maxima over time, each by itself. capacity = the device's memory. blocks are those held at the peak
that were allocated by then and freed later. since before is the part of the peak that was there before the recording
and never freed in it. never freed = memory allocated in the recording (or the window) and not freed in the file. A
window counts what happens in it. If a file begins with a free, the peak may be before it. The PyTorch TensorBoard
plugin has the same peak.

by=category has parameters, activations, gradients, optimizer state and others: what each held at the peak of the
device, and the most that it held. Only PyTorch's memory timeline has categories: a separate file, which
export_memory_timeline("....raw.json.gz") of a profiler with profile_memory, record_shapes and with_stack writes."""

BY_SETTING: Final = Setting(
    "by", "device", "what a row is: a device, or what memory of a device is for", choice_parser("device", "category")
)

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("device", "text", "device that has the memory"),
    Column("peak", "bytes", "peak of allocated memory"),
    Column("at", "instant", "time of the peak (the first, of several)"),
    Column("peak_share", "share", "peak", "the device's memory"),
    Column("reserved", "bytes", "reserved at the peak"),
    Column("unused", "bytes", "reserved and not allocated at the peak", brief=False),
    Column("most_reserved", "bytes", "peak of reserved memory", brief=False),
    Column("most_unused", "bytes", "peak of unused memory", brief=False),
    Column("capacity", "bytes", "memory of the device", brief=False),
    Column("blocks", "count", "blocks held at the peak whose allocation or free is recorded"),
    Column("since_before", "bytes", "part of the peak from before the recording and never freed", brief=False),
    Column("allocations", "count", "allocations"),
    Column("never_freed", "bytes", "bytes allocated and not freed"),
    Column("never_freed_blocks", "count", "blocks allocated and not freed", brief=False),
)


BY_CATEGORY_COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("device", "text", "device that has the memory"),
    Column("category", "text", "category"),
    Column("at_peak", "bytes", "held at the peak of the device"),
    Column("share", "share", "held then", "the peak of the device"),
    Column("at", "instant", "time of the device's peak", brief=False),
    Column("most", "bytes", "peak of the category"),
    Column("most_at", "instant", "time of that peak"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each device of the rank's file, or for each category of its memory; bytes."""
    everything = read_allocations(rank_trace)
    rows = with_levels_at_start(everything, rank_trace)
    if rows.is_empty():
        return empty_memory_table(everything)
    return (
        _category_rows(everything, rows, rank_trace)
        if BY_SETTING.value_in(options.given) == "category"
        else _device_rows(everything, rows, rank_trace)
    )


def _category_rows(everything: pl.DataFrame, rows: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """Bytes held by each category at the peak of its device, and the most that it held."""
    held_bytes = pl.col("bytes").cum_sum().over("device", "category").alias("held")
    category_changes = everything.with_columns(held_bytes).drop_nulls("category")
    device_peaks = rows.group_by("device").agg(
        pl.col("time", "row").get(pl.col("level").arg_max()).name.prefix("peak "),
        pl.col("level").max().alias("peak"),
    )
    until_peak = pl.col("row") <= pl.col("peak row")
    table = (
        with_levels_at_start(category_changes, rank_trace, ["device", "category"])
        .join(device_peaks, on="device", maintain_order="left")
        .group_by("device", "category", maintain_order=True)
        .agg(
            pl.col("peak", "peak time").first(),
            pl.col("held").filter(until_peak).last().fill_null(0).alias("at_peak"),
            pl.col("held").max().alias("most"),
            pl.col("time").get(pl.col("held").arg_max()).alias("most_at"),
            ((pl.col("held") != 0) | (pl.col("bytes") != 0)).any().alias("any"),
        )
        .filter("any")  # categories that hold nothing in the window are left out
    )
    believed = (pl.col("at_peak") >= 0) & (pl.col("at_peak") <= pl.col("peak"))
    return table.select(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.col("device").cast(pl.Int64).alias("number"),
        pl.col("category").cast(pl.String),
        "at_peak",
        "peak",
        pl.when(believed).then(pl.col("at_peak") / pl.col("peak")).fill_nan(None).alias("share"),
        pl.col("peak time").alias("at"),
        "most",
        "most_at",
    )  # fmt: skip


def _device_rows(everything: pl.DataFrame, rows: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    device_peaks = allocation_peaks(rows)
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
    at_peak = (
        rows.with_columns(unused.alias("unused"))
        .join(device_peaks, on="device")
        .filter(pl.col("row") == pl.col("row_right"))
        .select("device", "at", "peak", "reserved", "unused")
    )
    block_counts = _count_blocks(everything, device_peaks, rank_trace)
    table = levels.join(at_peak, on="device", how="left").join(
        block_counts, on="device", how="left", maintain_order="left"
    )
    capacity = pl.when(is_memory_like(pl.col("device"), rank_trace.label)).then(rank_trace.capacity.memory or None)
    return table.sort("device").select(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.col("device").cast(pl.Int64).alias("number"),
        pl.exclude("device", "held"),
        capacity.cast(pl.Int64).alias("capacity"),
        pl.when("totals").then((pl.col("peak") - pl.col("held")).clip(lower_bound=0)).alias("since_before"),
    )  # fmt: skip


def _count_blocks(everything: pl.DataFrame, device_peaks: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """For each device the blocks at its peak, and the blocks allocated in the window and never freed."""
    blocks_and_peaks = memory_blocks(everything).join(device_peaks.select("device", "row"), on="device")
    is_held = is_block_held(pl.col("row"))
    is_never_freed = pl.col("died").is_null() & pl.col("born").is_between(rank_trace.start, rank_trace.end)
    return blocks_and_peaks.group_by("device").agg(
        is_held.sum().cast(pl.Int64).alias("blocks"),
        pl.col("bytes").filter(is_held).sum().alias("held"),
        pl.col("bytes").filter(is_never_freed).sum().alias("never_freed"),
        is_never_freed.sum().cast(pl.Int64).alias("never_freed_blocks"),
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row for each rank and device, devices before the host; categories with the largest at the peak first."""
    by_category = BY_SETTING.value_in(options.given) == "category"
    analysis = ANALYSIS.with_shown_columns(options.given)
    rows = assign_devices_to_ranks(tables, context)
    if rows.is_empty():
        without_categories = by_category and any("category" in table.columns for table in tables)
        reason = (
            note("no_memory_categories", level="missing")
            if without_categories
            else no_memory_events_note(context, tables)
        )
        return empty_result(analysis, context, options, reason)
    if by_category:
        order = ["rank", "number", "at_peak", "most"]
        table = rows.sort(order, descending=[False, False, True, True]).with_columns(
            memory_device_name(pl.col("number"))
        )
        return make_result(analysis, table, context, options, _peak_notes(table))
    believed = (pl.col("capacity") >= pl.col("peak")) & (pl.col("peak") >= 0)
    table = rows.with_columns(
        memory_device_name(pl.col("number")),
        pl.when(believed).then(pl.col("peak") / pl.col("capacity")).alias("peak_share"),
    ).sort("rank", pl.col("number") == HOST_DEVICE, "number")
    return make_result(ANALYSIS, table, context, options, _notes(table))


def _peak_notes(table: pl.DataFrame) -> list[Note]:
    """Notes with the peak of each device over all categories."""
    devices = table.unique(["rank", "number"], maintain_order=True).head(4)
    return [
        note("device_memory_peak", device=row["device"], rank=row["rank"], at=row["at"], peak=row["peak"])
        for row in devices.iter_rows(named=True)
    ]


def _notes(table: pl.DataFrame) -> list[Note]:
    nearly_full = table.filter(pl.col("peak_share") > _NEARLY_FULL)
    notes = [
        note("memory_nearly_full", device=device, rank=rank, share=share, capacity=capacity)
        for device, rank, share, capacity in nearly_full.head(4)
        .select("device", "rank", "peak_share", "capacity")
        .iter_rows()
    ]
    impossible = table.filter(pl.col("peak") > pl.col("capacity")).head(4)
    notes += [
        note("memory_peak_impossible", device=device, rank=rank)
        for device, rank in impossible.select("device", "rank").iter_rows()
    ]
    for column, code in (("totals", "memory_totals_missing"), ("addresses", "memory_addresses_missing")):
        devices = table.filter(~pl.col(column))["device"].unique(maintain_order=True).to_list()
        if devices:
            on_every_device = len(devices) == table["device"].n_unique()
            notes.append(note(code, level="missing", devices=tuple(devices), every=on_every_device))
    return notes


_NEARLY_FULL: Final = 0.9
"""A peak above this share of the device's memory has a note; the plugin recommends checkpointing then."""

ANALYSIS = Analysis(
    name="memory",
    title="Memory",
    question="How much memory does each device hold at its peak, and what is never freed?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(BY_SETTING,),
    columns_by_setting={"category": BY_CATEGORY_COLUMNS},
)
