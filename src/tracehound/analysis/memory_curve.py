"""Allocated and reserved memory over time, by intervals of equal length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.allocations import (
    LEVELS_DEFINITION,
    assign_devices_to_ranks,
    empty_memory_table,
    no_memory_events_note,
    read_allocations,
    with_levels_at_start,
)
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_result, make_result
from tracehound.model.memory_devices import HOST_DEVICE, memory_device_name
from tracehound.model.notes import note

DEFINITION = f"""\
{LEVELS_DEFINITION}

The time from the first memory event of a device to its last (or the window) is divided into up to 1,000 intervals of
equal length. Each has the maximum of allocated, reserved and unused memory in it, including the values at its start,
so no peak is lost. Consecutive intervals without changes are one row. Every change is a sample of the lanes "memory
allocated" and "memory reserved"."""

MOST_INTERVALS: Final = 1000

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("device", "text", "device that has the memory"),
    Column("start", "instant", "start of the interval"),
    Column("duration", "time", "length of the interval", brief=False),
    Column("allocated", "bytes", "maximum of allocated memory in the interval"),
    Column("reserved", "bytes", "maximum of reserved memory in the interval"),
    Column(
        "unused",
        "bytes",
        "maximum of unused memory in the interval (the maxima may be at different times)",
    ),
    Column("changes", "count", "allocations and frees"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each interval of each device of the file, one for a run of intervals without a change; bytes."""
    del options
    all_rows = read_allocations(rank_trace)
    rows = with_levels_at_start(all_rows, rank_trace)
    if rows.is_empty():
        return empty_memory_table(all_rows)
    tables = [_device_intervals(device, rank_trace) for device in rows.partition_by("device", maintain_order=True)]
    return pl.concat(tables).with_columns(pl.lit(rank_trace.rank, pl.Int64).alias("rank"))


def _device_intervals(rows: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """The intervals of one device."""
    low, high = int(rows["time"][0]), int(rows["time"][-1])
    if rank_trace.windowed:
        low, high = min(low, rank_trace.start), max(high, rank_trace.end)
    length = max(1, -(-(high - low + 1) // MOST_INTERVALS))
    levels = rows.select(
        ((pl.col("time") - low) // length).alias("place"),
        pl.col("device").cast(pl.Int64).alias("number"),
        pl.col("level").alias("allocated"),
        pl.col("reserved").forward_fill(),
        (pl.col("bytes") != 0).alias("changes"),
    ).with_columns((pl.col("reserved") - pl.col("allocated")).clip(lower_bound=0).alias("unused"))
    ends = pl.col("place").shift(-1).fill_null((high - low) // length + 1)
    interval_rows = (
        levels.group_by("place", maintain_order=True)
        .agg(
            pl.col("number").first(),
            pl.col("changes").sum().cast(pl.Int64),
            pl.col(_LEVEL_COLUMNS).max(),
            pl.col(_LEVEL_COLUMNS).last().name.prefix("last "),
        )
        .with_columns(ends.alias("next"))
    )
    levels_from_start = [
        pl.max_horizontal(name, pl.col(f"last {name}").shift(1)).alias(name) for name in _LEVEL_COLUMNS
    ]
    changed_rows = interval_rows.with_columns(
        *levels_from_start, pl.when(pl.col("changes") > 0).then(pl.col("place") + 1).otherwise("next").alias("end")
    )
    has_quiet_rest = (pl.col("next") > pl.col("place") + 1) & (low + (pl.col("place") + 1) * length < high)
    quiet_rows = interval_rows.filter((pl.col("changes") > 0) & has_quiet_rest).with_columns(
        *(pl.col(f"last {name}").alias(name) for name in _LEVEL_COLUMNS),
        pl.lit(0, pl.Int64).alias("changes"),
        pl.col("place") + 1,
        pl.col("next").alias("end"),
    )
    start, end = low + pl.col("place") * length, (low + pl.col("end") * length).clip(upper_bound=high)
    return (
        pl.concat([changed_rows, quiet_rows])
        .sort("place")
        .select("number", *_LEVEL_COLUMNS, "changes", start.alias("start"), (end - start).alias("duration"))
    )


_LEVEL_COLUMNS: Final = ("allocated", "reserved", "unused")


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The intervals of all ranks, devices before the host, in the order of time."""
    rows = assign_devices_to_ranks(tables, context)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, no_memory_events_note(context, tables))
    table = rows.with_columns(memory_device_name(pl.col("number"))).sort(
        "rank", pl.col("number") == HOST_DEVICE, "number", "start"
    )
    return make_result(ANALYSIS, table, context, options, [note("memory_levels_are_maxima")])


ANALYSIS = Analysis(
    name="memory_curve",
    title="Memory curve",
    question="How much memory is allocated and reserved over time?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
