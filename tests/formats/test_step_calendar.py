"""Which step an event starts in, against a loop over all steps."""

from __future__ import annotations

from itertools import chain

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats.assembly.step_detection import step_calendar
from tracehound.model.trace import STEPS

MARKS = st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 25), st.integers(0, 9)), max_size=12)
LANES = st.lists(st.tuples(st.integers(-1, 3), st.lists(st.integers(-9, 40), min_size=1, max_size=9)), max_size=5)


@pytest.mark.parametrize("of", ["host", "rank"])
@given(marks=MARKS, lanes=LANES)
def test_the_step_of_an_event(of: str, marks: list[tuple[int, int, int]], lanes: list[tuple[int, list[int]]]) -> None:
    rows = [
        {"host": group, "rank": group if of == "rank" else None, "step": number, "name": "", "start": start,
         "end": start + length, "event": number, "inferred": False}
        for number, (group, start, length) in enumerate(sorted(marks))
    ]  # fmt: skip
    starts = [sorted(times) for _, times in lanes]
    all_of_them = [*chain.from_iterable(starts)]
    whose = np.array([group for group, _ in lanes], np.int64)
    nobody = np.full(len(lanes), -1)
    begins = np.cumsum([0, *map(len, starts)])[:-1].astype(np.intp)
    expected = [
        max(
            ((row["start"], row["step"], row["end"]) for row in rows if row["host"] == group and row["start"] <= time),
            default=(0, -1, time),
        )
        for group, times in zip(whose.tolist(), starts, strict=True)
        for time in times
    ]
    wanted = [step if time < end else -1 for (_, step, end), time in zip(expected, all_of_them, strict=True)]
    host, rank = (whose, nobody) if of == "host" else (nobody, whose)
    found = step_calendar(pl.DataFrame(rows, STEPS)).steps_at(host, rank, begins, np.array(all_of_them, np.int64))
    assert found.tolist() == wanted
