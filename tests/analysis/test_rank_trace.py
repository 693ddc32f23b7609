"""Events of some lanes out of those of all, against a filter."""

from __future__ import annotations

from itertools import combinations

import polars as pl

from building import Building, Lane, stream, thread
from tracehound.analysis.rank_trace import device_lane_events, rank_traces
from tracehound.model.trace import Window


def test_events_of_some_lanes() -> None:
    """Of any lanes of the device, in a window too: whenever they ran, and none of the host's."""
    b = Building()
    lanes = [stream(), stream(0, 13), Lane("XLA Modules", 0, "modules")]
    for number, lane in enumerate([thread(), *lanes]):
        for at in range(number + 1):
            b.event(lane, f"event {number}", 10 * at, 10 * at + 5)
    trace = b.trace()
    for window in (Window(), Window(start=0, end=1)):
        (share,) = rank_traces(trace, window)
        mine = share.lanes.filter(pl.col("rank").is_not_null())["lane"].to_list()
        for many in range(len(mine) + 1):
            for some in combinations(mine, many):
                expected = share.device_anytime.filter(pl.col("lane").is_in(list(some))).collect()
                assert device_lane_events(share, some).collect().equals(expected)
    assert device_lane_events(share, mine).collect().height == 2 + 3 + 4
