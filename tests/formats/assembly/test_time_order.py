"""Events of several lanes by their starts, against all of them sorted at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats.assembly import arrow_storage as module
from tracehound.formats.assembly.arrow_storage import LaneRowRange, iterate_in_time_order, scan_lanes

WANTED = pl.col("kind") == "kernel"


@given(
    lanes=st.lists(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=20), max_size=5),
    size=st.integers(1, 40),
    apart=st.integers(0, 20),
    left_out=st.integers(-1, 3),
)
def test_all_that_is_wanted_comes_by_its_start(
    lanes: Sequence[Sequence[tuple[int, bool]]], size: int, apart: int, left_out: int
) -> None:
    """However many rows are held; the first lane is asked for too, though its rows come last."""
    rows = [
        (lane, start, "kernel" if kernel else "memcpy") for lane, of in enumerate(lanes) for start, kernel in sorted(of)
    ]
    events = pl.DataFrame(rows, {"lane": pl.Int64(), "start": pl.Int64(), "kind": pl.String()}, orient="row")
    events = events.with_row_index("id")
    lows = np.cumsum([0, *map(len, lanes)]).tolist()
    places = [LaneRowRange(lane, lows[lane], len(of)) for lane, of in enumerate(lanes) if lane != left_out]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MIN_ROWS_READ", 1)
        patch.setattr(module, "_MAX_ROWS_SKIPPED", apart)
        found = list(iterate_in_time_order(events.lazy(), places[::-1], WANTED, size))
    assert all(frame.height for frame in found)
    expected = events.filter(WANTED & (pl.col("lane") != left_out))
    assert scan_lanes(events.lazy(), places).filter(WANTED).collect().equals(expected)
    if not found:
        assert not expected.height
        return
    together = pl.concat(found)
    assert together["start"].is_sorted()
    assert together.sort("id").equals(expected)
