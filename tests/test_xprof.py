"""XProf's numbers for the same files, row by row; where ours differ, the test says why.

XProf's tables were made with its package 2.24.2. Of what is known to be wrong in them, these concern ops:

- waiting for the host's memory is called HBM-bound, collectives too: `test_what_bounds_the_ops_of_an_offloading_job`;
- bytes of a half of an asynchronous op over the time of that half: `test_absurd_rates_are_marked`;
- operations of a kernel's op counted for each kernel: `test_an_op_of_two_kernels_is_not_twice_as_fast`;
- peaks that were exceeded, without a word: `test_absurd_rates_are_marked`, `test_rocm_s_memory_is_not_that_slow`;
- no rows for CPUs: `test_cpus_have_rows`; devices without work counted: `test_devices_without_work_do_not_count`;
- library calls without operations: `test_products_behind_library_calls_are_estimated`;
- two bases for one percentage: `test_a_share_names_its_base`;
- kernels that lost their op are dropped silently: a note says how many and for how long (tests of `hlo_ops`);
- 16 bits told by "half" in a kernel's name: the type is that of the HLO's operands (tests of `formats.hlo.cost`);
- no ops in CUDA graphs: kernels of a graph carry no name of an op, so they are in that note, not attributed by name.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from building import US, Building, Lane
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.formats.xla.op_executions import cost_from_hlo_text
from tracehound.formats.xla.op_kinds import op_kind
from tracehound.model.trace import Trace
from tracehound.model.units import format_duration
from tracehound.store import load_trace, open_trace_files

GIB = 2.0**30
BOUND = {"HBM": "HBM", "Compute": "compute", "Unknown": None}
"""What XProf calls what bounds an op, and what it is called here."""


def opened(shared: Path, name: str) -> Trace:
    return load_trace(open_trace_files([shared / "traces/xla" / name]))


@pytest.fixture(scope="module")
def tpu(shared: Path) -> Trace:
    return opened(shared, "tpu_v6e_x4_offload")


def theirs(shared: Path, name: str) -> list[dict[str, str]]:
    with (shared / "golden/xprof" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def result(trace: Trace, analysis: str = "hlo_ops", *given: tuple[str, str]) -> Result:
    return run_analysis(get_analysis(analysis), trace, None, Options(given=given))


def ours(trace: Trace, analysis: str = "hlo_ops", *given: tuple[str, str]) -> dict[tuple[str, str | None], dict]:
    return {(row["name"], row.get("program")): row for row in result(trace, analysis, *given).table.rows(named=True)}


def number(row: dict[str, str], column: str) -> float:
    return float(row[column])


@pytest.mark.parametrize("name", ["tpu_v6e_x4_offload", "jax_rocm_conv_legacy"])
def test_every_row_of_hlo_stats(shared: Path, name: str) -> None:
    """Times, shares, names and costs of every op; of rates those that are not wrong there (see the tests below)."""
    found = ours(opened(shared, name))
    rows = [row for row in theirs(shared, f"{name}/hlo_stats.csv") if row["HLO op category"] != "IDLE"]
    assert len(rows) == len(found)
    for row in rows:
        mine = found[row["HLO op name"], row["Program id"]]
        assert (mine["kernels"] or mine["count"]) == number(row, "#Occurrences")
        assert mine["category"] == row["HLO op category"]
        assert mine["total"] / US == pytest.approx(number(row, "Total time (us)"), abs=1e-6)
        assert mine["self"] / US == pytest.approx(number(row, "Total self time (us)"), abs=1e-6)
        assert mine["time_share"] * 100 == pytest.approx(number(row, "Total self time (%)"), abs=1e-9)
        assert (mine["framework"] or "") == row["Framework op name"].removesuffix(":")
        assert mine["rematerialized"] == (row["Rematerialization"] == "Yes")
        halves = row["HLO op category"].endswith(("-start", "-done"))
        if not halves and row["HLO op name"] != "cudnn-conv.1.0":
            assert mine["rate"] / 1e9 == pytest.approx(number(row, "Model GFLOP/s"), rel=1e-9)
            assert mine["normalized_rate"] / 1e9 == pytest.approx(number(row, "Normalized GFLOP/s"), rel=1e-9)
            assert mine["bandwidth"] / GIB == pytest.approx(number(row, "Measured memory BW (GiB/s)"), rel=1e-9)
            assert mine["hbm_bandwidth"] / GIB == pytest.approx(number(row, "HBM BW (GiB/s)"), rel=1e-9)
            assert mine["intensity"] == pytest.approx(number(row, "Operational intensity (FLOPS/Byte)"), rel=1e-9)
        if not halves and row["HLO op category"] != "all-reduce" and row["HLO op name"] != "cudnn-conv.1.0":
            assert mine["bound_by"] == BOUND[row["Bound by"]]


def test_idle_time(tpu: Trace, shared: Path) -> None:
    assert "idle 13.4 % of 364 s device time" in note_texts(result(tpu).notes)
    (idle,) = (row for row in theirs(shared, "tpu_v6e_x4_offload/framework_op_stats.csv")
               if (row["Host/device"], row["Operation Type"]) == ("Device", "IDLE"))  # fmt: skip
    spent = sum(row["self"] for row in ours(tpu).values()) / US
    assert 363_729_698.76875 - spent == pytest.approx(number(idle, "Total time (us)"), abs=1e-3)


@pytest.mark.parametrize("name", ["tpu_v6e_x4_offload", "jax_rocm_conv_legacy"])
def test_every_row_of_the_framework_s_ops(shared: Path, name: str) -> None:
    """Times and shares; of occurrences XProf takes the most frequent op of an operation, here all are counted."""
    trace = opened(shared, name)
    found = {key: row for (key, _), row in ours(trace, "hlo_ops", ("by", "framework")).items()}
    rows = [
        row for row in theirs(shared, f"{name}/framework_op_stats.csv")
        if row["Host/device"] == "Device" and row["Operation Type"] != "IDLE"
    ]  # fmt: skip
    assert {row["Operation Name"] for row in rows} == set(found)
    per_op: dict[str, list[int]] = {}
    for (op, _), row in ours(trace).items():
        per_op.setdefault(row["framework"] or op, []).append(row["kernels"] or row["count"])
    for row in rows:
        mine = found[row["Operation Name"]]
        assert mine["total"] / US == pytest.approx(number(row, "Total time (us)"), abs=1e-6)
        assert mine["self"] / US == pytest.approx(number(row, "Total self-time (us)"), abs=1e-6)
        assert mine["time_share"] == pytest.approx(number(row, "Total self-time on Device (%)"), abs=1e-11)
        assert max(per_op[row["Operation Name"]]) == number(row, "#Occurrences")
        assert (mine["kernels"] or mine["count"]) == sum(per_op[row["Operation Name"]])


def test_what_bounds_the_ops_of_an_offloading_job(tpu: Trace, shared: Path) -> None:
    """XProf: HBM, each of them. Four copies wait for the host's memory, a reduction for other chips."""
    assert {row["Bound by"] for row in theirs(shared, "tpu_v6e_x4_offload/hlo_stats.csv")} == {"HBM"}
    table = result(tpu).table
    bounds = dict(table.filter(table["bound_by"].is_not_null()).select("name", "bound_by").rows())
    for what, names in (
        ("host link", {"copy-done", *(f"copy-done.{n}" for n in range(1, 6))}),
        ("HBM", {"broadcast_add_fusion", "broadcast_add_fusion.1", "broadcast_add_fusion.2", "broadcast.2"}),
        ("interconnect", {"all-reduce"}),
    ):
        assert {name for name, bound in bounds.items() if bound == what} == names
    shares = {row["name"]: row["time_share"] for row in ours(tpu, "hlo_ops", ("by", "bound")).values()}
    assert shares["host link"] * 100 == pytest.approx(83.588, abs=5e-4)
    assert shares["HBM"] * 100 == pytest.approx(2.646, abs=5e-4)
    assert "96.5 % of the ops' self time waits for host memory" in note_texts(result(tpu).notes)


