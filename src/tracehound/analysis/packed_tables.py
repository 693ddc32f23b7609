"""Several tables of a rank as the one table that a map returns.

They are compressed as a whole: the larger half of a small Arrow table is its schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from isal import isal_zlib

from tracehound.formats.assembly.arrow_storage import to_arrow_bytes
from tracehound.model.stacked_frames import StackedFrames

_COMPRESSION_LEVEL: Final = 1


def pack_tables(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One table with each of these tables (of any columns) in a row."""
    packed = [isal_zlib.compress(to_arrow_bytes(table), _COMPRESSION_LEVEL) for table in tables]
    return pl.DataFrame({"table": packed}, schema={"table": pl.Binary})


def unpack_ranks(tables: Sequence[pl.DataFrame]) -> list[StackedFrames]:
    """The tables that `pack_tables` packed on each rank: for each row those of all ranks. Ranks have as many rows."""
    unpacked = [StackedFrames() for _ in range(tables[0].height if tables else 0)]
    for table in tables:
        for of_row, content in zip(unpacked, table["table"], strict=True):
            of_row.append(pl.read_ipc_stream(isal_zlib.decompress(content)))
    return unpacked
