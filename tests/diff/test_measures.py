"""What a step does besides its ops: exact numbers of small runs, and counters against a slow loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from runs import changed, measured, run
from test_run_comparison import compared

from building import Building, Lane, stream, thread
from short import first
from tracehound.analysis import Options, get_analysis
from tracehound.analysis import run_analysis as analyzed
from tracehound.analysis.result import Column
from tracehound.diff import Comparison, RunProfile, compare_runs, load_baseline, save_baseline
from tracehound.diff.comparison_numbers import rows_to_table
from tracehound.diff.step_measures import _interval_averages, _interval_peaks
from tracehound.draw.notes import note_texts
from tracehound.formats.assembly.counter_samples import FileCounters
from tracehound.formats.kineto.device_curves import add_device_curves
from tracehound.model.trace import COUNTERS, Trace
from tracehound.store import merge_file_frames

US = 1_000_000


def story(pause: float = 40, compiled: float = 0) -> Trace:
    """Five steps: two kernels with a pause between them that the host caused, and a call that takes 3 us for each."""
    built, count = Building(), 0
    for step in range(5):
        begin = step * 2000
        for at in (100, 300 + pause):
            count += 1
            called = begin + at - 10
            built.event(thread(), "cudaLaunchKernel", called, called + 3, "runtime", correlation=count)
            built.event(stream(), "gemm", begin + at, begin + at + 200, correlation=count)
        if compiled:
            built.event(thread("compiler"), "jit", begin + 600, begin + 600 + compiled, "compile")
        built.event(Lane("marks"), "s", begin, begin + 860 + pause, "step", step=step)
    return built.trace()


def told(found: RunProfile, step: int = 2) -> dict[str, tuple[float, float]]:
    others = found.measures.filter(pl.col("topic") != "reasons")
    rows = others.filter(step=step).select("topic", "name", "count", "value").rows()
    return {name if topic == "launches" else f"{topic} {name}": (count, value) for topic, name, count, value in rows}


def test_a_step_is_measured_to_the_picosecond() -> None:
    assert told(measured(story())) == {
        "launches": (2, 6 * US),
        "idle host": (2, (100 + 40 + 360) * US),
    }


def test_idle_time_is_all_put_down_to_something() -> None:
    for trace in (story(), run(), run(stretch=(3, 500))):
        found = measured(trace)
        idle = found.measures.filter(topic="idle").group_by("step").agg(pl.col("value").sum()).sort("step")
        assert np.allclose(idle["value"], found.steps["idle"], atol=len(found.steps))


def test_little_time_before_all_work_is_told_and_the_rounding_of_times_is_none() -> None:
    built = Building()
    built.event(Lane("marks"), "s", 0, 100_000, "step", step=0)
    built.event(stream(), "gemm", 5, 50_000)
    built.event(stream(), "gemm", 50_000.001, 100_000)
    assert told(measured(built.trace()), 0) == {"idle before or after all work": (0, 5 * US)}


def test_compiling_counts_where_it_runs() -> None:
    found = compared(story(), story(compiled=30))
    row = causes_of(found)["compiling"]
    assert (row["baseline"], row["candidate"], row["baseline_count"], row["candidate_count"]) == (0, 30 * US, 0, 1)
    assert row["verdict"] == "more"


def test_compiling_is_what_the_analysis_of_compilations_says() -> None:
    """Ranges of torch.compile, of which the outer ones count."""
    built = Building()
    built.event(thread(), "_compile.compile_inner (dynamo_timed)", 100, 140, "annotation")
    built.event(thread(), "backend_compile (dynamo_timed)", 110, 130, "annotation")
    built.event(stream(), "gemm", 200, 300)
    built.event(Lane("marks"), "s", 0, 400, "step", step=0)
    assert told(measured(built.trace()), 0)["compiling compiling"] == (1, 40 * US)


def test_a_longer_wait_for_the_host_is_told_as_one() -> None:
    rows = causes_of(compared(story(40), story(940)))
    assert rows["idle: host"]["change"] == 900 * US
    assert rows["idle: host"]["verdict"] == "more"
    assert rows["launches"]["verdict"] == "the same"


@pytest.mark.parametrize("seed", first(2, range(6)))
def test_a_slower_kernel_changes_no_gap_and_no_launch(seed: int) -> None:
    rows = causes_of(compared(run(seed=seed), run(changed(0, length=260.0), seed=seed + 100)))
    assert {row["verdict"] for row in rows.values()} <= {
        "the same",
        "noise",
        "unclear",
        "perhaps more",
        "perhaps less",
    }


def causes_of(found: Comparison) -> dict[str, dict[str, object]]:
    section = next(each for each in found.sections if each.analysis == "diff-causes")
    return {row["part"]: row for row in section.table.to_dicts()}


def with_counter(levels: tuple[float, ...], unit: str, name: str = "memory") -> Trace:
    """Five steps of 1 ms, with a counter that has a sample at the beginning and in the middle of each."""
    built = Building()
    for step in range(5):
        built.event(stream(), "gemm", step * 1000, step * 1000 + 900)
        built.event(Lane("marks"), "s", step * 1000, step * 1000 + 1000, "step", step=step)
    times = [at * 500 * US for at in range(10)]
    frame = pl.DataFrame({"lane": [0] * 10, "time": times, "value": list(levels) * 5}, schema=COUNTERS)
    built.counters = FileCounters([{"host": 0, "rank": 0, "name": name, "unit": unit, "order": 9}], frame)
    return built.trace()


def test_of_bytes_the_peak_is_compared_and_of_others_the_average() -> None:
    memory = compared(with_counter((100.0, 300.0), "bytes"), with_counter((200.0, 600.0), "bytes")).sections[-1]
    assert memory.analysis == "diff-memory"
    assert memory.table.rows() == [("memory", 300, 600, 1.0, 300, 600, 0, 0, "more")]
    load = compared(with_counter((10.0, 30.0), "%", "load"), with_counter((10.0, 20.0), "%", "load")).sections[-1]
    assert load.analysis == "diff-counters"
    assert load.table.rows() == [("load", 20.0, 15.0, -0.25, 20.0, 15.0, 0.0, 0.0, "less")]


def on_host(left: int, old: int = 0) -> Trace:
    """Five steps of 1 ms: each gives 1,000 B of the host and takes them back; before the first `old` bytes go back.

    `left` bytes are there from another recording, which had given the `old` ones, too.
    """
    built, held, samples = Building(), left + old, []
    pieces = [(-100, -old, 1)] if old else []
    for step in range(5):
        built.event(thread(), f"ProfilerStep#{step}", step * 1000, step * 1000 + 1000, "step", step=step)
        pieces += [(step * 1000 + 100, 1000, 2), (step * 1000 + 200, -1000, 2)]
    for time, size, address in pieces:
        held += size
        piece = {"device": -1, "bytes": size, "address": address, "allocated": held, "reserved": 0, "thread": 1}
        built.facets.setdefault("allocated", []).append({"record": len(samples), "time": time * US, **piece})
        samples.append({"lane": 0, "time": time * US, "value": float(held)})
    lane = {"host": 0, "rank": None, "name": "CPU memory allocated", "unit": "bytes", "order": 9}
    built.counters = FileCounters([lane], pl.DataFrame(samples, COUNTERS))
    return built.trace()


@pytest.mark.parametrize("candidate", [on_host(500), on_host(500, old=70)])
def test_what_an_earlier_recording_left_is_not_compared(candidate: Trace) -> None:
    memory = compared(on_host(0), candidate).sections[-1]
    assert memory.table.rows() == [("CPU memory allocated", 1000, 1000, 0.0, 1000, 1000, 0, 0, "the same")]
    why = "CPU memory allocated without memory from before the recording: 0 B in the baseline, 500 B in the candidate"
    assert note_texts(memory.notes) == (why,)


def test_utilization_is_that_of_the_report_from_the_start_of_a_step_on() -> None:
    """The first kernel of the run begins 600 us into the first step, in which kernels run for 300 of 1,000 us."""
    built = Building()
    for step in range(4):
        start = 1000 * step
        built.event(thread(), f"ProfilerStep#{step}", start, start + 1000, "step", step=step)
        for number in range(6):
            begin = start + (600 if step == 0 else 100) + 60 * number
            count = len(built.rows)
            built.event(thread(), "cudaLaunchKernel", begin - 5, begin - 1, "runtime", correlation=count)
            built.event(stream(), "gemm", begin, begin + 50, correlation=count)
    trace = merge_file_frames("curves", [add_device_curves(built.part())])
    profile = measured(trace)
    found = profile.measures.filter(topic="counters", name="GPU utilization").sort("step")["value"].to_list()
    by_step = analyzed(get_analysis("utilization"), trace, options=Options(None, (("by", "step"),))).table[
        "utilization"
    ]
    assert by_step.to_list() == pytest.approx([0.3] * 4)
    assert found == pytest.approx([30] * 4, abs=0.5), "the curve has stretches of its own"
    counters = compare_runs(profile, profile).sections[-1].table["counter"].to_list()
    assert "GPU utilization (%)" in counters


def test_a_counter_of_one_run_alone_is_named() -> None:
    found = compared(with_counter((1.0, 2.0), "bytes", "a"), with_counter((1.0, 2.0), "bytes", "b"))
    assert note_texts(found.sections[-1].notes) == (
        "only in the baseline: a",
        "only in the candidate: b",
    )


def test_a_baseline_keeps_what_was_measured(tmp_path: Path) -> None:
    baseline = measured(story())
    save_baseline(baseline, tmp_path / "base.json")
    again = load_baseline(tmp_path / "base.json")
    assert again is not None
    assert again.measures.equals(baseline.measures)
    rows = causes_of(compare_runs(again, measured(story(140))))
    assert rows["idle: host"]["change"] == 100 * US


def test_a_baseline_of_an_older_version_says_what_it_lacks() -> None:
    baseline = measured(story())
    (section,) = compare_runs(replace(baseline, measures=baseline.measures.clear()), baseline).sections
    assert section.table.is_empty()
    assert "not in the baseline" in note_texts(section.notes)[0]


TIMES = st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True).map(sorted)


@given(TIMES, st.data())
def test_counters_are_as_a_slow_loop_says(times: list[int], data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(-5, 9), min_size=len(times), max_size=len(times)))
    low = data.draw(st.integers(0, 60))
    high = low + data.draw(st.integers(1, 20))
    held = [_at(times, values, time) for time in range(low, high)]
    known = [value for value in held if value is not None]
    arrays = np.array(times), np.array(values, np.float64), np.array([low]), np.array([high])
    peak, level = _interval_peaks(*arrays)[0], _interval_averages(*arrays)[0]
    if known:
        assert peak == max(known)
        assert level == pytest.approx(sum(known) / len(known))
    else:
        assert np.isnan(peak)
        assert np.isnan(level)


def _at(times: list[int], values: list[int], time: int) -> int | None:
    before = [value for at, value in zip(times, values, strict=True) if at <= time]
    return before[-1] if before else None


def test_values_that_no_frame_holds_are_cut() -> None:
    most = 2**63 - 1024
    table = rows_to_table({"peak": [1e300, -1e300, float("nan"), 7.4]}, (Column("peak", "bytes", ""),))
    assert table["peak"].to_list() == [most, -most, None, 7]
