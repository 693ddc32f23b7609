"""Findings: for each rule a run that it finds, and one like it that it leaves alone."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from building import US, Building, Lane, listing, stream, thread
from jobs import Rank, job
from samples import sample
from short import first, some
from tracehound.analysis import Result, get_analysis, run_analysis
from tracehound.analysis.findings import ANALYSIS, RULES
from tracehound.analysis.findings.advice import _PYTORCH, _PYTORCH_XLA, _XLA
from tracehound.analysis.findings.idle_in_steps import main_host_activity
from tracehound.analysis.hosts.thread_activity import ALL_ACTIVITIES, NOTHING_RECORDED
from tracehound.draw.notes import note_texts
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.file_facts import FileFacts
from tracehound.model.notes import Note
from tracehound.model.trace import Trace, Window
from tracehound.model.units import format_duration
from tracehound.store import load_trace, merge_file_frames, open_trace_files

MAIN = thread("python (1)")
V100 = {"name": "Tesla V100", "computeMajor": 7, "warpSize": 32, "totalGlobalMem": 1000}


def run_findings(trace: Trace) -> Result:
    return run_analysis(ANALYSIS, trace)


def findings_by_title(trace: Trace) -> dict[str, dict[str, Any]]:
    """The findings by what they say."""
    return {row["finding"]: row for row in run_findings(trace).table.rows(named=True)}


def steps(count: int = 4, length: float = 100, busy: float = 96) -> Building:
    """Steps of a length in us, on one stream that is busy for the first part of each."""
    b = Building(facts=listing(V100))
    for number in range(count):
        start = number * length
        b.event(MAIN, f"ProfilerStep#{number}", start, start + length, "step", step=number)
        work(b, "elementwise_kernel", start, start + busy)
    return b


def work(b: Building, name: str, start: float, end: float, kind: str = "kernel", lane: int = 7) -> None:
    """Work that was launched as it began."""
    number = len(b.rows)
    b.event(MAIN, "cudaLaunchKernel", start, start, "runtime", correlation=number)
    b.event(stream(0, lane), name, start, end, kind, correlation=number)


def test_a_busy_run_has_no_finding() -> None:
    result = run_findings(steps(busy=99).trace())
    assert result.table.is_empty()
    assert note_texts(result.notes) == (
        f"none of {len(RULES)} rules finds anything; report findings --explain says what they look for",
    )


@pytest.mark.thorough
def test_a_loader_of_another_name_is_found_too() -> None:
    b = steps(busy=60)
    for number in range(4):
        b.event(MAIN, "wait_for_batch", number * 100 + 60, number * 100 + 99, "annotation")
    (row,) = (row for name, row in findings_by_title(b.trace()).items() if "data loader" in name)
    assert row["cost"] == 39 * US


def test_the_data_loader_is_found_with_its_cost_per_step() -> None:
    b = steps(busy=80)
    for number in range(4):
        b.event(MAIN, "enumerate(DataLoader)#X.__next__", number * 100 + 82, number * 100 + 98, "annotation")
    row = findings_by_title(b.trace())["steps wait for the data loader"]
    assert row["cost"] == 16 * US
    assert row["share"] == 0.16
    assert (row["start"], row["duration"]) == (0, 100 * US)
    assert "16.00 us of an average step, 16.00 % (at most 16.00 us)" in row["evidence"]
    assert "num_workers" in row["advice"]


@pytest.mark.thorough
def test_a_loader_that_is_hidden_costs_nothing() -> None:
    b = steps(busy=99)
    for number in range(4):
        b.event(MAIN, "enumerate(DataLoader)#X.__next__", number * 100 + 10, number * 100 + 60, "annotation")
    assert findings_by_title(b.trace()) == {}


@pytest.mark.parametrize(
    ("kind", "name"), first(1, [("collective", "ncclDevKernel_AllReduce"), ("copy", "Memcpy DtoD")])
)
def test_what_is_exposed_is_found_and_what_is_hidden_is_not(kind: str, name: str) -> None:
    what = {"collective": "communication is", "copy": "copies are"}[kind] + " not hidden behind computation"
    exposed, hidden = steps(busy=80), steps(busy=99)
    for number in range(4):
        work(exposed, name, number * 100 + 80, number * 100 + 99, kind, 8)
        work(hidden, name, number * 100 + 20, number * 100 + 39, kind, 8)
    assert findings_by_title(hidden.trace()) == {}
    row = findings_by_title(exposed.trace())[what]
    assert (row["cost"], row["start"], row["duration"], row["rank"]) == (19 * US, 80 * US, 19 * US, 0)
    assert exposed.trace().event(row["event"])["name"] == name


@pytest.mark.parametrize("world", some([1, 4], [4]))
def test_communication_may_be_waiting_for_ranks_that_nobody_opened(world: int) -> None:
    b = steps(busy=80)
    b.facts = FileFacts(world_size=world)
    for number in range(4):
        work(b, "ncclDevKernel_AllReduce", number * 100 + 80, number * 100 + 99, "collective", 8)
    evidence = findings_by_title(b.trace())["communication is not hidden behind computation"]["evidence"]
    assert evidence.endswith("; part of it may be waiting for ranks that are not in this trace") is (world == 4)


@pytest.mark.thorough
def test_communication_beside_copies_is_communication_alone_as_in_the_steps() -> None:
    b = steps(busy=80)
    for number in range(4):
        work(b, "ncclDevKernel_AllReduce", number * 100 + 80, number * 100 + 100, "collective", 8)
        work(b, "Memcpy DtoD", number * 100 + 90, number * 100 + 98, "copy", 9)
    rows = findings_by_title(b.trace())
    assert rows["communication is not hidden behind computation"]["cost"] == 20 * US
    assert not [what for what in rows if what.startswith("copies")]
    assert set(run_analysis(get_analysis("steps"), b.trace()).table["communication"]) == {20 * US}


def test_idle_time_is_told_by_its_cause_and_not_twice() -> None:
    """The cost of a cause is the sum of its gaps: 3 of 40 us in 4 steps. Time after the last work is no gap."""
    b = steps(busy=60)
    for number in range(4):
        b.event(MAIN, "cudaStreamSynchronize", number * 100 + 60, number * 100 + 99, "sync")
    rows = findings_by_title(b.trace())
    assert list(rows) == [
        "the device runs dry while the host waits for it",
        "the device has nothing to do after its last work",
    ]
    row = rows["the device runs dry while the host waits for it"]
    assert (row["duration"], row["cost"], row["share"]) == (40 * US, 30 * US, pytest.approx(0.3))
    assert "3 pauses in steps, the longest 40.00 us on rank 0" in row["evidence"]
    last = rows["the device has nothing to do after its last work"]
    assert (last["start"], last["duration"], last["cost"]) == (360 * US, 40 * US, 10 * US)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(100, {"running operators": 60}), (10, {NOTHING_RECORDED: 9})], "the host was mostly running operators"),
        ([(50, {"compiling": 25}), (90, {"running Python": 45})], "the host was running Python in 32.14 % of that"),
        ([(100, {"running operators": 50}), (100, {NOTHING_RECORDED: 60})],
         "nothing is recorded of what the host did in 30.00 % of that"),
        ([(100, {NOTHING_RECORDED: 55, "running operators": 45}),
          (100, {NOTHING_RECORDED: 40, "running operators": 60})],
         "the host was mostly running operators"),
        ([(100, {NOTHING_RECORDED: 100}), (20, {})], ""),
    ],
)  # fmt: skip
def test_mostly_is_said_of_half_of_the_time_of_all_rows(rows: list[tuple[int, dict[str, int]]], said: str) -> None:
    pauses = pl.DataFrame([{**dict.fromkeys(ALL_ACTIVITIES, 0), "idle": idle, **spent} for idle, spent in rows])
    assert main_host_activity(pauses)[1] == said


@pytest.mark.thorough
def test_what_hosts_did_is_summed_over_ranks_and_not_what_each_did_most() -> None:
    """Each of two ranks pauses for 40 us of 100; one host runs operators for 15 us of that, the other for 26."""
    parts = []
    for rank, operators in enumerate((15, 26)):
        b = Building(claim=rank)
        b.event(MAIN, "ProfilerStep#0", 0, 100, "step", step=0)
        work(b, "k", 0, 50)
        b.event(MAIN, "aten::relu", 50, 50 + operators, "op")
        work(b, "k", 90, 100)
        parts.append(b.part())
    (row,) = findings_by_title(merge_file_frames("two", parts)).values()
    assert row["evidence"].endswith("the host was mostly running operators")


def test_what_a_step_takes_until_its_first_work_is_no_part_of_its_pauses() -> None:
    """The first of two steps runs operators for 60 us before anything reaches the device, which pauses for 5 us."""
    b = Building()
    for number, (start, begun) in enumerate([(0, 60), (100, 100)]):
        b.event(MAIN, f"ProfilerStep#{number}", start, start + 100, "step", step=number)
        work(b, "first", begun, start + 80)
        work(b, "second", start + 85, start + 100)
    b.event(MAIN, "aten::relu", 1, 59, "op")
    rows = findings_by_title(b.trace())
    assert list(rows) == [
        "the device waits for its first work",
        "the device runs dry: the host launches its work too late",
    ]
    row, pause = rows.values()
    assert (row["start"], row["duration"], row["cost"], row["share"]) == (0, 60 * US, 30 * US, 0.3)
    assert b.trace().event(row["event"])["name"] == "first"
    assert "all that is before the first work in steps, the longest 60.00 us on rank 0" in row["evidence"]
    assert row["evidence"].endswith("the host was mostly running operators")
    assert (pause["cost"], pause["share"]) == (5 * US, 0.05)


@pytest.mark.parametrize(
    ("waits", "said", "advised"),
    first(
        1,
        [
            ((0,), "; 100.00 % of that lies before the second step", "warm up"),
            ((0, 1, 2), "allocating memory", "empty_cache"),
        ],
    ),
)
def test_memory_that_is_allocated_in_the_first_step_alone_asks_for_a_warm_up(
    waits: tuple[int, ...], said: str, advised: str
) -> None:
    b = steps(busy=50)
    for number in range(4):
        if number in waits:
            b.event(MAIN, "cudaMalloc", number * 100 + 51, number * 100 + 79, "runtime")
        work(b, "elementwise_kernel", number * 100 + (80 if number in waits else 50), number * 100 + 100)
    (row,) = findings_by_title(b.trace()).values()
    assert row["evidence"].endswith(said)
    assert advised in row["advice"]


@pytest.mark.parametrize(("name", "advised"), first(1, [("fft", "warm up"), ("gemm", "empty_cache")]))
def test_without_steps_memory_for_work_that_is_new_asks_for_a_warm_up(name: str, advised: str) -> None:
    b = Building()
    work(b, "gemm", 0, 50)
    b.event(MAIN, "cudaMalloc", 51, 79, "runtime")
    work(b, name, 80, 100)
    (row,) = findings_by_title(b.trace()).values()
    assert advised in row["advice"]


@pytest.mark.thorough
def test_every_share_says_what_it_is_of(samples: Path) -> None:
    rows = run_findings(load_trace(open_trace_files([samples / "torch_xla_remote"]))).table
    bases = dict(rows.select("finding", "share_of").iter_rows())
    assert bases.pop("time passes between steps: the run may be input-bound") == "step to step"
    assert set(bases.values()) == {"step"}
    without = Building()
    without.event(stream(), "k", 0, 10)
    without.event(stream(), "k", 90, 100)
    assert set(run_findings(without.trace()).table["share_of"]) == {"run"}
    assert set(run_analysis(ANALYSIS, without.trace(), Window(0, 95 * US)).table["share_of"]) == {"window"}


@pytest.mark.thorough
def test_a_first_work_that_waits_for_the_loader_is_told_once() -> None:
    b = Building()
    b.event(MAIN, "ProfilerStep#0", 0, 100, "step", step=0)
    b.event(MAIN, "enumerate(DataLoader)#X.__next__", 2, 58, "annotation")
    work(b, "first", 60, 100)
    assert list(findings_by_title(b.trace())) == ["steps wait for the data loader"]


def test_first_work_that_was_launched_and_does_not_begin_is_no_late_launch() -> None:
    """It is launched 5 us into the step and runs at 4 ms: what it waited for is not recorded. Launched later it is."""

    def told_of(launched: float) -> list[str]:
        b = Building()
        b.event(MAIN, "ProfilerStep#0", 0, 5000, "step", step=0)
        b.event(MAIN, "cudaLaunchKernel", launched, launched + 2, "runtime", correlation=1)
        b.event(stream(), "k", 4000, 5000, correlation=1)
        return list(findings_by_title(b.trace()))

    queued = "the first work was launched in time and does not begin: what it waits for is not recorded"
    assert told_of(5) == [queued]
    assert told_of(3900) == ["the device waits for its first work"]


def test_work_that_was_launched_in_time_and_does_not_begin_is_told_with_what_the_host_did() -> None:
    """Twice 40 us in a step pass although the launch was early; the host waits in a copy meanwhile."""
    b = steps(busy=50)
    for number in range(4):
        start = number * 100
        b.event(MAIN, "cudaLaunchKernel", start + 49, start + 50, "runtime", correlation=900 + number)
        b.event(stream(), "late", start + 90, start + 100, correlation=900 + number)
        b.event(MAIN, "hipMemcpyWithStream", start + 51, start + 95, "runtime")
    ((what, row),) = findings_by_title(b.trace()).items()
    assert what == "work was launched in time and does not begin: what it waits for is not recorded"
    assert (row["cost"], row["share"], row["duration"]) == (40 * US, pytest.approx(0.4), 40 * US)
    assert row["evidence"].endswith("the host was mostly blocked on a copy")
    assert b.trace().event(row["event"])["name"] == "late"


def test_idle_time_without_launches_says_what_to_record() -> None:
    b = Building()
    for number in range(4):
        b.event(stream(), "k", number * 100, number * 100 + 80)
    ((what, row),) = findings_by_title(b.trace()).items()
    assert what == "the device idles, and no launch is recorded that says why"
    assert row["cost"] == 60 * US
    assert row["evidence"].endswith("nothing is recorded of what the host did meanwhile")


@pytest.mark.parametrize(
    ("operators", "advised"), first(1, [(0, "record what the host does"), (25, "launch less and earlier")])
)
def test_why_launches_are_late_is_not_supposed_where_nothing_is_recorded_of_the_host(
    operators: float, advised: str
) -> None:
    b = steps(busy=60)
    for number in range(3 if operators else 0):
        b.event(MAIN, "aten::relu", number * 100 + 60, number * 100 + 60 + operators, "op")
    row = findings_by_title(b.trace())["the device runs dry: the host launches its work too late"]
    assert row["advice"].startswith(advised)
    assert row["evidence"].endswith(
        "the host was mostly running operators" if operators else "nothing is recorded of what the host did meanwhile"
    )


def test_on_real_files_what_is_not_recorded_and_a_first_launch_that_loads_code_are_told(shared: Path) -> None:
    """On the first a kernel waits for what ran before the recording; on the second a launch takes 6.5 ms."""
    rows = findings_by_title(load_trace(open_trace_files([shared / "traces" / "kineto" / "graphs_sglang_decode"])))
    row = rows["work was launched in time and does not begin: what it waits for is not recorded"]
    assert row["share"] == pytest.approx(0.978, abs=0.001)
    assert row["evidence"].endswith("the host was mostly blocked on a copy")
    rows = findings_by_title(load_trace(open_trace_files([shared / "traces" / "kineto" / "rocm_mi250_tiny"])))
    row = rows["the device runs dry: the host launches its work too late"]
    assert row["share"] == pytest.approx(8.763 / 9.288, abs=0.001)
    assert row["evidence"].endswith("the host was mostly launching work")


def replays(pause: float, rest: float) -> Building:
    """Five replays of a graph of ten kernels of 40 us, so long apart, in steps that rest so long before each."""
    b = steps(0)
    length = 10 * (40 + pause)
    for step in range(5):
        start = step * (length + rest)
        b.event(thread(), f"ProfilerStep#{step}", start, start + length + rest, "annotation", step=step)
        b.event(thread(), "cudaGraphLaunch", start + rest - 5, start + rest - 1, "runtime", correlation=step)
        for node in range(10):
            begin = start + rest + node * (40 + pause)
            b.event(stream(), f"k{node}", begin, begin + 40, correlation=step)
    return b


def test_pauses_within_a_replay_are_the_graphs_own() -> None:
    for pause, what in ((6, "between kernels that follow"), (60, "between kernels of a graph")):
        (finding,) = [row for name, row in findings_by_title(replays(pause, 10).trace()).items() if what in name]
        assert "100.00 % of that lies within replays of graphs" in finding["evidence"]
        assert "more graphs do not help" in finding["advice"]
        assert "other jobs" not in finding["advice"]


def test_a_host_that_replays_graphs_too_late_is_not_advised_to_use_graphs() -> None:
    finding = findings_by_title(replays(0, 200).trace())["the device runs dry: the host launches its work too late"]
    assert "100.00 % of that lies before replays of graphs" in finding["evidence"]
    assert "in graphs already" in finding["advice"]


@pytest.mark.thorough
def test_of_steps_that_a_window_cuts_no_pause_counts() -> None:
    """Of three steps of 100 us the second lies in the window; each is idle for its last 40 us."""
    b = steps(busy=60)
    table = run_analysis(ANALYSIS, b.trace(), Window(50 * US, 250 * US)).table.filter(
        pl.col("finding").str.contains("runs dry")
    )
    assert table["cost"].to_list() == [40 * US]
    assert table["evidence"][0].startswith("40.00 % of the steps' time; 1 pause in steps")


def test_what_devices_wait_for_between_steps_is_no_share_of_a_step() -> None:
    """In steps they wait for the host to launch, for 30 us of each; between steps for the data loader, for longer."""
    b = Building(facts=listing(V100))
    for number in range(4):
        start = number * 300
        b.event(MAIN, f"ProfilerStep#{number}", start, start + 100, "step", step=number)
        work(b, "elementwise_kernel", start, start + 40)
        work(b, "elementwise_kernel", start + 70, start + 100)
        b.event(MAIN, "enumerate(DataLoader)#X.__next__", start + 100, start + 299, "annotation")
    row, outside = findings_by_title(b.trace()).values()
    assert row["finding"] == "the device runs dry: the host launches its work too late"
    assert (row["cost"], row["share"]) == (30 * US, pytest.approx(0.3))
    assert "4 pauses in steps, the longest 30.00 us on rank 0" in row["evidence"]
    assert outside["evidence"].startswith("66.64 % of 1.199 ms: 600.0 us between steps, 199.0 us after the last whole")
    assert (outside["cost"], outside["advice"]) == (None, _PYTORCH["data loading"])


@pytest.mark.thorough
def test_of_a_pause_that_reaches_into_the_window_the_part_inside_counts() -> None:
    """Work ends at 100 us and goes on at 400, which was launched at 399: from 200 us on half of the window is idle."""
    b = Building()
    work(b, "elementwise_kernel", 0, 100)
    b.event(MAIN, "cudaLaunchKernel", 399, 400, "runtime", correlation=7)
    b.event(stream(), "elementwise_kernel", 400, 600, correlation=7)
    rows = run_analysis(ANALYSIS, b.trace(), Window(200 * US, 600 * US)).table.rows(named=True)
    (row,) = (row for row in rows if row["finding"].startswith("the device runs dry"))
    assert (row["cost"], row["share"], row["start"], row["duration"]) == (200 * US, 0.5, 200 * US, 200 * US)


def test_a_window_within_a_step_is_told_of_itself_and_not_of_the_step() -> None:
    """Of a step of 100 us, which is idle for its last 40, the window sees 10 us of work and 30 us of idleness."""
    b = steps(busy=60)
    for number in range(4):
        b.event(MAIN, "cudaStreamSynchronize", number * 100 + 60, number * 100 + 99, "sync")
    result = run_analysis(ANALYSIS, b.trace(), Window(150 * US, 190 * US))
    rows = {row["finding"]: row for row in result.table.rows(named=True)}
    row = rows["the device runs dry while the host waits for it"]
    assert (row["cost"], row["share"]) == (30 * US, 0.75)
    assert row["evidence"].startswith("75.00 % of the devices' time; 1 pause in the window, the longest 30.00 us")
    assert note_texts(result.notes) == ("no whole step lies in the window: costs are of the window",)


def test_in_a_window_the_steps_count_that_lie_in_it_whole() -> None:
    b = Building()
    for number, (start, end) in enumerate([(0, 100), (100, 300), (300, 400)]):
        b.event(MAIN, f"ProfilerStep#{number}", start, end, "step", step=number)
        b.event(MAIN, "enumerate(DataLoader)#X.__next__", end - 20, end, "annotation")
        work(b, "k", start, end - 20)
    for window, step, share in (((50, 320), 200, 0.1), ((0, 300), 150, 20 / 150)):
        result = run_analysis(ANALYSIS, b.trace(), Window(window[0] * US, window[1] * US))
        rows = {row["finding"]: row for row in result.table.rows(named=True)}
        assert rows["steps wait for the data loader"]["cost"] == 20 * US
        assert rows["steps wait for the data loader"]["share"] == pytest.approx(share)
        assert note_texts(result.notes)[0].startswith(f"an average step takes {step}.0 us")


IDLE = "devices are idle for more than half of the time"


def test_idleness_that_other_findings_explain_is_not_told_twice() -> None:
    rows = findings_by_title(steps(busy=20).trace())
    assert list(rows) == [
        "the device runs dry: the host launches its work too late",
        "the device has nothing to do after its last work",
    ]
    assert sum(row["cost"] for row in rows.values()) == 80 * US


def test_idleness_of_many_small_causes_has_a_cost_and_a_place() -> None:
    """Of each step of 100 us 52 are idle on one of 26 ranks: 2 % of the time of all, too little for a finding."""
    b = Building()
    for number in range(4):
        start = number * 100
        b.event(MAIN, f"ProfilerStep#{number}", start, start + 100, "step", step=number)
        for rank in range(26):
            b.event(stream(rank), "k", start, start + (48 if rank == 3 else 100))
    ((what, row),) = findings_by_title(b.trace()).items()
    assert what == IDLE
    assert row["cost"] == 2 * US
    assert row["share"] == pytest.approx(0.02)
    assert (row["rank"], row["start"], row["duration"]) == (3, 48 * US, 52 * US)
    assert row["evidence"].startswith("on rank 3 (busy 48.00 %); on average 2.000 us of an average step")


@pytest.mark.thorough
def test_steps_of_no_length_hold_no_time() -> None:
    """All that the device idles is outside of them."""
    b = Building()
    for number, start in enumerate((0, 50, 900)):
        b.event(MAIN, f"ProfilerStep#{number}", start, start, "step", step=number)
    b.event(MAIN, "aten::mm", 0, 1000, "op")
    work(b, "gemm", 600, 620)
    (finding,) = findings_by_title(b.trace()).values()
    assert finding["share"] == pytest.approx(0.98)


@pytest.mark.thorough
def test_a_rank_of_whose_device_nothing_was_recorded_idles_for_nobody() -> None:
    """Its steps are known, and not what its device did in them."""
    silent, heard = Building(path=Path("rank1.json"), claim=1), steps(busy=20)
    heard.path, heard.claim = Path("rank0.json"), 0
    for number in range(4):
        silent.event(MAIN, f"ProfilerStep#{number}", 1000 * number, 1000 * number + 1000, "step", step=number)
    alone, both = (
        findings_by_title(merge_file_frames("job", [built.part() for built in job]))
        for job in ([heard], [heard, silent])
    )
    assert list(both) == list(alone)
    assert [row["cost"] for row in both.values()] == [row["cost"] for row in alone.values()]


def test_a_slow_step_is_found_with_what_it_was_slow_in() -> None:
    b = Building()
    for number, (start, end) in enumerate([(0, 100), (100, 200), (200, 300), (300, 480), (480, 580)]):
        b.event(MAIN, f"ProfilerStep#{number}", start, end, "step", step=number)
        work(b, "k", start, end - 1)
    row = findings_by_title(b.trace())["some steps take much longer than the others"]
    assert row["start"] == 300 * US
    assert "1 of 5; step 3 on rank 0 takes 180.0 us against 100.0 us, most of it in kernel" in row["evidence"]
    assert row["cost"] == 80 * US // 5


def test_tensor_cores_are_missed_where_the_device_has_them() -> None:
    b = steps(busy=50)
    for number in range(4):
        work(b, "sgemm_128x64_nn", number * 100 + 50, number * 100 + 99)
    row = findings_by_title(b.trace())["products and convolutions do not use tensor cores"]
    assert (row["start"], row["duration"], row["rank"]) == (50 * US, 49 * US, 0)
    assert (row["cost"], row["share"]) == (24.5 * US, 0.245)
    assert "they take 49.49 % of the time of all kernels in steps, 0.00 % of that on tensor cores" in row["evidence"]
    b.facts = listing({**V100, "computeMajor": 6})
    assert "products and convolutions do not use tensor cores" not in findings_by_title(b.trace())
    used = steps(busy=50)
    for number in range(4):
        work(used, "volta_fp16_s884gemm_fp16_128x64", number * 100 + 50, number * 100 + 99)
    assert "products and convolutions do not use tensor cores" not in findings_by_title(used.trace())


@pytest.mark.thorough
def test_products_outside_the_steps_cost_none_of_them() -> None:
    """One of 1 ms runs before the loop: of the products in steps, 10 us of 100, the cost is half."""
    b = steps(busy=89)
    work(b, "sgemm_128x64_nn", -1000, 0)
    what = "products and convolutions do not use tensor cores"
    assert what not in findings_by_title(b.trace())
    for number in range(4):
        work(b, "sgemm_32x32_nn", number * 100 + 89, number * 100 + 99)
    row = findings_by_title(b.trace())[what]
    assert (row["cost"], row["share"], row["start"]) == (5 * US, 0.05, 1089 * US)
    assert row["evidence"].endswith("most in sgemm_32x32_nn")


@pytest.mark.parametrize(
    ("name", "finds"),
    some(
        [
            ("std::enable_if<true, void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, float, 7>", False),
            ("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>", False),
            ("void gemv2N_kernel<int, int, float2, float2, float2, float2, 128, 2, 4, 4, 1, false>", False),
            ("void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>>>", False),
            ("void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float>", False),
            ("void gemmSN_NN_kernel<float, 128, 2, 4, 8, 3, 4, false, cublasGemvTensorStridedBatched<float>>", True),
        ],
        [
            ("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>", False),
        ],
    ),
)
def test_products_with_a_vector_need_no_tensor_cores(name: str, finds: bool) -> None:  # noqa: FBT001
    b = steps(busy=50)
    for number in range(4):
        work(b, name, number * 100 + 50, number * 100 + 99)
    assert ("products and convolutions do not use tensor cores" in findings_by_title(b.trace())) == finds
    assert run_analysis(get_analysis("kernels"), b.trace()).table.filter(name=name)["class"].item() == "gemm"


@pytest.mark.thorough
def test_products_of_a_run_without_steps_cost_half_of_what_they_take_in_it() -> None:
    b = Building(facts=listing(V100))
    work(b, "elementwise_kernel", 0, 60)
    work(b, "sgemm_128x64_nn", 60, 100)
    row = findings_by_title(b.trace())["products and convolutions do not use tensor cores"]
    assert (row["cost"], row["share"], row["start"]) == (20 * US, 0.2, 60 * US)
    half = run_analysis(ANALYSIS, b.trace(), Window(40 * US, 80 * US)).table.row(0, named=True)
    assert (half["finding"], half["cost"], half["share"]) == (row["finding"], 10 * US, 0.25)


@pytest.mark.parametrize(("peak", "finds"), [(950, True), (900, False)])
def test_memory_that_is_nearly_full_is_found_at_its_peak(peak: int, finds: bool) -> None:  # noqa: FBT001
    part = steps(busy=99).part()
    rows = [
        {"record": 0, "time": 5 * US, "device": 0, "bytes": peak, "allocated": peak, "reserved": peak},
        {"record": 1, "time": 6 * US, "device": -1, "bytes": 9999, "allocated": 9999},
    ]
    held = pl.DataFrame(rows, schema=FACET_SCHEMAS["allocated"]).lazy()
    trace = merge_file_frames("t", [replace(part, facets={"allocated": held})])
    row = findings_by_title(trace).get("the device's memory is nearly full")
    assert (row is not None) == finds
    if row:
        assert row["start"] == 5 * US
        assert "950 B of 1000 B" in row["evidence"]


@pytest.mark.thorough
def test_devices_that_do_no_work_have_no_say() -> None:
    """Beside the device that works another is listed, whose memory is smaller, or which has tensor cores."""
    b = steps(busy=50)
    for number in range(4):
        work(b, "sgemm_128x64_nn", number * 100 + 50, number * 100 + 99)
    told_of = {"record": 0, "time": 5 * US, "device": 0, "bytes": 500, "allocated": 500}
    b.facets = {"allocated": [told_of]}
    mine, other = ({**V100, "id": number, "totalGlobalMem": size} for number, size in ((0, 1000), (1, 400)))
    tensor_cores, full = "products and convolutions do not use tensor cores", "the device's memory is nearly full"
    b.facts = listing(mine, other)
    assert (tensor_cores in findings_by_title(b.trace()), full in findings_by_title(b.trace())) == (True, False)
    b.facts = listing({**mine, "computeMajor": 6, "totalGlobalMem": 510}, other)
    rows = findings_by_title(b.trace())
    assert tensor_cores not in rows
    assert "500 B of 510 B" in rows[full]["evidence"]


def test_pageable_copies_are_found() -> None:
    b = steps(busy=90)
    for number in range(4):
        work(b, "Memcpy HtoD (Pageable -> Device)", number * 100 + 91, number * 100 + 94, "copy")
        work(b, "k", number * 100 + 94, number * 100 + 99)
    row = findings_by_title(b.trace())["copies go through pageable memory of the host"]
    assert (row["cost"], row["share"]) == (3 * US, 0.03)
    assert row["evidence"].startswith("they take 3.000 us of an average step, 3.00 %")
    assert (row["start"], row["duration"], row["rank"]) == (91 * US, 3 * US, 0)


@pytest.mark.thorough
def test_pageable_copies_of_no_step_cost_steps_nothing() -> None:
    b = Building()
    work(b, "Memcpy HtoD (Pageable -> Device)", 0, 50, "copy")
    for number in range(4):
        b.event(MAIN, f"ProfilerStep#{number}", 60 + 100 * number, 160 + 100 * number, "step", step=number)
        work(b, "k", 60 + 100 * number, 160 + 100 * number)
    assert "copies go through pageable memory of the host" not in findings_by_title(b.trace())


def test_what_is_hidden_is_told_of_the_run_and_what_is_not_of_the_steps() -> None:
    b = steps(busy=60)
    for number in range(4):
        work(b, "ncclDevKernel_AllReduce", number * 100 + 50, number * 100 + 80, "collective", 8)
    work(b, "ncclDevKernel_AllReduce", 400, 500, "collective", 8)
    evidence = findings_by_title(b.trace())["communication is not hidden behind computation"]["evidence"]
    assert evidence.startswith("20.00 % of the steps' time is communication alone, most on rank 0: 20.00 %;")
    assert evidence.endswith("; 8.00 % of the devices' time in the run is hidden communication")


def test_what_a_window_cuts_costs_no_more_than_the_window() -> None:
    b = Building(facts=listing(V100))
    work(b, "k", 0, 10)
    work(b, "Memcpy DtoH (Pageable -> Device)", 20, 80, "copy")
    b.event(MAIN, "compile f", 5, 95, "compile")
    work(b, "k", 90, 100)
    rows = {
        row["finding"]: row
        for row in run_analysis(ANALYSIS, b.trace(), Window(30 * US, 60 * US)).table.rows(named=True)
    }
    for said in ("copies go through pageable memory of the host", "programs are compiled during the run"):
        assert (rows[said]["cost"], rows[said]["share"]) == (30 * US, 1.0)


def test_data_parallel_is_found_where_it_drives_several_devices() -> None:
    b = steps(busy=99)
    b.event(MAIN, "DataParallel.forward", 1, 5, "annotation")
    assert "DataParallel drives the devices" not in findings_by_title(b.trace())
    for number in range(4):
        b.event(stream(1), "k", number * 100, number * 100 + 99)
    b.event(MAIN, "DataParallel.forward", 101, 107, "annotation")
    row = findings_by_title(b.trace())["DataParallel drives the devices"]
    assert row["evidence"] == "2 calls of its forward, 2 devices at work"
    assert (row["rank"], row["start"], row["duration"]) == (0, 101 * US, 6 * US), "the longest of them"
    assert row["event"] is not None


def test_another_backend_than_nccl_is_found() -> None:
    b = steps(busy=99)
    b.event(MAIN, "DistributedDataParallel.forward", 1, 5, "annotation")
    row = findings_by_title(b.trace())["DistributedDataParallel runs without NCCL"]
    assert (row["rank"], row["start"], row["duration"]) == (0, 1 * US, 4 * US)
    b.event(MAIN, "nccl:all_reduce", 6, 9, "annotation")
    assert "DistributedDataParallel runs without NCCL" not in findings_by_title(b.trace())


def test_compiling_in_the_run_is_found_with_the_longest() -> None:
    b = steps(busy=99)
    b.event(MAIN, "compile f", 10, 15, "compile")
    assert "programs are compiled during the run" not in findings_by_title(b.trace())
    b.event(MAIN, "compile g", 110, 140, "compile")
    b.event(MAIN, "inside g", 111, 139, "compile")
    row = findings_by_title(b.trace())["programs are compiled during the run"]
    assert "2 times; something was being compiled for 35.00 us" in row["evidence"]
    assert b.trace().event(row["event"])["name"] == "compile g"
    assert (row["start"], row["duration"]) == (110 * US, 30 * US)


@pytest.mark.thorough
def test_compiling_is_when_any_thread_compiles() -> None:
    """Two threads compile for 9 of 400 us each, at once for 2 of them: 4 % of the time."""
    b = steps(busy=99)
    b.event(MAIN, "compile f", 10, 19, "compile")
    assert "programs are compiled during the run" not in findings_by_title(b.trace())
    b.event(thread("pool (2)"), "compile g", 17, 26, "compile")
    row = findings_by_title(b.trace())["programs are compiled during the run"]
    assert "2 times; something was being compiled for 16.00 us, 4.0" in row["evidence"]
    assert row["cost"] == 4 * US


def test_rules_say_all_that_they_ask_for() -> None:
    told = {rule.name: rule.condition for rule in RULES}
    assert "4 of each rank" in told["slow steps"]
    assert "any thread of a host compiles" in told["compiling"]


@pytest.mark.thorough
def test_the_place_of_communication_is_on_the_rank_of_its_longest_event() -> None:
    """Rank 0 communicates most, 2 x 30 us of 100; the longest collective, of 40 us, is on rank 1."""
    b = Building()
    for rank, lengths in ((0, (30, 30)), (1, (40,))):
        b.event(stream(rank), "k", 0, 10)
        for number, length in enumerate(lengths):
            b.event(stream(rank), "ncclDevKernel_AllReduce", 10 + 40 * number, 10 + 40 * number + length, "collective")
        b.event(stream(rank), "k", 90, 100)
    row = findings_by_title(b.trace())["communication is not hidden behind computation"]
    assert (row["rank"], row["start"], row["duration"]) == (1, 10 * US, 40 * US)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["worker0.json", "worker0.json.gz"])
def test_a_file_that_was_cut_short_is_told_beside_what_is_found(samples: Path, tmp_path: Path, name: str) -> None:
    content = next((samples / "torch_stacks").glob("*.json.gz")).read_bytes()
    content = content if name.endswith(".gz") else gzip.decompress(content)
    for part, cut in ((2 / 3, True), (1, False)):
        (tmp_path / name).write_bytes(content[: int(len(content) * part)])
        notes = note_texts(run_findings(load_trace(open_trace_files([tmp_path / name]))).notes)
        said = f"{name} was cut short (health): what seems to end or to idle there may be what was lost"
        assert (notes[0] == said) == cut
        assert any("cut short" in note for note in notes) == cut


@pytest.mark.thorough
def test_idleness_of_a_rank_whose_file_was_cut_short_is_told_to_be_doubtful() -> None:
    parts = []
    for rank, notes in enumerate([(), (Note("dropped", "event_cut_off", where="byte 7"),)]):
        b = Building(name=f"rank {rank}", claim=rank, wall_ns=10**18, notes=notes, path=Path(f"rank{rank}.json"))
        b.facts = listing(V100)
        for start in (0, 90):
            work(b, "k", start, start + 10)
        work(b, "Memcpy DtoH (Pageable -> Device)", 10, 30, "copy")
        parts.append(b.part())
    cut, whole = (findings_by_title(merge_file_frames("job", some)) for some in (parts, parts[:1]))
    doubt = "; some of it may be work that was lost: the file of rank 1 was cut short"
    assert {what for what, row in cut.items() if row["evidence"].endswith(doubt)} == {DRY}
    assert len(cut) > 1
    assert not [row for row in whole.values() if "cut short" in row["evidence"]]


@pytest.mark.thorough
def test_a_run_without_steps_or_devices_says_so() -> None:
    b = Building()
    work(b, "k", 0, 10)
    work(b, "k", 90, 100)
    assert note_texts(run_findings(b.trace()).notes) == ("no steps are marked: costs are of the whole run",)
    host = Building()
    host.event(MAIN, "aten::mm", 0, 10, "op")
    assert note_texts(run_findings(host.trace()).notes) == (
        "no device activity was recorded: most rules have nothing to look at",
    )


def test_every_rule_is_in_the_definition() -> None:
    assert all(rule.condition in ANALYSIS.definition for rule in RULES)


def test_the_loader_leads_with_no_workers_and_is_gone_with_four(shared: Path) -> None:
    slow = run_findings(load_trace(open_trace_files([shared / "traces" / "kineto" / "resnet50_v100_workers0"]))).table
    assert slow["finding"][0] == "steps wait for the data loader"
    assert slow["share"][0] == pytest.approx(0.3337, abs=0.0001)
    fast = run_findings(load_trace(open_trace_files([shared / "traces" / "kineto" / "resnet50_v100_workers4"]))).table
    assert "steps wait for the data loader" not in fast["finding"].to_list()


@pytest.mark.parametrize("variant", ["legacy", "real2024", "nogpuann"])
def test_the_plugins_recommendations_are_found_on_every_variant(shared: Path, variant: str) -> None:
    """Rules 1, 4 and 5: 10 %, 15 % and 47.5 %.

    It judges each rank alone: 15 % of the steps of rank 0 are communication, 8 % of those of rank 1. Here communication
    beside copies counts, too, as in the breakdown: 12.5 % on average, where it has 11.5 %. In place of its utilization
    (rank 1 is busy for 40.6 % of the steps, rank 0 for 47.6 %) are the reasons of most idleness.
    """
    rows = findings_by_title(load_trace(open_trace_files([shared / "golden" / "two_rank" / variant])))
    assert rows["steps wait for the data loader"]["share"] == pytest.approx(0.10)
    assert rows["communication is not hidden behind computation"]["share"] == pytest.approx(0.125)
    assert IDLE not in rows
    reasons = [row["share"] for what, row in rows.items() if what.startswith("the device ")]
    assert sum(reasons) == pytest.approx(0.497, abs=0.001), "of 0.559"


def test_a_run_whose_copies_are_all_from_device_to_device_is_not_input_bound(shared: Path) -> None:
    rows = run_findings(load_trace(open_trace_files([shared / "traces" / "xla" / "jax_rocm_conv_legacy"]))).table
    assert rows["finding"].to_list() == [
        "the device runs dry: the host launches its work too late",
        "the device does nothing for most of the recording, outside of steps",
    ]


def test_a_tpu_that_waits_for_the_hosts_memory_says_so(shared: Path) -> None:
    rows = run_findings(load_trace(open_trace_files([shared / "traces" / "xla" / "tpu_v6e_x4_offload"]))).table
    assert rows["finding"][:2].to_list() == [
        "the device waits for copies from host to HBM",
        "the device waits for copies from HBM to host",
    ]
    assert rows["share"][:2].sum() == pytest.approx(0.970, abs=0.001), "83.6 % of the run, whose steps do not idle"


@pytest.mark.parametrize(
    ("capture", "who", "rank", "cause"),
    [("torch/ddp", "rank 0", 0, "aten::mm"), ("jax/multiproc", "ranks 2 and 3 of one host", 2, "$time sleep")],
)
def test_a_late_rank_is_found_with_what_made_it_late(
    shared: Path, capture: str, who: str, rank: int, cause: str
) -> None:
    rows = findings_by_title(load_trace(open_trace_files([shared / "captures" / capture])))
    row = rows[f"the other ranks wait for {who}"]
    assert "the run may be input-bound" not in rows, "what the late rank did is recorded"
    assert f"more in '{cause}'" in row["evidence"]
    assert row["rank"] == rank
    assert row["event"] is not None


@pytest.mark.thorough
def test_ranks_that_come_together_keep_nobody_waiting() -> None:
    def told_of(late: float) -> list[str]:
        b = Building()
        for number in range(3):
            for rank in (0, 1):
                start = number * 100 + (60 + late if rank else 60)
                b.event(stream(rank), "k", number * 100, start)
                b.event(stream(rank), "ncclDevKernel_AllReduce", start, number * 100 + 99, "collective")
            b.event(MAIN, f"ProfilerStep#{number}", number * 100, number * 100 + 100, "step", step=number)
        return [name for name in findings_by_title(b.trace()) if "wait for rank" in name]

    assert told_of(0) == []
    assert told_of(20) == ["the other ranks wait for rank 1"]


@pytest.mark.parametrize(
    ("mates", "who", "cost"), first(1, [((2, 3), "rank 2 waits", 75), (range(4), "the other ranks wait", 225)])
)
def test_a_late_rank_costs_what_an_average_rank_waits_for_it(
    tmp_path: Path, mates: Sequence[int], who: str, cost: int
) -> None:
    """Rank 3 is late by 300 us in every step of 1000: those of its group wait, and no others."""
    job_ = [Rank(number, 4) for number in range(4)]
    for rank, step in product(job_, range(3)):
        start, slow = 1000 * step, 300 if rank.rank == 3 else 0
        rank.step(step, start, start + 1000)
        if slow:
            rank.host("aten::slow", start + 1, start + 1 + slow)
        begin, mine = start + 100 + slow, mates if rank.rank in mates else (0, 1)
        end = start + 500 if rank.rank in mates else start + 200
        rank.kernel("gemm", begin - 50, begin - 40, begin)
        rank.collective(
            begin - 45, begin, end, Seq=step, Process_Group_Name=str(mine), Process_Group_Ranks=str([*mine])
        )
        rank.kernel("gemm", end - 20, end, start + 1000)
    rows = findings_by_title(job(tmp_path, *job_))
    row = rows[f"{who} for rank 3"]
    assert (row["cost"], row["share"]) == (cost * US, pytest.approx(cost / 1000))
    assert row["evidence"] == "for 900.0 us in 3 steps; it spends 900.0 us more in 'aten::slow'"
    communication = rows["communication is not hidden behind computation"]
    assert communication["evidence"].endswith(
        f"; up to {format_duration(row['cost'])} of it may be waiting for late ranks"
    )
    assert communication["cost"] > row["cost"]


@pytest.mark.thorough
def test_what_a_rank_computes_while_it_waits_is_no_cost_of_who_is_late(tmp_path: Path) -> None:
    """Rank 3 is late by 300 us in every step of 1000: rank 0 computes all the while, rank 1 half of it, rank 2 not."""
    job_ = [Rank(number, 4) for number in range(4)]
    for rank, step in product(job_, range(3)):
        start, slow = 1000 * step, 300 if rank.rank == 3 else 0
        rank.step(step, start, start + 1000)
        rank.kernel("gemm", start + 10, start + 40, start + 100 + slow)
        rank.collective(start + 20, start + 100 + slow, start + 500, Seq=step)
        for number in range(20 - 10 * rank.rank):  # 14 us each, and 1 us of pause between them
            rank.kernel("gemm", start + 30, start + 101 + 15 * number, start + 115 + 15 * number)
        rank.kernel("gemm", start + 40, start + 500, start + 1000)
    trace = job(tmp_path, *job_)
    assert findings_by_title(trace)["ranks 1-2 wait for rank 3"]["cost"] == (150 + 300) * US // 4
    assert run_analysis(get_analysis("stragglers"), trace).table["late"].to_list() == [300 * US] * 3


@pytest.mark.thorough
def test_ranks_of_one_host_that_are_late_at_once_cost_the_time_that_passes() -> None:
    """Both ranks of the second process are late by 40 us in every step; a rank of the first waits for each."""
    parts = []
    for host in (0, 1):
        b = Building(name=f"host {host}", wall_ns=10**18, path=Path(f"host{host}.json"))
        for number, rank in product(range(3), (0, 1)):
            start, late = 100 * number, 40 * host
            if not rank:
                b.event(MAIN, f"ProfilerStep#{number}", start, start + 100, "step", step=number)
                b.event(MAIN, "aten::slow", start + 1, start + 1 + late, "op")
            for place_, lane, kind in ((45, 7, "kernel"), (46, 20 + rank, "collective")):
                begin, correlation = start + late + 5 * rank + place_ - 40, len(b.rows)
                b.event(MAIN, "cudaLaunchKernel", begin, begin + 1, "runtime", correlation=correlation)
                times = (start + late + 20, start + late + 50) if kind == "kernel" else (start + late + 50, start + 99)
                name = {"kernel": "elementwise_kernel", "collective": "ncclDevKernel_AllReduce"}[kind]
                b.event(stream(rank, lane), name, *times, kind, correlation=correlation)
        parts.append(b.part())
    trace = merge_file_frames("job", parts)
    row = findings_by_title(trace)["the other ranks wait for ranks 2 and 3 of one host"]
    assert row["evidence"].startswith("for 120.0 us in 3 steps; their host spends 120.0 us more in")
    assert row["cost"] == 20 * US
    notes = note_texts(run_analysis(get_analysis("stragglers"), trace).notes)
    assert notes[0].startswith("ranks 2 and 3 of one host were waited for 120.0 us in 3 of 3 steps")


def warm_up(name: str, kind: str) -> Building:
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
    return b


def test_what_comes_before_the_steps_costs_none_of_them() -> None:
    assert not [name for name in findings_by_title(warm_up("prepare", "annotation").trace()) if "wait for rank" in name]
    row = findings_by_title(warm_up("backend_compile", "compile").trace())["programs are compiled during the run"]
    assert (row["cost"], row["share"]) == (None, pytest.approx(900 / 1399, abs=0.01))
    assert "all of it outside of whole steps" in row["evidence"]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", first(1, range(3)))
@pytest.mark.parametrize("name", first(2, ("torch_ddp_gloo", "torch_xla_spmd4", "jax_cpu8_b128")))
def test_nothing_costs_more_than_there_is(name: str, seed: int) -> None:
    trace = sample(name)
    (low, high), random = trace.span, np.random.default_rng(seed)
    for _ in range(4):
        start, end = np.sort(random.integers(low, high, 2)).tolist()
        rows = run_analysis(ANALYSIS, trace, Window(start, end)).table
        assert rows["share"].max() is None or rows["share"].max() <= 1, (start, end)


OPS = Lane("XLA Ops", 0, "ops", work=True)
ROW = Lane("tf_pool")


def xla_steps(busy: float, pause: float = 0) -> Building:
    """Four marked steps of 100 us of an XLA program, whose device works for the first part of each."""
    b = Building(format="xplane")
    for number in range(4):
        start = number * (100 + pause)
        b.event(MAIN, "train", start, start + 100, "step", step=number)
        b.event(OPS, "fusion.1", start, start + busy, "op", step=number)
    return b


def starts(b: Building) -> list[float]:
    return [float(str(row["start"])) / US for row in b.rows if row["kind"] == "step"]


def rest_of_steps(busy: float, lane: Lane, name: str, kind: str) -> Building:
    """Steps like these, and for the rest of each an event."""
    b = xla_steps(busy)
    for start in starts(b):
        b.event(lane, name, start + busy, start + 100, kind)
    return b


@pytest.mark.parametrize(
    ("length", "what"),
    [(4, None), (6, "the run is moderately input-bound"), (30, "the run is highly input-bound")],
)
def test_input_of_an_xla_step_is_judged_by_xprof_s_thresholds(length: float, what: str | None) -> None:
    rows = findings_by_title(
        rest_of_steps(100 - length, ROW, "PjRtComputationClient::TransferToDevice", "transfer").trace()
    )
    assert [name for name in rows if "input-bound" in name] == ([what] if what else [])
    if what:
        assert rows[what]["cost"] == length * US
        assert rows[what]["share"] == pytest.approx(length / 100)
        assert f"{length:.2f}"[:4] in rows[what]["evidence"]
        assert (rows[what]["start"], rows[what]["duration"]) == (0, 100 * US)


@pytest.mark.thorough
def test_what_loads_data_for_an_xla_step_is_told_once() -> None:
    rows = findings_by_title(rest_of_steps(70, ROW, "IteratorGetNext", "runtime").trace())
    assert rows["the run is highly input-bound"]["cost"] == 30 * US
    assert "steps wait for the data loader" not in rows


def test_output_of_an_xla_step_is_judged_alike() -> None:
    b = rest_of_steps(75, MAIN, "PjRtComputationClient::TransferFromDevice", "transfer")
    assert findings_by_title(b.trace())["the run is highly output-bound"]["cost"] == 25 * US


def test_a_host_that_traces_is_told_where_launches_are_not_recorded() -> None:
    row = findings_by_title(rest_of_steps(50, MAIN, "StepMarker", "runtime").trace())["the device waits for the host"]
    assert row["cost"] == 50 * US
    assert "mostly tracing the next step: 50.00 us of 100.0 us, 50.00 % of 4 whole steps" in row["evidence"]


OF_JAX = re.compile(r"jax|\blax\b|\bjit\b|block_until_ready|NumPy|copy_to_host|flax|static arguments")
OF_TORCH = re.compile(r"torch|xm\.|xp\.|\.item\(\)|MpDeviceLoader")


@pytest.mark.thorough
def test_users_of_jax_and_of_pytorch_xla_read_their_own_words(samples: Path) -> None:
    for topic, words in _PYTORCH_XLA.items():
        assert not OF_JAX.search(words), topic
        assert not OF_TORCH.search(_XLA[topic]), topic
    for name, others in (("torch_xla_spmd4", OF_JAX), ("torch_xla_remote", OF_JAX), ("jax_cpu8_b128", OF_TORCH)):
        said = run_findings(load_trace(open_trace_files([samples / name]))).table["advice"].to_list()
        assert said
        assert not [words for words in said if others.search(words)]
    b = rest_of_steps(100 - 30, ROW, "TransferFromDevice", "transfer")
    assert "copy_to_host_async" in findings_by_title(b.trace())["the run is highly output-bound"]["advice"]
    b.event(MAIN, "StepMarker", 10, 12, "runtime")
    assert "xm.add_step_closure" in findings_by_title(b.trace())["the run is highly output-bound"]["advice"]


def test_time_between_steps_may_be_input() -> None:
    assert "time passes between steps: the run may be input-bound" not in findings_by_title(
        xla_steps(100, pause=3).trace()
    )
    row = findings_by_title(xla_steps(100, pause=25).trace())["time passes between steps: the run may be input-bound"]
    assert (row["cost"], row["share"]) == (25 * US, pytest.approx(0.2))
    assert (row["start"], row["duration"]) == (100 * US, 25 * US)


@pytest.mark.thorough
def test_idle_time_without_a_record_of_the_host_may_be_input() -> None:
    assert "the run may be input-bound" not in findings_by_title(xla_steps(98).trace())
    b = xla_steps(90)
    assert findings_by_title(b.trace())["the run may be input-bound"]["cost"] == 10 * US
    for start in starts(b):
        b.event(MAIN, "$time sleep", start + 91, start + 99, "python")
    assert "the run may be input-bound" not in findings_by_title(b.trace())
    row = findings_by_title(b.trace())["the device waits for the host"]
    assert row["evidence"].startswith("devices idle while the host is mostly waiting in Python: 10.00 us of 100.0 us")


def late_steps(name: str, kind: str, until: float, *, launched: bool = True) -> Building:
    """Four steps of 100 us whose work begins after half of each; until some instant the host is at something."""
    b = Building(format="xplane")
    for number in range(4):
        start = number * 100
        b.event(MAIN, "train", start, start + 100, "step", step=number)
        if until:
            b.event(MAIN, name, start, start + until, kind)
        if launched:
            b.event(MAIN, "Execute", start + 49, start + 50, "runtime", correlation=number)
        b.event(OPS, "fusion.1", start + 50, start + 100, "op", step=number, correlation=number if launched else None)
    return b


DRY = "the device runs dry: the host launches its work too late"
FIRST = "the device waits for its first work"


@pytest.mark.thorough
def test_the_first_work_is_no_finding_of_its_own_where_the_host_keeps_the_device_waiting_in_every_step() -> None:
    rows = findings_by_title(late_steps("StepMarker", "runtime", 49, launched=False).trace())
    assert rows["the device waits for the host"]["cost"] == 49 * US
    assert FIRST not in rows


def test_pauses_cost_what_no_other_finding_tells_of() -> None:
    rows = findings_by_title(late_steps("backend_compile", "compile", 30).trace())
    assert rows["programs are compiled during the run"]["cost"] == 30 * US
    assert (rows[DRY]["cost"], rows[FIRST]["cost"]) == (20 * US * 3 // 4, 20 * US // 4)
    left = "beside what other findings tell of; what is left of 3 pauses in steps, the longest on rank 0"
    assert rows[DRY]["evidence"] == f"15.00 % of the steps' time, {left}"
    assert "the host was mostly" not in rows[DRY]["evidence"]
    assert DRY not in findings_by_title(late_steps("backend_compile", "compile", 49).trace())
    unknown = findings_by_title(late_steps("nothing", "annotation", 0).trace())
    assert (unknown["the run may be input-bound"]["cost"], DRY in unknown) == (49 * US, False)


@pytest.mark.thorough
def test_the_longest_pause_is_of_those_that_cost_something() -> None:
    """The host compiles before the second step, and is late in the others."""
    b = Building(format="xplane")
    starts = (0, 100, 1000, 1100, 1200)
    for number, (start, until) in enumerate(pairwise((*starts, 1300))):
        b.event(MAIN, "train", start, until, "step", step=number)
        b.event(MAIN, "Execute", until - 51, until - 50, "runtime", correlation=number)
        b.event(OPS, "fusion.1", until - 50, until, "op", step=number, correlation=number)
    b.event(MAIN, "backend_compile", 100, 948, "compile")
    row = findings_by_title(b.trace())[DRY]
    assert row["evidence"].startswith("11.69 % of the steps' time, beside what other findings tell of; 3 pauses in")
    assert "the longest 50.00 us on rank 0" in row["evidence"]
    assert (row["start"], row["duration"]) == (1000 * US, 50 * US)


@pytest.mark.thorough
def test_a_pause_over_two_steps_is_one_whatever_the_host_was_at_in_each() -> None:
    b = Building(format="xplane")
    for number in range(4):
        start = number * 100
        b.event(MAIN, "train", start, start + 99, "step", step=number)
        b.event(MAIN, "Execute", start + 40, start + 41, "runtime", correlation=number)
        b.event(MAIN, "StepMarker", start + 2, start + 30, "runtime")
        b.event(OPS, "fusion.1", start + 42, start + 80, "op", step=number, correlation=number)
    assert "; 3 pauses in steps" in findings_by_title(b.trace())[DRY]["evidence"]


@pytest.mark.thorough
def test_late_launches_are_told_in_place_of_idleness_that_may_be_anything() -> None:
    rows = findings_by_title(late_steps("$time sleep", "python", 49).trace())
    assert rows[DRY]["evidence"].endswith("the host was mostly waiting in Python")
    assert not any("input-bound" in name for name in rows)


@pytest.mark.thorough
def test_a_host_that_traces_is_told_though_the_first_work_came_late() -> None:
    b = Building(format="xplane")
    for number, start in enumerate((0, 300, 400, 500)):
        b.event(MAIN, "train", start, start + (300 if number == 0 else 100), "step", step=number)
        b.event(MAIN, "StepMarker", start + 10, start + (290 if number == 0 else 40), "runtime")
        b.event(OPS, "fusion.1", start + (290 if number == 0 else 40), start + (300 if number == 0 else 100), "op")
    assert "the device waits for the host" in findings_by_title(b.trace())


def test_copies_of_hlo_ops_within_the_device_are_not_advised_as_offloading() -> None:
    b = rest_of_steps(90, OPS, "copy.1", "copy")
    row = findings_by_title(b.trace())["copies within the device are not hidden behind computation"]
    assert row["cost"] == 10 * US
    assert "layout" in row["advice"]
    assert "offload" not in row["advice"]


def test_compiling_names_the_function_and_how_often() -> None:
    b = xla_steps(90)
    for start in starts(b):
        b.event(MAIN, "PjitFunction(ragged)", start + 10, start + 60, "runtime")
        b.event(MAIN, "lower_sharding_computation", start + 10, start + 20, "compile")
        b.event(MAIN, "backend_compile", start + 20, start + 60, "compile")
    trace = b.trace()
    row = findings_by_title(trace)["programs are compiled during the run"]
    assert "4 times; something was being compiled for 200.0 us" in row["evidence"], (
        "lowering and compiling are two stages of one"
    )
    assert row["evidence"].endswith("longest ragged; ragged 4 times")
    assert trace.event(row["event"])["name"] == "backend_compile"


@pytest.mark.thorough
def test_a_device_that_runs_dry_while_the_host_waits_for_the_loader_is_advised_so() -> None:
    b = steps(busy=60)
    for number in range(4):
        b.event(MAIN, "DataLoader __next__", number * 100 + 60, number * 100 + 99, "python")
    row = findings_by_title(b.trace())["the device runs dry while the host fetches data"]
    assert row["evidence"].endswith("the host was mostly waiting for the loader")
    assert "num_workers" in row["advice"]


OUTSIDE = "the device does nothing for most of the recording"


def with_recording_until(b: Building, end: float) -> Building:
    """Extend the recording to last from 0 to `end`, with the host in Python."""
    b.event(MAIN, "$serve.py:1 loop", 0, end, "python")
    return b


def short_burst_of_work(end: float = 1000) -> Building:
    """A run without steps whose one burst of work lasts from 300 to 340 us."""
    b = Building(facts=listing(V100))
    work(b, "elementwise_kernel", 300, 340)
    return with_recording_until(b, end)


def test_a_device_that_works_in_one_burst_of_a_long_recording_is_told_of() -> None:
    row = findings_by_title(short_burst_of_work().trace())[OUTSIDE]
    assert (row["cost"], row["share"], row["share_of"]) == (960 * US, pytest.approx(0.96), "recording")
    assert (row["rank"], row["start"], row["duration"]) == (0, 340 * US, 660 * US)
    assert row["evidence"] == (
        "96.00 % of 1.000 ms: 300.0 us before the first work, 660.0 us after the last work; the longest 660.0 us on"
        " rank 0; the host was mostly running Python"
    )
    assert "torch.profiler.schedule" in row["advice"]


def test_a_device_that_works_for_half_of_the_recording_is_none_that_does_nothing() -> None:
    b = Building(facts=listing(V100))
    work(b, "elementwise_kernel", 300, 810)
    assert OUTSIDE not in findings_by_title(with_recording_until(b, 1000).trace())


def test_what_devices_do_not_do_outside_of_steps_costs_them_nothing() -> None:
    row = findings_by_title(with_recording_until(steps(busy=99), 2000).trace())[f"{OUTSIDE}, outside of steps"]
    assert (row["cost"], row["share"], row["share_of"]) == (None, pytest.approx(0.8), "recording")
    assert (row["start"], row["duration"]) == (400 * US, 1600 * US)
    assert row["evidence"].startswith("80.00 % of 2.000 ms: 1.600 ms after the last whole step; the longest")
    assert not [
        what
        for what in findings_by_title(with_recording_until(steps(busy=20), 400).trace())
        if what.startswith(OUTSIDE)
    ]


@pytest.mark.thorough
def test_a_rank_is_idle_in_the_recording_of_its_own_host_alone() -> None:
    parts = []
    for rank, end in enumerate((400, 4000)):
        b = with_recording_until(steps(busy=99), end)
        b.claim = rank
        parts.append(b.part())
    row = findings_by_title(merge_file_frames("job", parts))[f"{OUTSIDE}, outside of steps"]
    assert row["evidence"].startswith("on rank 1 90.00 % of 4.000 ms: 3.600 ms after the last whole step; the longest")
    assert row["rank"] == 1


@pytest.mark.thorough
def test_time_between_steps_that_is_told_of_already_is_told_once() -> None:
    apart = xla_steps(100, pause=900)
    rows = findings_by_title(apart.trace())
    assert "time passes between steps: the run may be input-bound" in rows
    assert not [what for what in rows if what.startswith(OUTSIDE)]


def with_kernel(name: str, major: int | None, length: float = 40, *, beside: str = "") -> Building:
    """Steps with a kernel of so many us in each, on an NVIDIA device of this capability, beside one of 5 us."""
    b = steps(busy=50)
    b.facts = listing({"name": "GPU", "computeMajor": major, "warpSize": 32}) if major else FileFacts()
    for number in range(4):
        work(b, name, number * 100 + 50, number * 100 + 50 + length)
        work(b, beside or "elementwise_kernel", number * 100 + 94, number * 100 + 99)
    return b


UNALIGNED = "products run on kernels for unaligned sizes"
LAYOUTS = "tensors are converted between NCHW and NHWC around convolutions"
TF32 = "products in float32 do not use tensor cores: TF32 is off"
OLDER = "products run on kernels made for older GPUs, most of them for "
UNFUSED = "attention is not fused: its softmax runs by itself"
SLOW = (UNALIGNED, LAYOUTS, TF32, OLDER, UNFUSED)
CUTLASS = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align{}>()"
AMPERE = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"
CONVERSION = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>()"
BFLOAT = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64"


@pytest.mark.parametrize(
    ("name", "major", "beside", "what"),
    some(
        [
            (CUTLASS.format(2), 8, "", UNALIGNED),
            (CUTLASS.format(1), None, "", UNALIGNED),
            (CUTLASS.format(8), 8, "", None),
            ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>()", 7, AMPERE, None),
            (CONVERSION, 8, "", LAYOUTS),
            ("batched_transpose_32x32_dword", None, "", None),
            ("ampere_sgemm_128x64_nn", 8, AMPERE, TF32),
            ("ampere_sgemm_128x64_nn", 8, "cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4", None),
            ("ampere_sgemm_128x64_nn", 7, AMPERE, None),
            (AMPERE, 9, "", f"{OLDER}Ampere"),
            (AMPERE, 8, "", None),
            (AMPERE, 12, "", None),
            ("nvjet_tst_128x64_64x8_2x1_v_bz_TNT", 10, "", None),
            ("volta_fp16_s884gemm_fp16_128x64", 8, "", f"{OLDER}Volta"),
            (BFLOAT, 9, AMPERE, None),
            ("Cijk_Alik_Bljk_BBS_BH_MT128x192x64_MI16x16x1", None, "", None),
        ],
        [
            (CUTLASS.format(2), 8, "", UNALIGNED),
            (CUTLASS.format(8), 8, "", None),
            (CONVERSION, 8, "", LAYOUTS),
            ("ampere_sgemm_128x64_nn", 8, AMPERE, TF32),
            (AMPERE, 9, "", f"{OLDER}Ampere"),
            (AMPERE, 8, "", None),
        ],
    ),
)
def test_slow_kernels_are_known_by_their_names(name: str, major: int | None, beside: str, what: str | None) -> None:
    rows = findings_by_title(with_kernel(name, major, beside=beside).trace())
    assert [row for row in rows if row.startswith(SLOW)] == ([what] if what else [])
    if what:
        assert (rows[what]["cost"], rows[what]["share"], rows[what]["start"]) == (40 * US, 0.4, 50 * US)
        assert rows[what]["evidence"].startswith(
            "they take 40.00 us of an average step, 40.00 %, and 42.11 % of the time"
        )


def test_slow_kernels_that_take_little_of_the_kernels_time_or_of_the_steps_are_left_alone() -> None:
    assert UNALIGNED not in findings_by_title(with_kernel(CUTLASS.format(2), 8, 2).trace())
    b = Building()
    for number in range(4):
        b.event(MAIN, f"ProfilerStep#{number}", number * 1000, number * 1000 + 1000, "step", step=number)
        work(b, CUTLASS.format(2), number * 1000, number * 1000 + 9)
    assert UNALIGNED not in findings_by_title(b.trace())


def attention_calls(softmax: str, *operators: str) -> Building:
    """Steps with this kernel, in each of which the host calls these operators."""
    b = with_kernel(softmax, 8)
    for number, name in product(range(4), operators):
        b.event(MAIN, name, number * 100 + 10, number * 100 + 11, "op")
    return b


def test_attention_that_is_not_fused_is_known_by_its_softmax_between_products() -> None:
    kernel = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 7, {}, false>(float*)"
    eager = ("aten::bmm", "aten::_softmax", "aten::bmm")
    row = findings_by_title(attention_calls(kernel.format("false"), *eager).trace())[UNFUSED]
    assert (row["cost"], row["share"]) == (40 * US, 0.4)
    assert row["advice"].startswith("torch.nn.functional.scaled_dot_product_attention")
    fallen = findings_by_title(
        attention_calls(kernel.format("false"), *eager, "aten::_scaled_dot_product_attention_math").trace()
    )
    assert fallen[UNFUSED]["advice"].startswith("scaled_dot_product_attention falls back")
    assert UNFUSED not in findings_by_title(attention_calls(kernel.format("true"), *eager).trace())
    assert UNFUSED not in findings_by_title(attention_calls(kernel.format("false"), "aten::_softmax").trace())


def test_on_real_files_slow_kernels_are_told_where_they_are(shared: Path) -> None:
    kineto = shared / "traces" / "kineto"
    told_of = {
        "compare_h100_mi300/h100_timesformer.json.gz": {UNFUSED: 0.434, UNALIGNED: 0.273},
        "compare_h100_mi300/mi300_timesformer.json.gz": {UNFUSED: 0.349},
        "compare_h100_mi300/h100_bert-small.json.gz": {},
        "hta_nccl_a100": {LAYOUTS: 0.092},
        "resnet50_v100_workers4": {},
        "rocm_mi210_gpu_only": {},
    }
    for name, expected in told_of.items():
        rows = findings_by_title(load_trace(open_trace_files([kineto / name])))
        mine = {what: row["evidence"] for what, row in rows.items() if what.startswith(SLOW)}
        assert mine.keys() == expected.keys(), name
        for what, share in expected.items():
            said = re.search(r"and ([\d.]+) % of the time of all kernels", mine[what])
            assert said is not None
            assert float(said[1]) == pytest.approx(100 * share, abs=0.1)
