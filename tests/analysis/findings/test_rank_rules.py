"""Findings on ranks that others wait for: who is late, why, and what the run would win."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from building import US, Building, stream, thread
from finding_runs import MAIN, MS, Row, find_row, find_rows, has_time, location, only_row, read_rows, rows_with
from jobs import Rank, job
from short import first
from tracehound.analysis import get_analysis, run_analysis
from tracehound.analysis.findings import ANALYSIS
from tracehound.model.trace import Trace, Window
from tracehound.store import merge_file_frames


def test_late_ranks_of_recorded_runs_are_told_with_their_causes(shared: Path) -> None:
    captures = shared / "captures"
    for capture, words, rank in (
        ("torch/ddp", ("rank 0 is late", "aten::mm"), 0),
        ("jax/multiproc", ("ranks 2-3", "time sleep", "jax_multiproc.py:14"), 2),
    ):
        rows = read_rows(captures / capture)
        row = find_row(rows, *words)
        assert rows_with(rows, "input-bound") == [], "what the late rank did is recorded"
        assert (row["rank"], row["certainty"]) == (rank, "recorded")
        assert row["event"] is not None


def make_reduces(late: float, name: str = "k", *, kernel: float = 60) -> Trace:
    """Three steps of two ranks; rank 1 reaches the collective later, since its kernel is longer by that."""
    b = Building()
    for number in range(3):
        for rank in (0, 1):
            start = number * 100 + kernel + (late if rank else 0)
            b.event(stream(rank), name, number * 100, start)
            b.event(stream(rank), "ncclDevKernel_AllReduce", start, number * 100 + 99, "collective")
        b.event(MAIN, f"ProfilerStep#{number}", number * 100, number * 100 + 100, "step", step=number)
    return b.trace()


@pytest.mark.thorough
def test_ranks_that_come_together_keep_nobody_waiting() -> None:
    assert rows_with(find_rows(make_reduces(0)), "wait") == []
    row = find_row(find_rows(make_reduces(20)), "rank 1", "the other ranks wait")
    assert row["cost"] == 20 * US
    assert "1.33 times" in row["finding"], "its only kernel"
    assert row["effects"] == "communication on rank 0 waits for rank 1"


def make_late_rank(folder: Path, mates: Sequence[int], scale: int = 1) -> Trace:
    """Rank 3 is late by 300 us in every step of 1000; `mates` meet at one collective, ranks 0 and 1 at another."""
    ranks = [Rank(number, 4) for number in range(4)]
    for rank, step in product(ranks, range(3)):
        start, slow = 1000 * step, 300 if rank.rank == 3 else 0
        rank.step(step, start * scale, (start + 1000) * scale)
        if slow:
            rank.host("aten::slow", (start + 1) * scale, (start + 1 + slow) * scale)
        begin, mine = start + 100 + slow, mates if rank.rank in mates else (0, 1)
        end = start + 500 if rank.rank in mates else start + 200
        rank.kernel("gemm", (begin - 50) * scale, (begin - 40) * scale, begin * scale)
        group = {"Process_Group_Name": str(mine), "Process_Group_Ranks": str([*mine])}
        rank.collective((begin - 45) * scale, begin * scale, end * scale, Seq=step, **group)
        rank.kernel("gemm", (end - 20) * scale, end * scale, (start + 1000) * scale)
    return job(folder, *ranks)


@pytest.mark.parametrize(("mates", "words"), first(1, [((2, 3), "rank 2 waits"), (range(4), "the other ranks wait")]))
def test_a_late_rank_costs_what_any_rank_waits_for_it(tmp_path: Path, mates: Sequence[int], words: str) -> None:
    row = find_row(find_rows(make_late_rank(tmp_path, mates)), "rank 3 is late", "aten::slow", words)
    assert (row["cost"], row["share"]) == (300 * US, pytest.approx(0.3))
    assert has_time(row["finding"], 300 * US)
    assert "3 steps" in row["evidence"]
    assert has_time(row["evidence"], 300 * US), "what it spends more in aten::slow"
    assert location(row)[0] == 3
    assert row["certainty"] == "recorded"
    assert row["next"] == "stragglers"


@pytest.mark.thorough
def test_a_step_that_is_cut_off_on_the_late_rank_alone_is_not_held_against_the_others(tmp_path: Path) -> None:
    """The first step is ten times as long, and not whole on rank 2, which is 8 ms late in the five others."""
    job_ = [Rank(number, 4) for number in range(4)]
    for rank in job_:
        start = 0
        for step in range(6):
            end = start + (200_000 if step == 0 else 20_000)
            rank.step(step, start, end - 20)
            computed = start + 5_000
            rank.kernel("gemm", start + 50, start + 90, computed)
            if late := rank.rank == 2 and step > 0:
                rank.kernel("extra", computed, computed, computed + 8_000)
            rank.collective(computed + 8_000 * late, computed + 8_005 * late, end - 1_000, Seq=step)
            rank.kernel("adam", end - 900, end - 890, end - 500)
            start = end
    trace = job(tmp_path, *job_)
    row = find_row(find_rows(trace), "rank 2 is late")
    assert row["cost"] == pytest.approx(5 * 8_005 * US / 6, rel=0.01)


def test_idle_time_of_a_late_rank_is_no_finding_of_its_own(tmp_path: Path) -> None:
    """Its device idles while the host is slow: at this scale the trace names that, and the late rank tells of it."""
    rows = find_rows(make_late_rank(tmp_path, range(4), 1000))
    row = find_row(rows, "rank 3 is late", "aten::slow")
    assert rows_with(rows, "aten::slow") == [row]
    assert row["cost"] == 300 * MS


@pytest.mark.thorough
def test_what_a_rank_computes_while_it_waits_costs_nothing(tmp_path: Path) -> None:
    """Rank 3 is late by 300 us in every step of 1000: rank 0 computes all the while, rank 1 half of it, rank 2 not."""
    cost = {}
    for busy_ranks in ((0, 1), (0, 1, 2)):
        ranks = [Rank(number, 4) for number in range(4)]
        for rank, step in product(ranks, range(3)):
            start, slow = 1000 * step, 300 if rank.rank == 3 else 0
            rank.step(step, start, start + 1000)
            rank.kernel("gemm", start + 10, start + 40, start + 100 + slow)
            rank.collective(start + 20, start + 100 + slow, start + 500, Seq=step)
            count = 0 if rank.rank == 3 else 20 if len(busy_ranks) == 3 else 20 - 10 * rank.rank
            for number in range(count):  # 14 us each, and 1 us between them
                rank.kernel("gemm", start + 30, start + 101 + 15 * number, start + 115 + 15 * number)
            rank.kernel("gemm", start + 40, start + 500, start + 1000)
        trace = job(tmp_path, *ranks)
        late = rows_with(find_rows(trace), "rank 3")
        cost[busy_ranks] = late[0]["cost"] if late else 0
        assert run_analysis(get_analysis("stragglers"), trace).table["late"].to_list() == [300 * US] * 3
    assert cost == {(0, 1): 300 * US, (0, 1, 2): 0}


def make_two_hosts(scale: int) -> Trace:
    """Both ranks of the second process are late by 40 us of 100 in every step; a rank of the first waits for each."""
    parts = []
    for host in (0, 1):
        b = Building(name=f"host {host}", wall_ns=10**18, path=Path(f"host{host}.json"), unit=scale * US)
        for number, rank in product(range(3), (0, 1)):
            start, late = 100 * number, 40 * host
            if not rank:
                b.event(MAIN, f"ProfilerStep#{number}", start, start + 100, "step", step=number)
                b.event(MAIN, "aten::slow", start + 1, start + 1 + late, "op")
            for called, lane, kind in ((45, 7, "kernel"), (46, 20 + rank, "collective")):
                begin, correlation = start + late + 5 * rank + called - 40, len(b.rows)
                b.event(MAIN, "cudaLaunchKernel", begin, begin + 1, "runtime", correlation=correlation)
                times = (start + late + 20, start + late + 50) if kind == "kernel" else (start + late + 50, start + 99)
                name = {"kernel": "elementwise_kernel", "collective": "ncclDevKernel_AllReduce"}[kind]
                b.event(stream(rank, lane), name, *times, kind, correlation=correlation)
        parts.append(b.part())
    return merge_file_frames("job", parts)


@pytest.mark.thorough
def test_ranks_of_one_host_that_are_late_at_once_cost_the_time_that_passes() -> None:
    row = find_row(find_rows(make_two_hosts(1)), "ranks 2-3", "aten::slow", "the other ranks wait")
    assert row["cost"] == 40 * US
    assert "3 steps" in row["evidence"]


def make_prelude(name: str, kind: str) -> Trace:
    """A long event of the main thread, and a collective to which rank 1 comes 900 us late; then four punctual steps."""
    b = Building()
    b.event(MAIN, name, 0, 900, kind)
    for number in range(-1, 4):
        start = 1000 + number * 100
        for rank in (0, 1):
            begin = start - 890 if number < 0 and not rank else start + 60
            b.event(stream(rank), "k", start - 900 if number < 0 else start, begin)
            b.event(stream(rank), "ncclDevKernel_AllReduce", begin, start + 99, "collective")
        if number >= 0:
            b.event(MAIN, f"ProfilerStep#{number}", start, start + 100, "step", step=number)
    return b.trace()


@pytest.mark.thorough
def test_lateness_before_the_steps_costs_none_of_them() -> None:
    assert rows_with(find_rows(make_prelude("prepare", "annotation")), "rank 1") == []
    row = find_row(find_rows(make_prelude("backend_compile", "compile")), "compiled")
    assert (row["cost"], row["share"], row["share_of"]) == (None, pytest.approx(900 / 1399, abs=0.01), "run")
    assert "outside of whole steps" in row["evidence"]


@pytest.mark.thorough
def test_waits_for_a_late_rank_cost_no_more_than_the_window() -> None:
    """Rank 0 waits for 40 us, of which 10 lie in the window."""
    table = run_analysis(ANALYSIS, make_reduces(39, kernel=50), Window(80 * US, 100 * US)).table
    assert all(share <= 1 for share in table["share"].drop_nulls()), table["share"].to_list()


def sleep_before_collective(scale: int = 1000) -> Trace:
    """A run without devices: rank 1 sleeps for 40 of 100 ms before the collective that rank 0 waits in."""
    parts = []
    for rank in (0, 1):
        b = Building(claim=rank, path=Path(f"rank{rank}.json"), wall_ns=10**18, unit=scale * US)
        for number in range(4):
            start = number * 100
            b.event(MAIN, f"ProfilerStep#{number}", start, start + 100, "step", step=number)
            b.event(MAIN, "aten::mm", start, start + 50, "op")
            if rank:
                b.event(MAIN, "<built-in function sleep>", start + 50, start + 90, "python")
            b.event(MAIN, "gloo:all_reduce", start + (90 if rank else 50), start + 99, "collective")
        parts.append(b.part())
    return merge_file_frames("job", parts)


@pytest.mark.thorough
def test_a_late_host_is_told_with_what_it_did() -> None:
    row = find_row(find_rows(sleep_before_collective()), "rank 1 is late", "sleep")
    assert row["cost"] == pytest.approx(40 * MS, rel=0.05)


def test_what_makes_a_host_late_is_one_finding() -> None:
    only_row(find_rows(sleep_before_collective()), "rank 1 is late", "sleep")


def sleep_on_one_device() -> list[Row]:
    """Of two ranks with devices, one sleeps for 60 ms of each step of 100 before its work and the collective."""
    parts = []
    for rank in (0, 1):
        b = Building(claim=rank, path=Path(f"rank{rank}.json"), wall_ns=10**18, unit=MS)
        for number in range(4):
            start, late = number * 100, 60 * rank
            b.event(thread(), f"ProfilerStep#{number}", start, start + 100, "step", step=number)
            if rank:
                b.event(thread(), "threading.py(9): wait", start, start + late, "python")
            for name, begin, end, lane, kind in (
                ("k", start + late, start + late + 20, 7, "kernel"),
                ("ncclDevKernel_AllReduce", start + late + 20, start + 100, 20, "collective"),
            ):
                b.event(thread(), "cudaLaunchKernel", start + late, start + late, "runtime", correlation=len(b.rows))
                b.event(stream(rank, lane), name, begin, end, kind, correlation=len(b.rows) - 1)
        parts.append(b.part())
    return find_rows(merge_file_frames("job", parts))


def test_a_late_device_is_told_with_what_its_host_did() -> None:
    row = find_row(sleep_on_one_device(), "rank 1 is late", "wait")
    assert row["cost"] == pytest.approx(60 * MS, rel=0.01)
    assert row["certainty"] == "recorded"
    assert "only on rank 1" in row["evidence"]
    assert row["next"].startswith("gaps --rank 1")


def test_idle_time_that_lateness_explains_is_not_told_as_low_utilization() -> None:
    assert rows_with(sleep_on_one_device(), "idle for more than half") == []


def test_ranks_that_are_late_at_once_cost_the_wait_once(tmp_path: Path) -> None:
    """Four of eight ranks, each on a host of its own, come 400 us late to every collective."""
    ranks = [Rank(number, 8, machine=f"node{number}") for number in range(8)]
    for rank in ranks:
        late = 400 * (rank.rank % 2)
        for number in range(4):
            at = 2000 * number
            rank.step(number, at, at + 1000)
            rank.kernel("gemm", at + 1, at + 10, at + 100 + late)
            rank.collective(at + 2, at + 101 + late, at + 600, Seq=number)
    (row,) = rows_with(find_rows(job(tmp_path, *ranks)), "late at once")
    assert row["cost"] == 200 * US  # half of the ranks wait
    assert "ranks 1, 3, 5, 7 are late, often at the same collectives" in row["evidence"]
