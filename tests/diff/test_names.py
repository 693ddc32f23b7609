"""Names without their accidents."""

from __future__ import annotations

import pytest

from tracehound.diff.names import kernel_family, module_name, op_name, signature


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("fusion.123", "fusion"),
        ("fusion.12.clone.3", "fusion"),
        ("all-reduce.1.remat2", "all-reduce"),
        ("gemm_fusion_dot_1.kd", "gemm_fusion_dot"),
        ("copy-start", "copy-start"),
        (".1", ".1"),
        ("", ""),
    ],
)
def test_ops(name: str, bare: str) -> None:
    assert op_name(name) == bare


@pytest.mark.parametrize(
    ("name", "bare"), [("jit_step(1234)", "jit_step"), ("SyncTensorsGraph.12", "SyncTensorsGraph"), ("main", "main")]
)
def test_modules(name: str, bare: str) -> None:
    assert module_name(name) == bare


def test_kernels() -> None:
    assert kernel_family("triton_poi_fused_add_12") == kernel_family("triton_poi_fused_add_7")
    assert kernel_family("void at::native::foo_kernel<float, 4>(int)") == kernel_family("foo_kernel")
    assert kernel_family("Cijk_Alik_Bljk_0123456789abcdef") == "Cijk_Alik_Bljk"


def test_a_signature_is_the_opcode_its_shapes_and_attributes() -> None:
    text = (
        '%fusion.7 = f32[8,128]{1,0} fusion(f32[8] %param.3), kind=kLoop, calls=%fused.7, metadata={op_name="a" x={1}}'
    )
    other = (
        '%fusion.9.clone = f32[8,128]{1,0} fusion(f32[8] %p), kind=kLoop, calls=%fused.1.clone, metadata={op_name="b"}'
    )
    assert signature(text) == signature(other) != ""
    assert signature(text) != signature(text.replace("8,128", "8,256"))
    assert signature(text) != signature(text.replace("kLoop", "kInput"))
    assert signature("") == ""
