"""What one call of an operator has to compute and to move, told by the shapes of its inputs.

Owns the operators that are known (products, convolutions, attention) and their arithmetic. A multiplication and an
addition are two operations; bytes are those of the inputs that what is asked for needs, and of the results, each once,
as if nothing were read twice. Knows no events and no devices.
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

from tracehound.formats.torch_names import SCALAR_TYPES, type_size

Shape = tuple[int, ...]


class Cost(NamedTuple):
    """Operations and bytes of one call; `dtype` is what is multiplied, as PyTorch spells it (``c10::BFloat16``)."""

    flops: int
    bytes: int
    dtype: str


class Inputs(Struct, frozen=True):
    """What an operator was called with: of each input its shape, its type, and its value where that is no tensor."""

    shapes: tuple[Shape, ...]
    types: tuple[str, ...]
    values: tuple[str, ...]

    def size(self, *places: int) -> int:
        """Bytes of these inputs, of one that was not given none. Raises ValueError where the type is not known."""
        return sum(prod(self.shapes[place]) * _width(self.types[place]) for place in places if self.shapes[place])

    def has(self, place: int) -> bool:
        """Whether there is a tensor at this place."""
        return 0 <= place < len(self.shapes) and bool(self.shapes[place])

    def type_at(self, place: int, otherwise: str) -> str:
        """The type that an input asks for, by its number; `otherwise` where it asks for none.

        Raises ValueError where no values were recorded.
        """
        if not any(self.values):
            _unknown()
        said = self.values[place] if place < len(self.values) else ""
        return SCALAR_TYPES[int(said)] if said else otherwise

    def list_at(self, place: int) -> list[int]:
        """The numbers of an input that is a list of them. Raises ValueError where they were not recorded."""
        return [int(word) for word in re.findall(r"-?\d+", self.values[place])] if self.values[place] else _unknown()

    def true_at(self, place: int) -> bool:
        """Whether a flag is set. Raises ValueError where it was not recorded."""
        if self.values[place] not in ("True", "False"):
            _unknown()
        return self.values[place] == "True"


def _unknown() -> NoReturn:
    raise ValueError("not recorded")


def _width(dtype: str) -> int:
    """Bytes of an element. Raises ValueError for a type that is not known."""
    return type_size(dtype) or _unknown()


@cache
def cost(name: str, dims: str, types: str, concrete: str) -> Cost | None:
    """What a call costs; None for an operator that is not known, or of which too little was recorded.

    `dims`, `types` and `concrete` are JSON as in the trace, empty where that has none.
    """
    model = _MODELS.get(name)
    inputs = _inputs(dims, types, concrete) if model is not None else None
    if model is None or inputs is None:
        return None
    try:
        found = model(inputs)
    except (ValueError, IndexError):
        return None
    return found if 0 <= found.flops < 1 << 62 and 0 <= found.bytes < 1 << 62 else None


def _inputs(dims: str, types: str, concrete: str) -> Inputs | None:
    try:
        shapes, spelled, values = (orjson.loads(text) if text else [] for text in (dims, types, concrete))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(shapes, list) or not isinstance(spelled, list) or not isinstance(values, list) or not shapes:
        return None
    count = len(shapes)
    return Inputs(
        tuple(_shape(shape) for shape in shapes),
        tuple(map(str, [*spelled, *[""] * count][:count])),
        tuple(map(str, [*values, *[""] * count][:count])),
    )


def _shape(said: object) -> Shape:
    numbers = said if isinstance(said, list) else []
    return tuple(numbers) if all(isinstance(size, int) and 0 <= size < 1 << 48 for size in numbers) else ()


def _product(inputs: Inputs, place: int, sizes: tuple[int, int, int, int], *added: int, result: str = "") -> Cost:
    """A product of the input at `place` and the next: `sizes` are batch, rows, what is summed over, and columns.

    `added` are the places of what is added to it; the result has the type of the first, where it has none of its own.
    """
    batch, rows, inner, columns = sizes
    dtype = inputs.types[place]
    elements = batch * rows * columns
    moved = inputs.size(place, place + 1, *added) + elements * _width(result or dtype)
    return Cost(2 * elements * inner + elements * len(added), moved, dtype)


def _mm(inputs: Inputs) -> Cost:
    (rows, inner), (_, columns) = inputs.shapes[:2]
    return _product(inputs, 0, (1, rows, inner, columns))


def _int_mm(inputs: Inputs) -> Cost:
    (rows, inner), (_, columns) = inputs.shapes[:2]
    return _product(inputs, 0, (1, rows, inner, columns), result="int")


def _scaled_mm(inputs: Inputs) -> Cost:
    """A product of narrow numbers with scales: up to PyTorch 2.4 these were the last arguments."""
    (rows, inner), (_, columns) = inputs.shapes[:2]
    scales, bias, asked = ((2, 3), 4, 6) if type_size(inputs.types[3]) else ((4, 5), 2, 3)
    packed = 2 if inputs.types[0].endswith("_x2") else 1
    sizes = (1, rows, inner * packed, columns)
    result = inputs.type_at(asked, inputs.types[0])
    found = _product(inputs, 0, sizes, *([bias] if inputs.has(bias) else []), result=result)
    return found._replace(bytes=found.bytes + inputs.size(*filter(inputs.has, scales)))


def _addmm(inputs: Inputs) -> Cost:
    (rows, inner), (_, columns) = inputs.shapes[1:3]
    return _product(inputs, 1, (1, rows, inner, columns), 0)


def _bmm(inputs: Inputs) -> Cost:
    (batch, rows, inner), (_, _, columns) = inputs.shapes[:2]
    return _product(inputs, 0, (batch, rows, inner, columns))


def _baddbmm(inputs: Inputs) -> Cost:
    (batch, rows, inner), (_, _, columns) = inputs.shapes[1:3]
    return _product(inputs, 1, (batch, rows, inner, columns), 0)


def _linear(inputs: Inputs) -> Cost:
    *batch, inner = inputs.shapes[0]
    columns, _ = inputs.shapes[1]
    return _product(inputs, 0, (1, prod(batch), inner, columns), *([2] if inputs.has(2) else []))


class _Places(NamedTuple):
    """Where a convolution has its arguments; those that it has not are -1.

    What a transposed one adds to the end of its result, and how many groups it has, are the two after the flag for it.
    """

    bias: int
    stride: int
    padding: int
    dilation: int
    transposed: int = -1


def _convolution(places: _Places) -> Callable[[Inputs], Cost]:
    def model(inputs: Inputs) -> Cost:
        image, kernel = inputs.shapes[:2]
        swept = len(image) - 2
        if swept < 1 or len(kernel) != len(image):
            _unknown()
        how = [_each(inputs.list_at(place), swept) for place in places[1:4]]
        if places.transposed >= 0 and inputs.true_at(places.transposed):
            operations = 2 * prod(image) * prod(kernel[1:])  # every element of the image meets the whole kernel
            out = _grown(image[2:], kernel[2:], how, _each(inputs.list_at(places.transposed + 1), swept))
            features = kernel[1] * inputs.list_at(places.transposed + 2)[0]
        else:
            out = _shrunk(image[2:], kernel[2:], how)
            features = kernel[0]
            operations = 2 * image[0] * features * prod(out) * prod(kernel[1:])
        result = image[0] * features * prod(out)
        added = [places.bias] if inputs.has(places.bias) else []
        moved = inputs.size(0, 1, *added) + result * _width(inputs.types[0])
        return Cost(operations + result * len(added), moved, inputs.types[0])

    return model


def _each(said: Sequence[int], count: int) -> list[int]:
    """One number for all dimensions, or one for each."""
    return list(said) * count if len(said) == 1 else list(said) if len(said) == count else _unknown()


def _shrunk(image: Shape, kernel: Shape, how: Sequence[Sequence[int]]) -> list[int]:
    sizes = zip(image, kernel, *how, strict=True)
    return [max((size + 2 * pad - gap * (taps - 1) - 1) // max(step, 1) + 1, 0) for size, taps, step, pad, gap in sizes]


def _grown(image: Shape, kernel: Shape, how: Sequence[Sequence[int]], more: Sequence[int]) -> list[int]:
    sizes = zip(image, kernel, *how, more, strict=True)
    return [
        max((size - 1) * step - 2 * pad + gap * (taps - 1) + 1 + end, 0) for size, taps, step, pad, gap, end in sizes
    ]


def _convolution_backward(gradient: int, image: int, mask: int, transposed: int = -1) -> Callable[[Inputs], Cost]:
    """The gradients of image, kernel and bias that are asked for; the first two where that was not recorded.

    That of the image needs the kernel, that of the kernel the image, and that of the bias is a sum of what all need.
    """

    def model(inputs: Inputs) -> Cost:
        kernel, given = inputs.shapes[2], inputs.shapes[gradient]
        said = re.findall("True|False", inputs.values[mask]) if mask < len(inputs.values) else []
        asked = [each == "True" for each in said] or [True, True]
        of_image, of_kernel, of_bias = [*asked, False, False, False][:3]
        swept = image if transposed >= 0 and inputs.true_at(transposed) else gradient
        one = 2 * prod(inputs.shapes[swept]) * prod(kernel[1:])
        moved = inputs.size(gradient, *[2, image] * of_image, *[image, 2] * of_kernel)  # what is read, and written
        moved += of_bias * given[1] * _width(inputs.types[gradient])
        return Cost(one * (of_image + of_kernel) + prod(given) * of_bias, moved, inputs.types[gradient])

    return model


def _attention(causal: int, layout: str, *, products: float = 1.0, first: int = 0) -> Callable[[Inputs], Cost]:
    """Attention of queries, keys and values at `first` and after; `products` is how often the two products are done.

    `layout` orders batch, head and position in the shapes; `causal` is the place of the flag.
    """
    head, position = layout.index("h"), layout.index("n")

    def model(inputs: Inputs) -> Cost:
        query, key, value = inputs.shapes[first : first + 3]
        if not len(query) == len(key) == len(value) == 4:
            _unknown()
        pairs = query[0] * query[head] * query[position] * key[position]
        operations = 2 * pairs * (query[3] + value[3])
        if inputs.true_at(causal):
            operations //= 2
        result = prod(query[:3]) * value[3] * _width(inputs.types[first])
        once = inputs.size(first, first + 1, first + 2) + result
        moved = once if products == 1 else 2 * once
        return Cost(round(operations * products), moved, inputs.types[first])

    return model


BACKWARD: Final = 2.5
"""Products of the backward pass of attention, for one of the forward: it computes the scores again (five for two)."""

_MODELS: Final[Mapping[str, Callable[[Inputs], Cost]]] = MappingProxyType(
    {
        "aten::mm": _mm,
        "aten::_scaled_mm": _scaled_mm,
        "aten::_int_mm": _int_mm,
        "aten::addmm": _addmm,
        "aten::_addmm_activation": _addmm,
        "aten::bmm": _bmm,
        "aten::baddbmm": _baddbmm,
        "aten::linear": _linear,
        "aten::convolution": _convolution(_Places(2, 3, 4, 5, 6)),
        "aten::_convolution": _convolution(_Places(2, 3, 4, 5, 6)),
        "aten::convolution_overrideable": _convolution(_Places(2, 3, 4, 5, 6)),
        "aten::cudnn_convolution": _convolution(_Places(-1, 3, 2, 4)),
        "aten::miopen_convolution": _convolution(_Places(2, 4, 3, 5)),
        "aten::mkldnn_convolution": _convolution(_Places(2, 4, 3, 5)),
        "aten::convolution_backward": _convolution_backward(0, 1, 10, 7),
        "aten::cudnn_convolution_backward": _convolution_backward(1, 0, 10),
        "aten::_scaled_dot_product_flash_attention": _attention(4, "bhn"),
        "aten::_scaled_dot_product_efficient_attention": _attention(6, "bhn"),
        "aten::_scaled_dot_product_cudnn_attention": _attention(6, "bhn"),
        "aten::_scaled_dot_product_flash_attention_backward": _attention(11, "bhn", products=BACKWARD, first=1),
        "aten::_scaled_dot_product_efficient_attention_backward": _attention(11, "bhn", products=BACKWARD, first=1),
        "aten::_scaled_dot_product_cudnn_attention_backward": _attention(14, "bhn", products=BACKWARD, first=1),
        "aten::_scaled_dot_product_flash_attention_for_cpu": _attention(4, "bhn"),
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention(7, "bhn", products=BACKWARD, first=1),
        "aten::_flash_attention_forward": _attention(8, "bnh"),
        "aten::_flash_attention_backward": _attention(11, "bnh", products=BACKWARD, first=1),
        "vllm::rocm_unquantized_gemm": _linear,
    }
)
"""The operators that are known, and how their cost follows from their inputs."""

KNOWN: Final = tuple(_MODELS)
