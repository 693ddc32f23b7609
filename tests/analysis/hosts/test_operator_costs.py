"""What calls cost: against loops that multiply and add, against PyTorch's own counter, and for what is not known."""

from __future__ import annotations

from itertools import product
from math import prod

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis.hosts.operator_costs import KNOWN_OPERATORS, OperatorCost, operator_cost

HALF = "c10::Half"
small = st.integers(1, 4)


def asked(
    name: str, shapes: list[list[int]], values: dict[int, str] | None = None, dtype: str = HALF
) -> OperatorCost | None:
    """The cost of a call with these shapes, all of one type, and with these values at their places."""
    said = [(values or {}).get(place, "") for place in range(len(shapes))]
    return operator_cost(name, *(orjson.dumps(each).decode() for each in (shapes, [dtype] * len(shapes), said)))


def with_types(name: str, shapes: list[list[int]], types: list[str], values: list[str]) -> OperatorCost | None:
    return operator_cost(name, *(orjson.dumps(each).decode() for each in (shapes, types, values)))


def operations(name: str, shapes: list[list[int]], values: dict[int, str] | None = None) -> int:
    found = asked(name, shapes, values)
    assert found is not None
    return found.flops


@given(small, small, small, small)
def test_products_of_matrices_are_counted_as_a_loop_does(batch: int, rows: int, inner: int, columns: int) -> None:
    counted = sum(2 for _ in product(range(batch), range(rows), range(columns), range(inner)))
    assert operations("aten::bmm", [[batch, rows, inner], [batch, inner, columns]]) == counted
    assert operations("aten::mm", [[rows, inner], [inner, columns]]) == counted // batch
    assert operations("aten::linear", [[batch, rows, inner], [columns, inner], []]) == counted
    biased = operations("aten::addmm", [[columns], [rows, inner], [inner, columns], [], []])
    assert biased == counted // batch + rows * columns


@given(
    st.integers(1, 2), st.integers(1, 3), st.integers(1, 2), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3),
    st.integers(0, 2), st.integers(1, 2), st.integers(1, 2), st.booleans(),
)  # fmt: skip
def test_a_convolution_is_counted_as_a_loop_does(
    images: int,
    features: int,
    groups: int,
    size: int,
    taps: int,
    stride: int,
    padding: int,
    dilation: int,
    channels: int,
    biased: bool,  # noqa: FBT001, a fact
) -> None:
    """Every tap counts, also one that lies in the padding: that is how kernels, and peers, count."""
    places = range(0, size + 2 * padding - dilation * (taps - 1), stride)
    counted, written = 0, 0
    for _ in product(range(images), range(features * groups), places, places):
        counted += biased + sum(2 for _ in product(range(channels), range(taps), range(taps)))
        written += 1
    image, kernel = [images, channels * groups, size, size], [features * groups, channels, taps, taps]
    bias = [features * groups] * biased
    values = {3: str([stride] * 2), 4: str([padding] * 2), 5: str([dilation] * 2), 6: "False", 8: str(groups)}
    found = asked("aten::convolution", [image, kernel, bias, *[[]] * 6], values)
    assert found == OperatorCost(counted, 2 * (prod(image) + prod(kernel) + sum(bias) + written), HALF)


@given(
    st.integers(1, 2), st.integers(1, 3), st.integers(1, 2), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3),
    st.integers(0, 1), st.integers(1, 2), st.integers(1, 2), st.booleans(), st.integers(0, 1),
)  # fmt: skip
def test_a_transposed_convolution_is_counted_as_a_loop_does(
    images: int,
    features: int,
    groups: int,
    size: int,
    taps: int,
    stride: int,
    padding: int,
    dilation: int,
    channels: int,
    biased: bool,  # noqa: FBT001, a fact
    more: int,
) -> None:
    """Every element of the image is spread over the places that the kernel covers around it."""
    counted, last = 0, 0
    for _, place, tap in product(range(images * channels * groups * features), range(size), range(taps)):
        counted += 2 * size * taps  # of the other dimension, which is as long
        last = max(last, place * stride + tap * dilation)
    edge = max(last + 1 + more - 2 * padding, 0)
    written = images * features * groups * edge**2
    image, kernel = [images, channels * groups, size, size], [channels * groups, features, taps, taps]
    bias = [features * groups] * biased
    values = {3: stride, 4: padding, 5: dilation, 7: more}
    said = {**{place: str([each] * 2) for place, each in values.items()}, 6: "True", 8: str(groups)}
    found = asked("aten::convolution", [image, kernel, bias, *[[]] * 6], said)
    moved = 2 * (prod(image) + prod(kernel) + sum(bias) + written)
    assert found == OperatorCost(counted + written * biased, moved, HALF)


