"""Tables of many ranks have a row for each group of ranks that are alike."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import Building, stream
from short import first
from tracehound.analysis.result import Column, Result
from tracehound.draw.rank_groups import ALIKE_SHARES, WIDEST_GROUP, group_ranks, number_alike_ranks
from tracehound.model.trace import Window
from tracehound.report import ReportStyle, find_writer, summarize_trace

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("host", "text", "host"),
    Column("device", "text", "device"),
    Column("time", "time", "time"),
    Column("idle", "share", "idle", "time"),
)


def of_ranks(*idle: float | None) -> Result:
    table = pl.DataFrame(
        [(rank, f"vm-{rank // 4}", f"TPU:{rank % 4}", 1000 + rank, share) for rank, share in enumerate(idle)],
        schema=[column.name for column in COLUMNS],
        orient="row",
        schema_overrides={"idle": pl.Float64},
    )
    return Result("breakdown", "Breakdown", COLUMNS, table, table.height)


def test_ranks_that_are_alike_share_a_row() -> None:
    grouped = group_ranks(of_ranks(*[0.1] * 37, 0.9, *[0.11] * 26), ["idle"])
    assert grouped.table.rows() == [
        ("0-36, 38-63", "16 hosts", "TPU:0 to TPU:3", 1031, 0.1),
        ("37", "vm-9", "TPU:1", 1037, 0.9),
    ]
    assert grouped.shown_rows_text == "2 groups of 64 ranks"


def test_the_largest_groups_have_rows_and_all_others_the_last() -> None:
    grouped = group_ranks(of_ranks(*[0.5] * 5, *[0.9] * 3, 0.1, 0.2, None), ["idle"], most=3)
    assert grouped.table.select("ranks", "idle").rows() == [("0-4", 0.5), ("5-7", 0.9), ("8-10", 0.15000000000000002)]
    assert group_ranks(of_ranks(0.1, 0.9), ["idle"], most=1).table["ranks"].to_list() == ["0-1"]


def test_times_are_summed_up_as_asked() -> None:
    grouped = group_ranks(of_ranks(0.1, 0.1, 0.1), ["idle"], summaries={"time": pl.col("time").max()})
    assert grouped.table.rows() == [("0-2", "vm-0", "TPU:0 to TPU:2", 1002, 0.1)]


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=12))
def test_values_of_a_group_are_near_one_another(idle: list[float | None]) -> None:
    table = of_ranks(*idle).table
    groups = table.with_columns(number_alike_ranks(table, COLUMNS[-1:])).partition_by("group")
    for group in groups:
        values = group["idle"].drop_nulls().sort()
        assert values.is_empty() or group["idle"].null_count() == 0
        assert (values.diff().fill_null(0) <= ALIKE_SHARES).all()
        assert values.is_empty() or values[-1] - values[0] <= WIDEST_GROUP * ALIKE_SHARES


@pytest.mark.parametrize("ranks", first(1, (9, 64)))
def test_the_page_of_many_ranks_speaks_of_groups(ranks: int) -> None:
    b = Building()
    for rank in range(ranks):
        b.event(stream(rank), "gemm", 0, 40)
        b.event(stream(rank), "gemm", 50, 90 if rank == 4 else 60)
        b.event(stream(rank), "gemm", 95, 100)
    page = summarize_trace(b.trace(), Window())
    lines = [line.text for line in find_writer("text").write_summary(page, ReportStyle(100))]
    assert len(lines) < 60
    assert sum(line.startswith(f"0-3, 5-{ranks - 1} ") for line in lines) == 2, "in the breakdown, and of its long gap"
    heights = {result.analysis: result.table.height for result in page.results}
    assert (heights["breakdown"], heights["gaps"]) == (min(ranks, 16), 5), "what csv and json have"