def test_absurd_rates_are_marked(tpu: Trace, shared: Path) -> None:
    """XProf: 833,333,333 GiB/s for an op that only starts a copy, and more; the device has 1,525.5."""
    worst = max(number(row, "HBM BW (GiB/s)") for row in theirs(shared, "tpu_v6e_x4_offload/hlo_stats.csv"))
    assert worst > 2e9
    table = result(tpu).table
    starts = table.filter(table["category"] == "copy-start")
    assert starts["bandwidth"].null_count() == starts.height == 6
    assert (table["bandwidth"].max() or 0) / GIB < 1525.5
    assert table["above"].null_count() == table.height


def test_a_share_names_its_base(tpu: Trace) -> None:
    """XProf shows 24.68 % and 21.38 % for the same op in two places, and does not say of what."""
    row = ours(tpu)["copy-done.4", "12190760917235803885"]
    assert (round(row["share"] * 100, 2), round(row["time_share"] * 100, 2)) == (24.68, 21.38)
    shown = result(tpu)
    assert (shown.column("share").base, shown.column("time_share").base) == (
        "the self time of all ops", "device time, idle included",
    )  # fmt: skip


def test_the_roofline_of_the_whole_program(tpu: Trace, shared: Path) -> None:
    program = next(
        row for row in theirs(shared, "tpu_v6e_x4_offload/roofline_model.csv") if row["Operation"] == "Program"
    )
    assert number(program, "Normalized FLOP Rate (GFLOP/s)") == pytest.approx(4.472, abs=5e-4)
    found = result(tpu, "roofline")
    assert any(
        note.startswith("all ops: 4.47 GFLOP/s at 0.125 operations per byte (device time, idle included)")
        for note in note_texts(found.notes)
    )
    assert note_texts(found.notes)[0].startswith(
        "covers 3.05 % of the ops' self time; the rest: 96.5 % waits for the host link, 0.46 % waits "
        "for the interconnect, <0.01 % of unknown cost"
    )
    rows = {
        row["Operation"]: row for row in theirs(shared, "tpu_v6e_x4_offload/roofline_model.csv")
        if (row["Step"], row["Include Infeed/Outfeed"]) == ("Total", "True")
    }  # fmt: skip
    for row in found.table.rows(named=True):
        if row["efficiency"] is not None:
            theirs_too = rows[row["name"]]
            assert row["efficiency"] == pytest.approx(number(theirs_too, "Roofline efficiency (%)"), rel=1e-9)
            assert row["of_compute"] == pytest.approx(number(theirs_too, "FLOP Rate / Peak (%)"), rel=1e-9)


