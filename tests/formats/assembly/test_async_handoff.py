"""Work that one thread of a host hands to another: small cases, a slow loop over any, and a real profile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from short import first
from tracehound.analysis import get_analysis, run_analysis
from tracehound.formats.assembly.async_handoff import STEP_UNKNOWN, find_handoff_steps
from tracehound.formats.assembly.event_batches import EventRows
from tracehound.formats.spill import MaskedColumn
from tracehound.model.trace import collect_frame
from tracehound.store import load_trace, open_trace_files

MARKED, STEP = 0, 100
"""The lane of the thread that marks steps, and how long each is."""

Region = tuple[int, int, int, int, bool]
"""Lane, begin and length of a region, the instant at which its task was produced, and whether an op runs in it."""

REGIONS = st.lists(
    st.tuples(
        st.integers(1, 3), st.integers(0, 60).map(lambda at: 10 * at), st.integers(1, 9), st.integers(0, 600),
        st.booleans(),
    ),
    unique_by=lambda region: region[:2], max_size=12,
)  # fmt: skip


def told(regions: list[Region], makers: list[int]) -> list[tuple[int, int, int]]:
    """The stretches that are found, with their steps: lane, begin, step; `makers` has the lanes of the producers."""
    rows = list[tuple[int, int, int, int | None, int | None, bool, bool, bool]]()
    for number, ((lane, begin, length, at, op), maker) in enumerate(zip(regions, makers, strict=True)):
        rows.append((maker, at, at, number, None, False, False, False))
        rows.append((lane, begin, begin, None, number, True, False, False))
        rows.append((lane, begin + length, begin + length, None, None, False, True, False))
        if op:
            rows.append((lane, begin, begin + length, 1000 + number, None, False, False, True))
    rows.sort(key=lambda row: (row[0], row[1], -row[2]))
    columns = {}
    for name, at in (("start", 1), ("end", 2), ("produces", 3), ("consumes", 4)):
        valid = np.array([row[at] is not None for row in rows], np.bool_)
        columns[name] = MaskedColumn(np.array([row[at] or 0 for row in rows], np.int64), valid)
    for name, at in (("begins", 5), ("stops", 6), ("op", 7)):
        columns[name] = MaskedColumn(np.array([row[at] for row in rows], np.bool_))
    columns["step"] = MaskedColumn((columns["start"].values // STEP).astype(np.int32))
    events = EventRows(np.array([row[0] for row in rows], np.int64), columns, 0)
    found = find_handoff_steps(events, np.array([MARKED]))
    lanes, starts = (np.array([region[at] for region in regions], np.int64) for at in (0, 1))
    return list(zip(lanes.tolist(), starts.tolist(), found.labels_at(lanes, starts).tolist(), strict=True))


def slow(regions: list[Region], makers: list[int]) -> list[tuple[int, int, int]]:
    def step(number: int) -> int:
        _, begin, _, at, op = regions[number]
        if at > begin or op:
            return STEP_UNKNOWN
        for other, (lane, low, length, produced, _) in enumerate(regions):
            if lane == makers[number] and low <= at < low + length and low < begin and produced <= low:
                return step(other)
        return at // STEP

    return [(region[0], region[1], step(number)) for number, region in enumerate(regions)]


def test_what_a_region_does_is_of_the_step_in_which_its_task_was_made() -> None:
    regions = [(1, 150, 9, 90, False), (2, 250, 9, 155, False), (3, 350, 9, 252, True)]
    assert told(regions, [0, 1, 2]) == [(1, 150, 0), (2, 250, 0), (3, 350, STEP_UNKNOWN)]


def test_what_comes_of_an_op_is_told_by_the_time_alone() -> None:
    """An execution that had to wait begins where the one before has ended, and that one did not call for it."""
    regions = [(1, 150, 9, 90, True), (2, 250, 9, 155, False)]
    assert told(regions, [0, 1]) == [(1, 150, STEP_UNKNOWN), (2, 250, STEP_UNKNOWN)]


@given(REGIONS, st.data())
def test_any_regions_against_a_slow_loop(regions: list[Region], data: st.DataObject) -> None:
    makers = [data.draw(st.integers(0, 3)) for _ in regions]
    assert told(regions, makers) == slow(regions, makers)


@pytest.mark.parametrize(
    "name", first(1, ("torch_xla_single", "torch_xla_irdebug", "torch_xla_remote", "torch_xla_spmd4"))
)
def test_every_step_of_torch_xla_has_the_one_execution_that_it_called_for(samples: Path, name: str) -> None:
    """Its graphs are executed by other threads, often when the next step has begun."""
    trace = load_trace(open_trace_files([samples / name]))
    executed = collect_frame(trace.events().filter(pl.col("kind") == "module"))
    assert executed["step"].to_list() == trace.steps["step"].to_list()
    calls = {row["id"]: row for row in collect_frame(trace.events().filter(pl.col("rank").is_null())).to_dicts()}
    for launch, start, step in executed.select("launch", "start", "step").rows():
        assert calls[launch]["start"] <= start
        assert calls[launch]["step"] == step
    assert not run_analysis(get_analysis("steps"), trace).table["partial"].any()
