"""What several ranks or files have in common is one row for people."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import US, Building, stream
from tracehound.analysis import Options, get_analysis, health, run_analysis
from tracehound.analysis.ranks.same_gaps import group_same_gaps
from tracehound.analysis.result import Column, Result
from tracehound.draw import folded_rows
from tracehound.model.trace import Trace

GAP = st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 8), st.sampled_from(["loader", "python", None]))


def gap_rows(rows: list[tuple[int, int, int, str | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["rank", "start", "duration", "why"], orient="row", schema_overrides={"why": str})


def overlap(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return min(one[1] + one[2], other[1] + other[2]) - max(one[1], other[1])


def slow_groups(rows: list[tuple[int, int, int, str | None]]) -> list[list[int]]:
    """The same by its definition, gap by gap."""
    groups, left = [], dict(enumerate(rows))
    while left:
        first, gap = next(iter(left.items()))
        group = {gap[0]: first}
        alike = [(-overlap(gap, other), other[1], number) for number, other in left.items() if other[3] == gap[3]]
        for shared, _, number in sorted(alike):
            if -2 * shared >= max(gap[2], rows[number][2]):
                group.setdefault(rows[number][0], number)
        groups.append([first, *sorted(set(group.values()) - {first})])
        left = {number: other for number, other in left.items() if number not in group.values()}
    return groups


@given(st.lists(GAP, max_size=12))
def test_the_same_gap_has_one_cause_and_overlaps_for_half_of_the_longer(rows: list[tuple[int, int, int, str]]) -> None:
    assert group_same_gaps(gap_rows(rows)) == slow_groups(rows)
    first = slow_groups(rows)[:2]
    assert group_same_gaps(gap_rows(rows), 2) == first
    kept = sorted(row for group in first for row in group)
    again = group_same_gaps(gap_rows([rows[row] for row in kept]))
    assert [[kept[row] for row in group] for group in again] == first, "a short list needs no rows of other gaps"


def trace_of_gaps(ranks: int) -> Trace:
    """Ranks that all wait for 100 us, the last one for 20 us more; rank 0 waits once more for 40 us."""
    b = Building()
    for rank in range(ranks):
        late = 20 * (rank == ranks - 1)
        for start, end in ((0, 10), (110 + late, 200), *([(240, 250)] if rank == 0 else [])):
            b.event(stream(rank), "gemm", start, end)
    return b.trace()


def gaps(ranks: int, top: int | None = None) -> Result:
    return run_analysis(get_analysis("gaps"), trace_of_gaps(ranks), options=Options(top))


def test_the_same_gap_on_several_ranks_is_one_row() -> None:
    folded = folded_rows.fold_rows(gaps(16))
    assert folded.table.select("ranks", "duration").rows() == [("0-15", 120 * US), ("0", 40 * US)]
    assert folded.shown_rows_text == "2 groups of ranks (17 rows)"
    assert [column.name for column in folded.columns[:2]] == ["ranks", "start"]


def test_rows_are_folded_before_they_are_cut() -> None:
    cut = gaps(16, top=1)
    assert (cut.table["rank"].to_list(), cut.shown_rows_text) == ([15], "1 of 17 rows"), "what csv and json have"
    folded = folded_rows.fold_rows(cut)
    assert folded.table["ranks"].to_list() == ["0-15"]
    assert folded.shown_rows_text == "1 group of ranks (16 of 17 rows)"


def test_gaps_of_one_rank_stay_as_they_are() -> None:
    one = gaps(1)
    assert folded_rows.fold_rows(one) is one


def messages(*rows: tuple[str, int, str, str]) -> Result:
    table = pl.DataFrame(rows, schema=["level", "count", "what", "where"], orient="row")
    return Result("health", "Health", health.COLUMNS, table, table.height)


def test_a_message_of_several_files_is_one_row() -> None:
    ends = [("dropped", 1, f"gzip ends early; 1,{n}96 bytes kept", f"rank{n}.json, byte {n}") for n in range(9)]
    other = ("repaired", 3, "stray backslashes", "rank3.json")
    folded = folded_rows.fold_rows(messages(*ends, other))
    places = "rank0.json, byte 0; also rank1.json, rank2.json and 6 more"
    assert folded.table.rows() == [
        ("dropped", 9, 9, "gzip ends early; 1,096 bytes kept", places),
        ("repaired", 3, 1, "stray backslashes", "rank3.json"),
    ]  # fmt: skip
    assert folded_rows.fold_rows(folded) is folded
    every = messages(*ends, other)
    cut = folded_rows.fold_rows(replace(every, table=every.table.head(1), all_rows=every.table))
    assert cut.table.equals(folded.table.head(1)), "all files are counted"
    assert cut.total == 2


def test_different_messages_stay_apart() -> None:
    apart = messages(
        ("missing", 5, "the profiler warns: 5 events lost", "a"),
        ("dropped", 5, "the profiler warns: 5 events lost", "b"),
        ("missing", 1, "the profiler warns: no clock", "c"),
    )
    assert folded_rows.fold_rows(apart) is apart


def test_how_often_a_message_occurs() -> None:
    told = [folded_rows.occurrences_text(*each) for each in ((1, 1), (12, 1), (3, 3), (1200, 3))]
    assert told == ["", "12", "in 3 files", "1,200 in 3 files"]


STEP_COLUMNS = (
    Column("step", "count", "step"),
    Column("rank", "count", "rank", null_text="all"),
    Column("host", "text", "host"),
    Column("start", "instant", "start"),
    Column("duration", "time", "length"),
    Column("busy", "share", "busy", "step"),
    Column("event", "id", "event"),
)


def steps_of_ranks(ranks: int, *, slow: int) -> Result:
    """Two steps of each rank, the slow one's longer by half, and a row for all ranks at the end."""
    rows = [
        (step, rank, f"vm-{rank // 4}", 1000 * step + rank, 1000 + rank + 500 * (rank == slow), 0.9, 100 * step + rank)
        for step in (1, 2)
        for rank in range(ranks)
    ]
    table = pl.DataFrame([*rows, (1, None, "", 0, 2000, 0.9, None)], [c.name for c in STEP_COLUMNS], orient="row")
    return Result("steps", "Steps", STEP_COLUMNS, table, table.height)