def test_an_op_of_two_kernels_is_not_twice_as_fast(shared: Path) -> None:
    """XProf: 10 occurrences and 212 TFLOP/s, for the five executions of a convolution in two kernels each."""
    (row,) = (
        row for row in theirs(shared, "jax_rocm_conv_legacy/hlo_stats.csv") if row["HLO op name"] == "cudnn-conv.1.0"
    )
    mine = ours(opened(shared, "jax_rocm_conv_legacy"))["cudnn-conv.1.0", "15"]
    assert (mine["count"], mine["kernels"]) == (5, number(row, "#Occurrences"))
    assert mine["rate"] / 1e9 == pytest.approx(number(row, "Model GFLOP/s") / 2, rel=1e-9)
    assert mine["bandwidth"] / GIB == pytest.approx(number(row, "Measured memory BW (GiB/s)") / 2, rel=1e-9)
    assert mine["hbm_bandwidth"] == mine["bandwidth"], "of HBM, XProf forgets what a call with several results writes"
    assert mine["bound_by"] == "HBM"


def test_devices_without_work_do_not_count(shared: Path) -> None:
    """Eight planes, two with work: XProf divides by eight. Its own device time counts two."""
    trace = opened(shared, "jax_rocm_conv_legacy")
    (program,) = (
        row for row in theirs(shared, "jax_rocm_conv_legacy/roofline_model.csv")
        if (row["Step"], row["Operation"], row["Include Infeed/Outfeed"]) == ("Total", "Program", "True")
    )  # fmt: skip
    whole = number(program, "Total Time (us)")
    assert number(program, "Total Time per core (us)") == pytest.approx(whole / 8)
    told = f"idle 89.7 % of {format_duration(round(whole * 1e6))} device time; no HLO op runs in 91.8 %"
    assert told in note_texts(result(trace).notes), "XProf's IDLE takes the copies of a device for none"
    assert trace.ranks.height == 2


