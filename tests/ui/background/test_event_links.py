"""Following links: from a kernel out to the Python line, and back in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import Building, Lane, stream, thread
from exploring import read_once
from tracehound.model.trace import Trace
from tracehound.store import load_trace
from tracehound.ui.background.event_links import find_cause, find_effects


def built() -> Trace:
    b = Building()
    b.event(thread(), "train.py(7): step", 0, 900, "python")
    b.event(thread(), "aten::linear", 100, 400, "op")
    b.event(thread(), "aten::addmm", 110, 390, "op")
    b.event(thread(), "cudaLaunchKernel", 120, 130, "runtime", correlation=1)
    b.event(thread(), "cudaStreamIsCapturing", 140, 141, "runtime", correlation=9)
    b.event(thread(), "cudaLaunchKernel", 150, 160, "runtime", correlation=2)
    b.event(thread(), "aten::relu", 500, 600, "op")
    b.event(thread(), "cudaGraphLaunch", 510, 520, "runtime", correlation=3)
    b.event(thread("loader"), "cudaMemcpyAsync", 300, 310, "runtime", correlation=4)
    b.event(stream(), "gemm", 200, 300, correlation=1)
    b.event(stream(), "bias", 310, 320, correlation=2)
    b.event(stream(), "first of the graph", 700, 710, correlation=3)
    b.event(stream(), "second of the graph", 720, 730, correlation=3)
    b.event(stream(0, 9), "Memcpy HtoD", 400, 450, "copy", correlation=4)
    b.event(stream(0, 9), "of nobody", 800, 810)
    return b.trace()


TRACE = built()
EVENTS = TRACE.events().collect()


def event(name: str, place: int = 0) -> int:
    return int(EVENTS.filter(pl.col("name") == name)["id"][place])


def names(events: list[int]) -> list[str]:
    return [TRACE.event(number)["name"] for number in events]


def test_from_a_kernel_out_to_the_python_line() -> None:
    at, seen = event("gemm"), list[str]()
    while (link := find_cause(TRACE, at)).target is not None:
        at = link.target
        seen.append(TRACE.event(at)["name"])
    assert seen == ["cudaLaunchKernel", "aten::addmm", "train.py(7): step"], "an operator leads over others to Python"
    assert link.words == "train.py(7): step: nothing is recorded around it"


def test_an_annotation_on_a_device_leads_to_the_one_of_the_host_whose_work_it_spans() -> None:
    b, ranges = Building(), Lane("ranges 7", 0, "ranges")
    for start in (0, 100):
        b.event(thread(), "forward", start, start + 50, "annotation", external=start + 1)
    b.event(thread("other"), "backward", 100, 150, "annotation", external=101)
    b.event(ranges, "forward", 130, 180, "annotation", external=101)
    b.event(ranges, "forward", 230, 240, "annotation")
    trace = b.trace()
    here = trace.events().filter(pl.col("name") == "forward").collect().sort("start")
    first, second, spanning, alone = here["id"].to_list()
    assert find_cause(trace, spanning).target == second != first
    assert find_cause(trace, spanning).words == "forward on the host, whose work the device's spans"
    assert find_cause(trace, alone).words == "forward: no launch is recorded"


def test_the_words_say_how_long_before_it_was_launched() -> None:
    assert find_cause(TRACE, event("gemm")).words == "launch, 80.0 us before gemm"
    assert find_cause(TRACE, event("of nobody")).words == "of nobody: no launch is recorded"


def test_a_call_without_an_operator_leads_to_what_is_around_it() -> None:
    b = Building()
    b.event(thread(), "outer", 0, 100, "other")
    b.event(thread(), "inner", 10, 90, "other")
    trace = b.trace()
    inner = int(trace.events().filter(pl.col("name") == "inner").collect()["id"][0])
    target = find_cause(trace, inner).target
    assert target is not None
    assert trace.event(target)["name"] == "outer"


def test_from_the_python_line_in_to_the_kernels() -> None:
    link = find_effects(TRACE, event("train.py(7): step"))
    assert link.walk is not None
    assert names(link.walk.events.tolist()) == ["cudaLaunchKernel", "cudaLaunchKernel", "cudaGraphLaunch"]
    assert link.words == "launches in train.py(7): step: 1 of 3"
    assert link.target == event("cudaLaunchKernel")

    link = find_effects(TRACE, event("cudaGraphLaunch"))
    assert link.walk is not None
    assert names(link.walk.events.tolist()) == ["first of the graph", "second of the graph"]
    assert link.words == "launched by cudaGraphLaunch: 1 of 2"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cudaStreamIsCapturing", "nothing was launched in cudaStreamIsCapturing"),
        ("gemm", "gemm runs on the device: nothing is launched from there"),
    ],
)
def test_where_nothing_was_launched(name: str, words: str) -> None:
    link = find_effects(TRACE, event(name))
    assert (link.target, link.walk, link.words) == (None, None, words)


CALLS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.booleans()), max_size=12)


@given(CALLS)
def test_launches_inside_are_those_that_a_slow_search_finds(calls: list[tuple[int, int, bool]]) -> None:
    b = Building()
    b.event(thread("other"), "cudaLaunchKernel", 5, 6, "runtime", correlation=1000)
    b.event(stream(), "kernel", 100, 101, correlation=1000)
    for number, (start, length, launches) in enumerate(calls):
        b.event(thread(), f"call {number}", start, start + length, "runtime", correlation=number)
        if launches:
            b.event(stream(), "kernel", 200 + number, 201 + number, correlation=number)
    trace = b.trace()
    rows = trace.events().collect()
    launching = set(rows["launch"].drop_nulls().to_list())
    for row in rows.filter(pl.col("rank").is_null()).iter_rows(named=True):
        after = rows.filter((pl.col("lane") == row["lane"]) & (pl.col("id") > row["id"]))
        inside = [found for found, start in after.select("id", "start").iter_rows() if start < row["end"]]
        expected = [found for found in inside if found in launching]
        link = find_effects(trace, row["id"])
        if row["id"] in launching:
            assert link.walk is not None
            assert all(trace.event(found)["launch"] == row["id"] for found in link.walk.events.tolist())
        else:
            assert ([] if link.walk is None else link.walk.events.tolist()) == expected


@pytest.mark.thorough
def test_there_and_back_in_a_jax_profile(samples: Path) -> None:
    """XLA: an op leads to the execution that enqueued its module, which leads to all that it enqueued."""
    trace = load_trace(read_once(samples / "jax_cpu8_b128"))
    rows = trace.events().filter(pl.col("launch").is_not_null()).select("id", "launch", "start").collect()
    one = rows.row(rows.height // 2, named=True)
    assert find_cause(trace, one["id"]).target == one["launch"]
    link = find_effects(trace, one["launch"])
    assert link.walk is not None
    assert set(link.walk.events.tolist()) == set(rows.filter(pl.col("launch") == one["launch"])["id"].to_list())
    assert np.all(np.diff(link.walk.starts) >= 0)
