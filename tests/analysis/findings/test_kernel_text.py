"""Names of kernels in the sentences of findings."""

from __future__ import annotations

import pytest

from tracehound.analysis.findings.kernel_text import describe_kernel


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        ("triton_poi_fused_add_relu_0", "triton_poi_fused_add_relu_0 (fused add, relu)"),
        (
            "triton_red_fused__to_copy_add_addmm_cat_mean_mul_neg_pow_rsqrt_view_9",
            "triton_red_fused_…_9 (fused _to_copy, add, addmm, cat, mean and 5 more)",
        ),
        ("triton_poi_fused_constant_pad_nd_moe_forward_0", "triton_poi_fused_constant_pad_nd_moe_forward_0"),
        ("void at::native::vectorized_elementwise_kernel<4>(int)", "vectorized_elementwise_kernel"),
    ],
)
def test_known_operators_stand_beside_the_name(kernel: str, text: str) -> None:
    assert describe_kernel(kernel) == text