def test_each_backend_has_its_arguments_in_places_of_its_own() -> None:
    image, kernel = [2, 6, 9, 8], [4, 3, 3, 2]
    stride, padding, dilation = "[2, 1]", "[1, 2]", "[1, 2]"
    cudnn = {2: padding, 3: stride, 4: dilation}
    others = {3: padding, 4: stride, 5: dilation}
    assert operations("aten::cudnn_convolution", [image, kernel, *[[]] * 7], cudnn) == 14_400
    assert operations("aten::miopen_convolution", [image, kernel, *[[]] * 7], others) == 14_400
    assert operations("aten::mkldnn_convolution", [image, kernel, *[[]] * 5], others) == 14_400
    biased = 14_400 + 14_400 // (2 * 3 * 3 * 2)
    assert operations("aten::miopen_convolution", [image, kernel, [4], *[[]] * 6], others) == biased
    assert operations("aten::mkldnn_convolution", [image, kernel, [4], *[[]] * 4], others) == biased


def test_pytorchs_own_counter_says_the_same() -> None:
    """Numbers of torch.utils.flop_counter (2.9).

    It leaves out what addmm adds, knows no causal attention, and counts the backward pass of a convolution with groups
    as if it had none.
    """
    assert operations("aten::mm", [[7, 5], [5, 11]]) == 770
    assert operations("aten::bmm", [[3, 7, 5], [3, 5, 11]]) == 2310
    assert operations("aten::addmm", [[11], [7, 5], [5, 11]]) == 770 + 77
    convolution = {3: "[2, 1]", 4: "[1, 2]", 5: "[1, 2]", 6: "False", 8: "2"}
    assert operations("aten::convolution", [[2, 6, 9, 8], [4, 3, 3, 2], *[[]] * 7], convolution) == 14_400
    transposed = {3: "[2, 1]", 4: "[1, 0]", 5: "[1, 1]", 6: "True", 7: "[0, 0]", 8: "1"}
    assert operations("aten::convolution", [[2, 6, 9, 8], [6, 4, 3, 2], *[[]] * 7], transposed) == 41_472
    attention = {3: "0.", 4: "False"}
    shapes = [[2, 3, 8, 16], [2, 3, 12, 16], [2, 3, 12, 16], [], [], [], []]
    assert operations("aten::_scaled_dot_product_flash_attention", shapes, attention) == 36_864


