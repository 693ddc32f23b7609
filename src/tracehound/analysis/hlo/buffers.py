"""The buffers of XLA's programs, as their buffer assignments place them: what is there when.

Owns how the facet becomes heaps and curves. An analysis of them knows nothing of protos.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracehound.analysis.result import Scene, Share
from tracehound.notes import Note, note
from tracehound.trace import collected

HEAP: Final = ("program", "module", "space")
"""What tells one heap from another."""

SPACES: Final = {0: "device", 5: "host"}
"""What memory spaces are called that mean the same on every backend."""


def why_without(scene: Scene) -> Note:
    """Why there is nothing of the buffers of programs: their protos are damaged, or the files have none."""
    programs = (one for facts in scene.facts for one in facts.programs)
    damaged = [one.name for one in programs if one.damaged]
    if not damaged:
        return note("no_buffer_assignment", level="missing")
    return note("buffer_assignment_damaged", level="missing", program=damaged[0], more=len(damaged) - 1)


def assigned(share: Share) -> pl.DataFrame:
    """The buffers of all programs of the rank's file, and whether each program `ran` on the rank."""
    rows = collected(share.facet("buffers"))
    if rows.is_empty():
        return rows.with_columns(pl.lit(value=False).alias("ran"), pl.col("module").cast(pl.String))
    executed = collected(share.device.select(pl.col("op").unique()).drop_nulls())["op"].to_list()
    ran = share.ops.filter(pl.col("op").is_in(executed))["program"].drop_nulls().unique().to_list()
    return rows.with_columns(pl.col("program").is_in(ran).alias("ran"), pl.col("module").cast(pl.String))


def curve(rows: pl.DataFrame) -> pl.DataFrame:
    """What is held after every event of a heap: a row for each event at which that changes, in order.

    `position` counts the events of the heap's trace from 0; `allocated` and `freed` are bytes at that event, `held` all
    that is there after it, lasting buffers included; `name` is the largest buffer that begins there, else that ends.
    """
    lasting = rows.filter(pl.col("first").is_null()).group_by(HEAP).agg(pl.col("bytes").sum().alias("lasting"))
    passing = rows.filter(pl.col("first").is_not_null())
    begun = passing.select(*HEAP, pl.col("first").alias("position"), "bytes", "name", pl.lit(1).alias("sign"))
    ended = passing.filter(pl.col("last").is_not_null()).select(
        *HEAP, pl.col("last").alias("position"), "bytes", "name", pl.lit(-1).alias("sign")
    )
    moves = pl.concat([begun, ended]).sort("sign", "bytes", "name", descending=[True, True, False])
    return (
        moves.group_by(*HEAP, "position", maintain_order=True)
        .agg(
            pl.col("name").first(),
            pl.col("bytes").filter(pl.col("sign") > 0).sum().alias("allocated"),
            pl.col("bytes").filter(pl.col("sign") < 0).sum().alias("freed"),
        )
        .sort(*HEAP, "position")
        .join(lasting, on=HEAP, how="left", maintain_order="left")
        .with_columns(
            ((pl.col("allocated") - pl.col("freed")).cum_sum().over(HEAP) + pl.col("lasting").fill_null(0)).alias(
                "held"
            )
        )
        .drop("lasting")
    )


def titled(table: pl.DataFrame) -> pl.DataFrame:
    """The same with the program as XLA writes it, ``jit_f(12)``, and its memory space in words."""
    unsigned = pl.col("program").cast(pl.UInt64, wrap_numerical=True).cast(pl.String)
    space = pl.col("space").cast(pl.Int64)
    return table.with_columns(
        pl.format("{}({})", "module", unsigned).alias("program"),
        space.replace_strict(SPACES, default=pl.format("space {}", space), return_dtype=pl.String).alias("space"),
    )
