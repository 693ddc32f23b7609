"""Findings on steps that take longer than the others, and on time of steps in runs without devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from building import Building, thread
from finding_runs import (
    MAIN,
    MS,
    add_each_step,
    add_work,
    find_row,
    find_rows,
    has_time,
    make_steps,
    only_row,
    rows_with,
)
from short import first
from tracehound.model.trace import Window
from tracehound.store import merge_file_frames


def make_uneven_steps(*kernels: tuple[float, ...], length: float = 100) -> Building:
    """Five steps of a length (ms), one after another, with kernels a, b, c ... of these lengths; longer if need be."""
    b, start = Building(unit=MS), 0.0
    for number, lengths in enumerate(kernels):
        end = start + max(length, sum(lengths))
        b.event(MAIN, f"ProfilerStep#{number}", start, end, "step", step=number)
        begin = start
        for name, taken in zip("abcdefgh", lengths, strict=False):
            add_work(b, name, begin, begin + taken)
            begin += taken
        start = end
    return b


def test_a_step_whose_kernels_are_all_longer_has_a_slow_clock() -> None:
    lengths = [(40.0, 30.0, 29.9)] * 4
    b = make_uneven_steps(*lengths[:3], (72.0, 54.0, 53.82), lengths[3])
    row = only_row(find_rows(b.trace()), "step 3", "1.8 times")
    assert row["cost"] == pytest.approx(79.92 * MS / 5, rel=0.01)
    assert row["start"] == 300 * MS
    assert row["certainty"] == "inferred"
    assert row["next"] == "kernels --rank 0 --step 3"
    assert has_time(row["effects"], 179.82 * MS)
    assert has_time(row["effects"], 100 * MS)
    assert "clock" in row["advice"]


def test_a_step_with_one_longer_kernel_has_no_slow_clock() -> None:
    lengths = [(40.0, 30.0, 29.9)] * 4
    b = make_uneven_steps(*lengths[:3], (40.0, 110.0, 29.9), lengths[3])
    row = only_row(find_rows(b.trace()), "longer than the others", "step 3")
    assert has_time(row["finding"], 179.9 * MS)
    assert has_time(row["evidence"], 100 * MS), "the median"
    assert "compute" in row["evidence"], "what grew most"
    assert row["cost"] == pytest.approx(79.9 * MS / 5, rel=0.01)
    assert (row["rank"], row["start"], row["duration"]) == (0, 300 * MS, pytest.approx(179.9 * MS))
    assert row["certainty"] == "not recorded"


@pytest.mark.thorough
def test_a_slow_clock_that_makes_no_step_longer_costs_nothing() -> None:
    """Kernels take 40 ms of each step of 100, and in one of them 80: none of the steps is longer for that."""
    b = make_uneven_steps((20.0, 20.0), (20.0, 20.0), (20.0, 20.0), (40.0, 40.0), (20.0, 20.0))
    assert rows_with(find_rows(b.trace()), "all kernels") == []


@pytest.mark.thorough
def test_a_slow_step_that_a_named_cause_explains_is_its_effect() -> None:
    b = Building(unit=MS)
    start = 0
    for number, length in enumerate((100, 100, 300, 100, 100)):
        b.event(MAIN, f"ProfilerStep#{number}", start, start + length, "step", step=number)
        add_work(b, "k", start + length - 100, start + length)
        start += length
    b.event(MAIN, "Python GC", 200, 400, "python")
    row = only_row(find_rows(b.trace()), "Python GC", "step 2")
    assert row["cost"] == 40 * MS
    assert has_time(row["effects"], 300 * MS)
    assert has_time(row["effects"], 100 * MS)


@pytest.mark.thorough
@pytest.mark.parametrize("count", [3, 4])
def test_few_steps_have_no_usual_length(count: int) -> None:
    lengths = [(40.0, 59.9)] * (count - 1)
    rows = find_rows(make_uneven_steps(*lengths, (40.0, 140.0)).trace())
    assert len(rows_with(rows, "longer than the others")) == (count == 4)


@pytest.mark.thorough
def test_steps_of_no_length_hold_no_time() -> None:
    """All that the device idles is outside of them."""
    b = Building()
    for number, start in enumerate((0, 50, 900)):
        b.event(MAIN, f"ProfilerStep#{number}", start, start, "step", step=number)
    b.event(MAIN, "aten::mm", 0, 1000, "op")
    add_work(b, "gemm", 600, 620)
    assert only_row(find_rows(b.trace()))["share"] == pytest.approx(0.98)


def make_host_steps(name: str, kind: str, length: float) -> Building:
    """Four steps of 100 ms on a host without devices, which runs operators but for one event in each."""
    b = Building(unit=MS)
    for number in range(4):
        b.event(MAIN, f"ProfilerStep#{number}", number * 100, number * 100 + 100, "step", step=number)
        b.event(MAIN, name, number * 100, number * 100 + length, kind)
        b.event(MAIN, "aten::mm", number * 100 + length, number * 100 + 100, "op")
    return b


@pytest.mark.parametrize(
    ("name", "kind", "length", "words"),
    first(
        4,
        [
            ("Python GC", "python", 6, ("Python GC",)),
            ("train.py(3): tokenize", "python", 16, ("Python", "train.py(3): tokenize")),
            ("train.py(3): tokenize", "python", 14, ()),
            ("enumerate(DataLoader)#X.__next__", "annotation", 6, ("data loading", "enumerate(DataLoader)#X.__next__")),
            ("enumerate(DataLoader)#X.__next__", "annotation", 4, ()),
            ("<built-in function sleep>", "python", 6, ("sleeping", "<built-in function sleep>")),
            ("my_part", "annotation", 16, ("unrecorded", "my_part")),
            ("gloo:all_reduce", "annotation", 9, ()),
        ],
    ),
)
def test_time_of_steps_without_devices_is_named(name: str, kind: str, length: float, words: tuple[str, ...]) -> None:
    rows = find_rows(make_host_steps(name, kind, length).trace())
    if not words:
        assert rows == []
        return
    row = only_row(rows, *words)
    assert (row["cost"], row["share"], row["share_of"]) == (length * MS, pytest.approx(length / 100), "step")
    assert has_time(row["finding"], length * MS)
    assert row["certainty"] == ("not recorded" if kind == "annotation" and "Data" not in name else "recorded")
    assert row["next"].startswith("host --rank 0 --step ")


def test_time_of_steps_without_any_event_is_unrecorded() -> None:
    b = Building(unit=MS)
    for number in range(4):
        b.event(MAIN, f"ProfilerStep#{number}", number * 100, number * 100 + 100, "step", step=number)
        b.event(MAIN, "aten::mm", number * 100, number * 100 + 60, "op")
    row = only_row(find_rows(b.trace()), "unrecorded host time")
    assert (row["cost"], row["certainty"]) == (40 * MS, "not recorded")


@pytest.mark.thorough
def test_compiling_without_devices_is_told_once() -> None:
    rows = find_rows(make_host_steps("compile f", "compile", 30).trace())
    assert sum(row["cost"] or 0 for row in rows_with(rows, "compil")) == 30 * MS


@pytest.mark.thorough
def test_a_program_that_waits_for_the_backward_pass_loses_no_time() -> None:
    """Another thread runs operators while the program's own is in an annotation alone."""
    b = make_host_steps("backward", "annotation", 40)
    for number in range(4):
        b.event(thread("autograd (2)"), "aten::mm_backward", number * 100, number * 100 + 40, "op")
    assert find_rows(b.trace()) == []


