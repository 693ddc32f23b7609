"""Our numbers beside those that peers publish, or that were worked out by hand, for the same files."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from building import US
from hta import Times, as_hta
from short import some
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.devices.occupancy import measure_occupancy
from tracehound.analysis.rank_trace import rank_traces
from tracehound.draw.notes import note_texts
from tracehound.formats.device_occupancy import bucket_edges
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files

TPU = "traces/xla/tpu_v6e_x4_offload"


@pytest.fixture(scope="module")
def two_ranks(shared: Path) -> Trace:
    return load_trace(open_trace_files([shared / "golden" / "two_rank" / "nosync"]))


@pytest.fixture(scope="module")
def tpu(shared: Path) -> Trace:
    return load_trace(open_trace_files([shared / TPU]))


def rows(result: Result) -> list[dict]:
    return result.table.rows(named=True)


def microseconds(row: dict, *names: str) -> list[int]:
    return [row[name] // US for name in names]


PARTS = ("span", "compute", "communication", "copy", "idle")


def test_breakdown_of_the_whole_run(two_ranks: Trace) -> None:
    """TraceLens has 918 us of computation on rank 0, because it counts the three memsets of 1 us as such."""
    first, second = rows(run_analysis(get_analysis("breakdown"), two_ranks))
    assert microseconds(first, *PARTS) == [2681, 915, 510, 3, 1253]
    assert microseconds(second, *PARTS) == [2681, 915, 240, 63, 1463]
    assert microseconds(first, "all_communication", "all_copy") == [630, 63]


def test_breakdown_as_hta_cuts_it(two_ranks: Trace) -> None:
    """HTA leaves out the last step: its 2,200 us are the window from the first kernel to the last one it keeps."""
    start = int(two_ranks.events().filter(kind="kernel").collect()["start"].to_numpy().min())
    first, second = rows(run_analysis(get_analysis("breakdown"), two_ranks, Window(start, start + 2200 * US)))
    assert microseconds(first, "span", "compute", "idle") == [2200, 810, 1048]
    assert (first["communication"] + first["copy"]) // US == 342
    assert microseconds(second, "span", "compute", "idle") == [2200, 810, 1188]
    assert (second["communication"] + second["copy"]) // US == 202


def test_rows_of_stream_synchronization_are_no_work(shared: Path) -> None:
    """HTA counts them: 808 us idle instead of 1,048."""
    trace = load_trace(open_trace_files([shared / "golden" / "two_rank" / "sync"]))
    assert [row["idle"] // US for row in rows(run_analysis(get_analysis("breakdown"), trace))] == [1253, 1463]


def test_kernels(two_ranks: Trace) -> None:
    table = {row["name"]: row for row in rows(run_analysis(get_analysis("ops"), two_ranks, Window(ranks=(0,))))}
    gemm = table["sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x32_cublas"]
    assert [gemm["count"], *microseconds(gemm, "total", "min", "max", "mean")] == [3, 600, 200, 200, 200]
    elementwise = next(row for name, row in table.items() if "vectorized_elementwise" in name)
    assert [elementwise["count"], *microseconds(elementwise, "total", "max", "min")] == [6, 225, 45, 30]
    reduce = next(row for name, row in table.items() if name.startswith("nccl"))
    assert [reduce["category"], reduce["count"], *microseconds(reduce, "total")] == ["collective", 3, 630]


def test_kernel_types_and_overlap_of_the_whole_run(two_ranks: Trace) -> None:
    """TraceLens' exposed and total communication; HTA's overlap is of two steps, of which each is like the third."""
    types = {
        (row["rank"], row["type"]): row["time"] // US
        for row in rows(run_analysis(get_analysis("kernel_types"), two_ranks))
    }
    assert types[0, "computation"] + types[0, "computation and communication"] == 915
    assert types[0, "communication"] + types[0, "communication and memory"] == 510
    overlaps = {row["rank"]: row["hidden"] for row in rows(run_analysis(get_analysis("overlap"), two_ranks))}
    assert [round(overlaps[rank] * 100, 2) for rank in (0, 1)] == [19.05, 27.27]


def test_tensor_cores_as_the_plugin_counts_them(two_ranks: Trace) -> None:
    """38.83 % of all kernels; its 41.24 % leave out those that Triton launched."""
    table = rows(run_analysis(get_analysis("kernels"), two_ranks, Window(ranks=(0,))))
    of_kernels = {row["name"]: row["total"] for row in table if row["type"] != "memory"}
    used = sum(row["total"] for row in table if row["tensor_cores"])
    assert round(100 * used / sum(of_kernels.values()), 2) == 38.83
    by_operators = sum(took for name, took in of_kernels.items() if not name.startswith("triton"))
    assert round(100 * used / by_operators, 2) == 41.24


HTA = {
    "nccl": "hta_nccl_a100",
    "nsres": "hta_ns_resolution_v100",
    "sampled": "multirank_hta_sampled",
    "h100_qwen": "compare_h100_mi300/h100_qwen1.5-0.5b.json.gz",
}
"""What HTA 0.5.0 said of real files, and which they are."""


@pytest.fixture(scope="module", params=HTA)
def read_by_hta(
    request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Trace, Mapping[str, Any]]:
    """A trace as HTA takes it, and its numbers."""
    source = shared / "traces" / "kineto" / HTA[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    files = sorted(source.glob("*.gz")) if source.is_dir() else [source]
    cut = [as_hta(path, folder / f"rank{number}.json", "rounded") for number, path in enumerate(files)]
    said = json.loads((shared / "golden" / "hta" / f"{request.param}.json").read_text("utf-8"))
    return load_trace(open_trace_files(cut)), said


def test_temporal_breakdown_of_hta(read_by_hta: tuple[Trace, Mapping[str, Any]]) -> None:
    """To the microsecond; of the H100 HTA says nothing, because it sums a length of -1."""
    trace, said = read_by_hta
    if isinstance(said["temporal"], str):
        assert said["temporal"].startswith("ERROR")
        return
    table = run_analysis(get_analysis("breakdown"), trace).table
    for row, theirs in zip(table.rows(named=True), said["temporal"], strict=True):
        assert row["rank"] == theirs["rank"]
        assert microseconds(row, "span", "compute", "idle") == [
            theirs["kernel_time(us)"], theirs["compute_time(us)"], theirs["idle_time(us)"],
        ]  # fmt: skip
        assert (row["communication"] + row["copy"]) // US == theirs["non_compute_time(us)"]


def test_kernels_of_hta(read_by_hta: tuple[Trace, Mapping[str, Any]]) -> None:
    """Every sum, mean, extreme and deviation, by name and rank; of a single execution HTA has a deviation of 0.

    Of the memsets of the H100, which last less than a microsecond, HTA makes lengths of -1 by rounding.
    """
    trace, said = read_by_hta
    table = run_analysis(get_analysis("kernels"), trace, options=Options(None, (("by", "rank"),))).table
    ours = {(row["name"], row["rank"]): row for row in table.rows(named=True)}
    theirs = {(row["name"], row["rank"]): row for row in said["kernels"][1]}
    assert ours.keys() == theirs.keys()
    for key, row in theirs.items():
        if row["min (us)"] < 0:
            assert key[0] == "Memset (Device)"
            continue
        for name, its in (("total", "sum"), ("min", "min"), ("max", "max"), ("mean", "mean")):
            assert ours[key][name] / US == pytest.approx(row[f"{its} (us)"], abs=1e-6)
        assert (ours[key]["std"] is None) == (ours[key]["count"] == 1)
        assert (ours[key]["std"] or 0) / US == pytest.approx(row["stddev"], abs=1e-6)


def test_kernel_types_of_hta(read_by_hta: tuple[Trace, Mapping[str, Any]]) -> None:
    trace, said = read_by_hta
    several = trace.ranks.height > 1
    table = rows(run_analysis(get_analysis("kernel_types"), trace))
    ours = {row["type"]: row for row in table if not several or row["rank"] is None}
    assert len(ours) == len(said["kernels"][0])
    for theirs in said["kernels"][0]:
        row = ours[theirs["kernel_type"].lower().replace("overlapping", "and")]
        assert row["time"] == theirs["sum"] * US
        assert row["share"] * 100 == pytest.approx(theirs["percentage"], abs=0.05001)


def test_overlap_of_hta(read_by_hta: tuple[Trace, Mapping[str, Any]]) -> None:
    trace, said = read_by_hta
    ours = {row["rank"]: row["hidden"] for row in rows(run_analysis(get_analysis("overlap"), trace))}
    for row in said["overlap"]:
        theirs, hidden = row["comp_comm_overlap_pctg"], ours[row["rank"]]
        assert hidden is None if math.isnan(theirs) else round(hidden * 100, 2) == theirs


def test_idle_as_hta_tells_it(two_ranks: Trace) -> None:
    """HTA leaves out the last step but for its first kernel: the window ends with that. Its host wait is ours in parts.

    Stream 7: host_wait 1,238 us in 8 pauses, kernel_wait 10 us in 2, other 100 us in 2; stream 20: host_wait 790 us.
    Of the pause of stream 20 that lasts until work after the window, 750 us lie in it: HTA, which sees no work there,
    has none.
    """
    first = int(two_ranks.events().filter(kind="kernel").collect()["start"].to_numpy().min())
    idle = run_analysis(get_analysis("idle"), two_ranks, Window(first, first + 2200 * US, ranks=(0,)))
    found = {(row["stream"], row["cause"]): (row["idle"] // US, row["count"]) for row in rows(idle)}
    assert found["stream 7", "host"] == (1238 - 2 * 170, 6)
    assert found["stream 7", "synchronization"] == (2 * 170, 2)
    assert found["stream 7", "kernel"] == (10, 2)
    assert found["stream 7", "other stream"] == (100, 2)
    assert found["stream 20", "host"] == (790 + 750, 2)
    assert len([key for key in found if key[0] != "device"]) == 5


HTA_FILES = {
    "nccl": ("hta_nccl_a100/nccl_data.json.gz",),
    "nsres": ("hta_ns_resolution_v100/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",),
    "h100_qwen": ("compare_h100_mi300/h100_qwen1.5-0.5b.json.gz",),
    "sampled": ("multirank_hta_sampled/sampled_rank-0.json.gz", "multirank_hta_sampled/sampled_rank-1.json.gz"),
}
"""Runs of which HTA's own numbers are known."""

