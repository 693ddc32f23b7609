"""Marks of steps whose number comes again: one step where they overlap, else steps with numbers of their own."""

from __future__ import annotations

import polars as pl
import pytest

from building import US, Building, Lane, stream, thread
from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import render_note_columns
from tracehound.model.trace import FileFrames
from tracehound.report.window_arguments import parse_window

Mark = tuple[Lane, str, int, float, float]


def marked(*marks: Mark) -> Building:
    """Marks (lane, name, number, start, end), each with an op in its middle."""
    b = Building()
    for lane, name, number, start, end in marks:
        b.event(lane, name, start, end, "step", step=number)
        b.event(lane, f"op of {name} {number}", (start + end) / 2, (start + end) / 2 + 0.001, "op")
    return b


def steps(part: FileFrames) -> list[tuple[str, int, int]]:
    rows = part.steps.sort("host", "rank", "start").select("name", "step", pl.col("start") // US).rows()
    return [(name, number, start) for name, number, start in rows]


def loop(name: str, numbers: range, begin: float, lane: Lane = thread(), length: float = 10) -> list[Mark]:  # noqa: B008
    return [(lane, name, number, begin + length * i, begin + length * (i + 1)) for i, number in enumerate(numbers)]


def test_a_loop_that_counts_from_0_again_is_numbered_on() -> None:
    b = marked(*loop("train", range(4), 0), *loop("eval", range(2), 100, length=30))
    part = b.part()
    assert steps(part) == [
        ("train", 0, 0), ("train", 1, 10), ("train", 2, 20), ("train", 3, 30), ("eval", 4, 100), ("eval", 5, 130),
    ]  # fmt: skip
    assert not part.steps["inferred"].any()
    ops = part.events.filter(pl.col("kind") == "op").sort("start")
    assert ops["step"].to_list() == [0, 1, 2, 3, 4, 5]
    marks = part.events.filter(pl.col("kind") == "step").sort("start")
    assert marks["step"].to_list() == [0, 1, 2, 3, 4, 5]
    assert part.steps.sort("step")["event"].to_list() == marks["id"].to_list()
    (note,) = part.notes
    assert (note.level, note.count, note.where) == ("inferred", 2, "eval is step 4")


def test_a_step_is_asked_for_by_what_its_first_mark_says() -> None:
    trace = marked(*loop("ProfilerStep", range(3), 0), *loop("ProfilerStep", range(3), 100)).trace()
    assert trace.steps["step"].to_list() == [0, 1, 2, 3, 4, 5]
    assert parse_window(trace, steps="2").start == 20 * US
    assert parse_window(trace, steps="5").start == 120 * US
    told = render_note_columns(run_analysis(get_analysis("health"), trace)).table
    assert told.filter(pl.col("what").str.contains("steps that repeat an earlier number, renumbered"))[
        "count"
    ].to_list() == [3]


def test_marks_of_several_threads_are_one_step_the_longest() -> None:
    b = marked(
        (thread("a"), "step", 7, 0, 10), (thread("b"), "step", 7, 9, 20), (thread("c"), "step", 7, 19, 21),
        (thread("b"), "step", 8, 21, 30), (thread("a"), "step", 7, 30, 34), (thread("b"), "step", 7, 31, 36),
    )  # fmt: skip
    assert steps(b.part()) == [("step", 7, 9), ("step", 8, 21), ("step", 9, 31)]


def test_marks_that_touch_are_two_steps_and_those_at_one_instant_one() -> None:
    assert steps(marked((thread(), "s", 0, 0, 10), (thread(), "s", 0, 10, 20)).part()) == [("s", 0, 0), ("s", 1, 10)]
    assert steps(marked((thread("a"), "s", 0, 5, 5), (thread("b"), "s", 0, 5, 5)).part()) == [("s", 0, 5)]


def test_marks_inside_of_longer_ones_take_no_number_from_them() -> None:
    """Each step is cut into two parts that are marked, too, always with 0 and 1."""
    inner = [mark for at in range(0, 30, 10) for mark in loop("part", range(2), at + 1, length=4)]
    part = marked(*loop("step", range(3), 0), *inner).part()
    assert steps(part) == [("step", 0, 0), ("step", 1, 10), ("step", 2, 20)]
    assert not part.notes
    assert steps(marked((thread(), "epoch", 0, 0, 99), *loop("step", range(1, 3), 1)).part()) == [
        ("epoch", 0, 0), ("step", 1, 1), ("step", 2, 11),
    ]  # fmt: skip


def test_ranks_with_the_same_marks_have_the_same_numbers() -> None:
    lanes = [Lane(f"Steps {rank}", rank, "steps", host=0) for rank in (0, 1, 2)]
    marks = [
        mark
        for rank, lane in enumerate(lanes)
        for mark in (*loop("s", range(3, 6), 7 * rank, lane), *loop("s", range(3, 5 + (rank == 2)), 100 - rank, lane))
    ]
    part = marked(*marks).part()
    numbers = {rank: rows["step"].to_list() for (rank,), rows in part.steps.partition_by("rank", as_dict=True).items()}
    assert numbers == {0: [3, 4, 5, 6, 7], 1: [3, 4, 5, 6, 7], 2: [3, 4, 5, 6, 7, 8]}
    assert part.notes[-1].count == 7


@pytest.mark.parametrize("largest", [(1 << 31) - 1, (1 << 31) - 2])
def test_where_no_number_is_left_steps_are_counted_in_order(largest: int) -> None:
    b = marked((thread(), "s", largest, 0, 9), (thread(), "s", 5, 10, 19), (thread(), "s", largest, 20, 29),
               (thread(), "s", 5, 30, 39))  # fmt: skip
    part = b.part()
    assert [number for _, number, _ in steps(part)] == [0, 1, 2, 3]
    assert part.notes[-1].count == 4


def test_work_that_a_later_loop_launched_is_in_its_steps() -> None:
    b = marked(*loop("train", range(2), 0), *loop("eval", range(2), 50))
    for number, at in enumerate((5, 15, 55, 65)):
        b.event(thread(), "cudaLaunchKernel", at, at + 1, "runtime", correlation=number)
        b.event(stream(), "gemm", at + 20, at + 24, correlation=number)
    assert b.trace().events().filter(kind="kernel").collect()["step"].to_list() == [0, 1, 2, 3]
