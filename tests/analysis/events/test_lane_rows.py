"""Events of some lanes out of those of all, against a filter."""

from __future__ import annotations

from itertools import combinations

import polars as pl

from building import Building, Lane, stream, thread
from tracehound.analysis.events.lane_rows import of_device
from tracehound.analysis.share import shares
from tracehound.trace import Window


def test_events_of_some_lanes() -> None:
    """Of any lanes of the device, in a window too: whenever they ran, and none of the host's."""
    b = Building()
    lanes = [stream(), stream(0, 13), Lane("XLA Modules", 0, "modules")]
    for number, lane in enumerate([thread(), *lanes]):
        for at in range(number + 1):
            b.event(lane, f"event {number}", 10 * at, 10 * at + 5)
    trace = b.trace()
    for window in (Window(), Window(start=0, end=1)):
        (share,) = shares(trace, window)
        mine = share.lanes.filter(pl.col("rank").is_not_null())["lane"].to_list()
        for many in range(len(mine) + 1):
            for some in combinations(mine, many):
                expected = share.anytime.filter(pl.col("lane").is_in(list(some))).collect()
                assert of_device(share, some).collect().equals(expected)
    assert of_device(share, mine).collect().height == 2 + 3 + 4
