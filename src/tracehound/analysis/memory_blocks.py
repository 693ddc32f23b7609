"""Single blocks of memory: the largest, those held at the peak, those never freed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.allocations import (
    HOST,
    alive,
    allocations,
    blocks,
    callers,
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

DEFINITION = """\
A block is given at an address of a device and taken back by the next event at that address. start and duration say from
when to when it is held; without a start it was given before the recording, and without a duration never taken back in
it. operator = the innermost operator that ran on the thread when it was given (of a block from before: when it was
taken back). at peak = it was held when most of the device's memory was allocated (in the window, if there is one);
share is of that peak. A note tells where these blocks are more or less than the peak, which is the total that PyTorch
recorded: that may leave allocations out (what a library of the host took for itself).

The setting of keeps those held at the peak (peak) or those that were given and never taken back (kept); a window keeps
the blocks that are held in it at some time. The PyTorch TensorBoard plugin has the same pairs, without the peak."""

OF: Final = Setting(
    "of", "all", "which blocks: all, those held at the peak, or those never taken back", one_of("all", "peak", "kept")
)

COLUMNS: Final = (
    Column("operator", "text", "operator that it was given to"),
    Column("rank", "count", "rank"),
    Column("device", "text", "whose memory"),
    Column("size", "bytes", "size of the block"),
    Column("share", "share", "this block, if it is held then", "the peak of the device"),
    Column("start", "instant", "when it was given; – before the recording", brief=False),
    Column("duration", "time", "how long it is held; – not taken back, or given before"),
    Column("at_peak", "flag", "held when most is allocated"),
    Column("freed", "flag", "taken back in the recording", brief=False),
    Column("address", "text", "where it lies", brief=False),
    Column("event", "id", "the operator's execution"),
)

_APART: Final = {1: "blocks_above_peak", -1: "blocks_below_peak"}
"""The note where the blocks held at the peak are more than that, or less, by the sign of the difference."""

MOST: Final = 20_000
"""Blocks of a device that are kept, the largest: a file has as many as allocations."""


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The largest blocks of the rank's file, sizes in bytes."""
    rows = allocations(share)
    held = holding(rows, share)
    if held.is_empty():
        return nowhere(rows)
    found = blocks(rows).join(peaks(held), on="device").with_columns(alive(pl.col("row")).alias("at_peak"))
    found = found.with_columns(pl.col("bytes").filter("at_peak").sum().over("device").alias("held"))
    if share.windowed:
        began, ended = pl.col("born").fill_null(share.start), pl.col("died").fill_null(share.end)
        found = found.filter((began < share.end) & (ended > share.start))
    chosen = {"all": pl.lit(value=True), "peak": pl.col("at_peak"), "kept": pl.col("died").is_null()}
    picked = found.filter(chosen[OF.of(options.given)])
    picked = picked.sort("bytes", "born", "given", descending=[True, False, False], nulls_last=True)
    picked = picked.with_columns(pl.len().cast(pl.Int64).over("device").alias("all"))
    largest = picked.filter(pl.int_range(pl.len()).over("device") < MOST)
    return pl.concat([_shown(largest, share), _operators(largest, rows, share)], how="horizontal")


def _shown(blocks: pl.DataFrame, share: Share) -> pl.DataFrame:
    """What is said of each block."""
    part = pl.when(pl.col("at_peak") & (pl.col("peak") >= pl.col("bytes"))).then(pl.col("bytes") / pl.col("peak"))
    return blocks.select(
        pl.lit(share.rank, pl.Int64).alias("rank"),
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


def _operators(blocks: pl.DataFrame, rows: pl.DataFrame, share: Share) -> pl.DataFrame:
    """The operator that each block was given to, and its event; null where there was none."""
    calls, innermost = callers(share, rows[blocks["given"]])
    at = pl.Series(innermost).set(pl.Series(innermost < 0), None)
    return calls.events.select(
        pl.col("name").gather(at).cast(pl.String).alias("operator"), pl.col("id").gather(at).alias("event")
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The blocks of all ranks, of devices first, the largest first."""
    if not any("size" in table.columns for table in tables):
        return without(ANALYSIS, scene, options, unrecorded(scene, tables))
    rows = of_ranks(tables, scene)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, note("no_memory_blocks", level="missing", windowed=scene.windowed))
    table = rows.with_columns(named(pl.col("number"))).sort(
        pl.col("number") == HOST, "size", "rank", "start", descending=[False, True, False, False]
    )
    left = int(table.group_by("rank", "number").agg(pl.col("all").first() - pl.len())["all"].sum())
    notes = [note("smaller_blocks_left_out", blocks=left)] if left else []
    return answer(ANALYSIS, table, scene, options, [*notes, *_apart(table, options)])


def _apart(table: pl.DataFrame, options: Options) -> list[Note]:
    """Where the blocks that are held at the peak of a device are not all of that, or more."""
    if OF.of(options.given) == "kept":
        return []
    known = table.filter(pl.col("held") > 0).unique(["rank", "number"])
    devices = known.select("rank", pl.col("held") - pl.col("peak"))
    notes = []
    for sign, code in _APART.items():
        apart = devices.filter(pl.col("held").sign() == sign)
        if apart.height:
            most, ranks = max(map(abs, apart["held"].to_list())), tuple(apart["rank"].unique().to_list())
            notes.append(note(code, most=most, devices=apart.height, ranks=ranks))
    return notes


ANALYSIS = Analysis(
    name="memory_blocks",
    title="Memory blocks",
    question="Which blocks of memory are the largest, held at the peak, or never freed?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(OF,),
)
