"""What threads are at for how long, against a count of every instant."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis.hosts.thread_activity import ACTIVITIES, ActivityIntervals, ThreadActivities
from tracehound.numeric.intervals import Intervals

TIMES = st.tuples(st.integers(0, 30), st.integers(0, 9))
ASKED = st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 30), st.integers(0, 9), st.integers(0, 3)), max_size=8)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), TIMES), max_size=12), ASKED)
def test_the_time_of_each_word_in_groups_of_stretches(
    told: list[tuple[int, int, tuple[int, int]]], asked: list[tuple[int, int, int, int]]
) -> None:
    at = {lane: dict[int, int]() for lane, _, _ in told}
    for lane, words, (low, long) in told:
        at[lane].update(dict.fromkeys(range(low, low + long), words))
    doings = {}
    for lane, instants in at.items():
        when, words = np.array(sorted(instants.items()), np.int64).reshape(-1, 2).T
        doings[lane] = ActivityIntervals(Intervals(when, when + 1), words)
    lane, low, long, group = np.array(asked, np.int64).reshape(-1, 4).T
    found = ThreadActivities(doings, 0).time_per_group(lane, low, low + long, group, 4)
    wanted = np.zeros((4, len(ACTIVITIES) + 1), np.int64)
    for thread, start, length, where in asked:
        for instant in range(start, start + length) if thread >= 0 else ():
            wanted[where, at.get(thread, {}).get(instant, -1)] += 1
    assert found.tolist() == wanted.tolist()
