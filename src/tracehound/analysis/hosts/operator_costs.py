"""Operations and bytes of one call of an operator, from the shapes of its inputs.

Knows products, convolutions and attention. A multiplication and an addition are two operations; bytes are those of the
required inputs and of the results, each once, as if nothing were read twice. Knows no events and no devices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

import orjson
from msgspec import Struct

from tracehound.formats.torch_names import SCALAR_TYPES, element_size

Shape = tuple[int, ...]


class OperatorCost(NamedTuple):
    """Operations and bytes of one call.

    `dtype` is the type of the factors, as PyTorch spells it (``c10::BFloat16``).
    """

    flops: int
    bytes: int
    dtype: str


class OperatorInputs(Struct, frozen=True):
    """Inputs of an operator: the shape and type of each, and the value of those that are no tensors."""

    shapes: tuple[Shape, ...]
    types: tuple[str, ...]
    values: tuple[str, ...]

    def size(self, *places: int) -> int:
        """Bytes of these inputs, 0 for missing ones. Raises ValueError for an unknown type."""
        return sum(
            prod(self.shapes[place]) * _element_size(self.types[place]) for place in places if self.shapes[place]
        )

    def has_tensor(self, place: int) -> bool:
        """True if there is a tensor at this index."""
        return 0 <= place < len(self.shapes) and bool(self.shapes[place])

    def type_at(self, place: int, otherwise: str) -> str:
        """The type that an input gives by number; `otherwise` if it gives none.

        Raises ValueError if no values were recorded.
        """
        if not any(self.values):
            _raise_not_recorded()
        said = self.values[place] if place < len(self.values) else ""
        return SCALAR_TYPES[int(said)] if said else otherwise

    def list_at(self, place: int) -> list[int]:
        """The numbers of an input that is a list of them. Raises ValueError if they were not recorded."""
        return (
            [int(word) for word in re.findall(r"-?\d+", self.values[place])]
            if self.values[place]
            else _raise_not_recorded()
        )

    def flag_at(self, place: int) -> bool:
        """The value of a flag. Raises ValueError if it was not recorded."""
        if self.values[place] not in ("True", "False"):
            _raise_not_recorded()
        return self.values[place] == "True"


def _raise_not_recorded() -> NoReturn:
    raise ValueError("not recorded")


def _element_size(dtype: str) -> int:
    """Bytes of an element. Raises ValueError for an unknown type."""
    return element_size(dtype) or _raise_not_recorded()


@cache
def operator_cost(name: str, dims: str, types: str, concrete: str) -> OperatorCost | None:
    """The cost of a call; None for an unknown operator, or if too little was recorded.

    `dims`, `types` and `concrete` are JSON as in the trace, empty if it has none.
    """
    model = _COST_MODELS.get(name)
    inputs = _parse_inputs(dims, types, concrete) if model is not None else None
    if model is None or inputs is None:
        return None
    try:
        found = model(inputs)
    except (ValueError, IndexError):
        return None
    return found if 0 <= found.flops < 1 << 62 and 0 <= found.bytes < 1 << 62 else None


def _parse_inputs(dims: str, types: str, concrete: str) -> OperatorInputs | None:
    try:
        shapes, spelled, values = (orjson.loads(text) if text else [] for text in (dims, types, concrete))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(shapes, list) or not isinstance(spelled, list) or not isinstance(values, list) or not shapes:
        return None
    count = len(shapes)
    return OperatorInputs(
        tuple(_parse_shape(shape) for shape in shapes),
        tuple(map(str, [*spelled, *[""] * count][:count])),
        tuple(map(str, [*values, *[""] * count][:count])),
    )


def _parse_shape(said: object) -> Shape:
    numbers = said if isinstance(said, list) else []
    return tuple(numbers) if all(isinstance(size, int) and 0 <= size < 1 << 48 for size in numbers) else ()


def _matmul_cost(
    inputs: OperatorInputs, place: int, sizes: tuple[int, int, int, int], *added: int, result: str = ""
) -> OperatorCost:
    """Cost of a product of the input at `place` and the next; `sizes` are batch, rows, summed dimension, and columns.

    `added` are the indices of inputs added to it; the result has the type of the first input, unless it has its own.
    """
    batch, rows, inner, columns = sizes
    dtype = inputs.types[place]
    elements = batch * rows * columns
    moved = inputs.size(place, place + 1, *added) + elements * _element_size(result or dtype)
    return OperatorCost(2 * elements * inner + elements * len(added), moved, dtype)


def _mm_cost(inputs: OperatorInputs) -> OperatorCost:
    (rows, inner), (_, columns) = inputs.shapes[:2]
    return _matmul_cost(inputs, 0, (1, rows, inner, columns))


def _int_mm_cost(inputs: OperatorInputs) -> OperatorCost:
    (rows, inner), (_, columns) = inputs.shapes[:2]
    return _matmul_cost(inputs, 0, (1, rows, inner, columns), result="int")


def _scaled_mm_cost(inputs: OperatorInputs) -> OperatorCost:
    """A product of narrow numbers with scales: up to PyTorch 2.4 the scales were the last arguments."""
    (rows, inner), (_, columns) = inputs.shapes[:2]
    scales, bias, asked = ((2, 3), 4, 6) if element_size(inputs.types[3]) else ((4, 5), 2, 3)
    packed = 2 if inputs.types[0].endswith("_x2") else 1
    sizes = (1, rows, inner * packed, columns)
    result = inputs.type_at(asked, inputs.types[0])
    found = _matmul_cost(inputs, 0, sizes, *([bias] if inputs.has_tensor(bias) else []), result=result)
    return found._replace(bytes=found.bytes + inputs.size(*filter(inputs.has_tensor, scales)))


def _addmm_cost(inputs: OperatorInputs) -> OperatorCost:
    (rows, inner), (_, columns) = inputs.shapes[1:3]
    return _matmul_cost(inputs, 1, (1, rows, inner, columns), 0)


def _bmm_cost(inputs: OperatorInputs) -> OperatorCost:
    (batch, rows, inner), (_, _, columns) = inputs.shapes[:2]
    return _matmul_cost(inputs, 0, (batch, rows, inner, columns))


def _baddbmm_cost(inputs: OperatorInputs) -> OperatorCost:
    (batch, rows, inner), (_, _, columns) = inputs.shapes[1:3]
    return _matmul_cost(inputs, 1, (batch, rows, inner, columns), 0)


def _linear_cost(inputs: OperatorInputs) -> OperatorCost:
    *batch, inner = inputs.shapes[0]
    columns, _ = inputs.shapes[1]
    return _matmul_cost(inputs, 0, (1, prod(batch), inner, columns), *([2] if inputs.has_tensor(2) else []))


class _ConvolutionArguments(NamedTuple):
    """Indices of a convolution's arguments; missing ones are -1.

    The output padding and the number of groups of a transposed one are the two after its flag.
    """

    bias: int
    stride: int
    padding: int
    dilation: int
    transposed: int = -1


def _convolution_model(places: _ConvolutionArguments) -> Callable[[OperatorInputs], OperatorCost]:
    def model(inputs: OperatorInputs) -> OperatorCost:
        image, kernel = inputs.shapes[:2]
        swept = len(image) - 2
        if swept < 1 or len(kernel) != len(image):
            _raise_not_recorded()
        how = [_per_dimension(inputs.list_at(place), swept) for place in places[1:4]]
        if places.transposed >= 0 and inputs.flag_at(places.transposed):
            operations = 2 * prod(image) * prod(kernel[1:])  # each input element is multiplied with the whole weight
            out = _transposed_convolution_size(
                image[2:], kernel[2:], how, _per_dimension(inputs.list_at(places.transposed + 1), swept)
            )
            features = kernel[1] * inputs.list_at(places.transposed + 2)[0]
        else:
            out = _convolution_size(image[2:], kernel[2:], how)
            features = kernel[0]
            operations = 2 * image[0] * features * prod(out) * prod(kernel[1:])
        result = image[0] * features * prod(out)
        added = [places.bias] if inputs.has_tensor(places.bias) else []
        moved = inputs.size(0, 1, *added) + result * _element_size(inputs.types[0])
        return OperatorCost(operations + result * len(added), moved, inputs.types[0])

    return model


def _per_dimension(said: Sequence[int], count: int) -> list[int]:
    """One number for all dimensions, or one for each."""
    return list(said) * count if len(said) == 1 else list(said) if len(said) == count else _raise_not_recorded()


def _convolution_size(image: Shape, kernel: Shape, how: Sequence[Sequence[int]]) -> list[int]:
    sizes = zip(image, kernel, *how, strict=True)
    return [max((size + 2 * pad - gap * (taps - 1) - 1) // max(step, 1) + 1, 0) for size, taps, step, pad, gap in sizes]


def _transposed_convolution_size(
    image: Shape, kernel: Shape, how: Sequence[Sequence[int]], more: Sequence[int]
) -> list[int]:
    sizes = zip(image, kernel, *how, more, strict=True)
    return [
        max((size - 1) * step - 2 * pad + gap * (taps - 1) + 1 + end, 0) for size, taps, step, pad, gap, end in sizes
    ]


def _convolution_backward_model(
    gradient: int, image: int, mask: int, transposed: int = -1
) -> Callable[[OperatorInputs], OperatorCost]:
    """The gradients of input, weight and bias that are computed; the first two if that was not recorded.

    That of the input needs the weight, that of the weight the input, and that of the bias is a sum of the output
    gradient.
    """

    def model(inputs: OperatorInputs) -> OperatorCost:
        kernel, given = inputs.shapes[2], inputs.shapes[gradient]
        said = re.findall("True|False", inputs.values[mask]) if mask < len(inputs.values) else []
        asked = [each == "True" for each in said] or [True, True]
        of_image, of_kernel, of_bias = [*asked, False, False, False][:3]
        swept = image if transposed >= 0 and inputs.flag_at(transposed) else gradient
        one = 2 * prod(inputs.shapes[swept]) * prod(kernel[1:])
        moved = inputs.size(gradient, *[2, image] * of_image, *[image, 2] * of_kernel)  # read, and written
        moved += of_bias * given[1] * _element_size(inputs.types[gradient])
        return OperatorCost(one * (of_image + of_kernel) + prod(given) * of_bias, moved, inputs.types[gradient])

    return model


def _attention_model(
    causal: int, layout: str, *, products: float = 1.0, first: int = 0
) -> Callable[[OperatorInputs], OperatorCost]:
    """Attention of queries, keys and values at `first` and after.

    `products` is how often the two products are computed. `layout` is the order of batch, head and position in the
    shapes; `causal` is the index of the flag.
    """
    head, position = layout.index("h"), layout.index("n")

    def model(inputs: OperatorInputs) -> OperatorCost:
        query, key, value = inputs.shapes[first : first + 3]
        if not len(query) == len(key) == len(value) == 4:
            _raise_not_recorded()
        pairs = query[0] * query[head] * query[position] * key[position]
        operations = 2 * pairs * (query[3] + value[3])
        if inputs.flag_at(causal):
            operations //= 2
        result = prod(query[:3]) * value[3] * _element_size(inputs.types[first])
        once = inputs.size(first, first + 1, first + 2) + result
        moved = once if products == 1 else 2 * once
        return OperatorCost(round(operations * products), moved, inputs.types[first])

    return model


ATTENTION_BACKWARD_FACTOR: Final = 2.5
"""Products of the backward pass of attention per forward product: it recomputes the scores (five for two)."""

_COST_MODELS: Final[Mapping[str, Callable[[OperatorInputs], OperatorCost]]] = MappingProxyType(
    {
        "aten::mm": _mm_cost,
        "aten::_scaled_mm": _scaled_mm_cost,
        "aten::_int_mm": _int_mm_cost,
        "aten::addmm": _addmm_cost,
        "aten::_addmm_activation": _addmm_cost,
        "aten::bmm": _bmm_cost,
        "aten::baddbmm": _baddbmm_cost,
        "aten::linear": _linear_cost,
        "aten::convolution": _convolution_model(_ConvolutionArguments(2, 3, 4, 5, 6)),
        "aten::_convolution": _convolution_model(_ConvolutionArguments(2, 3, 4, 5, 6)),
        "aten::convolution_overrideable": _convolution_model(_ConvolutionArguments(2, 3, 4, 5, 6)),
        "aten::cudnn_convolution": _convolution_model(_ConvolutionArguments(-1, 3, 2, 4)),
        "aten::miopen_convolution": _convolution_model(_ConvolutionArguments(2, 4, 3, 5)),
        "aten::mkldnn_convolution": _convolution_model(_ConvolutionArguments(2, 4, 3, 5)),
        "aten::convolution_backward": _convolution_backward_model(0, 1, 10, 7),
        "aten::cudnn_convolution_backward": _convolution_backward_model(1, 0, 10),
        "aten::_scaled_dot_product_flash_attention": _attention_model(4, "bhn"),
        "aten::_scaled_dot_product_efficient_attention": _attention_model(6, "bhn"),
        "aten::_scaled_dot_product_cudnn_attention": _attention_model(6, "bhn"),
        "aten::_scaled_dot_product_flash_attention_backward": _attention_model(
            11, "bhn", products=ATTENTION_BACKWARD_FACTOR, first=1
        ),
        "aten::_scaled_dot_product_efficient_attention_backward": _attention_model(
            11, "bhn", products=ATTENTION_BACKWARD_FACTOR, first=1
        ),
        "aten::_scaled_dot_product_cudnn_attention_backward": _attention_model(
            14, "bhn", products=ATTENTION_BACKWARD_FACTOR, first=1
        ),
        "aten::_scaled_dot_product_flash_attention_for_cpu": _attention_model(4, "bhn"),
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_model(
            7, "bhn", products=ATTENTION_BACKWARD_FACTOR, first=1
        ),
        "aten::_flash_attention_forward": _attention_model(8, "bnh"),
        "aten::_flash_attention_backward": _attention_model(11, "bnh", products=ATTENTION_BACKWARD_FACTOR, first=1),
        "vllm::rocm_unquantized_gemm": _linear_cost,
    }
)
"""Known operators, and functions for their costs."""

KNOWN_OPERATORS: Final = tuple(_COST_MODELS)
