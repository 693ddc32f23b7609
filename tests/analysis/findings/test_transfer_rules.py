"""Findings on communication and copies that no computation hides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from building import US, Building, stream
from finding_runs import (
    MAIN,
    MS,
    add_work,
    find_row,
    find_rows,
    has_share,
    has_time,
    location,
    make_steps,
    only_row,
    read_rows,
    rows_with,
)
from jobs import Rank, job
from short import first, some
from tracehound.analysis import get_analysis, run_analysis
from tracehound.model.file_facts import FileFacts
from tracehound.model.trace import Window

REDUCE = "ncclDevKernel_AllReduce"


@pytest.mark.parametrize(
    ("kind", "name", "words", "command"),
    first(
        1,
        [
            ("collective", REDUCE, ("all_reduce", "nothing overlaps"), "overlap"),
            ("copy", "Memcpy DtoD", ("copies within the GPU",), "transfers"),
            ("copy", "Memcpy HtoD (Pinned -> Device)", ("copies from host",), "transfers"),
            ("copy", "Memcpy DtoH (Device -> Pinned)", ("copies", "to host"), "transfers"),
        ],
    ),
)
def test_exposed_work_is_found_and_hidden_work_is_not(
    kind: str, name: str, words: tuple[str, ...], command: str
) -> None:
    exposed, hidden = make_steps(busy=80), make_steps(busy=99)
    for number in range(4):
        add_work(exposed, name, number * 100 + 80, number * 100 + 99, kind, 8)
        add_work(hidden, name, number * 100 + 20, number * 100 + 39, kind, 8)
    assert find_rows(hidden.trace()) == []
    row = only_row(find_rows(exposed.trace()), *words)
    assert (row["cost"], row["share"]) == (19 * US, pytest.approx(0.19))
    assert location(row) == (0, 80, 19)
    assert has_time(row["finding"], 19 * US)
    assert exposed.trace().event(row["event"])["name"] == name
    assert row["next"] == command


@pytest.mark.parametrize(("operator", "words"), first(1, [("autograd::engine::evaluate_function: X", "backward pass"),
                                                          ("aten::mm", "computation")]))  # fmt: skip
def test_communication_that_nothing_overlaps_starts_late(operator: str, words: str) -> None:
    b = make_steps(busy=80)
    b.event(MAIN, operator, 1, 2, "op")
    for number in range(4):
        add_work(b, REDUCE, number * 100 + 80, number * 100 + 99, "collective", 8)
    row = only_row(find_rows(b.trace()), "all_reduce", "only after the " + words)
    assert "bucket" in row["advice"]


@pytest.mark.thorough
@pytest.mark.parametrize("world", some([1, 4], [4]))
def test_communication_may_be_waiting_for_ranks_that_nobody_opened(world: int) -> None:
    b = make_steps(busy=80)
    b.facts = FileFacts(world_size=world)
    for number in range(4):
        add_work(b, REDUCE, number * 100 + 80, number * 100 + 99, "collective", 8)
    evidence = find_row(find_rows(b.trace()), "all_reduce")["evidence"]
    assert ("may be waiting for ranks that are not in this trace" in evidence) is (world == 4)


@pytest.mark.thorough
def test_communication_beside_copies_is_communication_alone_as_in_the_steps() -> None:
    b = make_steps(busy=80)
    for number in range(4):
        add_work(b, REDUCE, number * 100 + 80, number * 100 + 100, "collective", 8)
        add_work(b, "Memcpy DtoD", number * 100 + 90, number * 100 + 98, "copy", 9)
    assert only_row(find_rows(b.trace()), "all_reduce")["cost"] == 20 * US
    assert set(run_analysis(get_analysis("steps"), b.trace()).table["communication"]) == {20 * US}


@pytest.mark.thorough
def test_hidden_communication_is_told_with_the_exposed_one() -> None:
    """In each step 30 us of communication, of which computation hides 10; 100 us more are in no step."""
    b = make_steps(busy=60)
    for number in range(4):
        add_work(b, REDUCE, number * 100 + 50, number * 100 + 80, "collective", 8)
    add_work(b, REDUCE, 400, 500, "collective", 8)
    row = find_row(find_rows(b.trace()), "all_reduce takes longer than the computation")
    assert (row["cost"], row["share"]) == (20 * US, 0.2)
    assert has_share(row["evidence"], 40 / 220), "hidden, in the run"


@pytest.mark.thorough
def test_communication_is_located_on_the_rank_of_its_longest_event() -> None:
    """Rank 0 communicates most, 2 x 30 us of 100; the longest collective, of 40 us, is on rank 1."""
    b = Building()
    for rank, lengths in ((0, (30, 30)), (1, (40,))):
        b.event(stream(rank), "k", 0, 10)
        for number, length in enumerate(lengths):
            b.event(stream(rank), REDUCE, 10 + 40 * number, 10 + 40 * number + length, "collective")
        b.event(stream(rank), "k", 90, 100)
    assert location(find_row(find_rows(b.trace()), "all_reduce")) == (1, 10, 40)


def make_collectives(folder: Path, *, count: int, elements: int, length: int) -> list[dict[str, object]]:
    """The findings of two ranks with so many all-reduces of floats a step, one after another, in three steps."""
    ranks = [Rank(0), Rank(1)]
    for rank in ranks:
        for step in range(3):
            start = 10_000 * step
            rank.step(step, start, start + 10_000)
            rank.kernel("gemm", start + 1, start + 1, start + 5000)
            rank.kernel("gemm", start + 2, start + 5000 + count * length, start + 10_000)
            for number in range(count):
                begin = start + 5000 + number * length
                rank.collective(
                    start + 3, begin, begin + length, Seq=count * step + number,
                    In_msg_nelems=elements, Out_msg_nelems=elements,
                )  # fmt: skip
    return find_rows(job(folder, *ranks))


@pytest.mark.thorough
def test_many_small_collectives_are_told_with_their_number_and_size(tmp_path: Path) -> None:
    row = find_row(
        make_collectives(tmp_path, count=50, elements=1024, length=50), "many small collectives", "50 a step"
    )
    assert re.search(r" 4(\.0+)? KiB", row["finding"])
    assert row["cost"] == pytest.approx(2500 * US, rel=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize(("length", "words"), [(2000, "nothing overlaps"), (4000, "slow link")])
def test_a_slow_link_is_told_with_its_bandwidth(tmp_path: Path, length: int, words: str) -> None:
    """16 MB in 2 ms are 8 GB/s of bus bandwidth between two ranks; in 4 ms 4 GB/s."""
    row = find_row(make_collectives(tmp_path, count=1, elements=4_000_000, length=length), words)
    rate = {2000: "8", 4000: "4"}[length]
    assert f"{rate}.0" in row["evidence"] or f"{rate} GB/s" in row["evidence"]
    assert ("GB/s" in row["finding"]) == (length == 4000)


@pytest.mark.thorough
def test_collectives_of_a_run_without_steps_are_none_a_step() -> None:
    b = Building()
    add_work(b, "k", 0, 50)
    add_work(b, REDUCE, 50, 100, "collective", 8)
    assert "a step" not in find_row(find_rows(b.trace()), "all_reduce")["evidence"]


def test_pageable_copies_cost_the_time_of_the_copies() -> None:
    """The host could launch more while they run; the device is not idle."""
    b = make_steps(busy=90)
    b.rows = [row for row in b.rows if row["name"] != "cudaLaunchKernel"]
    for number in range(4):
        b.event(stream(), "Memcpy HtoD (Pageable -> Device)", number * 100 + 90, number * 100 + 93, "copy")
        b.event(stream(), "k", number * 100 + 93, number * 100 + 99)
    row = only_row(find_rows(b.trace()), "pageable host memory")
    assert (row["cost"], row["share"]) == (3 * US, 0.03)
    assert has_time(row["finding"], 3 * US)
    assert location(row) == (0, 90, 3)
    assert "pin_memory" in row["advice"]


@pytest.mark.thorough
@pytest.mark.xfail(strict=True, reason="short copies count as short kernels, too")
def test_short_copies_are_told_once() -> None:
    """A copy of 3 us in each step, between gaps of 1 us."""
    b = make_steps(busy=90)
    for number in range(4):
        add_work(b, "Memcpy HtoD (Pageable -> Device)", number * 100 + 91, number * 100 + 94, "copy")
        add_work(b, "k", number * 100 + 94, number * 100 + 99)
    assert sum(row["cost"] for row in find_rows(b.trace())) == 5 * US


def test_blocking_copies_cost_what_the_device_idles_for_them() -> None:
    """Copies of 20 ms of pageable memory; the host is blocked in each, and launches 15 ms later: one finding of 35."""
    b = make_steps(busy=40, unit=MS)
    for number in range(4):
        start, correlation = number * 100, 900 + number
        b.event(MAIN, "aten::to", start + 10, start + 75, "op")
        b.event(MAIN, "cudaMemcpyAsync", start + 11, start + 74, "runtime", correlation=correlation)
        b.event(stream(), "Memcpy HtoD (Pageable -> Device)", start + 40, start + 60, "copy", correlation=correlation)
        b.event(MAIN, "cudaLaunchKernel", start + 75, start + 75, "runtime", correlation=correlation + 100)
        b.event(stream(), "k", start + 75, start + 100, correlation=correlation + 100)
    row = only_row(find_rows(b.trace()), "pageable host memory", "aten::to")
    assert row["cost"] == 35 * MS
    assert has_time(row["evidence"], 15 * MS), "of it idle"


@pytest.mark.thorough
def test_pinned_copies_are_not_pageable_for_those_of_the_other_direction() -> None:
    b = make_steps(busy=60)
    for number in range(4):
        add_work(b, "Memcpy HtoD (Pageable -> Device)", number * 100 + 60, number * 100 + 80, "copy")
        add_work(b, "Memcpy DtoH (Device -> Pinned)", number * 100 + 80, number * 100 + 99, "copy")
    rows = find_rows(b.trace())
    assert find_row(rows, "pageable host memory")["cost"] == pytest.approx(20 * US)
    assert find_row(rows, "to host")["cost"] == pytest.approx(19 * US)


@pytest.mark.thorough
def test_pageable_copies_of_no_step_cost_steps_nothing() -> None:
    b = Building()
    add_work(b, "Memcpy HtoD (Pageable -> Device)", 0, 50, "copy")
    for number in range(4):
        b.event(MAIN, f"ProfilerStep#{number}", 60 + 100 * number, 160 + 100 * number, "step", step=number)
        add_work(b, "k", 60 + 100 * number, 160 + 100 * number)
    assert rows_with(find_rows(b.trace()), "pageable") == []


def test_copies_and_compiling_that_a_window_cuts_cost_no_more_than_the_window() -> None:
    b = Building()
    add_work(b, "k", 0, 10)
    add_work(b, "Memcpy DtoH (Device -> Pageable)", 20, 80, "copy")
    b.event(MAIN, "compile f", 5, 95, "compile")
    add_work(b, "k", 90, 100)
    rows = find_rows(b.trace(), Window(30 * US, 60 * US))
    for words, cost in (("pageable host memory", 30 * US), ("compiled", None)):
        row = find_row(rows, words)
        assert (row["cost"], row["share"], row["share_of"]) == (cost, 1.0, "window"), "the device is not idle"


def test_a_tpu_that_waits_for_the_memory_of_the_host_says_so(shared: Path) -> None:
    rows = read_rows(shared / "traces" / "xla" / "tpu_v6e_x4_offload")
    assert rows[:2] == [find_row(rows, "from host to HBM"), find_row(rows, "from HBM to host")]
    assert sum(row["share"] for row in rows[:2]) == pytest.approx(0.970, abs=0.001), "of the steps, which do not idle"
