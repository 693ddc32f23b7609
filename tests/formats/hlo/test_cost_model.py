"""What instructions cost by their protos: fusions and what is sliced in them, products, custom calls, damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloprotos import array, instruction
from tracehound.formats.hlo.cost_model import InstructionCost, estimate_costs
from tracehound.formats.hlo.hlo_instructions import index_instructions
from tracehound.formats.protobuf_wire import pad_bytes
from tracehound.formats.xla.op_executions import bytes_by_memory, cost_from_hlo_text, hbm_bytes_from_hlo_text
from xspaces import block, varint, whole

F32, BF16 = 11, 16


def computation(number: int, root: int, *made: bytes) -> bytes:
    return block(
        3, block(1, f"c{number}") + b"".join(block(2, one) for one in made) + whole(5, number) + whole(6, root)
    )


def module(*computations: bytes) -> bytes:
    return block(1, block(1, "jit_f") + b"".join(computations))


def cost(raw: bytes, name: str) -> InstructionCost:
    file = pad_bytes(raw)
    return estimate_costs(index_instructions(file, 0, file.size), [name])[name]


def called(*numbers: int) -> bytes:
    return block(38, b"".join(varint(one) for one in numbers))


CONTRACTING = block(30, block(1, varint(1)) + block(2, varint(0)))
DOT = (
    instruction(1, "a", "parameter", array(BF16, 8, 16)),
    instruction(2, "b", "parameter", array(BF16, 16, 32)),
    instruction(3, "dot", "dot", array(F32, 8, 32), CONTRACTING, operands=(1, 2)),
)


def test_a_product_of_matrices() -> None:
    assert cost(module(computation(1, 3, *DOT)), "dot") == InstructionCost(
        2 * 8 * 16 * 32, 2 * 8 * 16 + 2 * 16 * 32 + 4 * 8 * 32, 0, "bf16"
    )


def test_a_fusion_costs_what_is_inside_and_what_passes_its_border() -> None:
    relu = instruction(4, "relu", "maximum", array(F32, 8, 32), operands=(3, 3))
    inside = computation(1, 4, *DOT, relu)
    outside = computation(
        2,
        7,
        instruction(5, "x", "parameter", array(BF16, 8, 16)),
        instruction(6, "y", "parameter", array(BF16, 16, 32)),
        instruction(7, "fusion.1", "fusion", array(F32, 8, 32), called(1), operands=(5, 6)),
    )
    found = cost(module(inside, outside), "fusion.1")
    assert found == InstructionCost(2 * 8 * 16 * 32 + 8 * 32, 2 * 8 * 16 + 2 * 16 * 32 + 4 * 8 * 32, 0, "bf16")


def test_of_an_array_that_is_only_sliced_the_slice_is_read_and_of_one_that_is_updated_the_update_written() -> None:
    inside = computation(
        1,
        5,
        instruction(1, "all", "parameter", array(F32, 100, 8)),
        instruction(2, "at", "parameter", array(4)),
        instruction(3, "one", "dynamic-slice", array(F32, 1, 8), operands=(1, 2)),
        instruction(4, "stack", "parameter", array(F32, 50, 8)),
        instruction(5, "put", "dynamic-update-slice", array(F32, 50, 8), operands=(4, 3, 2)),
    )
    outside = computation(2, 9, instruction(9, "fusion", "fusion", array(F32, 50, 8), called(1)))
    assert cost(module(inside, outside), "fusion").bytes == 32 + 4 + 4 * 400 + 32


def test_a_loop_costs_nothing_itself() -> None:
    body = computation(1, 3, *DOT)
    loop = computation(2, 9, instruction(9, "while", "while", array(F32, 8), called(1)))
    assert cost(module(body, loop), "while") == InstructionCost(None, None)


def test_what_lies_on_the_host_is_told_apart() -> None:
    raw = module(
        computation(
            1,
            2,
            instruction(1, "x", "parameter", array(F32, 8, order=(0,), memory=5)),
            instruction(2, "copy", "copy", array(F32, 8), operands=(1,)),
        )
    )
    assert cost(raw, "copy") == InstructionCost(0, 64, 32, "")


def test_a_custom_call_has_no_workspace() -> None:
    pair = whole(2, 13) + block(4, array(BF16, 8, 32)) + block(4, array(2, 1 << 20))
    gemm = instruction(3, "custom-call.1", "custom-call", pair, block(28, "__cublas$gemm"), operands=(1, 2))
    assert cost(module(computation(1, 3, *DOT[:2], gemm)), "custom-call.1") == InstructionCost(
        2 * 8 * 16 * 32, 2 * (8 * 16 + 16 * 32 + 8 * 32), 0, "bf16"
    )


def test_xprof_s_numbers_of_a_real_module(shared: Path) -> None:
    """Bytes and operations with which XProf's hlo_stats of this profile is computed."""
    folder = shared / "traces/xla/jax_rocm_conv_legacy/plugins/profile/2025_09_10_15_08_56"
    raw = (folder / "jit_forward_3d_conv(15).hlo_proto.pb").read_bytes()
    assert cost(raw, "cudnn-conv.1.0") == InstructionCost(32_715_571_200, 579_072_000, 0, "bf16")
    assert cost(raw, "input_transpose_fusion")[:2] == (0, 1_144_053_760)


