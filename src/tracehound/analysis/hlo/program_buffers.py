"""Buffers of XLA programs: the facet ``buffers`` as heaps and curves of allocated bytes.

An analysis of them knows nothing of protos.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame

HEAP_KEY: Final = ("program", "module", "space")
"""Columns that identify a heap."""

SPACE_NAMES: Final = {0: "device", 5: "host"}
"""Names of the memory spaces with one meaning on every backend."""


def note_no_buffers(context: RunContext) -> Note:
    """A note about missing buffers: the programs' protos are damaged, or the files have none."""
    programs = (one for facts in context.facts for one in facts.programs)
    damaged = [one.name for one in programs if one.damaged]
    if not damaged:
        return note("no_buffer_assignment", level="missing")
    return note("buffer_assignment_damaged", level="missing", program=damaged[0], more=len(damaged) - 1)


def buffers_of_rank(rank_trace: RankTrace) -> pl.DataFrame:
    """The buffers of all programs of the rank's file, and whether each program `ran` on the rank."""
    rows = collect_frame(rank_trace.facet("buffers"))
    if rows.is_empty():
        return rows.with_columns(pl.lit(value=False).alias("ran"), pl.col("module").cast(pl.String))
    executed = collect_frame(rank_trace.device.select(pl.col("op").unique()).drop_nulls())["op"].to_list()
    ran = rank_trace.ops.filter(pl.col("op").is_in(executed))["program"].drop_nulls().unique().to_list()
    return rows.with_columns(pl.col("program").is_in(ran).alias("ran"), pl.col("module").cast(pl.String))


def heap_curve(rows: pl.DataFrame) -> pl.DataFrame:
    """Allocated bytes after every event of a heap: a row for each event that changes them, in order.

    `position` counts the events of the heap's trace from 0; `allocated` and `freed` are bytes at that event, `held` all
    bytes after it, lasting buffers included; `name` is the largest buffer that begins there, else the largest that
    ends.
    """
    lasting = rows.filter(pl.col("first").is_null()).group_by(HEAP_KEY).agg(pl.col("bytes").sum().alias("lasting"))
    passing = rows.filter(pl.col("first").is_not_null())
    begun = passing.select(*HEAP_KEY, pl.col("first").alias("position"), "bytes", "name", pl.lit(1).alias("sign"))
    ended = passing.filter(pl.col("last").is_not_null()).select(
        *HEAP_KEY, pl.col("last").alias("position"), "bytes", "name", pl.lit(-1).alias("sign")
    )
    moves = pl.concat([begun, ended]).sort("sign", "bytes", "name", descending=[True, True, False])
    return (
        moves.group_by(*HEAP_KEY, "position", maintain_order=True)
        .agg(
            pl.col("name").first(),
            pl.col("bytes").filter(pl.col("sign") > 0).sum().alias("allocated"),
            pl.col("bytes").filter(pl.col("sign") < 0).sum().alias("freed"),
        )
        .sort(*HEAP_KEY, "position")
        .join(lasting, on=HEAP_KEY, how="left", maintain_order="left")
        .with_columns(
            ((pl.col("allocated") - pl.col("freed")).cum_sum().over(HEAP_KEY) + pl.col("lasting").fill_null(0)).alias(
                "held"
            )
        )
        .drop("lasting")
    )


def with_program_titles(table: pl.DataFrame) -> pl.DataFrame:
    """The table with the program as XLA writes it, ``jit_f(12)``, and the name of its memory space."""
    unsigned = pl.col("program").cast(pl.UInt64, wrap_numerical=True).cast(pl.String)
    space = pl.col("space").cast(pl.Int64)
    return table.with_columns(
        pl.format("{}({})", "module", unsigned).alias("program"),
        space.replace_strict(SPACE_NAMES, default=pl.format("space {}", space), return_dtype=pl.String).alias("space"),
    )
