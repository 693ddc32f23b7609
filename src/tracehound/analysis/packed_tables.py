"""Several tables of a rank as the one table that a map returns, and the tables of many ranks outside of memory.

The tables of a rank are compressed as a whole: the larger half of a small Arrow table is its schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import polars as pl
from isal import isal_zlib

from tracehound.formats.assembly.arrow_storage import to_arrow_bytes
from tracehound.model.lazy_sequence import LazySequence
from tracehound.model.stacked_frames import StackedFrames

_COMPRESSION_LEVEL: Final = 1

_PACKED_SCHEMA: Final = pl.Schema({"table": pl.Binary()})


def pack_tables(tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """One table with each of these tables (of any columns) in a row."""
    packed = [isal_zlib.compress(to_arrow_bytes(table), _COMPRESSION_LEVEL) for table in tables]
    return pl.DataFrame({"table": packed}, schema=_PACKED_SCHEMA)


def unpack_ranks(tables: Sequence[pl.DataFrame]) -> Sequence[RankTables]:
    """The tables that `pack_tables` packed on each rank: for each row those of all ranks. Ranks have as many rows."""
    if not isinstance(tables, PackedStacks):
        stacked = PackedStacks()
        for table in tables:
            stacked.append(table)
        return stacked.rows
    return tables.rows


def drop_unused_texts(table: pl.DataFrame) -> pl.DataFrame:
    """The table without the texts of rows that it was filtered from: polars keeps all as long as one is used."""
    return pl.read_ipc_stream(to_arrow_bytes(table))


class PackedStacks(LazySequence[pl.DataFrame]):
    """Packed tables of ranks. Those in the same row of all ranks lie together, so that names that repeat take little.

    The packed table of a single rank is made when it is asked for.
    """

    def __init__(self) -> None:
        self.rows: list[RankTables] = []
        self._count = 0

    def append(self, table: pl.DataFrame) -> None:
        """Add the packed tables of one more rank."""
        tables = [pl.read_ipc_stream(isal_zlib.decompress(content)) for content in table["table"]]
        self.rows = self.rows or [make_stack(each) for each in tables]
        for row, each in zip(self.rows, tables, strict=True):
            row.append(each)
        self._count += 1

    def __len__(self) -> int:
        """The number of ranks."""
        return self._count

    def _make_item(self, number: int) -> pl.DataFrame:
        """The packed tables of one rank."""
        return pack_tables([row[number] for row in self.rows])


RankTables = StackedFrames | PackedStacks
"""The tables that a map returned, one of each rank."""


def make_stack(table: pl.DataFrame) -> RankTables:
    """An empty stack for the tables of ranks that are such as this one."""
    return PackedStacks() if table.schema == _PACKED_SCHEMA else StackedFrames(spilled=True)