Seen = Callable[[str, Times], Trace]


@pytest.fixture(scope="module")
def seen(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """One of these runs with what HTA keeps of it."""

    @cache
    def trace(name: str, times: Times) -> Trace:
        folder = tmp_path_factory.mktemp(name)
        for number, path in enumerate(HTA_FILES[name]):
            as_hta(shared / "traces" / "kineto" / path, folder / f"{number}.json", times)
        return load_trace(open_trace_files([folder]))

    return trace


def told_by_hta(shared: Path, name: str) -> dict:
    return json.loads((shared / "golden" / "hta" / f"{name}.json").read_text())


def described(column: pl.Series) -> dict[str, float]:
    """What pandas' describe() says of a column."""
    parts = {f"{part}%": column.quantile(part / 100, "linear") for part in (25, 50, 75)}
    return {"count": len(column), "mean": column.mean(), "std": column.std(), "min": column.min(), **parts,
            "max": column.max()}  # fmt: skip


FOUR = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")
"""The calls that HTA knows."""


@pytest.mark.parametrize("name", some(HTA_FILES, ("nccl", "sampled")))
def test_launches_as_hta_has_them(name: str, seen: Seen, shared: Path) -> None:
    """Of its calls HTA has our numbers, but for 18 kernels of h100_qwen: rounded they take -1 us there, 0 here."""
    found = run_analysis(
        get_analysis("launches"), seen(name, "rounded"), options=Options(given=(("by", "launch"),))
    ).table
    columns = {"cpu_duration": "call_time", "gpu_duration": "device_time", "launch_delay": "delay"}
    for rank, figures in told_by_hta(shared, name)["launch"].items():
        mine = found.filter(pl.col("call").is_in(FOUR), rank=int(rank))
        for theirs, ours in columns.items():
            expected = {figure["index"]: figure[theirs] for figure in figures}
            numbers = described(mine[ours] / US)
            if (name, theirs) == ("h100_qwen", "gpu_duration"):
                assert numbers["mean"] == pytest.approx(expected["mean"] + 18 / 1197)
                for part in ("mean", "std", "min"):
                    del numbers[part], expected[part]
            assert numbers == pytest.approx(expected)


POINTS = {"count": "points", "mean": "point_mean", "std": "point_std", "25%": "point_p25", "50%": "point_p50",
          "75%": "point_p75"}  # fmt: skip


def summaries(rows: list[dict], key: str, of: str) -> dict[tuple[int, str], dict]:
    """HTA's summaries by rank and stream, or kind of copy; its columns are pairs in words."""
    return {
        (row["('rank', '')"], str(row[f"('{key}', '')"])): {
            figure: row[f"('{of}', '{figure}')"] for figure in (*POINTS, "min", "max")
        }
        for row in rows
    }


@pytest.mark.parametrize("name", some(HTA_FILES, ("nccl", "sampled")))
def test_queues_as_hta_sums_them_up(name: str, seen: Seen, shared: Path) -> None:
    """Where HTA rounds, a launch and a start may fall on one instant: it takes them in any order, launches here first.

    So on all but the sampled run, whose times are whole, its mean is at most that of the rounded times here; of the
    times as they are it differs by less than 0.5 %.
    """
    theirs = summaries(told_by_hta(shared, name)["queue"], "stream", "queue_length")
    first, exact = (
        {
            (row["rank"], row["stream"].removeprefix("stream ")): row
            for row in rows(run_analysis(get_analysis("queue"), seen(name, times)))
        }
        for times in ("rounded", "exact")
    )
    assert set(first) == set(theirs)
    for key, figures in theirs.items():
        assert (first[key]["points"], first[key]["max"]) == (figures["count"], figures["max"])
        if name == "sampled":
            assert {part: first[key][mine] for part, mine in POINTS.items()} == pytest.approx(
                {part: figures[part] for part in POINTS}
            )
        assert figures["mean"] <= first[key]["point_mean"] * (1 + 1e-9)
        assert figures["mean"] == pytest.approx(exact[key]["point_mean"], rel=0.005)


COUNTED_OTHERWISE = {("h100_qwen", "Memset"): (241, 219), ("nsres", "Memcpy DtoD"): (1280, 1285)}
"""HTA rounds instants and lets no copy be shorter than 1 us, so that short ones which follow one another overlap.

Ours and theirs: memsets that are one there; copies of which five are seen again, as sums or as rests of 1e-16 GB/s.
"""


@pytest.mark.parametrize("name", some(HTA_FILES, ("nccl", "sampled")))
def test_bandwidths_as_hta_sums_them_up(name: str, seen: Seen, shared: Path) -> None:
    """Times of the sampled run are whole microseconds: HTA has the bandwidths that the file states, which are finer."""
    theirs = summaries(told_by_hta(shared, name)["membw"], "name", "memory_bw_gbps")
    found = {
        (row["rank"], "Memset" if row["kind"] == "memset" else f"Memcpy {row['kind']}"): row
        for row in rows(run_analysis(get_analysis("bandwidth"), seen(name, "exact")))
    }
    assert set(found) == set(theirs)
    for (rank, kind), row in found.items():
        expected = theirs[rank, kind]
        if (name, kind) in COUNTED_OTHERWISE:
            assert (row["points"], expected["count"]) == COUNTED_OTHERWISE[name, kind]
            continue
        assert row["points"] == expected["count"]
        if name != "sampled":
            for part, mine in {**POINTS, "min": "point_min", "max": "max"}.items():
                if part != "count" and row[mine] is not None:
                    assert row[mine] / 1e9 == pytest.approx(expected[part], rel=1e-6), (kind, part)


def test_launches_queue_and_blocking_worked_out_by_hand(shared: Path, tmp_path: Path) -> None:
    """Two steps and a kernel of the third. HTA's share of the time blocked, 0.019512, is of all 2,050 us it keeps."""
    folder = shared / "golden" / "two_rank" / "nosync"
    path = as_hta(min(folder.glob("*.json*")), tmp_path / "rank.json", "exact")
    trace = load_trace(open_trace_files([path]))
    launches = run_analysis(get_analysis("launches"), trace, options=Options(given=(("by", "launch"),))).table
    times = launches.sort("at").select(pl.col("call_time", "device_time", "delay") // US).rows()
    hand = [(10, 200, 10), (5, 45, 30), (5, 210, 10), (10, 20, 30), (5, 30, 55), (5, 30, 95), (5, 1, 15)]
    assert times == [*hand, *hand, hand[0]]
    queues = {
        row["stream"]: row
        for row in rows(run_analysis(get_analysis("queue"), trace, None, Options(given=(("limit", "2"),))))
    }
    seven, twenty = queues["stream 7"], queues["stream 20"]
    assert (seven["points"], seven["max"], twenty["points"], twenty["point_mean"]) == (26, 2, 4, 0.5)
    assert seven["point_mean"] == pytest.approx(0.6538, abs=5e-5)
    assert seven["point_std"] == pytest.approx(0.6288, abs=5e-5)
    assert seven["blocked"] == 40 * US
    assert seven["blocked_share"] == pytest.approx(40 * US / seven["span"])


def test_launchers_as_tracelens_has_them(two_ranks: Trace) -> None:
    """It has no row for communication, and unites kernels instead of summing them; here they do not overlap."""
    table = {row["name"]: row for row in rows(run_analysis(get_analysis("operators"), two_ranks, Window(ranks=(0,))))}
    launchers = ("aten::addmm", "aten::relu", "triton_poi_fused_add_0", "aten::mul", "aten::copy_", "aten::zero_")
    assert [microseconds(table[name], "device_self")[0] for name in launchers] == [600, 135, 90, 90, 60, 3]


def test_the_critical_path_of_alexnet_has_the_edges_that_hta_finds(shared: Path) -> None:
    """HTA's edges: the last kernel ends cudaDeviceSynchronize, and stream 7 waits for the FFT on stream 20.

    HTA's own path weighs nothing outside kernels and calls, so that its length (and its 149 nodes) are not ours.
    """
    trace = load_trace(open_trace_files([shared / "traces" / "kineto" / "critical_path_alexnet"]))
    step = trace.events().filter(name="[param|pytorch.model.alex_net|0|0|0|measure|forward]", kind="annotation")
    mark = step.collect().sort("start").row(-1, named=True)
    by_event = Options(given=(("by", "event"),))
    path = rows(run_analysis(get_analysis("critical_path"), trace, Window(mark["start"], mark["end"]), by_event))
    assert sum(row["duration"] for row in path) == mark["end"] - mark["start"]
    sync = next(at for at, row in enumerate(path) if row["class"] == "sync" and row["name"] == "cudaDeviceSynchronize"
                and path[at - 1]["class"] == "compute")  # fmt: skip
    assert "epilogue::impl::globalKernel" in path[sync - 1]["name"]
    source = next(at for at, row in enumerate(path) if "fft2d_c2r_32x32" in row["name"] and row["class"] == "compute")
    assert [row["where"] for row in path[source : source + 3]] == ["stream 20", "stream 7", "stream 7"]
    assert "elementwise_kernel" in path[source + 2]["name"]
    launch = next(row for row in path if row["class"] == "launch" and row["start"] > path[source]["start"] - 600 * US)
    assert trace.event(launch["event"])["correlation"] == 5597


def test_sequences_as_hta_counts_them(two_ranks: Trace) -> None:
    """HTA, of rank 0: aten::linear|sm80_xmma_gemm..., 3 times, 600 us of kernels, 570 us of operators."""
    options = Options(given=(("length", "1"), ("operator", "aten::linear")))
    (row,) = rows(run_analysis(get_analysis("sequences"), two_ranks, Window(ranks=(0,)), options))
    assert row["sequence"].startswith("sm80_xmma_gemm")
    assert [row["count"], *microseconds(row, "kernels", "host")] == [3, 600, 570]


def test_gaps_and_their_causes(two_ranks: Trace) -> None:
    gaps = run_analysis(get_analysis("gaps"), two_ranks, Window(ranks=(0,)))
    longest = rows(gaps)[0]
    assert sorted(row["duration"] // US for row in rows(gaps)) == sorted([5, 30, 170] * 3 + [319] * 2)
    assert (longest["before"], longest["after"][:9]) == ("Memset (Device)", "sm80_xmma")
    assert (longest["launch"], longest["launched"] // US) == ("cudaLaunchKernel", 20)
    covered = {cover["event"]: cover["time"] // US for cover in longest["host"]}
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert covered[loader] == 100
    host = {row["event"]: row["time"] // US for row in rows(_host_in(two_ranks, longest))}
    assert host[loader] == 100
    assert sum(host.values()) == 319


def _host_in(trace: Trace, gap: dict) -> Result:
    return run_analysis(get_analysis("host"), trace, Window(gap["start"], gap["start"] + gap["duration"], (0,)))


def test_steps_are_those_of_the_host(two_ranks: Trace) -> None:
    """The plugin took the device's shadow rows for five more steps of length 0."""
    steps = [
        (row["step"], row["rank"], row["duration"] // US)
        for row in rows(run_analysis(get_analysis("steps"), two_ranks))
    ]
    assert steps == [(step, rank, 1000) for step in (10, 11, 12) for rank in (0, 1)]


def test_collectives(two_ranks: Trace) -> None:
    (row,) = rows(run_analysis(get_analysis("collectives"), two_ranks))
    assert [row["count"], row["bytes"], row["ranks"], *microseconds(row, "total", "min")] == [6, 12000, 2, 960, 110]


def test_hlo_ops_equal_hlo_stats(tpu: Trace, shared: Path) -> None:
    """XProf's rows: executions, total and self time on the device's own clock, over four cores."""
    ours = {(row["name"], row["program"]): row for row in _with_program(tpu)}
    with (shared / "golden/xprof/tpu_v6e_x4_offload/hlo_stats.csv").open(newline="") as file:
        theirs = [row for row in csv.DictReader(file) if row["HLO op category"] != "IDLE"]
    assert len(theirs) >= 17
    for row in theirs:
        mine = ours[row["HLO op name"], _signed(int(row["Program id"]))]
        assert mine["count"] == float(row["#Occurrences"])
        assert mine["category"] == row["HLO op category"]
        assert mine["total"] / US == pytest.approx(float(row["Total time (us)"]), abs=1e-6)
        assert mine["self"] / US == pytest.approx(float(row["Total self time (us)"]), abs=1e-6)
        assert mine["time_share"] * 100 == pytest.approx(float(row["Total self time (%)"]), abs=1e-9)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _with_program(trace: Trace) -> list[dict]:
    """The rows of `ops`, each with the program of its longest execution."""
    programs = dict(trace.ops.select("op", "program").rows())
    return [
        {**row, "program": programs[trace.event(row["event"])["op"]]}
        for row in rows(run_analysis(get_analysis("ops"), trace))
    ]


def test_the_two_ops_that_lead_and_the_idle_time(tpu: Trace) -> None:
    result = run_analysis(get_analysis("ops"), tpu)
    table = {row["name"]: row for row in rows(result)}
    assert table["copy-done.4"]["self"] / US == pytest.approx(77_773_215.731, abs=5e-4)
    assert table["copy-done.4"]["count"] == 400
    assert table["all-reduce"]["self"] / US == pytest.approx(1_460_345.259, abs=5e-4)
    assert table["all-reduce"]["count"] == 12
    assert "idle 13.4 % of 364 s device time" in note_texts(result.notes)


def test_steps_without_marks(tpu: Trace) -> None:
    """XProf measures none here; jit_f runs a hundred times on each core."""
    steps = run_analysis(get_analysis("steps"), tpu).table
    assert steps["inferred"].all()
    for rank, median in enumerate((784.127, 784.104, 783.961, 783.862)):
        mine = steps.filter(rank=rank)
        assert mine.height == 100
        assert mine["duration"].median() / 1e9 == pytest.approx(median, abs=0.5)


def test_every_execution_has_the_call_that_enqueued_it(tpu: Trace) -> None:
    modules = tpu.events().filter(kind="module").collect()
    launches = [tpu.event(event)["name"] for event in modules["launch"].drop_nulls()]
    assert modules.height == len(launches) == 414
    assert set(launches) == {"DoEnqueueProgram"}


PLUGIN = ("legacy", "real2024", "nogpuann")
"""One run as PyTorch wrote it until 1.13, as it writes it now, and that without annotations on the device.

`legacy` has the External ids for which the plugin was made. Ours are the same on all three. Its numbers were printed by
its last release (0.4.3), in us.
"""
HOST = 20
"""Length of the host's range around each collective, which the plugin counts as communication."""


@pytest.fixture(scope="module", params=PLUGIN)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def told_to_plugin(variant: str, shared: Path) -> Trace:
    return load_trace(open_trace_files([shared / "golden" / "two_rank" / variant]))


def test_step_time_breakdown_of_the_plugin(told_to_plugin: Trace) -> None:
    """Its numbers of `legacy`. Of the others it takes collectives for kernels (475 us and 0), and shadows for steps.

    Of the steps of `real2024` it has five in place of three, on average 600 us long.
    """
    table = run_analysis(get_analysis("step_parts"), told_to_plugin, Window(ranks=(0,))).table
    assert table["step"].to_list() == [10, 11, 12]
    for row in table.rows(named=True):
        assert microseconds(
            row, "kernel", "copy", "memset", "communication", "runtime", "data_loader", "cpu", "other", "duration"
        ) == [305, 20, 1, 150, 145, 100, 45, 234, 1000]


def test_steps_of_a_real_trace_as_the_plugin_bounds_them(shared: Path) -> None:
    """18,839 us on average; the plugin counts the shadow of step 15 as a fourth step of no length: 14,129 us."""
    trace = load_trace(open_trace_files([shared / "traces" / "kineto" / "rocm_resnet_rank0of8"]))
    table = run_analysis(get_analysis("step_parts"), trace).table
    assert table["step"].to_list() == [15, 16, 17]
    assert round(table["duration"].sum() / 3 / US) == 18_839
    assert round(table["duration"].sum() / 4 / US) == 14_129


def test_gpu_metrics_of_the_plugin(told_to_plugin: Trace) -> None:
    """The card of the device: 47.5 %, 25.75 %, 25 %; the card speaks of rank 0, whose collective begins earlier."""
    first, second = rows(run_analysis(get_analysis("utilization"), told_to_plugin))
    assert first["span"] == 3000 * US
    measures = ("utilization", "sm_efficiency", "occupancy", "blocks_per_sm")
    assert [first[name] for name in measures] == pytest.approx([0.475, 0.2575, 0.25, 0.5])
    assert [second[name] for name in measures] == pytest.approx([0.385, 0.2075, 0.25, 0.5])


def test_utilization_over_time_of_the_plugin(shared: Path) -> None:
    """The counters that it put into a trace of 2021, in percent: one for each millisecond of the profiler's span."""
    trace = load_trace(open_trace_files([shared / "traces" / "kineto" / "gpu_counters"]))
    lane = trace.lanes.filter(pl.col("name").str.contains("(?i)gpu 0 utilization"))["lane"][0]
    theirs = trace.samples(lane)["value"].to_list()[:-1]  # the last one goes back to 0
    start, length = trace.parts[0].facts.span_ns or (0, 0)
    begin = start * 1000 - (trace.origin_ns or 0) * 1000
    (share,) = rank_traces(trace, Window())
    ours = measure_occupancy(share).mean_measures(*bucket_edges(begin, begin + length * 1000, 1000 * US))["utilization"]
    assert len(theirs) == 15
    assert [100 * value for value in ours] == pytest.approx(theirs[2:])


def test_memory_view_of_the_plugin(told_to_plugin: Trace) -> None:
    """The peak of 3.5 KB, and its table of operators: addmm keeps 3 KB, relu gives back its 1.5 KB."""
    (found,) = rows(run_analysis(get_analysis("memory"), told_to_plugin, Window(ranks=(0,))))
    assert (found["peak"], found["capacity"]) == (3584, 4096)
    operators = {
        row["operator"]: row
        for row in rows(run_analysis(get_analysis("memory_operators"), told_to_plugin, Window(ranks=(0,))))
    }
    names = ("count", "size_increase", "self_size_increase", "allocations", "self_allocations", "allocation_size")
    assert {name: [row[column] for column in names] for name, row in operators.items()} == {
        "aten::addmm": [3, 3072, 3072, 3, 3, 3072],
        "aten::relu": [3, 0, 0, 3, 3, 1536],
        "aten::linear": [3, 3072, 0, 3, 0, 3072],
    }


def test_memory_events_of_the_plugin(told_to_plugin: Trace) -> None:
    """Its table of events pairs by address: relu's blocks last 43 us, addmm's are never released."""
    found = rows(run_analysis(get_analysis("memory_blocks"), told_to_plugin, Window(ranks=(0,))))
    assert [(b["operator"], b["size"], b["duration"] and b["duration"] // US) for b in found] == [
        *[("aten::addmm", 1024, None)] * 3,
        *[("aten::relu", 512, 43)] * 3,
    ]


def test_operators_of_the_plugin(told_to_plugin: Trace) -> None:
    """Host self and total, device self and total, of three calls each."""
    table = {
        row["name"]: row for row in rows(run_analysis(get_analysis("operators"), told_to_plugin, Window(ranks=(0,))))
    }
    names = ("host_self", "host_total", "device_self", "device_total")
    assert microseconds(table["aten::addmm"], *names) == [360, 390, 600, 600]
    assert microseconds(table["aten::linear"], *names) == [180, 570, 0, 600]
    assert microseconds(table["record_param_comms"], "device_self") == [630]
    assert {row["count"] for row in table.values()} == {3}


def of_steps(trace: Trace, *names: str) -> list[list[int]]:
    """These columns of `distributed` of both ranks: the same in each of the three steps."""
    table = rows(run_analysis(get_analysis("distributed"), trace, options=Options(given=(("by", "step"),))))
    found = {rank: {tuple(microseconds(row, *names)) for row in table if row["rank"] == rank} for rank in (0, 1)}
    assert [len(each) for each in found.values()] == [1, 1]
    return [list(*each) for each in found.values()]


PLUGIN_OVERVIEW = {
    "legacy": [[245, 60, 170, 525], [255, 50, 80, 615]],
    "real2024": [[245, 230, 0, 525], [255, 130, 0, 615]],
    "nogpuann": None,
}
"""Today it takes NCCL's kernels for computation, too, and with the device's ranges all communication overlaps it."""


def test_computation_communication_and_their_overlap_of_the_plugin(told_to_plugin: Trace, variant: str) -> None:
    """The host's range lies beside kernels: it is overlap in the plugin, and computation here."""
    ours = of_steps(told_to_plugin, "computation", "overlap", "communication", "other")
    assert ours == [[265, 40, 170, 525], [275, 30, 80, 615]]
    as_plugin = [[comp - HOST, over + HOST, comm, other] for comp, over, comm, other in ours]
    theirs = PLUGIN_OVERVIEW[variant]
    if variant == "legacy":
        assert as_plugin == theirs
    elif theirs is not None:  # the exposed communication of theirs is gone: it counts as overlap
        assert [[comp, over + comm, 0, other] for comp, over, comm, other in as_plugin] == theirs


PLUGIN_TRANSFERS = {
    "legacy": [[130, 100], [130, 0]],
    "real2024": [[110, 100], [110, 0]],
    "nogpuann": [[20, 0], [20, 0]],
}


def test_transfer_and_synchronizing_of_the_plugin(told_to_plugin: Trace, variant: str) -> None:
    """Legacy: it adds the host's range to the transfer. Without the device's ranges today it has the host's alone."""
    ours = of_steps(told_to_plugin, "transfer", "synchronizing")
    assert ours == [[110, 100], [110, 0]]
    theirs = PLUGIN_TRANSFERS[variant]
    if variant == "legacy":
        assert [[transfer + HOST, waits] for transfer, waits in ours] == theirs
    elif variant == "real2024":
        assert ours == theirs
    else:
        assert theirs == [[HOST, 0], [HOST, 0]]


def test_communication_operations_of_the_plugin(told_to_plugin: Trace) -> None:
    """Legacy, rank 0 and 1: 3 calls, 6,000 bytes, latency 690 and 390, transfer 390; each with the host's ranges.

    Of today's traces it has 0 bytes, since the device's range that takes the place of the host's has no inputs.
    """
    for rank, latency in ((0, 690), (1, 390)):
        (row,) = rows(run_analysis(get_analysis("collectives"), told_to_plugin, Window(ranks=(rank,))))
        assert (row["count"], row["bytes"], row["total"] // US) == (3, 6000, latency - 3 * HOST)
    (both,) = rows(run_analysis(get_analysis("collectives"), told_to_plugin))
    assert (both["message"], both["transfer"] // US, both["skew"] // US) == (2000, (390 - 3 * HOST) // 3, 100)


def test_collectives_as_tracelens_has_them(told_to_plugin: Trace) -> None:
    """Latency 110, skew 100, 50 of wait on average, 0.01693 GB/s, where a GB is 2**30 bytes."""
    for row in rows(run_analysis(get_analysis("collective_calls"), told_to_plugin)):
        assert microseconds(row, "transfer", "skew", "wait") == [110, 100, 2 * 50]
        assert row["algorithm"] / 2**30 == pytest.approx(0.01693, abs=1e-5)
        assert row["bus"] == row["algorithm"], "of two ranks"
