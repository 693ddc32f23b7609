"""Names without their accidents."""

from __future__ import annotations

import pytest

from tracehound.diff.op_identity import (
    custom_call_family,
    instruction_signature,
    kernel_family,
    module_name_without_id,
    named_scope,
    op_name_without_number,
)


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
    assert op_name_without_number(name) == bare


@pytest.mark.parametrize(
    ("name", "bare"), [("jit_step(1234)", "jit_step"), ("SyncTensorsGraph.12", "SyncTensorsGraph"), ("main", "main")]
)
def test_modules(name: str, bare: str) -> None:
    assert module_name_without_id(name) == bare


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
    assert instruction_signature(text) == instruction_signature(other) != ""
    assert instruction_signature(text) != instruction_signature(text.replace("8,128", "8,256"))
    assert instruction_signature(text) != instruction_signature(text.replace("kLoop", "kInput"))
    assert instruction_signature("") == ""


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("[1,2]<=[2]", "{{0,1}}"),
        ("[2,2]<=[4]", "{{0,1},{2,3}}"),
        ("[2,4]<=[4,2]T(1,0)", "{{0,2,4,6},{1,3,5,7}}"),
    ],
)
def test_groups_are_the_same_however_they_are_spelled(one: str, another: str) -> None:
    short, long = (
        instruction_signature(f"f32[8] all-reduce(f32[8] %x), replica_groups={groups}") for groups in (one, another)
    )
    assert short == long
    assert short != instruction_signature("f32[8] all-reduce(f32[8] %x), replica_groups={{0},{1}}")


@pytest.mark.parametrize(
    "groups", ["[3,2]<=[4]", "[1,4]<=[2,2]T(1,1)", "[1,9]<=[999999999999]", "[1,2]<=[,]", "[0,0]<=[0]"]
)
def test_groups_that_make_no_sense_are_taken_as_they_are(groups: str) -> None:
    assert instruction_signature(f"all-reduce(), replica_groups={groups}") != instruction_signature(
        "all-reduce(), replica_groups={{0,1}}"
    )


def test_the_memory_that_a_buffer_lies_in_is_no_part_of_a_signature() -> None:
    text = "bf16[8]{0:T(8,128)(2,1)S(1)} copy(bf16[8]{0:T(8,128)(2,1)} %x)"
    assert instruction_signature(text) == instruction_signature(text.replace("S(1)", ""))
    assert instruction_signature(text) != instruction_signature(text.replace("T(8,128)", "T(2,128)", 1))


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("RPA-bq_32-bkvp_64-p_64-.1", "RPA-bq-bkvp-p"),
        ("RPA-bq_32-bkvp_32-p_128-", "RPA-bq-bkvp-p"),
        ("quantized_matmul_kernel_512_5120_2560.12", "quantized_matmul_kernel"),
        ("matmul_128x256_int8", "matmul_int8"),
        ("conv2d", "conv2d"),
        ("12", "12"),
        ("", ""),
    ],
)
def test_custom_calls(name: str, bare: str) -> None:
    assert custom_call_family(name) == bare


@pytest.mark.parametrize(
    ("scope", "named"),
    [
        ("jit(f)/Dense/mn,np->mp/dot_general", "jit(f)/Dense"),
        ("jit(f)/Dense/shard_map/jit(kernel)/kernel_8/pallas_call", "jit(f)/Dense"),
        (
            "jit(f)/jit(main)/transpose(jvp(Model))/Layer_0/mlp/mul",
            "jit(f)/jit(main)/transpose(jvp(Model))/Layer_0/mlp",
        ),
        ("jit(f)/Model/while/body/Layer/mul", "jit(f)/Model/while/body/Layer"),
        ("jit(f)/Model/while/body/mul", "jit(f)/Model"),
        ("jit(f)/while/body/mul", ""),
        ("jit(f)/shard_map/mul", ""),
        ("model/dense/MatMul", "model/dense"),
        ("jit(f)/aten::mul.Tensor/mul", "jit(f)/aten::mul.Tensor"),
        ("mul", ""),
        ("", ""),
    ],
)
def test_places(scope: str, named: str) -> None:
    assert named_scope(scope) == named