@pytest.mark.parametrize("of_image", [False, True])
@pytest.mark.parametrize("of_kernel", [False, True])
@pytest.mark.parametrize("of_bias", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_backward_pass_of_a_convolution_computes_and_moves_what_is_asked_for(
    of_image: bool,  # noqa: FBT001, a fact
    of_kernel: bool,  # noqa: FBT001, a fact
    of_bias: bool,  # noqa: FBT001, a fact
    transposed: bool,  # noqa: FBT001, a fact
) -> None:
    gradient, image, kernel = [2, 4, 7, 7], [2, 3, 5, 5], [3, 4, 3, 3] if transposed else [4, 3, 3, 3]
    one = 2 * prod(image if transposed else gradient) * prod(kernel[1:])
    read, written = {"gradient": gradient}, list[list[int]]()
    if of_image:
        read["kernel"] = kernel
        written.append(image)
    if of_kernel:
        read["image"] = image
        written.append(kernel)
    if of_bias:
        written.append([4])
    values = {7: str(transposed), 10: str([of_image, of_kernel, of_bias])}
    found = asked("aten::convolution_backward", [gradient, image, kernel, *[[]] * 8], values)
    moved = 2 * sum(map(prod, [*read.values(), *written]))
    assert found == OperatorCost(one * (of_image + of_kernel) + prod(gradient) * of_bias, moved, HALF)


def test_of_an_unrecorded_mask_the_gradients_of_image_and_kernel_were_asked_for() -> None:
    image, gradient, kernel = [2, 3, 5, 5], [2, 4, 5, 5], [4, 3, 3, 3]
    found = asked("aten::cudnn_convolution_backward", [image, gradient, kernel, *[[]] * 7])
    one = 2 * prod(gradient) * prod(kernel[1:])
    assert found == OperatorCost(2 * one, 2 * (prod(gradient) + 2 * prod(image) + 2 * prod(kernel)), HALF)


def test_causal_attention_is_half_and_its_backward_pass_two_and_a_half_times_the_forward() -> None:
    shape = [2, 3, 8, 16]
    whole = operations("aten::_scaled_dot_product_flash_attention", [shape] * 3 + [[]] * 4, {4: "False"})
    half = operations("aten::_scaled_dot_product_flash_attention", [shape] * 3 + [[]] * 4, {4: "True"})
    assert whole == 2 * half == 2 * 2 * 3 * 8 * 8 * 32
    back = [shape] * 5 + [[2, 3, 8]] + [[]] * 9
    assert operations("aten::_scaled_dot_product_flash_attention_backward", back, {11: "False"}) == 2.5 * whole
    other = [[2, 8, 3, 16]] * 3 + [[]] * 8
    assert operations("aten::_flash_attention_forward", other, {8: "False"}) == whole


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("_scaled_dot_product_flash_attention", "q k v dropout causal mask scale"),
        ("_scaled_dot_product_flash_attention_backward", "g q k v o lse cq ck mq mk dropout causal seed offset scale"),
        ("_scaled_dot_product_efficient_attention", "q k v bias lse dropout causal scale"),
        (
            "_scaled_dot_product_efficient_attention_backward",
            "g q k v bias o lse seed offset dropout asked causal scale",
        ),
        ("_scaled_dot_product_cudnn_attention", "q k v bias lse dropout causal mask scale"),
        (
            "_scaled_dot_product_cudnn_attention_backward",
            "g q k v o lse seed offset bias cq ck mq mk dropout causal scale",
        ),
        ("_scaled_dot_product_flash_attention_for_cpu", "q k v dropout causal bias scale"),
        ("_scaled_dot_product_flash_attention_for_cpu_backward", "g q k v o lse dropout causal bias scale"),
        ("_flash_attention_forward", "q k v cq ck mq mk dropout causal mask scale left right used slopes"),
        ("_flash_attention_backward", "g q k v o lse cq ck mq mk dropout causal state unused scale left right"),
    ],
)
def test_attention_finds_its_arguments_where_pytorch_has_them(name: str, arguments: str) -> None:
    """The order of arguments is that of native_functions.yaml (2.9)."""
    places = {argument: place for place, argument in enumerate(arguments.split())}
    shapes: list[list[int]] = [[] for _ in places]
    for argument in "gqkvo" if "g" in places else "qkv":
        shapes[places[argument]] = [2, 8, 8, 16]
    causal = operations(f"aten::{name}", shapes, {places["causal"]: "True"})
    assert causal == (2.5 if "g" in places else 1) * 2 * 2 * 8 * 8 * 8 * 16
    assert operations(f"aten::{name}", shapes, {places["causal"]: "False"}) == 2 * causal


def test_bytes_are_those_of_inputs_and_result_once() -> None:
    found = asked("aten::mm", [[7, 5], [5, 11]], dtype="float")
    assert found == OperatorCost(770, 4 * (35 + 55 + 77), "float")
    found = asked("aten::addmm", [[11], [7, 5], [5, 11]], dtype="double")
    assert found is not None
    assert found.bytes == 8 * (11 + 35 + 55 + 77)
    image, kernel, mask = [2, 16, 32, 32], [8, 16, 3, 3], {7: "False", 10: "[True, True, False]"}
    found = asked("aten::convolution_backward", [[2, 8, 16, 16], image, kernel, *[[]] * 8], mask, "float")
    assert found is not None
    assert found.bytes == 287_744


def test_a_product_may_have_a_result_of_another_type() -> None:
    found = asked("aten::_int_mm", [[7, 5], [5, 11]], dtype="signed char")
    assert found == OperatorCost(770, 35 + 55 + 4 * 77, "signed char")
    e4m3 = "c10::Float8_e4m3fn"
    types = [e4m3, e4m3, "float", "float", "c10::BFloat16", "", "Scalar", "Scalar"]
    shapes: list[list[int]] = [[7, 5], [5, 11], [7, 1], [1, 11], [11], [], [], []]
    for asked_for, size in (("15", 2), ("6", 4), ("", 1)):
        said = ["", "", "", "", "", "", asked_for, "False"]
        moved = 35 + 55 + 4 * (7 + 11) + 2 * 11 + size * 77
        assert with_types("aten::_scaled_mm", shapes, types, said) == OperatorCost(770 + 77, moved, e4m3)


