"""Late ranks: an example for each cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane
from finding_runs import find_row, find_rows, rows_with
from jobs import Rank, asked, job, rows
from short import first
from tracehound.analysis import Options, get_analysis, run_analysis, stragglers
from tracehound.analysis.packed_tables import unpack_ranks
from tracehound.analysis.rank_trace import rank_traces
from tracehound.analysis.ranks.compared_activities import TIME_SCHEMA, ComparedActivities, compared_activities
from tracehound.analysis.ranks.lateness import LatenessCause, LatenessCauses
from tracehound.analysis.ranks.rank_collectives import rank_calls
from tracehound.analysis.ranks.work_before_collectives import MERGED_ROWS_PER_STEP, activities_before_collectives
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files


@pytest.fixture(autouse=True)
def causes_among_all_activities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search for a cause has the same answer among the activities of all ranks, where none is left out."""
    found = LatenessCauses.find_cause, LatenessCauses.find_repeated_cause

    def activities_with_calls(
        late_rows: pl.DataFrame, calls: pl.DataFrame, activities: Callable[[], Iterable[pl.DataFrame]], least: float
    ) -> ComparedActivities:
        every = pl.concat(activities()).join(calls.select("place", call="event").with_row_index("row"), on="call")
        pairs = every.select("where", "name").unique().with_row_index("pair")
        numbered = every.join(pairs, on=["where", "name"])
        times = numbered.select("pair", "time", call="row").select(*TIME_SCHEMA).cast(TIME_SCHEMA)
        kept.append((calls, ComparedActivities(numbered, times)))
        return compared_activities(late_rows, calls, activities, least)

    def checked(number: int) -> Callable[..., LatenessCause | None]:
        def find(causes: LatenessCauses, *asked: Any) -> LatenessCause | None:
            cause = found[number](causes, *asked)
            assert cause == found[number](LatenessCauses(*kept[-1]), *asked)
            return cause

        return find

    kept = list[tuple[pl.DataFrame, ComparedActivities]]()
    monkeypatch.setattr(stragglers, "compared_activities", activities_with_calls)
    monkeypatch.setattr(LatenessCauses, "find_cause", checked(0))
    monkeypatch.setattr(LatenessCauses, "find_repeated_cause", checked(1))


def ranks(count: int = 3) -> list[Rank]:
    return [Rank(number, count) for number in range(count)]


def latest_row(trace: Trace, **given: str) -> dict[str, Any]:
    return rows("stragglers", trace, **given)[0]


