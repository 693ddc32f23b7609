"""Whom the others waited for, when several ranks are of one host."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracehound.analysis.latecomers import Latecomer, latecomers

RANKS = pl.DataFrame({"rank": [0, 1, 2, 3], "host": [0, 0, 1, 1]})


def late(step: int | None, rank: int, time: int, cause: str | None = "sleep", side: str = "host") -> dict[str, Any]:
    return {"step": step, "rank": rank, "late": time, "cause": cause, "excess": time, "side": cause and side}


def told(*rows: dict[str, Any]) -> list[Latecomer]:
    schema = {
        "step": pl.Int64, "rank": pl.Int64, "late": pl.Int64, "cause": pl.String, "excess": pl.Int64,
        "side": pl.String,
    }  # fmt: skip
    return latecomers(pl.DataFrame(rows, schema=schema), RANKS)


def test_ranks_whose_host_is_late_are_late_together() -> None:
    """The host sleeps in each step; now one of its ranks comes last to the collective, now the other, or both."""
    found = told(late(1, 2, 40), late(2, 3, 30), late(2, 2, 5), late(3, 0, 20))
    assert [(each.who, each.late, each.steps, each.cause, each.excess) for each in found] == [
        ("ranks 2 and 3 of one host", 75, 2, "sleep", 70),
        ("rank 0", 20, 1, "sleep", 20),
    ]
    assert (found[0].worst["step"], found[0].worst["rank"]) == (1, 2)


def test_a_device_that_is_late_is_late_alone() -> None:
    found = told(late(1, 2, 40, "gemm", "device"), late(1, 3, 30, "copy", "device"), late(2, 3, 20, None))
    assert [(each.who, each.late, each.cause) for each in found] == [("rank 3", 50, "copy"), ("rank 2", 40, "gemm")]


def test_without_steps_or_causes() -> None:
    found = told(late(None, 1, 40, None))
    assert [(each.who, each.late, each.steps, each.cause) for each in found] == [("rank 1", 40, 0, None)]
    assert told() == []