def test_scaled_products_of_old_had_the_type_before_the_scales() -> None:
    """PyTorch 2.1 to 2.4: (self, mat2, bias, out_dtype, scale_a, scale_b, scale_result, use_fast_accum)."""
    e4m3 = "c10::Float8_e4m3fn"
    types = [e4m3, e4m3, "c10::BFloat16", "Scalar", "float", "float", "float", "Scalar"]
    shapes: list[list[int]] = [[7, 5], [5, 11], [11], [], [], [], [], []]
    said = ["", "", "", "15", "", "", "", "False"]
    assert with_types("aten::_scaled_mm", shapes, types, said) == OperatorCost(770 + 77, 35 + 55 + 22 + 2 * 77, e4m3)


def test_numbers_of_four_bits_lie_in_packs_of_two() -> None:
    e2m1 = "c10::Float4_e2m1fn_x2"
    types, said = [e2m1, e2m1, *["c10::Float8_e4m3fn"] * 2, *[""] * 4], [*[""] * 6, "15", "False"]
    shapes: list[list[int]] = [[7, 5], [5, 11], [], [], [], [], [], []]
    assert with_types("aten::_scaled_mm", shapes, types, said) == OperatorCost(2 * 770, 35 + 55 + 2 * 77, e2m1)


def test_what_has_no_elements_takes_no_operations() -> None:
    assert asked("aten::mm", [[0, 256], [256, 128]]) == OperatorCost(0, 2 * 256 * 128, HALF)
    assert asked("aten::mm", [[64, 0], [0, 128]]) == OperatorCost(0, 2 * 64 * 128, HALF)
    assert asked("aten::addmm", [[128], [64, 0], [0, 128]]) == OperatorCost(64 * 128, 2 * (128 + 64 * 128), HALF)
    assert asked("aten::bmm", [[0, 4, 4], [0, 4, 4]]) == OperatorCost(0, 0, HALF)


@pytest.mark.parametrize(
    ("name", "dims", "types", "concrete"),
    [
        ("aten::relu", "[[4]]", '["float"]', '[""]'),
        ("aten::mm", "", "", ""),
        ("aten::mm", "[[1]]", '["float"]', ""),
        ("aten::mm", "[[1,2],[2]]", '["float","float"]', ""),
        ("aten::mm", "{}", "[]", "[]"),
        ("aten::mm", "[[2,3],[3,4]]", "[]", ""),
        ("aten::mm", "[[2,3],[3,4]]", '["float","Odd"]', ""),
        ("aten::_scaled_mm", "[[2,3],[3,4],[],[]]", '["c10::Float8_e5m2","c10::Float8_e5m2","float","float"]', ""),
        ("aten::mm", "[[-2,3],[3,4]]", '["float","float"]', ""),
        ("aten::mm", f"[[{2**47},{2**47}],[{2**47},4]]", '["float","float"]', ""),
        ("aten::convolution", "[[1,1,4,4],[1,1,3,3],[],[],[],[],[],[],[]]", '["float","float"]', ""),
        ("aten::_scaled_dot_product_flash_attention", "[[8,64],[8,64],[8,64],[],[]]", '["float"]', ""),
    ],
)
def test_what_too_little_is_known_of_has_no_cost(name: str, dims: str, types: str, concrete: str) -> None:
    assert operator_cost(name, dims, types, concrete) is None


ODD = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=4), lambda x: st.lists(x, max_size=4))


@given(st.sampled_from(KNOWN_OPERATORS), ODD, ODD, ODD)
def test_nonsense_never_raises(name: str, dims: object, types: object, concrete: object) -> None:
    def text(value: object) -> str:
        return orjson.dumps(value, default=str).decode() if not _huge(value) else ""

    found = operator_cost(name, text(dims), text(types), text(concrete))
    assert found is None or min(found.flops, found.bytes) >= 0


def _huge(value: object) -> bool:
    return (isinstance(value, int) and abs(value) >= 2**63) or (isinstance(value, list) and any(map(_huge, value)))
