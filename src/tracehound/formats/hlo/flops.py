"""How many floating point operations an HLO instruction takes, by the shapes of what it reads and writes.

Owns the rules, which are those of XLA's HloCostAnalysis for what XLA itself computes: a multiplication and an addition
are two, an elementwise operation one for each element, a transcendental function none. What a library does behind a
custom call XLA cannot know; for products of matrices, convolutions and attention the shapes tell. Pure functions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tracehound.formats.hlo.instructions import ELEMENTWISE
from tracehound.formats.hlo.line import Array

_TRANSCENDENTAL = frozenset({
    "atan2", "cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic",
    "power", "rsqrt", "sine", "sqrt", "tan", "tanh",
})  # fmt: skip
_ARITHMETIC = (ELEMENTWISE - _TRANSCENDENTAL) | {"map"}

_GEMM = re.compile(r"gemm|matmul|cublas|hipblas", re.IGNORECASE)
_CONVOLUTION = re.compile(r"__cudnn\$conv(?!BiasActivationForwardGraph)(\w*)", re.IGNORECASE)
_ATTENTION = re.compile(r"fmha|mha_|_mha|attn|attention", re.IGNORECASE)
_PASS = re.compile(r"fwd|forward|bwd|backward|dkv|_dq(?=_|\b)", re.IGNORECASE)
_TIMES = {"bwd": (5, 2), "backward": (5, 2), "dkv": (2, 1), "_dq": (3, 2)}
"""The passes of attention by the first word that names one, and how many times the forward one each takes."""

_MOST_POSITIONS = 1 << 22
"""Positions of a window are counted one by one up to so many."""


class Side(NamedTuple):
    """One spatial dimension of a convolution's window, as HLO states it."""

    size: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    base_dilation: int = 1


class Convolution(NamedTuple):
    """Which dimensions of input, kernel and output are what; the spatial ones are in the order of the window."""

    input_batch: int
    input_feature: int
    input_spatial: Sequence[int]
    kernel_output: int
    output_spatial: Sequence[int]
    window: Sequence[Side]
    groups: int = 1
    batch_groups: int = 1


def elementwise(opcode: str, result: Array) -> int:
    """Operations of an instruction that makes each element of its result from those of its operands; others: 0."""
    return result.elements if opcode in _ARITHMETIC else 0


def reduction(opcode: str, operand: Array, result: Array) -> int:
    """Operations of a reduction: each element but the first of a result takes one, between devices each element."""
    return result.elements if opcode == "all-reduce" else max(0, operand.elements - result.elements)


def product(left: Array, result: Array, contracting: Sequence[int]) -> int:
    """Operations of a matrix product: two for each element of the result and of the contracted dimensions."""
    return 2 * result.elements * math.prod(left.dims[at] for at in contracting if 0 <= at < len(left.dims))


def convolution(how: Convolution, source: Array, kernel: Array, result: Array) -> int:
    """Operations of a convolution, without those with what only pads its input. 0 where the dimensions do not fit."""
    try:
        features = source.dims[how.input_feature] // max(1, how.groups)
        batch = source.dims[how.input_batch] // max(1, how.batch_groups)
        made = kernel.dims[how.kernel_output]
        valid = math.prod(
            _valid(side, source.dims[at], result.dims[to])
            for side, at, to in zip(how.window, how.input_spatial, how.output_spatial, strict=True)
        )
    except (IndexError, ValueError):
        return 0
    return 2 * features * made * batch * valid


def _valid(side: Side, base: int, out: int) -> int:
    """How many pairs of a place in the output and one in the window meet an element of the input."""
    if max(side.size, 1) * max(out, 1) > _MOST_POSITIONS:
        return side.size * out
    at = np.arange(out)[:, None] * side.stride - side.padding + np.arange(side.size)[None, :] * side.dilation
    spread = max(1, side.base_dilation)
    return int(((at >= 0) & (at % spread == 0) & (at < base * spread)).sum())


def custom_call(
    names: str, results: Sequence[Array], operands: Sequence[Array], how: Convolution | None = None
) -> int | None:
    """Operations behind a custom call, as far as shapes tell them; None where they do not.

    `names` are its target, and what else it is called. A product of matrices takes two for each of m*n*k, attention
    four for each query, key and channel of a head (no mask is known: of a causal one it takes half), its backward pass
    two and a half times as many, a half of it (keys and values, or queries) two or one and a half.
    """
    real = [one for one in operands if len(one.dims) > 1]
    if not results or len(real) < 2:
        return None
    if convolving := _CONVOLUTION.search(names):
        return _library_convolution(convolving[1], results[0], real, how)
    if _ATTENTION.search(names):
        return _attention(names, operands)
    return _gemm(real[0], real[1], results[0]) if _GEMM.search(names) else None


def _library_convolution(which: str, result: Array, operands: Sequence[Array], how: Convolution | None) -> int | None:
    """The same count for all three, which only swap what is given and what is made."""
    if how is None:
        return None
    first, second = operands[:2]
    roles = {
        "backwardinput": (result, second, first),
        "backwardfilter": (first, result, second),
    }
    source, kernel, made = roles.get(which.lower(), (first, second, result))
    return convolution(how, source, kernel, made) or None


def _gemm(left: Array, right: Array, result: Array) -> int | None:
    """2 m n k, whatever is transposed: the three sizes multiply to (m n k)^2, and to that for each of a batch."""
    batch = 1
    if min(map(len, (left.dims, right.dims, result.dims))) > 2:
        for one, two, three in zip(left.dims[:-2], right.dims[:-2], result.dims[:-2], strict=False):
            if not one == two == three:
                break
            batch *= one
    whole = left.elements * right.elements * result.elements
    root = math.isqrt(whole // batch) if batch else 0
    return 2 * root if root and root * root * batch == whole else None


def _attention(names: str, operands: Sequence[Array]) -> int | None:
    """By the first two operands that are queries and keys: of one type, and of one size per head and channel."""
    heads = [one for one in operands if len(one.dims) > 2 and one.element.startswith(("bf16", "f16", "f8", "f32"))]
    if len(heads) < 2 or heads[0].dims[-1] != heads[1].dims[-1]:
        return None
    queries, keys = heads[:2]
    length = max(keys.dims[-3:-1])
    named = _PASS.search(names)
    times, of = _TIMES.get(named[0].lower(), (1, 1)) if named else (1, 1)
    return 4 * queries.elements * length * times // of
