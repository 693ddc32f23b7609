"""Ops of the SparseCores of a TPU, which run beside those of its TensorCore: embeddings, offloaded collectives.

They keep no TensorCore busy, so that busy and idle time of a device know nothing of them.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracehound.analysis.rank_trace import RankTrace
from tracehound.formats.xla.xla_names import core_type_of_plane
from tracehound.model.trace import collect_frame

SPARSE_OPS_ROLE: Final = "sparse_ops"

MAIN_CORE: Final = ""
"""The core type of ops that run on a device's own core: on a TPU its TensorCore."""


def sparse_core_lanes(rank_trace: RankTrace) -> list[int]:
    """The lanes of ops of the rank's SparseCores."""
    of_rank = pl.col("rank").is_not_null() & (pl.col("role") == SPARSE_OPS_ROLE)
    return rank_trace.lanes.filter(of_rank)["lane"].to_list()


def sparse_core_ops(rank_trace: RankTrace, *columns: str) -> pl.DataFrame:
    """The ops on SparseCores that overlap the window, sorted by id: these columns of events."""
    return collect_frame(rank_trace.device.filter(pl.col("lane").is_in(sparse_core_lanes(rank_trace))).select(*columns))


def core_type_column(rank_trace: RankTrace) -> pl.Expr:
    """The type of the core of each event, by its `lane`: ``SparseCore``, or `MAIN_CORE`."""
    lanes = rank_trace.lanes.filter(pl.col("lane").is_in(sparse_core_lanes(rank_trace)))
    types = {lane: core_type_of_plane(plane or "") for lane, plane in lanes.select("lane", "process").iter_rows()}
    return pl.col("lane").replace_strict(types, default=MAIN_CORE, return_dtype=pl.String).alias("core")
