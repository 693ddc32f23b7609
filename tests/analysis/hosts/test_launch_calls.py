"""Which call put which work on a device: one join for all that ask."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, stream, thread
from tracehound.analysis.hosts.launch_calls import find_enqueued_work, launching_calls
from tracehound.analysis.rank_trace import rank_traces
from tracehound.model.trace import Window

MAIN, OTHER = thread("python (1)"), thread("autograd (2)")


def calls() -> Building:
    """Three kernels: of a call of each of two threads, and of none that is known."""
    b = Building()
    for number, lane in enumerate((MAIN, OTHER)):
        b.event(lane, "cudaLaunchKernel", 10 * number, 10 * number + 4, "runtime", correlation=number)
        b.event(stream(), "gemm", 10 * number + 6, 10 * number + 9, correlation=number)
    b.event(stream(), "gemm", 50, 60)
    return b


def test_work_has_its_call_and_the_thread_of_that() -> None:
    trace = calls().trace()
    (share,) = rank_traces(trace, Window())
    found = find_enqueued_work(share, share.device)
    names = dict(trace.lanes.select("lane", "name").iter_rows())
    rows = found.work.select("caller", "called", "returned", pl.col("call").cast(pl.String)).rows()
    assert [(names[lane], *(time // US for time in times), call) for lane, *times, call in rows] == [
        ("python (1)", 0, 4, "cudaLaunchKernel"),
        ("autograd (2)", 10, 14, "cudaLaunchKernel"),
    ]
    assert found.count_unlaunched == 1


@given(st.lists(st.none() | st.integers(-1, 6), max_size=12))
def test_calls_come_in_the_order_of_the_launches(launches: list[int | None]) -> None:
    """In any order, of any ids, often or never."""
    (share,) = rank_traces(calls().trace(), Window())
    known = {row["id"]: row for row in share.threads.collect().iter_rows(named=True)}
    found = launching_calls(share, pl.Series(launches, dtype=pl.Int64))
    assert found.columns == ["call", "caller", "called", "returned"]
    assert found.select("caller", "called", "returned").rows() == [
        tuple(known[launch][name] if launch in known else None for name in ("lane", "start", "end"))
        for launch in launches
    ]


def test_a_call_of_another_kind_is_none() -> None:
    (share,) = rank_traces(calls().trace(), Window())
    ids = share.threads.collect()["id"]
    assert launching_calls(share, ids, ["runtime"])["caller"].null_count() == 0
    assert launching_calls(share, ids, ["sync"])["caller"].null_count() == len(ids)
