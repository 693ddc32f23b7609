"""Packed tables of ranks come out as they went in, however they are kept."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tracehound.analysis.packed_tables import PackedStacks, make_stack, pack_tables, unpack_ranks
from tracehound.model import stacked_frames


def tables_of_rank(rank: int) -> list[pl.DataFrame]:
    """Two tables; the second holds two packed ones itself."""
    names = pl.DataFrame({"rank": [rank] * (rank % 3), "name": ["gemm"] * (rank % 3)}, {"rank": int, "name": str})
    return [names, pack_tables([names, pl.DataFrame({"time": [rank, 7]})])]


def test_tables_of_ranks_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked_frames, "STACK_SIZE", 4)
    packed = [pack_tables(tables_of_rank(rank)) for rank in range(10)]
    stacked = make_stack(packed[0])
    for table in packed:
        stacked.append(table)
    assert isinstance(stacked, PackedStacks)
    assert len(stacked) == 10
    for kept, given in ((stacked, packed), (stacked[3:5], packed[3:5])):
        names, bundles = unpack_ranks(kept)
        expected = [tables_of_rank(rank) for rank in range(10)] if len(given) == 10 else map(tables_of_rank, (3, 4))
        for number, tables in enumerate(expected):
            assert_frame_equal(names[number], tables[0])
            assert_frame_equal(unpack_ranks([bundles[number]])[1][0], unpack_ranks([tables[1]])[1][0])
