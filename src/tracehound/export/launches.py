"""How the work of a trace was launched: kernels in the words of XLA's profiler, and what was handed over on the way.

Owns which events have that said of them. The words are `xla.launched`'s.
"""

from __future__ import annotations

import polars as pl

from tracehound.facets import LINKS
from tracehound.formats.xla.launched import details
from tracehound.ids import part_of
from tracehound.trace import ON_CPU, Trace, collected


def with_details(trace: Trace, lane: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Events of a lane, with `record`, and the `details` of those that are kernels; null for all others.

    Only what is known of these events is in memory: the facet is read anew for every batch.
    """
    told = _told(trace, lane, rows, "launched") if lane in _streams(trace) else None
    if told is None:
        return rows.with_columns(pl.lit(None, pl.String).alias("details"))
    return rows.join(details(told).rename({"text": "details"}), on="record", how="left", maintain_order="left")


def with_links(trace: Trace, lane: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Events of a lane, with `record`, and what they produce and consume; null where they do not.

    The ids are hashed with the number of the file: two files may have the same. What the devices of a CPU do is done on
    threads of the host, which have the ids.
    """
    told = None if lane in _on_cpu(trace) else _told(trace, lane, rows, "handed")
    if told is None:
        return rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in LINKS)
    known = pl.when(pl.col(LINKS).is_not_null())
    ids = told.with_columns(known.then(pl.col(LINKS).hash(part_of(lane)).reinterpret(signed=True)))
    return rows.join(ids, on="record", how="left", maintain_order="left")


def _told(trace: Trace, lane: int, rows: pl.DataFrame, name: str) -> pl.DataFrame | None:
    """What a facet tells of these events of a lane; None where there is none."""
    facet = trace.facets[part_of(lane)].get(name)
    if facet is None or rows.is_empty():
        return None
    low, high = rows.select(pl.col("record").min(), pl.col("record").max().alias("last")).row(0)
    return collected(facet.filter(pl.col("record").is_between(low, high)))


def _streams(trace: Trace) -> set[int]:
    return set(trace.lanes.filter(pl.col("role") == "stream")["lane"].to_list())


def _on_cpu(trace: Trace) -> set[int]:
    """The lanes of devices of CPUs."""
    ranks = trace.ranks.filter(pl.col("label").str.starts_with(ON_CPU))["rank"]
    return set(trace.lanes.filter(pl.col("rank").is_in(ranks.implode()))["lane"].to_list())