@pytest.mark.thorough
def test_steps_without_devices_are_cut_by_the_window() -> None:
    b = make_host_steps("Python GC", "python", 20)
    row = only_row(find_rows(b.trace(), Window(90 * MS, 310 * MS)), "Python GC")
    assert (row["cost"], row["share"]) == (20 * MS, pytest.approx(0.2))
    whole = only_row(find_rows(b.trace(), Window(110 * MS, 150 * MS)), "Python GC")
    assert (whole["cost"], whole["share"], whole["share_of"]) == (10 * MS, pytest.approx(0.25), "window")


@pytest.mark.thorough
def test_ranks_without_devices_share_a_cost() -> None:
    """One of two collects garbage for 20 ms of each step: 10 ms a step on average."""
    parts = []
    for rank, length in enumerate((20.0, 0.001)):
        b = make_host_steps("Python GC", "python", length)
        b.claim, b.path = rank, Path(f"rank{rank}.json")
        parts.append(b.part())
    row = find_row(find_rows(merge_file_frames("job", parts)), "Python GC")
    assert row["cost"] == pytest.approx(10 * MS, rel=0.01)


@pytest.mark.thorough
def test_nothing_is_found_in_steps_that_are_full() -> None:
    assert find_rows(make_steps(busy=99).trace()) == []
    assert find_rows(add_each_step(make_steps(busy=99), "aten::mm", 10, 90, "op").trace()) == []
    assert find_rows(make_host_steps("aten::add", "op", 50).trace()) == []
