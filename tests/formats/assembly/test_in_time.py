"""Events of several lanes by their starts, against all of them sorted at once."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats.assembly import in_time as module
from tracehound.formats.assembly.in_time import in_time

WANTED = pl.col("kind") == "kernel"


@given(
    lanes=st.lists(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=20), max_size=4),
    size=st.integers(1, 40),
)
def test_all_that_is_wanted_comes_by_its_start(lanes: Sequence[Sequence[tuple[int, bool]]], size: int) -> None:
    """However many rows are held; the first lane is asked for too, though its rows come last."""
    rows = [(start, "kernel" if kernel else "memcpy") for lane in lanes for start, kernel in sorted(lane)]
    events = pl.DataFrame(rows, {"start": pl.Int64(), "kind": pl.String()}, orient="row").with_row_index("id")
    low, places = 0, []
    for lane in lanes:
        places.append((low, len(lane)))
        low += len(lane)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEWEST", 1)
        found = list(in_time(events.lazy(), places[::-1], WANTED, size))
    assert all(frame.height for frame in found)
    expected = events.filter(WANTED)
    if not found:
        assert not expected.height
        return
    together = pl.concat(found)
    assert together["start"].is_sorted()
    assert together.sort("id").equals(expected)
