"""Several tables as one, for an analysis that draws on those of others.

Owns how the small tables of a rank travel together. Knows no analysis.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import polars as pl


def packed(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Tables of any columns as one that has each in a row."""
    return pl.DataFrame({"table": [_bytes(table) for table in tables]}, schema={"table": pl.Binary})


def unpacked(table: pl.DataFrame) -> list[pl.DataFrame]:
    """The tables again."""
    return [pl.read_ipc_stream(content) for content in table["table"]]


def _bytes(table: pl.DataFrame) -> bytes:
    out = BytesIO()
    table.write_ipc_stream(out)
    return out.getvalue()
