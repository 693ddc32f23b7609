"""Names of kernels that Inductor generates, and the operators in them."""

from __future__ import annotations

import gzip
import re
import time
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats.inductor_names import (
    GENERATED_FILE,
    FusedOperators,
    find_fused_operators,
    shorten_fused_name,
)

OPERATORS = (
    "_log_softmax", "_log_softmax_backward_data", "_softmax", "_to_copy", "_unsafe_view", "add", "addmm", "any",
    "constant_pad_nd", "convolution", "convolution_backward", "copy_", "empty_like", "index", "max_pool2d_with_indices",
    "mul", "native_batch_norm_backward", "native_layer_norm", "native_layer_norm_backward", "relu", "slice",
    "slice_scatter", "sum", "threshold_backward", "upsample_nearest2d", "view", "zeros", "zeros_like",
)  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "operators"),
    [
        ("triton_poi_fused_add_relu_0", "add relu"),
        ("triton_red_fused__to_copy_mul_sum_3", "_to_copy mul sum"),
        ("triton_per_fused__softmax__to_copy_add_clone_div_6", "_softmax _to_copy add clone div"),
        ("triton_red_fused_native_layer_norm_native_layer_norm_backward_relu_10",
         "native_layer_norm native_layer_norm_backward relu"),
        ("triton_per_fused__softmax_backward_data_as_strided_scatter_native_dropout_backward_squeeze_11",
         "_softmax_backward_data as_strided_scatter native_dropout_backward squeeze"),
        ("triton_per_fused__to_copy_add_embedding_dense_backward_native_dropout_backward_native_layer_norm_backward"
         "_nll_loss_forward_30",
         "_to_copy add embedding_dense_backward native_dropout_backward native_layer_norm_backward nll_loss_forward"),
        ("triton_red_fused_convert_element_type_div_exp_prepare_softmax_online_sub_0",
         "convert_element_type div exp prepare_softmax_online sub"),
        ("triton_poi_fused_max_pool2d_with_indices_2", "max_pool2d_with_indices"),
        ("triton_poi_fused_upsample_nearest2d_5", "upsample_nearest2d"),
        ("triton_poi_fused_add_copy__3", "add copy_"),
        ("triton_tem_fused_mm_2", "mm"),
        ("triton_split_scan_fused_cumsum_0", "cumsum"),
        ("triton_poi_fused_add_mul_0_0d1d2d3de", "add mul"),
        ("triton_poi_fused_silu_38.kd", "silu"),
        ("graph_0_cpp_fused_add_relu_1", "add relu"),
    ],
)  # fmt: skip
def test_operators_are_known_by_their_names_and_their_order(kernel: str, operators: str) -> None:
    assert find_fused_operators(kernel) == FusedOperators(tuple(operators.split()), known=True)


@pytest.mark.parametrize("kernel", [
    "triton_poi_fused_0", "triton_", "triton_mm", "triton_mm_12", "triton__0d1d2d3de", "triton_poi_fused_add",
    "triton_one_shot_all_reduce_bias", "loop_add_fusion_3", "fused_add_rmsnorm_kernel", "aten::add", "", "gemm_0",
    "fused_dropout_kernel_0", "void at::native::vectorized_elementwise_kernel<4>(int)",
])  # fmt: skip
def test_other_kernels_have_no_operators_in_their_names(kernel: str) -> None:
    assert find_fused_operators(kernel) is None
    assert shorten_fused_name(kernel) == kernel


@pytest.mark.parametrize("text", ["constant_pad_nd_moe_forward", "silu_and_mul", "add_3_mul_4_relu", "mul_add"])
def test_the_text_stays_joined_without_a_reading(text: str) -> None:
    """Custom operators, names of nodes, and names in another order: nothing says where one ends."""
    assert find_fused_operators(f"triton_poi_fused_{text}_0") == FusedOperators((text,), known=False)


@pytest.mark.parametrize("text", ["index_put", "index_select", "clamp_min", "as_strided_scatter", "log_softmax"])
def test_a_name_that_may_be_two_is_not_split(text: str) -> None:
    """``index_put`` may be index and put; what stands beside it is split off all the same."""
    assert find_fused_operators(f"triton_poi_fused_add_{text}_where_0") == FusedOperators(
        ("add", text, "where"), known=True
    )


def test_two_names_whose_order_is_wrong_are_one() -> None:
    """``slice_scatter`` and ``index_add`` can't be two: Inductor sorts names."""
    assert find_fused_operators("triton_poi_fused_index_add_slice_scatter_0") == FusedOperators(
        ("index_add", "slice_scatter"), known=True
    )


@given(st.sets(st.sampled_from(OPERATORS), min_size=1))
def test_sorted_names_are_read_back(operators: set[str]) -> None:
    names = tuple(sorted(operators))
    assert find_fused_operators(f"triton_red_fused_{'_'.join(names)}_7") == FusedOperators(names, known=True)


@given(st.text("_adnux0", max_size=40))
def test_nothing_is_lost(text: str) -> None:
    found = find_fused_operators(f"triton_poi_fused_{text}_0")
    assert found is None or text.startswith("_".join(found.names))


def test_long_names_take_no_time() -> None:
    hard = "_".join("_".join(pair) for pair in combinations(OPERATORS, 2))
    start = time.perf_counter()
    for text in (hard, "add_" * 2000, "_" * 5000, "index_put_" * 500):
        find_fused_operators(f"triton_poi_fused_{text}_0")
    assert time.perf_counter() - start < 2


def test_short_names_keep_kind_and_number() -> None:
    assert shorten_fused_name("triton_red_fused__to_copy_add_mean_31") == "triton_red_fused_…_31"
    assert shorten_fused_name("graph_0_cpp_fused_add_relu_1") == "graph_0_cpp_fused_…_1"


@pytest.mark.parametrize(("file", "generated"), [
    ("/scratch/torchinductor_root/dn/cdniggnbpjo6ck7jj7d4oel3kskalexpxacrci3ow345jwe33wgw.py", True),
    ("/cache/vllm/inductor_cache/jm/cjm2yptrhsprhgeqwwqzhk3d57dh4ugo5hhbc44imdsxhtcaenu7.py", True),
    ("/home/me/dn/cdn.py", False),
    ("model.py", False),
])  # fmt: skip
def test_generated_files_are_known_by_their_folder_or_hash(file: str, *, generated: bool) -> None:
    assert (GENERATED_FILE.search(file) is not None) == generated


def test_all_but_one_kernel_of_recorded_runs_are_split(shared: Path) -> None:
    """The one has a custom operator (moe_forward)."""
    names = set[str]()
    for name in ("big_xdit_flux/profile_trace_rank_0.json.gz", "graphs_vllm_piecewise/graph_execution.json.gz"):
        with gzip.open(shared / "traces" / "kineto" / name, "rt") as file:
            names |= set(re.findall(r'"(triton_\w+_fused_[A-Za-z_]\w*)"', file.read()))
    fused = {name: found for name in names if (found := find_fused_operators(name)) is not None}
    assert len(fused) == len(names) == 42
    assert [found.names for found in fused.values() if not found.known] == [("constant_pad_nd_moe_forward",)]
    assert "native_layer_norm" in fused["triton_red_fused_add_addmm_mul_native_layer_norm_split_unsqueeze_view_5"].names
