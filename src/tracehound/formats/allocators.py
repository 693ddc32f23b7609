"""Whose memory an allocator of XLA hands out.

Owns how its name tells that. Knows no bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def named() -> Sequence[pl.Expr]:
    """Of the facet `held`: `name` of the allocator, empty where only its device is known, and that device (`ordinal`).

    An allocator of a host (``CPU_0_bfc``, ``xla_gpu_host_bfc``) is on no device.
    """
    allocator = pl.col("allocator").cast(pl.String)
    told = allocator.str.extract(r"(?i)^(?:gpu|tpu|device)_(\d{1,6})_").cast(pl.Int64)
    return allocator.fill_null("").alias("name"), pl.coalesce(pl.col("device").cast(pl.Int64), told).alias("ordinal")
