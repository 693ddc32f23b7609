"""What threads are at for how long, against a count of every instant."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis.host_doing import Doing, Told
from tracehound.analysis.host_words import WORDS
from tracehound.intervals import union

TIMES = st.tuples(st.integers(0, 30), st.integers(0, 9))
ASKED = st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 30), st.integers(0, 9), st.integers(0, 3)), max_size=8)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), TIMES), max_size=12), ASKED)
def test_the_time_of_each_word_in_groups_of_stretches(
    told: list[tuple[int, int, tuple[int, int]]], asked: list[tuple[int, int, int, int]]
) -> None:
    """Where a thread is at two things at once, as where events overlap in part, each counts."""
    doings = {}
    for lane in {lane for lane, _, _ in told}:
        sets = []
        for words in range(4):
            times = [(low, low + long) for number, its, (low, long) in told if (number, its) == (lane, words)]
            when = union(*np.array(times, np.int64).reshape(-1, 2).T)
            sets.append(Doing(when, np.full(len(when.start), words)))
        doings[lane] = tuple(sets)
    lane, low, long, group = np.array(asked, np.int64).reshape(-1, 4).T
    found = Told(doings, 0).summed(lane, low, low + long, group, 4)
    wanted = np.zeros((4, len(WORDS) + 1), np.int64)
    for thread, start, length, where in asked:
        quiet = length if thread >= 0 else 0
        for words in range(4):
            at = {t for its, what, (a, n) in told if (its, what) == (thread, words) for t in range(a, a + n)}
            wanted[where, words] += len(at & set(range(start, start + length)))
            quiet -= len(at & set(range(start, start + length)))
        wanted[where, -1] += quiet
    assert found.tolist() == wanted.tolist()