def test_a_module_that_calls_itself_costs_what_can_be_told() -> None:
    again = computation(1, 1, instruction(1, "fusion", "fusion", array(F32, 8), called(1)))
    file = pad_bytes(module(again))
    assert estimate_costs(index_instructions(file, 0, file.size), ["fusion"]) == {}


@given(st.data())
def test_a_damaged_module_raises_nothing(data: st.DataObject) -> None:
    raw = bytearray(module(computation(1, 3, *DOT), computation(2, 9, instruction(9, "f", "fusion", b"", called(1)))))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    file = pad_bytes(bytes(raw))
    for found in estimate_costs(index_instructions(file, 0, file.size), ["dot", "f"]).values():
        assert all(value is None or 0 <= value < 1 << 63 for value in found[:2])


def accesses(*each: tuple[int, int, int]) -> bytes:
    return b"".join(block(1, whole(1, kind) + whole(2, space) + whole(3, size)) for kind, space, size in each)


def test_bytes_by_memory_and_direction() -> None:
    told = bytes_by_memory(accesses((1, 1, 100), (2, 1, 50), (1, 3, 7), (2, 3, 5), (2, 3, 1), (1, 2, 9), (1, 8, 1000)))
    assert told == {"hbm_bytes": 150, "vmem_read": 7, "vmem_written": 6, "cmem_read": 9}
    assert bytes_by_memory(b"\xff") == bytes_by_memory("no bytes") == bytes_by_memory(None) == {}


@pytest.mark.parametrize("text", ["", "copy", "%c = f32[8]{0} copy(f32[8]{0} %a)"])
def test_a_line_that_is_no_custom_call_has_no_estimate(text: str) -> None:
    assert "estimated_flops" not in cost_from_hlo_text("c", text)


def test_a_custom_call_without_operands_may_only_give_out_memory() -> None:
    text = '%b = bf16[16,2048]{1,0} custom-call(), custom_call_target="AllocateBuffer"'
    assert cost_from_hlo_text("b", text) == {"host_bytes": 0}
    alone = instruction(1, "b", "custom-call", array(BF16, 16, 2048), block(28, "AllocateBuffer"))
    assert cost(module(computation(1, 1, alone)), "b") == InstructionCost(None, None)


def test_a_custom_call_s_line_tells_what_it_may_compute() -> None:
    heads = "bf16[16,2048,128]{2,1,0:T(8,128)(2,1)}"
    told = cost_from_hlo_text(
        "splash_mha_fwd.1", f'%splash_mha_fwd.1 = {heads} custom-call({heads} %q, {heads} %k, {heads} %v), '
        'custom_call_target="tpu_custom_call"',
    )  # fmt: skip
    assert told == {
        "host_bytes": 0,
        "estimated_flops": 4 * 16 * 2048 * 2048 * 128,
        "estimated_bytes": 4 * 16 * 2048 * 128 * 2,
    }


def test_what_lies_on_the_chip_is_no_traffic_of_the_main_memory() -> None:
    """A file may tell bytes, but not of which memory; layouts do."""
    text = "%m = f32[8]{0:S(1)} multiply(f32[8]{0} %a, f32[8]{0:T(256)S(1)} %b)"
    assert hbm_bytes_from_hlo_text(text, 96) == {"hbm_bytes": 32}
    assert hbm_bytes_from_hlo_text(text, 10) == {"hbm_bytes": 0}
    done = "%d = f32[8]{0:S(1)} copy-done((f32[8]{0:S(1)}, f32[8]{0}, u32[]{:S(2)}) %s)"
    assert hbm_bytes_from_hlo_text(done, 64) == {"hbm_bytes": 32}
    assert hbm_bytes_from_hlo_text(text, None) == hbm_bytes_from_hlo_text("", 5) == {}
