"""Findings on slow kernels and on the use of devices: tensor cores, memory, several devices, compiling."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

from building import US, Building, listing, stream, thread
from finding_runs import (
    MAIN,
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
from short import some
from tracehound.analysis import get_analysis, run_analysis
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.file_facts import FileFacts
from tracehound.model.trace import Window
from tracehound.store import merge_file_frames

TENSOR_CORES = "GEMMs and convolutions run without tensor cores"


def test_tensor_cores_are_missed_where_the_device_has_them() -> None:
    b = add_kernel(make_steps(busy=50), "sgemm_128x64_nn")
    row = only_row(find_rows(b.trace()), TENSOR_CORES, "fp16")
    assert location(row) == (0, 50, 49)
    assert (row["cost"], row["share"]) == (24.5 * US, 0.245), "half of it"
    assert has_share(row["evidence"], 49 / 99), "of the kernel time"
    assert "sgemm_128x64_nn" in row["evidence"]
    assert (row["certainty"], row["next"]) == ("inferred", "kernels")
    b.facts = listing({**V100, "computeMajor": 6})
    assert find_rows(b.trace()) == []
    assert find_rows(add_kernel(make_steps(busy=50), "volta_fp16_s884gemm_fp16_128x64").trace()) == []
    b.facts = listing({**V100, "computeMajor": 8})
    assert "bf16" in only_row(find_rows(b.trace()), TENSOR_CORES)["finding"]


def add_kernel(b: Building, name: str) -> Building:
    """Add a kernel to each step, from 50 us on, for 49."""
    for number in range(4):
        add_work(b, name, number * 100 + 50, number * 100 + 99)
    return b


@pytest.mark.thorough
def test_gemms_outside_the_steps_cost_none_of_them() -> None:
    """One of 1 ms runs before the loop: of the GEMMs in steps, 10 us of 100, the cost is half."""
    b = make_steps(busy=89)
    add_work(b, "sgemm_128x64_nn", -1000, 0)
    assert rows_with(find_rows(b.trace()), TENSOR_CORES) == []
    for number in range(4):
        add_work(b, "sgemm_32x32_nn", number * 100 + 89, number * 100 + 99)
    row = find_row(find_rows(b.trace()), TENSOR_CORES)
    assert (row["cost"], row["share"], row["start"]) == (5 * US, 0.05, 1089 * US)
    assert "sgemm_32x32_nn" in row["evidence"]


@pytest.mark.thorough
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
    b = add_kernel(make_steps(busy=50), name)
    assert len(rows_with(find_rows(b.trace()), TENSOR_CORES)) == finds
    assert run_analysis(get_analysis("kernels"), b.trace()).table.filter(name=name)["class"].item() == "gemm"


@pytest.mark.thorough
def test_gemms_of_a_run_without_steps_cost_half_of_what_they_take_in_it() -> None:
    b = Building(facts=listing(V100))
    add_work(b, "elementwise_kernel", 0, 60)
    add_work(b, "sgemm_128x64_nn", 60, 100)
    row = only_row(find_rows(b.trace()), TENSOR_CORES)
    assert (row["cost"], row["share"], row["share_of"], row["start"]) == (20 * US, 0.2, "run", 60 * US)
    half = find_rows(b.trace(), Window(40 * US, 80 * US))[0]
    assert (half["finding"], half["cost"], half["share"]) == (row["finding"], 10 * US, 0.25)


@pytest.mark.thorough
@pytest.mark.parametrize(("peak", "finds"), [(950, True), (900, False)])
def test_memory_that_is_nearly_full_is_found_at_its_peak(peak: int, finds: bool) -> None:  # noqa: FBT001
    part = make_steps(busy=99).part()
    levels = [
        {"record": 0, "time": 5 * US, "device": 0, "bytes": peak, "allocated": peak, "reserved": peak},
        {"record": 1, "time": 6 * US, "device": -1, "bytes": 9999, "allocated": 9999},
    ]
    allocated = pl.DataFrame(levels, schema=FACET_SCHEMAS["allocated"]).lazy()
    rows = find_rows(merge_file_frames("t", [replace(part, facets={"allocated": allocated})]))
    if not finds:
        assert rows == []
        return
    row = only_row(rows, "memory of the GPU", "full")
    assert has_share(row["finding"], 0.95)
    assert row["start"] == 5 * US
    assert "950 B of 1000 B" in row["evidence"]
    assert row["cost"] is None


@pytest.mark.thorough
def test_devices_that_do_no_work_have_no_say() -> None:
    """Beside the device that works another is listed, whose memory is smaller, or which has tensor cores."""
    b = add_kernel(make_steps(busy=50), "sgemm_128x64_nn")
    b.facets = {"allocated": [{"record": 0, "time": 5 * US, "device": 0, "bytes": 500, "allocated": 500}]}
    mine, other = ({**V100, "id": number, "totalGlobalMem": size} for number, size in ((0, 1000), (1, 400)))
    b.facts = listing(mine, other)
    only_row(find_rows(b.trace()), TENSOR_CORES)
    b.facts = listing({**mine, "computeMajor": 6, "totalGlobalMem": 510}, other)
    assert "500 B of 510 B" in only_row(find_rows(b.trace()), "memory of the GPU")["evidence"]


def test_data_parallel_is_found_where_it_drives_several_devices() -> None:
    b = make_steps(busy=99)
    b.event(MAIN, "DataParallel.forward", 1, 5, "annotation")
    assert find_rows(b.trace()) == []
    for number in range(4):
        b.event(stream(1), "k", number * 100, number * 100 + 99)
    b.event(MAIN, "DataParallel.forward", 101, 107, "annotation")
    row = only_row(find_rows(b.trace()), "DataParallel drives several devices")
    assert "2 calls" in row["evidence"]
    assert "2 devices" in row["evidence"]
    assert location(row) == (0, 101, 6), "the longest of them"
    assert row["event"] is not None


@pytest.mark.thorough
def test_another_backend_than_nccl_is_found() -> None:
    b = make_steps(busy=99)
    b.event(MAIN, "DistributedDataParallel.forward", 1, 5, "annotation")
    assert location(only_row(find_rows(b.trace()), "without NCCL")) == (0, 1, 4)
    b.event(MAIN, "nccl:all_reduce", 6, 9, "annotation")
    assert find_rows(b.trace()) == []


def test_compiling_that_work_hides_is_found_with_the_longest() -> None:
    b = make_steps(busy=99)
    b.event(MAIN, "compile f", 10, 15, "compile")
    assert find_rows(b.trace()) == []
    b.event(MAIN, "compile g", 110, 140, "compile")
    b.event(MAIN, "inside g", 111, 139, "compile")
    row = only_row(find_rows(b.trace()), "compiled")
    assert "2 compilations" in row["evidence"]
    assert has_time(row["evidence"], 35 * US)
    assert has_share(row["evidence"], 35 / 400)
    assert b.trace().event(row["event"])["name"] == "compile g"
    assert location(row) == (0, 110, 30)
    assert row["next"] == "compiles"


@pytest.mark.thorough
def test_compiling_that_work_hides_costs_nothing() -> None:
    """The device is busy all the while: without it the run would be as long."""
    b = make_steps(busy=100)
    b.event(MAIN, "compile g", 110, 190, "compile")
    assert not sum(row["cost"] or 0 for row in find_rows(b.trace()))


@pytest.mark.thorough
def test_compiling_that_keeps_the_device_idle_is_one_finding() -> None:
    b = add_each_step(make_steps(busy=60), "compile f", 60, 99, "compile")
    row = only_row(find_rows(b.trace()), "compiling", "compile f")
    assert row["cost"] == 40 * US
    assert "4 compilations" in row["evidence"]
    assert row["certainty"] == "recorded"


@pytest.mark.thorough
def test_compiling_is_when_any_thread_compiles() -> None:
    """Two threads compile for 9 of 400 us each, at once for 2 of them: 4 % of the time."""
    b = make_steps(busy=99)
    b.event(MAIN, "compile f", 10, 19, "compile")
    assert find_rows(b.trace()) == []
    b.event(thread("pool (2)"), "compile g", 17, 26, "compile")
    row = only_row(find_rows(b.trace()), "compiled")
    assert "2 compilations" in row["evidence"]
    assert has_time(row["evidence"], 16 * US)
    assert row["share"] == pytest.approx(0.04)


def with_kernel(name: str, major: int | None, length: float = 40, *, beside: str = "") -> Building:
    """Steps with a kernel of so many us in each, on an NVIDIA device of this capability, beside one of 10 us."""
    b = make_steps(busy=50)
    b.facts = listing({"name": "GPU", "computeMajor": major, "warpSize": 32}) if major else FileFacts()
    for number in range(4):
        add_work(b, name, number * 100 + 50, number * 100 + 50 + length)
        add_work(b, beside or "elementwise_kernel", number * 100 + 50 + length, number * 100 + 100)
    return b


UNALIGNED = "kernels for unaligned sizes"
LAYOUTS = "converted between NCHW and NHWC"
TF32 = "FP32 GEMMs run without tensor cores"
OLDER = "GEMMs run on kernels made for "
UNFUSED = "attention is not fused"
SLOW = (UNALIGNED, LAYOUTS, TF32, OLDER, UNFUSED)
CUTLASS = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align{}>()"
AMPERE = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"
CONVERSION = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>()"
BFLOAT = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64"


@pytest.mark.parametrize(
    ("name", "major", "beside", "words", "saved"),
    some(
        [
            (CUTLASS.format(2), 8, "", UNALIGNED, 0.5),
            (CUTLASS.format(1), None, "", UNALIGNED, 0.5),
            (CUTLASS.format(8), 8, "", None, 0),
            ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>()", 7, AMPERE, None, 0),
            (CONVERSION, 8, "", LAYOUTS, 1),
            ("batched_transpose_32x32_dword", None, "", None, 0),
            ("ampere_sgemm_128x64_nn", 8, AMPERE, TF32, 0.5),
            ("ampere_sgemm_128x64_nn", 8, "cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4", None, 0),
            ("ampere_sgemm_128x64_nn", 7, AMPERE, None, 0),
            (AMPERE, 9, "", f"{OLDER}Ampere", None),
            (AMPERE, 8, "", None, 0),
            (AMPERE, 12, "", None, 0),
            ("nvjet_tst_128x64_64x8_2x1_v_bz_TNT", 10, "", None, 0),
            ("volta_fp16_s884gemm_fp16_128x64", 8, "", f"{OLDER}Volta", None),
            (BFLOAT, 9, AMPERE, None, 0),
            ("Cijk_Alik_Bljk_BBS_BH_MT128x192x64_MI16x16x1", None, "", None, 0),
        ],
        [
            (CUTLASS.format(2), 8, "", UNALIGNED, 0.5),
            ("ampere_sgemm_128x64_nn", 8, AMPERE, TF32, 0.5),
            (AMPERE, 9, "", f"{OLDER}Ampere", None),
            (AMPERE, 8, "", None, 0),
        ],
    ),
)
def test_slow_kernels_are_known_by_their_names(
    name: str, major: int | None, beside: str, words: str | None, saved: float | None
) -> None:
    """They take 40 us of 100; `saved` is the share of that which could be won, None if it is not known."""
    rows = find_rows(with_kernel(name, major, beside=beside).trace())
    found = [row for row in rows if any(each in row["finding"] for each in SLOW)]
    if words is None:
        assert found == []
        return
    row = find_row(found, words)
    assert row["cost"] == (None if saved is None else saved * 40 * US)
    assert row["share"] == (0.4 if saved is None else saved * 0.4)
    assert row["start"] == 50 * US
    assert has_time(row["evidence"], 40 * US)
    assert has_share(row["evidence"], 0.4)
    assert row["certainty"] == "inferred"


@pytest.mark.thorough
@pytest.mark.parametrize("length", [2, 0.5])
def test_slow_kernels_that_take_little_time_are_left_alone(length: float) -> None:
    """2 % of the time of all kernels; or more of that, and less than 1 % of the steps."""
    b = with_kernel(CUTLASS.format(2), 8, length)
    if length < 1:
        b.rows = [row for row in b.rows if row["name"] != "elementwise_kernel"]
    assert rows_with(find_rows(b.trace()), UNALIGNED) == []


def attention_calls(softmax: str, *operators: str) -> Building:
    """Steps with this kernel, in each of which the host calls these operators."""
    b = with_kernel(softmax, 8)
    for number, name in product(range(4), operators):
        b.event(MAIN, name, number * 100 + 10, number * 100 + 11, "op")
    return b


@pytest.mark.thorough
def test_attention_that_is_not_fused_is_known_by_its_softmax_between_products() -> None:
    kernel = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 7, {}, false>(float*)"
    eager = ("aten::bmm", "aten::_softmax", "aten::bmm")
    row = find_row(find_rows(attention_calls(kernel.format("false"), *eager).trace()), UNFUSED)
    assert (row["cost"], row["share"]) == (40 * US, 0.4)
    assert "torch.nn.functional.scaled_dot_product_attention" in row["advice"]
    fallen = attention_calls(kernel.format("false"), *eager, "aten::_scaled_dot_product_attention_math")
    assert "falls back" in find_row(find_rows(fallen.trace()), UNFUSED)["advice"]
    logarithm = attention_calls(kernel.format("true"), *eager)
    alone = attention_calls(kernel.format("false"), "aten::_softmax")
    assert [rows_with(find_rows(each.trace()), UNFUSED) for each in (logarithm, alone)] == [[], []]


def test_slow_kernels_of_recorded_runs_are_told_with_their_shares(shared: Path) -> None:
    expected: dict[str, dict[str, float]] = {
        "compare_h100_mi300/h100_timesformer.json.gz": {UNFUSED: 0.434, UNALIGNED: 0.273},
        "compare_h100_mi300/mi300_timesformer.json.gz": {UNFUSED: 0.349},
        "compare_h100_mi300/h100_bert-small.json.gz": {},
        "hta_nccl_a100": {LAYOUTS: 0.092},
        "resnet50_v100_workers4": {},
        "rocm_mi210_gpu_only": {},
    }
    for name, shares in expected.items():
        rows = read_rows(shared / "traces" / "kineto" / name)
        found = {words: rows_with(rows, words) for words in SLOW}
        assert {words for words in SLOW if found[words]} == shares.keys(), name
        for words, share in shares.items():
            of_kernels = re.search(r"and ([\d.]+) % of the kernel time", found[words][0]["evidence"])
            assert of_kernels is not None
            assert float(of_kernels[1]) == pytest.approx(100 * share, abs=0.1)
