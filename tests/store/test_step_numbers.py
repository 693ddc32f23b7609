"""The numbers of inferred steps, of ranks whose sessions begin steps apart."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from building import Building, Lane
from tracehound.model.trace import Trace
from tracehound.store import merge_file_frames

STEP = 10
"""How long a step of these hosts is, us."""


def session(
    name: str, first: int, last: int, *, run: int | None = 0, late: float = 0, program: str = "jit_f(7)"
) -> Building:
    """A host that sees the executions from one to another of a job, by a clock that is so late; `run` is added."""
    b = Building(path=Path(f"{name}.xplane.pb"), format="xplane", wall_ns=1_700_000_000_000_000_000)
    for at in range(first, last):
        told = {} if run is None else {"run": at + run}
        start = at * STEP + late
        b.event(Lane("XLA Modules", 0, "modules"), program, start, start + 8, "module", **told)
        b.event(Lane("XLA Ops", 0, "ops", work=True), "fusion", start + 1, start + 7, "op")
    return b


def job(*sessions: Building) -> Trace:
    return merge_file_frames("job", [each.part() for each in sessions])


def numbers(trace: Trace) -> list[list[int]]:
    """Of each rank the numbers of its steps; those of its events are the same."""
    events = trace.events().filter(pl.col("rank").is_not_null()).collect()
    for rank in trace.ranks["rank"]:
        steps = trace.steps.filter(pl.col("rank") == rank)["step"].to_list()
        assert events.filter((pl.col("rank") == rank) & (pl.col("kind") == "op"))["step"].to_list() == steps
    return [trace.steps.filter(pl.col("rank") == rank)["step"].to_list() for rank in trace.ranks["rank"]]


def test_one_run_is_one_step_wherever_sessions_begin() -> None:
    trace = job(session("a", 3, 8), session("b", 1, 6, late=2), session("c", 2, 7, late=-2))
    assert numbers(trace) == [[2, 3, 4, 5, 6], [0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]


@pytest.mark.parametrize(
    "other",
    [
        session("b", 2, 7, run=3),
        session("b", 2, 7, run=None),
        session("b", 2, 7, program="jit_g(8)"),
        session("b", 2, 7, late=60),
    ],
    ids=["its own count", "no count", "another program", "another time"],
)
def test_steps_of_which_nothing_tells_are_counted_from_0(other: Building) -> None:
    assert numbers(job(session("a", 0, 6), other)) == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4]]


def test_runs_that_lie_apart_otherwise_tell_nothing() -> None:
    """One of them was lost."""
    torn = session("b", 2, 7)
    torn.rows = torn.rows[:4] + torn.rows[6:]
    assert [rank[:3] for rank in numbers(job(session("a", 0, 6), torn))] == [[0, 1, 2], [0, 1, 2]]
