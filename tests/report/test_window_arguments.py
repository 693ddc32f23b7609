"""Ranks, steps and times as people write them, and what they are told when there is no such thing."""

from __future__ import annotations

import polars as pl
import pytest
from msgspec.structs import replace

from building import US, Building, stream, thread
from tracehound.errors import TracehoundError
from tracehound.model.trace import STEPS, Trace, Window
from tracehound.model.units import parse_number_list
from tracehound.report.report_header import build_header, describe_window
from tracehound.report.window_arguments import parse_times, parse_window, window_cut_warning
from tracehound.store import merge_file_frames

MS = 1000 * US


@pytest.mark.parametrize(
    ("text", "found"),
    [("0", (0,)), ("0,2-5", (0, 2, 3, 4, 5)), ("3,1,3", (1, 3)), (" 1 - 2 , 7", (1, 2, 7)), ("4-4", (4,))],
)
def test_a_list_of_numbers(text: str, found: tuple[int, ...]) -> None:
    assert parse_number_list(text, "rank") == found


@pytest.mark.parametrize("text", ["", "a", "5-2", "1,,2", "-1", "1-", "0-99999999", "1;2", "\x1b"])
def test_what_is_no_list_of_numbers(text: str) -> None:
    with pytest.raises(TracehoundError, match="names no rank; write numbers and ranges"):
        parse_number_list(text, "rank")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10ms..20ms", (10 * MS, 20 * MS)),
        ("..20ms", (None, 20 * MS)),
        ("1.5ms ..", (1500 * US, None)),
        ("..", (None, None)),
    ],
)
def test_a_window_is_two_times(text: str, found: tuple[int | None, int | None]) -> None:
    assert parse_times(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10ms", "is not a window; write two times"),
        ("10..20", "is not a time; write a number and a unit"),
        ("2ms..1ms", "ends before it starts"),
        ("1ms..1000us", "is empty: it ends where it starts"),
    ],
)
def test_what_is_no_window(text: str, why: str) -> None:
    with pytest.raises(TracehoundError, match=why):
        parse_times(text)


@pytest.fixture(scope="module")
def job() -> Trace:
    """Two ranks on two hosts, whose steps 5 and 6 do not start together."""
    parts = []
    for rank, shift in ((0, 0), (1, 10)):
        b = Building(claim=rank, wall_ns=1_700_000_000_000_000_000)
        b.event(stream(), "gemm", shift, 200 + shift)
        b.event(thread(), "aten::mm", shift, 10 + shift, "op")
        parts.append(b.part())
    rows = [
        {"step": step, "host": host, "rank": None, "name": f"ProfilerStep#{step}", "inferred": False}
        | {"start": (step - 5) * 100 * US + host * 10 * US, "end": (step - 5) * 100 * US + (host * 10 + 90) * US}
        for step in (5, 6)
        for host in (0, 1)
    ]
    return replace(merge_file_frames("job", parts), steps=pl.DataFrame(rows, schema=STEPS))


def test_nothing_asked_is_no_limit(job: Trace) -> None:
    assert parse_window(job) == Window()


def test_ranks_and_a_window(job: Trace) -> None:
    assert parse_window(job, ranks="1", between="10us..20us") == Window(10 * US, 20 * US, (1,))


@pytest.mark.parametrize(
    ("between", "told"),
    [("10us..20us", ""), ("10us..", ""), ("0us..210us", ""),
     ("10us..9s", "the window is cut: the trace goes from 0 s to 210.0 us")],
)  # fmt: skip
def test_what_of_a_window_lies_beyond_the_trace_is_told(job: Trace, between: str, told: str) -> None:
    assert window_cut_warning(job, parse_window(job, between=between)) == told


def test_a_step_lies_between_its_first_start_and_its_last_end(job: Trace) -> None:
    assert parse_window(job, steps="5") == Window(0, 100 * US, steps=(5,))
    assert parse_window(job, steps="5-6") == Window(0, 200 * US, steps=(5, 6))


def test_a_window_of_a_step_says_that_it_is_the_mark(job: Trace) -> None:
    """`steps` has another length where work runs on after the mark."""
    window = Window(steps=(5,))
    assert describe_window(build_header(job, window), window) == "only step 5 of each rank, as marked"
    inferred = replace(job, steps=job.steps.with_columns(inferred=True))
    assert describe_window(build_header(inferred, window), window) == "only step 5 of each rank, as inferred"


@pytest.mark.parametrize(
    ("words", "ranks", "steps"),
    [
        ("first", "", (5,)), ("last", "", (7,)), ("longest", "", (6,)), ("longest", "0", (6,)), ("longest", "1", (5,)),
        ("last", "1", (6,)), ("first", "1", (5,)), ("longest", "0,1", (6,)), ("first,last", "1", (5, 6)),
        ("last, longest", "", (6, 7)), ("7,longest,6-7", "", (6, 7)), ("6,first,first", "", (5, 6)),
    ],
)  # fmt: skip
def test_steps_have_words(job: Trace, words: str, ranks: str, steps: tuple[int, ...]) -> None:
    rows = [(0, 5, 0, 100), (0, 6, 100, 250), (0, 7, 250, 300), (1, 5, 10, 110), (1, 6, 110, 150)]
    marks = [
        {"host": host, "step": step, "start": start * US, "end": end * US, "inferred": False, "name": ""}
        for host, step, start, end in rows
    ]
    marked = replace(job, steps=pl.DataFrame(marks, schema=STEPS))
    assert parse_window(marked, ranks=ranks, steps=words).steps == steps


@pytest.mark.parametrize("word", ["first", "last", "longest"])
def test_words_for_steps_that_there_are_not_say_so(job: Trace, word: str) -> None:
    with pytest.raises(TracehoundError, match=f"no {word} step here; the profiler marked none"):
        parse_window(replace(job, steps=job.steps.clear()), steps=word)
    with pytest.raises(TracehoundError, match=f"no {word} step here; the profiler marked none"):
        parse_window(replace(job, steps=job.steps.clear()), steps=f"3,{word}")


@pytest.mark.parametrize("said", ["first,", "first,lst", "first-last", ",last"])
def test_what_is_no_list_of_steps(job: Trace, said: str) -> None:
    with pytest.raises(TracehoundError, match="names no step; write numbers and ranges"):
        parse_window(job, steps=said)


def test_a_step_of_some_ranks_is_theirs_alone(job: Trace) -> None:
    assert parse_window(job, steps="5", ranks="1") == Window(10 * US, 100 * US, (1,), steps=(5,))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"ranks": "0,7"}, "no rank 7 in this trace; there are 0-1"),
        ({"steps": "5-8"}, "no steps 7-8 here; there are 5-6"),
        ({"between": "9s..10s"}, "nothing happens in that window; the trace goes from 0 s to 210.0 us"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(job: Trace, asked: dict[str, str], why: str) -> None:
    with pytest.raises(TracehoundError) as caught:
        parse_window(job, **asked)
    assert str(caught.value) == why


def test_a_trace_without_steps_says_so(job: Trace) -> None:
    with pytest.raises(TracehoundError, match="no step 5 here; the profiler marked none"):
        parse_window(replace(job, steps=job.steps.clear()), steps="5")
