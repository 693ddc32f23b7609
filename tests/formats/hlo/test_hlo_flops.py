"""Operations by shapes: what XLA computes, what libraries are known to, and what nobody can tell."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats.hlo.cost_model import (
    Convolution,
    WindowDimension,
    convolution_flops,
    custom_call_flops,
    elementwise_flops,
    reduction_flops,
)
from tracehound.formats.hlo.cost_model import dot_flops as matrix_product
from tracehound.formats.hlo.hlo_line_parser import (
    HOST_SPACE,
    ArrayShape,
    bytes_in_memory_space,
    parse_arrays,
    parse_line,
)

BF16 = "bf16"


def array(*dims: int, element: str = BF16) -> ArrayShape:
    return ArrayShape(element, dims)


def test_a_product_takes_two_for_each_pair() -> None:
    assert matrix_product(array(8, 16), array(8, 32), [1]) == 2 * 8 * 16 * 32
    assert matrix_product(array(8, 16), array(8, 32), [7]) == 2 * 8 * 32, "a dimension that is not there says nothing"


def test_elementwise_takes_one_each_and_transcendental_functions_none() -> None:
    assert elementwise_flops("add", array(3, 5)) == 15
    assert elementwise_flops("exponential", array(3, 5)) == elementwise_flops("transpose", array(3, 5)) == 0


def test_a_reduction_takes_all_but_the_first_of_each_result() -> None:
    assert reduction_flops("reduce", array(10, 4), array(4)) == 36
    assert reduction_flops("all-reduce", array(10), array(10)) == 10


def slow_convolution(how: Convolution, source: ArrayShape, kernel: ArrayShape, result: ArrayShape) -> int:
    """Every multiplication one by one, but for the features and the batch."""
    found = 0
    reach = [range(result.dims[at]) for at in how.output_spatial]
    for out, inside in product(product(*reach), product(*(range(side.size) for side in how.window))):
        met = True
        for side, base, o, k in zip(
            how.window, (source.dims[at] for at in how.input_spatial), out, inside, strict=True
        ):
            at = o * side.stride - side.padding + k * side.dilation
            met &= at >= 0 and at % side.base_dilation == 0 and at // side.base_dilation < base
        found += met
    batch, features = source.dims[how.input_batch], source.dims[how.input_feature]
    return 2 * found * batch * (features // how.groups) * kernel.dims[how.kernel_output]


sides = st.builds(
    WindowDimension,
    size=st.integers(1, 3),
    stride=st.integers(1, 2),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    base_dilation=st.integers(1, 2),
)


@given(st.lists(st.tuples(sides, st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=2), st.integers(1, 2))
def test_a_convolution_leaves_out_what_only_pads(window: list[tuple[WindowDimension, int, int]], groups: int) -> None:
    places = range(2, 2 + len(window))
    how = Convolution(0, 1, places, 0, places, [side for side, _, _ in window], groups)
    source = array(2, 4, *(base for _, base, _ in window))
    kernel = array(6, 4 // groups, *(side.size for side, _, _ in window))
    result = array(2, 6, *(out for _, _, out in window))
    assert convolution_flops(how, source, kernel, result) == slow_convolution(how, source, kernel, result)


def test_a_convolution_whose_dimensions_do_not_fit_is_not_counted() -> None:
    how = Convolution(0, 9, [2], 0, [2], [WindowDimension(1)])
    assert convolution_flops(how, array(1, 1, 1), array(1, 1, 1), array(1, 1, 1)) == 0
    wide = Convolution(0, 1, [2], 0, [2], [WindowDimension(0)])
    assert convolution_flops(wide, array(1, 1, 1 << 60), array(1, 1, 1), array(1, 1, 1 << 60)) == 0


@pytest.mark.parametrize("target", ["__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8", "__onednn$matmul"])
def test_a_library_s_product_is_told_by_three_sizes_whatever_is_transposed(target: str) -> None:
    for left, right in (((8, 16), (16, 32)), ((16, 8), (32, 16))):
        workspace = array(4194304, element="s8")
        assert custom_call_flops(target, [array(8, 32), workspace], [array(*left), array(*right)]) == 2 * 8 * 16 * 32


@given(st.integers(1, 9), st.integers(1, 99), st.integers(1, 99), st.integers(1, 99))
def test_batches_are_told_by_what_all_three_begin_with(b: int, m: int, n: int, k: int) -> None:
    assert custom_call_flops("__cublas$gemm", [array(b, m, n)], [array(b, m, k), array(b, k, n)]) == 2 * b * m * n * k


def test_attention_and_its_passes() -> None:
    heads = [array(2, 1024, 8, 64)] * 3
    forward = 4 * 2 * 8 * 1024 * 1024 * 64
    assert custom_call_flops("te_fused_attn_forward_ffi te_fused_attn_forward_ffi.10", heads[:1], heads) == forward
    assert custom_call_flops("te_fused_attn_backward_ffi", heads[:1], heads) == forward * 5 // 2
    assert custom_call_flops("__cudnn$fmhaSoftmax", heads[:1], heads) == forward
    splash = "tpu_custom_call splash_mha_fwd_segmented_residuals_block_kv_dq_512_block_q_dkv_512"
    assert custom_call_flops(splash, heads[:1], [array(1, 4, 4, element="s8"), *heads]) == forward
    assert custom_call_flops("tpu_custom_call vmap_splash_mha_dkv_block_q_dkv_512", heads[:1], heads) == 2 * forward
    assert custom_call_flops("tpu_custom_call vmap_splash_mha_dq_block_kv_dq_512", heads[:1], heads) == forward * 3 // 2


def test_queries_and_keys_of_different_lengths() -> None:
    assert (
        custom_call_flops("fmha", [array(1, 8, 4, 64)], [array(1, 8, 4, 64), array(1, 500, 4, 64)])
        == 4 * 8 * 4 * 64 * 500
    )


def test_what_nobody_can_tell() -> None:
    two = [array(8, 16), array(16, 32)]
    assert custom_call_flops("X64Combine", [array(2)], [array(1, 2), array(1, 2)]) is None
    assert custom_call_flops("__cublas$gemm", [], two) is None
    assert custom_call_flops("__cublas$gemm", [array(8, 32)], two[:1]) is None
    assert custom_call_flops("__cublas$gemm", [array(8, 31)], two) is None, "sizes that are no product's"
    assert custom_call_flops("__cudnn$convForward", [array(8, 32)], two) is None, "no window is known"
    assert custom_call_flops("flash_attention", [array(4)], two) is None, "no heads"


def test_a_line_as_xla_writes_it_for_tpus() -> None:
    found = parse_line(
        "%fusion.1 = (bf16[8,16]{1,0:T(8,128)(2,1)}, /*index=1*/u32[]{:S(2)}) fusion(f32[8]{0:T(1024)S(5)} %a, "
        "bf16[8,16]{1,0} %b), kind=kOutput, calls=%c"
    )
    assert found is not None
    assert found.opcode == "fusion"
    assert found.results == (ArrayShape(BF16, (8, 16)), ArrayShape("u32", (), 2))
    assert found.operands == (ArrayShape("f32", (8,), HOST_SPACE), ArrayShape(BF16, (8, 16)))
    assert [one.bytes for one in found.operands] == [32, 256]
    assert bytes_in_memory_space(found, HOST_SPACE) == 32


def test_a_copy_in_two_halves_moves_its_bytes_once() -> None:
    start = parse_line("%s = (f32[4]{0}, f32[4]{0:S(5)}, u32[]{:S(2)}) copy-start(f32[4]{0:S(5)} %a)")
    done = parse_line("%d = f32[4]{0} copy-done((f32[4]{0}, f32[4]{0:S(5)}, u32[]{:S(2)}) %s)")
    assert start is not None
    assert done is not None
    assert bytes_in_memory_space(start, HOST_SPACE) == bytes_in_memory_space(done, HOST_SPACE) == 16


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    parse_line(text)
    parse_line(f"%a = f32[{text}] add({text}")
    parse_line("%a = f32[1=2,<=8]{0} add()")
    assert all(one.elements >= 0 for one in parse_arrays(text))


@given(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=4))
def test_sizes_beyond_all_measure_are_only_large(dims: list[int]) -> None:
    huge = array(*dims)
    assert huge.bytes >= huge.elements >= 0
    custom_call_flops("fmha gemm", [huge], [huge, huge])
    assert matrix_product(huge, huge, [0]) == 2 * huge.elements * dims[0]
