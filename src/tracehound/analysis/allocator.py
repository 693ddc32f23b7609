"""Memory held by the allocators of XLA's devices over time: peak, its time, and the fragmentation of free memory."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    concat_tables,
    empty_result,
    empty_table,
    make_result,
)
from tracehound.formats.runtime_names import allocator_columns
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame

DEFINITION = """\
XLA's runtime records an event on the host whenever an allocator allocates or frees memory (MemoryAllocation,
MemoryDeallocation), with the state after it: allocated to buffers, reserved for the stack of the running program, and
free. A row is an allocator: a device's, or the host's pinned memory. held is allocated + stack. peak is its maximum in
the window, at is the (first) event of that value, and the columns after it are of that instant. fragmentation is the
allocator's own figure: the part of its free memory outside of the largest free block; if it is high, large requests
fail. lifetime is the most that was ever in use, also before the recording, by the allocator's own count, which leaves
out stacks.

XProf's memory profile has the same events, peaks and lifetimes; its time begins at the first event. The timeline shows
held memory as counters, one for each allocator."""

COLUMNS = (
    Column("allocator", "text", "allocator, or its device"),
    Column("rank", "count", "the rank of its device; unknown for the host's memory and for devices not recorded"),
    Column("peak", "bytes", "peak of held memory: allocated + stack"),
    Column("at", "instant", "time of the peak"),
    Column("share", "share", "the peak", "its capacity: held + free"),
    Column("allocated", "bytes", "part of the peak: buffers"),
    Column("stack", "bytes", "part of the peak: reserved for the running program"),
    Column("free", "bytes", "at the peak"),
    Column("fragmentation", "share", "outside of the largest free block at the peak", "its free memory"),
    Column("worst", "share", "highest fragmentation", "its free memory then", brief=False),
    Column("lifetime", "bytes", "most in use since the allocator began, stacks not counted", brief=False),
    Column("given", "count", "allocations here"),
    Column("taken", "count", "deallocations here", brief=False),
    Column("largest", "bytes", "the largest allocation here", brief=False),
    Column("first", "bytes", "held at the first event here", brief=False),
    Column("last", "bytes", "held at the last event here", brief=False),
    Column("event", "id", "the event at the peak"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each allocator of the rank's file; `rank` is set only for the allocator of this rank's device."""
    del options
    events = collect_frame(rank_trace.facet("held"))
    if rank_trace.windowed:
        events = events.filter(pl.col("time").is_between(rank_trace.start, rank_trace.end))
    if events.is_empty():
        return empty_table(COLUMNS).with_columns(pl.lit(0, pl.Int64).alias("part"))
    named_events = events.with_columns(allocator_columns()).with_columns(
        pl.when(pl.col("name") == "")
        .then(pl.coalesce(pl.format("device {}", "ordinal"), pl.lit("unknown")))
        .otherwise("name")
        .alias("name"),
        (pl.col("allocated").fill_null(0) + pl.col("stack").fill_null(0)).alias("held"),
    )
    table = named_events.group_by("name", "ordinal", maintain_order=True).agg(_allocator_columns())
    ordinal = rank_trace.label.rpartition(":")[2]
    ids = collect_frame(
        rank_trace.threads.filter(pl.col("record").is_in(table["record"].to_list())).select(
            "record", pl.col("id").alias("event")
        )
    )
    return table.join(ids.unique("record"), on="record", how="left", maintain_order="left").select(
        pl.col("name").alias("allocator"),
        pl.when(pl.col("ordinal").cast(pl.String) == ordinal).then(pl.lit(rank_trace.rank, pl.Int64)).alias("rank"),
        *(pl.col(column.name) for column in COLUMNS[2:]),
        pl.lit(rank_trace.part, pl.Int64).alias("part"),
    )


def _allocator_columns() -> list[pl.Expr]:
    """The columns of an allocator, and `record`, the event at its peak."""
    peak = pl.col("held").arg_max()
    held, free = (pl.col(name).get(peak) for name in ("held", "free"))
    is_possible = (held >= 0) & (free >= 0)
    fragmentation = pl.col("fragmentation").clip(0, 1)
    return [
        pl.col("held").max().alias("peak"),
        pl.col("time").get(peak).alias("at"),
        pl.when(is_possible).then(held / (held + free)).fill_nan(None).alias("share"),
        pl.col("allocated", "stack", "free", "record").get(peak),
        fragmentation.get(peak),
        fragmentation.max().alias("worst"),
        pl.col("peak").max().alias("lifetime"),
        (pl.col("bytes") > 0).sum().cast(pl.Int64).alias("given"),
        (pl.col("bytes").fill_null(-1) <= 0).sum().cast(pl.Int64).alias("taken"),
        pl.col("bytes").filter(pl.col("bytes") > 0).max().alias("largest"),
        pl.col("held").first().alias("first"),
        pl.col("held").last().alias("last"),
    ]


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row for each allocator, the highest peak first."""
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, note("no_allocator_events", level="missing"))
    rows = rows.sort("rank", nulls_last=True, maintain_order=True)
    table = rows.unique(["part", "allocator"], keep="first", maintain_order=True)
    table = table.sort("peak", "allocator", descending=[True, False])
    return make_result(ANALYSIS, table, context, options, _notes(table))


def _notes(table: pl.DataFrame) -> list[Note]:
    """Notes on the allocator with the highest peak, and on fragmented memory."""
    first = table.row(0, named=True)
    notes = [note("allocator_peak", allocator=first["allocator"], peak=first["peak"], share=first["share"])]
    fragmented = table.filter(pl.col("fragmentation") > NOTABLE_FRAGMENTATION)
    if fragmented.height:
        notes.append(note("free_memory_fragmented", share=NOTABLE_FRAGMENTATION, peaks=fragmented.height))
    return notes


NOTABLE_FRAGMENTATION = 0.25
"""Share of the free memory outside of its largest piece above which a note is given."""


ANALYSIS = Analysis(
    name="allocator",
    title="Allocators",
    question="How much memory did the devices of an XLA profile hold over time, and how fragmented was the rest?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
