"""Single memory blocks: the largest, those held at the peak, those never freed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.allocations import (
    allocating_operators,
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
from tracehound.model.memory_devices import HOST_DEVICE, memory_device_name
from tracehound.model.notes import Note, note

DEFINITION = """\
A block is allocated at an address of a device and freed by the next event at that address. start and duration tell
when it is held; without a start it was allocated before the recording, and without a duration it was never freed in
it. operator = the innermost operator that ran on the thread at the allocation (for a block from before: at the free).
at peak = it was held when most of the device's memory was allocated (in the window, if there is one); share is of that
peak. A note says if these blocks add up to more or less than the peak, which is the total that PyTorch recorded: that
may leave allocations out (memory that a host library took for itself).

of=peak has the blocks held at the peak, of=kept those that were allocated and never freed. A window keeps the blocks
that are held in it at some time. The PyTorch TensorBoard plugin has the same pairs, without the peak."""

OF_SETTING: Final = Setting(
    "of",
    "all",
    "which blocks: all, those held at the peak (peak), or those never freed (kept)",
    choice_parser("all", "peak", "kept"),
)

COLUMNS: Final = (
    Column("operator", "text", "operator that allocated it"),
    Column("rank", "count", "rank"),
    Column("device", "text", "device that has the memory"),
    Column("size", "bytes", "size of the block"),
    Column("share", "share", "this block, if it is held then", "the peak of the device"),
    Column("start", "instant", "time of the allocation; – before the recording", brief=False),
    Column("duration", "time", "time from allocation to free; – not freed, or allocated before"),
    Column("at_peak", "flag", "held at the peak"),
    Column("freed", "flag", "freed in the recording", brief=False),
    Column("address", "text", "address", brief=False),
    Column("event", "id", "the operator's execution"),
)

_PEAK_MISMATCH_CODES: Final = {1: "blocks_above_peak", -1: "blocks_below_peak"}
"""The note code by the sign of the difference between the blocks at the peak and the peak itself."""

MOST_BLOCKS: Final = 20_000
"""Most blocks of a device that are kept, the largest ones: a file has as many as allocations."""


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The largest blocks of the rank's file, sizes in bytes."""
    rows = read_allocations(rank_trace)
    rows_in_window = with_levels_at_start(rows, rank_trace)
    if rows_in_window.is_empty():
        return empty_memory_table(rows)
    blocks = (
        memory_blocks(rows)
        .join(allocation_peaks(rows_in_window), on="device")
        .with_columns(is_block_held(pl.col("row")).alias("at_peak"))
    )
    blocks = blocks.with_columns(pl.col("bytes").filter("at_peak").sum().over("device").alias("held"))
    if rank_trace.windowed:
        began, ended = pl.col("born").fill_null(rank_trace.start), pl.col("died").fill_null(rank_trace.end)
        blocks = blocks.filter((began < rank_trace.end) & (ended > rank_trace.start))
    conditions = {"all": pl.lit(value=True), "peak": pl.col("at_peak"), "kept": pl.col("died").is_null()}
    chosen_blocks = blocks.filter(conditions[OF_SETTING.value_in(options.given)])
    chosen_blocks = chosen_blocks.sort("bytes", "born", "given", descending=[True, False, False], nulls_last=True)
    chosen_blocks = chosen_blocks.with_columns(pl.len().cast(pl.Int64).over("device").alias("all"))
    largest = chosen_blocks.filter(pl.int_range(pl.len()).over("device") < MOST_BLOCKS)
    return pl.concat(
        [_block_columns(largest, rank_trace), _block_operators(largest, rows, rank_trace)], how="horizontal"
    )


def _block_columns(blocks: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """The columns of each block, but its operator."""
    part = pl.when(pl.col("at_peak") & (pl.col("peak") >= pl.col("bytes"))).then(pl.col("bytes") / pl.col("peak"))
    return blocks.select(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.col("device").cast(pl.Int64).alias("number"),
        pl.col("bytes").alias("size"),
        part.alias("share"),
        pl.col("born").alias("start"),
        (pl.col("died") - pl.col("born")).alias("duration"),
        "at_peak",
        "held",
        "peak",
        pl.col("died").is_not_null().alias("freed"),
        "all",
        pl.Series("address", [hex(address) for address in blocks["address"].to_list()], pl.String),
    )


def _block_operators(blocks: pl.DataFrame, rows: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """The operator that allocated each block, and its event; null where there is none."""
    calls, innermost = allocating_operators(rank_trace, rows[blocks["given"]])
    operator_rows = pl.Series(innermost).set(pl.Series(innermost < 0), None)
    return calls.events.select(
        pl.col("name").gather(operator_rows).cast(pl.String).alias("operator"),
        pl.col("id").gather(operator_rows).alias("event"),
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The blocks of all ranks, devices before the host, the largest first."""
    if not any("size" in table.columns for table in tables):
        return empty_result(ANALYSIS, context, options, no_memory_events_note(context, tables))
    rows = assign_devices_to_ranks(tables, context)
    if rows.is_empty():
        return empty_result(
            ANALYSIS, context, options, note("no_memory_blocks", level="missing", windowed=context.windowed)
        )
    table = rows.with_columns(memory_device_name(pl.col("number"))).sort(
        pl.col("number") == HOST_DEVICE, "size", "rank", "start", descending=[False, True, False, False]
    )
    left_out = int(table.group_by("rank", "number").agg(pl.col("all").first() - pl.len())["all"].sum())
    notes = [note("smaller_blocks_left_out", blocks=left_out)] if left_out else []
    return make_result(ANALYSIS, table, context, options, [*notes, *_peak_mismatch_notes(table, options)])


def _peak_mismatch_notes(table: pl.DataFrame, options: Options) -> list[Note]:
    """Notes on devices whose blocks at the peak add up to more or less than the peak."""
    if OF_SETTING.value_in(options.given) == "kept":
        return []
    devices_with_blocks = table.filter(pl.col("held") > 0).unique(["rank", "number"])
    devices = devices_with_blocks.select("rank", pl.col("held") - pl.col("peak"))
    notes = []
    for sign, code in _PEAK_MISMATCH_CODES.items():
        mismatched = devices.filter(pl.col("held").sign() == sign)
        if mismatched.height:
            largest, ranks = max(map(abs, mismatched["held"].to_list())), tuple(mismatched["rank"].unique().to_list())
            notes.append(note(code, most=largest, devices=mismatched.height, ranks=ranks))
    return notes


ANALYSIS = Analysis(
    name="memory_blocks",
    title="Memory blocks",
    question="Which blocks of memory are the largest, held at the peak, or never freed?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(OF_SETTING,),
)
