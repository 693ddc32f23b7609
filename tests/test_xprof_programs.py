"""XProf's figures for programs, steps, duty cycle, collectives and transfers, on files of other people.

The golden outputs are those of XProf 2.24.2. Where ours differ, the test says why. Not compared: the splitting of steps
by marks on a TPU's Steps line, of which no file is at hand (`test_step_time` has those that XProf's own sample lists);
duty cycles of chips with two cores, which XProf counts as one device; its advice, which is empty on TPUs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts, render_note_columns
from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files


@cache
def trace(path: Path) -> Trace:
    return load_trace(open_trace_files([path]))


@pytest.fixture
def offload(shared: Path) -> Trace:
    """Four TPU v6e cores whose arrays lie in the host's memory."""
    return trace(shared / "traces/xla/tpu_v6e_x4_offload")


def report(traced: Trace, analysis: str, **chosen: str) -> Result:
    return run_analysis(get_analysis(analysis), traced, options=Options(given=tuple(chosen.items())))


def test_every_execution_is_joined_to_the_one_enqueue_that_produced_it(offload: Trace) -> None:
    table = report(offload, "programs", by="execution").table
    assert table.height == 105 + 3 * 103
    assert table["enqueue"].to_list() == ["DoEnqueueProgram"] * 414
    launches = offload.events().filter(pl.col("kind") == "module").select("launch").collect()
    assert launches["launch"].n_unique() == 414


def test_programs_without_step_markers_tell_the_time_of_a_step(offload: Trace) -> None:
    """XProf says "No step time measured" of this file.

    The times are those from the first op of a run to that of the next, on the cores' own clocks. On the trace's clock,
    which was aligned anew again and again, the medians are 784.127, 784.104, 783.961 and 783.862 ms, the extremes 551
    and 982.
    """
    runs = report(offload, "programs", by="execution").table.filter(name="jit_f")
    assert runs.group_by("rank").len()["len"].to_list() == [100] * 4
    medians = runs.group_by("rank").agg(pl.col("period").median() / 1e9).sort("rank")["period"].to_list()
    assert medians == pytest.approx([784.130, 784.339, 784.323, 784.080], abs=2e-3)
    assert 783 < runs["duration"].min() / 1e9 < runs["duration"].max() / 1e9 < 785


def test_the_other_host_of_the_job_is_missing(offload: Trace) -> None:
    """Its programs are compiled for 8 devices; the peer says nothing of the four that are not in the profile."""
    rows = render_note_columns(run_analysis(get_analysis("health"), offload)).table.rows(named=True)
    told = "jit_f runs on 8 devices, but only 4 are here: the files of at least one host are missing"
    assert ("missing", 4, told) in [(row["level"], row["count"], row["what"]) for row in rows]


def test_a_job_that_waits_for_the_hosts_memory_is_not_called_bound_by_hbm(offload: Trace) -> None:
    """XProf calls its copy-done ops "HBM" bound at 25.7 to 27.4 GiB/s: it divides by the waits, we by the flights."""
    result = report(offload, "transfers")
    assert (
        "83.6 % of device time (304 s) waits for copies from and to the host; HBM to host 27.4 GB/s "
        "(25.6 GiB/s), host to HBM 27.1 GB/s (25.3 GiB/s)"
    ) in note_texts(result.notes)[0]
    assert "the limit is the link to host memory, not device memory or compute" in note_texts(result.notes)[1]
    assert result.table["copies"].to_list() == [300] * 8
    rates = (result.table["rate"] / (1 << 30)).to_list()
    assert min(rates) > 24.5
    assert max(rates) < 27.5


def test_waits_for_host_copies_are_those_of_xprofs_copy_done_ops(offload: Trace, shared: Path) -> None:
    golden = pl.read_csv(shared / "golden/xprof/tpu_v6e_x4_offload/hlo_stats.csv")
    moving = golden.filter(pl.col("HLO op category").is_in(["copy-start", "copy-done"]))
    waited = moving["Total self time (us)"].sum() * 1e6
    assert report(offload, "transfers").table["exposed"].sum() == pytest.approx(waited, rel=1e-9)
    assert report(offload, "transfers", by="op").table["exposed"].sum() == pytest.approx(waited, rel=1e-9)


def test_flights_are_united_not_added_up(offload: Trace) -> None:
    """XProf's analyze_async_overlap says 1,128 s in flight and 1,100 s exposed, of 364 s of core time."""
    table = report(offload, "transfers").table
    assert table["exposed"].sum() < table["in_flight"].sum() < 480e12