def test_alike_rows_of_many_ranks_are_one_row_with_the_values_of_the_first() -> None:
    folded = folded_rows.fold_rows(steps_of_ranks(16, slow=5))
    assert folded.table.select("step", "ranks", "host", "duration", "event").rows() == [
        (1, "0-4, 6-15", "4 hosts", 1000, 100),
        (1, "5", "vm-1", 1505, 105),
        (2, "0-4, 6-15", "4 hosts", 1000, 200),
        (2, "5", "vm-1", 1505, 205),
        (1, None, None, 2000, None),
    ]
    assert folded.shown_rows_text == "5 groups of ranks (33 rows)"
    assert folded_rows.fold_rows(folded) is folded


def test_rows_of_few_ranks_and_of_other_tables_stay_as_they_are() -> None:
    few, other = steps_of_ranks(8, slow=5), replace(steps_of_ranks(16, slow=5), analysis="utilization_curve")
    assert folded_rows.fold_rows(few) is few
    assert folded_rows.fold_rows(other) is other


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 200), st.booleans()), min_size=1, max_size=20))
def test_a_row_is_of_ranks_that_differ_by_no_more_than_said(rows: list[tuple[int, int, bool]]) -> None:
    """Step 0 is a hundred times as long: it says nothing of what is negligible in step 1."""
    steps = [(rank, 1 - first, time * 100 if first else time) for rank, time, first in rows]
    table = pl.DataFrame(steps, schema=["rank", "step", "time"], orient="row")
    groups = folded_rows.group_alike_rows(table, [Column("step", "number", "step"), Column("time", "time", "time")])
    assert sorted(row for group in groups for row in group) == list(range(len(rows)))
    for group in groups:
        ranks, (step, *others), times = zip(*(steps[row] for row in group), strict=True)
        assert len({*ranks}) == len(ranks), "one row of each rank"
        assert {*others} <= {step}
        most = max(time for _, each, time in steps if each == step)
        assert max(times) - min(times) <= max(0.05 * max(times), 0.01 * most)
