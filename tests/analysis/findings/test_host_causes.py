"""Findings on idle time of devices: what keeps them idle, on the host and on the device, at its cost."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from building import US, Building, listing, stream, thread
from finding_runs import (
    MAIN,
    MS,
    V100,
    add_each_step,
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
from short import first
from tracehound.analysis.findings.idle_in_steps import main_host_activity
from tracehound.analysis.hosts.thread_activity import ALL_ACTIVITIES, NOTHING_RECORDED
from tracehound.model.trace import Window
from tracehound.store import merge_file_frames

LOADER = "enumerate(DataLoader)#X.__next__"
LAUNCHES = "CPU-bound"
BEFORE_FIRST = "before its first kernel"


def test_the_data_loader_is_found_with_its_cost_per_step() -> None:
    """It waits for 16 us of the 20 in which the device idles."""
    row = only_row(find_rows(add_each_step(make_steps(busy=80), LOADER, 82, 98, "annotation").trace()), "data loading")
    assert LOADER in row["finding"]
    assert has_time(row["finding"], 20 * US)
    assert (row["cost"], row["share"], row["share_of"]) == (20 * US, 0.2, "step")
    assert location(row) == (0, 80, 20)
    assert has_time(row["evidence"], 16 * US), "the longest call"
    assert row["certainty"] == "recorded"
    assert row["next"].startswith("gaps --rank 0 --step 0")
    assert "num_workers" in row["advice"]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "kind"), [("wait_for_batch", "annotation"), ("DataLoader __next__", "python")])
def test_a_loader_of_another_name_is_found(name: str, kind: str) -> None:
    row = only_row(find_rows(add_each_step(make_steps(busy=60), name, 60, 99, kind).trace()), "data loading", name)
    assert row["cost"] == 40 * US
    assert "num_workers" in row["advice"]


@pytest.mark.thorough
def test_a_loader_that_is_hidden_costs_nothing() -> None:
    assert find_rows(add_each_step(make_steps(busy=99), LOADER, 10, 60, "annotation").trace()) == []


@pytest.mark.thorough
def test_a_loader_in_a_third_of_each_gap_is_not_lost() -> None:
    """It waits for 100 ms of the 300 in which the device idles in each step of 1000."""
    b = add_each_step(make_steps(length=1000, busy=700, unit=MS), LOADER, 700, 800, "annotation", length=1000)
    assert find_row(find_rows(b.trace()), "data loading")["share"] == pytest.approx(0.1, rel=0.1)


@pytest.mark.thorough
@pytest.mark.xfail(strict=True, reason="the cost is the whole gap, of which the cause need be only half")
def test_compiling_for_three_fifths_of_a_gap_costs_no_more_than_it_lasts() -> None:
    b = add_each_step(make_steps(busy=50, unit=MS), "backend_compile", 50, 80, "compile")
    assert find_row(find_rows(b.trace()), "compil")["cost"] == pytest.approx(30 * MS, rel=0.1)


def test_a_wait_for_the_device_is_told_once() -> None:
    """The device idles for 40 us of each of 4 steps; that after the last work is none of a cause of its own."""
    row = only_row(find_rows(add_each_step(make_steps(busy=60), "cudaStreamSynchronize", 60, 99, "sync").trace()))
    assert "waiting for the device" in row["finding"]
    assert "cudaStreamSynchronize" in row["finding"]
    assert (row["cost"], row["share"]) == (40 * US, pytest.approx(0.4))
    assert location(row) == (0, 60, 40)
    assert "4 gaps" in row["evidence"]


def test_launches_that_cannot_keep_up_are_named_after_the_operators_that_launch() -> None:
    """In each step 30 gaps of 2 us, in which the host runs operators; 20 of their kernels are of one."""
    b = Building(facts=listing(V100))
    for step in range(4):
        b.event(MAIN, f"ProfilerStep#{step}", step * 120, step * 120 + 120, "step", step=step)
        for number in range(30):
            start, name = step * 120 + 4 * number, "aten::add_" if number % 3 else "aten::mul"
            b.event(MAIN, name, start, start + 3, "op")
            b.event(MAIN, "cudaLaunchKernel", start + 1, start + 2, "runtime", correlation=len(b.rows))
            b.event(stream(), "k", start + 2, start + 4, correlation=len(b.rows) - 1)
    row = only_row(find_rows(b.trace()), LAUNCHES, "aten::add_")
    assert re.search(r"aten::add_\W+80\b", row["evidence"]), "gaps before it"
    assert re.search(r"aten::mul\W+40\b", row["evidence"])
    assert row["cost"] == 120 * US, "with the kernels, which are as short as what a launch costs"
    assert has_time(row["evidence"], 60 * US), "of these kernels"
    assert row["certainty"] == "recorded"


def collect_in_third_step() -> Building:
    """Four steps of 100 ms, of which one begins with a gap of 60 ms; the collection of garbage began before it."""
    b = Building(facts=listing(V100), unit=MS)
    for number in range(4):
        b.event(MAIN, f"ProfilerStep#{number}", number * 100, number * 100 + 100, "step", step=number)
        add_work(b, "k", number * 100 + (60 if number == 2 else 0), number * 100 + 100)
    b.event(MAIN, "Python GC", 190, 259, "python")
    return b


def test_garbage_collection_in_one_step_names_the_step_and_what_the_device_idles_in_it() -> None:
    row = find_row(find_rows(collect_in_third_step().trace()), "Python GC", "step 2")
    assert has_time(row["finding"], 60 * MS), "the gap in its step"
    assert has_time(row["evidence"], 69 * MS), "the call"
    assert row["cost"] == 15 * MS
    assert "--step 2" in row["next"]


@pytest.mark.thorough
def test_a_call_that_began_before_the_only_gap_has_its_length_in_the_title() -> None:
    assert has_time(find_row(find_rows(collect_in_third_step().trace()), "Python GC")["finding"], 69 * MS)


def test_a_kernel_is_used_first_once() -> None:
    """In the only step one launch takes 50 ms, and 20 others next to nothing."""
    b = make_steps(1, busy=0, unit=MS)
    add_work(b, "k", 0, 1)
    b.event(MAIN, "cudaLaunchKernel", 1.01, 51.01, "runtime", correlation=1000)
    b.event(stream(), "new", 51.01, 60, correlation=1000)
    for _ in range(20):
        b.event(MAIN, "cudaLaunchKernel", 60, 60.01, "runtime")
    add_work(b, "k", 60, 89.5)
    add_work(b, "k", 90, 100)
    row = only_row(find_rows(b.trace()), "first use of a kernel")
    assert row["cost"] == pytest.approx(50 * MS, rel=0.01)
    assert "a step" not in row["finding"]


def test_a_fused_kernel_has_its_operators_and_the_line_that_called_it() -> None:
    """The generated file, which is the nearest frame, is nothing that the user wrote."""
    b = make_steps(1, busy=0, unit=MS)
    add_work(b, "k", 0, 1)
    generated = "/scratch/torchinductor_me/dn/cdniggnbpjo6ck7jj7d4oel3kskalexpxacrci3ow345jwe33wgw.py(40): call"
    b.event(MAIN, "my/model.py(12): forward", 1, 60.5, "python")
    b.event(MAIN, generated, 1.001, 60.4, "python")
    b.event(MAIN, "triton_poi_fused_add_relu_0", 1.002, 51.02, "op")
    b.event(MAIN, "cuLaunchKernel", 1.01, 51.01, "runtime", correlation=1000)
    b.event(stream(), "triton_poi_fused_add_relu_0", 51.01, 100, correlation=1000)
    row = only_row(find_rows(b.trace()), "first use of a kernel")
    assert "cuLaunchKernel in triton_poi_fused_add_relu_0 (fused add, relu)" in row["finding"]
    assert "source: my/model.py(12): forward" in row["evidence"]


@pytest.mark.thorough
def test_time_of_which_nothing_is_recorded_is_said_to_be_unrecorded() -> None:
    row = only_row(find_rows(make_steps(busy=60, unit=MS).trace()), "unrecorded host time")
    assert (row["cost"], row["certainty"]) == (40 * MS, "not recorded")
    assert "with_stack=True" in row["advice"]
    named = find_rows(add_each_step(make_steps(busy=60, unit=MS), "my_part", 60, 99, "annotation").trace())
    assert only_row(named, "unrecorded host time", "my_part")["certainty"] == "not recorded"


@pytest.mark.parametrize(
    ("rows", "phrase"),
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
def test_mostly_is_said_of_half_of_the_time_of_all_rows(rows: list[tuple[int, dict[str, int]]], phrase: str) -> None:
    gaps = pl.DataFrame([{**dict.fromkeys(ALL_ACTIVITIES, 0), "idle": idle, **spent} for idle, spent in rows])
    words, found = phrase.split(" in ")[0], main_host_activity(gaps)[1]
    assert found.startswith(words) if words else not found
    if "%" in phrase:
        assert has_share(found, float(phrase.split(" in ")[1].split()[0]) / 100)


@pytest.mark.thorough
def test_one_cause_on_several_ranks_is_one_finding() -> None:
    """Each of two ranks idles for 40 ms of 100, one in a single collection of garbage, one in two."""
    parts = []
    for rank, ends in enumerate(((90,), (70, 90))):
        b = Building(claim=rank, unit=MS)
        b.event(MAIN, "ProfilerStep#0", 0, 100, "step", step=0)
        add_work(b, "k", 0, 50)
        for start, end in zip((50, *ends), ends, strict=False):
            b.event(MAIN, "Python GC", start, end, "python")
            add_work(b, "k", end, 100 if end == 90 else end + 0.001)
        parts.append(b.part())
    row = only_row(find_rows(merge_file_frames("two", parts)), "Python GC")
    assert row["cost"] == pytest.approx(40 * MS, rel=0.001)
    assert "3 gaps" in row["evidence"]


def delayed_first_work() -> Building:
    """Two steps; the first runs operators for 60 us before anything reaches the device. Both have a gap of 5 us."""
    b = Building()
    for number, (start, begun) in enumerate([(0, 60), (100, 100)]):
        b.event(MAIN, f"ProfilerStep#{number}", start, start + 100, "step", step=number)
        add_work(b, "first", begun, start + 80)
        add_work(b, "second", start + 85, start + 100)
    b.event(MAIN, "aten::relu", 1, 59, "op")
    return b


def test_time_before_the_first_kernel_is_told_where_it_is() -> None:
    row = find_row(find_rows(delayed_first_work().trace()), BEFORE_FIRST)
    assert location(row) == (0, 0, 60)
    assert delayed_first_work().trace().event(row["event"])["name"] == "first"
    assert has_time(row["evidence"], 60 * US)


@pytest.mark.thorough
def test_time_before_the_first_kernel_has_none_of_the_gaps_behind_it() -> None:
    row = find_row(find_rows(delayed_first_work().trace()), BEFORE_FIRST)
    assert (row["cost"], row["share"]) == (30 * US, 0.3)


@pytest.mark.parametrize(("steps", "advised"), first(1, [((0,), "warm up"), ((0, 1, 2), "empty_cache")]))
def test_memory_that_is_allocated_in_the_first_step_alone_asks_for_a_warm_up(
    steps: tuple[int, ...], advised: str
) -> None:
    b = make_steps(busy=50)
    for number in range(4):
        if number in steps:
            b.event(MAIN, "cudaMalloc", number * 100 + 51, number * 100 + 79, "runtime")
        add_work(b, "elementwise_kernel", number * 100 + (80 if number in steps else 50), number * 100 + 100)
    row = find_row(find_rows(b.trace()), "memory allocation", "cudaMalloc")
    assert row["cost"] == len(steps) * 30 * US // 4
    assert advised in row["advice"]
    assert ("before the second step" in row["evidence"]) == (len(steps) == 1)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "advised"), first(1, [("fft", "warm up"), ("gemm", "empty_cache")]))
def test_without_steps_memory_for_work_that_is_new_asks_for_a_warm_up(name: str, advised: str) -> None:
    b = Building()
    add_work(b, "gemm", 0, 50)
    b.event(MAIN, "cudaMalloc", 51, 79, "runtime")
    add_work(b, name, 80, 100)
    assert advised in only_row(find_rows(b.trace()), "memory allocation")["advice"]


@pytest.mark.thorough
def test_a_first_work_that_waits_for_the_loader_is_told_once() -> None:
    b = Building()
    b.event(MAIN, "ProfilerStep#0", 0, 100, "step", step=0)
    b.event(MAIN, LOADER, 2, 58, "annotation")
    add_work(b, "first", 60, 100)
    assert only_row(find_rows(b.trace()), "data loading")["cost"] == 60 * US


@pytest.mark.thorough
def test_first_work_that_was_launched_and_does_not_begin_is_no_late_launch() -> None:
    """It is launched 5 us into the step and runs at 4 ms: what it waited for is not recorded. Launched later it is."""

    def row_of(launched: float) -> dict[str, object]:
        b = Building()
        b.event(MAIN, "ProfilerStep#0", 0, 5000, "step", step=0)
        b.event(MAIN, "cudaLaunchKernel", launched, launched + 2, "runtime", correlation=1)
        b.event(stream(), "k", 4000, 5000, correlation=1)
        return only_row(find_rows(b.trace()))

    queued = row_of(5)
    assert "queued" in str(queued["finding"])
    assert (queued["cost"], queued["certainty"]) == (4000 * US, "not recorded")
    assert BEFORE_FIRST in str(row_of(3900)["finding"])


def test_queued_work_that_starts_late_is_told_with_what_the_host_did() -> None:
    """40 us of each step pass although the launch was early; the host waits in a copy meanwhile."""
    b = make_steps(busy=50)
    for number in range(4):
        start = number * 100
        b.event(MAIN, "cudaLaunchKernel", start + 49, start + 50, "runtime", correlation=900 + number)
        b.event(stream(), "late", start + 90, start + 100, correlation=900 + number)
        b.event(MAIN, "hipMemcpyWithStream", start + 51, start + 95, "runtime")
    row = only_row(find_rows(b.trace()), "queued work starts late")
    assert (row["cost"], row["share"], row["duration"]) == (40 * US, pytest.approx(0.4), 40 * US)
    assert "blocked on a copy" in row["evidence"]
    assert row["certainty"] == "not recorded"
    assert b.trace().event(row["event"])["name"] == "late"


@pytest.mark.thorough
def test_idle_time_without_launches_says_what_to_record() -> None:
    b = Building()
    for number in range(4):
        b.event(stream(), "k", number * 100, number * 100 + 80)
    row = only_row(find_rows(b.trace()), "no launch is recorded")
    assert (row["cost"], row["certainty"]) == (60 * US, "not recorded")
    assert "ProfilerActivity.CPU" in row["advice"]


def test_recorded_runs_name_unknown_starts_and_first_launches(shared: Path) -> None:
    """In the first a kernel waits for what ran before the recording; in the second a launch takes 6.5 ms."""
    kineto = shared / "traces" / "kineto"
    row = find_row(read_rows(kineto / "graphs_sglang_decode"), "queued work starts late")
    assert row["share"] == pytest.approx(0.978, abs=0.001)
    assert "blocked on a copy" in row["evidence"]
    row = find_row(read_rows(kineto / "rocm_mi250_tiny"), "first use of a kernel")
    assert row["share"] == pytest.approx(6.633 / 9.288, abs=0.01)
    assert "hipLaunchKernel in aten::add_" in row["finding"]


def make_replays(pause: float, rest: float) -> Building:
    """Five replays of a graph of ten kernels of 40 us, so long apart, in steps that rest so long before each."""
    b = make_steps(0)
    length = 10 * (40 + pause)
    for step in range(5):
        start = step * (length + rest)
        b.event(thread(), f"ProfilerStep#{step}", start, start + length + rest, "annotation", step=step)
        b.event(thread(), "cudaGraphLaunch", start + rest - 5, start + rest - 1, "runtime", correlation=step)
        for node in range(10):
            begin = start + rest + node * (40 + pause)
            b.event(stream(), f"k{node}", begin, begin + 40, correlation=step)
    return b


@pytest.mark.thorough
@pytest.mark.parametrize(("pause", "words"), [(6, "between the kernels of graphs"), (60, "between the kernels of a g")])
def test_gaps_within_a_replay_are_the_graphs_own(pause: float, words: str) -> None:
    row = find_row(find_rows(make_replays(pause, 10).trace()), words)
    assert row["cost"] == 9 * pause * US
    assert has_share(row["evidence"], 1), "of it within replays"
    assert "more graphs do not help" in row["advice"]
    assert row["certainty"] == "recorded"


@pytest.mark.thorough
def test_a_host_that_replays_graphs_too_late_is_not_advised_to_use_graphs() -> None:
    row = find_row(find_rows(make_replays(0, 200).trace()), LAUNCHES, "cudaGraphLaunch")
    assert "in graphs already" in row["advice"]
    assert has_share(row["evidence"], 0.8), "of it before replays: nothing ends the gap after the last one"


@pytest.mark.thorough
def test_steps_that_a_window_cuts_have_no_say() -> None:
    """Of four steps of 100 us the second alone lies in the window; each is idle for its last 40 us."""
    row = only_row(find_rows(make_steps(busy=60).trace(), Window(50 * US, 250 * US)), LAUNCHES)
    assert (row["cost"], row["share"]) == (40 * US, 0.4)
    assert "1 gap," in row["evidence"]


@pytest.mark.thorough
def test_of_a_gap_that_reaches_into_the_window_the_part_inside_counts() -> None:
    """Work ends at 100 us and goes on at 400, which was launched at 399: from 200 us on half of the window is idle."""
    b = Building()
    add_work(b, "elementwise_kernel", 0, 100)
    b.event(MAIN, "cudaLaunchKernel", 399, 400, "runtime", correlation=7)
    b.event(stream(), "elementwise_kernel", 400, 600, correlation=7)
    row = only_row(find_rows(b.trace(), Window(200 * US, 600 * US)), LAUNCHES)
    assert (row["cost"], row["share"], row["share_of"]) == (200 * US, 0.5, "window")
    assert location(row) == (0, 200, 200)


@pytest.mark.thorough
def test_a_window_within_a_step_is_told_of_itself_and_not_of_the_step() -> None:
    """Of a step of 100 us, which is idle for its last 40, the window sees 10 us of work and 30 us of idle time."""
    b = add_each_step(make_steps(busy=60), "cudaStreamSynchronize", 60, 99, "sync")
    row = only_row(find_rows(b.trace(), Window(150 * US, 190 * US)), "waiting for the device")
    assert (row["cost"], row["share"], row["share_of"]) == (30 * US, 0.75, "window")
    assert "per step" not in row["finding"]


def test_in_a_window_the_steps_count_that_lie_in_it_whole() -> None:
    b = Building()
    for number, (start, end) in enumerate([(0, 100), (100, 300), (300, 400)]):
        b.event(MAIN, f"ProfilerStep#{number}", start, end, "step", step=number)
        b.event(MAIN, LOADER, end - 20, end, "annotation")
        add_work(b, "k", start, end - 20)
    for window, share in (((50, 320), 0.1), ((0, 300), 20 / 150)):
        row = only_row(find_rows(b.trace(), Window(window[0] * US, window[1] * US)), "data loading")
        assert (row["cost"], row["share"]) == (20 * US, pytest.approx(share))


UTILIZATION = "idle for more than half"


@pytest.mark.thorough
def test_idle_time_that_causes_explain_is_not_told_twice() -> None:
    assert only_row(find_rows(make_steps(busy=20).trace()), LAUNCHES)["cost"] == 80 * US


@pytest.mark.thorough
def test_idle_time_of_many_small_causes_has_a_cost_and_a_location() -> None:
    """Of each step of 100 us 52 are idle on one of 26 ranks: 2 % of the time of all, too little for a finding."""
    b = Building()
    for number in range(4):
        start = number * 100
        b.event(MAIN, f"ProfilerStep#{number}", start, start + 100, "step", step=number)
        for rank in range(26):
            b.event(stream(rank), "k", start, start + (48 if rank == 3 else 100))
    row = only_row(find_rows(b.trace()), UTILIZATION)
    assert (row["cost"], row["share"]) == (2 * US, pytest.approx(0.02))
    assert location(row) == (3, 48, 52)
    assert has_share(row["evidence"], 0.48), "busy"
    assert row["certainty"] == "not recorded"


@pytest.mark.thorough
def test_a_rank_without_work_changes_nothing() -> None:
    """Its steps are known, and not what its device did in them."""
    silent, heard = Building(path=Path("rank1.json"), claim=1), make_steps(busy=20)
    heard.path, heard.claim = Path("rank0.json"), 0
    for number in range(4):
        silent.event(MAIN, f"ProfilerStep#{number}", 1000 * number, 1000 * number + 1000, "step", step=number)
    alone, both = (
        find_rows(merge_file_frames("job", [built.part() for built in job])) for job in ([heard], [heard, silent])
    )
    assert [(row["finding"], row["cost"]) for row in both] == [(row["finding"], row["cost"]) for row in alone]


def test_the_loader_leads_without_workers_and_is_gone_with_four(shared: Path) -> None:
    kineto = shared / "traces" / "kineto"
    slow = read_rows(kineto / "resnet50_v100_workers0")
    assert "data loading" in slow[0]["finding"]
    assert slow[0]["share"] == pytest.approx(0.333, abs=0.005)
    assert rows_with(read_rows(kineto / "resnet50_v100_workers4"), "data loading") == []
