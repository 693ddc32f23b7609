"""Calls that wait for all of them, against the same calls looked at all at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracehound.formats.assembly.call_tables import CallTable, SpilledCalls, concat_call_tables
from tracehound.formats.spill import Spill

Call = tuple[int, int, bool, int, int, int]

CALL = st.tuples(  # key, step, whether it is late, thread, start and length
    st.integers(-1, 6) | st.sampled_from([2**40, -(2**50)]),
    st.integers(-1, 2),
    st.booleans(),
    st.integers(0, 1),
    st.integers(0, 20),
    st.integers(0, 5),
)


def calls(of: list[Call], first: int) -> CallTable:
    key, step, late, thread, begun, length = (np.array([call[at] for call in of], np.int64) for at in range(6))
    ids = np.arange(first, first + len(of))
    return CallTable(key, ids, step.astype(np.int32), late.astype(bool), thread, begun, begun + length)


@pytest.mark.parametrize("meant", [CallTable.first_per_key, CallTable.outermost_per_key])
@pytest.mark.parametrize("on_disk", [True, False])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(st.lists(CALL, min_size=1, max_size=8), min_size=1, max_size=4),
    alone=st.booleans(),
    size=st.integers(1, 20),
)
def test_they_are_settled_as_if_they_had_come_together(
    tmp_path: Path,
    parts: list[list[Call]],
    size: int,
    *,
    meant: Callable[[CallTable], CallTable],
    on_disk: bool,
    alone: bool,
) -> None:
    """Whether some ids or none (`alone`) are those of several calls."""
    if alone:
        parts = [[(100 * at + place, *call[1:]) for place, call in enumerate(part)] for at, part in enumerate(parts)]
    firsts = np.cumsum([0, *map(len, parts)]).tolist()
    came = [calls(part, first) for part, first in zip(parts, firsts, strict=False)]
    waiting = SpilledCalls(Spill(tmp_path if on_disk else None), "calls")
    for some in came:
        waiting.add(meant(some))
    found, expected = list(waiting.iterate_resolved_calls(meant, size)), meant(concat_call_tables(came))
    key = expected.key.tolist()
    assert [value for some in found for value in some.key.tolist()] == key
    assert [value for some in found for value in some.id.tolist()] == expected.id.tolist()
    assert [value for some in found for value in some.step.tolist()] == expected.step.tolist()
    first = np.cumsum([0, *(len(some.key) for some in found)]).tolist()
    rows = [row + before for some, before in zip(found, first, strict=False) for row in some.rows.tolist()]
    assert rows == [row for row, value in enumerate(key) if key.count(value) > 1]
    assert [time for some in found for time in some.begun.tolist()] == expected.begun[rows].tolist()


def test_none_are_settled_where_none_came() -> None:
    assert not list(SpilledCalls(Spill(), "calls").iterate_resolved_calls(CallTable.first_per_key))


def test_calls_that_overlap_in_part_are_one_however_they_come() -> None:
    """The third begins after the first has ended, and while the second lasts, which is none of its own."""
    came = [calls([(1, 0, False, 0, begun, 5)], number) for number, begun in enumerate((0, 3, 6))]
    for parts in ([[0, 1, 2]], [[0, 1], [2]], [[0], [1, 2]], [[0, 2], [1]], [[0], [1], [2]]):
        waiting = SpilledCalls(Spill(), "calls")
        for part in parts:
            waiting.add(concat_call_tables([came[number] for number in part]).outermost_per_key())
        assert [
            each for some in waiting.iterate_resolved_calls(CallTable.outermost_per_key) for each in some.id.tolist()
        ] == [0], parts
