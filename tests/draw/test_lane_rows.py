"""Rows of a trace as arrays."""

from __future__ import annotations

from itertools import pairwise
from zlib import crc32

import polars as pl
import pytest

from building import US, Building, stream, thread
from tracehound.draw.event_colors import TINTS_PER_HUE
from tracehound.draw.lane_cache import RowsRequest, TimelineRows
from tracehound.draw.lane_rows import encode_names
from tracehound.model.trace import KINDS


def built() -> TimelineRows:
    b = Building()
    b.event(thread(), "outer", 0, 100, "op")
    b.event(thread(), "inner", 10, 40, "op")
    b.event(thread(), "call", 20, 20, "runtime")
    b.event(thread(), "later", 50, 60, "op")
    b.event(stream(number=7), "k1", 30, 50)
    b.event(stream(number=8), "k2", 40, 80)
    b.event(stream(number=8), "k3", 90, 95)
    return TimelineRows(b.trace())


def lane_named(rows: TimelineRows, name: str) -> int:
    lanes = rows.trace.lanes
    return dict(zip(lanes["name"].to_list(), lanes["lane"].to_list(), strict=True))[name]


def test_rows_by_depth_and_back_to_events() -> None:
    rows = built()
    lane = lane_named(rows, "python")
    assert [row.start.tolist() for row in rows.lane(lane).rows] == [[0], [10 * US, 50 * US], [20 * US]]
    later = rows.event_id(lane, 1, 1)
    assert rows.trace.event(later)["name"] == "later"
    assert rows.locate_event(later) == (lane, 1, 1)


def test_an_instant_is_one_ps_long() -> None:
    rows = built()
    call = rows.row(lane_named(rows, "python"), 2)
    assert (call.end - call.start).tolist() == [1]
    assert call.event_index_at(20 * US) == 0
    assert call.event_index_at(20 * US + 1) is None


def test_a_lane_is_no_deeper_than_it_is() -> None:
    rows = built()
    assert len(rows.row(lane_named(rows, "stream 7"), 3).start) == 0


def test_which_slices_touch_a_stretch() -> None:
    row = built().row(lane_named(built(), "stream 8"), 0)
    assert row.event_range(80 * US, 90 * US) == (1, 1)
    assert row.event_range(79 * US, 91 * US) == (0, 2)


def test_busy_is_what_any_stream_covers() -> None:
    rows = built()
    assert rows.busy_row(0).start.tolist() == [30 * US, 90 * US]
    assert rows.busy_row(0).end.tolist() == [80 * US, 95 * US]
    assert rows.busy_time(0, 70 * US, 92 * US) == 12 * US


@pytest.mark.parametrize("few", [0, 100])
def test_busy_is_also_what_slices_cover_that_outlast_those_around_them(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the ops of a CPU do, which run at once in one lane."""
    monkeypatch.setattr("tracehound.draw.lane_cache.FEW_EVENTS", few)
    b = Building()
    for start, end in ((0, 30), (10, 50), (20, 25), (70, 80)):
        b.event(stream(), "dot", start, end)
    rows = TimelineRows(b.trace())
    wish = RowsRequest("rank", 0)
    rows.put(wish, rows.read_rows(wish))
    assert rows.busy_row(0).start.tolist() == [0, 70 * US]
    assert rows.busy_row(0).end.tolist() == [50 * US, 80 * US]


def test_kinds_of_a_row() -> None:
    rows = built()
    outer = rows.row(lane_named(rows, "python"), 0)
    assert [KINDS[code] for code, _ in outer.cover_by_kind] == ["op"]


def test_the_tint_of_a_name_depends_on_the_name_alone() -> None:
    before, _ = encode_names(pl.Series(["tint a", "tint b", "tint c", "tint a"], dtype=pl.Categorical))
    pl.Series([f"read in between {n}" for n in range(100)], dtype=pl.Categorical)
    after, _ = encode_names(pl.Series(["tint d", "tint c", "tint a"], dtype=pl.Categorical))
    assert before[0] == before[3]
    assert len(set(before[:3].tolist())) == 3
    assert (
        (before % TINTS_PER_HUE).tolist()[2] == (after % TINTS_PER_HUE).tolist()[1] == crc32(b"tint c") % TINTS_PER_HUE
    )


def crossed() -> TimelineRows:
    """A lane of seven rows: two frames around everything, two of what began it, then what it does all the time."""
    b = Building()
    b.event(thread(), "frame", 0, 1000, "python")
    b.event(thread(), "inner frame", 1, 999, "python")
    for name, start, end in (("start", 10, 20), ("begin", 11, 19), ("stop", 995, 996), ("end", 995.1, 995.9)):
        b.event(thread(), name, start, end, "python")
    b.event(thread(), "step", 18, 990, "step")
    for start in range(100, 900, 50):
        b.event(thread(), "op", start, start + 40, "op")
        b.event(thread(), "call", start + 10, start + 20, "runtime")
    return TimelineRows(b.trace())


def test_rows_that_have_something_to_show_come_first() -> None:
    """What is nearly empty in the view comes after the frames, of which the innermost is the first."""
    rows = crossed()
    lane = lane_named(rows, "python")
    assert [len(row.start) for row in rows.lane(lane).rows] == [1, 1, 2, 2, 1, 16, 16]
    assert rows.order(lane, 0, 1000 * US) == (4, 5, 6, 1, 0, 2, 3)
    assert rows.order(lane, 0, 30 * US) == (2, 3, 4, 1, 0, 5, 6)
    assert rows.order(lane, 995 * US, 999 * US) == (2, 3, 1, 0, 4, 5, 6)


def test_the_order_of_rows_stays_for_most_moves() -> None:
    rows = crossed()
    lane = lane_named(rows, "python")
    orders = [rows.order(lane, at * US, (at + 100) * US) for at in range(0, 800, 5)]
    assert sum(one != other for one, other in pairwise(orders)) <= 3