ELEMENTWISE = (
    ("loop_convert_fusion", "17", 5, 583.4, 3213.918409), ("loop_convert_fusion", "11", 5, 541.761, 3460.935726),
    ("loop_convert_fusion", "13", 5, 489.521, 2553.516601), ("loop_convert_fusion", "15", 5, 480.521, 2601.343125),
    ("loop_convert_fusion", "30", 5, 412.92, 3027.959837), ("loop_convert_fusion", "26", 5, 390.76, 3199.675442),
)  # fmt: skip
"""XProf's first rows of a file: op, program, occurrences, total time (us) and bandwidth (GiB/s)."""


def test_rocm_s_memory_is_not_that_slow(shared: Path) -> None:
    """An addition moves 3,716 GB/s, where the profile, and so XProf, state a peak of 2,662: that of HBM3's clock."""
    found = ours(opened(shared, "jax_rocm_elementwise"))
    for name, program, count, total, bandwidth in ELEMENTWISE:
        mine = found[name, program]
        assert (mine["count"], mine["total"] / US) == (count, pytest.approx(total, abs=5e-4))
        assert mine["bandwidth"] / GIB == pytest.approx(bandwidth, abs=1e-6)
        assert (mine["bound_by"], mine["above"]) == ("HBM", None)


def test_elementwise_operations_are_counted_once(shared: Path) -> None:
    """XProf's cost model for GPUs takes three for each, and hundreds for a sine: 7,432 and 457,884 GFLOP/s."""
    found = ours(opened(shared, "jax_rocm_elementwise"))
    assert found["loop_convert_fusion", "11"]["rate"] / 1e9 == pytest.approx(7432.302879 / 3, abs=1e-5)
    assert found["loop_convert_fusion", "13"]["rate"] / 1e9 == pytest.approx(457_883.53 / 334, abs=0.01)


def test_products_behind_library_calls_are_estimated(shared: Path) -> None:
    """XProf knows neither operations nor bytes of them, and nothing of what bounds 95 % of the time."""
    trace = opened(shared, "jax_rocm_gemm")
    found = ours(trace)["custom-call.1", "49"]
    assert found["rate"] == pytest.approx(2 * 8192 * 8192 * 4096 * 3 / (found["total"] * 1e-12))
    assert (found["bound_by"], found["estimated"], found["above"]) == ("compute", True, None)
    product = ours(trace)["gemm_fusion_dot_general.1", "5"]
    assert product["rate"] / 1e9 == pytest.approx(6710.886, abs=1e-3), "what XLA computes itself XProf counts, too"
    assert note_texts(result(trace, "roofline").notes)[:2] == (
        "covers 100 % of the ops' self time",
        "operations or bytes of 100 % are estimated from shapes",
    )


def test_cpus_have_rows(samples: Path) -> None:
    """XProf has none: for it the ops of CPUs are events of host threads."""
    table = result(load_trace(open_trace_files([samples / "jax_cpu8_b128"]))).table
    first = table.row(0, named=True)
    assert (table.height, first["name"], first["count"]) == (172, "all-reduce.11", 32)
    assert table["rate"].null_count() == 0


V5P = "bf16:233.4T,1382.5GB/s"
"""Of a core, which is what the table is about: half of a chip's."""


