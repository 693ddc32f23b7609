"""Several tables as one, for an analysis that draws on those of others.

Owns how the small tables of a rank travel together. Knows no analysis.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.stream import stream


def packed(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Tables of any columns as one that has each in a row."""
    return pl.DataFrame({"table": [stream(table) for table in tables]}, schema={"table": pl.Binary})


def unpacked(table: pl.DataFrame) -> list[pl.DataFrame]:
    """The tables again."""
    return [pl.read_ipc_stream(content) for content in table["table"]]
