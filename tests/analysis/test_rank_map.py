"""Values of ranks in steps: exact rows, the same numbers as other analyses, the order of ranks, and the headline."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US
from jobs import Rank, asked, job, rows
from samples import NAMES, sample
from short import some
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.analysis_run import map_rank
from tracehound.analysis.rank_trace import rank_traces
from tracehound.analysis.ranks.rank_step_values import VALUES, headline_note, order_rows, rank_means, worst_ranks
from tracehound.analysis.row_filter import filter_result
from tracehound.draw.notes import note_text, note_texts
from tracehound.model.trace import Trace, Window

SHORT = ("torch_ddp_gloo",)


def a_job(slow: int = 2, ranks: int = 4) -> list[Rank]:
    """Two steps of four ranks on two machines: `slow` has a gemm that takes 200 us more, and comes 200 us late."""
    found = [Rank(number, ranks, machine=f"node{number // 2}") for number in range(ranks)]
    for rank in found:
        more = 200 * (rank.rank == slow)
        for number, begin in enumerate((0, 2000)):
            rank.step(number, begin, begin + 1000)
            rank.kernel("sm90_GEMM_bf16", begin + 10, begin + 100, begin + 300 + more)
            rank.kernel("gemm_small", begin + 20, begin + 600, begin + 700)
            rank.collective(begin + 30, begin + 700 + more, begin + 950 + more, Seq=number)
    return found


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return job(tmp_path_factory.mktemp("job"), *a_job())


def test_the_row_of_each_rank_and_step(trace: Trace) -> None:
    found = rows("rank_map", trace, kernel="gemm")
    assert [(row["rank"], row["step"]) for row in found] == [(rank, step) for rank in range(4) for step in range(2)]
    row = found[4]
    assert (row["rank"], row["step"]) == (2, 0)
    times = [row[name] // US for name in ("start", "step_time", "late", "kernel")]
    assert times == [0, 1150, 200, (400 + 100) // 2]
    assert row["busy"] == pytest.approx((400 + 100 + 250) / 1150)
    assert (row["count"], row["partial"], row["inferred"]) == (2, False, False)
    assert row["host"].startswith("node1")
    assert trace.event(row["event"])["name"] == "ProfilerStep#0"
    assert [row["late"] for row in found if row["rank"] != 2] == [0] * 6


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, "rank 2 on node1 is slowest: mean step 1.15 ms, against a median of 1.00 ms over 4 ranks"),
        ({"value": "busy"}, "all ranks are about equally busy: 55.0 % of the step, within 10.2 % of it (4 ranks)"),
        ({"value": "late"}, "rank 2 on node1 is latest: 200 us late in a mean step, against a median of 0 s over 4"),
        ({"kernel": "bf16"}, "rank 2 on node1 is slowest: mean kernel 400 us, against a median of 200 us over 4 ranks"),
        ({"kernel": "conv"}, "no kernel of a step has this in its name: choose a part of a name with kernel=NAME"),
        ({"kernel": "bf16", "value": "step_time"}, "rank 2 on node1 is slowest: mean step 1.15 ms"),
    ],
)
def test_the_headline_says_which_rank_and_by_how_much(trace: Trace, given: dict[str, str], wanted: str) -> None:
    assert note_texts(asked("rank_map", trace, **given).notes)[0].startswith(wanted)


def test_ranks_near_each_other_are_not_named(tmp_path: Path) -> None:
    even = job(tmp_path, *a_job(slow=-1))
    assert note_texts(asked("rank_map", even).notes)[0] == (
        "all ranks are about equally fast: mean step 1.00 ms, within 0 % (4 ranks)"
    )
    assert note_texts(asked("rank_map", even, value="late").notes)[0] == (
        "no rank is much later than the others: within 0 s in a mean step, 0 % of it (4 ranks)"
    )


def test_one_rank_says_what_is_missing(tmp_path: Path) -> None:
    result = asked("rank_map", job(tmp_path, a_job(ranks=1)[0]))
    assert note_texts(result.notes)[0] == (
        "rank 0: mean step 1.00 ms; open the files of all ranks together to compare them"
    )
    assert result.table["late"].null_count() == result.table.height == 2


def test_the_order_of_ranks(trace: Trace) -> None:
    ranks = {by: list(dict.fromkeys(row["rank"] for row in rows("rank_map", trace, by=by))) for by in ("rank", "value")}
    assert ranks == {"rank": [0, 1, 2, 3], "value": [2, 0, 1, 3]}
    table = asked("rank_map", trace).table.with_columns(
        host=pl.when(pl.col("rank") % 3 == 0)
        .then(pl.lit("b: python (1)"))
        .otherwise(pl.format("a: python ({})", "rank"))
    )
    assert order_rows(table, "late", "host")["rank"].unique(maintain_order=True).to_list() == [0, 3, 1, 2]


def test_ranks_by_their_smallest_process_group(tmp_path: Path) -> None:
    ranks = a_job()
    for rank in ranks[:3]:
        others = [0, 2] if rank.rank % 2 == 0 else [1, 3]
        rank.groups = [
            {"pg_name": "0", "ranks": [0, 1, 2, 3]},
            {"pg_name": f"{1 + rank.rank % 2}", "ranks": others},
            {"pg_name": "7", "ranks": [rank.rank]},
        ]
    found = rows("rank_map", job(tmp_path, *ranks), by="group")
    assert list(dict.fromkeys((row["rank"], row["process_group"]) for row in found)) == [
        (0, "1: ranks 0, 2"), (2, "1: ranks 0, 2"), (1, "2: ranks 1, 3"), (3, None),
    ]  # fmt: skip


def test_partial_steps_are_shown_and_left_out_of_means(trace: Trace) -> None:
    table = asked("rank_map", trace).table.with_columns(partial=pl.col("step") == 1)
    longer = table.with_columns(step_time=pl.when("partial").then(10**12).otherwise("step_time"))
    assert rank_means(longer, "step_time").equals(rank_means(table.filter(~pl.col("partial")), "step_time"))
    only = longer.with_columns(partial=True)
    assert rank_means(only, "step_time")["mean"].min() > 10**11, "of ranks that have no other all count"


def test_the_worst_ranks_with_their_means(trace: Trace) -> None:
    table = asked("rank_map", trace, kernel="gemm").table
    result = worst_ranks(table, "late", 2)
    assert (result.table.height, result.total) == (2, 4)
    row = result.table.row(0, named=True)
    assert (row["rank"], row["late"] // US, row["step_time"] // US, row["worst_value"] // US) == (2, 200, 1150, 200)
    assert row["kernel"] // US == 250


def test_a_cut_table_still_has_all_rows_for_the_map(trace: Trace) -> None:
    result = run_analysis(get_analysis("rank_map"), trace, Window(), Options(3))
    assert (result.table.height, result.total) == (3, 8)
    assert result.all_rows is not None
    assert result.all_rows.height == 8
    whole = run_analysis(get_analysis("rank_map"), trace)
    filtered = filter_result(whole, "rank > 1", 3)
    assert filtered.all_rows is not None
    assert (filtered.table.height, filtered.all_rows.height) == (3, 4)


def test_lateness_of_many_calls_is_computed_where_it_is_asked_for(trace: Trace) -> None:
    few = asked("rank_map", trace, calls="7")
    assert few.table["late"].null_count() == few.table.height
    assert "lateness is not computed: it compares all 8 collective calls at once; value=late computes it" in note_texts(
        few.notes
    )
    assert asked("rank_map", trace, calls="7", value="late").table["late"].max() == 200 * US
    assert asked("rank_map", trace, calls="8").table["late"].max() == 200 * US


def test_a_setting_of_the_map_changes_no_table_of_a_rank(trace: Trace) -> None:
    analysis = get_analysis("rank_map")
    usual, other, kernel = (
        analysis.map_options(Options(given=given))
        for given in ((), (("by", "host"), ("calls", "1"), ("value", "late")), (("kernel", "gemm"),))
    )
    assert usual == other != kernel
    rank_trace = next(iter(rank_traces(trace, Window())))
    (table,) = map_rank([(analysis, Options())], rank_trace)
    assert table.height == 1, "a row with compressed tables"
    assert table["call_count"].to_list() == [2]


@pytest.mark.parametrize("name", some(NAMES, SHORT))
def test_its_numbers_are_those_of_other_analyses(name: str) -> None:
    """Step time and busy of steps, lateness of stragglers, and the kernels of all steps together."""
    trace = sample(name)
    table = run_analysis(get_analysis("rank_map"), trace).table
    steps = run_analysis(get_analysis("steps"), trace).table
    same = ("rank", "step", "start", "busy", "partial", "inferred", "event")
    by = ("rank", "step", "start")
    wanted = steps.select(*same, step_time="duration").sort(by)
    assert table.select(wanted.columns).sort(by).equals(wanted)
    late = asked("stragglers", trace, least="0").table.drop_nulls("step").select("rank", "step", "late")
    compared = table.filter(pl.col("late") > 0).select("rank", "step", "late")
    known = late.join(table.select("rank", "step"), on=("rank", "step"), how="semi")
    assert compared.sort("rank", "step").equals(known.sort("rank", "step"))


def test_kernels_in_steps_add_up_to_those_of_the_run(trace: Trace) -> None:
    kernels = asked("kernels", trace, by="rank").table.filter(pl.col("name").str.to_lowercase().str.contains("gemm"))
    wanted = kernels.group_by("rank").agg(pl.col("count", "total").sum()).sort("rank")
    table = asked("rank_map", trace, kernel="GEMM").table
    sums = table.group_by("rank").agg(pl.col("count").sum(), total=(pl.col("count") * pl.col("kernel")).sum())
    assert sums.sort("rank").equals(wanted)
    means = rank_means(table, "kernel")["mean"].to_list()
    assert means == pytest.approx((wanted["total"] / wanted["count"]).to_list())


Times = list[list[tuple[int, int, int]]]


@given(
    st.integers(2, 4).flatmap(
        lambda ranks: st.lists(
            st.lists(
                st.tuples(st.integers(1, 80), st.integers(0, 90), st.integers(1, 90)), min_size=ranks, max_size=ranks
            ),
            min_size=1,
            max_size=4,
        )
    )
)
def test_random_jobs_as_a_slow_version_has_them(tmp_path_factory: pytest.TempPathFactory, steps: Times) -> None:
    """Of each step and rank: the length of its gemm, how late it comes to the collective, the length of a third."""
    ranks = [Rank(number, len(steps[0])) for number in range(len(steps[0]))]
    wanted = dict[tuple[int, int], dict[str, Any]]()
    for step, of_ranks in enumerate(steps):
        begin = 1000 * step
        arrivals = [begin + 200 + late for _, late, _ in of_ranks]
        for rank, (gemm, late, third) in zip(ranks, of_ranks, strict=True):
            rank.step(step, begin, begin + 10)
            rank.kernel("gemm", begin + 1, begin + 20, begin + 20 + gemm)
            rank.kernel("third", begin + 2, begin + 100, begin + 100 + third, 9)
            rank.collective(begin + 3, begin + 200 + late, begin + 400, Seq=step)
            others = sorted(arrivals[: rank.rank] + arrivals[rank.rank + 1 :])
            median = int(np.floor(np.median(others) * US)) // US if len(others) % 2 else None
            middle = np.median(others) if median is None else median
            last = arrivals[rank.rank] == max(arrivals)
            busy = {*range(20, 20 + gemm), *range(100, 100 + third), *range(200 + late, 400)}
            wanted[rank.rank, step] = {
                "step_time": 400 * US,
                "busy": len(busy) / 400,
                "late": round(max(arrivals[rank.rank] - middle, 0) * US) if last else 0,
                "kernel": gemm * US,
                "count": 1,
            }
    trace = job(tmp_path_factory.mktemp("job"), *ranks)
    found = rows("rank_map", trace, kernel="gem")
    assert len(found) == len(wanted)
    for row in found:
        expected = wanted[row["rank"], row["step"]]
        assert {name: row[name] for name in expected} == pytest.approx(expected)
    table = asked("rank_map", trace, kernel="gem").table
    for value in VALUES:
        sums = defaultdict[int, list[float]](list)
        for (rank, _), values in wanted.items():
            sums[rank].append(values[value])
        means = dict(rank_means(table, value).select("rank", "mean").iter_rows())
        slow = {rank: sum(values) / len(values) for rank, values in sums.items()}
        assert means == pytest.approx(slow)
        assert note_text(headline_note(table, value))
