"""How the kernels of a trace were launched, in the words of XLA's profiler.

Owns which events have that said of them: those on streams. The words are `xla_launched`'s.
"""

from __future__ import annotations

import polars as pl

from tracehound.formats.xla_launched import details
from tracehound.ids import part_of
from tracehound.trace import Trace, collected


def with_details(trace: Trace, lane: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Events of a lane, with `record`, and the `details` of those that are kernels; null for all others.

    Only what is known of these events is in memory: the facet is read anew for every batch.
    """
    facet = trace.facets[part_of(lane)].get("launched")
    if facet is None or rows.is_empty() or lane not in _streams(trace):
        return rows.with_columns(pl.lit(None, pl.String).alias("details"))
    low, high = rows.select(pl.col("record").min(), pl.col("record").max().alias("last")).row(0)
    told = details(collected(facet.filter(pl.col("record").is_between(low, high))))
    return rows.join(told.rename({"text": "details"}), on="record", how="left", maintain_order="left")


def _streams(trace: Trace) -> set[int]:
    return set(trace.lanes.filter(pl.col("role") == "stream")["lane"].to_list())