def row_summary(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["step"], row["rank"], row["late"] // US, row["cause"], row["side"])


def test_a_data_loader(tmp_path: Path) -> None:
    """Rank 2 gets its batch 300 us later: it launches everything later, and its kernels are as fast as ever."""
    job_ = ranks()
    for rank in job_:
        slow = 300 if rank.rank == 2 else 0
        rank.step(5, 0, 1000)
        rank.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 60 + slow, "user_annotation")
        rank.kernel("gemm", 70 + slow, 80 + slow, 180 + slow)
        rank.collective(90 + slow, 200 + slow, 550, Seq=1)
    trace = job(tmp_path, *job_)
    row = latest_row(trace)
    assert row_summary(row) == (5, 2, 300, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "host")
    assert [row[name] // US for name in ("took", "usual", "excess")] == [350, 50, 300]
    assert row["inside"] == "ProfilerStep#"
    assert trace.event(row["event"])["name"] == row["cause"]
    assert (row["start"] // US, row["duration"] // US) == (200, 300)
    (note, *_) = note_texts(asked("stragglers", trace).notes)
    assert note.startswith(
        "rank 2 keeps the others waiting: 300 us in 1 of 1 steps; main cause: "
        "'enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__', 300 us longer than on the others"
    )


def test_a_slow_kernel_and_the_host_that_waits_for_it(tmp_path: Path) -> None:
    """The host of rank 0 synchronizes with its device: what it waits for is the kernel."""
    job_ = ranks()
    for rank in job_:
        slow = 200 if rank.rank == 0 else 0
        rank.step(1, 0, 1000)
        rank.kernel("gemm", 10, 20, 120 + slow)
        rank.host("cudaStreamSynchronize", 30, 125 + slow, "cuda_runtime")
        rank.collective(130 + slow, 140 + slow, 500, Seq=1)
    assert row_summary(latest_row(job(tmp_path, *job_))) == (1, 0, 200, "gemm", "device")


@pytest.mark.thorough
def test_what_only_one_rank_does(tmp_path: Path) -> None:
    job_ = ranks()
    for rank in job_:
        slow = 400 if rank.rank == 1 else 0
        rank.step(1, 0, 1000)
        if slow:
            rank.host("torch/utils/checkpoint.py(10): save", 20, 420, "python_function")
        rank.collective(30 + slow, 40 + slow, 600, Seq=1)
    row = latest_row(job(tmp_path, *job_))
    assert row_summary(row) == (1, 1, 400, "torch/utils/checkpoint.py(10): save", "host")
    assert row["usual"] == 0


def test_python_that_nothing_annotates(tmp_path: Path) -> None:
    """Between the steps, where the thread has no event at all."""
    job_ = ranks()
    for rank in job_:
        slow = 250 if rank.rank == 1 else 0
        rank.step(1, 0, 100)
        rank.collective(50, 60, 90, Seq=1)
        rank.step(2, 110 + slow, 600)
        rank.collective(150 + slow, 160 + slow, 500, Seq=2)
    row = latest_row(job(tmp_path, *job_))
    assert row_summary(row) == (2, 1, 250, "nothing recorded", "host")
    assert row["event"] is not None


@pytest.mark.parametrize(
    ("launched", "cause", "times"),
    first(1, [(30, "delay from launch to start", [300, 400, 100]), (600, None, [None] * 3)]),
)
def test_a_collective_that_begins_late_after_its_launch(
    tmp_path: Path, launched: int, cause: str | None, times: list[int | None]
) -> None:
    """One that seems to begin before its launch tells of clocks, and of no delay."""
    job_ = ranks()
    for rank in job_:
        rank.step(1, 0, 1000)
        rank.kernel("gemm", 10, 20, 120)
        rank.collective(launched, 130 + (300 if rank.rank == 2 else 0), 500, Seq=1)
    row = latest_row(job(tmp_path, *job_))
    assert (row["step"], row["rank"], row["late"], row["cause"]) == (1, 2, 300 * US, cause)
    assert [row[name] and row[name] // US for name in ("excess", "took", "usual")] == times


def test_what_a_graph_runs_behind_other_nodes_has_no_delay(tmp_path: Path) -> None:
    """Its launch enqueued these, too: the collective waits for them, and not for its own start."""
    job_ = ranks()
    for rank in job_:
        late = 300 if rank.rank == 2 else 0
        rank.step(1, 0, 1000)
        rank.kernel("gemm", 10, 20, 120)
        rank.collective(11, 130 + late, 500, Seq=1)
        for event in rank.events:
            if event["args"].get("correlation") == rank.correlation:
                event["args"]["correlation"] -= 1  # that of the launch before
    row = latest_row(job(tmp_path, *job_))
    assert (row["step"], row["rank"], row["late"], row["cause"]) == (1, 2, 300 * US, None)


def test_a_wait_for_one_rank_is_no_cause_of_the_next(tmp_path: Path) -> None:
    """Rank 1 waits for rank 0 at the first collective, in a synchronization; at the second it is late by its kernel."""
    job_ = ranks()
    for rank in job_:
        first, second = (300 if rank.rank == 0 else 0), (100 if rank.rank == 1 else 0)
        rank.step(1, 0, 1000)
        rank.host("load", 10, 20 + first, "user_annotation")
        rank.collective(30 + first, 40 + first, 360, Seq=1)
        rank.host("cudaStreamSynchronize", 40 + first, 361, "cuda_runtime")
        rank.kernel("gemm", 370, 380, 480 + second)
        rank.collective(390, 490 + second, 700, Seq=2)
    found = rows("stragglers", job(tmp_path, *job_))
    assert [row_summary(row) for row in found] == [(1, 0, 300, "load", "host"), (1, 1, 100, "gemm", "device")]


def test_a_delay_that_is_carried_on_counts_once_and_keeps_its_cause(tmp_path: Path) -> None:
    """Two buckets under way at once: both are late by the data; nothing happened between them but equal kernels."""
    job_ = ranks()
    for rank in job_:
        slow = 200 if rank.rank == 1 else 0
        rank.step(1, 0, 1000)
        rank.host("data", 10, 20 + slow, "user_annotation")
        rank.kernel("backward", 30 + slow, 40 + slow, 100 + slow)
        rank.collective(35 + slow, 100 + slow, 600, Seq=1)
        rank.kernel("backward", 60 + slow, 100 + slow, 150 + slow)
        rank.kernel("ncclDevKernel_AllReduce", 70 + slow, 150 + slow, 620, 21)
    (row,) = rows("stragglers", job(tmp_path, *job_))
    assert (row_summary(row), row["lasts"]) == ((1, 1, 250, "data", "host"), 2)


def test_a_slow_device_is_late_by_little_at_every_collective(tmp_path: Path) -> None:
    """Rank 1 takes 15 us instead of 10 for each of fifty kernels, with a collective after each."""
    job_ = ranks()
    for rank in job_:
        rank.step(1, 0, 5000)
        rank.host("aten::copy_", 1, 3 + 5 * rank.rank)
        for number in range(50):
            base = 20 + 60 * number
            took = 15 if rank.rank == 1 else 10
            rank.kernel("gemm", base, base + 5, base + 5 + took)
            rank.collective(base + 2, base + 5 + took, base + 50, Seq=number)
    (row,) = rows("stragglers", job(tmp_path, *job_))
    assert row_summary(row) == (1, 1, 250, "gemm", "device")
    assert (row["lasts"], row["most"] // US) == (50, 5)
    assert row["excess"] / US == pytest.approx(250, abs=15)


def test_what_is_late_by_little_is_left_out_and_counted(tmp_path: Path) -> None:
    job_ = ranks(2)
    for rank in job_:
        rank.collective(5, 10 + 15 * rank.rank, 100, Seq=1)
    trace = job(tmp_path, *job_)
    result = asked("stragglers", trace)
    assert result.table.is_empty()
    assert "1 more late arrivals of less than 20.0 us left out" in note_texts(result.notes)
    assert latest_row(trace, least="10us")["rank"] == 1


@pytest.mark.thorough
def test_clocks_that_differ_make_nobody_late(tmp_path: Path) -> None:
    """The clock of rank 1 is 5 ms fast; its collectives end with those of rank 0, so it came first."""
    job_ = [Rank(0), Rank(1, clock=5000)]
    for rank in job_:
        rank.step(1, 0, 9000)
        for number in range(5):
            base = 1000 * number
            rank.collective(
                base, base + (100 if rank.rank == 0 else 10), base + 200 + number % 2 * rank.rank, Seq=number
            )
    result = asked("stragglers", job(tmp_path, *job_))
    assert result.table["rank"].to_list() == [0]
    assert any(
        note.startswith("clock skew of 1 rank corrected (-5.00 ms; ±0 s, from collective end times): see clocks")
        for note in note_texts(result.notes)
    )


def test_one_rank_alone_tells_nothing(tmp_path: Path) -> None:
    rank = Rank(0)
    rank.collective(5, 10, 20, Seq=1)
    result = asked("stragglers", job(tmp_path, rank))
    assert result.table.is_empty()
    assert "open the files of all ranks together" in note_texts(result.notes)[0]


@pytest.mark.thorough
def test_a_run_without_steps_is_told_of_without_steps(tmp_path: Path) -> None:
    job_ = ranks()
    for rank in job_:
        rank.kernel("gemm", 10, 20, 120 + 100 * (rank.rank == 1))
        rank.collective(30, 140 + 100 * (rank.rank == 1), 400, Seq=1)
    (note, *_) = note_texts(asked("stragglers", job(tmp_path, *job_)).notes)
    assert note == "rank 1 keeps the others waiting: 100 us; main cause: 'gemm', 100 us longer than on the others"


def ranks_of_sample(folder: Path, missing: int) -> Trace:
    """A collective amid the work of step 1, which only some ranks recorded; rank 1 is late at the next one.

    All ranks load for as long, but rank 1 after what is `missing` on rank 0.
    """
    job_ = ranks(2)
    for rank in job_:
        slow = 50 if rank.rank == 1 else 0
        rank.step(1, 0, 1000)
        rank.collective(5, 10, 20, Seq=1)
        rank.host("load", 30, 330 + slow)
        if missing != rank.rank:
            rank.collective(340 + slow, 345 + slow, 350 + slow, Seq=2)
        rank.collective(400 + slow, 410 + slow, 600, Seq=3)
    return job(folder, *job_)


@pytest.mark.parametrize("missing", first(1, [0, 1]))
def test_of_ranks_that_did_not_record_the_same_no_cause_is_named(tmp_path: Path, missing: int) -> None:
    result = asked("stragglers", ranks_of_sample(tmp_path, missing))
    (row,) = result.table.rows(named=True)
    assert (row["rank"], row["late"] // US, row["cause"], row["excess"]) == (1, 50, None, None)
    assert note_texts(result.notes)[1].startswith(
        "cause unknown in 1 of 1 rows (no recorded event before took longer than on the other ranks)"
    )


@pytest.mark.thorough
def test_what_was_done_before_calls_that_others_need_not_have_counts(tmp_path: Path) -> None:
    """Rank 0 calls a group of its own (of ranks that are not here) after loading for as long as rank 1."""
    job_ = ranks(2)
    for rank in job_:
        slow = 50 if rank.rank == 1 else 0
        rank.step(1, 0, 1000)
        rank.collective(5, 10, 20, Seq=1)
        rank.host("load", 30, 330)
        if rank.rank == 0:
            rank.collective(340, 345, 350, Seq=1, Process_Group_Name="7", Process_Group_Ranks="[0, 5]")
        rank.host("more", 355, 360 + slow)
        rank.collective(400 + slow, 410 + slow, 600, Seq=3)
    assert row_summary(latest_row(job(tmp_path, *job_))) == (1, 1, 50, "more", "host")


def test_of_a_sampled_job_no_cause_is_named(shared: Path) -> None:
    trace = load_trace(open_trace_files([shared / "traces" / "kineto" / "multirank_hta_sampled"]))
    result = run_analysis(get_analysis("stragglers"), trace)
    assert result.table.select("step", "rank", "cause").rows() == [(552, 1, None), (551, 1, None)]
    assert note_texts(result.notes)[0] == "rank 1 keeps the others waiting: 8.48 ms in 2 of 2 steps"
    assert note_texts(result.notes)[1].startswith(
        "cause unknown in 2 of 2 rows (no recorded event before took longer than on the other ranks)"
    )


def test_why_nothing_is_matched_comes_before_what_helps(shared: Path) -> None:
    trace = load_trace(open_trace_files([shared / "traces" / "xla" / "tpu_v6e_x4_offload"]))
    for name in ("stragglers", "arrivals", "collective_calls"):
        first, second = note_texts(run_analysis(get_analysis(name), trace).notes)
        assert first.startswith("12 calls not matched: their replica groups have more devices")
        assert second == "no collective of two ranks was recorded: open the files of all ranks together"


def test_several_ranks_without_collectives_need_no_other_files(tmp_path: Path) -> None:
    job_ = ranks(2)
    for rank in job_:
        rank.kernel("gemm", 10, 20, 120)
    assert note_texts(asked("stragglers", job(tmp_path, *job_)).notes) == ("no collectives were recorded",)


def test_the_table_of_activities_does_not_grow_with_the_collectives(tmp_path: Path) -> None:
    rank = Rank(0)
    rank.step(1, 0, 40_000)
    for number in range(2000):
        rank.kernel(f"gemm{number % 3}", 20 * number, 20 * number + 2, 20 * number + 9)
        rank.collective(20 * number + 5, 20 * number + 10, 20 * number + 19, Seq=number)
    (share,) = rank_traces(job(tmp_path, rank), Window())
    table = activities_before_collectives(share, rank_calls(share))
    assert table.height < 3 * MERGED_ROWS_PER_STEP
    busy = table.filter(table["where"] == "device")["time"].sum()
    assert busy == pytest.approx(2000 * 7 * US, rel=0.02)


OPS = st.fixed_dictionaries({name: st.integers(0, 40) for name in "abc"})
PARTS = st.lists(st.lists(OPS, min_size=3, max_size=3), min_size=2, max_size=2)
"""Times of the ops of three ranks (us) before each of the two collectives of a step."""


def trace_of_parts(steps: list[list[list[dict[str, int]]]]) -> Trace:
    """A run in which the ops of a part begin when everybody has left the collective before."""
    b = Building(format="xplane")
    b.ops = [{"op": 0, "name": "all-reduce", "category": "all-reduce"}]
    for number, parts in enumerate(steps):
        for rank in range(3):
            b.event(Lane("Steps", rank, "steps"), str(number), 1000 * number, 1000 * number + 1000, "step", step=number)
        for place, part in enumerate(parts):
            base = 1000 * number + 500 * place
            for rank, ops in enumerate(part):
                lane, at = Lane("XLA Ops", rank, "ops", work=True), base
                for name, length in ops.items():
                    b.event(lane, name, at, at + length)
                    at += length
                b.event(lane, "all-reduce", at, base + 400, "collective", op=0, run=2 * number + place)
    return b.trace()


def longest(parts: list[list[dict[str, int]]], rank: int) -> tuple[int, str, int, int] | None:
    """The op that a rank did longer than the others in these parts by the most: excess, name, took, usual (ps)."""
    found = []
    for name in "abc":
        times = [US * sum(part[each][name] for part in parts) for each in range(3)]
        usual = round(float(np.median(times[:rank] + times[rank + 1 :])))
        found.append((times[rank] - usual, times[rank], name, usual))
    excess, took, name, usual = max(found, key=lambda each: (*each[:2], -ord(each[2])))
    return (excess, name, took, usual) if excess > 0 else None


@given(st.lists(PARTS, min_size=1, max_size=2))
def test_causes_one_by_one(steps: list[list[list[dict[str, int]]]]) -> None:
    """However short ops are, they count before the collective that they ran before, and in no other step."""
    for row in rows("stragglers", trace_of_parts(steps), least="1us"):
        number, place = divmod(row["start"] // US // 500, 2)
        found, whole = (longest(steps[number][first : place + 1], row["rank"]) for first in (place, 0))
        if found is None or 2 * found[0] < row["most"]:
            known = [each for each in (found, whole) if each and (each is found or each[0] <= 3 * row["most"])]
            found = max(known, key=lambda each: each[0], default=None)
        named_ = found is not None and 10 * found[0] >= row["most"]
        shown = tuple(row[name] for name in ("excess", "cause", "took", "usual"))
        assert shown == (found if named_ else (None,) * 4)


@pytest.mark.parametrize("variant", ["legacy", "real2024", "nogpuann"])
def test_the_late_rank_of_the_golden_trace(shared: Path, variant: str) -> None:
    trace = load_trace(open_trace_files([shared / "golden" / "two_rank" / variant]))
    found = [row_summary(row) for row in rows("stragglers", trace)]
    assert found == [(step, 1, 100, "delay from launch to start", "device") for step in (10, 11, 12)]


def test_the_late_ranks_of_a_real_gloo_job(shared: Path) -> None:
    """Rank 1 sleeps in `data`; later rank 0 loses its core while rank 1 spins in its collective."""
    trace = load_trace(open_trace_files([shared / "captures" / "torch" / "ddp"]))
    found = [(row["step"], row["rank"], row["cause"], row["inside"]) for row in rows("stragglers", trace)[:3]]
    assert found == [
        (4, 0, "aten::mm", "AddmmBackward0"),
        (3, 0, "aten::mm", "AddmmBackward0"),
        (2, 1, "data", "ProfilerStep#"),
    ]


def test_the_late_host_of_a_real_xla_job(shared: Path) -> None:
    """The second process sleeps 4 ms before every step."""
    trace = load_trace(open_trace_files([shared / "captures" / "jax" / "multiproc"]))
    found = rows("stragglers", trace)
    assert {(row["cause"], row["inside"], row["side"]) for row in found} == {("$time sleep", "train", "host")}
    assert {row["rank"] for row in found} == {2, 3}
    assert [row["step"] for row in found] == [2, 4, 5, 3]
    note = note_texts(run_analysis(get_analysis("stragglers"), trace).notes)[0]
    assert note.startswith(
        "ranks 2 and 3 of one host keep the others waiting: 16.7 ms in 4 of 4 steps; main cause: '$time "
        "sleep', 16.4 ms longer than on the others"
    )


@pytest.mark.thorough
def test_every_step_of_the_sample_names_the_rank_that_loads_data(samples: Path) -> None:
    table = run_analysis(get_analysis("stragglers"), load_trace(open_trace_files([samples / "torch_ddp_gloo"]))).table
    first = [(row["rank"], row["cause"]) for row in table.head(3).rows(named=True)]
    assert first == [(1, "data")] * 3


@pytest.mark.thorough
def test_of_a_lone_rank_nobody_asks_what_it_did(tmp_path: Path) -> None:
    """Before each collective of two ranks it did something; of one there is nobody who would have waited."""
    for count in (1, 2):
        job_ = ranks(count)
        for rank in job_:
            rank.step(1, 0, 1000)
            rank.kernel("gemm", 10, 20, 120)
            rank.collective(90, 200, 550, Seq=1)
        folder = tmp_path / f"{count}"
        folder.mkdir()
        trace = job(folder, *job_)
        for share in rank_traces(trace, Window()):
            (calls,), (before,) = unpack_ranks([get_analysis("stragglers").per_rank(share, Options())])
            assert calls.height == 1
            assert (before.height == 0) == (count == 1)


def gradient_buckets(tmp_path: Path, last: int) -> Trace:
    """Three buckets of a backward pass: the late rank's kernels take 25 % longer; others compute until `last` us."""
    job_ = [Rank(number, 3) for number in range(3)]
    for rank in job_:
        slow = 1.25 if rank.rank == 2 else 1
        rank.step(0, 0, 6000)
        for number in range(8):
            until = round((number + 1) * 400 * slow) if slow > 1 or number < 7 else last
            rank.kernel("gemm", 1, round(number * 400 * slow), until)
        ready = [round(gemms * 400 * slow) for gemms in (4, 6, 8)]
        ends = [gemms * 500 + 100 for gemms in (4, 6, 8)]
        for number, (mine, end) in enumerate(zip(ready, ends, strict=True)):
            rank.collective(2, max([mine, *ends[:number][-1:]]), end, Seq=number)
    return job(tmp_path, *job_)


def test_who_computes_while_a_bucket_is_late_does_not_wait_yet(tmp_path: Path) -> None:
    result = run_analysis(get_analysis("stragglers"), gradient_buckets(tmp_path, last=3200))
    assert result.table["late"].to_list() == [(400 + 600 + 800) * US]
    assert note_texts(result.notes)[0].startswith(
        "rank 2 keeps the others waiting: 800 us in 1 of 1 steps; main cause: 'gemm', 800 us longer than on the others"
    )


@pytest.mark.thorough
def test_a_rank_that_is_late_while_all_others_compute_keeps_nobody_waiting(tmp_path: Path) -> None:
    result = run_analysis(get_analysis("stragglers"), gradient_buckets(tmp_path, last=4100))
    (note, *_) = note_texts(result.notes)
    assert note == "rank 2 was late by 1.80 ms in 1 of 1 steps, but the others had work to do meanwhile"


def pipeline(tmp_path: Path) -> Trace:
    """Two stages that hand three batches on, and back: each waits for the other in turn."""
    stages = ranks(2)
    for rank, step, batch in product(stages, range(2), range(3)):
        begin, peer = 10000 * step + 3000 * batch, 1 - rank.rank
        if not batch:
            rank.step(step, begin, begin + 9000)
        there, back = ("send", "recv") if rank.rank == 0 else ("recv", "send")
        ends = {"Src_Rank": rank.rank, "Dst_Rank": peer}, {"Src_Rank": peer, "Dst_Rank": rank.rank}
        first, second = ends if rank.rank == 0 else ends[::-1]
        if rank.rank == 0:
            rank.kernel("gemm", begin + 1, begin + 10, begin + 1000)
        rank.collective(begin + 2, begin + (1000 if rank.rank == 0 else 10), begin + 1100, there, **first)
        if rank.rank == 1:
            rank.kernel("gemm", begin + 3, begin + 1100, begin + 2800)
        rank.collective(begin + 4, begin + (1100 if rank.rank == 0 else 2800), begin + 2900, back, **second)
    return job(tmp_path, *stages)


@pytest.mark.thorough
def test_stages_of_a_pipeline_that_wait_for_each_other_are_not_late(tmp_path: Path) -> None:
    trace = pipeline(tmp_path)
    result = run_analysis(get_analysis("stragglers"), trace)
    assert result.table.is_empty()
    notes = note_texts(result.notes)
    assert notes[0] == "no rank was late"
    assert any(
        note.startswith("24 sends and receives left out (a receiver depends on its sender, as pipeline stages do)")
        for note in notes
    )
    findings = find_rows(trace)
    assert "more micro-batches" in find_row(findings, "pipeline stages wait for what they receive")["advice"]
    assert rows_with(findings, "late") == []