@pytest.fixture(scope="module")
def v5p(shared: Path) -> tuple[list[dict[str, str]], dict[str, dict]]:
    """XProf's table of a training job on eight cores of TPU v5p, and ours of ops with the same times and costs.

    Each op runs once, for as long as all its executions took.
    """
    rows = theirs(shared, "tpu_v5p_training_tables/hlo_stats_golden.csv")
    b, lane, at = Building(format="xplane", unit=1), Lane("XLA Ops", 0, "ops", work=True), 0
    for place, row in enumerate(rows):
        length = round(number(row, "total_time") * US)
        seconds, text = length * 1e-12, row["hlo_op_expression"]
        amounts = {
            "flops": number(row, "model_flop_rate") * 1e9,
            "normalized_flops": number(row, "normalized_flop_rate") * 1e9,
            "bytes_accessed": number(row, "measured_memory_bw") * GIB, "hbm_bytes": number(row, "hbm_bw") * GIB,
        }  # fmt: skip
        b.ops.append(
            {
                "op": place, "name": row["hlo_op_name"], "category": row["category"], "module": "jit_train_step",
                "program": place, "framework": row["tf_op_name"], "text": text,
                **{name: round(value * seconds) for name, value in amounts.items()},
                **cost_from_hlo_text(row["hlo_op_name"], text),
            }
        )  # fmt: skip
        b.event(lane, row["hlo_op_name"], at, at + length, op_kind(row["hlo_op_name"], row["category"], text), op=place)
        at += length
    return rows, {row["program"]: row for row in ours(b.trace(), "hlo_ops", ("peak", V5P)).values()}


def test_every_row_of_a_training_job(v5p: tuple[list[dict[str, str]], dict[str, dict]]) -> None:
    """Rates and bounds of 357 ops; other than XProf's are those of collectives and of what only starts a copy.

    Collectives that run beside other ops are fusions here, told by their names: XProf has up to 20,782 GiB/s for them.
    Of one custom call (X64Combine) the bytes are estimated.
    """
    rows, found = v5p
    assert len(rows) == len(found) == 357
    differ: dict[tuple[str, str | None, str | None], int] = {}
    for place, row in enumerate(rows):
        mine = found[str(place)]
        assert mine["rematerialized"] == (row["hlo_rematerialization"] == "Yes")
        if not row["category"].endswith(("-start", "-done")) and "async-collective" not in row["hlo_op_name"]:
            counted = {name: 0 if mine["estimated"] else mine[name] or 0 for name in ("rate", "bandwidth")}
            assert counted["rate"] / 1e9 == pytest.approx(number(row, "model_flop_rate"), rel=1e-6, abs=0.1)
            assert counted["bandwidth"] / GIB == pytest.approx(number(row, "measured_memory_bw"), rel=1e-6, abs=0.1)
        if mine["bound_by"] != BOUND[row["bound_by"]]:
            kind = (row["category"], BOUND[row["bound_by"]], mine["bound_by"])
            differ[kind] = differ.get(kind, 0) + 1
    assert differ == {
        ("all-reduce-scatter fusion", "HBM", "interconnect"): 8,
        ("all-reduce", "HBM", "interconnect"): 5,
        ("all-gather", "HBM", "interconnect"): 4,
        ("all-to-all", "HBM", "interconnect"): 2,
        ("custom fusion", "HBM", "interconnect"): 28,
        ("copy-start", "HBM", None): 51,
        ("custom-call", None, "HBM"): 1,
    }


def test_custom_calls_beyond_the_peak(v5p: tuple[list[dict[str, str]], dict[str, dict]]) -> None:
    """XProf shows 764 and 933 TFLOP/s on a core of 233 for the backward passes of splash attention.

    By the shapes of queries and keys they are 207 and 190, without a mask.
    """
    rows, found = v5p
    marked = {place: found[str(place)] for place, row in enumerate(rows) if found[str(place)]["above"]}
    assert [rows[place]["hlo_op_name"].split("_segmented")[0] for place in marked] == [
        "vmap_splash_mha_dkv",
        "vmap_splash_mha_dq",
    ]
    assert {row["above"] for row in marked.values()} == {"compute, HBM"}
    for place, teraflops in zip(marked, (207, 190), strict=True):
        row = rows[place]
        shapes = cost_from_hlo_text(row["hlo_op_name"], row["hlo_op_expression"])
        assert int(shapes["estimated_flops"] or 0) / number(row, "avg_time") / 1e6 == pytest.approx(
            teraflops, rel=0.005
        )
