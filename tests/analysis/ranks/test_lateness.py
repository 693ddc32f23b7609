"""Whom the others waited for, when several ranks are of one host."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracehound.analysis.ranks.lateness import WAIT_SCHEMA, LateRanks, group_late_ranks

RANKS = pl.DataFrame({"rank": [0, 1, 2, 3], "host": [0, 0, 1, 1]})


def late(
    step: int | None, rank: int, start: int, end: int, cause: str | None = "sleep", side: str = "host", waiting: int = 0
) -> dict[str, Any]:
    """A row of a rank that is late from `start` to `end`, while one other waits."""
    return {
        "step": step, "rank": rank, "late": end - start, "cause": cause, "excess": end - start, "side": cause and side,
        "lates": [{"start": start, "end": end}], "waits": [{"rank": waiting, "start": start, "end": end}],
    }  # fmt: skip


def told(*rows: dict[str, Any]) -> list[LateRanks]:
    schema = {
        "step": pl.Int64, "rank": pl.Int64, "late": pl.Int64, "cause": pl.String, "excess": pl.Int64,
        "side": pl.String, **WAIT_SCHEMA,
    }  # fmt: skip
    return group_late_ranks(pl.DataFrame(rows, schema=schema), RANKS)


def test_ranks_whose_host_is_late_are_late_together() -> None:
    """The host sleeps in each step; now one of its ranks comes last to the collective, now the other, or both."""
    found = told(late(1, 2, 0, 40), late(2, 3, 100, 130), late(2, 2, 140, 145), late(3, 0, 200, 220, waiting=1))
    assert [(each.ranks_text, each.late, each.steps, each.cause, each.excess) for each in found] == [
        ("ranks 2 and 3 of one host", 75, 2, "sleep", 70),
        ("rank 0", 20, 1, "sleep", 20),
    ]
    assert (found[0].latest_row["step"], found[0].latest_row["rank"]) == (1, 2)


def test_ranks_that_are_late_at_once_are_so_for_the_time_that_passes() -> None:
    """Ranks 0 and 1 wait for one rank each, in the same 40; then rank 0 for both at once, in two collectives."""
    rows = late(1, 2, 0, 40), late(1, 3, 0, 40, waiting=1), late(2, 2, 100, 110), late(2, 3, 105, 120)
    (found,) = told(*rows)
    assert (found.ranks_text, found.late, found.waited, found.waiting) == ("ranks 2 and 3 of one host", 60, 100, (0, 1))


def test_who_waited_for_next_to_nothing_is_not_named() -> None:
    rows = late(1, 3, 0, 40, waiting=1), late(2, 3, 100, 103), late(3, 3, 200, 290, waiting=2)
    (found,) = told(*rows)
    assert (found.waited, found.waiting) == (133, (1, 2))


def test_a_device_that_is_late_is_late_alone() -> None:
    rows = (
        late(1, 2, 0, 40, "gemm", "device"), late(1, 3, 0, 30, "copy", "device"), late(2, 3, 100, 120, None)
    )  # fmt: skip
    found = told(*rows)
    assert [(each.ranks_text, each.late, each.cause) for each in found] == [
        ("rank 3", 50, "copy"),
        ("rank 2", 40, "gemm"),
    ]


def test_without_steps_or_causes() -> None:
    found = told(late(None, 1, 0, 40, None))
    assert [(each.ranks_text, each.late, each.steps, each.cause) for each in found] == [("rank 1", 40, 0, None)]
    assert told() == []