def test_duty_cycle_and_idle_are_xprofs(offload: Trace) -> None:
    """XProf's overview: 86.5 % and 13.4 %. The useful shares beside them are those of its hlo_stats table."""
    result = report(offload, "duty_cycle")
    assert note_texts(result.notes)[0].startswith("overall: duty cycle 86.5 % of 364 s")
    assert "compute 2.65 %, exposed collectives 0.40 %" in note_texts(result.notes)[1]
    assert note_texts(result.notes)[1].endswith("idle 13.4 %")


def test_shares_of_device_time_are_those_of_xprofs_hlo_stats(offload: Trace, shared: Path) -> None:
    golden = pl.read_csv(shared / "golden/xprof/tpu_v6e_x4_offload/hlo_stats.csv")
    kinds = golden.group_by("HLO op category").agg(pl.col("Total self time (us)").sum() * 1e6)
    by_kind = dict(kinds.iter_rows())
    table = report(offload, "duty_cycle").table
    assert table["compute"].sum() == pytest.approx(by_kind["loop fusion"] + by_kind["broadcast"], rel=1e-9)
    assert table["collectives"].sum() == pytest.approx(by_kind["all-reduce"], rel=1e-9)
    waits = table["input"].sum() + table["output"].sum()
    assert waits == pytest.approx(by_kind["copy-done"] + by_kind["copy-start"], rel=1e-9)


def test_steps_are_inferred_where_xprof_measures_none(offload: Trace) -> None:
    """XProf: "No step time measured", input pipeline of 0 rows."""
    table = report(offload, "step_time", by="rank").table
    assert table["steps"].to_list() == [99] * 4
    assert table["partial"].to_list() == [1] * 4, "nothing follows the last execution"
    medians = (table["p50"] / 1e9).to_list()
    assert medians == pytest.approx([784.132, 784.339, 784.323, 784.080], abs=5e-4)
    parts = table.select("compute", "collectives", "input", "output", "device_to_device", "compile", "host", "other")
    assert (parts.sum_horizontal() - table["mean"]).abs().max() < 10
    assert ((table["input"] + table["output"]) / table["mean"]).min() > 0.96


def test_an_input_bound_job_is_told_by_its_steps(shared: Path) -> None:
    """A JAX loop on 8 CPU devices that sleeps 30 ms for each batch; XProf has no rows for CPUs."""
    result = report(trace(shared / "captures/jax/input_bound_feed30"), "step_time")
    assert "6 whole steps on 8 ranks" in note_texts(result.notes)[0]
    assert (result.table["input"] / result.table["duration"]).min() > 0.8


def test_compiling_within_a_step_is_told(shared: Path) -> None:
    table = report(trace(shared / "captures/jax/collectives_cold"), "step_time").table
    share = (table["compile"] / table["duration"]).to_list()
    assert min(share[:8]) > 0.9
    assert max(share[8:]) == 0


def test_asynchronous_copies_never_take_more_than_the_core_has(offload: Trace, shared: Path) -> None:
    """XProf's analyze_async_overlap says 1,128 s in flight and 1,100 s exposed, of 364 s of core time."""
    golden = pl.read_csv(shared / "golden/xprof/tpu_v6e_x4_offload/hlo_stats.csv")
    waited = golden.filter(pl.col("HLO op category").is_in(["copy-start", "copy-done"]))["Total self time (us)"].sum()
    copies = report(offload, "async_overlap").table.filter(kind="copy")
    assert copies["paired"].to_list() == [600] * 4
    assert copies["exposed"].sum() == pytest.approx(waited * 1e6, rel=1e-9)
    assert copies["in_flight"].sum() < 364e12 < copies["windows"].sum()


def test_a_tpu_hides_its_prefetches(shared: Path) -> None:
    """Of a trace.json.gz, which XProf does not read: 787 copies and slices between HBM and VMEM on each core."""
    table = report(trace(shared / "traces/xla/tpu_vllm_qwen3_a"), "async_overlap").table
    assert table.filter(pl.col("kind").is_in(["copy", "slice"]))["paired"].to_list() == [408, 379] * 2
    assert table.filter(pl.col("paired") > 0)["hidden_share"].min() > 0.99


def test_gpus_have_a_duty_cycle_and_an_idle_time_too(shared: Path) -> None:
    """XProf computes neither; its shares of self time tell the device time that they are of, which is ours."""
    golden = pl.read_csv(shared / "golden/xprof/jax_rocm_conv_legacy/hlo_stats.csv")
    took = golden["Total self time (us)"].sum() * 1e6
    result = report(trace(shared / "traces/xla/jax_rocm_conv_legacy"), "duty_cycle")
    assert result.table["compute"].sum() == pytest.approx(took, rel=1e-6)
    assert result.table["compute"].sum() / result.table["time"].sum() == pytest.approx(
        golden["Total self time (%)"].sum() / 100, rel=1e-6
    )
    assert result.table["duty_cycle"].null_count() == 0
    assert "idle 89.7 %" in note_texts(result.notes)[1]
