"""The reasons of idle time, against a slow version that looks at each microsecond."""

from __future__ import annotations

import random
from collections import Counter

import polars as pl
import pytest
from runs import measured, run

from building import US, Building, Lane, stream, thread
from short import first
from tracehound.analysis.idle import CAUSES, device_gaps
from tracehound.analysis.rank_trace import rank_traces
from tracehound.analysis.result import Options
from tracehound.diff.idle_reasons import BETWEEN_KERNELS, UNRECORDED
from tracehound.model.trace import Trace, Window

EVENTS = {
    "aten::add": ("op", "running operators: aten::add"),
    "Python GC": ("python", "Python GC"),
    "train.py(3): step": ("python", "running Python: train.py(3): step"),
    "## forward ##": ("annotation", "in an annotation"),
    "cudaLaunchKernel": ("runtime", "launching work"),
    "cudaDeviceSynchronize": ("runtime", "synchronization"),
    "cudaMalloc": ("runtime", "allocation"),
}
"""Events of the host: their kind, and the reason of the idle time in which they are the innermost."""

REASONS = {"synchronization": "synchronization", "allocation": "allocation", "kernel": BETWEEN_KERNELS,
           "other": "queued work that started late", "unknown": "launch not recorded"}  # fmt: skip


def story(seed: int) -> tuple[Trace, list[tuple[str, int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
    """A trace in whole us, with its host events (outer ones first), kernels and steps."""
    rng, built = random.Random(seed), Building()
    host, kernels, steps, now, busy_until = list[tuple[str, int, int]](), [], [], 0, 0
    for step in range(3):
        begin = now
        for _ in range(rng.randint(2, 5)):
            name = rng.choice(list(EVENTS)[:4])
            inside = rng.choice(["aten::add", "Python GC", "cudaDeviceSynchronize", "cudaMalloc", None])
            start, length = now + rng.randint(0, 60), rng.randint(4, 300)
            host.append((name, start, start + length))
            if inside is not None:
                host.append((inside, start + length // 4, start + length // 2))
            call = start + length
            host.append(("cudaLaunchKernel", call, call + 3))
            began = max(busy_until, call + rng.choice([1, 5, 40]))
            busy_until = began + rng.randint(5, 120)
            kernels.append((began, busy_until))
            built.event(thread(), "cudaLaunchKernel", call, call + 3, "runtime", correlation=len(kernels))
            built.event(stream(), "gemm", began, busy_until, correlation=len(kernels))
            now = call + 3
        now = max(now, busy_until) + rng.randint(0, 20)
        steps.append((begin, now))
        built.event(thread(), f"ProfilerStep#{step}", begin, now, "step", step=step)
    for name, start, end in host:
        if name != "cudaLaunchKernel":
            built.event(thread(), name, start, end, EVENTS[name][0])
    return built.trace(), host, kernels, steps


def slow_reasons(seed: int) -> list[Counter[str]]:
    """The reasons of each step, by looking at each microsecond of it."""
    trace, host, kernels, steps = story(seed)
    (rank_trace,) = rank_traces(trace, Window())
    gaps, cause, _, _ = device_gaps(rank_trace, Options())
    found = []
    for begin, end in steps:
        counted: Counter[str] = Counter()
        for tick in range(begin, end):
            if any(start <= tick < stop for start, stop in kernels):
                continue
            causes = [
                CAUSES[code]
                for start, stop, code in zip(gaps.start // US, gaps.end // US, cause, strict=True)
                if start <= tick < stop
            ]
            reason = REASONS.get(causes[0]) if causes else None
            around = [each for each in host if each[1] <= tick < each[2]]
            if reason is None:
                innermost = min(around, key=lambda each: each[2] - each[1], default=None)
                reason = EVENTS[innermost[0]][1] if innermost else UNRECORDED
            counted[reason] += US
        found.append(counted)
    return found


@pytest.mark.parametrize("seed", first(8, range(25)))
def test_reasons_are_those_of_each_microsecond(seed: int) -> None:
    found = measured(story(seed)[0])
    reasons = found.measures.filter(topic="reasons")
    expected_reasons = slow_reasons(seed)
    for place, step in enumerate(found.steps["step"].to_list()):
        expected = expected_reasons[step]
        rows = dict(reasons.filter(step=step).select("name", "value").iter_rows())
        assert rows == dict(expected)
        assert sum(rows.values()) == found.steps["idle"][place]


def test_the_reasons_of_a_run_on_the_host_are_the_time_without_operators() -> None:
    built = Building()
    for step in range(4):
        begin = step * 1000
        built.event(thread(), f"ProfilerStep#{step}", begin, begin + 1000, "step", step=step)
        built.event(thread(), "aten::mm", begin + 100, begin + 400, "op")
        built.event(thread(), "Python GC", begin + 500, begin + 900, "python")
    found = measured(built.trace())
    rows = found.measures.filter(topic="reasons").group_by("name").agg(pl.col("value").mean()).sort("name")
    assert rows.rows() == [("Python GC", 400 * US), (UNRECORDED, 300 * US)]
    assert found.steps["idle"].to_list() == [700 * US] * 4


def test_reasons_add_up_to_the_idle_time_on_every_stream() -> None:
    found = measured(run(stretch=(3, 500)))
    sums = found.measures.filter(topic="reasons").group_by("step").agg(pl.col("value").sum()).sort("step")
    assert sums["value"].to_list() == pytest.approx(found.steps["idle"].to_list(), abs=len(found.steps))


def test_steps_without_any_work_have_reasons() -> None:
    built = Building()
    built.event(stream(), "gemm", 0, 0, correlation=1)
    built.event(Lane("marks"), "ProfilerStep#0", 0, 100, "step", step=0)
    found = measured(built.trace())
    assert found.measures.filter(topic="reasons")["value"].sum() == found.steps["idle"].sum()
